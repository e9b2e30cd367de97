// Sleeping until something is ready, where there is no ppoll().
#include "discover/run_int.h"

#ifndef __linux__
#include "base/mst_clock.h"

void mst_scan_sleep(struct mst_loop *loop, int64_t until_ns) {
  (void)mst_loop_run(loop, mst_clock_ms_until(until_ns, 50), NULL);
}
#else
typedef int
    mst_scan_sleep_other_unused; // a translation unit must hold something
#endif
