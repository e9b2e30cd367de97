// Rows that may lead their group: its first or last ones, or those with the least or the greatest
// values. R/worker-slice.R settles which of them do, and their order; here the others are left out
// without sorting anything.
#include <string.h>

#include "ffi/data/data.h"

// The least values of each group, in increasing order. Of the greatest ones: negative values.
struct least {
  size_t most;
  double *values;   // most for each group
  uint32_t *filled; // how many of them there are
};

// Either of them.
struct values {
  const int *whole;
  const double *real;
  int back;
};

static double value_at(struct values x, size_t i) {
  double value;
  if (x.whole != NULL) {
    value = x.whole[i] == NA_INTEGER ? NA_REAL : x.whole[i];
  } else {
    value = x.real[i];
  }
  return x.back ? -value : value;
}

static void put(struct least *least, size_t group, double value) {
  double *values = least->values + group * least->most;
  size_t at = least->filled[group];
  if (at == least->most) {
    if (value >= values[at - 1]) return;
    at--;
  } else {
    least->filled[group]++;
  }
  for (; at > 0 && values[at - 1] > value; at--)
    values[at] = values[at - 1];
  values[at] = value;
}

// A missing value comes after all others, and leads where these are too few.
static int leads(const struct least *least, size_t group, double value) {
  const size_t filled = least->filled[group];
  return filled < least->most ||
         value <= least->values[group * least->most + filled - 1];
}

static size_t least_rows(const int *group, size_t n, struct least least,
                         struct values x, int *rows) {
  for (size_t i = 0; i < n; i++) {
    const double value = value_at(x, i);
    if (!ISNAN(value)) put(&least, (size_t)group[i] - 1, value);
  }
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (leads(&least, (size_t)group[i] - 1, value_at(x, i))) {
      rows[kept++] = (int)i + 1;
    }
  }
  return kept;
}

// first_rows gives the first rows of each group, or the last ones from the end on.
static size_t first_rows(const int *group, size_t n, struct least least,
                         int back, int *rows) {
  size_t kept = 0;
  for (size_t k = 0; k < n; k++) {
    const size_t i = back ? n - 1 - k : k;
    uint32_t *filled = &least.filled[group[i] - 1];
    if (*filled == least.most) continue;
    ++*filled;
    rows[kept++] = (int)i + 1;
  }
  for (size_t k = 0; back && k < kept / 2; k++) {
    const int row = rows[k];
    rows[k] = rows[kept - 1 - k];
    rows[kept - 1 - k] = row;
  }
  return kept;
}

// ffi_rows_leading gives the rows, in order, that may be among the `most` first ones of their
// group, numbered from 1 to count; back: last ones. x: integers or doubles, of which those with the
// least values lead, or the greatest, and all that are equal to the last of them; or NULL.
SEXP ffi_rows_leading(SEXP group, SEXP count, SEXP most, SEXP x, SEXP back) {
  const size_t n = (size_t)Rf_xlength(group);
  const size_t groups = (size_t)Rf_asInteger(count);
  const int *of = INTEGER_RO(group);
  for (size_t i = 0; i < n; i++) {
    if (of[i] < 1 || (size_t)of[i] > groups) Rf_error("a group out of range");
  }
  struct least least = {.most = (size_t)Rf_asInteger(most)};
  least.filled = (uint32_t *)R_alloc(groups + 1, sizeof *least.filled);
  memset(least.filled, 0, groups * sizeof *least.filled);
  int *rows = (int *)R_alloc(n + 1, sizeof *rows);
  size_t kept;
  if (x == R_NilValue) {
    kept = first_rows(of, n, least, Rf_asLogical(back), rows);
  } else {
    if ((size_t)Rf_xlength(x) != n ||
        (TYPEOF(x) != INTSXP && TYPEOF(x) != REALSXP)) {
      Rf_error("values of another length or type");
    }
    least.values =
        (double *)R_alloc(groups * least.most + 1, sizeof *least.values);
    const struct values values = {
        .whole = TYPEOF(x) == INTSXP ? INTEGER_RO(x) : NULL,
        .real = TYPEOF(x) == REALSXP ? REAL_RO(x) : NULL,
        .back = Rf_asLogical(back)};
    kept = least_rows(of, n, least, values, rows);
  }
  SEXP result = Rf_allocVector(INTSXP, (R_xlen_t)kept);
  if (kept > 0) memcpy(INTEGER(result), rows, kept * sizeof *rows);
  return result;
}
