// Tests of sched/scale: which hosts are asked for, and which are let go.
#include "mst_test.h"
#include "sched/scale.h"

#define S MST_NS_PER_S
#define N 3u

// Three hosts of four workers each.
static struct mst_scale scale;
static struct mst_scale_host hosts[N];

static void all_are(enum mst_scale_is is) {
  scale = (struct mst_scale){.idle_ns = 10 * S};
  for (uint32_t i = 0; i < N; i++)
    hosts[i] = (struct mst_scale_host){
        .is = is, .workers = 4, .wanted = 1, .busy_ns = S};
}

// look gives the hosts for which a decision is made, as bits; all must be the same.
static unsigned look(uint32_t tasks, int64_t now_ns, enum mst_scale_do act) {
  unsigned found = 0;
  const uint32_t n = mst_scale_look(&scale, hosts, N, tasks, now_ns);
  uint32_t count = 0;
  for (uint32_t i = 0; i < N; i++) {
    if (hosts[i].act == MST_SCALE_NOTHING) continue;
    CHECK_INT(hosts[i].act, act);
    found |= 1u << i;
    count++;
  }
  CHECK_INT(count, n);
  return found;
}

TEST("Nothing to do wakes nobody") {
  all_are(MST_SCALE_ASLEEP);
  for (int64_t now_ns = 1; now_ns < 100 * S; now_ns += S)
    CHECK_INT(look(0, now_ns, MST_SCALE_WAKE), 0);
}

TEST("Where no host is there, the first task wakes one at once") {
  all_are(MST_SCALE_ASLEEP);
  CHECK_INT(look(1, S, MST_SCALE_WAKE), 1);
  hosts[0].is = MST_SCALE_AWAITED;
  CHECK_INT(look(1, 2 * S, MST_SCALE_WAKE), 0);
  CHECK_INT(look(4, 3 * S, MST_SCALE_WAKE), 0);
  CHECK_INT(look(5, 4 * S, MST_SCALE_WAKE), 2);
}

TEST("As many hosts are woken as have room for the tasks") {
  static const struct {
    uint32_t tasks;
    unsigned woken;
  } cases[] = {{4, 1}, {5, 3}, {8, 3}, {9, 7}, {1000, 7}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    all_are(MST_SCALE_ASLEEP);
    CHECK_INT(look(cases[i].tasks, S, MST_SCALE_WAKE), cases[i].woken);
  }
}

TEST("Workers that start on a host that is there take a task each") {
  all_are(MST_SCALE_ASLEEP);
  hosts[0].is = MST_SCALE_UP;
  hosts[0].coming = 4;
  for (int64_t now_ns = S; now_ns < 10 * S; now_ns += S)
    CHECK_INT(look(4, now_ns, MST_SCALE_WAKE), 0);
  CHECK_INT(look(5, 10 * S, MST_SCALE_WAKE), 2);
}

TEST("Beside a host that is there, tasks wait for a second first") {
  all_are(MST_SCALE_ASLEEP);
  hosts[0].is = MST_SCALE_UP;
  CHECK_INT(look(5, S, MST_SCALE_WAKE), 0);
  CHECK_INT(look(5, 2 * S - 1, MST_SCALE_WAKE), 0);
  CHECK_INT(look(0, 2 * S, MST_SCALE_WAKE), 0); // they have been taken
  CHECK_INT(look(5, 3 * S, MST_SCALE_WAKE), 0);
  CHECK_INT(look(5, 4 * S, MST_SCALE_WAKE), 6);
}

TEST("A call wakes the host of its worker, whatever else comes") {
  all_are(MST_SCALE_ASLEEP);
  hosts[0].is = MST_SCALE_UP;
  hosts[2].called = 1;
  CHECK_INT(look(0, S, MST_SCALE_WAKE), 4);
  hosts[1].is = MST_SCALE_AWAITED;
  CHECK_INT(look(100, 2 * S, MST_SCALE_WAKE), 4);
}

TEST("A task that is pinned wakes the host that it is for") {
  all_are(MST_SCALE_ASLEEP);
  hosts[0].wanted = hosts[1].wanted = 0;
  CHECK_INT(look(1, S, MST_SCALE_WAKE), 4);
}

TEST("A host is let go once nothing was done there for long enough") {
  all_are(MST_SCALE_UP);
  CHECK_INT(look(0, S, MST_SCALE_SLEEP), 0);
  hosts[0].busy = 1;
  CHECK_INT(look(0, 5 * S, MST_SCALE_SLEEP), 0);
  hosts[0].busy = 0;
  hosts[1].stays = 1;
  CHECK_INT(mst_scale_due_ns(&scale, hosts, N), 11 * S);
  CHECK_INT(look(0, 11 * S, MST_SCALE_SLEEP), 4);
  hosts[2].is = MST_SCALE_ASLEEP;
  CHECK_INT(mst_scale_due_ns(&scale, hosts, N), 15 * S);
  CHECK_INT(look(0, 15 * S - 1, MST_SCALE_SLEEP), 0);
  CHECK_INT(look(0, 15 * S, MST_SCALE_SLEEP), 1);
  hosts[0].is = MST_SCALE_ASLEEP;
  CHECK_INT(mst_scale_due_ns(&scale, hosts, N), INT64_MAX);
  hosts[1].stays = 0; // it may go now
  CHECK_INT(look(0, 16 * S, MST_SCALE_SLEEP), 2);
}

TEST("While tasks wait no host is let go, and none without a limit") {
  all_are(MST_SCALE_UP);
  CHECK_INT(look(0, S, MST_SCALE_SLEEP), 0);
  CHECK_INT(look(1, 11 * S, MST_SCALE_SLEEP), 0);
  CHECK_INT(look(0, 20 * S, MST_SCALE_SLEEP), 0);
  CHECK_INT(look(0, 21 * S, MST_SCALE_SLEEP), 7);
  scale.idle_ns = INT64_MAX;
  CHECK_INT(look(0, 1000 * S, MST_SCALE_SLEEP), 0);
  CHECK_INT(mst_scale_due_ns(&scale, hosts, N), INT64_MAX);
}
