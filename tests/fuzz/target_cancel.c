// Target: mst_cancel_decode.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "wire/wire.h"

static void run(const uint8_t *bytes, size_t n) {
  uint32_t grace_ms = 0;
  const int rc = mst_cancel_decode(bytes, n, &grace_ms);
  FUZZ_CHECK(rc == (n == MST_CANCEL_BYTES ? 0 : -MST_EPROTO));
  if (rc != 0) return;
  uint8_t again[MST_CANCEL_BYTES];
  mst_cancel_encode(grace_ms, again);
  FUZZ_CHECK(memcmp(again, bytes, n) == 0);
}

static void seeds(struct fuzz_sink *sink) {
  uint8_t bytes[MST_CANCEL_BYTES + 1] = {0};
  sink->take(sink, "at-once", bytes, MST_CANCEL_BYTES);
  mst_cancel_encode(1000, bytes);
  sink->take(sink, "second", bytes, MST_CANCEL_BYTES);
  sink->take(sink, "too-long", bytes, sizeof bytes);
  mst_cancel_encode(UINT32_MAX, bytes);
  sink->take(sink, "longest", bytes, MST_CANCEL_BYTES);
}

const struct fuzz_target fuzz_cancel = {"cancel", 0, run, seeds};
