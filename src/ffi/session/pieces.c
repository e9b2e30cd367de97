// The pieces of a map as an external pointer: results of tasks in, actions out. R code numbers
// elements, workers and pieces from 1, sched/pieces.h from 0.
#include <stdlib.h>

#include "base/mst_clock.h"
#include "ffi/session/session.h"
#include "sched/pieces.h"

static SEXP pieces_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_pieces_pointer");
}

static void end_pieces(SEXP pointer) {
  struct mst_pieces *pieces = R_ExternalPtrAddr(pointer);
  if (pieces == NULL) return;
  R_ClearExternalPtr(pointer);
  mst_pieces_free(pieces);
  free(pieces);
}

static struct mst_pieces *pieces_of(SEXP pointer) {
  struct mst_pieces *pieces = ffi_address_of(pointer, pieces_tag());
  if (pieces == NULL) Rf_error("not the pieces of a map of this session");
  return pieces;
}

static uint32_t piece_of(const struct mst_pieces *pieces, SEXP piece) {
  const int number = Rf_asInteger(piece);
  if (number < 1 || (uint32_t)number > pieces->capacity ||
      !pieces->pieces[number - 1].runs) {
    Rf_error("a map has no piece %d", number);
  }
  return (uint32_t)number - 1;
}

static SEXP new_pieces(const struct mst_pieces_terms *terms) {
  SEXP pointer = PROTECT(ffi_own(pieces_tag(), R_NilValue, end_pieces, 0));
  struct mst_pieces *pieces = malloc(sizeof *pieces);
  if (pieces == NULL) Rf_error("no memory for a map");
  mst_pieces_init(pieces, terms);
  R_SetExternalPtrAddr(pointer, pieces);
  UNPROTECT(1);
  return pointer;
}

// ffi_map_begin makes the content a job of the nodes' cluster, as ffi_job_hold, and its elements
// pieces: list(the job's pointer, its number, the pieces, the first action of ffi_pieces_next), or
// an outcome. numbers: c(elements, workers, retries or NA for the cluster's, speculate, timeout in
// seconds, ahead, the number of the last map's job, seconds of each of its elements). One entry:
// crossing from R to C and back costs more than what is done here.
SEXP ffi_map_begin(SEXP nodes, SEXP content, SEXP numbers) {
  SEXP held = PROTECT(ffi_job_hold(nodes, content));
  if (TYPEOF(held) != VECSXP) {
    UNPROTECT(1);
    return held;
  }
  const double *at = REAL(numbers);
  const int own = !ISNAN(at[2]);
  const int same = REAL(VECTOR_ELT(held, 1))[0] == at[6];
  const struct mst_pieces_terms terms = {
      .count = (uint64_t)at[0],
      .workers = (uint32_t)at[1],
      .retries =
          own ? (uint32_t)at[2] : (uint32_t)Rf_asInteger(VECTOR_ELT(held, 2)),
      .heals = Rf_asLogical(VECTOR_ELT(held, 3)) == 1,
      .speculate = at[3] != 0,
      .timeout_s = at[4],
      .ahead = at[5] != 0,
      .each_s = same ? at[7] : 0};
  SET_VECTOR_ELT(held, 2, new_pieces(&terms));
  SET_VECTOR_ELT(held, 3, ffi_pieces_next(VECTOR_ELT(held, 2)));
  UNPROTECT(1);
  return held;
}

// ffi_pieces_next gives c(kind, piece, first, last, tries, worker, alone, budget in seconds), NULL
// if there is nothing to do now. kind: enum mst_piece_do. worker: the only one allowed, or NA.
// alone: 0 or 1.
SEXP ffi_pieces_next(SEXP pointer) {
  struct mst_piece_action action;
  SEXP next = PROTECT(Rf_allocVector(REALSXP, 8));
  const int rc = mst_pieces_next(pieces_of(pointer), mst_clock_now(), &action);
  if (rc < 0) Rf_error("no memory for a map");
  UNPROTECT(1);
  if (rc == 0) return R_NilValue;
  REAL(next)[0] = (double)action.kind;
  REAL(next)[1] = (double)action.piece + 1;
  REAL(next)[2] = (double)action.first + 1;
  REAL(next)[3] = (double)action.last + 1;
  REAL(next)[4] = (double)action.tries;
  REAL(next)
  [5] = action.worker == MST_PIECE_NONE ? NA_REAL : (double)action.worker + 1;
  REAL(next)[6] = (double)action.alone;
  REAL(next)[7] = action.budget_s;
  return next;
}

// ffi_piece_submit submits a piece of a map, muster:::map_piece(args): list(task, the next action
// of ffi_pieces_next), or an outcome. needs, limits, label: as for ffi_task_submit.
SEXP ffi_piece_submit(SEXP nodes, SEXP args, SEXP needs, SEXP limits,
                      SEXP label, SEXP pointer) {
  SEXP fun = PROTECT(Rf_mkString("muster:::map_piece"));
  SEXP task = PROTECT(ffi_task_submit(nodes, fun, args, needs, limits, label));
  SEXP list = task;
  if (TYPEOF(task) == EXTPTRSXP) {
    list = Rf_allocVector(VECSXP, 2);
    PROTECT(list);
    SET_VECTOR_ELT(list, 0, task);
    SET_VECTOR_ELT(list, 1, ffi_pieces_next(pointer));
    UNPROTECT(1);
  }
  UNPROTECT(2);
  return list;
}

// ffi_pieces_at reports which workers have which pieces, NA: none yet.
SEXP ffi_pieces_at(SEXP pointer, SEXP numbers, SEXP workers) {
  struct mst_pieces *pieces = pieces_of(pointer);
  for (R_xlen_t i = 0; i < Rf_xlength(numbers); i++) {
    const int at = INTEGER(workers)[i];
    const uint32_t piece = (uint32_t)INTEGER(numbers)[i] - 1;
    if (piece >= pieces->capacity || !pieces->pieces[piece].runs) continue;
    mst_pieces_at(pieces, piece,
                  at == NA_INTEGER || at < 1 ? MST_PIECE_NONE
                                             : (uint32_t)at - 1);
  }
  return R_NilValue;
}

SEXP ffi_pieces_over(SEXP pointer, SEXP piece) {
  const uint32_t number = (uint32_t)Rf_asInteger(piece) - 1;
  return Rf_ScalarLogical(mst_pieces_over(pieces_of(pointer), number));
}

SEXP ffi_pieces_ended(SEXP pointer, SEXP piece) {
  struct mst_pieces *pieces = pieces_of(pointer);
  mst_pieces_ended(pieces, piece_of(pieces, piece));
  return R_NilValue;
}

SEXP ffi_pieces_each(SEXP pointer) {
  return Rf_ScalarReal(mst_pieces_each(pieces_of(pointer)));
}

SEXP ffi_pieces_stop(SEXP pointer, SEXP at) {
  mst_pieces_stop(pieces_of(pointer), (uint64_t)Rf_asReal(at) - 1);
  return R_NilValue;
}

// ffi_pieces_done: about is c(elements that have values, seconds for them, before them). Gives an
// enum mst_piece_end.
SEXP ffi_pieces_done(SEXP pointer, SEXP piece, SEXP about) {
  struct mst_pieces *pieces = pieces_of(pointer);
  const uint32_t number = piece_of(pieces, piece);
  const struct mst_piece *at = &pieces->pieces[number];
  const double count = REAL(about)[0];
  if (!(count >= 1 && count <= (double)(at->last - at->first + 1)))
    Rf_error("a piece can't have %g values", count);
  const enum mst_piece_end end = mst_pieces_done(
      pieces, number, (uint64_t)count, REAL(about)[1], REAL(about)[2]);
  return Rf_ScalarInteger((int)end);
}

// ffi_pieces_lost: about is c(loss, attempts, alone), with an enum mst_piece_loss. Gives an enum
// mst_piece_end, and the total number of losses of its elements.
SEXP ffi_pieces_lost(SEXP pointer, SEXP piece, SEXP about) {
  struct mst_pieces *pieces = pieces_of(pointer);
  const int *at = INTEGER(about);
  if (at[0] < 0 || at[0] > (int)MST_PIECE_LATE) {
    Rf_error("a piece isn't lost in the way %d", at[0]);
  }
  SEXP result = Rf_allocVector(INTSXP, 2);
  uint32_t total;
  const enum mst_piece_end end = mst_pieces_lost(
      pieces, piece_of(pieces, piece), (enum mst_piece_loss)at[0],
      (uint32_t)at[1], at[2] != 0, &total);
  INTEGER(result)[0] = (int)end;
  INTEGER(result)[1] = (int)total;
  return result;
}
