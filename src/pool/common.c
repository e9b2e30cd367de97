// The calls that all workers were given. The contract is in common.h.
#include "pool/common.h"

#include <stdlib.h>

#include "base/mst_assert.h"
#include "base/mst_err.h"

void mst_cast_release(struct mst_cast *cast) {
  if (cast == NULL) return;
  MST_ASSERT(cast->refs > 0);
  if (--cast->refs > 0) return;
  mst_blob_release(cast->payload);
  free(cast);
}

int mst_common_goes_on(const struct mst_common *common,
                       const struct mst_blob *payload, const void *caller) {
  const struct mst_cast *now = common->now;
  return now != NULL && now->caller == caller &&
         mst_blob_equal(now->payload, payload);
}

struct mst_cast *mst_common_open(struct mst_common *common,
                                 struct mst_blob *payload, const void *caller) {
  if (common->now == NULL) {
    struct mst_cast *cast = calloc(1, sizeof *cast);
    if (cast == NULL) {
      common->incomplete = 1;
      return NULL;
    }
    cast->refs = 1;
    cast->number = ++common->casts;
    cast->caller = caller;
    cast->payload = payload;
    payload->refs++;
    common->now = cast;
  }
  common->now->refs++;
  return common->now;
}

void mst_common_give_up(struct mst_common *common) {
  mst_journal_free(&common->journal);
  common->incomplete = 1;
}

static int is_equal(const struct mst_entry *one,
                    const struct mst_entry *other) {
  if (one->unseen == MST_UNSEEN_LAST && other->unseen == MST_UNSEEN_LAST) {
    return 1;
  }
  return mst_blob_equal(one->payload, other->payload);
}

// drop_equal drops earlier entries whose invisible effects the new entry repeats. Only entries
// without visible changes are dropped: that keeps the order of visible effects.
static void drop_equal(struct mst_journal *journal,
                       const struct mst_entry *entry) {
  for (struct mst_entry **at = &journal->first; *at != NULL;) {
    if (!(*at)->visible && is_equal(*at, entry)) {
      mst_journal_drop(journal, at);
    } else {
      at = &(*at)->next;
    }
  }
}

static void note(struct mst_common *common, struct mst_cast *cast) {
  struct mst_journal *journal = &common->journal;
  if (cast->noted || common->incomplete) return;
  cast->noted = 1;
  const struct mst_entry entry = {.payload = cast->payload,
                                  .call = cast->number,
                                  .elapsed_s = cast->elapsed_s,
                                  .failed = cast->failed,
                                  .visible = cast->visible,
                                  .unseen = cast->unseen};
  if (!entry.visible) drop_equal(journal, &entry);
  // A verb that calls again before the last call is answered may hear the answers out of order.
  const int late = journal->last != NULL && journal->last->call > cast->number;
  if (late || journal->count >= MST_COMMON_CALLS_MAX ||
      mst_journal_add(journal, &entry) != 0 || journal->incomplete ||
      journal->stale_bytes >= MST_COMMON_STALE_BYTES) {
    mst_common_give_up(common);
  }
}

void mst_common_close(struct mst_common *common, int whole) {
  struct mst_cast *cast = common->now;
  if (cast == NULL) return;
  common->now = NULL;
  cast->whole = (uint8_t)whole;
  if (whole && (cast->visible || cast->unseen)) note(common, cast);
  mst_cast_release(cast);
}

static struct mst_entry *entry_of(const struct mst_journal *journal,
                                  const struct mst_cast *cast) {
  struct mst_entry *at = journal->first;
  while (at != NULL && at->call != cast->number)
    at = at->next;
  return at;
}

void mst_common_answered(struct mst_common *common, struct mst_cast *cast,
                         const struct mst_entry *entry) {
  if (!cast->visible && !cast->unseen) cast->elapsed_s = entry->elapsed_s;
  cast->visible |= entry->visible;
  cast->unseen = entry->unseen;
  cast->failed |= entry->failed;
  if (cast->whole && (cast->visible || cast->unseen)) note(common, cast);
  struct mst_entry *noted = cast->noted && (cast->failed || cast->visible)
                                ? entry_of(&common->journal, cast)
                                : NULL;
  if (noted == NULL) return;
  noted->failed |= cast->failed;
  noted->visible |= cast->visible; // only some workers may have seen it
}

int mst_common_copy(const struct mst_common *common, struct mst_journal *to,
                    uint64_t *id) {
  for (const struct mst_entry *at = common->journal.first; at != NULL;
       at = at->next) {
    struct mst_entry entry = *at;
    entry.call = ++*id;
    const int rc = mst_journal_add(to, &entry);
    if (rc != 0) return rc;
  }
  return 0;
}

void mst_common_free(struct mst_common *common) {
  mst_common_close(common, 0);
  mst_journal_free(&common->journal);
}
