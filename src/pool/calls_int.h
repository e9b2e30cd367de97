// Shared by the files of the core of calls. Each uses only those before it in this list:
// calls_step.c, calls_log.c, calls_heal.c, calls_withdraw.c, calls.c, calls_site.c; then
// calls_user.c and calls_next.c, which declare nothing here.
#ifndef MST_POOL_CALLS_INT_H
#define MST_POOL_CALLS_INT_H

#include "pool/calls.h"

#define NEVER INT64_MAX

// ---- calls_step.c

// mst_calls_tell_pool gives the worker states one event.
void mst_calls_tell_pool(struct mst_calls *calls, enum mst_event_kind kind,
                         uint32_t index);
// mst_calls_is_usable tells whether a worker takes calls, now or once it is back.
int mst_calls_is_usable(const struct mst_calls *calls,
                        const struct mst_worker *worker);
struct mst_takers mst_calls_takers(struct mst_calls *calls);
// mst_calls_look_for_work: some worker may have room for tasks that wait, or be idle.
static inline void mst_calls_look_for_work(struct mst_calls *calls) {
  calls->to_dispatch = calls->to_withdraw = 1;
}
// mst_calls_sweep ends the tasks that no worker will ever take.
void mst_calls_sweep(struct mst_calls *calls);
// mst_calls_go_on queues the tasks that are ready (result.h), or ends them.
void mst_calls_go_on(struct mst_calls *calls);
// mst_calls_effects handles the effects of calls leaving a mailbox (enum mst_mailbox_effect).
void mst_calls_effects(struct mst_calls *calls, struct mst_worker *worker,
                       unsigned effects);
// mst_worker_hand_back gives the tasks of a worker that won't be there soon to others: its launch
// waits in a queue, or its host hangs.
void mst_worker_hand_back(struct mst_calls *calls, struct mst_worker *worker);
// mst_calls_drop_unsent drops a worker's cancelled calls that weren't sent, and also the sent ones
// if the worker has ended as requested.
void mst_calls_drop_unsent(struct mst_calls *calls, struct mst_worker *worker);

// ---- calls_log.c: journals and checkpoints

// mst_worker_note records in the journal what an answer says about its worker. Call it while the
// call is still in the mailbox.
void mst_worker_note(struct mst_calls *calls, struct mst_worker *worker,
                     const struct mst_answered *answered);
// mst_worker_want requests a checkpoint if the journal wants one; now: even if it doesn't pay yet.
void mst_worker_want(struct mst_calls *calls, struct mst_worker *worker,
                     int now);
// mst_calls_close_cast ends the current cast: its verb waits, or another call is given.
void mst_calls_close_cast(struct mst_calls *calls);
// mst_calls_cast_of gives the cast to which a call belongs, or NULL. The calls of a cast go to
// different workers. Allocates.
struct mst_cast *mst_calls_cast_of(struct mst_calls *calls,
                                   struct mst_worker *worker,
                                   struct mst_blob *payload,
                                   const void *caller);

// ---- calls_heal.c

// mst_worker_lost: JUDGE is due.
void mst_worker_lost(struct mst_calls *calls, struct mst_worker *worker);
// mst_worker_leave gives the worker up: its calls fail. told: the user gets an event.
void mst_worker_leave(struct mst_calls *calls, struct mst_worker *worker,
                      int told, const struct mst_judged *known);
// mst_worker_return prepares the return of a worker that has left.
void mst_worker_return(struct mst_worker *worker);
// mst_worker_ready: its incarnation is ready, and its journal is replayed.
void mst_worker_ready(struct mst_calls *calls, struct mst_worker *worker);
// mst_worker_go_on: its replay is done; its calls are sent.
void mst_worker_go_on(struct mst_calls *calls, struct mst_worker *worker);
// mst_worker_run_alone tells whether a worker's oldest call, which isn't sent and must run alone,
// may be sent; if not, its calls wait until it may.
int mst_worker_run_alone(struct mst_calls *calls, struct mst_worker *worker);
// mst_worker_look_alone notes if the call that runs alone has ended: then others get tasks again.
void mst_worker_look_alone(struct mst_calls *calls, struct mst_worker *worker);
// mst_worker_replayed takes the answer to a replayed call.
void mst_worker_replayed(struct mst_calls *calls, struct mst_worker *worker,
                         uint16_t flags);
// mst_worker_fail_first fails the oldest call, because of a loss.
void mst_worker_fail_first(struct mst_calls *calls, struct mst_worker *worker,
                           enum mst_loss_kind kind, uint32_t attempts,
                           const struct mst_judged *known);
// mst_worker_time checks a mailbox's limits and signs of life.
void mst_worker_time(struct mst_calls *calls, struct mst_worker *worker,
                     int64_t slept_ns);

// ---- calls_withdraw.c

// mst_calls_leaves_idle tells whether a task waits behind a call while another worker is idle, and
// nobody will look at that. For mst_calls_check.
int mst_calls_leaves_idle(const struct mst_calls *calls);
// mst_calls_withdraw looks for tasks that wait behind a call while another worker is idle, or have
// waited for MST_AHEAD_NS, and has their workers asked for them (WITHDRAW). O(workers), if there is
// reason to look.
void mst_calls_withdraw(struct mst_calls *calls);
// mst_calls_sent_ahead: this worker was given a task, which may wait behind a call.
void mst_calls_sent_ahead(struct mst_calls *calls,
                          const struct mst_worker *worker);

// ---- calls.c

// mst_worker_left ends the calls of a drained worker that has left, or brings one that moves back.
void mst_worker_left(struct mst_calls *calls, struct mst_worker *worker);

// ---- calls_site.c

// mst_worker_place gives LAUNCH for a worker, or PEND if it has to wait for a host; 0 if neither.
enum mst_do mst_worker_place(struct mst_calls *calls,
                             struct mst_worker *worker);

#endif
