// The life of socket objects, the time limits of operations, and how they fail. See socket.h.
#include "ffi/socket/socket.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"

// ---- time

struct ffi_wait ffi_wait_begin(const struct ffi_socket *socket, SEXP timeout) {
  struct ffi_wait wait = {.began_ns = mst_clock_now()};
  double s = timeout == R_NilValue ? NA_REAL : Rf_asReal(timeout);
  if (ISNAN(s)) s = socket->timeout_s;
  wait.may_wait = s > 0 && (socket == NULL || socket->blocking);
  wait.deadline_ns = s < 1e9 ? wait.began_ns + ffi_ns(s) : INT64_MAX / 2;
  return wait;
}

int64_t ffi_wait_end(const struct ffi_wait *wait) {
  if (!wait->may_wait) return 0;
  const int64_t slice_ns = mst_clock_now() + FFI_SLICE_MS * MST_NS_PER_MS;
  return slice_ns < wait->deadline_ns ? slice_ns : wait->deadline_ns;
}

struct undo {
  void (*run)(void *);
  void *data;
};

static SEXP check_interrupt(void *data) {
  (void)data;
  R_CheckUserInterrupt();
  return R_NilValue;
}

static void leave_check(void *data, Rboolean jump) {
  const struct undo *undo = data;
  if (jump && undo->run != NULL) undo->run(undo->data);
}

int ffi_wait_on(const struct ffi_wait *wait, void (*undo)(void *), void *data) {
  struct undo left = {.run = undo, .data = data};
  if (!wait->may_wait || mst_clock_now() >= wait->deadline_ns) return 0;
  ffi_unwind(check_interrupt, NULL, leave_check, &left);
  return 1;
}

// ---- failures

SEXP ffi_failure(const char *kind, const struct mst_err *err,
                 const struct ffi_wait *wait, double bytes) {
  static const char *const names[] = {"kind",  "error",     "call",
                                      "errno", "elapsed_s", "bytes"};
  SEXP list = PROTECT(ffi_list(6, names));
  const char *text = err != NULL ? err->text : "";
  SET_VECTOR_ELT(list, 0, Rf_mkString(kind));
  SET_VECTOR_ELT(list, 1, ffi_text(text, strlen(text)));
  SET_VECTOR_ELT(list, 2, Rf_mkString(err != NULL ? err->call : ""));
  SET_VECTOR_ELT(list, 3, Rf_ScalarInteger(err != NULL ? err->sys_errno : 0));
  SET_VECTOR_ELT(
      list, 4,
      Rf_ScalarReal(wait == NULL ? 0
                                 : (double)(mst_clock_now() - wait->began_ns) /
                                       (double)MST_NS_PER_S));
  SET_VECTOR_ELT(list, 5, Rf_ScalarReal(bytes));
  Rf_setAttrib(list, R_ClassSymbol, PROTECT(Rf_mkString("muster_failure")));
  UNPROTECT(2);
  return list;
}

SEXP ffi_failure_of(int rc, const struct mst_err *err,
                    const struct ffi_wait *wait, double bytes) {
  switch (-rc) {
  case MST_EAGAIN:
    return wait->may_wait ? ffi_failure("timeout", err, wait, bytes)
                          : R_NilValue;
  case MST_ECONNECT:
    return ffi_failure("connect", err, wait, bytes);
  case MST_ELIMIT:
    return ffi_failure("limit", err, wait, bytes);
  case MST_EPROTO:
    return ffi_failure("protocol", err, wait, bytes);
  case MST_EINPUT:
    return ffi_failure("input", err, wait, bytes);
  case MST_EMEM:
    return ffi_failure("memory", err, wait, bytes);
  case MST_ESYS:
    return ffi_failure(mst_err_is_shortage(err->sys_errno) ? "shortage"
                                                           : "closed",
                       err, wait, bytes);
  default:
    return ffi_failure("closed", err, wait, bytes);
  }
}

// ---- life

#define SOCKET_TAG "muster_socket_pointer"

static SEXP socket_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, SOCKET_TAG);
}

// is_sockets: the tag is a socket's, of this session or another.
static int is_sockets(SEXP tag) {
  return TYPEOF(tag) == SYMSXP &&
         strncmp(CHAR(PRINTNAME(tag)), SOCKET_TAG, sizeof SOCKET_TAG - 1) == 0;
}

// remove_path removes the file of a unix socket if it is still ours.
static void remove_path(const struct ffi_socket *socket) {
  struct stat at;
  const char *path = socket->local.at.un.sun_path;
  if (!mst_addr_is_unix(&socket->local)) return;
  if (lstat(path, &at) == 0 && at.st_ino == socket->path.st_ino &&
      at.st_dev == socket->path.st_dev) {
    (void)unlink(path);
  }
}

static void close_socket(struct ffi_socket *socket) {
  if (!socket->is_open) return;
  socket->is_open = 0;
  if (!socket->is_listener) {
    mst_conn_close(&socket->conn);
    return;
  }
  remove_path(socket);
  for (size_t i = 0; i < socket->count; i++) {
    mst_net_shutdown(socket->fds[i]);
    mst_net_close(&socket->fds[i]);
  }
}

static void collect(SEXP pointer) {
  struct ffi_socket *socket = R_ExternalPtrAddr(pointer);
  if (socket == NULL) return;
  R_ClearExternalPtr(pointer);
  ffi_closing_remove(&socket->closing);
  if (socket->owner == ffi_self()) {
    close_socket(socket);
  } else {
    mst_inbox_free(&socket->conn.in);
    mst_buf_free(&socket->conn.out);
  }
  free(socket->fds);
  free(socket);
}

static void end_socket(struct ffi_closing *closing) {
  struct ffi_socket *socket = (struct ffi_socket *)(void *)closing;
  if (socket->owner == ffi_self()) close_socket(socket);
}

SEXP ffi_socket_new(int is_listener, int blocking, double timeout_s,
                    struct ffi_socket **out) {
  SEXP pointer = PROTECT( // collected at R's end, too, to remove a path's file
      ffi_own(socket_tag(), R_NilValue, collect, 1));
  struct ffi_socket *socket = calloc(1, sizeof *socket);
  if (socket == NULL) Rf_error("no memory");
  socket->owner = ffi_self();
  socket->is_listener = is_listener;
  socket->blocking = blocking;
  socket->timeout_s = timeout_s;
  socket->is_open = 1;
  socket->opened_ns = mst_clock_now();
  mst_conn_init(&socket->conn, -1);
  ffi_closing_add(&socket->closing, end_socket);
  R_SetExternalPtrAddr(pointer, socket);
  UNPROTECT(1);
  *out = socket;
  return pointer;
}

SEXP ffi_socket_object(SEXP pointer, const char *host,
                       const struct mst_addr *addr) {
  static SEXP names, classes[2];
  const struct ffi_socket *socket = R_ExternalPtrAddr(pointer);
  if (names == NULL) {
    static const char *const words[] = {"muster_connection", "muster_listener"};
    for (int i = 0; i < 2; i++) {
      classes[i] = Rf_allocVector(STRSXP, 2);
      R_PreserveObject(classes[i]);
      SET_STRING_ELT(classes[i], 0, Rf_mkChar(words[i]));
      SET_STRING_ELT(classes[i], 1, Rf_mkChar("muster_socket"));
    }
    SEXP made = PROTECT(Rf_allocVector(STRSXP, 3));
    SET_STRING_ELT(made, 0, Rf_mkChar("pointer"));
    SET_STRING_ELT(made, 1, Rf_mkChar("host"));
    SET_STRING_ELT(made, 2, Rf_mkChar("port"));
    R_PreserveObject(made);
    UNPROTECT(1);
    names = made;
  }
  char text[MST_ADDR_TEXT_MAX];
  if (host == NULL) host = mst_addr_host(addr, text);
  SEXP object = PROTECT(Rf_allocVector(VECSXP, 3));
  SET_VECTOR_ELT(object, 0, pointer);
  SET_VECTOR_ELT(object, 1, Rf_mkString(host));
  SET_VECTOR_ELT(object, 2,
                 Rf_ScalarInteger(mst_addr_is_unix(addr)
                                      ? NA_INTEGER
                                      : mst_addr_port(addr)));
  Rf_setAttrib(object, R_NamesSymbol, names);
  Rf_setAttrib(object, R_ClassSymbol, classes[socket->is_listener]);
  UNPROTECT(1);
  return object;
}

static struct ffi_socket *none(const char *kind, SEXP *failure) {
  *failure = ffi_failure(kind, NULL, NULL, -1);
  return NULL;
}

struct ffi_socket *ffi_socket_of(SEXP pointer, enum ffi_socket_kind kind,
                                 SEXP *failure) {
  if (TYPEOF(pointer) == VECSXP && Rf_xlength(pointer) == 3 &&
      Rf_inherits(pointer, "muster_socket")) {
    pointer = VECTOR_ELT(pointer, 0);
  }
  SEXP tag =
      TYPEOF(pointer) == EXTPTRSXP ? R_ExternalPtrTag(pointer) : R_NilValue;
  if (!is_sockets(tag)) return none("no_socket", failure);
  struct ffi_socket *socket = R_ExternalPtrAddr(pointer);
  if (socket == NULL) return none("copy", failure);
  if (tag != socket_tag()) return none("closed_here", failure);
  if (socket->owner != ffi_self()) return none("foreign", failure);
  if (!socket->is_open) return none("closed_here", failure);
  if (kind == FFI_LISTENER && !socket->is_listener) {
    return none("no_listener", failure);
  }
  if (kind == FFI_CONNECTION && socket->is_listener) {
    return none("no_connection", failure);
  }
  return socket;
}

// ffi_socket_close closes and gives the number of unsent bytes; may be called again.
SEXP ffi_socket_close(SEXP pointer) {
  SEXP failure = R_NilValue;
  struct ffi_socket *socket = ffi_socket_of(pointer, FFI_ANY, &failure);
  if (socket == NULL) {
    const char *kind = CHAR(STRING_ELT(VECTOR_ELT(failure, 0), 0));
    return strcmp(kind, "closed_here") == 0 ? Rf_ScalarReal(0) : failure;
  }
  double unsent = 0;
  if (!socket->is_listener) {
    (void)mst_conn_flush(&socket->conn, 0, NULL);
    unsent = (double)mst_conn_unsent(&socket->conn);
  }
  close_socket(socket);
  return Rf_ScalarReal(unsent);
}

SEXP ffi_socket_is_open(SEXP pointer) {
  const struct ffi_socket *socket = ffi_address_of(pointer, socket_tag());
  return Rf_ScalarLogical(socket != NULL && socket->owner == ffi_self() &&
                          socket->is_open);
}

// ffi_socket_timeout gives the present timeout and sets a new one if it isn't negative.
SEXP ffi_socket_timeout(SEXP pointer, SEXP timeout) {
  SEXP failure = R_NilValue;
  struct ffi_socket *socket = ffi_socket_of(pointer, FFI_ANY, &failure);
  if (socket == NULL) return failure;
  const double before = socket->timeout_s, after = Rf_asReal(timeout);
  if (after >= 0) socket->timeout_s = after;
  return Rf_ScalarReal(before);
}
