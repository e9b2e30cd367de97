// Connections to R's own workers, for R. See stock.h and stock/conn.h.
//
// All waits are in slices of 50 ms with a check for interrupts in between. An interrupt leaves a
// link intact: received bytes stay, unsent ones go first in the next call.
#include "ffi/stock/stock.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "base/mst_entropy.h"
#include "net/stream.h"
#include "stock/conn.h"
#include "stock/word.h"

#define SERIALIZE_VERSION 3

// The record lives until its pointer is collected: R code that runs while one of these functions
// waits or reads may close the connection.
struct stock_link {
  struct ffi_closing closing;
  struct mst_stock_conn conn;
  int closed;
};

struct stock_listener {
  struct ffi_closing closing;
  int fd;
  pid_t owner;
};

static SEXP link_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_link_pointer");
}

static SEXP listener_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_listener_pointer");
}

static struct stock_link *link_of(SEXP pointer) {
  struct stock_link *stock = ffi_address_of(pointer, link_tag());
  return stock != NULL && !stock->closed && stock->conn.owner == ffi_self()
             ? stock
             : NULL;
}

static struct stock_listener *listener_of(SEXP pointer) {
  struct stock_listener *listener = ffi_address_of(pointer, listener_tag());
  return listener != NULL && listener->owner == ffi_self() ? listener : NULL;
}

// A forked child only closes its copies: the connection is its parent's.
static void close_link(struct ffi_closing *closing) {
  struct stock_link *stock = (struct stock_link *)(void *)closing;
  if (stock->closed) return;
  stock->closed = 1;
  mst_stock_conn_close(&stock->conn);
}

static void finalize_link(SEXP pointer) {
  struct stock_link *stock = R_ExternalPtrAddr(pointer);
  if (stock == NULL) return;
  R_ClearExternalPtr(pointer);
  ffi_closing_remove(&stock->closing);
  close_link(&stock->closing);
  free(stock);
}

static void close_listener(struct ffi_closing *closing) {
  mst_net_close(&((struct stock_listener *)(void *)closing)->fd);
}

static void finalize_listener(SEXP pointer) {
  struct stock_listener *listener = R_ExternalPtrAddr(pointer);
  if (listener == NULL) return;
  R_ClearExternalPtr(pointer);
  ffi_closing_remove(&listener->closing);
  close_listener(&listener->closing);
  free(listener);
}

// ffi_stock_close closes a link or a listener; may be called again.
SEXP ffi_stock_close(SEXP pointer) {
  struct stock_link *stock = ffi_address_of(pointer, link_tag());
  if (stock != NULL) close_link(&stock->closing);
  if (ffi_address_of(pointer, listener_tag()) != NULL) {
    finalize_listener(pointer);
  }
  return R_NilValue;
}

// listen_at tries the ports in turn.
static int listen_at(const char *host, SEXP ports, int *fd, int *port,
                     struct mst_err *err) {
  int rc = -MST_EINPUT;
  for (R_xlen_t i = 0; i < Rf_xlength(ports); i++) {
    struct mst_addr addr, bound;
    mst_err_clear(err);
    rc = mst_addr_parse(host, INTEGER(ports)[i], &addr, err);
    if (rc != 0) return rc;
    rc = mst_net_listen(&addr, MST_BACKLOG_MOST, fd, 1, &bound, err);
    if (rc == 0) {
      *port = mst_addr_port(&bound);
      return 0;
    }
    if (rc != -MST_ECONNECT) return rc;
  }
  return rc;
}

// ffi_stock_listen listens on the first free one of these ports: list(listener, port), or
// list(error, call, errno). host: an address, not a name.
SEXP ffi_stock_listen(SEXP host, SEXP ports) {
  static const char *const names[] = {"listener", "port"};
  SEXP pointer =
      PROTECT(ffi_own(listener_tag(), R_NilValue, finalize_listener, 0));
  SEXP list = PROTECT(ffi_list(2, names));
  SET_VECTOR_ELT(list, 0, pointer);
  struct stock_listener *listener = malloc(sizeof *listener);
  if (listener == NULL) Rf_error("no memory for a listener");
  struct mst_err err;
  int port = 0;
  listener->owner = ffi_self();
  if (listen_at(CHAR(STRING_ELT(host, 0)), ports, &listener->fd, &port, &err) !=
      0) {
    free(listener);
    UNPROTECT(2);
    return ffi_error_list(&err);
  }
  mst_net_raise(&listener->fd);
  ffi_closing_add(&listener->closing, close_listener);
  R_SetExternalPtrAddr(pointer, listener);
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger(port));
  UNPROTECT(2);
  return list;
}

// accept_link gives a pointer to the next connection, NULL if there is none.
static SEXP accept_link(SEXP listener_pointer) {
  SEXP pointer = PROTECT(ffi_own(link_tag(), R_NilValue, finalize_link, 0));
  const struct stock_listener *listener = listener_of(listener_pointer);
  struct stock_link *stock = calloc(1, sizeof *stock);
  int fd = -1;
  if (stock == NULL || listener == NULL ||
      mst_net_accept(listener->fd, &fd, NULL, NULL) != 0) {
    free(stock);
    UNPROTECT(1);
    return R_NilValue;
  }
  mst_net_raise(&fd);
  mst_net_set_keepalive(fd, 60, 15, 8);
  mst_stock_conn_init(&stock->conn, fd, ffi_self());
  ffi_closing_add(&stock->closing, close_link);
  R_SetExternalPtrAddr(pointer, stock);
  UNPROTECT(1);
  return pointer;
}

static int fill(struct stock_link *stock) {
  if (stock->closed) return -MST_ECLOSED;
  (void)mst_stock_conn_flush(&stock->conn); // reading will show a failure
  return mst_stock_conn_fill(&stock->conn);
}

static void wait_for(struct pollfd *polled, size_t n, SEXP timeout_s) {
  const double ms = Rf_asReal(timeout_s) * 1000.0;
  (void)poll(polled, (nfds_t)n, ms > FFI_SLICE_MS ? FFI_SLICE_MS : (int)ms);
}

// ffi_stock_poll waits a slice for an event: list(accepted, links, processes). accepted: the
// pointer of a new connection, or NULL. links: for each, an enum ffi_link. processes: for each,
// whether it runs.
SEXP ffi_stock_poll(SEXP listener_pointer, SEXP links, SEXP running,
                    SEXP timeout_s) {
  static const char *const names[] = {"accepted", "links", "processes"};
  R_CheckUserInterrupt();
  struct stock_listener *listener = listener_of(listener_pointer);
  const R_xlen_t n = Rf_xlength(links), m = Rf_xlength(running);
  SEXP list = PROTECT(ffi_list(3, names));
  int *states = INTEGER(SET_VECTOR_ELT(list, 1, Rf_allocVector(INTSXP, n)));
  int *runs = LOGICAL(SET_VECTOR_ELT(list, 2, Rf_allocVector(LGLSXP, m)));
  struct pollfd *polled =
      (struct pollfd *)(void *)R_alloc((size_t)(n + m + 1), sizeof *polled);
  int whole = 0;
  for (R_xlen_t i = 0; i < n; i++) {
    struct stock_link *stock = link_of(VECTOR_ELT(links, i));
    polled[i] = (struct pollfd){.fd = -1};
    const int rc = stock == NULL ? -MST_ECLOSED : fill(stock);
    if (rc != 0) whole = 1;
    if (rc == 0) {
      polled[i].fd = stock->conn.fd;
      polled[i].events = mst_stock_conn_events(&stock->conn);
    }
  }
  for (R_xlen_t i = 0; i < m; i++) {
    const struct stock_process *process =
        ffi_stock_process_of(VECTOR_ELT(running, i));
    polled[n + i] = (struct pollfd){
        .fd = process == NULL ? -1 : process->output, .events = POLLIN};
  }
  polled[n + m] = (struct pollfd){.fd = listener == NULL ? -1 : listener->fd,
                                  .events = POLLIN};
  if (!whole) wait_for(polled, (size_t)(n + m + 1), timeout_s);
  // The following may run code that closes them: look each one up in its turn.
  for (R_xlen_t i = 0; i < n; i++) {
    struct stock_link *stock = link_of(VECTOR_ELT(links, i));
    const int rc = stock == NULL ? -MST_ECLOSED : fill(stock);
    states[i] = rc < 0    ? FFI_LINK_ENDED
                : rc == 0 ? FFI_LINK_NOTHING
                          : FFI_LINK_WHOLE;
  }
  for (R_xlen_t i = 0; i < m; i++) {
    struct stock_process *process =
        ffi_stock_process_of(VECTOR_ELT(running, i));
    // While workers start, their output is for the report of a failure.
    if (process != NULL) ffi_stock_attend(process, listener == NULL);
    runs[i] = process != NULL && process->how == MST_EXIT_NONE;
  }
  if (listener != NULL) SET_VECTOR_ELT(list, 0, accept_link(listener_pointer));
  UNPROTECT(1);
  return list;
}

// ---- messages

static void out_bytes(R_outpstream_t stream, void *bytes, int n) {
  struct mst_buf *buf = (struct mst_buf *)stream->data;
  if (mst_buf_append(buf, bytes, (size_t)n) != 0) {
    ffi_no_memory(buf->len + (size_t)n);
  }
}

static void out_char(R_outpstream_t stream, int c) {
  unsigned char byte = (unsigned char)c;
  out_bytes(stream, &byte, 1);
}

static int outcome_of(int rc) {
  if (rc == -MST_EMEM || rc == -MST_ELIMIT) return FFI_MEMORY;
  return rc == -MST_ECLOSED ? FFI_LOST : FFI_SYSTEM;
}

// one_slice waits for the link or its process's output. Runs R code.
static void one_slice(struct stock_link *stock, SEXP process_pointer) {
  struct stock_process *process = ffi_stock_process_of(process_pointer);
  struct pollfd polled[2] = {
      {.fd = stock->conn.fd, .events = mst_stock_conn_events(&stock->conn)},
      {.fd = process == NULL ? -1 : process->output, .events = POLLIN}};
  (void)poll(polled, 2, FFI_SLICE_MS);
  if (process != NULL && polled[1].revents != 0) ffi_stock_attend(process, 1);
  R_CheckUserInterrupt();
}

// message_of serializes an object into a blob of the caller's. Not straight into the link's buffer:
// if that fails, the part written must not be sent.
static struct mst_blob *message_of(SEXP data, int xdr) {
  struct mst_blob *blob = ffi_new_blob();
  struct R_outpstream_st stream;
  R_InitOutPStream(&stream, (R_pstream_data_t)&blob->buf,
                   xdr ? R_pstream_xdr_format : R_pstream_binary_format,
                   SERIALIZE_VERSION, out_char, out_bytes, NULL, R_NilValue);
  R_Serialize(data, &stream);
  ffi_unhold(blob);
  return blob;
}

// ffi_stock_send sends an object and waits until the system has all of it: NULL, or an outcome. It
// reads what the worker sends meanwhile, so that two full buffers never wait for each other.
SEXP ffi_stock_send(SEXP pointer, SEXP data, SEXP xdr, SEXP process) {
  if (link_of(pointer) == NULL) return Rf_ScalarInteger(FFI_STOPPED);
  struct mst_blob *blob = message_of(data, Rf_asLogical(xdr) == 1);
  struct stock_link *stock = link_of(pointer);
  int rc = 0;
  if (stock != NULL && stock->conn.out.len == 0) {
    mst_buf_free(&stock->conn.out);
    stock->conn.out = blob->buf;
    blob->buf = (struct mst_buf){0};
  } else if (stock != NULL) {
    rc = mst_buf_append(&stock->conn.out, blob->buf.data, blob->buf.len);
  }
  mst_blob_release(blob);
  while (rc == 0) {
    stock = link_of(pointer);
    if (stock == NULL) return Rf_ScalarInteger(FFI_STOPPED);
    rc = mst_stock_conn_flush(&stock->conn);
    if (rc != 0) break;
    (void)mst_stock_conn_fill(&stock->conn);
    one_slice(stock, process);
  }
  return rc == 1 ? R_NilValue : Rf_ScalarInteger(outcome_of(rc));
}

// show_call shows a worker's output before its answer. None of our code runs there to mark the end
// of a call: of two calls that were sent at once, the second may have printed as well. Runs R code.
static void show_call(SEXP process_pointer) {
  struct stock_process *process = ffi_stock_process_of(process_pointer);
  if (process == NULL) return;
  ffi_stock_attend(process, 1);
  ffi_stock_end_line(process);
}

// ffi_stock_receive waits for a message: list(object), or an outcome. A message that can't be read
// is dropped.
SEXP ffi_stock_receive(SEXP pointer, SEXP process) {
  for (;;) {
    struct stock_link *stock = link_of(pointer);
    if (stock == NULL || !stock->conn.proved) {
      return Rf_ScalarInteger(FFI_STOPPED);
    }
    struct mst_buf bytes = {0};
    int rc = fill(stock);
    if (rc == 1) rc = mst_stock_conn_detach(&stock->conn, &bytes);
    if (rc < 0) return Rf_ScalarInteger(outcome_of(rc));
    if (rc == 0) {
      one_slice(stock, process);
      (void)ffi_show_progress();
      continue;
    }
    (void)ffi_hold(bytes.data, free);
    show_call(process);
    SEXP list = PROTECT(Rf_allocVector(VECSXP, 1));
    SET_VECTOR_ELT(list, 0, ffi_unserialize(bytes.data, bytes.len));
    ffi_drop(bytes.data);
    UNPROTECT(1);
    return list;
  }
}

// ffi_stock_word gives 128 random bits as a word of MST_STOCK_WORD_BYTES. Not R's random numbers:
// those are the user's, and predictable.
SEXP ffi_stock_word(void) {
  static const char digits[] = "0123456789abcdef";
  uint8_t bytes[MST_STOCK_WORD_BYTES / 2];
  char text[2 * sizeof bytes + 1];
  struct mst_err err;
  if (mst_entropy_take(bytes, sizeof bytes, &err) != 0)
    Rf_error("%s", err.text);
  for (size_t i = 0; i < sizeof bytes; i++) {
    text[2 * i] = digits[bytes[i] >> 4];
    text[2 * i + 1] = digits[bytes[i] & 15];
  }
  text[2 * sizeof bytes] = 0;
  return Rf_mkString(text);
}

// ffi_stock_prove gives the index of the word that the link's peer has sent, 0 if it isn't among
// these; on success its messages are read. An empty word stands for a worker that has come already.
SEXP ffi_stock_prove(SEXP pointer, SEXP words) {
  struct stock_link *stock = link_of(pointer);
  int which = 0;
  for (R_xlen_t i = 0; stock != NULL && i < Rf_xlength(words); i++) {
    const char *word = CHAR(STRING_ELT(words, i));
    if (strlen(word) == MST_STOCK_WORD_BYTES &&
        mst_stock_conn_prove(&stock->conn, word)) {
      which = (int)i + 1;
    }
  }
  return Rf_ScalarInteger(which);
}

static int has_nodelay(int fd) {
  int on = 0;
  socklen_t n = sizeof on;
  return getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &n) == 0 && on != 0;
}

// ffi_stock_state gives list(open, peer, nodelay), NULL after it was closed.
SEXP ffi_stock_state(SEXP pointer) {
  static const char *const names[] = {"open", "peer", "nodelay"};
  struct stock_link *stock = link_of(pointer);
  if (stock == NULL) return R_NilValue;
  struct mst_addr peer;
  char text[MST_ADDR_TEXT_MAX];
  const int rc = fill(stock);
  SEXP list = PROTECT(ffi_list(3, names));
  SET_VECTOR_ELT(list, 0, Rf_ScalarLogical(rc >= 0));
  SET_VECTOR_ELT(list, 2, Rf_ScalarLogical(has_nodelay(stock->conn.fd)));
  if (mst_addr_peer(stock->conn.fd, &peer, NULL) == 0) {
    SET_VECTOR_ELT(list, 1, Rf_mkString(mst_addr_format(&peer, text)));
  }
  UNPROTECT(1);
  return list;
}

SEXP ffi_stock_nodelay(SEXP pointer, SEXP on) {
  struct stock_link *stock = link_of(pointer);
  if (stock != NULL) mst_net_set_nodelay(stock->conn.fd, Rf_asLogical(on) == 1);
  return R_NilValue;
}
