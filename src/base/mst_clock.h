// mst_clock: monotonic time in nanoseconds, and the time of day. No R, no allocation, any thread.
#ifndef MST_CLOCK_H
#define MST_CLOCK_H

#include <stdint.h>

#define MST_NS_PER_S INT64_C(1000000000)
#define MST_NS_PER_MS INT64_C(1000000)
#define MST_NS_PER_US INT64_C(1000)

// mst_clock_now gives the monotonic clock, which neither jumps nor stops while
// the process runs. Never fails on the systems that muster builds on.
int64_t mst_clock_now(void);

// mst_clock_of_day gives seconds since the beginning of 1970, UTC, as the machine's clock is set.
double mst_clock_of_day(void);

// mst_clock_ms_until gives the whole milliseconds from now to deadline, rounded
// up, 0 if it has passed, at most max_ms: the form that poll() takes.
int mst_clock_ms_until(int64_t deadline_ns, int max_ms);

#endif
