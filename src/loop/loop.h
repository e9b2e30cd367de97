// loop: waits for descriptors and framed channels. No R.
//
// A loop belongs to one thread at a time (see io_thread.h) and to one process: in a
// forked child an epoll descriptor is shared with the parent, so a child must not
// touch a loop made before the fork. The loop never owns descriptors. An io must
// be removed before its descriptor is closed: a copy in a forked child would keep
// the registration alive in the kernel.
#ifndef MST_LOOP_H
#define MST_LOOP_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"

#define MST_READABLE 1u // bytes, end of file or an error
#define MST_WRITABLE 2u

struct mst_io;
// Called from mst_loop_run with what is ready. It may add, change and remove ios, its own included.
typedef void (*mst_io_ready)(struct mst_io *io, uint32_t ready);

struct mst_line;
struct mst_io {
  int fd;                // -1: it has a line
  struct mst_line *line; // or NULL
  uint32_t wanted;       // MST_READABLE, MST_WRITABLE or both
  mst_io_ready ready;    // set by the owner before the io is added
  void *owner;           // for ready
  size_t slot;           // the loop's own; 0 when not added
};

struct mst_loop;

enum mst_loop_backend { MST_LOOP_BEST, MST_LOOP_EPOLL, MST_LOOP_POLL };

// mst_loop_open makes a loop. MST_LOOP_BEST is epoll if the system has it. 0, -MST_ESYS, -MST_EMEM,
// -MST_EINPUT for a backend that the system lacks.
int mst_loop_open(enum mst_loop_backend backend, struct mst_loop **out,
                  struct mst_err *err);
// mst_loop_close frees the loop, and forgets ios that are still added.
void mst_loop_close(struct mst_loop *loop);

// mst_loop_fd gives a descriptor that is readable while something is ready, -1 if this backend has
// none. The loop keeps it.
int mst_loop_fd(const struct mst_loop *loop);

// mst_loop_add starts watching. The io stays the caller's and must not move
// until it is removed. 0, -MST_ESYS, -MST_EMEM.
int mst_loop_add(struct mst_loop *loop, struct mst_io *io, struct mst_err *err);
// mst_loop_want changes what to wait for; no system call if that is unchanged.
int mst_loop_want(struct mst_loop *loop, struct mst_io *io, uint32_t wanted,
                  struct mst_err *err);
// mst_loop_remove stops watching; harmless for an io that isn't added.
void mst_loop_remove(struct mst_loop *loop, struct mst_io *io);

// mst_loop_run waits up to timeout_ms (-1: without limit, 0: not at all) and calls `ready` for each
// ready io. Returns the number of ios served, 0 after a timeout or a signal, -MST_ESYS. Cost:
// O(ready) with epoll, O(ios) with poll.
int mst_loop_run(struct mst_loop *loop, int timeout_ms, struct mst_err *err);

#endif
