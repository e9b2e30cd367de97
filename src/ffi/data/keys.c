// Columns of data frames as keys: see shuffle/key.h, which does the work.
//
// Strings first become numbers (ffi_coded_number), so that only different ones are translated and
// hashed. Memory is freed when the entry returns.
#include <stdlib.h>
#include <string.h>

#include "ffi/data/data.h"
#include "ffi/value/coded.h"
#include "shuffle/key.h"

// ---- texts

static const char *utf8_of(SEXP text, size_t *n) {
  if (text == NA_STRING) return NULL;
  const cetype_t encoding = Rf_getCharCE(text);
  // Bytes without an encoding are used unchanged.
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

static void set_dictionary(struct mst_key_column *column, SEXP dictionary) {
  column->kind = MST_KEY_TEXT;
  column->texts = ffi_dictionary_texts(dictionary, &column->text_hashes);
  column->text_count = (size_t)ffi_dictionary_size(dictionary);
}

// Levels in a dictionary are hashed once for all parts, not once for each. Some may be equal.
static void set_levels(struct mst_key_column *column, SEXP x) {
  SEXP levels = Rf_getAttrib(x, R_LevelsSymbol);
  const R_xlen_t n = TYPEOF(levels) == STRSXP ? Rf_xlength(levels) : 0;
  column->values = INTEGER_RO(x);
  if (n >= FFI_LEVELS_MIN && !ffi_has_attributes(levels)) {
    SEXP dictionary = ffi_dictionary_recent(levels);
    if (ffi_dictionary_is_sound(dictionary)) {
      set_dictionary(column, dictionary);
      return;
    }
  }
  SEXP *texts = (SEXP *)R_alloc((size_t)n + 1, sizeof *texts);
  for (R_xlen_t i = 0; i < n; i++)
    texts[i] = STRING_ELT(levels, i);
  set_texts(column, texts, (size_t)n);
}

// set_coded: a vector by dictionary has its numbers already.
static void set_coded(struct mst_key_column *column, SEXP x) {
  set_dictionary(column, ffi_coded_dictionary(x));
  column->values = ffi_coded_codes(x);
  column->distinct = 1;
}

static void set_strings(struct mst_key_column *column, SEXP x) {
  const size_t n = (size_t)Rf_xlength(x);
  int *codes = (int *)R_alloc(n + 1, sizeof *codes);
  SEXP *strings;
  const size_t count = ffi_coded_number(x, n, codes, &strings);
  column->values = codes;
  set_texts(column, strings, count);
}

// ---- columns

// R code has checked that there are no other kinds.
static void set_column(struct mst_key_column *column, SEXP x) {
  memset(column, 0, sizeof *column);
  switch (TYPEOF(x)) {
  case LGLSXP:
    column->kind = MST_KEY_INTEGER;
    column->values = LOGICAL_RO(x);
    return;
  case INTSXP:
    column->kind = MST_KEY_INTEGER;
    column->values = INTEGER_RO(x);
    if (Rf_inherits(x, "factor")) set_levels(column, x);
    return;
  case REALSXP:
    column->kind = Rf_inherits(x, "integer64") ? MST_KEY_INT64 : MST_KEY_DOUBLE;
    column->values = REAL_RO(x);
    return;
  case STRSXP:
    if (ffi_is_coded(x)) {
      set_coded(column, x);
    } else {
      set_strings(column, x);
    }
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

// Called first: what the keys of this call read stays until the next one.
static void begin_keys(void) { ffi_dictionary_trim(); }

// read_columns leaves the hashes out.
static void read_columns(SEXP columns, SEXP rows, struct keys *keys) {
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
  keys->hashes = NULL;
}

static void hash_keys(struct keys *keys) {
  keys->hashes = (uint64_t *)R_alloc(keys->n + 1, sizeof *keys->hashes);
  mst_key_hash_rows(keys->columns, keys->count, keys->n, keys->hashes);
}

static void read_keys(SEXP columns, SEXP rows, struct keys *keys) {
  read_columns(columns, rows, keys);
  hash_keys(keys);
}

// grouped gives the groups of all rows; it fills group with each row's number.
static struct mst_key_groups grouped(const struct keys *keys, uint32_t *group) {
  struct mst_key_groups groups = {0};
  groups.table_room = mst_key_table_size(keys->n);
  groups.table = (uint64_t *)R_alloc(groups.table_room, sizeof *groups.table);
  groups.first = (uint32_t *)R_alloc(keys->n + 1, sizeof *groups.first);
  mst_key_group(keys->columns, keys->count, keys->n, keys->hashes, &groups,
                group);
  return groups;
}

// More scratch memory than this isn't kept.
#define KEPT_MAX ((size_t)16 << 20)

// direct gives the same, but for the table, without hashes, if it can. Its memory is kept from call
// to call: R_alloc's counts as R's, which would collect its garbage the more often. No R in here.
static int direct(const struct keys *keys, struct mst_key_groups *groups,
                  uint32_t *group) {
  static uint32_t *scratch;
  static size_t room;
  const size_t wanted = mst_key_direct_room(keys->n);
  if (wanted > room) {
    free(scratch);
    scratch = malloc(wanted * sizeof *scratch);
    room = scratch == NULL ? 0 : wanted;
  }
  if (wanted > room) return 0;
  const int done = mst_key_group_direct(keys->columns, keys->count, keys->n,
                                        scratch, groups, group);
  if (room * sizeof *scratch > KEPT_MAX) {
    free(scratch);
    scratch = NULL;
    room = 0;
  }
  return done;
}

static struct mst_key_groups grouped_any(struct keys *keys, uint32_t *group) {
  struct mst_key_groups groups = {0};
  groups.first = (uint32_t *)R_alloc(keys->n + 1, sizeof *groups.first);
  if (direct(keys, &groups, group)) return groups;
  hash_keys(keys);
  return grouped(keys, group);
}

// from_one copies numbers that start at 0 to R's, which start at 1.
static SEXP from_one(const uint32_t *numbers, size_t n) {
  SEXP x = Rf_allocVector(INTSXP, (R_xlen_t)n);
  int *to = INTEGER(x);
  for (size_t i = 0; i < n; i++)
    to[i] = (int)numbers[i] + 1;
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

// sorted gives list(rows, begin): rows, from 1, sorted by their number below limit; where each
// number's rows begin, from 0, and the end of the last.
static SEXP sorted(const uint32_t *number, size_t n, uint32_t limit) {
  SEXP begin = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)limit + 1));
  SEXP order = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)n));
  mst_key_sort(number, n, limit, (uint32_t *)INTEGER(begin),
               (uint32_t *)INTEGER(order));
  int *rows = INTEGER(order);
  for (size_t i = 0; i < n; i++)
    rows[i]++;
  SEXP list = pair(order, "rows", begin, "begin");
  UNPROTECT(2);
  return list;
}

// ffi_key_split gives the rows of each of `parts` parts.
SEXP ffi_key_split(SEXP columns, SEXP rows, SEXP parts) {
  struct keys keys;
  const uint32_t limit = (uint32_t)Rf_asInteger(parts);
  begin_keys();
  read_keys(columns, rows, &keys);
  uint32_t *part = (uint32_t *)R_alloc(keys.n + 1, sizeof *part);
  mst_key_parts(keys.hashes, keys.n, limit, part);
  return sorted(part, keys.n, limit);
}

// ---- runs

// Keys of fewer rows than this, on average, aren't worth sorting for.
#define RUN_LEAST 4

// narrow gives the rows of a column at n places. In memory of R_alloc.
static struct mst_key_column narrow(const struct mst_key_column *column,
                                    const uint32_t *at, size_t n) {
  struct mst_key_column few = *column;
  if (column->kind == MST_KEY_DOUBLE || column->kind == MST_KEY_INT64) {
    const uint64_t *from = (const uint64_t *)column->values;
    uint64_t *to = (uint64_t *)(void *)R_alloc(n + 1, sizeof *to);
    for (size_t i = 0; i < n; i++)
      to[i] = from[at[i]];
    few.values = to;
  } else {
    const int32_t *from = (const int32_t *)column->values;
    int32_t *to = (int32_t *)(void *)R_alloc(n + 1, sizeof *to);
    for (size_t i = 0; i < n; i++)
      to[i] = from[at[i]];
    few.values = to;
  }
  return few;
}

#define COUNT_OTHERS(type)                                                     \
  do {                                                                         \
    const type *x = (const type *)column->values;                              \
    for (size_t i = 0; i < n; i++)                                             \
      others += x[i] != x[first[group[i]]];                                    \
  } while (0)

// is_repeated tells whether each row has the very value of its group's first row. Equal keys may
// differ: 0 and -0, kinds of NaN, texts in several encodings, repeated levels.
static int is_repeated(const struct mst_key_column *column, size_t n,
                       const uint32_t *first, const uint32_t *group) {
  size_t others = 0;
  if (column->kind == MST_KEY_INTEGER || column->kind == MST_KEY_INT64) {
    return 1;
  } else if (column->kind == MST_KEY_DOUBLE) {
    COUNT_OTHERS(uint64_t);
  } else {
    COUNT_OTHERS(int32_t);
  }
  return others == 0;
}

// runs_of makes the result of ffi_key_split_runs from the part of each group.
static SEXP runs_of(const struct keys *keys,
                    const struct mst_key_groups *groups, uint32_t *group,
                    const uint32_t *part, uint32_t parts) {
  static const char *const names[] = {"rows", "begin", "first", "sizes",
                                      "runs"};
  const uint32_t count = groups->count;
  uint32_t *order = (uint32_t *)R_alloc(count + 1u, sizeof *order);
  uint32_t *rank = (uint32_t *)R_alloc(count + 1u, sizeof *rank);
  SEXP list = PROTECT(ffi_list(5, names));
  SEXP runs = Rf_allocVector(INTSXP, (R_xlen_t)parts + 1);
  SET_VECTOR_ELT(list, 4, runs);
  mst_key_sort(part, count, parts, (uint32_t *)INTEGER(runs), order);
  for (uint32_t r = 0; r < count; r++)
    rank[order[r]] = r;
  for (size_t i = 0; i < keys->n; i++)
    group[i] = rank[group[i]];
  SEXP by_run = PROTECT(sorted(group, keys->n, count));
  SEXP first = Rf_allocVector(INTSXP, (R_xlen_t)count);
  SET_VECTOR_ELT(list, 2, first);
  SEXP sizes = Rf_allocVector(INTSXP, (R_xlen_t)count);
  SET_VECTOR_ELT(list, 3, sizes);
  SEXP begin = Rf_allocVector(INTSXP, (R_xlen_t)parts + 1);
  SET_VECTOR_ELT(list, 1, begin);
  SET_VECTOR_ELT(list, 0, VECTOR_ELT(by_run, 0));
  const int *at = INTEGER_RO(VECTOR_ELT(by_run, 1));
  for (uint32_t r = 0; r < count; r++) {
    INTEGER(first)[r] = (int)groups->first[order[r]] + 1;
    INTEGER(sizes)[r] = at[r + 1] - at[r];
  }
  for (uint32_t p = 0; p <= parts; p++)
    INTEGER(begin)[p] = at[INTEGER(runs)[p]];
  UNPROTECT(2);
  return list;
}

// ffi_key_split_runs gives the same, with each part's rows sorted by key in the order in which keys
// appear: list(rows, begin, first, sizes, runs). A run is the rows of a part that have a key: its
// first row, how many there are; where each part's runs begin. NULL if keys are many, or if equal
// ones may differ.
SEXP ffi_key_split_runs(SEXP columns, SEXP rows, SEXP parts) {
  struct keys keys;
  struct mst_key_groups groups = {0};
  const uint32_t limit = (uint32_t)Rf_asInteger(parts);
  begin_keys();
  read_columns(columns, rows, &keys);
  uint32_t *group = (uint32_t *)R_alloc(keys.n + 1, sizeof *group);
  groups.first = (uint32_t *)R_alloc(keys.n + 1, sizeof *groups.first);
  if (!direct(&keys, &groups, group) || groups.count > keys.n / RUN_LEAST)
    return R_NilValue;
  struct keys few = {.count = keys.count, .n = groups.count};
  for (size_t c = 0; c < keys.count; c++) {
    if (!is_repeated(&keys.columns[c], keys.n, groups.first, group))
      return R_NilValue;
    few.columns[c] = narrow(&keys.columns[c], groups.first, few.n);
  }
  hash_keys(&few);
  uint32_t *part = (uint32_t *)R_alloc(few.n + 1, sizeof *part);
  mst_key_parts(few.hashes, few.n, limit, part);
  return runs_of(&keys, &groups, group, part, limit);
}

// ffi_runs_sort sorts rows as ffi_rows_sort does: of runs of rows with a group each.
SEXP ffi_runs_sort(SEXP group, SEXP sizes, SEXP count) {
  const R_xlen_t runs = Rf_xlength(group);
  const int limit = Rf_asInteger(count);
  const int *of = INTEGER_RO(group), *size = INTEGER_RO(sizes);
  SEXP begin = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)limit + 1));
  int *at = INTEGER(begin);
  int64_t n = 0;
  memset(at, 0, ((size_t)limit + 1) * sizeof *at);
  if (Rf_xlength(sizes) != runs) Rf_error("not a size for each run");
  for (R_xlen_t r = 0; r < runs; r++) {
    if (of[r] < 1 || of[r] > limit || size[r] < 0)
      Rf_error("a group out of range");
    n += size[r];
    if (n > (int64_t)MST_KEY_ROWS_MAX) Rf_error("too many rows");
    at[of[r]] += size[r];
  }
  for (int k = 0; k < limit; k++)
    at[k + 1] += at[k];
  int *next = (int *)R_alloc((size_t)limit + 1, sizeof *next);
  memcpy(next, at, ((size_t)limit + 1) * sizeof *next);
  SEXP order = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)n));
  int row = 1;
  for (R_xlen_t r = 0; r < runs; r++) {
    int *to = INTEGER(order) + next[of[r] - 1];
    for (int i = 0; i < size[r]; i++)
      to[i] = row++;
    next[of[r] - 1] += size[r];
  }
  SEXP list = pair(order, "rows", begin, "begin");
  UNPROTECT(2);
  return list;
}

// ffi_key_groups gives list(group, first): each row's group, and each group's first row.
SEXP ffi_key_groups(SEXP columns, SEXP rows) {
  struct keys keys;
  begin_keys();
  read_columns(columns, rows, &keys);
  uint32_t *group = (uint32_t *)R_alloc(keys.n + 1, sizeof *group);
  const struct mst_key_groups groups = grouped_any(&keys, group);
  SEXP first = PROTECT(from_one(groups.first, groups.count));
  SEXP list = pair(from_one(group, keys.n), "group", first, "first");
  UNPROTECT(1);
  return list;
}

// ffi_rows_sort sorts rows by their group, numbered from 1 to count.
SEXP ffi_rows_sort(SEXP group, SEXP count) {
  const size_t n = (size_t)Rf_xlength(group);
  const uint32_t limit = (uint32_t)Rf_asInteger(count);
  uint32_t *number = (uint32_t *)R_alloc(n + 1, sizeof *number);
  const int *of = INTEGER_RO(group);
  for (size_t i = 0; i < n; i++) {
    const int one = of[i];
    if (one < 1 || (uint32_t)one > limit) Rf_error("a group out of range");
    number[i] = (uint32_t)one - 1;
  }
  return sorted(number, n, limit);
}

// ---- joins

// Which pairs of a row of x there are, see ffi_key_join.
enum { ALL_PAIRS = 1, FIRST_PAIR = 2, LAST_PAIR = 3 };

struct join {
  struct keys x, y;
  int all_x, all_y, multiple;
  struct mst_key_groups groups; // of y's rows
  uint32_t *begin, *order;      // y's rows by group
  uint32_t *match;              // group of each row of x, UINT32_MAX: none
  unsigned char *met;           // groups that contain a row of x
  int each;                     // one pair for each row of x
};

// look_up finds x's rows among y's groups, and gives the number of pairs.
static double look_up(struct join *join) {
  const size_t n = join->x.n;
  uint32_t *group = (uint32_t *)R_alloc(join->y.n + 1, sizeof *group);
  join->groups = grouped(&join->y, group);
  const size_t count = join->groups.count;
  join->begin = (uint32_t *)R_alloc(count + 1, sizeof *join->begin);
  join->order = (uint32_t *)R_alloc(join->y.n + 1, sizeof *join->order);
  mst_key_sort(group, join->y.n, join->groups.count, join->begin, join->order);
  join->match = (uint32_t *)R_alloc(n + 1, sizeof *join->match);
  join->met = (unsigned char *)R_alloc(count + 1, 1);
  memset(join->met, 0, count + 1);
  double pairs = 0;
  join->each = 1;
  for (size_t i = 0; i < n; i++) {
    const uint32_t at =
        mst_key_find(join->x.columns, join->x.count, join->x.hashes[i], i,
                     join->y.columns, &join->groups);
    join->match[i] = at;
    uint32_t own = (uint32_t)join->all_x;
    if (at != UINT32_MAX) {
      const int one = join->multiple != ALL_PAIRS;
      own = one ? 1 : join->begin[at + 1] - join->begin[at];
      join->met[at] = 1;
    }
    join->each = join->each && own == 1;
    pairs += own;
  }
  for (size_t k = 0; join->all_y && k < count; k++) {
    if (!join->met[k]) pairs += join->begin[k + 1] - join->begin[k];
  }
  return pairs;
}

// fill_x writes the pairs with rows of x, to_x unless it is NULL, and gives their number.
static size_t fill_x(const struct join *join, int *to_x, int *to_y) {
  size_t k = 0;
  for (size_t i = 0; i < join->x.n; i++) {
    const uint32_t group = join->match[i];
    if (group == UINT32_MAX) {
      if (!join->all_x) continue;
      if (to_x != NULL) to_x[k] = (int)i + 1;
      to_y[k++] = NA_INTEGER;
      continue;
    }
    uint32_t at = join->begin[group], end = join->begin[group + 1];
    if (join->multiple == FIRST_PAIR) end = at + 1;
    if (join->multiple == LAST_PAIR) at = end - 1;
    for (; at < end; at++) {
      if (to_x != NULL) to_x[k] = (int)i + 1;
      to_y[k++] = (int)join->order[at] + 1;
    }
  }
  return k;
}

// fill_y writes the rows of y without a partner, in their order, from k on.
static void fill_y(const struct join *join, size_t k, int *to_x, int *to_y) {
  unsigned char *alone = (unsigned char *)R_alloc(join->y.n + 1, 1);
  memset(alone, 0, join->y.n + 1);
  for (uint32_t g = 0; g < join->groups.count; g++) {
    for (uint32_t at = join->begin[g]; at < join->begin[g + 1]; at++)
      alone[join->order[at]] = !join->met[g];
  }
  for (size_t j = 0; j < join->y.n; j++) {
    if (!alone[j]) continue;
    to_x[k] = NA_INTEGER;
    to_y[k++] = (int)j + 1;
  }
}

// ffi_key_join gives list(x, y): pairs of rows with equal keys, sorted by x, then by y. all: c(x,
// y), whether to add rows of x and of y without a partner, with NA: those of x in their places,
// those of y at the end. multiple: whether a row of x has all its pairs (1), the first (2) or the
// last (3). x is NULL if it would be the numbers of all rows of x. If there are too many pairs,
// their number.
SEXP ffi_key_join(SEXP x, SEXP x_rows, SEXP y, SEXP y_rows, SEXP all,
                  SEXP multiple) {
  struct join join;
  join.all_x = LOGICAL_RO(all)[0] == 1;
  join.all_y = LOGICAL_RO(all)[1] == 1;
  join.multiple = Rf_asInteger(multiple);
  begin_keys();
  read_keys(x, x_rows, &join.x);
  read_keys(y, y_rows, &join.y);
  const double pairs = look_up(&join);
  if (pairs > (double)MST_KEY_ROWS_MAX) return Rf_ScalarReal(pairs);
  const int each = join.each && pairs == (double)join.x.n;
  SEXP at_x = PROTECT(
      each ? R_NilValue : Rf_allocVector(INTSXP, (R_xlen_t)pairs));
  SEXP at_y = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)pairs));
  int *to_x = each ? NULL : INTEGER(at_x);
  const size_t k = fill_x(&join, to_x, INTEGER(at_y));
  if (join.all_y && to_x != NULL) fill_y(&join, k, to_x, INTEGER(at_y));
  SEXP list = pair(at_x, "x", at_y, "y");
  UNPROTECT(2);
  return list;
}
