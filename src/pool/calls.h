// pool/calls: every call of one cluster: tasks that wait for a worker, the calls that each worker
// has, answers, losses, retries, cancellations, and the replay that restores a worker's state.
// Pure: facts and the time go in, actions come out. No socket, no clock, no R. The same facts give
// the same actions; tests/sim relies on that.
//
// It owns the worker states (state.h) and feeds them, asks recover.h what a loss means, and keeps a
// journal (journal.h) for each worker. One more journal has the calls that all workers were given
// (common.h), for workers that join.
//
// A call (call.h) lives in one of three places:
//
//   queue     a task that no worker has yet (dispatch.h), or whose worker waits in a queue itself
//             (PENDING): one queue for each set of workers that tasks are pinned to
//   mailbox   one worker's calls (mailbox.h), oldest first: unsent, or sent and not
//             answered. A worker evaluates and answers them in this order
//   answers   of a mailbox: calls that are answered, or won't be, until they are taken
//
// A verb's call goes straight into its worker's mailbox, a task there from the queue. When the
// answers that nobody has taken exceed MST_ANSWERS_BYTES, no more are read (mst_calls_may_read),
// except from mailboxes that somebody waits for.
//
// Steps. Each function below is one step: it changes the state and returns; it has no callbacks and
// is never entered twice. The caller takes the resulting actions one at a time by
// mst_calls_next_action, so it may add facts while it carries out actions. A step allocates only
// where its comment says so.
//
// Only the thread that has the session may use this.
#ifndef MST_POOL_CALLS_H
#define MST_POOL_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "pool/call.h"
#include "pool/common.h"
#include "pool/dispatch.h"
#include "pool/job.h"
#include "pool/recover.h"
#include "pool/state.h"

#define MST_ANSWERS_BYTES ((size_t)1 << 30)
#define MST_LOG_STEP_BYTES ((size_t)1 << 24)
// After a worker was told that its call is cancelled, the session kills it when it hasn't finished
// what mustn't be left half done by then. Its watch has ended it long before if the call didn't
// hear the interrupt.
#define MST_CANCEL_FINISH_NS (300 * MST_NS_PER_S)
// A task may wait behind a call for this long while another worker is idle.
#define MST_WITHDRAW_NS MST_NS_PER_MS
// And for this long while none is: a call that has run for 0.2 s feels no round trip when it ends.
#define MST_AHEAD_NS (200 * MST_NS_PER_MS)

struct mst_calls {
  struct mst_pool pool;
  struct mst_tally tally; // the caller sets its counts
  struct mst_heal_policy policy;
  int64_t timeout_ns; // of one call; INT64_MAX: no limit
  uint32_t id;        // of the cluster, for losses
  struct mst_jobs jobs;
  struct mst_common common;
  struct mst_dispatch dispatch;
  size_t answer_bytes_max; // MST_ANSWERS_BYTES; may be set after init
  size_t log_bytes;        // of all journals
  size_t log_looked;       // log_bytes at the last mst_calls_bound_log
  struct mst_loss *told, *last_told; // for the user
  struct mst_job *dropping; // the workers from drop_at on must still forget it
  uint32_t drop_at;
  uint32_t to_heal;       // workers with to_heal
  uint32_t waiting;       // workers with launch_ns
  struct mst_site *sites; // where workers are launched; owned
  uint32_t site_count;
  uint32_t alone;         // workers with MST_ALONE_LATER or more
  uint32_t quiet;         // of these, with MST_ALONE_WAITS or more
  uint64_t losses;        // of workers that came back
  int64_t began_ns;       // when they were first asked for
  int64_t looked_ns;      // when each worker was last checked
  int64_t now_ns;         // of the last step
  uint8_t no_checkpoints; // workers never make one
  uint8_t started;        // STARTED was given
  uint8_t to_dispatch;    // tasks may be waiting for workers that have room
  uint8_t to_withdraw;    // look for tasks that wait behind a call for too long
  int64_t withdraw_ns;    // when to look at that again; INT64_MAX: not planned
  // Some worker was told to interrupt a call, and hasn't answered.
  uint8_t interrupts;
};

// ---- life

// mst_calls_init prepares a cluster; the caller fills policy, timeout_ns, id and counts. Allocates.
// 0, -MST_EMEM, -MST_EINPUT.
int mst_calls_init(struct mst_calls *calls, uint32_t workers, uint32_t window);
// mst_calls_split gives each of several groups, whose workers follow each other, a site of its own;
// at first all workers are launched at one. Call it before the start. 0, -MST_EMEM.
int mst_calls_split(struct mst_calls *calls, const uint32_t *workers,
                    uint32_t count);
// mst_calls_forbid_checkpoints: workers never make checkpoints. Call it before the start.
void mst_calls_forbid_checkpoints(struct mst_calls *calls);
// mst_calls_end_queue ends the tasks that no worker has: they are LOST. mst_calls_end also ends all
// other calls and drops the answers: verbs' calls are freed, unanswered tasks are LOST.
void mst_calls_end_queue(struct mst_calls *calls, int64_t now_ns);
void mst_calls_end(struct mst_calls *calls, int64_t now_ns);
// mst_calls_close does the same for one worker that has ended, and frees its journal.
void mst_calls_close(struct mst_calls *calls, uint32_t index, int64_t now_ns);
void mst_calls_free(struct mst_calls *calls);
// mst_calls_begin starts the cluster; with `need` workers it has started, see mst_pool_begin, and
// calls to the others wait until they join.
void mst_calls_begin(struct mst_calls *calls, int64_t now_ns,
                     int64_t deadline_ns, uint32_t need);
// mst_calls_grow adds workers, which start as lost ones restart; the journal of what all workers
// were given becomes theirs. 0, -MST_EMEM, -MST_EINPUT (not running). Allocates.
int mst_calls_grow(struct mst_calls *calls, uint32_t more, int64_t now_ns);
// mst_calls_revive restarts the workers that were given up because the system lacked a resource, or
// because their site was lost, if it isn't any more.
// Returns how many.
uint32_t mst_calls_revive(struct mst_calls *calls, int64_t now_ns);

// ---- facts of the world

// mst_calls_event takes the events of state.h, except SENT, ANSWERED and TICK. A draining worker
// gets no more calls, and tasks that only it could do are LOST; so are its unanswered tasks once it
// has left. RESTART brings back a worker that has left.
void mst_calls_event(struct mst_calls *calls, const struct mst_event *event,
                     int64_t now_ns);
// mst_calls_fail notes what was wrong with a worker; the first note counts. mst_calls_fail_told
// notes a text for users, which is missing if memory is short.
void mst_calls_fail(struct mst_calls *calls, uint32_t index, enum mst_why why);
void mst_calls_fail_told(struct mst_calls *calls, uint32_t index,
                         const char *text);
// mst_calls_broken: the worker is unusable, and counts as lost.
void mst_calls_broken(struct mst_calls *calls, uint32_t index, enum mst_why why,
                      int64_t now_ns);

// mst_calls_expects tells whether a worker owes any answer, replayed calls included.
int mst_calls_expects(const struct mst_calls *calls, uint32_t index);
// mst_calls_wants tells, after mst_calls_reached, whether the answer to a call will be kept; if
// not, skip its bytes.
int mst_calls_wants(const struct mst_calls *calls, uint32_t index,
                    uint64_t call);
// mst_calls_answered takes an answer; answers to replayed calls have MST_FLAG_REPLAY. Frees what it
// doesn't keep.
void mst_calls_answered(struct mst_calls *calls, uint32_t index,
                        struct mst_answered *answered, int64_t now_ns);
// mst_calls_said takes an additional answer for a verb, or a value of a task (mst_call_hear), which
// a worker sends while it evaluates the call. Dropped if nobody wants it or memory is short.
// Allocates.
void mst_calls_said(struct mst_calls *calls, uint32_t index,
                    struct mst_answered *answered, int64_t now_ns);
// mst_calls_log_grew tells whether journals have grown so much that the caller must find out how
// much memory is free and call mst_calls_bound_log. Journals may use a quarter of their own bytes
// and the free ones together. Beyond that the longest are given up: their workers are not restored
// when lost.
int mst_calls_log_grew(const struct mst_calls *calls);
void mst_calls_bound_log(struct mst_calls *calls, int64_t free_bytes);
// mst_calls_checkpointed: the worker has a checkpoint, made in cost_ns after all answers reported
// before and before all that follow; the next LAUNCH must start from it. mst_calls_no_checkpoint:
// the worker made none, see journal.h. mst_calls_checkpoint_ended: the worker's checkpoint is gone.
void mst_calls_checkpointed(struct mst_calls *calls, uint32_t index,
                            int64_t cost_ns, int64_t now_ns);
void mst_calls_no_checkpoint(struct mst_calls *calls, uint32_t index,
                             enum mst_refusal why, int64_t now_ns);
void mst_calls_checkpoint_ended(struct mst_calls *calls, uint32_t index,
                                int64_t now_ns);
// mst_calls_heard: a sign of life.
void mst_calls_heard(struct mst_calls *calls, uint32_t index, int64_t now_ns);
// mst_calls_deaf: a worker's watch ends it, since this call went on after its interrupt.
void mst_calls_deaf(struct mst_calls *calls, uint32_t index, uint64_t call);
// mst_calls_withdrawn: a worker won't begin this task, as WITHDRAW asked. Give it only of the
// present incarnation. Amortised as mst_dispatch_put; if memory is short the task is LOST.
void mst_calls_withdrawn(struct mst_calls *calls, uint32_t index, uint64_t call,
                         int64_t now_ns);
// mst_calls_reached: an answer to a call, or a value before it, begins to arrive. So the worker has
// passed over the tasks before it that were withdrawn: the news may be slower than the answer.
void mst_calls_reached(struct mst_calls *calls, uint32_t index, uint64_t call,
                       int64_t now_ns);
// mst_calls_trimmed: a worker has given back memory, as TRIM asked.
void mst_calls_trimmed(struct mst_calls *calls, uint32_t index, int64_t now_ns);
// mst_calls_may_read tells whether a worker's answers may be read now.
int mst_calls_may_read(const struct mst_calls *calls, uint32_t index);
// mst_calls_tick lets time pass. slept_ns: for how long nobody had listened to workers before.
void mst_calls_tick(struct mst_calls *calls, int64_t slept_ns, int64_t now_ns);
// mst_calls_wake_ns gives the time of the next tick that is needed, INT64_MAX if none.
int64_t mst_calls_wake_ns(const struct mst_calls *calls);

// mst_calls_judged answers JUDGE: what is known of a worker's end. Frees judged->words.
void mst_calls_judged(struct mst_calls *calls, uint32_t index,
                      const struct mst_judged *judged, int64_t now_ns);

// mst_calls_sent: EXEC was sent. mst_calls_unsent: the last action of a worker couldn't be sent;
// rc: -MST_ECLOSED or -MST_ESYS if its channel is broken, or -MST_EMEM. Returns 1 if that dropped a
// verb's call.
void mst_calls_sent(struct mst_calls *calls, uint32_t index, int64_t now_ns);
int mst_calls_unsent(struct mst_calls *calls, uint32_t index, enum mst_do what,
                     int rc, int64_t now_ns);

int mst_calls_next_action(struct mst_calls *calls, struct mst_action *action,
                          int64_t now_ns);

// ---- requests of users

// mst_calls_send gives a call to a worker and takes a reference to the payload. 0; -MST_ECLOSED if
// the worker is lost for good; -MST_EMEM. Allocates.
int mst_calls_send(struct mst_calls *calls, uint32_t index,
                   struct mst_blob *payload, const void *caller, int32_t tag,
                   uint8_t unseen, int64_t now_ns);
// mst_calls_await: somebody waits for a worker's answers; mst_calls_await_task: for one task's.
void mst_calls_await(struct mst_calls *calls, uint32_t index);
void mst_calls_await_task(struct mst_call *task);
// mst_calls_forget cancels the calls that a worker owes to one verb (NULL: all verbs), and drops
// their answers.
void mst_calls_forget(struct mst_calls *calls, uint32_t index,
                      const void *caller, int64_t now_ns);
// mst_calls_retire asks a worker to end, mst_calls_kill kills it; it isn't replaced.
void mst_calls_retire(struct mst_calls *calls, uint32_t index, int64_t now_ns);
void mst_calls_kill(struct mst_calls *calls, uint32_t index, int64_t now_ns);

// How a task differs from others.
struct mst_task_terms {
  struct mst_job *job; // that its worker needs before it, or NULL
  int32_t retries;     // -1: the cluster's
  int64_t timeout_ns;  // 0: the cluster's
  int32_t priority;    // higher goes first
  uint64_t group;      // tasks of one priority take turns by group
  const char *label;   // in the user's words, copied; or NULL
  uint8_t is_part;     // of something else, such as a map
  uint8_t alone;       // no other worker may compute meanwhile
};
// mst_calls_submit queues a task. workers: increasing numbers, NULL for any. Takes references to
// the payload and the job; the caller gets one to the task. NULL if memory is short. Allocates. A
// task that needs results (result.h) waits for them first; it is LOST, with its cause, when the
// task of one of them has failed.
// O(log tasks + workers in the set).
struct mst_call *mst_calls_submit(struct mst_calls *calls,
                                  struct mst_blob *payload,
                                  const uint32_t *workers, uint32_t count,
                                  const struct mst_task_terms *terms,
                                  int64_t now_ns);
// mst_calls_each_task calls visit for each task that isn't over, but for those that are parts of
// something else; in no order. visit must not use the core.
void mst_calls_each_task(const struct mst_calls *calls,
                         void (*visit)(void *, struct mst_call *), void *owner);
// mst_call_cancel removes a task from the queue, or has its worker interrupt it. 1, or 0 if it is
// already over. O(log tasks).
int mst_call_cancel(struct mst_call *task, int64_t now_ns);
// mst_calls_look_at_sites: facts of sites may have changed. Workers whose host has come are
// launched, those whose host won't come fail, and those on a host that is left move. O(workers)
// while some pend or move.
void mst_calls_look_at_sites(struct mst_calls *calls, int64_t now_ns);
// mst_calls_move has a worker that is up end once it has answered what it was sent, and start again
// by its launcher, which may be another one by then. Its state is replayed from its journal. Calls
// that it wasn't sent, and new ones, wait for it; no call is blamed. Does nothing without healing,
// and to a worker that isn't up: ask again.
void mst_calls_move(struct mst_calls *calls, uint32_t index, int64_t now_ns);
// mst_calls_can_move tells whether a worker that moves now would be what it is, after a replay that
// takes so long at most: not if its state is only in a checkpoint, or came of random numbers that a
// replay wouldn't repeat.
int mst_calls_can_move(const struct mst_calls *calls, uint32_t index,
                       int64_t replay_max_ns);
// mst_calls_trim drops jobs beyond the number that is kept.
void mst_calls_trim(struct mst_calls *calls);

// mst_worker_is_up tells whether a call reaches the worker if it is sent now: the worker is there
// and its replay is done.
int mst_worker_is_up(const struct mst_worker *worker);

// mst_calls_check returns the invariant that is broken, or NULL. For tests, after each step.
const char *mst_calls_check(const struct mst_calls *calls);

#endif
