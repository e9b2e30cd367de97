// pool/call: one call to a worker: its payload, its references, and its answer or its loss. Pure:
// no socket, no clock, no R.
//
// The cluster holds a reference to each of its calls until the call is over; the submitter of a
// task holds another. Payload and job are released when the call is over; its answer when it has
// been taken and nobody refers to the call any more.
//
// Only the thread that has the session may use this. Nothing blocks; only mst_call_new and
// mst_call_hear allocate.
#ifndef MST_POOL_CALL_H
#define MST_POOL_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"
#include "pool/common.h"
#include "pool/job.h"
#include "pool/loss.h"
#include "pool/queue.h"
#include "share/blob.h"
#include "wire/wire.h"

struct mst_calls;
struct mst_mailbox;

enum mst_call_state {
  MST_CALL_QUEUED, // no worker has it
  MST_CALL_GIVEN,  // it is in a mailbox
  MST_CALL_DONE,   // answered: flags, value, map
  MST_CALL_LOST, // loss says why; NULL if memory was short or the cluster was stopped
  MST_CALL_CANCELLED // not wanted; a mailbox may hold it until its answer comes
};

// Counts over all clusters of a session.
struct mst_counts {
  uint64_t arrivals;   // answers that came or moved up
  uint64_t tasks;      // last serial given
  uint64_t tasks_done; // tasks that are over
  uint64_t said;       // values kept that tasks said before their answers
};

// Counts of one cluster's calls.
struct mst_tally {
  struct mst_calls *calls; // the cluster's
  struct mst_counts *counts;
  struct mst_call *kept; // tasks with an answer that nobody has taken
  // Tasks whose needs (result.h) aren't met; and those whose needs are, or never will be.
  struct mst_call *waiting, *ready;
  size_t answer_bytes; // of all answers that nobody has taken
  uint32_t limited;    // calls with their own time limit
  // Some call has released its job; the reader clears this.
  uint8_t jobs_released;
};

// Whether a queued task is kept out of the queue.
enum mst_held { MST_HELD_NOT, MST_HELD_WAITING, MST_HELD_READY };

struct mst_call {
  struct mst_call *next,
      *before; // in its mailbox, its answers, or a list of the tally
  struct mst_tally *tally;     // NULL once it has left the cluster
  struct mst_mailbox *mailbox; // that holds it, or NULL
  // A reference, until it is over; of a task with an error or a loss, as long as its caller's, if
  // it has no segment.
  struct mst_blob *payload;
  struct mst_job *job;   // that it needs, or NULL; likewise
  struct mst_cast *cast; // that it belongs to, or NULL; likewise
  const void *caller;    // the verb, an opaque value; NULL for a task
  uint64_t id;           // in its mailbox, from 1; sent over the wire
  uint64_t serial;       // of a task; counts up in a session
  int64_t timeout_ns;    // for its evaluation; 0: the cluster's
  int64_t asked_ns, sent_ns, done_ns;
  struct mst_queued queued;
  char *label;     // of a task, in the user's words, or NULL; owned
  int32_t tag;     // the caller's number for it
  int32_t retries; // -1: the cluster's
  uint32_t refs;   // the cluster's and, for a task, the caller's
  uint32_t worker; // that has or answered it
  uint32_t losses; // of workers that evaluated it
  uint8_t state;   // enum mst_call_state
  uint8_t is_task;
  uint8_t is_part;   // of something else, such as a map
  uint8_t alone;     // no other worker may compute meanwhile
  uint8_t unseen;    // enum mst_unseen: log it even if nothing seems to change
  uint8_t sent;      // to the current incarnation, or the one lost last
  uint8_t withdraws; // its worker was asked not to begin it
  uint8_t cancelled; // nobody wants its answer
  uint8_t timed_out; // interrupted because it took too long
  uint8_t awaited;   // somebody waits for it while it is queued
  uint8_t stranded;  // LOST because no worker that may take it is left
  uint8_t counted;   // its answer is in answer_bytes
  uint16_t flags;    // of its answer
  struct mst_buf bytes; // holds the answer; owned
  const uint8_t *value; // payload of VALUE, in bytes
  size_t value_bytes;
  struct mst_map *map;   // its segment, or NULL; a reference
  struct mst_loss *loss; // owned
  // Of a task: what it has said and nobody has taken, oldest first; owned.
  struct mst_call *said, *last_said;
  // Of a task that others need, or that needs others: see result.h.
  struct mst_job *result; // while somebody refers to it
  struct mst_need *needs; // owned
  struct mst_call *
      cause; // the task that failed, so that this one can't be evaluated; a reference
  uint32_t need_count;
  uint32_t waits;    // needs that aren't met
  uint8_t held;      // enum mst_held
  uint32_t said_all; // values kept, those taken included
  uint32_t said_now; // values that its present attempt has said
};

// The contents of an answer. It owns bytes and map.
struct mst_answered {
  uint64_t call;
  uint16_t flags;
  double elapsed_s;
  struct mst_seed seed; // with MST_FLAG_SEED; !known if unreadable
  struct mst_buf bytes;
  const uint8_t *value; // in bytes
  size_t value_bytes;
  struct mst_map *map;
};
void mst_answered_free(struct mst_answered *answered);

// mst_call_new makes a call with one reference, the cluster's. Takes a reference to the payload,
// which may be NULL. NULL if memory is short.
struct mst_call *mst_call_new(struct mst_tally *tally,
                              struct mst_blob *payload);
// mst_call_release drops a reference. A task without references is still evaluated, and its answer
// dropped.
void mst_call_release(struct mst_call *call);

// mst_call_link puts a call first into a list of the tally, mst_call_unlink takes it out.
static inline void mst_call_link(struct mst_call **list,
                                 struct mst_call *call) {
  call->before = NULL;
  call->next = *list;
  if (*list != NULL) (*list)->before = call;
  *list = call;
}
static inline void mst_call_unlink(struct mst_call **list,
                                   struct mst_call *call) {
  if (call->next != NULL) call->next->before = call->before;
  if (call->before != NULL) {
    call->before->next = call->next;
  } else {
    *list = call->next;
  }
  call->next = call->before = NULL;
}

static inline int mst_call_is_done(const struct mst_call *call) {
  return call->state != MST_CALL_QUEUED && call->state != MST_CALL_GIVEN;
}
// mst_call_is_wanted tells whether anybody may still ask for the answer.
int mst_call_is_wanted(const struct mst_call *call);

// mst_call_keep_answer moves an answer into its call; it counts in the tally until mst_call_taken.
// The descriptor of its segment is kept only for its result.
void mst_call_keep_answer(struct mst_call *call, struct mst_answered *answered);
// mst_call_taken: the answer was read, and no longer counts in the tally.
void mst_call_taken(struct mst_call *call);

// mst_call_hear keeps what a task says before its answer. An attempt after a loss says again what
// the one before has said: as many values as were kept are dropped. Dropped also if memory is
// short. Allocates.
// mst_call_take_said removes the oldest value, a call of its own: the caller gets its reference.
// NULL if there is none.
void mst_call_hear(struct mst_call *task, struct mst_answered *answered);
struct mst_call *mst_call_take_said(struct mst_call *task);

// mst_call_has_failed tells whether a call is a task, and over with an error or a loss.
int mst_call_has_failed(const struct mst_call *call);
// mst_call_let_go releases what a call needed to be sent; not that of a task that has failed, whose
// caller may want to see it, if it has no segment. The call is over.
void mst_call_let_go(struct mst_call *call);
// mst_call_leave removes a call, which is in no mailbox any more, from its cluster and drops the
// cluster's reference. A task's answer stays until it is taken.
void mst_call_leave(struct mst_call *call);
// mst_call_end ends a task in this state. What needs its result is ready, or has less to wait for.
// Allocates if something does.
void mst_call_end(struct mst_call *call, enum mst_call_state state,
                  int64_t now_ns);
// mst_call_settle does mst_call_end and mst_call_leave.
void mst_call_settle(struct mst_call *call, enum mst_call_state state,
                     int64_t now_ns);

#endif
