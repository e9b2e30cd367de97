// Tests of pool/journal: what is kept, what replaces what, and the limits.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_fault.h"
#include "mst_random.h"
#include "mst_test.h"
#include "pool/journal.h"

static struct mst_journal journal;
static uint64_t covered; // the snapshot in it stands for calls up to this one

// blob_of makes a payload of a text; the caller has a reference.
static struct mst_blob *blob_of(const char *text) {
  struct mst_blob *blob = mst_blob_new();
  CHECK(blob != NULL);
  CHECK_INT(mst_buf_append(&blob->buf, text, strlen(text)), 0);
  return blob;
}

// check_counts compares what the journal says of itself with what it holds.
static void check_counts(void) {
  uint32_t count = 0, since = 0, snapshots = 0;
  size_t bytes = 0;
  uint64_t call = 0;
  const struct mst_entry *last = NULL;
  for (const struct mst_entry *at = journal.first; at != NULL; at = at->next) {
    count++;
    bytes += at->payload->buf.len;
    since += at->visible;
    snapshots += at->snapshot;
    CHECK(at->payload->refs >= 1);
    CHECK(!at->snapshot || (at->call == 0 && !at->visible && !at->unseen));
    CHECK(at->snapshot || at->call > call); // in the order of the calls
    CHECK(!at->visible || snapshots == 0 || at->call > covered);
    if (!at->snapshot) call = at->call;
    last = at;
  }
  CHECK(journal.last == last);
  CHECK_INT(journal.count, count);
  CHECK_INT(journal.bytes, bytes);
  CHECK_INT(journal.since, since);
  CHECK(snapshots <= 1);
  CHECK(count <= MST_JOURNAL_ENTRIES_MAX + 1); // and a snapshot
}

enum { SEEN = 1, UNSEEN = 2 };

static uint64_t binds; // of what is added

static int add(uint64_t call, const char *text, int how) {
  struct mst_blob *blob = blob_of(text);
  blob->binds = binds;
  const struct mst_entry entry = {.payload = blob,
                                  .call = call,
                                  .elapsed_s = 0.5,
                                  .visible = (how & SEEN) != 0,
                                  .unseen = (how & UNSEEN) != 0};
  const int rc = mst_journal_add(&journal, &entry);
  mst_blob_release(blob);
  return rc;
}

// take_snapshot takes over the caller's reference.
static int take_snapshot(struct mst_blob *blob) {
  const int asked = journal.asking;
  const int rc = mst_journal_snapshot(&journal, blob);
  if (asked && rc == 0) covered = journal.asked;
  mst_blob_release(blob);
  return rc;
}

static int snapshot(const char *text) { return take_snapshot(blob_of(text)); }

// held writes down what is in the journal: payloads, * where a snapshot.
static const char *held(void) {
  static char text[4000];
  size_t len = 0;
  text[0] = '\0';
  check_counts();
  for (const struct mst_entry *at = journal.first; at != NULL; at = at->next) {
    const int n =
        snprintf(text + len, sizeof text - len, "%s%s%.*s", len > 0 ? " " : "",
                 at->snapshot ? "*" : "", (int)at->payload->buf.len,
                 (const char *)at->payload->buf.data);
    CHECK(n > 0 && (size_t)n < sizeof text - len);
    len += (size_t)n;
  }
  return text;
}

// fill adds visible entries until a snapshot is wanted, and gives the last call.
static uint64_t fill(uint64_t from) {
  uint64_t call = from;
  for (;; call++) {
    CHECK_INT(add(call, "x", SEEN), 0);
    if (mst_journal_wants(&journal, call)) return call;
    CHECK(call < from + 1000);
  }
}

TEST("An empty journal holds nothing and is freed without harm") {
  CHECK_TEXT(held(), "");
  CHECK(!mst_journal_wants(&journal, 1));
  CHECK_INT(snapshot("s"), 0); // that nobody asked for
  CHECK_TEXT(held(), "");
  mst_journal_free(&journal);
}

TEST("Calls are kept in their order, as they are, with a reference") {
  struct mst_blob *blob = blob_of("b");
  const struct mst_entry entry = {
      .next = (struct mst_entry *)&journal, // nothing that may be believed
      .payload = blob,
      .seed = {.known = 1, .words = {407, 1, 2, 3, 4, 5, 6}},
      .call = 7,
      .elapsed_s = 2.5,
      .failed = 1,
      .visible = 1,
      .unseen = 1};
  CHECK_INT(add(3, "a", SEEN), 0);
  CHECK_INT(mst_journal_add(&journal, &entry), 0);
  CHECK_INT(add(8, "a", SEEN), 0); // seen: not a double of the first
  CHECK_TEXT(held(), "a b a");
  CHECK_INT(blob->refs, 2);
  const struct mst_entry *kept = journal.first->next;
  CHECK(kept->payload == blob && kept->failed && kept->unseen);
  CHECK_INT(kept->call, 7);
  CHECK(kept->elapsed_s == 2.5 && kept->seed.known);
  CHECK_INT(kept->seed.words[6], 6);
  CHECK_INT(journal.dropped, 0);
  mst_journal_free(&journal);
  CHECK_INT(blob->refs, 1);
  CHECK(journal.first == NULL && journal.last == NULL && journal.bytes == 0);
  mst_blob_release(blob);
}

TEST("A call that leaves no trace takes the place of its equal before it") {
  CHECK_INT(add(1, "a", UNSEEN), 0);
  CHECK_INT(add(2, "b", UNSEEN), 0);
  CHECK_INT(add(3, "c", UNSEEN), 0);
  CHECK_INT(add(4, "a", UNSEEN), 0); // the first
  CHECK_TEXT(held(), "b c a");
  CHECK_INT(add(5, "c", UNSEEN), 0); // one inside
  CHECK_TEXT(held(), "b a c");
  CHECK_INT(add(6, "c", UNSEEN), 0); // the last
  CHECK_TEXT(held(), "b a c");
  CHECK_INT(add(7, "cc", UNSEEN), 0); // the beginning is no equal
  CHECK_TEXT(held(), "b a c cc");
  CHECK_INT(journal.dropped, 3);
  CHECK_INT(journal.last->call, 7);
  mst_journal_free(&journal);
}

TEST("A thousand equal calls without a trace are one entry") {
  for (uint64_t call = 1; call <= 1000; call++) {
    CHECK_INT(add(call, "library(stats)", UNSEEN), 0);
  }
  CHECK_TEXT(held(), "library(stats)");
  CHECK_INT(journal.dropped, 999);
  CHECK_INT(journal.first->call, 1000);
  mst_journal_free(&journal);
}

TEST("What changed something in sight is never taken for a double") {
  CHECK_INT(add(1, "x <- x + 1", SEEN | UNSEEN), 0);
  CHECK_INT(add(2, "x <- x + 1", SEEN), 0);
  CHECK_INT(add(3, "x <- x + 1", UNSEEN), 0);
  CHECK_INT(add(4, "x <- x + 1", SEEN),
            0); // nor is the third: this one is seen
  CHECK_TEXT(held(), "x <- x + 1 x <- x + 1 x <- x + 1 x <- x + 1");
  CHECK_INT(add(5, "x <- x + 1", UNSEEN), 0);
  CHECK_INT(journal.count, 4);
  CHECK_INT(journal.first->call, 1);
  CHECK_INT(journal.first->next->call, 2);
  CHECK_INT(journal.first->next->next->call, 4);
  mst_journal_free(&journal);
}

// --- Snapshots ---

TEST("A snapshot is wanted after so many calls that it would stand for") {
  for (uint64_t call = 1; call < MST_JOURNAL_SNAPSHOT_EVERY; call++) {
    CHECK_INT(add(call, "x", SEEN), 0);
    CHECK(!mst_journal_wants(&journal, call));
  }
  CHECK_INT(add(MST_JOURNAL_SNAPSHOT_EVERY, "x", SEEN), 0);
  CHECK(mst_journal_wants(&journal, 64));
  CHECK_INT(journal.asked, 64);
  CHECK(!mst_journal_wants(&journal, 64)); // one at a time
  CHECK_INT(add(65, "y", SEEN), 0);
  CHECK_INT(snapshot("s"), 0);
  CHECK_TEXT(held(), "*s y");
  CHECK_INT(journal.since, 1);
  CHECK_INT(journal.dropped, 64);
  CHECK_INT(snapshot("t"), 0); // that nobody asked for
  CHECK_TEXT(held(), "*s y");
  mst_journal_free(&journal);
}

TEST("A large snapshot is wanted less often") {
  const uint64_t first = fill(1);
  struct mst_blob *blob = mst_blob_new();
  CHECK_INT(mst_buf_reserve(&blob->buf, 5 * MST_JOURNAL_SNAPSHOT_BYTES), 0);
  memset(blob->buf.data, 's', 5 * MST_JOURNAL_SNAPSHOT_BYTES);
  blob->buf.len = 5 * MST_JOURNAL_SNAPSHOT_BYTES;
  CHECK_INT(take_snapshot(blob), 0);
  CHECK_INT(journal.count, 1);
  CHECK_INT(fill(first + 1), first + MST_JOURNAL_SNAPSHOT_EVERY + 5);
  CHECK_INT(snapshot("small"), 0);
  CHECK_INT(fill(1000), 1000 + MST_JOURNAL_SNAPSHOT_EVERY - 1);
  check_counts();
  mst_journal_free(&journal);
}

TEST("What is kept for what it does unseen stays, in front of the snapshot") {
  CHECK_INT(add(1, "a", UNSEEN), 0);
  CHECK_INT(add(2, "b", SEEN | UNSEEN), 0);
  CHECK_INT(add(3, "b", SEEN | UNSEEN), 0);
  const uint64_t asked = fill(4);
  CHECK_INT(add(asked + 1, "a", SEEN | UNSEEN), 0);
  CHECK_INT(add(asked + 2, "c", UNSEEN), 0);
  CHECK_INT(snapshot("s"), 0);
  // Of the two b the last is enough; a was called again later, but in sight.
  CHECK_TEXT(held(), "a b *s a c");
  CHECK_INT(journal.first->next->call, 3);
  CHECK_INT(journal.since, 1);
  CHECK_INT(add(asked + 3, "b", UNSEEN), 0); // now the one in front is a double
  CHECK_TEXT(held(), "a *s a c b");
  CHECK_INT(fill(asked + 4), asked + 66);
  CHECK_INT(snapshot("t"), 0);
  CHECK_TEXT(held(), "a c b *t");
  CHECK_INT(journal.since, 0);
  mst_journal_free(&journal);
}

TEST("A snapshot stands only for what came before it was asked for") {
  const uint64_t asked = fill(1);
  CHECK_INT(add(asked + 1, "p", SEEN), 0);
  CHECK_INT(add(asked + 2, "q", UNSEEN), 0);
  CHECK_INT(snapshot("s"), 0);
  CHECK_TEXT(held(), "*s p q");
  mst_journal_free(&journal);
}

TEST("Doubles are found among all in front, also at both of their ends") {
  static const char *const texts[] = {"a", "b", "a", "c", "b", "a", "c"};
  for (uint64_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
    CHECK_INT(add(k + 1, texts[k], SEEN | UNSEEN), 0);
  }
  (void)fill(10);
  CHECK_INT(snapshot("s"), 0);
  CHECK_TEXT(held(), "b a c *s");
  CHECK_INT(journal.first->call, 5);
  mst_journal_free(&journal);
}

TEST("A worker that can't be put into a snapshot isn't asked again") {
  (void)fill(1);
  CHECK_INT(mst_journal_snapshot(&journal, NULL), 0);
  CHECK(journal.impossible && !journal.asking);
  CHECK_INT(journal.count, MST_JOURNAL_SNAPSHOT_EVERY);
  CHECK_INT(add(100, "x", SEEN), 0);
  CHECK(!mst_journal_wants(&journal, 100));
  check_counts();
  mst_journal_free(&journal);
}

TEST("A snapshot that was asked of one that is gone is asked of the next") {
  (void)fill(1);
  mst_journal_unask(&journal);
  CHECK_INT(snapshot("late"), 0);
  CHECK_INT(journal.count, MST_JOURNAL_SNAPSHOT_EVERY);
  CHECK_INT(add(65, "x", SEEN), 0);
  CHECK(mst_journal_wants(&journal, 65));
  CHECK_INT(snapshot("s"), 0);
  CHECK_TEXT(held(), "*s");
  mst_journal_free(&journal);
}

// --- Limits ---

TEST("A journal that is full says that it is incomplete, and stays so") {
  char text[16];
  for (uint64_t call = 1; call <= MST_JOURNAL_ENTRIES_MAX; call++) {
    (void)snprintf(text, sizeof text, "%u", (unsigned)call);
    CHECK_INT(add(call, text, SEEN), 0);
    CHECK(!journal.incomplete);
  }
  CHECK_INT(add(20000, "one more", SEEN), 0);
  CHECK_INT(journal.incomplete, MST_INCOMPLETE_MANY);
  CHECK_INT(journal.count, 0); // nobody can use it
  CHECK_INT(add(20001, "unseen", UNSEEN), 0);
  CHECK(!mst_journal_wants(&journal, 20001));
  check_counts();
  mst_journal_free(&journal);
}

TEST("An equal call has room in a journal that is full") {
  char text[16];
  for (uint64_t call = 1; call <= MST_JOURNAL_ENTRIES_MAX; call++) {
    (void)snprintf(text, sizeof text, "%u", (unsigned)call % 5000);
    CHECK_INT(add(call, text, call <= 5000 ? UNSEEN : SEEN), 0);
  }
  CHECK_INT(journal.count, MST_JOURNAL_ENTRIES_MAX);
  CHECK_INT(add(20000, "17", UNSEEN), 0);
  CHECK(!journal.incomplete);
  check_counts();
  mst_journal_free(&journal);
}

TEST("A large snapshot is wanted in time to keep the journal from being full") {
  const uint64_t first = fill(1);
  struct mst_blob *blob = mst_blob_new(); // as if of a TB
  blob->buf.len = MST_JOURNAL_SNAPSHOT_BYTES << 24;
  blob->refs++;
  CHECK_INT(take_snapshot(blob), 0);
  uint64_t call = first + 1;
  do {
    CHECK_INT(add(call, "x", SEEN), 0);
  } while (!mst_journal_wants(&journal, call++));
  CHECK_INT(journal.count, MST_JOURNAL_ENTRIES_MAX / 2);
  CHECK(!journal.incomplete);
  mst_journal_free(&journal);
  blob->buf.len = 0;
  mst_blob_release(blob);
}

TEST("Without memory for a call the journal is incomplete") {
  CHECK_INT(add(1, "a", SEEN), 0);
  (void)mst_fault_arm("journal.alloc", 1, ENOMEM);
  CHECK_INT(add(2, "b", SEEN), -MST_EMEM);
  (void)mst_fault_arm("journal.alloc", 0, 0);
  CHECK(journal.incomplete);
  CHECK_TEXT(held(), "");
  mst_journal_free(&journal);
}

TEST("Without memory a call's equal may be gone, and the journal says so") {
  CHECK_INT(add(1, "a", UNSEEN), 0);
  CHECK_INT(add(2, "b", UNSEEN), 0);
  (void)mst_fault_arm("journal.alloc", 1, ENOMEM);
  CHECK_INT(add(3, "b", UNSEEN), -MST_EMEM);
  (void)mst_fault_arm("journal.alloc", 0, 0);
  CHECK(journal.incomplete);
  CHECK_TEXT(held(), "");
  mst_journal_free(&journal);
}

TEST("Without memory for a snapshot all stays, and it is asked for again") {
  CHECK_INT(add(1, "a", SEEN | UNSEEN), 0);
  const uint64_t asked = fill(2);
  (void)mst_fault_arm("journal.alloc", 1, ENOMEM);
  CHECK_INT(snapshot("s"), -MST_EMEM);
  (void)mst_fault_arm("journal.alloc", 0, 0);
  CHECK(!journal.incomplete && !journal.impossible && !journal.asking);
  CHECK_INT(journal.count, MST_JOURNAL_SNAPSHOT_EVERY);
  CHECK_INT(journal.since, MST_JOURNAL_SNAPSHOT_EVERY);
  CHECK(mst_journal_wants(&journal, asked));
  CHECK_INT(snapshot("s"), 0);
  CHECK_TEXT(held(), "a *s");
  mst_journal_free(&journal);
}

// A worker in words: what it did in sight is the list of all calls that were
// seen; what it did unseen, the order of the last of each that was not. Replay
// must give both again.
struct model {
  uint64_t seen[4000];
  uint32_t count;
  uint64_t unseen[10]; // last call of each payload that does something unseen
};

static void check_replay(const struct model *model) {
  uint32_t at_seen = 0;
  uint64_t unseen[10] = {0};
  for (const struct mst_entry *at = journal.first; at != NULL; at = at->next) {
    if (at->snapshot) { // stands for all that was seen until it was asked for
      while (at_seen < model->count && model->seen[at_seen] <= covered)
        at_seen++;
      continue;
    }
    if (at->visible) {
      CHECK(at_seen < model->count);
      CHECK_INT(at->call, model->seen[at_seen]);
      at_seen++;
    }
    if (at->unseen) unseen[at->payload->buf.data[0] - '0'] = at->call;
  }
  CHECK_INT(at_seen, model->count);
  for (int k = 0; k < 10; k++) {
    CHECK_INT(unseen[k], model->unseen[k]);
  }
}

TEST("Replay makes the same worker, whatever the calls were") {
  uint64_t random = mst_test_seed();
  for (int round = 0; round < 30; round++) {
    static struct model model;
    memset(&model, 0, sizeof model);
    covered = 0;
    for (uint64_t call = 1; call <= 600; call++) {
      const uint64_t what = mst_random_below(&random, 10);
      const char text[2] = {(char)('0' + mst_random_below(&random, 10)), 0};
      const int how = what < 6 ? SEEN : what < 8 ? UNSEEN : SEEN | UNSEEN;
      CHECK_INT(add(call, text, how), 0);
      if ((how & SEEN) != 0) model.seen[model.count++] = call;
      if ((how & UNSEEN) != 0) model.unseen[text[0] - '0'] = call;
      (void)mst_journal_wants(&journal, call);
      if (journal.asking && mst_random_below(&random, 5) == 0) {
        if (mst_random_below(&random, 4) == 0) {
          mst_journal_unask(&journal);
        } else {
          CHECK_INT(snapshot("state"), 0);
        }
      }
      check_counts();
      check_replay(&model);
    }
    mst_journal_free(&journal);
  }
}

TEST("An entry keeps the job that its call needs, and lets go of it with the "
     "entry") {
  struct mst_jobs jobs = {0};
  struct mst_blob *bytes = blob_of("job");
  struct mst_job *job = mst_jobs_hold(&jobs, bytes);
  struct mst_blob *payload = blob_of("call");
  CHECK(job != NULL);
  const struct mst_entry entry = {
      .payload = payload, .job = job, .call = 1, .visible = 1};
  CHECK_INT(mst_journal_add(&journal, &entry), 0);
  mst_blob_release(payload);
  mst_blob_release(bytes);
  mst_job_release(job);
  CHECK_INT(job->refs, 1);
  mst_journal_free(&journal);
  CHECK_INT(job->refs, 0);
  mst_jobs_free(&jobs);
}

TEST("A call that only binds replaces one that bound the same") {
  const struct {
    const char *text;
    int how;
    uint64_t binds;
    const char *held;
  } steps[] = {{"x1", SEEN, 7, "x1"},
               {"y1", SEEN, 8, "x1 y1"},
               {"x2", SEEN, 7, "y1 x2"},
               {"f", SEEN, 0, "y1 x2 f"}, // may have read both
               {"x3", SEEN, 7, "y1 x2 f x3"},
               {"x4", SEEN, 7, "y1 x2 f x4"},
               {"g", UNSEEN, 0, "y1 x2 f x4 g"},
               {"x5", SEEN, 7, "y1 x2 f x4 g x5"}};
  memset(&journal, 0, sizeof journal);
  for (uint64_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    binds = steps[i].binds;
    CHECK_INT(add(i + 1, steps[i].text, steps[i].how), 0);
    CHECK_TEXT(held(), steps[i].held);
  }
  binds = 7;
  struct mst_blob *blob = blob_of("x6");
  blob->binds = 7;
  const struct mst_entry failed = {
      .payload = blob, .call = 20, .visible = 1, .failed = 1};
  CHECK_INT(mst_journal_add(&journal, &failed), 0); // x5 is still bound
  CHECK_TEXT(held(), "y1 x2 f x4 g x5 x6");
  mst_blob_release(blob);
  mst_journal_free(&journal);
}
