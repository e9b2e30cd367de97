// The calls that restore a worker's state. The contract is in journal.h.
#include "pool/journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_fault.h"

// bytes_of: other jobs are kept for calls to come.
static size_t bytes_of(const struct mst_entry *entry) {
  return mst_blob_bytes(entry->payload) + mst_job_result_bytes(entry->job);
}

// log_blob counts the bytes of a blob once, in however many entries it is.
static void log_blob(struct mst_journal *journal, struct mst_blob *blob) {
  if (blob->logged++ == 0 && journal->total != NULL)
    *journal->total += mst_blob_bytes(blob);
}

static void unlog_blob(struct mst_journal *journal, struct mst_blob *blob) {
  if (--blob->logged == 0 && journal->total != NULL)
    *journal->total -= mst_blob_bytes(blob);
}

static void each_result(struct mst_journal *journal, const struct mst_job *job,
                        void (*visit)(struct mst_journal *,
                                      struct mst_blob *)) {
  if (job == NULL) return;
  for (uint32_t i = 0; i < job->member_count; i++)
    each_result(journal, job->members[i], visit);
  if (job->is_result) visit(journal, job->bytes);
}

static void count_bytes(struct mst_journal *journal,
                        const struct mst_entry *entry) {
  journal->bytes += bytes_of(entry);
  log_blob(journal, entry->payload);
  each_result(journal, entry->job, log_blob);
}

static void free_entry(struct mst_journal *journal, struct mst_entry *entry) {
  unlog_blob(journal, entry->payload);
  each_result(journal, entry->job, unlog_blob);
  mst_blob_release(entry->payload);
  mst_job_release(entry->job);
  free(entry);
}

static int64_t replay_ns(const struct mst_entry *entry) {
  const double elapsed_ns = entry->elapsed_s * 1e9;
  const int64_t most_ns = INT64_MAX / 4;
  const int64_t ns = elapsed_ns < 0                 ? 0
                     : elapsed_ns > (double)most_ns ? most_ns
                                                    : (int64_t)elapsed_ns;
  return ns + MST_JOURNAL_ENTRY_NS +
         (int64_t)bytes_of(entry) * MST_JOURNAL_BYTE_NS;
}

static void find_last(struct mst_journal *journal) {
  journal->last = journal->first;
  while (journal->last != NULL && journal->last->next != NULL) {
    journal->last = journal->last->next;
  }
}

void mst_journal_drop(struct mst_journal *journal, struct mst_entry **at) {
  struct mst_entry *gone = *at;
  *at = gone->next;
  journal->count--;
  journal->replay_ns -= replay_ns(gone);
  journal->bytes -= bytes_of(gone);
  if (gone->stale) journal->stale_bytes -= bytes_of(gone);
  if (gone == journal->last) find_last(journal);
  free_entry(journal, gone);
}

// drop_bound drops an earlier entry that binds the same names, if nothing can have read them in
// between: it checks only the calls at the end that do nothing but bind.
static void drop_bound(struct mst_journal *journal,
                       const struct mst_entry *entry) {
  if (entry->payload->binds == 0 || entry->failed || !entry->visible) return;
  struct mst_entry **at = &journal->first;
  for (struct mst_entry **next = at; *next != NULL; next = &(*next)->next) {
    if ((*next)->payload->binds == 0) at = &(*next)->next;
  }
  while (*at != NULL) {
    if ((*at)->payload->binds == entry->payload->binds) {
      mst_journal_drop(journal, at);
    } else {
      at = &(*at)->next;
    }
  }
}

// outdate marks as stale what an entry binds anew, and its own bytes if it binds nothing: its
// arguments.
static void outdate(struct mst_journal *journal, struct mst_entry *added) {
  const uint64_t binds = added->payload->binds;
  if (binds == 0) {
    added->stale = 1;
    journal->stale_bytes += bytes_of(added);
    return;
  }
  if (added->failed || !added->visible) return;
  for (struct mst_entry *at = journal->first; at != added; at = at->next) {
    if (at->stale || at->payload->binds != binds) continue;
    at->stale = 1;
    journal->stale_bytes += bytes_of(at);
  }
}

static struct mst_entry *new_entry(void) {
  return mst_fault("journal.alloc") ? NULL : malloc(sizeof(struct mst_entry));
}

static int append(struct mst_journal *journal, const struct mst_entry *entry) {
  struct mst_entry *added = new_entry();
  if (added == NULL) {
    mst_journal_give_up(journal, MST_INCOMPLETE_MANY);
    return -MST_EMEM;
  }
  *added = *entry;
  added->next = NULL;
  added->covered = added->stale = 0;
  added->payload->refs++;
  mst_job_keep(added->job);
  if (journal->last != NULL) {
    journal->last->next = added;
  } else {
    journal->first = added;
  }
  journal->last = added;
  journal->count++;
  journal->replay_ns += replay_ns(added);
  count_bytes(journal, added);
  outdate(journal, added);
  return 0;
}

int mst_journal_add(struct mst_journal *journal,
                    const struct mst_entry *entry) {
  if (journal->incomplete) return 0;
  drop_bound(journal, entry);
  if (journal->count >= MST_JOURNAL_ENTRIES_MAX) {
    mst_journal_give_up(journal, MST_INCOMPLETE_MANY);
    return 0;
  }
  return append(journal, entry);
}

// pays tells whether the calls since the last checkpoint took Young's interval. Squares are
// compared, so that no root is needed.
static int pays(int64_t replay_ns, int64_t cost_ns, double loss_ns) {
  const double replay = (double)replay_ns, cost = (double)cost_ns;
  return replay >= MST_JOURNAL_PRICES * cost &&
         replay * replay >= 2 * cost * loss_ns;
}

static int is_due(const struct mst_journal *journal,
                  const struct mst_pace *pace, int64_t now_ns) {
  const int64_t cost_ns =
      journal->cost_ns == 0 ? MST_JOURNAL_COST_NS : journal->cost_ns;
  const size_t stale = journal->stale_bytes;
  if (journal->count >= MST_JOURNAL_ENTRIES_MAX / 2) return 1;
  if (stale >= MST_JOURNAL_STALE_BYTES_MAX) return 1;
  if (stale >= MST_JOURNAL_STALE_BYTES &&
      (now_ns - journal->since_ns) / MST_JOURNAL_STALE_PRICES >= cost_ns) {
    return 1;
  }
  if (pace->every_ns > 0) return journal->replay_ns >= pace->every_ns;
  const int64_t replay_ns =
      pace->idle ? journal->replay_ns : journal->replay_ns / 2;
  return pays(replay_ns, cost_ns, pace->loss_ns);
}

int mst_journal_wants(struct mst_journal *journal, int now,
                      const struct mst_pace *pace, int64_t now_ns) {
  if (journal->asking || journal->impossible) return 0;
  if (journal->pause > 0) {
    if (!now) journal->pause--;
    return 0;
  }
  if (!now && !journal->incomplete && !is_due(journal, pace, now_ns)) return 0;
  journal->asking = 1;
  return 1;
}

static void drop_all(struct mst_journal *journal) {
  while (journal->first != NULL)
    mst_journal_drop(journal, &journal->first);
}

void mst_journal_forget_past(struct mst_journal *journal) {
  struct mst_past *past = &journal->past;
  while (past->first != NULL) {
    struct mst_entry *gone = past->first;
    past->first = gone->next;
    free_entry(journal, gone);
  }
  *past = (struct mst_past){.lost = 1};
}

// cover moves all entries to the past.
static void cover(struct mst_journal *journal) {
  struct mst_past *past = &journal->past;
  if (journal->incomplete || past->lost || !journal->keeps ||
      past->count + journal->count > MST_JOURNAL_ENTRIES_MAX) {
    mst_journal_forget_past(journal);
    drop_all(journal);
    return;
  }
  if (journal->first == NULL) return;
  for (struct mst_entry *at = journal->first; at != NULL; at = at->next)
    at->covered = 1;
  if (past->last != NULL) {
    past->last->next = journal->first;
  } else {
    past->first = journal->first;
  }
  past->last = journal->last;
  past->count += journal->count;
  past->replay_ns += journal->replay_ns;
  journal->first = journal->last = NULL;
  journal->count = 0;
  journal->bytes = journal->stale_bytes = 0;
  journal->replay_ns = 0;
}

// uncover puts the past before all entries. They stay marked: the worker may come from that
// checkpoint.
static void uncover(struct mst_journal *journal) {
  struct mst_past *past = &journal->past;
  if (past->first == NULL) return;
  for (const struct mst_entry *at = past->first; at != NULL; at = at->next) {
    journal->bytes += bytes_of(at);
    if (at->stale) journal->stale_bytes += bytes_of(at);
  }
  past->last->next = journal->first;
  journal->first = past->first;
  if (journal->last == NULL) journal->last = past->last;
  journal->count += past->count;
  journal->replay_ns += past->replay_ns;
  *past = (struct mst_past){.lost = 0};
}

void mst_journal_made(struct mst_journal *journal, int64_t cost_ns,
                      int64_t now_ns) {
  cover(journal);
  journal->asking = 0;
  journal->incomplete = MST_COMPLETE;
  journal->refused = journal->pause = 0;
  journal->unfit = 0;
  journal->cost_ns = cost_ns < 1 ? 1 : cost_ns;
  journal->checkpoint = 1;
  journal->since_ns = now_ns;
}

struct mst_entry *mst_journal_start(const struct mst_journal *journal,
                                    int from_checkpoint) {
  struct mst_entry *at = journal->first;
  while (from_checkpoint && at != NULL && at->covered)
    at = at->next;
  return at;
}

void mst_journal_refused(struct mst_journal *journal, enum mst_refusal why) {
  journal->asking = 0;
  journal->refused = journal->refused < 10 ? journal->refused + 1 : 10;
  journal->pause = 1u << journal->refused;
  journal->impossible = why == MST_REFUSED_EVER;
  journal->unfit = why != MST_REFUSED_SHORT;
}

void mst_journal_unask(struct mst_journal *journal) { journal->asking = 0; }

// Entries stay: they may be being replayed by the former checkpoint.
void mst_journal_ended(struct mst_journal *journal) {
  if (!journal->checkpoint) return;
  journal->checkpoint = 0;
  if (journal->past.lost) {
    if (!journal->incomplete) journal->incomplete = MST_INCOMPLETE_ENDED;
  } else {
    uncover(journal);
  }
}

void mst_journal_bound(struct mst_journal *journal, int64_t replay_max_ns) {
  if (journal->past.replay_ns > replay_max_ns - journal->replay_ns) {
    mst_journal_forget_past(journal);
  }
  if (journal->unfit && journal->replay_ns > replay_max_ns) {
    mst_journal_give_up(journal, MST_INCOMPLETE_LONG);
  }
}

void mst_journal_give_up(struct mst_journal *journal, enum mst_incomplete why) {
  mst_journal_forget_past(journal);
  drop_all(journal);
  journal->incomplete = (uint8_t)why;
}

void mst_journal_free(struct mst_journal *journal) {
  size_t *total = journal->total;
  const uint8_t keeps = journal->keeps;
  mst_journal_forget_past(journal);
  drop_all(journal);
  *journal = (struct mst_journal){.total = total, .keeps = keeps};
}
