// Names to addresses, on a thread. See resolve.h.
//
// Caller and thread share one record; the last to release it frees it. The thread reports that it
// is done by closing its end of a pipe, so that the caller can wait in poll(), which a signal ends.
// The thread runs no R, takes no signals and holds no locks or files: a session that exits or forks
// meanwhile doesn't have to wait for it.
#include "net/resolve.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "net/stream.h"

struct mst_resolve {
  pthread_mutex_t lock; // guards refs; the thread owns the results until done
  int refs;
  int done_read, done_write; // the pipe; the thread owns done_write
  int port;
  char host[MST_HOST_MAX + 1];
  struct mst_addr addrs[MST_ADDRS_MAX];
  size_t count;
  int rc;
  struct mst_err err;
};

void mst_resolve_drop(struct mst_resolve *resolve) {
  if (resolve == NULL) return;
  (void)pthread_mutex_lock(&resolve->lock);
  const int refs = --resolve->refs;
  (void)pthread_mutex_unlock(&resolve->lock);
  if (refs > 0) return;
  (void)pthread_mutex_destroy(&resolve->lock);
  mst_net_close(&resolve->done_read);
  mst_net_close(&resolve->done_write);
  free(resolve);
}

static void *look_up(void *data) {
  struct mst_resolve *resolve = data;
  resolve->rc = mst_addr_lookup(resolve->host, resolve->port, resolve->addrs,
                                MST_ADDRS_MAX, &resolve->count, &resolve->err);
  // The lock makes the results visible to the caller.
  (void)pthread_mutex_lock(&resolve->lock);
  mst_net_close(&resolve->done_write);
  (void)pthread_mutex_unlock(&resolve->lock);
  mst_resolve_drop(resolve);
  return NULL;
}

static int start_thread(struct mst_resolve *resolve, struct mst_err *err) {
  pthread_attr_t attr;
  pthread_t thread;
  sigset_t all, before;
  (void)pthread_attr_init(&attr);
  (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_BLOCK, &all, &before);
  const int rc = pthread_create(&thread, &attr, look_up, resolve);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  (void)pthread_attr_destroy(&attr);
  if (rc == 0) return 0;
  return mst_err_set(err, MST_ESYS, rc, "pthread_create", "%s", strerror(rc));
}

int mst_resolve_begin(const char *host, int port, struct mst_resolve **out,
                      struct mst_err *err) {
  int fds[2];
  *out = NULL;
  int rc = mst_net_pipe(fds, err);
  if (rc != 0) return rc;
  struct mst_resolve *resolve = calloc(1, sizeof *resolve);
  if (resolve == NULL) {
    mst_net_close(&fds[0]);
    mst_net_close(&fds[1]);
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a look-up");
  }
  resolve->done_read = fds[0];
  resolve->done_write = fds[1];
  resolve->port = port;
  strncpy(resolve->host, host, MST_HOST_MAX);
  mst_err_clear(&resolve->err);
  (void)pthread_mutex_init(&resolve->lock, NULL);
  resolve->refs = 2;
  rc = start_thread(resolve, err);
  if (rc != 0) {
    resolve->refs = 1; // no thread holds a reference
    mst_resolve_drop(resolve);
    return rc;
  }
  *out = resolve;
  return 0;
}

int mst_resolve_until(struct mst_resolve *resolve, struct mst_addr *out,
                      size_t max, size_t *count, int64_t until_ns,
                      struct mst_err *err) {
  *count = 0;
  if (mst_net_wait(resolve->done_read, POLLIN, until_ns) == 0) {
    return -MST_EAGAIN;
  }
  (void)pthread_mutex_lock(&resolve->lock);
  const int rc = resolve->rc;
  if (rc == 0) {
    *count = resolve->count < max ? resolve->count : max;
    memcpy(out, resolve->addrs, *count * sizeof *out);
  } else if (err != NULL) {
    *err = resolve->err;
  }
  (void)pthread_mutex_unlock(&resolve->lock);
  return rc;
}
