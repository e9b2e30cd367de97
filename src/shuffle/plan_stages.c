// A plan's memory for stages and workers: see plan.h.
#include "shuffle/plan_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_err.h"

int mst_plan_init(struct mst_plan *plan, uint32_t workers) {
  memset(plan, 0, sizeof *plan);
  return mst_plan_workers(plan, workers);
}

struct mst_plan_stage *mst_plan_stage(const struct mst_plan *plan,
                                      uint32_t stage) {
  static struct mst_plan_stage retired;
  MST_ASSERT(stage < plan->stage_count);
  struct mst_plan_stage *block = plan->blocks[stage / MST_PLAN_BLOCK];
  if (block != NULL) return &block[stage % MST_PLAN_BLOCK];
  retired = (struct mst_plan_stage){.near = MST_PLAN_NONE,
                                    .far = {MST_PLAN_NONE, MST_PLAN_NONE}};
  return &retired;
}

static uint32_t blocks_of(const struct mst_plan *plan) {
  return (plan->stage_count + MST_PLAN_BLOCK - 1) / MST_PLAN_BLOCK;
}

void mst_plan_drop_stage(struct mst_plan *plan, uint32_t stage) {
  struct mst_plan_stage *old = mst_plan_stage(plan, stage);
  free(old->tasks);
  free(old->order);
  *old = (struct mst_plan_stage){.near = MST_PLAN_NONE,
                                 .far = {MST_PLAN_NONE, MST_PLAN_NONE}};
  uint32_t at = 0;
  while (plan->live[at] != stage)
    at++;
  plan->live_count--;
  memmove(plan->live + at, plan->live + at + 1,
          (plan->live_count - at) * sizeof *plan->live);
  const uint32_t first = stage - stage % MST_PLAN_BLOCK;
  if (plan->stage_count - first < MST_PLAN_BLOCK) return; // more will come
  for (uint32_t s = first; s < first + MST_PLAN_BLOCK; s++) {
    if (mst_plan_stage(plan, s)->tasks != NULL) return;
  }
  free(plan->blocks[first / MST_PLAN_BLOCK]);
  plan->blocks[first / MST_PLAN_BLOCK] = NULL;
}

// make_room for one more stage. 0, -MST_EMEM.
static int make_room(struct mst_plan *plan) {
  if (plan->live_count == plan->live_cap) {
    const uint32_t cap = plan->live_cap == 0 ? 16 : 2 * plan->live_cap;
    uint32_t *live = realloc(plan->live, cap * sizeof *live);
    if (live == NULL) return -MST_EMEM;
    plan->live = live;
    plan->live_cap = cap;
  }
  if (plan->stage_count % MST_PLAN_BLOCK != 0) return 0;
  const uint32_t count = blocks_of(plan);
  struct mst_plan_stage **blocks =
      realloc(plan->blocks, (count + 1) * sizeof *blocks);
  if (blocks == NULL) return -MST_EMEM;
  plan->blocks = blocks;
  blocks[count] = calloc(MST_PLAN_BLOCK, sizeof *blocks[count]);
  return blocks[count] == NULL ? -MST_EMEM : 0;
}

void mst_plan_free(struct mst_plan *plan) {
  while (plan->live_count > 0)
    mst_plan_drop_stage(plan, plan->live[plan->live_count - 1]);
  for (uint32_t b = 0; b < blocks_of(plan); b++)
    free(plan->blocks[b]); // the last one may be partly filled
  free(plan->blocks);
  free(plan->live);
  free(plan->workers);
  memset(plan, 0, sizeof *plan);
}

int mst_plan_workers(struct mst_plan *plan, uint32_t workers) {
  if (workers <= plan->worker_count) return 0;
  struct mst_plan_worker *more =
      realloc(plan->workers, workers * sizeof *plan->workers);
  if (more == NULL) return -MST_EMEM;
  memset(more + plan->worker_count, 0,
         (workers - plan->worker_count) * sizeof *more);
  plan->workers = more;
  plan->worker_count = workers;
  return 0;
}

int mst_plan_is_stage(const struct mst_plan *plan, uint32_t stage) {
  return stage < plan->stage_count &&
         mst_plan_stage(plan, stage)->tasks != NULL;
}

int mst_plan_add(struct mst_plan *plan, uint32_t count, uint32_t near,
                 const uint32_t far[2], int speculate, uint32_t *stage) {
  if (count == 0 || count > MST_PLAN_TASKS_MAX) return -MST_ELIMIT;
  if (near != MST_PLAN_NONE && (!mst_plan_is_stage(plan, near) ||
                                mst_plan_stage(plan, near)->count != count)) {
    return -MST_EINPUT;
  }
  for (int k = 0; k < 2; k++) {
    if (far[k] != MST_PLAN_NONE && !mst_plan_is_stage(plan, far[k]))
      return -MST_EINPUT;
  }
  if (make_room(plan) != 0) return -MST_EMEM;
  struct mst_plan_task *tasks = calloc(count, sizeof *tasks);
  if (tasks == NULL) return -MST_EMEM;
  plan->live[plan->live_count++] = plan->stage_count;
  *stage = plan->stage_count++;
  *mst_plan_stage(plan, *stage) =
      (struct mst_plan_stage){.tasks = tasks,
                              .count = count,
                              .near = near,
                              .far = {far[0], far[1]},
                              .speculate = speculate != 0};
  return 0;
}
