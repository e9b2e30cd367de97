// ffi: the only folder that knows R. Everything in it runs on the R thread.
//
// Rules: core functions never longjmp; this folder frees or hands over what it
// holds before it calls anything of R's that may. An outcome that R code turns
// into a condition comes back as a small integer (enum ffi_outcome), so that
// all conditions are made in R/conditions.R.
//
// Its modules, each above those before it: entry (how R comes in, and however it leaves), value (R
// objects and bytes); then, side by side, session, worker, data, socket, discover, machine, and
// stock above session. Each has a header of its own with its entry points, which init.c registers.
#ifndef MST_FFI_H
#define MST_FFI_H

#define R_NO_REMAP
#include <R_ext/Rdynload.h>
#include <Rinternals.h>

#include "base/mst_clock.h"

// Longest time without a look at R's interrupts and time limits.
#define FFI_SLICE_MS 50

// ffi_ns: a duration that R gives in seconds, below 1e9.
static inline int64_t ffi_ns(double seconds) {
  return (int64_t)(seconds * (double)MST_NS_PER_S);
}

enum ffi_outcome {
  FFI_LOST = 1,    // the worker is lost
  FFI_STOPPED = 2, // the cluster was stopped
  // of another process: a copy, or used in a forked child; or of a session that muster ended when
  // it was unloaded
  FFI_FOREIGN = 3,
  FFI_TYPE = 4,      // a message of a type that muster doesn't know
  FFI_MEMORY = 5,    // no memory for a message
  FFI_SYSTEM = 6,    // a system call failed
  FFI_FAILED = 7,    // the call's answer will not come; ffi_node_loss says why
  FFI_REFERENCE = 8, // an argument that is of no use in another process
  FFI_BROKEN = 9 // of a session that was given up, since an assertion failed
};

#endif
