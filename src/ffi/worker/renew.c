// What a forked worker must renew and R code can't: see R/worker-renew.R.
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "ffi/worker/worker.h"

// ffi_rebind gives a variable of a package another value. Those of loaded namespaces are locked,
// and stay locked.
SEXP ffi_rebind(SEXP env, SEXP name, SEXP value) {
  SEXP symbol = Rf_installTrChar(STRING_ELT(name, 0));
  const int locked = R_BindingIsLocked(symbol, env);
  if (locked) R_unLockBinding(symbol, env);
  Rf_defineVar(symbol, value, env);
  if (locked) R_LockBinding(symbol, env);
  return R_NilValue;
}

// ffi_rand_seed seeds C's rand() differently in each worker. R seeds it when it boots, so all
// workers of a server would have the same stream: tempfile() takes the end of its names from it,
// and std::random_shuffle() and other packages' C code use it. Ours doesn't. glibc's rand() and
// random() share one state.
SEXP ffi_rand_seed(void) {
  static int32_t state[32]; // the size of glibc's default state
  const uint64_t now = (uint64_t)mst_clock_now();
  const unsigned int seed = (unsigned int)now ^ (unsigned int)(now >> 32) ^
                            (unsigned int)getpid() << 16;
  (void)initstate(seed, (char *)state, sizeof state);
  return R_NilValue;
}
