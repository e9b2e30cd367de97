// conn: a connection with buffers for both directions. No R; one thread at a time.
//
// A message is put into `out` whole, and flushed; bytes that can't be sent within the time stay
// there and go first the next time. So no message is torn, whenever its sender gives up. Received
// bytes stay in `in` until they are taken.
#ifndef MST_NET_CONN_H
#define MST_NET_CONN_H

#include "net/inbox.h"
#include "net/stream.h"

struct mst_conn {
  int fd;              // -1 once closed
  struct mst_inbox in; // received, not taken yet
  struct mst_buf out;  // to be sent
  size_t out_at;       // bytes of `out` already sent
  int ended; // 0, or how the connection ended: errno of a reset, -1 for a close
  uint64_t sent_bytes, received_bytes;
};

// mst_conn_init takes over a descriptor.
void mst_conn_init(struct mst_conn *conn, int fd);

// mst_conn_unsent gives the number of bytes waiting in `out`.
size_t mst_conn_unsent(const struct mst_conn *conn);
// mst_conn_put adds n bytes to `out`. 0, -MST_EMEM, -MST_ELIMIT.
int mst_conn_put(struct mst_conn *conn, const void *bytes, size_t n);
// mst_conn_flush sends `out`. 0: all is sent; -MST_EAGAIN; -MST_ECLOSED, -MST_ESYS: the rest is
// discarded.
int mst_conn_flush(struct mst_conn *conn, int64_t until_ns,
                   struct mst_err *err);

// mst_conn_fill reads once, at most about `want` bytes more than needed; waits if nothing is there.
// 0: something came. -MST_EAGAIN, -MST_ECLOSED (the end, or a reset; err->sys_errno tells which),
// -MST_EMEM, -MST_ESYS.
int mst_conn_fill(struct mst_conn *conn, size_t want, int64_t until_ns,
                  struct mst_err *err);

// mst_conn_close ends the connection, also for copies in forked children, and frees its buffers;
// may be called again. Unsent bytes are lost.
void mst_conn_close(struct mst_conn *conn);

#endif
