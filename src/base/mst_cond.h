// mst_cond: conditions whose waits end by the monotonic clock, which nobody sets. No R.
#ifndef MST_COND_H
#define MST_COND_H

#include <pthread.h>
#include <stdint.h>

// mst_cond_init makes a condition for mst_cond_wait. 0, or an errno. pthread_cond_destroy ends
// it, as any.
int mst_cond_init(pthread_cond_t *cond);

// mst_cond_wait waits for a signal, at most until deadline_ns (mst_clock_now), with the lock,
// which it gives up meanwhile. 0, or ETIMEDOUT. It may come back without a signal.
int mst_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                  int64_t deadline_ns);

#endif
