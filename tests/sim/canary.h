// Deliberate bugs. -DSIM_CANARY=n puts bug n between the simulation and the
// pool or heal.c; a simulation that doesn't find it is blind. Without it these
// are the plain calls. Bug 14 is in session.c: news are not told apart by epoch.
#ifndef MST_SIM_CANARY_H
#define MST_SIM_CANARY_H

#include "sim.h"

#ifndef SIM_CANARY
#define SIM_CANARY 0
#endif

static inline void canary_event(struct mst_pool *pool,
                                const struct mst_event *event, int64_t now_ns) {
  struct mst_event given = *event;
  if (SIM_CANARY == 11 && given.kind == MST_EV_TICK) { // a restart before LOST
    for (uint32_t i = 0; i < pool->count; i++) {
      struct mst_worker *worker = &pool->workers[i];
      if (worker->state != MST_WORKER_LOST || worker->lost_given) continue;
      if (pool->phase != MST_POOL_RUNNING) continue;
      worker->lost_given = worker->again = 1;
      pool->again++;
    }
  }
  if (SIM_CANARY == 1 && given.kind == MST_EV_EXITED) given.number++;
  mst_pool_event(pool, &given, now_ns);
  if (SIM_CANARY == 2 && given.kind == MST_EV_READY) pool->in_flight++;
  if (SIM_CANARY == 3 && given.kind == MST_EV_EXITED) pool->wake_ns = SIM_NEVER;
  if (SIM_CANARY == 4 && given.kind == MST_EV_STOP) {
    mst_pool_start(pool, now_ns, SIM_NEVER); // an assertion says no
  }
  static unsigned stops; // something that the seed doesn't fix
  if (SIM_CANARY == 9 && given.kind == MST_EV_STOP && stops++ % 2 == 0) {
    mst_pool_event(pool, &(struct mst_event){.kind = MST_EV_TICK}, now_ns);
  }
}

static inline int canary_next_action(struct mst_pool *pool,
                                     struct mst_action *action) {
  static struct mst_action kept;
  if (SIM_CANARY == 5 && kept.kind == MST_DO_LOST) { // said twice
    *action = kept;
    kept.kind = MST_DO_STARTED;
    return 1;
  }
  const int got = mst_pool_next_action(pool, action);
  if (!got) return 0;
  if (SIM_CANARY == 5) kept = *action;
  if (SIM_CANARY == 6 && action->kind == MST_DO_KILL) {
    return mst_pool_next_action(pool, action); // forgotten
  }
  if (SIM_CANARY == 7 && action->kind == MST_DO_BYE) {
    action->kind = MST_DO_STOPPED; // while all still live
  }
  if (SIM_CANARY == 8 && action->kind == MST_DO_LAUNCH) {
    if (action->worker > 0) pool->window++; // one too many in flight
  }
  if (SIM_CANARY == 15 && action->kind == MST_DO_RESTARTED) { // never said
    return mst_pool_next_action(pool, action);
  }
  return 1;
}

static inline enum mst_heal_verdict
canary_heal_lost(struct mst_heal *heal, const struct mst_heal_policy *policy,
                 int evaluating, int64_t now_ns) {
  struct mst_heal_policy given = *policy;
  if (SIM_CANARY == 10) given.retries++;                 // a retry too many
  if (SIM_CANARY == 16 && !evaluating) heal->deaths = 0; // no budget
  return mst_heal_lost(heal, &given, evaluating, now_ns);
}

static inline void canary_heal_answered(struct mst_heal *heal) {
  const uint32_t attempt = heal->attempt;
  mst_heal_answered(heal);
  if (SIM_CANARY == 12) heal->attempt = attempt; // the next call pays for it
}

static inline enum mst_beat
canary_heal_beat(struct mst_heal *heal, const struct mst_heal_policy *policy,
                 int64_t slept_ns, int64_t now_ns) {
  if (SIM_CANARY == 13) slept_ns = 0; // judged although nobody listened
  return mst_heal_beat(heal, policy, slept_ns, now_ns);
}

#endif
