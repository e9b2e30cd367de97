// Data on connections: bytes, frames, objects, lines. See socket.h.
//
// A message is sent whole or stays whole in the connection's buffer, and received bytes stay there
// until a message is complete: so after a timeout or an interrupt both ends are still in step.
// Bytes from the peer are only parsed as a frame's head or a line's end here; an object is passed
// to R's unserialize() only when it is complete, and only if the caller asks for an object.
#include <string.h>

#include "base/mst_clock.h"
#include "ffi/socket/socket.h"

// The kinds of a message, numbered as in R code.
enum {
  KIND_RAW = 0,
  KIND_FRAME = MST_INBOX_BYTES,
  KIND_OBJECT = MST_INBOX_OBJECT,
  KIND_LINES = 3
};

#define LIMIT_MAX 4503599627370496.0 // 2^52: doubles count exactly up to here
#define CHECK_FROM ((size_t)64 << 20)

static double count_of(SEXP x) {
  const double n = Rf_asReal(x);
  return n > LIMIT_MAX ? LIMIT_MAX : n;
}

// ---- sending

// flush_all sends the buffer. 0, -MST_EAGAIN when the time is over, or an error.
static int flush_all(struct ffi_socket *socket, const struct ffi_wait *wait,
                     struct mst_err *err) {
  int rc;
  do {
    rc = mst_conn_flush(&socket->conn, ffi_wait_end(wait), err);
  } while (rc == -MST_EAGAIN && ffi_wait_on(wait, NULL, NULL));
  return rc;
}

// put_message adds a head, unless the message is raw, and the bytes; both or nothing.
static int put_message(struct mst_conn *conn, int kind, const void *bytes,
                       size_t n) {
  uint8_t head[MST_INBOX_HEAD];
  const size_t before = conn->out.len;
  int rc = 0;
  if (kind != KIND_RAW) {
    mst_inbox_head((enum mst_inbox_kind)kind, n, head);
    rc = mst_conn_put(conn, head, sizeof head);
  }
  if (rc == 0) rc = mst_conn_put(conn, bytes, n);
  if (rc != 0) conn->out.len = before;
  return rc;
}

// put_object serializes and adds an object; the blob is freed or, if R raises an error, kept for
// the next one.
static int put_object(struct mst_conn *conn, SEXP x) {
  struct mst_blob *blob = ffi_blob_of(x);
  const int rc = put_message(conn, KIND_OBJECT, blob->buf.data, blob->buf.len);
  mst_blob_release(blob);
  return rc;
}

// ffi_socket_send sends a raw vector, or serializes x if kind says so. TRUE: accepted. NULL:
// nothing can be accepted now.
SEXP ffi_socket_send(SEXP pointer, SEXP x, SEXP kind, SEXP timeout) {
  SEXP failure = R_NilValue;
  struct ffi_socket *socket = ffi_socket_of(pointer, FFI_CONNECTION, &failure);
  if (socket == NULL) return failure;
  struct mst_conn *conn = &socket->conn;
  const struct ffi_wait wait = ffi_wait_begin(socket, timeout);
  const int what = Rf_asInteger(kind);
  struct mst_err err;
  mst_err_clear(&err);
  // The rest of an earlier call goes first; until then this message isn't accepted.
  int rc = flush_all(socket, &wait, &err);
  if (rc != 0) return ffi_failure_of(rc, &err, &wait, 0);
  if (what == KIND_OBJECT) {
    rc = put_object(conn, x);
  } else {
    if ((size_t)Rf_xlength(x) > CHECK_FROM) {
      ffi_memory_check((size_t)Rf_xlength(x));
    }
    rc = put_message(conn, what, RAW(x), (size_t)Rf_xlength(x));
  }
  if (rc == 0) rc = flush_all(socket, &wait, &err);
  if (rc == 0 || (rc == -MST_EAGAIN && !wait.may_wait)) {
    return Rf_ScalarLogical(1);
  }
  return ffi_failure_of(rc, &err, &wait, (double)mst_conn_unsent(conn));
}

// ---- receiving

struct want {
  int kind;
  double n;     // bytes of raw, or number of lines; NA: what is there
  double limit; // of a message or line
  uint64_t missing;
  size_t length; // of the message
  size_t whole;  // with its head; for lines: all found so far
  R_xlen_t lines;
  size_t scanned; // after them, without a line end
};

static int look_raw(const struct mst_conn *conn, struct want *want) {
  const size_t there = mst_inbox_bytes(&conn->in);
  const double wanted = ISNAN(want->n) ? 1 : want->n;
  if ((double)there < wanted) {
    want->missing = (uint64_t)(wanted - (double)there);
    return -MST_EAGAIN;
  }
  const double most = ISNAN(want->n) ? want->limit : want->n;
  want->length = want->whole = (double)there < most ? there : (size_t)most;
  return 0;
}

static int look_frame(const struct mst_conn *conn, struct want *want,
                      struct mst_err *err) {
  enum mst_inbox_kind kind = MST_INBOX_BYTES;
  const uint8_t *bytes;
  const int rc = mst_inbox_frame(&conn->in, (uint64_t)want->limit, &kind,
                                 &bytes, &want->missing, err);
  if (rc != 0) return rc;
  want->length = (size_t)want->missing;
  want->whole = want->length + MST_INBOX_HEAD;
  if (want->kind == KIND_OBJECT && kind != MST_INBOX_OBJECT) {
    return mst_err_set(err, MST_EPROTO, 0, NULL,
                       "the next message is bytes, not an R object");
  }
  return 0;
}

// look_lines goes on after the lines found before.
static int look_lines(const struct mst_conn *conn, struct want *want,
                      struct mst_err *err) {
  struct mst_inbox view = conn->in;
  // Code that ran during the wait may have taken some.
  if (want->whole > mst_inbox_bytes(&view)) {
    want->whole = 0;
    want->lines = 0;
  }
  mst_inbox_take(&view, want->whole);
  view.scanned = want->scanned;
  int rc = 0;
  while (ISNAN(want->n) || (double)want->lines < want->n) {
    const uint8_t *bytes;
    size_t length, whole;
    rc = mst_inbox_line(&view, (size_t)want->limit, &bytes, &length, &whole,
                        err);
    if (rc != 0) break;
    mst_inbox_take(&view, whole);
    want->whole += whole;
    want->lines++;
  }
  want->scanned = view.scanned;
  want->missing = 1;
  // A line that is too long is an error only when its turn comes.
  if (want->lines > 0 && (ISNAN(want->n) || rc == -MST_ELIMIT)) return 0;
  return rc;
}

static int look(struct mst_conn *conn, struct want *want, struct mst_err *err) {
  if (want->kind == KIND_RAW) return look_raw(conn, want);
  if (want->kind == KIND_LINES) return look_lines(conn, want, err);
  return look_frame(conn, want, err);
}

// await fills the inbox until a message is there. It also sends unsent data: the answer may depend
// on it.
static int await(struct ffi_socket *socket, struct want *want,
                 const struct ffi_wait *wait, struct mst_err *err) {
  for (;;) {
    int rc = look(&socket->conn, want, err);
    if (rc != -MST_EAGAIN) return rc;
    if (mst_conn_unsent(&socket->conn) > 0) {
      (void)mst_conn_flush(&socket->conn, 0, NULL);
    }
    const size_t missing =
        want->missing < SIZE_MAX ? (size_t)want->missing : SIZE_MAX;
    rc = mst_conn_fill(&socket->conn, missing, ffi_wait_end(wait), err);
    if (rc == -MST_EAGAIN && ffi_wait_on(wait, NULL, NULL)) continue;
    if (rc != 0) return rc;
    // Bytes that trickle in neither prolong the time nor hide an interrupt.
    if (mst_clock_now() >= wait->deadline_ns) {
      rc = look(&socket->conn, want, err);
      if (rc == -MST_EAGAIN && !ffi_wait_on(wait, NULL, NULL)) return rc;
    }
  }
}

static SEXP take_raw(struct mst_conn *conn, const struct want *want) {
  SEXP value = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)want->length));
  // Only now, since allocating the vector may have run code that received more.
  if (want->length > 0) {
    memcpy(RAW(value),
           conn->in.buf.data + conn->in.at + (want->whole - want->length),
           want->length);
  }
  mst_inbox_take(&conn->in, want->whole);
  UNPROTECT(1);
  return value;
}

// ended gives the result of a receive at a connection's end: the rest of raw bytes, or a failure
// that tells how many bytes of an incomplete message there are.
static SEXP ended(struct ffi_socket *socket, struct want *want, int rc,
                  const struct mst_err *err, const struct ffi_wait *wait) {
  const size_t there = mst_inbox_bytes(&socket->conn.in);
  if (rc == -MST_ECLOSED && err->sys_errno == 0 && want->kind == KIND_RAW) {
    want->length = want->whole = there;
    return take_raw(&socket->conn, want);
  }
  return ffi_failure_of(rc, err, wait, (double)there);
}

SEXP ffi_socket_receive(SEXP pointer, SEXP kind, SEXP n, SEXP limit,
                        SEXP timeout) {
  SEXP failure = R_NilValue;
  struct ffi_socket *socket = ffi_socket_of(pointer, FFI_CONNECTION, &failure);
  if (socket == NULL) return failure;
  const struct ffi_wait wait = ffi_wait_begin(socket, timeout);
  struct want want = {
      .kind = Rf_asInteger(kind), .n = count_of(n), .limit = count_of(limit)};
  struct mst_err err;
  mst_err_clear(&err);
  const int rc = await(socket, &want, &wait, &err);
  if (rc == -MST_ELIMIT) {
    return ffi_failure_of(rc, &err, &wait, (double)want.missing);
  }
  if (rc == -MST_EAGAIN) {
    return ffi_failure_of(rc, &err, &wait,
                          (double)mst_inbox_bytes(&socket->conn.in));
  }
  if (rc != 0) return ended(socket, &want, rc, &err, &wait);
  SEXP bytes = PROTECT(take_raw(&socket->conn, &want));
  if (want.kind != KIND_OBJECT) {
    UNPROTECT(1);
    return bytes;
  }
  // In a list, so that no object of another session can pass for one of our failures.
  SEXP value = PROTECT(Rf_allocVector(VECSXP, 1));
  SET_VECTOR_ELT(value, 0,
                 ffi_unserialize(RAW(bytes), (size_t)Rf_xlength(bytes)));
  UNPROTECT(2);
  return value;
}

// ---- lines

static SEXP next_line(struct mst_inbox *inbox, size_t length, size_t whole) {
  SEXP line = Rf_allocVector(RAWSXP, (R_xlen_t)length);
  if (length > 0) memcpy(RAW(line), inbox->buf.data + inbox->at, length);
  mst_inbox_take(inbox, whole);
  return line;
}

// take_lines takes the lines found and, at the end of the stream, the rest after the last line: a
// list of raw vectors.
static SEXP take_lines(struct mst_inbox *inbox, const struct want *want,
                       int at_end) {
  const int more = at_end && mst_inbox_bytes(inbox) > want->whole;
  SEXP list = PROTECT(Rf_allocVector(VECSXP, want->lines + more));
  for (R_xlen_t i = 0; i < want->lines; i++) {
    const uint8_t *bytes;
    size_t length, whole;
    if (mst_inbox_line(inbox, SIZE_MAX - 1, &bytes, &length, &whole, NULL)) {
      break; // only if code ran while the list was made
    }
    SET_VECTOR_ELT(list, i, next_line(inbox, length, whole));
  }
  const size_t left = mst_inbox_bytes(inbox);
  if (more) SET_VECTOR_ELT(list, want->lines, next_line(inbox, left, left));
  UNPROTECT(1);
  return list;
}

// ffi_socket_lines gives n lines as a list of raw vectors (NA: those that are here, at least one);
// fewer at the end of the stream or if the socket doesn't wait.
SEXP ffi_socket_lines(SEXP pointer, SEXP n, SEXP limit, SEXP timeout) {
  SEXP failure = R_NilValue;
  struct ffi_socket *socket = ffi_socket_of(pointer, FFI_CONNECTION, &failure);
  if (socket == NULL) return failure;
  struct mst_inbox *in = &socket->conn.in;
  const struct ffi_wait wait = ffi_wait_begin(socket, timeout);
  struct want want = {
      .kind = KIND_LINES, .n = Rf_asReal(n), .limit = count_of(limit)};
  struct mst_err err;
  mst_err_clear(&err);
  const int rc = await(socket, &want, &wait, &err);
  if (rc == 0) return take_lines(in, &want, 0);
  if (rc == -MST_EAGAIN && !wait.may_wait && want.lines > 0) {
    return take_lines(in, &want, 0);
  }
  if (rc == -MST_ECLOSED && err.sys_errno == 0) return take_lines(in, &want, 1);
  return ffi_failure_of(rc, &err, &wait, (double)mst_inbox_bytes(in));
}
