// Values between R and the core: named lists, texts, strings.
#include <stdio.h>
#include <string.h>

#include "ffi/value/value.h"

SEXP ffi_list(int n, const char *const *names) {
  SEXP list = PROTECT(Rf_allocVector(VECSXP, n));
  SEXP list_names = PROTECT(Rf_allocVector(STRSXP, n));
  for (int i = 0; i < n; i++) {
    SET_STRING_ELT(list_names, i, Rf_mkChar(names[i]));
  }
  Rf_setAttrib(list, R_NamesSymbol, list_names);
  UNPROTECT(2);
  return list;
}

// utf8_run gives the length of the valid UTF-8 sequence at bytes, 0 if there is none.
static size_t utf8_run(const unsigned char *bytes, size_t n) {
  if (bytes[0] < 0x80) return bytes[0] == 0 ? 0 : 1;
  const size_t length = bytes[0] >= 0xf0 && bytes[0] < 0xf5   ? 4
                        : bytes[0] >= 0xe0 && bytes[0] < 0xf0 ? 3
                        : bytes[0] >= 0xc2 && bytes[0] < 0xe0 ? 2
                                                              : 0;
  if (length == 0 || length > n) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((bytes[i] & 0xc0) != 0x80) return 0;
  }
  return length;
}

SEXP ffi_text(const char *bytes, size_t n) {
  // In the worst case every byte becomes "<xx>".
  char *text = R_alloc(n + 1, 4);
  size_t out = 0;
  for (size_t i = 0; i < n;) {
    const unsigned char *at = (const unsigned char *)bytes + i;
    const size_t run = utf8_run(at, n - i);
    if (run > 0) {
      memcpy(text + out, at, run);
      out += run;
      i += run;
    } else {
      out += (size_t)snprintf(text + out, 5, "<%02x>", *at);
      i++;
    }
  }
  return Rf_ScalarString(
      Rf_mkCharLenCE(text, (int)(out > 1000000 ? 1000000 : out), CE_UTF8));
}

SEXP ffi_text_at(char *const *text) {
  size_t capacity = 0, n = 0;
  char *copy = NULL;
  // Allocating may run finalizers.
  while (*text != NULL && (n = strlen(*text)) >= capacity) {
    capacity = n + 1;
    copy = R_alloc(capacity, 1);
  }
  if (*text == NULL || copy == NULL) return Rf_mkString("");
  memcpy(copy, *text, n);
  return ffi_text(copy, n);
}

SEXP ffi_error_list(const struct mst_err *err) {
  static const char *const names[] = {"error", "call", "errno"};
  SEXP list = PROTECT(ffi_list(3, names));
  SET_VECTOR_ELT(list, 0, ffi_text(err->text, strlen(err->text)));
  SET_VECTOR_ELT(list, 1, Rf_mkString(err->call));
  SET_VECTOR_ELT(list, 2, Rf_ScalarInteger(err->sys_errno));
  UNPROTECT(1);
  return list;
}

SEXP ffi_tail_text(const struct mst_tail *tail) {
  char *text = R_alloc(MST_TAIL_BYTES, 1);
  return ffi_text(text, mst_tail_read(tail, text));
}

char **ffi_strings(SEXP strings) {
  const R_xlen_t n = Rf_xlength(strings);
  char **list = (char **)(void *)R_alloc((size_t)n + 1, sizeof(char *));
  for (R_xlen_t i = 0; i < n; i++) {
    const char *text = Rf_translateChar(STRING_ELT(strings, i));
    list[i] = R_alloc(strlen(text) + 1, 1);
    memcpy(list[i], text, strlen(text) + 1);
  }
  list[n] = NULL;
  return list;
}

static int is_plain(SEXP x, SEXPTYPE type) {
  return TYPEOF(x) == (int)type && Rf_xlength(x) == 1 && !ffi_has_attributes(x);
}

// ffi_pack makes one vector from a list of single numbers of one type without attributes; NULL if
// it isn't one.
SEXP ffi_pack(SEXP list) {
  const R_xlen_t n = Rf_xlength(list);
  if (n == 0) return R_NilValue;
  const SEXPTYPE type = (SEXPTYPE)TYPEOF(VECTOR_ELT(list, 0));
  if (type != REALSXP && type != INTSXP && type != LGLSXP) return R_NilValue;
  for (R_xlen_t i = 0; i < n; i++) {
    if (!is_plain(VECTOR_ELT(list, i), type)) return R_NilValue;
  }
  SEXP packed = PROTECT(Rf_allocVector(type, n));
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP x = VECTOR_ELT(list, i);
    if (type == REALSXP) REAL(packed)[i] = REAL_ELT(x, 0);
    if (type == INTSXP) INTEGER(packed)[i] = INTEGER_ELT(x, 0);
    if (type == LGLSXP) LOGICAL(packed)[i] = LOGICAL_ELT(x, 0);
  }
  UNPROTECT(1);
  return packed;
}

// rank gives the place of a type among those that R converts without loss, 0 for others.
static int rank(SEXPTYPE type) {
  return type == LGLSXP    ? 1
         : type == INTSXP  ? 2
         : type == REALSXP ? 3
         : type == CPLXSXP ? 4
                           : 0;
}

static int fits(SEXP value, SEXP like) {
  const SEXPTYPE is = (SEXPTYPE)TYPEOF(value), wanted = (SEXPTYPE)TYPEOF(like);
  return (is == wanted || (rank(is) > 0 && rank(is) < rank(wanted))) &&
         !Rf_isObject(value) && Rf_xlength(value) == Rf_xlength(like);
}

// ffi_misfit gives the number of the first of a list's values that isn't a vector without a class,
// of the length of `like` and of its type or a number that this can hold; 0 if there is none.
SEXP ffi_misfit(SEXP values, SEXP like) {
  for (R_xlen_t i = 0; i < Rf_xlength(values); i++) {
    if (!fits(VECTOR_ELT(values, i), like)) return Rf_ScalarInteger((int)i + 1);
  }
  return Rf_ScalarInteger(0);
}

SEXP ffi_hide(SEXP key, SEXP value) {
  SEXP ref = PROTECT(R_MakeWeakRef(key, value, R_NilValue, FALSE));
  SEXP pointer = R_MakeExternalPtr(NULL, R_NilValue, ref);
  UNPROTECT(1);
  return pointer;
}

SEXP ffi_opaque(void) {
  return R_MakeExternalPtr(NULL, R_NilValue, R_NilValue);
}

SEXP ffi_hidden(SEXP pointer) {
  if (TYPEOF(pointer) != EXTPTRSXP) return R_NilValue;
  SEXP ref = R_ExternalPtrProtected(pointer);
  return TYPEOF(ref) == WEAKREFSXP ? R_WeakRefValue(ref) : R_NilValue;
}
