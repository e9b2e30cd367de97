// When work is late: see late.h.
#include "sched/late.h"

#include <stdlib.h>

#define LATE_TIMES 2
#define TAIL_PART 4  // a quarter
#define COPY_PART 10 // a tenth

int64_t mst_late_after(const struct mst_late_rule *rule, int64_t expected_ns) {
  if (expected_ns < 0 || expected_ns > INT64_MAX / LATE_TIMES) return INT64_MAX;
  const int64_t after_ns = LATE_TIMES * expected_ns;
  return after_ns < rule->floor_ns ? rule->floor_ns : after_ns;
}

int mst_late_is_tail(uint64_t open, uint64_t all) {
  return open <= (all < TAIL_PART ? 1 : all / TAIL_PART);
}

uint32_t mst_late_most(const struct mst_late_rule *rule, uint32_t workers) {
  const uint32_t part = workers / COPY_PART;
  return part < rule->least ? rule->least : part;
}

int mst_tries_left(uint32_t lost, uint32_t retries) { return lost <= retries; }

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double mst_median(double *x, size_t n) {
  qsort(x, n, sizeof *x, by_size);
  return n % 2 == 1 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}
