// When to look again and again instead of sleeping. The contract is in spin.h.
#include "pool/spin.h"

int64_t mst_spin_ns(int64_t soon_ns) {
  if (soon_ns > MST_SPIN_FAR_NS / 2 - MST_SPIN_NS) return 0;
  return soon_ns == 0 ? MST_SPIN_NS : 2 * (soon_ns + MST_SPIN_NS);
}

int mst_spin_begin(struct mst_spin *spin) {
  if (spin->pause == 0) return 1;
  spin->pause--;
  return 0;
}

void mst_spin_end(struct mst_spin *spin, int found) {
  if (found) {
    spin->failed = spin->last = 0;
    return;
  }
  // After a pause one is enough to begin the next.
  if (++spin->failed < MST_SPIN_FAILED && spin->last == 0) return;
  spin->failed = 0;
  spin->last = spin->last == 0 ? MST_SPIN_PAUSE_LEAST : 2 * spin->last;
  if (spin->last > MST_SPIN_PAUSE_MOST) spin->last = MST_SPIN_PAUSE_MOST;
  spin->pause = spin->last;
}
