// Which context this worker is in: what a task's session was when it was submitted, or, for calls
// of parallel's verbs, the worker's own. See R/worker-context.R.
#include "ffi/worker/worker.h"

static struct {
  double now;  // the number of the one that it is in; 0: its own
  double last; // the one that it was in last, but for its own
  int differs; // that differs from its own
  struct ffi_surroundings own; // what its own was when it went into that
} context;

static void leave(void) {
  if (context.now != 0 && context.differs) {
    ffi_call_ours(FFI_CONTEXT_LEAVE, NULL);
    ffi_settings_note(
        &ffi_this_settings); // it isn't the call that changed them
  }
  context.now = 0;
}

void ffi_context_enter(double number) {
  if (number == context.now) return;
  leave();
  if (number == 0) return;
  if (number == context.last && !ffi_surroundings_changed(&context.own)) {
    if (context.differs) ffi_call_ours(FFI_CONTEXT_AGAIN, NULL);
  } else {
    context.last = 0; // until it is known whether it differs
    ffi_surroundings_note(&context.own);
    SEXP argument = PROTECT(Rf_ScalarReal(number));
    context.differs = Rf_asLogical(ffi_call_ours(FFI_CONTEXT_ENTER, argument));
    context.last = number;
    UNPROTECT(1);
  }
  context.now = number;
  if (context.differs) ffi_settings_note(&ffi_this_settings);
}
