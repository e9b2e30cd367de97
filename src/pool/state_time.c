// The limits of a pool: until when something must happen. See state.h.
#include "pool/state_int.h"

// words_due_ns: a worker that failed the start by ending may have written the reason (FAILED) just
// before. Until this time its channel is read for that. NEVER: nothing to wait for.
int64_t mst_pool_words_due_ns(const struct mst_pool *pool) {
  if (pool->phase != MST_POOL_FAILING) return NEVER;
  if (pool->fail != MST_FAIL_EXITED) return NEVER;
  const struct mst_worker *worker = pool->workers[pool->fail_worker];
  return worker->channel ? pool->stop_ns + MST_NEWS_NS : NEVER;
}

int64_t mst_pool_news_due_ns(const struct mst_pool *pool,
                             const struct mst_worker *worker) {
  if (pool->phase != MST_POOL_RUNNING) return NEVER;
  // Without lost_ns: given up while it was being retired.
  if (worker->lost_ns == NEVER || worker->lost_given) return NEVER;
  if (worker->awaited && !worker->presumed) return NEVER;
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
  if (worker->stop_ns != NEVER || worker->restart_ns == NEVER) return NEVER;
  if (worker->state != MST_WORKER_RESTARTING &&
      worker->state != MST_WORKER_STARTING) {
    return NEVER;
  }
  // During the start only workers from a queue have this limit.
  const int starting = pool->phase == MST_POOL_STARTING && worker->queued;
  if (!starting && pool->phase != MST_POOL_RUNNING) return NEVER;
  return worker->restart_ns + MST_RESTART_NS;
}

int64_t mst_pool_start_due_ns(const struct mst_pool *pool) {
  if (pool->phase != MST_POOL_STARTING) return NEVER;
  const uint64_t due_later = (uint64_t)pool->ready + pool->queued;
  return due_later < pool->need ? pool->deadline_ns : NEVER;
}

int64_t mst_pool_due_ns(const struct mst_pool *pool) {
  int64_t due = mst_pool_start_due_ns(pool);
  for (uint32_t i = 0; i < pool->count; i++) {
    const struct mst_worker *worker = pool->workers[i];
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
