// The stream that a worker draws from before anybody gives it one.
//
// R seeds its generator by the clock when a process first draws. A worker that comes back and
// replays its calls would draw other numbers. So a worker begins with a seed that all incarnations
// of it have, and nobody else: made of a word of the session's, and the numbers of the cluster and
// the worker. What
// was drawn is repeated then without a checkpoint.
#include <unistd.h>

#include "base/mst_clock.h"
#include "ffi/worker/this.h"

static struct {
  int on;
  uint64_t base;
  uint64_t count; // how often it was seeded: a stream that was removed isn't begun again
} stream;

// mixed is splitmix64's output for a state.
static uint64_t mixed(uint64_t z) {
  z += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

// A generator of the user's own may take no seed; R's error is ignored, and R seeds it itself.
static void set_seed(void) {
  const uint64_t number = mixed(stream.base + stream.count++);
  const int seed = (int)(number >> 33); // never NA
  SEXP name = PROTECT(Rf_install("set.seed"));
  SEXP call = PROTECT(Rf_lang2(name, Rf_ScalarInteger(seed)));
  int failed = 0;
  (void)R_tryEvalSilent(call, R_BaseEnv, &failed);
  UNPROTECT(2);
}

SEXP ffi_stream_begin(SEXP word) {
  stream.on = 1;
  stream.count = 0;
  stream.base = mixed((uint64_t)ffi_this.cluster << 32 | ffi_this.worker);
  for (const char *at = CHAR(STRING_ELT(word, 0)); *at != '\0'; at++)
    stream.base = mixed(stream.base + (unsigned char)*at);
  set_seed();
  return R_NilValue;
}

void ffi_stream_renew(void) {
  if (!stream.on) return;
  stream.base = mixed((uint64_t)mst_clock_now() ^ mixed((uint64_t)getpid()));
  stream.count = 0;
  set_seed();
}

void ffi_stream_look(void) {
  if (!stream.on || ffi_track_stream() != R_UnboundValue) return;
  set_seed();
  ffi_track_note_stream();
}
