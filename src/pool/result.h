// pool/result: a task's answer as a job, so that other tasks have it as an argument. The answer's
// bytes go on as they came, with the segment: nothing is read or written anew. Pure but for that
// segment, see share/blob.h.
//
// A result is a job (job.h) that belongs to a task, its source, and exists while somebody refers to
// it. It has its number from the start, and its bytes once the source is done. A source that failed
// never gives any: the result is unmet.
//
// A task whose job is, or has in its group, results without bytes needs them. It waits: it is in
// tally->waiting until it has all, or one is unmet, and then in tally->ready, from where calls.c
// takes it. The source of the first unmet one, or what that failed for, is its cause.
//
// Only the thread that has the session may use this. Nothing blocks, but a segment that is copied
// takes as long as that takes.
#ifndef MST_POOL_RESULT_H
#define MST_POOL_RESULT_H

#include "pool/call.h"

// mst_result_hold gives the result of a task, with a reference for the caller; if the task is done
// it has its bytes, or is unmet. A segment whose descriptor is gone is copied. NULL if there is no
// memory, or no descriptor, for a value that is there. Allocates.
struct mst_job *mst_result_hold(struct mst_jobs *jobs, struct mst_call *source);
// mst_result_settle: a task has ended, and what waits for its result is ready, or goes on waiting
// for others. If memory is short the result is unmet. Allocates.
void mst_result_settle(struct mst_call *source);
// mst_result_orphan: the task is freed; its result stays.
void mst_result_orphan(struct mst_call *source);

// mst_needs_begin makes a task wait for the results that its job lacks, if any. 0, or -MST_EMEM:
// then nothing has changed. Allocates.
int mst_needs_begin(struct mst_call *task);
// mst_needs_end: it doesn't wait any more; does nothing if it didn't.
void mst_needs_end(struct mst_call *task);
// mst_needs_check returns the invariant that is broken, or NULL. For tests.
const char *mst_needs_check(const struct mst_tally *tally);

#endif
