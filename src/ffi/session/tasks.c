// Tasks as external pointers: submit, wait, value, cancel.
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "ffi/session/session.h"

// Queued tasks keep their bytes in this session. Beyond this many bytes, submitting waits.
#define QUEUE_BYTES ((size_t)256 << 20)

// While many tasks are submitted, the session is served this often.
#define PASSING_NS (50 * MST_NS_PER_US)

static SEXP task_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_task_pointer");
}

// ---- bundles: how R tells that tasks are unreferenced

// R checks every finalizer in each collection: with 100,000 tasks that would cost more than the
// tasks themselves. So if there are many, they share finalizers in bundles, and their results are
// freed when nobody refers to any task of the bundle.
#define BUNDLE_FROM 1000u
#define BUNDLE_MAX 64u
struct bundle {
  struct ffi_later later;
  pid_t owner; // a forked child touches nothing in it
  // ffi_session_failures() when it was made; if a session was given up since, nothing is touched
  // either.
  uint32_t failures;
  struct mst_call *tasks[BUNDLE_MAX];
  uint32_t count;
};

static struct {
  // External pointer of the bundle that takes more tasks, preserved, or NULL.
  SEXP open;
  uint32_t live; // tasks in bundles
} bundles;

static SEXP bundle_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_task_bundle");
}

static void close_bundle(void) {
  if (bundles.open != NULL) R_ReleaseObject(bundles.open);
  bundles.open = NULL;
}

static void drop_bundle(struct ffi_later *item) {
  struct bundle *bundle = (struct bundle *)(void *)item;
  const int is_sound = bundle->failures == ffi_session_failures();
  for (uint32_t i = 0; is_sound && i < bundle->count; i++)
    mst_call_release(bundle->tasks[i]);
  bundles.live -= bundle->count;
  free(bundle);
}

static void finalize_bundle(SEXP pointer) {
  struct bundle *bundle = R_ExternalPtrAddr(pointer);
  if (bundle == NULL) return;
  R_ClearExternalPtr(pointer);
  if (bundle->owner != ffi_self()) return;
  bundle->later.run = drop_bundle;
  ffi_do_later(&bundle->later);
  if (bundles.live < BUNDLE_FROM) close_bundle();
}

// bundle_for gives a bundle with room for one more task of a cluster. It keeps a reference to the
// cluster, which would otherwise be stopped if nothing else refers to it. The caller protects the
// bundle. NULL if memory is short.
static SEXP bundle_for(SEXP cluster) {
  if (bundles.open != NULL) {
    const struct bundle *bundle = R_ExternalPtrAddr(bundles.open);
    if (bundle->count < BUNDLE_MAX &&
        R_ExternalPtrProtected(bundles.open) == cluster) {
      return bundles.open;
    }
    close_bundle();
  }
  SEXP pointer = PROTECT(ffi_own(bundle_tag(), cluster, finalize_bundle, 0));
  struct bundle *bundle = calloc(1, sizeof *bundle);
  if (bundle != NULL) {
    bundle->owner = ffi_self();
    bundle->failures = ffi_session_failures();
    R_SetExternalPtrAddr(pointer, bundle);
    if (bundles.live >= BUNDLE_FROM && bundles.open == NULL) {
      R_PreserveObject(pointer);
      bundles.open = pointer;
    }
  }
  UNPROTECT(1);
  return bundle == NULL ? NULL : pointer;
}

static void put_in(SEXP pointer, struct mst_call *task) {
  struct bundle *bundle = R_ExternalPtrAddr(pointer);
  bundle->tasks[bundle->count++] = task;
  bundles.live++;
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

// task_of gives the task behind a pointer; NULL and the outcome for a copy, in another process, or
// after its session was given up.
static struct mst_call *task_of(SEXP pointer, enum ffi_outcome *outcome) {
  struct mst_call *task = ffi_address_of(pointer, task_tag());
  *outcome = FFI_FOREIGN;
  if (task == NULL) return NULL;
  const struct bundle *bundle =
      ffi_address_of(R_ExternalPtrProtected(pointer), bundle_tag());
  if (bundle == NULL || bundle->owner != ffi_self()) return NULL;
  *outcome = FFI_BROKEN;
  return bundle->failures == ffi_session_failures() ? task : NULL;
}

// ---- submitting

// The cluster and the workers of a list of nodes.
struct nodes {
  struct mst_cluster *cluster;
  SEXP pointer;     // of the cluster
  uint8_t *allowed; // by index; in `few`, or R's transient memory
  uint8_t few[128];
  uint32_t workers; // of the cluster
  uint32_t count;   // of those allowed
};

// read_nodes returns 0, or the outcome that tells why the nodes can't be used.
static int read_nodes(SEXP list, struct nodes *nodes) {
  static SEXP name;
  enum ffi_outcome outcome;
  const R_xlen_t n = TYPEOF(list) == VECSXP ? Rf_xlength(list) : 0;
  if (n == 0) return FFI_TYPE;
  const struct mst_peer *first = ffi_peer_of(VECTOR_ELT(list, 0), &outcome);
  if (first == NULL) return (int)outcome;
  nodes->cluster = first->cluster;
  nodes->pointer = R_ExternalPtrProtected(
      Rf_getAttrib(VECTOR_ELT(list, 0), ffi_symbol(&name, "peer")));
  nodes->workers = nodes->cluster->calls.pool.count;
  nodes->allowed = nodes->workers <= sizeof nodes->few
                       ? nodes->few
                       : (uint8_t *)R_alloc(nodes->workers, 1);
  memset(nodes->allowed, 0, nodes->workers);
  nodes->count = 0;
  for (R_xlen_t i = 0; i < n; i++) {
    const struct mst_peer *peer = ffi_peer_of(VECTOR_ELT(list, i), &outcome);
    if (peer == NULL) return (int)outcome;
    if (peer->cluster != nodes->cluster) return FFI_TYPE;
    nodes->count += !nodes->allowed[peer->index];
    nodes->allowed[peer->index] = 1;
  }
  return 0;
}

// list_workers gives the allowed workers in increasing order, NULL for all. In R's transient memory
// if they are many.
static const uint32_t *list_workers(const struct nodes *nodes, uint32_t *few) {
  if (nodes->count == nodes->workers) return NULL;
  uint32_t *workers =
      nodes->count <= sizeof nodes->few
          ? few
          : (uint32_t *)(void *)R_alloc(nodes->count, sizeof *workers);
  uint32_t n = 0;
  for (uint32_t i = 0; i < nodes->workers; i++) {
    if (nodes->allowed[i]) workers[n++] = i;
  }
  return workers;
}

// wait_for_room waits until workers have taken enough from the queue.
static void wait_for_room(struct mst_cluster *cluster) {
  struct mst_session *session = cluster->session;
  while (!cluster->closed && cluster->calls.dispatch.bytes > QUEUE_BYTES &&
         mst_queue_count(&cluster->calls.dispatch.queue) > 0) {
    ffi_wait_slice(session, FFI_SLICE_MS);
  }
}

// serve_in_passing keeps workers busy while many tasks are submitted one after the other, since R
// is never away long enough for the I/O thread to serve them.
static void serve_in_passing(const struct mst_cluster *cluster) {
  struct mst_session *session = cluster->session;
  if (mst_queue_count(&cluster->calls.dispatch.queue) > 0 &&
      mst_clock_now() - session->listened_ns > PASSING_NS) {
    ffi_run_slice(session, 0);
  }
}

// has_own_contract: the task is another package's, whose rules for references count, and what it
// says before its answer is asked for.
static int has_own_contract(SEXP limits) {
  return TYPEOF(limits) == REALSXP && Rf_xlength(limits) >= 3 &&
         REAL(limits)[2] == 1;
}

static struct mst_task_terms terms_of(SEXP limits) {
  struct mst_task_terms terms = {.retries = -1};
  if (TYPEOF(limits) != REALSXP || Rf_xlength(limits) < 2) return terms;
  const double retries = REAL(limits)[0];
  terms.heard = (uint8_t)has_own_contract(limits);
  if (!ISNAN(retries)) terms.retries = (int32_t)retries;
  terms.timeout_ns = ffi_ns(REAL(limits)[1]);
  if (Rf_xlength(limits) > 3) terms.priority = (int32_t)REAL(limits)[3];
  return terms;
}

// need gives a job for all of a task's jobs, with a reference. Returns 0, or an outcome.
static int need(SEXP pointers, struct mst_job **jobs,
                const struct mst_cluster *cluster, struct mst_job **out) {
  if (!ffi_jobs_of(pointers, cluster, jobs)) return FFI_TYPE;
  const uint32_t n = (uint32_t)Rf_xlength(pointers);
  return mst_job_group(jobs, n, out) == 0 ? 0 : FFI_MEMORY;
}

// ffi_task_submit queues fun(args) for any of the nodes: a task, or an outcome; FFI_TYPE: they
// belong to several clusters; FFI_REFERENCE: fun or an argument can't be used in another process.
// jobs: a list of pointers of ffi_job_hold, or NULL. limits: NULL for the cluster's, or c(retries,
// seconds of evaluation), with NA and 0 for the cluster's; a third number, 1, makes it a task for
// ffi_task_said, with any references in it and in its value; a fourth is its priority. label: its
// name, or NULL.
SEXP ffi_task_submit(SEXP list, SEXP fun, SEXP args, SEXP jobs, SEXP limits,
                     SEXP label) {
  struct nodes nodes;
  enum ffi_outcome now;
  int outcome = read_nodes(list, &nodes);
  if (outcome != 0) return Rf_ScalarInteger(outcome);
  int may_share;
  const int refused =
      ffi_is_refused(args, &may_share) || ffi_is_refused(fun, NULL);
  if (refused && !has_own_contract(limits)) {
    return Rf_ScalarInteger(FFI_REFERENCE);
  }
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, task_tag(), R_NilValue));
  Rf_setAttrib(pointer, R_ClassSymbol, task_class());
  wait_for_room(nodes.cluster);
  struct mst_blob *payload = ffi_payload(fun, args, R_NilValue, may_share);
  uint32_t few[sizeof nodes.few];
  const uint32_t *workers = list_workers(&nodes, few);
  struct mst_job **needed = (struct mst_job **)(void *)R_alloc(
      (size_t)Rf_xlength(jobs), sizeof *needed);
  // Last: nothing else protects it, or keeps its room.
  SEXP bundle = bundle_for(nodes.pointer);
  // No R code runs from here on; until here it may have stopped the cluster.
  struct mst_call *task = NULL;
  if (ffi_cluster_of(nodes.pointer, &now) == NULL) {
    outcome = (int)now;
  } else {
    outcome = bundle == NULL ? FFI_MEMORY : 0;
  }
  struct mst_task_terms terms = terms_of(limits);
  if (label != R_NilValue) terms.label = CHAR(STRING_ELT(label, 0));
  if (outcome == 0) {
    outcome = need(jobs, needed, nodes.cluster, &terms.job);
  }
  if (outcome == 0) {
    ffi_bound_log(nodes.cluster);
    task =
        mst_task_submit(nodes.cluster, payload, workers, nodes.count, &terms);
    if (task == NULL) outcome = FFI_MEMORY;
    mst_job_release(terms.job);
  }
  ffi_payload_done();
  if (task != NULL) {
    R_SetExternalPtrAddr(pointer, task);
    R_SetExternalPtrProtected(pointer, bundle);
    put_in(bundle, task);
    serve_in_passing(nodes.cluster);
  }
  UNPROTECT(1);
  return task == NULL ? Rf_ScalarInteger(outcome) : pointer;
}

// ---- waiting

// worker_with gives the worker that has a task, or NULL.
static struct mst_peer *worker_with(const struct mst_call *task) {
  if (task->mailbox == NULL) return NULL;
  return mst_task_cluster(task)->peers[task->mailbox->worker];
}

// spin_for polls the worker that has the task for a short while.
static void spin_for(struct mst_session *session, const struct mst_call *task) {
  struct mst_peer *peer = worker_with(task);
  if (peer == NULL || !mst_spin_begin(&session->spin)) return;
  const int64_t end_ns = mst_clock_now() + MST_SPIN_NS;
  do {
    mst_peer_poll(peer);
    peer = worker_with(task);
  } while (!mst_call_is_done(task) && peer != NULL && mst_clock_now() < end_ns);
  mst_spin_end(&session->spin, mst_call_is_done(task));
}

// Asking for a task waits for it. A task for whose answer memory is too short counts as done:
// ffi_task_value then reports that.
static int is_done_at(SEXP tasks, R_xlen_t i) {
  enum ffi_outcome outcome;
  struct mst_call *task = task_of(VECTOR_ELT(tasks, i), &outcome);
  if (task == NULL || mst_call_is_done(task)) return 1;
  return mst_task_await(task) != 0 || mst_call_is_done(task);
}

// look fills in which tasks are done, and returns their number.
static R_xlen_t look(SEXP tasks, SEXP done) {
  R_xlen_t n = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(tasks); i++) {
    LOGICAL(done)[i] = is_done_at(tasks, i);
    n += LOGICAL(done)[i];
  }
  return n;
}

// wait_for_all waits for one after the other, so that there may be very many.
static void wait_for_all(struct mst_session *session, SEXP tasks,
                         int64_t deadline_ns) {
  R_xlen_t i = 0;
  while (i < Rf_xlength(tasks) && mst_clock_now() < deadline_ns) {
    if (is_done_at(tasks, i)) {
      i++;
    } else {
      ffi_wait_slice(session, mst_clock_ms_until(deadline_ns, FFI_SLICE_MS));
    }
  }
}

// is_stuck: memory may be too short for an answer, or the session is broken.
static int is_stuck(const struct mst_session *session) {
  const struct mst_cluster *cluster = session->clusters;
  while (cluster != NULL && cluster->held == 0)
    cluster = cluster->next;
  return session->broken || cluster != NULL;
}

static void wait_for_one(struct mst_session *session, SEXP tasks, SEXP done,
                         int64_t deadline_ns) {
  uint64_t before = session->counts.tasks_done;
  R_xlen_t have = look(tasks, done);
  while (have == 0 && Rf_xlength(tasks) > 0 && mst_clock_now() < deadline_ns) {
    ffi_wait_slice(session, mst_clock_ms_until(deadline_ns, FFI_SLICE_MS));
    if (session->counts.tasks_done == before && !is_stuck(session)) continue;
    before = session->counts.tasks_done;
    have = look(tasks, done);
  }
}

// ffi_task_wait waits until all tasks of a list are done, or `any` one, or until the time limit: a
// logical vector. A limit of 0 only checks, but may run R code to tell of events; NULL runs none.
SEXP ffi_task_wait(SEXP tasks, SEXP any, SEXP timeout_s) {
  struct mst_session *session = ffi_session_or_null();
  SEXP done = PROTECT(Rf_allocVector(LGLSXP, Rf_xlength(tasks)));
  if (session != NULL) {
    const int quiet = timeout_s == R_NilValue;
    const int64_t deadline_ns = quiet ? 0 : ffi_deadline(timeout_s);
    ffi_run_slice(session, 0);
    if (Rf_asLogical(any) == 1) {
      wait_for_one(session, tasks, done, deadline_ns);
    } else {
      wait_for_all(session, tasks, deadline_ns);
    }
    if (!quiet && ffi_has_news(session)) ffi_wait_slice(session, 0);
  }
  (void)look(tasks, done);
  UNPROTECT(1);
  return done;
}

// ---- what tasks say before their answers

static void release_call(void *call) { mst_call_release(call); }

// value_of reads what a task has said.
static SEXP value_of(struct mst_call *said) {
  (void)ffi_hold(said, release_call);
  const size_t skip = mst_value_skip(said->flags);
  if (said->value_bytes < skip) Rf_error("a worker's message can't be read");
  SEXP content = PROTECT(ffi_unserialize_message(
      said->flags, said->value, said->value_bytes, skip, said->map));
  ffi_drop(said);
  UNPROTECT(1);
  return TYPEOF(content) == VECSXP && Rf_xlength(content) > 0
             ? VECTOR_ELT(content, 0)
             : R_NilValue;
}

// take_said takes the oldest value of the first task that has one: list(index, value), or NULL.
static SEXP take_said(SEXP tasks) {
  enum ffi_outcome outcome;
  for (R_xlen_t i = 0; i < Rf_xlength(tasks); i++) {
    struct mst_call *task = task_of(VECTOR_ELT(tasks, i), &outcome);
    struct mst_call *said = task == NULL ? NULL : mst_call_take_said(task);
    if (said == NULL) continue;
    SEXP pair = PROTECT(Rf_allocVector(VECSXP, 2));
    SET_VECTOR_ELT(pair, 0, Rf_ScalarInteger((int)i + 1));
    SET_VECTOR_ELT(pair, 1, value_of(said));
    UNPROTECT(1);
    return pair;
  }
  return R_NilValue;
}

static int any_done(SEXP tasks) {
  for (R_xlen_t i = 0; i < Rf_xlength(tasks); i++) {
    if (is_done_at(tasks, i)) return 1;
  }
  return 0;
}

// ffi_task_said waits until one of the tasks has said something, which it takes: list(index,
// value). NULL if one is done before that, or the time is over. A limit of 0 only looks.
SEXP ffi_task_said(SEXP tasks, SEXP timeout_s) {
  struct mst_session *session = ffi_session_or_null();
  if (session == NULL) return R_NilValue;
  const int64_t deadline_ns = ffi_deadline(timeout_s);
  for (int looked = 0;; looked = 1) {
    const int done =
        any_done(tasks); // first: an answer comes after all that was said
    SEXP said = take_said(tasks);
    if (said != R_NilValue || done) return said;
    if (looked && mst_clock_now() >= deadline_ns) return R_NilValue;
    if (!looked && Rf_xlength(tasks) == 1 && deadline_ns == INT64_MAX) {
      enum ffi_outcome outcome;
      const struct mst_call *task = task_of(VECTOR_ELT(tasks, 0), &outcome);
      if (task != NULL) spin_for(session, task);
    } else {
      ffi_wait_slice(session, mst_clock_ms_until(deadline_ns, FFI_SLICE_MS));
    }
  }
}

// note_drawn: the task changed its worker's own random stream without permission.
static void note_drawn(SEXP pointer, const struct mst_call *task) {
  static SEXP quiet;
  if ((task->flags & (MST_FLAG_SEED | MST_FLAG_RNG)) == 0) return;
  if (Rf_getAttrib(pointer, ffi_symbol(&quiet, "quiet")) == R_NilValue) {
    ffi_call_ours("note_drawn", NULL);
  }
}

// A task that is heard has its own contract, see has_own_contract().
static SEXP answer_of(struct mst_call *task) {
  static const char *const names[] = {"value", "error", "conditions", "worker",
                                      "dropped"};
  const size_t skip = mst_value_skip(task->flags);
  if (task->value_bytes < skip) return Rf_ScalarInteger(FFI_SYSTEM);
  mst_call_taken(task);
  ffi_share_collect();
  SEXP content = PROTECT(ffi_unserialize_message(
      task->flags, task->value, task->value_bytes, skip, task->map));
  const R_xlen_t n = TYPEOF(content) == VECSXP ? Rf_xlength(content) : 0;
  const int failed = (task->flags & MST_FLAG_ERROR) != 0;
  SEXP value = n > 0 ? VECTOR_ELT(content, 0) : R_NilValue;
  SEXP list;
  if (!failed && !task->heard && ffi_is_refused(value, NULL)) {
    // R code says what is wrong with it.
    list = PROTECT(Rf_allocVector(VECSXP, 2));
    SET_VECTOR_ELT(list, 0, value);
    SET_VECTOR_ELT(list, 1, Rf_ScalarInteger((int)task->worker + 1));
  } else if (!failed && n == 2) { // only a value
    list = PROTECT(Rf_allocVector(VECSXP, 1));
    SET_VECTOR_ELT(list, 0, value);
  } else {
    list = PROTECT(ffi_list(5, names));
    SET_VECTOR_ELT(list, 0, value);
    SET_VECTOR_ELT(list, 1, Rf_ScalarLogical(failed));
    SET_VECTOR_ELT(list, 2, n > 2 ? VECTOR_ELT(content, 2) : R_NilValue);
    SET_VECTOR_ELT(list, 3, Rf_ScalarInteger((int)task->worker + 1));
    SET_VECTOR_ELT(list, 4, n > 3 ? VECTOR_ELT(content, 3) : R_NilValue);
  }
  UNPROTECT(2);
  return list;
}

// ffi_task_value waits for one task: list(value); list(value, error, conditions, worker, dropped);
// list(value, worker) if the value can't be used here; an outcome: FFI_FOREIGN, FFI_BROKEN,
// FFI_MEMORY (ask again later), FFI_LOST (see ffi_task_loss), FFI_STOPPED if it was cancelled; NULL
// at the time limit.
SEXP ffi_task_value(SEXP pointer, SEXP timeout_s) {
  enum ffi_outcome outcome;
  struct mst_call *task = task_of(pointer, &outcome);
  if (task == NULL) return Rf_ScalarInteger((int)outcome);
  struct mst_session *session = ffi_session_or_null();
  int no_memory = mst_task_await(task) != 0;
  if (!mst_call_is_done(task) && !no_memory) spin_for(session, task);
  int64_t deadline_ns = 0;
  while (!mst_call_is_done(task)) {
    if (no_memory) return Rf_ScalarInteger(FFI_MEMORY);
    if (deadline_ns == 0) deadline_ns = ffi_deadline(timeout_s);
    if (mst_clock_now() >= deadline_ns) return R_NilValue;
    ffi_wait_slice(session, mst_clock_ms_until(deadline_ns, FFI_SLICE_MS));
    if (task_of(pointer, &outcome) == NULL) // R code ran
      return Rf_ScalarInteger((int)outcome);
    no_memory = mst_task_await(task) != 0;
  }
  // Show what the I/O thread received while R was away.
  if (ffi_has_news(session)) ffi_wait_slice(session, 0);
  if (task->state == MST_CALL_DONE) {
    note_drawn(pointer, task);
    return answer_of(task);
  }
  return Rf_ScalarInteger(task->state == MST_CALL_CANCELLED ? FFI_STOPPED
                                                            : FFI_LOST);
}

// ffi_task_loss gives ffi_loss_list's list; TRUE if no worker that may take the task was left; NULL
// if its cluster was stopped, or has been since.
SEXP ffi_task_loss(SEXP pointer) {
  enum ffi_outcome outcome;
  const struct mst_call *task = task_of(pointer, &outcome);
  if (task == NULL) return R_NilValue;
  if (task->stranded) {
    SEXP cluster = R_ExternalPtrProtected(R_ExternalPtrProtected(pointer));
    return ffi_cluster_of(cluster, &outcome) == NULL ? R_NilValue
                                                     : Rf_ScalarLogical(1);
  }
  return task->loss == NULL ? R_NilValue : ffi_loss_list(task->loss);
}

SEXP ffi_task_cancel(SEXP pointer) {
  enum ffi_outcome outcome;
  struct mst_call *task = task_of(pointer, &outcome);
  if (task == NULL) return Rf_ScalarInteger((int)outcome);
  return Rf_ScalarLogical(mst_task_cancel(task));
}

// ffi_task_state gives list(state, id, worker, seconds, label).
SEXP ffi_task_state(SEXP pointer) {
  static const char *const names[] = {"state", "id", "worker", "seconds",
                                      "label"};
  static const char *const states[] = {"queued", "running", "done", "lost",
                                       "cancelled"};
  enum ffi_outcome outcome;
  const struct mst_call *task = task_of(pointer, &outcome);
  if (task == NULL) return Rf_ScalarInteger((int)outcome);
  SEXP list = PROTECT(ffi_list(5, names));
  const int failed =
      task->state == MST_CALL_DONE && (task->flags & MST_FLAG_ERROR) != 0;
  const int late = task->state == MST_CALL_LOST && task->loss != NULL &&
                   task->loss->kind == MST_LOSS_TIMEOUT;
  SET_VECTOR_ELT(list, 0,
                 Rf_mkString(failed ? "failed"
                             : late ? "timed out"
                                    : states[task->state]));
  SET_VECTOR_ELT(list, 1, Rf_ScalarReal((double)task->serial));
  const int has = task->state == MST_CALL_GIVEN || task->state == MST_CALL_DONE;
  SET_VECTOR_ELT(list, 2,
                 Rf_ScalarInteger(has ? (int)task->worker + 1 : NA_INTEGER));
  const int64_t end_ns =
      mst_call_is_done(task) ? task->done_ns : mst_clock_now();
  const double seconds =
      task->sent_ns == 0 ? NA_REAL : (double)(end_ns - task->sent_ns) / 1e9;
  SET_VECTOR_ELT(list, 3, Rf_ScalarReal(seconds));
  SET_VECTOR_ELT(list, 4, ffi_label(task));
  UNPROTECT(1);
  return list;
}

SEXP ffi_label(const struct mst_call *task) {
  if (task == NULL || task->label == NULL) return R_NilValue;
  return Rf_ScalarString(Rf_mkCharCE(task->label, CE_UTF8));
}

// ffi_task_log adds lines, in one text, to the kept output of the worker that had the task. They
// aren't shown, unless earlier lines still must be.
SEXP ffi_task_log(SEXP pointer, SEXP text) {
  enum ffi_outcome outcome;
  const struct mst_call *task = task_of(pointer, &outcome);
  if (task == NULL) return R_NilValue;
  const char *bytes = CHAR(STRING_ELT(text, 0)); // as if it were printed
  SEXP bundle = R_ExternalPtrProtected(pointer);
  struct mst_cluster *cluster =
      ffi_cluster_of(R_ExternalPtrProtected(bundle), &outcome);
  if (cluster == NULL) return R_NilValue; // stopped
  struct mst_log_part part = {0};
  const int seen = cluster->shown == cluster->log.next;
  mst_log_write(&cluster->log, &part, task->worker, bytes, strlen(bytes));
  if (seen) cluster->shown = cluster->log.next;
  return R_NilValue;
}
