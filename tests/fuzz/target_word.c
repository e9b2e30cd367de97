// Target: mst_stock_word_find, which looks for a worker's word before anything is parsed.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "stock/word.h"

static void run(const uint8_t *bytes, size_t n) {
  const size_t mark = strlen(MST_STOCK_MARK);
  size_t at = 0, first = 0;
  int before = 0;
  for (size_t k = 0; k <= n; k += k < 64 ? 1 : 61) {
    const int rc = mst_stock_word_find(bytes, k, &at);
    FUZZ_CHECK(rc == 0 || rc == 1 || rc == -MST_EPROTO);
    FUZZ_CHECK(k < MST_STOCK_FIRST_MAX || rc != 0);
    FUZZ_CHECK(before == 0 || rc == before); // more bytes change no verdict
    if (rc == 1) {
      FUZZ_CHECK(at >= mark && at + MST_STOCK_WORD_BYTES <= k);
      FUZZ_CHECK(memcmp(bytes + at - mark, MST_STOCK_MARK, mark) == 0);
      FUZZ_CHECK(before == 0 || at == first);
      first = at;
    }
    before = rc;
  }
}

static void seeds(struct fuzz_sink *sink) {
  static const char text[] =
      "X\nVALUE" MST_STOCK_MARK "0123456789abcdef0123456789abcdef more";
  sink->take(sink, "word", (const uint8_t *)text, sizeof text - 1);
  sink->take(sink, "word-cut", (const uint8_t *)text, sizeof text - 7);
  sink->take(sink, "mark", (const uint8_t *)MST_STOCK_MARK,
             sizeof MST_STOCK_MARK - 1);
}

const struct fuzz_target fuzz_word = {
    .name = "word", .run = run, .seeds = seeds};
