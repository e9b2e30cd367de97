// The plan of a shuffle: see plan.h.
//
// Stages only refer to earlier ones, so one pass from the last to the first finds what is needed.
// Only the tasks record which part is where; there are no other lists that could disagree.
#include "shuffle/plan_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_err.h"

void mst_plan_want(struct mst_plan *plan, uint32_t stage) {
  MST_ASSERT(mst_plan_is_stage(plan, stage));
  mst_plan_stage(plan, stage)->wanted = 1;
}

// ---- copies

static void set_idle(struct mst_plan *plan, uint32_t worker) {
  plan->workers[worker].attempt = 0;
}

static struct mst_plan_copy *find_copy(struct mst_plan_task *task,
                                       uint32_t attempt) {
  for (uint32_t k = 0; attempt != 0 && k < MST_PLAN_COPIES; k++) {
    if (task->copies[k].attempt == attempt) return &task->copies[k];
  }
  return NULL;
}

static void end_copy(struct mst_plan *plan, struct mst_plan_task *task,
                     struct mst_plan_copy *copy) {
  if (copies_of(task) > 1) plan->extra--;
  set_idle(plan, copy->worker);
  copy->attempt = 0;
  copy->cancel = 0;
}

// lose_task counts a failed attempt.
static void lose_task(struct mst_plan *plan, struct mst_plan_task *task) {
  plan->lost++;
  task->losses++;
  if (!mst_tries_left(task->losses, MST_PLAN_LOSSES_MAX) &&
      task->state == MST_PLAN_IDLE && copies_of(task) == 0) {
    task->state = MST_PLAN_FAILED;
  }
}

static void undo(struct mst_plan_stage *stage, struct mst_plan_task *task) {
  if (task->state == MST_PLAN_DONE) {
    stage->done--;
    stage->late_ns = 0;
  }
  task->state = MST_PLAN_IDLE;
}

void mst_plan_unwant(struct mst_plan *plan) {
  for (uint32_t i = 0; i < plan->live_count; i++) {
    const uint32_t s = plan->live[i];
    struct mst_plan_stage *stage = mst_plan_stage(plan, s);
    stage->wanted = stage->needed = 0;
    for (uint32_t t = 0; stage->tasks != NULL && t < stage->count; t++) {
      struct mst_plan_task *task = &stage->tasks[t];
      for (uint32_t k = 0; k < MST_PLAN_COPIES; k++) {
        if (task->copies[k].attempt != 0)
          end_copy(plan, task, &task->copies[k]);
      }
      task->losses = 0;
      if (task->state == MST_PLAN_FAILED) task->state = MST_PLAN_IDLE;
    }
  }
}

void mst_plan_forget(struct mst_plan *plan, uint32_t stage) {
  MST_ASSERT(mst_plan_is_stage(plan, stage));
  for (uint32_t t = 0; t < mst_plan_stage(plan, stage)->count; t++)
    undo(mst_plan_stage(plan, stage), &mst_plan_stage(plan, stage)->tasks[t]);
}

void mst_plan_retire(struct mst_plan *plan, uint32_t stage) {
  MST_ASSERT(mst_plan_is_stage(plan, stage));
  const struct mst_plan_stage *old = mst_plan_stage(plan, stage);
  for (uint32_t t = 0; t < old->count; t++)
    MST_ASSERT(copies_of(&old->tasks[t]) == 0);
  mst_plan_drop_stage(plan, stage);
}

// ---- events

// lose_worker takes back the outputs and attempts of a lost incarnation.
static void lose_worker(struct mst_plan *plan, uint32_t worker) {
  for (uint32_t i = 0; i < plan->live_count; i++) {
    const uint32_t s = plan->live[i];
    struct mst_plan_stage *stage = mst_plan_stage(plan, s);
    for (uint32_t t = 0; stage->tasks != NULL && t < stage->count; t++) {
      struct mst_plan_task *task = &stage->tasks[t];
      for (uint32_t k = 0; k < MST_PLAN_COPIES; k++) {
        struct mst_plan_copy *copy = &task->copies[k];
        if (copy->attempt == 0 || copy->worker != worker) continue;
        end_copy(plan, task, copy);
        lose_task(plan, task);
      }
      if (task->state == MST_PLAN_DONE && task->worker == worker) {
        undo(stage, task);
      }
    }
  }
}

void mst_plan_up(struct mst_plan *plan, uint32_t worker, uint32_t epoch) {
  MST_ASSERT(worker < plan->worker_count);
  struct mst_plan_worker *at = &plan->workers[worker];
  if (at->epoch != epoch) {
    lose_worker(plan, worker);
    at->doubt = 0;
  }
  at->epoch = epoch;
  at->up = 1;
  at->gone = 0;
}

void mst_plan_down(struct mst_plan *plan, uint32_t worker, int gone) {
  MST_ASSERT(worker < plan->worker_count);
  lose_worker(plan, worker);
  plan->workers[worker].up = 0;
  plan->workers[worker].gone = gone != 0;
}

static struct mst_plan_task *task_at(struct mst_plan *plan, uint32_t stage,
                                     uint32_t task) {
  if (!mst_plan_is_stage(plan, stage) ||
      task >= mst_plan_stage(plan, stage)->count)
    return NULL;
  return &mst_plan_stage(plan, stage)->tasks[task];
}

enum mst_plan_told mst_plan_done(struct mst_plan *plan, uint32_t stage,
                                 uint32_t index, uint32_t attempt,
                                 uint32_t epoch, int64_t now_ns) {
  struct mst_plan_task *task = task_at(plan, stage, index);
  if (task == NULL || attempt == 0 || attempt > task->attempts)
    return MST_PLAN_KNOWN;
  if (task->state == MST_PLAN_DONE && task->attempt == attempt)
    return MST_PLAN_KNOWN;
  struct mst_plan_copy *copy = find_copy(task, attempt);
  if (copy == NULL || copy->cancel || copy->epoch != epoch ||
      task->state != MST_PLAN_IDLE) {
    plan->late++;
    if (copy != NULL) end_copy(plan, task, copy);
    return MST_PLAN_LATE;
  }
  task->state = MST_PLAN_DONE;
  task->worker = copy->worker;
  task->epoch = copy->epoch;
  task->attempt = attempt;
  task->took_ns = now_ns > copy->since_ns ? now_ns - copy->since_ns : 1;
  plan->workers[copy->worker].doubt = 0;
  mst_plan_stage(plan, stage)->done++;
  mst_plan_stage(plan, stage)->late_ns = 0;
  plan->committed++;
  for (uint32_t k = 0; k < MST_PLAN_COPIES; k++) {
    struct mst_plan_copy *other = &task->copies[k];
    if (other->attempt == 0 || other == copy) continue;
    other->cancel = 1;
    if (other->attempt < attempt) plan->won++;
  }
  end_copy(plan, task, copy);
  return MST_PLAN_COMMITTED;
}

// is_open: it has no output, and nobody makes one.
static int is_open(const struct mst_plan_task *task) {
  if (task == NULL || task->state != MST_PLAN_IDLE) return 0;
  for (uint32_t k = 0; k < MST_PLAN_COPIES; k++) {
    if (task->copies[k].attempt != 0) return 0;
  }
  return 1;
}

// has_share tells whether a worker has as many outputs of a stage as each would of all of them.
static int has_share(const struct mst_plan *plan, uint32_t stage,
                     uint32_t worker) {
  const struct mst_plan_stage *at = mst_plan_stage(plan, stage);
  uint32_t there = 0, has = 0;
  for (uint32_t w = 0; w < plan->worker_count; w++)
    there += !plan->workers[w].gone;
  for (uint32_t t = 0; t < at->count; t++)
    has += at->tasks[t].state == MST_PLAN_DONE && at->tasks[t].worker == worker;
  return (uint64_t)has * there >= at->count;
}

uint32_t mst_plan_note(struct mst_plan *plan, uint32_t stage, uint32_t index,
                       uint32_t worker) {
  struct mst_plan_task *task = task_at(plan, stage, index);
  if (!is_open(task)) return 0;
  const int stays = worker == MST_PLAN_NONE || !has_share(plan, stage, worker);
  return stays ? ++task->attempts : 0;
}

enum mst_plan_told mst_plan_found(struct mst_plan *plan, uint32_t stage,
                                  uint32_t index, uint32_t attempt,
                                  uint32_t worker, uint32_t epoch) {
  struct mst_plan_task *task = task_at(plan, stage, index);
  if (!is_open(task) || attempt == 0 || attempt > task->attempts ||
      worker >= plan->worker_count || !plan->workers[worker].up ||
      plan->workers[worker].epoch != epoch)
    return MST_PLAN_LATE;
  task->state = MST_PLAN_DONE;
  task->worker = worker;
  task->epoch = epoch;
  task->attempt = attempt;
  mst_plan_stage(plan, stage)->done++;
  mst_plan_stage(plan, stage)->late_ns = 0;
  return MST_PLAN_COMMITTED;
}

void mst_plan_ended(struct mst_plan *plan, uint32_t stage, uint32_t index,
                    uint32_t attempt) {
  struct mst_plan_task *task = task_at(plan, stage, index);
  struct mst_plan_copy *copy = task == NULL ? NULL : find_copy(task, attempt);
  if (copy == NULL) return; // the worker was already lost
  end_copy(plan, task, copy);
  lose_task(plan, task);
}

void mst_plan_missed(struct mst_plan *plan, uint32_t stage, uint32_t index,
                     uint32_t attempt, uint32_t in_stage, uint32_t in_index,
                     uint32_t in_attempt) {
  struct mst_plan_task *task = task_at(plan, stage, index);
  struct mst_plan_task *input = task_at(plan, in_stage, in_index);
  struct mst_plan_copy *copy = task == NULL ? NULL : find_copy(task, attempt);
  if (input != NULL && input->state == MST_PLAN_DONE &&
      input->attempt == in_attempt) {
    undo(mst_plan_stage(plan, in_stage), input);
    lose_task(plan, input);
  }
  plan->missed++;
  if (copy != NULL) end_copy(plan, task, copy);
}

// ---- what is needed

static int has_all(const struct mst_plan *plan, uint32_t stage) {
  if (stage == MST_PLAN_NONE) return 1;
  return mst_plan_stage(plan, stage)->done ==
         mst_plan_stage(plan, stage)->count;
}

static int is_at(const struct mst_plan *plan, const struct mst_plan_task *task,
                 uint32_t worker) {
  return task->state == MST_PLAN_DONE && task->worker == worker &&
         task->epoch == plan->workers[worker].epoch;
}

int mst_plan_base(const struct mst_plan *plan, uint32_t stage, uint32_t task,
                  uint32_t worker, uint32_t *base) {
  for (*base = stage; mst_plan_stage(plan, *base)->near != MST_PLAN_NONE;) {
    *base = mst_plan_stage(plan, *base)->near;
    if (is_at(plan, &mst_plan_stage(plan, *base)->tasks[task], worker))
      return 1;
  }
  return 0;
}

// far_ready tells whether everything is there that a task reads from other workers if it runs at
// this one (MST_PLAN_NONE: at one without any of its near inputs).
static int far_ready(const struct mst_plan *plan, uint32_t stage, uint32_t task,
                     uint32_t worker) {
  for (uint32_t s = stage;;) {
    const struct mst_plan_stage *at = mst_plan_stage(plan, s);
    if (!has_all(plan, at->far[0]) || !has_all(plan, at->far[1])) return 0;
    s = at->near;
    if (s == MST_PLAN_NONE) return 1;
    if (worker != MST_PLAN_NONE &&
        is_at(plan, &mst_plan_stage(plan, s)->tasks[task], worker)) {
      return 1;
    }
  }
}

// need_inputs marks the stages that a task needs before it can run.
static void need_inputs(struct mst_plan *plan, uint32_t stage, uint32_t task) {
  for (uint32_t s = stage; s != MST_PLAN_NONE;
       s = mst_plan_stage(plan, s)->near) {
    const struct mst_plan_stage *at = mst_plan_stage(plan, s);
    if (s != stage && at->tasks[task].state == MST_PLAN_DONE) return;
    for (int k = 0; k < 2; k++) {
      if (at->far[k] != MST_PLAN_NONE)
        mst_plan_stage(plan, at->far[k])->needed = 1;
    }
  }
}

static void find_needed(struct mst_plan *plan, int64_t now_ns) {
  for (uint32_t i = 0; i < plan->live_count; i++) {
    struct mst_plan_stage *stage = mst_plan_stage(plan, plan->live[i]);
    stage->needed = stage->wanted;
  }
  for (uint32_t i = plan->live_count; i-- > 0;) {
    const uint32_t s = plan->live[i];
    struct mst_plan_stage *stage = mst_plan_stage(plan, s);
    if (!stage->needed || stage->done == stage->count) continue;
    for (uint32_t t = 0; t < stage->count; t++) {
      // A running task has read its inputs, or will report that it couldn't; but a stopped worker
      // reports nothing, and the inputs that it had read may be lost for a copy.
      const struct mst_plan_task *task = &stage->tasks[t];
      const int waits = task->state == MST_PLAN_IDLE && copies_of(task) == 0;
      if (waits || mst_plan_wants_copy(stage, task, now_ns)) {
        need_inputs(plan, s, t);
      }
    }
  }
}

// ---- which worker

static int can_take(const struct mst_plan *plan, uint32_t worker) {
  return plan->workers[worker].up && plan->workers[worker].attempt == 0;
}

static int has_idle(const struct mst_plan *plan) {
  for (uint32_t w = 0; w < plan->worker_count; w++) {
    if (can_take(plan, w)) return 1;
  }
  return 0;
}

// home_of gives the worker that has a task's near input, or MST_PLAN_NONE.
static uint32_t home_of(const struct mst_plan *plan, uint32_t stage,
                        uint32_t task) {
  for (uint32_t s = mst_plan_stage(plan, stage)->near; s != MST_PLAN_NONE;
       s = mst_plan_stage(plan, s)->near) {
    const struct mst_plan_task *near = &mst_plan_stage(plan, s)->tasks[task];
    if (near->state == MST_PLAN_DONE) return near->worker;
  }
  return MST_PLAN_NONE;
}

// other_worker gives a worker that may take the task now and doesn't run it already, preferably one
// that isn't in doubt. MST_PLAN_NONE: there is none.
static uint32_t other_worker(const struct mst_plan *plan, uint32_t stage,
                             uint32_t index) {
  const struct mst_plan_task *task = &mst_plan_stage(plan, stage)->tasks[index];
  uint32_t found = MST_PLAN_NONE;
  for (uint32_t k = 0; k < plan->worker_count; k++) {
    const uint32_t worker = (index + k) % plan->worker_count;
    if (!can_take(plan, worker)) continue;
    int has_it = 0;
    for (uint32_t c = 0; c < MST_PLAN_COPIES; c++) {
      has_it |=
          task->copies[c].attempt != 0 && task->copies[c].worker == worker;
    }
    if (has_it || !far_ready(plan, stage, index, worker)) continue;
    if (!plan->workers[worker].doubt) return worker;
    if (found == MST_PLAN_NONE) found = worker;
  }
  return found;
}

// free_worker gives a worker that may take a task now, or MST_PLAN_NONE. at_home: the one that has
// the task's near input; else any, for a task that has none.
static uint32_t free_worker(const struct mst_plan *plan, uint32_t stage,
                            uint32_t task, int at_home) {
  const uint32_t home = home_of(plan, stage, task);
  if (at_home != (home != MST_PLAN_NONE)) return MST_PLAN_NONE;
  if (at_home) {
    return can_take(plan, home) && far_ready(plan, stage, task, home)
               ? home
               : MST_PLAN_NONE;
  }
  if (!far_ready(plan, stage, task, MST_PLAN_NONE)) return MST_PLAN_NONE;
  return other_worker(plan, stage, task);
}

static int run(struct mst_plan *plan, uint32_t stage, uint32_t index,
               uint32_t worker, int64_t now_ns,
               struct mst_plan_action *action) {
  struct mst_plan_task *task = &mst_plan_stage(plan, stage)->tasks[index];
  uint32_t k = 0;
  while (task->copies[k].attempt != 0)
    k++;
  MST_ASSERT(k < MST_PLAN_COPIES);
  const int is_extra = copies_of(task) > 0;
  struct mst_plan_worker *at = &plan->workers[worker];
  task->copies[k] = (struct mst_plan_copy){.attempt = ++task->attempts,
                                           .worker = worker,
                                           .epoch = at->epoch,
                                           .since_ns = now_ns};
  at->stage = stage;
  at->task = index;
  at->attempt = task->attempts;
  plan->attempts++;
  plan->extra += (uint32_t)is_extra;
  plan->speculated += (uint64_t)is_extra;
  *action = (struct mst_plan_action){MST_PLAN_RUN,   stage,  index,
                                     task->attempts, worker, at->epoch};
  return 1;
}

// start_task starts the first task of a stage for which a worker is free.
static int start_task(struct mst_plan *plan, uint32_t s, int at_home,
                      int64_t now_ns, struct mst_plan_action *action) {
  const struct mst_plan_stage *stage = mst_plan_stage(plan, s);
  for (uint32_t k = 0; k < stage->count; k++) {
    const uint32_t t = stage->order == NULL ? k : stage->order[k];
    const struct mst_plan_task *task = &stage->tasks[t];
    if (task->state != MST_PLAN_IDLE || copies_of(task) > 0) continue;
    const uint32_t worker = free_worker(plan, s, t, at_home);
    if (worker != MST_PLAN_NONE) return run(plan, s, t, worker, now_ns, action);
  }
  return 0;
}

// next_run starts a task. Those whose input is at a free worker come first: what a worker has lost
// is then made again by one that has nothing else to do, mostly the new one. If all took it as it
// comes, a worker would end up with most parts, and be waited for by each later stage.
static int next_run(struct mst_plan *plan, int64_t now_ns,
                    struct mst_plan_action *action) {
  for (uint32_t i = 0; i < plan->live_count; i++) {
    const uint32_t s = plan->live[i];
    const struct mst_plan_stage *stage = mst_plan_stage(plan, s);
    if (!stage->needed || stage->done == stage->count) continue;
    if (stage->near != MST_PLAN_NONE && start_task(plan, s, 1, now_ns, action))
      return 1;
    if (start_task(plan, s, 0, now_ns, action)) return 1;
  }
  return 0;
}

// is_stuck tells whether a worker's task is late: then tasks that wait for this worker may run
// elsewhere.
static int is_stuck(struct mst_plan *plan, uint32_t worker, int64_t now_ns) {
  const struct mst_plan_worker *at = &plan->workers[worker];
  if (at->attempt == 0) return 0;
  struct mst_plan_stage *stage = mst_plan_stage(plan, at->stage);
  const struct mst_plan_task *task = &stage->tasks[at->task];
  for (uint32_t k = 0; k < MST_PLAN_COPIES; k++) {
    const struct mst_plan_copy *copy = &task->copies[k];
    if (copy->attempt != at->attempt) continue;
    const int64_t runs_ns = now_ns - copy->since_ns;
    // Its stage doesn't tell yet how long it should take: it may wait for another stuck worker.
    if (stage->done == 0) return runs_ns >= MST_PLAN_STUCK_NS;
    return runs_ns >= MST_PLAN_LATE_NS && runs_ns >= mst_plan_late_ns(stage);
  }
  return 0;
}

// find_stuck gives the next stuck worker, starting with `from`. MST_PLAN_NONE if there is none, or
// if no worker is idle.
static uint32_t find_stuck(struct mst_plan *plan, uint32_t from,
                           int64_t now_ns) {
  for (uint32_t w = has_idle(plan) ? from : plan->worker_count;
       w < plan->worker_count; w++) {
    if (is_stuck(plan, w, now_ns)) return w;
  }
  return MST_PLAN_NONE;
}

// move_from runs a task elsewhere that waits for this worker.
static int move_from(struct mst_plan *plan, uint32_t stuck, int64_t now_ns,
                     struct mst_plan_action *action) {
  for (uint32_t i = 0; i < plan->live_count; i++) {
    const uint32_t s = plan->live[i];
    const struct mst_plan_stage *stage = mst_plan_stage(plan, s);
    if (!stage->needed || !stage->speculate || stage->done == stage->count) {
      continue;
    }
    for (uint32_t t = 0; t < stage->count; t++) {
      const struct mst_plan_task *task = &stage->tasks[t];
      if (task->state != MST_PLAN_IDLE || copies_of(task) > 0 ||
          home_of(plan, s, t) != stuck) {
        continue;
      }
      const uint32_t worker = other_worker(plan, s, t);
      if (worker != MST_PLAN_NONE) {
        return run(plan, s, t, worker, now_ns, action);
      }
    }
  }
  return 0;
}

// next_moved runs a task elsewhere if its worker is stuck in another one. Otherwise a stage would
// never reach the three quarters after which late tasks get copies.
static int next_moved(struct mst_plan *plan, int64_t now_ns,
                      struct mst_plan_action *action) {
  uint32_t stuck = find_stuck(plan, 0, now_ns);
  while (stuck != MST_PLAN_NONE) {
    if (move_from(plan, stuck, now_ns, action)) return 1;
    stuck = find_stuck(plan, stuck + 1, now_ns);
  }
  return 0;
}

static int next_copy(struct mst_plan *plan, int64_t now_ns,
                     struct mst_plan_action *action) {
  if (plan->extra >= mst_late_most(&mst_plan_late_rule, plan->worker_count) ||
      !has_idle(plan)) {
    return 0;
  }
  for (uint32_t i = 0; i < plan->live_count; i++) {
    const uint32_t s = plan->live[i];
    struct mst_plan_stage *stage = mst_plan_stage(plan, s);
    if (!stage->needed || !mst_plan_may_copy(stage)) continue;
    for (uint32_t t = 0; t < stage->count; t++) {
      const struct mst_plan_task *task = &stage->tasks[t];
      if (!mst_plan_wants_copy(stage, task, now_ns)) continue;
      const uint32_t worker = other_worker(plan, s, t);
      if (worker != MST_PLAN_NONE) {
        return run(plan, s, t, worker, now_ns, action);
      }
    }
  }
  return 0;
}

// ---- actions

static int next_cancel(struct mst_plan *plan, struct mst_plan_action *action) {
  for (uint32_t w = 0; w < plan->worker_count; w++) {
    const struct mst_plan_worker *at = &plan->workers[w];
    if (at->attempt == 0) continue;
    struct mst_plan_task *task = task_at(plan, at->stage, at->task);
    struct mst_plan_copy *copy = find_copy(task, at->attempt);
    if (copy == NULL || !copy->cancel) continue;
    *action = (struct mst_plan_action){MST_PLAN_CANCEL, at->stage, at->task,
                                       copy->attempt,   w,         copy->epoch};
    end_copy(plan, task, copy);
    plan->workers[w].doubt = 1;
    return 1;
  }
  return 0;
}

static int next_failed(const struct mst_plan *plan,
                       struct mst_plan_action *action) {
  uint32_t left = 0;
  for (uint32_t w = 0; w < plan->worker_count; w++)
    left += !plan->workers[w].gone;
  for (uint32_t i = 0; i < plan->live_count; i++) {
    const uint32_t s = plan->live[i];
    const struct mst_plan_stage *stage = mst_plan_stage(plan, s);
    if (!stage->needed || stage->done == stage->count) continue;
    for (uint32_t t = 0; t < stage->count; t++) {
      const struct mst_plan_task *task = &stage->tasks[t];
      if (task->state == MST_PLAN_DONE) continue;
      if (task->state != MST_PLAN_FAILED && left > 0) continue;
      *action = (struct mst_plan_action){
          .kind = MST_PLAN_FAIL, .stage = s, .task = t};
      return 1;
    }
  }
  return 0;
}

static int is_finished(const struct mst_plan *plan) {
  for (uint32_t i = 0; i < plan->live_count; i++) {
    const uint32_t s = plan->live[i];
    const struct mst_plan_stage *stage = mst_plan_stage(plan, s);
    if (stage->wanted && stage->done < stage->count) return 0;
  }
  return 1;
}

int mst_plan_next(struct mst_plan *plan, int64_t now_ns,
                  struct mst_plan_action *action) {
  if (next_cancel(plan, action)) return 1;
  if (is_finished(plan)) {
    *action = (struct mst_plan_action){.kind = MST_PLAN_FINISHED};
    return 1;
  }
  find_needed(plan, now_ns);
  if (next_failed(plan, action)) return 1;
  return next_run(plan, now_ns, action) || next_moved(plan, now_ns, action) ||
         next_copy(plan, now_ns, action);
}
