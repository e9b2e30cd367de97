// One message to a worker, one answer from it: the hot path.
//
// EXEC carries an unnamed list(fun, args, tag), and VALUE an unnamed list(value, tag): the names
// and constants of parallel's own messages are known to both sides, and added here. Beyond R's own
// work a trivial call costs two serializations, two system calls, and one wake-up.
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "ffi/session/callers.h"
#include "ffi/session/session.h"

// element finds a list's element by name. parallel builds its messages in a fixed order, so the
// guess is nearly always right.
static SEXP element(SEXP list, int guess, const char *name) {
  if (TYPEOF(list) != VECSXP) return R_NilValue;
  SEXP names = Rf_getAttrib(list, R_NamesSymbol);
  const int n = (int)Rf_xlength(list);
  if (TYPEOF(names) != STRSXP) return R_NilValue;
  if (guess < n && strcmp(CHAR(STRING_ELT(names, guess)), name) == 0) {
    return VECTOR_ELT(list, guess);
  }
  for (int i = 0; i < n; i++) {
    if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0) {
      return VECTOR_ELT(list, i);
    }
  }
  return R_NilValue;
}

static SEXP outcome_of(int rc) {
  switch (rc) {
  case -MST_ECLOSED:
    return Rf_ScalarInteger(FFI_LOST);
  case -MST_EMEM:
  case -MST_ELIMIT:
    return Rf_ScalarInteger(FFI_MEMORY);
  default:
    return Rf_ScalarInteger(FFI_SYSTEM);
  }
}

// ---- an interrupted wait drops what the verb is owed

static void leave_wait(void *data) {
  const void *caller = data;
  struct mst_session *session = ffi_session_or_null();
  if (session == NULL || caller == NULL || caller == R_GlobalEnv) return;
  mst_session_cancel(session, caller);
}

// attend_and_check serves R between two waits: interrupts, time limits, workers' output. If R
// leaves by a jump, all workers' calls for this verb are cancelled. Runs R code, which may stop the
// cluster: look the peers up again.
static void attend_and_check(const struct mst_peer *peer, const void *of) {
  void *caller;
  memcpy(&caller, &of, sizeof caller);
  ffi_attend(peer->cluster->session);
  ffi_check_interrupt(leave_wait, caller);
}

static SEXP send_all(SEXP node, struct mst_peer *peer, struct mst_blob *payload,
                     SEXP caller, int tag, int unseen) {
  ffi_bound_log(peer->cluster);
  int rc = mst_peer_send(peer, payload, caller, tag, (uint8_t)unseen,
                         FFI_SLICE_MS, NULL);
  while (rc == -MST_EAGAIN) {
    enum ffi_outcome outcome;
    attend_and_check(peer, caller); // queued bytes are sent with later calls
    peer = ffi_peer_of(node, &outcome);
    if (peer == NULL) return Rf_ScalarInteger((int)outcome);
    rc = mst_peer_flush(peer, FFI_SLICE_MS, NULL);
  }
  return rc == 0 ? R_NilValue : outcome_of(rc);
}

// unseen_of tells whether a call may change something that no worker can see, so that the journal
// keeps it in any case: clusterEvalQ(), which calls base's eval(), and the calls that prepare
// foreach's tasks, which change an environment of doParallel's.
static enum mst_unseen unseen_of(SEXP fun) {
  static SEXP eval_fun, init;
  if (TYPEOF(fun) != CLOSXP) return MST_UNSEEN_NOT;
  if (eval_fun == NULL) eval_fun = ffi_value_in(R_BaseEnv, Rf_install("eval"));
  if (fun == eval_fun) return MST_UNSEEN_EACH;
  SEXP env = ffi_closure_env(fun);
  if (env == R_GlobalEnv || !R_IsNamespaceEnv(env)) return MST_UNSEEN_NOT;
  SEXP known = ffi_value_in(env, ffi_symbol(&init, "workerInit"));
  return known == fun ? MST_UNSEEN_LAST : MST_UNSEEN_NOT;
}

// stream_in gives the stream in a call of clusterSetRNGStream(); NULL (R's) for other calls.
static SEXP stream_in(SEXP args) {
  SEXP code = TYPEOF(args) == VECSXP && Rf_xlength(args) == 1
                  ? VECTOR_ELT(args, 0)
                  : R_NilValue;
  if (TYPEOF(code) != LANGSXP || Rf_xlength(code) < 3) return R_NilValue;
  static SEXP assign;
  SEXP name = CADR(code), value = CADDR(code);
  if (CAR(code) != ffi_symbol(&assign, "assign")) return R_NilValue;
  if (TYPEOF(name) != STRSXP || Rf_xlength(name) != 1 ||
      strcmp(CHAR(STRING_ELT(name, 0)), ".Random.seed") != 0) {
    return R_NilValue;
  }
  return TYPEOF(value) == INTSXP && Rf_xlength(value) == 7 ? value : R_NilValue;
}

static void note_stream(SEXP node, SEXP stream) {
  SEXP what = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(what, 0, node);
  SET_VECTOR_ELT(what, 1, stream);
  ffi_call_ours(FFI_NOTE_STREAM, what);
  UNPROTECT(1);
}

// Exports from this size on are known by their payload's number (payload.c); smaller ones are
// kept for comparison.
#define EXPORT_BYTES ((size_t)1000000)

static void note_export(SEXP node, SEXP args, uint32_t number, int large) {
  SEXP what = PROTECT(Rf_allocVector(VECSXP, 4));
  SET_VECTOR_ELT(what, 0, node);
  SET_VECTOR_ELT(what, 1, args);
  SET_VECTOR_ELT(what, 2, Rf_ScalarReal((double)number));
  SET_VECTOR_ELT(what, 3, Rf_ScalarLogical(large));
  ffi_call_ours(FFI_NOTE_EXPORT, what);
  UNPROTECT(1);
}

// tag_number gives the number by which the load-balanced verbs know their calls, or 0.
static int tag_number(SEXP tag) {
  const int numbered = TYPEOF(tag) == INTSXP && Rf_xlength(tag) == 1;
  return numbered && INTEGER(tag)[0] > 0 ? INTEGER(tag)[0] : 0;
}

// ffi_node_send sends one of parallel's messages. frame: the verb's, or the global environment.
// NULL, or an outcome: FFI_TYPE for all messages except EXEC.
SEXP ffi_node_send(SEXP node, SEXP data, SEXP frame) {
  enum ffi_outcome outcome;
  struct mst_peer *peer = ffi_peer_of(node, &outcome);
  if (peer == NULL) return Rf_ScalarInteger((int)outcome);
  SEXP type = element(data, 0, "type");
  if (TYPEOF(type) != STRSXP || Rf_xlength(type) != 1 ||
      strcmp(CHAR(STRING_ELT(type, 0)), "EXEC") != 0) {
    return Rf_ScalarInteger(FFI_TYPE);
  }
  SEXP body = element(data, 1, "data");
  SEXP fun = element(body, 0, "fun");
  SEXP args = element(body, 1, "args");
  SEXP tag = element(body, 3, "tag");
  const enum mst_unseen unseen = unseen_of(fun);
  SEXP caller = PROTECT(ffi_caller_of(frame));
  ffi_round_begin(caller);
  ffi_payload_begin();
  struct mst_blob *payload = ffi_payload_of_verb(fun, args, tag);
  const int streams =
      unseen == MST_UNSEEN_EACH && stream_in(args) != R_NilValue;
  if (streams) payload->one = 1; // each worker has its own
  const int exports = payload->binds != 0;
  const uint32_t number = payload->number;
  const int large = mst_blob_bytes(payload) >= EXPORT_BYTES;
  // Serializing may have run R code that stopped the cluster.
  peer = ffi_peer_of(node, &outcome);
  if (peer != NULL) peer = ffi_note_caller(node, peer, caller, &outcome);
  UNPROTECT(1);
  if (peer == NULL) return Rf_ScalarInteger((int)outcome);
  ffi_round_sent(caller);
  SEXP sent = send_all(node, peer, payload, caller, tag_number(tag), unseen);
  if (sent == R_NilValue) ffi_payload_sent();
  if (streams) note_stream(node, stream_in(args));
  if (exports) note_export(node, args, number, large);
  return sent;
}

// ---- answers

// Parts of every answer, made once.
static struct {
  SEXP type;
  SEXP names;
  SEXP time_names;
  SEXP time_class;
  SEXP one_names;
  SEXP success[2];
} constant;

static SEXP keep(SEXP x) {
  R_PreserveObject(x);
  MARK_NOT_MUTABLE(x);
  return x;
}

static SEXP strings(int n, const char *const *texts) {
  SEXP x = PROTECT(Rf_allocVector(STRSXP, n));
  for (int i = 0; i < n; i++)
    SET_STRING_ELT(x, i, Rf_mkChar(texts[i]));
  UNPROTECT(1);
  return x;
}

static void make_constants(void) {
  if (constant.success[1] != NULL) return;
  static const char *const names[] = {"type", "value", "success", "time",
                                      "tag"};
  static const char *const times[] = {"user.self", "sys.self", "elapsed",
                                      "user.child", "sys.child"};
  static const char *const one[] = {"node", "value"};
  constant.type = keep(Rf_mkString("VALUE"));
  constant.names = keep(strings(5, names));
  constant.time_names = keep(strings(5, times));
  constant.time_class = keep(Rf_mkString("proc_time"));
  constant.one_names = keep(strings(2, one));
  constant.success[0] = keep(Rf_ScalarLogical(0));
  constant.success[1] = keep(Rf_ScalarLogical(1));
}

static SEXP times_of(const struct mst_value_head *head) {
  SEXP time = PROTECT(Rf_allocVector(REALSXP, 5));
  const double values[5] = {head->user_s, head->system_s, head->elapsed_s, 0.0,
                            0.0};
  memcpy(REAL(time), values, sizeof values);
  Rf_setAttrib(time, R_NamesSymbol, constant.time_names);
  Rf_setAttrib(time, R_ClassSymbol, constant.time_class);
  UNPROTECT(1);
  return time;
}

static void release_call(void *call) { mst_call_release(call); }

// value_of takes a verb's oldest answer, which must be there, from a peer and makes parallel's
// list. If the answer is LOST, it leaves it there and returns FFI_FAILED. If reading raises an R
// error, the answer is gone.
static SEXP value_of(SEXP node, struct mst_peer *peer, const void *caller) {
  struct mst_value_head head;
  struct mst_call *answer = mst_peer_answer(peer, caller);
  if (answer == NULL) return Rf_ScalarInteger(FFI_SYSTEM);
  const struct ffi_giver giver = {.caller = answer->caller,
                                  .worker = peer->index,
                                  .cluster = peer->cluster->id};
  if (answer->state == MST_CALL_LOST) {
    ffi_round_ask(giver.caller);
    return Rf_ScalarInteger(FFI_FAILED);
  }
  mst_peer_take(peer, answer);
  ffi_drop_callers(node, peer);
  (void)ffi_hold(answer, release_call);
  const size_t skip = mst_value_skip(answer->flags);
  if (mst_value_head_decode(answer->value, answer->value_bytes, &head) != 0 ||
      answer->value_bytes < skip) {
    ffi_drop(answer);
    return Rf_ScalarInteger(FFI_SYSTEM);
  }
  const int failed = (answer->flags & MST_FLAG_ERROR) != 0;
  const int early = (answer->flags & MST_FLAG_EARLY) != 0;
  SEXP content = PROTECT(ffi_unserialize_message(
      answer->flags, answer->value, answer->value_bytes, skip, answer->map));
  ffi_drop(answer);
  make_constants();
  SEXP value = PROTECT(Rf_allocVector(VECSXP, 5));
  Rf_setAttrib(value, R_NamesSymbol, constant.names);
  SET_VECTOR_ELT(value, 0, constant.type);
  SET_VECTOR_ELT(value, 2, constant.success[!failed]);
  SET_VECTOR_ELT(value, 3, times_of(&head));
  if (TYPEOF(content) == VECSXP && Rf_xlength(content) == 2) {
    SET_VECTOR_ELT(value, 1, VECTOR_ELT(content, 0));
    SET_VECTOR_ELT(value, 4, VECTOR_ELT(content, 1));
  }
  // Early answers don't count as the answer.
  if (!early) ffi_round_got(&giver, value);
  UNPROTECT(2);
  return value;
}

// ---- waiting

// The nodes of a wait: a list, or one. Their peers are looked up again whenever R code may have
// run.
struct waiting {
  SEXP nodes;
  R_xlen_t n;
  struct mst_peer **peers; // R's transient memory, or &one
  struct mst_peer *one;
  const void *caller; // whose answers, if they may belong to several; NULL: any
  uint8_t told;       // output printed before the answer was shown
};

static SEXP node_at(const struct waiting *waiting, R_xlen_t i) {
  return TYPEOF(waiting->nodes) == VECSXP ? VECTOR_ELT(waiting->nodes, i)
                                          : waiting->nodes;
}

static void begin_waiting(struct waiting *waiting, SEXP nodes) {
  const int several = TYPEOF(nodes) == VECSXP;
  *waiting =
      (struct waiting){.nodes = nodes, .n = several ? Rf_xlength(nodes) : 1};
  ffi_payload_done();
  ffi_share_collect();
  waiting->peers =
      !several ? &waiting->one
               : (struct mst_peer **)(void *)R_alloc((size_t)waiting->n + 1,
                                                     sizeof(struct mst_peer *));
}

// fill_peers looks up the peers. 0, or the outcome of the first that can't be used.
static int fill_peers(struct waiting *waiting) {
  enum ffi_outcome outcome = FFI_TYPE;
  for (R_xlen_t i = 0; i < waiting->n; i++) {
    waiting->peers[i] = ffi_peer_of(node_at(waiting, i), &outcome);
    if (waiting->peers[i] == NULL) return (int)outcome;
  }
  return waiting->n > 0 ? 0 : FFI_TYPE;
}

static int owe(const struct waiting *waiting, const void *caller) {
  for (R_xlen_t i = 0; i < waiting->n; i++) {
    if (mst_peer_owes(waiting->peers[i], caller)) return 1;
  }
  return 0;
}

// innermost finds the waiting verb: of R's active ones to which answers are owed, the one entered
// last. NULL if there is none.
static const void *innermost(const struct waiting *waiting, SEXP frames) {
  const void *found = NULL;
  for (; frames != R_NilValue; frames = CDR(frames)) {
    if (owe(waiting, CAR(frames))) found = CAR(frames);
  }
  if (found != NULL) return found;
  return owe(waiting, R_GlobalEnv) ? R_GlobalEnv : NULL;
}

// find_peers looks up the peers, and whose answers to wait for. 0, or an outcome. Runs R code if a
// peer owes answers to several verbs.
static int find_peers(struct waiting *waiting) {
  int outcome = fill_peers(waiting);
  int mixed = 0;
  waiting->caller = NULL;
  for (R_xlen_t i = 0; outcome == 0 && i < waiting->n; i++)
    mixed |= mst_peer_owes_several(waiting->peers[i]);
  if (!mixed) return outcome;
  SEXP frames = PROTECT(ffi_frames());
  outcome = fill_peers(waiting);
  if (outcome == 0) waiting->caller = innermost(waiting, frames);
  UNPROTECT(1);
  return outcome;
}

// shows_first shows output printed before the answer, once: 1 if R code ran.
static int shows_first(struct waiting *waiting, struct mst_peer *peer) {
  struct mst_session *session = peer->cluster->session;
  if (waiting->told) return 0;
  waiting->told = 1;
  if (!ffi_has_news(session)) return 0;
  ffi_attend(session);
  return 1;
}

// How often R code may show a verb's progress.
#define SHOWN_NS (200 * MST_NS_PER_MS)

int ffi_show_progress(void) {
  static int64_t due_ns;
  const int64_t now_ns = mst_clock_now();
  if (now_ns < due_ns) return 0;
  due_ns = now_ns + SHOWN_NS;
  (void)ffi_call_ours(FFI_VERB_WAITS, NULL);
  return 1;
}

SEXP ffi_progress_show(void) { return Rf_ScalarLogical(ffi_show_progress()); }

// end_line removes the progress line once a verb has all its answers, before an error may be
// raised.
static void end_line(void) {
  if (ffi_line_is_up() && ffi_round_is_over()) {
    (void)ffi_call_ours(FFI_VERB_IS_OVER, NULL);
  }
}

static const void *caller_waiting(const struct waiting *waiting) {
  return waiting->caller != NULL ? waiting->caller
                                 : mst_peer_caller(waiting->peers[0]);
}

// wait_for waits for an answer of one of the peers: its index, with *outcome 0; or an outcome, and
// the index of the peer that caused it.
static uint32_t wait_for(struct waiting *waiting, int *outcome) {
  uint32_t lost = 0;
  for (;;) {
    *outcome = find_peers(waiting);
    if (*outcome != 0) return 0;
    const int found = mst_peer_wait(waiting->peers, (uint32_t)waiting->n,
                                    waiting->caller, FFI_SLICE_MS, &lost, NULL);
    if (found == -MST_EAGAIN) {
      attend_and_check(waiting->peers[0], caller_waiting(waiting));
      (void)ffi_show_progress();
    } else if (found < 0) {
      *outcome = found == -MST_ECLOSED ? FFI_LOST
                 : found == -MST_EMEM  ? FFI_MEMORY
                                       : FFI_SYSTEM;
      return lost;
    } else if (!shows_first(waiting, waiting->peers[found]) &&
               !ffi_show_progress()) {
      return (uint32_t)found;
    }
  }
}

// ffi_node_receive waits for the oldest answer of one worker. Gives the answer, or an outcome;
// FFI_LOST also if the worker owes nothing and is gone.
SEXP ffi_node_receive(SEXP node) {
  struct waiting waiting;
  begin_waiting(&waiting, node);
  int outcome = find_peers(&waiting);
  if (outcome != 0) return Rf_ScalarInteger(outcome);
  const struct mst_peer *peer = waiting.one;
  if (mst_peer_answer(peer, NULL) == NULL &&
      mst_peer_look(peer, mst_clock_now()).mute) {
    return Rf_ScalarInteger(FFI_LOST);
  }
  (void)wait_for(&waiting, &outcome);
  if (outcome != 0) return Rf_ScalarInteger(outcome);
  SEXP value = PROTECT(value_of(node, waiting.one, waiting.caller));
  ffi_payload_done(); // a large payload may have been kept until this answer
  end_line();
  UNPROTECT(1);
  return value;
}

// ffi_node_loss takes the oldest answer if it is LOST, and gives the loss; NULL if it isn't LOST,
// or nothing is known.
SEXP ffi_node_loss(SEXP node) {
  enum ffi_outcome outcome;
  struct mst_peer *peer = ffi_peer_of(node, &outcome);
  if (peer == NULL) return R_NilValue;
  struct mst_call *answer = mst_peer_answer(
      peer, mst_peer_owes_several(peer) ? ffi_round_caller() : NULL);
  if (answer == NULL || answer->state != MST_CALL_LOST) return R_NilValue;
  mst_peer_take(peer, answer);
  ffi_drop_callers(node, peer);
  (void)ffi_hold(answer, release_call);
  SEXP list =
      PROTECT(answer->loss == NULL ? R_NilValue : ffi_loss_list(answer->loss));
  ffi_drop(answer);
  UNPROTECT(1);
  return list;
}

// ffi_nodes_receive_one waits for the first answer of any of the nodes: list(node, value), or
// c(outcome, node). FFI_TYPE: there are no nodes.
SEXP ffi_nodes_receive_one(SEXP nodes) {
  struct waiting waiting;
  int outcome;
  begin_waiting(&waiting, nodes);
  const uint32_t found = wait_for(&waiting, &outcome);
  SEXP value = outcome != 0 ? Rf_ScalarInteger(outcome)
                            : value_of(node_at(&waiting, found),
                                       waiting.peers[found], waiting.caller);
  PROTECT(value);
  end_line();
  if (TYPEOF(value) == INTSXP) {
    SEXP failed = Rf_allocVector(INTSXP, 2);
    INTEGER(failed)[0] = INTEGER(value)[0];
    INTEGER(failed)[1] = (int)found + 1;
    UNPROTECT(1);
    return failed;
  }
  SEXP one = PROTECT(Rf_allocVector(VECSXP, 2));
  Rf_setAttrib(one, R_NamesSymbol, constant.one_names);
  SET_VECTOR_ELT(one, 0, Rf_ScalarInteger((int)found + 1));
  SET_VECTOR_ELT(one, 1, value);
  UNPROTECT(2);
  return one;
}

// ffi_nodes_wait waits for an answer of any of the nodes: TRUE if there is one, or a reason why
// none will come.
SEXP ffi_nodes_wait(SEXP nodes, SEXP timeout_s) {
  struct waiting waiting;
  begin_waiting(&waiting, nodes);
  if (find_peers(&waiting) != 0) return Rf_ScalarLogical(1);
  uint32_t lost = 0;
  const int slice_ms = (int)(Rf_asReal(timeout_s) * 1000.0);
  const int found = mst_peer_wait(waiting.peers, (uint32_t)waiting.n,
                                  waiting.caller, slice_ms, &lost, NULL);
  if (found == -MST_EAGAIN)
    attend_and_check(waiting.peers[0], caller_waiting(&waiting));
  return Rf_ScalarLogical(found != -MST_EAGAIN);
}

// ffi_node_ping asks the worker's watch for a sign of life: the round trip in seconds, NA if none
// came in time, or an outcome.
SEXP ffi_node_ping(SEXP node, SEXP timeout_s) {
  static uint64_t nonce;
  enum ffi_outcome outcome;
  struct mst_peer *peer = ffi_peer_of(node, &outcome);
  if (peer == NULL) return Rf_ScalarInteger((int)outcome);
  const int64_t begin_ns = mst_clock_now();
  const int rc =
      mst_peer_ping(peer, ++nonce, (int)(Rf_asReal(timeout_s) * 1000.0), NULL);
  if (rc == -MST_ETIMEOUT) return Rf_ScalarReal(NA_REAL);
  if (rc != 0) return outcome_of(rc);
  return Rf_ScalarReal((double)(mst_clock_now() - begin_ns) / 1e9);
}
