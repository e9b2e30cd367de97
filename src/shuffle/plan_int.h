// What plan.c and plan_check.c share.
#ifndef MST_SHUFFLE_PLAN_INT_H
#define MST_SHUFFLE_PLAN_INT_H

#include "shuffle/plan.h"

// copies_of gives how many copies of a task run.
static inline uint32_t copies_of(const struct mst_plan_task *task) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < MST_PLAN_COPIES; k++)
    n += task->copies[k].attempt != 0;
  return n;
}

#endif
