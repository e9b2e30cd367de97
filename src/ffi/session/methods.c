// Methods that a user has registered: they are in a table of some namespace, but not of its code.
#include "ffi/session/session.h"

// topenv() of R, for closures that may have any environment.
static int is_of_package(SEXP fun) {
  for (SEXP env = ffi_closure_env(fun); env != R_EmptyEnv; env = ffi_parent_env(env)) {
    if (env == R_GlobalEnv) return 0;
    if (env == R_BaseEnv || R_IsNamespaceEnv(env)) return 1;
  }
  return 0;
}

// ffi_methods_own gives the functions in an environment that no package has made, by name. Those
// that a package hasn't loaded yet are its own. Allocates.
SEXP ffi_methods_own(SEXP table) {
  SEXP names = PROTECT(R_lsInternal3(table, TRUE, FALSE));
  SEXP found = PROTECT(Rf_allocVector(VECSXP, Rf_xlength(names)));
  SEXP found_names = PROTECT(Rf_allocVector(STRSXP, Rf_xlength(names)));
  int n = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
    if (ffi_is_promise(table, symbol)) continue;
    SEXP fun = ffi_binding(table, symbol);
    if (TYPEOF(fun) != CLOSXP || is_of_package(fun)) continue;
    SET_VECTOR_ELT(found, n, fun);
    SET_STRING_ELT(found_names, n++, STRING_ELT(names, i));
  }
  found = PROTECT(Rf_lengthgets(found, n));
  Rf_setAttrib(found, R_NamesSymbol, PROTECT(Rf_lengthgets(found_names, n)));
  UNPROTECT(5);
  return found;
}
