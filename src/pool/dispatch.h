// pool/dispatch: tasks that no worker has yet, and which worker gets the next one. Pure.
//
// A worker is given a task when it has fewer than MST_TASK_DEPTH calls: one to evaluate, and one to
// start when that is done. A verb's calls and cancelled calls count too, since it must evaluate
// them first. The second task goes back to the queue if it hasn't begun when another worker that
// may take it is idle, or when the first has run for long (calls_withdraw.c). Then its worker gets
// no other until the first is answered.
//
// The caller says which workers take calls (struct mst_takers). Only the thread that has the
// session may use this. Nothing blocks; only mst_dispatch_put allocates.
#ifndef MST_POOL_DISPATCH_H
#define MST_POOL_DISPATCH_H

#include <stddef.h>
#include <stdint.h>

#include "pool/call.h"
#include "pool/queue.h"
#include "pool/worker.h"

#define MST_TASK_DEPTH 2u

// Zeroed memory is an empty dispatch.
struct mst_dispatch {
  struct mst_queue queue;
  size_t bytes;     // of the payloads of queued tasks
  uint32_t awaited; // queued tasks that somebody waits for
  uint32_t turn;    // the worker that gets the next task if it has room
};

// Workers 0 to count - 1.
struct mst_takers {
  uint32_t count;
  // A worker that takes calls now, else NULL.
  struct mst_worker *(*open)(void *owner, uint32_t worker);
  // Whether a worker takes calls, now or once it is back.
  int (*usable)(void *owner, uint32_t worker);
  void *owner;
  int quiet; // only tasks that not every worker may take are given
};

// mst_dispatch_put queues a task. workers: increasing numbers, NULL for any. 0, or -MST_EMEM: then
// nothing has changed. O(log tasks + workers in the set).
int mst_dispatch_put(struct mst_dispatch *dispatch, struct mst_call *task,
                     const uint32_t *workers, uint32_t count);
// mst_dispatch_remove takes a task out. O(log tasks).
void mst_dispatch_remove(struct mst_dispatch *dispatch, struct mst_call *task);
// mst_dispatch_return queues a task again that a worker was given, with the same workers and in its
// former place. 0, or -MST_EMEM: then nothing has changed. Amortised as mst_dispatch_put.
int mst_dispatch_return(struct mst_dispatch *dispatch, struct mst_call *task);
// mst_dispatch_hold keeps a queued task out of the queue, mst_dispatch_let_go puts it back into its
// place: its bytes count all the while, and mst_dispatch_remove takes it out. mst_dispatch_let_go
// returns 0, or -MST_EMEM: then it is still held. Amortised as mst_dispatch_put.
void mst_dispatch_hold(struct mst_dispatch *dispatch, struct mst_call *task);
int mst_dispatch_let_go(struct mst_dispatch *dispatch, struct mst_call *task);
// mst_dispatch_strand ends a task as lost for lack of a worker.
void mst_dispatch_strand(struct mst_dispatch *dispatch, struct mst_call *task,
                         int64_t now_ns);
// mst_dispatch_await: somebody waits for a queued task.
void mst_dispatch_await(struct mst_dispatch *dispatch, struct mst_call *task);

// mst_dispatch_to fills one worker up to MST_TASK_DEPTH; mst_dispatch_all all of them, each with
// one task before any gets a second, and returns whether any did. Workers that got a task become
// due for EXEC.
void mst_dispatch_to(struct mst_dispatch *dispatch,
                     const struct mst_takers *takers, uint32_t worker,
                     struct mst_due *due);
int mst_dispatch_all(struct mst_dispatch *dispatch,
                     const struct mst_takers *takers, struct mst_due *due);

// mst_dispatch_sweep ends the tasks that no worker will ever take: they are LOST and stranded.
// mst_dispatch_end ends all: they are LOST.
void mst_dispatch_sweep(struct mst_dispatch *dispatch,
                        const struct mst_takers *takers, int64_t now_ns);
void mst_dispatch_end(struct mst_dispatch *dispatch, int64_t now_ns);
// mst_dispatch_free frees an empty dispatch.
void mst_dispatch_free(struct mst_dispatch *dispatch);

#endif
