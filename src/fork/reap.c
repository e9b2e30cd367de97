// Waits for one child. See fork.h.
//
// waitid() with WNOWAIT first: the ended process stays a zombie, so its pid, which is also the
// number of its process group, can't be reused while the rest of the group is killed.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "fork/fork.h"

static int reap(pid_t pid, int alone, uint32_t *how, int32_t *number) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  int rc;
  do {
    rc = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) {
    *how = MST_EXIT_UNKNOWN; // ECHILD: another wait() took it
    *number = 0;
    return -MST_ECLOSED;
  }
  if (info.si_pid == 0) return 0;
  const int ended_well = info.si_code == CLD_EXITED && info.si_status == 0;
  if (!alone || !ended_well) (void)kill(-pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    continue;
  const int exited = WIFEXITED(status);
  *how = exited ? MST_EXIT_CODE : MST_EXIT_SIGNAL;
  *number = exited ? WEXITSTATUS(status) : WTERMSIG(status);
  return 1;
}

int mst_reap(pid_t pid, uint32_t *how, int32_t *number) {
  return reap(pid, 0, how, number);
}

int mst_reap_alone(pid_t pid, uint32_t *how, int32_t *number) {
  return reap(pid, 1, how, number);
}
