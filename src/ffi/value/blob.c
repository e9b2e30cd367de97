// R objects as reference-counted bytes: see share/blob.h.
#include "ffi/value/value.h"

// What to serialize, and into which blob.
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

// In workers, and for sockets, no entry point is active to free it.
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
