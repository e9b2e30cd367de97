// Assertions and the mark of the R thread. See mst_assert.h.
#include "base/mst_assert.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static mst_assert_handler handler_now;
static pthread_t r_thread;
static int r_thread_known;

struct guard {
  jmp_buf back;
  char *text; // MST_ASSERT_TEXT_MAX
};
static _Thread_local struct guard *guard_now;

void mst_assert_on_failure(mst_assert_handler handler) {
  handler_now = handler;
}

void mst_thread_mark_r(void) {
  r_thread = pthread_self();
  r_thread_known = 1;
}

int mst_thread_is_r(void) {
  return r_thread_known && pthread_equal(r_thread, pthread_self()) != 0;
}

int mst_assert_guard(void (*run)(void *), void *data,
                     char text[MST_ASSERT_TEXT_MAX]) {
  struct guard guard = {.text = text};
  guard_now = &guard;
  if (setjmp(guard.back) != 0) {
    guard_now = NULL;
    return 1;
  }
  run(data);
  guard_now = NULL;
  return 0;
}

// Other threads than R's block all signals; a SIGABRT that is blocked or ignored would let them go
// on.
static void end_process(void) {
  const struct sigaction ends = {.sa_handler = SIG_DFL};
  sigset_t signals;
  (void)sigemptyset(&signals);
  (void)sigaddset(&signals, SIGABRT);
  (void)sigaction(SIGABRT, &ends, NULL);
  (void)pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
  (void)raise(SIGABRT);
}

void mst_assert_failed(const char *what, const char *file, int line) {
  if (handler_now != NULL && mst_thread_is_r()) {
    handler_now(what, file, line); // may not return
  }
  if (guard_now != NULL) {
    (void)snprintf(guard_now->text, MST_ASSERT_TEXT_MAX, "%s (%s:%d)", what,
                   file, line);
    longjmp(guard_now->back, 1);
  }
  char text[MST_ASSERT_TEXT_MAX];
  int n = snprintf(text, sizeof text, "muster: assertion failed: %s (%s:%d)\n",
                   what, file, line);
  if (n > (int)sizeof text - 1) n = (int)sizeof text - 1;
  // write(2) and raise() are safe in a forked child and in any thread.
  if (n > 0) {
    ssize_t written = write(STDERR_FILENO, text, (size_t)n);
    (void)written; // nothing can be done about a closed stderr
  }
  end_process();
}
