// Fault points of test builds. See mst_fault.h.
#include "base/mst_fault.h"

#ifdef MST_FAULTS
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

// Only calls of the thread that arms a point fail.
static _Thread_local char armed[48];
static _Thread_local int armed_nth;
static _Thread_local int armed_errno;
static _Thread_local int met;

// Fails in whichever thread meets it first.
static char any_armed[48];
static atomic_int any_left; // 1: armed, 0: not armed, or met

static int arm_any(const char *point) {
  const int met_before = any_armed[0] != '\0' && atomic_load(&any_left) == 0;
  atomic_store(&any_left, 0);
  any_armed[0] = '\0';
  strncat(any_armed, point, sizeof any_armed - 1);
  atomic_store(&any_left, any_armed[0] != '\0');
  return met_before;
}

static int is_any(const char *point) {
  if (atomic_load(&any_left) == 0 || strcmp(point, any_armed) != 0) return 0;
  return atomic_exchange(&any_left, 0) == 1;
}

int mst_fault_arm(const char *point, int nth, int sys_errno) {
  if (nth < 0) return arm_any(point);
  const int met_before = met;
  met = 0;
  armed_nth = nth;
  armed_errno = sys_errno;
  armed[0] = '\0';
  if (nth > 0) strncat(armed, point, sizeof armed - 1);
  return met_before;
}

int mst_fault(const char *point) {
  if (is_any(point)) return 1;
  if (armed_nth == 0 || strcmp(point, armed) != 0) return 0;
  met++;
  if (met != armed_nth) return 0;
  errno = armed_errno != 0 ? armed_errno : ENOMEM;
  return 1;
}
#else
// A translation unit must hold something.
typedef int mst_fault_unused;
#endif
