// Tests of csv: fields as R's scan() divides them, where a text may be cut, numbers.
#include <stdlib.h>
#include <string.h>

#include "csv/csv.h"
#include "mst_test.h"

// A text with its pad, in memory of its own, so that reads beyond it are seen.
static uint8_t *padded(const char *text, size_t n) {
  uint8_t *bytes = calloc(n + MST_CSV_PAD, 1);
  CHECK(bytes != NULL);
  memcpy(bytes, text, n);
  bytes[n] = '\n';
  return bytes;
}

// check_fields compares all fields, "|" behind each and "/" behind the last of a line.
static void check_fields(const char *text, const char *wanted) {
  uint8_t *bytes = padded(text, strlen(text));
  char got[256] = "";
  size_t n = 0;
  struct mst_csv csv;
  struct mst_csv_field field;
  mst_test_note(text);
  CHECK_INT(mst_csv_open(&csv, bytes, strlen(text)), 1);
  int rc;
  while ((rc = mst_csv_field(&csv, &field)) == 1) {
    if (field.raw) {
      n += mst_csv_plain(&field, (uint8_t *)got + n);
    } else {
      memcpy(got + n, field.bytes, field.n);
      n += field.n;
    }
    got[n++] = field.last ? '/' : '|';
  }
  if (rc < 0) got[n++] = '!';
  got[n] = '\0';
  CHECK(strcmp(got, wanted) == 0);
  free(bytes);
}

TEST("Fields are those of scan()") {
  check_fields("", "/");
  check_fields("a,b\n1,\n", "a|b/1|//");
  check_fields("a,b\r\n1,2", "a|b/1|2/");
  check_fields("\"a,b\",\"c\nd\"", "a,b|c\nd/");
  check_fields("\"a\"\"b\",\"\",\"\"\"\"", "a\"b||\"/");
  check_fields("a\"b,c\"d,\"a\" ,a\"\"b", "ab,cd|a |ab/");
  check_fields("\"a\r\nb\"\r\nx\"\r\n\"y", "a\nb/x\ny/");
  check_fields("a,\"b", "a|!");
  check_fields("\"", "!");
}

TEST("What connections treat in ways of their own isn't opened") {
  static const struct {
    const char *text;
    size_t n;
  } odd[] = {{"a\rb\n", 4}, {"a\r", 2}, {"\r\r\n", 3}, {"a\0\n", 3}, {"\xff", 1}};
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    struct mst_csv csv;
    uint8_t *bytes = padded(odd[i].text, odd[i].n);
    CHECK_INT(mst_csv_open(&csv, bytes, odd[i].n), 0);
    free(bytes);
  }
}

TEST("The header is the first line that isn't empty, with its quoted line feeds") {
  static const struct {
    const char *text;
    int rc, at;
  } cases[] = {{"\n\r\na,\"b\n\"\nc", 1, 10}, {"a", 1, 2}, {"", 1, 1}, {"a,\"b\n", 0, -1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct mst_csv csv;
    uint8_t *bytes = padded(cases[i].text, strlen(cases[i].text));
    mst_test_note(cases[i].text);
    CHECK_INT(mst_csv_open(&csv, bytes, strlen(cases[i].text)), 1);
    CHECK_INT(mst_csv_skip_line(&csv), cases[i].rc);
    if (cases[i].rc == 1) CHECK_INT(csv.at - bytes, cases[i].at);
    free(bytes);
  }
}

TEST("Quotes are counted, and line ends told apart, however the bytes come") {
  static const char text[] = "ab,\"cd\",\"e\nfghijklmnop\",\"\"\n\nqrstuvwxyz\n\"";
  const size_t n = sizeof text - 1;
  for (size_t step = 1; step <= n; step++) {
    struct mst_csv_cuts cuts = {.at = 100, .even = -1, .odd = -1};
    for (size_t at = 0; at < n; at += step) {
      mst_csv_cut(&cuts, (const uint8_t *)text + at, n - at < step ? n - at : step);
    }
    CHECK_INT(cuts.at, 100 + (int64_t)n);
    CHECK_INT(cuts.quotes, 7);
    CHECK_INT(cuts.odd, 111);
    CHECK_INT(cuts.even, 127);
  }
}

TEST("Plain decimal numbers have their values, others are left to R") {
  static const struct {
    const char *text;
    enum mst_csv_kind kind;
    double value;
    int n;
  } cases[] = {
      {"12,", MST_CSV_INTEGER, 12, 2},
      {"-2147483647\n", MST_CSV_INTEGER, -2147483647, 11},
      {"2147483648", MST_CSV_REAL, 2147483648.0, 10},
      {"+007", MST_CSV_INTEGER, 7, 4},
      {"0.125", MST_CSV_REAL, 0.125, 5},
      {".5", MST_CSV_REAL, 0.5, 2},
      {"5.", MST_CSV_REAL, 5, 2},
      {"-1.5e3", MST_CSV_REAL, -1500, 6},
      {"1E-3", MST_CSV_REAL, 0.001, 4},
      {"12345678901234567890", MST_CSV_LONG, 0, 20},
      {"1e400", MST_CSV_LONG, 0, 5},
      {"1e99999", MST_CSV_LONG, 0, 7},
      {"00000000000000000001", MST_CSV_OTHER, 0, 20},
      {"1e", MST_CSV_OTHER, 0, 0},
      {"1e+", MST_CSV_OTHER, 0, 0},
      {".", MST_CSV_OTHER, 0, 1},
      {"-", MST_CSV_OTHER, 0, 1},
      {"x", MST_CSV_OTHER, 0, 0},
      {"0x10", MST_CSV_INTEGER, 0, 1},
      {"1 ", MST_CSV_INTEGER, 1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct mst_csv_number number;
    const uint8_t *from = (const uint8_t *)cases[i].text;
    mst_test_note(cases[i].text);
    const uint8_t *end = mst_csv_number(from, &number);
    CHECK_INT(number.kind, cases[i].kind);
    CHECK_INT(end - from, cases[i].n);
    CHECK(number.value == cases[i].value);
  }
}
