// socket: listeners and connections as R objects. Like all of ffi/, R thread only.
//
// An object is list(pointer, host, port) of class muster_listener or muster_connection. The
// pointer's record lives until R collects the pointer, closed or not, so that code which R runs
// while one of these functions waits (finalizers, handlers) can't free it. A copy from a file or
// another process has no record (NULL). A forked child recognizes its parent's records by `owner`
// and leaves them alone.
//
// A failure is returned as a list of class muster_failure; R/socket-failure.R makes the condition
// from it.
#ifndef MST_FFI_SOCKET_H
#define MST_FFI_SOCKET_H

#include <sys/stat.h>

#include "ffi/value/value.h"
#include "net/conn.h"

struct ffi_socket {
  struct ffi_closing closing;
  pid_t owner;
  int is_listener;
  int blocking;     // 0: never wait
  double timeout_s; // for operations without a timeout
  int is_open;      // not closed by its owner
  int64_t opened_ns;
  struct mst_addr local, peer;
  // of a connection
  struct mst_conn conn;
  // of a listener
  int *fds; // `count` of them, -1 once closed; owned
  size_t count;
  size_t turn;        // the listener to try first next time
  uint32_t depth_max; // longest queue seen
  int64_t looked_ns;  // when the queue was last checked
  uint64_t accepted;
  int64_t overflows,
      drops;        // counters when it was opened, -1: unknown
  struct stat path; // a unix socket's file, to remove no other
};

// The time limit of an operation: ffi_wait_begin, then slices while ffi_wait_on says so.
struct ffi_wait {
  int64_t began_ns, deadline_ns;
  int may_wait;
};

// ffi_wait_begin: timeout is in seconds, or NULL or NA for the socket's own. socket may be NULL if
// timeout is a number.
struct ffi_wait ffi_wait_begin(const struct ffi_socket *socket, SEXP timeout);
// ffi_wait_end gives the end of the present slice, until which the core may wait.
int64_t ffi_wait_end(const struct ffi_wait *wait);
// ffi_wait_on is called after -MST_EAGAIN: 1 to go on; 0 when the time is over. Checks R's
// interrupts and time limits: may leave by longjmp, after undo(data) if undo isn't NULL.
int ffi_wait_on(const struct ffi_wait *wait, void (*undo)(void *), void *data);

// ffi_failure makes the list; kind is the condition's. bytes is -1 if it has no meaning. err may be
// NULL.
SEXP ffi_failure(const char *kind, const struct mst_err *err,
                 const struct ffi_wait *wait, double bytes);
// ffi_failure_of does that for a connection's operation that returned rc: NULL if there was nothing
// and it must not wait, else a timeout, limit, memory, protocol, or closed.
SEXP ffi_failure_of(int rc, const struct mst_err *err,
                    const struct ffi_wait *wait, double bytes);

// ffi_socket_new makes a pointer with a new record; the caller protects it.
SEXP ffi_socket_new(int is_listener, int blocking, double timeout_s,
                    struct ffi_socket **out);
// ffi_socket_object makes the R object. host may be NULL: that of the address.
SEXP ffi_socket_object(SEXP pointer, const char *host,
                       const struct mst_addr *addr);
// ffi_socket_of gives the record of an open socket of this process, from its pointer or its object.
// NULL and *failure if there is none, or it is of another kind.
enum ffi_socket_kind { FFI_ANY, FFI_LISTENER, FFI_CONNECTION };
struct ffi_socket *ffi_socket_of(SEXP pointer, enum ffi_socket_kind kind,
                                 SEXP *failure);

// ---- entry points

SEXP ffi_socket_listen(SEXP host, SEXP port, SEXP backlog, SEXP handlers,
                       SEXP timeout);
SEXP ffi_socket_accept(SEXP pointer, SEXP timeout, SEXP blocking);
SEXP ffi_socket_connect(SEXP host, SEXP port, SEXP timeout, SEXP blocking);
SEXP ffi_socket_send(SEXP pointer, SEXP bytes, SEXP kind, SEXP timeout);
SEXP ffi_socket_receive(SEXP pointer, SEXP kind, SEXP n, SEXP limit,
                        SEXP timeout);
SEXP ffi_socket_lines(SEXP pointer, SEXP n, SEXP limit, SEXP timeout);
SEXP ffi_socket_select(SEXP pointers, SEXP write, SEXP timeout);
SEXP ffi_socket_timeout(SEXP pointer, SEXP timeout);
SEXP ffi_socket_close(SEXP pointer);
SEXP ffi_socket_status(SEXP pointer);
SEXP ffi_socket_is_open(SEXP pointer);

#define FFI_SOCKET_ENTRIES                                                     \
  ENTRY(ffi_socket_listen, 5), ENTRY(ffi_socket_accept, 3),                    \
      ENTRY(ffi_socket_connect, 4), ENTRY(ffi_socket_send, 4),                 \
      ENTRY(ffi_socket_receive, 5), ENTRY(ffi_socket_lines, 4),                \
      ENTRY(ffi_socket_select, 3), ENTRY(ffi_socket_timeout, 2),               \
      ENTRY(ffi_socket_close, 1), ENTRY(ffi_socket_status, 1),                 \
      ENTRY(ffi_socket_is_open, 1)

#endif
