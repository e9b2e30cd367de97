// A forked process becomes a worker. See child.h.
//
// Until its watch runs, the worker could outlive a session that dies: so until then it asks to die
// with its parent, the server, which does notice. Afterwards it must not: losing the server must
// not lose workers. From then on it only asks for a SIGCONT, since a stopped process doesn't notice
// that its session is gone.
#include "fork/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "fork/fork.h"

#define FD_FLOOR 16

static void plain_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_DFL;
  // Reset only the server's own handlers; R's stay.
  (void)sigaction(SIGCHLD, &action, NULL);
  (void)sigaction(SIGTERM, &action, NULL);
  (void)sigaction(SIGCONT, &action, NULL);
  sigset_t none;
  (void)sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int place_fds(const int fds[3]) {
  int from[3];
  for (int i = 0; i < 3; i++) {
    from[i] = mst_proc_dup(fds[i], FD_FLOOR);
    if (from[i] < 0) return -1;
  }
  const int null_fd = open("/dev/null", O_RDONLY);
  if (null_fd < 0) return -1;
  if (null_fd != STDIN_FILENO && dup2(null_fd, STDIN_FILENO) < 0) return -1;
  if (dup2(from[2], STDOUT_FILENO) < 0) return -1;
  if (dup2(from[2], STDERR_FILENO) < 0) return -1;
  return mst_fds_place(from[0], from[1]);
}

int mst_child_become(const int fds[3], pid_t server, pid_t session,
                     struct mst_err *err) {
  mst_thread_mark_r();
  (void)setpgid(0, 0);
  mst_proc_die_with_parent(SIGKILL);
  if (getppid() != server) {
    return mst_err_set(err, MST_ECLOSED, 0, "getppid", "the server is gone");
  }
  plain_signals();
  if (place_fds(fds) != 0) {
    return mst_err_set(err, MST_ESYS, errno, "dup2", "%s", strerror(errno));
  }
  // The server keeps the session's pidfd, if any, at the same number.
  const int rc =
      mst_watch_start(MST_FD_CONTROL, mst_fds_session(), session, err);
  if (rc != 0) return rc;
  mst_proc_die_with_parent(SIGCONT);
  return 0;
}
