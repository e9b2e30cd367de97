// fork/crash: what the watch gives the R thread time for, and R's reports of crashes.
//
// Who waits for the processor isn't late, so a loaded machine kills nobody: a span counts what a
// thread computed, or for how long it waited for something.
//
// Only the watch thread may use this. Nothing blocks, nothing allocates.
#ifndef MST_FORK_CRASH_H
#define MST_FORK_CRASH_H

#include <stdint.h>

// How often to look at a span.
#define MST_PACE_MS 20

// How much time of its own a thread still has for something.
struct mst_span {
  int64_t left_ns;
  int64_t seen_ns,
      cpu_ns; // when it was last looked at, and its processor time then
};

// mst_span_begin gives a thread (mst_proc_thread) so much time from now on. mst_span_look takes
// from it what the thread has had of it since the last look, and returns whether it is used up.
void mst_span_begin(struct mst_span *span, int thread, int64_t ns);
int mst_span_look(struct mst_span *span, int thread);

// mst_crash_ms tells how soon to look at the report of a crash (mst_watch_crashes) that the R
// thread makes: -1 if there is none, 0 if it has taken too long.
int mst_crash_ms(int thread);

#endif
