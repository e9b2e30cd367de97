// The memory of a pool: its workers, and an action queue that never runs out, see the bound at the
// top of state.c.
#include <stdlib.h>
#include <string.h>

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "pool/state_int.h"

#define ACTIONS_PER_WORKER 3u
#define ACTIONS_OF_POOL 2u

// mst_pool_begin_worker sets up an incarnation that isn't launched yet.
void mst_pool_begin_worker(struct mst_worker *worker, uint32_t epoch) {
  const uint64_t done = worker->done;
  *worker = (struct mst_worker){.epoch = epoch,
                                .done = done,
                                .lost_ns = NEVER,
                                .stop_ns = NEVER,
                                .kill_ns = NEVER,
                                .restart_ns = NEVER};
}

int mst_worker_is_live(const struct mst_worker *worker) {
  switch (worker->state) {
  case MST_WORKER_STARTING:
  case MST_WORKER_IDLE:
  case MST_WORKER_BUSY:
  case MST_WORKER_RESTARTING:
  case MST_WORKER_PENDING:
  case MST_WORKER_DRAINING:
    return 1;
  case MST_WORKER_NONE:
  case MST_WORKER_LOST:
  case MST_WORKER_STOPPED:
  case MST_WORKER_LEFT:
    break;
  }
  return 0;
}

void mst_pool_skip_launched(struct mst_pool *pool) {
  while (pool->next < pool->count && pool->workers[pool->next].launched)
    pool->next++;
}

static int actions_for(uint32_t count, size_t *cap) {
  *cap = ACTIONS_OF_POOL;
  for (uint32_t k = 0; k < ACTIONS_PER_WORKER; k++) {
    if (mst_size_add(*cap, count, cap) != 0) return -MST_EMEM;
  }
  return 0;
}

int mst_pool_init(struct mst_pool *pool, uint32_t count, uint32_t window) {
  memset(pool, 0, sizeof *pool);
  if (count == 0 || window == 0) return -MST_EINPUT;
  size_t cap;
  if (actions_for(count, &cap) != 0) return -MST_EMEM;
  if (!mst_fault("pool.alloc")) {
    pool->workers = calloc(count, sizeof *pool->workers);
  }
  if (!mst_fault("pool.alloc")) {
    pool->actions = calloc(cap, sizeof *pool->actions);
  }
  if (pool->workers == NULL || pool->actions == NULL) {
    mst_pool_free(pool);
    return -MST_EMEM;
  }
  for (uint32_t i = 0; i < count; i++) {
    mst_pool_begin_worker(&pool->workers[i], 0);
  }
  pool->count = count;
  pool->window = window;
  pool->action_cap = cap;
  pool->wake_ns = NEVER;
  return 0;
}

int mst_pool_grow(struct mst_pool *pool, uint32_t more) {
  size_t cap;
  if (pool->phase != MST_POOL_RUNNING || more > UINT32_MAX - pool->count) {
    return -MST_EINPUT;
  }
  const uint32_t count = pool->count + more;
  if (actions_for(count, &cap) != 0) return -MST_EMEM;
  struct mst_action *actions =
      mst_fault("pool.alloc") ? NULL : calloc(cap, sizeof *actions);
  if (actions == NULL) return -MST_EMEM;
  struct mst_worker *workers =
      mst_fault("pool.alloc")
          ? NULL
          : realloc(pool->workers, count * sizeof *pool->workers);
  if (workers == NULL) {
    free(actions);
    return -MST_EMEM;
  }
  for (size_t i = 0; i < pool->action_count; i++) {
    actions[i] = pool->actions[(pool->action_head + i) % pool->action_cap];
  }
  free(pool->actions);
  pool->actions = actions;
  pool->action_head = 0;
  pool->action_cap = cap;
  pool->workers = workers;
  for (uint32_t i = pool->count; i < count; i++) {
    struct mst_worker *worker = &workers[i];
    memset(worker, 0, sizeof *worker);
    mst_pool_begin_worker(worker, 0);
    worker->state = MST_WORKER_LOST;
    worker->launched = worker->exit_known = worker->lost_given = 1;
  }
  // In a partly started pool the first launches still precede theirs.
  pool->count = count;
  pool->ready += more;
  pool->need += more;
  mst_pool_skip_launched(pool);
  return 0;
}

void mst_pool_free(struct mst_pool *pool) {
  free(pool->workers);
  free(pool->actions);
  memset(pool, 0, sizeof *pool);
}

const char *mst_worker_state_name(enum mst_worker_state state) {
  switch (state) {
  case MST_WORKER_NONE:
    return "none";
  case MST_WORKER_STARTING:
    return "starting";
  case MST_WORKER_IDLE:
    return "idle";
  case MST_WORKER_BUSY:
    return "busy";
  case MST_WORKER_LOST:
    return "lost";
  case MST_WORKER_RESTARTING:
    return "restarting";
  case MST_WORKER_STOPPED:
    return "stopped";
  case MST_WORKER_PENDING:
    return "pending";
  case MST_WORKER_DRAINING:
    return "draining";
  case MST_WORKER_LEFT:
    return "left";
  }
  return "unknown";
}
