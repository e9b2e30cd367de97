// Vectors whose class calls R functions when somebody looks at them, as classes of other
// packages may: when they are asked for their length, for their bytes, or for what they are to
// be serialized as. Each function is called once. Compiled by the tests (R CMD SHLIB).
#include <R.h>
#include <Rinternals.h>

#include <R_ext/Altrep.h>
#include <R_ext/Rdynload.h>

static R_altrep_class_t hooks_class;

// data1: the vector behind it. data2: a list of functions, or NULL where there is none (any more).
enum { HOOK_LENGTH, HOOK_POINTER, HOOK_STATE, HOOKS };

static void call_hook(SEXP x, int which) {
  SEXP hooks = R_altrep_data2(x);
  SEXP fun = VECTOR_ELT(hooks, which);
  if (fun == R_NilValue) return;
  PROTECT(fun);
  SET_VECTOR_ELT(hooks, which, R_NilValue);
  SEXP call = PROTECT(Rf_lang1(fun));
  (void)Rf_eval(call, R_GlobalEnv);
  UNPROTECT(2);
}

static R_xlen_t hooks_length(SEXP x) {
  call_hook(x, HOOK_LENGTH);
  return Rf_xlength(R_altrep_data1(x));
}

static const void *hooks_pointer(SEXP x) {
  call_hook(x, HOOK_POINTER);
  return INTEGER_RO(R_altrep_data1(x));
}

static void *hooks_data(SEXP x, Rboolean writable) {
  (void)writable;
  return INTEGER(R_altrep_data1(x));
}

static int hooks_element(SEXP x, R_xlen_t i) {
  return INTEGER_ELT(R_altrep_data1(x), i);
}

// NULL: it is written as any other vector.
static SEXP hooks_state(SEXP x) {
  call_hook(x, HOOK_STATE);
  return NULL;
}

SEXP hooks_vector(SEXP x, SEXP functions) {
  return R_new_altrep(hooks_class, x, functions);
}

void R_init_hooks(DllInfo *info) {
  hooks_class = R_make_altinteger_class("hooks", "hooks", info);
  R_set_altrep_Length_method(hooks_class, hooks_length);
  R_set_altrep_Serialized_state_method(hooks_class, hooks_state);
  R_set_altvec_Dataptr_method(hooks_class, hooks_data);
  R_set_altvec_Dataptr_or_null_method(hooks_class, hooks_pointer);
  R_set_altinteger_Elt_method(hooks_class, hooks_element);
}
