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
  if (mst_sys_connect(*fd, addr) == 0) {
    struct mst_addr local;
    if (mst_addr_is_unix(addr) || mst_addr_local(*fd, &local, NULL) != 0 ||
        !mst_addr_same(&local, addr)) {
      return 0;
    }
    return give_up(fd, ECONNREFUSED, err); // connected to itself
  }
  // After EINTR the connect goes on by itself, as after EINPROGRESS.
  if (errno == EINPROGRESS || errno == EINTR) return -MST_EAGAIN;
  return give_up(fd, errno, err);
}

static int error_of(int fd) {
  int number = 0;
  socklen_t n = sizeof number;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &n) == 0 ? number
                                                                : errno;
}

// SO_ERROR 0 doesn't prove a connection, and POLLOUT may come too early: only a socket that has a
// peer is connected.
int mst_net_dial_done(int fd, struct mst_err *err) {
  struct mst_addr peer, local;
  if (mst_addr_peer(fd, &peer, NULL) != 0) {
    int number = error_of(fd);
    if (number != 0) return failed(number, err);
    // Connected and then reset; the error was already read elsewhere.
    if (mst_net_wait(fd, POLLOUT, 0) & POLLHUP) return failed(ECONNRESET, err);
    return -MST_EAGAIN;
  }
  if (!mst_addr_is_unix(&peer) && mst_addr_local(fd, &local, NULL) == 0 &&
      mst_addr_same(&local, &peer)) {
    return failed(ECONNREFUSED, err);
  }
  return 0;
}

int mst_net_dial_is_full(int sys_errno) { return mst_sys_is_full(sys_errno); }
