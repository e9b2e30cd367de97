// host: entry points of the host process, which serves a session on another machine
// (host/thread.h). Its R thread starts fork servers when it is asked to; its relay does the rest.
#ifndef MST_FFI_HOST_H
#define MST_FFI_HOST_H

#include "ffi/value/value.h"

SEXP ffi_host_open(SEXP times_s, SEXP delays);
SEXP ffi_host_dial(SEXP where, SEXP numbers, SEXP times_s);
SEXP ffi_host_say(SEXP facts);
SEXP ffi_host_heed(SEXP all);
SEXP ffi_host_next(SEXP root);
SEXP ffi_host_spawn(SEXP file, SEXP argv, SEXP env, SEXP fds);
SEXP ffi_host_refuse(SEXP fds, SEXP text);
SEXP ffi_host_end(SEXP timeout_s);

#endif
