// pool/calls: every call of one cluster: tasks that wait for a worker, what each worker
// was sent, answers, losses, what is sent again, cancellations, and the replay of what made
// a worker what it is. Pure: facts and the time go in, actions come out. No socket, no
// clock, no R; the same facts give the same actions, which is what tests/sim relies on.
//
// It stands on the worker states (state.h), which it owns and feeds, asks recover.h what a
// loss means, and keeps a journal (journal.h) for each worker, and of what all were told one
// more (common.h), for workers that join.
//
// A call (call.h) lives in one of three places:
//
//   queue     a task that no worker has yet (dispatch.h): one queue for each set of workers
//             that tasks are pinned to
//   mailbox   one worker's calls (mailbox.h), oldest first: to be sent, or sent and not
//             answered. A worker evaluates them in this order, and answers in it
//   answers   what a mailbox has of calls that are answered, or won't be, until they are taken
//
// A verb's call goes into the mailbox of its worker, a task there from the queue. An answer
// belongs to its call from the moment it is read. Answers that nobody has taken may hold
// MST_ANSWERS_BYTES: then no more are read (mst_calls_may_read), but for those of mailboxes that
// somebody waits for.
//
// Steps. Each function below is one step: it changes what is known and returns; it calls
// nothing back and is never entered twice. What is to be done is taken by
// mst_calls_next_action, one action at a time, so facts that come while actions are carried
// out wait for nobody. No step allocates but where it says so.
//
// One thread at a time: whoever has the session.
#ifndef MST_POOL_CALLS_H
#define MST_POOL_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "pool/call.h"
#include "pool/common.h"
#include "pool/dispatch.h"
#include "pool/job.h"
#include "pool/recover.h"

#define MST_ANSWERS_BYTES ((size_t)1 << 30)
#define MST_LOG_STEP_BYTES ((size_t)1 << 24)
// The session ends a worker that is silent for so long after it was told of a cancelled call, or
// hasn't come to the end of what it doesn't leave half done.
#define MST_CANCEL_PATIENCE_NS (3 * MST_NS_PER_S)
#define MST_CANCEL_FINISH_NS (60 * MST_NS_PER_S)

struct mst_calls {
  struct mst_pool pool;
  struct mst_slot **slots; // pool.count, each allocated alone
  struct mst_tally tally;  // its counts are set by the caller
  struct mst_heal_policy policy;
  int64_t timeout_ns; // of one call, INT64_MAX for none
  uint32_t id;        // of the cluster, for losses
  struct mst_jobs jobs;
  struct mst_common common;
  struct mst_dispatch dispatch;
  size_t answer_bytes_max; // MST_ANSWERS_BYTES; may be set after init
  size_t log_bytes;        // that all journals hold
  size_t log_looked;       // when mst_calls_bound_log was called last
  struct mst_due due;
  struct mst_loss *told, *last_told; // for the user
  struct mst_job *dropping; // workers are to forget it, from drop_at on
  uint32_t drop_at;
  uint32_t to_heal;       // slots with to_heal
  uint32_t waiting;       // slots with launch_ns
  uint32_t draining;      // slots with drains
  int64_t looked_ns;      // when slots were last looked at one by one
  int64_t now_ns;         // of the last step
  uint8_t no_checkpoints; // workers make none
  uint8_t started;        // STARTED was given
  uint8_t to_dispatch;    // tasks may have workers that have room
  uint8_t alone;          // some mailbox's calls wait until all others are idle
  uint8_t
      interrupts; // some slot was told to interrupt a call, and hasn't answered
  uint8_t launcher_gone; // the world's: workers can't come back now
  uint8_t orphaned;      // and some should
};

// What is to be done. Payloads and jobs stay the core's: use them before the next step.
enum mst_calls_do {
  MST_CALLS_LAUNCH = 1, // worker's process with its channels
  MST_CALLS_BYE,
  MST_CALLS_KILL,
  MST_CALLS_STARTED,
  MST_CALLS_START_FAILED,
  MST_CALLS_STOPPED,
  MST_CALLS_CLOSE,  // read no more of it
  MST_CALLS_JUDGE,  // how did it end? mst_calls_judged
  MST_CALLS_PAUSE,  // let go of what is left of the incarnation that was lost
  MST_CALLS_FORGET, // let go of its checkpoint: it doesn't come back
  MST_CALLS_BREAK,  // end its data channel: what it says is of no use
  // on the data channel. If it can't be sent: mst_calls_unsent
  MST_CALLS_SEED, // seed; !known: a fresh stream
  MST_CALLS_JOB,  // payload, id
  MST_CALLS_EXEC, // payload, id, flags, attempt. If it is sent: mst_calls_sent
  MST_CALLS_CHECKPOINT, // asks for one. If it can't be: mst_calls_checkpointed
  MST_CALLS_DROP,       // job id
  // on the control channel
  MST_CALLS_CANCEL, // id
  MST_CALLS_PING,
  // for the user
  MST_CALLS_TELL,    // loss, the taker's
  MST_CALLS_ORPHANED // another launcher is needed
};

struct mst_calls_action {
  enum mst_calls_do kind;
  uint32_t worker;
  uint64_t id;
  uint16_t flags; // MST_FLAG_*
  uint16_t attempt;
  struct mst_blob *payload;
  struct mst_seed seed;
  struct mst_loss *loss;
};

// ---- life

// mst_calls_init prepares a cluster; the caller fills policy, timeout_ns, id, counts.
// 0, -MST_EMEM, -MST_EINPUT. Allocates.
int mst_calls_init(struct mst_calls *calls, uint32_t workers, uint32_t window);
// mst_calls_forbid_checkpoints: no worker makes one. Before the start.
void mst_calls_forbid_checkpoints(struct mst_calls *calls);
// mst_calls_end_queue ends the tasks that no worker has; mst_calls_end all that is not
// answered, and drops what is: verbs' calls go, tasks are LOST.
void mst_calls_end_queue(struct mst_calls *calls, int64_t now_ns);
void mst_calls_end(struct mst_calls *calls, int64_t now_ns);
// mst_calls_close does the same for one worker that has ended, and forgets its journal.
void mst_calls_close(struct mst_calls *calls, uint32_t worker, int64_t now_ns);
void mst_calls_free(struct mst_calls *calls);
void mst_calls_start(struct mst_calls *calls, int64_t now_ns,
                     int64_t deadline_ns);
// mst_calls_begin is mst_calls_start for a cluster that may begin partly there, see
// mst_pool_begin: calls to the others wait until these join.
void mst_calls_begin(struct mst_calls *calls, int64_t now_ns,
                     int64_t deadline_ns, uint32_t need);
// mst_calls_grow adds workers, which come as lost ones come back, with what all others were
// told as their journal. 0, -MST_EMEM, -MST_EINPUT (not running). Allocates.
int mst_calls_grow(struct mst_calls *calls, uint32_t more, int64_t now_ns);
// mst_calls_revive lets workers that were given up for want of something try again.
// Returns how many.
uint32_t mst_calls_revive(struct mst_calls *calls, int64_t now_ns);

// ---- facts of the world

// mst_calls_event takes what state.h takes, but SENT, ANSWERED and TICK. A worker that drains
// is sent no more, and tasks that only it could do are LOST; once it has left, so is what it
// still was to do. RESTART brings one back that has left.
void mst_calls_event(struct mst_calls *calls, const struct mst_event *event,
                     int64_t now_ns);
// mst_calls_fail notes the first thing that was wrong with a worker; mst_calls_fail_told notes a
// text for people instead, of which nothing stays if memory is short.
void mst_calls_fail(struct mst_calls *calls, uint32_t worker, enum mst_why why);
void mst_calls_fail_told(struct mst_calls *calls, uint32_t worker,
                         const char *text);
// mst_calls_broken: the worker can't be used; it is lost.
void mst_calls_broken(struct mst_calls *calls, uint32_t worker,
                      enum mst_why why, int64_t now_ns);

// mst_calls_expects tells whether a worker owes an answer at all.
int mst_calls_expects(const struct mst_calls *calls, uint32_t worker);
// mst_calls_wants tells whether the answer of a call will be kept: if not, its bytes need
// not be read out.
int mst_calls_wants(const struct mst_calls *calls, uint32_t worker,
                    uint64_t call);
// mst_calls_answered takes an answer; one of the journal has MST_FLAG_REPLAY.
void mst_calls_answered(struct mst_calls *calls, uint32_t worker,
                        struct mst_answered *answered, int64_t now_ns);
// mst_calls_said takes what a worker says before the answer of the call that it evaluates: one
// more answer for the call's verb. Dropped if nobody wants it, and without memory. Allocates.
void mst_calls_said(struct mst_calls *calls, uint32_t worker,
                    struct mst_answered *answered, int64_t now_ns);
// mst_calls_log_grew tells whether journals have grown so far that the caller is to find out how
// much memory is free, and say so by mst_calls_bound_log: they may have a quarter of what they and
// what is free have together. Past that the longest are given up: a worker whose journal was is not
// restored when it is lost.
int mst_calls_log_grew(const struct mst_calls *calls);
void mst_calls_bound_log(struct mst_calls *calls, int64_t free_bytes);
// mst_calls_checkpointed: after all answers before this fact, and before what comes after it, the
// worker has a checkpoint, made in cost_ns; from now on LAUNCH is to begin from it.
// mst_calls_no_checkpoint: none was made, see journal.h. mst_calls_checkpoint_ended:
// the one it had is gone.
void mst_calls_checkpointed(struct mst_calls *calls, uint32_t worker,
                            int64_t cost_ns, int64_t now_ns);
void mst_calls_no_checkpoint(struct mst_calls *calls, uint32_t worker,
                             enum mst_refusal why, int64_t now_ns);
void mst_calls_checkpoint_ended(struct mst_calls *calls, uint32_t worker,
                                int64_t now_ns);
// mst_calls_heard: a sign of life.
void mst_calls_heard(struct mst_calls *calls, uint32_t worker, int64_t now_ns);
// mst_calls_may_read tells whether answers of a worker may be read now.
int mst_calls_may_read(const struct mst_calls *calls, uint32_t worker);
// mst_calls_tick lets time pass. slept_ns: for how long nobody had listened before this.
void mst_calls_tick(struct mst_calls *calls, int64_t slept_ns, int64_t now_ns);
// mst_calls_wake_ns gives the time at which a tick is wanted, INT64_MAX if never.
int64_t mst_calls_wake_ns(const struct mst_calls *calls);

// mst_calls_judged: what is known of an end, after JUDGE. Takes its words over.
void mst_calls_judged(struct mst_calls *calls, uint32_t worker,
                      const struct mst_judged *judged, int64_t now_ns);

// mst_calls_sent: what EXEC said is on its way. mst_calls_unsent: what the last action of a
// worker said can't be sent; rc: -MST_ECLOSED or -MST_ESYS, the channel is broken;
// -MST_EMEM. Returns 1 if a verb's call was dropped for that.
void mst_calls_sent(struct mst_calls *calls, uint32_t worker, int64_t now_ns);
int mst_calls_unsent(struct mst_calls *calls, uint32_t worker,
                     enum mst_calls_do what, int rc, int64_t now_ns);

int mst_calls_next_action(struct mst_calls *calls,
                          struct mst_calls_action *action, int64_t now_ns);

// ---- what users want

// mst_calls_send gives a call to a worker. 0; -MST_ECLOSED, it is lost for good;
// -MST_EMEM. Takes a reference to the payload. Allocates.
int mst_calls_send(struct mst_calls *calls, uint32_t worker,
                   struct mst_blob *payload, const void *caller, int32_t tag,
                   uint8_t unseen, int64_t now_ns);
// mst_calls_await: somebody waits for the answers of a worker, or of one task.
void mst_calls_await(struct mst_calls *calls, uint32_t worker);
void mst_calls_await_task(struct mst_call *task);
// mst_calls_forget cancels what a worker owes one verb, and drops its answers. caller NULL:
// all verbs'.
void mst_calls_forget(struct mst_calls *calls, uint32_t worker,
                      const void *caller, int64_t now_ns);
// mst_calls_retire, mst_calls_kill: one worker is to end, as asked, or at once; it isn't
// replaced.
void mst_calls_retire(struct mst_calls *calls, uint32_t worker, int64_t now_ns);
void mst_calls_kill(struct mst_calls *calls, uint32_t worker, int64_t now_ns);

// What sets a task apart from others.
struct mst_task_terms {
  struct mst_job *job; // that must be at its worker before it, NULL for none
  int32_t retries;     // -1: the cluster's
  int64_t timeout_ns;  // 0: the cluster's
  int32_t priority;    // higher goes first
};
// mst_calls_submit queues a task. workers: increasing numbers, NULL for any. References to
// the payload and the job are taken; the caller has one to the task. NULL without memory.
// Allocates. Cost: O(log tasks + workers in the set).
struct mst_call *mst_calls_submit(struct mst_calls *calls,
                                  struct mst_blob *payload,
                                  const uint32_t *workers, uint32_t count,
                                  const struct mst_task_terms *terms,
                                  int64_t now_ns);
// mst_call_cancel takes a task from the queue, or has its worker interrupt it. 1 if that
// was in time, 0 if it is done. O(log tasks).
int mst_call_cancel(struct mst_call *task, int64_t now_ns);
// mst_calls_trim lets go of jobs that are too many to be kept.
void mst_calls_trim(struct mst_calls *calls);

// mst_calls_is_up tells whether a call that is given to a worker now reaches it: it is
// there, and has been told all that comes before.
int mst_calls_is_up(const struct mst_calls *calls, const struct mst_slot *slot);

// mst_calls_check tells which invariant is broken, NULL if none: for tests, after every
// step.
const char *mst_calls_check(const struct mst_calls *calls);

#endif
