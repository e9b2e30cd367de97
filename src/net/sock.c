// Sockets and pipes between processes of one machine. See net.h.
#include "net/net.h"
#include "net/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_fault.h"
#include "base/mst_features.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 // systems without it get SO_NOSIGPIPE in set_up
#endif
#if !MST_HAVE_SOCKET_FLAGS
#undef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0 // set by fcntl in take_fds
#endif

static void set_cloexec(int fd) { (void)fcntl(fd, F_SETFD, FD_CLOEXEC); }

int mst_net_pair(int fds[2], struct mst_err *err) {
  fds[0] = fds[1] = -1;
  if (mst_fault("net.pair")) {
    return mst_err_set(err, MST_ESYS, errno, "socketpair", "%s",
                       strerror(errno));
  }
#if MST_HAVE_SOCKET_FLAGS
  const int rc = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
#else
  const int rc = socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
#endif
  if (rc != 0) {
    return mst_err_set(err, MST_ESYS, errno, "socketpair", "%s",
                       strerror(errno));
  }
#if !MST_HAVE_SOCKET_FLAGS
  set_cloexec(fds[0]);
  set_cloexec(fds[1]);
#endif
#ifdef SO_NOSIGPIPE
  const int on = 1;
  (void)setsockopt(fds[0], SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
  (void)setsockopt(fds[1], SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  return 0;
}

int mst_net_pipe(int fds[2], struct mst_err *err) {
  fds[0] = fds[1] = -1;
  if (mst_fault("net.pipe") || mst_sys_pipe(fds) != 0) {
    return mst_err_set(err, MST_ESYS, errno, "pipe", "%s", strerror(errno));
  }
  (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return 0;
}

// The first number that doesn't fit select().
#define FD_FLOOR 1024

void mst_net_raise(int *fd) {
  if (*fd < 0 || *fd >= FD_FLOOR) return;
  const int moved = fcntl(*fd, F_DUPFD_CLOEXEC, FD_FLOOR);
  if (moved < 0) return; // EINVAL: the limit isn't above it; EMFILE: full
  (void)close(*fd);
  *fd = moved;
}

int mst_net_copy(int fd, int *copy, struct mst_err *err) {
  *copy = mst_fault("net.copy") ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (*copy < 0)
    return mst_err_set(err, MST_ESYS, errno, "fcntl", "%s", strerror(errno));
  mst_net_raise(copy);
  return 0;
}

void mst_net_close(int *fd) {
  if (*fd < 0) return;
  (void)close(*fd); // after EINTR the descriptor is gone on Linux and macOS
  *fd = -1;
}

void mst_net_shutdown(int fd) {
  if (fd >= 0) (void)shutdown(fd, SHUT_RDWR);
}

#if MST_HAVE_SCM_RIGHTS
// attach puts descriptors into a message's control data.
static void attach(struct msghdr *msg, void *space, size_t space_bytes,
                   const int *fds, size_t fd_count) {
  if (fd_count == 0) return;
  MST_ASSERT(fd_count <= MST_NET_FDS_MAX);
  memset(space, 0, space_bytes);
  msg->msg_control = space;
  msg->msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
  struct cmsghdr *part = CMSG_FIRSTHDR(msg);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
  memcpy(CMSG_DATA(part), fds, sizeof(int) * fd_count);
}
#endif

int64_t mst_net_sendv(int fd, const struct iovec *parts, int count,
                      const int *fds, size_t fd_count, int wait,
                      struct mst_err *err) {
  struct msghdr msg;
  memset(&msg, 0, sizeof msg);
  // sendmsg doesn't write through these pointers; its type predates const.
  memcpy(&msg.msg_iov, &parts, sizeof parts);
  msg.msg_iovlen = (size_t)count;
#if MST_HAVE_SCM_RIGHTS
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * MST_NET_FDS_MAX)];
  } space;
  attach(&msg, &space, sizeof space, fds, fd_count);
#else
  (void)fds;
  if (fd_count > 0) {
    return mst_err_set(err, MST_ESYS, ENOTSUP, "sendmsg",
                       "this system can't send descriptors");
  }
#endif
  for (;;) {
    const ssize_t sent =
        mst_fault("net.send")
            ? -1
            : sendmsg(fd, &msg, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
    if (sent >= 0) return (int64_t)sent;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return -MST_EAGAIN;
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) {
      return mst_err_set(err, MST_ECLOSED, errno, "sendmsg",
                         "the other end is closed");
    }
    return mst_err_set(err, MST_ESYS, errno, "sendmsg", "%s", strerror(errno));
  }
}

// recv_done interprets the result of recv, recvmsg and read; call is for the error.
static int64_t recv_done(ssize_t got, const char *call, struct mst_err *err) {
  if (got > 0) return (int64_t)got;
  if (got == 0) {
    return mst_err_set(err, MST_ECLOSED, 0, call, "the other end is closed");
  }
  if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) {
    return -MST_EAGAIN;
  }
  if (errno == ECONNRESET || errno == ENOTCONN || errno == EPIPE) {
    return mst_err_set(err, MST_ECLOSED, errno, call,
                       "the other end is closed");
  }
  return mst_err_set(err, MST_ESYS, errno, call, "%s", strerror(errno));
}

int64_t mst_net_recv(int fd, void *bytes, size_t n, int wait,
                     struct mst_err *err) {
  MST_ASSERT(n > 0);
  const ssize_t got =
      mst_fault("net.recv") ? -1 : recv(fd, bytes, n, wait ? 0 : MSG_DONTWAIT);
  return recv_done(got, "recv", err);
}

int64_t mst_net_read(int fd, void *bytes, size_t n, struct mst_err *err) {
  return recv_done(read(fd, bytes, n), "read", err);
}

// write_quietly writes without SIGPIPE, for which R has a handler that jumps.
static ssize_t write_quietly(int fd, const void *bytes, size_t n) {
  sigset_t pipes, before, now;
  int taken;
  (void)sigemptyset(&pipes);
  (void)sigaddset(&pipes, SIGPIPE);
  (void)pthread_sigmask(SIG_BLOCK, &pipes, &before);
  const ssize_t sent = write(fd, bytes, n);
  const int failed = errno;
  if (sent < 0 && failed == EPIPE && sigpending(&now) == 0 &&
      sigismember(&now, SIGPIPE) == 1 && sigismember(&before, SIGPIPE) == 0)
    (void)sigwait(&pipes, &taken);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = failed;
  return sent;
}

int64_t mst_net_write(int fd, const void *bytes, size_t n,
                      struct mst_err *err) {
  ssize_t sent;
  do {
    sent = write_quietly(fd, bytes, n);
  } while (sent < 0 && errno == EINTR);
  if (sent > 0) return (int64_t)sent;
  if (sent == 0 || errno == EAGAIN || errno == EWOULDBLOCK) return -MST_EAGAIN;
  if (errno == EPIPE || errno == ECONNRESET) {
    return mst_err_set(err, MST_ECLOSED, errno, "write",
                       "the other end is closed");
  }
  return mst_err_set(err, MST_ESYS, errno, "write", "%s", strerror(errno));
}

size_t mst_net_unread(int fd) {
  int n = 0;
  return ioctl(fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

int mst_net_is_closed(int fd) {
  struct pollfd polled = {.fd = fd};
  return poll(&polled, 1, 0) == 1 &&
         (polled.revents & (POLLHUP | POLLERR)) != 0;
}

void mst_net_unblock(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags >= 0) (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

void mst_net_cut(int fd) { (void)shutdown(fd, SHUT_WR); }

#if MST_HAVE_SCM_RIGHTS
// take_fds copies at most max descriptors out of a received message and closes the rest. Returns
// how many the message held.
static size_t take_fds(struct msghdr *msg, int *fds, size_t max) {
  size_t held = 0;
  for (struct cmsghdr *part = CMSG_FIRSTHDR(msg); part != NULL;
       part = CMSG_NXTHDR(msg, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t n = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      set_cloexec(fd);
      if (held < max) {
        fds[held] = fd;
      } else {
        (void)close(fd);
      }
      held++;
    }
  }
  return held;
}

int64_t mst_net_recv_fds(int fd, void *bytes, size_t n, int wait,
                         int fds[MST_NET_FDS_MAX], size_t *fd_count, int *lost,
                         struct mst_err *err) {
  MST_ASSERT(n > 0);
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * MST_NET_FDS_MAX)];
  } space;
  struct iovec part = {.iov_base = bytes, .iov_len = n};
  struct msghdr msg;
  memset(&msg, 0, sizeof msg);
  msg.msg_iov = &part;
  msg.msg_iovlen = 1;
  msg.msg_control = &space;
  msg.msg_controllen = sizeof space;
  *fd_count = 0;
  *lost = 0;
  const ssize_t got =
      recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  if (got <= 0) return recv_done(got, "recvmsg", err);
  const size_t held = take_fds(&msg, fds, MST_NET_FDS_MAX);
  const int cut = (msg.msg_flags & MSG_CTRUNC) != 0;
  if (held <= MST_NET_FDS_MAX && !cut) {
    *fd_count = held;
    return (int64_t)got;
  }
  for (size_t i = 0; i < held && i < MST_NET_FDS_MAX; i++)
    (void)close(fds[i]);
  // The kernel also truncates if they don't fit into `space`; then it is full.
  *lost = held < MST_NET_FDS_MAX;
  if (*lost) return (int64_t)got;
  return mst_err_set(err, MST_EPROTO, 0, "recvmsg", "too many descriptors");
}
#else
int64_t mst_net_recv_fds(int fd, void *bytes, size_t n, int wait,
                         int fds[MST_NET_FDS_MAX], size_t *fd_count, int *lost,
                         struct mst_err *err) {
  (void)fds;
  *fd_count = 0;
  *lost = 0;
  return mst_net_recv(fd, bytes, n, wait, err);
}
#endif
