// Tests of shuffle/sum: sums are exact whatever their order, and rounded once.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mst_random.h"
#include "mst_test.h"
#include "shuffle/sum.h"

// A sum as in folds, with a pile of the maximum size.
struct exact {
  struct mst_sum sum;
  struct mst_pile pile;
  struct mst_wide wide;
  double terms[MST_PILE_MAX];
};

static struct exact *new_exact(void) {
  struct exact *exact = calloc(1, sizeof *exact);
  CHECK(exact != NULL);
  exact->pile.terms = exact->terms;
  exact->pile.capacity = MST_PILE_MAX;
  return exact;
}

static void squeeze(struct exact *exact) {
  double terms[MST_PILE_MAX];
  struct mst_pile *pile = &exact->pile;
  pile->count = mst_pile_squeeze(pile, &exact->wide, terms, &pile->scaled);
  CHECK(pile->count <= MST_PILE_SQUEEZED);
  memcpy(pile->terms, terms, sizeof terms);
  CHECK(exact->wide.to == 0);
}

static void put(struct exact *exact, double x, int scaled) {
  mst_pile_add(&exact->pile, x, scaled);
  if (exact->pile.count == exact->pile.capacity) squeeze(exact);
}

static void add(struct exact *exact, double x) {
  const double left = mst_sum_add(&exact->sum, x);
  if (left != 0) put(exact, left, 0);
}

static double total(struct exact *exact, double count) {
  const double sum =
      mst_sum_total(&exact->sum, &exact->pile, &exact->wide, count);
  for (unsigned i = 0; i < MST_WIDE_LIMBS; i++)
    CHECK_INT(exact->wide.limb[i], 0);
  CHECK(exact->wide.from == 0 && exact->wide.to == 0);
  return sum;
}

static double sum_of(const double *x, size_t n, double count) {
  struct exact *exact = new_exact();
  for (size_t i = 0; i < n; i++)
    add(exact, x[i]);
  const double sum = total(exact, count);
  free(exact);
  return sum;
}

#define SUM(...)                                                               \
  sum_of((const double[]){__VA_ARGS__},                                        \
         sizeof((const double[]){__VA_ARGS__}) / sizeof(double), 0)
#define MEAN(...)                                                              \
  sum_of((const double[]){__VA_ARGS__},                                        \
         sizeof((const double[]){__VA_ARGS__}) / sizeof(double),               \
         (double)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

TEST("Sums are exact where additions lose all, and beyond a double's range") {
  CHECK(SUM(1e16, 1, -1e16) == 1);
  CHECK(SUM(1e100, 1, -1e100) == 1);
  CHECK(SUM(1e300, 1e100, 1, 1e-300, -1e300, -1e100, -1) == 1e-300);
  CHECK(SUM(1e308, 1e308, -1e308) == 1e308);
  CHECK(SUM(DBL_MAX, DBL_MAX, DBL_MAX, 0x1p-1074, -DBL_MAX, -DBL_MAX,
            -DBL_MAX) == 0x1p-1074);
  CHECK(SUM(DBL_MAX, DBL_MAX) == INFINITY);
  CHECK(SUM(-DBL_MAX, -DBL_MAX) == -INFINITY);
  CHECK(SUM(DBL_MAX, 0x1p969) == DBL_MAX);
  CHECK(SUM(DBL_MAX, 0x1p970) == INFINITY);
  CHECK(SUM(0x1p-1074, 0x1p-1074, -0x1p-1073) == 0);
  CHECK(SUM(0x1p1000, -0x1p1000) == 0);
}

TEST("Ties are decided by the bits far below") {
  CHECK(SUM(1, 0x1p-53) == 1);
  CHECK(SUM(1, 0x1p-53, 0x1p-1074) == 1 + 0x1p-52);
  CHECK(SUM(1, 0x1p-53, -0x1p-1074) == 1);
  CHECK(SUM(1 + 0x1p-52, 0x1p-53) == 1 + 0x1p-51);
  CHECK(SUM(1 + 0x1p-52, 0x1p-53, -0x1p-500) == 1 + 0x1p-52);
  CHECK(SUM(-1, -0x1p-53, -0x1p-1074) == -1 - 0x1p-52);
  CHECK(SUM(0x1p1023, 0x1p970, 0x1p-1074) == 0x1p1023 + 0x1p971);
}

TEST("Means are those of the exact sum, in range where the sum isn't") {
  CHECK(MEAN(DBL_MAX, DBL_MAX, DBL_MAX) == DBL_MAX);
  CHECK(MEAN(-DBL_MAX, -DBL_MAX) == -DBL_MAX);
  CHECK(MEAN(1e16, 1, -1e16) == 1.0 / 3);
  CHECK(MEAN(1e300, 1, 1, -1e300, 0) == 0.4);
  CHECK(MEAN(0x1p-1074, 0x1p-1074, 0x1p-1074) == 0x1p-1074);
  CHECK(MEAN(0x1p1023, 0x1p1023, 0, 0) == 0x1p1022);
}

// A number of any exponent up to `top`.
static double wild(uint64_t *state, int bottom, int top) {
  const double digits = (double)(int64_t)(mst_random(state) >> 11) * 0x1p-53;
  const int exponent =
      bottom + (int)mst_random_below(state, (uint64_t)(top - bottom + 1));
  return ldexp(mst_random(state) & 1 ? -digits : digits, exponent);
}

static void shuffle(double *x, size_t n, uint64_t *state) {
  for (size_t i = n; i > 1; i--) {
    const size_t j = mst_random_below(state, i);
    const double other = x[i - 1];
    x[i - 1] = x[j];
    x[j] = other;
  }
}

TEST("The rest of numbers that cancel is exact, in any order") {
  uint64_t state = mst_test_seed();
  double x[1201];
  for (int round = 0; round < 300; round++) {
    const int top = round % 3 == 0 ? 1024 : round % 3 == 1 ? 60 : 300;
    const int bottom = round % 3 == 0 ? -1074 : round % 3 == 1 ? -60 : -300;
    const size_t pairs = 1 + mst_random_below(&state, 600);
    for (size_t i = 0; i < pairs; i++) {
      x[2 * i] = wild(&state, bottom, top);
      x[2 * i + 1] = -x[2 * i];
    }
    const double kept = wild(&state, bottom, top);
    x[2 * pairs] = kept;
    shuffle(x, 2 * pairs + 1, &state);
    CHECK(sum_of(x, 2 * pairs + 1, 0) == kept);
  }
}

// A part's message, see ffi/data/folds.c: value, rest, and the pile.
static void send(const struct exact *from, struct exact *to) {
  add(to, from->sum.value);
  add(to, from->sum.rest);
  for (uint32_t i = 0; i < from->pile.count; i++) {
    if (i < from->pile.scaled) {
      put(to, from->pile.terms[i], 1);
    } else {
      add(to, from->pile.terms[i]);
    }
  }
}

TEST("Sums of parts are the sum of all, to the last bit") {
  uint64_t state = mst_test_seed();
  double x[999];
  for (int round = 0; round < 200; round++) {
    const int wide = round % 2;
    for (size_t i = 0; i < 999; i++)
      x[i] = wide ? wild(&state, -1074, 1024) : wild(&state, -80, 80);
    const double all = sum_of(x, 999, 0), mean = sum_of(x, 999, 999);
    const size_t parts = 1 + mst_random_below(&state, 20);
    struct exact *sum = new_exact();
    for (size_t part = 0; part < parts; part++) {
      struct exact *one = new_exact();
      for (size_t i = part; i < 999; i += parts)
        add(one, x[i]);
      if (mst_random(&state) & 1) squeeze(one);
      send(one, sum);
      free(one);
    }
    const double got = total(sum, 0);
    CHECK(memcmp(&got, &all, sizeof got) == 0);
    CHECK(total(sum, 999) == mean);
    free(sum);
  }
}

TEST("Sums past a double's range travel, and come back") {
  struct exact *half = new_exact(), *sum = new_exact();
  for (int i = 0; i < 100000; i++)
    add(half, DBL_MAX);
  squeeze(half);
  CHECK(half->pile.scaled > 0);
  send(half, sum);
  send(half, sum);
  CHECK(total(sum, 0) == INFINITY);
  CHECK(total(sum, 200000) == DBL_MAX);
  for (int i = 0; i < 200000; i++)
    add(sum, -DBL_MAX);
  add(sum, 1e-300);
  CHECK(total(sum, 0) == 1e-300);
  free(half);
  free(sum);
}

TEST("Squeezed terms are few even with mixed signs, and don't overlap") {
  struct exact *exact = new_exact();
  put(exact, 1e300, 0);
  put(exact, -1e-300, 0);
  put(exact, 1e300, 0);
  squeeze(exact);
  CHECK(exact->pile.count == 2 && exact->terms[0] == 2e300);
  CHECK(exact->terms[1] == -1e-300);
  uint64_t state = mst_test_seed();
  for (int round = 0; round < 3000; round++) {
    exact->pile.count = exact->pile.scaled = 0;
    const unsigned n = 1 + (unsigned)mst_random_below(&state, 60);
    for (unsigned i = 0; i < n; i++)
      put(exact, wild(&state, -1074, 1024), 0);
    double before = total(exact, 0);
    squeeze(exact);
    const double after = total(exact, 0);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    for (uint32_t i = exact->pile.scaled + 1; i < exact->pile.count; i++) {
      const double above = exact->terms[i - 1], below = exact->terms[i];
      CHECK(fabs(below) <= fabs(above) * 0x1p-53);
    }
  }
  free(exact);
}

// ---- 64-bit whole numbers

static struct mst_long long_of(int64_t high, uint64_t low) {
  return (struct mst_long){low, high};
}

TEST("128-bit sums are split exactly, and know whether a 64-bit number fits") {
  struct mst_long sum = {0, 0};
  mst_long_add(&sum, INT64_MAX);
  CHECK(mst_long_is_short(&sum));
  mst_long_add(&sum, 1);
  CHECK(!mst_long_is_short(&sum));
  mst_long_add(&sum, -1);
  CHECK(mst_long_is_short(&sum) && sum.low == INT64_MAX && sum.high == 0);
  sum = long_of(0, 0);
  mst_long_add(&sum, -INT64_MAX);
  CHECK(mst_long_is_short(&sum));
  mst_long_add(&sum, -1);
  CHECK(!mst_long_is_short(&sum));
  uint64_t state = mst_test_seed();
  for (int round = 0; round < 2000; round++) {
    const unsigned shift = (unsigned)mst_random_below(&state, 64);
    const int64_t high = (int64_t)(mst_random(&state) >> 13 >> shift % 51);
    struct mst_long x = long_of(round % 2 ? high : -high, mst_random(&state));
    if (round % 5 == 0) x.high = round % 2 ? 0 : -1;
    int64_t value;
    double rest;
    mst_long_split(&x, &value, &rest);
    struct mst_long again = {0, 0};
    mst_long_add(&again, value);
    mst_long_add_double(&again, rest);
    CHECK(again.low == x.low && again.high == x.high);
    const double high_part = ldexp((double)x.high, 64), low = (double)x.low;
    const double about = (high_part + low) / 7;
    CHECK(fabs(mst_long_mean(&x, 7) - about) <=
          1e-15 * (fabs(high_part) + low));
  }
}

TEST("Means of 64-bit whole numbers are rounded once") {
  struct mst_long sum = {0, 0};
  mst_long_add(&sum, (INT64_C(1) << 53) + 1);
  CHECK(mst_long_mean(&sum, 1) == 0x1p53);
  mst_long_add(&sum, 1);
  CHECK(mst_long_mean(&sum, 2) == 0x1p52 + 1);
  sum = long_of(0, 0);
  for (int i = 0; i < 3; i++)
    mst_long_add(&sum, -INT64_MAX);
  CHECK(mst_long_mean(&sum, 3) == -0x1p63);
}

// Of numbers base + x[i] * unit, all exact, whose deviations are those of x times unit.
static double deviations_of(const double *x, size_t n, double base,
                            double unit) {
  struct exact *sum = new_exact(), *squares = new_exact();
  for (size_t i = 0; i < n; i++) {
    const double number = base + x[i] * unit;
    const struct mst_product square = mst_product_of(number, number);
    add(sum, number);
    add(squares, square.high);
    add(squares, square.low);
  }
  const double deviations =
      mst_sum_deviations(&sum->sum, &sum->pile, &squares->sum, &squares->pile,
                         &sum->wide, (double)n);
  for (unsigned i = 0; i < MST_WIDE_LIMBS; i++)
    CHECK_INT(sum->wide.limb[i], 0);
  free(sum);
  free(squares);
  return deviations;
}

TEST("Deviations are right however close numbers are, and how far from 0") {
  const double x[] = {0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(deviations_of(x, 8, 0, 1) == 42);
  CHECK(deviations_of(x, 8, 1e15, 1) == 42);
  CHECK(deviations_of(x, 8, 1, 0x1p-52) == 42 * 0x1p-104);
  CHECK(deviations_of(x, 8, 0x1p479, 0x1p427) == 42 * 0x1p854);
  CHECK(deviations_of(x, 8, 0x1p-480, 0x1p-480) == 42 * 0x1p-960);
  CHECK(deviations_of(x, 2, 1, 0x1p-52) == 0.5 * 0x1p-104);
  const double same[] = {1, 1, 1, 1, 1, 1, 1};
  const double bases[] = {0, 0.1, 1.0 / 3, 1e15 / 7, 1e-140, -123456.789};
  for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
    for (size_t n = 1; n <= 7; n++)
      CHECK(deviations_of(same, n, bases[i], 0) == 0);
  }
  // One number that is far from the others, many times over.
  double far[1000] = {0};
  far[500] = 0x1p400;
  const double right = 0x1p800 * 0.999;
  const double got = deviations_of(far, 1000, 0, 1);
  CHECK(fabs(got - right) <= right * 0x1p-51);
}
