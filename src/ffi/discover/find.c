// Scans of discover(), between R and src/discover.
//
// An external pointer owns the scan, so that the findings survive whatever ends R's code early (an
// interrupt, a time limit, an error of the user's function).
#include "ffi/discover/discover.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "ffi/socket/socket.h"
#include "net/net.h"

struct scan_box {
  struct mst_scan *scan;
  pid_t owner;
};

static SEXP scan_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_scan_pointer");
}

// In a forked child the sockets are copies and the loop is shared: don't touch either.
static void free_box(SEXP pointer) {
  struct scan_box *box = R_ExternalPtrAddr(pointer);
  if (box == NULL) return;
  if (box->owner == ffi_self()) mst_scan_close(box->scan);
  free(box);
  R_ClearExternalPtr(pointer);
}

struct mst_scan *ffi_scan_of(SEXP pointer) {
  struct scan_box *box = ffi_address_of(pointer, scan_tag());
  if (box == NULL || box->owner != ffi_self()) {
    Rf_error("this scan is closed, or another process's");
  }
  return box->scan;
}

SEXP ffi_scan_close(SEXP scan) {
  if (ffi_address_of(scan, scan_tag()) != NULL) free_box(scan);
  return R_NilValue;
}

static uint16_t *ports_of(SEXP ports) {
  const R_xlen_t n = Rf_xlength(ports);
  uint16_t *list = (uint16_t *)(void *)R_alloc((size_t)n, sizeof *list);
  for (R_xlen_t i = 0; i < n; i++)
    list[i] = (uint16_t)INTEGER(ports)[i];
  return list;
}

SEXP ffi_scan_open(SEXP targets, SEXP exclude, SEXP edges, SEXP ports,
                   SEXP policy, SEXP service) {
  struct mst_scan_options options = {
      .ports = ports_of(ports),
      .port_count = (uint32_t)Rf_xlength(ports),
      .in_flight = (uint32_t)REAL(policy)[0],
      .attempts = (uint32_t)REAL(policy)[1],
      .timeout_ns = ffi_ns(REAL(policy)[2]),
      .gap_ns = ffi_ns(REAL(policy)[3]),
      .service = (enum mst_service)Rf_asInteger(service)};
  options.ranges = ffi_ranges_of(targets, exclude, edges, &options.range_count);
  SEXP pointer = PROTECT(ffi_own(scan_tag(), R_NilValue, free_box, 0));
  struct scan_box *box = calloc(1, sizeof *box);
  if (box == NULL) Rf_error("no memory for a scan");
  R_SetExternalPtrAddr(pointer, box);
  box->owner = ffi_self();
  struct mst_err err;
  mst_err_clear(&err);
  if (mst_scan_open(&options, &box->scan, &err) != 0) {
    UNPROTECT(1);
    return ffi_error_list(&err);
  }
  UNPROTECT(1);
  return pointer;
}

SEXP ffi_scan_run(SEXP scan_pointer, SEXP seconds) {
  struct mst_scan *scan = ffi_scan_of(scan_pointer);
  const int64_t end_ns = ffi_deadline(seconds);
  for (;;) {
    struct mst_err err;
    mst_err_clear(&err);
    const int64_t now_ns = mst_clock_now();
    const int64_t slice_ns = now_ns + FFI_SLICE_MS * MST_NS_PER_MS;
    const int rc =
        mst_scan_run(scan, slice_ns < end_ns ? slice_ns : end_ns, &err);
    if (rc == 0) return Rf_mkString("done");
    if (rc == 1) return Rf_mkString("ask");
    if (rc != -MST_EAGAIN) return ffi_error_list(&err);
    ffi_check_interrupt(NULL, NULL);
    if (mst_clock_now() >= end_ns) return Rf_mkString("more");
  }
}

SEXP ffi_scan_state(SEXP scan_pointer) {
  const struct mst_scan *scan = ffi_scan_of(scan_pointer);
  SEXP value = Rf_allocVector(REALSXP, 4);
  REAL(value)[0] = (double)mst_scan_probes(scan);
  REAL(value)[1] = (double)mst_scan_decided(scan);
  REAL(value)[2] = (double)mst_scan_count(scan, MST_FOUND_OPEN);
  REAL(value)[3] = (double)mst_scan_in_flight_max(scan);
  return value;
}

static SEXP ip_text(const struct mst_ip *ip) {
  char text[MST_IP_TEXT_MAX];
  mst_ip_format(ip, text);
  return Rf_mkChar(text);
}

SEXP ffi_scan_asked(SEXP scan_pointer) {
  static const char *const names[] = {"socket", "address", "port", "seconds"};
  struct mst_scan *scan = ffi_scan_of(scan_pointer);
  const struct mst_scan_ask ask = mst_scan_asked(scan);
  const double left_s = (double)(ask.deadline_ns - mst_clock_now()) / 1e9;
  const double seconds = left_s > 0.001 ? left_s : 0.001;
  struct ffi_socket *socket;
  SEXP value = PROTECT(ffi_list(4, names));
  SEXP made = PROTECT(ffi_socket_new(0, 1, seconds, &socket));
  socket->conn.fd = mst_scan_take(scan);
  mst_net_raise(&socket->conn.fd);
  (void)mst_addr_peer(socket->conn.fd, &socket->peer, NULL);
  SEXP address = PROTECT(Rf_ScalarString(PROTECT(ip_text(&ask.ip))));
  SET_VECTOR_ELT(
      value, 0,
      ffi_socket_object(made, CHAR(STRING_ELT(address, 0)), &socket->peer));
  SET_VECTOR_ELT(value, 1, address);
  SET_VECTOR_ELT(value, 2, Rf_ScalarInteger(ask.port));
  SET_VECTOR_ELT(value, 3, Rf_ScalarReal(seconds));
  UNPROTECT(4);
  return value;
}

SEXP ffi_scan_judge(SEXP scan_pointer, SEXP good) {
  struct mst_scan *scan = ffi_scan_of(scan_pointer);
  const int verdict = Rf_asLogical(good);
  mst_scan_judge(scan, verdict == 1 ? MST_PROOF_GOOD : MST_PROOF_BAD,
                 verdict == NA_LOGICAL ? MST_REASON_MUTE : MST_REASON_WRONG);
  return R_NilValue;
}

enum { ADDRESS, PORT, FOUND, RTT, ATTEMPTS, REASON, NUMBER, COLUMNS };

static void fill_row(SEXP columns, R_xlen_t row, SEXP address, int port,
                     const struct mst_finding *finding) {
  SET_STRING_ELT(VECTOR_ELT(columns, ADDRESS), row, address);
  INTEGER(VECTOR_ELT(columns, PORT))[row] = port;
  INTEGER(VECTOR_ELT(columns, FOUND))
  [row] = finding->found == MST_FOUND_NOTHING ? NA_INTEGER : finding->found;
  REAL(VECTOR_ELT(columns, RTT))
  [row] = finding->rtt_ms < 0 ? NA_REAL
                              : round((double)finding->rtt_ms * 1e3) / 1e3;
  INTEGER(VECTOR_ELT(columns, ATTEMPTS))[row] = finding->attempts;
  INTEGER(VECTOR_ELT(columns, REASON))[row] = finding->reason;
  INTEGER(VECTOR_ELT(columns, NUMBER))[row] = finding->number;
}

SEXP ffi_scan_findings(SEXP scan_pointer) {
  static const char *const names[COLUMNS] = {
      "address", "port", "found", "rtt_ms", "attempts", "reason", "number"};
  static const SEXPTYPE types[COLUMNS] = {STRSXP, INTSXP, INTSXP, REALSXP,
                                          INTSXP, INTSXP, INTSXP};
  const struct mst_scan *scan = ffi_scan_of(scan_pointer);
  const R_xlen_t n = (R_xlen_t)mst_scan_probes(scan);
  const R_xlen_t ports = (R_xlen_t)mst_scan_port_count(scan);
  SEXP columns = PROTECT(ffi_list(COLUMNS, names));
  for (int i = 0; i < COLUMNS; i++)
    SET_VECTOR_ELT(columns, i, Rf_allocVector(types[i], n));
  for (R_xlen_t at = 0; at < n / ports; at++) {
    const struct mst_ip ip = mst_scan_ip(scan, (uint64_t)at);
    SEXP address = PROTECT(ip_text(&ip));
    for (R_xlen_t k = 0; k < ports; k++) {
      const R_xlen_t row = at * ports + k;
      fill_row(columns, row, address, mst_scan_port(scan, (uint32_t)k),
               mst_scan_finding(scan, (uint64_t)row));
    }
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return columns;
}
