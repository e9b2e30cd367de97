// pool/spin: whether a wait begins by polling without sleep. That pays if the answer comes at once
// and a core is free; otherwise it takes time from other processes. So it adapts: a few
// unsuccessful spins in a row disable it for some waits, then for twice as many, and so on; a
// success resets it. After a wrong decision a session spins again within a few calls, and one with
// long calls spins in one wait of a thousand. Pure.
#ifndef MST_POOL_SPIN_H
#define MST_POOL_SPIN_H

#include <stdint.h>

#include "base/mst_clock.h"

#define MST_SPIN_NS (50 * MST_NS_PER_US)
// For a worker on another host: twice as long as a round trip and a call take at best, up to this.
// The session's core stays awake and warm meanwhile, which is most of what it gains.
#define MST_SPIN_FAR_NS MST_NS_PER_MS
// A core that must wake up, or a garbage collection in the worker, makes one or two fail.
#define MST_SPIN_FAILED 3u
#define MST_SPIN_PAUSE_LEAST 8u
#define MST_SPIN_PAUSE_MOST 1024u

struct mst_spin {
  uint32_t failed; // in a row
  uint32_t pause;  // waits left without spinning
  uint32_t last;   // length of the last pause, 0 after a success
};

// mst_spin_ns gives how long to spin for an answer that takes soon_ns at best; 0: not at all.
int64_t mst_spin_ns(int64_t soon_ns);
int mst_spin_begin(struct mst_spin *spin);           // 1: spin now
void mst_spin_end(struct mst_spin *spin, int found); // found: it was successful

#endif
