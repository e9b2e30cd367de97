// pool/journal: what made a worker what it is, in order. Pure: bytes and facts go
// in; no socket, no clock, no R.
//
// An entry is a call that changed the worker, as it was sent, with the position of
// the random number stream before it. Replayed in order they make a new
// incarnation the same. Four things keep a journal short:
//   - calls that change nothing are never put in (the worker's answer tells);
//   - a call that leaves no trace that the worker can see, but is kept for what it
//     may do unseen (clusterEvalQ), replaces an equal one before it, or one of its
//     kind where the last undoes what the others did (foreach's preparations);
//   - a call that does nothing but bind values to names (clusterExport, cluster_share)
//     replaces one that bound the same names, if there are only such calls in between;
//   - a snapshot of the worker (its global variables, options, search path) stands
//     for all entries before it. Those kept for what they do unseen stay, and are
//     replayed before the snapshot, which has the last word.
// A journal that grew past MST_JOURNAL_ENTRIES_MAX without a snapshot, or has more bytes than
// there is memory for, is of no use: it lets go of all, and says so (incomplete) rather than make
// a worker that is not the same.
#ifndef MST_POOL_JOURNAL_H
#define MST_POOL_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "pool/job.h"
#include "share/blob.h"
#include "wire/wire.h"

#define MST_JOURNAL_ENTRIES_MAX 10000u
// A snapshot is asked for after so many entries that it would stand for, and one
// more for each so many bytes that the last one had.
#define MST_JOURNAL_SNAPSHOT_EVERY 64u
#define MST_JOURNAL_SNAPSHOT_BYTES ((size_t)65536)

// A call that may change what no worker sees.
enum mst_unseen {
  MST_UNSEEN_NOT,  // it doesn't
  MST_UNSEEN_EACH, // kept for what it may do so
  MST_UNSEEN_LAST // likewise, and undoes what the ones of this kind before it did
};

struct mst_entry {
  struct mst_entry *next;
  // Of EXEC; of a snapshot its R bytes. A reference. Its `binds` is a hash of the names
  // to which the call binds values and does nothing else; 0 for other calls.
  struct mst_blob *payload;
  struct mst_job *job;  // that the call needs, NULL for none. A reference
  struct mst_seed seed; // before the call
  uint64_t call;        // its id, 0 for a snapshot
  double elapsed_s;
  uint8_t failed;   // the call raised an error (after it had changed something)
  uint8_t visible;  // the worker saw a change
  uint8_t unseen;   // enum mst_unseen
  uint8_t snapshot; // a snapshot, not a call
};

enum mst_incomplete {
  MST_COMPLETE,
  MST_INCOMPLETE_MANY,  // too many calls, or no memory to note one
  MST_INCOMPLETE_MEMORY // too many bytes
};

struct mst_journal {
  struct mst_entry *first;
  struct mst_entry *last;
  uint32_t count;
  size_t bytes;
  uint32_t since;     // visible entries after the last snapshot
  uint64_t dropped;   // entries that a snapshot or an equal one replaced
  uint64_t asked;     // call that the snapshot that was asked for comes after
  uint8_t asking;     // it was asked for and hasn't come
  uint8_t impossible; // the worker said that it can't be put into one
  uint8_t incomplete; // enum mst_incomplete: something had to be dropped
  size_t *total; // bytes of all journals that have the same, each blob once; NULL: not counted
};

// mst_journal_add puts a call in, as `entry` describes it (next is ignored; the
// payload and the job get one more reference), unless the journal is incomplete. 0 or -MST_EMEM:
// then it is.
int mst_journal_add(struct mst_journal *journal, const struct mst_entry *entry);
// mst_journal_give_up lets go of all that it has.
void mst_journal_give_up(struct mst_journal *journal, enum mst_incomplete why);

// mst_journal_wants tells whether a snapshot should be asked for after call `call`,
// and notes that it was: 1 or 0.
int mst_journal_wants(struct mst_journal *journal, uint64_t call);
// mst_journal_snapshot takes the snapshot that was asked for; payload NULL if the
// worker can't be put into one. 0 or -MST_EMEM: then all stays as it was, and it
// will be asked for again.
int mst_journal_snapshot(struct mst_journal *journal, struct mst_blob *payload);
// mst_journal_unask: the incarnation that was asked for a snapshot is gone.
void mst_journal_unask(struct mst_journal *journal);

void mst_journal_free(struct mst_journal *journal);

#endif
