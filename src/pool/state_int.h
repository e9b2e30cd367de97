// What state.c and state_check.c share.
#ifndef MST_POOL_STATE_INT_H
#define MST_POOL_STATE_INT_H

#include "pool/state.h"

#define NEVER INT64_MAX

// mst_pool_due_ns gives the time of the next limit exactly, in O(workers);
// wake_ns of the pool is never later.
int64_t mst_pool_due_ns(const struct mst_pool *pool);

// The limits of one worker, or of the pool; NEVER where none runs.
int64_t mst_pool_news_due_ns(const struct mst_pool *pool,
                             const struct mst_worker *worker);
int64_t mst_pool_kill_due_ns(const struct mst_pool *pool,
                             const struct mst_worker *worker);
int64_t mst_pool_reap_due_ns(const struct mst_worker *worker);
int64_t mst_pool_restart_due_ns(const struct mst_pool *pool,
                                const struct mst_worker *worker);
int64_t mst_pool_words_due_ns(const struct mst_pool *pool);

// mst_pool_begin_worker makes an incarnation that is not launched yet.
void mst_pool_begin_worker(struct mst_worker *worker, uint32_t epoch);

#endif
