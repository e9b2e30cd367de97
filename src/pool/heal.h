// pool/heal: what follows from the loss of a worker, and when silence is a loss.
// Pure: facts and now_ns go in, verdicts come out. No socket, no clock, no R.
//
// Blame. A worker that dies while it evaluates a call (the oldest that it owes)
// dies of that call: the call is tried again on the next incarnation, `retries`
// times, then it is poison: it fails, and the worker comes back without it. A
// worker that dies otherwise (idle, booting, replaying its journal) uses up its
// budget: more than MST_HEAL_DEATHS such deaths within MST_HEAL_PERIOD_NS, or more than
// MST_HEAL_ROW however far apart, and it is given up. The period's count begins anew
// when it has come so far as to be idle; both do with an answer, or a death that a call
// is to blame for. Deaths while it replays don't count for the period, since that may take
// seconds in which anybody may kill it, and in a row `retries` are allowed if that is more.
//
// Silence. Whoever runs the session asks each worker for a sign of life every
// third of the heartbeat. Silence of a whole heartbeat is a loss, provided that the
// session was there to listen: one that slept longer than a third of a heartbeat
// (computing, stopped, suspended) listens for a whole one before it judges.
#ifndef MST_POOL_HEAL_H
#define MST_POOL_HEAL_H

#include <stdint.h>

#include "base/mst_clock.h"

#define MST_HEAL_DEATHS 3u
#define MST_HEAL_PERIOD_NS (5 * MST_NS_PER_S)
#define MST_HEAL_ROW 10u

struct mst_heal_policy {
  uint8_t on;    // 0: a lost worker stays lost
  uint8_t fresh; // 1: it comes back as its set-up made it, so no calls are kept
  uint32_t retries;     // of one call
  int64_t heartbeat_ns; // INT64_MAX: silence is never a loss
  // What may be replayed where there can be no checkpoint; INT64_MAX: all.
  int64_t replay_max_ns;
};

struct mst_heal {
  uint32_t attempt; // losses of the call that it evaluates, or would
  uint32_t deaths;  // that nothing but itself is to blame for, in the period
  uint32_t row;     // of them since it was of use
  int64_t first_ns; // the first of these
  int64_t heard_ns; // last sign of life
  int64_t asked_ns; // last time that it was asked for one
};

enum mst_heal_verdict {
  MST_HEAL_LEAVE,   // it stays lost: healing is off
  MST_HEAL_RESTART, // and what it owes is sent again
  MST_HEAL_POISON,  // restart, but its oldest call fails
  MST_HEAL_GIVE_UP  // it stays lost: it can't be kept alive
};

// mst_heal_begin: a worker's first incarnation is ready.
void mst_heal_begin(struct mst_heal *heal, int64_t now_ns);
// mst_heal_back: another incarnation is ready. Its silence counts from now: to come
// back may take longer than a heartbeat.
void mst_heal_back(struct mst_heal *heal, int64_t now_ns);
// What it was at.
enum mst_heal_at {
  MST_HEAL_IDLE,      // or it booted
  MST_HEAL_REPLAYING, // its journal
  MST_HEAL_EVALUATING // a call that was sent to it and not answered, after all that comes before
};
// mst_heal_lost judges one loss.
enum mst_heal_verdict mst_heal_lost(struct mst_heal *heal,
                                    const struct mst_heal_policy *policy,
                                    enum mst_heal_at at, int64_t now_ns);
// mst_heal_idle: it is back and its journal is replayed, so it can be kept alive.
void mst_heal_idle(struct mst_heal *heal);
// mst_heal_answered: a call was answered, or left (cancelled).
void mst_heal_answered(struct mst_heal *heal);

enum mst_beat { MST_BEAT_FINE, MST_BEAT_ASK, MST_BEAT_SILENT };
// mst_heal_beat tells what to do now. slept_ns: for how long nobody had listened
// before this. After ASK, asked_ns is now.
enum mst_beat mst_heal_beat(struct mst_heal *heal,
                            const struct mst_heal_policy *policy,
                            int64_t slept_ns, int64_t now_ns);
// mst_heal_heard notes a sign of life.
void mst_heal_heard(struct mst_heal *heal, int64_t now_ns);
// mst_heal_is_suspect: asked and not heard for half a heartbeat.
int mst_heal_is_suspect(const struct mst_heal *heal,
                        const struct mst_heal_policy *policy, int64_t now_ns);

#endif
