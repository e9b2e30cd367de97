// The invariants of a pool, in words. Only tests call mst_pool_check(), after every event: it costs
// O(workers).
//
// The order is: counts of the pool, its phase, then each worker's flags among themselves, with its
// state, and with the phase. The first broken invariant is returned.
#include "pool/state_int.h"

static const char *check_flags(const struct mst_worker *worker) {
  if (!worker->launched) {
    const int touched = worker->pid != 0 || worker->owed > 0 ||
                        worker->awaited || worker->exit_known ||
                        worker->killed || worker->channel || worker->queued ||
                        worker->drains || worker->lost_given ||
                        worker->kill_ns != NEVER;
    if (touched) return "a worker that was not launched has a past";
    if (worker->state != MST_WORKER_NONE) {
      return "a worker that was not launched has a state";
    }
    return NULL;
  }
  if (worker->awaited && worker->exit_known) return "a known end is awaited";
  if (worker->has_process != (worker->awaited && worker->pid != 0)) {
    return "has_process disagrees with what is known";
  }
  if (worker->killed && worker->pid == 0) return "killed without a pid";
  if (worker->killed && worker->kill_ns == NEVER) return "killed at no time";
  if (worker->again && worker->state != MST_WORKER_LOST &&
      worker->state != MST_WORKER_LEFT) {
    return "a worker is to come back that is not lost";
  }
  if (worker->again && worker->state == MST_WORKER_LOST &&
      !worker->lost_given) {
    return "a worker is to come back whose loss was not given";
  }
  if (worker->pid != 0 && worker->kill_ns != NEVER && !worker->killed &&
      !worker->exit_known) {
    return "a process that is to be killed was not";
  }
  if (worker->state == MST_WORKER_LOST && worker->drains &&
      worker->lost_given && worker->owed == 0) {
    return "a drained worker that owed nothing was lost";
  }
  return NULL;
}

static const char *check_state(const struct mst_worker *worker) {
  const int owes = worker->owed > 0;
  switch (worker->state) {
  case MST_WORKER_STARTING:
    if (worker->epoch > 0) return "a later incarnation is starting";
    if (owes) return "a worker that is starting owes an answer";
    break;
  case MST_WORKER_RESTARTING:
    if (worker->epoch == 0) return "the first incarnation is restarting";
    if (worker->restart_ns == NEVER) return "a restart without a limit";
    if (owes) return "a worker that is restarting owes an answer";
    break;
  case MST_WORKER_IDLE:
    if (owes) return "a worker that is not busy owes an answer";
    break;
  case MST_WORKER_BUSY:
    if (!owes) return "a busy worker owes no answer";
    break;
  case MST_WORKER_PENDING:
    if (!worker->queued || worker->pid != 0) return "pending in no queue";
    if (worker->restart_ns != NEVER) return "a pending worker has a limit";
    if (owes) return "a worker that is pending owes an answer";
    break;
  case MST_WORKER_DRAINING:
    if (!worker->drains) return "a worker drains unasked";
    if (owes != (worker->stop_ns == NEVER)) {
      return owes ? "a draining worker is to end before it is done"
                  : "a drained worker was not asked to end";
    }
    break;
  case MST_WORKER_LEFT:
    if (owes) return "a worker left that owes an answer";
    return worker->lost_given ? "a lost worker has left" : NULL;
  case MST_WORKER_LOST:
    return NULL;
  case MST_WORKER_STOPPED:
    if (!worker->exit_known) return "a stopped worker's end is not known";
    return worker->lost_given ? "a lost worker is stopped" : NULL;
  case MST_WORKER_NONE:
    return worker->launched ? "a launched worker has no state" : NULL;
  }
  if (!worker->awaited) return "the end of a live worker is not awaited";
  return worker->lost_given ? "a live worker was given as lost" : NULL;
}

static const char *check_going_up(const struct mst_pool *pool,
                                  const struct mst_worker *worker) {
  const enum mst_worker_state state = worker->state;
  const int retired = worker->stop_ns != NEVER;
  if (state == MST_WORKER_STOPPED) {
    return retired ? NULL : "stopped in a pool that goes up";
  }
  if (pool->phase == MST_POOL_STARTING) {
    const int fits = state == MST_WORKER_NONE || state == MST_WORKER_STARTING ||
                     state == MST_WORKER_IDLE || state == MST_WORKER_PENDING ||
                     state == MST_WORKER_LOST;
    if (!fits) return "a start goes on without one of its workers";
  } else if ((state == MST_WORKER_NONE || state == MST_WORKER_STARTING) &&
             pool->need == pool->count) {
    return "the pool runs before all are ready";
  }
  if (pool->phase == MST_POOL_RUNNING && state == MST_WORKER_STARTING &&
      worker->restart_ns == NEVER) {
    return "a worker joins without a limit";
  }
  if (state == MST_WORKER_LOST && retired) {
    return worker->awaited ? "a retired worker was lost" : NULL; // given up
  }
  if (state == MST_WORKER_LOST || state == MST_WORKER_LEFT) {
    const int told = !worker->channel && worker->exit_known;
    if (told && !worker->lost_given && state == MST_WORKER_LOST &&
        pool->phase == MST_POOL_RUNNING) {
      return "a known loss was not given";
    }
    if (worker->awaited && worker->kill_ns == NEVER) {
      return "the process of a lost worker was left alone";
    }
  } else if (state != MST_WORKER_NONE && !worker->channel && !retired) {
    return "a live worker's channel has ended";
  }
  return NULL;
}

static const char *check_going_down(const struct mst_pool *pool,
                                    const struct mst_worker *worker) {
  if (pool->phase == MST_POOL_FAILING && worker->awaited &&
      worker->kill_ns == NEVER) {
    return "a process is left alone in a take-down";
  }
  if (pool->fail != MST_FAIL_NONE && worker->lost_given) {
    return "JUDGE was given in a start that failed";
  }
  if (worker->lost_ns != NEVER && !worker->lost_given) {
    return "a stop has swallowed a loss";
  }
  if (pool->phase != MST_POOL_DOWN) return NULL;
  return mst_worker_is_live(worker) ? "a worker lives in a pool that is down"
                                    : NULL;
}

static const char *check_worker(const struct mst_pool *pool, uint32_t index) {
  const struct mst_worker *worker = pool->workers[index];
  // Beyond `next` only workers that a partly started pool has ended, or grown ones.
  const int early = index >= pool->next && pool->phase != MST_POOL_STARTING &&
                    index != pool->next;
  if (worker->launched != (index < pool->next) && !early) {
    return "workers are not launched in their order";
  }
  const char *broken = check_flags(worker);
  if (broken == NULL) broken = check_state(worker);
  if (broken != NULL || pool->phase == MST_POOL_NEW) return broken;
  const int up =
      pool->phase == MST_POOL_STARTING || pool->phase == MST_POOL_RUNNING;
  return up ? check_going_up(pool, worker) : check_going_down(pool, worker);
}

static const char *check_counts(const struct mst_pool *pool) {
  uint32_t starting = 0;
  uint32_t processes = 0;
  uint32_t awaited = 0;
  uint32_t again = 0;
  uint32_t queued = 0;
  uint32_t launched = 0;
  for (uint32_t i = 0; i < pool->count; i++) {
    const int on_its_way = pool->workers[i]->state == MST_WORKER_STARTING ||
                           pool->workers[i]->state == MST_WORKER_RESTARTING ||
                           pool->workers[i]->state == MST_WORKER_PENDING;
    starting += on_its_way && !pool->workers[i]->queued;
    queued += on_its_way && pool->workers[i]->queued;
    launched += pool->workers[i]->launched;
    again += pool->workers[i]->again;
    processes += pool->workers[i]->has_process;
    awaited += pool->workers[i]->awaited;
  }
  if (pool->in_flight != starting) return "in_flight disagrees with states";
  if (pool->queued != queued) return "queued disagrees with states";
  if (pool->processes != processes) return "processes disagrees with workers";
  if (pool->awaited != awaited) return "awaited disagrees with workers";
  if (pool->again != again) return "again disagrees with workers";
  if (pool->again > 0 && pool->phase != MST_POOL_RUNNING) {
    return "a worker is to come back to a pool that doesn't run";
  }
  if (pool->in_flight > pool->window) return "more in flight than the window";
  if (pool->next > pool->count) return "more launched than there are";
  if (pool->ready > launched) return "more ready than launched";
  return NULL;
}

static const char *check_phase(const struct mst_pool *pool) {
  const int failed = pool->fail != MST_FAIL_NONE;
  switch (pool->phase) {
  case MST_POOL_NEW:
    return pool->next == 0 ? NULL : "launched before the start";
  case MST_POOL_STARTING:
    if (failed) return "a start goes on after a failure";
    if (pool->count - pool->gone < pool->need) {
      return "a start goes on that can't succeed";
    }
    return pool->ready < pool->need ? NULL : "all are ready, yet starting";
  case MST_POOL_RUNNING:
    if (failed) return "the pool runs after a failed start";
    return pool->ready >= pool->need ? NULL : "the pool runs half ready";
  case MST_POOL_FAILING:
    return failed ? NULL : "a take-down without a reason";
  case MST_POOL_STOPPING:
    return failed ? "a failed start is stopping" : NULL;
  case MST_POOL_DOWN:
    return pool->awaited == 0 ? NULL : "a process in a pool that is down";
  }
  return "no such phase";
}

const char *mst_pool_check(const struct mst_pool *pool) {
  const char *broken = check_counts(pool);
  if (broken == NULL) broken = check_phase(pool);
  for (uint32_t i = 0; i < pool->count && broken == NULL; i++) {
    broken = check_worker(pool, i);
  }
  if (broken != NULL) return broken;
  return pool->wake_ns <= mst_pool_due_ns(pool) ? NULL
                                                : "a limit passes unwatched";
}
