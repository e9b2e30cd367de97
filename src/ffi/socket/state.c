// Which sockets are ready, and the state of one. See socket.h.
#include <string.h>

#include "base/mst_clock.h"
#include "base/mst_features.h"
#include "ffi/socket/socket.h"
#include "net/diag.h"

// One entry for each polled descriptor; a listener has several.
struct watch {
  R_xlen_t which; // index of the socket
  struct ffi_socket *socket;
  int writes; // the caller asks for writing; otherwise only unsent data is flushed
};

struct watching {
  R_xlen_t n; // sockets
  size_t count;
  struct pollfd *at;
  struct watch *watch;
};

static void watch_fd(struct watching *all, R_xlen_t which,
                     struct ffi_socket *socket, int fd, int writes) {
  short events = writes ? POLLOUT : POLLIN;
  if (!socket->is_listener && mst_conn_unsent(&socket->conn) > 0) {
    events |= POLLOUT;
  }
  all->at[all->count] = (struct pollfd){.fd = fd, .events = events};
  all->watch[all->count++] =
      (struct watch){.which = which, .socket = socket, .writes = writes};
}

// sockets_of counts the descriptors, or gives the failure of an unusable socket.
static SEXP sockets_of(SEXP pointers, size_t *fds) {
  *fds = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(pointers); i++) {
    SEXP failure = R_NilValue;
    const struct ffi_socket *socket =
        ffi_socket_of(VECTOR_ELT(pointers, i), FFI_ANY, &failure);
    if (socket == NULL) {
      PROTECT(failure);
      SET_VECTOR_ELT(failure, 5, Rf_ScalarReal((double)(i + 1)));
      UNPROTECT(1);
      return failure;
    }
    *fds += socket->is_listener ? socket->count : 1;
  }
  return R_NilValue;
}

static void watch_all(struct watching *all, SEXP pointers, SEXP write) {
  all->count = 0;
  for (R_xlen_t i = 0; i < all->n; i++) {
    struct ffi_socket *socket = R_ExternalPtrAddr(VECTOR_ELT(pointers, i));
    const int writes = LOGICAL(write)[i] == 1;
    if (!socket->is_listener) {
      watch_fd(all, i, socket, socket->conn.fd, writes);
      continue;
    }
    for (size_t k = 0; k < socket->count && !writes; k++)
      watch_fd(all, i, socket, socket->fds[k], 0);
  }
}

// note_ready checks poll() and the buffers. Returns the number of ready sockets.
static int note_ready(struct watching *all, int *ready, int ms) {
  int found = 0;
  for (size_t k = 0; k < all->count; k++) {
    const struct watch *watch = &all->watch[k];
    if (watch->socket->is_listener || watch->writes) continue;
    if (mst_inbox_bytes(&watch->socket->conn.in) == 0) continue;
    ready[watch->which] = 1;
    found++;
  }
  if (poll(all->at, (nfds_t)all->count, found > 0 ? 0 : ms) <= 0) return found;
  for (size_t k = 0; k < all->count; k++) {
    const struct watch *watch = &all->watch[k];
    const short said = all->at[k].revents;
    if (said == 0) continue;
    struct mst_conn *conn = &watch->socket->conn;
    if (!watch->socket->is_listener && (said & POLLOUT) != 0) {
      (void)mst_conn_flush(conn, 0, NULL);
      all->at[k].events = watch->writes ? POLLOUT : POLLIN;
      if (mst_conn_unsent(conn) > 0) all->at[k].events |= POLLOUT;
    }
    const short wanted = watch->writes ? POLLOUT : POLLIN;
    if ((said & (wanted | POLLERR | POLLHUP | POLLNVAL)) == 0) continue;
    if (watch->writes && mst_conn_unsent(conn) > 0) continue;
    found += !ready[watch->which];
    ready[watch->which] = 1;
  }
  return found;
}

// ffi_socket_select waits until one of the sockets is ready to read, or to write if write[i].
SEXP ffi_socket_select(SEXP pointers, SEXP write, SEXP timeout) {
  struct watching all = {.n = Rf_xlength(pointers)};
  size_t fds;
  SEXP failure = sockets_of(pointers, &fds);
  if (failure != R_NilValue) return failure;
  const struct ffi_wait wait = ffi_wait_begin(NULL, timeout);
  all.at = (void *)R_alloc(fds + 1, sizeof *all.at);
  all.watch = (void *)R_alloc(fds + 1, sizeof *all.watch);
  SEXP ready = PROTECT(Rf_allocVector(LGLSXP, all.n));
  for (R_xlen_t i = 0; i < all.n; i++)
    LOGICAL(ready)[i] = 0;
  watch_all(&all, pointers, write);
  for (;;) {
    const int ms = mst_clock_ms_until(ffi_wait_end(&wait), FFI_SLICE_MS);
    if (note_ready(&all, LOGICAL(ready), ms) > 0) break;
    if (!ffi_wait_on(&wait, NULL, NULL)) break;
  }
  UNPROTECT(1);
  return ready;
}

// ---- status

static SEXP listener_status(const struct ffi_socket *socket) {
  static const char *const names[] = {
      "state",   "host",      "port",     "handlers",  "depth", "depth_max",
      "backlog", "half_open", "accepted", "overflows", "drops", "age_s"};
  const R_xlen_t n = (R_xlen_t)socket->count;
  struct mst_diag_counters now;
  double half_open = NA_REAL;
  if (mst_diag_counters_read(MST_PROC, &now, NULL) != 0) {
    mst_diag_counters_clear(&now);
  }
  SEXP list = PROTECT(ffi_list(12, names));
  SEXP depth = Rf_allocVector(INTSXP, n);
  SET_VECTOR_ELT(list, 4, depth);
  SEXP backlog = Rf_allocVector(INTSXP, n);
  SET_VECTOR_ELT(list, 6, backlog);
  uint32_t most = socket->depth_max;
  for (R_xlen_t i = 0; i < n; i++) {
    struct mst_diag_listener one;
    struct mst_diag_tcp tcp;
    INTEGER(depth)[i] = INTEGER(backlog)[i] = NA_INTEGER;
    if (mst_addr_is_unix(&socket->local)) continue;
    if (mst_diag_tcp_look(socket->fds[i], &tcp, NULL) == 0) {
      INTEGER(depth)[i] = (int)tcp.depth;
      INTEGER(backlog)[i] = (int)tcp.backlog;
      if (tcp.depth > most) most = tcp.depth;
    }
    if (mst_diag_listener_of(socket->fds[i], &one, NULL) == 0) {
      half_open = (ISNAN(half_open) ? 0 : half_open) + (double)one.half_open;
    }
  }
  char host[MST_ADDR_TEXT_MAX];
  const int64_t overflows = now.value[MST_DIAG_LISTEN_OVERFLOWS],
                drops = now.value[MST_DIAG_LISTEN_DROPS];
  SET_VECTOR_ELT(list, 0, Rf_mkString("listening"));
  SET_VECTOR_ELT(list, 1, Rf_mkString(mst_addr_host(&socket->local, host)));
  SET_VECTOR_ELT(list, 2,
                 Rf_ScalarInteger(mst_addr_is_unix(&socket->local)
                                      ? NA_INTEGER
                                      : mst_addr_port(&socket->local)));
  SET_VECTOR_ELT(list, 3, Rf_ScalarInteger((int)n));
  SET_VECTOR_ELT(list, 5,
                 Rf_ScalarInteger(mst_addr_is_unix(&socket->local)
                                      ? NA_INTEGER
                                      : (int)most));
  SET_VECTOR_ELT(list, 7, Rf_ScalarReal(half_open));
  SET_VECTOR_ELT(list, 8, Rf_ScalarReal((double)socket->accepted));
  SET_VECTOR_ELT(list, 9,
                 Rf_ScalarReal(overflows < 0 || socket->overflows < 0
                                   ? NA_REAL
                                   : (double)(overflows - socket->overflows)));
  SET_VECTOR_ELT(list, 10,
                 Rf_ScalarReal(drops < 0 || socket->drops < 0
                                   ? NA_REAL
                                   : (double)(drops - socket->drops)));
  UNPROTECT(1);
  return list;
}

static const char *state_of(const struct ffi_socket *socket,
                            const struct mst_diag_tcp *tcp) {
  if (socket->conn.ended > 0) return "failed";
  if (tcp != NULL) return mst_diag_state_name(tcp->state);
  return socket->conn.ended != 0 ? "close-wait" : "established";
}

static SEXP connection_status(struct ffi_socket *socket) {
  static const char *const names[] = {
      "state",          "host",         "port",         "local_host",
      "local_port",     "blocking",     "rtt_s",        "rttvar_s",
      "rto_s",          "retransmits",  "lost",         "sent_bytes",
      "received_bytes", "unsent_bytes", "unread_bytes", "age_s"};
  struct mst_diag_tcp tcp;
  struct mst_addr local;
  char host[MST_ADDR_TEXT_MAX];
  const int fd = socket->conn.fd;
  const int is_unix = mst_addr_is_unix(&socket->peer);
  (void)mst_conn_flush(&socket->conn, 0, NULL);
  const int known = !is_unix && mst_diag_tcp_look(fd, &tcp, NULL) == 0;
  (void)mst_addr_local(fd, &local, NULL);
  SEXP list = PROTECT(ffi_list(16, names));
  SET_VECTOR_ELT(list, 0, Rf_mkString(state_of(socket, known ? &tcp : NULL)));
  SET_VECTOR_ELT(list, 1, Rf_mkString(mst_addr_host(&socket->peer, host)));
  SET_VECTOR_ELT(
      list, 2,
      Rf_ScalarInteger(is_unix ? NA_INTEGER : mst_addr_port(&socket->peer)));
  SET_VECTOR_ELT(list, 3, Rf_mkString(mst_addr_host(&local, host)));
  SET_VECTOR_ELT(
      list, 4, Rf_ScalarInteger(is_unix ? NA_INTEGER : mst_addr_port(&local)));
  SET_VECTOR_ELT(list, 5, Rf_ScalarLogical(socket->blocking));
  const double us = 1e-6;
  SET_VECTOR_ELT(list, 6, Rf_ScalarReal(known ? tcp.rtt_us * us : NA_REAL));
  SET_VECTOR_ELT(list, 7, Rf_ScalarReal(known ? tcp.rttvar_us * us : NA_REAL));
  SET_VECTOR_ELT(list, 8, Rf_ScalarReal(known ? tcp.rto_us * us : NA_REAL));
  SET_VECTOR_ELT(list, 9,
                 Rf_ScalarReal(known ? tcp.retransmits_total : NA_REAL));
  SET_VECTOR_ELT(list, 10, Rf_ScalarReal(known ? tcp.lost : NA_REAL));
  SET_VECTOR_ELT(list, 11, Rf_ScalarReal((double)socket->conn.sent_bytes));
  SET_VECTOR_ELT(list, 12, Rf_ScalarReal((double)socket->conn.received_bytes));
  SET_VECTOR_ELT(list, 13,
                 Rf_ScalarReal((double)mst_conn_unsent(&socket->conn)));
  SET_VECTOR_ELT(list, 14,
                 Rf_ScalarReal((double)mst_inbox_bytes(&socket->conn.in)));
  UNPROTECT(1);
  return list;
}

// ffi_socket_status gives a socket's state as a named list.
SEXP ffi_socket_status(SEXP pointer) {
  SEXP failure = R_NilValue;
  struct ffi_socket *socket = ffi_socket_of(pointer, FFI_ANY, &failure);
  if (socket == NULL) return failure;
  SEXP list = PROTECT(socket->is_listener ? listener_status(socket)
                                          : connection_status(socket));
  SET_VECTOR_ELT(list, Rf_xlength(list) - 1,
                 Rf_ScalarReal((double)(mst_clock_now() - socket->opened_ns) /
                               (double)MST_NS_PER_S));
  UNPROTECT(1);
  return list;
}
