// See conn.h. A worker's answer stays in contiguous memory until it is read: R's format can't be
// read in parts. Cost: that memory, and one pass of the parser over the bytes.
#include "stock/conn.h"

#include <string.h>

#include "net/net.h"
#include "stock/word.h"

#define READ_BYTES ((size_t)64 << 10)
#define KEEP_BYTES ((size_t)1 << 20)
// A message up to this size is copied when detached; for a larger one, the bytes after it are
// copied instead.
#define SMALL_BYTES ((size_t)4096)

void mst_stock_conn_init(struct mst_stock_conn *conn, int fd, pid_t owner) {
  memset(conn, 0, sizeof *conn);
  conn->fd = fd;
  conn->owner = owner;
}

static int look(struct mst_stock_conn *conn) {
  if (conn->whole > 0) return 1;
  if (conn->in.len == 0) return 0;
  if (!conn->proved) {
    if (conn->word > 0) return 1;
    return mst_stock_word_find(conn->in.data, conn->in.len, &conn->word);
  }
  return mst_stock_parse_run(&conn->scan, conn->in.data, conn->in.len,
                             &conn->whole);
}

// read_some returns 1 if something came, 0 if nothing is there.
static int read_some(struct mst_stock_conn *conn) {
  int rc = mst_buf_reserve(&conn->in,
                           conn->proved ? READ_BYTES : MST_STOCK_FIRST_MAX);
  if (rc != 0) return rc;
  const int64_t got = mst_net_recv(conn->fd, conn->in.data + conn->in.len,
                                   conn->in.cap - conn->in.len, 0, NULL);
  if (got == -MST_EAGAIN) return 0;
  if (got < 0) return (int)got;
  conn->in.len += (size_t)got;
  return 1;
}

int mst_stock_conn_fill(struct mst_stock_conn *conn) {
  for (;;) {
    int rc = look(conn);
    if (rc == 1) return 1;
    if (rc == 0 && conn->ended != 0) return conn->ended;
    if (rc == 0) {
      rc = conn->fd < 0 ? -MST_ECLOSED : read_some(conn);
      if (rc == 0) return 0;
    }
    if (rc < 0) return conn->ended = rc;
  }
}

int mst_stock_conn_prove(struct mst_stock_conn *conn, const char *word) {
  if (conn->word == 0 || conn->proved) return 0;
  conn->proved =
      mst_stock_word_same(conn->in.data + conn->word, (const uint8_t *)word);
  return conn->proved;
}

int mst_stock_conn_flush(struct mst_stock_conn *conn) {
  while (conn->sent < conn->out.len) {
    if (conn->fd < 0) return -MST_ECLOSED;
    const struct iovec part = {.iov_base = conn->out.data + conn->sent,
                               .iov_len = conn->out.len - conn->sent};
    const int64_t rc = mst_net_sendv(conn->fd, &part, 1, NULL, 0, 0, NULL);
    if (rc == -MST_EAGAIN) return 0;
    if (rc < 0) return (int)rc;
    conn->sent += (size_t)rc;
  }
  conn->out.len = 0;
  conn->sent = 0;
  mst_buf_trim(&conn->out, KEEP_BYTES);
  return 1;
}

void mst_stock_conn_take(struct mst_stock_conn *conn) {
  const size_t rest = conn->in.len - conn->whole;
  if (rest > 0) memmove(conn->in.data, conn->in.data + conn->whole, rest);
  conn->in.len = rest;
  conn->whole = 0;
  mst_stock_parse_reset(&conn->scan);
  mst_buf_trim(&conn->in, KEEP_BYTES);
}

int mst_stock_conn_detach(struct mst_stock_conn *conn, struct mst_buf *bytes) {
  *bytes = (struct mst_buf){0};
  if (conn->whole <= SMALL_BYTES) {
    if (mst_buf_append(bytes, conn->in.data, conn->whole) != 0) {
      return -MST_EMEM;
    }
    mst_stock_conn_take(conn);
    return 1;
  }
  struct mst_buf rest = {0};
  if (mst_buf_append(&rest, conn->in.data + conn->whole,
                     conn->in.len - conn->whole) != 0) {
    return -MST_EMEM;
  }
  *bytes = conn->in;
  bytes->len = conn->whole;
  conn->in = rest;
  conn->whole = 0;
  mst_stock_parse_reset(&conn->scan);
  return 1;
}

short mst_stock_conn_events(const struct mst_stock_conn *conn) {
  return (short)(POLLIN | (conn->sent < conn->out.len ? POLLOUT : 0));
}

void mst_stock_conn_close(struct mst_stock_conn *conn) {
  mst_net_close(&conn->fd);
  mst_buf_free(&conn->in);
  mst_buf_free(&conn->out);
  mst_stock_parse_free(&conn->scan);
  conn->whole = conn->sent = 0;
  if (conn->ended == 0) conn->ended = -MST_ECLOSED;
}
