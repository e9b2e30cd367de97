// When to look again and again instead of sleeping. See run.h.
#include "pool/run.h"

// A core that has to wake up, or a collection in the worker, makes one or two.
#define FAILED_MAX 6u

int mst_spin_begin(struct mst_spin *spin) {
  if (spin->pause == 0) return 1;
  spin->pause--;
  return 0;
}

void mst_spin_end(struct mst_spin *spin, int found) {
  if (found) {
    spin->failed = 0;
    return;
  }
  if (++spin->failed < FAILED_MAX) return;
  spin->failed = 0;
  spin->pause = MST_SPIN_PAUSE;
}
