// Frames and lines in received bytes. See inbox.h.
#include "net/inbox.h"

#include <string.h>

#include "base/mst_assert.h"

// Memory of a large message is freed once all has been taken.
#define KEEP_BYTES ((size_t)64 << 10)

void mst_inbox_head(enum mst_inbox_kind kind, uint64_t n,
                    uint8_t head[MST_INBOX_HEAD]) {
  MST_ASSERT(n <= MST_INBOX_LENGTH_MAX);
  for (size_t i = MST_INBOX_HEAD; i-- > 1; n >>= 8)
    head[i] = (uint8_t)(n & 0xff);
  head[0] = (uint8_t)kind;
}

size_t mst_inbox_bytes(const struct mst_inbox *inbox) {
  return inbox->buf.len - inbox->at;
}

uint8_t *mst_inbox_room(struct mst_inbox *inbox, size_t n) {
  struct mst_buf *buf = &inbox->buf;
  if (inbox->at > 0) {
    const size_t left = buf->len - inbox->at;
    if (left > 0) memmove(buf->data, buf->data + inbox->at, left);
    buf->len = left;
    inbox->at = 0;
    mst_buf_trim(buf, KEEP_BYTES);
  }
  return mst_buf_reserve(buf, n) == 0 ? buf->data + buf->len : NULL;
}

void mst_inbox_add(struct mst_inbox *inbox, size_t n) {
  MST_ASSERT(n <= inbox->buf.cap - inbox->buf.len);
  inbox->buf.len += n;
}

int mst_inbox_frame(const struct mst_inbox *inbox, uint64_t limit,
                    enum mst_inbox_kind *kind, const uint8_t **bytes,
                    uint64_t *n, struct mst_err *err) {
  const size_t there = mst_inbox_bytes(inbox);
  // An empty buffer may have no memory to point into.
  const uint8_t *head = there > 0 ? inbox->buf.data + inbox->at : NULL;
  // A peer with another protocol is recognized by its first byte.
  if (there > 0 && head[0] != MST_INBOX_BYTES && head[0] != MST_INBOX_OBJECT) {
    return mst_err_set(err, MST_EPROTO, 0, NULL,
                       "invalid message: it begins with byte 0x%02x", head[0]);
  }
  if (there < MST_INBOX_HEAD) {
    *n = MST_INBOX_HEAD - there;
    return -MST_EAGAIN;
  }
  uint64_t length = 0;
  for (size_t i = 1; i < MST_INBOX_HEAD; i++)
    length = length << 8 | head[i];
  if (length > limit || length > SIZE_MAX - MST_INBOX_HEAD) {
    *n = length;
    return mst_err_set(err, MST_ELIMIT, 0, NULL,
                       "the message exceeds the limit");
  }
  if (there - MST_INBOX_HEAD < length) {
    *n = length - (there - MST_INBOX_HEAD);
    return -MST_EAGAIN;
  }
  *kind = (enum mst_inbox_kind)head[0];
  *bytes = head + MST_INBOX_HEAD;
  *n = length;
  return 0;
}

int mst_inbox_line(struct mst_inbox *inbox, size_t limit, const uint8_t **bytes,
                   size_t *n, size_t *whole, struct mst_err *err) {
  const size_t there = mst_inbox_bytes(inbox);
  const uint8_t *from = there > 0 ? inbox->buf.data + inbox->at : NULL;
  const uint8_t *end =
      there > inbox->scanned
          ? memchr(from + inbox->scanned, '\n', there - inbox->scanned)
          : NULL;
  size_t length = end != NULL ? (size_t)(end - from) : there;
  if (end != NULL && length > 0 && from[length - 1] == '\r') length--;
  if (end == NULL) inbox->scanned = there;
  // One more byte may be the '\r' of the line's end.
  if (length > limit && (end != NULL || length - 1 > limit)) {
    return mst_err_set(err, MST_ELIMIT, 0, NULL, "the line exceeds the limit");
  }
  if (end == NULL) {
    *n = 1;
    return -MST_EAGAIN;
  }
  *bytes = from;
  *n = length;
  *whole = (size_t)(end - from) + 1;
  return 0;
}

void mst_inbox_take(struct mst_inbox *inbox, size_t n) {
  MST_ASSERT(n <= mst_inbox_bytes(inbox));
  inbox->at += n;
  inbox->scanned = 0;
}

void mst_inbox_free(struct mst_inbox *inbox) {
  mst_buf_free(&inbox->buf);
  inbox->at = inbox->scanned = 0;
}
