// Target: mst_dial_decode.
#include <string.h>

#include "dialin/dialin.h"
#include "fuzz.h"

static void run(const uint8_t *bytes, size_t n) {
  static const enum mst_kind kinds[] = {MST_KIND_DIAL, MST_KIND_ADMIT};
  for (int i = 0; i < 2; i++) {
    struct mst_dial dial;
    const int rc = mst_dial_decode(bytes, n, kinds[i], &dial);
    FUZZ_CHECK(rc == 0 || rc == 1 || rc == -MST_EPROTO);
    FUZZ_CHECK(rc != 0 || n < MST_DIAL_BYTES);
    if (rc != 1) continue;
    uint8_t again[MST_DIAL_BYTES];
    FUZZ_CHECK(n >= sizeof again && dial.attempt > 0);
    mst_dial_encode(&dial, kinds[i], again);
    FUZZ_CHECK(memcmp(again, bytes, sizeof again) == 0);
  }
}

static void give(struct fuzz_sink *sink, const char *name, enum mst_kind kind,
                 uint16_t attempt) {
  struct mst_dial dial = {
      .cluster = 1, .worker = 2, .epoch = 3, .attempt = attempt};
  uint8_t bytes[MST_DIAL_BYTES];
  memset(dial.nonce, 0xA5, sizeof dial.nonce);
  mst_dial_encode(&dial, kind, bytes);
  sink->take(sink, name, bytes, sizeof bytes);
}

static void seeds(struct fuzz_sink *sink) {
  give(sink, "dial", MST_KIND_DIAL, 1);
  give(sink, "admit", MST_KIND_ADMIT, 65535);
  give(sink, "attempt-zero", MST_KIND_DIAL, 0);
}

const struct fuzz_target fuzz_dial = {"dial", 0, run, seeds};
