// explore: every order of events in small worlds.
//
// The core of calls (src/pool/calls.h) is pure, so a world of two workers and three calls has
// finitely many histories. This program plays all of them: from each state it tries each possible
// next event, until it finds nothing new. States with the same future are visited once. The
// simulation (sim.h) visits large worlds at random; this program misses nothing in small ones.
//
//   explore.c        the search: states, paths, the verdict
//   explore_plans.c  the small worlds
//   explore_world.c  two worker processes and a session without sockets
//   explore_say.c    carries out the core's actions
//   explore_judge.c  what must hold, and how each call ends
//   explore_hash.c   what distinguishes two states
#ifndef MST_SIM_EXPLORE_H
#define MST_SIM_EXPLORE_H

#include <stddef.h>
#include <stdint.h>

#include "pool/calls.h"
#include "pool/result.h"

#define EX_WORKERS 2u
#define EX_CALLS 3u
#define EX_FRAMES 16u
#define EX_ANSWER_BYTES (MST_VALUE_HEAD_BYTES + 1u)
#define EX_PATH_MAX 200u
#define EX_NEVER INT64_MAX

// ---- plans

struct ex_ask {
  uint8_t is_task;
  uint8_t workers; // bits; for a verb's call exactly one, for a task 0: any
  uint8_t caller;  // one of two verbs
  uint8_t changes; // its worker's state
  uint8_t has_job;
  uint8_t has_limit; // a time limit
  int8_t retries;    // of a task; -1: the cluster's
  uint8_t needs;     // bits: the tasks whose results it needs
};

// The maximum number of these events in one history.
struct ex_budget {
  uint8_t kills, cancels, forgets;
  uint8_t no_launch;  // launches that fail at once
  uint8_t bad_launch; // and later
  uint8_t overdue;    // calls that take too long
  uint8_t errors;     // replayed calls that fail
  uint8_t ends;       // workers that the user kills for good
  uint8_t retires;    // or asks to end
  uint8_t drains;     // or drains
  uint8_t stops;
  uint8_t no_memory; // messages that can't be sent because memory is short
  uint8_t standbys;  // checkpoints that end
  uint8_t queues;    // launches that wait in a queue
  uint8_t moves;     // hosts that are left
  uint8_t hosts;     // hosts that end
  uint8_t no_hosts;  // hosts that don't come again
  uint8_t waits;     // with other events possible at the time
};

// Duration: 10,000 to 60,000 steps, 10 times as many, 30 times as many or more.
enum ex_size { EX_SMALL, EX_MEDIUM, EX_LARGE };

struct ex_plan {
  const char *asks;   // see ex_plan_asks
  const char *limits; // see ex_plan_budget
  uint8_t no_healing;
  uint8_t held;  // a dead process's channel still takes messages
  uint8_t tired; // one more death of its own makes a worker given up
  uint8_t oom;   // processes that are killed were killed for memory
  // One more launch that fails for a shortage does, too.
  uint8_t short_of;
  uint8_t awaited; // somebody waits for each task
  uint8_t dear;    // each call takes long enough to want a checkpoint
  uint8_t keeps;   // what a checkpoint covers is kept, in case it ends
  uint8_t size;    // enum ex_size
};

extern const struct ex_plan ex_plans[];
extern const uint32_t ex_plan_count;

// ex_plan_asks reads "v0! t1j": a word for each call. v or t: verb's call, task; then its workers;
// then b: of the other verb, !: changes its worker, j: needs a job, n: the result of the call
// before it, f: that of the first call, l: has a time limit, -: isn't retried.
void ex_plan_asks(const struct ex_plan *plan, struct ex_ask asks[EX_CALLS]);
// ex_plan_budget reads "kill 2, cancel 1".
struct ex_budget ex_plan_budget(const struct ex_plan *plan);

// ---- events

enum ex_what {
  // Events that happen by themselves:
  EX_ASK = 1, // the user makes the next call
  EX_READY,
  // The worker finishes its oldest call, and the session reads the answer.
  EX_ANSWER,
  EX_READ, // the session reads an answer of an ended worker
  EX_EXITED,
  EX_CLOSED,
  EX_LEAVE, // a worker that was asked to end does
  EX_TRIM,  // a worker has given back memory
  EX_MEND,  // the session handles losses
  EX_WAIT,  // until the core's next tick
  // A worker hears that a call isn't to begin. more: it passes over one that is next.
  EX_HEAR,
  EX_WITHDRAWN, // the session hears that it won't
  EX_COME,      // a worker's host comes
  // Events with a maximum number:
  EX_MISHAPS,
  EX_KILL = EX_MISHAPS, // more: answers written before
  EX_CANCEL,
  EX_FORGET,
  EX_NO_LAUNCH,
  EX_BAD_LAUNCH, // more: 1 for a shortage
  EX_OVERDUE,
  EX_ERROR,
  EX_END,
  EX_RETIRE,
  EX_DRAIN,
  EX_STOP,
  EX_NO_MEMORY,
  EX_STANDBY,
  EX_QUEUE,
  EX_MOVE,
  EX_HOST, // more: answers written before
  EX_NO_HOST,
  EX_WHATS
};

struct ex_event {
  uint8_t what;
  uint8_t at;   // a worker or a call
  uint8_t more; // see above
};
const char *ex_event_name(enum ex_what what);

// ---- the world

enum ex_life { EX_NONE, EX_BOOTING, EX_ALIVE, EX_DEAD };

struct ex_frame {
  uint64_t id;
  uint8_t call; // index
  uint8_t replay;
  uint8_t checkpoint; // not a call: the order to make a checkpoint
};

struct ex_process {
  uint8_t life;     // enum ex_life
  uint8_t spoken;   // answers in the channel of a dead process
  uint8_t exit_due; // EXITED is still to come
  uint8_t close_due;
  uint8_t let_go; // PAUSE came
  uint8_t bye;
  uint8_t trims;     // it was asked to give back memory
  uint8_t by_itself; // it ended by itself
  uint8_t replayed;  // journal entries that it was sent
  uint8_t first;     // the first journal entry that it needs
  uint8_t to_replay; // how many, at its launch
  uint8_t queued;    // its launch waits
  uint8_t jobs;      // bit k: it has the job of call k
  uint8_t results;   // bit k: it has the result of call k
  uint64_t result_ids[EX_CALLS];
  uint8_t lacks; // part of its state was gone when it was launched
  uint32_t epoch;
  uint64_t last_id; // of the calls sent to it
  uint64_t asked;   // the call that it is asked not to begin
  uint64_t
      withdrawn; // and the one that it won't begin, as the session is to hear
  struct ex_frame in[EX_FRAMES];
  uint32_t in_count;
};

// Where a worker's state is: all in its journal; its first part in a checkpoint; or its first part
// is gone, until there is another checkpoint.
enum ex_state { EX_LOG, EX_CHECKPOINT, EX_CUT };

enum ex_outcome {
  EX_PENDING,
  EX_REFUSED, // the worker was already given up
  EX_VALUE,
  EX_POISON,
  EX_LATE,
  EX_LOST,
  EX_CANCELLED
};

struct ex_call {
  struct mst_blob *payload;
  struct mst_job *job;
  struct mst_call *task; // a reference
  uint8_t asked;
  uint8_t cancelled;
  uint8_t late;        // it was interrupted for its time limit
  uint8_t no_memory;   // it couldn't be sent
  uint8_t blamed;      // losses that it was blamed for
  uint8_t handed_back; // it was in the mailbox of a worker that waits
  uint8_t mailbox;     // 1 + the worker that has it
  uint8_t outcome;     // enum ex_outcome
};

struct ex {
  const struct ex_plan *plan;
  struct ex_ask asks[EX_CALLS];
  struct ex_budget left;
  struct mst_counts counts;
  struct mst_calls core;
  struct ex_process processes[EX_WORKERS];
  struct ex_call calls[EX_CALLS];
  uint8_t journal[EX_WORKERS][EX_CALLS]; // its calls that are kept, in order
  uint8_t journal_count[EX_WORKERS];
  uint8_t covered[EX_WORKERS]; // how many of them its checkpoint covers
  uint8_t state[EX_WORKERS];   // enum ex_state
  uint8_t deaths[EX_WORKERS];  // without a call to blame
  uint8_t asked;
  uint8_t fail_launch; // the next launch fails
  uint8_t fail_send;
  uint8_t started, stopped, stopping;
  // Bit w: worker w was given up or asked to end, perhaps temporarily.
  uint8_t gone;
  uint8_t ended;   // bit w: the user has killed worker w for good
  uint8_t lasting; // a worker may be given up at its first death
  int64_t now_ns;
  int carrying_out;
  int checking; // at the end of the path: check each step
  int logging;
  int failed;
  char failure[200];
};

void ex_begin(struct ex *ex, const struct ex_plan *plan, int logging);
// ex_end closes the cluster in any state, and frees everything.
void ex_end(struct ex *ex);
// ex_events lists the possible next events, and returns their number.
uint32_t ex_events(const struct ex *ex, struct ex_event *events);
#define EX_EVENTS_MAX 64u
void ex_apply(struct ex *ex, struct ex_event event);

// ex_fact gives the core a fact; ex_stepped checks the core after a step and carries out its
// actions.
void ex_fact(struct ex *ex, enum mst_event_kind kind, uint32_t worker,
             uint32_t how, int32_t number);
void ex_stepped(struct ex *ex);
void ex_read(struct ex *ex, uint32_t worker, uint16_t flags);
void ex_die(struct ex *ex, uint32_t worker, uint32_t spoken);
// ex_withdrawn: the session reads what a worker's watch has said.
void ex_withdrawn(struct ex *ex, uint32_t worker);
// What the user does: makes the next call, cancels a task, forgets a verb's calls, stops the
// cluster. ex_of_verb tells whether two calls have the same verb and worker.
void ex_ask_next(struct ex *ex);
void ex_cancel(struct ex *ex, uint8_t index);
void ex_forget(struct ex *ex, uint8_t index);
void ex_stop(struct ex *ex);
int ex_of_verb(const struct ex *ex, uint8_t i, uint8_t index);
void ex_act(struct ex *ex, const struct mst_action *action);
uint8_t ex_call_of(const struct ex *ex, const struct mst_blob *payload);

// Hosts (explore_hosts.c): each worker's own. ex_host_comes: lasts: it doesn't, nor would the next.
void ex_hosts_begin(struct ex *ex);
int ex_host_may_come(const struct ex *ex, uint32_t worker);
void ex_host_comes(struct ex *ex, uint32_t worker, int lasts);
void ex_host_leaves(struct ex *ex, uint32_t worker);
void ex_host_ends(struct ex *ex, uint32_t worker, uint32_t answers);
void ex_worker_waits(struct ex *ex, uint32_t worker);

// ---- judgement

void ex_fail(struct ex *ex, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void ex_log(const struct ex *ex, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void ex_check(struct ex *ex); // after each step of the core
// ex_settled checks a core without actions.
void ex_settled(struct ex *ex);
// ex_judge_sent checks that a worker may be sent this call now; ex_judge_loss checks the verdict on
// a loss.
void ex_judge_sent(struct ex *ex, uint32_t worker,
                   const struct mst_action *action);
void ex_judge_loss(struct ex *ex, uint32_t worker);
// ex_is_quiet tells whether no event happens by itself any more.
int ex_is_quiet(const struct ex_event *events, uint32_t count);
// ex_verdict checks how each call ended in a quiet world. It ends the pool.
void ex_verdict(struct ex *ex);
// ex_released checks what the calls still hold after the core's end.
void ex_released(struct ex *ex);

uint64_t ex_hash(const struct ex *ex);

// What some world must have seen: if one is missing, the search has become blind.
// clang-format off
#define EX_SIGHTS(SIGHT)                                                       \
  SIGHT(answered) SIGHT(poison) SIGHT(late) SIGHT(lost) SIGHT(refused)         \
  SIGHT(cancelled_queued) SIGHT(cancelled_given) SIGHT(cancelled_sent)         \
  SIGHT(forgotten_answer) SIGHT(forgotten_sent) SIGHT(retried) SIGHT(replayed) \
  SIGHT(send_failed) SIGHT(read_after_death) SIGHT(given_up)    \
  SIGHT(launched_later) SIGHT(alone) SIGHT(trimmed) SIGHT(no_memory) SIGHT(revived) \
  SIGHT(replay_failed) SIGHT(waited) SIGHT(stopped_early)                    \
  SIGHT(checkpoint) SIGHT(standby_ended) SIGHT(handed_back) SIGHT(moved)     \
  SIGHT(result) SIGHT(result_dropped) SIGHT(unmet) SIGHT(cancelled_waiting)   \
  SIGHT(withdrawn) SIGHT(withdrawn_next) SIGHT(withdrawn_after_death)  \
  SIGHT(withdrawn_unheard) SIGHT(withdrawn_cancelled) SIGHT(host_came)         \
  SIGHT(host_lost) SIGHT(waits_for_host)
// clang-format on
#define EX_SIGHT_NAME(name) EX_SAW_##name,
enum ex_sight { EX_SIGHTS(EX_SIGHT_NAME) EX_SIGHT_COUNT };
void ex_saw(enum ex_sight sight);

#endif
