// Promises whose evaluation was interrupted.
//
// Problem: a package's functions are promises that read them from the package's file. A call that
// is interrupted while R reads one leaves the promise marked, and the next call that uses the
// function gets the warning "restarting interrupted promise evaluation". If a jump leaves that
// warning (another interrupt, a handler of the user's, options(warn = 2)), R considers the promise
// under evaluation from then on: the function fails in every later call.
//
// Way chosen: after an interrupted call, all long-lived promises are checked. Up to 4.3, R tells
// which are marked; from 4.6 on, which aren't evaluated, and those are made anew. Between, its API
// can't tell, but the mark shows in their serialized form. Not chosen: evaluating all of them,
// which takes a second and 80 MB.
//
// Cost, once for each interrupted call: 20 ms of computing with 40 packages loaded; 200 ms where
// promises are serialized.
#include <string.h>

#include <Rversion.h>

#include "ffi/worker/worker.h"

#if R_VERSION >= R_Version(4, 6, 0)

static void make_anew(SEXP env, SEXP symbol) {
  if (R_GetBindingType(symbol, env) != R_BindingTypeDelayed) return;
  SEXP code = PROTECT(R_DelayedBindingExpression(symbol, env));
  SEXP where = PROTECT(R_DelayedBindingEnvironment(symbol, env));
  const int locked = R_BindingIsLocked(symbol, env);
  if (locked) R_unLockBinding(symbol, env);
  R_MakeDelayedBinding(symbol, code, where, env);
  if (locked) R_LockBinding(symbol, env);
  UNPROTECT(2);
}

SEXP ffi_promises_left(SEXP env) {
  SEXP names = PROTECT(R_lsInternal3(env, TRUE, FALSE));
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++)
    make_anew(env, Rf_installTrChar(STRING_ELT(names, i)));
  UNPROTECT(1);
  return Rf_allocVector(STRSXP, 0);
}

#else

#if R_VERSION < R_Version(4, 4, 0)

static int any_marked(SEXP promises) {
  (void)promises;
  return 1;
}

static int is_marked(SEXP promise) { return LEVELS(promise) != 0; }

#else

// A promise is written as an integer with its type and, from this bit on, its mark; then its
// contents.
#define MARK_SHIFT 12

static int has_mark(int flags) {
  return (flags & 0xFF) == PROMSXP && flags >> MARK_SHIFT != 0;
}

struct look {
  int integers; // count of integers written
  int first;    // the first after the header's three
  int marked;   // one of them may be a marked promise
};

static void out_bytes(R_outpstream_t stream, void *bytes, int n) {
  struct look *look = (struct look *)stream->data;
  int value;
  if (n != (int)sizeof value) return;
  memcpy(&value, bytes, sizeof value);
  if (++look->integers == 4) look->first = value;
  look->marked |= has_mark(value);
}

static void out_char(R_outpstream_t stream, int c) {
  (void)stream;
  (void)c;
}

// Write environments as names: don't serialize their contents.
static SEXP name_of(SEXP env, SEXP name) {
  (void)env;
  return name;
}

static struct look look_at(SEXP x) {
  struct look look = {0};
  struct R_outpstream_st stream;
  SEXP name = PROTECT(Rf_mkString("environment"));
  R_InitOutPStream(&stream, (R_pstream_data_t)&look, R_pstream_binary_format, 2,
                   out_char, out_bytes, name_of, name);
  R_Serialize(x, &stream);
  UNPROTECT(1);
  return look;
}

// One pass over all of them: R makes a table of 9 kB for each serialization.
static int any_marked(SEXP promises) { return look_at(promises).marked; }

static int is_marked(SEXP promise) { return has_mark(look_at(promise).first); }

#endif

SEXP ffi_promises_left(SEXP env) {
  SEXP names = PROTECT(R_lsInternal3(env, TRUE, FALSE));
  SEXP all = PROTECT(Rf_allocVector(VECSXP, Rf_xlength(names)));
  R_xlen_t n = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
    if (R_BindingIsActive(symbol, env) || !ffi_is_promise(env, symbol)) continue;
    SET_VECTOR_ELT(all, n, ffi_binding(env, symbol));
    SET_STRING_ELT(names, n++, STRING_ELT(names, i));
  }
  const R_xlen_t promises = any_marked(all) ? n : 0;
  n = 0;
  for (R_xlen_t i = 0; i < promises; i++) {
    if (is_marked(VECTOR_ELT(all, i)))
      SET_STRING_ELT(names, n++, STRING_ELT(names, i));
  }
  names = Rf_xlengthgets(names, n);
  UNPROTECT(2);
  return names;
}

#endif
