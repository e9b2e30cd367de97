// Connecting to one address. See stream.h.
#include "net/stream.h"

#include <errno.h>
#include <string.h>

#include "base/mst_fault.h"
#include "net/sys.h"

static int failed(int number, struct mst_err *err) {
  return mst_err_set(err, MST_ECONNECT, number, "connect", "%s",
                     strerror(number));
}

static int give_up(int *fd, int number, struct mst_err *err) {
  mst_net_close(fd);
  return failed(number, err);
}

int mst_net_dial(const struct mst_addr *addr, int *fd, struct mst_err *err) {
  *fd = mst_fault("net.dial") ? -1 : mst_sys_socket(addr->at.any.sa_family);
  if (*fd < 0) {
    return mst_err_set(err, errno == EAFNOSUPPORT ? MST_ECONNECT : MST_ESYS,
                       errno, "socket", "%s", strerror(errno));
  }
  if (!mst_addr_is_unix(addr)) mst_net_set_nodelay(*fd, 1);
  if (connect(*fd, &addr->at.any, addr->len) == 0) {
    return mst_addr_is_self(*fd) ? give_up(fd, ECONNREFUSED, err) : 0;
  }
  // After EINTR the connect goes on by itself, as after EINPROGRESS.
  if (errno == EINPROGRESS || errno == EINTR) return -MST_EAGAIN;
  return give_up(fd, errno, err);
}

int mst_net_dial_done(int fd, struct mst_err *err) {
  int number = 0;
  socklen_t n = sizeof number;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &n) != 0) number = errno;
  if (number != 0) return failed(number, err);
  // No error yet is no success yet: only one that has succeeded has a peer.
  struct mst_addr peer;
  struct mst_err no_peer;
  mst_err_clear(&no_peer);
  if (mst_addr_peer(fd, &peer, &no_peer) != 0) {
    if (no_peer.sys_errno != ENOTCONN) return failed(no_peer.sys_errno, err);
    // Reset right after it was made: connected no more, and the error was taken above.
    if (mst_net_wait(fd, POLLOUT, 0) & POLLHUP) return failed(ECONNRESET, err);
    return -MST_EAGAIN;
  }
  return mst_addr_is_self(fd) ? failed(ECONNREFUSED, err) : 0;
}
