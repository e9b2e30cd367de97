// Tests of sched/heal: blame, budget and silence.
#include <string.h>

#include "mst_random.h"
#include "mst_test.h"
#include "sched/heal.h"

#define S MST_NS_PER_S
#define NEVER INT64_MAX
#define START (1000 * S)

static struct mst_heal heal;
static uint32_t losses; // of the call that it evaluates
static struct mst_heal_policy policy;

// begin makes a worker that began at START.
static void begin(uint32_t retries) {
  memset(&heal, 0xA5, sizeof heal);
  losses = 0;
  policy = (struct mst_heal_policy){
      .on = 1, .retries = retries, .heartbeat_ns = 12 * S};
  mst_heal_begin(&heal, START);
}

static enum mst_heal_verdict lost(int evaluating, int64_t after_ns) {
  return mst_heal_lost(&heal, &policy,
                       evaluating ? MST_HEAL_EVALUATING : MST_HEAL_IDLE,
                       &losses, START + after_ns);
}

static enum mst_beat beat(int64_t slept_ns, int64_t after_ns) {
  return mst_heal_beat(&heal, &policy, slept_ns, START + after_ns);
}

// --- Blame ---

TEST("Without healing a lost worker stays lost, whatever it did") {
  begin(2);
  policy.on = 0;
  for (int k = 0; k < 10; k++) {
    CHECK_INT(lost(k % 2, k), MST_HEAL_LEAVE);
  }
  CHECK_INT(losses, 0);
  CHECK_INT(heal.deaths, 0);
}

TEST("A call is retried up to the limit, then it is poison") {
  for (uint32_t retries = 0; retries < 4; retries++) {
    begin(retries);
    for (uint32_t attempt = 1; attempt <= retries; attempt++) {
      CHECK_INT(lost(1, 0), MST_HEAL_RESTART);
      CHECK_INT(losses, attempt);
    }
    CHECK_INT(lost(1, 0), MST_HEAL_POISON);
    CHECK_INT(losses, retries + 1);
  }
}

TEST("Calls never use up the budget, however many are poison") {
  begin(0);
  for (int k = 0; k < 100; k++) {
    losses = 0;
    CHECK_INT(lost(1, k), MST_HEAL_POISON);
  }
}

TEST("Deaths on the way back don't count as attempts of the call") {
  begin(1);
  CHECK_INT(lost(1, 0), MST_HEAL_RESTART);
  CHECK_INT(lost(0, 1), MST_HEAL_RESTART);
  CHECK_INT(lost(0, 2), MST_HEAL_RESTART);
  CHECK_INT(losses, 1);
  CHECK_INT(lost(1, 3), MST_HEAL_POISON);
}

// --- Budget ---

TEST("A worker that only dies is given up, one death after its budget") {
  begin(2);
  for (uint32_t k = 0; k < MST_HEAL_DEATHS; k++) {
    CHECK_INT(lost(0, k), MST_HEAL_RESTART);
  }
  CHECK_INT(lost(0, MST_HEAL_PERIOD_NS), MST_HEAL_GIVE_UP);
}

TEST("Deaths before the period don't count") {
  begin(2);
  for (uint32_t k = 0; k < MST_HEAL_DEATHS; k++) {
    CHECK_INT(lost(0, k), MST_HEAL_RESTART);
  }
  CHECK_INT(lost(0, MST_HEAL_PERIOD_NS + 1), MST_HEAL_RESTART);
  CHECK_INT(heal.deaths, 1);
  begin(2);
  for (uint32_t k = 0; k < MST_HEAL_ROW; k++) { // one death every two seconds
    CHECK_INT(lost(0, 2 * (int64_t)k * S), MST_HEAL_RESTART);
  }
  CHECK_INT(lost(0, 1000 * S), MST_HEAL_GIVE_UP); // however far apart
}

TEST(
    "A worker that came back and was idle isn't one that can't be kept alive") {
  begin(2);
  for (uint32_t k = 0; k < MST_HEAL_ROW; k++) {
    CHECK_INT(lost(0, k), MST_HEAL_RESTART);
    mst_heal_idle(&heal);
  }
  CHECK_INT(lost(0, 100), MST_HEAL_GIVE_UP); // but not forever
}

TEST("An answer, or a death of a call, clears a worker's record") {
  for (int answered = 0; answered < 2; answered++) {
    begin(2);
    for (uint32_t k = 0; k < MST_HEAL_DEATHS; k++) {
      CHECK_INT(lost(0, k), MST_HEAL_RESTART);
    }
    if (answered) {
      mst_heal_answered(&heal);
    } else {
      CHECK_INT(lost(1, 10), MST_HEAL_RESTART);
    }
    CHECK_INT(heal.deaths, 0);
    for (uint32_t k = 0; k < MST_HEAL_DEATHS; k++) {
      CHECK_INT(lost(0, 20 + k), MST_HEAL_RESTART);
    }
    CHECK_INT(lost(0, 30), MST_HEAL_GIVE_UP);
  }
}

TEST("Only successive deaths in replays count, up to the allowed retries") {
  for (uint32_t retries = 2; retries < 40; retries += 18) {
    const uint32_t most = retries > MST_HEAL_ROW ? retries : MST_HEAL_ROW;
    begin(retries);
    for (uint32_t k = 0; k < most; k++) {
      CHECK_INT(
          mst_heal_lost(&heal, &policy, MST_HEAL_REPLAYING, &losses, START),
          MST_HEAL_RESTART);
      mst_heal_idle(&heal);
    }
    CHECK_INT(mst_heal_lost(&heal, &policy, MST_HEAL_REPLAYING, &losses, START),
              MST_HEAL_GIVE_UP);
  }
}

TEST("A death while idle after many in replays, as a killer has it, isn't the last one") {
  begin(20);
  for (uint32_t k = 0; k < 19; k++) {
    CHECK_INT(
        mst_heal_lost(&heal, &policy, MST_HEAL_REPLAYING, &losses, START),
        MST_HEAL_RESTART);
  }
  CHECK_INT(lost(0, 1), MST_HEAL_RESTART);
  CHECK_INT(lost(0, 2), MST_HEAL_GIVE_UP); // the 21st in a row
}

// The full history of losses, from which the verdicts must follow.
TEST("Verdicts follow from the whole history, whatever it was") {
  uint64_t random = mst_test_seed();
  for (int round = 0; round < 2000; round++) {
    int64_t deaths_ns[64], now_ns = 0;
    uint32_t attempts = 0, deaths = 0;
    begin((uint32_t)mst_random_below(&random, 4));
    for (int k = 0; k < 60; k++) {
      now_ns += (int64_t)mst_random_below(&random, 3 * (uint64_t)S);
      const uint64_t what = mst_random_below(&random, 10);
      if (what == 0) {
        mst_heal_answered(&heal);
        attempts = deaths = losses = 0; // another call
        continue;
      }
      const int evaluating = what < 4;
      const enum mst_heal_verdict verdict = lost(evaluating, now_ns);
      if (evaluating) {
        deaths = 0;
        attempts++;
        CHECK_INT(verdict, attempts > policy.retries ? MST_HEAL_POISON
                                                     : MST_HEAL_RESTART);
        if (verdict == MST_HEAL_POISON) attempts = losses = 0;
        continue;
      }
      deaths_ns[deaths++] = now_ns;
      if (verdict == MST_HEAL_GIVE_UP) { // never without a reason
        CHECK(deaths > MST_HEAL_DEATHS);
        CHECK(deaths > MST_HEAL_ROW ||
              now_ns - deaths_ns[deaths - 1 - MST_HEAL_DEATHS] <=
                  MST_HEAL_PERIOD_NS);
        break;
      }
      CHECK_INT(verdict, MST_HEAL_RESTART);
    }
  }
}

// --- Silence ---

TEST("A worker is asked every third of the heartbeat") {
  begin(2);
  CHECK_INT(beat(0, 4 * S - 1), MST_BEAT_FINE);
  CHECK_INT(beat(0, 4 * S), MST_BEAT_ASK);
  CHECK(heal.asked_ns == START + 4 * S);
  CHECK_INT(beat(0, 4 * S), MST_BEAT_FINE);
  CHECK_INT(beat(0, 8 * S - 1), MST_BEAT_FINE);
  CHECK_INT(beat(0, 8 * S), MST_BEAT_ASK);
}

TEST("Silence for a whole heartbeat is a loss, a sign of life restarts it") {
  begin(2);
  CHECK_INT(beat(0, 12 * S - 1), MST_BEAT_ASK);
  CHECK_INT(beat(0, 12 * S), MST_BEAT_SILENT);
  mst_heal_heard(&heal, START + 12 * S);
  CHECK_INT(beat(0, 12 * S), MST_BEAT_FINE);
  CHECK_INT(beat(0, 24 * S - 1), MST_BEAT_ASK);
  CHECK_INT(beat(0, 24 * S), MST_BEAT_SILENT);
}

TEST("L1: who waits for the processor isn't silent, but for minutes at most") {
  begin(2);
  CHECK_INT(beat(0, 8 * S), MST_BEAT_ASK);
  mst_heal_runs(&heal, START + 8 * S);
  CHECK_INT(beat(0, 12 * S), MST_BEAT_ASK);
  CHECK_INT(beat(0, 20 * S - 1), MST_BEAT_ASK); // a heartbeat after it ran
  CHECK_INT(beat(0, 20 * S), MST_BEAT_SILENT);
  begin(2);
  for (int64_t at_ns = 4 * S; at_ns < MST_HEAL_STUCK_NS; at_ns += 4 * S) {
    CHECK_INT(beat(0, at_ns), MST_BEAT_ASK);
    mst_heal_runs(&heal, START + at_ns);
  }
  CHECK_INT(beat(0, MST_HEAL_STUCK_NS), MST_BEAT_SILENT);
}

TEST("Without a heartbeat no worker is asked or judged") {
  begin(2);
  policy.heartbeat_ns = NEVER;
  CHECK_INT(beat(0, 1000000 * S), MST_BEAT_FINE);
  CHECK_INT(beat(1000000 * S, 1000000 * S), MST_BEAT_FINE);
  CHECK(!mst_heal_is_suspect(&heal, &policy, NEVER));
}

TEST("A session that slept asks at once and judges one heartbeat later") {
  begin(2);
  CHECK_INT(beat(100 * S, 100 * S), MST_BEAT_ASK);
  CHECK_INT(beat(0, 112 * S - 1), MST_BEAT_ASK);
  CHECK_INT(beat(0, 112 * S), MST_BEAT_SILENT);
}

TEST("A gap counts as sleep if it exceeds the time between two questions") {
  begin(2);
  CHECK_INT(beat(4 * S, 12 * S), MST_BEAT_SILENT);
  begin(2);
  CHECK_INT(beat(4 * S + 1, 12 * S), MST_BEAT_ASK);
}

TEST("A session finds silent workers once it is awake for a heartbeat") {
  begin(2);
  for (int k = 1; k <= 5; k++) { // computing, with a check now and then
    CHECK_INT(beat(20 * S, 20 * k * S), MST_BEAT_ASK);
  }
  CHECK_INT(beat(4 * S, 104 * S), MST_BEAT_ASK);
  CHECK_INT(beat(4 * S, 108 * S), MST_BEAT_ASK);
  CHECK_INT(beat(4 * S, 112 * S), MST_BEAT_SILENT);
}

TEST("A worker's silence counts from when it is back") {
  begin(2);
  CHECK_INT(lost(0, 100 * S), MST_HEAL_RESTART);
  mst_heal_back(&heal, START + 130 * S); // it took this long to come back
  CHECK_INT(beat(0, 134 * S - 1), MST_BEAT_FINE);
  CHECK_INT(beat(0, 134 * S), MST_BEAT_ASK);
  CHECK_INT(beat(0, 142 * S), MST_BEAT_SILENT);
}

TEST("A worker that was asked is suspect after half a heartbeat") {
  begin(2);
  CHECK(!mst_heal_is_suspect(&heal, &policy, START + 7 * S)); // never asked
  CHECK_INT(beat(0, 4 * S), MST_BEAT_ASK);
  CHECK(!mst_heal_is_suspect(&heal, &policy, START + 6 * S - 1));
  CHECK(mst_heal_is_suspect(&heal, &policy, START + 6 * S));
  mst_heal_heard(&heal, START + 6 * S);
  CHECK(!mst_heal_is_suspect(&heal, &policy, START + 6 * S));
  CHECK(!mst_heal_is_suspect(&heal, &policy, START + 13 * S));
}
