// The simulation of when hosts are asked for, left and lost: clusters of up to four sites whose
// commands fail, wait in queues and hang, whose hosts end, are told to end, or lose only their fork
// server, and whose user interrupts, computes for long, lets hosts sleep and wants them back.
//
//   site [--runs N] [--first SEED]   seeds SEED .. SEED + N - 1, each played twice; then the search
//                                    through small worlds (site_explore.c)
//   site --seed SEED --log           one seed, a line per event
//   site --world N --way W           one history of a small world
//
// The book (site_book.c) judges each thing that a site gives. After two hours the world calms down:
// all that is asked for succeeds, and each site that waits must come up, and stay.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "site_world.h"

#define STEPS_MAX 100000u
#define PRINTED_MAX 5u
#define CALM_NS (7200 * S)
// From this many runs on, each sight must have been seen.
#define SIGHTS_RUNS 5000u

static unsigned printed;

void site_fail(struct site_sim *sim, const char *format, ...) {
  if (sim->failed) return;
  sim->failed = 1;
  if (printed++ >= PRINTED_MAX) return;
  (void)printf("sim: site: seed %" PRIu64 " failed: ", sim->seed);
  va_list args;
  va_start(args, format);
  (void)vprintf(format, args);
  va_end(args);
  (void)printf("\nsim: replay: make -C tests/sim replay-site SEED=%" PRIu64
               "\n",
               sim->seed);
}

// note mixes an event into the run's hash (FNV-1a), and logs it.
static void note(struct site_sim *sim, const struct place *place, char mark,
                 const char *name, int64_t value) {
  const uint32_t which = (uint32_t)(place - sim->places);
  const int64_t words[] = {sim->now_ns, which,   mark,
                           value,       name[0], place->site.is};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    sim->hash ^= (uint64_t)words[i];
    sim->hash *= UINT64_C(0x100000001B3);
  }
  if (!sim->logging) return;
  (void)printf("%10.3f %" PRIu32 " %c %-10s %" PRId64 " %s\n",
               (double)sim->now_ns / 1e9, which, mark, name, value,
               site_state_name(place->site.is));
}

// ---- what the site is told

static void see_end(const struct place *place, const struct mst_site *was,
                    int lasts, enum mst_site_end end) {
  const int server = was->is == MST_SITE_REPLACED;
  if (end == MST_SITE_IS_ERROR)
    site_sights[server ? SAW_error_server : SAW_error]++;
  if (end == MST_SITE_IS_LOST)
    site_sights[server        ? SAW_lost_server
                : !was->again ? SAW_lost_first
                : lasts       ? SAW_lost_lasts
                              : SAW_lost_pauses]++;
  if (end == MST_SITE_GOES_ON && place->site.is == MST_SITE_PAUSED) {
    site_sights[SAW_paused]++;
    site_sights[SAW_paused_often] += place->book.pauses > 2;
  }
}

static void see_fact(const struct place *place, const struct mst_site *was,
                     enum mst_site_fact fact) {
  const enum mst_site_is is = place->site.is;
  switch (fact) {
  case MST_SITE_ENDED:
    site_sights[SAW_ended_asked] += was->is == MST_SITE_ASKED;
    site_sights[SAW_ended_booting] += was->is == MST_SITE_BOOTING;
    site_sights[SAW_ended_up] += was->is == MST_SITE_UP;
    site_sights[SAW_ended_gone] += was->is == MST_SITE_GONE && was->linked;
    site_sights[SAW_ended_replaced] += was->is == MST_SITE_REPLACED;
    break;
  case MST_SITE_LEAVES:
    site_sights[SAW_told] += was->is == MST_SITE_UP && is == MST_SITE_PAUSED;
    break;
  case MST_SITE_PENDING:
    site_sights[SAW_pending] += was->is == MST_SITE_ASKED;
    break;
  case MST_SITE_SERVED:
    site_sights[SAW_up] += was->is != is && is == MST_SITE_UP;
    site_sights[SAW_told_early] += was->is != is && is == MST_SITE_PAUSED;
    site_sights[SAW_replaced] += was->is == MST_SITE_REPLACED && was->terms.far;
    site_sights[SAW_replaced_here] +=
        was->is == MST_SITE_REPLACED && !was->terms.far;
    break;
  case MST_SITE_SLEEP:
    site_sights[SAW_slept] += was->is == MST_SITE_UP;
    break;
  case MST_SITE_WAKE:
    site_sights[SAW_woken] += was->is == MST_SITE_ASLEEP;
    break;
  case MST_SITE_RETRY:
    site_sights[SAW_retried] += was->is == MST_SITE_LOST;
    site_sights[SAW_retried_link] += was->is == MST_SITE_LOST && was->linked;
    break;
  default:
    break;
  }
}

static void tell(struct site_sim *sim, struct place *place,
                 enum mst_site_fact fact, int64_t value) {
  const struct mst_site was = place->site;
  if (sim->failed) return;
  const enum mst_site_end end =
      mst_site_tell(&place->site, fact, value, sim->now_ns);
  note(sim, place, '<', site_fact_name(fact), value);
  const char *wrong =
      site_book_tell(&place->book, fact, value, end, sim->now_ns);
  if (wrong == NULL) wrong = mst_site_check(&place->site);
  if (wrong != NULL) site_fail(sim, "%s: %s", site_fact_name(fact), wrong);
  see_fact(place, &was, fact);
  if (fact == MST_SITE_FAILED) {
    see_end(place, &was, value != 0, end);
    if (was.is == MST_SITE_ASKED || was.is == MST_SITE_BOOTING)
      site_world_end(place);
    if (end == MST_SITE_IS_ERROR && !sim->calm)
      place->idle_ns = site_in_s(sim, 0, 60);
  }
  if (place->site.is != was.is) site_world_state(sim, place);
}

// tell_all tells what has happened.
static void tell_all(struct site_sim *sim) {
  for (uint32_t i = 0; i < sim->fact_count; i++)
    tell(sim, sim->facts[i].place, sim->facts[i].fact, 0);
  sim->fact_count = 0;
}

// tell_noise tells a fact that doesn't fit the state: an old one.
static void tell_noise(struct site_sim *sim, struct place *place) {
  static const unsigned fits[] = {
      [MST_SITE_LINKED] = 1u << MST_SITE_ASKED,
      [MST_SITE_SERVERLESS] = 1u << MST_SITE_UP,
      [MST_SITE_NEEDED] = 1u << MST_SITE_GONE,
      [MST_SITE_LEFT_NS] = 1u << MST_SITE_UP,
      [MST_SITE_PENDING] = 1u << MST_SITE_ASKED,
      [MST_SITE_RUNS] = 1u << MST_SITE_ASKED,
      [MST_SITE_BOOTED] = 1u << MST_SITE_BOOTING | 1u << MST_SITE_REPLACED,
      [MST_SITE_SERVED] = 1u << MST_SITE_BOOTING | 1u << MST_SITE_REPLACED,
      [MST_SITE_FAILED] = 1u << MST_SITE_BOOTING | 1u << MST_SITE_REPLACED |
                          1u << MST_SITE_ASKED,
      [MST_SITE_SLEEP] = 1u << MST_SITE_UP,
      [MST_SITE_WAKE] = 1u << MST_SITE_ASLEEP,
      [MST_SITE_RETRY] = 1u << MST_SITE_LOST};
  const unsigned fact = (unsigned)site_below(sim, MST_SITE_UNDONE);
  const struct mst_site was = place->site;
  if (fits[fact] == 0 || (fits[fact] >> place->site.is & 1u)) return;
  site_sights[SAW_noise]++;
  tell(sim, place, (enum mst_site_fact)fact, 5 * S);
  if (was.is != place->site.is || was.todo != place->site.todo)
    site_fail(sim, "%s: an old fact counts", site_fact_name(fact));
}

// answer is given after what has happened before it.
static void answer(struct site_sim *sim, struct place *place,
                   enum mst_site_fact fact, int64_t value) {
  const enum mst_site_is is = place->site.is;
  tell_all(sim);
  if (place->site.is != is) site_sights[SAW_overtaken]++;
  tell(sim, place, fact, value);
}

// ---- what the site gives

static void look_left(struct site_sim *sim, struct place *place) {
  if (place->ends_ns != SITE_NEVER && site_one_in(sim, 6)) {
    site_sights[SAW_limit_shortened]++;
    place->ends_ns -= (place->ends_ns - sim->now_ns) / 2;
    place->at_ns[H_ENDS] = place->ends_ns;
  }
  const int unknown = place->ends_ns == SITE_NEVER || site_one_in(sim, 6);
  if (unknown) site_sights[SAW_limit_unknown]++;
  const int64_t left_ns = unknown ? SITE_NEVER : place->ends_ns - sim->now_ns;
  answer(sim, place, MST_SITE_LEFT_NS, left_ns);
  if (place->site.is == MST_SITE_PAUSED) site_sights[SAW_left_at_limit]++;
}

static void look(struct site_sim *sim, struct place *place) {
  const int waits = place->command == QUEUED;
  if (site_one_in(sim, 4)) site_world_pass(sim, site_in_s(sim, 0, 20));
  tell_all(sim);
  if (place->site.is != MST_SITE_ASKED) return; // the host has come meanwhile
  if (site_one_in(sim, 60)) {
    tell(sim, place, MST_SITE_FAILED, 1);
  } else if (waits) {
    tell(sim, place, MST_SITE_PENDING, 0);
  } else {
    tell(sim, place, MST_SITE_RUNS, place->tells);
  }
}

static void take(struct site_sim *sim, struct place *place) {
  const int late = !place->book.booted;
  const int was_ready = place->ready;
  if (site_one_in(sim, 4)) site_world_pass(sim, site_in_s(sim, 0, 30));
  tell_all(sim);
  // Its host may have ended since it was looked at.
  const int ended = place->site.terms.far && place->command == NO_COMMAND;
  const int ready = place->ready || (was_ready && ended);
  if (late) site_sights[ready ? SAW_late_but_ready : SAW_late_server]++;
  if (ready && ended) site_sights[SAW_served_late]++;
  if (!ready) place->boots = 0;
  if (!ready) place->at_ns[H_BOOTS] = SITE_NEVER;
  tell(sim, place, ready ? MST_SITE_SERVED : MST_SITE_FAILED, 0);
}

// interrupt: the user doesn't wait for it.
static void interrupt(struct site_sim *sim, struct place *place,
                      enum mst_site_do what) {
  static const enum sight saw[] = {
      SAW_undone_say, SAW_undone_say,  SAW_undone_why,   SAW_undone_take,
      SAW_undone_ask, SAW_undone_look, SAW_undone_limit, SAW_undone_serve};
  site_sights[saw[what]]++;
  if (what == MST_SITE_ASK) site_world_end(place);
  if (what != MST_SITE_ASK && site_one_in(sim, 2)) tell_all(sim);
  tell(sim, place, MST_SITE_UNDONE, what);
  sim->busy_ns = site_in_s(sim, 0, site_one_in(sim, 4) ? 1000 : 5);
}

// carry_out gives 0 if the user has interrupted it.
static int carry_out(struct site_sim *sim, struct place *place,
                     enum mst_site_do what) {
  if (what == MST_SITE_ASK) site_world_end(place);
  if (site_one_in(sim, 4)) site_world_pass(sim, site_in_s(sim, 0, 10));
  if (site_one_in(sim, 15)) {
    interrupt(sim, place, what);
    return 0;
  }
  switch (what) {
  case MST_SITE_WHY:
    site_sights[SAW_late_start] += place->site.why == MST_SITE_WHY_LATE;
    site_sights[SAW_queue_full] += place->site.why == MST_SITE_WHY_QUEUE;
    answer(sim, place, MST_SITE_FAILED, site_one_in(sim, 8));
    break;
  case MST_SITE_TAKE:
    take(sim, place);
    break;
  case MST_SITE_ASK:
    if (!site_world_run(sim, place))
      answer(sim, place, MST_SITE_FAILED, site_one_in(sim, 2));
    break;
  case MST_SITE_LOOK:
    look(sim, place);
    break;
  case MST_SITE_LOOK_LEFT:
    look_left(sim, place);
    break;
  case MST_SITE_SERVE:
    if (!site_world_boot(sim, place)) answer(sim, place, MST_SITE_FAILED, 0);
    break;
  default:
    break;
  }
  return 1;
}

// drive does what a site gives, until nothing is left or the user interrupts.
static int drive(struct site_sim *sim, struct place *place) {
  enum mst_site_do what;
  tell_all(sim);
  while (!sim->failed && mst_site_next(&place->site, &what, sim->now_ns)) {
    note(sim, place, '>', site_do_name(what), 0);
    const char *wrong =
        site_book_take(&place->book, &place->site, what, sim->now_ns);
    if (wrong == NULL) wrong = mst_site_check(&place->site);
    if (wrong != NULL) site_fail(sim, "%s: %s", site_do_name(what), wrong);
    if (!sim->failed && !carry_out(sim, place, what)) return 0;
    tell_all(sim);
  }
  if (site_one_in(sim, 4)) tell_noise(sim, place);
  if (sim->failed) return 0;
  const char *wrong =
      site_book_settled(&place->book, &place->site, sim->now_ns);
  if (wrong != NULL) site_fail(sim, "at rest: %s", wrong);
  return 1;
}

static void drive_all(struct site_sim *sim) {
  for (uint32_t i = 0; i < sim->count; i++) {
    if (sim->places[i].idle_ns <= sim->now_ns && !drive(sim, &sim->places[i]))
      return;
  }
  if (site_one_in(sim, 12))
    sim->busy_ns = site_in_s(sim, 0, site_one_in(sim, 10) ? 3600 : 20);
}

// step: to when something happens, or a site has something to do.
static void step(struct site_sim *sim, int64_t limit_ns) {
  uint32_t at;
  int what;
  int64_t ns = site_world_next(sim, &at, &what);
  int64_t due_ns = sim->fact_count > 0 ? sim->now_ns : SITE_NEVER;
  for (uint32_t i = 0; i < sim->count; i++) {
    const struct place *place = &sim->places[i];
    int64_t one_ns = mst_site_due_ns(&place->site);
    if (one_ns < place->idle_ns) one_ns = place->idle_ns;
    if (one_ns < due_ns) due_ns = one_ns;
  }
  if (due_ns < sim->busy_ns) {
    site_sights[SAW_late_driver] += sim->busy_ns - due_ns > 60 * S;
    due_ns = sim->busy_ns;
  }
  if (due_ns < ns) ns = due_ns;
  site_world_pass(sim, ns < limit_ns ? ns : limit_ns);
  if (sim->now_ns >= sim->busy_ns) drive_all(sim);
}

// ---- one run

static void play_until(struct site_sim *sim, int64_t until_ns) {
  for (uint32_t steps = 0; !sim->failed && sim->now_ns < until_ns; steps++) {
    step(sim, until_ns);
    if (steps > STEPS_MAX) site_fail(sim, "steps without end");
  }
}

static void judge_rest(struct site_sim *sim, int again) {
  for (uint32_t i = 0; i < sim->count; i++) {
    const struct mst_site *site = &sim->places[i].site;
    const int rests = site->is == MST_SITE_UP || site->is == MST_SITE_ASLEEP ||
                      site->is == MST_SITE_LOST ||
                      (site->is == MST_SITE_GONE && !site->terms.heals);
    if (!rests && !sim->failed)
      site_fail(sim, "site %" PRIu32 " %s", i,
                again ? "doesn't stay up" : "doesn't come up");
  }
}

static int run(uint64_t seed, int logging, uint64_t *hash) {
  static struct site_sim sim;
  memset(&sim, 0, sizeof sim);
  sim.seed = sim.random = seed;
  sim.hash = UINT64_C(0xCBF29CE484222325);
  sim.logging = logging;
  sim.now_ns = 1000 * S;
  site_world_begin(&sim);
  play_until(&sim, sim.now_ns + CALM_NS);
  site_world_calm(&sim);
  // All pauses, a start that is late, a queue, and two more that succeed.
  play_until(&sim, sim.now_ns + 2 * 300 * S + 300 * S);
  judge_rest(&sim, 0);
  play_until(&sim, sim.now_ns + 3600 * S);
  judge_rest(&sim, 1);
  *hash = sim.hash;
  return sim.failed;
}

static int run_twice(uint64_t seed) {
  uint64_t first, second;
  if (run(seed, 0, &first) || run(seed, 0, &second)) return 1;
  if (first == second) return 0;
  struct site_sim sim = {.seed = seed};
  site_fail(&sim, "two runs of one seed differ");
  return 1;
}

static unsigned print_sights(uint64_t runs) {
  static const char *const names[] = {
#define SIGHT_TEXT(name) #name,
      SITE_SIGHTS(SIGHT_TEXT)};
  unsigned unseen = 0;
  (void)printf("sim: site: seen");
  for (unsigned k = 0; k < SIGHT_COUNT; k++) {
    (void)printf(" %s=%" PRIu64, names[k], site_sights[k]);
    unseen += site_sights[k] == 0;
  }
  (void)printf("\n");
  if (runs < SIGHTS_RUNS || unseen == 0) return 0;
  (void)printf("sim: site: %u of the above never happened\n", unseen);
  return unseen;
}

static int run_many(uint64_t first, uint64_t runs) {
  uint64_t failed = 0;
  for (uint64_t k = 0; k < runs && failed < PRINTED_MAX; k++)
    failed += (uint64_t)run_twice(first + k);
  // All seeds are one test; that enough of them see each sight is another.
  const int judged = failed == 0 && runs >= SIGHTS_RUNS;
  const int blind = failed == 0 && print_sights(runs) > 0;
  (void)printf("sim: site: %" PRIu64 " seeds, %" PRIu64 " failed\n", runs,
               failed);
  const int missed = failed == 0 ? site_explore() : 0;
  const int searched = failed == 0;
  (void)printf("sim: site: %d passed, %d failed, 0 skipped\n",
               (failed == 0) + (judged && !blind) + (searched && missed == 0),
               (failed > 0) + blind + (missed > 0));
  return failed > 0 || blind || missed > 0;
}

// What the search has freed needn't be kept from use. The address sanitizer finds this by name.
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "quarantine_size_mb=1"; }

int main(int argc, char **argv) {
  uint64_t first = 1, runs = 1000, hash;
  unsigned world = 0;
  const char *way = NULL;
  int logging = 0;
  for (int k = 1; k < argc; k++) {
    const int more = k + 1 < argc;
    if (strcmp(argv[k], "--log") == 0) {
      logging = 1;
    } else if (more && strcmp(argv[k], "--runs") == 0) {
      runs = strtoull(argv[++k], NULL, 0);
    } else if (more && (strcmp(argv[k], "--first") == 0 ||
                        strcmp(argv[k], "--seed") == 0)) {
      first = strtoull(argv[++k], NULL, 0);
    } else if (more && strcmp(argv[k], "--world") == 0) {
      world = (unsigned)strtoul(argv[++k], NULL, 0);
    } else if (more && strcmp(argv[k], "--way") == 0) {
      way = argv[++k];
    } else {
      (void)fprintf(stderr, "sim: site: can't read argument %s\n", argv[k]);
      return 2;
    }
  }
  if (way != NULL) return site_explore_way(world, way);
  return logging ? run(first, 1, &hash) : run_many(first, runs);
}
