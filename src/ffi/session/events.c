// Tells the user about workers: their output, losses and restarts. Only while a call of the user's
// waits or ends, never at the prompt.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <R_ext/Print.h>

#include "base/mst_features.h"
#include "base/mst_kernel.h"
#include "ffi/session/session.h"

SEXP ffi_why(enum mst_why why, char *const *text) {
  if (why == MST_WHY_TOLD && *text != NULL) return ffi_text_at(text);
  const int has_words = why != MST_WHY_NONE && why != MST_WHY_TOLD;
  return has_words ? Rf_ScalarInteger((int)why) : R_NilValue;
}

SEXP ffi_loss_list(const struct mst_loss *loss) {
  static const char *const names[] = {
      "kind",     "cluster", "worker", "pid",       "how",    "number", "call",
      "attempts", "again",   "oom",    "fresh_rng", "output", "reason", "tag",
      "ours",     "lacks",   "limit",  "own_limit", "host",   "job",    "ran"};
  static const char *const kinds[] = {"restarted", "poison", "timeout",
                                      "given_up", "redrawn"};
  SEXP list = PROTECT(ffi_list(21, names));
  SET_VECTOR_ELT(list, 0, Rf_mkString(kinds[loss->kind]));
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger((int)loss->cluster));
  SET_VECTOR_ELT(list, 2, Rf_ScalarInteger((int)loss->worker + 1));
  SET_VECTOR_ELT(list, 3, Rf_ScalarInteger((int)loss->pid));
  SET_VECTOR_ELT(list, 4, Rf_ScalarInteger((int)loss->how));
  SET_VECTOR_ELT(list, 5, Rf_ScalarInteger(loss->number));
  SET_VECTOR_ELT(list, 6, Rf_ScalarReal((double)loss->call));
  SET_VECTOR_ELT(list, 7, Rf_ScalarInteger((int)loss->attempts));
  SET_VECTOR_ELT(list, 8, Rf_ScalarInteger((int)loss->again));
  SET_VECTOR_ELT(list, 9, Rf_ScalarLogical(loss->oom));
  SET_VECTOR_ELT(list, 10, Rf_ScalarLogical(loss->fresh_rng));
  const char *output = loss->output == NULL ? "" : loss->output;
  SET_VECTOR_ELT(list, 11, ffi_text(output, strlen(output)));
  SET_VECTOR_ELT(list, 12, ffi_why(loss->why, &loss->reason));
  if (loss->tag != 0) SET_VECTOR_ELT(list, 13, Rf_ScalarInteger(loss->tag));
  SET_VECTOR_ELT(list, 14, Rf_ScalarLogical(loss->ours));
  SET_VECTOR_ELT(list, 15, Rf_ScalarInteger(loss->sys_errno));
  SET_VECTOR_ELT(list, 16, Rf_ScalarReal((double)loss->limit_ns / 1e9));
  SET_VECTOR_ELT(list, 17, Rf_ScalarLogical(loss->own_limit));
  SET_VECTOR_ELT(list, 18, ffi_text_at(&loss->host));
  SET_VECTOR_ELT(list, 19, ffi_text_at(&loss->job));
  SET_VECTOR_ELT(list, 20, Rf_ScalarReal((double)loss->ran_ns / 1e9));
  UNPROTECT(1);
  return list;
}

static void free_event(void *event) { mst_loss_free(event); }

// ffi_events takes all events that weren't reported yet: a list, oldest first.
SEXP ffi_events(void) {
  struct mst_session *session = ffi_session_or_null();
  const R_xlen_t n = session == NULL ? 0 : (R_xlen_t)session->event_count;
  SEXP list = PROTECT(Rf_allocVector(VECSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    struct mst_loss *event = mst_session_event(session);
    if (event == NULL) break; // a finalizer has taken it
    (void)ffi_hold(event, free_event);
    SET_VECTOR_ELT(list, i, ffi_loss_list(event));
    ffi_drop(event);
  }
  UNPROTECT(1);
  return list;
}

static int is_quiet(void) {
  static SEXP symbol;
  SEXP quiet = Rf_GetOption1(ffi_symbol(&symbol, "muster.quiet"));
  return TYPEOF(quiet) == LGLSXP && Rf_asLogical(quiet) == 1;
}

// Where the session's output is caught, as in a knitr document, it is to have workers' lines as
// well, and not the terminal.
static void show_lines(struct mst_cluster *cluster) {
  const struct mst_log *log = &cluster->log;
  const int quiet = is_quiet();
  void (*const show)(const char *, ...) =
      !quiet && Rf_asLogical(ffi_call_ours(FFI_OUTPUT_IS_SUNK, NULL)) == 1
          ? Rprintf
          : REprintf;
  if (cluster->shown < log->first) {
    if (!quiet) {
      show("(%.0f lines of workers were not shown)\n",
           (double)(log->first - cluster->shown));
    }
    cluster->shown = log->first;
  }
  while (cluster->shown < log->next) {
    const struct mst_log_line *line = mst_log_at(log, cluster->shown++);
    if (quiet) continue;
    show("worker %u: %.*s\n", line->worker + 1u, (int)line->length, line->text);
  }
}

static void show_all(struct mst_session *session) {
  for (struct mst_cluster *cluster = session->clusters; cluster != NULL;
       cluster = cluster->next) {
    if (cluster->shown < cluster->log.next) show_lines(cluster);
  }
  if (session->events != NULL) (void)ffi_call_ours(FFI_ANNOUNCE_EVENTS, NULL);
  if (ffi_sites_have_news(session)) (void)ffi_call_ours(FFI_TEND_HOSTS, NULL);
}

void ffi_attend(struct mst_session *session) {
  const int line = ffi_line_is_up() && ffi_has_news(session);
  if (line) ffi_line_clear();
  show_all(session);
  if (line) ffi_line_back();
}

int ffi_has_news(const struct mst_session *session) {
  if (session->events != NULL || ffi_sites_have_news(session)) return 1;
  const struct mst_cluster *cluster = session->clusters;
  while (cluster != NULL && cluster->shown == cluster->log.next)
    cluster = cluster->next;
  return cluster != NULL;
}

static SEXP attend(void *session) {
  ffi_attend(session);
  R_CheckUserInterrupt();
  return R_NilValue;
}

void ffi_wait_slice(struct mst_session *session, int timeout_ms) {
  ffi_run_slice(session, timeout_ms);
  ffi_guarded(attend, NULL, session);
}

// ffi_process_stat gives c(resident bytes, CPU seconds) of a process, NA if unknown.
SEXP ffi_process_stat(SEXP pid) {
  SEXP value = PROTECT(Rf_allocVector(REALSXP, 2));
  REAL(value)[0] = REAL(value)[1] = NA_REAL;
  char path[64], text[1024];
  (void)snprintf(path, sizeof path, MST_PROC "/%d/stat", Rf_asInteger(pid));
  (void)mst_kernel_read(path, text, sizeof text);
  // After the name, which may contain anything but ends with the last ')'.
  const char *at = strrchr(text, ')');
  unsigned long user, system;
  long pages;
  if (at != NULL &&
      sscanf(at,
             ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d "
             "%*d %*d %*d %*d %*u %*u %ld",
             &user, &system, &pages) == 3) {
    REAL(value)[0] = (double)pages * (double)sysconf(_SC_PAGESIZE);
    REAL(value)[1] = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
  }
  UNPROTECT(1);
  return value;
}

static R_xlen_t count_clusters(const struct mst_session *session) {
  R_xlen_t n = 0;
  for (const struct mst_cluster *at = session == NULL ? NULL
                                                      : session->clusters;
       at != NULL; at = at->next)
    n++;
  return n;
}

// ffi_cluster_ids gives the ids of all clusters.
SEXP ffi_cluster_ids(void) {
  const struct mst_session *session = ffi_session_or_null();
  R_xlen_t n = count_clusters(session);
  SEXP ids = PROTECT(Rf_allocVector(INTSXP, n));
  while (n != count_clusters(session)) { // finalizers may start and stop some
    n = count_clusters(session);
    UNPROTECT(1);
    ids = PROTECT(Rf_allocVector(INTSXP, n));
  }
  for (const struct mst_cluster *at = session == NULL ? NULL
                                                      : session->clusters;
       at != NULL; at = at->next)
    INTEGER(ids)[--n] = (int)at->id;
  UNPROTECT(1);
  return ids;
}
