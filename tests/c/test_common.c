// Tests of pool/common: calls kept for workers that join. Which calls are casts, and when they are
// complete, is in test_calls_join.c.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_fault.h"
#include "mst_random.h"
#include "mst_test.h"
#include "pool/common.h"

enum { SEEN = 1, UNSEEN = 2, LAST = 4 };

static struct mst_common common;
static const int caller;

// tell sends all workers a call, and lets one of them answer.
static void tell(const char *text, int how) {
  struct mst_blob *blob = mst_blob_new();
  CHECK(blob != NULL);
  CHECK_INT(mst_buf_append(&blob->buf, text, strlen(text)), 0);
  struct mst_cast *cast = mst_common_open(&common, blob, &caller);
  const struct mst_entry answered = {
      .payload = blob,
      .elapsed_s = 0.5,
      .visible = (how & SEEN) != 0,
      .unseen = (how & LAST) != 0     ? MST_UNSEEN_LAST
                : (how & UNSEEN) != 0 ? MST_UNSEEN_EACH
                                      : MST_UNSEEN_NOT};
  CHECK(cast != NULL);
  mst_common_answered(&common, cast, &answered);
  mst_common_close(&common, 1);
  mst_cast_release(cast);
  mst_blob_release(blob);
}

// held lists the kept calls.
static const char *held(void) {
  static char text[4000];
  size_t len = 0;
  text[0] = '\0';
  for (const struct mst_entry *at = common.journal.first; at != NULL;
       at = at->next) {
    const int n = snprintf(text + len, sizeof text - len, "%s%.*s",
                           len > 0 ? " " : "", (int)at->payload->buf.len,
                           (const char *)at->payload->buf.data);
    CHECK(n > 0 && (size_t)n < sizeof text - len);
    len += (size_t)n;
  }
  return text;
}

static void begin(void) { common = (struct mst_common){0}; }

TEST("Calls without a trace aren't kept, unless they may have had hidden "
     "effects") {
  begin();
  tell("a", 0);
  tell("b", SEEN);
  tell("c", UNSEEN);
  tell("d", LAST);
  CHECK_TEXT(held(), "b c d");
  mst_common_free(&common);
}

TEST("A call that leaves no trace takes the place of its equal before it") {
  begin();
  tell("a", UNSEEN);
  tell("b", UNSEEN);
  tell("c", UNSEEN);
  tell("a", UNSEEN); // the first
  CHECK_TEXT(held(), "b c a");
  tell("c", UNSEEN); // one inside
  CHECK_TEXT(held(), "b a c");
  tell("c", UNSEEN); // the last
  CHECK_TEXT(held(), "b a c");
  tell("cc", UNSEEN); // the beginning is no equal
  CHECK_TEXT(held(), "b a c cc");
  CHECK_INT(common.journal.last->call, 7);
  tell("x", LAST);
  tell("y", LAST); // undoes what x did
  CHECK_TEXT(held(), "b a c cc y");
  mst_common_free(&common);
}

TEST("A call with visible changes is never taken for a duplicate") {
  begin();
  tell("+", SEEN | UNSEEN);
  tell("+", SEEN);
  tell("+", UNSEEN);
  tell("+", SEEN);
  CHECK_TEXT(held(), "+ + + +");
  tell("+", UNSEEN); // takes the third one's place
  CHECK_INT(common.journal.count, 4);
  CHECK_INT(common.journal.first->next->next->call, 4);
  CHECK_INT(common.journal.last->call, 5);
  mst_common_free(&common);
}

TEST("An equal call fits where no other does") {
  begin();
  char text[16];
  for (unsigned k = 1; k <= MST_COMMON_CALLS_MAX; k++) {
    (void)snprintf(text, sizeof text, "%u", k);
    tell(text, k <= 20 ? UNSEEN : SEEN);
  }
  tell("17", UNSEEN);
  CHECK(!common.incomplete);
  CHECK_INT(common.journal.count, MST_COMMON_CALLS_MAX);
  tell("one more", UNSEEN);
  CHECK(common.incomplete);
  CHECK_INT(common.journal.count, 0);
  tell("another", UNSEEN);
  CHECK_INT(common.journal.count, 0);
  mst_common_free(&common);
}

// tell_large gives all workers a call of so many bytes that binds these names, or none.
static void tell_large(size_t bytes, uint64_t names) {
  struct mst_blob *blob = mst_blob_new();
  CHECK_INT(mst_buf_reserve(&blob->buf, bytes), 0);
  blob->buf.len = bytes;
  blob->binds = names;
  struct mst_cast *cast = mst_common_open(&common, blob, NULL);
  CHECK(cast != NULL);
  const struct mst_entry answered = {.payload = blob, .visible = 1};
  mst_common_answered(&common, cast, &answered);
  mst_common_close(&common, 1);
  mst_cast_release(cast);
  mst_blob_release(blob);
}

TEST("L6: values that were bound again are kept up to a bound, and past it nothing is") {
  begin();
  const size_t step = MST_COMMON_STALE_BYTES / 4;
  for (int k = 0; k < 4; k++) {
    tell_large(step, 7);
    tell_large(3, 8);
    tell("reads", SEEN);
  }
  CHECK(!common.incomplete);
  CHECK_INT(common.journal.count, 12);
  for (int k = 0; k < 100; k++) {
    tell_large(step, 7);
    tell("reads", SEEN);
    CHECK(common.journal.bytes <= 6 * step);
  }
  CHECK(common.incomplete);
  CHECK_INT(common.journal.count, 0);
  CHECK_INT(common.journal.bytes, 0);
  tell_large(5, 9); // nor anything later
  CHECK_INT(common.journal.count, 0);
  mst_common_free(&common);
}

TEST("L6: values that nothing can have read before they were bound again aren't kept") {
  begin();
  for (int k = 0; k < 100; k++) {
    tell_large(MST_COMMON_STALE_BYTES, 7);
    tell_large(3, 8);
    CHECK_INT(common.journal.count, 2);
  }
  CHECK(!common.incomplete);
  mst_common_free(&common);
}

TEST("If memory is short a call's equal may be gone, and the call says so") {
  begin();
  tell("a", UNSEEN);
  tell("b", UNSEEN);
  (void)mst_fault_arm("journal.alloc", 1, ENOMEM);
  tell("b", UNSEEN);
  (void)mst_fault_arm("journal.alloc", 0, 0);
  CHECK(common.incomplete);
  CHECK_TEXT(held(), "");
  mst_common_free(&common);
}

// A model of a worker: its visible state is the list of all calls that were seen; its hidden state
// is the order of the last of each unseen one. Replay must reproduce both.
struct model {
  uint64_t seen[600];
  uint32_t count;
  uint64_t unseen[10]; // last call of each payload that does something unseen
};

static void check_replay(const struct model *model) {
  uint32_t at_seen = 0;
  uint64_t unseen[10] = {0};
  for (const struct mst_entry *at = common.journal.first; at != NULL;
       at = at->next) {
    if (at->visible) {
      CHECK(at_seen < model->count);
      CHECK_INT(at->call, model->seen[at_seen]);
      at_seen++;
    }
    if (at->unseen) unseen[at->payload->buf.data[0] - '0'] = at->call;
  }
  CHECK_INT(at_seen, model->count);
  for (int k = 0; k < 10; k++)
    CHECK_INT(unseen[k], model->unseen[k]);
}

TEST("Replay makes the same worker, whatever the calls were") {
  uint64_t random = mst_test_seed();
  for (int round = 0; round < 30; round++) {
    static struct model model;
    memset(&model, 0, sizeof model);
    begin();
    for (uint64_t call = 1; call <= 600; call++) {
      const uint64_t what = mst_random_below(&random, 10);
      const char text[2] = {(char)('0' + mst_random_below(&random, 10)), 0};
      const int how = what < 6 ? SEEN : what < 8 ? UNSEEN : SEEN | UNSEEN;
      tell(text, how);
      if ((how & SEEN) != 0) model.seen[model.count++] = call;
      if ((how & UNSEEN) != 0) model.unseen[text[0] - '0'] = call;
      check_replay(&model);
    }
    mst_common_free(&common);
  }
}
