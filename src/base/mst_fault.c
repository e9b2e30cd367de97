// Fault points of test builds. See mst_fault.h.
#include "base/mst_fault.h"

#ifdef MST_FAULTS
#include <errno.h>
#include <string.h>

// The thread that arms a point is the one whose calls fail.
static _Thread_local char armed[48];
static _Thread_local int armed_nth;
static _Thread_local int armed_errno;
static _Thread_local int met;

int mst_fault_arm(const char *point, int nth, int sys_errno) {
  const int met_before = met;
  met = 0;
  armed_nth = nth;
  armed_errno = sys_errno;
  armed[0] = '\0';
  if (nth > 0) strncat(armed, point, sizeof armed - 1);
  return met_before;
}

int mst_fault(const char *point) {
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
