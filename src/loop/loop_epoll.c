// The epoll backend: level-triggered, one wait serves many ios.
#include "loop/loop_int.h"

#if MST_HAVE_EPOLL
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/net.h"

static int epoll_open(struct mst_loop *loop, struct mst_err *err) {
  loop->backend_fd = epoll_create1(EPOLL_CLOEXEC);
  if (loop->backend_fd < 0) {
    return mst_err_set(err, MST_ESYS, errno, "epoll_create1", "%s",
                       strerror(errno));
  }
  mst_net_raise(&loop->backend_fd);
  return 0;
}

static void epoll_close(struct mst_loop *loop) {
  mst_net_close(&loop->backend_fd);
}

static int control(struct mst_loop *loop, int op, struct mst_io *io,
                   struct mst_err *err) {
  struct epoll_event event;
  memset(&event, 0, sizeof event);
  if ((io->wanted & MST_READABLE) != 0) event.events |= EPOLLIN;
  if ((io->wanted & MST_WRITABLE) != 0) event.events |= EPOLLOUT;
  event.data.u64 = (uint64_t)io->slot;
  if (epoll_ctl(loop->backend_fd, op, io->fd, &event) != 0) {
    return mst_err_set(err, MST_ESYS, errno, "epoll_ctl", "%s",
                       strerror(errno));
  }
  return 0;
}

static int epoll_add(struct mst_loop *loop, struct mst_io *io,
                     struct mst_err *err) {
  return control(loop, EPOLL_CTL_ADD, io, err);
}

static int epoll_change(struct mst_loop *loop, struct mst_io *io,
                        struct mst_err *err) {
  return control(loop, EPOLL_CTL_MOD, io, err);
}

static void epoll_remove(struct mst_loop *loop, struct mst_io *io) {
  (void)control(loop, EPOLL_CTL_DEL, io, NULL);
}

static int epoll_wait_ready(struct mst_loop *loop, int timeout_ms,
                            size_t *slots, uint32_t *ready,
                            struct mst_err *err) {
  struct epoll_event events[MST_LOOP_BATCH];
  const int n =
      epoll_wait(loop->backend_fd, events, MST_LOOP_BATCH, timeout_ms);
  if (n < 0) {
    if (errno == EINTR) return 0;
    return mst_err_set(err, MST_ESYS, errno, "epoll_wait", "%s",
                       strerror(errno));
  }
  for (int i = 0; i < n; i++) {
    const uint32_t got = events[i].events;
    slots[i] = (size_t)events[i].data.u64;
    // Readers and writers both learn of an end or an error.
    const int over = (got & (EPOLLHUP | EPOLLERR)) != 0;
    ready[i] = ((got & EPOLLIN) != 0 || over ? MST_READABLE : 0u) |
               ((got & EPOLLOUT) != 0 || over ? MST_WRITABLE : 0u);
  }
  return n;
}

const struct mst_loop_ops mst_loop_ops_epoll = {
    .open = epoll_open,
    .close = epoll_close,
    .add = epoll_add,
    .change = epoll_change,
    .remove = epoll_remove,
    .wait = epoll_wait_ready,
};
#else
typedef int mst_loop_epoll_unused; // a translation unit must hold something
#endif
