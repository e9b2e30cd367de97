// pool/spin: whether a wait begins with looking again and again. It pays when the answer comes
// at once and a core is free, and ruins others' work when not. So it judges itself: a few in a
// row that end empty switch it off for some waits, then for twice as many, and so on; one that
// finds something sets it back. A session that was judged wrongly spins again within a few
// calls, and one whose calls are long spins in one wait of a thousand. Pure.
#ifndef MST_POOL_SPIN_H
#define MST_POOL_SPIN_H

#include <stdint.h>

#include "base/mst_clock.h"

#define MST_SPIN_NS (50 * MST_NS_PER_US)
// A core that has to wake up, or a collection in the worker, makes one or two empty ones.
#define MST_SPIN_FAILED 3u
#define MST_SPIN_PAUSE_LEAST 8u
#define MST_SPIN_PAUSE_MOST 1024u

struct mst_spin {
  uint32_t failed; // in a row
  uint32_t pause;  // waits to go without spinning
  uint32_t last;   // the last pause's length, 0 after a success
};

int mst_spin_begin(struct mst_spin *spin);           // 1 if to spin now
void mst_spin_end(struct mst_spin *spin, int found); // what came of it

#endif
