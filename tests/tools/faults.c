// What R code can't do to its own process: end it without R, crash it, write to
// any of its descriptors. Compiled by the tests (R CMD SHLIB) and loaded in workers.
#include <R.h>
#include <Rinternals.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

// Ends the process as the system does, past R and its finalizers.
SEXP faults_exit(SEXP status) {
  _exit(Rf_asInteger(status));
  return R_NilValue;
}

// Reads where nothing is.
SEXP faults_segv(void) {
  volatile int *nowhere = (volatile int *)(uintptr_t)8;
  return Rf_ScalarInteger(*nowhere);
}

// Writes bytes to a descriptor: how many were written.
SEXP faults_write(SEXP fd, SEXP bytes) {
  return Rf_ScalarInteger(
      (int)write(Rf_asInteger(fd), RAW(bytes), (size_t)XLENGTH(bytes)));
}

SEXP faults_close(SEXP fd) {
  return Rf_ScalarInteger(close(Rf_asInteger(fd)));
}

// Computes in C, with no look at interrupts, for that many seconds.
SEXP faults_compute(SEXP seconds) {
  const double end = (double)clock() / CLOCKS_PER_SEC + Rf_asReal(seconds);
  double x = 0.5;
  while ((double)clock() / CLOCKS_PER_SEC < end) {
    for (int i = 0; i < 100000; i++) x = 3.9 * x * (1.0 - x);
  }
  return Rf_ScalarReal(x);
}

// Blocks or ignores a signal as a library might.
SEXP faults_ignore(SEXP sig) {
  (void)signal(Rf_asInteger(sig), SIG_IGN);
  return R_NilValue;
}
