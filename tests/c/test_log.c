// Tests of base/mst_log: bytes to lines, within bounds.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mst_fault.h"
#include "base/mst_log.h"
#include "mst_guard.h"
#include "mst_random.h"
#include "mst_test.h"

static struct mst_log lines;
static struct mst_log_part part, other_part;

static void print(uint32_t worker, const char *text) {
  mst_log_write(&lines, worker == 0 ? &part : &other_part, worker, NULL, text,
                strlen(text));
}

static void check_line(uint64_t number, uint32_t worker, const char *text) {
  const struct mst_log_line *line = mst_log_at(&lines, number);
  CHECK(line != NULL);
  CHECK_INT(line->worker, worker);
  CHECK_INT(line->length, strlen(text));
  CHECK(memcmp(line->text, text, line->length) == 0);
}

// check_bounds compares the log's counts with its contents.
static void check_bounds(const struct mst_log *log) {
  size_t bytes = 0;
  CHECK(log->next - log->first <= MST_LOG_LINES);
  for (uint64_t k = log->first; k < log->next; k++) {
    const struct mst_log_line *line = mst_log_at(log, k);
    CHECK(line != NULL && line->text != NULL);
    CHECK(line->length <= MST_LOG_LINE_MAX);
    bytes += line->length + (line->task == NULL ? 0 : strlen(line->task));
  }
  CHECK_INT(log->bytes, bytes);
  CHECK(bytes <= MST_LOG_BYTES);
  CHECK(mst_log_at(log, log->next) == NULL);
  CHECK(log->first == 0 || mst_log_at(log, log->first - 1) == NULL);
}

TEST("An empty log holds nothing and is freed without harm") {
  CHECK(mst_log_at(&lines, 0) == NULL);
  mst_log_end(&lines, &part, 0);
  mst_log_write(&lines, &part, 0, NULL, NULL, 0);
  CHECK_INT(lines.next, 0);
  mst_log_free(&lines);
  mst_log_free(&lines);
}

TEST("Lines are complete and name their worker, however they mix") {
  print(0, "one\ntw");
  print(1, "eins\n\nzw");
  print(0, "o\nthree");
  CHECK_INT(lines.next, 4);
  check_line(0, 0, "one");
  check_line(1, 1, "eins");
  check_line(2, 1, "");
  check_line(3, 0, "two");
  mst_log_end(&lines, &part, 0);
  mst_log_end(&lines, &part, 0); // nothing is left
  mst_log_end(&lines, &other_part, 1);
  CHECK_INT(lines.next, 6);
  check_line(4, 0, "three");
  check_line(5, 1, "zw");
  check_bounds(&lines);
  mst_log_free(&lines);
  CHECK(lines.lines == NULL && lines.next == 0 && lines.bytes == 0);
}

TEST("A line of the maximum length is one, a byte more makes two") {
  char text[MST_LOG_LINE_MAX + 3];
  for (size_t length = MST_LOG_LINE_MAX - 1; length <= MST_LOG_LINE_MAX + 1;
       length++) {
    memset(text, 'x', length);
    text[length] = '\n';
    mst_log_write(&lines, &part, 0, NULL, text, length + 1);
    const uint64_t count = length > MST_LOG_LINE_MAX ? 2 : 1;
    CHECK_INT(lines.next, count);
    CHECK_INT(mst_log_at(&lines, 0)->length,
              length > MST_LOG_LINE_MAX ? MST_LOG_LINE_MAX : length);
    if (count == 2) check_line(1, 0, "x");
    // The end of line may come by itself.
    mst_log_write(&lines, &part, 0, NULL, text, length);
    mst_log_write(&lines, &part, 0, NULL, "\n", 1);
    CHECK_INT(lines.next, 2 * count);
    check_bounds(&lines);
    mst_log_free(&lines);
  }
}

// Feeds the same bytes whole and cut at random; the lines must be the same.
TEST("Lines don't depend on how their bytes were cut") {
  uint64_t random = mst_test_seed();
  static char text[5 * MST_LOG_LINE_MAX];
  struct mst_guard guard;
  CHECK(mst_guard_open(&guard, sizeof text) == 0);
  for (int round = 0; round < 30; round++) {
    struct mst_log whole = {0}, cut = {0};
    const size_t n = (size_t)mst_random_below(&random, sizeof text);
    // From lines of one byte to a single line.
    const uint64_t rarely = UINT64_C(1) << mst_random_below(&random, 16);
    for (size_t i = 0; i < n; i++) {
      text[i] = mst_random_below(&random, rarely) == 0 ? '\n' : 'x';
    }
    part.length = other_part.length = 0;
    mst_log_write(&whole, &part, 0, NULL, text, n);
    mst_log_end(&whole, &part, 0);
    for (size_t at = 0; at < n;) {
      const uint64_t most = mst_random_below(&random, 2) ? 3 : 5000;
      size_t take = (size_t)mst_random_below(&random, most) + 1;
      if (take > n - at) take = n - at;
      const char *placed = (char *)mst_guard_place(&guard, text + at, take);
      mst_log_write(&cut, &other_part, 0, NULL, placed, take);
      at += take;
    }
    mst_log_end(&cut, &other_part, 0);
    CHECK_INT(cut.next, whole.next);
    CHECK_INT(cut.first, whole.first);
    for (uint64_t k = whole.first; k < whole.next; k++) {
      const struct mst_log_line *a = mst_log_at(&whole, k);
      const struct mst_log_line *b = mst_log_at(&cut, k);
      CHECK_INT(b->length, a->length);
      CHECK(memcmp(a->text, b->text, a->length) == 0);
    }
    check_bounds(&cut);
    mst_log_free(&whole);
    mst_log_free(&cut);
  }
  mst_guard_close(&guard);
}

TEST("The oldest lines go first if there are too many, and lines keep their "
     "numbers") {
  char text[32];
  for (unsigned k = 0; k < MST_LOG_LINES + 10; k++) {
    (void)snprintf(text, sizeof text, "%u\n", k);
    print(0, text);
  }
  CHECK_INT(lines.first, 10);
  CHECK_INT(lines.next, MST_LOG_LINES + 10);
  CHECK(mst_log_at(&lines, 9) == NULL);
  check_line(10, 0, "10");
  (void)snprintf(text, sizeof text, "%u", MST_LOG_LINES + 9);
  check_line(MST_LOG_LINES + 9, 0, text);
  check_bounds(&lines);
  mst_log_free(&lines);
}

TEST("The oldest lines go first if they are too long together") {
  char text[MST_LOG_LINE_MAX + 1];
  memset(text, 'x', sizeof text);
  text[MST_LOG_LINE_MAX] = '\n';
  const unsigned fit = (unsigned)(MST_LOG_BYTES / MST_LOG_LINE_MAX);
  for (unsigned k = 0; k < fit + 3; k++) {
    mst_log_write(&lines, &part, 0, NULL, text, sizeof text);
  }
  CHECK_INT(lines.first, 3);
  CHECK_INT(lines.bytes, MST_LOG_BYTES);
  print(0, "a\n"); // one byte too many
  CHECK_INT(lines.first, 4);
  check_bounds(&lines);
  mst_log_free(&lines);
}

TEST("Lines name the task that ended them, and labels count as bytes") {
  char label[] = "fit";
  mst_log_write(&lines, &part, 0, label, "one\ntw", 6);
  label[0] = 's'; // it was copied
  mst_log_write(&lines, &part, 0, NULL, "o\n", 2);
  mst_log_write(&lines, &part, 0, label, "le", 2);
  mst_log_write(&lines, &part, 0, "hit", "ft", 2);
  mst_log_end(&lines, &part, 0);
  CHECK(part.task == NULL);
  check_line(0, 0, "one");
  check_line(1, 0, "two");
  check_line(2, 0, "left");
  CHECK(strcmp(mst_log_at(&lines, 0)->task, "fit") == 0);
  CHECK(mst_log_at(&lines, 1)->task == NULL);
  CHECK(strcmp(mst_log_at(&lines, 2)->task, "hit") == 0);
  CHECK(mst_log_at(&lines, 0)->time > 1e9);
  CHECK_INT(lines.bytes, strlen("one") + strlen("two") + strlen("left") + 6);
  static char many[MST_LOG_LINE_MAX / 2];
  memset(many, 'x', sizeof many - 1);
  for (unsigned i = 0; i < MST_LOG_LINES; i++)
    mst_log_write(&lines, &part, 0, many, "y\n", 2);
  check_bounds(&lines);
  mst_log_free(&lines);
}

TEST("A long label is cut between characters") {
  char label[MST_LOG_TASK_MAX + 8];
  memset(label, 'a', sizeof label - 1);
  label[sizeof label - 1] = '\0';
  memcpy(label + MST_LOG_TASK_MAX - 1, "\xc3\xa9", 2); // e acute
  mst_log_write(&lines, &part, 0, label, "line\n", 5);
  CHECK_INT(strlen(mst_log_at(&lines, 0)->task), MST_LOG_TASK_MAX - 1);
  check_bounds(&lines);
  mst_log_free(&lines);
}

TEST("Of a crash's traceback the frames of the worker's own code are dropped") {
  print(0, " *** caught segfault ***\naddress (nil), cause 'unknown'\n\nTrace");
  print(0, "back:\n 1: fit(x)\n 2: .Call(C_fit, x)\n");
  print(1, "Traceback:\n 1: do.call(\"fun\", args)\n"); // no crash
  print(0, " 3: do.call(\"fun\", args)\n 4: around(do.call(\"fun\", args))\n");
  print(0, "12: (function () {    x})()\nAn irrecoverable exception\n");
  print(0, " 5: call_user(fun, later)\n");
  check_line(4, 0, " 1: fit(x)");
  check_line(5, 0, " 2: .Call(C_fit, x)");
  check_line(6, 1, "Traceback:");
  check_line(7, 1, " 1: do.call(\"fun\", args)");
  check_line(8, 0, "An irrecoverable exception");
  check_line(9, 0, " 5: call_user(fun, later)");
  mst_log_free(&lines);
}

TEST("If memory is short a line is dropped and the next one is kept") {
  (void)mst_fault_arm("log.alloc", 1, ENOMEM);
  print(0, "lost\n");
  CHECK_INT(lines.next, 0);
  (void)mst_fault_arm("log.alloc", 2, ENOMEM); // the line's own
  print(0, "lost too\n");
  CHECK_INT(lines.next, 0);
  (void)mst_fault_arm("log.alloc", 0, 0);
  print(0, "kept\n");
  check_line(0, 0, "kept");
  check_bounds(&lines);
  mst_log_free(&lines);
}
