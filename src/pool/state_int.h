// What state.c and state_check.c share.
#ifndef MST_POOL_STATE_INT_H
#define MST_POOL_STATE_INT_H

#include "pool/state.h"

#define NEVER INT64_MAX

// mst_pool_due_ns gives the time of the next limit exactly, in O(workers);
// wake_ns of the pool is never later.
int64_t mst_pool_due_ns(const struct mst_pool *pool);

#endif
