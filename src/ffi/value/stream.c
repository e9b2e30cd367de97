// Streams of random numbers between R's .Random.seed and base/mst_stream.h.
#include <string.h>

#include "ffi/value/value.h"

struct ffi_stream ffi_stream_of(SEXP seed) {
  struct ffi_stream stream;
  if (TYPEOF(seed) != INTSXP || Rf_xlength(seed) != 1 + MST_STREAM_WORDS) {
    Rf_error("a stream has 7 numbers");
  }
  stream.kinds = INTEGER_RO(seed)[0];
  memcpy(stream.words, INTEGER_RO(seed) + 1, sizeof stream.words);
  return stream;
}

SEXP ffi_seed_of(const struct ffi_stream *stream) {
  SEXP seed = Rf_allocVector(INTSXP, 1 + MST_STREAM_WORDS);
  INTEGER(seed)[0] = stream->kinds;
  memcpy(INTEGER(seed) + 1, stream->words, sizeof stream->words);
  return seed;
}

// ffi_stream_after gives the n-th stream after that of a seed.
SEXP ffi_stream_after(SEXP seed, SEXP n) {
  struct ffi_stream stream = ffi_stream_of(seed);
  mst_stream_jump(stream.words, (uint64_t)Rf_asReal(n));
  return ffi_seed_of(&stream);
}
