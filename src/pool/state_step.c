// Small steps of a pool's events, see state.c.
#include "base/mst_assert.h"
#include "pool/state_int.h"

void mst_pool_arm(struct mst_pool *pool, int64_t at_ns) {
  if (at_ns < pool->wake_ns) pool->wake_ns = at_ns;
}

void mst_pool_give(struct mst_pool *pool, enum mst_action_kind kind,
                   uint32_t worker) {
  MST_ASSERT(pool->action_count < pool->action_cap);
  const size_t at = (pool->action_head + pool->action_count) % pool->action_cap;
  pool->actions[at] = (struct mst_action){kind, worker};
  pool->action_count++;
}

// is_on_its_way: launched, neither ready nor ended.
int mst_worker_is_on_its_way(enum mst_worker_state state) {
  return state == MST_WORKER_STARTING || state == MST_WORKER_RESTARTING ||
         state == MST_WORKER_PENDING;
}

void mst_pool_set_state(struct mst_pool *pool, struct mst_worker *worker,
                        enum mst_worker_state state) {
  MST_ASSERT(worker->state != state);
  uint32_t *on_its_way = worker->queued ? &pool->queued : &pool->in_flight;
  if (mst_worker_is_on_its_way(worker->state)) {
    MST_ASSERT(*on_its_way > 0);
    (*on_its_way)--;
  }
  if (mst_worker_is_on_its_way(state)) (*on_its_way)++;
  worker->state = state;
}

void mst_pool_ask_again(struct mst_pool *pool, struct mst_worker *worker,
                        uint8_t again) {
  if (worker->again == again) return;
  worker->again = again;
  pool->again += again ? 1u : UINT32_MAX; // or one less
}

// await_no_more: it ended, never started, or is given up.
void mst_pool_await_no_more(struct mst_pool *pool, struct mst_worker *worker) {
  if (!worker->awaited) return; // already given up
  MST_ASSERT(pool->awaited > 0);
  worker->awaited = 0;
  pool->awaited--;
  if (!worker->has_process) return;
  MST_ASSERT(pool->processes > 0);
  worker->has_process = 0;
  pool->processes--;
}

void mst_pool_give_kill(struct mst_pool *pool, uint32_t index) {
  MST_ASSERT(pool->workers[index].pid != 0);
  MST_ASSERT(!pool->workers[index].killed);
  pool->workers[index].killed = 1;
  mst_pool_give(pool, MST_DO_KILL, index);
}

// mst_pool_want_kill ends a worker's process: now if its pid is known, else on FORKED. Its time
// limit for being reaped starts now.
void mst_pool_want_kill(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  if (!worker->awaited || worker->kill_ns != NEVER) return;
  worker->kill_ns = now_ns;
  mst_pool_arm(pool, now_ns + MST_REAP_NS);
  if (worker->pid != 0) mst_pool_give_kill(pool, index);
}

void mst_pool_give_lost(struct mst_pool *pool, uint32_t index) {
  struct mst_worker *worker = &pool->workers[index];
  MST_ASSERT(worker->state == MST_WORKER_LOST);
  if (worker->lost_given) return;
  if (worker->drains && worker->owed == 0) {
    worker->lost_ns = NEVER;
    mst_pool_set_state(pool, worker, MST_WORKER_LEFT);
    return;
  }
  worker->lost_given = 1;
  mst_pool_give(pool, MST_DO_LOST, index);
}

// say_bye asks a worker to end, once; its limits start now.
void mst_pool_say_bye(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  if (worker->stop_ns != NEVER) return;
  worker->stop_ns = now_ns;
  mst_pool_arm(pool, now_ns + MST_STOP_BUSY_NS);
  mst_pool_give(pool, MST_DO_BYE, index);
}
