// What run.c and peer.c share.
#ifndef MST_POOL_RUN_INT_H
#define MST_POOL_RUN_INT_H

#include "base/mst_assert.h"
#include "pool/run.h"

// In builds that check threads: the caller has the session.
#ifdef MST_CHECK_THREADS
#define MST_ASSERT_HOLDS(session) MST_ASSERT(mst_deputy_may((session)->deputy))
#else
#define MST_ASSERT_HOLDS(session) ((void)0)
#endif

// mst_cluster_event gives the pool an event and carries out what it says.
void mst_cluster_event(struct mst_cluster *cluster,
                       const struct mst_event *event);

void mst_peer_init(struct mst_peer *peer, struct mst_cluster *cluster,
                   uint32_t index);
// mst_peer_launch makes the worker's channels, asks the launcher for a process
// and sends it its set-up. On an error nothing is left open.
int mst_peer_launch(struct mst_peer *peer, struct mst_err *err);
// mst_peer_lost stops reading from a worker that is lost: a process that it left
// behind may hold the other end for ever.
void mst_peer_lost(struct mst_peer *peer);
// mst_peer_pop_loss frees the oldest loss.
void mst_peer_pop_loss(struct mst_peer *peer);
// mst_peer_is_up tells whether a call that is sent now reaches a worker: it is there,
// and has been told all that comes before.
int mst_peer_is_up(const struct mst_peer *peer);
// mst_peer_send_call puts one queued call on its way.
int mst_peer_send_call(struct mst_peer *peer, struct mst_call *call,
                       struct mst_err *err);
// mst_peer_send_job sends a job unless this incarnation has it. job may be NULL. 0, or
// errors of mst_chan_send.
int mst_peer_send_job(struct mst_peer *peer, struct mst_job *job,
                      struct mst_err *err);
// mst_peer_pop_call frees the oldest call; it is answered, or will not be.
void mst_peer_pop_call(struct mst_peer *peer);
// mst_peer_skip passes over frames in the buffer that were served already and
// notes whether an answer, or a loss, is next.
void mst_peer_skip(struct mst_peer *peer);
// mst_peer_pause closes the ends of an incarnation that was lost; whole answers that
// were not taken stay where they are.
void mst_peer_pause(struct mst_peer *peer);
// What the loop calls when a channel is ready.
void mst_peer_data_ready(struct mst_watch *watch, uint32_t ready);
void mst_peer_control_ready(struct mst_watch *watch, uint32_t ready);
// mst_peer_cancel asks the worker to interrupt its calls up to this one.
void mst_peer_cancel(struct mst_peer *peer, uint64_t call);
// mst_peer_cancel_call has one call interrupted, when it is its turn.
void mst_peer_cancel_call(struct mst_peer *peer, uint64_t call);
// mst_peer_send_task sends a task's call to a worker that is up. Errors as
// mst_peer_send; never waits.
int mst_peer_send_task(struct mst_peer *peer, struct mst_blob *payload,
                       struct mst_task *task);
// mst_peer_broken: nothing that the worker says from here on is of use; it is lost.
void mst_peer_broken(struct mst_peer *peer, const char *text);
// mst_peer_event gives the pool an event of this worker.
void mst_peer_event(struct mst_peer *peer, enum mst_event_kind kind);
// mst_peer_fail notes the first thing that was wrong.
void mst_peer_fail(struct mst_peer *peer, const char *text);

// ---- mend.c

// mst_peer_heal does what follows from a loss.
void mst_peer_heal(struct mst_peer *peer);
// mst_peer_resume replays the journal for an incarnation that is ready, and sends
// what its worker owes.
void mst_peer_resume(struct mst_peer *peer);
// mst_peer_replayed takes the answer of a call of the journal.
void mst_peer_replayed(struct mst_peer *peer, const struct mst_frame *frame);
// mst_peer_drop_unsent drops the cancelled calls of a worker that was not sent them, or
// is lost.
void mst_peer_drop_unsent(struct mst_peer *peer);
// mst_peer_note_gone says that a call has no answer and nobody waits for one. 0 or
// -MST_EMEM.
int mst_peer_note_gone(struct mst_peer *peer, uint64_t call);
// mst_peer_judge takes note of what an answer says of its worker: its random number
// stream, the journal. Before the call is popped.
void mst_peer_judge(struct mst_peer *peer, const struct mst_frame *frame);
// mst_peer_state_came takes a snapshot.
void mst_peer_state_came(struct mst_peer *peer, const struct mst_frame *frame);
// mst_session_mend heals what was lost, listens for signs of life and watches the
// calls' time limits.
void mst_session_mend(struct mst_session *session, int64_t now_ns);

// mst_peer_want_write has the loop flush the data channel's queue.
void mst_peer_want_write(struct mst_peer *peer);
#endif
