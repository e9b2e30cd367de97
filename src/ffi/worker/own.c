// Whether this worker's variables still have the values that the session exported. Hashing takes a
// pass over a value, so the hash is kept while the variable stays bound to it: R copies a value
// that is held here before changing it.
#include <string.h>

#include "ffi/worker/worker.h"

#define KNOWN 16

// held: a list of pairs (value, hash), preserved.
static struct {
  SEXP held;
  SEXP symbols[KNOWN]; // NULL: free
  int next;
} own;

static void forget(int i) {
  own.symbols[i] = NULL;
  SET_VECTOR_ELT(own.held, i, R_NilValue);
}

void ffi_own_look(void) {
  for (int i = 0; own.held != NULL && i < KNOWN; i++) {
    if (own.symbols[i] == NULL) continue;
    const SEXP value = VECTOR_ELT(VECTOR_ELT(own.held, i), 0);
    if (ffi_binding(R_GlobalEnv, own.symbols[i]) != value) forget(i);
  }
}

// known_hash gives the kept hash, or R_NilValue.
static SEXP known_hash(SEXP symbol) {
  for (int i = 0; own.held != NULL && i < KNOWN; i++) {
    if (own.symbols[i] == symbol) {
      return VECTOR_ELT(VECTOR_ELT(own.held, i), 1);
    }
  }
  return R_NilValue;
}

static SEXP note_hash(SEXP symbol, SEXP value) {
  if (own.held == NULL) {
    own.held = Rf_allocVector(VECSXP, KNOWN);
    R_PreserveObject(own.held);
  }
  PROTECT(value);
  SEXP pair = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(pair, 0, value);
  SET_VECTOR_ELT(pair, 1, ffi_content(value));
  own.next = (own.next + 1) % KNOWN;
  own.symbols[own.next] = symbol;
  SET_VECTOR_ELT(own.held, own.next, pair);
  UNPROTECT(2);
  return VECTOR_ELT(pair, 1);
}

SEXP ffi_worker_holds(SEXP name, SEXP hash) {
  SEXP symbol = Rf_installTrChar(STRING_ELT(name, 0));
  ffi_own_look();
  if (!ffi_exists(R_GlobalEnv, symbol) ||
      R_BindingIsActive(symbol, R_GlobalEnv) ||
      ffi_is_promise(R_GlobalEnv, symbol)) {
    return Rf_ScalarLogical(0);
  }
  SEXP now = known_hash(symbol);
  if (now == R_NilValue) {
    now = note_hash(symbol, ffi_binding(R_GlobalEnv, symbol));
  }
  return Rf_ScalarLogical(STRING_ELT(now, 0) != NA_STRING &&
                          STRING_ELT(now, 0) == STRING_ELT(hash, 0));
}
