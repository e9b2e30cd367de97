// The session's gates, as external pointers: where hosts that dial in are let in. As with links, a
// gate belongs to this list, not to its pointer, and ends with the session or when R code ends it.
#include <errno.h>
#include <stdlib.h>

#include "ffi/session/session.h"
#include "net/stream.h"

struct owned_gate {
  struct owned_gate *next;
  struct mst_gate *gate;
};

static struct owned_gate *gates;
static pid_t owner; // a forked child leaves its parent's gates alone

static SEXP gate_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_gate_pointer");
}

static void forget_parents(void) {
  if (owner == ffi_self()) return;
  owner = ffi_self();
  gates = NULL;
}

static void break_all(void) {
  forget_parents();
  for (; gates != NULL; gates = gates->next)
    mst_gate_break(gates->gate);
}

struct mst_gate *ffi_gate_of(SEXP pointer) {
  forget_parents();
  const struct mst_gate *gate = ffi_address_of(pointer, gate_tag());
  for (const struct owned_gate *at = gates; at != NULL; at = at->next)
    if (at->gate == gate) return at->gate;
  return NULL;
}

// listen opens a listener at the first address of a host that there is here.
static int listen_at(const char *host, int port, int *fd, int *bound_port,
                     struct mst_err *err) {
  struct mst_addr addrs[MST_ADDRS_MAX], bound;
  size_t count;
  int rc = mst_addr_lookup(host, port, addrs, MST_ADDRS_MAX, &count, err);
  for (size_t i = 0; rc == 0 && i < count; i++) {
    rc = mst_net_listen(&addrs[i], MST_BACKLOG_MOST, fd, 1, &bound, err);
    if (rc == 0) break;
    if (i + 1 < count) rc = 0;
  }
  if (rc == 0) *bound_port = mst_addr_port(&bound);
  return rc;
}

// open_gate listens as ffi_gate_open says.
static int open_gate(SEXP where, SEXP numbers, struct mst_gate **out, int *port,
                     struct mst_err *err) {
  int fd = -1;
  struct mst_intake_config config = {
      .listeners = &fd, .count = 1, .places = (uint32_t)REAL(numbers)[1]};
  int rc =
      mst_psk_read(Rf_translateChar(STRING_ELT(where, 1)), &config.key, err);
  if (rc == 0)
    rc = listen_at(Rf_translateCharUTF8(STRING_ELT(where, 0)),
                   (int)REAL(numbers)[0], &fd, port, err);
  if (rc == 0) {
    mst_net_raise(&fd);
    rc = mst_gate_open(&config, ffi_session()->prints, ffi_ns(REAL(numbers)[2]),
                       out, err);
    if (rc != 0) mst_net_close(&fd);
  }
  mst_psk_wipe(&config.key);
  return rc;
}

// ffi_gate_open lets hosts in that prove a key. where: c(the address to listen at, the path of the
// key). numbers: c(port, 0 for any; how many hosts are expected; for how long one may greet, in
// seconds). list(pointer, port), or why not.
SEXP ffi_gate_open(SEXP where, SEXP numbers) {
  static const char *const names[] = {"pointer", "port"};
  static int follows; // here or in the parent
  struct mst_err err;
  int port = 0;
  mst_err_clear(&err);
  (void)ffi_session();
  forget_parents();
  if (!follows) ffi_on_give_up(break_all);
  follows = 1;
  SEXP list = PROTECT(ffi_list(2, names));
  SEXP pointer = R_MakeExternalPtr(NULL, gate_tag(), R_NilValue);
  SET_VECTOR_ELT(list, 0, pointer);
  SET_VECTOR_ELT(list, 1, Rf_allocVector(INTSXP, 1));
  struct owned_gate *owned = calloc(1, sizeof *owned);
  if (owned == NULL) Rf_error("no memory to listen");
  const int rc = open_gate(where, numbers, &owned->gate, &port, &err);
  if (rc != 0) {
    free(owned);
    UNPROTECT(1);
    return ffi_error_list(&err);
  }
  owned->next = gates;
  gates = owned;
  R_SetExternalPtrAddr(pointer, owned->gate);
  INTEGER(VECTOR_ELT(list, 1))[0] = port;
  UNPROTECT(1);
  return list;
}

// ffi_key_check tells whether a key file can be used here, which is made if there is none: TRUE, or
// why not.
SEXP ffi_key_check(SEXP path) {
  struct mst_err err;
  struct mst_psk key;
  const char *file = Rf_translateChar(STRING_ELT(path, 0));
  mst_err_clear(&err);
  int rc = mst_secure_must(&err);
  if (rc == 0) rc = mst_psk_make(file, &err);
  if (rc == -MST_ESYS && err.sys_errno == EEXIST) rc = 0;
  if (rc == 0) rc = mst_psk_read(file, &key, &err);
  mst_psk_wipe(&key);
  return rc == 0 ? Rf_ScalarLogical(1) : ffi_error_list(&err);
}

static void end(struct owned_gate **at) {
  struct owned_gate *gone = *at;
  *at = gone->next;
  mst_gate_close(gone->gate);
  free(gone);
}

// ffi_gate_end stops listening. Hosts that have come stay.
SEXP ffi_gate_end(SEXP pointer) {
  const struct mst_gate *gate = ffi_gate_of(pointer);
  for (struct owned_gate **at = &gates; gate != NULL && *at != NULL;) {
    if ((*at)->gate == gate) {
      end(at);
      break;
    }
    at = &(*at)->next;
  }
  R_ClearExternalPtr(pointer);
  return R_NilValue;
}

void ffi_gates_end(void) {
  forget_parents();
  while (gates != NULL)
    end(&gates);
}

void ffi_gates_abandon(const struct mst_remote *remote) {
  forget_parents();
  for (struct owned_gate **at = &gates; *at != NULL;) {
    if (mst_gate_knows((*at)->gate, remote)) {
      end(at);
    } else {
      at = &(*at)->next;
    }
  }
}

void ffi_gates_forget(const struct mst_remote *remote) {
  forget_parents();
  for (const struct owned_gate *at = gates; at != NULL; at = at->next)
    mst_gate_forget(at->gate, remote);
}
