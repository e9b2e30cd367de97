// What becomes of tasks: waiting for them, their values, their ends.
#include <string.h>

#include "base/mst_clock.h"
#include "ffi/session/session.h"

// ---- waiting

// worker_with gives the worker that has a task, or NULL.
static struct mst_peer *worker_with(const struct mst_call *task) {
  if (task->mailbox == NULL) return NULL;
  return mst_task_cluster(task)->peers[task->mailbox->worker];
}

// A wait is polling for this long at most, before everything else gets its turn.
#define POLLING_NS (2 * MST_NS_PER_MS)

// spin_for polls the worker that has the task for a short while; all workers, while the task waits
// for others, and for longer if these come to their ends.
static void spin_for(struct mst_session *session, const struct mst_call *task) {
  struct mst_peer *first = worker_with(task);
  struct mst_spin *spin = &session->spin;
  int64_t spin_ns = 0;
  if (first != NULL) {
    spin_ns = mst_peers_spin_ns(&first, 1, &spin);
  } else if (task->held && mst_spin_begin(spin)) {
    spin_ns = MST_SPIN_NS;
  }
  if (spin_ns == 0) return;
  const int64_t most_ns = mst_clock_now() + POLLING_NS;
  int64_t now_ns, end_ns = most_ns - POLLING_NS + spin_ns;
  const uint64_t before = session->counts.tasks_done;
  uint64_t over = before;
  do {
    struct mst_peer *peer = worker_with(task);
    if (peer != NULL) {
      mst_peer_poll(peer);
    } else if (!task->held || mst_session_serve(session) < 0) {
      break;
    }
    now_ns = mst_clock_now();
    if (session->counts.tasks_done != over) {
      over = session->counts.tasks_done;
      end_ns = now_ns + spin_ns;
    }
  } while (!mst_call_is_done(task) && task->said == NULL && now_ns < end_ns &&
           now_ns < most_ns);
  mst_spin_end(spin, over != before);
}

// Asking for a task waits for it. A task for whose answer memory is too short counts as done:
// ffi_task_value then reports that.
static int is_done_at(SEXP tasks, R_xlen_t i) {
  enum ffi_outcome outcome;
  struct mst_call *task = ffi_task_of(VECTOR_ELT(tasks, i), &outcome);
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

// wait_for_all waits for one after the other, so that there may be very many; until any task has
// said more than `said` values.
static void wait_for_all(struct mst_session *session, SEXP tasks, uint64_t said,
                         int64_t deadline_ns) {
  R_xlen_t i = 0;
  while (i < Rf_xlength(tasks) && session->counts.said == said &&
         mst_clock_now() < deadline_ns) {
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
                         uint64_t said, int64_t deadline_ns) {
  uint64_t before = session->counts.tasks_done;
  R_xlen_t have = look(tasks, done);
  while (have == 0 && Rf_xlength(tasks) > 0 && session->counts.said == said &&
         mst_clock_now() < deadline_ns) {
    ffi_wait_slice(session, mst_clock_ms_until(deadline_ns, FFI_SLICE_MS));
    if (session->counts.tasks_done == before && !is_stuck(session)) continue;
    before = session->counts.tasks_done;
    have = look(tasks, done);
  }
}

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

// take_said takes the oldest value of the first task that has said one: list(index, value), or
// NULL.
static SEXP take_said(SEXP tasks) {
  enum ffi_outcome outcome;
  for (R_xlen_t i = 0; i < Rf_xlength(tasks); i++) {
    struct mst_call *task = ffi_task_of(VECTOR_ELT(tasks, i), &outcome);
    struct mst_call *said = task == NULL ? NULL : mst_call_take_said(task);
    if (said == NULL) continue;
    SEXP value = PROTECT(value_of(said));
    SEXP pair = PROTECT(Rf_allocVector(VECSXP, 2));
    SET_VECTOR_ELT(pair, 0, Rf_ScalarInteger((int)i + 1));
    SET_VECTOR_ELT(pair, 1, value);
    UNPROTECT(2);
    return pair;
  }
  return R_NilValue;
}

static int any_said(SEXP tasks) {
  enum ffi_outcome outcome;
  for (R_xlen_t i = 0; i < Rf_xlength(tasks); i++) {
    const struct mst_call *task = ffi_task_of(VECTOR_ELT(tasks, i), &outcome);
    if (task != NULL && task->said != NULL) return 1;
  }
  return 0;
}

// wait_for waits until `wanted` of the tasks are done or one of them has said something, which it
// takes: see take_said. Not with `leave`.
static SEXP wait_for(struct mst_session *session, SEXP tasks, SEXP done,
                     R_xlen_t wanted, int leave, int64_t deadline_ns) {
  for (;;) {
    const uint64_t before = session->counts.said;
    if (wanted == 1) {
      wait_for_one(session, tasks, done, before, deadline_ns);
    } else {
      wait_for_all(session, tasks, before, deadline_ns);
    }
    if (ffi_has_news(session)) ffi_wait_slice(session, 0);
    const R_xlen_t have = look(tasks, done);
    if (leave && any_said(tasks)) return R_NilValue;
    SEXP said = take_said(tasks); // after look: an answer follows what was said
    if (said != R_NilValue || session->counts.said == before ||
        have >= wanted || mst_clock_now() >= deadline_ns)
      return said;
  }
}

// ffi_task_wait waits until all tasks of a list are done, or `any` one, or until the time limit: a
// logical vector. Once a task has said something before its answer, it returns that instead:
// list(index, value); ask again. With NA for `any`, it returns then, too, but takes nothing. A
// limit of 0 only checks, but may run R code to tell of events.
SEXP ffi_task_wait(SEXP tasks, SEXP any, SEXP timeout_s) {
  struct mst_session *session = ffi_session_or_null();
  SEXP done = PROTECT(Rf_allocVector(LGLSXP, Rf_xlength(tasks)));
  SEXP said = R_NilValue;
  if (session != NULL) {
    const int how = Rf_asLogical(any), leave = how == NA_LOGICAL;
    const R_xlen_t wanted = how == 0 ? Rf_xlength(tasks) : 1;
    ffi_run_slice(session, 0);
    if (!leave) said = take_said(tasks);
    const int64_t deadline_ns =
        leave && any_said(tasks) ? 0 : ffi_deadline(timeout_s);
    if (said == R_NilValue)
      said = wait_for(session, tasks, done, wanted, leave, deadline_ns);
  } else {
    (void)look(tasks, done);
  }
  UNPROTECT(1);
  return said == R_NilValue ? done : said;
}

// ffi_task_look tells which tasks are done; which also if they have said something, with `said`.
// Runs no R code.
SEXP ffi_task_look(SEXP tasks, SEXP said) {
  struct mst_session *session = ffi_session_or_null();
  SEXP done = PROTECT(Rf_allocVector(LGLSXP, Rf_xlength(tasks)));
  if (session != NULL) ffi_run_slice(session, 0);
  (void)look(tasks, done);
  enum ffi_outcome outcome;
  for (R_xlen_t i = 0; Rf_asLogical(said) == 1 && i < Rf_xlength(tasks); i++) {
    const struct mst_call *task = ffi_task_of(VECTOR_ELT(tasks, i), &outcome);
    if (task != NULL && task->said != NULL) LOGICAL(done)[i] = 1;
  }
  UNPROTECT(1);
  return done;
}

// note_drawn: the task changed its worker's own random stream without permission. Returns whether R
// code is to tell the user so.
static int note_drawn(SEXP pointer, const struct mst_call *task) {
  static SEXP quiet;
  if ((task->flags & (MST_FLAG_SEED | MST_FLAG_RNG)) == 0) return 0;
  if (Rf_getAttrib(pointer, ffi_symbol(&quiet, "quiet")) != R_NilValue)
    return 0;
  ffi_call_ours(FFI_NOTE_DRAWN, NULL);
  return 1;
}

static int is_free(SEXP pointer) {
  static SEXP known;
  return Rf_getAttrib(pointer, ffi_symbol(&known, "free")) != R_NilValue;
}

static SEXP answer_of(SEXP pointer, struct mst_call *task, int drawn) {
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
  if (!failed && ffi_is_refused(value, NULL) && !is_free(pointer)) {
    // R code says what is wrong with it.
    list = PROTECT(Rf_allocVector(VECSXP, 2));
    SET_VECTOR_ELT(list, 0, value);
    SET_VECTOR_ELT(list, 1, Rf_ScalarInteger((int)task->worker + 1));
  } else if (!failed && n == 2 && !drawn) { // only a value
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

static SEXP said_before(struct mst_call *said) {
  const int worker = (int)said->worker + 1;
  SEXP value = PROTECT(value_of(said));
  SEXP list = PROTECT(Rf_allocVector(VECSXP, 3));
  SET_VECTOR_ELT(list, 0, value);
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger(worker));
  SET_VECTOR_ELT(list, 2, Rf_ScalarLogical(1));
  UNPROTECT(2);
  return list;
}

// ffi_task_value waits for one task: list(value); list(value, error, conditions, worker, dropped),
// also of a plain value if the task drew random numbers without a seed;
// list(value, worker) if the value can't be used here; list(said, worker, TRUE) if it has said
// something before its answer, ask again; an outcome: FFI_FOREIGN, FFI_BROKEN,
// FFI_MEMORY (ask again later), FFI_LOST (see ffi_task_loss), FFI_STOPPED if it was cancelled; NULL
// at the time limit.
SEXP ffi_task_value(SEXP pointer, SEXP timeout_s) {
  enum ffi_outcome outcome;
  struct mst_call *task = ffi_task_of(pointer, &outcome);
  if (task == NULL) return Rf_ScalarInteger((int)outcome);
  struct mst_session *session = ffi_session_or_null();
  int no_memory = mst_task_await(task) != 0;
  if (!mst_call_is_done(task) && !no_memory) spin_for(session, task);
  int64_t deadline_ns = 0;
  while (!mst_call_is_done(task) && task->said == NULL) {
    if (no_memory) return Rf_ScalarInteger(FFI_MEMORY);
    if (deadline_ns == 0) deadline_ns = ffi_deadline(timeout_s);
    if (mst_clock_now() >= deadline_ns) return R_NilValue;
    ffi_wait_slice(session, mst_clock_ms_until(deadline_ns, FFI_SLICE_MS));
    if (ffi_task_of(pointer, &outcome) == NULL) // R code ran
      return Rf_ScalarInteger((int)outcome);
    no_memory = mst_task_await(task) != 0;
    if (task->held) spin_for(session, task);
  }
  // Show what the I/O thread received while R was away.
  if (ffi_has_news(session)) ffi_wait_slice(session, 0);
  struct mst_call *said = mst_call_take_said(task);
  if (said != NULL) return said_before(said);
  if (task->state == MST_CALL_DONE) {
    const int drawn = note_drawn(pointer, task);
    return answer_of(pointer, task, drawn);
  }
  return Rf_ScalarInteger(task->state == MST_CALL_CANCELLED ? FFI_STOPPED
                                                            : FFI_LOST);
}

// ffi_task_loss gives ffi_loss_list's list; TRUE if no worker that may take the task was left; NULL
// if its cluster was stopped, or has been since.
SEXP ffi_task_loss(SEXP pointer) {
  enum ffi_outcome outcome;
  const struct mst_call *task = ffi_task_of(pointer, &outcome);
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
  struct mst_call *task = ffi_task_of(pointer, &outcome);
  if (task == NULL) return Rf_ScalarInteger((int)outcome);
  return Rf_ScalarLogical(mst_task_cancel(task));
}

// running_ns tells for how long a worker has been evaluating a task, -1 if none is.
static int64_t running_ns(const struct mst_call *task, int64_t now_ns) {
  const struct mst_peer *peer = worker_with(task);
  if (peer == NULL || !task->sent || task->mailbox->first != task) return -1;
  return now_ns - peer->worker->head_ns;
}

static SEXP seconds_of(int64_t ns) {
  return Rf_ScalarReal(ns < 0 ? NA_REAL : (double)ns / 1e9);
}

static const char *state_of(const struct mst_call *task, int runs) {
  static const char *const states[] = {"queued", "running", "done", "lost",
                                       "cancelled"};
  const int failed =
      task->state == MST_CALL_DONE && (task->flags & MST_FLAG_ERROR) != 0;
  const int late = task->state == MST_CALL_LOST && task->loss != NULL &&
                   task->loss->kind == MST_LOSS_TIMEOUT;
  return failed                                   ? "failed"
         : late                                   ? "timed out"
         : task->held                             ? "waiting"
         : task->state == MST_CALL_GIVEN && !runs ? "next"
                                                  : states[task->state];
}

// ffi_task_state gives list(state, id, worker, seconds, label, age, priority): state "next" is that
// of a task that its worker has and doesn't evaluate yet; seconds: of evaluation, so far or from
// when it was sent; age: since it was submitted, until its end.
SEXP ffi_task_state(SEXP pointer) {
  static const char *const names[] = {"state", "id",  "worker",  "seconds",
                                      "label", "age", "priority"};
  enum ffi_outcome outcome;
  const struct mst_call *task = ffi_task_of(pointer, &outcome);
  if (task == NULL) return Rf_ScalarInteger((int)outcome);
  SEXP list = PROTECT(ffi_list(7, names));
  const int is_done = mst_call_is_done(task);
  const int64_t now_ns = mst_clock_now();
  const int64_t ran_ns = running_ns(task, now_ns);
  const int has = task->state == MST_CALL_GIVEN || task->state == MST_CALL_DONE;
  SET_VECTOR_ELT(list, 0, Rf_mkString(state_of(task, ran_ns >= 0)));
  SET_VECTOR_ELT(list, 1, Rf_ScalarReal((double)task->serial));
  SET_VECTOR_ELT(list, 2,
                 Rf_ScalarInteger(has ? (int)task->worker + 1 : NA_INTEGER));
  SET_VECTOR_ELT(list, 3,
                 seconds_of(is_done && task->sent_ns > 0
                                ? task->done_ns - task->sent_ns
                                : ran_ns));
  SET_VECTOR_ELT(list, 4, ffi_label(task));
  SET_VECTOR_ELT(
      list, 5, seconds_of((is_done ? task->done_ns : now_ns) - task->asked_ns));
  SET_VECTOR_ELT(list, 6, Rf_ScalarInteger(task->queued.priority));
  UNPROTECT(1);
  return list;
}

// ---- what it was

static void release_blob(void *blob) { mst_blob_release(blob); }
static SEXP read_kept(struct mst_blob *blob) {
  if (blob == NULL) return R_NilValue;
  blob->refs++; // reading runs R code
  (void)ffi_hold(blob, release_blob);
  return ffi_unserialize(blob->buf.data, blob->buf.len);
}

// ffi_task_question gives list(call, numbers, values): what a task with an error or a loss was
// asked, and the jobs that this needed; FALSE if that was too large to be kept; NULL of other
// tasks. Runs R code.
SEXP ffi_task_question(SEXP pointer) {
  static const char *const names[] = {"call", "numbers", "values"};
  enum ffi_outcome outcome;
  const struct mst_call *task = ffi_task_of(pointer, &outcome);
  if (task == NULL) return Rf_ScalarInteger((int)outcome);
  if (!mst_call_has_failed(task)) return R_NilValue;
  if (task->payload == NULL) return Rf_ScalarLogical(0);
  struct mst_job *job = task->job;
  const uint32_t n = job == NULL             ? 0
                     : job->member_count > 0 ? job->member_count
                                             : 1;
  SEXP list = PROTECT(ffi_list(3, names));
  SEXP numbers = SET_VECTOR_ELT(list, 1, Rf_allocVector(REALSXP, n));
  SEXP values = SET_VECTOR_ELT(list, 2, Rf_allocVector(VECSXP, n));
  for (uint32_t i = 0; i < n; i++) {
    const struct mst_job *one = job->member_count > 0 ? job->members[i] : job;
    REAL(numbers)[i] = (double)one->id;
    SET_VECTOR_ELT(values, i, read_kept(one->bytes));
  }
  SET_VECTOR_ELT(list, 0, read_kept(task->payload));
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
  const struct mst_call *task = ffi_task_of(pointer, &outcome);
  if (task == NULL) return R_NilValue;
  const char *bytes = CHAR(STRING_ELT(text, 0)); // as if it were printed
  SEXP bundle = R_ExternalPtrProtected(pointer);
  struct mst_cluster *cluster =
      ffi_cluster_of(R_ExternalPtrProtected(bundle), &outcome);
  if (cluster == NULL) return R_NilValue; // stopped
  struct mst_log_part part = {0};
  const int seen = cluster->shown == cluster->log.next;
  mst_log_write(&cluster->log, &part, task->worker, task->label, bytes,
                strlen(bytes));
  if (seen) cluster->shown = cluster->log.next;
  return R_NilValue;
}
