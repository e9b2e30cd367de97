#include "shuffle/sum.h"

#include <string.h>

#include "base/mst_assert.h"

#define LIMB_BITS 32u
#define LIMB_MASK INT64_C(0xffffffff)
// Bit k of a wide number counts 2^(k - LEAST).
#define LEAST 1074
#define DIGITS 53u

// ---- wide numbers

static void wide_add(struct mst_wide *wide, double x, unsigned shift) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const unsigned exponent = (unsigned)(bits >> 52) & 0x7ff;
  MST_ASSERT(exponent != 0x7ff);
  uint64_t digits = bits & ((UINT64_C(1) << 52) - 1);
  if (exponent != 0) digits |= UINT64_C(1) << 52;
  if (digits == 0) return;
  const unsigned at = (exponent != 0 ? exponent - 1 : 0) + shift;
  const unsigned i = at / LIMB_BITS, up = at % LIMB_BITS;
  const uint64_t lower = (digits & LIMB_MASK) << up,
                 upper = (digits >> LIMB_BITS) << up;
  const int64_t parts[3] = {
      (int64_t)(lower & LIMB_MASK),
      (int64_t)((lower >> LIMB_BITS) + (upper & LIMB_MASK)),
      (int64_t)(upper >> LIMB_BITS)};
  for (unsigned k = 0; k < 3; k++)
    wide->limb[i + k] += bits >> 63 != 0 ? -parts[k] : parts[k];
  if (wide->to == 0 || i < wide->from) wide->from = i;
  if (i + 3 > wide->to) wide->to = i + 3;
}

// wide_settle propagates carries and replaces the limbs by those of the absolute value: from 0 to
// 2^32 - 1. Returns 1 if the number is negative.
static int wide_settle(struct mst_wide *wide) {
  int64_t carry = 0;
  uint32_t i = wide->from;
  // Above the last limb a carry of -1 needs no limb: all its bits are set.
  for (; i < wide->to || (carry != 0 && carry != -1); i++) {
    MST_ASSERT(i < MST_WIDE_LIMBS);
    const int64_t limb = wide->limb[i] + carry;
    wide->limb[i] = (int64_t)((uint64_t)limb & (uint64_t)LIMB_MASK);
    carry = (limb - wide->limb[i]) / (LIMB_MASK + 1);
  }
  wide->to = i;
  if (carry == 0) return 0;
  int64_t one = 1;
  for (i = wide->from; i < wide->to; i++) {
    const int64_t limb = (LIMB_MASK - wide->limb[i]) + one;
    wide->limb[i] = limb & LIMB_MASK;
    one = limb >> LIMB_BITS;
  }
  if (one != 0) {
    MST_ASSERT(wide->to < MST_WIDE_LIMBS);
    wide->limb[wide->to++] = 1;
  }
  return 1;
}

// Leading bits of a settled number: digits times 2^(at - LEAST).
struct leading {
  uint64_t digits;
  unsigned at;
};

// wide_take removes the 53 leading bits; digits are 0 if there are none, and then the number is all
// 0 again.
static struct leading wide_take(struct mst_wide *wide) {
  struct leading leading = {0, 0};
  while (wide->to > wide->from && wide->limb[wide->to - 1] == 0)
    wide->to--;
  if (wide->to == wide->from) {
    wide->from = wide->to = 0;
    return leading;
  }
  unsigned bits = 0; // of the highest limb
  while (bits < LIMB_BITS && wide->limb[wide->to - 1] >> bits != 0)
    bits++;
  const unsigned end = (wide->to - 1) * LIMB_BITS + bits;
  leading.at = end > DIGITS ? end - DIGITS : 0;
  for (unsigned i = wide->to; i-- > leading.at / LIMB_BITS;) {
    const unsigned base = i * LIMB_BITS;
    const unsigned skip = leading.at > base ? leading.at - base : 0;
    const uint64_t limb = (uint64_t)wide->limb[i] >> skip;
    leading.digits = leading.digits << (LIMB_BITS - skip) | limb;
    wide->limb[i] -= (int64_t)(limb << skip);
  }
  return leading;
}

// has_bit tells whether the bit below `at` is set.
static int has_bit(const struct mst_wide *wide, unsigned at) {
  if (at == 0) return 0;
  return (int)(wide->limb[(at - 1) / LIMB_BITS] >> (at - 1) % LIMB_BITS & 1);
}

// complement replaces x, which is above 0 and below 2^at, by 2^at - x.
static void complement(struct mst_wide *wide, unsigned at) {
  int64_t one = 1;
  for (uint32_t i = wide->from; i * LIMB_BITS < at; i++) {
    const unsigned bits = at - i * LIMB_BITS;
    const int64_t mask =
        bits < LIMB_BITS ? (INT64_C(1) << bits) - 1 : LIMB_MASK;
    const int64_t limb = (mask - wide->limb[i]) + one;
    wide->limb[i] = limb & mask;
    one = limb > mask;
  }
}

static int is_zero(const struct mst_wide *wide) {
  for (uint32_t i = wide->from; i < wide->to; i++) {
    if (wide->limb[i] != 0) return 0;
  }
  return 1;
}

static void wide_clear(struct mst_wide *wide) {
  for (uint32_t i = wide->from; i < wide->to; i++)
    wide->limb[i] = 0;
  wide->from = wide->to = 0;
}

static double number_of(struct leading leading, int scale) {
  return ldexp((double)leading.digits, (int)leading.at - LEAST - scale);
}

// Whether bits are so high that a double may not hold them and those next to them.
static int is_high(struct leading leading) {
  return leading.at + DIGITS > LEAST + 1023;
}

// ---- piles

void mst_pile_add(struct mst_pile *pile, double x, int scaled) {
  MST_ASSERT(pile->count < pile->capacity);
  pile->terms[pile->count] = x;
  if (scaled) {
    pile->terms[pile->count] = pile->terms[pile->scaled];
    pile->terms[pile->scaled++] = x;
  }
  pile->count++;
}

static void add_pile(struct mst_wide *wide, const struct mst_pile *pile) {
  for (uint32_t i = 0; i < pile->count; i++)
    wide_add(wide, pile->terms[i], i < pile->scaled ? MST_PILE_SCALE : 0);
}

uint32_t mst_pile_squeeze(const struct mst_pile *pile, struct mst_wide *wide,
                          double *terms, uint32_t *scaled) {
  uint32_t count = 0;
  int high = 0;
  add_pile(wide, pile);
  int negative = wide_settle(wide);
  struct leading leading;
  *scaled = 0;
  while ((leading = wide_take(wide)).digits != 0) {
    // Rounded, so that the remainder may have the other sign: 1e300 - 1e-300 becomes two terms, not
    // one for every 53 bits in between.
    const int up = has_bit(wide, leading.at);
    if (up) {
      leading.digits++;
      complement(wide, leading.at);
    }
    MST_ASSERT(count < MST_PILE_MAX);
    // If the first is high, so are the next, down to those without a bit below 1.
    if (count == 0) high = is_high(leading);
    const int scale = high && leading.at >= LEAST;
    const double x = number_of(leading, scale ? MST_PILE_SCALE : 0);
    terms[count++] = negative ? -x : x;
    *scaled += (uint32_t)scale;
    negative ^= up;
  }
  return count;
}

// ---- totals

// mean_of divides value + rest, where |rest| is at most half a unit in the last place of value.
static double mean_of(double value, double rest, double count) {
  const double mean = value / count;
  // The remainder is exact, so a second quotient corrects the rounding.
  return mean + (fma(-mean, count, value) + rest) / count;
}

double mst_sum_total(const struct mst_sum *sum, const struct mst_pile *pile,
                     struct mst_wide *wide, double count) {
  double value, rest;
  int scale = 0;
  if (pile == NULL || pile->count == 0) {
    // One addition: rounded once. Its error is computed as in mst_sum_add.
    value = sum->value + sum->rest;
    const double from_rest = value - sum->value;
    rest = (sum->value - (value - from_rest)) + (sum->rest - from_rest);
  } else {
    add_pile(wide, pile);
    wide_add(wide, sum->value, 0);
    wide_add(wide, sum->rest, 0);
    const int negative = wide_settle(wide);
    const struct leading first = wide_take(wide);
    struct leading next = wide_take(wide);
    // Lower bits only decide a tie.
    if (!is_zero(wide)) next.digits |= 1;
    wide_clear(wide);
    // The mean may be in range even if the sum isn't.
    if (count != 0 && is_high(first)) scale = MST_PILE_SCALE;
    const double leading = number_of(first, scale),
                 below = number_of(next, scale);
    value = leading + below;
    rest = below - (value - leading);
    if (negative) {
      value = -value;
      rest = -rest;
    }
  }
  if (count == 0) return value;
  return ldexp(mean_of(value, rest, count), scale);
}

// ---- squares

// A sum in progress, with room for its pile.
struct exact {
  struct mst_sum sum;
  struct mst_pile pile;
  struct mst_wide *wide;
  double terms[MST_PILE_MAX];
};

static void exact_begin(struct exact *exact, struct mst_wide *wide) {
  exact->sum = (struct mst_sum){0, 0};
  exact->pile = (struct mst_pile){exact->terms, 0, MST_PILE_MAX, 0};
  exact->wide = wide;
}

static void exact_add(struct exact *exact, double x) {
  const double left = mst_sum_add(&exact->sum, x);
  if (left == 0) return;
  struct mst_pile *pile = &exact->pile;
  mst_pile_add(pile, left, 0);
  if (pile->count < pile->capacity) return;
  double terms[MST_PILE_MAX];
  pile->count = mst_pile_squeeze(pile, exact->wide, terms, &pile->scaled);
  memcpy(pile->terms, terms, pile->count * sizeof *terms);
}

static void exact_add_product(struct exact *exact, double x, double y) {
  const struct mst_product product = mst_product_of(x, y);
  exact_add(exact, product.high);
  exact_add(exact, product.low);
}

// Adds a sum, times a number.
static void exact_add_sum(struct exact *exact, const struct mst_sum *sum,
                          const struct mst_pile *pile, double factor) {
  exact_add_product(exact, sum->value, factor);
  exact_add_product(exact, sum->rest, factor);
  for (uint32_t i = 0; pile != NULL && i < pile->count; i++)
    exact_add_product(exact, pile->terms[i], factor);
}

static double exact_total(const struct exact *exact) {
  return mst_sum_total(&exact->sum, &exact->pile, exact->wide, 0);
}

// With m, the mean rounded, the sum of (x - m)^2 is squares - 2 m sum + count m^2. The mean itself
// is m + (sum - count m) / count.
double mst_sum_deviations(const struct mst_sum *sum,
                          const struct mst_pile *pile,
                          const struct mst_sum *squares,
                          const struct mst_pile *square_pile,
                          struct mst_wide *wide, double count) {
  MST_ASSERT(count >= 1);
  const double mean = mst_sum_total(sum, pile, wide, count);
  const struct mst_product all = mst_product_of(count, mean);
  struct exact exact;
  exact_begin(&exact, wide);
  exact_add_sum(&exact, squares, square_pile, 1);
  exact_add_sum(&exact, sum, pile, -2 * mean);
  exact_add_product(&exact, all.high, mean);
  exact_add_product(&exact, all.low, mean);
  const double about_m = exact_total(&exact);
  exact_begin(&exact, wide);
  exact_add_sum(&exact, sum, pile, 1);
  exact_add(&exact, -all.high);
  exact_add(&exact, -all.low);
  const double off = exact_total(&exact);
  const double deviations = about_m - off * (off / count);
  return deviations > 0 ? deviations : 0;
}

// ---- 64-bit whole numbers

static struct mst_long negated(struct mst_long x) {
  struct mst_long y = {~x.low + 1, 0};
  const uint64_t high = ~(uint64_t)x.high + (y.low == 0);
  memcpy(&y.high, &high, sizeof high);
  return y;
}

void mst_long_add_double(struct mst_long *sum, double x) {
  int exponent;
  const double fraction = frexp(fabs(x), &exponent);
  MST_ASSERT(exponent <= 116);
  const unsigned shift = exponent > 53 ? (unsigned)exponent - 53 : 0;
  const uint64_t digits = (uint64_t)ldexp(fraction, exponent - (int)shift);
  struct mst_long y = {digits << shift,
                       shift == 0 ? 0 : (int64_t)(digits >> (64 - shift))};
  if (x < 0) y = negated(y);
  sum->low += y.low;
  sum->high += y.high + (sum->low < y.low);
}

int mst_long_is_short(const struct mst_long *sum) {
  return sum->low >> 63 == 0 ? sum->high == 0
                             : sum->high == -1 && sum->low << 1 != 0;
}

// The 53 leading bits of x, which must be positive and not short; *below gets the others.
static double leading_of(struct mst_long x, uint64_t *below) {
  unsigned bits = 64;
  while (bits < 127 && (uint64_t)x.high >> (bits - 64) != 0)
    bits++;
  const unsigned shift = bits - DIGITS;
  MST_ASSERT(shift < 64);
  *below = x.low & ((UINT64_C(1) << shift) - 1);
  const uint64_t digits = (uint64_t)x.high << (64 - shift) | x.low >> shift;
  return ldexp((double)digits, (int)shift);
}

void mst_long_split(const struct mst_long *sum, int64_t *value, double *rest) {
  *rest = 0;
  memcpy(value, &sum->low, sizeof *value);
  if (mst_long_is_short(sum)) return;
  uint64_t below;
  const int negative = sum->high < 0;
  *rest = leading_of(negative ? negated(*sum) : *sum, &below);
  *value = negative ? -(int64_t)below : (int64_t)below;
  if (negative) *rest = -*rest;
}

double mst_long_mean(const struct mst_long *sum, double count) {
  int64_t below;
  double leading;
  mst_long_split(sum, &below, &leading);
  // A 64-bit number in two halves, each exact.
  const double lower = (double)(below % (INT64_C(1) << 32));
  struct mst_sum exact = {leading, 0};
  double left = mst_sum_add(&exact, (double)(below - (int64_t)lower));
  left += mst_sum_add(&exact, lower);
  const double value = exact.value + (exact.rest + left);
  return mean_of(value, (exact.value - value) + (exact.rest + left), count);
}
