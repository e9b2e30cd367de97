// Columns of data frames as keys: see shuffle/key.h, which does the work.
//
// Strings become numbers of a table first: R keeps each string once for each encoding, so one
// look at a pointer's place tells which it is, and only different ones are translated and
// hashed. Memory is R's and goes when the entry returns.
#include <string.h>

#include "ffi/shuffle.h"
#include "shuffle/key.h"

// ---- texts

static const char *utf8_of(SEXP text, size_t *n) {
  if (text == NA_STRING) return NULL;
  const cetype_t encoding = Rf_getCharCE(text);
  // Bytes without an encoding are what they are.
  const char *bytes = encoding == CE_UTF8 || encoding == CE_BYTES
                          ? CHAR(text)
                          : Rf_translateCharUTF8(text);
  *n = strlen(bytes);
  return bytes;
}

static void set_texts(struct mst_key_column *column, const SEXP *texts,
                      size_t n) {
  struct mst_key_text *table =
      (struct mst_key_text *)R_alloc(n + 1, sizeof *table);
  uint64_t *hashes = (uint64_t *)R_alloc(n + 1, sizeof *hashes);
  for (size_t i = 0; i < n; i++) {
    table[i].n = 0;
    table[i].bytes = utf8_of(texts[i], &table[i].n);
  }
  mst_key_hash_texts(table, n, hashes);
  column->kind = MST_KEY_TEXT;
  column->texts = table;
  column->text_hashes = hashes;
  column->text_count = n;
}

static void set_levels(struct mst_key_column *column, SEXP x) {
  SEXP levels = Rf_getAttrib(x, R_LevelsSymbol);
  const R_xlen_t n = TYPEOF(levels) == STRSXP ? Rf_xlength(levels) : 0;
  SEXP *texts = (SEXP *)R_alloc((size_t)n + 1, sizeof *texts);
  for (R_xlen_t i = 0; i < n; i++)
    texts[i] = STRING_ELT(levels, i);
  column->values = INTEGER(x);
  set_texts(column, texts, (size_t)n);
}

static size_t place_of(SEXP text, size_t mask) {
  const uint64_t bits = (uint64_t)(uintptr_t)text;
  return (size_t)((bits >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & mask;
}

// set_strings numbers the different strings of a vector.
static void set_strings(struct mst_key_column *column, SEXP x) {
  const size_t n = (size_t)Rf_xlength(x);
  size_t size = 1024, count = 0;
  int32_t *codes = (int32_t *)R_alloc(n + 1, sizeof *codes);
  SEXP *seen = (SEXP *)R_alloc(size / 2 + 1, sizeof *seen);
  uint32_t *table = (uint32_t *)R_alloc(size, sizeof *table);
  memset(table, 0, size * sizeof *table);
  for (size_t i = 0; i < n; i++) {
    SEXP text = STRING_ELT(x, (R_xlen_t)i);
    if (2 * count >= size) {
      SEXP *more = (SEXP *)R_alloc(size + 1, sizeof *seen);
      memcpy(more, seen, count * sizeof *seen);
      seen = more;
      size *= 2;
      table = (uint32_t *)R_alloc(size, sizeof *table);
      memset(table, 0, size * sizeof *table);
      for (size_t k = 0; k < count; k++) {
        size_t at = place_of(seen[k], size - 1);
        while (table[at] != 0)
          at = (at + 1) & (size - 1);
        table[at] = (uint32_t)k + 1;
      }
    }
    size_t at = place_of(text, size - 1);
    while (table[at] != 0 && seen[table[at] - 1] != text)
      at = (at + 1) & (size - 1);
    if (table[at] == 0) {
      seen[count] = text;
      table[at] = (uint32_t)++count;
    }
    codes[i] = (int32_t)table[at];
  }
  column->values = codes;
  set_texts(column, seen, count);
}

// ---- columns

// R code has checked that there is no other kind.
static void set_column(struct mst_key_column *column, SEXP x) {
  memset(column, 0, sizeof *column);
  switch (TYPEOF(x)) {
  case LGLSXP:
    column->kind = MST_KEY_INTEGER;
    column->values = LOGICAL(x);
    return;
  case INTSXP:
    column->kind = MST_KEY_INTEGER;
    column->values = INTEGER(x);
    if (Rf_inherits(x, "factor")) set_levels(column, x);
    return;
  case REALSXP:
    column->kind = Rf_inherits(x, "integer64") ? MST_KEY_INT64 : MST_KEY_DOUBLE;
    column->values = REAL(x);
    return;
  case STRSXP:
    set_strings(column, x);
    return;
  default:
    Rf_error("a column of type %s can't be a key",
             Rf_type2char((SEXPTYPE)TYPEOF(x)));
  }
}

struct keys {
  struct mst_key_column columns[MST_KEY_COLUMNS_MAX];
  size_t count;
  size_t n;
  uint64_t *hashes;
};

static void read_keys(SEXP columns, SEXP rows, struct keys *keys) {
  keys->count = (size_t)Rf_xlength(columns);
  const double n = Rf_asReal(rows);
  if (keys->count == 0 || keys->count > MST_KEY_COLUMNS_MAX ||
      !(n >= 0 && n <= (double)MST_KEY_ROWS_MAX)) {
    Rf_error("keys of so many rows or columns can't be read");
  }
  keys->n = (size_t)n;
  for (size_t i = 0; i < keys->count; i++) {
    SEXP column = VECTOR_ELT(columns, (R_xlen_t)i);
    if (Rf_xlength(column) != (R_xlen_t)keys->n) {
      Rf_error("a key's column has another length");
    }
    set_column(&keys->columns[i], column);
  }
  keys->hashes = (uint64_t *)R_alloc(keys->n + 1, sizeof *keys->hashes);
  mst_key_hash_rows(keys->columns, keys->count, keys->n, keys->hashes);
}

// grouped gives the groups of all rows; group has room for each row's.
static struct mst_key_groups grouped(const struct keys *keys, uint32_t *group) {
  struct mst_key_groups groups = {0};
  groups.table_room = mst_key_table_size(keys->n);
  groups.table = (uint64_t *)R_alloc(groups.table_room, sizeof *groups.table);
  groups.first = (uint32_t *)R_alloc(keys->n + 1, sizeof *groups.first);
  mst_key_group(keys->columns, keys->count, keys->n, keys->hashes, &groups,
                group);
  return groups;
}

// from_one copies numbers from 0 to R's, from 1.
static SEXP from_one(const uint32_t *numbers, size_t n) {
  SEXP x = Rf_allocVector(INTSXP, (R_xlen_t)n);
  for (size_t i = 0; i < n; i++)
    INTEGER(x)[i] = (int)numbers[i] + 1;
  return x;
}

static SEXP pair(SEXP a, const char *name_a, SEXP b, const char *name_b) {
  const char *names[] = {name_a, name_b};
  PROTECT(a);
  PROTECT(b);
  SEXP list = PROTECT(ffi_list(2, names));
  SET_VECTOR_ELT(list, 0, a);
  SET_VECTOR_ELT(list, 1, b);
  UNPROTECT(3);
  return list;
}

// sorted gives list(rows, begin): rows, from 1, by their number below limit; where each
// number's rows begin, from 0, with the end of the last.
static SEXP sorted(const uint32_t *number, size_t n, uint32_t limit) {
  SEXP begin = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)limit + 1));
  SEXP order = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)n));
  mst_key_sort(number, n, limit, (uint32_t *)INTEGER(begin),
               (uint32_t *)INTEGER(order));
  for (size_t i = 0; i < n; i++)
    INTEGER(order)[i]++;
  SEXP list = pair(order, "rows", begin, "begin");
  UNPROTECT(2);
  return list;
}

// ffi_key_split tells which rows go to which of so many parts.
SEXP ffi_key_split(SEXP columns, SEXP rows, SEXP parts) {
  struct keys keys;
  const uint32_t limit = (uint32_t)Rf_asInteger(parts);
  read_keys(columns, rows, &keys);
  uint32_t *part = (uint32_t *)R_alloc(keys.n + 1, sizeof *part);
  for (size_t i = 0; i < keys.n; i++)
    part[i] = mst_key_part(keys.hashes[i], limit);
  return sorted(part, keys.n, limit);
}

// ffi_key_groups gives list(group, first): of each row, and the row where each appears first.
SEXP ffi_key_groups(SEXP columns, SEXP rows) {
  struct keys keys;
  read_keys(columns, rows, &keys);
  uint32_t *group = (uint32_t *)R_alloc(keys.n + 1, sizeof *group);
  const struct mst_key_groups groups = grouped(&keys, group);
  SEXP first = PROTECT(from_one(groups.first, groups.count));
  SEXP list = pair(from_one(group, keys.n), "group", first, "first");
  UNPROTECT(1);
  return list;
}

// ffi_rows_sort puts rows by their group, which are numbered from 1 to count.
SEXP ffi_rows_sort(SEXP group, SEXP count) {
  const size_t n = (size_t)Rf_xlength(group);
  const uint32_t limit = (uint32_t)Rf_asInteger(count);
  uint32_t *number = (uint32_t *)R_alloc(n + 1, sizeof *number);
  for (size_t i = 0; i < n; i++) {
    const int one = INTEGER(group)[i];
    if (one < 1 || (uint32_t)one > limit) Rf_error("a group out of range");
    number[i] = (uint32_t)one - 1;
  }
  return sorted(number, n, limit);
}

// ffi_key_join gives list(x, y): pairs of rows with equal keys, in the order of x, then of
// y. all: rows of x without a partner come too, with NA.
SEXP ffi_key_join(SEXP x, SEXP x_rows, SEXP y, SEXP y_rows, SEXP all) {
  struct keys left, right;
  const int keep = Rf_asLogical(all) == 1;
  read_keys(x, x_rows, &left);
  read_keys(y, y_rows, &right);
  uint32_t *group = (uint32_t *)R_alloc(right.n + 1, sizeof *group);
  const struct mst_key_groups groups = grouped(&right, group);
  uint32_t *begin =
      (uint32_t *)R_alloc((size_t)groups.count + 1, sizeof *begin);
  uint32_t *order = (uint32_t *)R_alloc(right.n + 1, sizeof *order);
  mst_key_sort(group, right.n, groups.count, begin, order);
  uint32_t *match = (uint32_t *)R_alloc(left.n + 1, sizeof *match);
  double pairs = 0;
  for (size_t i = 0; i < left.n; i++) {
    match[i] = mst_key_find(left.columns, left.count, left.hashes[i], i,
                            right.columns, &groups);
    if (match[i] == UINT32_MAX) {
      pairs += keep;
    } else {
      pairs += begin[match[i] + 1] - begin[match[i]];
    }
  }
  if (pairs > (double)MST_KEY_ROWS_MAX) {
    Rf_error("a part of the join would have %.0f rows", pairs);
  }
  SEXP at_x = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)pairs));
  SEXP at_y = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)pairs));
  int *to_x = INTEGER(at_x), *to_y = INTEGER(at_y);
  size_t k = 0;
  for (size_t i = 0; i < left.n; i++) {
    if (match[i] == UINT32_MAX) {
      if (!keep) continue;
      to_x[k] = (int)i + 1;
      to_y[k++] = NA_INTEGER;
      continue;
    }
    for (uint32_t at = begin[match[i]]; at < begin[match[i] + 1]; at++) {
      to_x[k] = (int)i + 1;
      to_y[k++] = (int)order[at] + 1;
    }
  }
  SEXP list = pair(at_x, "x", at_y, "y");
  UNPROTECT(2);
  return list;
}
