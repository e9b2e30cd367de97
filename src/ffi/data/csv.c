// csv files, or pieces of them, to columns: what read.csv() makes of the same text, or NULL where
// that depends on more than is known here; then R's own functions read it.
//
// Columns are numbers until one of them has something else. The first rows tell most of these; the
// others are read a second time. All memory is R's: strings are allocated while rows are read.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csv/csv.h"
#include "ffi/data/data.h"
#include "share/store.h"

#define FIRST_ROWS 200
// Numbers that take more bytes are text: R judges them.
#define NUMBER_BYTES 256
// Between looks at interrupts.
#define LOOK_ROWS 16384
// Strings of a column that are known without R's table of all strings; each may be in two places.
#define KNOWN_BITS 12
#define KNOWN ((size_t)1 << KNOWN_BITS)

struct known {
  uint64_t key;
  size_t n;
  const char *bytes;
  SEXP text;
};

struct column {
  int is_text;
  int failed;   // a column of numbers has something else
  int any;      // it has a number that isn't NA
  int real;     // and one that isn't an integer
  int negative; // and a -0, which is 0 as an integer
  SEXP vector;  // an element of the reader's list
  double *numbers;
  struct known *known;
};

struct reader {
  SEXP columns, scratch; // a list, a raw vector: both protected by PROTECT_INDEX
  PROTECT_INDEX scratch_at;
  struct mst_csv csv;
  int fields;              // of a line
  int count;               // of columns
  struct column *column;   // those that are wanted
  struct column **of;      // by field, NULL: not wanted in this pass
  R_xlen_t rows, capacity;
};

// is_exact tells whether R_strtod rounds as mst_csv_number does: by numbers of so many digits that
// another order, or a shorter long double, would show.
static int is_exact(void) {
  static int known = -1;
  uint64_t seed = 1;
  if (known >= 0) return known;
  for (int i = 0; known < 0 && i < 500; i++) {
    char text[64];
    struct mst_csv_number number;
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    snprintf(text, sizeof text, "%u.%0*llu", (unsigned)(seed % 1000), 4 + i % 13,
             (unsigned long long)(seed >> 11));
    mst_csv_number((const uint8_t *)text, &number);
    if (number.kind == MST_CSV_REAL && number.value != R_strtod(text, NULL)) {
      known = 0;
    }
  }
  if (known < 0) known = 1;
  return known;
}

// ---- cells

static int is_na(const uint8_t *bytes, size_t n) {
  return n == 2 && bytes[0] == 'N' && bytes[1] == 'A';
}

static int is_blank(const uint8_t *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (bytes[i] != ' ' && bytes[i] != '\t') return 0;
  }
  return 1;
}

static void put_number(struct column *column, R_xlen_t row,
                       const struct mst_csv_number *number) {
  column->any = 1;
  if (number->kind != MST_CSV_INTEGER) {
    column->real = 1;
  } else if (number->negative && number->value == 0) {
    column->negative = 1;
  }
  column->numbers[row] = number->value;
}

// The bytes are followed by one that can't be part of a number.
static void take_number(struct column *column, R_xlen_t row,
                        const uint8_t *bytes, size_t n) {
  struct mst_csv_number number;
  if (is_blank(bytes, n) || is_na(bytes, n)) {
    column->numbers[row] = NA_REAL;
    return;
  }
  const uint8_t *end = mst_csv_number(bytes, &number);
  if (number.kind == MST_CSV_OTHER || end != bytes + n || n >= NUMBER_BYTES) {
    column->failed = 1;
    return;
  }
  if (number.kind == MST_CSV_LONG ||
      (number.kind == MST_CSV_REAL && !is_exact())) {
    char text[NUMBER_BYTES];
    memcpy(text, bytes, n);
    text[n] = '\0';
    number.value = R_strtod(text, NULL);
  }
  put_number(column, row, &number);
}

static uint64_t word_at(const uint8_t *from) {
  uint64_t word;
  memcpy(&word, from, sizeof word);
  return word;
}

// key_of gives a number that differs for most strings, and for all of up to 8 bytes that are as
// long. n > 0.
static uint64_t key_of(const uint8_t *bytes, size_t n) {
  if (n > 8) {
    return word_at(bytes) * 0x9E3779B97F4A7C15U ^ word_at(bytes + n - 8);
  }
  // What is behind them is a pad, at least.
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  return word_at(bytes) >> (64 - 8 * n);
#else
  return word_at(bytes) << (64 - 8 * n);
#endif
}

static SEXP text_of(struct known *known, const uint8_t *bytes, size_t n) {
  if (n == 0) return R_BlankString;
  if (is_na(bytes, n)) return NA_STRING;
  const uint64_t key = key_of(bytes, n);
  const size_t place = ((key + n) * 0xD6E8FEB86659FD93U) >> (64 - KNOWN_BITS);
  for (size_t i = 0; i < 2; i++) {
    const struct known *at = &known[place ^ i];
    if (at->key == key && at->n == n &&
        (n <= 8 || memcmp(at->bytes, bytes, n) == 0)) {
      return at->text;
    }
  }
  SEXP text = Rf_mkCharLenCE((const char *)bytes, (int)n, CE_NATIVE);
  known[place ^ 1] = known[place];
  known[place] = (struct known){key, n, CHAR(text), text};
  return text;
}

static void take_cell(struct column *column, R_xlen_t row, const uint8_t *bytes,
                      size_t n) {
  if (!column->is_text) {
    take_number(column, row, bytes, n);
  } else {
    SET_STRING_ELT(column->vector, row, text_of(column->known, bytes, n));
  }
}

// take_field gives a field's bytes to its column. Raises R errors.
static void take_field(struct reader *in, struct column *column,
                       const struct mst_csv_field *field) {
  if (!field->raw) {
    take_cell(column, in->rows, field->bytes, field->n);
    return;
  }
  if ((size_t)Rf_xlength(in->scratch) < field->n + MST_CSV_PAD) {
    in->scratch =
        Rf_allocVector(RAWSXP, (R_xlen_t)(2 * field->n + MST_CSV_PAD));
    REPROTECT(in->scratch, in->scratch_at);
  }
  uint8_t *plain = RAW(in->scratch);
  const size_t n = mst_csv_plain(field, plain);
  plain[n] = '\0';
  take_cell(column, in->rows, plain, n);
}

// ---- rows

// set_vector makes a column's vector the reader's, which protects it.
static void set_vector(struct reader *in, int k, SEXP vector) {
  struct column *column = &in->column[k];
  column->vector = SET_VECTOR_ELT(in->columns, k, vector);
  if (!column->is_text) column->numbers = REAL(vector);
}

// begin_pass makes room in the columns that it reads.
static void begin_pass(struct reader *in, R_xlen_t capacity) {
  in->rows = 0;
  in->capacity = capacity;
  for (int field = 0; field < in->fields; field++) {
    struct column *column = in->of[field];
    if (column == NULL) continue;
    const int is_text = column->is_text;
    *column = (struct column){.is_text = is_text, .known = column->known};
    if (is_text) {
      if (column->known == NULL) {
        column->known = (struct known *)R_alloc(KNOWN, sizeof(struct known));
      }
      memset(column->known, 0, KNOWN * sizeof(struct known));
    }
    set_vector(in, (int)(column - in->column),
               Rf_allocVector(is_text ? STRSXP : REALSXP, capacity));
  }
}

// cut_vectors makes the vectors of this pass this long.
static void cut_vectors(struct reader *in, R_xlen_t length) {
  for (int field = 0; field < in->fields; field++) {
    struct column *column = in->of[field];
    if (column == NULL || Rf_xlength(column->vector) == length) continue;
    set_vector(in, (int)(column - in->column),
               Rf_xlengthgets(column->vector, length));
  }
}

// end_row fills what a short line lacks.
static void end_row(struct reader *in, int field) {
  static const uint8_t none[1];
  for (; field < in->fields; field++) {
    if (in->of[field] != NULL) take_cell(in->of[field], in->rows, none, 0);
  }
  if (++in->rows % LOOK_ROWS == 0) R_CheckUserInterrupt();
}

// take_plain_number takes the next field if it is an unquoted number: 0 if it isn't.
static int take_plain_number(struct reader *in, struct column *column,
                             int *last) {
  struct mst_csv_number number;
  const uint8_t *end = mst_csv_number(in->csv.at, &number);
  if (number.kind != MST_CSV_INTEGER &&
      (number.kind != MST_CSV_REAL || !is_exact())) {
    return 0;
  }
  if (*end == '\r') end++;
  if (*end != ',' && *end != '\n') return 0;
  *last = *end == '\n';
  in->csv.at = end + 1;
  put_number(column, in->rows, &number);
  return 1;
}

// read_rows reads at most so many rows, as scan() does: the fields of a line that is too long begin
// another row. 0 if a quote is open at the end, or a field is too long.
static int read_rows(struct reader *in, R_xlen_t most) {
  int field = 0;
  // At the end there is an empty line, or the last field of one that is cut.
  while (in->csv.at < in->csv.end ||
         (field > 0 && in->csv.at == in->csv.end)) {
    if (field == 0 && in->rows == most) break;
    if (field == 0 && in->rows == in->capacity) {
      in->capacity = 2 * in->capacity + 1;
      cut_vectors(in, in->capacity);
    }
    struct column *column = in->of[field];
    if (column != NULL && column->failed) column = NULL;
    int last;
    if (column == NULL || column->is_text ||
        !take_plain_number(in, column, &last)) {
      struct mst_csv_field cell;
      if (mst_csv_field(&in->csv, &cell) < 0 || cell.n > INT_MAX) return 0;
      last = cell.last;
      if (field == 0 && last && cell.n == 0) continue; // an empty line
      if (column != NULL) take_field(in, column, &cell);
    }
    field++;
    if (last || field == in->fields) {
      end_row(in, field);
      field = 0;
    }
  }
  return 1;
}

// pass reads all rows from a place on into the columns of this pass.
static int pass(struct reader *in, const struct mst_csv *from) {
  const uint8_t *end = from->end;
  size_t lines = 0;
  if (from->at < end) {
    lines = mst_csv_count(from->at, (size_t)(end - from->at), '\n') +
            (end[-1] != '\n');
  }
  in->csv = *from;
  begin_pass(in, (R_xlen_t)lines);
  if (!read_rows(in, R_XLEN_T_MAX)) return 0;
  cut_vectors(in, in->rows);
  return 1;
}

// finish gives a column of numbers its type; 0 if it has to be read as text.
static int finish(struct reader *in, int k) {
  struct column *column = &in->column[k];
  if (column->is_text || (column->real && !column->failed)) return 1;
  if (column->failed || column->negative) return 0;
  SEXP vector = SET_VECTOR_ELT(
      in->columns, k, Rf_allocVector(column->any ? INTSXP : LGLSXP, in->rows));
  int *to = column->any ? INTEGER(vector) : LOGICAL(vector);
  for (R_xlen_t i = 0; i < in->rows; i++) {
    const double number = column->numbers[i];
    to[i] = ISNAN(number) ? NA_INTEGER : (int)number;
  }
  return 1;
}

// read_columns reads the first rows, to see which columns are text, then all, then those that have
// text further down. 0 as read_rows.
static int read_columns(struct reader *in) {
  const struct mst_csv begin = in->csv;
  begin_pass(in, FIRST_ROWS);
  if (!read_rows(in, FIRST_ROWS)) return 0;
  for (int k = 0; k < in->count; k++)
    in->column[k].is_text |= in->column[k].failed;
  if (!pass(in, &begin)) return 0;
  int again = 0;
  for (int field = 0; field < in->fields; field++) {
    struct column *column = in->of[field];
    if (column == NULL) continue;
    if (finish(in, (int)(column - in->column))) {
      in->of[field] = NULL;
    } else {
      again = column->is_text = 1;
    }
  }
  return !again || pass(in, &begin);
}

// ---- entry points

// Files that file() decompresses.
static int is_packed(const uint8_t *text, size_t n) {
  static const struct {
    size_t n;
    const char *bytes;
  } magic[] = {
      {2, "\x1f\x8b"}, {3, "BZh"}, {5, "\xfd" "7zXZ"}, {4, "\x28\xb5\x2f\xfd"}};
  for (size_t i = 0; i < sizeof magic / sizeof magic[0]; i++) {
    if (n >= magic[i].n && memcmp(text, magic[i].bytes, magic[i].n) == 0) {
      return 1;
    }
  }
  return 0;
}

// open_text begins with the rows in n bytes; 0 if R has to read them. header: they begin a file.
static int open_text(struct mst_csv *csv, const uint8_t *text, size_t n,
                     int header) {
  // In such a locale a byte may be half of a character.
  if (MB_CUR_MAX == 2 || !mst_csv_open(csv, text, n)) return 0;
  if (!header) return 1;
  if (is_packed(text, n) || !mst_csv_skip_line(csv)) return 0;
  // scan() takes away a byte order mark even from the first row, which empty lines may precede.
  const uint8_t *at = csv->at;
  while (at < csv->end && strchr("\r\n\"", *at) != NULL)
    at++;
  return csv->end - at < 3 || memcmp(at, "\xef\xbb\xbf", 3) != 0;
}

// read_text gives the bytes of a file's range, with a pad behind them; NULL if it can't.
static SEXP read_text(SEXP path, double from, double to) {
  const size_t n = (size_t)(to - from);
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)(n + MST_CSV_PAD)));
  const char *name = Rf_translateChar(STRING_ELT(path, 0));
  const int64_t got =
      mst_store_read(name, (int64_t)from, RAW(bytes), n, NULL);
  UNPROTECT(1);
  if (got != (int64_t)n) return R_NilValue;
  memset(RAW(bytes) + n, 0, MST_CSV_PAD);
  RAW(bytes)[n] = '\n';
  return bytes;
}

// ffi_csv_read reads the bytes of a file from range[1] up to range[2], lines of `fields` fields,
// the first being the header if so. which: numbers of the wanted fields; texts: which of them shall
// be text. Gives their columns: logical if all are NA, integer, double, or text, whose type
// type.convert() may know. NULL if R has to read it.
SEXP ffi_csv_read(SEXP path, SEXP range, SEXP header, SEXP fields, SEXP which,
                  SEXP texts) {
  const double from = REAL(range)[0], to = REAL(range)[1];
  SEXP bytes = PROTECT(read_text(path, from, to));
  struct reader in = {.fields = Rf_asInteger(fields),
                      .count = (int)Rf_xlength(which)};
  if (bytes == R_NilValue ||
      !open_text(&in.csv, RAW(bytes), (size_t)(to - from),
                 Rf_asLogical(header))) {
    UNPROTECT(1);
    return R_NilValue;
  }
  in.columns = PROTECT(Rf_allocVector(VECSXP, in.count));
  in.scratch = Rf_allocVector(RAWSXP, MST_CSV_PAD);
  PROTECT_WITH_INDEX(in.scratch, &in.scratch_at);
  in.column = (struct column *)R_alloc((size_t)in.count, sizeof *in.column);
  in.of = (struct column **)R_alloc((size_t)in.fields, sizeof *in.of);
  for (int field = 0; field < in.fields; field++)
    in.of[field] = NULL;
  for (int k = 0; k < in.count; k++) {
    in.column[k] = (struct column){.is_text = LOGICAL(texts)[k]};
    in.of[INTEGER(which)[k] - 1] = &in.column[k];
  }
  const int whole = read_columns(&in);
  UNPROTECT(3);
  return whole ? in.columns : R_NilValue;
}

// ffi_csv_quotes gives, of a file's range, the number of quotes and the two offsets that
// mst_csv_cuts tells, NA if there is none. Raises an R error if it can't be read.
SEXP ffi_csv_quotes(SEXP path, SEXP range) {
  const size_t most = (size_t)1 << 20;
  const char *name = Rf_translateChar(STRING_ELT(path, 0));
  struct mst_csv_cuts cuts = {
      .at = (int64_t)REAL(range)[0], .even = -1, .odd = -1};
  const int64_t to = (int64_t)REAL(range)[1];
  SEXP bytes = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)most));
  while (cuts.at < to) {
    struct mst_err err;
    const size_t n = to - cuts.at < (int64_t)most ? (size_t)(to - cuts.at) : most;
    const int64_t got = mst_store_read(name, cuts.at, RAW(bytes), n, &err);
    if (got < 0) Rf_error("%s", err.text);
    if (got == 0) break;
    mst_csv_cut(&cuts, RAW(bytes), (size_t)got);
    R_CheckUserInterrupt();
  }
  SEXP result = PROTECT(Rf_allocVector(REALSXP, 3));
  REAL(result)[0] = (double)cuts.quotes;
  REAL(result)[1] = cuts.even < 0 ? NA_REAL : (double)cuts.even;
  REAL(result)[2] = cuts.odd < 0 ? NA_REAL : (double)cuts.odd;
  UNPROTECT(2);
  return result;
}
