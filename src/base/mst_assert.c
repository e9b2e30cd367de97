// Assertions and the mark of the R thread. See mst_assert.h.
#include "base/mst_assert.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static mst_assert_handler handler_now;
static pthread_t r_thread;
static int r_thread_known;

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

void mst_assert_failed(const char *what, const char *file, int line) {
  if (handler_now != NULL && mst_thread_is_r()) {
    handler_now(what, file, line); // may not come back
  }
  char text[256];
  int n = snprintf(text, sizeof text, "muster: assertion failed: %s (%s:%d)\n",
                   what, file, line);
  if (n > (int)sizeof text - 1) n = (int)sizeof text - 1;
  // write(2) and raise() are safe in a forked child and in any thread.
  if (n > 0) {
    ssize_t written = write(STDERR_FILENO, text, (size_t)n);
    (void)written; // nothing can be done about a closed stderr
  }
  (void)raise(SIGABRT);
}
