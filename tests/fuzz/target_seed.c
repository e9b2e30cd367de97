// Target: mst_seed_decode, alone and behind the times of a VALUE.
#include <math.h>
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "wire/wire.h"

static int decode(const uint8_t *bytes, size_t n) {
  struct mst_seed seed;
  memset(&seed, 0xEE, sizeof seed);
  const int rc = mst_seed_decode(bytes, n, &seed);
  FUZZ_CHECK(rc == 0 || rc == -MST_EPROTO);
  if (rc != 0) return rc;
  FUZZ_CHECK(n >= MST_SEED_BYTES);
  FUZZ_CHECK(seed.known == 1);
  FUZZ_CHECK(seed.words[0] >= 0 && seed.words[0] % 100 == 7);
  uint8_t again[MST_SEED_BYTES];
  mst_seed_encode(&seed, again);
  FUZZ_CHECK(memcmp(again, bytes, sizeof again) == 0);
  return 0;
}

static void run(const uint8_t *bytes, size_t n) {
  const int whole = decode(bytes, n);
  // What comes behind it changes nothing.
  if (n > MST_SEED_BYTES) FUZZ_CHECK(decode(bytes, MST_SEED_BYTES) == whole);
  struct mst_value_head value;
  if (mst_value_head_decode(bytes, n, &value) != 0) return;
  (void)decode(bytes + MST_VALUE_HEAD_BYTES, n - MST_VALUE_HEAD_BYTES);
}

static void give(struct fuzz_sink *sink, const char *name, int32_t kind) {
  struct mst_seed seed = {.words = {407, 1, -1, INT32_MAX, INT32_MIN, 5, 6}};
  uint8_t bytes[MST_SEED_BYTES];
  mst_seed_encode(&seed, bytes);
  for (int k = 0; k < 4; k++)
    bytes[k] = (uint8_t)((uint32_t)kind >> (8 * k));
  sink->take(sink, name, bytes, sizeof bytes);
}

static void seeds(struct fuzz_sink *sink) {
  give(sink, "lecuyer", 10407);
  give(sink, "lecuyer-rounding", 407);
  give(sink, "mersenne-twister", 10403);
  give(sink, "kind-negative", -93);
  struct mst_seed seed = {.words = {10407, 1, 2, 3, 4, 5, 6}};
  const struct mst_value_head times = {0.25, 0.5, 3};
  uint8_t bytes[MST_VALUE_HEAD_BYTES + MST_SEED_BYTES + 2] = {0};
  mst_value_head_encode(&times, bytes);
  mst_seed_encode(&seed, bytes + MST_VALUE_HEAD_BYTES);
  sink->take(sink, "behind-times", bytes, sizeof bytes);
  mst_seed_encode(&seed, bytes);
  sink->take(sink, "with-r-bytes", bytes, MST_SEED_BYTES + 2);
  sink->take(sink, "cut", bytes, MST_SEED_BYTES - 1);
}

const struct fuzz_target fuzz_seed = {"seed", 0, run, seeds};
