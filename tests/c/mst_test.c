// The runner of the C unit tests: one child process for each test. See
// mst_test.h.
#include "mst_test.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"

// Of computing: a test that gets a small part of a core isn't stuck. A sanitizer makes a test
// several times slower; no test here needs a second.
#define TIME_LIMIT_S 60
// Of what waits for ever.
#define WAIT_LIMIT_S 600

// The core moves its descriptors to 1024 and above, see mst_net_raise.
#define FDS_MAX 4096

// Exit codes of a test's process. Sanitizers use 1, 23 and 66.
enum { EXIT_FAILED = 3, EXIT_SKIPPED = 77 };

// A test's process reports to the runner in shared memory: so the note survives if the test dies by
// a signal.
static struct shared {
  char note[128];
  int ended;    // the test's code came to its end: what failed then was left behind
  int finished; // and the runner's: exit(0) alone proves nothing
} * shared;

static struct mst_test *first;
static struct mst_test **last = &first;
static const struct mst_test *current;

void mst_test_add(struct mst_test *test) {
  *last = test;
  last = &test->next;
}

uint64_t mst_test_seed(void) {
  const char *given = getenv("MUSTER_TEST_SEED");
  const uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 1;
  (void)snprintf(shared->note, sizeof shared->note,
                 " [replay with MUSTER_TEST_SEED=%llu]",
                 (unsigned long long)seed);
  return seed;
}

void mst_test_note(const char *note) {
  (void)snprintf(shared->note, sizeof shared->note, " [%s]", note);
}

// The one line of a failure.
static void print_failure(const char *file, int line, const char *what) {
  printf("FAIL %s:%d: \"%s\": %s%s\n", file, line, current->name, what,
         shared->note);
  (void)fflush(stdout);
}

void mst_test_fail(const char *file, int line, const char *format, ...) {
  char what[512];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(what, sizeof what, format, args);
  va_end(args);
  print_failure(file, line, what);
  _exit(EXIT_FAILED); // no search for leaks: the test was left halfway
}

void mst_test_skip(const char *reason) {
  printf("SKIP %s:%d: \"%s\": %s\n", current->file, current->line,
         current->name, reason);
  (void)fflush(stdout);
  _exit(EXIT_SKIPPED);
}

static jmp_buf assert_jump;

static void assert_handler(const char *what, const char *file, int line) {
  (void)what, (void)file, (void)line;
  longjmp(assert_jump, 1);
}

int mst_test_asserts(void (*run)(void *), void *arg) {
  mst_thread_mark_r();
  mst_assert_on_failure(assert_handler);
  int failed = 1;
  if (setjmp(assert_jump) == 0) {
    run(arg);
    failed = 0;
  }
  mst_assert_on_failure(NULL);
  return failed;
}

static int count_fds(void) {
  int count = 0;
  for (int fd = 0; fd < FDS_MAX; fd++)
    count += fcntl(fd, F_GETFD) != -1;
  return count;
}

static _Noreturn void run_in_child(const struct mst_test *test) {
  const struct rlimit limit = {TIME_LIMIT_S, TIME_LIMIT_S + 1};
  (void)setrlimit(RLIMIT_CPU, &limit);
  (void)alarm(WAIT_LIMIT_S);
  const int fds_before = count_fds();
  test->run();
  shared->ended = 1;
  const int fds_after = count_fds();
  if (fds_after != fds_before) {
    mst_test_fail(test->file, test->line, "%d descriptors before, %d after",
                  fds_before, fds_after);
  }
  if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) {
    mst_test_fail(test->file, test->line, "a child process is left");
  }
  shared->finished = 1;
  exit(0); // not _exit: the sanitizers search for leaks at exit
}

// Runs one test and returns its exit code, EXIT_FAILED for every bad end.
static int run_test(const struct mst_test *test) {
  current = test;
  *shared = (struct shared){0};
  (void)fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) run_in_child(test);
  int status = 0;
  if (pid == -1 || waitpid(pid, &status, 0) != pid) {
    print_failure(test->file, test->line, strerror(errno));
    return EXIT_FAILED;
  }
  char what[64];
  if (WIFSIGNALED(status)) {
    const int sig = WTERMSIG(status);
    (void)snprintf(what, sizeof what, "ended by signal %d (%s)", sig,
                   sig == SIGALRM || sig == SIGXCPU ? "time limit"
                                                    : strsignal(sig));
    print_failure(test->file, test->line, what);
    return EXIT_FAILED;
  }
  const int code = WEXITSTATUS(status);
  // A check that failed may be run again; a crash, a report or a leak never is.
  if (code == EXIT_FAILED && !shared->ended)
    printf("again: %s: %s\n", test->file, test->name);
  if (code == EXIT_SKIPPED || code == EXIT_FAILED) return code;
  if (code == 0 && shared->finished) return code;
  (void)snprintf(what, sizeof what, "ended with code %d", code);
  print_failure(test->file, test->line, what);
  return EXIT_FAILED;
}

int main(int argc, char **argv) {
  const char *only = argc > 1 ? argv[1] : "";
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    perror("mmap");
    return 1;
  }
  int passed = 0, failed = 0, skipped = 0;
  for (const struct mst_test *test = first; test != NULL; test = test->next) {
    if (strstr(test->name, only) == NULL && strcmp(test->file, only) != 0)
      continue;
    const int code = run_test(test);
    passed += code == 0;
    failed += code == EXIT_FAILED;
    skipped += code == EXIT_SKIPPED;
  }
  printf("c unit tests: %d passed, %d failed, %d skipped\n", passed, failed,
         skipped);
  return failed != 0 || passed + skipped == 0;
}
