// Processes on systems that lack features of proc_linux.c. See fork.h.
#include <unistd.h>

#include "base/mst_features.h"
#include "fork/fork.h"

#if !MST_HAVE_PIDFD
int mst_proc_pidfd(pid_t pid) {
  (void)pid;
  return -1; // the watch checks for the session twice a second instead
}
#endif

#if !MST_HAVE_PDEATHSIG
void mst_proc_die_with_parent(int signal) { (void)signal; }
#endif

#if !MST_HAVE_FORK
// Here no fork server leaves orphaned workers.
int mst_proc_adopts(void) { return 0; }
int mst_proc_adopt(void) { return -MST_ESYS; }
#endif

// sysconf() gives the soft limit; files opened under a higher limit stay open, but muster's are
// close-on-exec.
void mst_proc_close_each(int lowest) {
  long last = sysconf(_SC_OPEN_MAX);
  if (last < 0 || last > 65536) last = 65536;
  for (int fd = lowest; fd < (int)last; fd++)
    (void)close(fd);
}

#if !MST_HAVE_CLOSE_RANGE
void mst_proc_close_from(int lowest) { mst_proc_close_each(lowest); }
#endif

#if !MST_HAVE_PROC
void mst_proc_title(const char *title) { (void)title; }

void mst_proc_expendable(int more) { (void)more; }

uint64_t mst_proc_resident(void) { return 0; }

int mst_proc_threads(void) { return -1; }

int mst_proc_thread(void) { return 0; }

int mst_proc_activity(int thread, struct mst_activity *activity) {
  (void)thread;
  (void)activity;
  return -1;
}

int mst_proc_runs(pid_t pid) {
  (void)pid;
  return 0;
}

int mst_proc_exits(pid_t pid) {
  (void)pid;
  return -1;
}

int64_t mst_proc_oom_kills(void) { return -1; }
#endif

int mst_proc_can_fork(void) { return MST_HAVE_FORK; }
