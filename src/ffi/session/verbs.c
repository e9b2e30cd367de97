// Whose answers are whose: the verbs that use a node, and what each was given. The contract is
// in verbs.h.
#include "ffi/session/verbs.h"

// ---- notes of a node

// What changes of a node is hidden from whoever serializes it.
SEXP ffi_node_notes(SEXP pointer) {
  SEXP notes = PROTECT(Rf_allocVector(VECSXP, FFI_NOTES));
  SET_VECTOR_ELT(notes, FFI_NOTE_PID, Rf_ScalarInteger(NA_INTEGER));
  SEXP ref = ffi_hide(pointer, notes);
  UNPROTECT(1);
  return ref;
}

// notes_of gives a list, or NULL for a copy.
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

// ---- whose answers

// A node's notes keep the frames of the verbs that sent what it owes, as long as it owes
// something. parallel's verbs never send to a node that owes them an answer: one that does
// was left, by an error or an interrupt, before it took its answers, and the next verb must
// not get them. A verb may also use a cluster while another waits for it, in a handler or a
// finalizer: then that one's frame is on R's stack still, and each gets its own answers. What
// the user sends from the top level stays first in, first out.

// verb_of gives the frame of the verb: the load-balanced verbs send from a closure
// that they make, and then it is the frame around.
SEXP ffi_verb_of(SEXP frame) {
  static SEXP parallel;
  if (frame == R_GlobalEnv || TYPEOF(frame) != ENVSXP) return R_GlobalEnv;
  if (parallel == NULL) {
    parallel = R_FindNamespace(PROTECT(Rf_mkString("parallel")));
    UNPROTECT(1);
  }
  SEXP around = ffi_parent_env(frame);
  if (around == parallel || around == R_EmptyEnv || around == R_GlobalEnv) {
    return frame;
  }
  return ffi_parent_env(around) == parallel ? around : frame;
}

// frames_now gives the frames that R is in, outermost first: a pairlist. Runs R code.
SEXP ffi_frames(void) { return ffi_call_ours("active_frames", NULL); }

static int is_in(SEXP frames, SEXP frame) {
  for (; frames != R_NilValue; frames = CDR(frames)) {
    if (CAR(frames) == frame) return 1;
  }
  return 0;
}

static int is_among(const struct mst_call *calls, const void *verb) {
  while (calls != NULL && (calls->verb != verb || calls->cancelled))
    calls = calls->next;
  return calls != NULL;
}

// owes_verb tells whether what a worker owes, or has given, is of a verb.
int ffi_owes_verb(const struct mst_peer *peer, const void *verb) {
  return is_among(peer->lane->first, verb) ||
         is_among(peer->lane->answers, verb);
}

// The answers that a verb got since it last was owed none: if one of its calls fails
// for good, the user gets these. They are R's lists of answers, newest first, behind
// a number of the worker each. A verb that another interrupts for a while keeps its own.
#define ROUNDS 8
static struct {
  SEXP answers; // a list of ROUNDS pairlists, preserved
  struct round {
    const void *verb;
    uint32_t open; // answers that are owed
  } of[ROUNDS];
  int now; // that was asked last
} rounds;

static void round_forget(int i) {
  if (rounds.answers != NULL) {
    SET_VECTOR_ELT(rounds.answers, i, R_NilValue);
  }
  rounds.of[i].open = 0;
}

// round_of gives a verb's round, -1 if it has none.
static int round_of(const void *verb) {
  for (int i = 0; i < ROUNDS; i++) {
    if (rounds.of[i].open > 0 && rounds.of[i].verb == verb) return i;
  }
  return -1;
}

void ffi_round_sent(const void *verb) {
  int i = round_of(verb);
  for (int k = 0; i < 0 && k < ROUNDS; k++) {
    if (rounds.of[k].open == 0) i = k;
  }
  // Verbs that were left by a jump keep theirs until others need the room.
  if (i < 0) i = (rounds.now + 1) % ROUNDS;
  if (rounds.of[i].verb != verb) round_forget(i);
  rounds.now = i;
  rounds.of[i].verb = verb;
  rounds.of[i].open++;
}

void ffi_round_got(const struct ffi_giver *giver, SEXP value) {
  const int i = round_of(giver->verb);
  if (i < 0) return;
  rounds.now = i;
  if (--rounds.of[i].open == 0) {
    round_forget(i);
    return;
  }
  if (rounds.answers == NULL) {
    rounds.answers = Rf_allocVector(VECSXP, ROUNDS);
    R_PreserveObject(rounds.answers);
  }
  SEXP entry = PROTECT(Rf_allocVector(VECSXP, 3));
  SET_VECTOR_ELT(entry, 0, Rf_ScalarInteger((int)giver->worker + 1));
  SET_VECTOR_ELT(entry, 1, Rf_ScalarInteger((int)giver->cluster));
  SET_VECTOR_ELT(entry, 2, value);
  SET_VECTOR_ELT(rounds.answers, i,
                 Rf_cons(entry, VECTOR_ELT(rounds.answers, i)));
  UNPROTECT(1);
}

int ffi_round_is_over(void) { return rounds.of[rounds.now].open == 0; }

void ffi_round_ask(const void *verb) {
  const int i = round_of(verb);
  if (i >= 0) rounds.now = i;
}

const void *ffi_round_verb(void) { return rounds.of[rounds.now].verb; }

// ffi_round gives these answers: a list of list(worker, cluster, answer), oldest
// first.
SEXP ffi_round(void) {
  SEXP list = rounds.answers == NULL ? R_NilValue
                                     : VECTOR_ELT(rounds.answers, rounds.now);
  R_xlen_t n = Rf_xlength(list);
  SEXP answers = PROTECT(Rf_allocVector(VECSXP, n));
  for (; list != R_NilValue; list = CDR(list)) {
    SET_VECTOR_ELT(answers, --n, CAR(list));
  }
  UNPROTECT(1);
  return answers;
}

// forget_left drops what verbs that R has left are owed by a node.
static void forget_left(SEXP noted, struct mst_peer *peer, SEXP frames) {
  for (; noted != R_NilValue; noted = CDR(noted)) {
    SEXP frame = CAR(noted);
    if (frame == R_GlobalEnv || is_in(frames, frame)) continue;
    mst_peer_forget(peer, frame);
  }
}

// note_verb notes whose the next call is. A verb that R has left is forgotten. Runs R code
// where a node owes another verb something: then its peer is to be looked for again.
struct mst_peer *ffi_note_verb(SEXP node, struct mst_peer *peer, SEXP verb,
                               enum ffi_outcome *outcome) {
  SEXP before = ffi_noted(node, FFI_NOTE_FRAME);
  if (mst_peer_unread(peer) == 0) before = R_NilValue;
  if (before != R_NilValue && CAR(before) == verb && CDR(before) == R_NilValue)
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
  if (!is_in(before, verb)) {
    ffi_note(node, FFI_NOTE_FRAME, Rf_cons(verb, before));
  }
  UNPROTECT(1);
  return ffi_peer_of(node, outcome);
}

void ffi_drop_verb(SEXP node, const struct mst_peer *peer) {
  if (mst_peer_unread(peer) > 0) return;
  ffi_note(node, FFI_NOTE_FRAME, R_NilValue);
}
