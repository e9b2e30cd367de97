// Parts of a worker: what they take, and memory given back once they lie in files. Runs in workers.
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "ffi/value/coded.h"
#include "ffi/value/share_int.h"
#include "ffi/worker/worker.h"

#define DEPTH_MAX 100
// Of each vector and of each string: R's header, and what malloc() adds.
#define HEADER_BYTES 56.0

static double weight_of(SEXP x, int depth);

static double weight_of_elements(SEXP x, int depth) {
  const double n = (double)Rf_xlength(x);
  const struct ffi_shared *shared = ffi_shared_of(x);
  // Strings take this once they are made, if all differ. Those of a dictionary may be others' too.
  const double string = HEADER_BYTES + sizeof(SEXP);
  if (ffi_is_coded(x)) {
    const R_xlen_t size = ffi_dictionary_size(ffi_coded_dictionary(x));
    return n * sizeof(int) + (double)size * string;
  }
  if (TYPEOF(x) == STRSXP)
    return (shared != NULL ? (double)shared->bytes : 0) + n * string;
  if (TYPEOF(x) != VECSXP) {
    return n * (double)ffi_share_size[ffi_share_kind_of(x)];
  }
  double sum = n * sizeof(SEXP);
  for (R_xlen_t i = 0; i < Rf_xlength(x); i++)
    sum += weight_of(VECTOR_ELT(x, i), depth + 1);
  return sum;
}

// weight_of gives infinity for what isn't plain data.
static double weight_of(SEXP x, int depth) {
  if (x == R_NilValue) return 0;
  if (depth == DEPTH_MAX || Rf_isS4(x) ||
      (TYPEOF(x) != VECSXP && ffi_share_kind_of(x) < 0)) {
    return R_PosInf;
  }
  double sum = HEADER_BYTES + weight_of_elements(x, depth);
  if (!ffi_has_attributes(x)) return sum;
  SEXP all = PROTECT(ffi_attributes(x));
  for (R_xlen_t i = 0; i < Rf_xlength(all); i++)
    sum += weight_of(VECTOR_ELT(all, i), depth + 1);
  UNPROTECT(1);
  return sum;
}

// ffi_part_weight gives about how many bytes a part takes in memory: not too few, so that a worker
// holds no more than it may. Infinity if it has more than vectors, lists and their attributes:
// code, environments and pointers aren't the same once they are read from a file.
SEXP ffi_part_weight(SEXP x) { return Rf_ScalarReal(weight_of(x, 0)); }

// ffi_heap_widen lets vectors take about so many bytes more before R collects: R makes room for
// what is allocated, and the vector is never written to, so it takes no memory. Raises R errors.
SEXP ffi_heap_widen(SEXP bytes) {
  (void)Rf_allocVector(RAWSXP, (R_xlen_t)Rf_asReal(bytes));
  return R_NilValue;
}

// ffi_memory_return gives what R doesn't use any more back to the system: without it, free() keeps
// most of it for this process.
SEXP ffi_memory_return(void) {
  R_gc();
#ifdef __GLIBC__
  (void)malloc_trim(0);
#endif
  return R_NilValue;
}
