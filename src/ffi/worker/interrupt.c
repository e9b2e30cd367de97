// Interrupts of calls: when they are allowed, and how the call's changes are undone.
#include "ffi/worker/worker.h"
#include "fork/fork.h"

SEXP ffi_worker_open(void) {
  mst_watch_call_open();
  R_CheckUserInterrupt();
  return R_NilValue;
}

SEXP ffi_worker_shut(void) {
  return Rf_ScalarLogical(mst_watch_call_shut() != 0);
}

int ffi_interrupt_end(int *raised, uint16_t *changed, struct mst_seed *seed) {
  if (mst_watch_call_shut() == 0) {
    *raised = mst_watch_call_end();
    return 1;
  }
  const int unknown = ffi_track_let_go();
  SEXP undone =
      ffi_call_ours(unknown ? FFI_EAT_INTERRUPT : FFI_UNDO_CALL, NULL);
  const int whole = !unknown && Rf_asLogical(undone) == 1;
  *raised = mst_watch_call_end();
  if (whole) {
    *changed = ffi_track_changed(seed, 0);
    if ((*changed & MST_FLAG_STATE) == 0) return 1;
  }
  ffi_call_ours(FFI_SAY_TORN, NULL);
  return 0;
}
