// pool/look: what is known of a worker, for whoever shows it or decides by it. All are copies: R
// code that runs between two looks may change everything.
#ifndef MST_POOL_LOOK_H
#define MST_POOL_LOOK_H

#include <stdint.h>

#include "pool/session.h"

// What a worker would come back with.
enum mst_healing {
  MST_HEALING_NONE,   // it wouldn't
  MST_HEALING_FRESH,  // its set-up
  MST_HEALING_REPLAY, // all, by replaying its calls
  MST_HEALING_STATE   // all, from a copy of its process
};

struct mst_look {
  enum mst_worker_state state;
  enum mst_healing healing;
  uint32_t pid;        // the last one that was known, 0 for none
  uint32_t epoch;      // 0 for the first incarnation
  uint32_t unread;     // answers that verbs are to take
  uint64_t done;       // answers received, of all incarnations
  uint32_t exit_how;   // enum mst_exit; MST_EXIT_NONE until it is known
  int32_t exit_number; // exit code or signal
  int32_t sys_errno;   // it can't be started for want of this, 0: not so
  int64_t heard_ns;    // its last sign of life
  int64_t began_ns;    // its oldest call; INT64_MAX if it evaluates none
  uint8_t exit_known;
  uint8_t suspect;   // asked for a sign of life, and late
  uint8_t oom;       // it was killed to have memory
  uint8_t ours;      // muster killed it
  uint8_t up;        // it takes calls or evaluates one
  uint8_t awaited;   // its end, or that there is no process, isn't known
  uint8_t ends;      // it was asked to end
  uint8_t dead;      // it is lost, and doesn't come back
  uint8_t resuming;  // it is on its way, and gets its calls when it is there
  uint8_t replaying; // it owes answers to calls that are repeated
  uint8_t mute;      // no answer comes from it any more
  uint8_t lives;     // it is there or comes, and wasn't asked to end
};

// mst_peer_look is O(1), and never blocks. mst_peer_ends tells `ends` alone.
struct mst_look mst_peer_look(const struct mst_peer *peer, int64_t now_ns);
int mst_peer_ends(const struct mst_peer *peer);

#endif
