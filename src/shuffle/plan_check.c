// A plan's invariants after each event, for tests and simulation. See plan.h.
#include "shuffle/plan_int.h"

#include <stddef.h>

static const char *check_copies(const struct mst_plan *plan, uint32_t s,
                                uint32_t t, uint32_t *extra) {
  const struct mst_plan_task *task = &mst_plan_stage(plan, s)->tasks[t];
  const uint32_t copies = copies_of(task);
  *extra += copies > 1 ? copies - 1 : 0;
  for (uint32_t k = 0; k < MST_PLAN_COPIES; k++) {
    const struct mst_plan_copy *copy = &task->copies[k];
    if (copy->attempt == 0) continue;
    if (copy->attempt > task->attempts) return "a copy has no attempt's number";
    const struct mst_plan_worker *at = &plan->workers[copy->worker];
    if (at->attempt != copy->attempt || at->stage != s || at->task != t) {
      return "a copy's worker runs something else";
    }
    if (at->epoch != copy->epoch || !at->up) return "a copy is of another time";
    if (task->state == MST_PLAN_DONE && !copy->cancel) {
      return "a copy runs although its task is done";
    }
  }
  return NULL;
}

static const char *check_stage(const struct mst_plan *plan, uint32_t s,
                               uint32_t *copies, uint32_t *extra) {
  const struct mst_plan_stage *stage = mst_plan_stage(plan, s);
  uint32_t done = 0;
  for (uint32_t t = 0; stage->tasks != NULL && t < stage->count; t++) {
    const struct mst_plan_task *task = &stage->tasks[t];
    const char *wrong = check_copies(plan, s, t, extra);
    if (wrong != NULL) return wrong;
    *copies += copies_of(task);
    if (task->state != MST_PLAN_DONE) continue;
    done++;
    const struct mst_plan_worker *at = &plan->workers[task->worker];
    if (!at->up || at->epoch != task->epoch) {
      return "an output is where nobody is";
    }
    if (task->attempt == 0 || task->attempt > task->attempts) {
      return "an output of no attempt";
    }
  }
  if (done != stage->done) return "a stage's count of outputs is wrong";
  if (stage->late_ns != 0 && stage->late_ns != mst_plan_work_out_late(stage)) {
    return "when tasks are late is of another time";
  }
  return NULL;
}

const char *mst_plan_check(const struct mst_plan *plan) {
  uint32_t copies = 0, busy = 0, extra = 0;
  for (uint32_t i = 0; i < plan->live_count; i++) {
    const uint32_t s = plan->live[i];
    const char *wrong = check_stage(plan, s, &copies, &extra);
    if (wrong != NULL) return wrong;
  }
  for (uint32_t w = 0; w < plan->worker_count; w++) {
    busy += plan->workers[w].attempt != 0;
    if (plan->workers[w].up && plan->workers[w].gone) {
      return "a worker is there and gone";
    }
  }
  if (busy != copies) return "a worker runs what the plan doesn't know";
  if (extra != plan->extra) return "copies are counted wrong";
  return NULL;
}
