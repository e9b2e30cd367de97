// Starts threads. See mst_thread.h.
#include "base/mst_thread.h"

#include <signal.h>

// No thread of ours has large arrays.
#define STACK_BYTES ((size_t)256 << 10)

int mst_thread_start(pthread_t *thread, void *(*run)(void *), void *data) {
  sigset_t all, before;
  pthread_attr_t attr;
  (void)pthread_attr_init(&attr);
  (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  const int rc = pthread_create(thread, &attr, run, data);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  (void)pthread_attr_destroy(&attr);
  return rc;
}
