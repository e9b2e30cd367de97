// Target: mst_value_head_decode.
#include <math.h>
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "wire/wire.h"

static void run(const uint8_t *bytes, size_t n) {
  struct mst_value_head value;
  const int rc = mst_value_head_decode(bytes, n, &value);
  FUZZ_CHECK(rc == 0 || rc == -MST_EPROTO);
  if (rc != 0) return;
  FUZZ_CHECK(n >= MST_VALUE_HEAD_BYTES);
  FUZZ_CHECK(isfinite(value.user_s) && isfinite(value.system_s) &&
             isfinite(value.elapsed_s));
  uint8_t again[MST_VALUE_HEAD_BYTES];
  mst_value_head_encode(&value, again);
  FUZZ_CHECK(memcmp(again, bytes, sizeof again) == 0);
}

static void seeds(struct fuzz_sink *sink) {
  // Times and list(1L, NULL), unnamed, as R 4.2 serializes it natively.
  static const uint8_t r_bytes[] = {
      'B', '\n', 3,   0,   0,   0,   3,   2,  4, 0, 0, 5,   3, 0, 5, 0,
      0,   0,    'U', 'T', 'F', '-', '8', 19, 0, 0, 0, 2,   0, 0, 0, 13,
      0,   0,    0,   1,   0,   0,   0,   1,  0, 0, 0, 254, 0, 0, 0};
  uint8_t bytes[MST_VALUE_HEAD_BYTES + sizeof r_bytes] = {0};
  sink->take(sink, "zeros", bytes, MST_VALUE_HEAD_BYTES);
  struct mst_value_head value = {0.25, 0.0625, 3.5};
  mst_value_head_encode(&value, bytes);
  sink->take(sink, "cut", bytes, MST_VALUE_HEAD_BYTES - 1);
  memcpy(bytes + MST_VALUE_HEAD_BYTES, r_bytes, sizeof r_bytes);
  sink->take(sink, "with-r-bytes", bytes, sizeof bytes);
  value = (struct mst_value_head){-0.0, 5e-324, -1e300};
  mst_value_head_encode(&value, bytes);
  sink->take(sink, "odd-numbers", bytes, MST_VALUE_HEAD_BYTES);
  memset(bytes, 0xFF, 8);
  sink->take(sink, "nan", bytes, MST_VALUE_HEAD_BYTES);
}

const struct fuzz_target fuzz_value_head = {"value_head", 0, run, seeds};
