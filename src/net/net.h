// net: one wrapper for each call on descriptors. EINTR, EAGAIN, short counts and
// SIGPIPE are dealt with here and nowhere else. No R, no state; any thread.
//
// Every descriptor is close-on-exec from birth. A size is in bytes. Functions
// return 0 or a count, or -MST_E* with *err filled (err may be NULL).
#ifndef MST_NET_H
#define MST_NET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/mst_err.h"

// Most descriptors in one message; FORK carries three.
#define MST_NET_FDS_MAX 8u

// mst_net_pair makes two connected stream sockets of the unix family.
// The caller closes both. -MST_ESYS (EMFILE, ENFILE, ...).
int mst_net_pair(int fds[2], struct mst_err *err);

// mst_net_pipe makes a pipe: fds[0] is read, without blocking, fds[1] written.
int mst_net_pipe(int fds[2], struct mst_err *err);

// mst_net_raise moves *fd to 1024 or above, so that the low numbers stay
// free for R's select(), which can't go past 1023. Where the limit on
// descriptors doesn't reach that far the number stays as it is. Never fails.
void mst_net_raise(int *fd);

// mst_net_close closes *fd if it isn't -1 and sets it to -1.
void mst_net_close(int *fd);

// mst_net_shutdown ends a connected socket in both directions, also for copies
// of the descriptor that a forked child may hold.
void mst_net_shutdown(int fd);

// mst_net_sendv sends what fits of `count` parts. Blocks only if wait is 1.
// Returns bytes sent (> 0), -MST_EAGAIN if nothing fits now, -MST_ECLOSED if
// the peer is gone, -MST_ESYS. fds (fd_count of them, at most MST_NET_FDS_MAX)
// go along with the first byte; the sender keeps and closes its copies. -MST_ESYS with ENOTSUP
// where the system can't send descriptors (mst_features.h): no byte goes out.
int64_t mst_net_sendv(int fd, const struct iovec *parts, int count,
                      const int *fds, size_t fd_count, int wait,
                      struct mst_err *err);

// mst_net_recv reads at most n bytes (n > 0). Blocks only if wait is 1; a
// signal ends the wait with -MST_EAGAIN. Returns bytes read (> 0), -MST_EAGAIN,
// -MST_ECLOSED at the end or after a reset, -MST_ESYS.
int64_t mst_net_recv(int fd, void *bytes, size_t n, int wait,
                     struct mst_err *err);

// mst_net_recv_fds is mst_net_recv for messages that may carry descriptors:
// *fd_count of them are put into fds, close-on-exec, owned by the caller, also
// if it returns fewer bytes than a message has. More than MST_NET_FDS_MAX is
// -MST_EPROTO after closing what came. *lost: some came that this process has no
// room for, since it, or the system, is at its limit; the bytes are there, and
// none of the descriptors. Where the system can't send descriptors none come.
int64_t mst_net_recv_fds(int fd, void *bytes, size_t n, int wait,
                         int fds[MST_NET_FDS_MAX], size_t *fd_count, int *lost,
                         struct mst_err *err);

// mst_net_read reads from a pipe that doesn't block; results as mst_net_recv.
int64_t mst_net_read(int fd, void *bytes, size_t n, struct mst_err *err);

// mst_net_fd_limits gives the soft and hard limit on descriptor numbers, and
// how many descriptors this process has open (-1 where that can't be known).
void mst_net_fd_limits(int64_t *soft, int64_t *hard, int64_t *open_now);

// mst_net_fd_raise_limit raises the soft limit to `want` or the hard limit.
// Returns the soft limit in force after it.
int64_t mst_net_fd_raise_limit(int64_t want);

#endif
