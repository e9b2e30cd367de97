// Options of sockets. See stream.h.
#include "net/stream.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "net/sys.h"

void mst_net_set_nodelay(int fd, int on) {
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void mst_net_set_keepalive(int fd, int idle_s, int interval_s, int count) {
  const int on = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  mst_sys_keepalive(fd, idle_s, interval_s, count);
}

int mst_net_set_user_timeout(int fd, int ms, struct mst_err *err) {
  if (mst_sys_user_timeout(fd, ms) == 0) return 0;
  return mst_err_set(err, MST_ESYS, errno, "setsockopt", "%s", strerror(errno));
}

void mst_net_close_reset(int *fd) {
  if (*fd < 0) return;
  const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  mst_net_close(fd);
}

int mst_net_is_reset(int fd) {
  struct pollfd at = {.fd = fd, .events = POLLIN};
  return poll(&at, 1, 0) == 1 && (at.revents & (POLLERR | POLLNVAL)) != 0;
}
