// pool/common: the calls that all workers of a cluster were given, for workers that join later.
// Pure.
//
// A cast is one call that a verb gives to several workers before it waits for an answer, as
// clusterCall() does, and everything built on it: clusterExport(), clusterEvalQ(), cluster_share().
// It is whole if by then every worker that takes calls has it. Whole casts that changed a worker
// make a journal. A worker that is added replays it, as one that comes back replays its own. Calls
// to single workers aren't in it, whatever they changed; nor are random streams, which belong to
// one worker even in a cluster of one.
//
// A checkpoint can't replace these calls: it has one worker's own values of what they computed. So
// the journal is kept short:
//   - calls that changed nothing that any worker could see are left out;
//   - a call without a visible change that is kept for its possible invisible effects
//     (clusterEvalQ) replaces an equal one before it, or one of its kind if the last one undoes
//     the effects of the others (foreach's preparations).
// Beyond its maximum of calls, of bytes (mst_calls_bound_log in calls.h), or of stale bytes (values
// that were bound again since, which calls in between may have read), the journal is dropped and
// marked incomplete. From then on nothing is kept for workers that join: none of the others' values
// is better than some of them, which later calls may have changed.
#ifndef MST_POOL_COMMON_H
#define MST_POOL_COMMON_H

#include <stddef.h>
#include <stdint.h>

#include "pool/journal.h"
#include "share/blob.h"

#define MST_COMMON_CALLS_MAX 10000u
#define MST_COMMON_STALE_BYTES ((size_t)64 << 20)

// Whether a call may change something that no worker can see.
enum mst_unseen {
  MST_UNSEEN_NOT,  // it doesn't
  MST_UNSEEN_EACH, // it may, so it is kept
  MST_UNSEEN_LAST // likewise, and undoes what the ones of this kind before it did
};                // likewise; it undoes the effects of earlier ones of its kind

struct mst_cast {
  uint32_t refs; // its calls, and the cluster while it is the current one
  uint64_t number;
  const void *caller;
  struct mst_blob *payload; // a reference
  double elapsed_s;         // of the first answer that reported a change
  uint8_t whole;
  uint8_t noted;   // it is in the journal
  uint8_t visible; // some worker saw a change
  // enum mst_unseen; kept even without a visible change, once answered.
  uint8_t unseen;
  uint8_t failed; // at some worker
};

struct mst_common {
  struct mst_journal journal; // `call` of an entry is the number of its cast
  struct mst_cast *now;       // the current one, or NULL
  uint64_t casts;             // last number given
  uint8_t incomplete;
};

// mst_common_open gives the cast of a new call: the current one, or a new one if there is none. The
// caller must have closed the current one unless the call belongs to it. The caller gets a
// reference. NULL if memory is short. Allocates.
struct mst_cast *mst_common_open(struct mst_common *common,
                                 struct mst_blob *payload, const void *caller);
// mst_common_goes_on tells whether a call would belong to the current cast.
int mst_common_goes_on(const struct mst_common *common,
                       const struct mst_blob *payload, const void *caller);
// mst_common_close ends the current cast. Allocates if it is whole and changed a worker.
void mst_common_close(struct mst_common *common, int whole);
// mst_common_answered takes the facts that an answer to a call of a cast reports. Allocates.
void mst_common_answered(struct mst_common *common, struct mst_cast *cast,
                         const struct mst_entry *entry);
// mst_common_copy appends the journal to another one, as calls *id + 1 and so on. 0, or -MST_EMEM:
// then the other one is incomplete.
int mst_common_copy(const struct mst_common *common, struct mst_journal *to,
                    uint64_t *id);
// mst_common_give_up drops the journal, since memory is short: workers that join will lack its
// effects.
void mst_common_give_up(struct mst_common *common);
// mst_cast_release drops a reference. NULL is allowed.
void mst_cast_release(struct mst_cast *cast);
void mst_common_free(struct mst_common *common);

#endif
