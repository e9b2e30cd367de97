// Sockets on Linux. See sys.h.
#include "base/mst_features.h"

#if MST_HAVE_SOCKET_FLAGS
#include "net/sys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <unistd.h>

int mst_sys_socket(int family) {
  return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int mst_sys_accept(int listener, struct mst_addr *peer) {
  peer->len = sizeof peer->at;
  return accept4(listener, &peer->at.any, &peer->len,
                 SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int mst_sys_pipe(int fds[2]) { return pipe2(fds, O_CLOEXEC); }

static int is_loopback(const struct mst_addr *addr) {
  if (addr->at.any.sa_family == AF_INET) {
    return ntohl(addr->at.in4.sin_addr.s_addr) >> 24 == 127;
  }
  return addr->at.any.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&addr->at.in6.sin6_addr);
}

// Over the loopback the handshake, or the refusal, is complete when connect() returns, but it says
// EINPROGRESS anyway. A second call tells: 0, the error, or EALREADY.
int mst_sys_connect(int fd, const struct mst_addr *addr) {
  const int rc = connect(fd, &addr->at.any, addr->len);
  if (rc == 0 || errno != EINPROGRESS || !is_loopback(addr)) return rc;
  const int again = connect(fd, &addr->at.any, addr->len);
  if (again != 0 && errno == EALREADY) errno = EINPROGRESS;
  return again;
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

int mst_sys_peer_uid(int fd, uid_t *uid) {
  struct ucred peer;
  socklen_t n = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0) return -1;
  *uid = peer.uid;
  return 0;
}

int mst_sys_is_full(int number) { return number == EAGAIN; }
#else
typedef int mst_sys_linux_unused; // a translation unit must hold something
#endif
