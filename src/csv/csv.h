// csv: the text of csv files, divided into fields as R's scan() does it for read.csv(), and the
// numbers in it. Pure: no R, no state, no allocation, nothing read but the text.
//
// scan()'s rules: a field ends at a comma, or with its line at a line feed; a quote opens a quoted
// stretch anywhere in a field; in it commas and line feeds are text, and two quotes are one. CRLF
// is a line feed, also in quotes.
#ifndef MST_CSV_CSV_H
#define MST_CSV_CSV_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>

// So many bytes behind a text may be read: a line feed, then zeros.
#define MST_CSV_PAD 16

struct mst_csv {
  const uint8_t *at;  // where the next field begins
  const uint8_t *end; // the line feed behind the text; at is past it once all is read
  int has_cr;
};

struct mst_csv_field {
  const uint8_t *bytes;
  size_t n;
  int raw;  // the bytes have quotes, or CRLF in quotes: mst_csv_plain takes them out
  int last; // of its line
};

// mst_csv_open begins with a text of n bytes and its pad. 0 if it has something that connections of
// R treat in ways of their own: zeros, 0xFF, CR alone.
int mst_csv_open(struct mst_csv *csv, const uint8_t *text, size_t n);
// mst_csv_skip_line skips empty lines and the line after them: the header. 0 if a quote is open at
// the end.
int mst_csv_skip_line(struct mst_csv *csv);
// mst_csv_field takes the next field: 1, 0 if there is none, -1 if a quote is open at the end.
int mst_csv_field(struct mst_csv *csv, struct mst_csv_field *field);
// mst_csv_plain writes what a raw field stands for to `to`, which has room for field->n bytes;
// gives the number of bytes.
size_t mst_csv_plain(const struct mst_csv_field *field, uint8_t *to);

// mst_csv_count counts how often `byte` is among n bytes.
size_t mst_csv_count(const uint8_t *bytes, size_t n, uint8_t byte);

// Where a text may be cut, see part_quotes() in R: the quotes before `at`, and the offsets behind
// the first line feeds that have an even, and an odd, number of quotes before them; -1: none yet.
struct mst_csv_cuts {
  int64_t at, quotes, even, odd;
};
// mst_csv_cut takes the next n bytes.
void mst_csv_cut(struct mst_csv_cuts *cuts, const uint8_t *bytes, size_t n);

// ---- numbers

enum mst_csv_kind {
  MST_CSV_OTHER,   // not a plain decimal number
  MST_CSV_INTEGER, // fits an int, but for its least value
  MST_CSV_REAL,
  MST_CSV_LONG // a decimal number whose value is left to R
};
struct mst_csv_number {
  enum mst_csv_kind kind;
  int negative;
  double value;
};
// mst_csv_number reads digits with a sign, a point, an exponent, as many as there are, and gives
// what is behind them. The value is R_strtod's, which adds up digits and divides them by a power of
// ten in long double: that is done here where both are exact, so that only the division and the
// result are rounded, whatever the order.
const uint8_t *mst_csv_number(const uint8_t *from,
                              struct mst_csv_number *number);

#endif
