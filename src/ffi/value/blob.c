// Bytes of R objects that are shared and counted: see share/blob.h.
#include "ffi/value/value.h"

// What is serialized, and to what.
struct blob_of {
  SEXP x;
  int whole;
  struct mst_blob *blob;
};

static SEXP fill_blob(void *data) {
  struct blob_of *of = data;
  of->blob = ffi_new_blob();
  if (of->whole) {
    ffi_serialize_whole(of->x, of->blob);
  } else {
    ffi_serialize(of->x, &of->blob->buf);
  }
  ffi_unhold(of->blob);
  return R_NilValue;
}

// In workers, and for sockets, R is in no entry that would let go of it.
static struct mst_blob *make_blob(SEXP x, int whole) {
  struct blob_of of = {.x = x, .whole = whole};
  if (ffi_depth() > 0) {
    (void)fill_blob(&of);
  } else {
    (void)ffi_entry(fill_blob, &of);
  }
  return of.blob;
}

struct mst_blob *ffi_blob_of(SEXP x) {
  return make_blob(x, 0);
}

struct mst_blob *ffi_blob_whole(SEXP x) {
  return make_blob(x, 1);
}

struct mst_blob *ffi_blob_copy(SEXP bytes) {
  const size_t n = (size_t)Rf_xlength(bytes);
  if (n >= FFI_ROOM_FROM) ffi_room_check(n);
  struct mst_blob *blob = mst_blob_new();
  if (blob == NULL || mst_buf_append(&blob->buf, RAW(bytes), n) != 0) {
    mst_blob_release(blob);
    ffi_no_memory(n);
  }
  return blob;
}
