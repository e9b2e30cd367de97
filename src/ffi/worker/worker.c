// The worker's R thread: hello, set-up, and the loop that evaluates calls.
//
// The loop is in C and the error handlers are outside of it, in R (serve_calls): a tryCatch for
// each call would cost 5 us. An error leaves the loop by R's longjmp; R code then answers it and
// enters the loop again. So nothing here is held across an evaluation unless R owns it or it is
// static.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "ffi/worker/this.h"
#include "fork/child.h"
#include "fork/fork.h"
#include "loop/chan.h"
#include "pool/spin.h"
#include "shuffle/exchange.h"

static void hold_fd(int fd) { (void)fcntl(fd, F_SETFD, FD_CLOEXEC); }

// ffi_worker_begin makes this process a worker: forked ones have their watch already, booted ones
// start it here. session: pid of the session.
SEXP ffi_worker_begin(SEXP forked, SEXP session) {
  const int is_forked = Rf_asLogical(forked);
  struct mst_err err;
  mst_err_clear(&err);
  mst_assert_on_failure(
      NULL); // from here on a failed assertion ends the process
  if (!is_forked) {
    mst_thread_mark_r();
    for (int fd = MST_FD_DATA; fd <= MST_FD_SESSION; fd++)
      hold_fd(fd);
    if (mst_watch_start(MST_FD_CONTROL, mst_fds_session(),
                        (pid_t)Rf_asInteger(session), &err) != 0) {
      Rf_error(MST_CANT_START "%s: errno %d", err.call, err.sys_errno);
    }
    // Killed with the session until now. From here on the watch cleans up, which it can't do in a
    // stopped process.
    mst_proc_die_with_parent(SIGCONT);
  }
  mst_watch_crashes();
  // Past RLIMIT_FSIZE a write is an error, not the end of all that this worker has.
  struct sigaction ignored;
  memset(&ignored, 0, sizeof ignored);
  ignored.sa_handler = SIG_IGN;
  (void)sigaction(SIGXFSZ, &ignored, NULL);
  if (mst_exchange_begin(&err) != 0) {
    Rf_error(MST_CANT_START "%s: errno %d", err.call, err.sys_errno);
  }
  ffi_this.output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, MST_FD_SESSION + 1);
  if (ffi_this.output < 0) {
    Rf_error(MST_CANT_START "fcntl: errno %d", errno);
  }
  ffi_this_open_channel();
  ffi_this.session = Rf_asInteger(session);
  ffi_this.keep = Rf_allocVector(VECSXP, 1);
  R_PreserveObject(ffi_this.keep);
  ffi_conditions_forget();
  ffi_this.reply = mst_blob_new();
  if (ffi_this.reply == NULL) Rf_error("no memory for a worker");
  ffi_this_say_hello(is_forked);
  return R_NilValue;
}

// ---- set-up

static SEXP read_frame(const struct mst_frame *frame) {
  ffi_share_collect();
  ffi_this.reading = 1;
  const uint16_t flags = frame->head.flags;
  const size_t skip = (flags & MST_FLAG_SEGMENT) != 0 ? MST_SEGMENT_BYTES : 0;
  struct mst_map *map = mst_chan_map(&ffi_this.chan, frame);
  if (map != NULL) mst_map_forget(map); // it is read only once
  SEXP content = ffi_unserialize_message(flags, frame->payload,
                                         (size_t)frame->head.length, skip, map);
  ffi_this.reading = 0;
  mst_chan_take(&ffi_this.chan, frame);
  return content;
}

// ffi_worker_setup waits for SETUP and gives its content, NULL if the session ended meanwhile.
SEXP ffi_worker_setup(void) {
  struct mst_frame frame;
  if (!ffi_this_next_frame(&frame) || frame.head.kind != MST_KIND_SETUP) {
    return R_NilValue;
  }
  if (ffi_this.session != 0) { // else it is a fork server's
    char title[FFI_TITLE_BYTES];
    ffi_this_title(title, "worker", &frame);
    mst_proc_title(title);
  }
  ffi_this.cluster = frame.head.cluster;
  ffi_this.worker = frame.head.worker;
  return read_frame(&frame);
}

SEXP ffi_worker_ready(SEXP tempdir) {
  ffi_this_say_ready(Rf_translateCharUTF8(STRING_ELT(tempdir, 0)));
  return R_NilValue;
}

SEXP ffi_worker_failed(SEXP text) {
  ffi_this_say_text(MST_KIND_FAILED, Rf_translateCharUTF8(STRING_ELT(text, 0)));
  return R_NilValue;
}

// ---- evaluating

// quoted protects an argument from evaluation: symbols, calls and compiled expressions (doParallel
// sends these).
static SEXP quoted(SEXP value) {
  switch (TYPEOF(value)) {
  case SYMSXP:
  case LANGSXP:
  case PROMSXP:
  case BCODESXP:
    return Rf_lang2(R_QuoteSymbol, value);
  default:
    return value;
  }
}

// What tasks and maps call: functions of muster's own, by names that nobody else uses.
static const char *const own_calls[] = {"muster:::task_run",
                                        "muster:::map_piece"};

// function_of gives the function of such a name, or the name for the call itself to look up.
static SEXP function_of(SEXP name) {
  const char *text = CHAR(STRING_ELT(name, 0));
  for (size_t i = 0; i < sizeof own_calls / sizeof *own_calls; i++) {
    if (strcmp(text, own_calls[i]) == 0)
      return ffi_ours(text + strlen("muster:::"));
  }
  return Rf_installTrChar(STRING_ELT(name, 0));
}

// call_of builds fun(args), as do.call(fun, args, quote = TRUE) would.
static SEXP call_of(SEXP fun, SEXP args) {
  const int by_name = TYPEOF(fun) == STRSXP && Rf_xlength(fun) == 1;
  if (!by_name && !Rf_isFunction(fun)) {
    Rf_error("'what' must be a function or character string");
  }
  SEXP names = PROTECT(Rf_getAttrib(args, R_NamesSymbol));
  SEXP list = R_NilValue;
  PROTECT_INDEX at;
  PROTECT_WITH_INDEX(list, &at);
  for (R_xlen_t i = Rf_xlength(args); i-- > 0;) {
    SEXP value = PROTECT(quoted(VECTOR_ELT(args, i)));
    REPROTECT(list = Rf_cons(value, list), at);
    UNPROTECT(1);
    if (TYPEOF(names) == STRSXP && CHAR(STRING_ELT(names, i))[0] != '\0') {
      SET_TAG(list, Rf_installTrChar(STRING_ELT(names, i)));
    }
  }
  if (by_name) fun = function_of(fun);
  SEXP call = Rf_lcons(fun, list);
  UNPROTECT(2);
  return call;
}

static double seconds(struct timeval end, struct timeval begin) {
  return (double)(end.tv_sec - begin.tv_sec) +
         (double)(end.tv_usec - begin.tv_usec) / 1e6;
}

static void begin_times(void) {
  ffi_this.timed = 1;
  ffi_this.begin_ns = mst_clock_now();
  (void)getrusage(RUSAGE_SELF, &ffi_this.begin_usage);
}

static void put_times(uint8_t out[MST_VALUE_HEAD_BYTES]) {
  if (!ffi_this.timed) { // the call could not even be read
    mst_value_head_encode(&(struct mst_value_head){0}, out);
    return;
  }
  struct rusage usage;
  (void)getrusage(RUSAGE_SELF, &usage);
  const struct mst_value_head head = {
      .user_s = seconds(usage.ru_utime, ffi_this.begin_usage.ru_utime),
      .system_s = seconds(usage.ru_stime, ffi_this.begin_usage.ru_stime),
      .elapsed_s = (double)(mst_clock_now() - ffi_this.begin_ns) / 1e9};
  mst_value_head_encode(&head, out);
}

static void put_bytes(const uint8_t *bytes, size_t n) {
  if (mst_buf_append(&ffi_this.reply->buf, bytes, n) != 0) {
    Rf_error("no memory for an answer");
  }
}

// put_head writes the part before an answer's R bytes: times, the random number stream's position
// if the call moved it, the size of the segment if there is one. Returns the flags. Changes are
// kept until they are sent: if an answer can't be serialized, an error with the changes follows.
static uint16_t put_head(struct mst_blob *reply, int same_settings) {
  uint8_t bytes[MST_VALUE_HEAD_BYTES + MST_SEED_BYTES + MST_SEGMENT_BYTES];
  size_t n = MST_VALUE_HEAD_BYTES;
  put_times(bytes);
  ffi_this.changed |= ffi_track_changed(&ffi_this.seed, same_settings);
  if ((ffi_this.changed & MST_FLAG_SEED) != 0) {
    mst_seed_encode(&ffi_this.seed, bytes + n);
    n += MST_SEED_BYTES;
  }
  if (reply->segment.fd >= 0) {
    mst_segment_encode(reply->segment.bytes, bytes + n);
    n += MST_SEGMENT_BYTES;
  }
  put_bytes(bytes, n);
  return ffi_this.changed;
}

static void empty_reply(void) {
  ffi_this.reply->buf.len = 0;
  mst_segment_close(&ffi_this.reply->segment);
}

static int send_reply(struct mst_head *head) {
  const int rc =
      mst_chan_send(&ffi_this.chan, head, ffi_this.reply, NULL, 0, 1, NULL);
  empty_reply();
  mst_buf_trim(&ffi_this.reply->buf, MST_CHAN_KEEP);
  return rc == 0;
}

// answer sends the value of the present call. Raises R errors (no memory); then nothing was sent. 0
// when the session is gone.
static int answer(SEXP value, uint16_t flags) {
  empty_reply(); // the last answer may have been abandoned halfway
  const int same_settings = ffi_left_end();
  if (ffi_share_worth(value)) {
    value = ffi_share_out(value, &ffi_this.reply->segment);
  }
  PROTECT(value);
  flags |= put_head(ffi_this.reply, same_settings);
  SEXP content =
      PROTECT(ffi_conditions_add(value, VECTOR_ELT(ffi_this.keep, 0)));
  ffi_serialize_message(content, ffi_this.reply);
  UNPROTECT(2);
  struct mst_head head = ffi_this.call;
  head.kind = MST_KIND_VALUE;
  head.flags = (uint16_t)(flags | (head.flags & MST_FLAG_REPLAY));
  ffi_this_end_line();
  const int sent = send_reply(&head);
  ffi_conditions_forget();
  ffi_this.call.call = 0;
  ffi_this.changed = 0;
  ffi_this.seed.known = 0;
  return sent;
}

// ffi_worker_say sends a value before the answer to the present call. FALSE if nobody would read
// it; or in a child that the user's code has forked, whose bytes would get among the worker's
// own.
SEXP ffi_worker_say(SEXP value) {
  if (ffi_this.call.call == 0 || ffi_self() != ffi_this.pid ||
      (ffi_this.call.flags & MST_FLAG_REPLAY) != 0)
    return Rf_ScalarLogical(0);
  empty_reply();
  uint8_t times[MST_VALUE_HEAD_BYTES];
  put_times(times);
  put_bytes(times, sizeof times);
  SEXP content = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(content, 0, value);
  SET_VECTOR_ELT(content, 1, VECTOR_ELT(ffi_this.keep, 0));
  ffi_serialize_message(content, ffi_this.reply);
  UNPROTECT(1);
  struct mst_head head = ffi_this.call;
  head.kind = MST_KIND_VALUE;
  head.flags = MST_FLAG_EARLY;
  return Rf_ScalarLogical(send_reply(&head));
}

// end_call ends the user's part of the call. 0 if this worker must end.
static int end_call(void) {
  return ffi_interrupt_end(&ffi_this.raised, &ffi_this.changed, &ffi_this.seed);
}

// note_packages: the session loads what a task's value needs before anybody uses it.
static void note_packages(SEXP value) {
  SEXP classes = PROTECT(ffi_classes_of(value));
  if (Rf_xlength(classes) > 0)
    ffi_conditions_packages(ffi_call_ours(FFI_PACKAGES_OF_VALUE, classes));
  UNPROTECT(1);
}

// evaluate runs one EXEC and answers it. 0 when the session is gone.
static int evaluate(const struct mst_frame *frame, SEXP enclosure) {
  ffi_this.call = frame->head;
  ffi_this.pid = ffi_self();
  ffi_this.timed = 0;
  SET_VECTOR_ELT(ffi_this.keep, 0, R_NilValue);
  // A replayed call has an old number, and is never cancelled.
  const int replay = (frame->head.flags & MST_FLAG_REPLAY) != 0;
  const int is_task = (frame->head.flags & MST_FLAG_TASK) != 0;
  switch (mst_watch_call_begin(replay ? 0 : frame->head.call)) {
  case MST_TAKE_EVALUATE:
    break;
  case MST_TAKE_CANCELLED:
    mst_chan_take(&ffi_this.chan, frame);
    return answer(R_NilValue, MST_FLAG_ERROR);
  case MST_TAKE_WITHDRAWN:
    mst_chan_take(&ffi_this.chan, frame);
    ffi_this.call.call = 0;
    return 1;
  }
  SEXP message = PROTECT(read_frame(frame));
  if (TYPEOF(message) != VECSXP || Rf_xlength(message) != 3) {
    Rf_error("the session sent a call that can't be read");
  }
  SEXP tag = VECTOR_ELT(message, 2);
  ffi_context_enter(is_task && TYPEOF(tag) == REALSXP ? Rf_asReal(tag) : 0);
  if (!is_task) SET_VECTOR_ELT(ffi_this.keep, 0, tag);
  SEXP call = PROTECT(call_of(VECTOR_ELT(message, 0), VECTOR_ELT(message, 1)));
  // Each call has its own frame, as with do.call() in a function.
  SEXP frame_env = PROTECT(R_NewEnv(enclosure, 0, 0));
  // A task's changes are judged and undone here. Those of a verb's call are undone by the standby;
  // or by a replay, where calls do change large values, which would be copied if they were held.
  ffi_track_hold((!ffi_this.stands && !ffi_track_rewrites()) ||
                 (is_task && !replay));
  ffi_stream_look();
  if (is_task) ffi_left_begin();
  begin_times();
  (void)ffi_worker_open();
  SEXP value = PROTECT(Rf_eval(call, frame_env));
  const int goes_on = end_call();
  if (goes_on && is_task && !replay) note_packages(value);
  const int sent = goes_on && answer(value, 0);
  UNPROTECT(4);
  return sent;
}

// set_seed sets the random number stream; without a position it begins one that no worker had.
static void set_seed(const struct mst_frame *frame) {
  struct mst_seed seed = {0};
  if (mst_seed_decode(frame->payload, (size_t)frame->head.length, &seed) != 0) {
    seed.known = 0;
  }
  mst_chan_take(&ffi_this.chan, frame);
  if (seed.known) {
    ffi_track_set_seed(&seed);
  } else {
    ffi_call_ours(FFI_CLEAR_GLOBALS, NULL);
    ffi_stream_renew();
    ffi_track_begin();
  }
}

static void take_job(const struct mst_frame *frame) {
  ffi_this.reading = 1;
  SEXP job =
      PROTECT(ffi_job_of_frame(frame, mst_chan_map(&ffi_this.chan, frame)));
  ffi_this.reading = 0;
  mst_chan_take(&ffi_this.chan, frame);
  ffi_call_ours(FFI_JOB_KEEP, job);
  UNPROTECT(1);
}

static void drop_job(const struct mst_frame *frame) {
  const double id = (double)frame->head.call;
  mst_chan_take(&ffi_this.chan, frame);
  SEXP number = PROTECT(Rf_ScalarReal(id));
  ffi_call_ours(FFI_JOB_DROP, number);
  UNPROTECT(1);
}

// check_depth lets serve_calls() raise options(expressions = ) if it is too low to do so down here.
// The received frame stays.
static void check_depth(void) {
  static SEXP name;
  if (Rf_asInteger(Rf_GetOption1(ffi_symbol(&name, "expressions"))) <
      FFI_LEAST_EXPRESSIONS) {
    Rf_error("options(expressions = ) is too low for a worker");
  }
}

// ffi_worker_serve evaluates calls until the session tells it to end (TRUE) or is gone (FALSE).
// NULL: an interrupt that was meant for the last call may still come. Errors of calls leave it;
// enter it again.
SEXP ffi_worker_serve(SEXP enclosure) {
  struct mst_frame frame;
  ffi_this.raised = 0;
  while (ffi_this_next_frame(&frame)) {
    int sent = 1;
    check_depth();
    ffi_this.taken++;
    switch (frame.head.kind) {
    case MST_KIND_EXEC:
      sent = evaluate(&frame, enclosure);
      break;
    case MST_KIND_SEED:
      set_seed(&frame);
      break;
    case MST_KIND_JOB:
      take_job(&frame);
      break;
    case MST_KIND_DROP:
      drop_job(&frame);
      break;
    case MST_KIND_TRIM:
      sent = ffi_this_trim(&frame);
      break;
    case MST_KIND_CHECKPOINT:
      sent = ffi_this_checkpoint(&frame);
      break;
    case MST_KIND_BYE:
      mst_chan_take(&ffi_this.chan, &frame);
      return Rf_ScalarLogical(1);
    default:
      mst_chan_take(&ffi_this.chan, &frame);
      break;
    }
    if (!sent) break;
    if (ffi_this.raised) return R_NilValue;
  }
  mst_watch_lost();
  return Rf_ScalarLogical(0);
}

// ffi_worker_taken counts the frames taken up: if the number is unchanged after an error, nothing
// that the session sent has caused it.
SEXP ffi_worker_taken(void) { return Rf_ScalarReal(ffi_this.taken); }

static int is_task(void) {
  return ffi_this.call.call != 0 && (ffi_this.call.flags & MST_FLAG_TASK) != 0;
}

SEXP ffi_worker_is_task(void) { return Rf_ScalarLogical(is_task()); }

// ffi_worker_track starts tracking changes of this worker.
SEXP ffi_worker_track(void) {
  ffi_track_begin();
  return R_NilValue;
}

// ffi_worker_answer_error answers the call that raised an error; after an interrupt between two
// calls there is nothing to answer. FALSE when the session is gone, NA if an interrupt may still
// come.
SEXP ffi_worker_answer_error(SEXP value) {
  if (ffi_this.call.call == 0) return Rf_ScalarLogical(1);
  if (!end_call() || !answer(value, MST_FLAG_ERROR)) {
    mst_watch_lost();
    return Rf_ScalarLogical(0);
  }
  return Rf_ScalarLogical(ffi_this.raised ? NA_LOGICAL : 1);
}

// ---- warming: the fork server runs its workers' loop before it forks

// ffi_warm_pair opens a channel to itself: the loop reads from one end what ffi_warm_feed writes to
// the other, whose descriptor it returns.
SEXP ffi_warm_pair(void) {
  int pair[2];
  if (mst_net_pair(pair, NULL) != 0) return Rf_ScalarInteger(-1);
  mst_chan_open(&ffi_this.chan, pair[0], MST_FRAME_MAX);
  ffi_this.keep = Rf_allocVector(VECSXP, 1);
  R_PreserveObject(ffi_this.keep);
  ffi_conditions_forget();
  ffi_this.reply = mst_blob_new();
  return Rf_ScalarInteger(pair[1]);
}

// ffi_warm_feed writes messages, list(fun, args, tag) each, and a BYE. NULL ends the warming:
// closes both ends and resets everything.
SEXP ffi_warm_feed(SEXP fd, SEXP messages) {
  struct mst_chan chan;
  mst_chan_open(&chan, Rf_asInteger(fd), MST_FRAME_MAX);
  if (messages == R_NilValue) {
    mst_chan_close(&chan);
    mst_chan_close(&ffi_this.chan);
    mst_blob_release(ffi_this.reply);
    R_ReleaseObject(ffi_this.keep);
    memset(&ffi_this, 0, sizeof ffi_this);
    return R_NilValue;
  }
  struct mst_blob *blob = mst_blob_new();
  for (R_xlen_t i = 0; blob != NULL && i < Rf_xlength(messages); i++) {
    blob->buf.len = 0;
    ffi_serialize_message(VECTOR_ELT(messages, i), blob);
    struct mst_head exec = {.kind = MST_KIND_EXEC, .call = (uint64_t)i + 1};
    (void)mst_chan_send(&chan, &exec, blob, NULL, 0, 1, NULL);
  }
  mst_blob_release(blob);
  struct mst_head bye = {.kind = MST_KIND_BYE};
  (void)mst_chan_send(&chan, &bye, NULL, NULL, 0, 1, NULL);
  return R_NilValue;
}

// ---- the fork server's R side

// ffi_server_begin reads the server's set-up from its channel, NULL if the
// session is gone.
SEXP ffi_server_begin(void) {
  mst_assert_on_failure(NULL);
  for (int fd = MST_FD_DATA; fd <= MST_FD_SESSION; fd++)
    hold_fd(fd);
  mst_chan_open(&ffi_this.chan, MST_FD_DATA, MST_FRAME_MAX);
  SEXP setup = PROTECT(ffi_worker_setup());
  // Only the channel's buffer: the server goes on using the descriptor.
  mst_buf_free(&ffi_this.chan.in);
  memset(&ffi_this, 0, sizeof ffi_this);
  UNPROTECT(1);
  return setup;
}

// ffi_worker_self gives this worker's number, from 1, and its incarnation's, as in the present
// call.
SEXP ffi_worker_self(void) {
  SEXP self = Rf_allocVector(INTSXP, 2);
  INTEGER(self)[0] = (int)ffi_this.call.worker + 1;
  INTEGER(self)[1] = (int)ffi_this.call.epoch;
  return self;
}
