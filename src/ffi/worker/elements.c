// The elements of a piece of cluster_map(), evaluated. Runs in workers.
#include "base/mst_clock.h"
#include "ffi/worker/worker.h"

static SEXP element_call(void) {
  static SEXP call;
  if (call == NULL) {
    // forceAndCall(1L, fun, x[[i]], ...): a closure returned by fun keeps its element.
    SEXP i = Rf_install("i");
    SEXP element = PROTECT(Rf_lang3(R_Bracket2Symbol, Rf_install("x"), i));
    SEXP rest = PROTECT(Rf_list3(Rf_install("fun"), element, R_DotsSymbol));
    SEXP args = PROTECT(Rf_cons(Rf_ScalarInteger(1), rest));
    // The primitive itself: no lookup for each element.
    call = Rf_lcons(Rf_eval(Rf_install("forceAndCall"), R_BaseEnv), args);
    R_PreserveObject(call);
    UNPROTECT(3);
  }
  return call;
}

// begin_stream sets R's seed to an element's stream, and moves on to the next.
static void begin_stream(struct ffi_stream *stream) {
  static SEXP name;
  SEXP seed = PROTECT(ffi_seed_of(stream));
  Rf_defineVar(ffi_symbol(&name, ".Random.seed"), seed, R_GlobalEnv);
  UNPROTECT(1);
  mst_stream_jump(stream->words, 1);
}

static double seconds_now(void) {
  return (double)mst_clock_now() / (double)MST_NS_PER_S;
}

// ffi_map_elements evaluates fun(x[[i]], ...) in a frame that has these, for the elements after
// `at` up to `last`; `seed` is the first element's stream, or NULL; `call` is another call to
// evaluate, with the same variables, or NULL. It changes values and `at`, the number of
// the present element, in place: so an error leaves both up to date. clock: c(budget in seconds,
// when the first element began), 0 where there is none yet: no element but the first begins once
// they have taken longer than the budget. Gives the seconds that the elements took.
SEXP ffi_map_elements(SEXP frame, SEXP values, SEXP at, SEXP last, SEXP seed,
                      SEXP call, SEXP clock) {
  if (call == R_NilValue) call = element_call();
  SEXP i = Rf_install("i");
  struct ffi_stream stream = {0};
  if (seed != R_NilValue) {
    stream = ffi_stream_of(seed);
    mst_stream_jump(stream.words, (uint64_t)INTEGER(at)[0]);
  }
  const int n = Rf_asInteger(last);
  PROTECT_INDEX at_number;
  SEXP number = Rf_ScalarInteger(0);
  PROTECT_WITH_INDEX(number, &at_number);
  const double budget = REAL(clock)[0];
  if (REAL(clock)[1] == 0) REAL(clock)[1] = seconds_now();
  const double begin = REAL(clock)[1];
  for (int k = INTEGER(at)[0]; k < n; k++) {
    if (budget > 0 && k > 0 && seconds_now() - begin > budget) break;
    INTEGER(at)[0] = k + 1;
    if (seed != R_NilValue) begin_stream(&stream);
    // In place, unless fun has a reference to it: fun can see this frame.
    if (MAYBE_SHARED(number)) {
      REPROTECT(number = Rf_allocVector(INTSXP, 1), at_number);
    }
    INTEGER(number)[0] = k + 1;
    Rf_defineVar(i, number, frame);
    SET_VECTOR_ELT(values, k, Rf_eval(call, frame));
  }
  UNPROTECT(1);
  return Rf_ScalarReal(seconds_now() - begin);
}
