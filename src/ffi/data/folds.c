// Numbers of columns folded by group: exact sums (shuffle/sum.h), minima, maxima, counts.
//
// A partial sum is value + rest, and if that isn't exact, further rows of the same group, whose
// value and rest are added to it. rest is NA or 0 if there is none, and raw if no row of a part has
// any, so that a row is only one byte longer. A number outside the range of doubles travels as an
// infinite value and a rest times 2^MST_PILE_SCALE; rest is NA or 0 with any other non-finite
// value.
//
// Memory comes from R_alloc() and is freed when the entry returns or is left by a jump.
#include <limits.h>
#include <math.h>
#include <string.h>

#include "ffi/data/data.h"
#include "shuffle/sum.h"

// ---- columns

// A column's values, looked up once: R's accessors would be called for each row.
struct numbers {
  const double *reals;  // or NULL
  const int *ints;      // or NULL
  const int64_t *longs; // of integer64, or NULL
};

static struct numbers numbers_of(SEXP x) {
  struct numbers numbers = {0};
  if (TYPEOF(x) == REALSXP) {
    const void *values = REAL_RO(x);
    if (Rf_inherits(x, "integer64")) {
      numbers.longs = values;
    } else {
      numbers.reals = values;
    }
  } else if (TYPEOF(x) == INTSXP) {
    numbers.ints = INTEGER_RO(x);
  } else if (TYPEOF(x) == LGLSXP) {
    numbers.ints = LOGICAL_RO(x);
  } else if (x != R_NilValue) {
    Rf_error("a column of type %s can't be folded",
             Rf_type2char((SEXPTYPE)TYPEOF(x)));
  }
  return numbers;
}

static inline double number_at(const struct numbers *numbers, R_xlen_t i) {
  if (numbers->reals != NULL) return numbers->reals[i];
  const int x = numbers->ints[i];
  return x == NA_INTEGER ? NA_REAL : (double)x;
}

// The groups of n rows, from 1 to count, checked before any is used.
struct groups {
  const int *of;
  R_xlen_t n, count;
};

static struct groups groups_of(SEXP group, SEXP count) {
  const struct groups groups = {INTEGER_RO(group), Rf_xlength(group),
                                (R_xlen_t)Rf_asInteger(count)};
  for (R_xlen_t i = 0; i < groups.n; i++) {
    if (groups.of[i] < 1 || groups.of[i] > groups.count) {
      Rf_error("a group out of range");
    }
  }
  return groups;
}

static void check_length(SEXP x, const struct groups *groups) {
  if (x != R_NilValue && Rf_xlength(x) != groups->n) {
    Rf_error("a column of another length");
  }
}

// ---- sums of doubles

struct fold {
  struct mst_sum *sums; // of each group
  R_xlen_t count;
  uint32_t *pile_of; // number of each group's pile, 0: none; NULL: no piles yet
  struct mst_pile *piles;
  uint32_t pile_count, pile_capacity;
  double *free; // room for terms
  size_t free_count;
  struct mst_wide *wide;
};

static void *zeros(size_t count, size_t size) {
  void *memory = R_alloc(count + 1, (int)size);
  memset(memory, 0, (count + 1) * size);
  return memory;
}

static double *new_terms(struct fold *fold, size_t count) {
  if (count > fold->free_count) {
    const size_t most = (size_t)1 << 16;
    fold->free_count = (size_t)fold->count * 8 < most ? most / 16 : most;
    fold->free = (double *)R_alloc(fold->free_count, sizeof *fold->free);
  }
  double *terms = fold->free;
  fold->free += count;
  fold->free_count -= count;
  return terms;
}

static struct mst_pile *pile_of(struct fold *fold, R_xlen_t group) {
  if (fold->pile_of == NULL) {
    fold->pile_of = zeros((size_t)fold->count, sizeof *fold->pile_of);
    fold->wide = zeros(1, sizeof *fold->wide);
  }
  uint32_t number = fold->pile_of[group];
  if (number != 0) return &fold->piles[number - 1];
  if (fold->pile_count == fold->pile_capacity) {
    const uint32_t capacity =
        fold->pile_capacity == 0 ? 64 : 2 * fold->pile_capacity;
    struct mst_pile *piles =
        (struct mst_pile *)R_alloc(capacity, sizeof *piles);
    if (fold->pile_count > 0) {
      memcpy(piles, fold->piles, fold->pile_count * sizeof *piles);
    }
    fold->piles = piles;
    fold->pile_capacity = capacity;
  }
  struct mst_pile *pile = &fold->piles[fold->pile_count++];
  *pile = (struct mst_pile){new_terms(fold, 8), 0, 8, 0};
  fold->pile_of[group] = fold->pile_count;
  return pile;
}

static void squeeze(struct fold *fold, struct mst_pile *pile) {
  double terms[MST_PILE_MAX];
  uint32_t scaled, capacity = pile->capacity;
  const uint32_t count = mst_pile_squeeze(pile, fold->wide, terms, &scaled);
  // At most half full afterwards: the next squeeze is then amortized over as many additions.
  while (count > capacity / 2 && capacity < MST_PILE_MAX)
    capacity *= 2;
  if (capacity > pile->capacity) pile->terms = new_terms(fold, capacity);
  memcpy(pile->terms, terms, count * sizeof *terms);
  pile->capacity = capacity;
  pile->count = count;
  pile->scaled = scaled;
}

static void add_to_pile(struct fold *fold, R_xlen_t group, double x,
                        int scaled) {
  struct mst_pile *pile = pile_of(fold, group);
  mst_pile_add(pile, x, scaled);
  if (pile->count == pile->capacity) squeeze(fold, pile);
}

// As R's sum(): infinities of both signs give NaN, NaN wins over numbers, and NA over NaN.
static double unlike_numbers(double a, double b) {
  if (R_IsNA(a) || R_IsNA(b)) return NA_REAL;
  return ISNAN(a) || ISNAN(b) || a != b ? R_NaN : a;
}

// left: the remainder from mst_sum_add.
static void add_left(struct fold *fold, R_xlen_t group, double left) {
  struct mst_sum *sum = &fold->sums[group];
  if (R_FINITE(left)) {
    if (R_FINITE(sum->value)) add_to_pile(fold, group, left, 0);
  } else {
    sum->value = R_FINITE(sum->value) ? left : unlike_numbers(sum->value, left);
    sum->rest = 0;
  }
}

static inline void add(struct fold *fold, R_xlen_t group, double x) {
  const double left = mst_sum_add(&fold->sums[group], x);
  // True for NaN, too.
  if (left != 0) add_left(fold, group, left);
}

static void add_pair(struct fold *fold, R_xlen_t group, double value,
                     double rest) {
  if (ISNAN(rest) || rest == 0) {
    add(fold, group, value);
  } else if (R_FINITE(value)) {
    add(fold, group, value);
    add(fold, group, rest);
  } else if (R_FINITE(fold->sums[group].value)) {
    add_to_pile(fold, group, rest, 1);
  }
}

static struct fold fold_doubles(SEXP value, SEXP rest,
                                const struct groups *groups, int skip) {
  struct fold fold = {.count = groups->count};
  fold.sums = zeros((size_t)groups->count, sizeof *fold.sums);
  const struct numbers numbers = numbers_of(value);
  const double *rests = TYPEOF(rest) == REALSXP ? REAL_RO(rest) : NULL;
  for (R_xlen_t i = 0; i < groups->n; i++) {
    const double x = number_at(&numbers, i);
    if (skip && ISNAN(x)) continue;
    if (rests != NULL) {
      add_pair(&fold, groups->of[i] - 1, x, rests[i]);
    } else {
      add(&fold, groups->of[i] - 1, x);
    }
  }
  return fold;
}

// The pile of a group with a finite sum, NULL if it is empty.
static const struct mst_pile *pile_if(const struct fold *fold, R_xlen_t group) {
  if (fold->pile_of == NULL || fold->pile_of[group] == 0) return NULL;
  const struct mst_pile *pile = &fold->piles[fold->pile_of[group] - 1];
  return pile->count == 0 ? NULL : pile;
}

// ---- partial sums

// Rows under construction; those after the first `count` are further rows of their groups.
struct rows {
  SEXP value, rest, group; // group: of the further rows
  R_xlen_t at, count;
};

// new_rows leaves three objects protected.
static struct rows new_rows(SEXPTYPE type, R_xlen_t count, R_xlen_t more,
                            int has_rest) {
  struct rows rows = {.count = count};
  const R_xlen_t n = count + more;
  rows.value = PROTECT(Rf_allocVector(type, n));
  rows.rest = PROTECT(Rf_allocVector(has_rest ? REALSXP : RAWSXP, n));
  rows.group = PROTECT(Rf_allocVector(INTSXP, more));
  if (!has_rest && n > 0) memset(RAW(rows.rest), 0, (size_t)n);
  return rows;
}

static SEXP list_of(const struct rows *rows) {
  const char *names[] = {"value", "rest", "group"};
  SEXP list = PROTECT(ffi_list(3, names));
  SET_VECTOR_ELT(list, 0, rows->value);
  SET_VECTOR_ELT(list, 1, rows->rest);
  SET_VECTOR_ELT(list, 2, rows->group);
  UNPROTECT(1);
  return list;
}

static void write_row(struct rows *rows, R_xlen_t group, double value,
                      double rest) {
  REAL(rows->value)[rows->at] = value;
  if (TYPEOF(rows->rest) == REALSXP) REAL(rows->rest)[rows->at] = rest;
  if (rows->at >= rows->count) {
    INTEGER(rows->group)[rows->at - rows->count] = (int)group + 1;
  }
  rows->at++;
}

static void write_pile(struct rows *rows, R_xlen_t group,
                       const struct mst_pile *pile) {
  for (uint32_t i = 0; i < pile->scaled; i++)
    write_row(rows, group, R_PosInf, pile->terms[i]);
  for (uint32_t i = pile->scaled; i < pile->count; i += 2) {
    const int two = i + 1 < pile->count;
    write_row(rows, group, pile->terms[i], two ? pile->terms[i + 1] : NA_REAL);
  }
}

static SEXP double_rows(const struct fold *fold) {
  R_xlen_t more = 0;
  int has_rest = 0;
  for (R_xlen_t k = 0; k < fold->count; k++) {
    const struct mst_pile *pile = pile_if(fold, k);
    if (pile != NULL) {
      more += pile->scaled + (pile->count - pile->scaled + 1) / 2;
    }
    has_rest |= pile != NULL || fold->sums[k].rest != 0;
  }
  if (more > INT_MAX - fold->count) {
    Rf_error("partial sums would have more rows than a data frame can have");
  }
  struct rows rows = new_rows(REALSXP, fold->count, more, has_rest);
  for (R_xlen_t k = 0; k < fold->count; k++) {
    const struct mst_sum *sum = &fold->sums[k];
    write_row(&rows, k, sum->value, sum->rest != 0 ? sum->rest : NA_REAL);
  }
  for (R_xlen_t k = 0; more > 0 && k < fold->count; k++) {
    const struct mst_pile *pile = pile_if(fold, k);
    if (pile != NULL) write_pile(&rows, k, pile);
  }
  SEXP list = list_of(&rows);
  UNPROTECT(3);
  return list;
}

// ---- sums of integers: below 2^62, so there is no remainder

// Marks a sum that is NA, as in integer64.
#define LONG_NA INT64_MIN

static void add_ints(const int *ints, const struct groups *groups, int skip,
                     int64_t *sums) {
  for (R_xlen_t i = 0; i < groups->n; i++) {
    int64_t *sum = &sums[groups->of[i] - 1];
    if (ints[i] != NA_INTEGER) {
      if (*sum != LONG_NA) *sum += ints[i];
    } else if (!skip) {
      *sum = LONG_NA;
    }
  }
}

// Values stay integers: next to a part whose column is integer64 they must not become doubles. The
// part that doesn't fit is a multiple of 2^31, in rest.
static SEXP int_rows(SEXP x, const struct groups *groups, int skip) {
  int64_t *sums = zeros((size_t)groups->count, sizeof *sums);
  add_ints(numbers_of(x).ints, groups, skip, sums);
  int has_rest = 0;
  for (R_xlen_t k = 0; k < groups->count; k++)
    has_rest |= sums[k] != LONG_NA && (sums[k] > INT_MAX || sums[k] < -INT_MAX);
  struct rows rows = new_rows(INTSXP, groups->count, 0, has_rest);
  for (R_xlen_t k = 0; k < groups->count; k++) {
    const int64_t sum = sums[k];
    const int is_na = sum == LONG_NA,
              is_int = sum <= INT_MAX && sum >= -INT_MAX;
    const int64_t value = is_int ? sum : sum % (INT64_C(1) << 31);
    INTEGER(rows.value)[k] = is_na ? NA_INTEGER : (int)value;
    if (has_rest) {
      REAL(rows.rest)[k] = is_na || is_int ? NA_REAL : (double)(sum - value);
    }
  }
  SEXP list = list_of(&rows);
  UNPROTECT(3);
  return list;
}

// ---- sums of integer64

static struct mst_long *fold_longs(SEXP value, SEXP rest,
                                   const struct groups *groups, int skip) {
  struct mst_long *sums = zeros((size_t)groups->count, sizeof *sums);
  const int64_t *longs = numbers_of(value).longs;
  const double *rests = TYPEOF(rest) == REALSXP ? REAL_RO(rest) : NULL;
  for (R_xlen_t i = 0; i < groups->n; i++) {
    struct mst_long *sum = &sums[groups->of[i] - 1];
    if (longs[i] == INT64_MIN) {
      if (!skip) sum->high = LONG_NA;
    } else if (sum->high != LONG_NA) {
      mst_long_add(sum, longs[i]);
      if (rests != NULL && !ISNAN(rests[i])) mst_long_add_double(sum, rests[i]);
    }
  }
  return sums;
}

static SEXP long_rows(const struct mst_long *sums, R_xlen_t count) {
  int has_rest = 0;
  for (R_xlen_t k = 0; k < count; k++)
    has_rest |= sums[k].high != LONG_NA && !mst_long_is_short(&sums[k]);
  struct rows rows = new_rows(REALSXP, count, 0, has_rest);
  for (R_xlen_t k = 0; k < count; k++) {
    int64_t whole = INT64_MIN;
    double rest = 0;
    if (sums[k].high != LONG_NA) mst_long_split(&sums[k], &whole, &rest);
    write_row(&rows, k, 0, rest != 0 ? rest : NA_REAL);
    // Never as a double: x87 may change its bits.
    memcpy(&REAL(rows.value)[k], &whole, sizeof whole);
  }
  SEXP list = list_of(&rows);
  UNPROTECT(3);
  return list;
}

// ffi_fold_sum gives partial sums as list(value, rest, group): a row for each group from 1 to
// count, then further ones, of these groups. na_rm leaves out NA and NaN. value is integer if x is
// integer or logical, and integer64's bytes if x is integer64.
SEXP ffi_fold_sum(SEXP x, SEXP group, SEXP count, SEXP na_rm) {
  const struct groups groups = groups_of(group, count);
  const int skip = Rf_asLogical(na_rm) == 1;
  check_length(x, &groups);
  if (numbers_of(x).longs != NULL) {
    return long_rows(fold_longs(x, R_NilValue, &groups, skip), groups.count);
  }
  if (TYPEOF(x) != REALSXP) return int_rows(x, &groups, skip);
  const struct fold fold = fold_doubles(x, R_NilValue, &groups, skip);
  return double_rows(&fold);
}

// ---- squares

// ffi_fold_square gives the partial sums of x's squares, as ffi_fold_sum does; NULL if a number is
// too large or too small for its square to be exact.
SEXP ffi_fold_square(SEXP x, SEXP group, SEXP count, SEXP na_rm) {
  const struct groups groups = groups_of(group, count);
  const int skip = Rf_asLogical(na_rm) == 1;
  check_length(x, &groups);
  const struct numbers numbers = numbers_of(x);
  struct fold fold = {.count = groups.count};
  fold.sums = zeros((size_t)groups.count, sizeof *fold.sums);
  for (R_xlen_t i = 0; i < groups.n; i++) {
    const double number = number_at(&numbers, i);
    if (skip && ISNAN(number)) continue;
    const R_xlen_t to = groups.of[i] - 1;
    if (R_FINITE(number)) {
      const double size = fabs(number);
      if (size == 0) continue;
      if (size < MST_SQUARE_LEAST || size > MST_SQUARE_MOST) return R_NilValue;
      const struct mst_product square = mst_product_of(number, number);
      add(&fold, to, square.high);
      add(&fold, to, square.low);
    } else {
      add(&fold, to, ISNAN(number) ? number : R_PosInf);
    }
  }
  return double_rows(&fold);
}

// ffi_fold_var gives the variance of all rows of each group, from the partial sums of their numbers
// and of the squares, both list(value, rest), and the counts of numbers (doubles): as R's var(), NA
// for fewer than two, or if one of them is missing.
SEXP ffi_fold_var(SEXP sums, SEXP squares, SEXP group, SEXP count,
                  SEXP counts) {
  const struct groups groups = groups_of(group, count);
  for (int i = 0; i < 2; i++) {
    check_length(VECTOR_ELT(sums, i), &groups);
    check_length(VECTOR_ELT(squares, i), &groups);
  }
  if (Rf_xlength(counts) != groups.count) Rf_error("another number of counts");
  const struct fold sum = fold_doubles(VECTOR_ELT(sums, 0), VECTOR_ELT(sums, 1),
                                       &groups, 0),
                    square = fold_doubles(VECTOR_ELT(squares, 0),
                                          VECTOR_ELT(squares, 1), &groups, 0);
  struct mst_wide *wide = zeros(1, sizeof *wide);
  SEXP variances = PROTECT(Rf_allocVector(REALSXP, groups.count));
  for (R_xlen_t k = 0; k < groups.count; k++) {
    const double n = REAL_RO(counts)[k];
    double variance = NA_REAL;
    if (n >= 2 && !ISNAN(square.sums[k].value)) {
      variance = R_NaN;
      if (R_FINITE(square.sums[k].value)) {
        variance =
            mst_sum_deviations(&sum.sums[k], pile_if(&sum, k), &square.sums[k],
                               pile_if(&square, k), wide, n) /
            (n - 1);
      }
    }
    REAL(variances)[k] = variance;
  }
  UNPROTECT(1);
  return variances;
}

// ---- totals

static SEXP long_totals(const struct mst_long *sums, R_xlen_t count,
                        const double *counts) {
  SEXP totals = PROTECT(Rf_allocVector(REALSXP, count));
  double *to = REAL(totals);
  for (R_xlen_t k = 0; k < count; k++) {
    const struct mst_long *sum = &sums[k];
    if (counts != NULL) {
      to[k] = sum->high == LONG_NA ? NA_REAL
              : counts[k] == 0     ? R_NaN
                                   : mst_long_mean(sum, counts[k]);
      continue;
    }
    int64_t whole = INT64_MIN;
    if (sum->high != LONG_NA) {
      if (!mst_long_is_short(sum)) {
        UNPROTECT(1);
        return R_NilValue;
      }
      memcpy(&whole, &sum->low, sizeof whole);
    }
    memcpy(&to[k], &whole, sizeof whole);
  }
  UNPROTECT(1);
  return totals;
}

// ffi_fold_total gives the sums of all rows of each group, or with counts (a double for each group)
// the means. The sum of integer64 is integer64's bytes, or NULL if one doesn't fit; all others are
// doubles.
SEXP ffi_fold_total(SEXP value, SEXP rest, SEXP group, SEXP count,
                    SEXP counts) {
  const struct groups groups = groups_of(group, count);
  check_length(value, &groups);
  check_length(rest, &groups);
  const double *of = counts == R_NilValue ? NULL : REAL_RO(counts);
  if (of != NULL && Rf_xlength(counts) != groups.count) {
    Rf_error("another number of counts");
  }
  if (numbers_of(value).longs != NULL) {
    return long_totals(fold_longs(value, rest, &groups, 0), groups.count, of);
  }
  const struct fold fold = fold_doubles(value, rest, &groups, 0);
  SEXP totals = PROTECT(Rf_allocVector(REALSXP, groups.count));
  for (R_xlen_t k = 0; k < groups.count; k++) {
    const struct mst_sum *sum = &fold.sums[k];
    double total = sum->value;
    if (of != NULL && of[k] == 0) {
      // The mean of no rows.
      total = R_NaN;
    } else if (R_FINITE(total)) {
      total = mst_sum_total(sum, pile_if(&fold, k), fold.wide,
                            of == NULL ? 0 : of[k]);
    }
    REAL(totals)[k] = total;
  }
  UNPROTECT(1);
  return totals;
}

// ---- minima and maxima

// worse tells whether a non-number replaces the present value, as in R's min() and max(): NA wins
// over NaN.
static int worse(double x, double there) { return ISNAN(x) && !R_IsNA(there); }

static SEXP least_long(SEXP x, const struct groups *groups, int skip,
                       int most) {
  SEXP folded = PROTECT(Rf_allocVector(REALSXP, groups->count));
  const int64_t *longs = numbers_of(x).longs,
                none = most ? -INT64_MAX : INT64_MAX;
  int64_t *to = (int64_t *)(void *)REAL(folded);
  for (R_xlen_t k = 0; k < groups->count; k++)
    to[k] = none;
  for (R_xlen_t i = 0; i < groups->n; i++) {
    int64_t *at = &to[groups->of[i] - 1];
    const int64_t value = longs[i];
    if (value == INT64_MIN) {
      if (!skip) *at = value;
    } else if (*at != INT64_MIN && (most ? value > *at : value < *at)) {
      *at = value;
    }
  }
  UNPROTECT(1);
  return folded;
}

// Whole numbers as integers, with NA for groups without a number.
static SEXP as_integers(SEXP folded) {
  const R_xlen_t n = Rf_xlength(folded);
  PROTECT(folded);
  SEXP whole = PROTECT(Rf_allocVector(INTSXP, n));
  for (R_xlen_t k = 0; k < n; k++) {
    const double value = REAL_RO(folded)[k];
    INTEGER(whole)[k] = R_FINITE(value) ? (int)value : NA_INTEGER;
  }
  UNPROTECT(2);
  return whole;
}

// ffi_fold_least gives the minimum of each group, or with most the maximum; for a group without
// numbers, the same as R's functions, or package bit64's. partial: integers and logicals give
// integers, and NA for such a group.
SEXP ffi_fold_least(SEXP x, SEXP group, SEXP count, SEXP na_rm, SEXP most,
                    SEXP partial) {
  const struct groups groups = groups_of(group, count);
  const int skip = Rf_asLogical(na_rm) == 1, max = Rf_asLogical(most) == 1;
  check_length(x, &groups);
  const struct numbers numbers = numbers_of(x);
  if (numbers.longs != NULL) return least_long(x, &groups, skip, max);
  SEXP folded = PROTECT(Rf_allocVector(REALSXP, groups.count));
  double *to = REAL(folded);
  for (R_xlen_t k = 0; k < groups.count; k++)
    to[k] = max ? R_NegInf : R_PosInf;
  for (R_xlen_t i = 0; i < groups.n; i++) {
    double *at = &to[groups.of[i] - 1];
    const double value = number_at(&numbers, i);
    if (skip && ISNAN(value)) continue;
    if (ISNAN(value) || ISNAN(*at)) {
      if (worse(value, *at)) *at = value;
    } else if (max ? value > *at : value < *at) {
      *at = value;
    }
  }
  UNPROTECT(1);
  const int whole = Rf_asLogical(partial) == 1 && TYPEOF(x) != REALSXP;
  return whole ? as_integers(folded) : folded;
}

// ffi_fold_count gives the number of rows of each group, not counting those whose x is missing
// unless x is NULL.
SEXP ffi_fold_count(SEXP x, SEXP group, SEXP count) {
  const struct groups groups = groups_of(group, count);
  check_length(x, &groups);
  const struct numbers numbers = numbers_of(x);
  SEXP folded = PROTECT(Rf_allocVector(INTSXP, groups.count));
  int *to = INTEGER(folded);
  memset(to, 0, (size_t)groups.count * sizeof *to);
  for (R_xlen_t i = 0; i < groups.n; i++) {
    const int missing = numbers.longs != NULL   ? numbers.longs[i] == INT64_MIN
                        : numbers.reals != NULL ? ISNAN(numbers.reals[i])
                        : numbers.ints != NULL  ? numbers.ints[i] == NA_INTEGER
                                                : 0;
    to[groups.of[i] - 1] += !missing;
  }
  UNPROTECT(1);
  return folded;
}
