// Target: mst_log_write: what workers print. The first byte tells how the rest
// is cut; the lines must be the same as those of the whole.
#include <string.h>

#include "base/mst_log.h"
#include "fuzz.h"

static void check_log(const struct mst_log *log) {
  size_t bytes = 0;
  for (uint64_t k = log->first; k < log->next; k++) {
    const struct mst_log_line *line = mst_log_at(log, k);
    FUZZ_CHECK(line != NULL && line->length <= MST_LOG_LINE_MAX);
    FUZZ_CHECK(memchr(line->text, '\n', line->length) == NULL);
    bytes += line->length;
  }
  FUZZ_CHECK(bytes == log->bytes && bytes <= MST_LOG_BYTES);
  FUZZ_CHECK(log->next - log->first <= MST_LOG_LINES);
}

static void run(const uint8_t *bytes, size_t n) {
  // Inputs are fed cut at every byte, and a log costs more than its bytes: of
  // the longer starts only some are looked at.
  if (n == 0 || (n > 32 && n % 64 != 0)) return;
  static struct mst_log_part whole_part, cut_part;
  struct mst_log whole = {0}, cut = {0};
  const size_t step = (size_t)bytes[0] * bytes[0] + 1;
  const char *text = (const char *)bytes + 1;
  whole_part.length = cut_part.length = 0;
  mst_log_write(&whole, &whole_part, 0, NULL, text, n - 1);
  for (size_t at = 0; at < n - 1; at += step) {
    const size_t left = n - 1 - at;
    mst_log_write(&cut, &cut_part, 0, NULL, text + at, left < step ? left : step);
  }
  FUZZ_CHECK(whole_part.length == cut_part.length);
  mst_log_end(&whole, &whole_part, 0);
  mst_log_end(&cut, &cut_part, 0);
  check_log(&whole);
  FUZZ_CHECK(whole.next == cut.next && whole.bytes == cut.bytes);
  for (uint64_t k = whole.first; k < whole.next; k++) {
    const struct mst_log_line *a = mst_log_at(&whole, k);
    const struct mst_log_line *b = mst_log_at(&cut, k);
    FUZZ_CHECK(a->length == b->length);
    FUZZ_CHECK(memcmp(a->text, b->text, a->length) == 0);
  }
  mst_log_free(&whole);
  mst_log_free(&cut);
}

static void seeds(struct fuzz_sink *sink) {
  static uint8_t bytes[FUZZ_INPUT_MAX];
  static const char lines[] = "\3one\n\ntwo\r\n three";
  sink->take(sink, "lines", (const uint8_t *)lines, sizeof lines - 1);
  memset(bytes, 'x', sizeof bytes);
  bytes[0] = 64; // cut at the longest line's end
  bytes[MST_LOG_LINE_MAX + 1] = '\n';
  sink->take(sink, "longest", bytes, MST_LOG_LINE_MAX + 64);
  bytes[MST_LOG_LINE_MAX + 1] = 'x';
  bytes[MST_LOG_LINE_MAX + 2] = '\n';
  sink->take(sink, "too-long", bytes, MST_LOG_LINE_MAX + 64);
  memset(bytes, '\n', 200);
  sink->take(sink, "empty-lines", bytes, 200);
}

const struct fuzz_target fuzz_log = {"log", 0, run, seeds};
