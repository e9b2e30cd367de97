// Keys: see key.h.
//
// Every value becomes a tag and a word, so that one comparison works for all combinations of
// columns: whole numbers below 2^63 become their int64, other doubles their bits. Hashing and
// comparing use the same pair, so they can't disagree.
#include "shuffle/key.h"

#include <math.h>
#include <string.h>

#include "base/mst_assert.h"

enum tag { TAG_NA, TAG_NAN, TAG_WHOLE, TAG_DOUBLE, TAG_TEXT };

struct value {
  uint64_t word;
  enum tag tag;
};

#define TWO_63 9223372036854775808.0

static uint64_t mix(uint64_t sum, uint64_t word) {
  sum = (sum ^ word) * UINT64_C(0xd6e8feb86659fd93);
  return sum ^ (sum >> 32);
}

static struct value of_double(double x) {
  struct value value;
  memcpy(&value.word, &x, sizeof value.word);
  if (isnan(x)) {
    const uint32_t low = (uint32_t)(value.word & 0xFFFFFFFFu);
    value.tag = low == MST_KEY_NA_WORD ? TAG_NA : TAG_NAN;
    value.word = 0;
  } else if (x >= -TWO_63 && x < TWO_63 && (double)(int64_t)x == x) {
    value.tag = TAG_WHOLE;
    value.word = (uint64_t)(int64_t)x; // -0 becomes 0 here
  } else {
    value.tag = TAG_DOUBLE;
  }
  return value;
}

static struct value whole(int64_t x, int64_t na) {
  if (x == na) return (struct value){.tag = TAG_NA};
  return (struct value){.tag = TAG_WHOLE, .word = (uint64_t)x};
}

static int32_t code_at(const struct mst_key_column *column, size_t i) {
  const int32_t code = ((const int32_t *)column->values)[i];
  if (code < 1 || (size_t)code > column->text_count) return 0;
  return column->texts[code - 1].bytes == NULL ? 0 : code;
}

// value_as gives a row's value; for texts the word is their hash. kind is the column's: a constant
// in hot loops, so that they contain no switch.
static inline struct value value_as(const struct mst_key_column *column,
                                    enum mst_key_kind kind, size_t i) {
  switch (kind) {
  case MST_KEY_DOUBLE:
    return of_double(((const double *)column->values)[i]);
  case MST_KEY_INTEGER:
    return whole(((const int32_t *)column->values)[i], INT32_MIN);
  case MST_KEY_INT64:
    return whole(((const int64_t *)column->values)[i], INT64_MIN);
  default:
    break;
  }
  const int32_t code = code_at(column, i);
  if (code == 0) return (struct value){.tag = TAG_NA};
  return (struct value){.tag = TAG_TEXT, .word = column->text_hashes[code - 1]};
}

static struct value value_at(const struct mst_key_column *column, size_t i) {
  return value_as(column, column->kind, i);
}

// word_of reads at most 8 bytes, the same on every machine.
static uint64_t word_of(const unsigned char *bytes, size_t n) {
  uint64_t word = 0;
  for (size_t i = 0; i < n && i < 8; i++)
    word |= (uint64_t)bytes[i] << (8 * i);
  return word;
}

static uint64_t hash_text(const struct mst_key_text *text) {
  if (text->bytes == NULL) return 0;
  const unsigned char *bytes = (const unsigned char *)text->bytes;
  uint64_t sum = mix(UINT64_C(0x9e3779b97f4a7c15), text->n);
  for (size_t at = 0; at < text->n; at += 8)
    sum = mix(sum, word_of(bytes + at, text->n - at));
  return sum;
}

void mst_key_hash_texts(const struct mst_key_text *texts, size_t n,
                        uint64_t *hashes) {
  for (size_t i = 0; i < n; i++)
    hashes[i] = hash_text(&texts[i]);
}

static inline void hash_as(const struct mst_key_column *column,
                           enum mst_key_kind kind, size_t from, size_t n,
                           uint64_t *hashes) {
  for (size_t i = from; i < from + n; i++) {
    const struct value value = value_as(column, kind, i);
    hashes[i] = mix(hashes[i] + (uint64_t)value.tag, value.word);
  }
}

static void hash_column(const struct mst_key_column *column, size_t from,
                        size_t n, uint64_t *hashes) {
  switch (column->kind) {
  case MST_KEY_DOUBLE:
    hash_as(column, MST_KEY_DOUBLE, from, n, hashes);
    break;
  case MST_KEY_INTEGER:
    hash_as(column, MST_KEY_INTEGER, from, n, hashes);
    break;
  case MST_KEY_INT64:
    hash_as(column, MST_KEY_INT64, from, n, hashes);
    break;
  case MST_KEY_TEXT:
    hash_as(column, MST_KEY_TEXT, from, n, hashes);
    break;
  }
}

// This many rows' hashes or numbers stay in the nearest cache while all columns are processed.
#define AT_ONCE ((size_t)1024)

void mst_key_hash_rows(const struct mst_key_column *columns, size_t count,
                       size_t n, uint64_t *hashes) {
  for (size_t from = 0; from < n; from += AT_ONCE) {
    const size_t some = n - from < AT_ONCE ? n - from : AT_ONCE;
    for (size_t i = from; i < from + some; i++)
      hashes[i] = UINT64_C(0xa0761d6478bd642f);
    for (size_t c = 0; c < count; c++)
      hash_column(&columns[c], from, some, hashes);
    // The upper bits choose the part, the lower ones the position in a table.
    for (size_t i = from; i < from + some; i++)
      hashes[i] = mix(hashes[i], UINT64_C(0xe7037ed1a0b428db));
  }
}

static int same_text(const struct mst_key_text *a,
                     const struct mst_key_text *b) {
  if (a->bytes == b->bytes) return 1;
  return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

static int equal_texts(const struct mst_key_column *a, size_t i,
                       const struct mst_key_column *b, size_t j) {
  const int32_t code_a = code_at(a, i), code_b = code_at(b, j);
  if (code_a == 0 || code_b == 0) return code_a == code_b;
  return same_text(&a->texts[code_a - 1], &b->texts[code_b - 1]);
}

// equal_numbers compares without a look at kinds: 1 equal, 0 not, -1 undecided.
static inline int equal_numbers(const struct mst_key_column *a, size_t i,
                                const struct mst_key_column *b, size_t j) {
  if (a->kind != b->kind) return -1;
  if (a->kind == MST_KEY_INTEGER) {
    return ((const int32_t *)a->values)[i] == ((const int32_t *)b->values)[j];
  }
  if (a->kind == MST_KEY_INT64) {
    return ((const int64_t *)a->values)[i] == ((const int64_t *)b->values)[j];
  }
  // Equal doubles are one key; unequal ones may both be NA.
  if (a->kind == MST_KEY_DOUBLE &&
      ((const double *)a->values)[i] == ((const double *)b->values)[j]) {
    return 1;
  }
  return -1;
}

int mst_key_equal(const struct mst_key_column *a, size_t i,
                  const struct mst_key_column *b, size_t j, size_t count) {
  for (size_t c = 0; c < count; c++) {
    const int known = equal_numbers(&a[c], i, &b[c], j);
    if (known == 0) return 0;
    if (known == 1) continue;
    if (a[c].kind == MST_KEY_TEXT && b[c].kind == MST_KEY_TEXT) {
      if (!equal_texts(&a[c], i, &b[c], j)) return 0;
      continue;
    }
    const struct value x = value_at(&a[c], i), y = value_at(&b[c], j);
    if (x.tag != y.tag || x.word != y.word || x.tag == TAG_TEXT) return 0;
  }
  return 1;
}

uint32_t mst_key_part(uint64_t hash, uint32_t parts) {
  MST_ASSERT(parts > 0);
  return (uint32_t)(((hash >> 32) * parts) >> 32);
}

void mst_key_parts(const uint64_t *hashes, size_t n, uint32_t parts,
                   uint32_t *part) {
  for (size_t i = 0; i < n; i++)
    part[i] = mst_key_part(hashes[i], parts);
}

size_t mst_key_table_size(size_t n) {
  size_t size = 16;
  while (size < 2 * n)
    size *= 2;
  return size;
}

// An entry is a group's number from 1 (0: free) and the upper half of its hash, so that most rows
// of other groups are rejected without comparing their keys.
#define UPPER UINT64_C(0xFFFFFFFF00000000)
#define TABLE_FIRST ((size_t)1024)

// A look-up in a table larger than the cache waits for memory; prefetching this many rows ahead
// hides that.
#define AHEAD 16
#if defined(__GNUC__)
#define MST_PREFETCH(address) __builtin_prefetch(address)
#else
#define MST_PREFETCH(address) ((void)(address))
#endif

static void set_free(struct mst_key_groups *groups, size_t size) {
  groups->table_size = size;
  memset(groups->table, 0, size * sizeof *groups->table);
}

// grow enlarges the table in place: few groups of many rows stay in the cache.
static void grow(struct mst_key_groups *groups, const uint64_t *hashes) {
  size_t size = 4 * groups->table_size;
  if (size > groups->table_room) size = groups->table_room;
  set_free(groups, size);
  for (uint32_t k = 0; k < groups->count; k++) {
    const uint64_t hash = hashes[groups->first[k]];
    size_t at = (size_t)hash & (size - 1);
    while (groups->table[at] != 0)
      at = (at + 1) & (size - 1);
    groups->table[at] = (hash & UPPER) | (k + 1);
  }
}

// look gives the group among those of `in` that equals row i of columns, with this hash, and where
// in the table the search ended.
static inline uint32_t look(const struct mst_key_column *columns, size_t count,
                            uint64_t hash, size_t i,
                            const struct mst_key_column *in_columns,
                            const struct mst_key_groups *in, size_t *end) {
  const size_t mask = in->table_size - 1;
  for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
    const uint64_t entry = in->table[at];
    *end = at;
    if (entry == 0) return UINT32_MAX;
    if (((entry ^ hash) & UPPER) != 0) continue;
    const uint32_t group = (uint32_t)(entry & ~UPPER) - 1;
    if (mst_key_equal(columns, i, in_columns, in->first[group], count)) {
      return group;
    }
  }
}

void mst_key_group(const struct mst_key_column *columns, size_t count, size_t n,
                   const uint64_t *hashes, struct mst_key_groups *groups,
                   uint32_t *group) {
  MST_ASSERT(n <= MST_KEY_ROWS_MAX && groups->table_room >= 2 * n);
  groups->count = 0;
  set_free(groups,
           groups->table_room < TABLE_FIRST ? groups->table_room : TABLE_FIRST);
  for (size_t i = 0; i < n; i++) {
    size_t at;
    if (i + AHEAD < n) {
      MST_PREFETCH(
          &groups->table[(size_t)hashes[i + AHEAD] & (groups->table_size - 1)]);
    }
    group[i] = look(columns, count, hashes[i], i, columns, groups, &at);
    if (group[i] != UINT32_MAX) continue;
    group[i] = groups->count;
    groups->first[groups->count++] = (uint32_t)i;
    groups->table[at] = (hashes[i] & UPPER) | groups->count;
    if (2 * (size_t)groups->count > groups->table_size) grow(groups, hashes);
  }
}

uint32_t mst_key_find(const struct mst_key_column *columns, size_t count,
                      uint64_t hash, size_t i,
                      const struct mst_key_column *in_columns,
                      const struct mst_key_groups *in) {
  MST_ASSERT(in->table_size > 0);
  size_t at;
  return look(columns, count, hash, i, in_columns, in, &at);
}

// ---- groups without hashes
//
// Each column's values become numbers from 0, a row's numbers become one number, and a table has
// the group of each. The number after those of values is NA, the next one NaN.

#define DIRECT_LEAST ((size_t)4096)
#define DIRECT_PER_ROW ((size_t)4)
#define DIRECT_MOST ((size_t)1 << 30)

// This many rows, from the first to the last, tell of most columns that they have too many values.
#define SAMPLED ((size_t)64)

// Loops with a constant number of rounds: compilers at -O2 make vectors of those only.
#define ROUNDS ((size_t)64)

struct spread {
  int64_t least, most; // values; least > most: none
  uint32_t na;         // number of NA
  uint32_t size;       // all numbers are lower
  const uint32_t *map; // of TEXT: number of each code, then of NA; or NULL
};

size_t mst_key_direct_limit(size_t n) {
  if (n <= DIRECT_LEAST / DIRECT_PER_ROW) return DIRECT_LEAST;
  return n < DIRECT_MOST / DIRECT_PER_ROW ? DIRECT_PER_ROW * n : DIRECT_MOST;
}

// A table, then maps of texts: their sizes have a product below the limit, and (but for those of
// size 1) a sum that isn't larger.
size_t mst_key_direct_room(size_t n) {
  return 2 * mst_key_direct_limit(n) + MST_KEY_COLUMNS_MAX;
}

static inline int widen_as(const struct mst_key_column *column,
                           enum mst_key_kind kind, size_t from, size_t n,
                           struct spread *spread) {
  int64_t least = spread->least, most = spread->most;
  for (size_t i = from; i < from + n; i++) {
    const struct value value = value_as(column, kind, i);
    if (value.tag == TAG_DOUBLE) return 0;
    if (value.tag != TAG_WHOLE) continue;
    const int64_t x = (int64_t)value.word;
    if (x < least) least = x;
    if (x > most) most = x;
  }
  spread->least = least;
  spread->most = most;
  return 1;
}

// covers tells whether a whole block has no integers but those that spread has.
static int covers(const struct spread *spread, const int32_t *x) {
  if (spread->least > spread->most) return 0;
  const int32_t least = (int32_t)spread->least, most = (int32_t)spread->most;
  int outside = 0;
  for (size_t i = 0; i < AT_ONCE; i++)
    outside += ((x[i] < least) & (x[i] != INT32_MIN)) | (x[i] > most);
  return outside == 0;
}

// widen makes room for the values of n rows: 0 if they are fractions, or would need numbers past
// the limit.
static int widen(const struct mst_key_column *column, size_t from, size_t n,
                 size_t limit, struct spread *spread) {
  int whole = 1;
  if (column->kind == MST_KEY_DOUBLE) {
    whole = widen_as(column, MST_KEY_DOUBLE, from, n, spread);
  } else if (column->kind == MST_KEY_INT64) {
    widen_as(column, MST_KEY_INT64, from, n, spread);
  } else if (n != AT_ONCE ||
             !covers(spread, (const int32_t *)column->values + from)) {
    widen_as(column, MST_KEY_INTEGER, from, n, spread);
  }
  const uint64_t span = spread->least > spread->most
                            ? 0
                            : (uint64_t)spread->most - (uint64_t)spread->least;
  if (!whole || span >= limit) return 0;
  spread->na = (uint32_t)span + 1;
  spread->size = spread->na + (column->kind == MST_KEY_DOUBLE ? 2 : 1);
  return spread->size <= limit;
}

// A map of more texts than rows would cost more than hashing the rows. It is made in the table.
static int spread_texts(const struct mst_key_column *column, size_t n,
                        size_t limit, struct spread *spread) {
  const size_t texts = column->text_count;
  if (texts >= limit) return 0;
  if (!column->distinct &&
      (texts > n || mst_key_table_size(texts) > mst_key_direct_limit(n))) {
    return 0;
  }
  spread->least = 1;
  spread->na = (uint32_t)texts;
  spread->size = spread->na + 1;
  return 1;
}

// spread_all looks at `some` rows in each `step`: 0 if there are more combinations of the columns'
// numbers than the limit.
static int spread_all(const struct mst_key_column *columns, size_t count,
                      size_t n, size_t step, size_t some, size_t limit,
                      struct spread *spreads) {
  size_t product = 1;
  for (size_t c = 0; c < count; c++) {
    const size_t left = limit / product;
    const int texts = columns[c].kind == MST_KEY_TEXT;
    if (texts && !spread_texts(&columns[c], n, left, &spreads[c])) return 0;
    for (size_t i = 0; i < n && !texts; i += step) {
      const size_t rows = n - i < some ? n - i : some;
      if (!widen(&columns[c], i, rows, left, &spreads[c])) return 0;
    }
    product *= spreads[c].size;
  }
  return 1;
}

// map_texts gives equal texts one number from 1, and NA 0.
static void map_texts(const struct mst_key_column *column, uint32_t *table,
                      uint32_t *map, struct spread *spread) {
  const size_t n = column->text_count, mask = mst_key_table_size(n) - 1;
  uint32_t numbers = 1;
  memset(table, 0, (mask + 1) * sizeof *table);
  for (size_t t = 0; t < n; t++) {
    const struct mst_key_text *text = &column->texts[t];
    const uint64_t hash = column->text_hashes[t];
    size_t at = (size_t)hash & mask;
    map[t] = 0;
    if (text->bytes == NULL) continue;
    while (table[at] != 0 && (column->text_hashes[table[at] - 1] != hash ||
                              !same_text(&column->texts[table[at] - 1], text)))
      at = (at + 1) & mask;
    if (table[at] == 0) {
      table[at] = (uint32_t)t + 1;
      map[t] = numbers++;
    } else {
      map[t] = map[table[at] - 1];
    }
  }
  map[n] = 0;
  spread->map = map;
  spread->size = numbers;
}

// add_narrow serves integers and codes of texts: NA and codes out of range lie past the values,
// INT32_MIN as well, because the difference wraps.
static void add_narrow(const int32_t *restrict x, size_t n, uint32_t least,
                       uint32_t na, uint32_t stride,
                       uint32_t *restrict number) {
  size_t i = 0;
  for (; i + ROUNDS <= n; i += ROUNDS) {
    for (size_t k = 0; k < ROUNDS; k++) {
      const uint32_t own = (uint32_t)x[i + k] - least;
      number[i + k] += stride * (own < na ? own : na);
    }
  }
  for (; i < n; i++) {
    const uint32_t own = (uint32_t)x[i] - least;
    number[i] += stride * (own < na ? own : na);
  }
}

static void add_mapped(const int32_t *x, size_t n, const struct spread *spread,
                       uint32_t stride, uint32_t *number) {
  for (size_t k = 0; k < n; k++) {
    const uint32_t code = (uint32_t)x[k] - 1;
    number[k] += stride * spread->map[code < spread->na ? code : spread->na];
  }
}

// whole_as is value_as for numbers that are known to be whole, NA or NaN.
static inline struct value whole_as(const struct mst_key_column *column,
                                    enum mst_key_kind kind, size_t i) {
  if (kind == MST_KEY_DOUBLE) {
    const double x = ((const double *)column->values)[i];
    if (!isnan(x)) return (struct value){(uint64_t)(int64_t)x, TAG_WHOLE};
  }
  return value_as(column, kind, i);
}

static inline void add_wide(const struct mst_key_column *column,
                            enum mst_key_kind kind, struct spread spread,
                            size_t from, size_t n, uint32_t stride,
                            uint32_t *number) {
  for (size_t k = 0; k < n; k++) {
    const struct value value = whole_as(column, kind, from + k);
    const uint32_t own = value.tag == TAG_WHOLE
                             ? (uint32_t)(value.word - (uint64_t)spread.least)
                             : spread.na + (value.tag == TAG_NAN);
    number[k] += stride * own;
  }
}

static void add_numbers(const struct mst_key_column *column,
                        const struct spread *spread, size_t from, size_t n,
                        uint32_t stride, uint32_t *number) {
  if (column->kind == MST_KEY_DOUBLE) {
    add_wide(column, MST_KEY_DOUBLE, *spread, from, n, stride, number);
  } else if (column->kind == MST_KEY_INT64) {
    add_wide(column, MST_KEY_INT64, *spread, from, n, stride, number);
  } else {
    const int32_t *x = (const int32_t *)column->values + from;
    if (spread->map != NULL) {
      add_mapped(x, n, spread, stride, number);
    } else {
      add_narrow(x, n, (uint32_t)spread->least, spread->na, stride, number);
    }
  }
}

// take turns the numbers of n rows into their groups. A table's entry is a group from 1, 0: free.
static void take(struct mst_key_groups *groups, uint32_t *table, size_t from,
                 size_t n, uint32_t *number) {
  uint32_t count = groups->count;
  for (size_t k = 0; k < n; k++) {
    uint32_t *entry = &table[number[k]];
    if (*entry == 0) {
      groups->first[count] = (uint32_t)(from + k);
      *entry = ++count;
    }
    number[k] = *entry - 1;
  }
  groups->count = count;
}

// take_mixed is take without a branch, for rows of which some are the first of a group and some
// aren't: a processor would often guess wrong. There are fewer groups than rows so far, so that
// `first` has room for an entry that doesn't count.
static void take_mixed(struct mst_key_groups *groups, uint32_t *table,
                       size_t from, size_t n, uint32_t *number) {
  uint32_t count = groups->count;
  for (size_t k = 0; k < n; k++) {
    if (k + AHEAD < n) MST_PREFETCH(&table[number[k + AHEAD]]);
    uint32_t *entry = &table[number[k]];
    const uint32_t there = *entry, fresh = there == 0;
    groups->first[count] = (uint32_t)(from + k);
    count += fresh;
    *entry = there | (count & (0 - fresh));
    number[k] = *entry - 1;
  }
  groups->count = count;
}

int mst_key_group_direct(const struct mst_key_column *columns, size_t count,
                         size_t n, uint32_t *scratch,
                         struct mst_key_groups *groups, uint32_t *group) {
  MST_ASSERT(n <= MST_KEY_ROWS_MAX && count <= MST_KEY_COLUMNS_MAX);
  const size_t limit = mst_key_direct_limit(n);
  struct spread spreads[MST_KEY_COLUMNS_MAX];
  for (size_t c = 0; c < count; c++)
    spreads[c] = (struct spread){.least = INT64_MAX, .most = INT64_MIN};
  if (n > AT_ONCE &&
      !spread_all(columns, count, n, n / SAMPLED, 1, limit, spreads)) {
    return 0;
  }
  if (n > 0 && !spread_all(columns, count, n, AT_ONCE, AT_ONCE, limit, spreads))
    return 0;
  groups->count = 0;
  groups->table_size = 0;
  if (n == 0) return 1;
  uint32_t *map = scratch + limit, product = 1;
  for (size_t c = 0; c < count; c++) {
    if (columns[c].kind == MST_KEY_TEXT && !columns[c].distinct) {
      map_texts(&columns[c], scratch, map, &spreads[c]);
      map += columns[c].text_count + 1;
    }
    product *= spreads[c].size;
  }
  memset(scratch, 0, product * sizeof *scratch);
  int mixed = 0;
  for (size_t from = 0; from < n; from += AT_ONCE) {
    const size_t some = n - from < AT_ONCE ? n - from : AT_ONCE;
    const uint32_t before = groups->count;
    uint32_t *number = group + from, stride = 1;
    memset(number, 0, some * sizeof *number);
    for (size_t c = 0; c < count; c++) {
      add_numbers(&columns[c], &spreads[c], from, some, stride, number);
      stride *= spreads[c].size;
    }
    if (mixed) {
      take_mixed(groups, scratch, from, some, number);
    } else {
      take(groups, scratch, from, some, number);
    }
    const size_t fresh = groups->count - before;
    mixed = fresh > some / 8 && fresh < some - some / 8;
  }
  return 1;
}

void mst_key_sort(const uint32_t *number, size_t n, uint32_t limit,
                  uint32_t *begin, uint32_t *order) {
  memset(begin, 0, ((size_t)limit + 1) * sizeof *begin);
  for (size_t i = 0; i < n; i++) {
    MST_ASSERT(number[i] < limit);
    begin[number[i] + 1]++;
  }
  for (uint32_t k = 0; k < limit; k++)
    begin[k + 1] += begin[k];
  for (size_t i = 0; i < n; i++)
    order[begin[number[i]]++] = (uint32_t)i;
  for (uint32_t k = limit; k > 0; k--)
    begin[k] = begin[k - 1];
  begin[0] = 0;
}
