// What the files of the core of calls share.
#ifndef MST_POOL_CALLS_INT_H
#define MST_POOL_CALLS_INT_H

#include "pool/calls.h"

#define NEVER INT64_MAX

static inline const struct mst_worker *worker_of(const struct mst_calls *calls,
                                                 const struct mst_lane *lane) {
  return &calls->pool.workers[lane->worker];
}

// ---- calls.c

// mst_calls_tell_pool gives the worker states one event.
void mst_calls_tell_pool(struct mst_calls *calls, enum mst_event_kind kind,
                         uint32_t worker);
void mst_lane_fail(struct mst_lane *lane, const char *text);
void mst_lane_broken(struct mst_calls *calls, struct mst_lane *lane,
                     const char *text);
// mst_calls_is_usable tells whether a worker takes calls, now or when it is back.
int mst_calls_is_usable(const struct mst_calls *calls,
                        const struct mst_lane *lane);
struct mst_takers mst_calls_takers(struct mst_calls *calls);
// mst_calls_sweep ends the tasks that no worker will ever take.
void mst_calls_sweep(struct mst_calls *calls);
// mst_calls_effects carries out what follows from calls that left a lane.
void mst_calls_effects(struct mst_calls *calls, struct mst_lane *lane,
                       unsigned effects);
// mst_calls_drop_unsent drops the cancelled calls of a worker that was not sent them, or has
// ended as it was asked to.
void mst_calls_drop_unsent(struct mst_calls *calls, struct mst_lane *lane);
// mst_calls_look_for_left gives up what workers that drained have left undone.
void mst_calls_look_for_left(struct mst_calls *calls);

// ---- calls_user.c

// mst_calls_close_cast ends the cast that goes on: its verb waits, or another call is given.
void mst_calls_close_cast(struct mst_calls *calls);

// ---- calls_heal.c

// mst_lane_lost: LOST was given.
void mst_lane_lost(struct mst_calls *calls, struct mst_lane *lane);
// mst_lane_leave: it stays lost. What it owes will not come.
void mst_lane_leave(struct mst_calls *calls, struct mst_lane *lane, int told,
                    char *words);
// mst_lane_return: one that has left is to come back.
void mst_lane_return(struct mst_calls *calls, struct mst_lane *lane);
// mst_lane_resume: its next incarnation is ready.
void mst_lane_resume(struct mst_calls *calls, struct mst_lane *lane);
// mst_lane_go_on: it was told all that comes before its calls.
void mst_lane_go_on(struct mst_calls *calls, struct mst_lane *lane);
// mst_lane_replayed takes the answer of a call of the journal.
void mst_lane_replayed(struct mst_calls *calls, struct mst_lane *lane,
                       uint16_t flags);
// mst_lane_fail_first makes a loss the end of the oldest call.
void mst_lane_fail_first(struct mst_calls *calls, struct mst_lane *lane,
                         enum mst_loss_kind kind, uint32_t attempts,
                         const char *words);
// mst_lane_time looks at a lane's limits and signs of life.
void mst_lane_time(struct mst_calls *calls, struct mst_lane *lane,
                   int64_t slept_ns);

// ---- calls_log.c: journals and checkpoints

// mst_lane_note takes note of what an answer says of its worker, before its call goes.
void mst_lane_note(struct mst_calls *calls, struct mst_lane *lane,
                   const struct mst_answered *answered);
// mst_lane_want has a checkpoint made if its journal wants one; now: or if it may have one.
void mst_lane_want(struct mst_calls *calls, struct mst_lane *lane, int now);

#endif
