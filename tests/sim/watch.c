// Intercepts the calls between the core of calls and the worker states and heal.c, at link time
// (--wrap). It also puts in deliberate bugs, see canary.h.
#include "canary.h"
#include "sim.h"

void __real_mst_pool_event(struct mst_pool *pool, const struct mst_event *event,
                           int64_t now_ns);
void __wrap_mst_pool_event(struct mst_pool *pool, const struct mst_event *event,
                           int64_t now_ns);
struct mst_worker *__real_mst_due_next(struct mst_due *due, enum mst_do *what);
struct mst_worker *__wrap_mst_due_next(struct mst_due *due, enum mst_do *what);
struct mst_worker *__real_mst_pool_next_due(struct mst_pool *pool,
                                            enum mst_do *what);
struct mst_worker *__wrap_mst_pool_next_due(struct mst_pool *pool,
                                            enum mst_do *what);
struct mst_worker *__real_mst_pool_next_launch(struct mst_pool *pool);
struct mst_worker *__wrap_mst_pool_next_launch(struct mst_pool *pool);
enum mst_do __real_mst_pool_next_word(struct mst_pool *pool);
enum mst_do __wrap_mst_pool_next_word(struct mst_pool *pool);
void __real_mst_heal_begin(struct mst_heal *heal, int64_t now_ns);
void __wrap_mst_heal_begin(struct mst_heal *heal, int64_t now_ns);
void __real_mst_heal_back(struct mst_heal *heal, int64_t now_ns);
void __wrap_mst_heal_back(struct mst_heal *heal, int64_t now_ns);
void __real_mst_heal_heard(struct mst_heal *heal, int64_t now_ns);
void __wrap_mst_heal_heard(struct mst_heal *heal, int64_t now_ns);
void __real_mst_heal_idle(struct mst_heal *heal);
void __wrap_mst_heal_idle(struct mst_heal *heal);
void __real_mst_heal_answered(struct mst_heal *heal);
void __wrap_mst_heal_answered(struct mst_heal *heal);
enum mst_heal_verdict __real_mst_heal_lost(struct mst_heal *heal,
                                           const struct mst_heal_policy *policy,
                                           enum mst_heal_at at,
                                           uint32_t *losses, int64_t now_ns);
enum mst_heal_verdict __wrap_mst_heal_lost(struct mst_heal *heal,
                                           const struct mst_heal_policy *policy,
                                           enum mst_heal_at at,
                                           uint32_t *losses, int64_t now_ns);
enum mst_beat __real_mst_heal_beat(struct mst_heal *heal,
                                   const struct mst_heal_policy *policy,
                                   int64_t slept_ns, int64_t now_ns);
enum mst_beat __wrap_mst_heal_beat(struct mst_heal *heal,
                                   const struct mst_heal_policy *policy,
                                   int64_t slept_ns, int64_t now_ns);

// ---- the worker states

void __wrap_mst_pool_event(struct mst_pool *pool, const struct mst_event *event,
                           int64_t now_ns) {
  struct sim *sim = sim_running();
  struct mst_event given = *event;
  sim->step++;
  sim->event_ns = sim->now_ns;
  if (!sim->noise) {
    sim_monitor_event(sim, event);
  } else if (event->worker < sim->plan.count) {
    sim_monitor_time(sim);
  }
  sim_log_event(sim, event, sim->noise);
  if (SIM_CANARY == 11 && given.kind == MST_EV_TICK) { // a restart before LOST
    canary_restart_early(pool);
  }
  if (SIM_CANARY == 1 && given.kind == MST_EV_EXITED) given.number++;
  __real_mst_pool_event(pool, &given, now_ns);
  if (SIM_CANARY == 2 && given.kind == MST_EV_READY) pool->in_flight++;
  if (SIM_CANARY == 3 && given.kind == MST_EV_EXITED) pool->wake_ns = SIM_NEVER;
  if (SIM_CANARY == 4 && given.kind == MST_EV_STOP) {
    mst_pool_begin(pool, now_ns, SIM_NEVER, 1); // fails an assertion
  }
  static unsigned stops; // something that doesn't depend on the seed
  if (SIM_CANARY == 9 && given.kind == MST_EV_STOP && stops++ % 2 == 0) {
    __real_mst_pool_event(pool, &(struct mst_event){.kind = MST_EV_TICK},
                          now_ns);
  }
}

static uint32_t taken; // things to do that mst_pool_next_due has looked at

struct mst_worker *__wrap_mst_due_next(struct mst_due *due, enum mst_do *what) {
  struct mst_worker *worker = __real_mst_due_next(due, what);
  taken += worker != NULL;
  return worker;
}

// judge: what the core is to do by its worker states.
static void judge(enum mst_do what, uint32_t worker) {
  struct sim *sim = sim_running();
  const struct mst_action action = {.kind = what, .worker = worker};
  sim_log_action(sim, &action);
  sim_monitor_action(sim, &action);
}

static int is_of_pool(const struct mst_worker *worker, enum mst_do what) {
  // It is asked for again while a lost worker waits for a launcher.
  if (what == MST_DO_JUDGE) return !worker->to_heal;
  return what == MST_DO_BYE || what == MST_DO_KILL || what == MST_DO_RESUME ||
         what == MST_DO_LEAVE;
}

static struct mst_worker *next_due(struct mst_pool *pool, enum mst_do *what) {
  struct mst_worker *worker = __real_mst_pool_next_due(pool, what);
  static uint32_t twice;
  if (worker == NULL) return NULL;
  if (SIM_CANARY == 5 && *what == MST_DO_JUDGE && twice++ == 0) {
    mst_due_add(&pool->due, worker, *what); // given twice
  }
  if (SIM_CANARY == 6 && *what == MST_DO_KILL) {
    return next_due(pool, what); // forgotten
  }
  if (SIM_CANARY == 7 && *what == MST_DO_BYE) {
    pool->end_due = 1; // STOPPED while all are alive
  }
  if (SIM_CANARY == 15 && *what == MST_DO_RESUME && worker->epoch > 0) {
    return next_due(pool, what); // never given
  }
  return worker;
}

struct mst_worker *__wrap_mst_pool_next_due(struct mst_pool *pool,
                                            enum mst_do *what) {
  taken = 0;
  struct mst_worker *worker = next_due(pool, what);
  if (taken > (worker != NULL)) sim_saw(SIM_SAW_action_dropped);
  if (worker == NULL) return NULL;
  if (is_of_pool(worker, *what)) judge(*what, worker->mailbox.worker);
  return worker;
}

struct mst_worker *__wrap_mst_pool_next_launch(struct mst_pool *pool) {
  struct mst_worker *worker = __real_mst_pool_next_launch(pool);
  if (worker == NULL) return NULL;
  if (SIM_CANARY == 8 && worker->mailbox.worker > 0) {
    pool->window++; // one too many in flight
  }
  judge(MST_DO_LAUNCH, worker->mailbox.worker);
  return worker;
}

enum mst_do __wrap_mst_pool_next_word(struct mst_pool *pool) {
  const enum mst_do what = __real_mst_pool_next_word(pool);
  if (what != 0) judge(what, 0);
  return what;
}

// ---- heal.c

static uint32_t worker_of(const struct sim *sim, const struct mst_heal *heal) {
  uint32_t i = 0;
  while (&sim->core.pool.workers[i]->heal != heal)
    i++;
  return i;
}

static void heard(const struct mst_heal *heal) {
  struct sim *sim = sim_running();
  sim->heard_ns[worker_of(sim, heal)] = sim->now_ns;
}

void __wrap_mst_heal_begin(struct mst_heal *heal, int64_t now_ns) {
  heard(heal);
  __real_mst_heal_begin(heal, now_ns);
}

void __wrap_mst_heal_back(struct mst_heal *heal, int64_t now_ns) {
  heard(heal);
  __real_mst_heal_back(heal, now_ns);
}

void __wrap_mst_heal_heard(struct mst_heal *heal, int64_t now_ns) {
  heard(heal);
  __real_mst_heal_heard(heal, now_ns);
}

void __wrap_mst_heal_idle(struct mst_heal *heal) {
  sim_ledger_idle(sim_running(), worker_of(sim_running(), heal));
  __real_mst_heal_idle(heal);
}

void __wrap_mst_heal_answered(struct mst_heal *heal) {
  sim_ledger_of_use(sim_running(), worker_of(sim_running(), heal));
  __real_mst_heal_answered(heal);
}

enum mst_heal_verdict __wrap_mst_heal_lost(struct mst_heal *heal,
                                           const struct mst_heal_policy *policy,
                                           enum mst_heal_at at,
                                           uint32_t *losses, int64_t now_ns) {
  struct sim *sim = sim_running();
  const uint32_t worker = worker_of(sim, heal);
  const struct mst_call *first = sim->core.pool.workers[worker]->mailbox.first;
  struct mst_heal_policy given = *policy;
  uint32_t none = 0;
  if (SIM_CANARY == 10) given.retries++;                  // a retry too many
  if (SIM_CANARY == 12 && losses != NULL) losses = &none; // never too many
  if (SIM_CANARY == 16 && at == MST_HEAL_IDLE) heal->deaths = 0; // no budget
  const enum mst_heal_verdict verdict =
      __real_mst_heal_lost(heal, &given, at, losses, now_ns);
  sim_ledger_lost(sim, worker, at,
                  at == MST_HEAL_EVALUATING ? (uint64_t)first->tag : 0,
                  verdict);
  sim_note(sim, "VERDICT", worker, verdict);
  if (verdict == MST_HEAL_POISON &&
      sim->core.pool.workers[worker]->mailbox.count > 1) {
    sim_saw(SIM_SAW_retried_behind_poison);
  }
  return verdict;
}

enum mst_beat __wrap_mst_heal_beat(struct mst_heal *heal,
                                   const struct mst_heal_policy *policy,
                                   int64_t slept_ns, int64_t now_ns) {
  if (SIM_CANARY == 13) slept_ns = 0; // judged although nobody listened
  const enum mst_beat beat =
      __real_mst_heal_beat(heal, policy, slept_ns, now_ns);
  if (policy->heartbeat_ns != SIM_NEVER) {
    sim_ledger_beat(sim_running(), worker_of(sim_running(), heal), beat);
  }
  return beat;
}
