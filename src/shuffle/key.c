// Keys: see key.h.
//
// Every value becomes a tag and a word, so that one comparison serves all mixtures of
// columns: whole numbers below 2^63 their int64, other doubles their bits. Hashing and
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
    value.word = (uint64_t)(int64_t)x; // -0 is 0 here
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

// value_at gives a row's value; for texts the word is their hash.
static struct value value_at(const struct mst_key_column *column, size_t i) {
  switch (column->kind) {
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

// word_of reads 8 bytes, or what is left of them, the same on every machine.
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

void mst_key_hash_rows(const struct mst_key_column *columns, size_t count,
                       size_t n, uint64_t *hashes) {
  for (size_t i = 0; i < n; i++)
    hashes[i] = UINT64_C(0xa0761d6478bd642f);
  for (size_t c = 0; c < count; c++) {
    for (size_t i = 0; i < n; i++) {
      const struct value value = value_at(&columns[c], i);
      hashes[i] = mix(mix(hashes[i], value.word), (uint64_t)value.tag);
    }
  }
  // The upper bits choose the part, the lower ones the place in a table.
  for (size_t i = 0; i < n; i++)
    hashes[i] = mix(hashes[i], UINT64_C(0xe7037ed1a0b428db));
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

int mst_key_equal(const struct mst_key_column *a, size_t i,
                  const struct mst_key_column *b, size_t j, size_t count) {
  for (size_t c = 0; c < count; c++) {
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

size_t mst_key_table_size(size_t n) {
  size_t size = 16;
  while (size < 2 * n)
    size *= 2;
  return size;
}

// A table's entries are groups + 1; 0 is free.
void mst_key_group(const struct mst_key_column *columns, size_t count, size_t n,
                   const uint64_t *hashes, struct mst_key_groups *groups,
                   uint32_t *group) {
  MST_ASSERT(n <= MST_KEY_ROWS_MAX && groups->table_size >= 2 * n);
  const size_t mask = groups->table_size - 1;
  memset(groups->table, 0, groups->table_size * sizeof *groups->table);
  groups->count = 0;
  for (size_t i = 0; i < n; i++) {
    size_t at = (size_t)hashes[i] & mask;
    for (;; at = (at + 1) & mask) {
      const uint32_t entry = groups->table[at];
      if (entry == 0) {
        groups->first[groups->count] = (uint32_t)i;
        groups->table[at] = ++groups->count;
        group[i] = groups->count - 1;
        break;
      }
      const size_t row = groups->first[entry - 1];
      if (hashes[row] == hashes[i] &&
          mst_key_equal(columns, i, columns, row, count)) {
        group[i] = entry - 1;
        break;
      }
    }
  }
}

uint32_t mst_key_find(const struct mst_key_column *columns, size_t count,
                      uint64_t hash, size_t i,
                      const struct mst_key_column *in_columns,
                      const uint64_t *in_hashes,
                      const struct mst_key_groups *in) {
  const size_t mask = in->table_size - 1;
  for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
    const uint32_t entry = in->table[at];
    if (entry == 0) return UINT32_MAX;
    const size_t row = in->first[entry - 1];
    if (in_hashes[row] == hash &&
        mst_key_equal(columns, i, in_columns, row, count)) {
      return entry - 1;
    }
  }
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
