// shuffle/plan: which part is made where, which attempt counts, what is made again. Pure: events
// and the time go in, actions come out; the same events give the same actions. No clock, no socket,
// no R. One thread at a time.
//
// A stage has tasks, one for each of its parts. A task works on
//   near: the output of the task with the same index in an earlier stage, on the worker
//         that has it; if no worker has it, this task makes it itself;
//   far:  the outputs of all tasks of one or two earlier stages, read from wherever they
//         are. A task runs only when all of these are there.
// Each run of a task is an attempt with a number of its own. The first attempt that is done is
// committed and is the task's output until its worker is lost or a reader doesn't find it. Attempts
// that are done later are late, and their outputs are dropped: so each output counts exactly once.
// Only wanted outputs, and those that they need, are made (again).
#ifndef MST_SHUFFLE_PLAN_H
#define MST_SHUFFLE_PLAN_H

#include <stdint.h>

#include "sched/late.h"

#define MST_PLAN_NONE UINT32_MAX
// The most simultaneous copies of one task.
#define MST_PLAN_COPIES MST_LATE_COPIES
// Attempts of one task that may be lost with their workers, or miss an input, before the task is
// blamed.
#define MST_PLAN_LOSSES_MAX 4u
#define MST_PLAN_TASKS_MAX 65536u // of a stage
// sched/late.h says when a task is late, by its stage's median and this floor. A task that waits
// for a worker which is busy with a late one runs elsewhere.
#define MST_PLAN_LATE_NS INT64_C(500000000)
// If no task of its stage is done, a task that waits for a worker is moved after this.
#define MST_PLAN_STUCK_NS INT64_C(5000000000)

enum mst_plan_state {
  MST_PLAN_IDLE,  // there is no output; copies may run
  MST_PLAN_DONE,  // worker, epoch and attempt say where the output is
  MST_PLAN_FAILED // it will have no output
};

struct mst_plan_copy {
  uint32_t attempt; // 0: no copy
  uint32_t worker, epoch;
  uint8_t cancel; // another was first; the worker doesn't know yet
  int64_t since_ns;
};

struct mst_plan_task {
  enum mst_plan_state state;
  uint32_t attempts; // numbers given so far
  uint32_t losses;
  uint32_t worker, epoch, attempt; // of the output, while DONE
  int64_t took_ns;                 // time to make it, 0 if never made
  struct mst_plan_copy copies[MST_PLAN_COPIES];
};

struct mst_plan_stage {
  struct mst_plan_task *tasks; // owned; NULL: retired
  uint32_t count;
  uint32_t *order; // owned: the order of starts; NULL: by number
  uint32_t near;   // stage, or MST_PLAN_NONE
  uint32_t far[2]; // stages, or MST_PLAN_NONE
  uint32_t done;   // tasks that are DONE
  int64_t late_ns; // when its tasks are late, 0: recompute
  uint8_t speculate;
  uint8_t wanted; // by mst_plan_want
  uint8_t needed; // wanted, or an input of one that is; set by mst_plan_next
};

struct mst_plan_worker {
  uint32_t epoch;
  uint8_t up;    // tasks may be sent there
  uint8_t gone;  // it won't come back
  uint8_t doubt; // silent since it was told to end a late attempt
  uint32_t stage, task, attempt; // running there; attempt 0: idle
};

// Stage numbers are never reused: workers identify outputs by them. Stages are kept in blocks,
// which are freed when all of their stages are retired.
#define MST_PLAN_BLOCK 64u

struct mst_plan {
  struct mst_plan_stage **blocks; // owned; NULL: all retired
  uint32_t stage_count;           // numbers given so far
  uint32_t *live; // owned: stages that aren't retired, oldest first
  uint32_t live_count, live_cap;
  struct mst_plan_worker *workers; // owned
  uint32_t worker_count;
  uint32_t extra; // running copies besides the first of each task
  // Counts for people, never reset.
  uint64_t attempts, committed, late, lost, missed, speculated, won;
};

enum mst_plan_do {
  MST_PLAN_RUN,    // start this attempt
  MST_PLAN_CANCEL, // end this attempt and drop its output; another was first
  MST_PLAN_FAIL, // this task was lost too often, or no worker is left (attempt 0)
  MST_PLAN_FINISHED // all wanted outputs are there
};
struct mst_plan_action {
  enum mst_plan_do kind;
  uint32_t stage, task, attempt;
  uint32_t worker, epoch;
};

// mst_plan_init makes a plan for `workers` workers, all down. 0, -MST_EMEM.
int mst_plan_init(struct mst_plan *plan, uint32_t workers);
// mst_plan_free frees everything; the plan may be used again after mst_plan_init.
void mst_plan_free(struct mst_plan *plan);
// mst_plan_workers adds room for more workers. 0, -MST_EMEM.
int mst_plan_workers(struct mst_plan *plan, uint32_t workers);

// mst_plan_add adds a stage and sets *stage to its number. near must have the same number of tasks.
// 0, -MST_EMEM, -MST_ELIMIT, -MST_EINPUT (an input that doesn't exist).
int mst_plan_add(struct mst_plan *plan, uint32_t count, uint32_t near,
                 const uint32_t far[2], int speculate, uint32_t *stage);
// mst_plan_stage gives a stage; a retired one has no tasks.
struct mst_plan_stage *mst_plan_stage(const struct mst_plan *plan,
                                      uint32_t stage);
// mst_plan_order sets the order in which a stage's tasks start, as far as inputs and workers allow:
// longest first, so that no long task begins when all others are done. order: each task once;
// copied. Changes nothing else. 0, -MST_EINPUT, -MST_EMEM.
int mst_plan_order(struct mst_plan *plan, uint32_t stage, const uint32_t *order,
                   uint32_t count);
// mst_plan_want asks for all of a stage's outputs; mst_plan_unwant takes that back and forgets
// copies of all tasks, which the caller has ended.
void mst_plan_want(struct mst_plan *plan, uint32_t stage);
void mst_plan_unwant(struct mst_plan *plan);
// mst_plan_forget: its outputs have been dropped everywhere. They are made again when needed.
void mst_plan_forget(struct mst_plan *plan, uint32_t stage);
// mst_plan_retire: the stage won't be asked for again, and isn't an input of any stage that may
// run. Frees its tasks.
void mst_plan_retire(struct mst_plan *plan, uint32_t stage);

// Events.
// A worker is up, in this incarnation; outputs of earlier ones are lost.
void mst_plan_up(struct mst_plan *plan, uint32_t worker, uint32_t epoch);
// A worker is lost, and will come back (mst_plan_up), or won't.
void mst_plan_down(struct mst_plan *plan, uint32_t worker, int gone);
// An attempt is done in this incarnation.
enum mst_plan_told {
  MST_PLAN_KNOWN, // it is the committed one, reported again, or unknown
  MST_PLAN_LATE,  // it must be dropped
  MST_PLAN_COMMITTED
};
enum mst_plan_told mst_plan_done(struct mst_plan *plan, uint32_t stage,
                                 uint32_t task, uint32_t attempt,
                                 uint32_t epoch, int64_t now_ns);
// mst_plan_note gives the number of an attempt that another task makes on its way at this worker,
// from which that task goes on: 0 if this one has an output, or is being made, or if the worker has
// its share of the stage. MST_PLAN_NONE: whatever its share. mst_plan_found: it is there, at a
// worker in this incarnation. Committed, or MST_PLAN_LATE. Cost of mst_plan_note: O(tasks of the
// stage).
uint32_t mst_plan_note(struct mst_plan *plan, uint32_t stage, uint32_t task,
                       uint32_t worker);
enum mst_plan_told mst_plan_found(struct mst_plan *plan, uint32_t stage,
                                  uint32_t task, uint32_t attempt,
                                  uint32_t worker, uint32_t epoch);
// An attempt ended without a result, with its worker.
void mst_plan_ended(struct mst_plan *plan, uint32_t stage, uint32_t task,
                    uint32_t attempt);
// An attempt ended because that attempt of an input isn't where the plan said.
void mst_plan_missed(struct mst_plan *plan, uint32_t stage, uint32_t task,
                     uint32_t attempt, uint32_t in_stage, uint32_t in_task,
                     uint32_t in_attempt);

// mst_plan_next gives the next action: 1, or 0 if it needs an event or more time. Cost: O(tasks of
// the needed stages).
int mst_plan_next(struct mst_plan *plan, int64_t now_ns,
                  struct mst_plan_action *action);
// mst_plan_base gives the stage from which a task at this worker starts: 1 if that stage's output
// is there already, 0 if it must be made, from nothing or from its far inputs.
int mst_plan_base(const struct mst_plan *plan, uint32_t stage, uint32_t task,
                  uint32_t worker, uint32_t *base);

// mst_plan_check checks the invariants: NULL, or the one that fails.
const char *mst_plan_check(const struct mst_plan *plan);

#endif
