// Targets and names of discover().
#include "ffi/discover/discover.h"

#include <stdlib.h>
#include <string.h>

#include "net/addr.h"

static int parse(SEXP text, int edges, struct mst_range *range,
                 struct mst_err *err) {
  const char *chars = CHAR(text);
  mst_err_clear(err);
  return mst_target_parse(chars, strlen(chars), edges, range, err);
}

SEXP ffi_targets_kind(SEXP targets, SEXP edges) {
  static const char *const names[] = {"kind", "why"};
  const R_xlen_t n = Rf_xlength(targets);
  SEXP value = PROTECT(ffi_list(2, names));
  SEXP kind = SET_VECTOR_ELT(value, 0, Rf_allocVector(INTSXP, n));
  SEXP why = SET_VECTOR_ELT(value, 1, Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    struct mst_range range;
    struct mst_err err;
    const int rc =
        parse(STRING_ELT(targets, i), Rf_asLogical(edges), &range, &err);
    INTEGER(kind)
    [i] = rc == MST_TARGET_RANGE  ? FFI_TARGET_RANGE
          : rc == MST_TARGET_NAME ? FFI_TARGET_NAME
          : rc == -MST_ELIMIT     ? FFI_TARGET_LARGE
                                  : FFI_TARGET_BAD;
    SET_STRING_ELT(why, i, Rf_mkChar(err.text));
  }
  UNPROTECT(1);
  return value;
}

static struct mst_range *read_ranges(SEXP targets, int edges, size_t *count) {
  const R_xlen_t n = Rf_xlength(targets);
  struct mst_range *ranges =
      (struct mst_range *)(void *)R_alloc((size_t)n + 1, sizeof *ranges);
  for (R_xlen_t i = 0; i < n; i++) {
    struct mst_err err;
    if (parse(STRING_ELT(targets, i), edges, &ranges[i], &err) != 0) {
      Rf_error("not an address: %s", CHAR(STRING_ELT(targets, i)));
    }
  }
  *count = mst_ranges_tidy(ranges, (size_t)n);
  return ranges;
}

struct mst_range *ffi_ranges_of(SEXP targets, SEXP exclude, SEXP edges,
                                size_t *count) {
  size_t n, without_n;
  struct mst_range *ranges = read_ranges(targets, Rf_asLogical(edges), &n);
  struct mst_range *without = read_ranges(exclude, 1, &without_n);
  struct mst_range *rest =
      (struct mst_range *)(void *)R_alloc(n + without_n + 1, sizeof *rest);
  *count = mst_ranges_less(ranges, n, without, without_n, rest);
  return rest;
}

SEXP ffi_targets_sum(SEXP targets, SEXP exclude, SEXP edges) {
  static const char *const names[] = {"total", "public"};
  size_t n;
  const struct mst_range *ranges = ffi_ranges_of(targets, exclude, edges, &n);
  SEXP value = PROTECT(ffi_list(2, names));
  SET_VECTOR_ELT(value, 0, Rf_ScalarReal((double)mst_ranges_total(ranges, n)));
  SEXP public = SET_VECTOR_ELT(value, 1, Rf_ScalarString(NA_STRING));
  for (size_t i = 0; i < n; i++) {
    struct mst_ip ip;
    char text[MST_IP_TEXT_MAX];
    if (!mst_range_public(&ranges[i], &ip)) continue;
    mst_ip_format(&ip, text);
    SET_STRING_ELT(public, 0, Rf_mkChar(text));
    break;
  }
  UNPROTECT(1);
  return value;
}

SEXP ffi_name_lookup(SEXP name) {
  struct mst_addr addrs[MST_ADDRS_MAX];
  size_t n = 0;
  struct mst_err err;
  mst_err_clear(&err);
  if (mst_addr_lookup(CHAR(STRING_ELT(name, 0)), 0, addrs, MST_ADDRS_MAX, &n,
                      &err) != 0) {
    return ffi_error_list(&err);
  }
  SEXP value = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)n));
  for (size_t i = 0; i < n; i++) {
    char text[MST_ADDR_TEXT_MAX];
    SET_STRING_ELT(value, (R_xlen_t)i,
                   Rf_mkChar(mst_addr_host(&addrs[i], text)));
  }
  UNPROTECT(1);
  return value;
}

SEXP ffi_address_name(SEXP addresses) {
  const R_xlen_t n = Rf_xlength(addresses);
  SEXP value = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    const char *text = CHAR(STRING_ELT(addresses, i));
    struct mst_ip ip;
    char name[MST_NAME_MAX];
    ffi_check_interrupt(NULL, NULL);
    const int known = mst_ip_parse(text, strlen(text), &ip) == 0 &&
                      mst_ip_name(&ip, name) == 0;
    SET_STRING_ELT(value, i, known ? Rf_mkChar(name) : NA_STRING);
  }
  UNPROTECT(1);
  return value;
}

SEXP ffi_has_tls(void) { return Rf_ScalarLogical(mst_tls_has()); }

SEXP ffi_errno_text(SEXP number) {
  return Rf_mkString(strerror(Rf_asInteger(number)));
}
