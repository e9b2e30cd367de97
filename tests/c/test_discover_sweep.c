// Tests of discover/sweep: a network that loses, delays and reorders, under a seed, and a
// system that runs out of sockets; all bounds are checked after each action.
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "discover/sweep.h"
#include "mst_random.h"
#include "mst_test.h"

#define MS MST_NS_PER_MS
#define PROBES_MAX 600u
#define SLOTS_MAX 64u

// A host either answers after rtt_ns (open or refused, which is the same for the sweep), or never.
struct host {
  int64_t rtt_ns; // 0: silent
  int near;
};

struct flight {
  int used, answered, proves;
  uint32_t probe;
  int64_t start_ns, answer_ns; // answer_ns INT64_MAX: lost, or silent
};

struct world {
  uint64_t seed;
  struct mst_sweep_policy policy;
  struct mst_sweep *sweep;
  struct host hosts[PROBES_MAX]; // by address
  uint8_t near[PROBES_MAX];
  uint64_t loss; // of 1000 attempts
  int first_only;
  int proofs; // some answers are followed by a proof, and some attempts fail
  uint32_t sockets; // of the system
  int64_t late_ns;  // how late the process may look
  struct flight flights[SLOTS_MAX];
  uint32_t flying, most_flying;
  uint32_t starts[PROBES_MAX], expired[PROBES_MAX], found[PROBES_MAX];
  int64_t now_ns, looked_ns, last_pause_ns;
  int64_t held_until_ns[PROBES_MAX]; // of addresses on the link
  uint64_t trace;
  uint32_t start_count, no_sockets;
  int64_t first_start_ns, last_start_ns;
};

static void note(struct world *w, uint64_t what) {
  w->trace = (w->trace ^ what) * UINT64_C(0x100000001b3);
}

static uint32_t probes_of(const struct world *w) {
  return (uint32_t)w->policy.addresses * w->policy.ports;
}

static uint32_t near_held(const struct world *w) {
  uint32_t held = 0;
  for (uint64_t i = 0; i < w->policy.addresses; i++)
    held += w->held_until_ns[i] > w->now_ns;
  return held;
}

static void begin_attempt(struct world *w, const struct mst_sweep_action *a) {
  const uint32_t address = a->probe / w->policy.ports;
  struct flight *f = &w->flights[a->slot];
  CHECK(!f->used && a->slot < w->policy.in_flight && a->probe < probes_of(w));
  CHECK(w->now_ns >= w->last_pause_ns);
  if (w->hosts[address].near && w->held_until_ns[address] != -1 &&
      w->held_until_ns[address] <= w->now_ns) {
    w->held_until_ns[address] = w->now_ns + MST_SWEEP_NEAR_HOLD_NS;
  }
  if (w->flying >= w->sockets) {
    w->no_sockets++;
    w->last_pause_ns = w->now_ns + MST_SWEEP_PAUSE_NS;
    mst_sweep_no_socket(w->sweep, a->slot, w->now_ns);
    return;
  }
  w->starts[a->probe]++;
  CHECK_INT(a->attempt, w->starts[a->probe]);
  CHECK(a->attempt <= w->policy.attempts && !w->found[a->probe]);
  *f = (struct flight){.used = 1,
                       .probe = a->probe,
                       .start_ns = w->now_ns,
                       .answer_ns = INT64_MAX};
  const int lost = mst_random_below(&w->seed, 1000) < w->loss &&
                   (!w->first_only || a->attempt == 1);
  const struct host *host = &w->hosts[address];
  if (host->rtt_ns > 0 && !lost) {
    f->answer_ns = w->now_ns + host->rtt_ns;
    f->proves = w->proofs && mst_random_below(&w->seed, 4) == 0;
  }
  if (w->policy.near != NULL) {
    CHECK(near_held(w) <= w->policy.near_max);
  }
  if (w->start_count++ == 0) w->first_start_ns = w->now_ns;
  w->last_start_ns = w->now_ns;
  w->flying++;
  if (w->flying > w->most_flying) w->most_flying = w->flying;
  CHECK(w->flying <= w->policy.in_flight);
}

static void end_flight(struct world *w, uint32_t slot) {
  w->flights[slot].used = 0;
  w->flying--;
}

// Answers that came by now, in no order but the slots'.
static void look(struct world *w) {
  w->looked_ns = w->now_ns;
  for (uint32_t slot = 0; slot < w->policy.in_flight; slot++) {
    struct flight *f = &w->flights[slot];
    if (!f->used || f->answer_ns > w->now_ns) continue;
    if (!f->answered) {
      mst_sweep_answered(w->sweep, slot, w->now_ns - f->start_ns);
      if (w->hosts[f->probe / w->policy.ports].near) {
        w->held_until_ns[f->probe / w->policy.ports] = -1;
      }
      f->answered = 1;
      if (f->proves) { // the proof takes more time, or forever
        f->answer_ns =
            mst_random_below(&w->seed, 2)
                ? w->now_ns + (int64_t)(1 + mst_random_below(&w->seed, 5)) * MS
                : INT64_MAX;
        continue;
      }
    }
    if (w->proofs && mst_random_below(&w->seed, 20) == 0) {
      mst_sweep_failed(w->sweep, slot);
    } else {
      w->found[f->probe]++;
      mst_sweep_ended(w->sweep, slot);
    }
    note(w, f->probe);
    end_flight(w, slot);
  }
}

static void expire(struct world *w, const struct mst_sweep_action *a) {
  struct flight *f = &w->flights[a->slot];
  CHECK(f->used && f->probe == a->probe);
  CHECK(f->answer_ns > w->looked_ns); // an answer in time is never overlooked
  CHECK(w->looked_ns - f->start_ns >= (w->policy.timeout_ns > 0
                                           ? w->policy.timeout_ns
                                           : MST_SWEEP_AUTO_MIN_NS));
  w->expired[a->probe]++;
  end_flight(w, a->slot);
}

// The time of the next event: an answer, or the end of the sweep's wait.
static void sleep_until(struct world *w, int64_t until_ns) {
  for (uint32_t slot = 0; slot < w->policy.in_flight; slot++) {
    const struct flight *f = &w->flights[slot];
    if (f->used && f->answer_ns < until_ns) until_ns = f->answer_ns;
  }
  CHECK(until_ns < INT64_MAX);
  if (until_ns > w->now_ns) w->now_ns = until_ns;
  if (w->late_ns > 0) {
    w->now_ns += (int64_t)mst_random_below(&w->seed, (uint64_t)w->late_ns);
  }
}

// Runs to the end; returns the last action.
static enum mst_sweep_kind run(struct world *w) {
  if (w->sockets == 0) w->sockets = SLOTS_MAX;
  CHECK_INT(mst_sweep_open(&w->policy, &w->sweep, NULL), 0);
  w->now_ns = 12345;
  w->looked_ns = w->now_ns;
  struct mst_sweep_action a;
  for (uint64_t steps = 0;; steps++) {
    CHECK(steps < 1000000);
    mst_sweep_next(w->sweep, w->now_ns, w->looked_ns, &a);
    note(w, (uint64_t)a.kind << 32 ^ a.probe ^ (uint64_t)w->now_ns);
    if (a.kind == MST_SWEEP_START) {
      begin_attempt(w, &a);
      w->now_ns += (int64_t)mst_random_below(&w->seed, 20000);
    } else if (a.kind == MST_SWEEP_EXPIRE) {
      expire(w, &a);
    } else if (a.kind == MST_SWEEP_WAIT) {
      CHECK(a.until_ns > w->now_ns || a.until_ns > w->looked_ns);
      sleep_until(w, a.until_ns);
      look(w);
    } else {
      break;
    }
  }
  CHECK_INT(w->flying, 0);
  return a.kind;
}

static void end(struct world *w) { mst_sweep_close(w->sweep); }

static uint32_t missed(const struct world *w) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < probes_of(w); i++)
    count += w->hosts[i / w->policy.ports].rtt_ns > 0 && w->found[i] == 0;
  return count;
}

static void check_all_decided(const struct world *w) {
  CHECK_INT(mst_sweep_decided(w->sweep), probes_of(w));
  for (uint32_t i = 0; i < probes_of(w); i++) {
    CHECK(w->found[i] <= 1);
    if (w->hosts[i / w->policy.ports].rtt_ns == 0) {
      CHECK_INT(w->expired[i], w->policy.attempts);
    }
  }
}

static struct world *new_world(uint64_t addresses) {
  struct world *w = calloc(1, sizeof *w);
  CHECK(w != NULL);
  w->policy = (struct mst_sweep_policy){.addresses = addresses,
                                        .ports = 1,
                                        .in_flight = SLOTS_MAX,
                                        .attempts = 2,
                                        .timeout_ns = 20 * MS};
  return w;
}

TEST("P2, P3: a random network, with loss, delay, reordering and few sockets, "
     "keeps all bounds and every answer in time") {
  uint64_t seed = mst_test_seed();
  for (int i = 0; i < 400; i++) {
    uint64_t traces[2];
    const uint64_t start = mst_random(&seed);
    for (int again = 0; again < 2; again++) {
      uint64_t s = start;
      struct world *w = new_world(1 + mst_random_below(&s, 200));
      w->policy.ports = (uint32_t)(1 + mst_random_below(&s, 3));
      w->policy.in_flight = (uint32_t)(1 + mst_random_below(&s, SLOTS_MAX));
      w->policy.attempts = (uint32_t)(1 + mst_random_below(&s, 4));
      w->policy.timeout_ns = mst_random_below(&s, 4) == 0
                                 ? 0
                                 : (int64_t)(1 + mst_random_below(&s, 50)) * MS;
      w->policy.gap_ns = mst_random_below(&s, 3) == 0 ? MS / 4 : 0;
      w->loss = mst_random_below(&s, 500);
      w->proofs = mst_random_below(&s, 2) == 0;
      w->sockets = (uint32_t)(1 + mst_random_below(&s, SLOTS_MAX));
      w->late_ns = mst_random_below(&s, 2) == 0 ? 5 * MS : 0;
      for (uint64_t k = 0; k < w->policy.addresses; k++) {
        if (mst_random_below(&s, 2) == 0) {
          w->hosts[k].rtt_ns =
              (int64_t)(1 + mst_random_below(&s, 60000)) * 1000;
        }
        w->near[k] = mst_random_below(&s, 2) == 0;
        w->hosts[k].near = w->near[k];
      }
      if (mst_random_below(&s, 3) == 0) {
        w->policy.near = w->near;
        w->policy.near_max = (uint32_t)(1 + mst_random_below(&s, 64));
      } else {
        for (uint64_t k = 0; k < w->policy.addresses; k++)
          w->hosts[k].near = 0;
      }
      w->seed = s;
      CHECK_INT(run(w), MST_SWEEP_DONE);
      check_all_decided(w);
      traces[again] = w->trace;
      end(w);
      free(w);
    }
    CHECK(traces[0] == traces[1]); // the same events, the same actions
  }
}

TEST("P2: with a fifth of the first SYNs lost, no host is missed in 100 scans "
     "with one retry") {
  uint64_t seed = mst_test_seed();
  uint32_t missed_once = 0;
  for (int scan = 0; scan < 100; scan++) {
    for (uint32_t attempts = 1; attempts <= 2; attempts++) {
      struct world *w = new_world(254);
      w->seed = mst_random(&seed) | 1;
      w->policy.attempts = attempts;
      w->loss = 200;
      w->first_only = 1;
      for (int k = 0; k < 254; k += 10)
        w->hosts[k].rtt_ns = 15 * MS; // and at 15 ms, too
      CHECK_INT(run(w), MST_SWEEP_DONE);
      if (attempts == 2) {
        CHECK_INT(missed(w), 0);
      } else {
        missed_once += missed(w) > 0;
      }
      end(w);
      free(w);
    }
  }
  CHECK(missed_once > 50); // without the retry most scans miss some
}

// How long a /24 of silent hosts takes.
static int64_t silent_24(uint32_t in_flight, uint32_t attempts) {
  struct world *w = new_world(254);
  w->policy.in_flight = in_flight;
  w->policy.attempts = attempts;
  CHECK_INT(run(w), MST_SWEEP_DONE);
  check_all_decided(w);
  CHECK(w->most_flying <= in_flight);
  const int64_t took_ns = w->now_ns - w->first_start_ns;
  end(w);
  free(w);
  return took_ns;
}

TEST("P2, P3: a silent /24 takes its timeout once for each round of attempts") {
  CHECK(silent_24(1, 1) < (254 * 20 + 10) * MS);
  CHECK(silent_24(1, 1) >= 254 * 20 * MS);
  CHECK(silent_24(10, 1) < 540 * MS);
  CHECK(silent_24(SLOTS_MAX, 1) < 90 * MS);
  CHECK(silent_24(SLOTS_MAX, 2) < 180 * MS);
}

TEST("P4: out of sockets the sweep waits 0.1 s, uses those there are, and goes "
     "on") {
  struct world *w = new_world(254);
  w->sockets = 7;
  CHECK_INT(run(w), MST_SWEEP_DONE);
  check_all_decided(w);
  CHECK(w->no_sockets > 0);
  CHECK_INT(w->most_flying, 7);
  // A pause after each round would be 73 of them.
  CHECK(w->no_sockets < 30);
  CHECK(w->now_ns < 5 * MST_NS_PER_S);
  end(w);
  free(w);
}

TEST("P4: the sweep doesn't wait forever for a system without sockets") {
  struct mst_sweep_policy policy = {.addresses = 3,
                                    .ports = 1,
                                    .in_flight = 2,
                                    .attempts = 1,
                                    .timeout_ns = 20 * MS};
  struct mst_sweep *sweep;
  struct mst_sweep_action a;
  int64_t now_ns = 0;
  uint32_t tries = 0;
  CHECK_INT(mst_sweep_open(&policy, &sweep, NULL), 0);
  for (;;) {
    mst_sweep_next(sweep, now_ns, now_ns, &a);
    if (a.kind == MST_SWEEP_STUCK) break;
    if (a.kind == MST_SWEEP_WAIT) {
      CHECK_INT(a.until_ns - now_ns, MST_SWEEP_PAUSE_NS);
      now_ns = a.until_ns;
      continue;
    }
    CHECK(a.kind == MST_SWEEP_START && a.probe == 0 && a.attempt == 1);
    mst_sweep_no_socket(sweep, a.slot, now_ns);
    tries++;
  }
  CHECK_INT(tries, MST_SWEEP_PAUSES_MAX + 1);
  mst_sweep_close(sweep);
}

TEST("P3: starts keep to the rate") {
  struct world *w = new_world(200);
  w->policy.gap_ns = 2 * MS;
  w->policy.attempts = 1;
  CHECK_INT(run(w), MST_SWEEP_DONE);
  CHECK(w->last_start_ns - w->first_start_ns >= 199 * 2 * MS - 11 * MS);
  CHECK(w->last_start_ns - w->first_start_ns < 199 * 3 * MS);
  end(w);
  free(w);
}

TEST(
    "P3: unanswered addresses on the link keep to the neighbour table's size") {
  struct world *w = new_world(200);
  memset(w->near, 1, sizeof w->near);
  for (int i = 0; i < 200; i++) {
    w->hosts[i].near = 1;
    if (i % 2 == 0)
      w->hosts[i].rtt_ns = MS; // resolved: their entries don't count
  }
  w->policy.near = w->near;
  w->policy.near_max = 30;
  CHECK_INT(run(w), MST_SWEEP_DONE);
  check_all_decided(w);
  CHECK(w->now_ns > 3 * MST_SWEEP_NEAR_HOLD_NS);
  CHECK(w->now_ns < 8 * MST_SWEEP_NEAR_HOLD_NS);
  end(w);
  free(w);
}

TEST(
    "P2: timeout \"auto\" follows the measured round trips within its bounds") {
  struct mst_sweep_policy policy = {
      .addresses = 300, .ports = 1, .in_flight = 1, .attempts = 1};
  struct mst_sweep *sweep;
  struct mst_sweep_action a;
  int64_t now_ns = 0;
  CHECK_INT(mst_sweep_open(&policy, &sweep, NULL), 0);
  CHECK_INT(mst_sweep_timeout(sweep), MST_SWEEP_AUTO_FIRST_NS);
  const int64_t rtts_ns[] = {MS / 10, 200 * MS, 9 * MST_NS_PER_S};
  int64_t last_ns[3];
  for (int kind = 0; kind < 3; kind++) {
    for (int i = 0; i < 100; i++) {
      mst_sweep_next(sweep, now_ns, now_ns, &a);
      CHECK_INT(a.kind, MST_SWEEP_START);
      mst_sweep_answered(sweep, a.slot, rtts_ns[kind]);
      mst_sweep_ended(sweep, a.slot);
    }
    last_ns[kind] = mst_sweep_timeout(sweep);
  }
  CHECK_INT(last_ns[0], MST_SWEEP_AUTO_MIN_NS);
  CHECK(last_ns[1] >= 199 * MS && last_ns[1] < 220 * MS);
  CHECK_INT(last_ns[2], last_ns[1]); // bogus ones aren't counted
  mst_sweep_close(sweep);
}

TEST("More than 2^32 probes are refused") {
  struct mst_sweep_policy policy = {.addresses = UINT64_C(1) << 31,
                                    .ports = 2,
                                    .in_flight = 1,
                                    .attempts = 1,
                                    .timeout_ns = MS};
  struct mst_sweep *sweep;
  CHECK_INT(mst_sweep_open(&policy, &sweep, NULL), -MST_ELIMIT);
}
