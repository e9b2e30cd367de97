// Which tasks are late: see plan.h and plan_int.h.
#include "shuffle/plan_int.h"

const struct mst_late_rule mst_plan_late_rule = {.floor_ns = MST_PLAN_LATE_NS,
                                                 .least = 1};

// median_ns of the times of a stage's finished tasks, found by bisection: needs no memory.
static int64_t median_ns(const struct mst_plan_stage *stage) {
  int64_t low = 0, high = INT64_MAX / 4;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    uint32_t below = 0;
    for (uint32_t t = 0; t < stage->count; t++) {
      const struct mst_plan_task *task = &stage->tasks[t];
      below += task->state == MST_PLAN_DONE && task->took_ns <= middle;
    }
    if (2 * below >= stage->done) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

static int64_t youngest_ns(const struct mst_plan_task *task) {
  int64_t since_ns = INT64_MIN;
  for (uint32_t k = 0; k < MST_PLAN_COPIES; k++) {
    const struct mst_plan_copy *copy = &task->copies[k];
    if (copy->attempt != 0 && copy->since_ns > since_ns) {
      since_ns = copy->since_ns;
    }
  }
  return since_ns;
}

int64_t mst_plan_work_out_late(const struct mst_plan_stage *stage) {
  if (stage->done == 0) return INT64_MAX;
  return mst_late_after(&mst_plan_late_rule, median_ns(stage));
}

int64_t mst_plan_late_ns(struct mst_plan_stage *stage) {
  if (stage->late_ns == 0) stage->late_ns = mst_plan_work_out_late(stage);
  return stage->late_ns;
}

int mst_plan_may_copy(const struct mst_plan_stage *stage) {
  return stage->speculate && stage->done < stage->count &&
         mst_late_is_tail(stage->count - stage->done, stage->count);
}

int mst_plan_wants_copy(struct mst_plan_stage *stage,
                        const struct mst_plan_task *task, int64_t now_ns) {
  const uint32_t copies = copies_of(task);
  return task->state == MST_PLAN_IDLE && copies > 0 &&
         copies < MST_PLAN_COPIES && mst_plan_may_copy(stage) &&
         now_ns - youngest_ns(task) >= mst_plan_late_ns(stage);
}
