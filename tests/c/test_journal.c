// Tests of pool/journal: kept calls, replacements, limits.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_fault.h"
#include "mst_random.h"
#include "mst_test.h"
#include "pool/journal.h"

static struct mst_journal journal;

// blob_of makes a payload of a text; the caller has a reference.
static struct mst_blob *blob_of(const char *text) {
  struct mst_blob *blob = mst_blob_new();
  CHECK(blob != NULL);
  CHECK_INT(mst_buf_append(&blob->buf, text, strlen(text)), 0);
  return blob;
}

// check_counts compares the journal's counts with its contents.
static void check_counts(void) {
  uint32_t count = 0;
  size_t bytes = 0;
  int64_t replay_ns = 0;
  uint64_t call = 0;
  const struct mst_entry *last = NULL;
  for (const struct mst_entry *at = journal.first; at != NULL; at = at->next) {
    count++;
    bytes += at->payload->buf.len;
    replay_ns += MST_JOURNAL_ENTRY_NS + (int64_t)(at->elapsed_s * 1e9) +
                 MST_JOURNAL_BYTE_NS * (int64_t)at->payload->buf.len;
    CHECK(at->payload->refs >= 1);
    CHECK(at->call > call); // in the order of the calls
    call = at->call;
    last = at;
  }
  CHECK(journal.last == last);
  CHECK_INT(journal.count, count);
  CHECK_INT(journal.bytes, bytes);
  CHECK_INT(journal.replay_ns, replay_ns);
  CHECK(count <= MST_JOURNAL_ENTRIES_MAX);
}

enum { SEEN = 1, UNSEEN = 2 };

static int64_t now_ns = MST_NS_PER_S;
static uint64_t binds;         // of what is added
static double elapsed_s = 0.5; // likewise
static struct mst_pace pace = {.loss_ns = 36e12, .idle = 1};

static int add(uint64_t call, const char *text, int how) {
  struct mst_blob *blob = blob_of(text);
  blob->binds = binds;
  const struct mst_entry entry = {.payload = blob,
                                  .call = call,
                                  .elapsed_s = elapsed_s,
                                  .visible = (how & SEEN) != 0,
                                  .unseen = (how & UNSEEN) != 0};
  const int rc = mst_journal_add(&journal, &entry);
  mst_blob_release(blob);
  return rc;
}

// wants asks a second after the last time.
static int wants(int now) {
  now_ns += MST_NS_PER_S;
  return mst_journal_wants(&journal, now, &pace, now_ns);
}

// held lists the journal's contents.
static const char *held(void) {
  static char text[4000];
  size_t len = 0;
  text[0] = '\0';
  check_counts();
  for (const struct mst_entry *at = journal.first; at != NULL; at = at->next) {
    const int n = snprintf(text + len, sizeof text - len, "%s%.*s",
                           len > 0 ? " " : "", (int)at->payload->buf.len,
                           (const char *)at->payload->buf.data);
    CHECK(n > 0 && (size_t)n < sizeof text - len);
    len += (size_t)n;
  }
  return text;
}

TEST("An empty journal holds nothing and is freed without harm") {
  CHECK_TEXT(held(), "");
  CHECK(!wants(0));
  mst_journal_free(&journal);
}

TEST("Calls are kept in their order, as they are, with a reference") {
  struct mst_blob *blob = blob_of("b");
  const struct mst_entry entry = {
      .next = (struct mst_entry *)&journal, // garbage, must be overwritten
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
  mst_journal_free(&journal);
  CHECK_INT(blob->refs, 1);
  CHECK(journal.first == NULL && journal.last == NULL && journal.bytes == 0);
  mst_blob_release(blob);
}

TEST("All calls are kept, whatever they seem to change") {
  CHECK_INT(add(1, "a", UNSEEN), 0);
  CHECK_INT(add(2, "b", 0), 0);
  CHECK_INT(add(3, "a", UNSEEN), 0);
  binds = 5;
  CHECK_INT(add(4, "c", SEEN), 0);
  CHECK_INT(add(5, "c", SEEN), 0); // binds the same
  binds = 0;
  CHECK_TEXT(held(), "a b a c");
  mst_journal_free(&journal);
}

// --- Checkpoints ---

// add_for adds a call that took so long.
static void add_for(uint64_t call, double s) {
  elapsed_s = s;
  CHECK_INT(add(call, "x", 0), 0);
  elapsed_s = 0.5;
}

TEST("A checkpoint is wanted when its price and the expected replay are least "
     "together, and never costs more than 1 %") {
  // sqrt(2 * 0.1 s * 36,000 s) is 84.9 s
  add_for(1, 84);
  CHECK(!wants(0));
  add_for(2, 1);
  CHECK(wants(0));
  CHECK(!wants(1));                 // one at a time
  CHECK_INT(add(3, "y", 0), 0);     // answered before it was made
  mst_journal_made(&journal, 4 * MST_JOURNAL_COST_NS, now_ns);
  CHECK_TEXT(held(), "");
  CHECK(journal.checkpoint);
  add_for(4, 169); // four times as dear: half as often
  CHECK(!wants(0));
  add_for(5, 1);
  pace.idle = 0; // it waits for a moment when nobody waits
  CHECK(!wants(0));
  pace.idle = 1;
  CHECK(wants(0));
  mst_journal_made(&journal, MST_NS_PER_S, now_ns);
  pace.loss_ns = 1e9; // losses in each second: 1 % is the limit
  add_for(6, 99);
  CHECK(!wants(0));
  add_for(7, 1);
  CHECK(wants(0));
  mst_journal_made(&journal, MST_NS_PER_S, now_ns);
  pace.every_ns = MST_NS_PER_S; // asked for, whatever it costs
  add_for(8, 0.5);
  CHECK(!wants(0));
  add_for(9, 0.5);
  CHECK(wants(0));
  mst_journal_free(&journal);
  pace = (struct mst_pace){.loss_ns = 36e12, .idle = 1};
}

TEST("A checkpoint is wanted before there are too many calls") {
  elapsed_s = 0;
  uint64_t call = 0;
  do {
    CHECK_INT(add(++call, "x", 0), 0);
  } while (!mst_journal_wants(&journal, 0, &pace, now_ns));
  CHECK_INT(call, MST_JOURNAL_ENTRIES_MAX / 2);
  mst_journal_free(&journal);
  elapsed_s = 0.5;
}

// add_large adds a call of so many bytes that binds these names.
static void add_large(uint64_t call, size_t bytes, uint64_t names) {
  struct mst_blob *blob = mst_blob_new();
  CHECK_INT(mst_buf_reserve(&blob->buf, bytes), 0);
  blob->buf.len = bytes;
  blob->binds = names;
  const struct mst_entry entry = {
      .payload = blob, .call = call, .visible = 1};
  CHECK_INT(mst_journal_add(&journal, &entry), 0);
  mst_blob_release(blob);
}

TEST("A checkpoint is wanted for bytes that it frees: not for what is bound, "
     "and seldom where it is dear") {
  const size_t most = MST_JOURNAL_STALE_BYTES;
  add_large(1, most, 7);
  add_large(2, 2 * most, 8);
  CHECK_INT(journal.stale_bytes, 0);
  CHECK(!wants(0)); // a copy would have them, too
  CHECK_INT(add(3, "f", SEEN), 0);
  CHECK_INT(journal.stale_bytes, 1);
  add_large(4, 1, 7); // what 3 may have read is needed for it alone now
  CHECK_INT(journal.stale_bytes, most + 1);
  check_counts();
  journal.cost_ns = MST_NS_PER_S;
  now_ns = 0;
  CHECK(!mst_journal_wants(&journal, 0, &pace,
                           MST_JOURNAL_STALE_PRICES * MST_NS_PER_S - 1));
  CHECK(mst_journal_wants(&journal, 0, &pace,
                          MST_JOURNAL_STALE_PRICES * MST_NS_PER_S));
  mst_journal_made(&journal, MST_NS_PER_S, now_ns);
  CHECK_INT(journal.stale_bytes, 0);
  add_large(5, MST_JOURNAL_STALE_BYTES_MAX, 0); // arguments
  CHECK(mst_journal_wants(&journal, 0, &pace, 1));
  mst_journal_free(&journal);
  journal.keeps = 1; // and comes back with what it covers
  add_large(1, 5, 0);
  mst_journal_made(&journal, 1, now_ns);
  CHECK_INT(journal.stale_bytes, 0);
  mst_journal_ended(&journal);
  CHECK_INT(journal.stale_bytes, 5);
  mst_journal_free(&journal);
  now_ns = MST_NS_PER_S;
}

TEST("Where a checkpoint may be lost with its worker, what it covers is kept "
     "and comes back") {
  journal.keeps = 1;
  CHECK_INT(add(1, "a", 0), 0);
  CHECK_INT(add(2, "b", 0), 0);
  mst_journal_made(&journal, 1, now_ns);
  CHECK_TEXT(held(), "");
  CHECK(mst_journal_start(&journal, 1) == NULL);
  mst_journal_made(&journal, 1, now_ns); // nothing new
  CHECK_INT(add(3, "c", 0), 0);
  mst_journal_made(&journal, 1, now_ns);
  CHECK_INT(add(4, "d", 0), 0);
  CHECK_TEXT(held(), "d");
  mst_journal_ended(&journal);
  CHECK_TEXT(held(), "a b c d");
  CHECK_INT(journal.incomplete, MST_COMPLETE);
  CHECK_INT(mst_journal_start(&journal, 0)->call, 1);
  CHECK_INT(mst_journal_start(&journal, 1)->call, 4); // it comes from it
  mst_journal_ended(&journal);                        // there was none
  CHECK_TEXT(held(), "a b c d");
  mst_journal_made(&journal, 1, now_ns);
  mst_journal_ended(&journal);
  CHECK(mst_journal_start(&journal, 1) == NULL);
  CHECK_TEXT(held(), "a b c d");
  mst_journal_free(&journal);
  CHECK_INT(journal.keeps, 1);
}

TEST("What a checkpoint covers is dropped where replaying it would take too "
     "long, and with the journal") {
  size_t total = 0;
  journal.total = &total;
  journal.keeps = 1;
  elapsed_s = 0.4;
  CHECK_INT(add(1, "a", 0), 0);
  CHECK_INT(add(2, "b", 0), 0);
  mst_journal_made(&journal, 1, now_ns);
  mst_journal_bound(&journal, MST_NS_PER_S);
  CHECK_INT(journal.past.count, 2);
  CHECK_INT(total, 2);
  CHECK_INT(add(3, "c", 0), 0);
  mst_journal_bound(&journal, MST_NS_PER_S);
  CHECK_INT(journal.past.count, 0);
  CHECK_INT(total, 1);
  mst_journal_made(&journal, 1, now_ns); // what came before is gone for good
  CHECK_INT(journal.past.count, 0);
  CHECK_INT(total, 0);
  mst_journal_ended(&journal);
  CHECK_INT(journal.incomplete, MST_INCOMPLETE_ENDED);
  mst_journal_free(&journal);
  CHECK_INT(add(1, "a", 0), 0);
  mst_journal_made(&journal, 1, now_ns);
  CHECK_INT(add(2, "b", 0), 0);
  mst_journal_give_up(&journal, MST_INCOMPLETE_MEMORY);
  CHECK_INT(total, 0);
  mst_journal_ended(&journal);
  CHECK_INT(journal.incomplete, MST_INCOMPLETE_MEMORY);
  mst_journal_free(&journal);
  journal.total = NULL;
  elapsed_s = 0.5;
}

TEST("One that was refused is asked for again after twice as many calls") {
  elapsed_s = 1;
  pace.every_ns = 1;
  uint64_t call = 0;
  for (uint32_t k = 1; k <= 5; k++) {
    uint32_t calls = 0;
    do {
      CHECK_INT(add(++call, "x", 0), 0);
      calls++;
    } while (!wants(0));
    CHECK_INT(calls, k == 1 ? 1 : (1 << (k - 1)) + 1);
    mst_journal_refused(&journal, MST_REFUSED_SHORT);
  }
  CHECK(!journal.incomplete && journal.count == call); // complete
  for (uint32_t k = 0; k < 32; k++)
    CHECK(!wants(0));
  CHECK(wants(0));
  mst_journal_unask(&journal); // the worker is gone, or couldn't be asked
  CHECK(wants(0));
  mst_journal_free(&journal);
  pace.every_ns = 0;
  elapsed_s = 0.5;
}

TEST("The calls of a worker that can't be copied are kept as long as they can "
     "be repeated in time") {
  const int64_t most_ns = MST_NS_PER_S;
  elapsed_s = 0.4;
  CHECK_INT(add(1, "a", 0), 0);
  CHECK_INT(add(2, "b", 0), 0);
  CHECK_INT(add(3, "c", 0), 0);
  mst_journal_bound(&journal, most_ns); // there may be a checkpoint
  CHECK_TEXT(held(), "a b c");
  CHECK(wants(1));
  mst_journal_refused(&journal, MST_REFUSED_SHORT); // or later
  mst_journal_bound(&journal, most_ns);
  CHECK_TEXT(held(), "a b c");
  for (uint32_t k = 0; k < 2; k++)
    CHECK(!wants(0));
  CHECK(wants(1));
  mst_journal_refused(&journal, MST_REFUSED_YET);
  mst_journal_bound(&journal, 2 * most_ns);
  CHECK_TEXT(held(), "a b c");
  mst_journal_bound(&journal, most_ns);
  CHECK_INT(journal.incomplete, MST_INCOMPLETE_LONG);
  CHECK_INT(add(4, "d", 0), 0);
  CHECK_TEXT(held(), "");
  for (uint32_t k = 0; k < 4; k++)
    CHECK(!wants(0));
  CHECK(wants(1)); // it may be possible by now
  mst_journal_made(&journal, 1, now_ns);
  for (uint64_t call = 5; call < 10; call++)
    CHECK_INT(add(call, "e", 0), 0);
  mst_journal_bound(&journal, most_ns);
  CHECK_TEXT(held(), "e e e e e");
  mst_journal_free(&journal);
  elapsed_s = 0.5;
}

TEST("A worker that can never be copied isn't asked again") {
  CHECK_INT(add(1, "a", 0), 0);
  CHECK(wants(1));
  mst_journal_refused(&journal, MST_REFUSED_EVER);
  CHECK_INT(add(2, "b", 0), 0);
  for (uint32_t k = 0; k < 32; k++)
    CHECK(!wants(0));
  CHECK(!wants(1));
  CHECK_TEXT(held(), "a b");
  mst_journal_free(&journal);
}

TEST("Without its checkpoint a journal is incomplete until there is another") {
  mst_journal_ended(&journal); // there is none
  CHECK(!journal.incomplete);
  CHECK(wants(1));
  mst_journal_made(&journal, 1, now_ns);
  CHECK_INT(add(1, "a", 0), 0);
  mst_journal_ended(&journal);
  CHECK_INT(journal.incomplete, MST_INCOMPLETE_ENDED);
  CHECK_TEXT(held(), "a"); // it may be in replay
  CHECK_INT(add(2, "b", 0), 0);
  CHECK_TEXT(held(), "a");
  CHECK(wants(0)); // at once
  mst_journal_made(&journal, 1, now_ns);
  CHECK(!journal.incomplete);
  CHECK_TEXT(held(), "");
  mst_journal_free(&journal);
}

TEST("A journal given up for lack of memory is complete again with a "
     "checkpoint") {
  CHECK_INT(add(1, "a", 0), 0);
  CHECK(wants(1));
  mst_journal_give_up(&journal, MST_INCOMPLETE_MEMORY);
  CHECK(journal.asking); // the answer is on its way
  mst_journal_made(&journal, 1, now_ns);
  CHECK(!journal.incomplete);
  CHECK_INT(add(2, "b", 0), 0);
  CHECK_TEXT(held(), "b");
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
  const uint64_t more = MST_JOURNAL_ENTRIES_MAX + 1;
  CHECK_INT(add(more, "one more", SEEN), 0);
  CHECK_INT(journal.incomplete, MST_INCOMPLETE_MANY);
  CHECK_INT(journal.count, 0); // of no use any more
  CHECK_INT(add(more + 1, "unseen", UNSEEN), 0);
  check_counts();
  mst_journal_free(&journal);
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

TEST("An entry keeps the job that its call needs, and releases it with the "
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
