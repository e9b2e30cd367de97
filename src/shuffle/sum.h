// shuffle/sum: exact sums, and their totals, rounded once. Pure: the caller owns all memory,
// nothing is allocated. Any thread.
//
// The exact sum of some doubles, rounded once, doesn't depend on their order or on how they were
// divided into parts: so it is the same for any number of workers, folded before rows travel or
// not. It is kept as
//
//   value + rest + the terms of a pile
//
// where each addition's error goes to the next of the three (Knuth's TwoSum, which finds it
// exactly). rest holds 53 bits below those of value, so numbers whose sizes are within some 2^50 of
// each other leave nothing for the pile: few groups need it, and it makes the sum exact in all
// cases. A full pile is squeezed: its terms are added in fixed point, in a `wide` number that has a
// place for each bit of any double, and become at most MST_PILE_SQUEEZED, which don't overlap. Not
// chosen: a wide number for each group, which would take 0.6 KB; a third and fourth double in each:
// sums of p-values, say, need twenty.
//
// Cost: some 3 ns per number, 30 to 60 ns for one that leaves a term on the pile.
#ifndef MST_SHUFFLE_SUM_H
#define MST_SHUFFLE_SUM_H

#include <float.h>
#include <math.h>
#include <stdint.h>

// ---- value and rest

struct mst_sum {
  double value, rest;
};

// Above this, additions go to the pile: they could overflow although the sum doesn't.
#define MST_SUM_BIG 0x1p1022

// mst_sum_add adds x and returns the remainder for the pile: nearly always 0, but x itself if x
// isn't finite or the numbers are very large.
static inline double mst_sum_add(struct mst_sum *sum, double x) {
#if FLT_EVAL_METHOD == 0
  const double value = sum->value + x, from_x = value - sum->value,
               error = (sum->value - (value - from_x)) + (x - from_x);
  const double rest = sum->rest + error, from_error = rest - sum->rest,
               left = (sum->rest - (rest - from_error)) + (error - from_error);
  // NaN fails this, too.
  if (!(fabs(value) <= MST_SUM_BIG)) return x;
  sum->value = value;
  sum->rest = rest;
  return left;
#else
  // If R is compiled to round twice (x87) TwoSum isn't exact. Everything goes to the pile.
  (void)sum;
  return x;
#endif
}

// ---- the pile

// A wide number has bits from 2^-1074, the smallest of a double, to 2^1230, in limbs of 32 bits;
// each limb has room for the carries of 2^30 additions. Initially all 0. Limbs below `from` and
// from `to` on are 0.
#define MST_WIDE_LIMBS 72u
struct mst_wide {
  int64_t limb[MST_WIDE_LIMBS];
  uint32_t from, to;
};

#define MST_PILE_MAX 64u
// Terms that don't overlap have 53 bits each, of 2,304.
#define MST_PILE_SQUEEZED 44u
// The first `scaled` terms count times 2^64: a sum may exceed the range of a double for a while,
// and partial sums travel.
#define MST_PILE_SCALE 64
struct mst_pile {
  double *terms;
  uint32_t count, capacity, scaled; // capacity: at most MST_PILE_MAX
};

// mst_pile_add puts a finite number on the pile, times 2^MST_PILE_SCALE if `scaled`. There must be
// room: squeeze a full pile first.
void mst_pile_add(struct mst_pile *pile, double x, int scaled);
// mst_pile_squeeze gives the pile's exact sum as few terms, the first *scaled of which count times
// 2^MST_PILE_SCALE: at most MST_PILE_SQUEEZED, possibly more than there were. terms has room for
// MST_PILE_MAX and isn't the pile's. wide: all 0, before and after, as below.
uint32_t mst_pile_squeeze(const struct mst_pile *pile, struct mst_wide *wide,
                          double *terms, uint32_t *scaled);

// mst_sum_total gives the sum, correctly rounded, or if count isn't 0 the mean of `count` numbers
// (below 2^53), within one unit in the last place. pile may be NULL. value must be finite.
double mst_sum_total(const struct mst_sum *sum, const struct mst_pile *pile,
                     struct mst_wide *wide, double count);

// ---- squares

// A product of two doubles, exactly: high + low, unless low underflows.
struct mst_product {
  double high, low;
};

static inline struct mst_product mst_product_of(double x, double y) {
  struct mst_product product = {x * y, 0};
  product.low = fma(x, y, -product.high);
  return product;
}

// Squares of numbers whose size is outside of these aren't exact, or are too large to be added.
#define MST_SQUARE_LEAST 0x1p-480
#define MST_SQUARE_MOST 0x1p480

// mst_sum_deviations gives the sum of the squared deviations of `count` numbers from their mean,
// within a few units in the last place however close they are: from their exact sum, and that of
// their squares. count: at least 1. The piles may be NULL; nothing in them may be scaled.
double mst_sum_deviations(const struct mst_sum *sum,
                          const struct mst_pile *pile,
                          const struct mst_sum *squares,
                          const struct mst_pile *square_pile,
                          struct mst_wide *wide, double count);

// ---- 64-bit whole numbers: their sum has 128 bits

struct mst_long {
  uint64_t low;
  int64_t high;
};

static inline void mst_long_add(struct mst_long *sum, int64_t x) {
  const uint64_t low = sum->low;
  sum->low += (uint64_t)x;
  sum->high += (x < 0 ? -1 : 0) + (sum->low < low);
}
// mst_long_add_double adds a whole number below 2^116.
void mst_long_add_double(struct mst_long *sum, double x);
// mst_long_is_short tells whether the sum fits a 64-bit number of package bit64: INT64_MIN doesn't.
int mst_long_is_short(const struct mst_long *sum);
// mst_long_split gives the sum (below 2^115) as value + rest, exactly; rest is 0 if it is short.
void mst_long_split(const struct mst_long *sum, int64_t *value, double *rest);
// mst_long_mean gives the sum over count, within one unit in the last place.
double mst_long_mean(const struct mst_long *sum, double count);

#endif
