// Numbers in csv: see csv.h.
#include "csv/csv.h"

#include <limits.h>

// Digits that are exact in 64 bits, and powers of ten that are exact in a long double's digits
// (5^27 has 63 bits, 5^22 has 52).
#define DIGITS 19
#if LDBL_MANT_DIG >= 64
#define POWER 27
#define EXACT UINT64_MAX
#else
#define POWER 22
#define EXACT ((uint64_t)1 << 53)
#endif
// Exponents of more digits are left to R.
#define EXPONENT_DIGITS 4

static const long double powers[28] = {
    1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
    1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
    1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

static inline int is_digit(uint8_t byte) { return (uint8_t)(byte - '0') <= 9; }

// exponent reads what is behind "e"; NULL if there are no digits. long_one: too many.
static const uint8_t *exponent(const uint8_t *at, int *value, int *long_one) {
  const int negative = *at == '-';
  if (negative || *at == '+') at++;
  const uint8_t *begin = at;
  int n = 0;
  for (; is_digit(*at); at++) {
    if (at - begin < EXPONENT_DIGITS) n = 10 * n + (*at - '0');
  }
  if (at == begin) return NULL;
  *long_one = at - begin > EXPONENT_DIGITS;
  *value = negative ? -n : n;
  return at;
}

static double scaled(uint64_t digits, int power) {
  if (power < 0) return (double)((long double)digits / powers[-power]);
  return (double)((long double)digits * powers[power]);
}

const uint8_t *mst_csv_number(const uint8_t *from,
                              struct mst_csv_number *number) {
  const uint8_t *at = from;
  *number = (struct mst_csv_number){.kind = MST_CSV_OTHER, .negative = *at == '-'};
  if (*at == '-' || *at == '+') at++;
  const uint8_t *begin = at, *point = NULL;
  uint64_t digits = 0;
  for (; is_digit(*at); at++)
    digits = 10 * digits + (uint64_t)(*at - '0');
  ptrdiff_t n = at - begin;
  if (*at == '.') {
    point = ++at;
    for (; is_digit(*at); at++)
      digits = 10 * digits + (uint64_t)(*at - '0');
    n += at - point;
  }
  if (n == 0) return at;
  int power = point == NULL ? 0 : n > DIGITS ? 0 : -(int)(at - point);
  int long_one = n > DIGITS, whole = point == NULL;
  if (*at == 'e' || *at == 'E') {
    int value = 0, far = 0;
    at = exponent(at + 1, &value, &far);
    if (at == NULL) return from;
    power += value;
    long_one |= far;
    whole = 0;
  }
  if (long_one || power < -POWER || power > POWER || digits > EXACT) {
    // With zeros before it, it may be an integer for all its digits.
    const int zeros = whole && *begin == '0';
    number->kind = zeros ? MST_CSV_OTHER : MST_CSV_LONG;
    return at;
  }
  number->kind = whole && digits <= INT_MAX ? MST_CSV_INTEGER : MST_CSV_REAL;
  number->value = power == 0 ? (double)digits : scaled(digits, power);
  if (number->negative) number->value = -number->value;
  return at;
}
