// Tasks as external pointers, and how they are submitted.
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "base/mst_hash.h"
#include "ffi/session/session.h"
#include "pool/result.h"

// Queued tasks keep their bytes in this session. Beyond this many, submitting waits.
#define QUEUE_BYTES 256e6

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

struct mst_call *ffi_task_of(SEXP pointer, enum ffi_outcome *outcome) {
  struct mst_call *task = ffi_address_of(pointer, task_tag());
  *outcome = FFI_FOREIGN;
  if (task == NULL) return NULL;
  const struct bundle *bundle =
      ffi_address_of(R_ExternalPtrProtected(pointer), bundle_tag());
  if (bundle == NULL || bundle->owner != ffi_self()) return NULL;
  *outcome = FFI_BROKEN;
  return bundle->failures == ffi_session_failures() ? task : NULL;
}

static int is_task(SEXP pointer) {
  return TYPEOF(pointer) == EXTPTRSXP &&
         R_ExternalPtrTag(pointer) == task_tag();
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

static double queue_max(void) {
  static SEXP name;
  SEXP option = Rf_GetOption1(ffi_symbol(&name, "muster.queue_max"));
  // For R's C code, logicals are numeric.
  const int is_number = Rf_isNumeric(option) && TYPEOF(option) != LGLSXP &&
                        Rf_xlength(option) == 1;
  const double most = is_number ? Rf_asReal(option) : NA_REAL;
  return most >= 0 ? most : QUEUE_BYTES; // NA isn't
}

static int is_full(const struct mst_cluster *cluster) {
  const struct mst_calls *calls = &cluster->calls;
  return calls->dispatch.bytes > 0 &&
         (mst_queue_count(&calls->dispatch.queue) > 0 ||
          calls->tally.waiting != NULL) &&
         (double)calls->dispatch.bytes > queue_max();
}

// wait_for_room waits until workers have taken enough from the queue.
static void wait_for_room(struct mst_cluster *cluster) {
  struct mst_session *session = cluster->session;
  while (!cluster->closed && is_full(cluster))
    ffi_wait_slice(session, FFI_SLICE_MS);
}

// ffi_queue_full tells whether ffi_task_submit would wait for room. FALSE if the nodes can't be
// used: submitting says so.
SEXP ffi_queue_full(SEXP list) {
  struct nodes nodes;
  if (read_nodes(list, &nodes) != 0 || !is_full(nodes.cluster))
    return Rf_ScalarLogical(0);
  ffi_run_slice(nodes.cluster->session, 0);
  return Rf_ScalarLogical(!nodes.cluster->closed && is_full(nodes.cluster));
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

// is_free: the task is another package's, whose rules for references count. Those for its value are
// told by the pointer's attribute "free".
static int is_free(SEXP limits) {
  return TYPEOF(limits) == REALSXP && Rf_xlength(limits) >= 3 &&
         REAL(limits)[2] == 1;
}

static struct mst_task_terms terms_of(SEXP limits) {
  struct mst_task_terms terms = {.retries = -1};
  if (TYPEOF(limits) != REALSXP || Rf_xlength(limits) < 2) return terms;
  const double retries = REAL(limits)[0];
  if (!ISNAN(retries)) terms.retries = (int32_t)retries;
  terms.timeout_ns = ffi_ns(REAL(limits)[1]);
  if (Rf_xlength(limits) > 3) terms.priority = (int32_t)REAL(limits)[3];
  terms.alone = Rf_xlength(limits) > 4 && REAL(limits)[4] == 1;
  if (Rf_xlength(limits) > 5) terms.group = (uint64_t)REAL(limits)[5];
  return terms;
}

// ffi_group gives a group's name (one string in UTF-8) as a number from 2^52 up: lower ones are
// those of own_group() in R.
SEXP ffi_group(SEXP name) {
  const char *text = CHAR(STRING_ELT(name, 0));
  const uint64_t below = UINT64_C(1) << 52;
  const uint64_t hash = mst_hash(text, strlen(text)) & (below - 1);
  return Rf_ScalarReal((double)(below + hash));
}

static void release_job(void *job) { mst_job_release(job); }

// hold_result holds the result of a task of these nodes' cluster until the entry ends. Returns 0,
// or an outcome.
static int hold_result(SEXP pointer, const struct nodes *nodes,
                       struct mst_job **out) {
  enum ffi_outcome outcome;
  struct mst_call *source = ffi_task_of(pointer, &outcome);
  if (source == NULL) return (int)outcome;
  if (R_ExternalPtrProtected(R_ExternalPtrProtected(pointer)) != nodes->pointer)
    return FFI_TYPE;
  // One that is done already is copied.
  const size_t bytes = source->value_bytes +
                       (source->map == NULL ? 0 : (size_t)source->map->bytes);
  if (source->result == NULL && bytes > MST_CHAN_KEEP) ffi_memory_check(bytes);
  *out = mst_result_hold(&nodes->cluster->calls.jobs, source);
  if (*out == NULL) return FFI_MEMORY;
  (void)ffi_hold(*out, release_job);
  return 0;
}

// hold_results does so for the tasks among a task's needs, and puts the numbers of the results into
// the vector that is the last of its arguments.
static int hold_results(SEXP needs, SEXP args, const struct nodes *nodes,
                        struct mst_job **jobs) {
  R_xlen_t n = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(needs); i++) {
    if (!is_task(VECTOR_ELT(needs, i))) continue;
    const int rc = hold_result(VECTOR_ELT(needs, i), nodes, &jobs[i]);
    if (rc != 0) return rc;
    SEXP numbers = VECTOR_ELT(args, Rf_xlength(args) - 1);
    REAL(numbers)[n++] = (double)jobs[i]->id;
  }
  return 0;
}

// need gives a job for all of a task's needs, with a reference; of those after them jobs has the
// last, its context. Returns 0, or an outcome.
static int need(SEXP needs, struct mst_job **jobs,
                const struct mst_cluster *cluster, struct mst_job **out) {
  for (R_xlen_t i = 0; i < Rf_xlength(needs); i++) {
    SEXP pointer = VECTOR_ELT(needs, i);
    if (is_task(pointer)) continue;
    jobs[i] = ffi_job_of(pointer, cluster);
    if (jobs[i] == NULL) return FFI_TYPE;
  }
  const uint32_t n = (uint32_t)Rf_xlength(needs);
  return mst_job_group(jobs, n + 1, out) == 0 ? 0 : FFI_MEMORY;
}

// hold_context holds the context of a task until the entry ends. Returns 0, or an outcome.
static int hold_context(const struct nodes *nodes, struct mst_job **out) {
  enum ffi_outcome outcome;
  if (ffi_cluster_of(nodes->pointer, &outcome) == NULL) return (int)outcome;
  *out = ffi_context_hold(nodes->cluster);
  if (*out == NULL) return FFI_MEMORY;
  mst_job_keep(*out);
  (void)ffi_hold(*out, release_job);
  return 0;
}

// context_tag gives a number for R, mostly the last one again.
static SEXP context_tag(double id) {
  static SEXP tag;
  if (tag != NULL && REAL(tag)[0] == id) return tag;
  if (tag != NULL) R_ReleaseObject(tag);
  tag = NULL; // if there is no memory for another
  tag = Rf_ScalarReal(id);
  R_PreserveObject(tag);
  return tag;
}

// is_own: it is a call of muster's own function of this name, or of any if that is NULL.
static int is_own(SEXP fun, const char *name) {
  static const char own[] = "muster:::";
  if (TYPEOF(fun) != STRSXP || Rf_xlength(fun) != 1) return 0;
  const char *text = CHAR(STRING_ELT(fun, 0));
  if (strncmp(text, own, sizeof own - 1) != 0) return 0;
  return name == NULL || strcmp(text + sizeof own - 1, name) == 0;
}

// users_have_task tells whether a user's arguments have a task in them. Those of muster's own calls
// are the second argument; what else these take along, such as globals, may have one.
static int users_have_task(SEXP fun, SEXP args) {
  const int second = is_own(fun, NULL) && Rf_xlength(args) > 1;
  int seen = 0;
  (void)ffi_is_refused(second ? VECTOR_ELT(args, 1) : args, &seen);
  return (seen & FFI_SCAN_TASK) != 0;
}

// A task of so many bytes is looked at: do they come from where its function was made?
#define LARGE_BYTES ((size_t)10000000)

// ffi_task_submit queues fun(args) for any of the nodes: a task, or an outcome; FFI_TYPE: they, or
// a task among the needs, belong to another cluster; FFI_REFERENCE: fun or an argument can't be
// used in another process, or is a task. needs: NULL, or a list of pointers of ffi_job_hold, and of
// tasks of the same cluster, whose results the worker gets as jobs; their numbers are put into the
// last of args, a vector of doubles. limits: NULL for the cluster's, or c(retries,
// seconds of evaluation), with NA and 0 for the cluster's; with a third number, 1, it and its value
// may have any references; a fourth is its priority; a fifth, 1: no other worker may compute
// meanwhile; a sixth its group (0: none). label: its name, or NULL. The task's tag is the number of
// its context.
SEXP ffi_task_submit(SEXP list, SEXP fun, SEXP args, SEXP needs, SEXP limits,
                     SEXP label) {
  struct nodes nodes;
  enum ffi_outcome now;
  int outcome = read_nodes(list, &nodes);
  if (outcome != 0) return Rf_ScalarInteger(outcome);
  int seen;
  const int refused =
      ffi_is_refused(args, &seen) || ffi_is_refused(fun, NULL) ||
      ((seen & FFI_SCAN_TASK) != 0 && users_have_task(fun, args));
  if (refused && !is_free(limits)) {
    return Rf_ScalarInteger(FFI_REFERENCE);
  }
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, task_tag(), R_NilValue));
  Rf_setAttrib(pointer, R_ClassSymbol, task_class());
  ffi_context_look();
  wait_for_room(nodes.cluster);
  struct mst_job **jobs = (struct mst_job **)(void *)R_alloc(
      (size_t)Rf_xlength(needs) + 1, sizeof *jobs);
  outcome = hold_results(needs, args, &nodes, jobs);
  if (outcome == 0) outcome = hold_context(&nodes, &jobs[Rf_xlength(needs)]);
  if (outcome != 0) {
    UNPROTECT(1);
    return Rf_ScalarInteger(outcome);
  }
  SEXP tag = PROTECT(context_tag((double)jobs[Rf_xlength(needs)]->id));
  struct mst_blob *payload =
      ffi_payload(fun, args, tag, (seen & FFI_SCAN_LARGE) != 0);
  uint32_t few[sizeof nodes.few];
  const uint32_t *workers = list_workers(&nodes, few);
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
  terms.is_part = (uint8_t)is_own(fun, "map_piece");
  if (outcome == 0) {
    outcome = need(needs, jobs, nodes.cluster, &terms.job);
  }
  if (outcome == 0) {
    ffi_bound_log(nodes.cluster);
    task =
        mst_task_submit(nodes.cluster, payload, workers, nodes.count, &terms);
    if (task == NULL) outcome = FFI_MEMORY;
    mst_job_release(terms.job);
  }
  const int large = mst_blob_bytes(payload) >= LARGE_BYTES;
  ffi_payload_done();
  if (task != NULL) {
    R_SetExternalPtrAddr(pointer, task);
    R_SetExternalPtrProtected(pointer, bundle);
    put_in(bundle, task);
    serve_in_passing(nodes.cluster);
    if (large && TYPEOF(fun) == CLOSXP)
      (void)ffi_call_ours(FFI_NOTE_FRAMES, fun);
  }
  UNPROTECT(2);
  return task == NULL ? Rf_ScalarInteger(outcome) : pointer;
}

// ffi_task_try submits fun(args) as ffi_task_submit does, if that is all there is to do: fun is a
// function, no argument has a name, and nothing else needs to travel. One call, since this is what
// each task costs at least. A task; what needs to travel, a list of ffi_needs; or NULL: nothing was
// submitted, and ffi_task_submit or R's checks will say why. Runs R code.
SEXP ffi_task_try(SEXP list, SEXP fun, SEXP args) {
  if (!Rf_isFunction(fun) || Rf_getAttrib(args, R_NamesSymbol) != R_NilValue)
    return R_NilValue;
  SEXP roots = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(roots, 0, fun);
  SET_VECTOR_ELT(roots, 1, args);
  SEXP result = ffi_needs(roots);
  UNPROTECT(1);
  if (result != R_NilValue) return result;
  result = ffi_task_submit(list, fun, args, R_NilValue, R_NilValue, R_NilValue);
  return is_task(result) ? result : R_NilValue;
}

// ---- handles of tasks that are there

// handle_of makes a pointer for a task of the cluster of a bundle. The caller holds a reference to
// it; R_NilValue if memory is short. Allocates.
static SEXP handle_of(struct mst_call *task, SEXP cluster) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, task_tag(), R_NilValue));
  Rf_setAttrib(pointer, R_ClassSymbol, task_class());
  SEXP bundle = bundle_for(cluster);
  UNPROTECT(1);
  if (bundle == NULL) return R_NilValue;
  task->refs++;
  R_SetExternalPtrAddr(pointer, task);
  R_SetExternalPtrProtected(pointer, bundle);
  put_in(bundle, task);
  return pointer;
}

static void release_call(void *call) { mst_call_release(call); }

// ffi_task_cause gives a task's cause (pool/result.h) as a task, or NULL.
SEXP ffi_task_cause(SEXP pointer) {
  enum ffi_outcome outcome;
  const struct mst_call *task = ffi_task_of(pointer, &outcome);
  if (task == NULL || task->cause == NULL) return R_NilValue;
  struct mst_call *cause = task->cause;
  cause->refs++;
  (void)ffi_hold(cause, release_call);
  return handle_of(cause,
                   R_ExternalPtrProtected(R_ExternalPtrProtected(pointer)));
}

// The tasks of ffi_tasks_open, each with a reference.
struct open_tasks {
  struct mst_call **tasks;
  R_xlen_t count, room;
};

static void count_task(void *owner, struct mst_call *task) {
  (void)task;
  ((struct open_tasks *)owner)->room++;
}

static void add_task(void *owner, struct mst_call *task) {
  struct open_tasks *open = owner;
  task->refs++;
  open->tasks[open->count++] = task;
}

static void release_tasks(void *owner) {
  struct open_tasks *open = owner;
  while (open->count > 0)
    mst_call_release(open->tasks[--open->count]);
  free(open->tasks);
  free(open);
}

static struct open_tasks *tasks_of(const struct mst_calls *calls) {
  struct open_tasks *open = calloc(1, sizeof *open);
  if (open == NULL) return NULL;
  mst_calls_each_task(calls, count_task, open);
  if (open->room > 0) {
    open->tasks = calloc((size_t)open->room, sizeof(struct mst_call *));
    if (open->tasks == NULL) {
      free(open);
      return NULL;
    }
    mst_calls_each_task(calls, add_task, open);
  }
  return open;
}

// ffi_tasks_open gives the tasks of the nodes' cluster that aren't over, but for parts of maps: a
// list, or an outcome.
SEXP ffi_tasks_open(SEXP list) {
  struct nodes nodes;
  const int outcome = read_nodes(list, &nodes);
  if (outcome != 0) return Rf_ScalarInteger(outcome);
  struct open_tasks *open = tasks_of(&nodes.cluster->calls);
  if (open == NULL) return Rf_ScalarInteger(FFI_MEMORY);
  (void)ffi_hold(open, release_tasks);
  SEXP pointers = PROTECT(Rf_allocVector(VECSXP, open->count));
  for (R_xlen_t i = 0; i < open->count; i++)
    SET_VECTOR_ELT(pointers, i, handle_of(open->tasks[i], nodes.pointer));
  UNPROTECT(1);
  return pointers;
}
