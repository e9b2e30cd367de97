// Target: mst_segment_decode.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "wire/wire.h"

static void run(const uint8_t *bytes, size_t n) {
  uint64_t size = 0;
  const int rc = mst_segment_decode(bytes, n, &size);
  FUZZ_CHECK(rc == 0 || rc == -MST_EPROTO);
  FUZZ_CHECK((rc == 0) == (size > 0)); // changed only if it is read
  if (rc != 0) return;
  FUZZ_CHECK(n >= MST_SEGMENT_BYTES && size <= MST_FRAME_MAX);
  uint8_t again[MST_SEGMENT_BYTES];
  mst_segment_encode(size, again);
  FUZZ_CHECK(memcmp(again, bytes, sizeof again) == 0);
}

static void seeds(struct fuzz_sink *sink) {
  uint8_t bytes[MST_SEGMENT_BYTES + 4] = {0};
  sink->take(sink, "empty", bytes, MST_SEGMENT_BYTES);
  mst_segment_encode(64, bytes);
  sink->take(sink, "smallest-with-more", bytes, sizeof bytes);
  mst_segment_encode(MST_FRAME_MAX, bytes);
  sink->take(sink, "largest", bytes, MST_SEGMENT_BYTES);
  bytes[0] = 1;
  sink->take(sink, "too-large", bytes, MST_SEGMENT_BYTES);
}

const struct fuzz_target fuzz_segment = {"segment", 0, run, seeds};
