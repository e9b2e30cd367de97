// Is a value the same as one in another process? A hash of its contents tells: the chance of an
// error is one in 2^64, and a pass over the value costs less than sending it.
//
// Only for plain data: vectors, lists and their attributes. Code, environments and pointers have no
// such hash, since they may change and look the same.
#include <string.h>

#include "base/mst_hash.h"
#include "ffi/value/value.h"

#define CHUNK ((size_t)65536)
#define DEPTH_MAX 100

struct content {
  uint64_t sum;
  uint8_t *chunk; // for vectors that aren't contiguous in memory
};

static void add(struct content *content, uint64_t word) {
  const uint64_t both[2] = {content->sum, word};
  content->sum = mst_hash(both, sizeof both);
}

static void add_bytes(struct content *content, const uint8_t *bytes, size_t n) {
  for (size_t at = 0; at < n; at += CHUNK) {
    add(content, mst_hash(bytes + at, n - at < CHUNK ? n - at : CHUNK));
  }
}

static size_t size_of(int type) {
  switch (type) {
  case LGLSXP:
  case INTSXP:
    return sizeof(int);
  case REALSXP:
    return sizeof(double);
  case CPLXSXP:
    return sizeof(Rcomplex);
  case RAWSXP:
    return 1;
  default:
    return 0;
  }
}

static void get_region(SEXP x, R_xlen_t at, R_xlen_t n, void *to) {
  switch (TYPEOF(x)) {
  case LGLSXP:
    (void)LOGICAL_GET_REGION(x, at, n, to);
    break;
  case INTSXP:
    (void)INTEGER_GET_REGION(x, at, n, to);
    break;
  case REALSXP:
    (void)REAL_GET_REGION(x, at, n, to);
    break;
  case CPLXSXP:
    (void)COMPLEX_GET_REGION(x, at, n, to);
    break;
  default:
    (void)RAW_GET_REGION(x, at, n, to);
    break;
  }
}

static void add_numbers(struct content *content, SEXP x) {
  const size_t size = size_of(TYPEOF(x));
  const R_xlen_t n = Rf_xlength(x);
  const void *data = DATAPTR_OR_NULL(x);
  if (data != NULL) {
    add_bytes(content, data, (size_t)n * size);
    return;
  }
  const R_xlen_t step = (R_xlen_t)(CHUNK / size);
  for (R_xlen_t at = 0; at < n; at += step) {
    const R_xlen_t some = n - at < step ? n - at : step;
    get_region(x, at, some, content->chunk);
    add_bytes(content, content->chunk, (size_t)some * size);
  }
}

static void add_strings(struct content *content, SEXP x) {
  for (R_xlen_t i = 0; i < Rf_xlength(x); i++) {
    SEXP one = STRING_ELT(x, i);
    const size_t n = (size_t)Rf_xlength(one);
    add(content, one == NA_STRING ? UINT64_MAX : n);
    add(content, (uint64_t)Rf_getCharCE(one));
    add_bytes(content, (const uint8_t *)CHAR(one), n);
  }
}

// add_value: 0 if x, or a part of it, has no hash.
static int add_value(struct content *content, SEXP x, int depth) {
  const int type = TYPEOF(x);
  if (depth == DEPTH_MAX || Rf_isS4(x)) return 0;
  add(content, (uint64_t)type);
  if (type == NILSXP) return 1;
  add(content, (uint64_t)Rf_xlength(x));
  if (size_of(type) > 0) {
    add_numbers(content, x);
  } else if (type == STRSXP) {
    add_strings(content, x);
  } else if (type == VECSXP) {
    for (R_xlen_t i = 0; i < Rf_xlength(x); i++) {
      if (!add_value(content, VECTOR_ELT(x, i), depth + 1)) return 0;
    }
  } else {
    return 0;
  }
  if (!ffi_has_attributes(x)) return 1;
  SEXP all = PROTECT(ffi_attributes(x));
  int plain = 1;
  add_strings(content, Rf_getAttrib(all, R_NamesSymbol));
  for (R_xlen_t i = 0; plain && i < Rf_xlength(all); i++)
    plain = add_value(content, VECTOR_ELT(all, i), depth + 1);
  UNPROTECT(1);
  return plain;
}

SEXP ffi_content(SEXP x) {
  struct content content = {.chunk = (uint8_t *)R_alloc(CHUNK, 1)};
  if (!add_value(&content, x, 0)) return Rf_ScalarString(NA_STRING);
  char text[20];
  (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)content.sum);
  return Rf_mkString(text);
}
