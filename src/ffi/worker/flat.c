// Rows as plain columns: see flat.h.
#include <limits.h>
#include <string.h>

#include "base/mst_err.h"

#include "ffi/value/coded.h"
#include "ffi/worker/flat.h"

enum part { NAMES, TYPES, NUMBERS, MODELS, KEYED, PARTS };

#define ALIGNED(bytes) (((bytes) + 7) & ~(uint64_t)7)

// size_of gives the bytes of an element, 0 for types that aren't flat. Strings are numbers of a
// dictionary.
static size_t size_of(int type) {
  switch (type) {
  case REALSXP:
    return sizeof(double);
  case INTSXP:
  case LGLSXP:
  case STRSXP:
    return sizeof(int);
  case RAWSXP:
    return 1;
  default:
    return 0;
  }
}

static const uint8_t *data_of(SEXP x) {
  switch (TYPEOF(x)) {
  case REALSXP:
    return (const uint8_t *)REAL_RO(x);
  case INTSXP:
    return (const uint8_t *)INTEGER_RO(x);
  case LGLSXP:
    return (const uint8_t *)LOGICAL_RO(x);
  case STRSXP:
    return (const uint8_t *)ffi_coded_codes(x);
  default:
    return RAW_RO(x);
  }
}

static int is_flat(SEXP column) {
  if (TYPEOF(column) == STRSXP)
    return ffi_is_coded(column) && !ffi_has_attributes(column);
  return size_of(TYPEOF(column)) > 0 &&
         (!ffi_has_attributes(column) ||
          (Rf_getAttrib(column, R_DimSymbol) == R_NilValue &&
           Rf_getAttrib(column, R_NamesSymbol) == R_NilValue));
}

struct ffi_flat ffi_flat_of(SEXP x, SEXP keyed) {
  struct ffi_flat flat = {.count = Rf_xlength(x)};
  for (R_xlen_t c = 0; c < flat.count; c++) {
    SEXP column = VECTOR_ELT(x, c);
    if (!is_flat(column)) return flat;
    if (c > 0 && Rf_xlength(column) != flat.rows) return flat;
    flat.rows = Rf_xlength(column);
  }
  if (flat.count == 0) return flat;
  flat.columns = (struct ffi_flat_column *)R_alloc((size_t)flat.count,
                                                   sizeof *flat.columns);
  for (R_xlen_t c = 0; c < flat.count; c++) {
    SEXP column = VECTOR_ELT(x, c);
    flat.columns[c] = (struct ffi_flat_column){.data = data_of(column),
                                               .size = size_of(TYPEOF(column))};
  }
  for (R_xlen_t k = 0; k < Rf_xlength(keyed); k++) {
    const int c = INTEGER_RO(keyed)[k];
    if (c < 1 || c > flat.count) Rf_error("no such column");
    flat.columns[c - 1].keyed = 1;
  }
  return flat;
}

// ---- headers

static int number_in(SEXP dictionaries, SEXP column) {
  const int coded = TYPEOF(column) == STRSXP;
  SEXP levels = R_NilValue;
  if (TYPEOF(column) == INTSXP && Rf_inherits(column, "factor"))
    levels = Rf_getAttrib(column, R_LevelsSymbol);
  for (R_xlen_t k = 0; k < Rf_xlength(dictionaries); k++) {
    SEXP one = VECTOR_ELT(dictionaries, k);
    if (coded ? one == ffi_coded_dictionary(column)
              : levels != R_NilValue && ffi_dictionary_is_of(one, levels))
      return (int)k + 1;
  }
  return 0;
}

// model_of gives a vector without elements that has a column's attributes, NULL if there are none.
// Levels that are in a dictionary stay out.
static SEXP model_of(SEXP column, int number) {
  if (!ffi_has_attributes(column)) return R_NilValue;
  SEXP model = PROTECT(Rf_allocVector((SEXPTYPE)TYPEOF(column), 0));
  SHALLOW_DUPLICATE_ATTRIB(model, column);
  if (number > 0) Rf_setAttrib(model, R_LevelsSymbol, R_NilValue);
  UNPROTECT(1);
  return model;
}

SEXP ffi_flat_header(SEXP x, SEXP dictionaries, SEXP keyed) {
  const R_xlen_t n = Rf_xlength(x);
  SEXP header = PROTECT(Rf_allocVector(VECSXP, PARTS));
  SEXP types = Rf_allocVector(INTSXP, n);
  SET_VECTOR_ELT(header, TYPES, types);
  SEXP numbers = Rf_allocVector(INTSXP, n);
  SET_VECTOR_ELT(header, NUMBERS, numbers);
  SEXP models = Rf_allocVector(VECSXP, n);
  SET_VECTOR_ELT(header, MODELS, models);
  SET_VECTOR_ELT(header, NAMES, Rf_getAttrib(x, R_NamesSymbol));
  SET_VECTOR_ELT(header, KEYED, keyed);
  for (R_xlen_t c = 0; c < n; c++) {
    SEXP column = VECTOR_ELT(x, c);
    INTEGER(types)[c] = TYPEOF(column);
    INTEGER(numbers)[c] = number_in(dictionaries, column);
    SET_VECTOR_ELT(models, c, model_of(column, INTEGER(numbers)[c]));
  }
  UNPROTECT(1);
  return header;
}

static const int *types_of(SEXP header) {
  return INTEGER_RO(VECTOR_ELT(header, TYPES));
}

static R_xlen_t width(SEXP header) {
  return Rf_xlength(VECTOR_ELT(header, TYPES));
}

static SEXP dictionary_of(const struct ffi_flat_piece *piece, R_xlen_t c) {
  const int number = INTEGER_RO(VECTOR_ELT(piece->header, NUMBERS))[c];
  if (number == 0) return R_NilValue;
  if (number > Rf_xlength(piece->dictionaries)) Rf_error("no such dictionary");
  return VECTOR_ELT(piece->dictionaries, number - 1);
}

static int same_names(SEXP a, SEXP b) {
  if (Rf_xlength(a) != Rf_xlength(b)) return 0;
  for (R_xlen_t i = 0; i < Rf_xlength(a); i++) {
    if (STRING_ELT(a, i) != STRING_ELT(b, i)) return 0;
  }
  return 1;
}

int ffi_flat_is_alike(const struct ffi_flat_piece *a,
                      const struct ffi_flat_piece *b) {
  const R_xlen_t n = width(a->header);
  const int *types = types_of(a->header);
  if (width(b->header) != n ||
      memcmp(types, types_of(b->header), (size_t)n * sizeof(int)) != 0)
    return 0;
  if (!same_names(VECTOR_ELT(a->header, NAMES), VECTOR_ELT(b->header, NAMES)))
    return 0;
  for (R_xlen_t c = 0; c < n; c++) {
    SEXP model = VECTOR_ELT(VECTOR_ELT(a->header, MODELS), c);
    SEXP other = VECTOR_ELT(VECTOR_ELT(b->header, MODELS), c);
    if (model != other && !R_compute_identical(model, other, 16)) return 0;
    // Levels; strings can be put together in any case.
    if (types[c] != STRSXP && dictionary_of(a, c) != dictionary_of(b, c))
      return 0;
  }
  return 1;
}

// ---- blocks

int ffi_flat_has_runs(SEXP header) {
  return VECTOR_ELT(header, KEYED) != R_NilValue;
}

static int is_keyed(SEXP header, R_xlen_t column) {
  SEXP keyed = VECTOR_ELT(header, KEYED);
  for (R_xlen_t k = 0; k < Rf_xlength(keyed); k++) {
    if (INTEGER_RO(keyed)[k] == column + 1) return 1;
  }
  return 0;
}

#define GATHER(type)                                                           \
  do {                                                                         \
    const type *from = (const type *)(const void *)column->data;               \
    type *to = (type *)(void *)out;                                            \
    for (size_t i = 0; i < count; i++)                                         \
      to[i] = from[at[i] - 1];                                                 \
  } while (0)

static size_t count_of(const struct ffi_flat_column *column, size_t n,
                       const struct ffi_flat_runs *runs) {
  return column->keyed ? runs->n : n;
}

// put_runs writes what a block with runs begins with. Returns where the columns follow.
static uint8_t *put_runs(const struct ffi_flat_runs *runs, uint8_t *out) {
  const uint64_t count = runs->n;
  const size_t some = runs->n * sizeof(int), all = (size_t)ALIGNED(some);
  memcpy(out, &count, sizeof count);
  out += sizeof count;
  memcpy(out, runs->sizes, some);
  memset(out + some, 0, all - some);
  return out + all;
}

int ffi_flat_put(const struct ffi_flat *flat, const int *rows, size_t n,
                 const struct ffi_flat_runs *runs, struct mst_buf *buf) {
  uint64_t bytes = 0;
  if (runs != NULL) bytes = sizeof(uint64_t) + ALIGNED(runs->n * sizeof(int));
  for (R_xlen_t c = 0; c < flat->count; c++) {
    const struct ffi_flat_column *column = &flat->columns[c];
    bytes += ALIGNED(count_of(column, n, runs) * column->size);
  }
  const int rc = mst_buf_reserve(buf, (size_t)bytes);
  if (rc != 0) return rc;
  uint8_t *out = buf->data + buf->len;
  if (runs != NULL) out = put_runs(runs, out);
  for (R_xlen_t c = 0; c < flat->count; c++) {
    const struct ffi_flat_column *column = &flat->columns[c];
    const size_t count = count_of(column, n, runs);
    const int *at = column->keyed ? runs->first : rows;
    const size_t some = count * column->size, all = (size_t)ALIGNED(some);
    switch (column->size) {
    case sizeof(double):
      GATHER(double);
      break;
    case sizeof(int):
      GATHER(int);
      break;
    default:
      GATHER(uint8_t);
      break;
    }
    memset(out + some, 0, all - some);
    out += all;
  }
  buf->len += (size_t)bytes;
  return 0;
}

SEXP ffi_flat_columns(SEXP header, R_xlen_t n) {
  const R_xlen_t count = width(header);
  SEXP columns = PROTECT(Rf_allocVector(VECSXP, count));
  for (R_xlen_t c = 0; c < count; c++) {
    const int type = types_of(header)[c];
    SET_VECTOR_ELT(columns, c,
                   Rf_allocVector(type == STRSXP ? INTSXP : (SEXPTYPE)type, n));
  }
  UNPROTECT(1);
  return columns;
}

// take_runs reads what a block begins with. Returns its number of runs, or -1 if they don't have n
// rows. *sizes: of each.
static int64_t take_runs(const uint8_t *block, uint64_t bytes, uint64_t n,
                         const int **sizes) {
  uint64_t count, rows = 0;
  if (bytes < sizeof count) return -1;
  memcpy(&count, block, sizeof count);
  if (count > n || count * sizeof(int) > bytes - sizeof count) return -1;
  *sizes = (const int *)(const void *)(block + sizeof count);
  for (uint64_t r = 0; r < count; r++) {
    if ((*sizes)[r] < 1) return -1;
    rows += (uint64_t)(*sizes)[r];
  }
  return rows == n ? (int64_t)count : -1;
}

static uint8_t *elements_of(SEXP column) {
  switch (TYPEOF(column)) {
  case REALSXP:
    return (uint8_t *)REAL(column);
  case INTSXP:
    return (uint8_t *)INTEGER(column);
  case LGLSXP:
    return (uint8_t *)LOGICAL(column);
  default:
    return RAW(column);
  }
}

#define REPEAT(type)                                                           \
  do {                                                                         \
    const type *from = (const type *)(const void *)block;                      \
    type *to = (type *)(void *)out;                                            \
    for (int64_t r = 0; r < runs; r++) {                                       \
      for (int i = 0; i < sizes[r]; i++)                                       \
        *to++ = from[r];                                                       \
    }                                                                          \
  } while (0)

// repeat copies each run's element as often as the run has rows.
static void repeat(uint8_t *out, const uint8_t *block, size_t size,
                   const int *sizes, int64_t runs) {
  switch (size) {
  case sizeof(double):
    REPEAT(double);
    break;
  case sizeof(int):
    REPEAT(int);
    break;
  default:
    REPEAT(uint8_t);
    break;
  }
}

int ffi_flat_take(SEXP header, SEXP columns, R_xlen_t at, const uint8_t *block,
                  uint64_t bytes, uint64_t n, struct mst_buf *sizes) {
  const uint8_t *end = block + bytes;
  const int *size = NULL;
  int64_t runs = 0;
  if (ffi_flat_has_runs(header)) {
    runs = take_runs(block, bytes, n, &size);
    if (runs < 0) return -MST_EPROTO;
    const size_t all = (size_t)runs * sizeof(int);
    const int rc = mst_buf_append(sizes, size, all);
    if (rc != 0) return rc;
    block += sizeof(uint64_t) + ALIGNED(all);
  }
  for (R_xlen_t c = 0; c < Rf_xlength(columns); c++) {
    SEXP column = VECTOR_ELT(columns, c);
    const int keyed = is_keyed(header, c);
    const size_t each = size_of(TYPEOF(column));
    const uint64_t some = (keyed ? (uint64_t)runs : n) * each;
    if (block > end || ALIGNED(some) > (uint64_t)(end - block))
      return -MST_EPROTO;
    uint8_t *out = elements_of(column) + (size_t)at * each;
    if (keyed) {
      repeat(out, block, each, size, runs);
    } else {
      memcpy(out, block, (size_t)some);
    }
    block += ALIGNED(some);
  }
  return block == end ? 0 : -MST_EPROTO;
}

// with_class gives a column the attributes that it had.
static SEXP with_class(SEXP column, SEXP model, SEXP levels) {
  if (model == R_NilValue) return column;
  SHALLOW_DUPLICATE_ATTRIB(column, model);
  if (levels != R_NilValue) {
    ffi_dictionary_keep(levels);
    Rf_setAttrib(column, R_LevelsSymbol, ffi_dictionary_strings(levels));
  }
  return column;
}

static int same_dictionary(const struct ffi_flat_piece *pieces, R_xlen_t n,
                           R_xlen_t c) {
  for (R_xlen_t i = 1; i < n; i++) {
    if (pieces[i].rows > 0 &&
        dictionary_of(&pieces[i], c) != dictionary_of(&pieces[0], c))
      return 0;
  }
  return 1;
}

// with_strings makes strings of codes, each piece's of its own dictionary.
static SEXP with_strings(SEXP codes, const struct ffi_flat_piece *pieces,
                         R_xlen_t n, R_xlen_t c) {
  if (same_dictionary(pieces, n, c)) {
    SEXP dictionary = dictionary_of(&pieces[0], c);
    ffi_dictionary_keep(dictionary);
    return ffi_coded_new(codes, dictionary);
  }
  SEXP some = PROTECT(Rf_allocVector(VECSXP, n));
  R_xlen_t at = 0;
  for (R_xlen_t i = 0; i < n; i++) {
    const R_xlen_t rows = (R_xlen_t)pieces[i].rows;
    SEXP own = PROTECT(Rf_allocVector(rows > 0 ? INTSXP : STRSXP, rows));
    if (rows > 0) {
      memcpy(INTEGER(own), INTEGER_RO(codes) + at, (size_t)rows * sizeof(int));
      own = ffi_coded_new(own, dictionary_of(&pieces[i], c));
    }
    SET_VECTOR_ELT(some, i, own);
    at += rows;
    UNPROTECT(1);
  }
  SEXP bound = ffi_coded_bind_packed(some, at);
  UNPROTECT(1);
  return bound;
}

SEXP ffi_flat_frame(SEXP columns, const struct ffi_flat_piece *pieces,
                    R_xlen_t n) {
  SEXP header = pieces[0].header;
  const R_xlen_t count = width(header);
  SEXP frame = PROTECT(Rf_allocVector(VECSXP, count));
  for (R_xlen_t c = 0; c < count; c++) {
    SEXP column = VECTOR_ELT(columns, c);
    SEXP model = VECTOR_ELT(VECTOR_ELT(header, MODELS), c);
    SET_VECTOR_ELT(
        frame, c,
        types_of(header)[c] == STRSXP
            ? with_strings(column, pieces, n, c)
            : with_class(column, model, dictionary_of(&pieces[0], c)));
  }
  R_xlen_t rows = 0;
  for (R_xlen_t i = 0; i < n; i++)
    rows += (R_xlen_t)pieces[i].rows;
  Rf_setAttrib(frame, R_NamesSymbol, VECTOR_ELT(header, NAMES));
  SEXP class = PROTECT(Rf_mkString("data.frame"));
  Rf_setAttrib(frame, R_ClassSymbol, class);
  SEXP names = PROTECT(Rf_allocVector(INTSXP, 2));
  INTEGER(names)[0] = NA_INTEGER;
  INTEGER(names)[1] = -(int)rows;
  Rf_setAttrib(frame, R_RowNamesSymbol, names);
  UNPROTECT(3);
  return frame;
}
