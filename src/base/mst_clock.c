// Time. See mst_clock.h.
#include "base/mst_clock.h"

#include <time.h>

int64_t mst_clock_now(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); // fails only for unknown clocks
  return (int64_t)now.tv_sec * MST_NS_PER_S + (int64_t)now.tv_nsec;
}

double mst_clock_of_day(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / (double)MST_NS_PER_S;
}

int mst_clock_ms_until(int64_t deadline_ns, int max_ms) {
  const int64_t left_ns = deadline_ns - mst_clock_now();
  if (left_ns <= 0) return 0;
  const int64_t left_ms = (left_ns + MST_NS_PER_MS - 1) / MST_NS_PER_MS;
  return left_ms > max_ms ? max_ms : (int)left_ms;
}
