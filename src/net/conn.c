// A connection with its buffers. See conn.h.
#include "net/conn.h"

#include <errno.h>
#include <string.h>

#include "base/mst_assert.h"

// Bounds of one read: a small message costs one call, and a length that the peer announces doesn't
// make us allocate memory before the bytes have come.
#define READ_MIN ((size_t)16 << 10)
#define READ_MAX ((size_t)4 << 20)
// Sent bytes at the front of `out` are dropped once they exceed this.
#define KEEP_BYTES ((size_t)64 << 10)

void mst_conn_init(struct mst_conn *conn, int fd) {
  memset(conn, 0, sizeof *conn);
  conn->fd = fd;
}

size_t mst_conn_unsent(const struct mst_conn *conn) {
  return conn->out.len - conn->out_at;
}

int mst_conn_put(struct mst_conn *conn, const void *bytes, size_t n) {
  return mst_buf_append(&conn->out, bytes, n);
}

static void drop_out(struct mst_conn *conn) {
  conn->out.len = conn->out_at = 0;
  mst_buf_trim(&conn->out, KEEP_BYTES);
}

// note_end remembers how a connection ended: the system reports a reset once, afterwards it looks
// like any other end. EPIPE only means that the peer no longer reads.
static void note_end(struct mst_conn *conn, struct mst_err *err) {
  const int number = err->sys_errno;
  if (conn->ended <= 0) {
    conn->ended = number != 0 && number != EPIPE ? number : -1;
  }
  if (conn->ended > 0 && number == 0) {
    (void)mst_err_set(err, MST_ECLOSED, conn->ended, "recv", "%s",
                      strerror(conn->ended));
  }
}

int mst_conn_flush(struct mst_conn *conn, int64_t until_ns,
                   struct mst_err *err) {
  struct mst_err own;
  if (err == NULL) err = &own;
  if (mst_conn_unsent(conn) == 0) return 0;
  const size_t before = conn->out_at;
  const int rc = mst_net_send_until(conn->fd, conn->out.data, conn->out.len,
                                    &conn->out_at, until_ns, err);
  conn->sent_bytes += conn->out_at - before;
  if (rc != -MST_EAGAIN) drop_out(conn);
  if (rc == -MST_ECLOSED) note_end(conn, err);
  return rc;
}

int mst_conn_fill(struct mst_conn *conn, size_t want, int64_t until_ns,
                  struct mst_err *err) {
  struct mst_err own;
  if (err == NULL) err = &own;
  size_t n = want < READ_MIN ? READ_MIN : want;
  if (n > READ_MAX) n = READ_MAX;
  for (;;) {
    uint8_t *room = mst_inbox_room(&conn->in, n);
    if (room == NULL) {
      return mst_err_set(err, MST_EMEM, 0, "malloc",
                         "no memory for what was received");
    }
    const int64_t got = mst_net_recv(conn->fd, room, n, 0, err);
    if (got > 0) {
      mst_inbox_add(&conn->in, (size_t)got);
      conn->received_bytes += (uint64_t)got;
      return 0;
    }
    if (got == -MST_ECLOSED) note_end(conn, err);
    if (got != -MST_EAGAIN) return (int)got;
    if (mst_net_wait(conn->fd, POLLIN, until_ns) == 0) return -MST_EAGAIN;
  }
}

void mst_conn_close(struct mst_conn *conn) {
  if (conn->fd >= 0) mst_net_shutdown(conn->fd);
  mst_net_close(&conn->fd);
  mst_inbox_free(&conn->in);
  mst_buf_free(&conn->out);
  conn->out_at = 0;
}
