// Intercepts the calls between the core of calls and the worker states and heal.c, at link time
// (--wrap). It also puts in deliberate bugs, see canary.h.
#include "canary.h"
#include "sim.h"

void __real_mst_pool_event(struct mst_pool *pool, const struct mst_event *event,
                           int64_t now_ns);
void __wrap_mst_pool_event(struct mst_pool *pool, const struct mst_event *event,
                           int64_t now_ns);
int __real_mst_pool_next_action(struct mst_pool *pool,
                                struct mst_action *action);
int __wrap_mst_pool_next_action(struct mst_pool *pool,
                                struct mst_action *action);
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

static int next_action(struct mst_pool *pool, struct mst_action *action) {
  static struct mst_action kept;
  if (SIM_CANARY == 5 && kept.kind == MST_DO_LOST) { // given twice
    *action = kept;
    kept.kind = MST_DO_STARTED;
    return 1;
  }
  const int got = __real_mst_pool_next_action(pool, action);
  if (!got) return 0;
  if (SIM_CANARY == 5) kept = *action;
  if (SIM_CANARY == 6 && action->kind == MST_DO_KILL) {
    return __real_mst_pool_next_action(pool, action); // forgotten
  }
  if (SIM_CANARY == 7 && action->kind == MST_DO_BYE) {
    action->kind = MST_DO_STOPPED; // while all are alive
  }
  if (SIM_CANARY == 8 && action->kind == MST_DO_LAUNCH) {
    if (action->worker > 0) pool->window++; // one too many in flight
  }
  if (SIM_CANARY == 15 && action->kind == MST_DO_RESTARTED) { // never given
    return __real_mst_pool_next_action(pool, action);
  }
  return 1;
}

int __wrap_mst_pool_next_action(struct mst_pool *pool,
                                struct mst_action *action) {
  struct sim *sim = sim_running();
  const size_t queued = pool->action_count;
  const int got = next_action(pool, action);
  if (queued > pool->action_count + (size_t)got) {
    sim_saw(SIM_SAW_action_dropped);
  }
  if (!got) return 0;
  sim_log_action(sim, action);
  sim_monitor_action(sim, action);
  return 1;
}

// ---- heal.c

static uint32_t worker_of(const struct sim *sim, const struct mst_heal *heal) {
  uint32_t i = 0;
  while (&sim->core.slots[i]->heal != heal)
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
  const struct mst_call *first = sim->core.slots[worker]->mailbox.first;
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
      sim->core.slots[worker]->mailbox.count > 1) {
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
