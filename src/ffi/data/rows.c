// Rows of columns: selected, and appended. Only what C alone does quickly; R code does the rest
// (classes with methods of their own).
#include <string.h>

#include "ffi/data/data.h"
#include "ffi/value/coded.h"

// Attributes of the column as a whole, not of its elements.
static void copy_attributes(SEXP from, SEXP to) {
  SHALLOW_DUPLICATE_ATTRIB(to, from);
  if (Rf_getAttrib(to, R_NamesSymbol) != R_NilValue) {
    Rf_setAttrib(to, R_NamesSymbol, R_NilValue);
  }
}

#define TAKE(type, access, none)                                               \
  do {                                                                         \
    const type *from = access##_RO(column);                                    \
    type *to = access(taken);                                                  \
    for (R_xlen_t i = 0; i < n; i++)                                           \
      to[i] = at[i] == NA_INTEGER ? (none) : from[at[i] - 1];                  \
  } while (0)

// can_take: other types and matrices are left to R's `[`.
static int can_take(SEXP column) {
  switch (TYPEOF(column)) {
  case REALSXP:
  case INTSXP:
  case LGLSXP:
  case RAWSXP:
  case STRSXP:
    return Rf_getAttrib(column, R_DimSymbol) == R_NilValue;
  default:
    return 0;
  }
}

// take gives the elements at n places, which are in range.
static SEXP take(SEXP column, const int *at, R_xlen_t n) {
  if (ffi_is_coded(column)) {
    SEXP coded = PROTECT(ffi_coded_take(column, at, n));
    if (ffi_has_attributes(column)) copy_attributes(column, coded);
    UNPROTECT(1);
    return coded;
  }
  SEXP taken = PROTECT(Rf_allocVector((SEXPTYPE)TYPEOF(column), n));
  switch (TYPEOF(column)) {
  case REALSXP: {
    double none = NA_REAL;
    if (Rf_inherits(column, "integer64")) {
      const int64_t least = INT64_MIN;
      memcpy(&none, &least, sizeof none);
    }
    TAKE(double, REAL, none);
    break;
  }
  case INTSXP:
    TAKE(int, INTEGER, NA_INTEGER);
    break;
  case LGLSXP:
    TAKE(int, LOGICAL, NA_LOGICAL);
    break;
  case RAWSXP:
    TAKE(Rbyte, RAW, 0); // as in R's `[`
    break;
  default:
    for (R_xlen_t i = 0; i < n; i++) {
      SET_STRING_ELT(taken, i,
                     at[i] == NA_INTEGER ? NA_STRING
                                         : STRING_ELT(column, at[i] - 1));
    }
    break;
  }
  if (ffi_has_attributes(column)) copy_attributes(column, taken);
  UNPROTECT(1);
  return taken;
}

// copy_range copies n elements behind the first `skip` to place `at`.
static void copy_range(SEXP from, R_xlen_t skip, R_xlen_t n, SEXP to,
                       R_xlen_t at) {
  if (n == 0) return;
  switch (TYPEOF(from)) {
  case REALSXP:
    memcpy(REAL(to) + at, REAL_RO(from) + skip, (size_t)n * sizeof(double));
    break;
  case INTSXP:
    memcpy(INTEGER(to) + at, INTEGER_RO(from) + skip, (size_t)n * sizeof(int));
    break;
  case LGLSXP:
    memcpy(LOGICAL(to) + at, LOGICAL_RO(from) + skip, (size_t)n * sizeof(int));
    break;
  case RAWSXP:
    memcpy(RAW(to) + at, RAW_RO(from) + skip, (size_t)n);
    break;
  default:
    for (R_xlen_t i = 0; i < n; i++)
      SET_STRING_ELT(to, at + i, STRING_ELT(from, skip + i));
    break;
  }
}

static void check_rows(SEXP rows, R_xlen_t length) {
  const int *at = INTEGER_RO(rows);
  const R_xlen_t n = Rf_xlength(rows);
  for (R_xlen_t i = 0; i < n; i++) {
    if (at[i] != NA_INTEGER && (at[i] < 1 || at[i] > length)) {
      Rf_error("a row out of range");
    }
  }
}

// ffi_rows_take gives a column's elements at these places (from 1, or NA); NULL if R's `[` must do
// that.
SEXP ffi_rows_take(SEXP column, SEXP rows) {
  if (!can_take(column)) return R_NilValue;
  check_rows(rows, Rf_xlength(column));
  return take(column, INTEGER_RO(rows), Rf_xlength(rows));
}

// ffi_rows_range gives count elements of a column behind the first `from`; NULL if R's `[` must do
// that.
SEXP ffi_rows_range(SEXP column, SEXP from, SEXP count) {
  const R_xlen_t skip = (R_xlen_t)Rf_asReal(from);
  const R_xlen_t n = (R_xlen_t)Rf_asReal(count);
  if (!can_take(column) || ffi_is_coded(column)) return R_NilValue;
  if (skip < 0 || n < 0 || n > Rf_xlength(column) - skip) {
    Rf_error("a row out of range");
  }
  SEXP taken = PROTECT(Rf_allocVector((SEXPTYPE)TYPEOF(column), n));
  copy_range(column, skip, n, taken, 0);
  if (ffi_has_attributes(column)) copy_attributes(column, taken);
  UNPROTECT(1);
  return taken;
}

static SEXP frame_of(SEXP x, const int *at, int n) {
  const R_xlen_t count = Rf_xlength(x);
  SEXP frame = PROTECT(Rf_allocVector(VECSXP, count));
  for (R_xlen_t c = 0; c < count; c++)
    SET_VECTOR_ELT(frame, c, take(VECTOR_ELT(x, c), at, n));
  Rf_setAttrib(frame, R_NamesSymbol, Rf_getAttrib(x, R_NamesSymbol));
  SEXP class = PROTECT(Rf_mkString("data.frame"));
  Rf_setAttrib(frame, R_ClassSymbol, class);
  SEXP names = PROTECT(Rf_allocVector(INTSXP, 2));
  INTEGER(names)[0] = NA_INTEGER;
  INTEGER(names)[1] = -n;
  Rf_setAttrib(frame, R_RowNamesSymbol, names);
  UNPROTECT(3);
  return frame;
}

// ffi_rows_split cuts a data frame's rows, in this order, at `begin` (from 0, with the end): a list
// of data frames, NULL for those without rows. NULL if some column needs R's `[`.
SEXP ffi_rows_split(SEXP x, SEXP rows, SEXP begin) {
  const R_xlen_t parts = Rf_xlength(begin) - 1;
  R_xlen_t length = R_XLEN_T_MAX;
  for (R_xlen_t c = 0; c < Rf_xlength(x); c++) {
    if (!can_take(VECTOR_ELT(x, c))) return R_NilValue;
    const R_xlen_t has = Rf_xlength(VECTOR_ELT(x, c));
    if (has < length) length = has;
  }
  check_rows(rows, length);
  SEXP list = PROTECT(Rf_allocVector(VECSXP, parts));
  for (R_xlen_t k = 0; k < parts; k++) {
    const int from = INTEGER_RO(begin)[k], to = INTEGER_RO(begin)[k + 1];
    if (from < 0 || to < from || to > Rf_xlength(rows)) {
      Rf_error("a group out of range");
    }
    if (to > from) {
      SET_VECTOR_ELT(list, k, frame_of(x, INTEGER_RO(rows) + from, to - from));
    }
  }
  UNPROTECT(1);
  return list;
}

// same_kind: one type and the same attributes, so that elements can be copied unchanged.
static int same_kind(SEXP a, SEXP b) {
  if (TYPEOF(a) != TYPEOF(b)) return 0;
  if (!ffi_has_attributes(a) && !ffi_has_attributes(b)) return 1;
  SEXP with = PROTECT(Rf_allocVector((SEXPTYPE)TYPEOF(a), 0));
  SEXP other = PROTECT(Rf_allocVector((SEXPTYPE)TYPEOF(a), 0));
  copy_attributes(a, with);
  copy_attributes(b, other);
  const int same = R_compute_identical(with, other, 16);
  UNPROTECT(2);
  return same;
}

// ffi_rows_bind appends columns to each other if they are of one kind, NULL if R's c() must do
// that.
SEXP ffi_rows_bind(SEXP columns) {
  const R_xlen_t count = Rf_xlength(columns);
  if (count == 0) return R_NilValue;
  SEXP first = VECTOR_ELT(columns, 0);
  const SEXPTYPE type = (SEXPTYPE)TYPEOF(first);
  if ((type != REALSXP && type != INTSXP && type != LGLSXP && type != RAWSXP &&
       type != STRSXP) ||
      Rf_getAttrib(first, R_DimSymbol) != R_NilValue) {
    return R_NilValue;
  }
  R_xlen_t n = 0;
  int coded = 0;
  for (R_xlen_t i = 0; i < count; i++) {
    if (i > 0 && !same_kind(first, VECTOR_ELT(columns, i))) return R_NilValue;
    n += Rf_xlength(VECTOR_ELT(columns, i));
    coded = coded || ffi_is_coded(VECTOR_ELT(columns, i));
  }
  if (coded && !ffi_has_attributes(first)) return ffi_coded_bind(columns, n);
  SEXP all = PROTECT(Rf_allocVector(type, n));
  R_xlen_t at = 0;
  for (R_xlen_t i = 0; i < count; i++) {
    const R_xlen_t more = Rf_xlength(VECTOR_ELT(columns, i));
    copy_range(VECTOR_ELT(columns, i), 0, more, all, at);
    at += more;
  }
  copy_attributes(first, all);
  UNPROTECT(1);
  return all;
}

// ---- one group at a time

// A group of the rows that ffi_rows_sort has sorted: its n rows, numbered from 1.
struct group {
  const int *rows;
  int n;
};

static struct group group_of(SEXP sorted, SEXP begin, SEXP number) {
  const R_xlen_t k = Rf_asInteger(number);
  if (k < 1 || k >= Rf_xlength(begin)) Rf_error("no such group");
  const int from = INTEGER_RO(begin)[k - 1], to = INTEGER_RO(begin)[k];
  if (from < 0 || to < from || to > Rf_xlength(sorted)) {
    Rf_error("a group out of range");
  }
  return (struct group){INTEGER_RO(sorted) + from, to - from};
}

// ffi_group_columns gives a list of a group's part of each column; NULL in it if R's `[` must do
// that.
SEXP ffi_group_columns(SEXP columns, SEXP sorted, SEXP begin, SEXP number) {
  const struct group group = group_of(sorted, begin, number);
  const R_xlen_t count = Rf_xlength(columns);
  R_xlen_t length = R_XLEN_T_MAX;
  for (R_xlen_t c = 0; c < count; c++) {
    const R_xlen_t has = Rf_xlength(VECTOR_ELT(columns, c));
    if (can_take(VECTOR_ELT(columns, c)) && has < length) length = has;
  }
  for (int i = 0; i < group.n; i++) {
    if (group.rows[i] < 1 || group.rows[i] > length) {
      Rf_error("a row out of range");
    }
  }
  SEXP list = PROTECT(Rf_allocVector(VECSXP, count));
  for (R_xlen_t c = 0; c < count; c++) {
    SEXP column = VECTOR_ELT(columns, c);
    if (can_take(column)) {
      SET_VECTOR_ELT(list, c, take(column, group.rows, group.n));
    }
  }
  UNPROTECT(1);
  return list;
}

// ffi_group_frame gives a group's rows as a data frame; NULL if R's `[` must do that for some
// column. class: that of data frames, one vector for all.
SEXP ffi_group_frame(SEXP x, SEXP sorted, SEXP begin, SEXP number, SEXP class) {
  const struct group group = group_of(sorted, begin, number);
  for (R_xlen_t c = 0; c < Rf_xlength(x); c++) {
    if (!can_take(VECTOR_ELT(x, c))) return R_NilValue;
  }
  SEXP frame = PROTECT(ffi_group_columns(x, sorted, begin, number));
  // Its own: data.table's functions change names in place.
  SEXP own = PROTECT(Rf_shallow_duplicate(Rf_getAttrib(x, R_NamesSymbol)));
  Rf_setAttrib(frame, R_NamesSymbol, own);
  Rf_setAttrib(frame, R_ClassSymbol, class);
  SEXP names = PROTECT(Rf_allocVector(INTSXP, 2));
  INTEGER(names)[0] = NA_INTEGER;
  INTEGER(names)[1] = -group.n;
  Rf_setAttrib(frame, R_RowNamesSymbol, names);
  UNPROTECT(3);
  return frame;
}

// ffi_group_mask makes a new environment, in which names are the elements at these places: of
// values and, after those, of results.
SEXP ffi_group_mask(SEXP values, SEXP results, SEXP at, SEXP names,
                    SEXP parent) {
  const R_xlen_t before = Rf_xlength(values);
  const R_xlen_t all = before + Rf_xlength(results);
  const int n = (int)Rf_xlength(at);
  if (Rf_xlength(names) != n) Rf_error("not a name for each value");
  // Hashed where list2env() does.
  SEXP env = PROTECT(R_NewEnv(parent, n > 100, n > 29 ? n : 29));
  for (int j = 0; j < n; j++) {
    const R_xlen_t place = (R_xlen_t)INTEGER_RO(at)[j] - 1;
    if (place < 0 || place >= all) Rf_error("a value out of range");
    SEXP value = place < before ? VECTOR_ELT(values, place)
                                : VECTOR_ELT(results, place - before);
    Rf_defineVar(Rf_installTrChar(STRING_ELT(names, j)), value, env);
  }
  UNPROTECT(1);
  return env;
}

static int is_bare_vector(SEXP x) {
  switch (TYPEOF(x)) {
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case STRSXP:
  case RAWSXP:
  case VECSXP:
    return !ffi_has_attributes(x);
  default:
    return 0;
  }
}

// ffi_group_values makes a vector of element k of each list in results, as unlist() does for values
// without attributes, of one type and of length 1. NULL if they aren't, or a list is NULL.
SEXP ffi_group_values(SEXP results, SEXP k) {
  const R_xlen_t n = Rf_xlength(results), at = Rf_asInteger(k) - 1;
  if (n == 0) return R_NilValue;
  SEXPTYPE type = NILSXP;
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP result = VECTOR_ELT(results, i);
    if (TYPEOF(result) != VECSXP || at < 0 || at >= Rf_xlength(result)) {
      return R_NilValue;
    }
    SEXP value = VECTOR_ELT(result, at);
    if (!is_bare_vector(value) || Rf_xlength(value) != 1) return R_NilValue;
    if (i == 0) type = (SEXPTYPE)TYPEOF(value);
    if ((SEXPTYPE)TYPEOF(value) != type) return R_NilValue;
  }
  SEXP all = PROTECT(Rf_allocVector(type, n));
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP value = VECTOR_ELT(VECTOR_ELT(results, i), at);
    switch (type) {
    case VECSXP:
      SET_VECTOR_ELT(all, i, VECTOR_ELT(value, 0));
      break;
    case CPLXSXP:
      COMPLEX(all)[i] = COMPLEX_RO(value)[0];
      break;
    default:
      copy_range(value, 0, 1, all, i);
      break;
    }
  }
  UNPROTECT(1);
  return all;
}

// ffi_group_alike tells whether all results are vectors of one type and have no attributes, or all
// have the same names and nothing else. NULL if they are something else.
SEXP ffi_group_alike(SEXP results) {
  const R_xlen_t n = Rf_xlength(results);
  SEXP names = R_NilValue;
  SEXPTYPE type = NILSXP;
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP result = VECTOR_ELT(results, i);
    const int bare = is_bare_vector(result);
    if (!bare && !Rf_isVectorAtomic(result) && TYPEOF(result) != VECSXP) {
      return R_NilValue;
    }
    if (i == 0) {
      type = (SEXPTYPE)TYPEOF(result);
      if (!bare) names = Rf_getAttrib(result, R_NamesSymbol);
    }
    if ((SEXPTYPE)TYPEOF(result) != type || bare != (names == R_NilValue)) {
      return Rf_ScalarLogical(0);
    }
    if (bare) continue;
    if (!ffi_only_names(result)) return Rf_ScalarLogical(0);
    SEXP own = Rf_getAttrib(result, R_NamesSymbol);
    if (own != names && !R_compute_identical(own, names, 16)) {
      return Rf_ScalarLogical(0);
    }
  }
  return Rf_ScalarLogical(1);
}
