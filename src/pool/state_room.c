// The memory of a pool: its workers.
#include <stdlib.h>
#include <string.h>

#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "pool/state_int.h"

// mst_pool_begin_worker sets up an incarnation that isn't launched yet.
void mst_pool_begin_worker(struct mst_worker *worker, uint32_t epoch) {
  worker->state = MST_WORKER_NONE;
  worker->epoch = epoch;
  worker->pid = worker->owed = 0;
  worker->launched = worker->awaited = worker->has_process = 0;
  worker->exit_known = worker->killed = worker->channel = 0;
  worker->lost_given = worker->again = worker->queued = 0;
  worker->was_ready = worker->presumed = worker->drains = 0;
  worker->exit_how = 0;
  worker->exit_number = 0;
  worker->lost_ns = worker->stop_ns = NEVER;
  worker->kill_ns = worker->restart_ns = NEVER;
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
  while (pool->next < pool->count && pool->workers[pool->next]->launched)
    pool->next++;
}

static void free_workers(struct mst_pool *pool, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++)
    free(pool->workers[i]);
}

// make_workers makes the records of workers from..to - 1: 0, or -MST_EMEM.
static int make_workers(struct mst_pool *pool, uint32_t from, uint32_t to) {
  struct mst_worker **workers =
      mst_fault("pool.alloc")
          ? NULL
          : realloc(pool->workers, to * sizeof(struct mst_worker *));
  if (workers == NULL) return -MST_EMEM;
  pool->workers = workers;
  for (uint32_t i = from; i < to; i++) {
    workers[i] = mst_fault("pool.alloc") ? NULL : calloc(1, sizeof **workers);
    if (workers[i] == NULL) {
      free_workers(pool, from, i);
      return -MST_EMEM;
    }
    workers[i]->mailbox.worker = i;
    mst_pool_begin_worker(workers[i], 0);
  }
  return 0;
}

int mst_pool_init(struct mst_pool *pool, uint32_t count, uint32_t window) {
  memset(pool, 0, sizeof *pool);
  if (count == 0 || window == 0) return -MST_EINPUT;
  if (make_workers(pool, 0, count) != 0) {
    mst_pool_free(pool);
    return -MST_EMEM;
  }
  pool->count = count;
  pool->window = window;
  pool->wake_ns = NEVER;
  return 0;
}

int mst_pool_make_room(struct mst_pool *pool, uint32_t more) {
  if (pool->phase != MST_POOL_RUNNING || more > UINT32_MAX - pool->count) {
    return -MST_EINPUT;
  }
  return make_workers(pool, pool->count, pool->count + more);
}

void mst_pool_give_room_back(struct mst_pool *pool, uint32_t more) {
  free_workers(pool, pool->count, pool->count + more);
}

void mst_pool_grow(struct mst_pool *pool, uint32_t more) {
  for (uint32_t i = pool->count; i < pool->count + more; i++) {
    struct mst_worker *worker = pool->workers[i];
    worker->state = MST_WORKER_LOST;
    worker->launched = worker->exit_known = worker->lost_given = 1;
  }
  // In a partly started pool the first launches still precede theirs.
  pool->count += more;
  pool->ready += more;
  pool->need += more;
  mst_pool_skip_launched(pool);
}

void mst_pool_free(struct mst_pool *pool) {
  free_workers(pool, 0, pool->count);
  free(pool->workers);
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
