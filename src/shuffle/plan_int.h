// Shared by the files of the plan.
#ifndef MST_SHUFFLE_PLAN_INT_H
#define MST_SHUFFLE_PLAN_INT_H

#include "shuffle/plan.h"

// copies_of gives the number of running copies of a task.
static inline uint32_t copies_of(const struct mst_plan_task *task) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < MST_PLAN_COPIES; k++)
    n += task->copies[k].attempt != 0;
  return n;
}

// When tasks are late, and how many copies may run.
extern const struct mst_late_rule mst_plan_late_rule;

// ---- plan_stages.c

int mst_plan_is_stage(const struct mst_plan *plan, uint32_t stage);
// mst_plan_drop_stage frees a live stage's tasks, and its block after the last of its stages.
void mst_plan_drop_stage(struct mst_plan *plan, uint32_t stage);

// ---- plan_late.c

// mst_plan_late_ns gives how long a task of a stage may run before it is late, INT64_MAX while the
// stage tells nothing. Recomputed after a task was done or lost: O(tasks) then.
int64_t mst_plan_late_ns(struct mst_plan_stage *stage);
int64_t mst_plan_work_out_late(const struct mst_plan_stage *stage);
// mst_plan_may_copy tells whether enough of a stage is done that late tasks get copies.
int mst_plan_may_copy(const struct mst_plan_stage *stage);
// mst_plan_wants_copy tells whether a task is late and another copy of it may run.
int mst_plan_wants_copy(struct mst_plan_stage *stage,
                        const struct mst_plan_task *task, int64_t now_ns);

#endif
