// Makes this process a fork server. The start, which is the same as in workers, is in worker.c.
#include <stdio.h>

#include "ffi/worker/worker.h"
#include "fork/fork.h"

// ffi_server_run serves forks. TRUE in a forked worker, FALSE in the server when it must end, NA in
// a server that has been idle for idle_ms (0: never). An error in a worker means that its set-up
// failed.
SEXP ffi_server_run(SEXP session, SEXP temp_dir, SEXP idle_ms) {
  struct mst_err err;
  mst_err_clear(&err);
  const char *path = Rf_translateChar(STRING_ELT(temp_dir, 0));
  const struct mst_server_config config = {.session =
                                               (pid_t)Rf_asInteger(session),
                                           .temp_dir = path,
                                           .idle_ms = Rf_asInteger(idle_ms)};
  char title[64];
  (void)snprintf(title, sizeof title, "muster server of %d",
                 Rf_asInteger(session));
  mst_proc_title(title);
  const int rc = mst_server_run(&config, &err);
  if (rc < 0) {
    Rf_error(MST_CANT_START "%s: errno %d", err.call, err.sys_errno);
  }
  return Rf_ScalarLogical(rc == MST_SERVER_IDLE ? NA_LOGICAL : rc);
}

SEXP ffi_server_say(SEXP kind, SEXP text) {
  mst_server_say((uint8_t)Rf_asInteger(kind),
                 Rf_translateCharUTF8(STRING_ELT(text, 0)));
  return R_NilValue;
}
