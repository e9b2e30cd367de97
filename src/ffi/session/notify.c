// A descriptor for event loops: readable once a task is over or has said something, so that nobody
// has to ask.
//
// A pipe, which lives as long as the process: a thread of the event loop's may be polling it when
// the session ends.
#include <fcntl.h>

#include "ffi/session/session.h"

static struct {
  int fds[2];
  pid_t pid; // that made it; a forked child makes its own
} wakeup;

// ffi_notify has the descriptor that it gives become readable when a task of this session is over
// or has said something, or not any more. An R error if none can be made.
SEXP ffi_notify(SEXP on) {
  if (wakeup.pid != ffi_self()) {
    struct mst_err err;
    mst_err_clear(&err);
    if (mst_net_pipe(wakeup.fds, &err) != 0)
      Rf_error("can't make a pipe: %s", err.text);
    wakeup.pid = ffi_self();
    mst_net_raise(&wakeup.fds[0]);
    mst_net_raise(&wakeup.fds[1]);
    (void)fcntl(wakeup.fds[1], F_SETFL, O_NONBLOCK);
  }
  struct mst_session *session = ffi_session_or_null();
  if (session != NULL)
    mst_session_notify(session, Rf_asLogical(on) == 1 ? wakeup.fds[1] : -1);
  return Rf_ScalarInteger(wakeup.fds[0]);
}

// ffi_notified empties it. What is over by now has to be asked for after that.
SEXP ffi_notified(void) {
  char bytes[64];
  while (wakeup.pid == ffi_self() &&
         mst_net_read(wakeup.fds[0], bytes, sizeof bytes, NULL) > 0)
    ;
  return R_NilValue;
}
