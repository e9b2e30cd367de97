// Target: mst_text_decode.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "wire/wire.h"

static void run(const uint8_t *bytes, size_t n) {
  char text[MST_TEXT_MAX + 1];
  const int rc = mst_text_decode(bytes, n, text);
  FUZZ_CHECK(rc == 0 || rc == -MST_EPROTO);
  if (rc != 0) return;
  FUZZ_CHECK(n <= MST_TEXT_BYTES_MAX && strlen(text) == n - 4);
  uint8_t again[MST_TEXT_BYTES_MAX];
  FUZZ_CHECK(mst_text_encode(text, again, n - 1) == -MST_ELIMIT);
  FUZZ_CHECK(mst_text_encode(text, again, n) == (int)n);
  FUZZ_CHECK(memcmp(again, bytes, n) == 0);
}

static void give(struct fuzz_sink *sink, const char *name, const char *text) {
  uint8_t bytes[MST_TEXT_BYTES_MAX];
  const int n = mst_text_encode(text, bytes, sizeof bytes);
  FUZZ_CHECK(n > 0);
  sink->take(sink, name, bytes, (size_t)n);
}

static void seeds(struct fuzz_sink *sink) {
  give(sink, "empty", "");
  give(sink, "tempdir", "/tmp/RtmpA1b2C3");
  give(sink, "utf8",
       "there is no package called \xE2\x80\x98nopkg\xE2\x80\x99");
  give(sink, "latin1", "caf\xE9");
  const uint8_t nul_inside[] = {3, 0, 0, 0, 'a', 0, 'b'};
  sink->take(sink, "nul-inside", nul_inside, sizeof nul_inside);
  uint8_t bytes[MST_TEXT_BYTES_MAX + 1] = {MST_TEXT_MAX & 0xFF,
                                           MST_TEXT_MAX >> 8, 0, 0};
  memset(bytes + 4, 'x', sizeof bytes - 4);
  sink->take(sink, "longest", bytes, MST_TEXT_BYTES_MAX);
  bytes[0]++;
  sink->take(sink, "too-long", bytes, sizeof bytes);
  sink->take(sink, "too-long-cut", bytes, 5);
}

const struct fuzz_target fuzz_text = {"text", 0, run, seeds};
