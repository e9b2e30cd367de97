// The search through small worlds of sites: all orders of what may happen to two sites, up to a
// number of mishaps. See site.h.
//
// A site is plain memory, so a state is kept as it is; times are hashed by their distance from now.
// Time moves only to when something is due, or far beyond that. The book judges each step, and from
// each state all must come to rest if nothing more goes wrong.
#include "seen.h"
#include "site.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S MST_NS_PER_S
#define PLACES 2u
#define EVENTS_MAX 64u
#define CALM_STEPS_MAX 200u
#define WAY_MAX 200u
// More mean that a time is hashed which has no bound.
#define STATES_MAX 3000000u

// Those from MISHAPS on are counted.
enum what {
  NEXT, // the session takes the next thing to do
  DONE, // and has done it; `how` says with which result
  LINKS,
  BOOTS,
  NEEDS,
  WAKES,
  LATER, // to when something is due
  MISHAPS,
  FAILS = MISHAPS, // what is being done fails; `how` 1: lastingly
  UNDOES,          // the user interrupts it
  ENDS,
  BREAKS, // a fork server ends while it boots
  SERVERLESS,
  TOLD,
  SHORT, // little time is left
  SLEEPS,
  RETRIES,
  MUCH_LATER
};

static const char *const names[] = {
    "next",  "done",  "links",  "boots",   "needs",     "wakes",
    "later", "fails", "undoes", "ends",    "breaks",    "serverless",
    "told",  "short", "sleeps", "retries", "much_later"};

struct event {
  uint8_t what, at, how;
};

enum command { NO_COMMAND, RUNS, HOST };
enum server { NO_SERVER, BOOTING, READY, BROKEN };

struct place {
  struct mst_site site;
  struct site_book book;
  uint8_t command, server;
};

struct state {
  struct place places[PLACES];
  int64_t now_ns;
  uint8_t is_doing, doing, doing_at; // what the session does, and where
  uint8_t mishaps;                   // so many more may happen
};

struct node {
  struct state state;
  uint32_t parent;
  struct event event; // that led here from the parent
};

struct world {
  const char *name;
  unsigned count, mishaps;
  struct mst_site_terms terms[PLACES];
  enum mst_site_is is[PLACES];
};

// One pause of a second and one of two; four looks at a queue. Less where both sites' times count.
#define TIMES .start_ns = 3 * S, .queue_ns = 3 * S
static const struct world worlds[] = {
    {"host",
     1,
     7,
     {{.far = 1, .heals = 1, .limited = 1, .scales = 1, TIMES}},
     {MST_SITE_PAUSED}},
    {"queue",
     1,
     4,
     {{.far = 1, .heals = 1, .queued = 1, .scales = 1, TIMES}},
     {MST_SITE_ASLEEP}},
    {"only host",
     1,
     4,
     {{.far = 1, .heals = 1, .queued = 1, .only = 1, TIMES}},
     {MST_SITE_PAUSED}},
    {"no healing", 1, 7, {{.far = 1, .limited = 1, TIMES}}, {MST_SITE_UP}},
    {"host and here",
     2,
     4,
     {{.far = 1, .heals = 1, .limited = 1, .scales = 1, TIMES},
      {.heals = 1, TIMES}},
     {MST_SITE_PAUSED, MST_SITE_UP}},
    {"two hosts",
     2,
     3,
     {{.far = 1, .heals = 1, .limited = 1, TIMES},
      {.far = 1, .heals = 1, .scales = 1, TIMES}},
     {MST_SITE_UP, MST_SITE_PAUSED}},
    {"queue and host",
     2,
     2,
     {{.far = 1, .heals = 1, .queued = 1, .start_ns = S, .queue_ns = S},
      {.far = 1, .heals = 1, .scales = 1, .start_ns = S}},
     {MST_SITE_PAUSED, MST_SITE_ASLEEP}}};
#define WORLDS (sizeof worlds / sizeof *worlds)

static const struct world *world;
static const char *wrong; // the first thing
static int logging;

static void check(const char *found) {
  if (wrong == NULL) wrong = found;
}

// ---- one step

static void tell(struct state *state, struct place *place,
                 enum mst_site_fact fact, int64_t value) {
  const enum mst_site_end end =
      mst_site_tell(&place->site, fact, value, state->now_ns);
  check(site_book_tell(&place->book, fact, value, end, state->now_ns));
  check(mst_site_check(&place->site));
  if (logging)
    (void)printf("%8.1f %u < %s %s\n", (double)state->now_ns / 1e9,
                 (unsigned)(place - state->places), site_fact_name(fact),
                 site_state_name(place->site.is));
}

// take has the session take the next thing to do at a place: 0 if there is none.
static int take(struct state *state, unsigned at) {
  struct place *place = &state->places[at];
  enum mst_site_do what;
  if (!mst_site_next(&place->site, &what, state->now_ns)) {
    check(site_book_settled(&place->book, &place->site, state->now_ns));
    return 0;
  }
  check(site_book_take(&place->book, &place->site, what, state->now_ns));
  check(mst_site_check(&place->site));
  if (logging)
    (void)printf("%8.1f %u > %s\n", (double)state->now_ns / 1e9, at,
                 site_do_name(what));
  state->is_doing = 1;
  state->doing = (uint8_t)what;
  state->doing_at = (uint8_t)at;
  if (what == MST_SITE_ASK) place->command = place->server = NO_COMMAND;
  return 1;
}

static int serves(const struct place *place) { return place->server == READY; }

// done gives the answer of what has succeeded, of how many are possible.
static void done(struct state *state, unsigned how) {
  static const enum mst_site_fact looks[] = {MST_SITE_RUNS, MST_SITE_RUNS,
                                             MST_SITE_PENDING};
  struct place *place = &state->places[state->doing_at];
  state->is_doing = 0;
  switch ((enum mst_site_do)state->doing) {
  case MST_SITE_WHY:
    place->command = place->server = NO_COMMAND;
    tell(state, place, MST_SITE_FAILED, 0);
    break;
  case MST_SITE_TAKE:
    if (!serves(place)) place->server = NO_SERVER;
    tell(state, place, serves(place) ? MST_SITE_SERVED : MST_SITE_FAILED, 0);
    break;
  case MST_SITE_ASK:
    place->command = RUNS;
    break;
  case MST_SITE_LOOK:
    tell(state, place, looks[how], how == 1);
    break;
  case MST_SITE_LOOK_LEFT:
    tell(state, place, MST_SITE_LEFT_NS, how == 0 ? SITE_NEVER : 100 * S);
    break;
  case MST_SITE_SERVE:
    place->server = BOOTING;
    break;
  default:
    break;
  }
}

static int can_succeed(const struct state *state) {
  const struct place *place = &state->places[state->doing_at];
  return state->doing != MST_SITE_SERVE || !place->site.terms.far ||
         place->command == HOST;
}

static void fails(struct state *state, int lasts) {
  struct place *place = &state->places[state->doing_at];
  state->is_doing = 0;
  place->server = NO_SERVER;
  if (place->site.is == MST_SITE_ASKED || place->site.is == MST_SITE_BOOTING)
    place->command = NO_COMMAND;
  tell(state, place, MST_SITE_FAILED, lasts);
}

static void undoes(struct state *state) {
  struct place *place = &state->places[state->doing_at];
  state->is_doing = 0;
  tell(state, place, MST_SITE_UNDONE, state->doing);
}

static int64_t due_ns(const struct state *state) {
  int64_t first_ns = SITE_NEVER;
  for (unsigned i = 0; i < world->count; i++) {
    const int64_t ns = mst_site_due_ns(&state->places[i].site);
    if (ns < first_ns) first_ns = ns;
  }
  return first_ns;
}

static void apply(struct state *state, struct event event) {
  struct place *place = &state->places[event.at];
  if (event.what >= MISHAPS) state->mishaps--;
  switch ((enum what)event.what) {
  case NEXT:
    (void)take(state, event.at);
    break;
  case DONE:
    done(state, event.how);
    break;
  case LINKS:
    place->command = HOST;
    tell(state, place, MST_SITE_LINKED, 0);
    break;
  case BOOTS:
  case BREAKS:
    place->server = event.what == BOOTS ? READY : BROKEN;
    tell(state, place, MST_SITE_BOOTED, 0);
    break;
  case NEEDS:
    tell(state, place, MST_SITE_NEEDED, 0);
    break;
  case WAKES:
    tell(state, place, MST_SITE_WAKE, 0);
    break;
  case LATER:
    state->now_ns = due_ns(state);
    break;
  case FAILS:
    fails(state, event.how);
    break;
  case UNDOES:
    undoes(state);
    break;
  case ENDS:
    place->command = NO_COMMAND;
    place->server = NO_SERVER;
    tell(state, place, MST_SITE_ENDED, 0);
    break;
  case SERVERLESS:
    place->server = NO_SERVER;
    tell(state, place, MST_SITE_SERVERLESS, 0);
    break;
  case TOLD:
    tell(state, place, MST_SITE_LEAVES, 0);
    break;
  case SHORT:
    state->is_doing = 0;
    tell(state, place, MST_SITE_LEFT_NS, 5 * S);
    break;
  case SLEEPS:
    tell(state, place, MST_SITE_SLEEP, 0);
    break;
  case RETRIES:
    tell(state, place, MST_SITE_RETRY, 0);
    break;
  case MUCH_LATER:
    state->now_ns += 7 * S;
    break;
  }
}

// ---- what may happen

struct events {
  struct event list[EVENTS_MAX];
  unsigned count;
};

static void may(struct events *events, const struct state *state, int can,
                enum what what, unsigned at, unsigned how) {
  if (!can || (what >= MISHAPS && state->mishaps == 0)) return;
  if (events->count == EVENTS_MAX) {
    check("too much may happen");
    return;
  }
  events->list[events->count++] =
      (struct event){(uint8_t)what, (uint8_t)at, (uint8_t)how};
}

static void may_answer(struct events *events, const struct state *state) {
  static const unsigned ways[MST_SITE_DO_COUNT] = {
      [MST_SITE_LOOK] = 2, [MST_SITE_LOOK_LEFT] = 1};
  const enum mst_site_do what = (enum mst_site_do)state->doing;
  const unsigned at = state->doing_at;
  for (unsigned how = 0; how <= ways[what]; how++)
    may(events, state, can_succeed(state), DONE, at, how);
  const int is_asked = state->places[at].site.is == MST_SITE_ASKED;
  const int can_fail = what == MST_SITE_WHY || what == MST_SITE_ASK ||
                       (what == MST_SITE_LOOK && is_asked) ||
                       what == MST_SITE_SERVE;
  may(events, state, can_fail, FAILS, at, 0);
  may(events, state, can_fail, FAILS, at, 1);
  may(events, state, 1, UNDOES, at, 0);
  may(events, state, what == MST_SITE_LOOK_LEFT, SHORT, at, 0);
}

static void may_happen(struct events *events, const struct state *state,
                       unsigned at) {
  const struct place *place = &state->places[at];
  const enum mst_site_is is = place->site.is;
  const int far = place->site.terms.far;
  may(events, state, place->command == RUNS, LINKS, at, 0);
  may(events, state, place->server == BOOTING, BOOTS, at, 0);
  may(events, state, place->server == BOOTING, BREAKS, at, 0);
  may(events, state, place->server == READY, SERVERLESS, at, 0);
  may(events, state, far && place->command != NO_COMMAND, ENDS, at, 0);
  may(events, state, far && place->command == HOST, TOLD, at, 0);
  may(events, state, is == MST_SITE_GONE, NEEDS, at, 0);
  may(events, state, is == MST_SITE_ASLEEP, WAKES, at, 0);
  may(events, state, is == MST_SITE_LOST, RETRIES, at, 0);
  may(events, state, is == MST_SITE_UP && place->site.terms.scales, SLEEPS, at,
      0);
}

static void find_events(struct events *events, const struct state *state) {
  events->count = 0;
  if (state->is_doing) may_answer(events, state);
  for (unsigned at = 0; at < world->count; at++) {
    const int64_t ns = mst_site_due_ns(&state->places[at].site);
    may(events, state, !state->is_doing && ns <= state->now_ns, NEXT, at, 0);
    may_happen(events, state, at);
  }
  const int64_t ns = due_ns(state);
  const int waits = ns > state->now_ns && ns != SITE_NEVER;
  may(events, state, waits && !state->is_doing, LATER, 0, 0);
  may(events, state, 1, MUCH_LATER, 0, 0);
}

// ---- calm

// calm_step does what brings a state to rest: 0 if nothing does.
static int calm_step(struct state *state) {
  if (state->is_doing) {
    if (can_succeed(state))
      done(state, 0);
    else
      fails(state, 0);
    return 1;
  }
  for (unsigned at = 0; at < world->count; at++) {
    if (take(state, at)) return 1;
  }
  for (unsigned at = 0; at < world->count; at++) {
    struct place *place = &state->places[at];
    enum what what = NEXT;
    if (place->command == RUNS) what = LINKS;
    if (place->server == BOOTING) what = BOOTS;
    if (place->site.is == MST_SITE_GONE) what = NEEDS;
    if (what == NEXT) continue;
    apply(state, (struct event){(uint8_t)what, (uint8_t)at, 0});
    return 1;
  }
  for (unsigned at = 0; at < world->count; at++) {
    const struct mst_site *site = &state->places[at].site;
    const int64_t ns = mst_site_due_ns(site);
    if (site->is == MST_SITE_UP || ns == SITE_NEVER) continue;
    state->now_ns = ns;
    return 1;
  }
  return 0;
}

static void check_calm(struct state state) {
  unsigned steps = 0;
  while (wrong == NULL && calm_step(&state)) {
    if (++steps > CALM_STEPS_MAX) check("it never comes to rest");
  }
  for (unsigned at = 0; at < world->count; at++) {
    const enum mst_site_is is = state.places[at].site.is;
    if (is != MST_SITE_UP && is != MST_SITE_ASLEEP && is != MST_SITE_LOST)
      check("workers wait for ever");
  }
}

// ---- states

static void mix(uint64_t *hash, int64_t value) {
  *hash ^= (uint64_t)value;
  *hash *= UINT64_C(0x9E3779B97F4A7C15);
  *hash ^= *hash >> 29;
}

// mix_time: what is overdue is due.
static void mix_time(uint64_t *hash, int64_t ns, int64_t now_ns) {
  mix(hash, ns == SITE_NEVER ? -1 : ns <= now_ns ? 0 : ns - now_ns);
}

static void mix_place(uint64_t *hash, const struct place *place,
                      int64_t now_ns) {
  const struct mst_site *site = &place->site;
  const struct site_book *book = &place->book;
  const int asked = site->is == MST_SITE_ASKED;
  const int waits =
      asked || site->is == MST_SITE_PAUSED || site->is == MST_SITE_BOOTING;
  mix(hash, place->command << 16 | place->server << 8 | (int)site->is);
  mix(hash, site->todo);
  mix(hash, (site->left == site->link) << 5 | site->linked << 4 |
                site->leaves << 3 | site->again << 2 | site->ends);
  if (site->ends) mix(hash, site->why);
  if (waits) mix(hash, site->paused_ns);
  if (waits) mix(hash, site->pause_ns);
  if (!waits) mix(hash, site->margin_ns);
  mix(hash, site->short_ns);
  if (site->linked) {
    const int64_t stayed_ns = now_ns - site->came_ns;
    mix(hash, stayed_ns < 10 * S ? stayed_ns : -1);
  }
  if (site->todo >> MST_SITE_SAY_LEAVES & 1u) mix(hash, site->left_ns);
  if (asked && site->terms.queued) {
    mix(hash, site->waited);
    mix(hash, now_ns - site->asked_ns);
    mix(hash, site->runs_ns == SITE_NEVER ? -1 : now_ns - site->runs_ns);
  }
  mix_time(hash, site->ask_ns, now_ns);
  mix_time(hash, site->look_ns, now_ns);
  mix_time(hash, site->limit_ns, now_ns);
  if (site->boots_ns != SITE_NEVER)
    mix_time(hash, site->boots_ns + site->terms.start_ns + 1, now_ns);
  mix(hash, (int)book->has << 16 | (int)book->server << 8 | book->first << 4 |
                book->booted << 3 | book->why << 2);
  if (waits) mix(hash, book->pauses);
  for (int what = 0; what < MST_SITE_DO_COUNT; what++)
    mix_time(hash, book->due_ns[what], now_ns);
}

static uint64_t hash_of(const struct state *state) {
  uint64_t hash = UINT64_C(0xCBF29CE484222325);
  for (unsigned at = 0; at < world->count; at++)
    mix_place(&hash, &state->places[at], state->now_ns);
  mix(&hash, state->mishaps << 16 | state->is_doing << 8);
  if (state->is_doing) mix(&hash, state->doing << 8 | state->doing_at);
  return hash == 0 ? 1 : hash;
}

static void begin(struct state *state) {
  memset(state, 0, sizeof *state);
  state->now_ns = 1000 * S;
  state->mishaps = (uint8_t)world->mishaps;
  for (unsigned at = 0; at < world->count; at++) {
    struct place *place = &state->places[at];
    const struct mst_site_terms *terms = &world->terms[at];
    mst_site_init(&place->site, terms, world->is[at], state->now_ns);
    site_book_init(&place->book, terms, world->is[at], state->now_ns);
    if (world->is[at] != MST_SITE_UP) continue;
    place->command = terms->far ? HOST : NO_COMMAND;
    place->server = READY;
  }
}

// ---- the search

struct search {
  struct node *nodes;
  uint32_t count, room;
  struct seen seen; // their hashes
  uint64_t steps;
};

static void *grown(void *list, size_t count, size_t size) {
  void *more = realloc(list, count * size);
  if (more != NULL) return more;
  (void)fprintf(stderr, "sim: site: no memory\n");
  exit(2);
}

// add keeps a state that is new.
static void add(struct search *search, const struct state *state,
                uint32_t parent, struct event event) {
  const uint64_t hash = hash_of(state);
  if (!seen_add(&search->seen, hash)) return;
  if (search->count == search->room) {
    search->room = search->room == 0 ? 1024 : 2 * search->room;
    search->nodes = grown(search->nodes, search->room, sizeof *search->nodes);
  }
  search->nodes[search->count++] = (struct node){*state, parent, event};
}

static void print_failure(const struct search *search, uint32_t at,
                          const struct event *last) {
  struct event way[WAY_MAX];
  unsigned length = 0;
  if (last != NULL) way[length++] = *last;
  for (; at != 0 && length < WAY_MAX; at = search->nodes[at].parent)
    way[length++] = search->nodes[at].event;
  (void)printf("sim: site: world %u (%s) failed: %s\n",
               (unsigned)(world - worlds), world->name, wrong);
  (void)printf("sim: replay: make -C tests/sim replay-site WORLD=%u WAY=",
               (unsigned)(world - worlds));
  while (length-- > 0)
    (void)printf("%s-%u-%u%s", names[way[length].what], way[length].at,
                 way[length].how, length > 0 ? "," : "\n");
}

static int search_world(void) {
  struct search search = {0};
  struct state state;
  begin(&state);
  add(&search, &state, 0, (struct event){0, 0, 0});
  for (uint32_t at = 0; at < search.count && wrong == NULL; at++) {
    struct events events;
    check_calm(search.nodes[at].state);
    if (wrong != NULL) print_failure(&search, at, NULL);
    find_events(&events, &search.nodes[at].state);
    for (unsigned i = 0; i < events.count && wrong == NULL; i++) {
      state = search.nodes[at].state;
      apply(&state, events.list[i]);
      search.steps++;
      if (wrong != NULL) print_failure(&search, at, &events.list[i]);
      add(&search, &state, at, events.list[i]);
    }
    if (search.count <= STATES_MAX) continue;
    check("states without end");
    print_failure(&search, search.count - 1, NULL);
  }
  (void)printf(
      "sim: site: world %u (%s): %" PRIu32 " states, %" PRIu64 " steps\n",
      (unsigned)(world - worlds), world->name, search.count, search.steps);
  (void)fflush(stdout);
  free(search.nodes);
  free(search.seen.table);
  return wrong != NULL;
}

int site_explore(void) {
  int failed = 0;
  for (world = worlds; world < worlds + WORLDS && failed == 0; world++)
    failed += search_world();
  return failed;
}

int site_explore_way(unsigned number, const char *way) {
  struct state state;
  if (number >= WORLDS) return 2;
  world = &worlds[number];
  logging = 1;
  begin(&state);
  while (way != NULL && *way != '\0' && wrong == NULL) {
    char name[20];
    unsigned at, how;
    if (sscanf(way, "%19[a-z_]-%u-%u", name, &at, &how) != 3) return 2;
    unsigned what = 0;
    while (what <= MUCH_LATER && strcmp(name, names[what]) != 0)
      what++;
    if (what > MUCH_LATER || at >= PLACES) return 2;
    apply(&state, (struct event){(uint8_t)what, (uint8_t)at, (uint8_t)how});
    way = strchr(way, ',');
    if (way != NULL) way++;
  }
  if (wrong == NULL) check_calm(state);
  (void)printf("sim: site: world %u: %s\n", number,
               wrong != NULL ? wrong : "all is well");
  return wrong != NULL;
}
