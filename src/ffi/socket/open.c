// Listeners, accepts and connects for R. See socket.h.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "base/mst_features.h"
#include "ffi/socket/socket.h"
#include "net/diag.h"
#include "net/resolve.h"

// R's own connections wait in select(), which can't go past 1023, so sockets move above that;
// except the first few, since R has no more than 128 connections anyway.
#define FD_FEW 256

static void move_away(int *fd) {
  if (*fd >= FD_FEW) mst_net_raise(fd);
}

// Check the queue at most this often: a check costs half an accept.
#define DEPTH_NS MST_NS_PER_MS

// ---- arguments in their simple form; R code checks the others

static int is_number(SEXP x) {
  return (TYPEOF(x) == INTSXP || TYPEOF(x) == REALSXP) && Rf_xlength(x) == 1;
}

static int is_flag(SEXP x) {
  return TYPEOF(x) == LGLSXP && Rf_xlength(x) == 1 &&
         LOGICAL(x)[0] != NA_LOGICAL;
}

static int is_wait(SEXP x) {
  return x == R_NilValue || (is_number(x) && Rf_asReal(x) >= 0);
}

// ---- from names to addresses

static void undo_resolve(void *data) { mst_resolve_drop(data); }

// addresses_of fills addrs, resolving a name within the time. 0, -MST_EAGAIN, or an error.
static int addresses_of(const char *host, int port, struct mst_addr *addrs,
                        size_t *count, const struct ffi_wait *wait,
                        struct mst_err *err) {
  int rc = mst_addr_parse(host, port, addrs, err);
  *count = 1;
  if (rc == 0 && strcmp(host, "localhost") == 0) {
    return mst_addr_lookup(host, port, addrs, MST_ADDRS_MAX, count, err);
  }
  if (rc != -MST_EAGAIN) return rc;
  struct mst_resolve *resolve;
  rc = mst_resolve_begin(host, port, &resolve, err);
  if (rc != 0) return rc;
  do {
    rc = mst_resolve_until(resolve, addrs, MST_ADDRS_MAX, count,
                           ffi_wait_end(wait), err);
  } while (rc == -MST_EAGAIN && ffi_wait_on(wait, undo_resolve, resolve));
  mst_resolve_drop(resolve);
  return rc;
}

// ---- listening

static void note_counters(struct ffi_socket *socket) {
  struct mst_diag_counters now;
  socket->overflows = socket->drops = -1;
  if (mst_diag_counters_read(MST_PROC, &now, NULL) != 0) return;
  socket->overflows = now.value[MST_DIAG_LISTEN_OVERFLOWS];
  socket->drops = now.value[MST_DIAG_LISTEN_DROPS];
}

static int listen_at(struct ffi_socket *socket, const struct mst_addr *addrs,
                     size_t count, int backlog, struct mst_err *err) {
  int rc = -MST_ECONNECT;
  for (size_t i = 0; i < count && rc != 0; i++) {
    rc = mst_net_listen(&addrs[i], backlog, socket->fds, socket->count,
                        &socket->local, err);
    // Try a name's other addresses only if this one isn't on this machine.
    if (rc != -MST_ECONNECT || err->sys_errno != EADDRNOTAVAIL) break;
  }
  return rc;
}

SEXP ffi_socket_listen(SEXP host, SEXP port, SEXP backlog, SEXP handlers,
                       SEXP timeout) {
  const char *name = Rf_translateChar(STRING_ELT(host, 0));
  struct mst_addr *addrs = (void *)R_alloc(MST_ADDRS_MAX, sizeof *addrs);
  struct ffi_socket *socket;
  struct mst_err err;
  size_t count;
  mst_err_clear(&err);
  const struct ffi_wait wait = ffi_wait_begin(NULL, timeout);
  int rc = addresses_of(name, Rf_asInteger(port), addrs, &count, &wait, &err);
  if (rc != 0) return ffi_failure_of(rc, &err, &wait, -1);
  SEXP pointer = PROTECT(ffi_socket_new(1, 1, Rf_asReal(timeout), &socket));
  socket->fds = malloc((size_t)Rf_asInteger(handlers) * sizeof(int));
  if (socket->fds == NULL) Rf_error("no memory");
  socket->count = (size_t)Rf_asInteger(handlers);
  for (size_t i = 0; i < socket->count; i++)
    socket->fds[i] = -1;
  rc = listen_at(socket, addrs, count, Rf_asInteger(backlog), &err);
  if (rc != 0) {
    socket->is_open = 0;
    UNPROTECT(1);
    return ffi_failure_of(rc, &err, &wait, -1);
  }
  for (size_t i = 0; i < socket->count; i++)
    move_away(&socket->fds[i]);
  if (mst_addr_is_unix(&socket->local)) {
    (void)lstat(socket->local.at.un.sun_path, &socket->path);
  }
  note_counters(socket);
  SEXP object = ffi_socket_object(pointer, NULL, &socket->local);
  UNPROTECT(1);
  return object;
}

// ---- accepting

static void note_depth(struct ffi_socket *socket, int fd) {
  struct mst_diag_tcp now;
  if (mst_addr_is_unix(&socket->local)) return;
  if (mst_diag_tcp_look(fd, &now, NULL) == 0 && now.depth > socket->depth_max) {
    socket->depth_max = now.depth;
  }
}

// accept_any tries all listeners of the port, in turns, so that a busy one doesn't starve the
// others.
static int accept_any(struct ffi_socket *socket, int *fd, struct mst_addr *peer,
                      int64_t until_ns, struct mst_err *err) {
  struct pollfd at[MST_HANDLERS_MAX];
  for (;;) {
    const int64_t now_ns = mst_clock_now();
    const int looks = now_ns - socket->looked_ns >= DEPTH_NS;
    if (looks) socket->looked_ns = now_ns;
    for (size_t k = 0; k < socket->count; k++) {
      const size_t i = (socket->turn + k) % socket->count;
      if (looks) note_depth(socket, socket->fds[i]);
      const int rc = mst_net_accept(socket->fds[i], fd, peer, err);
      if (rc == 0) socket->turn = (i + 1) % socket->count;
      if (rc != -MST_EAGAIN) return rc;
    }
    for (size_t i = 0; i < socket->count; i++)
      at[i] = (struct pollfd){.fd = socket->fds[i], .events = POLLIN};
    const int ms = mst_clock_ms_until(until_ns, FFI_SLICE_MS);
    if (poll(at, (nfds_t)socket->count, ms) <= 0) return -MST_EAGAIN;
  }
}

SEXP ffi_socket_accept(SEXP pointer, SEXP timeout, SEXP blocking) {
  SEXP failure = R_NilValue;
  struct ffi_socket *server = ffi_socket_of(pointer, FFI_LISTENER, &failure);
  if (server == NULL) return failure;
  if (!is_wait(timeout) || !is_flag(blocking)) {
    return ffi_failure("arguments", NULL, NULL, -1);
  }
  const struct ffi_wait wait = ffi_wait_begin(server, timeout);
  struct ffi_socket *socket;
  struct mst_err err;
  mst_err_clear(&err);
  SEXP made = PROTECT(ffi_socket_new(0, Rf_asLogical(blocking) == 1,
                                     server->timeout_s, &socket));
  int rc;
  do {
    rc = accept_any(server, &socket->conn.fd, &socket->peer,
                    ffi_wait_end(&wait), &err);
  } while (rc == -MST_EAGAIN && ffi_wait_on(&wait, NULL, NULL));
  if (rc != 0) {
    socket->is_open = 0;
    UNPROTECT(1);
    return ffi_failure_of(rc, &err, &wait, -1);
  }
  move_away(&socket->conn.fd);
  server->accepted++;
  // A unix socket's client has no address of its own.
  if (mst_addr_is_unix(&server->local)) socket->peer = server->local;
  SEXP object = ffi_socket_object(made, NULL, &socket->peer);
  UNPROTECT(1);
  return object;
}

// ---- connecting

static void undo_reach(void *data) { mst_reach_end(data); }

// are_plain tells whether the arguments of a connect are certainly valid; otherwise R code reports
// the error or converts them to this form.
static int are_plain(SEXP host, SEXP port, SEXP timeout, SEXP blocking) {
  if (TYPEOF(host) != STRSXP || Rf_xlength(host) != 1 ||
      STRING_ELT(host, 0) == NA_STRING || CHAR(STRING_ELT(host, 0))[0] == 0 ||
      !is_number(port) || !is_number(timeout) || !is_flag(blocking)) {
    return 0;
  }
  const double number = Rf_asReal(port),
               least = mst_addr_is_path(CHAR(STRING_ELT(host, 0))) ? 0 : 1;
  return number >= least && number <= 65535 && number == (int)number &&
         Rf_asReal(timeout) > 0;
}

SEXP ffi_socket_connect(SEXP host, SEXP port, SEXP timeout, SEXP blocking) {
  if (!are_plain(host, port, timeout, blocking)) {
    return ffi_failure("arguments", NULL, NULL, -1);
  }
  const char *name = Rf_translateChar(STRING_ELT(host, 0));
  struct mst_reach reach;
  struct ffi_socket *socket;
  struct mst_err err;
  mst_err_clear(&err);
  const struct ffi_wait wait = ffi_wait_begin(NULL, timeout);
  int rc = addresses_of(name, Rf_asInteger(port), reach.addrs, &reach.count,
                        &wait, &err);
  if (rc != 0) return ffi_failure_of(rc, &err, &wait, -1);
  SEXP pointer = PROTECT(ffi_socket_new(0, Rf_asLogical(blocking) == 1,
                                        Rf_asReal(timeout), &socket));
  mst_reach_begin(&reach);
  do {
    rc = mst_reach_until(&reach, &socket->conn.fd, ffi_wait_end(&wait), &err);
  } while (rc == -MST_EAGAIN && ffi_wait_on(&wait, undo_reach, &reach));
  socket->peer = reach.addrs[reach.won];
  mst_reach_end(&reach);
  if (rc != 0) {
    socket->is_open = 0;
    UNPROTECT(1);
    return ffi_failure_of(rc, &err, &wait, -1);
  }
  move_away(&socket->conn.fd);
  SEXP object = ffi_socket_object(pointer, name, &socket->peer);
  UNPROTECT(1);
  return object;
}
