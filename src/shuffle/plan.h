// shuffle/plan: which part is made where, which attempt counts, what is made again. Pure:
// events and the time go in, actions come out; the same events give the same actions. No
// clock, no socket, no R. One thread at a time.
//
// A stage has tasks, one for each of its parts. A task works on
//   near: the output of the task with the same index in an earlier stage, on the worker
//         that has it; where nobody has it, it is made inside of this task;
//   far:  the outputs of all tasks of one or two earlier stages, read from wherever they
//         are. A task runs only when all of these are there.
// Each run of a task is an attempt with a number of its own. The first attempt that is done is
// committed and is the task's output until its worker is lost, or a reader doesn't find
// it. Whatever else is done later is late, and to be dropped: so each output is
// counted exactly once. Only what is wanted, and what that needs, is made (again).
#ifndef MST_SHUFFLE_PLAN_H
#define MST_SHUFFLE_PLAN_H

#include <stdint.h>

#include "sched/late.h"

#define MST_PLAN_NONE UINT32_MAX
// Copies of one task that run at the same time.
#define MST_PLAN_COPIES MST_LATE_COPIES
// Attempts of one task that may be lost with their workers, or miss an input, before
// the task is blamed.
#define MST_PLAN_LOSSES_MAX 4u
#define MST_PLAN_TASKS_MAX 65536u // of a stage
// When a task is late says sched/late.h, by its stage's median and this floor. One that waits for a
// worker which is busy with a late one is run elsewhere.
#define MST_PLAN_LATE_NS INT64_C(500000000)
// Where no task of a stage is done, what waits for a worker is moved after this.
#define MST_PLAN_STUCK_NS INT64_C(5000000000)

enum mst_plan_state {
  MST_PLAN_IDLE,  // there is no output; copies may run
  MST_PLAN_DONE,  // worker, epoch and attempt say where the output is
  MST_PLAN_FAILED // it will have none
};

struct mst_plan_copy {
  uint32_t attempt; // 0: no copy
  uint32_t worker, epoch;
  uint8_t cancel; // another one was first; the worker isn't told yet
  int64_t since_ns;
};

struct mst_plan_task {
  enum mst_plan_state state;
  uint32_t attempts; // given so far
  uint32_t losses;
  uint32_t worker, epoch, attempt; // of the output, while DONE
  int64_t took_ns;                 // that it took to make, 0 if never made
  struct mst_plan_copy copies[MST_PLAN_COPIES];
};

struct mst_plan_stage {
  struct mst_plan_task *tasks; // owned; NULL: retired
  uint32_t count;
  uint32_t *order; // owned: tasks as they are started; NULL: by their number
  uint32_t near;   // stage, or MST_PLAN_NONE
  uint32_t far[2]; // stages, or MST_PLAN_NONE
  uint32_t done;   // tasks that are DONE
  int64_t late_ns; // what they tell of the others, 0: to be worked out again
  uint8_t speculate;
  uint8_t wanted; // by mst_plan_want
  uint8_t needed; // wanted, or by one that is; known after mst_plan_next
};

struct mst_plan_worker {
  uint32_t epoch;
  uint8_t up;    // tasks may be sent there
  uint8_t gone;  // it doesn't come back
  uint8_t doubt; // told to end a late attempt, it has done nothing since
  uint32_t stage, task, attempt; // that it runs; attempt 0: idle
};

// Numbers of stages are never given twice: workers know outputs by them. Stages are kept in
// blocks, which go when all of their stages are retired.
#define MST_PLAN_BLOCK 64u

struct mst_plan {
  struct mst_plan_stage **blocks; // owned; NULL: all retired
  uint32_t stage_count;           // numbers that were given
  uint32_t *live; // owned: stages that aren't retired, oldest first
  uint32_t live_count, live_cap;
  struct mst_plan_worker *workers; // owned
  uint32_t worker_count;
  uint32_t extra; // copies beside the first of their tasks that run now
  // Counts for people, never reset.
  uint64_t attempts, committed, late, lost, missed, speculated, won;
};

enum mst_plan_do {
  MST_PLAN_RUN, // start this attempt
  MST_PLAN_CANCEL, // end this attempt; another was first. Its output is to be dropped
  MST_PLAN_FAIL, // this task was lost too often, or no worker is left (attempt 0)
  MST_PLAN_FINISHED // all that is wanted is there
};
struct mst_plan_action {
  enum mst_plan_do kind;
  uint32_t stage, task, attempt;
  uint32_t worker, epoch;
};

// mst_plan_init makes a plan for so many workers, none of them up. 0, -MST_EMEM.
int mst_plan_init(struct mst_plan *plan, uint32_t workers);
// mst_plan_free frees what it holds; it may be used again after mst_plan_init.
void mst_plan_free(struct mst_plan *plan);
// mst_plan_workers makes room for more. 0, -MST_EMEM.
int mst_plan_workers(struct mst_plan *plan, uint32_t workers);

// mst_plan_add adds a stage, whose number comes back in *stage. near must have as many
// tasks. 0, -MST_EMEM, -MST_ELIMIT, -MST_EINPUT (an input that isn't there).
int mst_plan_add(struct mst_plan *plan, uint32_t count, uint32_t near,
                 const uint32_t far[2], int speculate, uint32_t *stage);
// mst_plan_stage gives a stage; one that was retired has no tasks.
struct mst_plan_stage *mst_plan_stage(const struct mst_plan *plan,
                                      uint32_t stage);
// mst_plan_order says in which order a stage's tasks are started, as far as their inputs and
// workers let them: longest first, so that none that is long begins when all others are done.
// order: all tasks, each once; copied. It changes nothing else. 0, -MST_EINPUT, -MST_EMEM.
int mst_plan_order(struct mst_plan *plan, uint32_t stage, const uint32_t *order,
                   uint32_t count);
// mst_plan_want says that all of a stage's outputs are to be there; mst_plan_unwant takes
// that back and forgets copies of all tasks, which the caller has ended.
void mst_plan_want(struct mst_plan *plan, uint32_t stage);
void mst_plan_unwant(struct mst_plan *plan);
// mst_plan_forget: its outputs are dropped everywhere. They are made again when needed.
void mst_plan_forget(struct mst_plan *plan, uint32_t stage);
// mst_plan_retire: nothing will ask for it again, and no stage that may run has it as an
// input. Frees its tasks.
void mst_plan_retire(struct mst_plan *plan, uint32_t stage);

// Events.
// A worker is there, in this incarnation; outputs of earlier ones are lost with them.
void mst_plan_up(struct mst_plan *plan, uint32_t worker, uint32_t epoch);
// A worker is lost, and comes back (then mst_plan_up will tell), or doesn't.
void mst_plan_down(struct mst_plan *plan, uint32_t worker, int gone);
// An attempt is done in this incarnation: 1 if it is committed, 0 if it is late and is to be
// dropped, -1 if it is the committed one, told again, or none that was ever given.
int mst_plan_done(struct mst_plan *plan, uint32_t stage, uint32_t task,
                  uint32_t attempt, uint32_t epoch, int64_t now_ns);
// An attempt ended without a result, with its worker.
void mst_plan_ended(struct mst_plan *plan, uint32_t stage, uint32_t task,
                    uint32_t attempt);
// An attempt ended since that attempt of an input isn't where the plan said.
void mst_plan_missed(struct mst_plan *plan, uint32_t stage, uint32_t task,
                     uint32_t attempt, uint32_t in_stage, uint32_t in_task,
                     uint32_t in_attempt);

// mst_plan_next gives the next thing to be done: 1, or 0 if only time or an event can
// tell. Cost: O(tasks of the stages that are needed).
int mst_plan_next(struct mst_plan *plan, int64_t now_ns,
                  struct mst_plan_action *action);
// mst_plan_base gives, for a task that runs at a worker, the stage from which on it is made
// there: that stage's output is at the worker (1), or is made from nothing or from its far
// inputs (0).
int mst_plan_base(const struct mst_plan *plan, uint32_t stage, uint32_t task,
                  uint32_t worker, uint32_t *base);

// mst_plan_check looks at all that must hold; NULL, or what doesn't.
const char *mst_plan_check(const struct mst_plan *plan);

#endif
