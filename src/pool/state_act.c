// The actions of a pool: the oldest of the queue, and LAUNCH, which is made when the queue is
// empty. See state.c.
#include "base/mst_assert.h"
#include "pool/state_int.h"

static int is_stale(const struct mst_pool *pool,
                    const struct mst_action *action) {
  const struct mst_worker *worker = &pool->workers[action->worker];
  // The pid of a reaped process may belong to another process by now.
  if (action->kind == MST_DO_KILL) return worker->exit_known;
  if (action->kind == MST_DO_BYE) return !worker->channel;
  if (action->kind == MST_DO_RESTARTED || action->kind == MST_DO_JOINED) {
    return worker->state != MST_WORKER_IDLE &&
           worker->state != MST_WORKER_DRAINING;
  }
  return 0;
}

static int next_queued(struct mst_pool *pool, struct mst_action *action) {
  while (pool->action_count > 0) {
    const struct mst_action oldest = pool->actions[pool->action_head];
    pool->action_head = (pool->action_head + 1) % pool->action_cap;
    pool->action_count--;
    if (is_stale(pool, &oldest)) continue;
    *action = oldest;
    return 1;
  }
  return 0;
}

static void launch(struct mst_pool *pool, uint32_t index,
                   enum mst_worker_state state, struct mst_action *action) {
  struct mst_worker *worker = &pool->workers[index];
  mst_pool_set_state(pool, worker, state);
  worker->launched = 1;
  worker->awaited = 1;
  worker->channel = 1;
  pool->awaited++;
  if (pool->phase == MST_POOL_RUNNING) {
    worker->restart_ns = pool->now_ns;
    mst_pool_arm(pool, pool->now_ns + MST_RESTART_NS);
  }
  *action = (struct mst_action){MST_DO_LAUNCH, index};
}

// next_again launches the first requested incarnation. If the last one was given as lost and isn't
// reaped yet, it was killed, and nobody waits for it any more.
static int next_again(struct mst_pool *pool, struct mst_action *action) {
  if (pool->phase != MST_POOL_RUNNING || pool->again == 0) return 0;
  if (pool->in_flight >= pool->window) return 0;
  uint32_t i = 0;
  while (!pool->workers[i].again)
    i++;
  struct mst_worker *worker = &pool->workers[i];
  mst_pool_ask_again(pool, worker, 0);
  mst_pool_await_no_more(pool, worker);
  mst_pool_begin_worker(worker, worker->epoch + 1);
  launch(pool, i, MST_WORKER_RESTARTING, action);
  return 1;
}

static int next_launch(struct mst_pool *pool, struct mst_action *action) {
  if (next_again(pool, action)) return 1;
  if (pool->phase != MST_POOL_STARTING && pool->phase != MST_POOL_RUNNING) {
    return 0;
  }
  if (pool->next == pool->count || pool->in_flight >= pool->window) return 0;
  launch(pool, pool->next, MST_WORKER_STARTING, action);
  mst_pool_skip_launched(pool);
  return 1;
}

int mst_pool_next_action(struct mst_pool *pool, struct mst_action *action) {
  return next_queued(pool, action) || next_launch(pool, action);
}

int64_t mst_pool_wake_ns(const struct mst_pool *pool) { return pool->wake_ns; }
