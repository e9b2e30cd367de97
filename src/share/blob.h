// share/blob: reference-counted bytes for several queues, with their segment. Pure except for the
// segment's descriptor, which the last release closes. No R.
#ifndef MST_SHARE_BLOB_H
#define MST_SHARE_BLOB_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"
#include "share/segment.h"

// mst_blob: bytes that several queues may hold, and their segment. Not thread-safe.
struct mst_blob {
  struct mst_buf buf;
  struct mst_segment segment; // sealed, or empty; closed with the blob
  struct mst_blob *lender;    // owner of the segment, with a reference; NULL: this blob
  uint64_t binds;  // for journals: what its call does, see journal.h
  size_t logged;   // references held by journals
  uint32_t number; // of the message, see note_export() in R/map-exports.R
  uint8_t one; // the call is for one worker, not for later ones too (pool/common.h)
  size_t refs;
};
// mst_blob_new gives an empty blob with one reference, NULL if memory is short.
struct mst_blob *mst_blob_new(void);
// mst_blob_release drops a reference and frees the blob with the last. NULL is allowed.
void mst_blob_release(struct mst_blob *blob);
// mst_blob_equal tells whether two blobs have the same bytes. Blobs with segments count as
// different: they are large, and few.
int mst_blob_equal(const struct mst_blob *a, const struct mst_blob *b);
// mst_blob_bytes gives the memory used by a payload and its segment.
size_t mst_blob_bytes(const struct mst_blob *blob);
// mst_blob_borrow: if the segments of both hold the same bytes, blob closes its own, uses that of
// `from` (or its lender) instead, and keeps a reference. Returns 1, or 0 if nothing changed.
int mst_blob_borrow(struct mst_blob *blob, struct mst_blob *from);

#endif
