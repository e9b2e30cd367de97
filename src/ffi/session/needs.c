// What a task's function needs of the session, asked for each task: mostly nothing, which must
// cost next to nothing.
//
// Which names code uses is found by R (map-globals.R) and kept for the codes that were asked for
// last: functions that one expression makes share their code. What the names mean is looked up
// each time.
#include <string.h>

#include <Rversion.h>

#include "ffi/session/session.h"

#define CODES 32
// Lists are looked through so far; longer ones are left to R.
#define LIST_MAX 64
#define DEPTH_MAX 3

static struct {
  SEXP
      list; // of CODES: list(formals, body, symbols, names), or NULL; preserved
  unsigned next;
} codes;

#if R_VERSION >= R_Version(4, 5, 0)
static SEXP formals_of(SEXP fun) { return R_ClosureFormals(fun); }
#else
static SEXP formals_of(SEXP fun) { return FORMALS(fun); }
#endif

static int exists(SEXP env, SEXP symbol) {
#if R_VERSION >= R_Version(4, 2, 0)
  return R_existsVarInFrame(env, symbol);
#else
  return ffi_binding(env, symbol) != R_UnboundValue;
#endif
}

// known_code gives what is kept of a closure's code, R_NilValue if nothing is.
static SEXP known_code(SEXP fun) {
  if (codes.list == NULL) return R_NilValue;
  SEXP formals = formals_of(fun), body = R_ClosureExpr(fun);
  for (int i = 0; i < CODES; i++) {
    SEXP code = VECTOR_ELT(codes.list, i);
    if (code != R_NilValue && VECTOR_ELT(code, 1) == body &&
        VECTOR_ELT(code, 0) == formals) {
      return code;
    }
  }
  return R_NilValue;
}

// ffi_code_names gives the names that a closure's code uses, NULL if that isn't known.
SEXP ffi_code_names(SEXP fun) {
  SEXP code = TYPEOF(fun) == CLOSXP ? known_code(fun) : R_NilValue;
  return code == R_NilValue ? R_NilValue : VECTOR_ELT(code, 3);
}

SEXP ffi_code_keep(SEXP fun, SEXP names) {
  if (codes.list == NULL) {
    codes.list = Rf_allocVector(VECSXP, CODES);
    R_PreserveObject(codes.list);
  }
  const R_xlen_t n = Rf_xlength(names);
  SEXP code = PROTECT(Rf_allocVector(VECSXP, 4));
  SEXP symbols = SET_VECTOR_ELT(code, 2, Rf_allocVector(VECSXP, n));
  SET_VECTOR_ELT(code, 0, formals_of(fun));
  SET_VECTOR_ELT(code, 1, R_ClosureExpr(fun));
  SET_VECTOR_ELT(code, 3, names);
  for (R_xlen_t i = 0; i < n; i++)
    SET_VECTOR_ELT(symbols, i, Rf_installChar(STRING_ELT(names, i)));
  SET_VECTOR_ELT(codes.list, codes.next, code);
  codes.next = (codes.next + 1) % CODES;
  UNPROTECT(1);
  return R_NilValue;
}

// is_frame: an environment of code's own, before the global one or a namespace.
static int is_frame(SEXP env) {
  return env != R_GlobalEnv && env != R_BaseEnv && env != R_BaseNamespace &&
         env != R_EmptyEnv && !R_IsNamespaceEnv(env);
}

// is_extra: a package that is attached, and isn't R's own.
static int is_extra(SEXP env) {
  static const char *const own[] = {"datasets", "grDevices", "graphics",
                                    "methods",  "stats",     "utils"};
  static SEXP symbol;
  SEXP name = Rf_getAttrib(env, ffi_symbol(&symbol, "name"));
  if (TYPEOF(name) != STRSXP || Rf_xlength(name) != 1) return 0;
  const char *text = CHAR(STRING_ELT(name, 0));
  if (strncmp(text, "package:", 8) != 0) return 0;
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
    if (strcmp(text + 8, own[i]) == 0) return 0;
  }
  return 1;
}

// may_need: whether a value that travels anyway may need more: functions, what has a class,
// and lists that may hold such.
static int may_need(SEXP x, int depth) {
  if (Rf_isObject(x)) return 1;
  switch (TYPEOF(x)) {
  case CLOSXP:
  case PROMSXP:
    return 1;
  case VECSXP:
    if (depth >= DEPTH_MAX || Rf_xlength(x) > LIST_MAX) return 1;
    for (R_xlen_t i = 0; i < Rf_xlength(x); i++) {
      if (may_need(VECTOR_ELT(x, i), depth + 1)) return 1;
    }
    return 0;
  default:
    return 0;
  }
}

// needs tells whether a name stands for something that is the session's, or may lead there.
static int needs(SEXP symbol, SEXP env) {
  for (; is_frame(env); env = ffi_parent_env(env)) {
    if (exists(env, symbol)) {
      return R_BindingIsActive(symbol, env) || ffi_is_promise(env, symbol) ||
             may_need(ffi_binding(env, symbol), 0);
    }
  }
  if (env != R_GlobalEnv) return 0;
  if (exists(env, symbol)) return 1;
  for (env = ffi_parent_env(env); env != R_BaseEnv && env != R_EmptyEnv;
       env = ffi_parent_env(env)) {
    if (exists(env, symbol)) return is_extra(env);
  }
  return 0;
}

#define LARGE 1000000

// holds_large tells whether a frame has a large vector, which may be left behind. What a promise
// or an active binding stands for isn't looked at.
static int holds_large(SEXP env) {
  SEXP names = PROTECT(R_lsInternal3(env, TRUE, FALSE));
  int found = 0;
  for (R_xlen_t i = 0; !found && i < Rf_xlength(names); i++) {
    SEXP symbol = Rf_installChar(STRING_ELT(names, i));
    if (R_BindingIsActive(symbol, env)) continue;
    SEXP value = ffi_binding(env, symbol);
    const int is_vector = Rf_isVectorAtomic(value) || TYPEOF(value) == VECSXP;
    // A byte each, at least; lists are looked at by R.
    found = is_vector && (double)Rf_xlength(value) * 4 > LARGE;
  }
  UNPROTECT(1);
  return found;
}

// ffi_task_needs tells whether a function and its arguments may need something of the session
// that doesn't travel with them: also if the function's code isn't known yet.
SEXP ffi_task_needs(SEXP fun, SEXP args) {
  for (R_xlen_t i = 0; i < Rf_xlength(args); i++) {
    if (may_need(VECTOR_ELT(args, i), 0)) return Rf_ScalarLogical(1);
  }
  if (TYPEOF(fun) != CLOSXP) return Rf_ScalarLogical(0);
  SEXP env = ffi_closure_env(fun);
  if (env != R_GlobalEnv && !is_frame(env)) return Rf_ScalarLogical(0);
  SEXP code = known_code(fun);
  if (code == R_NilValue) return Rf_ScalarLogical(1); // not known
  PROTECT(code); // a promise may be forced, and then code be asked for
  SEXP symbols = VECTOR_ELT(code, 2);
  int found = 0;
  for (R_xlen_t i = 0; !found && i < Rf_xlength(symbols); i++)
    found = needs(VECTOR_ELT(symbols, i), env);
  if (!found && env != R_GlobalEnv) found = holds_large(env);
  UNPROTECT(1);
  return Rf_ScalarLogical(found);
}
