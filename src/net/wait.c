// Whole operations within a time. See stream.h.
//
// Each tries first and calls poll() only if that would block: an operation that is possible at once
// costs one system call. Readiness is only a hint. Linux may report a socket as readable whose data
// then turns out to be damaged, and another thread may have been quicker; all sockets are
// non-blocking, so the worst case is another round.
#include "net/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/mst_clock.h"

// poll() counts in int milliseconds; longer waits take several calls.
#define WAIT_MS_MAX (24 * 60 * 60 * 1000)

int mst_net_wait(int fd, short events, int64_t until_ns) {
  struct pollfd at = {.fd = fd, .events = events};
  const int n = poll(&at, 1, mst_clock_ms_until(until_ns, WAIT_MS_MAX));
  return n == 1 ? at.revents : 0;
}

int mst_net_send_until(int fd, const void *bytes, size_t n, size_t *done,
                       int64_t until_ns, struct mst_err *err) {
  while (*done < n) {
    struct iovec part;
    // sendmsg doesn't write through this pointer; its type predates const.
    part.iov_base = (void *)(uintptr_t)((const uint8_t *)bytes + *done);
    part.iov_len = n - *done;
    const int64_t sent = mst_net_sendv(fd, &part, 1, NULL, 0, 0, err);
    if (sent >= 0) {
      *done += (size_t)sent;
      continue;
    }
    if (sent != -MST_EAGAIN) return (int)sent;
    if (mst_net_wait(fd, POLLOUT, until_ns) == 0) return -MST_EAGAIN;
  }
  return 0;
}

int64_t mst_net_peek(int fd, void *bytes, size_t n, struct mst_err *err) {
  const ssize_t got = recv(fd, bytes, n, MSG_PEEK | MSG_DONTWAIT);
  if (got > 0) return (int64_t)got;
  if (got == 0) {
    return mst_err_set(err, MST_ECLOSED, 0, "recv", "the other end is closed");
  }
  if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) {
    return -MST_EAGAIN;
  }
  return mst_err_set(err, MST_ECLOSED, errno, "recv", "%s", strerror(errno));
}
