// The loop's table of ios, and how a batch is served.
//
// Backends know slots, not pointers, so that an event for an io that was removed earlier in the
// same batch finds an empty slot instead of freed memory. Slots freed while a batch is served stay
// free until it ends.
#include "loop/loop.h"

#include <stdlib.h>

#include "base/mst_assert.h"
#include "loop/line.h"
#include "loop/loop_int.h"

#define SLOT_LINE SIZE_MAX

static const struct mst_loop_ops *ops_of(enum mst_loop_backend backend) {
  switch (backend) {
#if MST_HAVE_EPOLL
  case MST_LOOP_BEST:
  case MST_LOOP_EPOLL:
    return &mst_loop_ops_epoll;
#else
  case MST_LOOP_BEST:
#endif
  case MST_LOOP_POLL:
    return &mst_loop_ops_poll;
  default:
    return NULL;
  }
}

int mst_loop_open(enum mst_loop_backend backend, struct mst_loop **out,
                  struct mst_err *err) {
  const struct mst_loop_ops *ops = ops_of(backend);
  if (ops == NULL) {
    return mst_err_set(err, MST_EINPUT, 0, NULL, "no such loop on this system");
  }
  struct mst_loop *loop = calloc(1, sizeof *loop);
  if (loop == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a loop");
  }
  loop->ops = ops;
  loop->backend_fd = -1;
  loop->io_count = 1;
  loop->free_hint = 1;
  const int rc = ops->open(loop, err);
  if (rc != 0) {
    free(loop);
    return rc;
  }
  *out = loop;
  return 0;
}

void mst_loop_close(struct mst_loop *loop) {
  if (loop == NULL) return;
  loop->ops->close(loop);
  free(loop->ios);
  free(loop);
}

int mst_loop_fd(const struct mst_loop *loop) { return loop->backend_fd; }

// take_slot finds a free slot, and grows the table if there is none.
static int take_slot(struct mst_loop *loop, size_t *slot) {
  for (size_t i = loop->free_hint; !loop->serving && i < loop->io_count; i++) {
    if (loop->ios[i] == NULL) {
      loop->free_hint = i + 1;
      *slot = i;
      return 0;
    }
  }
  if (loop->io_count >= loop->io_cap) {
    const size_t cap = loop->io_cap == 0 ? 64 : loop->io_cap * 2;
    struct mst_io **grown = realloc(loop->ios, cap * sizeof(struct mst_io *));
    if (grown == NULL) return -MST_EMEM;
    loop->ios = grown;
    loop->io_cap = cap;
    if (loop->io_count == 1) grown[0] = NULL;
  }
  *slot = loop->io_count++;
  if (!loop->serving) loop->free_hint = loop->io_count;
  return 0;
}

int mst_loop_add(struct mst_loop *loop, struct mst_io *io,
                 struct mst_err *err) {
  MST_ASSERT(io->slot == 0 && io->ready != NULL);
  if (io->line != NULL) {
    io->slot = SLOT_LINE;
    io->line->ops->want(io->line, io, io->wanted);
    return 0;
  }
  MST_ASSERT(io->fd >= 0);
  size_t slot;
  if (take_slot(loop, &slot) != 0) {
    return mst_err_set(err, MST_EMEM, 0, "realloc",
                       "no memory for a descriptor");
  }
  io->slot = slot;
  loop->ios[slot] = io;
  const int rc = loop->ops->add(loop, io, err);
  if (rc != 0) {
    loop->ios[slot] = NULL;
    if (slot < loop->free_hint) loop->free_hint = slot;
    io->slot = 0;
  }
  return rc;
}

int mst_loop_want(struct mst_loop *loop, struct mst_io *io, uint32_t wanted,
                  struct mst_err *err) {
  if (io->slot == 0 || io->wanted == wanted) return 0;
  if (io->line != NULL) {
    io->line->ops->want(io->line, io, wanted);
    return 0;
  }
  io->wanted = wanted;
  return loop->ops->change(loop, io, err);
}

void mst_loop_remove(struct mst_loop *loop, struct mst_io *io) {
  if (io->slot == 0) return;
  if (io->line != NULL) {
    io->slot = 0;
    io->line->ops->want(io->line, NULL, 0);
    return;
  }
  MST_ASSERT(loop->ios[io->slot] == io);
  loop->ops->remove(loop, io);
  loop->ios[io->slot] = NULL;
  if (io->slot < loop->free_hint) loop->free_hint = io->slot;
  io->slot = 0;
}

int mst_loop_run(struct mst_loop *loop, int timeout_ms, struct mst_err *err) {
  size_t slots[MST_LOOP_BATCH];
  uint32_t ready[MST_LOOP_BATCH];
  MST_ASSERT(!loop->serving);
  const int n = loop->ops->wait(loop, timeout_ms, slots, ready, err);
  if (n <= 0) return n;
  loop->serving = 1;
  for (int i = 0; i < n; i++) {
    struct mst_io *io = loop->ios[slots[i]];
    if (io != NULL) io->ready(io, ready[i]);
  }
  loop->serving = 0;
  return n;
}
