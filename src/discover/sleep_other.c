// Sleeping until something is ready, on systems without ppoll().
#include "base/mst_features.h"
#include "discover/scan_int.h"

#if !MST_HAVE_PPOLL
#include "base/mst_clock.h"

void mst_scan_sleep(struct mst_loop *loop, int64_t until_ns) {
  (void)mst_loop_run(loop, mst_clock_ms_until(until_ns, 50), NULL);
}
#else
typedef int
    mst_scan_sleep_other_unused; // a translation unit must hold something
#endif
