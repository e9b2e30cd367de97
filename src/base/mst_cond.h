// mst_cond: condition variables whose waits end by the monotonic clock, which nobody sets. No R.
#ifndef MST_COND_H
#define MST_COND_H

#include <pthread.h>
#include <stdint.h>

// mst_cond_init makes a condition variable for mst_cond_wait; pthread_cond_destroy destroys it. 0,
// or an errno.
int mst_cond_init(pthread_cond_t *cond);

// mst_cond_wait waits for a signal, at most until deadline_ns (mst_clock_now). The caller holds the
// lock, which is released during the wait. 0, or ETIMEDOUT. May return without a signal.
int mst_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                  int64_t deadline_ns);

#endif
