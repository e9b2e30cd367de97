// The poll backend, for systems without epoll. O(ios) a wait.
//
// pollfds[slot] mirrors the table of ios; free slots have fd -1, which poll() skips. Serving starts
// after the last slot served, so that a busy low slot can't starve the others when a batch is full.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "loop/loop_int.h"

struct poll_table {
  struct pollfd *fds;
  size_t cap;
  size_t next; // slot to serve first
};

static int poll_open(struct mst_loop *loop, struct mst_err *err) {
  loop->backend = calloc(1, sizeof(struct poll_table));
  if (loop->backend == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a loop");
  }
  return 0;
}

static void poll_close(struct mst_loop *loop) {
  struct poll_table *table = loop->backend;
  free(table->fds);
  free(table);
  loop->backend = NULL;
}

static void set_slot(struct poll_table *table, const struct mst_io *io) {
  struct pollfd *entry = &table->fds[io->slot];
  entry->fd = io->fd;
  entry->events = (short)(((io->wanted & MST_READABLE) != 0 ? POLLIN : 0) |
                          ((io->wanted & MST_WRITABLE) != 0 ? POLLOUT : 0));
  entry->revents = 0;
}

static int poll_add(struct mst_loop *loop, struct mst_io *io,
                    struct mst_err *err) {
  struct poll_table *table = loop->backend;
  if (io->slot >= table->cap) {
    const size_t cap = loop->io_cap;
    struct pollfd *grown = realloc(table->fds, cap * sizeof *grown);
    if (grown == NULL) {
      return mst_err_set(err, MST_EMEM, 0, "realloc",
                         "no memory for a descriptor");
    }
    for (size_t i = table->cap; i < cap; i++) {
      memset(&grown[i], 0, sizeof grown[i]);
      grown[i].fd = -1;
    }
    table->fds = grown;
    table->cap = cap;
  }
  set_slot(table, io);
  return 0;
}

static int poll_change(struct mst_loop *loop, struct mst_io *io,
                       struct mst_err *err) {
  (void)err;
  set_slot(loop->backend, io);
  return 0;
}

static void poll_remove(struct mst_loop *loop, struct mst_io *io) {
  struct poll_table *table = loop->backend;
  table->fds[io->slot].fd = -1;
  table->fds[io->slot].revents = 0;
}

static uint32_t ready_of(short got) {
  const int over = (got & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  return ((got & POLLIN) != 0 || over ? MST_READABLE : 0u) |
         ((got & POLLOUT) != 0 || over ? MST_WRITABLE : 0u);
}

static int poll_wait_ready(struct mst_loop *loop, int timeout_ms, size_t *slots,
                           uint32_t *ready, struct mst_err *err) {
  struct poll_table *table = loop->backend;
  const size_t count =
      table->cap < loop->io_count ? table->cap : loop->io_count;
  const int n = poll(table->fds, (nfds_t)count, timeout_ms);
  if (n < 0) {
    if (errno == EINTR) return 0;
    return mst_err_set(err, MST_ESYS, errno, "poll", "%s", strerror(errno));
  }
  int found = 0;
  for (size_t i = 0; i < count && found < n && found < MST_LOOP_BATCH; i++) {
    const size_t slot = (table->next + i) % count;
    if (table->fds[slot].fd < 0 || table->fds[slot].revents == 0) continue;
    slots[found] = slot;
    ready[found] = ready_of(table->fds[slot].revents);
    found++;
  }
  if (found > 0) table->next = slots[found - 1] + 1;
  return found;
}

const struct mst_loop_ops mst_loop_ops_poll = {
    .open = poll_open,
    .close = poll_close,
    .add = poll_add,
    .change = poll_change,
    .remove = poll_remove,
    .wait = poll_wait_ready,
};
