// The classes of a task's value, other than R's own. See task-classes.R for the packages that they
// need.
#include "ffi/worker/worker.h"

// More deeply nested lists aren't searched.
#define DEPTH_MAX 64

struct look {
  SEXP base;  // an environment, whose names are R's own classes
  SEXP found; // see ffi_class_packages()
  PROTECT_INDEX at;
};

static SEXP base_classes(void) {
  static SEXP known;
  if (known != NULL) return known;
  SEXP names = PROTECT(ffi_ours("base_classes"));
  SEXP env = PROTECT(R_NewEnv(R_EmptyEnv, 1, 64));
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
    Rf_defineVar(Rf_installTrChar(STRING_ELT(names, i)), R_NilValue, env);
  R_PreserveObject(env);
  UNPROTECT(2);
  return known = env;
}

static void look_at_class(struct look *look, SEXP class) {
  for (R_xlen_t i = 0; i < Rf_xlength(class); i++) {
    SEXP one = STRING_ELT(class, i), at = look->found;
    while (at != R_NilValue && CAR(at) != one)
      at = CDR(at);
    if (at != R_NilValue || ffi_exists(look->base, Rf_installTrChar(one)))
      continue;
    REPROTECT(look->found = Rf_cons(one, look->found), look->at);
    SEXP package = ffi_class_package(class);
    if (package != NULL) SET_TAG(look->found, package);
  }
}

static void look_at(struct look *look, SEXP x, int depth) {
  if (Rf_isObject(x)) look_at_class(look, Rf_getAttrib(x, R_ClassSymbol));
  if (depth == DEPTH_MAX) return;
  if (Rf_isS4(x)) {
    SEXP slots = PROTECT(ffi_attributes(x));
    for (R_xlen_t i = 0; i < Rf_xlength(slots); i++)
      look_at(look, VECTOR_ELT(slots, i), depth + 1);
    UNPROTECT(1);
  }
  if (TYPEOF(x) != VECSXP) return;
  for (R_xlen_t i = 0; i < Rf_xlength(x); i++)
    look_at(look, VECTOR_ELT(x, i), depth + 1);
}

SEXP ffi_classes_of(SEXP value) {
  struct look look = {.base = base_classes(), .found = R_NilValue};
  PROTECT_WITH_INDEX(look.found, &look.at);
  look_at(&look, value, 0);
  SEXP packages = ffi_class_packages(look.found);
  UNPROTECT(1);
  return packages;
}
