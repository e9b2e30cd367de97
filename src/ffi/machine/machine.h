// machine: facts of this machine and this process, mostly for doctor().
#ifndef MST_FFI_MACHINE_H
#define MST_FFI_MACHINE_H

#include "ffi/value/value.h"

// ---- doctor.c

SEXP ffi_diag_listeners(void);
SEXP ffi_diag_counters(SEXP proc);
SEXP ffi_card(SEXP name);
SEXP ffi_disk(SEXP path);
SEXP ffi_features(void);
SEXP ffi_built_with(void);
SEXP ffi_mappings(SEXP proc);
SEXP ffi_command_lines(SEXP paths, SEXP marks);

// ---- process.c

SEXP ffi_limits(void);
SEXP ffi_limits_raise(SEXP want);
SEXP ffi_can_write(SEXP path);
SEXP ffi_environment(void);
SEXP ffi_errno_name(SEXP number);
SEXP ffi_threads_set(SEXP threads);
SEXP ffi_oom_kills(void);
SEXP ffi_threads_count(void);
SEXP ffi_can_fork(void);
SEXP ffi_fault_arm(SEXP point, SEXP nth, SEXP sys_errno);
SEXP ffi_assert_fail(void);
SEXP ffi_build_flags(void);

#endif
