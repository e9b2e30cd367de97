// The order in which a stage's tasks start: see plan.h.
#include "shuffle/plan_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_err.h"

int mst_plan_order(struct mst_plan *plan, uint32_t stage, const uint32_t *order,
                   uint32_t count) {
  if (stage >= plan->stage_count ||
      mst_plan_stage(plan, stage)->tasks == NULL ||
      mst_plan_stage(plan, stage)->count != count) {
    return -MST_EINPUT;
  }
  uint32_t *copy = malloc(count * sizeof *copy);
  unsigned char *seen = calloc(count, 1);
  int rc = copy == NULL || seen == NULL ? -MST_EMEM : 0;
  for (uint32_t k = 0; rc == 0 && k < count; k++) {
    if (order[k] >= count || seen[order[k]]) {
      rc = -MST_EINPUT;
    } else {
      seen[order[k]] = 1;
    }
  }
  free(seen);
  if (rc != 0) {
    free(copy);
    return rc;
  }
  memcpy(copy, order, count * sizeof *copy);
  free(mst_plan_stage(plan, stage)->order);
  mst_plan_stage(plan, stage)->order = copy;
  return 0;
}
