// pool/action: the one list of what is to be done for a cluster: its workers that have something
// to do, and for each of them what, as bits. The core of calls (calls_next.c) turns it into actions
// that the session carries out. Pure lists; nothing allocates.
#ifndef MST_POOL_ACTION_H
#define MST_POOL_ACTION_H

#include <stdint.h>

#include "wire/wire.h"

struct mst_blob;
struct mst_loss;
struct mst_worker;

enum mst_do {
  // What is due for a worker, in this order.
  MST_DO_KILL = 1, // SIGKILL to its process group
  MST_DO_BREAK,    // end its data channel: its messages are unusable
  MST_DO_RESUME,   // it is ready: no action, the core replays its journal
  // It is lost: stop reading from it, find out how it ended, and call mst_calls_judged. Then close
  // what remains of this incarnation.
  MST_DO_JUDGE,
  MST_DO_LEAVE, // it has left, as it was asked to: no action, the core ends its calls
  MST_DO_CLOSE,  // close what remains of a worker that has left
  MST_DO_FORGET, // end its checkpoint: it won't come back
  MST_DO_REPLAY, // no action: SEED, JOB and EXEC of its journal
  // On its data channel. If sending fails, call mst_calls_unsent.
  MST_DO_CHECKPOINT, // ask for one. If that fails, call mst_calls_no_checkpoint
  MST_DO_EXEC, // payload, id, flags, attempt. When sent, call mst_calls_sent
  // On its control channel.
  MST_DO_CANCEL,   // id
  MST_DO_WITHDRAW, // id. If the worker agrees, call mst_calls_withdrawn
  MST_DO_TRIM, // on its data channel: it is to give back memory that it doesn't use
  MST_DO_PING,
  MST_DO_BYE, // on its data channel
  // Before the calls that need them, on its data channel.
  MST_DO_SEED, // seed; !known: a fresh stream
  MST_DO_JOB,  // payload, id
  // When nothing else is due.
  MST_DO_DROP,   // on its data channel: job id
  MST_DO_LAUNCH, // start its process, with its channels
  MST_DO_PEND,   // it is on no host: its launch waits for one
  // Of the cluster.
  MST_DO_STARTED,      // as many workers are ready as the start needs
  MST_DO_START_FAILED, // all ended again; the reason: fail_* of the pool
  MST_DO_STOPPED,      // all ended
  MST_DO_TELL          // for the user: loss, which the taker frees
};

// Payloads and jobs belong to the core: use them before the next step.
struct mst_action {
  enum mst_do kind;
  uint32_t worker;
  uint64_t id;
  uint16_t flags; // MST_FLAG_*
  uint16_t attempt;
  struct mst_blob *payload;
  struct mst_seed seed;
  struct mst_loss *loss;
};

// Workers with something to do, in the order in which it was noted.
struct mst_due {
  struct mst_worker *first, *last;
};

// mst_due_add notes something to do with a worker; again for the same does nothing.
void mst_due_add(struct mst_due *due, struct mst_worker *worker,
                 enum mst_do what);
// mst_due_next takes the first thing to do with the first worker, or gives NULL. As long as the
// worker has more to do it stays the first.
struct mst_worker *mst_due_next(struct mst_due *due, enum mst_do *what);

#endif
