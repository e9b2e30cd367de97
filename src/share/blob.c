// Bytes that several queues may hold. The contract is in blob.h.
#include "share/blob.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"

struct mst_blob *mst_blob_new(void) {
  struct mst_blob *blob = calloc(1, sizeof *blob);
  if (blob == NULL) return NULL;
  blob->refs = 1;
  blob->segment = MST_SEGMENT_NONE;
  return blob;
}

int mst_blob_equal(const struct mst_blob *a, const struct mst_blob *b) {
  if (a == b) return 1;
  if (a->segment.fd >= 0 || b->segment.fd >= 0) return 0;
  return a->buf.len == b->buf.len &&
         (a->buf.data == b->buf.data ||
          memcmp(a->buf.data, b->buf.data, a->buf.len) == 0);
}

size_t mst_blob_bytes(const struct mst_blob *blob) {
  return blob->buf.len + (size_t)blob->segment.bytes;
}

void mst_blob_release(struct mst_blob *blob) {
  if (blob == NULL) return;
  MST_ASSERT(blob->refs > 0);
  if (--blob->refs > 0) return;
  mst_buf_free(&blob->buf);
  if (blob->lender == NULL) mst_segment_close(&blob->segment);
  mst_blob_release(blob->lender);
  free(blob);
}

int mst_blob_borrow(struct mst_blob *blob, struct mst_blob *from) {
  struct mst_blob *lender = from->lender == NULL ? from : from->lender;
  if (blob->segment.fd < 0 || blob->lender != NULL) return 0;
  if (!mst_segment_equal(&blob->segment, &lender->segment)) return 0;
  mst_segment_close(&blob->segment);
  blob->segment = lender->segment;
  blob->lender = lender;
  lender->refs++;
  return 1;
}
