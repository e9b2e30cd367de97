// Small steps of a pool's events; and what a pool has to do: what is due for its workers, and
// LAUNCH, which is made when nothing else is due. See state.c.
#include "base/mst_assert.h"
#include "pool/state_int.h"

void mst_pool_arm(struct mst_pool *pool, int64_t at_ns) {
  if (at_ns < pool->wake_ns) pool->wake_ns = at_ns;
}

void mst_pool_give(struct mst_pool *pool, enum mst_do what, uint32_t index) {
  mst_due_add(&pool->due, pool->workers[index], what);
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
  if (state != MST_WORKER_LEFT) return;
  worker->channel = 0;
  mst_due_add(&pool->due, worker, MST_DO_LEAVE);
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
  MST_ASSERT(pool->workers[index]->pid != 0);
  MST_ASSERT(!pool->workers[index]->killed);
  pool->workers[index]->killed = 1;
  mst_pool_give(pool, MST_DO_KILL, index);
}

// mst_pool_want_kill ends a worker's process: now if its pid is known, else on FORKED. Its time
// limit for being reaped starts now.
void mst_pool_want_kill(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  if (!worker->awaited || worker->kill_ns != NEVER) return;
  worker->kill_ns = now_ns;
  mst_pool_arm(pool, now_ns + MST_REAP_NS);
  if (worker->pid != 0) mst_pool_give_kill(pool, index);
}

void mst_pool_give_lost(struct mst_pool *pool, uint32_t index) {
  struct mst_worker *worker = pool->workers[index];
  MST_ASSERT(worker->state == MST_WORKER_LOST);
  if (worker->lost_given) return;
  if (worker->drains && worker->owed == 0) {
    worker->lost_ns = NEVER;
    mst_pool_set_state(pool, worker, MST_WORKER_LEFT);
    return;
  }
  worker->lost_given = 1;
  worker->channel = 0; // a grandchild may hold it
  mst_pool_give(pool, MST_DO_JUDGE, index);
}

// say_bye asks a worker to end, once; its limits start now.
void mst_pool_say_bye(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  if (worker->stop_ns != NEVER) return;
  worker->stop_ns = now_ns;
  mst_pool_arm(pool, now_ns + MST_STOP_BUSY_NS);
  mst_pool_give(pool, MST_DO_BYE, index);
}

// ---- what is to be done

static int is_stale(const struct mst_worker *worker, enum mst_do what) {
  // The pid of a reaped process may belong to another process by now.
  if (what == MST_DO_KILL) return worker->exit_known;
  if (what == MST_DO_BYE) return !worker->channel;
  return what == MST_DO_RESUME && worker->state != MST_WORKER_IDLE &&
         worker->state != MST_WORKER_DRAINING;
}

struct mst_worker *mst_pool_next_due(struct mst_pool *pool, enum mst_do *what) {
  struct mst_worker *worker;
  do {
    worker = mst_due_next(&pool->due, what);
  } while (worker != NULL && is_stale(worker, *what));
  return worker;
}

enum mst_do mst_pool_next_word(struct mst_pool *pool) {
  if (pool->started_due) {
    pool->started_due = 0;
    return MST_DO_STARTED;
  }
  if (!pool->end_due || pool->due.first != NULL) return 0;
  pool->end_due = 0;
  return pool->fail == MST_FAIL_NONE ? MST_DO_STOPPED : MST_DO_START_FAILED;
}

static struct mst_worker *launch(struct mst_pool *pool,
                                 struct mst_worker *worker,
                                 enum mst_worker_state state) {
  mst_pool_set_state(pool, worker, state);
  worker->launched = 1;
  worker->awaited = 1;
  worker->channel = 1;
  pool->awaited++;
  if (pool->phase == MST_POOL_RUNNING) {
    worker->restart_ns = pool->now_ns;
    mst_pool_arm(pool, pool->now_ns + MST_RESTART_NS);
  }
  return worker;
}

// next_again launches the first requested incarnation. If the last one was given as lost and isn't
// reaped yet, it was killed, and nobody waits for it any more.
static struct mst_worker *next_again(struct mst_pool *pool) {
  if (pool->phase != MST_POOL_RUNNING || pool->again == 0) return NULL;
  if (pool->in_flight >= pool->window) return NULL;
  uint32_t i = 0;
  while (!pool->workers[i]->again)
    i++;
  struct mst_worker *worker = pool->workers[i];
  mst_pool_ask_again(pool, worker, 0);
  mst_pool_await_no_more(pool, worker);
  mst_pool_begin_worker(worker, worker->epoch + 1);
  return launch(pool, worker, MST_WORKER_RESTARTING);
}

struct mst_worker *mst_pool_next_launch(struct mst_pool *pool) {
  MST_ASSERT(pool->due.first == NULL);
  struct mst_worker *worker = next_again(pool);
  if (worker != NULL) return worker;
  if (pool->phase != MST_POOL_STARTING && pool->phase != MST_POOL_RUNNING) {
    return NULL;
  }
  if (pool->next == pool->count || pool->in_flight >= pool->window) return NULL;
  worker = launch(pool, pool->workers[pool->next], MST_WORKER_STARTING);
  mst_pool_skip_launched(pool);
  return worker;
}

int64_t mst_pool_wake_ns(const struct mst_pool *pool) { return pool->wake_ns; }
