// Where in its frames a stream of bytes is. See relay_int.h.
#include <string.h>

#include "host/relay_int.h"

int mst_passing_is_between(const struct mst_passing *at) {
  return at->have == 0 && at->left == 0;
}

int64_t mst_passing_next(struct mst_passing *at, const uint8_t *bytes, size_t n,
                         struct mst_head *head, int *whole) {
  *whole = 0;
  if (at->left > 0) {
    const size_t part = at->left < n ? (size_t)at->left : n;
    at->left -= part;
    return (int64_t)part;
  }
  const size_t missing = MST_HEAD_BYTES - at->have;
  const size_t part = missing < n ? missing : n;
  memcpy(at->head + at->have, bytes, part);
  at->have += part;
  const int rc = mst_head_decode(at->head, at->have, MST_FRAME_MAX, head);
  if (rc < 0) return -MST_EPROTO;
  if (rc > 0) {
    *whole = 1;
    at->have = 0;
    at->left = head->length;
  }
  return (int64_t)part;
}
