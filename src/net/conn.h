// conn: a connection with what is on its way in both directions. No R; one thread at a
// time.
//
// What is to be sent is put into `out` whole, and flushed; what doesn't go out within the
// time stays there, and goes out first the next time. So a message is never torn, whenever
// its sender gives up. What came in stays in `in` until somebody takes it.
#ifndef MST_NET_CONN_H
#define MST_NET_CONN_H

#include "net/inbox.h"
#include "net/stream.h"

struct mst_conn {
  int fd;              // -1 once closed
  struct mst_inbox in; // came, and not taken yet
  struct mst_buf out;  // to be sent
  size_t out_at;       // bytes of it that are sent
  int ended; // 0, or how the connection ended: errno of a reset, -1 for a close
  uint64_t sent_bytes, received_bytes;
};

// mst_conn_init takes over a descriptor.
void mst_conn_init(struct mst_conn *conn, int fd);

// mst_conn_unsent gives how many bytes wait in `out`.
size_t mst_conn_unsent(const struct mst_conn *conn);
// mst_conn_put adds n bytes to `out`. 0, -MST_EMEM, -MST_ELIMIT.
int mst_conn_put(struct mst_conn *conn, const void *bytes, size_t n);
// mst_conn_flush sends `out`. 0: all is sent; -MST_EAGAIN; -MST_ECLOSED, -MST_ESYS: the
// rest is thrown away.
int mst_conn_flush(struct mst_conn *conn, int64_t until_ns,
                   struct mst_err *err);

// mst_conn_fill reads once, at most about `want` bytes more than it needs; waits if
// nothing is there. 0: something came. -MST_EAGAIN, -MST_ECLOSED (the end, or a reset;
// err->sys_errno tells which), -MST_EMEM, -MST_ESYS.
int mst_conn_fill(struct mst_conn *conn, size_t want, int64_t until_ns,
                  struct mst_err *err);

// mst_conn_close ends the connection, also for copies that a forked child has, and frees
// what it holds; again without harm. What wasn't sent is lost.
void mst_conn_close(struct mst_conn *conn);

#endif
