// verbs: parallel's and snow's verbs as the session knows them, by their frames. R thread.
#ifndef MST_FFI_CALLERS_H
#define MST_FFI_CALLERS_H

#include "ffi/session/session.h"

// ffi_has_verbs tells whether env is the namespace of package parallel, or of snow, whose verbs are
// the same.
SEXP ffi_has_verbs(SEXP env);
// ffi_caller_of gives the frame of the verb that sends from `frame`, or the global environment:
// then it is the user who sends.
SEXP ffi_caller_of(SEXP frame);
// ffi_frames gives the frames that R is in, outermost first: a pairlist, which the caller
// protects. Runs R code.
SEXP ffi_frames(void);
// ffi_note_caller notes whose the next call of a node is. A verb that R has left is forgotten. Runs
// R code where the node owes another verb something: its peer was looked for again then. NULL and
// the outcome if it is gone.
struct mst_peer *ffi_note_caller(SEXP node, struct mst_peer *peer, SEXP caller,
                                 enum ffi_outcome *outcome);
// ffi_drop_callers: once it owes nothing, a node's notes keep no frames.
void ffi_drop_callers(SEXP node, const struct mst_peer *peer);

// Whose an answer is, noted before R reads it.
struct ffi_giver {
  const void *caller;
  uint32_t worker, cluster;
};
// A verb's round: ffi_round_begin, it is about to send, and may allocate; ffi_round_sent, it is
// owed one more answer; ffi_round_got, it got one; ffi_round_ask, ffi_round is to give its answers.
void ffi_round_begin(SEXP caller);
void ffi_round_sent(const void *caller);
void ffi_round_got(const struct ffi_giver *giver, SEXP value);
void ffi_round_ask(const void *caller);
const void *ffi_round_caller(void);
// ffi_round_is_over: the round that was asked last is owed no more.
int ffi_round_is_over(void);

#endif
