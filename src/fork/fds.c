// The numbers of descriptors in servers and workers. See fork.h.
//
// A worker's channels get their numbers by dup2() in a process whose R has files of
// its own open: the script that it reads its commands from, which is also what
// browser() and stdin() read. Were the control channel put over that file, R would
// read the session's messages as typed text. So the numbers are taken before R
// boots, by /dev/null where there is nothing yet, and looked at before they are used.
// A number that R has open never becomes free in a worker either: whatever file got
// it next would be what the console reads.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fork/fork.h"

// R's files are opened first and have low numbers; muster's are raised past this.
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

// is_reserved tells whether a number is open and has nothing but /dev/null.
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
    errno = EBADF; // somebody's file: it must not be replaced
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
