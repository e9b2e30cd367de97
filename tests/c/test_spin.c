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

TEST("Waits for another host spin for twice a round trip, if that is short") {
  CHECK_INT(mst_spin_ns(0), MST_SPIN_NS);
  CHECK_INT(mst_spin_ns(100 * MST_NS_PER_US),
            2 * 100 * MST_NS_PER_US + 2 * MST_SPIN_NS);
  const int64_t most_ns = MST_SPIN_FAR_NS / 2 - MST_SPIN_NS;
  CHECK_INT(mst_spin_ns(most_ns), MST_SPIN_FAR_NS);
  CHECK_INT(mst_spin_ns(most_ns + 1), 0);
  CHECK_INT(mst_spin_ns(INT64_MAX), 0); // not measured yet
}
