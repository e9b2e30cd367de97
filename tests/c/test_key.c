// Tests of shuffle/key: equality, hashes, groups and look-ups.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mst_random.h"
#include "mst_test.h"
#include "shuffle/key.h"

static double na_real(void) {
  const uint64_t bits = (UINT64_C(0x7FF) << 52) | MST_KEY_NA_WORD;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static int same(struct mst_key_column a, size_t i, struct mst_key_column b,
                size_t j) {
  uint64_t ha[16], hb[16];
  mst_key_hash_rows(&a, 1, i + 1, ha);
  mst_key_hash_rows(&b, 1, j + 1, hb);
  const int equal = mst_key_equal(&a, i, &b, j, 1);
  CHECK(!equal || ha[i] == hb[j]);
  CHECK_INT(mst_key_equal(&b, j, &a, i, 1), equal);
  return equal;
}

TEST("Numbers are equal by value, whatever they are stored as") {
  const double reals[] = {1, 0.0, -0.0, 1.5, 9007199254740994.0, -1e300};
  const int32_t ints[] = {1, 0, 2, INT32_MIN};
  const int64_t longs[] = {1, 0, 9007199254740993, 9007199254740994, INT64_MIN};
  struct mst_key_column d = {.kind = MST_KEY_DOUBLE, .values = reals};
  struct mst_key_column i = {.kind = MST_KEY_INTEGER, .values = ints};
  struct mst_key_column l = {.kind = MST_KEY_INT64, .values = longs};
  CHECK(same(d, 0, i, 0) && same(d, 0, l, 0) && same(i, 0, l, 0));
  CHECK(same(d, 1, d, 2) && same(d, 2, i, 1));
  CHECK(!same(d, 3, i, 0) && !same(d, 5, d, 0));
  CHECK(!same(d, 4, l, 2) && same(d, 4, l, 3) && !same(l, 2, l, 3));
  CHECK(same(i, 3, l, 4));
}

TEST("NA and NaN are keys of their own, and no other key") {
  const double reals[] = {na_real(), NAN, -NAN, 0, INFINITY, na_real() + 1};
  const int32_t ints[] = {INT32_MIN};
  struct mst_key_column d = {.kind = MST_KEY_DOUBLE, .values = reals};
  struct mst_key_column i = {.kind = MST_KEY_INTEGER, .values = ints};
  CHECK(same(d, 0, d, 0) && same(d, 0, i, 0) && same(d, 0, d, 5));
  CHECK(same(d, 1, d, 2) && !same(d, 0, d, 1) && !same(d, 1, d, 3));
  CHECK(!same(d, 4, d, 1));
}

TEST("Texts are equal by their bytes, across tables, and never equal numbers") {
  const struct mst_key_text one[] = {{"a", 1}, {"", 0}, {NULL, 0}, {"a", 1}};
  const struct mst_key_text two[] = {{"b\0c", 3}, {"b", 1}, {"a", 1}};
  uint64_t h1[4], h2[3];
  mst_key_hash_texts(one, 4, h1);
  mst_key_hash_texts(two, 3, h2);
  const int32_t codes[] = {1, 2, 3, 4, 0, INT32_MIN, 7};
  struct mst_key_column a = {MST_KEY_TEXT, codes, one, h1, 4, 0};
  struct mst_key_column b = {MST_KEY_TEXT, codes, two, h2, 3, 0};
  CHECK(same(a, 0, a, 3) && same(a, 0, b, 2) && !same(b, 0, b, 1));
  CHECK(same(a, 2, a, 4) && same(a, 4, a, 5) && same(a, 5, a, 6));
  CHECK(!same(a, 1, a, 2));
  const double reals[] = {1};
  struct mst_key_column d = {.kind = MST_KEY_DOUBLE, .values = reals};
  CHECK(!same(a, 0, d, 0));
}

TEST("A hash is the same on every machine") {
  const struct mst_key_text text[] = {{"north-west", 10}};
  uint64_t hash, row;
  mst_key_hash_texts(text, 1, &hash);
  const int32_t code[] = {1};
  const double number[] = {1.5};
  struct mst_key_column columns[2] = {
      {MST_KEY_TEXT, code, text, &hash, 1, 0},
      {.kind = MST_KEY_DOUBLE, .values = number}};
  mst_key_hash_rows(columns, 2, 1, &row);
  CHECK(hash == UINT64_C(0x49f8ad54b713d23d));
  CHECK(row == UINT64_C(0xab9b471b0da6bc7e));
}

// The slow way: each row is compared with the first of each group.
TEST("Groups are the same as from comparing all rows, in order of appearance") {
  uint64_t state = mst_test_seed();
  enum { N = 500 };
  static double reals[N];
  static int32_t ints[N];
  static uint64_t hashes[N];
  static uint32_t group[N], first[N], want[N];
  static uint64_t table[1024];
  for (int round = 0; round < 20; round++) {
    const uint64_t spread = 1 + mst_random_below(&state, 40);
    for (int i = 0; i < N; i++) {
      const uint64_t r = mst_random_below(&state, spread);
      reals[i] = r == 0 ? na_real() : r == 1 ? NAN : (double)r / 2 - 1;
      ints[i] = (int32_t)mst_random_below(&state, 3);
    }
    struct mst_key_column columns[2] = {
        {.kind = MST_KEY_DOUBLE, .values = reals},
        {.kind = MST_KEY_INTEGER, .values = ints}};
    struct mst_key_groups groups = {.table = table, .first = first};
    groups.table_room = mst_key_table_size(N);
    CHECK_INT(groups.table_room, 1024);
    mst_key_hash_rows(columns, 2, N, hashes);
    mst_key_group(columns, 2, N, hashes, &groups, group);
    uint32_t count = 0;
    for (size_t i = 0; i < N; i++) {
      want[i] = count;
      for (size_t j = 0; j < i; j++) {
        if (mst_key_equal(columns, i, columns, j, 2)) {
          want[i] = want[j];
          break;
        }
      }
      if (want[i] == count) count++;
      CHECK_INT(group[i], want[i]);
      CHECK_INT(mst_key_find(columns, 2, hashes[i], i, columns, &groups),
                want[i]);
    }
    CHECK_INT(groups.count, count);
  }
}

TEST("A missing key isn't found, nor is any in an empty table") {
  const double there[] = {1, 2}, other[] = {3};
  struct mst_key_column a = {.kind = MST_KEY_DOUBLE, .values = there};
  struct mst_key_column b = {.kind = MST_KEY_DOUBLE, .values = other};
  uint64_t hashes[2], hash;
  uint32_t first[2], group[2];
  uint64_t table[16];
  struct mst_key_groups groups = {
      .table = table, .table_room = 16, .first = first};
  mst_key_hash_rows(&a, 1, 2, hashes);
  mst_key_hash_rows(&b, 1, 1, &hash);
  mst_key_group(&a, 1, 2, hashes, &groups, group);
  CHECK_INT(mst_key_find(&b, 1, hash, 0, &a, &groups), UINT32_MAX);
  mst_key_group(&a, 1, 0, hashes, &groups, group);
  CHECK_INT(groups.count, 0);
  CHECK_INT(mst_key_find(&a, 1, hashes[0], 0, &a, &groups), UINT32_MAX);
}

TEST("A table grows with its groups, and finds them all") {
  enum { N = 50000, SAME = 7 };
  const size_t room = mst_key_table_size(N);
  int32_t *ints = malloc(N * sizeof *ints);
  uint64_t *hashes = malloc(N * sizeof *hashes);
  uint64_t *table = malloc(room * sizeof *table);
  uint32_t *group = malloc(N * sizeof *group),
           *first = malloc(N * sizeof *first);
  for (int i = 0; i < N; i++)
    ints[i] = i / SAME;
  struct mst_key_column column = {.kind = MST_KEY_INTEGER, .values = ints};
  struct mst_key_groups groups = {
      .table = table, .table_room = room, .first = first};
  mst_key_hash_rows(&column, 1, N, hashes);
  mst_key_group(&column, 1, N, hashes, &groups, group);
  CHECK_INT(groups.count, N / SAME + 1);
  CHECK(groups.table_size < room && groups.table_size >= 2 * N / SAME);
  for (int i = 0; i < N; i++) {
    CHECK_INT(group[i], ints[i]);
    CHECK_INT(mst_key_find(&column, 1, hashes[i], (size_t)i, &column, &groups),
              ints[i]);
  }
  // The same memory again, with few groups: the old ones are gone.
  for (int i = 0; i < N; i++)
    ints[i] = i % 2;
  mst_key_hash_rows(&column, 1, N, hashes);
  mst_key_group(&column, 1, N, hashes, &groups, group);
  CHECK_INT(groups.count, 2);
  CHECK_INT(groups.table_size, 1024);
  free(ints);
  free(hashes);
  free(table);
  free(group);
  free(first);
}

TEST("Parts are even, and rows keep their order within one") {
  enum { N = 64000, PARTS = 7 };
  int32_t *ints = malloc(N * sizeof *ints);
  uint64_t *hashes = malloc(N * sizeof *hashes);
  uint32_t *part = malloc(N * sizeof *part), *order = malloc(N * sizeof *order);
  uint32_t begin[PARTS + 1];
  for (int i = 0; i < N; i++)
    ints[i] = i;
  struct mst_key_column column = {.kind = MST_KEY_INTEGER, .values = ints};
  mst_key_hash_rows(&column, 1, N, hashes);
  for (int i = 0; i < N; i++)
    part[i] = mst_key_part(hashes[i], PARTS);
  mst_key_sort(part, N, PARTS, begin, order);
  CHECK_INT(begin[0], 0);
  CHECK_INT(begin[PARTS], N);
  for (uint32_t k = 0; k < PARTS; k++) {
    const double share = (double)(begin[k + 1] - begin[k]) / N;
    CHECK(share > 0.9 / PARTS && share < 1.1 / PARTS);
    for (uint32_t at = begin[k]; at < begin[k + 1]; at++) {
      CHECK_INT(part[order[at]], k);
      CHECK(at == begin[k] || order[at - 1] < order[at]);
    }
  }
  free(ints);
  free(hashes);
  free(part);
  free(order);
}
