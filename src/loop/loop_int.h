// Shared by loop.c and the backends.
#ifndef MST_LOOP_INT_H
#define MST_LOOP_INT_H

#include <stddef.h>

#include "base/mst_features.h"
#include "loop/loop.h"

// One wait serves at most this many; the others are ready at the next.
#define MST_LOOP_BATCH 64

struct mst_loop_ops {
  int (*open)(struct mst_loop *loop, struct mst_err *err);
  void (*close)(struct mst_loop *loop);
  int (*add)(struct mst_loop *loop, struct mst_io *io, struct mst_err *err);
  int (*change)(struct mst_loop *loop, struct mst_io *io, struct mst_err *err);
  void (*remove)(struct mst_loop *loop, struct mst_io *io);
  // wait fills at most MST_LOOP_BATCH slots and what is ready; returns their count or an error.
  int (*wait)(struct mst_loop *loop, int timeout_ms, size_t *slots,
              uint32_t *ready, struct mst_err *err);
};

// ios[slot] for slot >= 1; NULL if free. A slot isn't reused before the batch that might name it
// has been served.
struct mst_loop {
  const struct mst_loop_ops *ops;
  struct mst_io **ios;
  size_t io_count; // highest slot in use + 1
  size_t io_cap;
  size_t free_hint; // no free slot below it
  int serving;
  int backend_fd; // epoll
  void *backend;  // poll's array
};

extern const struct mst_loop_ops mst_loop_ops_poll;
#if MST_HAVE_EPOLL
extern const struct mst_loop_ops mst_loop_ops_epoll;
#endif

#endif
