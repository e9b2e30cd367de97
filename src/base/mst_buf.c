// Growable bytes. See mst_buf.h.
#include "base/mst_buf.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_err.h"
#include "base/mst_fault.h"

// The first reservation: most messages of a cluster fit into it.
#define CAP_MIN ((size_t)256)

int mst_size_add(size_t a, size_t b, size_t *sum) {
  if (b > SIZE_MAX - a) return -MST_ELIMIT;
  *sum = a + b;
  return 0;
}

int mst_buf_reserve(struct mst_buf *buf, size_t more) {
  size_t need;
  if (mst_size_add(buf->len, more, &need) != 0) return -MST_ELIMIT;
  if (need <= buf->cap) return 0;
  size_t cap = buf->cap < CAP_MIN ? CAP_MIN : buf->cap;
  if (cap < need) cap = cap > SIZE_MAX / 2 ? need : cap * 2;
  if (cap < need) cap = need;
  if (mst_fault("base.realloc")) return -MST_EMEM;
  uint8_t *data = realloc(buf->data, cap);
  if (data == NULL && cap > need) { // memory is short: try the exact size
    cap = need;
    data = realloc(buf->data, cap);
  }
  if (data == NULL) return -MST_EMEM;
  buf->data = data;
  buf->cap = cap;
  return 0;
}

int mst_buf_append(struct mst_buf *buf, const void *bytes, size_t n) {
  if (n == 0) return 0;
  const int rc = mst_buf_reserve(buf, n);
  if (rc != 0) return rc;
  memcpy(buf->data + buf->len, bytes, n);
  buf->len += n;
  return 0;
}

void mst_buf_trim(struct mst_buf *buf, size_t keep) {
  if (buf->len == 0 && buf->cap > keep) mst_buf_free(buf);
}

void mst_buf_free(struct mst_buf *buf) {
  free(buf->data);
  buf->data = NULL;
  buf->len = 0;
  buf->cap = 0;
}
