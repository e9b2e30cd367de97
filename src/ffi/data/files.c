// Files of partition_write().
#include "ffi/data/data.h"
#include "share/store.h"

static SEXP told(int rc, const struct mst_err *err) {
  return rc == 0 ? R_NilValue : ffi_error_list(err);
}

// ffi_file_write writes these bytes (raw) to a new file at path; they are on the disk when it
// returns. Gives NULL, or a list as ffi_error_list.
SEXP ffi_file_write(SEXP path, SEXP bytes) {
  struct mst_err err;
  mst_err_clear(&err);
  const char *to = Rf_translateChar(STRING_ELT(path, 0));
  return told(mst_store_write(to, RAW(bytes), (size_t)Rf_xlength(bytes), &err),
              &err);
}

// ffi_file_add puts these bytes at the end of a file that ffi_file_write has made. The disk has
// them after ffi_file_sync. Gives NULL, or as above; then the file is gone.
SEXP ffi_file_add(SEXP path, SEXP bytes) {
  struct mst_err err;
  mst_err_clear(&err);
  const char *to = Rf_translateChar(STRING_ELT(path, 0));
  return told(mst_store_add(to, RAW(bytes), (size_t)Rf_xlength(bytes), &err),
              &err);
}

// ffi_file_sync returns once a file or folder is on the disk: NULL, or as above.
SEXP ffi_file_sync(SEXP path) {
  struct mst_err err;
  mst_err_clear(&err);
  return told(mst_store_sync(Rf_translateChar(STRING_ELT(path, 0)), &err),
              &err);
}
