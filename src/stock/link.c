// See link.h. A worker's answer stays in one run of memory until it is read: R's format
// can't be read in parts. Cost: that memory, and one pass of the parser over the bytes.
#include "stock/link.h"

#include <string.h>

#include "net/net.h"
#include "stock/word.h"

#define READ_BYTES ((size_t)64 << 10)
#define KEEP_BYTES ((size_t)1 << 20)
// A message up to this size is copied when it is detached; of a larger one what stands behind
// it is.
#define SMALL_BYTES ((size_t)4096)

void mst_link_init(struct mst_link *link, int fd, pid_t owner) {
  memset(link, 0, sizeof *link);
  link->fd = fd;
  link->owner = owner;
}

static int look(struct mst_link *link) {
  if (link->whole > 0) return 1;
  if (link->in.len == 0) return 0;
  if (!link->proved) {
    if (link->word > 0) return 1;
    return mst_stock_word_find(link->in.data, link->in.len, &link->word);
  }
  return mst_stock_scan_run(&link->scan, link->in.data, link->in.len,
                            &link->whole);
}

// read_some gives 1 if something came, 0 if nothing is there.
static int read_some(struct mst_link *link) {
  int rc = mst_buf_reserve(&link->in,
                           link->proved ? READ_BYTES : MST_STOCK_FIRST_MAX);
  if (rc != 0) return rc;
  const int64_t got = mst_net_recv(link->fd, link->in.data + link->in.len,
                                   link->in.cap - link->in.len, 0, NULL);
  if (got == -MST_EAGAIN) return 0;
  if (got < 0) return (int)got;
  link->in.len += (size_t)got;
  return 1;
}

int mst_link_fill(struct mst_link *link) {
  for (;;) {
    int rc = look(link);
    if (rc == 1) return 1;
    if (rc == 0 && link->ended != 0) return link->ended;
    if (rc == 0) {
      rc = link->fd < 0 ? -MST_ECLOSED : read_some(link);
      if (rc == 0) return 0;
    }
    if (rc < 0) return link->ended = rc;
  }
}

int mst_link_prove(struct mst_link *link, const char *word) {
  if (link->word == 0 || link->proved) return 0;
  link->proved =
      mst_stock_word_same(link->in.data + link->word, (const uint8_t *)word);
  return link->proved;
}

int mst_link_flush(struct mst_link *link) {
  while (link->sent < link->out.len) {
    if (link->fd < 0) return -MST_ECLOSED;
    const struct iovec part = {.iov_base = link->out.data + link->sent,
                               .iov_len = link->out.len - link->sent};
    const int64_t rc = mst_net_sendv(link->fd, &part, 1, NULL, 0, 0, NULL);
    if (rc == -MST_EAGAIN) return 0;
    if (rc < 0) return (int)rc;
    link->sent += (size_t)rc;
  }
  link->out.len = 0;
  link->sent = 0;
  mst_buf_trim(&link->out, KEEP_BYTES);
  return 1;
}

void mst_link_take(struct mst_link *link) {
  const size_t rest = link->in.len - link->whole;
  if (rest > 0) memmove(link->in.data, link->in.data + link->whole, rest);
  link->in.len = rest;
  link->whole = 0;
  mst_stock_scan_reset(&link->scan);
  mst_buf_trim(&link->in, KEEP_BYTES);
}

int mst_link_detach(struct mst_link *link, struct mst_buf *bytes) {
  *bytes = (struct mst_buf){0};
  if (link->whole <= SMALL_BYTES) {
    if (mst_buf_append(bytes, link->in.data, link->whole) != 0) {
      return -MST_EMEM;
    }
    mst_link_take(link);
    return 1;
  }
  struct mst_buf rest = {0};
  if (mst_buf_append(&rest, link->in.data + link->whole,
                     link->in.len - link->whole) != 0) {
    return -MST_EMEM;
  }
  *bytes = link->in;
  bytes->len = link->whole;
  link->in = rest;
  link->whole = 0;
  mst_stock_scan_reset(&link->scan);
  return 1;
}

short mst_link_events(const struct mst_link *link) {
  return (short)(POLLIN | (link->sent < link->out.len ? POLLOUT : 0));
}

void mst_link_close(struct mst_link *link) {
  mst_net_close(&link->fd);
  mst_buf_free(&link->in);
  mst_buf_free(&link->out);
  mst_stock_scan_free(&link->scan);
  link->whole = link->sent = 0;
  if (link->ended == 0) link->ended = -MST_ECLOSED;
}
