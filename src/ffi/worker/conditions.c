// Conditions that a task signals, kept for its answer. Runs in workers.
#include "ffi/worker/worker.h"

// The most bytes of conditions kept for one call, counted as by object.size(): more than 20,000
// plain ones. A worker must not run out of memory because its user's code signals many.
#define KEPT_BYTES (32.0 * 1024 * 1024)

static struct {
  // list(conditions: newest first, environment of those past the bound, packages or NULL)
  SEXP keep;
  double bytes;
} told;

void ffi_conditions_forget(void) {
  if (told.keep == NULL) {
    told.keep = Rf_allocVector(VECSXP, 3);
    R_PreserveObject(told.keep);
  }
  SET_VECTOR_ELT(told.keep, 0, R_NilValue);
  SET_VECTOR_ELT(told.keep, 1, R_NilValue);
  SET_VECTOR_ELT(told.keep, 2, R_NilValue);
  told.bytes = 0;
}

void ffi_conditions_packages(SEXP packages) {
  SET_VECTOR_ELT(told.keep, 2,
                 Rf_xlength(packages) > 0 ? packages : R_NilValue);
}

// ffi_worker_condition keeps a condition of `bytes` bytes for the answer of the present task and
// gives NULL. Once there are too many it gives an environment instead, the same each time, which
// goes along with the answer: R code records there what it drops.
SEXP ffi_worker_condition(SEXP condition, SEXP bytes) {
  if (told.bytes < KEPT_BYTES) {
    SET_VECTOR_ELT(told.keep, 0, Rf_cons(condition, VECTOR_ELT(told.keep, 0)));
    told.bytes += Rf_asReal(bytes);
    return R_NilValue;
  }
  if (VECTOR_ELT(told.keep, 1) == R_NilValue) {
    SET_VECTOR_ELT(told.keep, 1, R_NewEnv(R_EmptyEnv, 0, 0));
  }
  return VECTOR_ELT(told.keep, 1);
}

SEXP ffi_conditions_add(SEXP value, SEXP tag) {
  SEXP kept = VECTOR_ELT(told.keep, 0), dropped = VECTOR_ELT(told.keep, 1);
  SEXP packages = VECTOR_ELT(told.keep, 2);
  const R_xlen_t before = packages != R_NilValue;
  const R_xlen_t n = Rf_xlength(kept) + before;
  const int parts = 2 + (n > 0) + (dropped != R_NilValue);
  SEXP content = PROTECT(Rf_allocVector(VECSXP, parts));
  SET_VECTOR_ELT(content, 0, value);
  SET_VECTOR_ELT(content, 1, tag);
  if (n > 0) {
    SEXP list = SET_VECTOR_ELT(content, 2, Rf_allocVector(VECSXP, n));
    for (R_xlen_t i = n; i-- > before; kept = CDR(kept))
      SET_VECTOR_ELT(list, i, CAR(kept));
    if (before) SET_VECTOR_ELT(list, 0, packages);
  }
  if (parts == 4) SET_VECTOR_ELT(content, 3, dropped);
  UNPROTECT(1);
  return content;
}
