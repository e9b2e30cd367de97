// Strings in segments: see share_int.h.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/value/share_int.h"

// They are assembled in a buffer of this size.
#define STRINGS_BYTES ((size_t)1 << 18)

enum ffi_share_mark ffi_share_mark_of(SEXP text) {
  if (text == NA_STRING) return FFI_SHARE_NA;
  switch (Rf_getCharCE(text)) {
  case CE_UTF8:
    return FFI_SHARE_UTF8;
  case CE_LATIN1:
    return FFI_SHARE_LATIN1;
  case CE_BYTES:
    return FFI_SHARE_BYTES;
  default:
    break;
  }
  const char *bytes = CHAR(text);
  const R_xlen_t n = Rf_xlength(text);
  for (R_xlen_t i = 0; i < n; i++) {
    if ((unsigned char)bytes[i] >= 0x80) return FFI_SHARE_NONE;
  }
  return FFI_SHARE_ASCII;
}

static uint64_t text_bytes(SEXP text) {
  return text == NA_STRING ? 0 : (uint64_t)Rf_xlength(text);
}

uint64_t ffi_strings_bytes(const SEXP *texts, R_xlen_t n) {
  uint64_t bytes = 9 * (uint64_t)n;
  for (R_xlen_t i = 0; i < n; i++) {
    if (ffi_share_mark_of(texts[i]) == FFI_SHARE_NONE) return 0;
    bytes += text_bytes(texts[i]);
  }
  return bytes;
}

SEXP ffi_strings_pack(SEXP strings) {
  const R_xlen_t n = Rf_xlength(strings);
  const SEXP *texts = STRING_PTR_RO(strings);
  const uint64_t bytes = ffi_strings_bytes(texts, n);
  if (bytes == 0) return R_NilValue;
  SEXP packed = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)bytes));
  uint8_t *ends = RAW(packed), *marks = ends + 8 * (size_t)n,
          *to = marks + (size_t)n;
  uint64_t end = 0;
  for (R_xlen_t i = 0; i < n; i++) {
    const size_t size = (size_t)text_bytes(texts[i]);
    if (size > 0) memcpy(to + end, CHAR(texts[i]), size);
    end += size;
    memcpy(ends + 8 * (size_t)i, &end, sizeof end);
    marks[i] = (uint8_t)ffi_share_mark_of(texts[i]);
  }
  UNPROTECT(1);
  return packed;
}

struct writer {
  struct mst_segment *segment;
  struct mst_err *err;
  uint8_t *buffer;
  size_t len;
  int rc;
};

static void flush(struct writer *out) {
  if (out->rc == 0) {
    out->rc = mst_segment_append(out->segment, out->buffer, out->len, out->err);
  }
  out->len = 0;
}

static void put(struct writer *out, const void *bytes, size_t n) {
  if (n > STRINGS_BYTES - out->len) flush(out);
  if (n > STRINGS_BYTES) {
    if (out->rc == 0) {
      out->rc = mst_segment_append(out->segment, bytes, n, out->err);
    }
    return;
  }
  memcpy(out->buffer + out->len, bytes, n);
  out->len += n;
}

int ffi_strings_write(struct mst_segment *segment, const SEXP *texts,
                      R_xlen_t n, struct mst_err *err) {
  struct writer out = {.segment = segment, .err = err};
  uint64_t end = 0;
  out.buffer = malloc(STRINGS_BYTES);
  if (out.buffer == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for strings");
  }
  for (R_xlen_t i = 0; i < n; i++) {
    end += text_bytes(texts[i]);
    put(&out, &end, sizeof end);
  }
  for (R_xlen_t i = 0; i < n; i++) {
    const uint8_t mark = (uint8_t)ffi_share_mark_of(texts[i]);
    put(&out, &mark, 1);
  }
  for (R_xlen_t i = 0; i < n; i++) {
    if (texts[i] != NA_STRING) put(&out, CHAR(texts[i]), text_bytes(texts[i]));
  }
  flush(&out);
  free(out.buffer);
  return out.rc;
}

// ---- reading

static uint8_t mark_at(const struct ffi_shared *shared, R_xlen_t i) {
  return shared->data[8 * (size_t)shared->length + (size_t)i];
}

const char *ffi_shared_text(const struct ffi_shared *shared, R_xlen_t i,
                            size_t *n) {
  const uint64_t most = shared->bytes - 9 * (uint64_t)shared->length;
  uint64_t begin = 0, end;
  memcpy(&end, shared->data + 8 * (size_t)i, sizeof end);
  if (i > 0) memcpy(&begin, shared->data + 8 * ((size_t)i - 1), sizeof begin);
  if (begin > end || end > most || end - begin > INT_MAX ||
      mark_at(shared, i) > FFI_SHARE_BYTES) {
    Rf_error("a string in shared memory can't be read");
  }
  *n = (size_t)(end - begin);
  return (const char *)shared->data + 9 * (size_t)shared->length + begin;
}

SEXP ffi_shared_string(const struct ffi_shared *shared, R_xlen_t i) {
  static const cetype_t types[] = {CE_NATIVE, CE_UTF8, CE_LATIN1, CE_BYTES};
  const uint8_t mark = mark_at(shared, i);
  size_t n;
  if (mark == FFI_SHARE_NA) return NA_STRING;
  const char *bytes = ffi_shared_text(shared, i, &n);
  return Rf_mkCharLenCE(bytes, (int)n, types[mark]);
}
