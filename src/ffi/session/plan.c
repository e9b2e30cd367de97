// The plan of a cluster's shuffles as an external pointer: events from R code in, actions out. R
// code numbers stages, tasks and workers from 1, the plan from 0.
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "ffi/session/session.h"
#include "shuffle/plan.h"

static SEXP plan_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_plan");
}

static void finalize(SEXP pointer) {
  struct mst_plan *plan = R_ExternalPtrAddr(pointer);
  if (plan == NULL) return;
  R_ClearExternalPtr(pointer);
  mst_plan_free(plan);
  free(plan);
}

static struct mst_plan *plan_of(SEXP pointer) {
  struct mst_plan *plan = ffi_address_of(pointer, plan_tag());
  if (plan == NULL) Rf_error("a plan of another process");
  return plan;
}

static uint32_t number_of(SEXP x) {
  const int number = Rf_asInteger(x);
  return number == NA_INTEGER || number < 1 ? MST_PLAN_NONE
                                            : (uint32_t)number - 1;
}

// stage_of gives the index of an existing stage.
static uint32_t stage_of(const struct mst_plan *plan, SEXP x) {
  const uint32_t stage = number_of(x);
  if (stage >= plan->stage_count ||
      mst_plan_stage(plan, stage)->tasks == NULL) {
    Rf_error("the plan has no such stage");
  }
  return stage;
}

SEXP ffi_plan_new(SEXP workers) {
  SEXP pointer = PROTECT(ffi_own(plan_tag(), R_NilValue, finalize, 0));
  struct mst_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL ||
      mst_plan_init(plan, (uint32_t)Rf_asInteger(workers)) != 0) {
    free(plan);
    Rf_error("no memory for a plan");
  }
  R_SetExternalPtrAddr(pointer, plan);
  UNPROTECT(1);
  return pointer;
}

// ffi_plan_add gives the number of a new stage. near, far[2]: stages, or NA.
SEXP ffi_plan_add(SEXP pointer, SEXP count, SEXP near, SEXP far,
                  SEXP speculate) {
  struct mst_plan *plan = plan_of(pointer);
  uint32_t inputs[2], stage = 0;
  for (int i = 0; i < 2; i++) {
    const int one = INTEGER(far)[i];
    inputs[i] = one == NA_INTEGER ? MST_PLAN_NONE : (uint32_t)one - 1;
  }
  const int rc =
      mst_plan_add(plan, (uint32_t)Rf_asInteger(count), number_of(near), inputs,
                   Rf_asLogical(speculate) == 1, &stage);
  if (rc != 0) Rf_error("the plan can't have such a stage (%d)", -rc);
  return Rf_ScalarInteger((int)stage + 1);
}

// ffi_plan_order says in which order (tasks, from 1) a stage's tasks are started.
SEXP ffi_plan_order(SEXP pointer, SEXP stage, SEXP order) {
  struct mst_plan *plan = plan_of(pointer);
  const uint32_t n = (uint32_t)Rf_xlength(order);
  uint32_t *tasks = (uint32_t *)R_alloc((size_t)n + 1, sizeof *tasks);
  for (uint32_t i = 0; i < n; i++)
    tasks[i] = (uint32_t)INTEGER(order)[i] - 1;
  const int rc = mst_plan_order(plan, stage_of(plan, stage), tasks, n);
  if (rc != 0) Rf_error("tasks can't be in such an order (%d)", -rc);
  return R_NilValue;
}

SEXP ffi_plan_want(SEXP pointer, SEXP stage) {
  struct mst_plan *plan = plan_of(pointer);
  mst_plan_want(plan, stage_of(plan, stage));
  return R_NilValue;
}

SEXP ffi_plan_unwant(SEXP pointer) {
  mst_plan_unwant(plan_of(pointer));
  return R_NilValue;
}

SEXP ffi_plan_forget(SEXP pointer, SEXP stage) {
  struct mst_plan *plan = plan_of(pointer);
  mst_plan_forget(plan, stage_of(plan, stage));
  return R_NilValue;
}

SEXP ffi_plan_retire(SEXP pointer, SEXP stage) {
  struct mst_plan *plan = plan_of(pointer);
  mst_plan_retire(plan, stage_of(plan, stage));
  return R_NilValue;
}

// ffi_plan_see reports the workers' states, in the form of ffi_cluster_workers.
SEXP ffi_plan_see(SEXP pointer, SEXP workers) {
  struct mst_plan *plan = plan_of(pointer);
  const uint32_t n = (uint32_t)(Rf_xlength(workers) / 2);
  if (mst_plan_workers(plan, n) != 0) Rf_error("no memory for a plan");
  for (uint32_t i = 0; i < n; i++) {
    const int state = INTEGER(workers)[n + i];
    const struct mst_plan_worker *at = &plan->workers[i];
    if (state == FFI_IS_UP) {
      mst_plan_up(plan, i, (uint32_t)INTEGER(workers)[i]);
    } else if (at->up || (state == FFI_IS_GONE) != at->gone) {
      mst_plan_down(plan, i, state == FFI_IS_GONE);
    }
  }
  return R_NilValue;
}

// An attempt as R code names it: stage, task, attempt, and what else the event has, as integers.
struct attempt {
  uint32_t stage, task, attempt;
  const int *more;
};

static struct attempt attempt_of(SEXP numbers, R_xlen_t n) {
  if (TYPEOF(numbers) != INTSXP || Rf_xlength(numbers) != n) {
    Rf_error("an event of a plan has %d numbers", (int)n);
  }
  const int *at = INTEGER(numbers);
  return (struct attempt){.stage = (uint32_t)at[0] - 1,
                          .task = (uint32_t)at[1] - 1,
                          .attempt = (uint32_t)at[2],
                          .more = at + 3};
}

// ffi_plan_done: c(stage, task, attempt, epoch). Gives an enum mst_plan_told.
SEXP ffi_plan_done(SEXP pointer, SEXP numbers) {
  struct mst_plan *plan = plan_of(pointer);
  const struct attempt at = attempt_of(numbers, 4);
  const enum mst_plan_told told =
      mst_plan_done(plan, at.stage, at.task, at.attempt, (uint32_t)at.more[0],
                    mst_clock_now());
  return Rf_ScalarInteger((int)told);
}

// ffi_plan_note: c(stage, task, 0, worker, or 0: whatever its share). Gives the number of an
// attempt, 0 if it isn't to stay.
SEXP ffi_plan_note(SEXP pointer, SEXP numbers) {
  struct mst_plan *plan = plan_of(pointer);
  const struct attempt at = attempt_of(numbers, 4);
  return Rf_ScalarInteger(
      (int)mst_plan_note(plan, at.stage, at.task, (uint32_t)at.more[0] - 1));
}

// ffi_plan_found: c(stage, task, attempt, worker, epoch). Gives an enum mst_plan_told.
SEXP ffi_plan_found(SEXP pointer, SEXP numbers) {
  struct mst_plan *plan = plan_of(pointer);
  const struct attempt at = attempt_of(numbers, 5);
  return Rf_ScalarInteger(
      (int)mst_plan_found(plan, at.stage, at.task, at.attempt,
                          (uint32_t)at.more[0] - 1, (uint32_t)at.more[1]));
}

// ffi_plan_ended: c(stage, task, attempt).
SEXP ffi_plan_ended(SEXP pointer, SEXP numbers) {
  struct mst_plan *plan = plan_of(pointer);
  const struct attempt at = attempt_of(numbers, 3);
  mst_plan_ended(plan, at.stage, at.task, at.attempt);
  return R_NilValue;
}

// ffi_plan_missed: c(stage, task, attempt), and the same three of the missing input.
SEXP ffi_plan_missed(SEXP pointer, SEXP numbers) {
  struct mst_plan *plan = plan_of(pointer);
  const struct attempt at = attempt_of(numbers, 6);
  mst_plan_missed(plan, at.stage, at.task, at.attempt, (uint32_t)at.more[0] - 1,
                  (uint32_t)at.more[1] - 1, (uint32_t)at.more[2]);
  return R_NilValue;
}

// ffi_plan_next gives c(kind, stage, task, attempt, worker, epoch), NULL if there is nothing to do
// now. kind: enum mst_plan_do.
SEXP ffi_plan_next(SEXP pointer) {
  struct mst_plan_action action;
  if (!mst_plan_next(plan_of(pointer), mst_clock_now(), &action)) {
    return R_NilValue;
  }
  SEXP result = Rf_allocVector(INTSXP, 6);
  int *to = INTEGER(result);
  to[0] = (int)action.kind;
  to[1] = (int)action.stage + 1;
  to[2] = (int)action.task + 1;
  to[3] = (int)action.attempt;
  to[4] = (int)action.worker + 1;
  to[5] = (int)action.epoch;
  return result;
}

// ffi_plan_base gives c(stage, 1 if the worker has that stage's output).
SEXP ffi_plan_base(SEXP pointer, SEXP stage, SEXP task, SEXP worker) {
  const struct mst_plan *plan = plan_of(pointer);
  uint32_t base;
  const int has = mst_plan_base(plan, stage_of(plan, stage), number_of(task),
                                number_of(worker), &base);
  SEXP result = Rf_allocVector(INTSXP, 2);
  INTEGER(result)[0] = (int)base + 1;
  INTEGER(result)[1] = has;
  return result;
}

// ffi_plan_where gives a matrix with a row for each task: attempt (0: no output), worker,
// epoch.
SEXP ffi_plan_where(SEXP pointer, SEXP stage) {
  const struct mst_plan *plan = plan_of(pointer);
  const uint32_t count = mst_plan_stage(plan, stage_of(plan, stage))->count;
  SEXP matrix = PROTECT(Rf_allocMatrix(INTSXP, (int)count, 3));
  int *to = INTEGER(matrix);
  // Look it up again: finalizers of handles retire stages.
  const struct mst_plan_stage *at = mst_plan_stage(plan, stage_of(plan, stage));
  for (uint32_t t = 0; t < at->count; t++) {
    const struct mst_plan_task *task = &at->tasks[t];
    const int there = task->state == MST_PLAN_DONE;
    to[t] = there ? (int)task->attempt : 0;
    to[at->count + t] = there ? (int)task->worker + 1 : NA_INTEGER;
    to[2 * at->count + t] = there ? (int)task->epoch : NA_INTEGER;
  }
  UNPROTECT(1);
  return matrix;
}

SEXP ffi_plan_counts(SEXP pointer) {
  static const char *const names[] = {"attempts", "committed",  "late", "lost",
                                      "missed",   "speculated", "won"};
  const struct mst_plan *plan = plan_of(pointer);
  const uint64_t counts[] = {plan->attempts, plan->committed, plan->late,
                             plan->lost,     plan->missed,    plan->speculated,
                             plan->won};
  SEXP list = PROTECT(ffi_list(7, names));
  for (int i = 0; i < 7; i++)
    SET_VECTOR_ELT(list, i, Rf_ScalarReal((double)counts[i]));
  UNPROTECT(1);
  return list;
}

// ffi_cluster_workers gives a matrix with a row for each worker of the cluster: epoch, and an enum
// ffi_is. Or an outcome.
SEXP ffi_cluster_workers(SEXP nodes) {
  enum ffi_outcome outcome;
  const struct mst_peer *first = ffi_peer_of(VECTOR_ELT(nodes, 0), &outcome);
  if (first == NULL) return Rf_ScalarInteger((int)outcome);
  struct mst_cluster *cluster = first->cluster;
  const uint32_t n = cluster->calls.pool.count;
  SEXP matrix = PROTECT(Rf_allocMatrix(INTSXP, (int)n, 2));
  for (uint32_t i = 0; i < n; i++) {
    const struct mst_peer *peer = cluster->peers[i];
    const struct mst_look look = mst_peer_look(peer, mst_clock_now());
    INTEGER(matrix)[i] = (int)look.epoch;
    INTEGER(matrix)
    [n + i] = look.up                  ? FFI_IS_UP
              : look.dead || look.ends ? FFI_IS_GONE
                                       : FFI_IS_AWAY;
  }
  UNPROTECT(1);
  return matrix;
}

// ffi_cluster_wait serves the session for a moment, when there are only workers to wait for that
// are coming back.
SEXP ffi_cluster_wait(void) {
  struct mst_session *session = ffi_session_or_null();
  if (session != NULL) ffi_wait_slice(session, FFI_SLICE_MS);
  return R_NilValue;
}

static int share_host(const struct mst_group *one,
                      const struct mst_group *other) {
  if (one == other) return 1; // they come back together
  return !mst_site_waits(one->site) && !mst_site_waits(other->site) &&
         one->launcher->host == other->launcher->host;
}

// ffi_nodes_share_host tells whether nodes that are in use have workers on one host. Groups are
// compared: a worker that was lost with its link refers to the former one.
SEXP ffi_nodes_share_host(SEXP nodes) {
  enum ffi_outcome outcome;
  const struct mst_group *first = NULL;
  for (R_xlen_t i = 0; i < Rf_xlength(nodes); i++) {
    const struct mst_peer *peer = ffi_peer_of(VECTOR_ELT(nodes, i), &outcome);
    if (peer == NULL) continue;
    if (first == NULL) first = peer->group;
    if (!share_host(first, peer->group)) return Rf_ScalarLogical(0);
  }
  return Rf_ScalarLogical(1);
}
