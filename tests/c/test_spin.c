// Tests of pool/spin: when waits spin.
#include "mst_test.h"
#include "pool/spin.h"

// spins tells how many of n waits spin, all of which end the same way.
static unsigned spins(struct mst_spin *spin, unsigned n, int found) {
  unsigned count = 0;
  for (unsigned i = 0; i < n; i++) {
    if (!mst_spin_begin(spin)) continue;
    count++;
    mst_spin_end(spin, found);
  }
  return count;
}

TEST("Waits whose answers come at once all spin") {
  struct mst_spin spin = {0};
  CHECK(spins(&spin, 10000, 1) == 10000);
}

TEST("Waits whose answers take long hardly ever spin") {
  struct mst_spin spin = {0};
  CHECK(spins(&spin, 10000, 0) < 25);
}

TEST("A session that was judged wrongly spins again within a few calls") {
  struct mst_spin spin = {0};
  CHECK(spins(&spin, 3, 0) == 3);
  CHECK(spins(&spin, 100, 1) == 92);
  CHECK(spins(&spin, 2, 0) == 2); // two empty ones say nothing
  CHECK(spins(&spin, 100, 1) == 100);
}
