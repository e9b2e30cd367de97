// Listeners. See stream.h.
//
// Problem: a connection that is ready at poll() can be gone at accept(). BSDs report that at
// accept() (ECONNABORTED); Linux returns a dead connection, which fails at its first use. Both are
// skipped here, so that one bad client neither ends the wait for a good one nor passes for one.
#include "net/stream.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_fault.h"
#include "net/sys.h"

// After this many dead clients in a row, let the caller serve others.
#define DEAD_MAX 64

static int refused(const char *call, struct mst_err *err) {
  return mst_err_set(err, MST_ECONNECT, errno, call, "%s", strerror(errno));
}

// is_stale tells whether a path is a socket without a listener.
static int is_stale(const struct mst_addr *addr) {
  struct stat at;
  if (lstat(addr->at.un.sun_path, &at) != 0 || !S_ISSOCK(at.st_mode)) return 0;
  int fd = -1;
  struct mst_err err;
  mst_err_clear(&err);
  const int rc = mst_net_dial(addr, &fd, &err);
  mst_net_close(&fd);
  return rc == -MST_ECONNECT && err.sys_errno == ECONNREFUSED;
}

static int bind_path(int fd, const struct mst_addr *addr) {
  // Linux takes the file's mode from the socket, so others never have access; elsewhere chmod comes
  // a moment late.
  (void)fchmod(fd, S_IRUSR | S_IWUSR);
  int rc = bind(fd, &addr->at.any, addr->len);
  if (rc != 0 && errno == EADDRINUSE) {
    const int stale = is_stale(addr);
    errno = EADDRINUSE;
    if (!stale || unlink(addr->at.un.sun_path) != 0) return -1;
    rc = bind(fd, &addr->at.any, addr->len);
  }
  if (rc == 0) (void)chmod(addr->at.un.sun_path, S_IRUSR | S_IWUSR);
  return rc;
}

static void set_options(int fd, const struct mst_addr *addr, int shared) {
  const int on = 1, off = 0;
  // Allows listening on a port whose last connections are in TIME_WAIT.
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  mst_net_set_nodelay(fd, 1); // accepted sockets inherit it
  if (shared) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  if (addr->at.any.sa_family == AF_INET6) {
    // "::" serves IPv4 as well, whatever the system's default is.
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
}

static int listen_one(const struct mst_addr *addr, int backlog, int shared,
                      int *fd, struct mst_err *err) {
  *fd = mst_fault("net.listen") ? -1 : mst_sys_socket(addr->at.any.sa_family);
  if (*fd < 0) {
    return mst_err_set(err, MST_ESYS, errno, "socket", "%s", strerror(errno));
  }
  int rc = 0;
  if (mst_addr_is_unix(addr)) {
    rc = bind_path(*fd, addr);
  } else {
    set_options(*fd, addr, shared);
    rc = bind(*fd, &addr->at.any, addr->len);
  }
  rc = rc != 0 ? refused("bind", err) : 0;
  // Each system cuts a longer backlog to its maximum.
  if (rc == 0 && listen(*fd, backlog > 0 ? backlog : INT_MAX) != 0) {
    rc = refused("listen", err);
  }
  if (rc != 0) mst_net_close(fd);
  return rc;
}

int mst_net_listen(const struct mst_addr *addr, int backlog, int *fds,
                   size_t count, struct mst_addr *bound, struct mst_err *err) {
  MST_ASSERT(count >= 1 && count <= MST_HANDLERS_MAX && addr->len > 0);
  for (size_t i = 0; i < count; i++)
    fds[i] = -1;
  if (count > 1 && mst_addr_is_unix(addr)) {
    return mst_err_set(err, MST_EINPUT, EINVAL, NULL,
                       "only one listener can use a unix socket's path");
  }
  *bound = *addr;
  for (size_t i = 0; i < count; i++) {
    int rc = listen_one(bound, backlog, count > 1, &fds[i], err);
    // The other listeners share the first one's free port.
    if (rc == 0 && i == 0) rc = mst_addr_local(fds[0], bound, err);
    if (rc == 0) continue;
    for (size_t k = 0; k <= i; k++)
      mst_net_close(&fds[k]);
    return rc;
  }
  return 0;
}

// is_passing tells whether an error of accept() concerns one client and not the listener. Linux
// also reports network errors of a new connection here, see accept(2).
static int is_passing(int number) {
  switch (number) {
  case EINTR:
  case ECONNABORTED:
  case EPROTO:
  case ENETDOWN:
  case ENOPROTOOPT:
  case EHOSTDOWN:
#ifdef ENONET
  case ENONET:
#endif
  case EHOSTUNREACH:
  case ENETUNREACH:
  case EPERM: // a firewall's rule
    return 1;
  default:
    return 0;
  }
}

int mst_net_accept(int listener, int *fd, struct mst_addr *peer,
                   struct mst_err *err) {
  struct mst_addr from;
  *fd = -1;
  for (int dead = 0; dead < DEAD_MAX;) {
    memset(&from, 0, sizeof from);
    *fd = mst_fault("net.accept") ? -1 : mst_sys_accept(listener, &from);
    if (*fd < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return -MST_EAGAIN;
      if (is_passing(errno)) {
        dead++;
        continue;
      }
      return mst_err_set(err, MST_ESYS, errno, "accept", "%s", strerror(errno));
    }
    if (!mst_net_is_reset(*fd)) {
      if (peer != NULL) *peer = from;
      return 0;
    }
    mst_net_close(fd);
    dead++;
  }
  return -MST_EAGAIN;
}

int mst_net_is_own(int fd) {
  uid_t uid;
  return mst_sys_peer_uid(fd, &uid) == 0 && uid == geteuid();
}
