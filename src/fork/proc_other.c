// Processes where there is neither pidfd nor a parent-death signal. See fork.h.
#ifndef __linux__
#include <unistd.h>

#include "fork/fork.h"

int mst_proc_pidfd(pid_t pid) {
  (void)pid;
  return -1; // the watch looks for the session twice a second instead
}

void mst_proc_die_with_parent(int signal) { (void)signal; }

void mst_proc_close_from(int lowest) {
  long last = sysconf(_SC_OPEN_MAX);
  if (last < 0 || last > 65536) last = 65536;
  for (int fd = lowest; fd < (int)last; fd++)
    (void)close(fd);
}

void mst_proc_title(const char *title) { (void)title; }

int mst_proc_threads(void) { return -1; }

int64_t mst_proc_oom_kills(void) { return -1; }

// macOS aborts a forked child that enters CoreFoundation, and R's BLAS there
// (Accelerate) does: workers are booted.
int mst_proc_can_fork(void) { return 0; }
#else
typedef int mst_proc_other_unused; // a translation unit must hold something
#endif
