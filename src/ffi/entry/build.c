// Session and worker must have the same version of R and build of muster; R code sets both when the
// package is loaded.
#include <string.h>

#include "ffi/entry/entry.h"

#define UNKNOWN "unconfigured"
static char text[64] = UNKNOWN;

void ffi_build_clear(void) { strncpy(text, UNKNOWN, sizeof text - 1); }

SEXP ffi_build_set(SEXP build, SEXP ns) {
  const char *other = CHAR(STRING_ELT(build, 0));
  if (strcmp(text, UNKNOWN) != 0 && strncmp(text, other, sizeof text - 1) != 0) {
    return Rf_ScalarLogical(0);
  }
  strncpy(text, other, sizeof text - 1);
  ffi_ours_are(ns);
  return Rf_ScalarLogical(1);
}

const char *ffi_build(void) { return text; }
