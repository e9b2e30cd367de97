// Sockets on systems without flags at creation: macOS, older BSDs. See sys.h.
#include "base/mst_features.h"

#if !MST_HAVE_SOCKET_FLAGS
#include "net/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <unistd.h>

// Another thread that forks and executes in between would leak the descriptor: R's session has no
// such thread.
static int set_up(int fd) {
  if (fd < 0) return fd;
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
#ifdef SO_NOSIGPIPE
  const int on = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  return fd;
}

int mst_sys_socket(int family) {
  return set_up(socket(family, SOCK_STREAM, 0));
}

int mst_sys_accept(int listener, struct mst_addr *peer) {
  peer->len = sizeof peer->at;
  return set_up(accept(listener, &peer->at.any, &peer->len));
}

int mst_sys_pipe(int fds[2]) {
  if (pipe(fds) != 0) return -1;
  for (int i = 0; i < 2; i++)
    (void)fcntl(fds[i], F_SETFD, FD_CLOEXEC);
  return 0;
}

int mst_sys_connect(int fd, const struct mst_addr *addr) {
  return connect(fd, &addr->at.any, addr->len);
}

void mst_sys_keepalive(int fd, int idle_s, int interval_s, int count) {
#if defined(TCP_KEEPIDLE)
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
#elif defined(TCP_KEEPALIVE) // macOS
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPALIVE, &idle_s, sizeof idle_s);
#endif
#ifdef TCP_KEEPINTVL
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s,
                   sizeof interval_s);
#endif
#ifdef TCP_KEEPCNT
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
#endif
  (void)fd, (void)idle_s, (void)interval_s, (void)count;
}

int mst_sys_user_timeout(int fd, int ms) {
  (void)fd, (void)ms;
  errno = ENOPROTOOPT;
  return -1;
}

int mst_sys_peer_uid(int fd, uid_t *uid) {
#if MST_LINUX // no getpeereid(): this branch only lets the code around it compile
  struct ucred peer;
  socklen_t n = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0) return -1;
  *uid = peer.uid;
  return 0;
#else
  gid_t group;
  return getpeereid(fd, uid, &group);
#endif
}

// BSDs refuse both if the queue is full and if no process listens.
int mst_sys_is_full(int number) {
  return number == EAGAIN || number == ECONNREFUSED;
}
#else
typedef int mst_sys_other_unused; // a translation unit must hold something
#endif
