// The limits of a pool: when something must have happened. See state.h.
#include "pool/state_int.h"

// words_due_ns: a worker that failed the start by ending may have written why
// (FAILED) just before; what its channel holds is waited for until this time.
// NEVER if no words are awaited.
int64_t mst_pool_words_due_ns(const struct mst_pool *pool) {
  if (pool->phase != MST_POOL_FAILING) return NEVER;
  if (pool->fail != MST_FAIL_EXITED) return NEVER;
  const struct mst_worker *worker = &pool->workers[pool->fail_worker];
  return worker->channel_open ? pool->stop_ns + MST_NEWS_NS : NEVER;
}

int64_t mst_pool_news_due_ns(const struct mst_pool *pool,
                             const struct mst_worker *worker) {
  if (pool->phase != MST_POOL_RUNNING) return NEVER;
  // Lost and never so noted: given up while it was being retired.
  if (worker->lost_ns == NEVER || worker->lost_given) return NEVER;
  return worker->lost_ns + MST_NEWS_NS;
}

int64_t mst_pool_kill_due_ns(const struct mst_pool *pool,
                             const struct mst_worker *worker) {
  if (pool->phase == MST_POOL_FAILING || worker->stop_ns == NEVER) return NEVER;
  if (!worker->awaited || worker->kill_ns != NEVER) return NEVER;
  const int busy = worker->state == MST_WORKER_BUSY;
  return worker->stop_ns + (busy ? MST_STOP_BUSY_NS : MST_STOP_GRACE_NS);
}

int64_t mst_pool_reap_due_ns(const struct mst_worker *worker) {
  if (!worker->awaited || worker->kill_ns == NEVER) return NEVER;
  return worker->kill_ns + MST_REAP_NS;
}

int64_t mst_pool_restart_due_ns(const struct mst_pool *pool,
                                const struct mst_worker *worker) {
  if (pool->phase != MST_POOL_RUNNING || worker->stop_ns != NEVER) return NEVER;
  if (worker->state != MST_WORKER_RESTARTING) return NEVER;
  return worker->restart_ns + MST_RESTART_NS;
}

int64_t mst_pool_due_ns(const struct mst_pool *pool) {
  int64_t due = NEVER;
  if (pool->phase == MST_POOL_STARTING) due = pool->deadline_ns;
  for (uint32_t i = 0; i < pool->next; i++) {
    const struct mst_worker *worker = &pool->workers[i];
    const int64_t news = mst_pool_news_due_ns(pool, worker);
    const int64_t kill = mst_pool_kill_due_ns(pool, worker);
    const int64_t reap = mst_pool_reap_due_ns(worker);
    const int64_t restart = mst_pool_restart_due_ns(pool, worker);
    if (restart < due) due = restart;
    if (news < due) due = news;
    if (kill < due) due = kill;
    if (reap < due) due = reap;
  }
  if (pool->awaited == 0) {
    const int64_t words = mst_pool_words_due_ns(pool);
    if (words < due) due = words;
  }
  return due;
}
