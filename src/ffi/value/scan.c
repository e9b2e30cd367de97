// One pass through values that are about to leave this process: finds what must not leave, and what
// to share.
#include <string.h>

#include "ffi/value/value.h"

#define SCAN_DEPTH 64

static int is_connection(SEXP x) {
  return TYPEOF(x) == INTSXP && Rf_isObject(x) && Rf_xlength(x) == 1 &&
         INTEGER_ELT(x, 0) > 2 && Rf_inherits(x, "connection");
}

// A task, or a map that is one.
static int is_task(SEXP x) {
  return Rf_isObject(x) && Rf_inherits(x, "muster_task");
}

static int is_shared(SEXP env) {
  return env == R_GlobalEnv || env == R_BaseEnv || env == R_EmptyEnv ||
         R_IsNamespaceEnv(env);
}

// More deeply nested code isn't searched.
#define CODE_DEPTH 1000

// has_pointer tells whether code has an external pointer among its constants.
static int has_pointer(SEXP x, int depth) {
  int found = 0;
  if (depth == CODE_DEPTH) return 0;
  switch (TYPEOF(x)) {
  case EXTPTRSXP:
    return R_ExternalPtrAddr(x) != NULL;
  case LANGSXP:
  case LISTSXP:
    for (; !found && TYPEOF(x) != NILSXP; x = CDR(x))
      found = has_pointer(CAR(x), depth + 1);
    return found;
  case VECSXP:
    for (R_xlen_t i = 0; !found && i < Rf_xlength(x); i++)
      found = has_pointer(VECTOR_ELT(x, i), depth + 1);
    return found;
  default:
    return 0;
  }
}

// Functions of packages travel by name.
static int scan_function(SEXP x) {
  SEXP env = ffi_closure_env(x);
  if (env != R_GlobalEnv && is_shared(env)) return 0;
  return (is_shared(env) ? 0 : FFI_SCAN_ENVIRONMENT) |
         (has_pointer(R_ClosureExpr(x), 0) ? FFI_SCAN_CODE : 0);
}

static int scan(SEXP x, int depth) {
  switch (TYPEOF(x)) {
  case INTSXP:
    if (is_connection(x)) return FFI_SCAN_CONNECTION;
    break;
  case EXTPTRSXP:
    return (R_ExternalPtrAddr(x) != NULL ? FFI_SCAN_POINTER : 0) |
           (is_task(x) ? FFI_SCAN_TASK : 0);
  case ENVSXP:
    if (is_shared(x)) return 0;
    return FFI_SCAN_ENVIRONMENT | (is_task(x) ? FFI_SCAN_TASK : 0);
  case CLOSXP:
    return scan_function(x);
  case S4SXP:
    return FFI_SCAN_S4 | FFI_SCAN_ENVIRONMENT;
  case LISTSXP:
    return FFI_SCAN_LARGE;
  default:
    break;
  }
  if (TYPEOF(x) != VECSXP) return ffi_share_may_be(x) ? FFI_SCAN_LARGE : 0;
  if (depth == SCAN_DEPTH) return FFI_SCAN_ENVIRONMENT | FFI_SCAN_LARGE;
  int found = 0;
  const R_xlen_t n = Rf_xlength(x);
  for (R_xlen_t i = 0; i < n; i++)
    found |= scan(VECTOR_ELT(x, i), depth + 1);
  return found;
}

int ffi_has_frame(SEXP x) { return (scan(x, 0) & FFI_SCAN_ENVIRONMENT) != 0; }

SEXP ffi_scan(SEXP x) { return Rf_ScalarInteger(scan(x, 0)); }

int ffi_is_refused(SEXP x, int *seen) {
  const int found = scan(x, 0);
  if (seen != NULL) *seen = found;
  if ((found & (FFI_SCAN_CONNECTION | FFI_SCAN_POINTER | FFI_SCAN_CODE)) == 0)
    return 0;
  static SEXP name;
  SEXP option = Rf_GetOption1(ffi_symbol(&name, "muster.references"));
  const char *policy = TYPEOF(option) == STRSXP && Rf_xlength(option) == 1
                           ? CHAR(STRING_ELT(option, 0))
                           : "connections";
  if (strcmp(policy, "ignore") == 0) return 0;
  if (strcmp(policy, "error") == 0) return 1;
  return (found & FFI_SCAN_CONNECTION) != 0;
}

SEXP ffi_class_package(SEXP class) {
  static SEXP symbol;
  SEXP package = Rf_getAttrib(class, ffi_symbol(&symbol, "package"));
  return TYPEOF(package) == STRSXP && Rf_xlength(package) == 1
             ? Rf_installTrChar(STRING_ELT(package, 0))
             : NULL;
}

SEXP ffi_class_packages(SEXP classes) {
  const R_xlen_t n = Rf_xlength(classes);
  SEXP names = PROTECT(Rf_allocVector(STRSXP, n));
  SEXP packages = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = n; i-- > 0; classes = CDR(classes)) {
    SET_STRING_ELT(names, i, CAR(classes));
    SET_STRING_ELT(packages, i,
                   TAG(classes) == R_NilValue ? R_BlankString
                                              : PRINTNAME(TAG(classes)));
  }
  Rf_setAttrib(packages, R_NamesSymbol, names);
  UNPROTECT(2);
  return packages;
}
