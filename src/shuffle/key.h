// shuffle/key: rows of keys: hash, compare, group, look up. Pure: columns are plain arrays, the
// caller owns all memory, nothing is allocated. Any thread.
//
// Two keys are equal if R's == says so: 1L, 1.0 and integer64 1 are, 0 and -0 are, strings by their
// UTF-8 bytes, factors by their labels. Unlike ==, NA equals NA and NaN equals NaN (two keys, not
// one), so that they can be groups. A number never equals a text. Hashes are the same on every
// machine, whatever its byte order.
#ifndef MST_SHUFFLE_KEY_H
#define MST_SHUFFLE_KEY_H

#include <stddef.h>
#include <stdint.h>

// Row numbers have 32 bits: a part has fewer than 2^31 - 1 rows.
#define MST_KEY_ROWS_MAX ((size_t)INT32_MAX - 1)
#define MST_KEY_COLUMNS_MAX 64u

enum mst_key_kind {
  MST_KEY_DOUBLE,  // double; na_word's bits are NA, other NaN are NaN
  MST_KEY_INTEGER, // int32_t, INT32_MIN is NA
  MST_KEY_INT64,   // int64_t, INT64_MIN is NA
  MST_KEY_TEXT     // int32_t: number of a text, from 1; lower is NA
};

// Lower half of the bits of R's NA.
#define MST_KEY_NA_WORD 1954u

struct mst_key_text {
  const char *bytes; // UTF-8; NULL: NA
  size_t n;
};

struct mst_key_column {
  enum mst_key_kind kind;
  const void *values;
  const struct mst_key_text *texts; // of TEXT; several may be equal
  const uint64_t *text_hashes;      // of mst_key_hash_texts
  size_t text_count;
  int distinct; // no two texts are equal and none is NA; 0: not known
};

// mst_key_hash_texts computes a hash of each text.
void mst_key_hash_texts(const struct mst_key_text *texts, size_t n,
                        uint64_t *hashes);
// mst_key_hash_rows computes a hash of each of n rows.
void mst_key_hash_rows(const struct mst_key_column *columns, size_t count,
                       size_t n, uint64_t *hashes);
// mst_key_equal compares row i of one table with row j of another (or the same), which has as many
// columns.
int mst_key_equal(const struct mst_key_column *a, size_t i,
                  const struct mst_key_column *b, size_t j, size_t count);
// mst_key_part gives the part of a hash, from 0 to parts - 1; parts must not be 0.
uint32_t mst_key_part(uint64_t hash, uint32_t parts);
// mst_key_parts does that for n hashes.
void mst_key_parts(const uint64_t *hashes, size_t n, uint32_t parts,
                   uint32_t *part);

// Groups of equal rows, numbered from 0 by their first appearance.
struct mst_key_groups {
  uint64_t *table; // table_room of them, from mst_key_table_size
  size_t table_room;
  size_t table_size; // entries in use: it grows with the groups
  uint32_t *first;   // room for n: the first row of each group
  uint32_t count;
};
// mst_key_table_size gives the number of entries that a table for n rows may need, a power of 2.
size_t mst_key_table_size(size_t n);
// mst_key_group groups n rows and fills in each row's group.
void mst_key_group(const struct mst_key_column *columns, size_t count, size_t n,
                   const uint64_t *hashes, struct mst_key_groups *groups,
                   uint32_t *group);
// mst_key_group_direct gives the same groups without hashes of rows, several times faster, if few
// keys are possible: whole numbers (stored as any kind) from a small range, few texts, and their
// combinations. It returns 1; or 0, with `groups` and `group` unchanged, if there may be more keys
// than mst_key_direct_limit(n), or more texts than rows in a column not known to be `distinct`.
// Most attempts that fail cost a look at a hundred rows. scratch has mst_key_direct_room(n)
// entries, and only those needed are touched. text_hashes may be NULL in columns of `distinct`
// texts. Of `groups` only `first` has to be set; the table isn't filled (table_size becomes 0), so
// that mst_key_find must not be called.
int mst_key_group_direct(const struct mst_key_column *columns, size_t count,
                         size_t n, uint32_t *scratch,
                         struct mst_key_groups *groups, uint32_t *group);
// mst_key_direct_limit gives how many keys may be possible, NA and NaN included.
size_t mst_key_direct_limit(size_t n);
size_t mst_key_direct_room(size_t n);
// mst_key_find gives the group of `in` (whose rows are in in_columns) that equals row i, with this
// hash, UINT32_MAX if there is none.
uint32_t mst_key_find(const struct mst_key_column *columns, size_t count,
                      uint64_t hash, size_t i,
                      const struct mst_key_column *in_columns,
                      const struct mst_key_groups *in);

// mst_key_sort sorts rows by their numbers below `limit`, keeping the order of rows with the same
// number: a counting sort. begin has room for limit + 1: where each number's rows begin in `order`.
void mst_key_sort(const uint32_t *number, size_t n, uint32_t limit,
                  uint32_t *begin, uint32_t *order);

#endif
