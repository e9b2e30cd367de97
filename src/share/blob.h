// share/blob: bytes that several queues may hold, counted, with their segment. Pure but for
// the segment's descriptor, which is closed with the last reference. No R.
#ifndef MST_SHARE_BLOB_H
#define MST_SHARE_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"
#include "share/segment.h"

// mst_blob: bytes that several queues may hold, and the segment that goes along with
// them. Not thread-safe.
struct mst_blob {
  struct mst_buf buf;
  struct mst_segment segment; // sealed, or none; closed with the blob
  struct mst_blob *lender;    // whose segment it is, NULL: its own. A reference
  uint64_t binds;  // for journals: what the call in it does, see journal.h
  size_t logged;   // references that journals have
  uint32_t number; // of the message, see note_export() in R/map-exports.R
  uint8_t one; // the call is for one worker, and not for those that join (pool/common.h)
  size_t refs;
};
// mst_blob_new gives an empty blob with one reference, NULL without memory.
struct mst_blob *mst_blob_new(void);
// mst_blob_release drops a reference and frees at the last. NULL is allowed.
void mst_blob_release(struct mst_blob *blob);
// mst_blob_equal tells whether two have the same bytes. What is in segments isn't compared:
// such blobs are large, and few.
int mst_blob_equal(const struct mst_blob *a, const struct mst_blob *b);
// mst_blob_bytes gives the memory that a payload takes, with its segment.
size_t mst_blob_bytes(const struct mst_blob *blob);
// mst_blob_borrow has a blob let go of its own segment for that of another, if the two hold the
// same: 1, or 0. It keeps the other.
int mst_blob_borrow(struct mst_blob *blob, struct mst_blob *from);

#endif
