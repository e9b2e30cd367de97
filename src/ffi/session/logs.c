// The lines that a cluster's workers printed, for cluster_logs().
#include <string.h>

#include "ffi/session/session.h"

// Lines of a log, copied while nothing else runs.
struct lines {
  size_t bytes;
  R_xlen_t count;
};

static struct lines lines_of(const struct mst_log *log) {
  struct lines lines = {.count = (R_xlen_t)(log->next - log->first)};
  for (uint64_t at = log->first; at < log->next; at++) {
    const struct mst_log_line *line = mst_log_at(log, at);
    lines.bytes += line->length;
    if (line->task != NULL) lines.bytes += strlen(line->task) + 1;
  }
  return lines;
}

// copy_line copies a line, and its task's label if there is one, to `to`. Returns where the next
// goes.
static char *copy_line(struct mst_log_line *to, const struct mst_log_line *line,
                       char *text) {
  *to = *line;
  to->text = text;
  memcpy(text, line->text, line->length);
  text += line->length;
  if (line->task == NULL) return text;
  to->task = text;
  const size_t n = strlen(line->task) + 1;
  memcpy(text, line->task, n);
  return text + n;
}

// copy_log copies all lines to R's transient memory. `*n` gets their number.
static struct mst_log_line *copy_log(struct mst_cluster *cluster, R_xlen_t *n) {
  struct mst_log *log = &cluster->log;
  struct lines capacity, has = lines_of(log);
  char *texts;
  struct mst_log_line *lines;
  do { // finalizers may add lines
    capacity = has;
    texts = R_alloc(capacity.bytes + 1, 1);
    lines = (struct mst_log_line *)(void *)R_alloc((size_t)capacity.count + 1,
                                                   sizeof *lines);
    has = lines_of(log);
  } while (has.bytes > capacity.bytes || has.count > capacity.count);
  for (R_xlen_t i = 0; i < has.count; i++)
    texts =
        copy_line(&lines[i], mst_log_at(log, log->first + (uint64_t)i), texts);
  cluster->shown = log->next; // the user sees them now
  *n = has.count;
  return lines;
}

// ffi_cluster_logs gives list(worker, time, task, line) of the output that is kept.
SEXP ffi_cluster_logs(SEXP pointer) {
  static const char *const names[] = {"worker", "time", "task", "line"};
  enum ffi_outcome outcome;
  struct mst_cluster *cluster = ffi_cluster_of(pointer, &outcome);
  if (cluster == NULL) return Rf_ScalarInteger((int)outcome);
  ffi_run_slice(cluster->session, 0);
  R_xlen_t n;
  const struct mst_log_line *lines = copy_log(cluster, &n);
  SEXP list = PROTECT(ffi_list(4, names));
  SEXP workers = SET_VECTOR_ELT(list, 0, Rf_allocVector(INTSXP, n));
  SEXP times = SET_VECTOR_ELT(list, 1, Rf_allocVector(REALSXP, n));
  SEXP tasks = SET_VECTOR_ELT(list, 2, Rf_allocVector(STRSXP, n));
  SEXP texts = SET_VECTOR_ELT(list, 3, Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    INTEGER(workers)[i] = (int)lines[i].worker + 1;
    REAL(times)[i] = lines[i].time;
    const char *task = lines[i].task;
    SET_STRING_ELT(tasks, i,
                   task == NULL ? NA_STRING : Rf_mkCharCE(task, CE_UTF8));
    SEXP text = PROTECT(ffi_text(lines[i].text, lines[i].length));
    SET_STRING_ELT(texts, i, STRING_ELT(text, 0));
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return list;
}
