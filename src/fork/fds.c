// The numbers of descriptors in servers and workers. See fork.h.
//
// A worker's channels get their numbers by dup2() in a process whose R has open files of its own:
// the script that it reads its commands from, which browser() and stdin() read too. If the control
// channel replaced that file, R would read the session's messages as typed text. So /dev/null takes
// the numbers before R boots if they are free, and they are checked before use. Nor does a worker
// ever free a number that R has open: the console would read the next file that gets it.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fork/fork.h"

// R opens its files first, at low numbers; muster's are raised past this.
#define LOOK_MAX 1024
#define KEPT_MAX 64

static struct {
  int fds[KEPT_MAX];
  int count;
} kept;

int mst_proc_dup(int fd, int floor) {
  const int copy = fcntl(fd, F_DUPFD, floor);
  if (copy < 0 && errno == EINVAL) errno = EMFILE;
  return copy;
}

int mst_fds_reserve(int fd) { return dup2(STDIN_FILENO, fd) < 0 ? -1 : 0; }

// is_reserved tells whether a number is open and refers to /dev/null.
static int is_reserved(int fd) {
  struct stat file;
  return fstat(fd, &file) == 0 && S_ISCHR(file.st_mode);
}

static int is_socket(int fd) {
  struct stat file;
  return fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode);
}

int mst_fds_session(void) {
  if (fcntl(MST_FD_SESSION, F_GETFD) < 0) return -1;
  return is_reserved(MST_FD_SESSION) ? -1 : MST_FD_SESSION;
}

int mst_fds_keep(void) {
  kept.count = 0;
  for (int fd = MST_FD_SESSION + 1; fd < LOOK_MAX; fd++) {
    if (fcntl(fd, F_GETFD) < 0) continue;
    if (kept.count == KEPT_MAX) {
      errno = EMFILE;
      return -1;
    }
    kept.fds[kept.count++] = fd;
  }
  return 0;
}

int mst_fds_place(int data, int control) {
  if (!is_socket(MST_FD_DATA) || !is_reserved(MST_FD_CONTROL)) {
    errno = EBADF; // another file, which must not be replaced
    return -1;
  }
  if (dup2(data, MST_FD_DATA) < 0) return -1;
  if (dup2(control, MST_FD_CONTROL) < 0) return -1;
  for (int fd = MST_FD_DATA; fd <= MST_FD_SESSION; fd++) {
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  mst_proc_close_from(MST_FD_SESSION + 1);
  for (int i = 0; i < kept.count; i++) {
    if (mst_fds_reserve(kept.fds[i]) != 0) return -1;
    (void)fcntl(kept.fds[i], F_SETFD, FD_CLOEXEC);
  }
  return 0;
}

static int same_file(int one, int other) {
  struct stat a, b;
  return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

static int hold_at(int fd, int at) {
  if (dup2(fd, at) < 0) return -1;
  return fcntl(at, F_SETFD, FD_CLOEXEC);
}

int mst_fds_leave(int output, int is_output[3]) {
  for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
    is_output[fd] = same_file(fd, output);
  const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null_fd < 0) return -1;
  int rc = hold_at(null_fd, MST_FD_DATA);
  if (rc == 0) rc = hold_at(null_fd, MST_FD_CONTROL);
  if (rc == 0) rc = hold_at(null_fd, output);
  for (int fd = STDOUT_FILENO; rc == 0 && fd <= STDERR_FILENO; fd++) {
    if (is_output[fd] && dup2(null_fd, fd) < 0) rc = -1;
  }
  (void)close(null_fd);
  return rc;
}

int mst_fds_take(const int fds[3], int output, const int is_output[3]) {
  int rc = hold_at(fds[0], MST_FD_DATA);
  if (rc == 0) rc = hold_at(fds[1], MST_FD_CONTROL);
  if (rc == 0) rc = hold_at(fds[2], output);
  for (int fd = STDOUT_FILENO; rc == 0 && fd <= STDERR_FILENO; fd++) {
    if (is_output[fd] && dup2(fds[2], fd) < 0) rc = -1;
  }
  return rc;
}
