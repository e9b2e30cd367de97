// sched/late: when work is late, who gets a copy of it, and how often what is lost is tried again.
// Pure: numbers in, numbers out. Whatever hands out work asks here: pieces of maps (pieces.h),
// tasks of stages (shuffle/plan.h), calls of workers (pool/heal.h).
//
// Late is what runs for twice as long as the others let expect, and for no less than a floor.
// It gets a copy, and another if that one is late as well, once a quarter is left at most; the
// first answer counts. Copies may keep a tenth of the workers busy.
//
// What differs, and why:
//   floor   pieces of maps 0.1 s, since they are made to take 0.05 s. Tasks of stages 0.5 s: a
//           copy of one reads its rows again. Calls of single workers have no copies: they may
//           have effects, and only their worker has what came before them.
//   least   how many copies a small cluster may run: 2 for maps, where the user asked for them;
//           1 for stages, which make them unasked.
//   lost    calls and elements are tried again as often as the user says; tasks of stages,
//           which only compute, MST_PLAN_LOSSES_MAX times.
#ifndef MST_SCHED_LATE_H
#define MST_SCHED_LATE_H

#include <stddef.h>
#include <stdint.h>

// Copies of one thing that run at the same time: the first, and two for late ones.
#define MST_LATE_COPIES 3u

struct mst_late_rule {
  int64_t floor_ns; // nothing is late before
  uint32_t least;   // copies that any cluster may run beside the first ones
};

// mst_late_after gives how long something may run that should take expected_ns; INT64_MAX where
// nothing is known (negative).
int64_t mst_late_after(const struct mst_late_rule *rule, int64_t expected_ns);
// mst_late_is_tail tells whether so few of `all` are open that late ones get copies.
int mst_late_is_tail(uint64_t open, uint64_t all);
// mst_late_most gives how many copies beside the first ones so many workers may run.
uint32_t mst_late_most(const struct mst_late_rule *rule, uint32_t workers);
// mst_tries_left: may what was lost so often be tried again?
int mst_tries_left(uint32_t lost, uint32_t retries);
// mst_median sorts n numbers, n above 0, and gives the middle one, or the mean of the middle two.
double mst_median(double *x, size_t n);

#endif
