// pool/call: one call to a worker: what it is sent with, who refers to it, and its answer or
// its loss. Pure: no socket, no clock, no R.
//
// The cluster has a reference to each of its calls until the call is over, and whoever submitted a
// task has one to that. What a call needs to be sent, payload and job, goes when it is over; its
// answer when somebody has taken it and nobody refers to the call any more.
//
// One thread at a time: whoever has the session. Nothing blocks, and nothing allocates but
// mst_call_new.
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
  MST_CALL_LOST, // it will not be answered: loss, NULL without memory, or if its
                 // cluster was stopped
  MST_CALL_CANCELLED // nobody wants it; a mailbox may have it until its answer comes
};

// What all clusters of a session count together.
struct mst_counts {
  uint64_t arrivals;   // answers that came, or moved up
  uint64_t tasks;      // last serial given
  uint64_t tasks_done; // that are not to be done any more
};

// What one cluster counts of its calls.
struct mst_tally {
  struct mst_calls *calls; // the cluster's
  struct mst_counts *counts;
  struct mst_call *kept; // tasks whose answers nobody has taken
  size_t answer_bytes;   // of answers that nobody has taken
  uint32_t limited;      // calls with a time limit of their own
  uint8_t
      jobs_released; // a call has let go of its job; whoever looks clears it
};

struct mst_call {
  struct mst_call *next,
      *before;             // in its mailbox, or among its mailbox's answers
  struct mst_tally *tally; // NULL once the cluster has no more to do with it
  struct mst_mailbox *mailbox; // that has it, NULL if none does
  struct mst_blob *payload;    // a reference, until it is answered or fails
  struct mst_job *job;         // that it needs, NULL for none. Likewise
  struct mst_cast *cast;       // of which it is one, NULL for none. Likewise
  const void *caller; // whose it is, as the caller said; NULL for a task
  uint64_t id;        // in its mailbox, from 1; what goes over the wire
  uint64_t serial;    // of tasks, counts up in a session
  int64_t timeout_ns; // of its evaluation; 0: the cluster's
  int64_t sent_ns, done_ns;
  struct mst_queued queued;
  int32_t tag;     // the caller's own number for it
  int32_t retries; // -1: the cluster's
  uint32_t refs;   // the cluster's, and of a task the caller's
  uint32_t worker; // that answered, or has it
  uint8_t state;   // enum mst_call_state
  uint8_t is_task;
  uint8_t unseen;       // enum mst_unseen: to be kept whatever it changes
  uint8_t sent;         // to the incarnation that lives, or was lost last
  uint8_t cancelled;    // nobody wants its answer
  uint8_t timed_out;    // it was interrupted, since it took too long
  uint8_t awaited;      // somebody waits for it while it is queued
  uint8_t stranded;     // it is LOST, since no worker that may have it is left
  uint8_t counted;      // its answer counts among those that nobody has taken
  uint16_t flags;       // of its answer
  struct mst_buf bytes; // what holds the answer, owned
  const uint8_t *value; // payload of VALUE, in bytes
  size_t value_bytes;
  struct mst_map *map;   // its segment, NULL if none; a reference
  struct mst_loss *loss; // owned
};

// What an answer says. bytes and map belong to it.
struct mst_answered {
  uint64_t call;
  uint16_t flags;
  double elapsed_s;
  struct mst_seed seed; // with MST_FLAG_SEED; !known: it couldn't be read
  struct mst_buf bytes;
  const uint8_t *value; // in bytes
  size_t value_bytes;
  struct mst_map *map;
};
void mst_answered_free(struct mst_answered *answered);

// mst_call_new makes a call with one reference, the cluster's. Takes a reference to the payload,
// which may be NULL. NULL without memory.
struct mst_call *mst_call_new(struct mst_tally *tally,
                              struct mst_blob *payload);
// mst_call_release drops a reference. A task that nobody refers to is evaluated all the
// same, and its answer dropped.
void mst_call_release(struct mst_call *call);

int mst_call_is_done(const struct mst_call *call);
// mst_call_is_wanted tells whether anybody may ask for its answer.
int mst_call_is_wanted(const struct mst_call *call);

// mst_call_keep_answer moves an answer into its call, and counts it until mst_call_taken.
void mst_call_keep_answer(struct mst_call *call, struct mst_answered *answered);
// mst_call_taken: its answer was read once, and counts no more.
void mst_call_taken(struct mst_call *call);

// mst_call_let_go drops what a call that is over needed to be sent.
void mst_call_let_go(struct mst_call *call);
// mst_call_leave: the cluster has no more to do with a call that is in no mailbox any more. Drops
// its reference; a task's answer stays until it is taken.
void mst_call_leave(struct mst_call *call);
// mst_call_end: what the user asked for by a task is over, in this state.
void mst_call_end(struct mst_call *call, enum mst_call_state state,
                  int64_t now_ns);
// mst_call_settle does both.
void mst_call_settle(struct mst_call *call, enum mst_call_state state,
                     int64_t now_ns);

#endif
