// pool/loss: how a worker ended, for users. The taker owns it.
#ifndef MST_POOL_LOSS_H
#define MST_POOL_LOSS_H

#include <stdint.h>

// What was wrong with a worker. R code has the words (R/cluster-messages.R).
enum mst_why {
  MST_WHY_NONE,      // nothing known
  MST_WHY_TOLD,      // see the text that comes with it
  MST_WHY_INTERRUPT, // its call went on after the interrupt
  MST_WHY_CANCEL,    // its call went on long after it was cancelled
  MST_WHY_HEARTBEAT, // it gave no sign of life in time
  MST_WHY_KILLED,    // the user ended it
  MST_WHY_HELLO,     // its hello can't be read
  MST_WHY_VERSION,   // it speaks another version of the protocol
  MST_WHY_BUILD,     // it runs another build of muster
  MST_WHY_READY,     // its ready message can't be read
  MST_WHY_MESSAGE,   // it sent an unexpected message
  MST_WHY_FRAME,     // it sent bytes that aren't a message
  MST_WHY_ANSWER,    // it answered a call that wasn't its oldest
  MST_WHY_NO_MEMORY, // the session had no memory for its answer
  MST_WHY_REPLAY,    // a replayed call failed
  MST_WHY_THREADS,   // its fork server has threads
  MST_WHY_SHORT,     // the system lacked a resource for its launch
  MST_WHY_SERVER,    // its fork server is gone, and no other can start
  // Its state can't be restored, see enum mst_incomplete.
  MST_WHY_MANY,
  MST_WHY_LONG,
  MST_WHY_MEMORY,
  MST_WHY_ENDED
};

struct mst_loss {
  struct mst_loss *next;
  uint64_t call; // the call that fails because of it, or 0
  enum mst_loss_kind {
    MST_LOSS_RESTARTED, // it comes back, and what it owed is sent again
    MST_LOSS_POISON,    // it comes back, but its call failed too often
    MST_LOSS_TIMEOUT,   // its call took too long
    MST_LOSS_GIVEN_UP,  // it won't come back
    MST_LOSS_REDRAWN    // it is back, but its replay draws other numbers
  } kind;
  uint32_t cluster, worker, pid;
  uint32_t how; // enum mst_exit
  int32_t number;
  uint32_t attempts; // of the call that fails or is retried
  uint32_t again;    // calls that are sent again
  int32_t sys_errno; // the errno that prevented its start, or 0
  uint8_t oom;       // the kernel killed it for memory, as far as known
  uint8_t ours;      // muster killed it; `why` gives the reason
  uint8_t fresh_rng; // its random number stream is lost
  char *output;      // the last lines it printed; owned
  char *host, *job;  // where it was, unless on this machine; owned, or NULL
  int64_t ran_ns;    // for how long it had evaluated the call that fails, or 0
  enum mst_why why;  // why it was given up
  char *reason;      // the text of MST_WHY_TOLD; owned
  int32_t tag;       // of the call that fails
  int64_t limit_ns;  // of the call that took too long
  uint8_t own_limit; // the call's own, not the cluster's
};

// mst_loss_free frees it with its texts; NULL is allowed.
void mst_loss_free(struct mst_loss *loss);

#endif
