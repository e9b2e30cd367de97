// Packages to load before reading a message that mentions them: see worker-dev.R. Their names are
// searched in the bytes, which contain namespaces and symbols by name. A false match only costs
// time.
#include <string.h>

#include "ffi/value/value.h"

static SEXP named; // names, preserved; NULL if there are none

SEXP ffi_named_set(SEXP names) {
  if (named != NULL) R_ReleaseObject(named);
  named = Rf_xlength(names) > 0 ? names : NULL;
  if (named != NULL) R_PreserveObject(named);
  return R_NilValue;
}

static int is_there(const uint8_t *bytes, size_t n, const char *name,
                    size_t length) {
  const uint8_t *end = bytes + n;
  while (length > 0 && (size_t)(end - bytes) >= length) {
    const uint8_t *at =
        memchr(bytes, name[0], (size_t)(end - bytes) - length + 1);
    if (at == NULL) return 0;
    if (memcmp(at, name, length) == 0) return 1;
    bytes = at + 1;
  }
  return 0;
}

void ffi_named_load(const uint8_t *bytes, size_t n) {
  if (named == NULL) return;
  SEXP names = PROTECT(named); // loading one may replace `named`
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP name = STRING_ELT(names, i);
    if (is_there(bytes, n, CHAR(name), (size_t)Rf_xlength(name))) {
      (void)ffi_call_ours(FFI_LOAD_DEV, Rf_ScalarString(name));
    }
  }
  UNPROTECT(1);
}
