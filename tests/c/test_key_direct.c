// Tests of shuffle/key: groups without hashes are those with hashes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mst_random.h"
#include "mst_test.h"
#include "shuffle/key.h"

enum { TEXTS = 60, COLUMNS = 4 };

static double na_real(void) {
  const uint64_t bits = (UINT64_C(0x7FF) << 52) | MST_KEY_NA_WORD;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// agree groups the rows both ways, in memory of the exact size, and tells whether there was a way
// without hashes.
static int agree(const struct mst_key_column *columns, size_t count, size_t n) {
  struct mst_key_groups want = {.table_room = mst_key_table_size(n)};
  uint64_t *hashes = malloc((n + 1) * sizeof *hashes);
  uint32_t *group = malloc((n + 1) * sizeof *group);
  uint32_t *scratch = malloc(mst_key_direct_room(n) * sizeof *scratch);
  uint32_t *own = malloc(n * sizeof *own);
  struct mst_key_groups groups = {.count = 77, .table_size = 16};
  want.table = malloc(want.table_room * sizeof *want.table);
  want.first = malloc((n + 1) * sizeof *want.first);
  groups.first = malloc(n * sizeof *groups.first);
  memset(scratch, 0xA5, mst_key_direct_room(n) * sizeof *scratch);
  for (size_t i = 0; i < n; i++)
    own[i] = groups.first[i] = 99;
  mst_key_hash_rows(columns, count, n, hashes);
  mst_key_group(columns, count, n, hashes, &want, group);
  struct mst_key_column without[COLUMNS];
  for (size_t c = 0; c < count; c++) {
    without[c] = columns[c];
    if (columns[c].distinct) without[c].text_hashes = NULL;
  }
  const int direct =
      mst_key_group_direct(without, count, n, scratch, &groups, own);
  if (direct) {
    CHECK_INT(groups.count, want.count);
    CHECK_INT(groups.table_size, 0);
    CHECK(n == 0 || memcmp(own, group, n * sizeof *own) == 0);
    CHECK(n == 0 || memcmp(groups.first, want.first,
                           want.count * sizeof *want.first) == 0);
  } else {
    CHECK_INT(groups.count, 77);
    CHECK_INT(groups.table_size, 16);
    for (size_t i = 0; i < n; i++)
      CHECK(own[i] == 99 && groups.first[i] == 99);
  }
  free(hashes);
  free(group);
  free(scratch);
  free(own);
  free(want.table);
  free(want.first);
  free(groups.first);
  return direct;
}

static int one_in(uint64_t *state, uint64_t limit) {
  return mst_random_below(state, limit) == 0;
}

static void fill_integers(uint64_t *state, int32_t *x, size_t n,
                          uint64_t spread) {
  const int64_t bases[] = {0, -(int64_t)(spread / 2), (int64_t)INT32_MIN + 1,
                           (int64_t)INT32_MAX - (int64_t)spread + 1};
  const int64_t base = bases[mst_random_below(state, 4)];
  const uint64_t nas = one_in(state, 8) ? 1 : 9;
  for (size_t i = 0; i < n; i++) {
    x[i] = (int32_t)(base + (int64_t)mst_random_below(state, spread));
    if (one_in(state, nas)) x[i] = INT32_MIN;
  }
}

static void fill_int64(uint64_t *state, int64_t *x, size_t n, uint64_t spread) {
  const int64_t bases[] = {0, INT64_MIN + 1, INT64_MAX - (int64_t)spread + 1,
                           -(int64_t)(spread / 2)};
  const int64_t base = bases[mst_random_below(state, 4)];
  const int64_t other = one_in(state, 8) ? bases[1] : base;
  for (size_t i = 0; i < n; i++) {
    x[i] = base + (int64_t)mst_random_below(state, spread);
    if (one_in(state, 9)) x[i] = one_in(state, 2) ? INT64_MIN : other;
  }
}

static void fill_doubles(uint64_t *state, double *x, size_t n,
                         uint64_t spread) {
  const double bases[] = {0, -(double)(spread / 2), 9007199254740990.0,
                          -9223372036854775808.0};
  const double base = bases[mst_random_below(state, 4)];
  const double odd[] = {0.5, 1e300, -INFINITY, 1e-20, 9223372036854775808.0};
  const double others[] = {na_real(), NAN, -NAN, na_real() + 1, -0.0};
  const size_t some = one_in(state, 3) ? 5 : 4; // -0 is far from other values
  for (size_t i = 0; i < n; i++) {
    x[i] = base + (double)mst_random_below(state, spread);
    if (one_in(state, 9)) x[i] = others[mst_random_below(state, some)];
    if (x[i] == 0 && one_in(state, 2)) x[i] = -x[i];
  }
  if (n > 0 && one_in(state, 8)) {
    x[mst_random_below(state, n)] = odd[mst_random_below(state, 5)];
  }
}

static void fill_texts(uint64_t *state, struct mst_key_column *column,
                       int32_t *codes, size_t n, struct mst_key_text *texts,
                       uint64_t *hashes, char bytes[TEXTS][4]) {
  const size_t count = mst_random_below(state, TEXTS + 1);
  const int distinct = one_in(state, 2);
  for (size_t t = 0; t < count; t++) {
    const int k = distinct ? (int)t : (int)mst_random_below(state, 20);
    const int length = snprintf(bytes[t], sizeof bytes[t], "%d", k);
    texts[t] = (struct mst_key_text){bytes[t], (size_t)length};
    if (!distinct && k == 7) texts[t] = (struct mst_key_text){NULL, 0};
    if (!distinct && k == 8) texts[t].n = 0;
  }
  mst_key_hash_texts(texts, count, hashes);
  // Equal hashes of different texts are rare, but possible.
  for (size_t t = 0; t < count && one_in(state, 4); t++)
    hashes[t] = texts[t].bytes == NULL ? 0 : 5;
  for (size_t i = 0; i < n; i++) {
    codes[i] = (int32_t)mst_random_below(state, count + 3);
    if (one_in(state, 20)) codes[i] = INT32_MIN + codes[i];
    if (one_in(state, 20)) codes[i] = INT32_MAX;
  }
  column->texts = texts;
  column->text_hashes = hashes;
  column->text_count = count;
  column->distinct = distinct;
}

TEST("Rows of few possible keys have the same groups without hashes") {
  uint64_t state = mst_test_seed();
  enum { N = 9000 };
  static const size_t rows[] = {0, 1, 2, 40, 1023, 1024, 1025, 2048, N};
  static uint64_t values[COLUMNS][N];
  static struct mst_key_text texts[COLUMNS][TEXTS];
  static uint64_t hashes[COLUMNS][TEXTS];
  static char bytes[COLUMNS][TEXTS][4];
  int yes = 0, no = 0;
  for (int round = 0; round < 1200; round++) {
    const size_t n = rows[mst_random_below(&state, 9)];
    const size_t count = 1 + mst_random_below(&state, COLUMNS);
    struct mst_key_column columns[COLUMNS] = {{0}};
    for (size_t c = 0; c < count; c++) {
      static const uint64_t spreads[] = {1, 2, 5, 30, 500, 2 * N};
      const uint64_t spread =
          spreads[mst_random_below(&state, count == 1 ? 6 : 4)];
      void *x = values[c];
      columns[c].kind = (enum mst_key_kind)mst_random_below(&state, 4);
      columns[c].values = x;
      switch (columns[c].kind) {
      case MST_KEY_INTEGER:
        fill_integers(&state, x, n, spread);
        break;
      case MST_KEY_INT64:
        fill_int64(&state, x, n, spread);
        break;
      case MST_KEY_DOUBLE:
        fill_doubles(&state, x, n, spread);
        break;
      case MST_KEY_TEXT:
        fill_texts(&state, &columns[c], x, n, texts[c], hashes[c], bytes[c]);
        break;
      }
    }
    if (agree(columns, count, n)) {
      yes++;
    } else {
      no++;
    }
  }
  CHECK(yes > 400 && no > 100);
}

TEST("As many keys as the limit are grouped without hashes, one more isn't") {
  enum { N = 6000 };
  static int32_t ints[N];
  static double reals[N];
  static int64_t longs[N];
  static struct mst_key_text texts[5000];
  const struct mst_key_column i = {.kind = MST_KEY_INTEGER, .values = ints};
  const struct mst_key_column d = {.kind = MST_KEY_DOUBLE, .values = reals};
  const struct mst_key_column l = {.kind = MST_KEY_INT64, .values = longs};
  static const size_t rows[] = {1, 2, 100, 1025, N};
  for (size_t r = 1; r < 5; r++) {
    const size_t n = rows[r], limit = mst_key_direct_limit(n);
    CHECK(limit >= 4096 && limit >= 4 * n);
    CHECK(mst_key_direct_room(n) >= limit);
    memset(ints, 0, sizeof ints);
    memset(reals, 0, sizeof reals);
    memset(longs, 0, sizeof longs);
    // NA needs a number, and NaN of doubles.
    ints[n / 2] = (int32_t)limit - 2;
    longs[n / 2] = (int64_t)limit - 2;
    reals[n / 2] = (double)limit - 3;
    CHECK(agree(&i, 1, n) && agree(&l, 1, n) && agree(&d, 1, n));
    ints[n / 2]++;
    longs[n / 2]++;
    reals[n / 2]++;
    CHECK(!agree(&i, 1, n) && !agree(&l, 1, n) && !agree(&d, 1, n));
    ints[n / 2] = INT32_MAX;
    ints[0] = INT32_MIN + 1;
    longs[n / 2] = INT64_MAX;
    longs[0] = INT64_MIN + 1;
    reals[n / 2] = 0.5;
    CHECK(!agree(&i, 1, n) && !agree(&l, 1, n) && !agree(&d, 1, n));
  }
  // Two columns: the product counts.
  const struct mst_key_column two[] = {i, l};
  memset(ints, 0, sizeof ints);
  memset(longs, 0, sizeof longs);
  ints[7] = 62;
  longs[9] = 62;
  CHECK(agree(two, 2, 100));
  ints[7] = 63;
  CHECK(!agree(two, 2, 100));
  // Texts that may be equal need a map, which is made only if they are few.
  uint64_t hashes[100];
  for (size_t t = 0; t < 100; t++)
    texts[t] = (struct mst_key_text){"a", 1};
  mst_key_hash_texts(texts, 100, hashes);
  struct mst_key_column t = {MST_KEY_TEXT, ints, texts, hashes, 100, 0};
  CHECK(agree(&t, 1, 100) && !agree(&t, 1, 99) && agree(&t, 1, 0));
  t = (struct mst_key_column){MST_KEY_TEXT, ints, texts, hashes, 50, 1};
  CHECK(agree(&t, 1, 20));
}

TEST("A table of no columns is one key, or none, without hashes as well") {
  CHECK(agree(NULL, 0, 0) && agree(NULL, 0, 5) && agree(NULL, 0, 5000));
}

TEST("Rows of new and known keys have the same groups in any mixture") {
  uint64_t state = mst_test_seed();
  enum { N = 60000 };
  int32_t *ints = malloc(N * sizeof *ints);
  const struct mst_key_column i = {.kind = MST_KEY_INTEGER, .values = ints};
  for (int share = 1; share <= 16; share++) {
    int32_t next = 0;
    for (int k = 0; k < N; k++) {
      const int fresh = k == 0 || (int)mst_random_below(&state, 16) < share;
      ints[k] =
          fresh ? next++ : (int32_t)mst_random_below(&state, (uint64_t)next);
    }
    CHECK(agree(&i, 1, N));
  }
  // The first values don't show what comes later.
  for (int k = 0; k < N; k++)
    ints[k] = k < N / 2 ? k % 10 : k % 20000 - 10000;
  CHECK(agree(&i, 1, N));
  free(ints);
}

static void find_after_direct(void *arg) {
  const int32_t ints[] = {1, 2};
  const struct mst_key_column i = {.kind = MST_KEY_INTEGER, .values = ints};
  mst_key_find(&i, 1, 0, 0, &i, arg);
}

TEST("Without hashes there is no table to find a key in") {
  const int32_t ints[] = {1, 2};
  const struct mst_key_column i = {.kind = MST_KEY_INTEGER, .values = ints};
  uint32_t first[2], group[2];
  struct mst_key_groups groups = {.first = first};
  uint32_t *scratch = malloc(mst_key_direct_room(2) * sizeof *scratch);
  CHECK(mst_key_group_direct(&i, 1, 2, scratch, &groups, group));
  CHECK(mst_test_asserts(find_after_direct, &groups));
  free(scratch);
}
