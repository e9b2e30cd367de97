// mst_fds: the numbers of descriptors in servers and workers. In a child of its own each
// time, since numbers belong to a process.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork/fork.h"
#include "mst_test.h"

// boot makes this process like a fork server that runs R: /dev/null as standard input, a channel,
// the reserved numbers, and R's script at the number that it returns.
static int boot(void) {
  int pair[2];
  const int null_fd = open("/dev/null", O_RDONLY);
  if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0) return -1;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return -1;
  const int from = mst_proc_dup(pair[0], 16);
  if (dup2(from, MST_FD_DATA) < 0) return -1;
  mst_proc_close_from(MST_FD_CONTROL);
  if (mst_fds_reserve(MST_FD_CONTROL) != 0) return -1;
  if (mst_fds_reserve(MST_FD_SESSION) != 0) return -1;
  return open("Makefile", O_RDONLY);
}

// ends_with returns the exit status of a child that runs this; 99 if boot() failed.
static int ends_with(int (*work)(int script)) {
  (void)fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    const int script = boot();
    _exit(script < 0 ? 99 : work(script));
  }
  int status = 0;
  CHECK_INT(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static int reserved_is_no_pidfd(int script) {
  if (script != MST_FD_SESSION + 1) return 1; // the first that was free
  if (mst_fds_session() != -1) return 2;
  const int pidfd = mst_proc_pidfd(getppid());
  if (pidfd < 0) return 0; // none on this system
  if (dup2(pidfd, MST_FD_SESSION) < 0) return 3;
  return mst_fds_session() == MST_FD_SESSION ? 0 : 4;
}

TEST("a merely reserved number isn't taken for the session's pidfd") {
  CHECK_INT(ends_with(reserved_is_no_pidfd), 0);
}

static int script_stays_taken(int script) {
  char byte;
  int pair[2];
  if (mst_fds_keep() != 0) return 1;
  const int extra = open("Makefile", O_RDONLY); // the server's own, after that
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 2;
  const int data = mst_proc_dup(pair[0], 16);
  const int control = mst_proc_dup(pair[1], 16);
  if (mst_fds_place(data, control) != 0) return 3;
  if (read(script, &byte, 1) != 0) return 4; // its end, not an error
  if (fcntl(script, F_GETFD) != FD_CLOEXEC) return 5;
  if (write(MST_FD_DATA, "x", 1) != 1) return 6;
  if (read(MST_FD_CONTROL, &byte, 1) != 1 || byte != 'x') return 7;
  return fcntl(extra, F_GETFD) < 0 && fcntl(data, F_GETFD) < 0 ? 0 : 8;
}

TEST("a worker's script keeps its number, and is empty") {
  CHECK_INT(ends_with(script_stays_taken), 0);
}

static int files_are_not_replaced(int script) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
  if (dup2(script, MST_FD_CONTROL) < 0) return 2;
  if (mst_fds_place(pair[0], pair[1]) != -1 || errno != EBADF) return 3;
  char byte = 0;
  return read(MST_FD_CONTROL, &byte, 1) == 1 && byte == '#' ? 0 : 4;
}

TEST("a channel never replaces another file") {
  CHECK_INT(ends_with(files_are_not_replaced), 0);
}
