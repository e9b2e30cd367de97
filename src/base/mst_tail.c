// The last bytes of a stream. See mst_tail.h.
#include "base/mst_tail.h"

#include <stdlib.h>
#include <string.h>

void mst_tail_write(struct mst_tail *tail, const char *bytes, size_t n) {
  tail->total += n;
  if (tail->bytes == NULL) tail->bytes = malloc(MST_TAIL_BYTES);
  if (tail->bytes == NULL) return;
  if (n > MST_TAIL_BYTES) {
    bytes += n - MST_TAIL_BYTES;
    n = MST_TAIL_BYTES;
  }
  const size_t first =
      n < MST_TAIL_BYTES - tail->next ? n : MST_TAIL_BYTES - tail->next;
  memcpy(tail->bytes + tail->next, bytes, first);
  memcpy(tail->bytes, bytes + first, n - first);
  tail->next = (tail->next + n) % MST_TAIL_BYTES;
}

size_t mst_tail_read(const struct mst_tail *tail, char *out) {
  if (tail->bytes == NULL) return 0;
  if (tail->total <= MST_TAIL_BYTES) {
    const size_t n = (size_t)tail->total;
    memcpy(out, tail->bytes, n);
    return n;
  }
  const size_t first = MST_TAIL_BYTES - tail->next;
  memcpy(out, tail->bytes + tail->next, first);
  memcpy(out + first, tail->bytes, tail->next);
  const char *newline = memchr(out, '\n', MST_TAIL_BYTES - 1);
  if (newline == NULL) return MST_TAIL_BYTES;
  const size_t skip = (size_t)(newline - out) + 1;
  memmove(out, out + skip, MST_TAIL_BYTES - skip);
  return MST_TAIL_BYTES - skip;
}

void mst_tail_free(struct mst_tail *tail) {
  free(tail->bytes);
  memset(tail, 0, sizeof *tail);
}
