// Which verb gets which answer: the verbs that use a node, and what each got. The contract is in
// callers.h.
#include "ffi/session/callers.h"

#include <string.h>

// ---- a node's notes

// Hidden, so that serialize() doesn't see changes to a node.
SEXP ffi_node_notes(SEXP pointer) {
  SEXP notes = PROTECT(Rf_allocVector(VECSXP, FFI_NOTES));
  SET_VECTOR_ELT(notes, FFI_NOTE_PID, Rf_ScalarInteger(NA_INTEGER));
  SEXP ref = ffi_hide(pointer, notes);
  UNPROTECT(1);
  return ref;
}

// notes_of gives a list; NULL (R's) for a copy.
static SEXP notes_of(SEXP node) {
  static SEXP name;
  return ffi_hidden(Rf_getAttrib(node, ffi_symbol(&name, "notes")));
}

void ffi_note(SEXP node, enum ffi_note which, SEXP value) {
  SEXP notes = notes_of(node);
  if (notes != R_NilValue) SET_VECTOR_ELT(notes, which, value);
}

SEXP ffi_noted(SEXP node, enum ffi_note which) {
  SEXP notes = notes_of(node);
  if (notes != R_NilValue) return VECTOR_ELT(notes, which);
  return which == FFI_NOTE_PID ? Rf_ScalarInteger(NA_INTEGER) : R_NilValue;
}

// ---- owners of answers

// A node's notes keep the frames of the verbs to which it owes answers, as long as it does.
// parallel's verbs never send to a node that owes them an answer: a verb to which answers are owed,
// and that R has left, ended by an error or interrupt before it took them, and the next verb must
// not get them. But a verb may use a cluster while another one waits for it, in a handler or a
// finalizer: then the other one's frame is still on R's stack, and each gets its own answers. What
// the user sends from the top level stays first in, first out.

static int has_verbs(SEXP env) {
  static SEXP symbol;
  if (env == ffi_parallel()) return 1;
  if (!R_IsNamespaceEnv(env)) return 0;
  SEXP name = ffi_value_in(env, ffi_symbol(&symbol, ".packageName"));
  return TYPEOF(name) == STRSXP && Rf_xlength(name) == 1 &&
         strcmp(CHAR(STRING_ELT(name, 0)), "snow") == 0;
}

SEXP ffi_has_verbs(SEXP env) { return Rf_ScalarLogical(has_verbs(env)); }

// The load-balanced verbs send from a closure that they make: then the verb's frame is around that.
SEXP ffi_caller_of(SEXP frame) {
  if (frame == R_GlobalEnv || TYPEOF(frame) != ENVSXP) return R_GlobalEnv;
  SEXP around = ffi_parent_env(frame);
  if (around == ffi_parallel() || around == R_EmptyEnv ||
      around == R_GlobalEnv) {
    return frame;
  }
  return has_verbs(ffi_parent_env(around)) ? around : frame;
}

SEXP ffi_frames(void) { return ffi_call_ours(FFI_ACTIVE_FRAMES, NULL); }

static int is_in(SEXP frames, SEXP frame) {
  for (; frames != R_NilValue; frames = CDR(frames)) {
    if (CAR(frames) == frame) return 1;
  }
  return 0;
}

// The answers that a verb got since it was last owed nothing: if one of its calls fails for good,
// the user gets these. They are R's lists of answers, newest first, each with its worker's number.
// A verb that is interrupted by another keeps its own. A verb is known by its frame. R may reuse
// the address of a frame, so each round has a weak reference: the key is the frame, and the value
// the answers, which are freed with the frame.
#define ROUNDS 8
static struct {
  SEXP refs;             // a list of ROUNDS references or NULLs, preserved
  uint32_t open[ROUNDS]; // answers owed
  int now;               // the one used last
} rounds;

// frame_of gives a round's frame; NULL (R's) if there is none any more.
static SEXP frame_of(int i) {
  SEXP ref = rounds.refs == NULL ? R_NilValue : VECTOR_ELT(rounds.refs, i);
  return ref == R_NilValue ? R_NilValue : R_WeakRefKey(ref);
}

// answers_of gives the list that holds a round's answers; NULL (R's) if there is none any more.
static SEXP answers_of(int i) {
  SEXP ref = rounds.refs == NULL ? R_NilValue : VECTOR_ELT(rounds.refs, i);
  return ref == R_NilValue ? R_NilValue : R_WeakRefValue(ref);
}

// round_with gives a verb's round, or -1. round_of: only if answers are owed to it.
static int round_with(const void *caller) {
  for (int i = 0; i < ROUNDS; i++) {
    SEXP frame = frame_of(i);
    if (frame != R_NilValue && frame == caller) return i;
  }
  return -1;
}

static int round_of(const void *caller) {
  const int i = round_with(caller);
  return i >= 0 && rounds.open[i] > 0 ? i : -1;
}

static int free_round(void) {
  for (int i = 0; i < ROUNDS; i++) {
    if (rounds.open[i] == 0 || frame_of(i) == R_NilValue) return i;
  }
  // Rounds of verbs that were left by a jump stay until their room is needed.
  return (rounds.now + 1) % ROUNDS;
}

void ffi_round_begin(SEXP caller) {
  if (round_with(caller) >= 0) return;
  if (rounds.refs == NULL) {
    rounds.refs = Rf_allocVector(VECSXP, ROUNDS);
    R_PreserveObject(rounds.refs);
  }
  SEXP answers = PROTECT(Rf_allocVector(VECSXP, 1));
  SEXP ref = PROTECT(R_MakeWeakRef(caller, answers, R_NilValue, FALSE));
  // After the allocations, which may have used others.
  const int i = free_round();
  SET_VECTOR_ELT(rounds.refs, i, ref);
  rounds.open[i] = 0;
  UNPROTECT(2);
}

void ffi_round_sent(const void *caller) {
  const int i = round_with(caller);
  // More nested verbs than rounds: this one won't get its results.
  if (i < 0) return;
  rounds.now = i;
  rounds.open[i]++;
}

void ffi_round_got(const struct ffi_giver *giver, SEXP value) {
  const int i = round_of(giver->caller);
  if (i < 0) return;
  rounds.now = i;
  SEXP answers = PROTECT(answers_of(i));
  if (--rounds.open[i] == 0) {
    SET_VECTOR_ELT(answers, 0, R_NilValue);
    UNPROTECT(1);
    return;
  }
  SEXP entry = PROTECT(Rf_allocVector(VECSXP, 3));
  SET_VECTOR_ELT(entry, 0, Rf_ScalarInteger((int)giver->worker + 1));
  SET_VECTOR_ELT(entry, 1, Rf_ScalarInteger((int)giver->cluster));
  SET_VECTOR_ELT(entry, 2, value);
  SET_VECTOR_ELT(answers, 0, Rf_cons(entry, VECTOR_ELT(answers, 0)));
  UNPROTECT(2);
}

int ffi_round_is_over(void) { return rounds.open[rounds.now] == 0; }

void ffi_round_ask(const void *caller) {
  const int i = round_of(caller);
  if (i >= 0) rounds.now = i;
}

const void *ffi_round_caller(void) { return frame_of(rounds.now); }

// ffi_round gives the round's answers: a list of list(worker, cluster, answer), oldest first.
SEXP ffi_round(void) {
  SEXP answers = answers_of(rounds.now);
  SEXP list =
      PROTECT(answers == R_NilValue ? R_NilValue : VECTOR_ELT(answers, 0));
  R_xlen_t n = Rf_xlength(list);
  SEXP all = PROTECT(Rf_allocVector(VECSXP, n));
  for (SEXP at = list; at != R_NilValue; at = CDR(at))
    SET_VECTOR_ELT(all, --n, CAR(at));
  UNPROTECT(2);
  return all;
}

// forget_left drops what a node owes to verbs that R has left.
static void forget_left(SEXP noted, struct mst_peer *peer, SEXP frames) {
  for (; noted != R_NilValue; noted = CDR(noted)) {
    SEXP frame = CAR(noted);
    if (frame == R_GlobalEnv || is_in(frames, frame)) continue;
    mst_peer_forget(peer, frame);
  }
}

struct mst_peer *ffi_note_caller(SEXP node, struct mst_peer *peer, SEXP caller,
                                 enum ffi_outcome *outcome) {
  SEXP before = ffi_noted(node, FFI_NOTE_FRAME);
  if (mst_peer_unread(peer) == 0) before = R_NilValue;
  if (before != R_NilValue && CAR(before) == caller &&
      CDR(before) == R_NilValue)
    return peer;
  if (before != R_NilValue) {
    PROTECT(before);
    SEXP frames = PROTECT(ffi_frames());
    peer = ffi_peer_of(node, outcome);
    if (peer != NULL) forget_left(before, peer, frames);
    UNPROTECT(2);
    if (peer == NULL) return NULL;
    if (mst_peer_unread(peer) == 0) before = R_NilValue;
  }
  PROTECT(before);
  if (!is_in(before, caller)) {
    ffi_note(node, FFI_NOTE_FRAME, Rf_cons(caller, before));
  }
  UNPROTECT(1);
  return ffi_peer_of(node, outcome);
}

void ffi_drop_callers(SEXP node, const struct mst_peer *peer) {
  if (mst_peer_unread(peer) > 0) return;
  ffi_note(node, FFI_NOTE_FRAME, R_NilValue);
}
