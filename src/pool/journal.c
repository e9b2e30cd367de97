// What made a worker what it is. The contract is in journal.h.
#include "pool/journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_fault.h"

static void count_bytes(struct mst_journal *journal, struct mst_blob *payload) {
  const size_t bytes = mst_blob_bytes(payload);
  journal->bytes += bytes;
  if (payload->logged++ == 0 && journal->total != NULL) {
    *journal->total += bytes;
  }
}

static void uncount_bytes(struct mst_journal *journal,
                          struct mst_blob *payload) {
  const size_t bytes = mst_blob_bytes(payload);
  journal->bytes -= bytes;
  if (--payload->logged == 0 && journal->total != NULL) {
    *journal->total -= bytes;
  }
}

static void drop_entry(struct mst_journal *journal, struct mst_entry **at) {
  struct mst_entry *gone = *at;
  *at = gone->next;
  journal->count--;
  uncount_bytes(journal, gone->payload);
  journal->dropped++;
  mst_blob_release(gone->payload);
  mst_job_release(gone->job);
  free(gone);
}

static void find_last(struct mst_journal *journal) {
  journal->last = journal->first;
  while (journal->last != NULL && journal->last->next != NULL) {
    journal->last = journal->last->next;
  }
}

static int is_equal(const struct mst_entry *one,
                    const struct mst_entry *other) {
  if (one->unseen == MST_UNSEEN_LAST && other->unseen == MST_UNSEEN_LAST) {
    return 1;
  }
  return one->snapshot == other->snapshot &&
         mst_blob_equal(one->payload, other->payload);
}

// drop_equal: what an entry does unseen is done by its last equal too. Only among
// those that changed nothing in sight, so that nothing in sight is done out of turn.
static void drop_equal(struct mst_journal *journal,
                       const struct mst_entry *entry) {
  for (struct mst_entry **at = &journal->first; *at != NULL;) {
    if (!(*at)->visible && is_equal(*at, entry)) {
      drop_entry(journal, at);
    } else {
      at = &(*at)->next;
    }
  }
  find_last(journal);
}

// drop_bound: what is bound anew, and was read by nobody meanwhile, need not be bound
// before. Looks at the calls at the end that only bind.
static void drop_bound(struct mst_journal *journal,
                       const struct mst_entry *entry) {
  if (entry->payload->binds == 0 || entry->failed || !entry->visible) return;
  struct mst_entry **at = &journal->first;
  for (struct mst_entry **next = at; *next != NULL; next = &(*next)->next) {
    if ((*next)->payload->binds == 0) at = &(*next)->next;
  }
  while (*at != NULL) {
    if ((*at)->payload->binds == entry->payload->binds) {
      if ((*at)->visible) journal->since--;
      drop_entry(journal, at);
    } else {
      at = &(*at)->next;
    }
  }
  find_last(journal);
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
  added->payload->refs++;
  mst_job_keep(added->job);
  if (journal->last != NULL) {
    journal->last->next = added;
  } else {
    journal->first = added;
  }
  journal->last = added;
  journal->count++;
  count_bytes(journal, added->payload);
  return 0;
}

int mst_journal_add(struct mst_journal *journal,
                    const struct mst_entry *entry) {
  if (journal->incomplete) return 0;
  if (!entry->visible) drop_equal(journal, entry);
  drop_bound(journal, entry);
  if (journal->count >= MST_JOURNAL_ENTRIES_MAX) {
    mst_journal_give_up(journal, MST_INCOMPLETE_MANY);
    return 0;
  }
  if (append(journal, entry) != 0) return -MST_EMEM;
  if (entry->visible) journal->since++;
  return 0;
}

static size_t snapshot_bytes(const struct mst_journal *journal) {
  for (const struct mst_entry *at = journal->first; at != NULL; at = at->next) {
    if (at->snapshot) return mst_blob_bytes(at->payload);
  }
  return 0;
}

int mst_journal_wants(struct mst_journal *journal, uint64_t call) {
  if (journal->asking || journal->impossible || journal->incomplete) return 0;
  if (journal->since < MST_JOURNAL_SNAPSHOT_EVERY) return 0;
  const size_t more = snapshot_bytes(journal) / MST_JOURNAL_SNAPSHOT_BYTES;
  if (journal->since - MST_JOURNAL_SNAPSHOT_EVERY < more &&
      journal->count < MST_JOURNAL_ENTRIES_MAX / 2) {
    return 0;
  }
  journal->asking = 1;
  journal->asked = call;
  return 1;
}

// drop_doubles: of equal entries before `end` the last is enough.
static void drop_doubles(struct mst_journal *journal,
                         const struct mst_entry *end) {
  for (struct mst_entry **at = &journal->first; *at != end;) {
    const struct mst_entry *later = (*at)->next;
    while (later != end && !is_equal(*at, later))
      later = later->next;
    if (later != end) {
      drop_entry(journal, at);
    } else {
      at = &(*at)->next;
    }
  }
}

int mst_journal_snapshot(struct mst_journal *journal,
                         struct mst_blob *payload) {
  if (!journal->asking || journal->incomplete) return 0;
  journal->asking = 0;
  if (payload == NULL) {
    journal->impossible = 1;
    return 0;
  }
  struct mst_entry *snapshot = new_entry();
  if (snapshot == NULL) return -MST_EMEM;
  // What came before it: only what is kept for what it does unseen.
  struct mst_entry **at = &journal->first;
  while (*at != NULL && ((*at)->snapshot || (*at)->call <= journal->asked)) {
    if ((*at)->snapshot || !(*at)->unseen) {
      if ((*at)->visible && !(*at)->snapshot) journal->since--;
      drop_entry(journal, at);
      continue;
    }
    if ((*at)->visible) {
      (*at)->visible = 0; // the snapshot has what it did in sight
      journal->since--;
    }
    at = &(*at)->next;
  }
  struct mst_entry *after = *at;
  drop_doubles(journal, after);
  at = &journal->first;
  while (*at != after)
    at = &(*at)->next;
  *snapshot =
      (struct mst_entry){.next = after, .payload = payload, .snapshot = 1};
  payload->refs++;
  *at = snapshot;
  journal->count++;
  count_bytes(journal, payload);
  find_last(journal);
  return 0;
}

void mst_journal_unask(struct mst_journal *journal) { journal->asking = 0; }

void mst_journal_give_up(struct mst_journal *journal, enum mst_incomplete why) {
  while (journal->first != NULL)
    drop_entry(journal, &journal->first);
  journal->last = NULL;
  journal->since = 0;
  journal->asking = 0;
  journal->incomplete = (uint8_t)why;
}

void mst_journal_free(struct mst_journal *journal) {
  size_t *total = journal->total;
  while (journal->first != NULL)
    drop_entry(journal, &journal->first);
  *journal = (struct mst_journal){.total = total};
}
