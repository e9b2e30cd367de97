// Bytes that nobody can guess: see mst_entropy.h.
#include "base/mst_entropy.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

// getrandom() would need no descriptor, but macOS and older C libraries lack it.
int mst_entropy_take(uint8_t *bytes, size_t n, struct mst_err *err) {
  const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? -1 : read(fd, bytes, n);
  const int number = errno;
  if (fd >= 0) (void)close(fd);
  if (got == (ssize_t)n) return 0;
  return mst_err_set(err, MST_ESYS, number, "read", "can't read /dev/urandom");
}
