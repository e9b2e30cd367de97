// ffi: the only folder that knows R. Everything in it runs on the R thread.
//
// Rules: core functions never longjmp; this folder frees or hands over what it
// holds before it calls anything of R's that may. An outcome that R code turns
// into a condition comes back as a small integer (enum ffi_outcome), so that
// all conditions are made in R/util-conditions.R.
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

// What R code compares with by its name: enums.c gives it the values of these, and of enums of
// the modules below.
enum ffi_outcome {
  FFI_FINE = 0,    // nothing keeps it from being used
  FFI_LOST = 1,    // the worker is lost
  FFI_STOPPED = 2, // the cluster was stopped
  // of another process: a copy, or used in a forked child; or of a session that muster ended when
  // it was unloaded
  FFI_FOREIGN = 3,
  FFI_TYPE = 4,      // a message of a type that muster doesn't know
  FFI_MEMORY = 5,    // no memory for a message
  FFI_SYSTEM = 6,    // a system call failed
  FFI_FAILED = 7,    // the call's answer will not come; ffi_node_loss says why
  FFI_REFERENCE = 8, // an argument can't be used in another process
  FFI_BROKEN = 9 // of a session that was given up, since an assertion failed
};
// ffi_cluster_workers: how a worker is.
enum ffi_is { FFI_IS_AWAY, FFI_IS_UP, FFI_IS_GONE };
// options(expressions = ) below this, which a call may set, would leave no room for calls below the
// frames that they are evaluated in.
enum ffi_least { FFI_LEAST_EXPRESSIONS = 60 };
// ffi_stock_poll: what a link has. WHOLE: a message, or the word of a peer that hasn't proved
// itself.
enum ffi_link { FFI_LINK_ENDED = -1, FFI_LINK_NOTHING = 0, FFI_LINK_WHOLE = 1 };
// ffi_targets_kind: what a target is. LARGE: a range of too many addresses.
enum ffi_target {
  FFI_TARGET_RANGE,
  FFI_TARGET_NAME,
  FFI_TARGET_BAD,
  FFI_TARGET_LARGE
};
// Bits of ffi_scan: what a value holds, in itself and in the lists in it. Attributes and
// environments aren't looked into: data.table's pointer to itself is an attribute, and what an
// environment holds may never be used.
enum ffi_scan {
  FFI_SCAN_CONNECTION = 1, // other than stdin, stdout, stderr
  FFI_SCAN_POINTER = 2,    // an external pointer that points somewhere
  FFI_SCAN_ENVIRONMENT =
      4, // of its own: a change in it would be seen by the next
  FFI_SCAN_S4 = 8,
  FFI_SCAN_LARGE =
      16, // a vector that may be worth sharing, or a list of R's own
  FFI_SCAN_CODE =
      32, // a function whose code has an external pointer, as Rcpp's have
  FFI_SCAN_TASK = 64 // a task, or a copy of one
};

#endif
