// pool/recover: a slot is one place of a cluster, which one incarnation of a worker after the other
// takes: its calls (lane.h), and what it takes to make it again when it is lost. Pure.
#ifndef MST_POOL_RECOVER_H
#define MST_POOL_RECOVER_H

#include <stdint.h>

#include "pool/heal.h"
#include "pool/journal.h"
#include "pool/lane.h"
#include "pool/state.h"

struct mst_slot {
  struct mst_lane lane;
  struct mst_heal heal;
  struct mst_journal journal;
  struct mst_seed seed; // the stream's position after the last answer
  char *failure;        // what was wrong first; owned
  uint8_t rng_other;    // it drew from another generator what won't be repeated
  uint8_t rng_drew;     // it drew random numbers at all
  uint8_t rng_kept;     // its checkpoint has the stream
  uint8_t dead;         // it stays lost
  uint8_t to_heal;      // it was lost, and what follows is not done yet
  uint8_t resuming;     // it comes back: calls are queued, not sent
  uint8_t ended;        // its channel is read no more
  uint8_t oom;          // what was lost last was killed to have memory
  uint8_t ours;         // it was killed by muster: the session, or its watch
  uint8_t alone;        // its calls are to run while all others are idle
  uint8_t drains; // it was to finish and end: to be looked at until it has left
  int32_t sys_errno; // its last launch failed for want of something; 0: none
  uint32_t launches; // that failed so, in a row
  int64_t launch_ns; // when it is launched again; INT64_MAX if it isn't
  int64_t head_ns;   // since when it evaluates the oldest call
  uint64_t cancel;   // call that it was last told to interrupt
  int64_t cancel_ns; // and when, for the first time
  // its journal is replayed
  uint32_t replay_left;       // answers of the journal's calls that are to come
  struct mst_entry *replayed; // entry whose answer comes next
  struct mst_entry *replay;   // next to be sent
  uint8_t replaying;          // it is being sent
  uint8_t from_checkpoint;    // this incarnation was launched from one
  uint8_t seeded;             // the seed before `replay` was sent
};

#endif
