// Jobs: sent to a worker once, for later calls. R code keeps them, by number.
#include <stdio.h>
#include <string.h>

#include "ffi/value/value.h"
#include "ffi/worker/worker.h"

static void release_map(SEXP pointer) {
  mst_map_release(R_ExternalPtrAddr(pointer));
  R_ClearExternalPtr(pointer);
}

SEXP ffi_job_of_frame(const struct mst_frame *frame, struct mst_map *map) {
  const size_t n = (size_t)frame->head.length;
  SEXP job = PROTECT(Rf_allocVector(VECSXP, 3));
  SET_VECTOR_ELT(job, 0, Rf_ScalarReal((double)frame->head.call));
  SEXP bytes = SET_VECTOR_ELT(job, 1, Rf_allocVector(RAWSXP, (R_xlen_t)n));
  if (n > 0) memcpy(RAW(bytes), frame->payload, n);
  if ((frame->head.flags & MST_FLAG_SEGMENT) != 0) {
    SEXP pointer =
        SET_VECTOR_ELT(job, 2, R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
    R_RegisterCFinalizerEx(pointer, release_map, FALSE);
    R_SetExternalPtrAddr(pointer, mst_map_hold(map));
  }
  UNPROTECT(1);
  return job;
}

// ffi_job_read reads a job's bytes, and its segment if any. It maps that anew each time, since
// vectors may be changed in place.
SEXP ffi_job_read(SEXP bytes, SEXP pointer) {
  struct mst_map *map = NULL;
  const size_t n = (size_t)Rf_xlength(bytes);
  if (pointer == R_NilValue) return ffi_unserialize(RAW(bytes), n);
  const struct mst_map *held = R_ExternalPtrAddr(pointer);
  if (held != NULL && mst_map_is_lost(held)) {
    map = mst_map_lost();
  } else if (held != NULL) {
    (void)mst_map_again(held, &map, NULL);
  }
  SEXP later = PROTECT(R_MakeExternalPtr(map, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(later, release_map, FALSE);
  SEXP job = PROTECT(ffi_unserialize_message(MST_FLAG_SEGMENT, RAW(bytes), n,
                                             MST_SEGMENT_BYTES, map));
  release_map(later); // the vectors have their own references
  UNPROTECT(2);
  return job;
}

// ffi_job_key gives a job's number as text; as.character() would depend on options(scipen).
SEXP ffi_job_key(SEXP number) {
  char text[32];
  (void)snprintf(text, sizeof text, "%.0f", Rf_asReal(number));
  return Rf_mkString(text);
}

// ffi_job_forget releases a job's segment now, instead of when R collects it.
SEXP ffi_job_forget(SEXP pointer) {
  if (TYPEOF(pointer) == EXTPTRSXP) release_map(pointer);
  return R_NilValue;
}
