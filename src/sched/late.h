// sched/late: when work is late, who gets a copy of it, and how often lost work is retried. Pure:
// numbers in, numbers out. Used for pieces of maps (pieces.h), tasks of stages (shuffle/plan.h) and
// calls of workers (heal.h).
//
// Work is late if it runs twice as long as the others suggest, and longer than a floor. Once no
// more than a quarter is left, late work gets a copy, and another if that is late as well; the
// first answer counts. Copies may keep a tenth of the workers busy.
//
// The differences, and why:
//   floor   pieces of maps 0.1 s, since they are made to take 0.05 s. Tasks of stages 0.5 s: a
//           copy of one reads its rows again. Calls of single workers have no copies: they may
//           have effects, and only their worker has the state of its earlier calls.
//   least   how many copies a small cluster may run: 2 for maps, where the user asked for them;
//           1 for stages, which make them unasked.
//   lost    calls and elements are retried as often as the user says; tasks of stages,
//           which only compute, MST_PLAN_LOSSES_MAX times.
#ifndef MST_SCHED_LATE_H
#define MST_SCHED_LATE_H

#include <stddef.h>
#include <stdint.h>

// The most simultaneous copies of one piece of work: the first, and two for late ones.
#define MST_LATE_COPIES 3u

struct mst_late_rule {
  int64_t floor_ns; // nothing is late before this
  uint32_t least;   // copies besides the first that any cluster may run
};

// mst_late_after gives how long work may run that should take expected_ns; INT64_MAX if that is
// unknown (negative).
int64_t mst_late_after(const struct mst_late_rule *rule, int64_t expected_ns);
// mst_late_is_tail tells whether so few of `all` are open that late ones get copies.
int mst_late_is_tail(uint64_t open, uint64_t all);
// mst_late_most gives how many copies besides the first may run on this many workers.
uint32_t mst_late_most(const struct mst_late_rule *rule, uint32_t workers);
// mst_tries_left: may work be retried that was lost this often?
int mst_tries_left(uint32_t lost, uint32_t retries);
// mst_median sorts n numbers, n above 0, and gives the middle one, or the mean of the middle two.
double mst_median(double *x, size_t n);

#endif
