// Entry points of doctor.c.
#ifndef MST_FFI_DOCTOR_H
#define MST_FFI_DOCTOR_H

#include "ffi/ffi.h"

SEXP ffi_diag_listeners(void);
SEXP ffi_diag_counters(SEXP proc);
SEXP ffi_card(SEXP name);
SEXP ffi_disk(SEXP path);
SEXP ffi_features(void);
SEXP ffi_built_with(void);
SEXP ffi_clock_sync(void);
SEXP ffi_mappings(SEXP proc);
SEXP ffi_command_lines(SEXP paths, SEXP marks);

#endif
