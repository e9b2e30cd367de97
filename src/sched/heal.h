// sched/heal: what follows from the loss of a worker, and when silence is a loss. Pure: facts and
// now_ns go in, verdicts come out. No socket, no clock, no R.
//
// Blame. If a worker dies while it evaluates a call (the oldest that it owes), that call is to
// blame: it is tried again on the next incarnation, `retries` times. Then it is poison: it fails,
// and the worker comes back without it. Any other death (idle, booting, replaying its journal)
// counts against the worker: it is given up after more than MST_HEAL_DEATHS of these within
// MST_HEAL_PERIOD_NS, or more than MST_HEAL_ROW, or `retries` if that is more, at any distance. The
// period's count starts anew once replay has finished; both counts do with an answer, or with a
// death that a call is to blame for. Deaths during replay don't count for the period: replay may
// take seconds, in which anybody may kill the worker.
//
// Silence. The session asks each worker for a sign of life every third of the heartbeat. Silence of
// a whole heartbeat is a loss, provided that the session was listening: after it slept longer than
// a third of a heartbeat (computing, stopped, suspended) it listens for a whole one before it
// judges. Who waits for the processor or a disk isn't silent: where the session sees a process, it
// looks at one that may be silent (mst_heal_runs), and judges it a heartbeat later, but within
// MST_HEAL_STUCK_NS.
#ifndef MST_SCHED_HEAL_H
#define MST_SCHED_HEAL_H

#include <stdint.h>

#include "base/mst_clock.h"

#define MST_HEAL_DEATHS 3u
#define MST_HEAL_PERIOD_NS (5 * MST_NS_PER_S)
#define MST_HEAL_ROW 10u

// The longest silence of a process that seems to run.
#define MST_HEAL_STUCK_NS (300 * MST_NS_PER_S)

// Before a cluster has lost any worker, one loss is expected in so much time of a worker.
#define MST_HEAL_LOSS_NS (36000 * MST_NS_PER_S)

struct mst_heal_policy {
  uint8_t on; // 0: a lost worker stays lost
  // 1: it comes back in the state after its set-up; no calls are kept.
  uint8_t fresh;
  uint32_t retries;     // of one call
  int64_t heartbeat_ns; // INT64_MAX: silence is never a loss
  // A worker makes a checkpoint after so much evaluation; 0: when it pays (journal.h).
  int64_t checkpoint_ns;
  // The longest replay allowed where no checkpoint is possible; INT64_MAX: any.
  int64_t replay_max_ns;
};

struct mst_heal {
  uint32_t deaths;  // in the period, without a call to blame
  uint32_t row;     // of these, since its last answer
  int64_t first_ns; // the first of the period
  int64_t heard_ns; // last sign of life
  int64_t asked_ns; // when it was last asked for one
  int64_t runs_ns;  // when its process was last seen to compute, or to wait for its turn
};

enum mst_heal_verdict {
  MST_HEAL_LEAVE,   // it stays lost: healing is off
  MST_HEAL_RESTART, // and what it owes is sent again
  MST_HEAL_POISON,  // restart, but its oldest call fails
  MST_HEAL_GIVE_UP  // it stays lost: it can't be kept alive
};

// mst_heal_begin: a worker's first incarnation is ready.
void mst_heal_begin(struct mst_heal *heal, int64_t now_ns);
// mst_heal_back: another incarnation is ready. Its silence counts from now, since coming back may
// take longer than a heartbeat.
void mst_heal_back(struct mst_heal *heal, int64_t now_ns);
// What a worker was doing.
enum mst_heal_at {
  MST_HEAL_IDLE,      // or it booted
  MST_HEAL_REPLAYING, // its journal
  MST_HEAL_EVALUATING // a call that was sent to it; its replay was done
};
// mst_heal_lost judges one loss. losses: how many workers the call that is evaluated was blamed for
// before; this one is added.
enum mst_heal_verdict mst_heal_lost(struct mst_heal *heal,
                                    const struct mst_heal_policy *policy,
                                    enum mst_heal_at at, uint32_t *losses,
                                    int64_t now_ns);
// mst_heal_idle: replay has finished, so it can be kept alive.
void mst_heal_idle(struct mst_heal *heal);
// mst_heal_answered: a call was answered, or wouldn't have been: it was cancelled or took too long.
void mst_heal_answered(struct mst_heal *heal);

enum mst_beat { MST_BEAT_FINE, MST_BEAT_ASK, MST_BEAT_SILENT };
// mst_heal_beat tells what to do now. slept_ns: for how long nobody had listened before. It sets
// asked_ns when it returns ASK.
enum mst_beat mst_heal_beat(struct mst_heal *heal,
                            const struct mst_heal_policy *policy,
                            int64_t slept_ns, int64_t now_ns);
// mst_heal_heard notes a sign of life.
void mst_heal_heard(struct mst_heal *heal, int64_t now_ns);
// mst_heal_runs notes that its process computes, or waits for the processor or a disk.
void mst_heal_runs(struct mst_heal *heal, int64_t now_ns);
// mst_heal_is_suspect: it was asked, and has been silent for half a heartbeat.
int mst_heal_is_suspect(const struct mst_heal *heal,
                        const struct mst_heal_policy *policy, int64_t now_ns);

#endif
