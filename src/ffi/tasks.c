// Tasks as external pointers: submit, wait, value, cancel.
#include <stdlib.h>

#include "base/mst_clock.h"
#include "ffi/ffi.h"
#include "pool/task.h"

// Calls that wait for a worker hold their bytes in this session. Past this many of them
// submitting waits.
#define QUEUE_BYTES ((size_t)256 << 20)

static SEXP task_tag(void) {
  static SEXP tag;
  return ffi_symbol(&tag, "muster_task_pointer");
}

static void finalize_task(SEXP pointer) {
  struct mst_task *task = ffi_address_of(pointer, task_tag());
  if (task == NULL) return;
  R_ClearExternalPtr(pointer);
  mst_task_release(task);
}

static SEXP task_class(void) {
  static SEXP class;
  if (class == NULL) {
    class = Rf_mkString("muster_task");
    R_PreserveObject(class);
    MARK_NOT_MUTABLE(class);
  }
  return class;
}

// The task behind a pointer, NULL for a copy or in another process.
static struct mst_task *task_of(SEXP pointer) {
  if (ffi_session_or_null() == NULL) return NULL;
  return ffi_address_of(pointer, task_tag());
}

// ---- submitting

// nodes_allowed tells which workers of one cluster are among the nodes: NULL if all
// are. Returns the outcome that keeps the nodes from being used, 0 if none does.
static int nodes_allowed(SEXP nodes, struct mst_cluster **cluster,
                         uint8_t **allowed) {
  enum ffi_outcome outcome = FFI_TYPE;
  *allowed = NULL;
  *cluster = NULL;
  if (TYPEOF(nodes) != VECSXP) return FFI_TYPE;
  const R_xlen_t n = Rf_xlength(nodes);
  for (R_xlen_t i = 0; i < n; i++) {
    const struct mst_peer *peer = ffi_peer_of(VECTOR_ELT(nodes, i), &outcome);
    if (peer == NULL) return (int)outcome;
    if (*cluster == NULL) *cluster = peer->cluster;
    if (*cluster != peer->cluster) return FFI_TYPE;
  }
  if (*cluster == NULL) return FFI_TYPE;
  if ((uint32_t)n == (*cluster)->pool.count) return 0;
  *allowed = calloc((*cluster)->pool.count, 1);
  if (*allowed == NULL) return FFI_MEMORY;
  for (R_xlen_t i = 0; i < n; i++) {
    (*allowed)[ffi_peer_of(VECTOR_ELT(nodes, i), &outcome)->index] = 1;
  }
  return 0;
}

// wait_for_room lets workers take from the queue while it holds too much.
static void wait_for_room(struct mst_cluster *cluster) {
  struct mst_session *session = cluster->session;
  while (cluster->queued_bytes > QUEUE_BYTES && cluster->queued > 0) {
    ffi_wait_slice(session, FFI_SLICE_MS);
  }
}

// ffi_task_submit queues fun(args) for any of the nodes: a task, or an outcome;
// FFI_TYPE: they are not of one cluster.
SEXP ffi_task_submit(SEXP nodes, SEXP fun, SEXP args) {
  struct mst_cluster *cluster;
  uint8_t *allowed;
  int outcome = nodes_allowed(nodes, &cluster, &allowed);
  free(allowed); // R may leave by a jump from here on: found again below
  if (outcome != 0) return Rf_ScalarInteger(outcome);
  // A task keeps its cluster: it would be stopped when nothing else refers to it.
  static SEXP name;
  SEXP peer = Rf_getAttrib(VECTOR_ELT(nodes, 0), ffi_symbol(&name, "peer"));
  SEXP pointer = PROTECT(
      R_MakeExternalPtr(NULL, task_tag(), R_ExternalPtrProtected(peer)));
  Rf_setAttrib(pointer, R_ClassSymbol, task_class());
  R_RegisterCFinalizerEx(pointer, finalize_task, FALSE);
  wait_for_room(cluster);
  struct mst_blob *payload = ffi_payload(fun, args, R_NilValue);
  outcome = nodes_allowed(nodes, &cluster, &allowed);
  if (outcome != 0) {
    UNPROTECT(1);
    return Rf_ScalarInteger(outcome);
  }
  struct mst_task *task =
      mst_task_submit(cluster, payload, allowed, cluster->pool.count);
  ffi_payload_done();
  UNPROTECT(1);
  if (task == NULL) return Rf_ScalarInteger(FFI_MEMORY);
  R_SetExternalPtrAddr(pointer, task);
  return pointer;
}

// ---- waiting

static int is_done(const struct mst_task *task) {
  return task->state != MST_TASK_QUEUED && task->state != MST_TASK_SENT;
}

// spin_for looks again and again for a short while at the worker that has the task.
static void spin_for(struct mst_session *session, const struct mst_task *task) {
  if (task->peer == NULL || !mst_spin_begin(&session->spin)) return;
  const int64_t end_ns = mst_clock_now() + MST_SPIN_NS;
  do {
    mst_peer_poll(task->peer);
  } while (!is_done(task) && task->peer != NULL && mst_clock_now() < end_ns);
  mst_spin_end(&session->spin, is_done(task));
}

static R_xlen_t count_done(SEXP tasks, SEXP done) {
  R_xlen_t n = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(tasks); i++) {
    const struct mst_task *task = task_of(VECTOR_ELT(tasks, i));
    const int is = task == NULL || is_done(task);
    if (done != R_NilValue) LOGICAL(done)[i] = is;
    n += is;
  }
  return n;
}

// ffi_task_wait waits until all tasks of a list are done, or `any` one that wasn't when
// it was called, or the time is over: a logical vector. A time of 0 only looks.
SEXP ffi_task_wait(SEXP tasks, SEXP any, SEXP timeout_s) {
  struct mst_session *session = ffi_session_or_null();
  const R_xlen_t n = Rf_xlength(tasks);
  SEXP done = PROTECT(Rf_allocVector(LGLSXP, n));
  R_xlen_t have = count_done(tasks, done);
  const R_xlen_t want = Rf_asLogical(any) == 1 && have < n ? 1 : n;
  const int64_t deadline_ns = ffi_deadline(timeout_s);
  int waits = Rf_asReal(timeout_s) > 0;
  if (session != NULL && !waits) ffi_run_slice(session, 0);
  while (session != NULL && waits && have < want) {
    const uint64_t before = session->tasks_done;
    ffi_wait_slice(session, mst_clock_ms_until(deadline_ns, FFI_SLICE_MS));
    // Counting is for when some task is done: there may be 100,000.
    if (session->tasks_done != before) have = count_done(tasks, R_NilValue);
    waits = mst_clock_now() < deadline_ns;
  }
  (void)count_done(tasks, done);
  UNPROTECT(1);
  return done;
}

static SEXP answer_of(struct mst_task *task) {
  static const char *const names[] = {"value", "error", "conditions", "worker"};
  const size_t skip = mst_value_skip(task->flags);
  if (task->answer.len < skip) return Rf_ScalarInteger(FFI_SYSTEM);
  SEXP content = PROTECT(
      ffi_unserialize(task->answer.data + skip, task->answer.len - skip));
  const R_xlen_t n = TYPEOF(content) == VECSXP ? Rf_xlength(content) : 0;
  const int failed = (task->flags & MST_FLAG_ERROR) != 0;
  SEXP value = n > 0 ? VECTOR_ELT(content, 0) : R_NilValue;
  SEXP list;
  if (!failed && n == 2) { // nothing but a value
    list = PROTECT(Rf_allocVector(VECSXP, 1));
    SET_VECTOR_ELT(list, 0, value);
  } else {
    list = PROTECT(ffi_list(4, names));
    SET_VECTOR_ELT(list, 0, value);
    SET_VECTOR_ELT(list, 1, Rf_ScalarLogical(failed));
    SET_VECTOR_ELT(list, 2, n > 2 ? VECTOR_ELT(content, 2) : R_NilValue);
    SET_VECTOR_ELT(list, 3, Rf_ScalarInteger((int)task->worker + 1));
  }
  UNPROTECT(2);
  return list;
}

// ffi_task_value waits for one task: list(value); list(value, error, conditions,
// worker); an outcome: FFI_FOREIGN, FFI_LOST (ffi_task_loss says why), FFI_STOPPED if
// it was cancelled; NULL if the time is over.
SEXP ffi_task_value(SEXP pointer, SEXP timeout_s) {
  struct mst_task *task = task_of(pointer);
  if (task == NULL) return Rf_ScalarInteger(FFI_FOREIGN);
  struct mst_session *session = ffi_session_or_null();
  if (!is_done(task)) spin_for(session, task);
  int64_t deadline_ns = 0;
  while (!is_done(task)) {
    if (deadline_ns == 0) deadline_ns = ffi_deadline(timeout_s);
    if (mst_clock_now() >= deadline_ns) return R_NilValue;
    ffi_wait_slice(session, mst_clock_ms_until(deadline_ns, FFI_SLICE_MS));
  }
  if (task->state == MST_TASK_DONE) return answer_of(task);
  return Rf_ScalarInteger(task->state == MST_TASK_CANCELLED ? FFI_STOPPED
                                                            : FFI_LOST);
}

SEXP ffi_task_loss(SEXP pointer) {
  const struct mst_task *task = task_of(pointer);
  return task == NULL || task->loss == NULL ? R_NilValue
                                            : ffi_loss_list(task->loss);
}

SEXP ffi_task_cancel(SEXP pointer) {
  struct mst_task *task = task_of(pointer);
  if (task == NULL) return Rf_ScalarInteger(FFI_FOREIGN);
  return Rf_ScalarLogical(mst_task_cancel(task));
}

// ffi_task_state gives list(state, id, worker, seconds).
SEXP ffi_task_state(SEXP pointer) {
  static const char *const names[] = {"state", "id", "worker", "seconds"};
  static const char *const states[] = {"queued", "running", "done", "lost",
                                       "cancelled"};
  const struct mst_task *task = task_of(pointer);
  if (task == NULL) return Rf_ScalarInteger(FFI_FOREIGN);
  SEXP list = PROTECT(ffi_list(4, names));
  SET_VECTOR_ELT(list, 0, Rf_mkString(states[task->state]));
  SET_VECTOR_ELT(list, 1, Rf_ScalarReal((double)task->id));
  const int has = task->peer != NULL || task->state == MST_TASK_DONE;
  const uint32_t worker = task->peer != NULL ? task->peer->index : task->worker;
  SET_VECTOR_ELT(list, 2, Rf_ScalarInteger(has ? (int)worker + 1 : NA_INTEGER));
  const int64_t end_ns = is_done(task) ? task->done_ns : mst_clock_now();
  const double seconds =
      task->sent_ns == 0 ? NA_REAL : (double)(end_ns - task->sent_ns) / 1e9;
  SET_VECTOR_ELT(list, 3, Rf_ScalarReal(seconds));
  UNPROTECT(1);
  return list;
}
