// Target: mst_meet_decode, which reads what whoever connects to a worker's listener says first.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "wire/link_msg.h"

static void run(const uint8_t *bytes, size_t n) {
  struct mst_meet meet, other;
  const int rc = mst_meet_decode(bytes, n, &meet);
  FUZZ_CHECK(rc == (n == MST_MEET_BYTES ? 0 : -MST_EPROTO));
  if (rc != 0) return;
  uint8_t again[MST_MEET_BYTES];
  mst_meet_encode(&meet, again);
  FUZZ_CHECK(memcmp(again, bytes, n) == 0);
  FUZZ_CHECK(mst_meet_same(&meet, &meet));
  again[bytes[0] % MST_MEET_BYTES] ^= 1;
  FUZZ_CHECK(mst_meet_decode(again, sizeof again, &other) == 0);
  FUZZ_CHECK(!mst_meet_same(&meet, &other));
}

static void seeds(struct fuzz_sink *sink) {
  const struct mst_meet meet = {1, 0, 2, 3, "fifteen letters"};
  uint8_t bytes[MST_MEET_BYTES + 1] = {0};
  sink->take(sink, "zeros", bytes, MST_MEET_BYTES);
  mst_meet_encode(&meet, bytes);
  sink->take(sink, "meet", bytes, MST_MEET_BYTES);
  sink->take(sink, "too-long", bytes, sizeof bytes);
  sink->take(sink, "too-short", bytes, MST_MEET_BYTES - 1);
}

const struct fuzz_target fuzz_meet = {"meet", 0, run, seeds};
