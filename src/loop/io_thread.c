// A thread that serves for its owner. The contract is in io_thread.h.
#include "loop/io_thread.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "base/mst_features.h"
#include "base/mst_thread.h"
#include "net/net.h"

#if MST_HAVE_TIMERFD
#include <sys/timerfd.h>
#endif

struct mst_io_thread {
  pthread_t thread;
  pthread_mutex_t lock; // held by the I/O thread while it serves
  int alarm[2];         // readable [0] ends the I/O thread's sleep, see ring()
  mst_io_thread_serve serve;
  void *owner;
  // Written by the owner, with the lock.
  int lent;
  unsigned lends; // count of lends
  int tick_ms;
  int end;
  // Written by the I/O thread, with the lock.
  int asleep_ms; // duration of its present sleep
  int serving;
  char failure[MST_ASSERT_TEXT_MAX]; // the assertion that ended it
};

// ---- the alarm: a timer descriptor, or a pipe on systems without them

#if MST_HAVE_TIMERFD
static int open_alarm(int alarm[2], struct mst_err *err) {
  alarm[1] = -1;
  alarm[0] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (alarm[0] >= 0) return 0;
  return mst_err_set(err, MST_ESYS, errno, "timerfd_create", "%s",
                     strerror(errno));
}

// ring ends the I/O thread's sleep after `ms`. Waking the thread at once would cost 5 us, often for
// nothing: many owners are back by then.
static void ring(const struct mst_io_thread *thread, int ms) {
  const struct itimerspec when = {
      .it_value = {.tv_nsec = ms > 0 ? ms * MST_NS_PER_MS : 1}};
  (void)timerfd_settime(thread->alarm[0], 0, &when, NULL);
}
#else
static int open_alarm(int alarm[2], struct mst_err *err) {
  return mst_net_pipe(alarm, err);
}

static void ring(const struct mst_io_thread *thread, int ms) {
  (void)ms;
  const ssize_t n = write(thread->alarm[1], "", 1);
  (void)n; // a full pipe wakes as well
}
#endif

// ---- the thread

// sleep_until waits without the lock. fd: descriptor that ends the sleep when ready, or -1.
static void sleep_until(struct mst_io_thread *thread, int ms, int fd) {
  struct pollfd fds[2] = {{.fd = thread->alarm[0], .events = POLLIN},
                          {.fd = fd, .events = POLLIN}};
  thread->asleep_ms = ms < 0 ? INT_MAX : ms;
  (void)pthread_mutex_unlock(&thread->lock);
  (void)poll(fds, 2, ms);
  (void)pthread_mutex_lock(&thread->lock);
  thread->asleep_ms = 0;
  if (fds[0].revents != 0) {
    char bytes[16];
    const ssize_t n = read(thread->alarm[0], bytes, sizeof bytes);
    (void)n; // an expired timer or a wake-up; the count doesn't matter
  }
}

// One call of serve, and its results.
struct serving {
  const struct mst_io_thread *thread;
  int ms, fd;
};

static void serve_once(void *data) {
  struct serving *now = data;
  now->ms = now->thread->serve(now->thread->owner, &now->fd);
}

static void *thread_main(void *data) {
  struct mst_io_thread *thread = data;
  unsigned seen = 0; // lends at the last look
  int quiet = 0;     // successive looks that found nothing lent
  (void)pthread_mutex_lock(&thread->lock);
  while (!thread->end) {
    if (!thread->lent) {
      const int rest = ++quiet > MST_IO_THREAD_TICKS;
      sleep_until(thread, rest ? -1 : thread->tick_ms, -1);
      continue;
    }
    quiet = 0;
    const int stays_away = thread->lends == seen;
    seen = thread->lends;
    struct serving now = {.thread = thread, .ms = thread->tick_ms, .fd = -1};
    if (stays_away) {
      thread->serving = 1;
      const int failed = mst_assert_guard(serve_once, &now, thread->failure);
      thread->serving = 0;
      if (failed) break;
    }
    sleep_until(thread, now.ms, now.fd);
  }
  (void)pthread_mutex_unlock(&thread->lock);
  return NULL;
}

static void free_thread(struct mst_io_thread *thread) {
  mst_net_close(&thread->alarm[0]);
  mst_net_close(&thread->alarm[1]);
  (void)pthread_mutex_destroy(&thread->lock);
  free(thread);
}

int mst_io_thread_start(mst_io_thread_serve serve, void *owner,
                        struct mst_io_thread **out, struct mst_err *err) {
  struct mst_io_thread *thread = calloc(1, sizeof *thread);
  if (thread == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a thread");
  }
  (void)pthread_mutex_init(&thread->lock, NULL);
  thread->tick_ms = -1; // nothing was lent yet
  thread->serve = serve;
  thread->owner = owner;
  int rc = open_alarm(thread->alarm, err);
  if (rc == 0) {
    mst_net_raise(&thread->alarm[0]);
    mst_net_raise(&thread->alarm[1]);
    const int error = mst_thread_start(&thread->thread, thread_main, thread);
    if (error != 0) {
      rc = mst_err_set(err, MST_ESYS, error, "pthread_create", "%s",
                       strerror(error));
    }
  }
  if (rc != 0) {
    free_thread(thread);
    return rc;
  }
  *out = thread;
  return 0;
}

void mst_io_thread_lend(struct mst_io_thread *thread, int tick_ms) {
  (void)pthread_mutex_lock(&thread->lock);
  thread->lent = 1;
  thread->lends++;
  thread->tick_ms = tick_ms;
  const int too_long = thread->asleep_ms > tick_ms;
  if (too_long) thread->asleep_ms = tick_ms;
  (void)pthread_mutex_unlock(&thread->lock);
  if (too_long) ring(thread, tick_ms);
}

void mst_io_thread_take(struct mst_io_thread *thread) {
  (void)pthread_mutex_lock(&thread->lock);
  thread->lent = 0;
  (void)pthread_mutex_unlock(&thread->lock);
}

const char *mst_io_thread_failure(const struct mst_io_thread *thread) {
  return thread->failure[0] == '\0' ? NULL : thread->failure;
}

// Only the owner's thread writes and reads it.
int mst_io_thread_is_lent(const struct mst_io_thread *thread) {
  return thread->lent;
}

void mst_io_thread_end(struct mst_io_thread *thread) {
  if (thread == NULL) return;
  (void)pthread_mutex_lock(&thread->lock);
  thread->lent = 0;
  thread->end = 1;
  (void)pthread_mutex_unlock(&thread->lock);
  ring(thread, 0);
  (void)pthread_join(thread->thread, NULL);
  free_thread(thread);
}

int mst_io_thread_may(const struct mst_io_thread *thread) {
  if (thread == NULL) return mst_thread_is_r();
  return mst_thread_is_r() ? !thread->lent : thread->serving;
}
