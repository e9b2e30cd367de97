// Sleeping until something is ready, with a resolution below milliseconds: a timeout of 20 ms that
// always takes 21 makes a scan of one address after the other 5 % slower.
#include "base/mst_features.h"
#include "discover/scan_int.h"

#if MST_HAVE_PPOLL
#include <poll.h>
#include <time.h>

#include "base/mst_clock.h"

void mst_scan_sleep(struct mst_loop *loop, int64_t until_ns) {
  int64_t left_ns = until_ns - mst_clock_now();
  const int fd = mst_loop_fd(loop);
  if (left_ns <= 0) return;
  if (fd < 0) { // the poll backend
    (void)mst_loop_run(loop, mst_clock_ms_until(until_ns, 50), NULL);
    return;
  }
  const struct timespec limit = {.tv_sec = (time_t)(left_ns / MST_NS_PER_S),
                                 .tv_nsec = (long)(left_ns % MST_NS_PER_S)};
  struct pollfd at = {.fd = fd, .events = POLLIN};
  (void)ppoll(&at, 1, &limit, NULL); // a signal ends it; the caller checks
}
#else
typedef int
    mst_scan_sleep_linux_unused; // a translation unit must hold something
#endif
