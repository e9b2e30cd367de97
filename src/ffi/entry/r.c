// R's API: symbols, pointers, calls of our functions; shims for its changes.
#include <pthread.h>
#include <unistd.h>

#include <Rversion.h>

#include "ffi/entry/entry.h"

static pid_t self; // 0: unknown in this process

static void forget_self(void) { self = 0; }

pid_t ffi_self(void) {
  static int registered;
  if (self == 0) {
    if (!registered) (void)pthread_atfork(NULL, NULL, forget_self);
    registered = 1;
    self = getpid();
  }
  return self;
}

// Symbols are never collected; looking one up costs 50 ns in each call.
SEXP ffi_symbol(SEXP *known, const char *name) {
  if (*known == NULL) *known = Rf_install(name);
  return *known;
}

void *ffi_address_of(SEXP pointer, SEXP tag) {
  if (TYPEOF(pointer) != EXTPTRSXP || R_ExternalPtrTag(pointer) != tag) {
    return NULL;
  }
  return R_ExternalPtrAddr(pointer);
}

static SEXP muster, parallel; // namespaces, preserved

static void keep_instead(SEXP *kept, SEXP ns) {
  R_PreserveObject(ns);
  if (*kept != NULL) R_ReleaseObject(*kept);
  *kept = ns;
}

void ffi_ours_are(SEXP ns) {
  keep_instead(&muster, ns);
  keep_instead(&parallel,
               PROTECT(R_FindNamespace(PROTECT(Rf_mkString("parallel")))));
  UNPROTECT(2);
}

SEXP ffi_parallel(void) { return parallel; }

SEXP ffi_ours(const char *name) {
  return ffi_value_in(muster, Rf_install(name));
}

SEXP ffi_parallels(const char *name) {
  return ffi_value_in(parallel, Rf_install(name));
}

static const char *const callbacks[FFI_CALLBACKS] = {
    [FFI_ABORT_MEMORY] = "abort_memory",
    [FFI_ABORT_DESCRIPTORS] = "abort_descriptors",
    [FFI_ABORT_ATTACHED] = "abort_attached",
    [FFI_LOAD_DEV] = "load_dev",
    [FFI_CONTEXT_NOW] = "context_now",
    [FFI_BROADCAST_FRAME] = "broadcast_frame",
    [FFI_ACTIVE_FRAMES] = "active_frames",
    [FFI_NOTE_STREAM] = "note_stream",
    [FFI_NOTE_EXPORT] = "note_export",
    [FFI_NOTE_FRAMES] = "note_frames",
    [FFI_COPY_ATTACHED] = "copy_attached",
    [FFI_BYTES_IN] = "bytes_in",
    [FFI_VALUES_OF_DOTS] = "values_of_dots",
    [FFI_SETTLE] = "settle",
    [FFI_ANNOUNCE_EVENTS] = "announce_events",
    [FFI_TEND_HOSTS] = "tend_hosts",
    [FFI_OUTPUT_IS_SUNK] = "output_is_sunk",
    [FFI_VERB_WAITS] = "verb_waits",
    [FFI_VERB_IS_OVER] = "verb_is_over",
    [FFI_NOTE_DRAWN] = "note_drawn",
    [FFI_CLEAR_GLOBALS] = "clear_globals",
    [FFI_JOB_KEEP] = "job_keep",
    [FFI_JOB_DROP] = "job_drop",
    [FFI_CONTEXT_ENTER] = "context_enter",
    [FFI_CONTEXT_AGAIN] = "context_again",
    [FFI_CONTEXT_LEAVE] = "context_leave",
    [FFI_PUT_AWAY] = "put_away",
    [FFI_PACKAGES_OF_VALUE] = "packages_of_value",
    [FFI_EAT_INTERRUPT] = "eat_interrupt",
    [FFI_UNDO_CALL] = "undo_call",
    [FFI_SAY_TORN] = "say_torn",
    [FFI_PAUSE_THREADS] = "pause_threads",
    [FFI_RESUME_THREADS] = "resume_threads",
    [FFI_TAKE_PLACE] = "take_place",
};

SEXP ffi_call_ours(enum ffi_callback callback, SEXP argument) {
  static SEXP symbols[FFI_CALLBACKS];
  SEXP name = ffi_symbol(&symbols[callback], callbacks[callback]);
  SEXP call =
      PROTECT(argument == NULL ? Rf_lang1(name) : Rf_lang2(name, argument));
  SEXP value = Rf_eval(call, muster);
  UNPROTECT(1);
  return value;
}

#if R_VERSION >= R_Version(4, 6, 0)
int ffi_is_promise(SEXP env, SEXP symbol) {
  const R_BindingType_t type = R_GetBindingType(symbol, env);
  return type == R_BindingTypeDelayed || type == R_BindingTypeForced;
}
// R_getVarEx() would force promises, and raise an error for an argument without a value.
SEXP ffi_binding(SEXP env, SEXP symbol) {
  switch (R_GetBindingType(symbol, env)) {
  case R_BindingTypeUnbound:
    return R_UnboundValue;
  case R_BindingTypeMissing:
    return R_MissingArg;
  case R_BindingTypeDelayed:
    return R_DelayedBindingExpression(symbol, env);
  case R_BindingTypeForced:
    return R_ForcedBindingExpression(symbol, env);
  default:
    return R_getVarEx(symbol, env, FALSE, R_UnboundValue);
  }
}
SEXP ffi_value_in(SEXP env, SEXP name) {
  return R_getVarEx(name, env, FALSE, R_UnboundValue);
}
#else
SEXP ffi_binding(SEXP env, SEXP symbol) {
  return Rf_findVarInFrame(env, symbol);
}
int ffi_is_promise(SEXP env, SEXP symbol) {
  return TYPEOF(ffi_binding(env, symbol)) == PROMSXP;
}
SEXP ffi_value_in(SEXP env, SEXP name) {
  SEXP value = ffi_binding(env, name);
  return TYPEOF(value) == PROMSXP ? Rf_eval(value, R_BaseEnv) : value;
}
#endif

int ffi_exists(SEXP env, SEXP symbol) {
#if R_VERSION >= R_Version(4, 2, 0)
  return R_existsVarInFrame(env, symbol);
#else
  return ffi_binding(env, symbol) != R_UnboundValue;
#endif
}

#if R_VERSION >= R_Version(4, 5, 0)
SEXP ffi_closure_env(SEXP fun) { return R_ClosureEnv(fun); }
SEXP ffi_closure_formals(SEXP fun) { return R_ClosureFormals(fun); }
SEXP ffi_parent_env(SEXP env) { return R_ParentEnv(env); }
int ffi_has_attributes(SEXP x) { return ANY_ATTRIB(x); }
// The API can't list attributes, but a copy of them can lose its names.
int ffi_only_names(SEXP x) {
  SEXP bare = PROTECT(Rf_allocVector(VECSXP, 0));
  SHALLOW_DUPLICATE_ATTRIB(bare, x);
  Rf_setAttrib(bare, R_NamesSymbol, R_NilValue);
  const int only = !ANY_ATTRIB(bare);
  UNPROTECT(1);
  return only;
}
#else
SEXP ffi_closure_env(SEXP fun) { return CLOENV(fun); }
SEXP ffi_closure_formals(SEXP fun) { return FORMALS(fun); }
SEXP ffi_parent_env(SEXP env) { return ENCLOS(env); }
int ffi_has_attributes(SEXP x) { return ATTRIB(x) != R_NilValue; }
int ffi_only_names(SEXP x) {
  SEXP list = ATTRIB(x);
  return TAG(list) == R_NamesSymbol && CDR(list) == R_NilValue;
}
#endif

SEXP ffi_attributes(SEXP x) {
  static SEXP symbol;
  SEXP quoted = PROTECT(Rf_lang2(R_QuoteSymbol, x));
  SEXP call = PROTECT(Rf_lang2(ffi_symbol(&symbol, "attributes"), quoted));
  SEXP list = Rf_eval(call, R_BaseEnv);
  UNPROTECT(2);
  return list;
}

int64_t ffi_deadline(SEXP timeout_s) {
  const double s = Rf_asReal(timeout_s);
  if (!(s < 1e9)) return INT64_MAX / 2;
  return mst_clock_now() + ffi_ns(s);
}
