// pool/loss: how a worker ended, for people. Owned by whoever takes it.
#ifndef MST_POOL_LOSS_H
#define MST_POOL_LOSS_H

#include <stdint.h>

// What was wrong with a worker. R code has the words (R/failure-messages.R).
enum mst_why {
  MST_WHY_NONE,      // nothing that is known
  MST_WHY_TOLD,      // what a text says that goes with it
  MST_WHY_INTERRUPT, // its call went on after the interrupt
  MST_WHY_CANCEL,    // its call went on for long after it was cancelled
  MST_WHY_HEARTBEAT, // it gave no sign of life
  MST_WHY_KILLED,    // the user ended it
  MST_WHY_HELLO,     // its hello can't be read
  MST_WHY_VERSION,   // it speaks another version of the protocol
  MST_WHY_BUILD,     // it runs another build of muster
  MST_WHY_READY,     // what it reports when it is ready can't be read
  MST_WHY_MESSAGE,   // it sent a message that it shouldn't have
  MST_WHY_FRAME,     // it sent bytes that are no message
  MST_WHY_ANSWER,    // it answered another call than the one that it owes
  MST_WHY_NO_MEMORY, // the session had no memory for its answer
  MST_WHY_REPLAY,    // a call failed when it was replayed
  MST_WHY_THREADS,   // its fork server has threads
  MST_WHY_SHORT,     // it can't be launched: the system is short of something
  // its state can't be had again, see enum mst_incomplete
  MST_WHY_MANY,
  MST_WHY_LONG,
  MST_WHY_MEMORY,
  MST_WHY_ENDED
};

struct mst_loss {
  struct mst_loss *next;
  uint64_t call; // the call that fails because of it; 0 if none does
  enum mst_loss_kind {
    MST_LOSS_RESTARTED, // it comes back, what it owed is sent again
    MST_LOSS_POISON,    // it comes back, but its call failed too often
    MST_LOSS_TIMEOUT,   // its call took too long
    MST_LOSS_GIVEN_UP   // it doesn't come back
  } kind;
  uint32_t cluster, worker, pid;
  uint32_t how; // enum mst_exit
  int32_t number;
  uint32_t attempts; // of the call that fails, or is tried again
  uint32_t again;    // calls that are sent again
  int32_t sys_errno; // what it can't be started for want of, 0 if for nothing
  uint8_t oom;  // the kernel killed it to have memory, as far as can be told
  uint8_t ours; // muster killed it; why says for what
  uint8_t fresh_rng; // it had a random number stream that can't be had again
  char *output;      // its last words, owned
  enum mst_why why;  // it was given up
  char *reason;      // owned; TOLD: the text
  int32_t tag;       // of the call that fails
};

// mst_loss_free frees it with its texts; NULL is allowed.
void mst_loss_free(struct mst_loss *loss);

#endif
