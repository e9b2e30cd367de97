// The simulation's loop, log and verdict. See sim.h.
//
//   sim [--runs N] [--first SEED]   seeds SEED .. SEED + N - 1, each run twice
//       --few                       until some have failed: for deliberate bugs
//   sim --seed SEED --log           one seed, once, a line per event
//
// The log's columns: number; seconds since the start; `<` event given to the pool, `~` event that
// it must ignore, `>` action taken from it, or `*` act of the session; name; worker (- if none);
// how; number; then the pool's phase, launches in flight, processes, and the worker's state after
// it.
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "canary.h"
#include "sim.h"

// A run ends by itself; this many steps mean that time doesn't advance.
#define STEPS_MAX 200000u
// Entries still played after the pool is down, which must change nothing.
#define TAIL_STEPS 50u
#define PRINTED_MAX 10u
// From this many runs on, each sight must have been seen.
#define SIGHTS_RUNS 10000u

static uint64_t sights[SIM_SIGHT_COUNT];
static struct sim *running;
static jmp_buf after_assert;
static unsigned printed;

void sim_saw(enum sim_sight sight) { sights[sight]++; }

void sim_fail(struct sim *sim, const char *format, ...) {
  if (sim->failed) return;
  sim->failed = 1;
  if (printed++ >= PRINTED_MAX) return;
  (void)printf("sim: seed %" PRIu64 " failed at event %" PRIu64 ": ", sim->seed,
               sim->step);
  va_list args;
  va_start(args, format);
  (void)vprintf(format, args);
  va_end(args);
  (void)printf("\nsim: replay: make -C tests/sim replay SEED=%" PRIu64 "\n",
               sim->seed);
}

// The sanitizers end the process, with this option by SIGABRT; the seed must be printed before.
// They find these functions by name.
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void) { return "abort_on_error=1"; }
const char *__ubsan_default_options(void) {
  return "abort_on_error=1:print_stacktrace=1";
}

// No function that is safe in a signal handler prints a number, and nothing can be damaged any
// more.
static void aborted(int signal) {
  (void)signal;
  if (running == NULL) return;
  printed = 0;
  sim_fail(running, "aborted, see the report above");
  (void)fflush(stdout);
}

static void assert_failed(const char *what, const char *file, int line) {
  sim_fail(running, "assertion failed: %s (%s:%d)", what, file, line);
  longjmp(after_assert, 1);
}

// --- Log and hash ---

const char *sim_event_name(enum mst_event_kind kind) {
  static const char *const names[] = {
      [MST_EV_FORKED] = "FORKED", [MST_EV_LAUNCH_FAILED] = "LAUNCH_FAILED",
      [MST_EV_READY] = "READY",   [MST_EV_SETUP_FAILED] = "SETUP_FAILED",
      [MST_EV_SENT] = "SENT",     [MST_EV_ANSWERED] = "ANSWERED",
      [MST_EV_CLOSED] = "CLOSED", [MST_EV_EXITED] = "EXITED",
      [MST_EV_RETIRE] = "RETIRE", [MST_EV_RESTART] = "RESTART",
      [MST_EV_SILENT] = "SILENT", [MST_EV_STOP] = "STOP",
      [MST_EV_TICK] = "TICK",     [MST_EV_PENDING] = "PENDING",
      [MST_EV_DRAIN] = "DRAIN",   [MST_EV_WITHDRAWN] = "WITHDRAWN"};
  return names[kind];
}

const char *sim_action_name(enum mst_do kind) {
  static const char *const names[] = {
      [MST_DO_LAUNCH] = "LAUNCH",   [MST_DO_BYE] = "BYE",
      [MST_DO_KILL] = "KILL",       [MST_DO_STARTED] = "STARTED",
      [MST_DO_JUDGE] = "JUDGE",     [MST_DO_START_FAILED] = "START_FAILED",
      [MST_DO_STOPPED] = "STOPPED", [MST_DO_RESUME] = "RESUME",
      [MST_DO_LEAVE] = "LEAVE"};
  return names[kind];
}

static const char *phase_name(enum mst_pool_phase phase) {
  static const char *const names[] = {
      [MST_POOL_NEW] = "new",           [MST_POOL_STARTING] = "starting",
      [MST_POOL_RUNNING] = "running",   [MST_POOL_FAILING] = "failing",
      [MST_POOL_STOPPING] = "stopping", [MST_POOL_DOWN] = "down"};
  return names[phase];
}

static void mix(struct sim *sim, int64_t value) { // FNV-1a
  for (unsigned k = 0; k < 64; k += 8) {
    sim->hash ^= ((uint64_t)value >> k) & 0xFFu;
    sim->hash *= UINT64_C(0x100000001B3);
  }
}

static void log_line(const struct sim *sim, char mark, const char *name,
                     uint32_t worker, int of_pool, uint32_t how,
                     int32_t number) {
  if (!sim->logging) return;
  const int64_t t_ns = sim->now_ns - sim->start_ns;
  char who[12] = "-";
  const char *state = "-";
  if (!of_pool) {
    (void)snprintf(who, sizeof who, "%" PRIu32, worker);
    if (worker < sim->plan.count) {
      state = mst_worker_state_name(sim->core.pool.workers[worker]->state);
    }
  }
  (void)printf("%6" PRIu64 " %5" PRId64 ".%09" PRId64 " %c %-13s %3s %" PRIu32
               " %5" PRId32 " %-8s in_flight=%-2" PRIu32 " processes=%-2" PRIu32
               " %s\n",
               sim->step, t_ns / MST_NS_PER_S, t_ns % MST_NS_PER_S, mark, name,
               who, how, number, phase_name(sim->core.pool.phase),
               sim->core.pool.in_flight, sim->core.pool.processes, state);
}

void sim_log_event(struct sim *sim, const struct mst_event *event, int noise) {
  const int of_pool = event->kind == MST_EV_STOP || event->kind == MST_EV_TICK;
  mix(sim, sim->now_ns);
  mix(sim, event->kind);
  mix(sim, event->worker);
  mix(sim, event->how);
  mix(sim, event->number);
  log_line(sim, noise ? '~' : '<', sim_event_name(event->kind), event->worker,
           of_pool, event->how, event->number);
}

void sim_log_action(struct sim *sim, const struct mst_action *action) {
  const int of_worker =
      action->kind == MST_DO_LAUNCH || action->kind == MST_DO_BYE ||
      action->kind == MST_DO_KILL || action->kind == MST_DO_JUDGE ||
      action->kind == MST_DO_RESUME || action->kind == MST_DO_LEAVE;
  mix(sim, action->kind);
  mix(sim, action->worker);
  log_line(sim, '>', sim_action_name(action->kind), action->worker, !of_worker,
           0, 0);
}

void sim_note(struct sim *sim, const char *name, uint32_t worker,
              uint64_t number) {
  mix(sim, (int64_t)number);
  log_line(sim, '*', name, worker, 0, 0, (int32_t)number);
}

// --- One run ---

struct sim *sim_running(void) {
  return running;
}

static int take_action(struct sim *sim) {
  struct mst_action action = {0};
  const int got = mst_calls_next_action(&sim->core, &action, sim->now_ns);
  if (got && !sim->failed) sim_session_action(sim, &action);
  return got && !sim->failed;
}

// An action may cause another fact, which doesn't start a second round inside the first.
static void take_actions(struct sim *sim, uint32_t lazy) {
  int more = 1;
  if (sim->carrying_out) return;
  sim->carrying_out = 1;
  while (more && !(lazy > 0 && sim_chance(&sim->rng, lazy)))
    more = take_action(sim);
  sim->carrying_out = 0;
  if (more || sim->failed) return;
  sim_monitor_settled(sim);
  sim_session_settled(sim);
}

void sim_stepped(struct sim *sim) {
  const char *broken = mst_calls_check(&sim->core);
  if (broken != NULL) sim_fail(sim, "mst_calls_check: %s", broken);
  sim_monitor_facts(sim, mst_pool_wake_ns(&sim->core.pool));
  if (sim->failed || sim->carrying_out) return;
  take_actions(sim, sim->plan.lazy);
  sim_world_withdraw(sim);
  if (!sim->failed) sim_session_collect(sim);
}

void sim_tick(struct sim *sim) {
  const int64_t slept_ns = sim->now_ns - sim->listened_ns;
  sim_ledger_looks(sim);
  sim->listened_ns = sim->now_ns;
  sim_hosts_look(sim);
  mst_calls_tick(&sim->core, slept_ns, sim->now_ns);
  if (mst_pool_wake_ns(&sim->core.pool) <= sim->now_ns) {
    sim_fail(sim, "a TICK leaves a limit that has passed");
  }
  sim_stepped(sim);
}

void sim_deliver(struct sim *sim, struct mst_event event, int noise) {
  if (noise) {
    sim_saw(SIM_SAW_noise);
    sim->noise = 1;
    mst_pool_event(&sim->core.pool, &event, sim->now_ns);
    sim->noise = 0;
  } else if (event.kind == MST_EV_TICK) {
    sim_tick(sim);
    return;
  } else {
    mst_calls_event(&sim->core, &event, sim->now_ns);
  }
  sim_stepped(sim);
}

// A busy session reads its sockets first and checks the time later.
static int is_tick_late(struct sim *sim, int64_t wake_ns, int64_t next_ns) {
  if (next_ns == SIM_NEVER || next_ns - wake_ns > 20 * MST_NS_PER_MS) return 0;
  return sim_chance(&sim->rng, sim->plan.late);
}

// next_tick_ns: a sleeping session checks the time after it has read what came meanwhile.
static int64_t next_tick_ns(const struct sim *sim) {
  const int64_t wake_ns = mst_calls_wake_ns(&sim->core);
  return wake_ns <= sim->awake_ns ? sim->awake_ns + 1 : wake_ns;
}

static void serve(struct sim *sim, struct sim_entry *entry) {
  if (!sim_session_has(entry->what)) {
    sim_world_entry(sim, entry);
  } else if (sim->now_ns < sim->awake_ns) {
    entry->at_ns = sim->awake_ns;
    if (entry->what == SIM_LISTEN) entry->at_ns++; // after the signs themselves
    sim_agenda_put(&sim->agenda, *entry);
  } else {
    sim_session_entry(sim, entry);
  }
}

static void step(struct sim *sim) {
  const int64_t next_ns = sim_agenda_next_ns(&sim->agenda);
  const int64_t wake_ns = next_tick_ns(sim);
  struct sim_entry entry;
  if (wake_ns != SIM_NEVER && wake_ns <= next_ns &&
      !is_tick_late(sim, wake_ns, next_ns)) {
    if (wake_ns > sim->now_ns) sim->now_ns = wake_ns;
    sim_tick(sim);
  } else if (sim_agenda_take(&sim->agenda, &entry)) {
    if (entry.at_ns > sim->now_ns) sim->now_ns = entry.at_ns;
    serve(sim, &entry);
  } else {
    take_actions(sim, 0); // what was left in the queue
    sim_session_collect(sim);
    if (!sim->down_given) sim_fail(sim, "nothing will happen any more");
  }
}

static void play(struct sim *sim) {
  uint32_t tail = 0;
  mst_calls_begin(&sim->core, sim->now_ns, sim->deadline_ns, sim->plan.need);
  take_actions(sim, 0);
  while (!sim->failed && tail < TAIL_STEPS) {
    step(sim);
    if (sim->down_given) {
      tail++;
      if (sim->agenda.count == 0) return;
    } else if (sim->core.pool.phase != MST_POOL_DOWN &&
               sim->now_ns > sim_monitor_bound_ns(sim)) {
      sim_fail(sim, "the pool doesn't come down in time");
    } else if (sim->step > STEPS_MAX) {
      sim_fail(sim, "events without end");
    }
  }
}

// After a failed assertion the core is within a step: it is left as it is.
static void end_run(struct sim *sim) {
  sim_agenda_free(&sim->agenda);
  if (sim->failed) return;
  mst_calls_free(&sim->core);
  for (uint32_t i = 0; i < sim->call_count; i++) {
    if (sim->calls[i].task != NULL) mst_call_release(sim->calls[i].task);
  }
  if (sim->payload->refs != 1) sim_fail(sim, "a payload is still held");
  mst_blob_release(sim->payload);
}

// run plays one seed and gives the hash of all input and output.
static int run(uint64_t seed, int logging, uint64_t *hash) {
  static struct sim sim;
  memset(&sim, 0, sizeof sim);
  sim.seed = seed;
  sim.rng.state = seed;
  sim.hash = UINT64_C(0xCBF29CE484222325);
  sim.logging = logging;
  running = &sim;
  sim_world_begin(&sim);
  sim.deadline_ns = sim.plan.deadline_ns == SIM_NEVER
                        ? SIM_NEVER
                        : sim.start_ns + sim.plan.deadline_ns;
  sim.payload = mst_blob_new();
  if (mst_calls_init(&sim.core, sim.plan.count, sim.plan.window) != 0) {
    sim_fail(&sim, "mst_calls_init");
  }
  sim.core.tally.counts = &sim.counts;
  sim.core.policy = sim.plan.policy;
  sim.core.timeout_ns = sim.plan.timeout_ns;
  if (!sim.failed) sim_hosts_begin(&sim);
  if (sim.failed) {
    // nothing to play with
  } else if (setjmp(after_assert) == 0) {
    play(&sim);
  }
  end_run(&sim);
  *hash = sim.hash;
  return sim.failed;
}

// --- The verdict ---

static int run_twice(uint64_t seed) {
  uint64_t first, second;
  if (run(seed, 0, &first) || run(seed, 0, &second)) return 1;
  if (first == second) return 0;
  struct sim sim = {.seed = seed};
  sim_fail(&sim, "two runs of one seed differ");
  return 1;
}

static unsigned print_sights(uint64_t runs) {
  static const char *const names[] = {
#define SIGHT_TEXT(name) #name,
      SIM_SIGHTS(SIGHT_TEXT)};
  unsigned unseen = 0;
  (void)printf("sim: seen");
  for (unsigned k = 0; k < SIM_SIGHT_COUNT; k++) {
    (void)printf(" %s=%" PRIu64, names[k], sights[k]);
    if (sights[k] == 0) unseen++;
  }
  (void)printf("\n");
  if (runs < SIGHTS_RUNS || unseen == 0) return 0;
  (void)printf("sim: %u of the above never happened: the plans are too tame\n",
               unseen);
  return unseen;
}

static int run_many(uint64_t first, uint64_t runs, int few) {
  uint64_t failed = 0;
  for (uint64_t k = 0; k < runs && !(few && failed >= PRINTED_MAX); k++) {
    failed += (uint64_t)run_twice(first + k);
  }
  // All seeds are one test; that enough of them see each sight is another.
  const int judged = failed == 0 && runs >= SIGHTS_RUNS;
  const int blind = failed == 0 && print_sights(runs) > 0;
  (void)printf("sim: pool: %" PRIu64 " seeds, %" PRIu64 " failed\n", runs,
               failed);
  (void)printf("sim: pool: %d passed, %d failed, 0 skipped\n",
               (failed == 0) + (judged && !blind), (failed > 0) + blind);
  return failed > 0 || blind;
}

int main(int argc, char **argv) {
  uint64_t first = 1;
  uint64_t runs = 1;
  int logging = 0;
  int few = 0;
  for (int k = 1; k < argc; k++) {
    const int more = k + 1 < argc;
    if (strcmp(argv[k], "--log") == 0) {
      logging = 1;
    } else if (strcmp(argv[k], "--few") == 0) {
      few = 1;
    } else if (more && strcmp(argv[k], "--runs") == 0) {
      runs = strtoull(argv[++k], NULL, 0);
    } else if (more && (strcmp(argv[k], "--first") == 0 ||
                        strcmp(argv[k], "--seed") == 0)) {
      first = strtoull(argv[++k], NULL, 0);
    } else {
      (void)fprintf(stderr, "sim: can't read argument %s\n", argv[k]);
      return 2;
    }
  }
  const struct sigaction once = {.sa_handler = aborted,
                                 .sa_flags = (int)SA_RESETHAND};
  (void)sigaction(SIGABRT, &once, NULL);
  mst_thread_mark_r();
  mst_assert_on_failure(assert_failed);
  if (!logging) return run_many(first, runs, few);
  uint64_t hash;
  const int failed = run(first, 1, &hash);
  (void)printf("sim: seed %" PRIu64 ", hash %016" PRIx64 "\n", first, hash);
  return failed;
}
