// Sockets on Linux. See sys.h.
#ifdef __linux__
#include "net/sys.h"

#include <netinet/tcp.h>

int mst_sys_socket(int family) {
  return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int mst_sys_accept(int listener, struct mst_addr *peer) {
  peer->len = sizeof peer->at;
  return accept4(listener, &peer->at.any, &peer->len,
                 SOCK_NONBLOCK | SOCK_CLOEXEC);
}

void mst_sys_keepalive(int fd, int idle_s, int interval_s, int count) {
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s,
                   sizeof interval_s);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

int mst_sys_user_timeout(int fd, int ms) {
  const unsigned value = (unsigned)ms;
  return setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, sizeof value);
}
#else
typedef int mst_sys_linux_unused; // a translation unit must hold something
#endif
