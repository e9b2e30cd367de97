// pool/journal: the calls that restore a worker's state, in order. Pure: bytes and facts go in; no
// socket, no clock, no R.
//
// An entry is a verb's call as it was sent, with the position of the random number stream before
// it. All calls since the last checkpoint are kept, whatever they seem to change. But a call that
// only binds values to names (clusterExport, cluster_share) replaces one that bound the same names
// if there are only such calls in between. A checkpoint is a copy of the worker's process, which
// replaces the worker when it is lost (fork/standby.c) and replays the entries in order.
//
// A checkpoint has a price, which is certain: the fork, and a page fault for each page that the
// worker writes to afterwards, since it shares its memory with the copy. What it saves, a replay,
// is needed only after a loss, which is rare. So it is requested when the replay would take so long
// that price and expected replay are least together: sqrt(2 * price * time between losses), after
// Young (Comm. ACM 17(9), 1974) and Daly (Future Generation Computer Systems 22(3), 2006). Before
// that, the calls since the last one must have taken MST_JOURNAL_PRICES times its price. With 0.1 s
// and a loss in ten hours that is 85 s of evaluation.
//
// Where no checkpoint is possible (workers that weren't forked, or have threads of their own) all
// calls are kept as well, as long as replaying them wouldn't take too long (mst_journal_bound).
//
// A checkpoint on another host may be lost together with its worker. So there the calls that it
// covers are kept, too, and replayed if it ends: unless replaying them would take too long, there
// are too many, or memory is short.
//
// A journal beyond that limit, with too many entries, with more bytes than memory allows, or whose
// checkpoint ended, is useless until there is another checkpoint. It drops its entries and is
// marked incomplete, rather than restore a different state.
#ifndef MST_POOL_JOURNAL_H
#define MST_POOL_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_clock.h"
#include "pool/job.h"
#include "share/blob.h"
#include "wire/wire.h"

#define MST_JOURNAL_ENTRIES_MAX 100000u
// Checkpoints cost at most 1 % of the processor time of the calls that they cover.
#define MST_JOURNAL_PRICES 100
// Bytes that only a replay needs, and that a checkpoint frees: values that were bound to the same
// names again, and arguments. At the first bound a checkpoint may cost 5 % of the time since the
// last one; at the second, more.
#define MST_JOURNAL_STALE_BYTES ((size_t)64 << 20)
#define MST_JOURNAL_STALE_PRICES 20
#define MST_JOURNAL_STALE_BYTES_MAX ((size_t)128 << 20)
// The time that one entry takes in addition to its evaluation, and each byte of it.
#define MST_JOURNAL_ENTRY_NS INT64_C(20000)
#define MST_JOURNAL_BYTE_NS 1
// The assumed price of a worker's first checkpoint: 5,000 pages, 20 us each.
#define MST_JOURNAL_COST_NS (100 * MST_NS_PER_MS)

struct mst_entry {
  struct mst_entry *next;
  // A reference. Its `binds` is a hash of the names to which the call binds values, if it does
  // nothing else; otherwise 0.
  struct mst_blob *payload;
  struct mst_job *job;  // that the call needs, or NULL; a reference
  struct mst_seed seed; // before the call
  uint64_t call;        // its id
  double elapsed_s;
  uint8_t failed;  // the call raised an error, after it had changed something
  uint8_t visible; // the worker saw a change
  uint8_t is_task;
  uint8_t unseen;  // enum mst_unseen, see common.h
  uint8_t covered; // a checkpoint was made after it
  uint8_t stale;   // only a replay needs its bytes
};

enum mst_incomplete {
  MST_COMPLETE,
  MST_INCOMPLETE_MANY, // too many calls, or no memory to record one
  // No checkpoint is possible, and replay would take too long.
  MST_INCOMPLETE_LONG,
  MST_INCOMPLETE_MEMORY, // too many bytes
  MST_INCOMPLETE_ENDED   // its checkpoint ended, and only later calls are left
};

// Calls that the checkpoint covers.
struct mst_past {
  struct mst_entry *first;
  struct mst_entry *last;
  uint32_t count;
  int64_t replay_ns;
  uint8_t lost; // some were dropped
};

struct mst_journal {
  struct mst_entry *first;
  struct mst_entry *last;
  uint32_t count;
  size_t bytes;
  size_t stale_bytes; // of them
  int64_t replay_ns;  // estimated time of a replay
  int64_t cost_ns;    // price of the last checkpoint
  int64_t since_ns;   // when the last checkpoint was made, 0: never
  uint32_t refused;   // in a row
  // If a checkpoint was refused: the next is requested after this many calls.
  uint32_t pause;
  // There is one, which covers all calls before the first entry.
  uint8_t checkpoint;
  uint8_t asking;     // one was requested and hasn't come yet
  uint8_t unfit;      // none can be made now
  uint8_t impossible; // none can ever be made
  uint8_t incomplete; // enum mst_incomplete: why entries were dropped
  uint8_t keeps;      // what a checkpoint covers is kept; the caller sets this
  struct mst_past past;
  // Bytes of all journals that share this counter, each blob once. NULL: not counted.
  size_t *total;
};

// mst_journal_add appends a call, as `entry` describes it (next is ignored; the payload and the job
// get one more reference), unless the journal is incomplete. 0, or -MST_EMEM: then it becomes
// incomplete.
int mst_journal_add(struct mst_journal *journal, const struct mst_entry *entry);
// mst_journal_bound drops all entries if the worker can't be copied and replay would take longer;
// and what the checkpoint covers if replaying that would make it longer.
void mst_journal_bound(struct mst_journal *journal, int64_t replay_max_ns);
// mst_journal_drop removes the entry to which `at`, a link of the list, points.
void mst_journal_drop(struct mst_journal *journal, struct mst_entry **at);
// mst_journal_forget_past drops what the checkpoint covers, for good.
void mst_journal_forget_past(struct mst_journal *journal);
// mst_journal_give_up drops all entries.
void mst_journal_give_up(struct mst_journal *journal, enum mst_incomplete why);

// What decides when a checkpoint pays, beside its price.
struct mst_pace {
  int64_t
      every_ns; // after so much evaluation, whatever its price; 0: when it pays
  double loss_ns; // mean time between two losses of a worker
  // The worker has no other calls to evaluate. If it has, a checkpoint waits up to twice as long.
  uint8_t idle;
};
// mst_journal_wants tells whether to request a checkpoint, and notes the request: 1 or 0. now: even
// if it doesn't pay yet.
int mst_journal_wants(struct mst_journal *journal, int now,
                      const struct mst_pace *pace, int64_t now_ns);
// mst_journal_made: a checkpoint was made after the last entry; cost_ns is its price, in processor
// time: the fork, and the page faults that follow. The journal is complete again.
void mst_journal_made(struct mst_journal *journal, int64_t cost_ns,
                      int64_t now_ns);
// mst_journal_start gives the first entry to replay, or NULL: on the last checkpoint, or on a fresh
// worker.
struct mst_entry *mst_journal_start(const struct mst_journal *journal,
                                    int from_checkpoint);
// mst_journal_refused: no checkpoint was made. It is requested again after some more calls, twice
// as many after each refusal; or never.
enum mst_refusal {
  MST_REFUSED_SHORT, // the system lacked something, for now
  MST_REFUSED_YET,   // the worker isn't fit for it now
  MST_REFUSED_EVER   // and never will be
};
void mst_journal_refused(struct mst_journal *journal, enum mst_refusal why);
// mst_journal_unask: the request failed, or the worker that got it is lost.
void mst_journal_unask(struct mst_journal *journal);
// mst_journal_ended: the checkpoint is gone, and the state before the first entry with it, unless
// the calls that it covered were kept. Another one may be wanted at once.
void mst_journal_ended(struct mst_journal *journal);

void mst_journal_free(struct mst_journal *journal);

#endif
