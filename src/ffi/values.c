// Small values for R: named lists, texts of unknown encoding.
#include <stdio.h>
#include <string.h>

#include "ffi/ffi.h"

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

// utf8_run gives the length of the valid UTF-8 sequence at bytes, 0 if none.
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
  // At worst every byte becomes "<xx>".
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
