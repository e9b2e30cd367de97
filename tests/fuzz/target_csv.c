// Target: src/csv. Fields are those of R's scan(), written down here byte by byte; numbers end
// where their digits do; where a text may be cut doesn't depend on the pieces in which it comes.
#include <string.h>

#include "csv/csv.h"
#include "fuzz.h"

// next_byte is R's connection: CRLF is a line feed, and the end is -1.
static int next_byte(const uint8_t **at, const uint8_t *end) {
  if (*at == end) return -1;
  const int byte = *(*at)++;
  if (byte != '\r') return byte;
  (*at)++;
  return '\n';
}

// scan_field is scan()'s loop for one field: what ended it, or -2 if a quote is open.
static int scan_field(const uint8_t **at, const uint8_t *end, uint8_t *to,
                      size_t *n) {
  int byte = next_byte(at, end);
  *n = 0;
  while (byte != ',' && byte != '\n' && byte != -1) {
    if (byte != '"') {
      to[(*n)++] = (uint8_t)byte;
      byte = next_byte(at, end);
      continue;
    }
    do {
      while ((byte = next_byte(at, end)) != '"') {
        if (byte == -1) return -2;
        to[(*n)++] = (uint8_t)byte;
      }
      byte = next_byte(at, end);
      if (byte == '"') to[(*n)++] = '"';
    } while (byte == '"');
  }
  return byte;
}

static void check_fields(const uint8_t *text, size_t n) {
  uint8_t plain[FUZZ_INPUT_MAX], wanted[FUZZ_INPUT_MAX];
  struct mst_csv csv;
  struct mst_csv_field field;
  if (!mst_csv_open(&csv, text, n)) return;
  const uint8_t *at = text, *end = text + n;
  for (;;) {
    size_t size, count;
    const int by = scan_field(&at, end, wanted, &count);
    const int rc = mst_csv_field(&csv, &field);
    FUZZ_CHECK((rc < 0) == (by == -2));
    if (rc < 0) return;
    FUZZ_CHECK(rc == 1 && field.last == (by != ','));
    if (field.raw) {
      size = mst_csv_plain(&field, plain);
    } else {
      memcpy(plain, field.bytes, size = field.n);
    }
    FUZZ_CHECK(size == count && memcmp(plain, wanted, size) == 0);
    if (by == -1) break;
  }
  FUZZ_CHECK(mst_csv_field(&csv, &field) == 0);
}

static void check_number(const uint8_t *text, size_t n) {
  struct mst_csv_number number;
  const uint8_t *end = mst_csv_number(text, &number);
  FUZZ_CHECK(end >= text && end <= text + n);
  for (; number.kind != MST_CSV_OTHER && end > text; end--)
    FUZZ_CHECK(strchr("+-.eE0123456789", end[-1]) != NULL);
}

static void check_cuts(const uint8_t *text, size_t n) {
  struct mst_csv_cuts whole = {.even = -1, .odd = -1}, pieces = whole;
  mst_csv_cut(&whole, text, n);
  for (size_t at = 0, more; at < n; at += more) {
    more = at % 13 + 1 < n - at ? at % 13 + 1 : n - at;
    mst_csv_cut(&pieces, text + at, more);
  }
  FUZZ_CHECK(whole.quotes == pieces.quotes && whole.at == pieces.at);
  FUZZ_CHECK(whole.even == pieces.even && whole.odd == pieces.odd);
}

static void run(const uint8_t *bytes, size_t n) {
  static uint8_t text[FUZZ_INPUT_MAX + MST_CSV_PAD];
  memcpy(text, bytes, n);
  memset(text + n, 0, MST_CSV_PAD);
  text[n] = '\n';
  check_fields(text, n);
  check_number(text, n);
  check_cuts(text, n);
}

static void seeds(struct fuzz_sink *sink) {
  static const char *const texts[][2] = {
      {"plain", "a,b\n1,2.5\n-3,1e-7\n"},
      {"quoted", "\"a\"\"b\",\"c,\nd\"\r\ne\"f\"g,\"h\" \n"},
      {"number", "-12345678901234567890.5e+10"},
      {"open", "a,\"b\n"}};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    sink->take(sink, texts[i][0], (const uint8_t *)texts[i][1],
               strlen(texts[i][1]));
  }
}

const struct fuzz_target fuzz_csv = {.name = "csv", .run = run, .seeds = seeds};
