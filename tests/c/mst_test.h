// mst_test: a tiny harness for C unit tests.
//
//   TEST("A cleared record says that there is no error") {
//     CHECK(err.code == 0);
//     CHECK_INT(mst_clock_ms_until(0, 5), 0);
//   }
//
// A test registers itself, in every file that is linked in; its name is a
// sentence. Each test runs in a child process with a time limit, so that a
// crash or a hang is one failure and the others still run. A check that fails
// prints one line and ends its test. After a test that passed, no descriptor
// and no child process may be left that was not there before; the address
// sanitizer looks for leaked memory.
//
// `runner TEXT` runs only the tests with TEXT in their name, or of the file TEXT.
#ifndef MST_TEST_H
#define MST_TEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_features.h"

struct mst_test {
  const char *name; // a sentence
  const char *file;
  int line;
  void (*run)(void);
  struct mst_test *next;
};

// mst_test_add puts a test behind those registered before it. For TEST alone.
void mst_test_add(struct mst_test *test);

// mst_test_seed gives the seed of this run, MUSTER_TEST_SEED or else 1, and has it
// printed if the test fails.
uint64_t mst_test_seed(void);

// mst_test_note says which of several cases is tested now; a failure's line tells it.
void mst_test_note(const char *note);

// mst_test_asserts tells whether run(arg) fails an assertion of mst_assert.h.
// run is left by longjmp then, so it must hold nothing that wants a release.
int mst_test_asserts(void (*run)(void *), void *arg);

// What the macros below call when a check fails or a test is skipped. They
// print one line and end the test's process.
_Noreturn void mst_test_fail(const char *file, int line, const char *format,
                             ...) __attribute__((format(printf, 3, 4)));
_Noreturn void mst_test_skip(const char *reason);

#define CHECK(cond)                                                            \
  ((cond) ? (void)0 : mst_test_fail(__FILE__, __LINE__, "%s", #cond))

#define CHECK_INT(got, want)                                                   \
  do {                                                                         \
    const int64_t mst_got = (int64_t)(got), mst_want = (int64_t)(want);        \
    if (mst_got != mst_want) {                                                 \
      mst_test_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #got,          \
                    (long long)mst_got, (long long)mst_want);                  \
    }                                                                          \
  } while (0)

#define CHECK_TEXT(got, want)                                                  \
  do {                                                                         \
    const char *mst_got = (got), *mst_want = (want);                           \
    if (strcmp(mst_got, mst_want) != 0) {                                      \
      mst_test_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #got,      \
                    mst_got, mst_want);                                        \
    }                                                                          \
  } while (0)

#define SKIP(reason) mst_test_skip(reason)

// NEEDS skips the rest of a test on a build without a feature, see base/mst_features.h.
#define NEEDS(feature)                                                         \
  ((feature) ? (void)0 : mst_test_skip("this build does without " #feature))

#define TEST(sentence) MST_TEST_ON_LINE(sentence, __LINE__)
#define MST_TEST_ON_LINE(sentence, line) MST_TEST_JOIN(sentence, line)
#define MST_TEST_JOIN(sentence, line)                                          \
  static void test_run_##line(void);                                           \
  static struct mst_test test_##line = {sentence, __FILE__, line,              \
                                        test_run_##line, NULL};                \
  __attribute__((constructor)) static void test_add_##line(void) {             \
    mst_test_add(&test_##line);                                                \
  }                                                                            \
  static void test_run_##line(void)

#endif
