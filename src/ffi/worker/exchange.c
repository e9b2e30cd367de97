// How a worker's links to others are made. Runs in workers. See shuffle/exchange.h.
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "ffi/worker/worker.h"
#include "shuffle/exchange.h"

// ffi_links_set: numbers are this worker (from 1) and its epoch. limits, in seconds: after how long
// a question is repeated, and given up.
SEXP ffi_links_set(SEXP numbers, SEXP limits) {
  const int *at = INTEGER(numbers);
  const struct mst_exchange_way way = {.worker = (uint32_t)at[0] - 1,
                                       .epoch = (uint32_t)at[1],
                                       .again_ns = ffi_ns(REAL(limits)[0]),
                                       .silent_ns = ffi_ns(REAL(limits)[1])};
  mst_exchange_set(&way);
  return R_NilValue;
}

// ffi_links_know records where another worker listens: numbers are worker, epoch and its number of
// listeners. NULL, or a list as ffi_error_list.
SEXP ffi_links_know(SEXP numbers, SEXP folder, SEXP token) {
  struct mst_err err;
  const int *at = INTEGER(numbers);
  struct mst_place place = {.worker = (uint32_t)at[0] - 1,
                            .epoch = (uint32_t)at[1],
                            .handlers = (uint32_t)at[2]};
  mst_err_clear(&err);
  if (at[2] < 1 || at[2] > (int)MST_HANDLERS_MAX ||
      Rf_xlength(token) != (R_xlen_t)MST_TOKEN_BYTES) {
    Rf_error("no listeners of a worker");
  }
  memcpy(place.token, RAW(token), MST_TOKEN_BYTES);
  const char *path = Rf_translateChar(STRING_ELT(folder, 0));
  place.folder = R_alloc(strlen(path) + 1, 1);
  memcpy(place.folder, path, strlen(path) + 1);
  if (mst_exchange_knows(&place, &err) != 0) return ffi_error_list(&err);
  return R_NilValue;
}

// ffi_links_listen opens listeners in a folder until there are `count`, and gives the token that
// others need; or a list as ffi_error_list.
SEXP ffi_links_listen(SEXP folder, SEXP count) {
  struct mst_err err;
  uint8_t token[MST_TOKEN_BYTES];
  mst_err_clear(&err);
  const int rc =
      mst_exchange_listen(Rf_translateChar(STRING_ELT(folder, 0)),
                          (uint32_t)Rf_asInteger(count), token, &err);
  if (rc != 0) return ffi_error_list(&err);
  SEXP result = Rf_allocVector(RAWSXP, (R_xlen_t)sizeof token);
  memcpy(RAW(result), token, sizeof token);
  return result;
}

// ffi_links_count gives the counts of mst_exchange_count, for tests and people.
SEXP ffi_links_count(void) {
  static const char *const names[] = {
      "handlers", "links",    "opened",  "dialled", "full",
      "met",      "accepted", "refused", "again",   "asked"};
  struct mst_exchange_counts counts;
  uint32_t handlers, links;
  mst_exchange_count(&counts, &handlers, &links);
  const double numbers[] = {
      (double)handlers,        (double)links,          (double)counts.opened,
      (double)counts.dialled,  (double)counts.full,    (double)counts.met,
      (double)counts.accepted, (double)counts.refused, (double)counts.again};
  SEXP list = PROTECT(ffi_list(10, names));
  for (int i = 0; i < 9; i++)
    SET_VECTOR_ELT(list, i, Rf_ScalarReal(numbers[i]));
  SEXP asked = Rf_allocVector(REALSXP, (R_xlen_t)handlers);
  SET_VECTOR_ELT(list, 9, asked);
  for (uint32_t i = 0; i < handlers; i++)
    REAL(asked)[i] = (double)counts.asked[i];
  UNPROTECT(1);
  return list;
}
