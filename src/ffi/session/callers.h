// callers: the verbs of parallel and snow that use a session, known by their frames. R thread.
#ifndef MST_FFI_CALLERS_H
#define MST_FFI_CALLERS_H

#include "ffi/session/session.h"

// ffi_has_verbs tells whether env is the namespace of package parallel, or of snow, which has the
// same verbs.
SEXP ffi_has_verbs(SEXP env);
// ffi_caller_of gives the frame of the verb that sends from `frame`, or the global environment if
// the user sends.
SEXP ffi_caller_of(SEXP frame);
// ffi_frames gives R's active frames, outermost first: a pairlist, which the caller protects. Runs
// R code.
SEXP ffi_frames(void);
// ffi_note_caller records who makes a node's next call, and forgets verbs that R has left. Runs R
// code if the node owes answers to another verb, and then looks up the peer again. Returns the
// peer, or NULL and the outcome if it is gone.
struct mst_peer *ffi_note_caller(SEXP node, struct mst_peer *peer, SEXP caller,
                                 enum ffi_outcome *outcome);
// ffi_drop_callers: once a node owes nothing, its notes release the frames.
void ffi_drop_callers(SEXP node, const struct mst_peer *peer);

// The owner of an answer, noted before R reads it.
struct ffi_giver {
  const void *caller;
  uint32_t worker, cluster;
};
// A verb's round. ffi_round_begin: it is about to send; allocates. ffi_round_sent: it is owed one
// more answer. ffi_round_got: it got one. ffi_round_ask: ffi_round must give this verb's answers.
void ffi_round_begin(SEXP caller);
void ffi_round_sent(const void *caller);
void ffi_round_got(const struct ffi_giver *giver, SEXP value);
void ffi_round_ask(const void *caller);
const void *ffi_round_caller(void);
// ffi_round_is_over: nothing is owed to the round used last.
int ffi_round_is_over(void);

#endif
