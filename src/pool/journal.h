// pool/journal: what made a worker what it is, in order. Pure: bytes and facts go
// in; no socket, no clock, no R.
//
// An entry is a call of a verb, as it was sent, with the position of the random number stream
// before it. All calls since the last checkpoint are kept, whatever they seem to change; but a
// call that does nothing but bind values to names (clusterExport, cluster_share) replaces one
// that bound the same names, if there are only such calls in between. A checkpoint is a copy of
// the worker's process, which takes its place when it is lost (fork/standby.c), and on which the
// entries are replayed in order. It is asked for when it costs little beside what it would take
// to replay them.
//
// Where there can be none (workers that weren't forked, or have threads of their own) all calls are
// kept as well, as long as it wouldn't take too long to replay them (mst_journal_bound).
//
// A journal past that, or past its number of entries, or that has more bytes than there is memory
// for, or whose checkpoint ended, is of no use until there is another checkpoint: it lets go of
// all, and says so (incomplete) rather than make a worker that is not the same.
#ifndef MST_POOL_JOURNAL_H
#define MST_POOL_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_clock.h"
#include "pool/job.h"
#include "share/blob.h"
#include "wire/wire.h"

#define MST_JOURNAL_ENTRIES_MAX 100000u
// A checkpoint is asked for when to replay the entries would take this long, and the last one
// was made so many times as long ago as it took; or for so many bytes; or half of the entries.
// The pages that the worker writes to after the fork cost it seven times as much as the fork, so
// that is 2 %.
#define MST_JOURNAL_REPLAY_NS (50 * MST_NS_PER_MS)
#define MST_JOURNAL_REPLAY_FACTOR 400
#define MST_JOURNAL_REPLAY_BYTES ((size_t)64 << 20)
// What one entry takes beside its evaluation, and each byte of it.
#define MST_JOURNAL_ENTRY_NS INT64_C(20000)
#define MST_JOURNAL_BYTE_NS 1
// What a checkpoint is taken to cost before there was one.
#define MST_JOURNAL_COST_NS (2 * MST_NS_PER_MS)

struct mst_entry {
  struct mst_entry *next;
  // A reference. Its `binds` is a hash of the names to which the call binds values and does
  // nothing else; 0 for other calls.
  struct mst_blob *payload;
  struct mst_job *job;  // that the call needs, NULL for none. A reference
  struct mst_seed seed; // before the call
  uint64_t call;        // its id
  double elapsed_s;
  uint8_t failed;  // the call raised an error (after it had changed something)
  uint8_t visible; // the worker saw a change
  uint8_t unseen;  // enum mst_unseen, see common.h
};

enum mst_incomplete {
  MST_COMPLETE,
  MST_INCOMPLETE_MANY,   // too many calls, or no memory to note one
  MST_INCOMPLETE_LONG,   // there is no checkpoint, and they took too long
  MST_INCOMPLETE_MEMORY, // too many bytes
  MST_INCOMPLETE_ENDED // its checkpoint ended, and it has only what came after that
};

struct mst_journal {
  struct mst_entry *first;
  struct mst_entry *last;
  uint32_t count;
  size_t bytes;
  int64_t replay_ns; // what it would take to replay them
  int64_t cost_ns;   // of the last checkpoint
  int64_t since_ns;  // when that was made, 0: never
  uint32_t refused;  // in a row
  uint32_t
      pause; // an incomplete one isn't asked for again before so many calls
  uint8_t
      checkpoint; // there is one, which stands for all before the first entry
  uint8_t asking; // it was asked for and hasn't come
  uint8_t unfit;  // there can be none now, and
  uint8_t impossible; // nor ever
  uint8_t incomplete; // enum mst_incomplete: something had to be dropped
  size_t *
      total; // bytes of all journals that have the same, each blob once; NULL: not counted
};

// mst_journal_add puts a call in, as `entry` describes it (next is ignored; the
// payload and the job get one more reference), unless the journal is incomplete. 0 or -MST_EMEM:
// then it is.
int mst_journal_add(struct mst_journal *journal, const struct mst_entry *entry);
// mst_journal_bound lets go of all if the worker can't be copied and it would take longer to
// replay.
void mst_journal_bound(struct mst_journal *journal, int64_t replay_max_ns);
// mst_journal_drop takes the entry out to which `at`, a link of the list, points.
void mst_journal_drop(struct mst_journal *journal, struct mst_entry **at);
// mst_journal_give_up lets go of all that it has.
void mst_journal_give_up(struct mst_journal *journal, enum mst_incomplete why);

// mst_journal_wants tells whether a checkpoint should be asked for, and notes that it was: 1 or 0.
// now: even if it isn't worth it yet.
int mst_journal_wants(struct mst_journal *journal, int now, int64_t now_ns);
// mst_journal_made: there is a checkpoint, made between the last entry and what comes next, for
// cost_ns of computing. The journal is complete again.
void mst_journal_made(struct mst_journal *journal, int64_t cost_ns,
                      int64_t now_ns);
// mst_journal_refused: there is none. It will be asked for again after some more calls, each time
// more of them, or never.
enum mst_refusal {
  MST_REFUSED_SHORT, // of something that there may be later
  MST_REFUSED_YET,   // the worker isn't fit for it
  MST_REFUSED_EVER   // nor will be
};
void mst_journal_refused(struct mst_journal *journal, enum mst_refusal why);
// mst_journal_unask: the incarnation that was asked is gone, or couldn't be.
void mst_journal_unask(struct mst_journal *journal);
// mst_journal_ended: the checkpoint is gone, with all that it stood for. Another may be wanted at
// once.
void mst_journal_ended(struct mst_journal *journal);

void mst_journal_free(struct mst_journal *journal);

#endif
