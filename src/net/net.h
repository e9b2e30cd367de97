// net: one wrapper for each call on descriptors. Only here are EINTR, EAGAIN, short counts and
// SIGPIPE handled. No R, no state; any thread.
//
// Every descriptor is close-on-exec from birth. A size is in bytes. Functions
// return 0 or a count, or -MST_E* with *err filled (err may be NULL).
#ifndef MST_NET_H
#define MST_NET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/mst_err.h"

// The most descriptors in one message; FORK carries three.
#define MST_NET_FDS_MAX 8u

// mst_net_pair makes two connected stream sockets of the unix family.
// The caller closes both. -MST_ESYS (EMFILE, ENFILE, ...).
int mst_net_pair(int fds[2], struct mst_err *err);

// mst_net_pipe makes a pipe: fds[0] for reading, without blocking, fds[1] for writing.
int mst_net_pipe(int fds[2], struct mst_err *err);

// mst_net_raise moves *fd to 1024 or above, so that the low numbers stay free for R's select(),
// which can't go past 1023. If the limit on descriptors is too low the number stays as it is. Never
// fails.
void mst_net_raise(int *fd);

// mst_net_copy makes another descriptor of the same file, close-on-exec and above 1023 if there is
// room. 0, -MST_ESYS.
int mst_net_copy(int fd, int *copy, struct mst_err *err);

// mst_net_close closes *fd if it isn't -1 and sets it to -1.
void mst_net_close(int *fd);

// mst_net_shutdown ends a connected socket in both directions, also for copies of the descriptor in
// forked children.
void mst_net_shutdown(int fd);

// mst_net_sendv sends as much of `count` parts as fits. Blocks only if wait is 1. Returns bytes
// sent (> 0), -MST_EAGAIN if nothing fits now, -MST_ECLOSED if the peer is gone, -MST_ESYS. fds
// (fd_count of them, at most MST_NET_FDS_MAX) go along with the first byte; the sender keeps and
// closes its copies. -MST_ESYS with ENOTSUP if the system can't send descriptors (mst_features.h);
// then nothing is sent.
int64_t mst_net_sendv(int fd, const struct iovec *parts, int count,
                      const int *fds, size_t fd_count, int wait,
                      struct mst_err *err);

// mst_net_recv reads at most n bytes (n > 0). Blocks only if wait is 1; a
// signal ends the wait with -MST_EAGAIN. Returns bytes read (> 0), -MST_EAGAIN,
// -MST_ECLOSED at the end or after a reset, -MST_ESYS.
int64_t mst_net_recv(int fd, void *bytes, size_t n, int wait,
                     struct mst_err *err);

// mst_net_recv_fds is mst_net_recv for messages that may carry descriptors: stores *fd_count of
// them in fds, close-on-exec, owned by the caller, also if it returns fewer bytes than a message
// has. After more than MST_NET_FDS_MAX it closes those that came and returns -MST_EPROTO. *lost:
// this process or the system is at its limit, so the bytes came but none of the descriptors. If the
// system can't send descriptors none come.
int64_t mst_net_recv_fds(int fd, void *bytes, size_t n, int wait,
                         int fds[MST_NET_FDS_MAX], size_t *fd_count, int *lost,
                         struct mst_err *err);

// mst_net_read reads from a non-blocking pipe; results as mst_net_recv.
int64_t mst_net_read(int fd, void *bytes, size_t n, struct mst_err *err);

// mst_net_write writes to a non-blocking pipe, without SIGPIPE. Bytes written
// (> 0), -MST_EAGAIN, -MST_ECLOSED if nobody reads it any more, -MST_ESYS.
int64_t mst_net_write(int fd, const void *bytes, size_t n, struct mst_err *err);
// mst_net_unread gives how many bytes wait to be read from a socket or a pipe, 0 if that is
// unknown. mst_net_is_closed tells whether the other end of a socket is closed in both directions.
size_t mst_net_unread(int fd);
int mst_net_is_closed(int fd);
// mst_net_unblock makes reads and writes of a descriptor return instead of waiting; mst_net_cut
// ends a connected socket in one direction: the other end sees the end of what is sent.
void mst_net_unblock(int fd);
void mst_net_cut(int fd);

// mst_net_fd_limits gives the soft and hard limit on descriptor numbers, and the number of open
// descriptors of this process (-1 if unknown).
void mst_net_fd_limits(int64_t *soft, int64_t *hard, int64_t *open_now);

// mst_net_fd_raise_limit raises the soft limit to `want`, at most to the hard limit. Returns the
// soft limit afterwards.
int64_t mst_net_fd_raise_limit(int64_t want);

#endif
