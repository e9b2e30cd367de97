// pool/look: the state of a worker, for display and decisions. Each result is a copy: R code that
// runs between two looks may change everything.
#ifndef MST_POOL_LOOK_H
#define MST_POOL_LOOK_H

#include <stdint.h>

#include "pool/session.h"

// The state in which a worker would come back.
enum mst_healing {
  MST_HEALING_NONE,   // it wouldn't come back
  MST_HEALING_FRESH,  // as its set-up made it
  MST_HEALING_REPLAY, // as it was, by replaying its calls
  MST_HEALING_STATE   // as it was, from a copy of its process
};

struct mst_look {
  enum mst_worker_state state;
  enum mst_healing healing;
  uint32_t pid;        // the last one known, 0 if none
  uint32_t epoch;      // 0 for the first incarnation
  uint32_t unread;     // answers of verbs that nobody has taken
  uint64_t done;       // answers received, of all incarnations
  uint32_t exit_how;   // enum mst_exit; MST_EXIT_NONE until it is known
  int32_t exit_number; // exit code or signal
  int32_t sys_errno;   // the errno that prevented its launch, or 0
  int64_t heard_ns;    // its last sign of life
  int64_t began_ns;    // start of its oldest call; INT64_MAX if none runs
  uint8_t exit_known;
  uint8_t suspect;   // asked for a sign of life, and late with it
  uint8_t oom;       // the kernel killed it for memory
  uint8_t ours;      // muster killed it
  uint8_t up;        // it takes or evaluates calls
  uint8_t awaited;   // its end isn't known yet
  uint8_t ending;    // it is lost, and how it ended may still become known
  uint8_t ends;      // it was asked to end
  uint8_t dead;      // given up: it stays lost, or was killed
  uint8_t resuming;  // it is coming back, and will get its calls then
  uint8_t replaying; // it still owes answers to replayed calls
  uint8_t mute;      // no answer will come from it
  uint8_t lives;     // it is there or coming back, and wasn't asked to end
};

// mst_peer_look is O(1) and never blocks. mst_peer_ends gives only `ends`.
struct mst_look mst_peer_look(const struct mst_peer *peer, int64_t now_ns);
int mst_peer_ends(const struct mst_peer *peer);

#endif
