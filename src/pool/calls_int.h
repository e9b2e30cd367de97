// What the files of the core of calls share. Each uses those before it in this list only:
// calls_step.c, calls_log.c, calls_heal.c, calls.c; then calls_user.c and calls_next.c, which
// nothing here uses.
#ifndef MST_POOL_CALLS_INT_H
#define MST_POOL_CALLS_INT_H

#include "pool/calls.h"

#define NEVER INT64_MAX

static inline const struct mst_worker *worker_of(const struct mst_calls *calls,
                                                 const struct mst_slot *slot) {
  return &calls->pool.workers[slot->mailbox.worker];
}

// ---- calls_step.c

// mst_calls_tell_pool gives the worker states one event.
void mst_calls_tell_pool(struct mst_calls *calls, enum mst_event_kind kind,
                         uint32_t worker);
// mst_calls_is_usable tells whether a worker takes calls, now or when it is back.
int mst_calls_is_usable(const struct mst_calls *calls,
                        const struct mst_slot *slot);
struct mst_takers mst_calls_takers(struct mst_calls *calls);
// mst_calls_sweep ends the tasks that no worker will ever take.
void mst_calls_sweep(struct mst_calls *calls);
// mst_calls_effects carries out what follows from calls that left a mailbox.
void mst_calls_effects(struct mst_calls *calls, struct mst_slot *slot,
                       unsigned effects);
// mst_calls_drop_unsent drops the cancelled calls of a worker that was not sent them, or has
// ended as it was asked to.
void mst_calls_drop_unsent(struct mst_calls *calls, struct mst_slot *slot);

// ---- calls_log.c: journals and checkpoints

// mst_slot_note takes note of what an answer says of its worker, before its call goes.
void mst_slot_note(struct mst_calls *calls, struct mst_slot *slot,
                   const struct mst_answered *answered);
// mst_slot_want has a checkpoint made if its journal wants one; now: or if it may have one.
void mst_slot_want(struct mst_calls *calls, struct mst_slot *slot, int now);
// mst_calls_close_cast ends the cast that goes on: its verb waits, or another call is given.
void mst_calls_close_cast(struct mst_calls *calls);
// mst_calls_cast_of gives the cast that a call is of, NULL for none. Each of one cast goes to
// another worker. Allocates.
struct mst_cast *mst_calls_cast_of(struct mst_calls *calls,
                                   struct mst_slot *slot,
                                   struct mst_blob *payload,
                                   const void *caller);

// ---- calls_heal.c

// mst_slot_lost: LOST was given.
void mst_slot_lost(struct mst_calls *calls, struct mst_slot *slot);
// mst_slot_leave: it stays lost. What it owes will not come.
void mst_slot_leave(struct mst_calls *calls, struct mst_slot *slot, int told,
                    const char *words);
// mst_slot_return: one that has left is to come back.
void mst_slot_return(struct mst_calls *calls, struct mst_slot *slot);
// mst_slot_resume: its next incarnation is ready.
void mst_slot_resume(struct mst_calls *calls, struct mst_slot *slot);
// mst_slot_go_on: it was told all that comes before its calls.
void mst_slot_go_on(struct mst_calls *calls, struct mst_slot *slot);
// mst_slot_replayed takes the answer of a call of the journal.
void mst_slot_replayed(struct mst_calls *calls, struct mst_slot *slot,
                       uint16_t flags);
// mst_slot_fail_first makes a loss the end of the oldest call.
void mst_slot_fail_first(struct mst_calls *calls, struct mst_slot *slot,
                         enum mst_loss_kind kind, uint32_t attempts,
                         const char *words);
// mst_slot_time looks at a mailbox's limits and signs of life.
void mst_slot_time(struct mst_calls *calls, struct mst_slot *slot,
                   int64_t slept_ns);

// ---- calls.c

// mst_calls_look_for_left gives up what workers that drained have left undone.
void mst_calls_look_for_left(struct mst_calls *calls);

#endif
