// Deliberate bugs. -DSIM_CANARY=n puts bug n between the core of calls and the pool or heal.c
// (watch.c), or between the core and the world (session.c: 14, 17 and up). A simulation must find
// each.
#ifndef MST_SIM_CANARY_H
#define MST_SIM_CANARY_H

#include "sim.h"

#ifndef SIM_CANARY
#define SIM_CANARY 0
#endif

static inline void canary_restart_early(struct mst_pool *pool) {
  for (uint32_t i = 0; i < pool->count; i++) {
    struct mst_worker *worker = pool->workers[i];
    if (worker->state != MST_WORKER_LOST || worker->lost_given) continue;
    if (pool->phase != MST_POOL_RUNNING) continue;
    worker->lost_given = worker->again = 1;
    pool->again++;
  }
}

#endif
