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

// This many hashes stay in the nearest cache while all columns are processed.
#define HASHED_AT_ONCE ((size_t)1024)

void mst_key_hash_rows(const struct mst_key_column *columns, size_t count,
                       size_t n, uint64_t *hashes) {
  for (size_t from = 0; from < n; from += HASHED_AT_ONCE) {
    const size_t some = n - from < HASHED_AT_ONCE ? n - from : HASHED_AT_ONCE;
    for (size_t i = from; i < from + some; i++)
      hashes[i] = UINT64_C(0xa0761d6478bd642f);
    for (size_t c = 0; c < count; c++)
      hash_column(&columns[c], from, some, hashes);
    // The upper bits choose the part, the lower ones the position in a table.
    for (size_t i = from; i < from + some; i++)
      hashes[i] = mix(hashes[i], UINT64_C(0xe7037ed1a0b428db));
  }
}

static int equal_texts(const struct mst_key_column *a, size_t i,
                       const struct mst_key_column *b, size_t j) {
  const int32_t code_a = code_at(a, i), code_b = code_at(b, j);
  if (code_a == 0 || code_b == 0) return code_a == code_b;
  const struct mst_key_text *text_a = &a->texts[code_a - 1];
  const struct mst_key_text *text_b = &b->texts[code_b - 1];
  if (text_a->bytes == text_b->bytes) return 1;
  return text_a->n == text_b->n &&
         memcmp(text_a->bytes, text_b->bytes, text_a->n) == 0;
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
  size_t at;
  return look(columns, count, hash, i, in_columns, in, &at);
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
