// pool/common: what all workers of a cluster were told, for those that join later. Pure.
//
// A cast is one call that a verb gives to several workers before it waits for an answer, as
// clusterCall() does and what stands on it: clusterExport(), clusterEvalQ(), cluster_share().
// It is whole if every worker that takes calls has it by then. Whole casts that changed a
// worker make a journal, which a worker that is added replays as one that comes back replays
// its own. What single workers were given isn't in it, whatever it changed, nor is a random
// stream, which is one worker's even where there are no others.
//
// No checkpoint can stand for these calls: a worker's has its own values of what they computed. So
// the journal is kept short:
//   - calls that no worker saw change anything are never put in;
//   - a call that leaves no trace, but is kept for what it may do unseen (clusterEvalQ), replaces
//     an equal one before it, or one of its kind where the last undoes what the others did
//     (foreach's preparations).
// Past its number of calls, or of bytes (mst_calls_bound_log in calls.h), it is dropped, and says
// so (incomplete), rather than make a worker that has some of what the others have.
#ifndef MST_POOL_COMMON_H
#define MST_POOL_COMMON_H

#include <stddef.h>
#include <stdint.h>

#include "pool/journal.h"
#include "share/blob.h"

#define MST_COMMON_CALLS_MAX 10000u

// A call that may change what no worker sees.
enum mst_unseen {
  MST_UNSEEN_NOT,  // it doesn't
  MST_UNSEEN_EACH, // kept for what it may do so
  MST_UNSEEN_LAST // likewise, and undoes what the ones of this kind before it did
};

struct mst_cast {
  uint32_t refs; // calls of it, and the cluster while it goes on
  uint64_t number;
  const void *caller;
  struct mst_blob *payload; // a reference
  double elapsed_s;         // of the first answer that told of a change
  uint8_t whole;
  uint8_t noted;   // it is in the journal
  uint8_t visible; // some worker saw a change, or
  uint8_t unseen;  // it is kept whatever it changes, and was answered
  uint8_t failed;  // at some worker
};

struct mst_common {
  struct mst_journal journal; // the `call` of an entry is its cast's number
  struct mst_cast *now;       // that goes on, NULL if none
  uint64_t casts;             // last number given
  uint8_t incomplete;
};

// mst_common_open gives the cast of a call that is given now, one that goes on if `same`, with
// a reference for the caller; NULL without memory. One that goes on otherwise must have been
// closed. Allocates.
struct mst_cast *mst_common_open(struct mst_common *common,
                                 struct mst_blob *payload, const void *caller);
// mst_common_goes_on tells whether a call would be one more of the cast that goes on.
int mst_common_goes_on(const struct mst_common *common,
                       const struct mst_blob *payload, const void *caller);
// mst_common_close ends the cast that goes on. Allocates if it is whole and changed a worker.
void mst_common_close(struct mst_common *common, int whole);
// mst_common_answered takes what an answer to a call of a cast tells. Allocates.
void mst_common_answered(struct mst_common *common, struct mst_cast *cast,
                         const struct mst_entry *entry);
// mst_common_copy puts the journal into another one, as calls *id + 1 and so on. 0;
// -MST_EMEM: then that one is incomplete.
int mst_common_copy(const struct mst_common *common, struct mst_journal *to,
                    uint64_t *id);
// mst_common_give_up lets go of the journal: workers that join will lack what is in it.
void mst_common_give_up(struct mst_common *common);
// mst_cast_release drops a reference. NULL is allowed.
void mst_cast_release(struct mst_cast *cast);
void mst_common_free(struct mst_common *common);

#endif
