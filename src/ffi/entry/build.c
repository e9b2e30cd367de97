// What session and worker must agree in: R's version and muster's build, as R code tells it when
// the package is loaded.
#include <string.h>

#include "ffi/entry/entry.h"

static char text[64] = "unconfigured";

SEXP ffi_build_set(SEXP build) {
  strncpy(text, CHAR(STRING_ELT(build, 0)), sizeof text - 1);
  return R_NilValue;
}

const char *ffi_build(void) { return text; }
