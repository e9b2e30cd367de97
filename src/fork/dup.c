// Copies a descriptor out of the way. See fork.h.
#include <errno.h>
#include <fcntl.h>

#include "fork/fork.h"

int mst_proc_dup(int fd, int floor) {
  const int copy = fcntl(fd, F_DUPFD, floor);
  if (copy < 0 && errno == EINVAL) errno = EMFILE;
  return copy;
}
