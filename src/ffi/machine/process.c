// Facts of this process for R: limits, threads, faults of test builds.
#include <errno.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_fault.h"
#include "ffi/machine/machine.h"
#include "fork/fork.h"
#include "net/net.h"

SEXP ffi_limits(void) {
  int64_t soft, hard, open_now;
  mst_net_fd_limits(&soft, &hard, &open_now);
  SEXP limits = Rf_allocVector(REALSXP, 3);
  REAL(limits)[0] = (double)soft;
  REAL(limits)[1] = (double)hard;
  REAL(limits)[2] = (double)open_now;
  return limits;
}

SEXP ffi_limits_raise(SEXP want) {
  return Rf_ScalarReal(
      (double)mst_net_fd_raise_limit((int64_t)Rf_asReal(want)));
}

// ffi_can_write tells whether a file can be created and written at this path. R's own functions
// would use one of its connections.
SEXP ffi_can_write(SEXP path) {
  return Rf_ScalarLogical(
      mst_tree_probe(Rf_translateChar(STRING_ELT(path, 0))) == 0);
}

extern char **environ;

// ffi_environment gives the environment variables, named, as raw bytes.
SEXP ffi_environment(void) {
  R_xlen_t n = 0;
  while (environ != NULL && environ[n] != NULL)
    n++;
  SEXP values = PROTECT(Rf_allocVector(STRSXP, n));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    const char *equals = strchr(environ[i], '=');
    const size_t length =
        equals == NULL ? strlen(environ[i]) : (size_t)(equals - environ[i]);
    SET_STRING_ELT(names, i, Rf_mkCharLen(environ[i], (int)length));
    SET_STRING_ELT(values, i, Rf_mkChar(equals == NULL ? "" : equals + 1));
  }
  Rf_setAttrib(values, R_NamesSymbol, names);
  UNPROTECT(2);
  return values;
}

// ffi_errno_name gives the name of an errno of starting a process or writing a file, else "".
SEXP ffi_errno_name(SEXP number) {
  static const struct {
    int number;
    const char *name;
  } known[] = {{EAGAIN, "EAGAIN"},         {ENOMEM, "ENOMEM"},
               {EMFILE, "EMFILE"},         {ENFILE, "ENFILE"},
               {EDEADLK, "EDEADLK"},       {ETOOMANYREFS, "ETOOMANYREFS"},
               {ECONNRESET, "ECONNRESET"}, {EPIPE, "EPIPE"},
               {ETIMEDOUT, "ETIMEDOUT"},   {ENOSPC, "ENOSPC"},
               {EDQUOT, "EDQUOT"},         {EFBIG, "EFBIG"}};
  const int wanted = Rf_asInteger(number);
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (known[i].number == wanted) return Rf_mkString(known[i].name);
  }
  return Rf_mkString("");
}

// ffi_oom_kills: see mst_proc_oom_kills.
SEXP ffi_oom_kills(void) { return Rf_ScalarReal((double)mst_proc_oom_kills()); }

SEXP ffi_threads_set(SEXP threads) {
  mst_threads_set(Rf_asInteger(threads));
  return R_NilValue;
}

// c(threads of this process, threads that its libraries would use)
SEXP ffi_threads_count(void) {
  SEXP counts = Rf_allocVector(INTSXP, 2);
  INTEGER(counts)[0] = mst_proc_threads();
  INTEGER(counts)[1] = mst_threads_get();
  return counts;
}

SEXP ffi_can_fork(void) { return Rf_ScalarLogical(mst_proc_can_fork()); }

// ffi_fault_arm arms a fault point of a test build and gives how often the previous one was met;
// NULL in other builds.
SEXP ffi_fault_arm(SEXP point, SEXP nth, SEXP sys_errno) {
#ifdef MST_FAULTS
  return Rf_ScalarInteger(mst_fault_arm(
      CHAR(STRING_ELT(point, 0)), Rf_asInteger(nth), Rf_asInteger(sys_errno)));
#else
  (void)point;
  (void)nth;
  (void)sys_errno;
  return R_NilValue;
#endif
}

SEXP ffi_assert_fail(void) {
  MST_ASSERT(0 && "asked for by a test");
  return R_NilValue;
}

// Which checks this build has, for the tests: c(threads, faults).
SEXP ffi_build_flags(void) {
  SEXP flags = Rf_allocVector(LGLSXP, 2);
  LOGICAL(flags)[0] = 0;
  LOGICAL(flags)[1] = 0;
#ifdef MST_CHECK_THREADS
  LOGICAL(flags)[0] = 1;
#endif
#ifdef MST_FAULTS
  LOGICAL(flags)[1] = 1;
#endif
  return flags;
}
