// The search through a small world, and the verdict. See explore.h.
//
//   explore [--quick | --all]     the worlds of small and medium size; the small ones, in
//                                 seconds; the large ones too, in minutes
//   explore --until-failure       the small ones first, and no further than the first failure
//   explore --world N             one world
//   explore --world N --path P    one history, with what happens in it
//
// States are found in order of the number of events that lead to them, so a failure prints the
// shortest path. A state is reached by replaying its events from the start: the core's lists and
// heaps can't be copied. So each history also tests allocations and releases under the address
// sanitizer.
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "explore.h"
#include "seen.h"

#define PRINTED_MAX 10u

// From the address sanitizer, whose header may be missing.
size_t __sanitizer_get_current_allocated_bytes(void);

struct node {
  uint64_t hash;
  uint32_t parent;
  uint32_t next; // index in `list` of the first event that may come here
  uint16_t next_count;
  uint16_t depth;
  struct ex_event event; // that led here from the parent
};

struct search {
  uint32_t world;
  struct node *nodes;
  uint32_t count, room;
  struct ex_event *list; // events of all nodes
  uint32_t list_count, list_room;
  struct seen seen;  // their hashes
  uint64_t steps;    // events tried
  uint32_t verdicts; // states in which nothing happened by itself
  uint32_t deepest;
  int failed;
};

static uint64_t sights[EX_SIGHT_COUNT];
static struct ex ex;
static struct ex_event path[EX_PATH_MAX];
static uint32_t path_len;
static jmp_buf after_assert;
static unsigned printed;
static uint32_t world_at_work;

void ex_saw(enum ex_sight sight) { sights[sight]++; }

const char *ex_event_name(enum ex_what what) {
  static const char *const names[] = {[EX_ASK] = "ask",
                                      [EX_READY] = "ready",
                                      [EX_ANSWER] = "answer",
                                      [EX_READ] = "read",
                                      [EX_EXITED] = "exited",
                                      [EX_CLOSED] = "closed",
                                      [EX_LEAVE] = "leave",
                                      [EX_TRIM] = "trim",
                                      [EX_MEND] = "mend",
                                      [EX_WAIT] = "wait",
                                      [EX_HEAR] = "hear",
                                      [EX_WITHDRAWN] = "withdrawn",
                                      [EX_KILL] = "kill",
                                      [EX_CANCEL] = "cancel",
                                      [EX_FORGET] = "forget",
                                      [EX_NO_LAUNCH] = "no_launch",
                                      [EX_BAD_LAUNCH] = "bad_launch",
                                      [EX_OVERDUE] = "overdue",
                                      [EX_ERROR] = "error",
                                      [EX_END] = "end",
                                      [EX_RETIRE] = "retire",
                                      [EX_DRAIN] = "drain",
                                      [EX_STOP] = "stop",
                                      [EX_NO_MEMORY] = "no_memory",
                                      [EX_STANDBY] = "standby",
                                      [EX_QUEUE] = "queue",
                                      [EX_MOVE] = "move",
                                      [EX_COME] = "come",
                                      [EX_HOST] = "host",
                                      [EX_NO_HOST] = "no_host"};
  return names[what];
}

// ---- failures

static void print_failure(const char *what) {
  if (printed++ >= PRINTED_MAX) return;
  (void)printf("sim: explore: world %" PRIu32 " failed: %s\n", world_at_work,
               what);
  (void)printf("sim: replay: make -C tests/sim replay-explore WORLD=%" PRIu32
               " WAY=",
               world_at_work);
  for (uint32_t i = 0; i < path_len; i++) {
    (void)printf("%s%s-%u-%u", i > 0 ? "," : "", ex_event_name(path[i].what),
                 path[i].at, path[i].more);
  }
  (void)printf("\n");
}

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void) {
  return "abort_on_error=1:quarantine_size_mb=1:malloc_context_size=2";
}
const char *__ubsan_default_options(void) {
  return "abort_on_error=1:print_stacktrace=1";
}

static void aborted(int signal) {
  (void)signal;
  printed = 0;
  print_failure("aborted, see the report above");
  (void)fflush(stdout);
}

static void assert_failed(const char *what, const char *file, int line) {
  ex_fail(&ex, "assertion failed: %s (%s:%d)", what, file, line);
  longjmp(after_assert, 1);
}

// ---- one history

static void play(uint32_t world, int logging) {
  ex_begin(&ex, &ex_plans[world], logging);
  if (logging) ex.checking = 1;
  for (uint32_t i = 0; i < path_len && !ex.failed; i++) {
    if (i + 1 == path_len) ex.checking = 1;
    ex_apply(&ex, path[i]);
  }
  ex.checking = 1;
}

// run plays the path to its end, calls `look`, and closes the world. 1 if all is well. After a
// failed assertion the core is left as it is.
static int run(uint32_t world, int logging, void (*look)(void *), void *owner) {
  const size_t before = __sanitizer_get_current_allocated_bytes();
  ex.failed = 0;
  if (setjmp(after_assert) == 0) {
    play(world, logging);
    if (!ex.failed && look != NULL) look(owner);
    ex_end(&ex);
  } else {
    return 0;
  }
  if (!ex.failed && !logging &&
      __sanitizer_get_current_allocated_bytes() != before) {
    ex_fail(&ex, "memory is still held");
  }
  return !ex.failed;
}

// ---- states

static void *grown(void *list, size_t count, size_t size) {
  void *more = realloc(list, count * size);
  if (more == NULL) {
    (void)fprintf(stderr, "sim: explore: no memory\n");
    exit(2);
  }
  return more;
}

struct sight_of_state {
  uint64_t hash;
  struct ex_event events[EX_EVENTS_MAX];
  uint32_t count;
};

// add_node adds the state at the end of the path.
static void add_node(struct search *search, uint32_t parent,
                     const struct sight_of_state *sight) {
  if (search->count == search->room) {
    search->room = search->room == 0 ? 1024 : 2 * search->room;
    search->nodes = grown(search->nodes, search->room, sizeof *search->nodes);
  }
  if (search->list_count + sight->count > search->list_room) {
    search->list_room = 2 * (search->list_room + EX_EVENTS_MAX);
    search->list = grown(search->list, search->list_room, sizeof *search->list);
  }
  struct node *node = &search->nodes[search->count++];
  *node = (struct node){.hash = sight->hash,
                        .parent = parent,
                        .next = search->list_count,
                        .next_count = (uint16_t)sight->count,
                        .depth = (uint16_t)path_len};
  if (path_len > 0) node->event = path[path_len - 1];
  memcpy(search->list + search->list_count, sight->events,
         sight->count * sizeof *sight->events);
  search->list_count += sight->count;
  if (path_len > search->deepest) search->deepest = path_len;
}

static void lay_path(const struct search *search, uint32_t at) {
  path_len = search->nodes[at].depth;
  for (uint32_t i = path_len; i > 0; i--) {
    path[i - 1] = search->nodes[at].event;
    at = search->nodes[at].parent;
  }
}

// ---- the search

static void look_at_state(void *owner) {
  struct sight_of_state *sight = owner;
  sight->hash = ex_hash(&ex);
  if (sight->hash == 0) sight->hash = 1;
  sight->count = ex_events(&ex, sight->events);
}

static void look_at_end(void *owner) {
  (void)owner;
  ex_verdict(&ex);
}

static int failed(struct search *search) {
  print_failure(ex.failure);
  search->failed = 1;
  return 0;
}

static int judge(struct search *search, uint32_t at) {
  lay_path(search, at);
  search->verdicts++;
  return run(search->world, 0, look_at_end, NULL) ? 1 : failed(search);
}

// expand tries all events that may come in a state. If none happens by itself, or none of these
// changes anything, the state gets a verdict.
static int expand(struct search *search, uint32_t at) {
  const struct node here = search->nodes[at];
  struct sight_of_state there;
  int goes_on = 0;
  lay_path(search, at);
  if (here.depth + 1 == EX_PATH_MAX) {
    ex_fail(&ex, "events without end");
    return failed(search);
  }
  for (uint32_t i = 0; i < here.next_count; i++) {
    const struct ex_event event = search->list[here.next + i];
    path[here.depth] = event;
    path_len = here.depth + 1u;
    search->steps++;
    if (!run(search->world, 0, look_at_state, &there)) return failed(search);
    if (event.what < EX_MISHAPS && there.hash != here.hash) goes_on = 1;
    if (seen_add(&search->seen, there.hash)) add_node(search, at, &there);
  }
  return goes_on || judge(search, at);
}

static void explore(struct search *search) {
  struct sight_of_state start;
  world_at_work = search->world;
  path_len = 0;
  if (run(search->world, 0, look_at_state, &start)) {
    (void)seen_add(&search->seen, start.hash);
    add_node(search, 0, &start);
  } else {
    (void)failed(search);
  }
  for (uint32_t at = 0; at < search->count && !search->failed; at++)
    (void)expand(search, at);
  const struct ex_plan *plan = &ex_plans[search->world];
  (void)printf("sim: explore: world %2" PRIu32 " %-11s %s%s%s%s%s%s: %" PRIu32
               " states, %" PRIu64 " steps, %" PRIu32 " ends, %" PRIu32
               " deep\n",
               search->world, plan->asks, plan->limits,
               plan->no_healing ? ", no healing" : "",
               plan->held ? ", held" : "", plan->tired ? ", tired" : "",
               plan->oom ? ", oom" : "", plan->short_of ? ", short" : "",
               search->count, search->steps, search->verdicts, search->deepest);
  (void)fflush(stdout);
}

// ---- the verdict

static unsigned print_sights(void) {
  static const char *const names[] = {
#define SIGHT_TEXT(name) #name,
      EX_SIGHTS(SIGHT_TEXT)};
  unsigned unseen = 0;
  (void)printf("sim: explore: seen");
  for (unsigned k = 0; k < EX_SIGHT_COUNT; k++) {
    (void)printf(" %s=%" PRIu64, names[k], sights[k]);
    unseen += sights[k] == 0;
  }
  (void)printf("\n");
  if (unseen == 0) return 0;
  (void)printf("sim: explore: %u of the above never happened\n", unseen);
  return unseen;
}

static uint32_t worlds, failures;
static uint64_t states, steps;

static void explore_world(uint32_t world) {
  struct search search = {.world = world};
  explore(&search);
  worlds++;
  states += search.count;
  steps += search.steps;
  failures += search.failed != 0;
  free(search.nodes);
  free(search.list);
  free(search.seen.table);
}

static int explore_until_failure(void) {
  for (enum ex_size size = EX_SMALL; size <= EX_MEDIUM; size++) {
    for (uint32_t world = 0; world < ex_plan_count && failures == 0; world++) {
      if (ex_plans[world].size == size) explore_world(world);
    }
  }
  return failures > 0;
}

static int explore_all(uint32_t first, uint32_t end, enum ex_size size) {
  for (uint32_t world = first; world < end; world++) {
    if (ex_plans[world].size <= size) explore_world(world);
  }
  const int all = size > EX_SMALL && end - first > 1 && failures == 0;
  const unsigned unseen = all ? print_sights() : 0;
  (void)printf("sim: explore: %" PRIu32 " worlds, %" PRIu64 " states, %" PRIu64
               " steps\n",
               worlds, states, steps);
  const uint32_t checks = worlds + (unseen > 0);
  failures += unseen > 0;
  (void)printf("sim: explore: %" PRIu32 " passed, %" PRIu32
               " failed, 0 skipped\n",
               checks - failures, failures);
  return failures > 0;
}

static int read_event(const char *text, struct ex_event *event) {
  char name[20];
  unsigned at, more;
  if (sscanf(text, "%19[a-z_]-%u-%u", name, &at, &more) != 3) return 0;
  for (unsigned what = EX_ASK; what < EX_WHATS; what++) {
    if (strcmp(name, ex_event_name((enum ex_what)what)) != 0) continue;
    *event = (struct ex_event){(uint8_t)what, (uint8_t)at, (uint8_t)more};
    return 1;
  }
  return 0;
}

// show plays one history, prints it and, if it may end there, judges it.
static int show(uint32_t world, const char *text) {
  world_at_work = world;
  for (path_len = 0; text != NULL && path_len < EX_PATH_MAX;) {
    if (!read_event(text, &path[path_len])) break;
    path_len++;
    text = strchr(text, ',');
    if (text != NULL) text++;
  }
  struct sight_of_state here;
  int ok = run(world, 1, look_at_state, &here);
  for (uint32_t i = 0; ok && i < here.count; i++) {
    (void)printf("next: %s-%u-%u\n", ex_event_name(here.events[i].what),
                 here.events[i].at, here.events[i].more);
  }
  if (ok && ex_is_quiet(here.events, here.count)) {
    ok = run(world, 1, look_at_end, NULL);
  }
  if (!ok) print_failure(ex.failure);
  return !ok;
}

int main(int argc, char **argv) {
  uint32_t first = 0;
  uint32_t end = ex_plan_count;
  enum ex_size size = EX_MEDIUM;
  const char *way = NULL;
  int until_failure = 0;
  for (int k = 1; k < argc; k++) {
    if (k + 1 < argc && strcmp(argv[k], "--world") == 0) {
      first = (uint32_t)strtoul(argv[++k], NULL, 10);
      end = first + 1;
      size = EX_LARGE;
    } else if (strcmp(argv[k], "--all") == 0) {
      size = EX_LARGE;
    } else if (k + 1 < argc && strcmp(argv[k], "--path") == 0) {
      way = argv[++k];
    } else if (strcmp(argv[k], "--until-failure") == 0) {
      until_failure = 1;
    } else if (strcmp(argv[k], "--quick") == 0) {
      size = EX_SMALL;
    } else {
      end = 0;
    }
  }
  if (first >= end || end > ex_plan_count) {
    (void)fprintf(stderr, "sim: explore: can't read the arguments\n");
    return 2;
  }
  const struct sigaction once = {.sa_handler = aborted,
                                 .sa_flags = (int)SA_RESETHAND};
  (void)sigaction(SIGABRT, &once, NULL);
  mst_thread_mark_r();
  mst_assert_on_failure(assert_failed);
  if (until_failure) return explore_until_failure();
  return way != NULL ? show(first, way) : explore_all(first, end, size);
}
