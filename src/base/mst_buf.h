// mst_buf: a growable run of bytes. One owner, no locks, no R.
#ifndef MST_BUF_H
#define MST_BUF_H

#include <stddef.h>
#include <stdint.h>

struct mst_buf {
  uint8_t *data; // NULL while nothing was reserved
  size_t len;    // bytes in use
  size_t cap;    // bytes reserved
};

// mst_size_add puts a + b into *sum; -MST_ELIMIT if that overflows.
int mst_size_add(size_t a, size_t b, size_t *sum);

// mst_buf_reserve makes room for `more` bytes past len, at least doubling when
// it grows. 0, -MST_EMEM or -MST_ELIMIT; on failure the buffer is unchanged.
int mst_buf_reserve(struct mst_buf *buf, size_t more);

// mst_buf_append copies n bytes to the end. Errors as mst_buf_reserve.
int mst_buf_append(struct mst_buf *buf, const void *bytes, size_t n);

// mst_buf_trim frees the memory if more than keep bytes are reserved and none are in use; does
// nothing otherwise.
void mst_buf_trim(struct mst_buf *buf, size_t keep);

// mst_buf_free releases the bytes; the buffer may be used again afterwards.
void mst_buf_free(struct mst_buf *buf);

#endif
