// Conditions by the monotonic clock. See mst_cond.h.
#include "base/mst_cond.h"

#include <time.h>

#include "base/mst_clock.h"

static struct timespec spec_of(int64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / MST_NS_PER_S),
                           .tv_nsec = (long)(ns % MST_NS_PER_S)};
}

#ifdef __APPLE__
// macOS has no pthread_condattr_setclock, but can wait for a duration instead of until a time.
int mst_cond_init(pthread_cond_t *cond) {
  return pthread_cond_init(cond, NULL);
}

int mst_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                  int64_t deadline_ns) {
  const int64_t left_ns = deadline_ns - mst_clock_now();
  const struct timespec left = spec_of(left_ns > 0 ? left_ns : 0);
  return pthread_cond_timedwait_relative_np(cond, lock, &left);
}
#else
int mst_cond_init(pthread_cond_t *cond) {
  pthread_condattr_t attr;
  int rc = pthread_condattr_init(&attr);
  if (rc != 0) return rc;
  rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  if (rc == 0) rc = pthread_cond_init(cond, &attr);
  (void)pthread_condattr_destroy(&attr);
  return rc;
}

int mst_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                  int64_t deadline_ns) {
  const struct timespec until = spec_of(deadline_ns > 0 ? deadline_ns : 0);
  return pthread_cond_timedwait(cond, lock, &until);
}
#endif
