// Processes that this session launches for workers that aren't muster's: Rscript, ssh, a container.
// See stock.h.
//
// They are children of the session, each in a group of its own. The session gets no notice when one
// ends (SIGCHLD is the user's), so every entry here checks them; one whose pointer is gone stays in
// the list until it is reaped.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <R_ext/Print.h>

#include "base/mst_clock.h"
#include "ffi/stock/stock.h"

static struct stock_process *processes;

static SEXP process_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_process_pointer");
}

struct stock_process *ffi_stock_process_of(SEXP pointer) {
  struct stock_process *process = ffi_address_of(pointer, process_tag());
  return process != NULL && process->owner == ffi_self() ? process : NULL;
}

static void show(const struct stock_process *process, const char *line,
                 size_t n) {
  static SEXP symbol;
  SEXP quiet = Rf_GetOption1(ffi_symbol(&symbol, "muster.quiet"));
  if (TYPEOF(quiet) == LGLSXP && Rf_asLogical(quiet) == 1) return;
  ffi_line_clear();
  REprintf("worker %d: %.*s\n", process->worker, (int)n, line);
}

void ffi_stock_end_line(struct stock_process *process) {
  const size_t length = process->line_length;
  process->line_length =
      0; // first: showing it may run R code that comes here, too
  if (length > 0) show(process, process->line, length);
}

static void take_output(struct stock_process *process, const char *bytes,
                        size_t n, int to_show) {
  mst_tail_write(&process->tail, bytes, n);
  for (size_t i = 0; i < n; i++) {
    const int ends = bytes[i] == '\n';
    if (!ends) process->line[process->line_length++] = bytes[i];
    if (ends || process->line_length == sizeof process->line) {
      const size_t length = process->line_length;
      process->line_length =
          0; // showing it may run R code that comes here, too
      if (to_show) show(process, process->line, length);
    }
  }
}

void ffi_stock_attend(struct stock_process *process, int to_show) {
  char bytes[4096];
  // 1 MiB at most: a process that prints without end must not keep R here.
  for (int round = 0; round < 256 && process->output >= 0; round++) {
    const int64_t got =
        mst_net_read(process->output, bytes, sizeof bytes, NULL);
    if (got == -MST_EAGAIN) break;
    if (got < 0) mst_net_close(&process->output);
    if (got > 0) take_output(process, bytes, (size_t)got, to_show);
  }
  if (process->how == MST_EXIT_NONE) {
    const int alone = !process->told && !process->forgotten && !process->ended;
    (void)(alone ? mst_reap_alone : mst_reap)(process->pid, &process->how,
                                              &process->number);
  }
}

// drop_input empties the process's standard input. Its children share the file offset, perhaps as
// another user.
static void drop_input(struct stock_process *process) {
  if (process->input.fd < 0) return;
  const int rc = ftruncate(process->input.fd, 0);
  (void)rc; // can't fail for lack of our memory
  mst_segment_close(&process->input);
}

static void free_process(struct stock_process *process) {
  drop_input(process);
  mst_net_close(&process->output);
  mst_tail_free(&process->tail);
  free(process);
}

// sweep reaps those without a pointer. A forked child has none of its parent's.
static void sweep(void) {
  struct stock_process **at = &processes;
  while (*at != NULL) {
    struct stock_process *process = *at;
    if (process->owner != ffi_self()) {
      *at = process->next;
      continue;
    }
    if (process->forgotten || process->ended) ffi_stock_attend(process, 0);
    if (process->forgotten && process->how != MST_EXIT_NONE) {
      *at = process->next;
      free_process(process);
    } else {
      at = &process->next;
    }
  }
}

static void finalize_process(SEXP pointer) {
  struct stock_process *process = R_ExternalPtrAddr(pointer);
  if (process != NULL && process->owner == ffi_self()) {
    process->forgotten = 1;
    drop_input(process);
  }
  R_ClearExternalPtr(pointer);
}

static int start(struct stock_process *process, struct mst_spawn *spawn,
                 struct mst_err *err) {
  int pipe_fds[2];
  int rc = mst_net_pipe(pipe_fds, err);
  if (rc != 0) return rc;
  mst_net_raise(&pipe_fds[0]);
  spawn->output = pipe_fds[1];
  spawn->fds[2] = -1;
  rc = mst_spawn_run(spawn, &process->pid, err);
  mst_net_close(&pipe_fds[1]);
  if (rc != 0) {
    mst_net_close(&pipe_fds[0]);
    return rc;
  }
  process->output = pipe_fds[0];
  return 0;
}

// open_input puts a program's standard input where nobody else can read it and no pipe fills up: in
// memory, or in a file that is already unlinked. input: list(bytes, path for such a file), NULL for
// none.
static int open_input(SEXP input, struct mst_segment *segment,
                      struct mst_err *err) {
  if (Rf_isNull(input)) return 0;
  SEXP bytes = VECTOR_ELT(input, 0);
  const char *path = CHAR(STRING_ELT(VECTOR_ELT(input, 1), 0));
  const size_t n = (size_t)Rf_xlength(bytes);
  int rc = mst_segment_open(segment, n, err);
  if (rc != 0 && err->sys_errno != EFBIG) { // a file would raise SIGXFSZ, too
    mst_err_clear(err);
    rc = mst_segment_open_file(segment, path, err);
    if (rc == 0) (void)unlink(path);
  }
  return rc != 0 ? rc : mst_segment_append(segment, RAW(bytes), n, err);
}

// ffi_stock_spawn starts a program. Gives its pointer, or list(error, call, errno). input: see
// open_input().
SEXP ffi_stock_spawn(SEXP file, SEXP argv, SEXP env, SEXP worker, SEXP input) {
  sweep();
  struct mst_spawn spawn;
  ffi_fill_spawn(&spawn, file, argv, env);
  SEXP pointer =
      PROTECT(ffi_own(process_tag(), R_NilValue, finalize_process, 0));
  struct mst_err err;
  mst_err_clear(&err);
  struct stock_process *process = calloc(1, sizeof *process);
  if (process == NULL) Rf_error("no memory for a process");
  process->output = -1;
  process->input = MST_SEGMENT_NONE;
  process->owner = ffi_self();
  process->worker = Rf_asInteger(worker);
  int rc = open_input(input, &process->input, &err);
  spawn.input = process->input.fd;
  if (rc == 0) rc = start(process, &spawn, &err);
  if (rc != 0) {
    free_process(process);
    UNPROTECT(1);
    return ffi_error_list(&err);
  }
  process->next = processes;
  processes = process;
  R_SetExternalPtrAddr(pointer, process);
  UNPROTECT(1);
  return pointer;
}

// ffi_stock_told: the process has read its standard input, which is emptied, so that nobody can
// read it later.
SEXP ffi_stock_told(SEXP pointer) {
  struct stock_process *process = ffi_stock_process_of(pointer);
  if (process != NULL) {
    process->told = 1;
    drop_input(process);
  }
  return R_NilValue;
}

// ffi_stock_hang_up: nobody reads the output of children that an ended process left behind any
// more. Ignored while it runs.
SEXP ffi_stock_hang_up(SEXP pointer) {
  struct stock_process *process = ffi_stock_process_of(pointer);
  if (process == NULL) return R_NilValue;
  ffi_stock_attend(process, 1);
  if (process->how != MST_EXIT_NONE) mst_net_close(&process->output);
  return R_NilValue;
}

// ffi_stock_process gives list(pid, running, how, number, output).
SEXP ffi_stock_process(SEXP pointer) {
  static const char *const names[] = {"pid", "running", "how", "number",
                                      "output"};
  sweep();
  struct stock_process *process = ffi_stock_process_of(pointer);
  if (process == NULL) return R_NilValue;
  ffi_stock_attend(process, 0);
  SEXP list = PROTECT(ffi_list(5, names));
  SET_VECTOR_ELT(list, 0, Rf_ScalarInteger((int)process->pid));
  SET_VECTOR_ELT(list, 1, Rf_ScalarLogical(process->how == MST_EXIT_NONE));
  SET_VECTOR_ELT(list, 2, Rf_ScalarInteger((int)process->how));
  SET_VECTOR_ELT(list, 3, Rf_ScalarInteger(process->number));
  SET_VECTOR_ELT(list, 4, ffi_tail_text(&process->tail));
  UNPROTECT(1);
  return list;
}

// ffi_stock_kill sends a signal to the process's group, unless it was reaped: then the pid may be
// another's.
SEXP ffi_stock_kill(SEXP pointer, SEXP signal) {
  struct stock_process *process = ffi_stock_process_of(pointer);
  if (process == NULL) return Rf_ScalarLogical(0);
  ffi_stock_attend(process, 0);
  if (process->how != MST_EXIT_NONE) return Rf_ScalarLogical(0);
  return Rf_ScalarLogical(kill(-process->pid, Rf_asInteger(signal)) == 0);
}

static int some_run(void) {
  const struct stock_process *at = processes;
  while (at != NULL && at->how != MST_EXIT_NONE)
    at = at->next;
  return at != NULL;
}

// ffi_stock_end waits for the processes whose workers lost their session, so that none stays a
// zombie when muster is unloaded.
SEXP ffi_stock_end(SEXP timeout_s) {
  const int64_t deadline_ns = ffi_deadline(timeout_s);
  sweep();
  for (struct stock_process *at = processes; at != NULL; at = at->next) {
    at->ended = 1;
    drop_input(at);
  }
  sweep();
  while (some_run() && mst_clock_now() < deadline_ns) {
    (void)poll(NULL, 0, 1);
    sweep();
  }
  return R_NilValue;
}
