// A thread that stands in for its owner. The contract is in deputy.h.
#include "loop/deputy.h"

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
#include "net/net.h"

#if MST_HAVE_TIMERFD
#include <sys/timerfd.h>
#endif

// It runs the pool's code, whose frames are small.
#define STACK_BYTES ((size_t)256 << 10)

struct mst_deputy {
  pthread_t thread;
  pthread_mutex_t lock; // held by the deputy while it serves
  int alarm
      [2]; // the first becomes readable to end the deputy's sleep, see ring()
  mst_deputy_serve serve;
  void *owner;
  // Written by the owner, under the lock.
  int lent;
  unsigned lends; // how often
  int tick_ms;
  int end;
  // Written by the deputy, under the lock.
  int asleep_ms; // for how long it sleeps
  int serving;
  char failure[MST_ASSERT_TEXT_MAX]; // which assertion has ended it
};

// ---- the alarm: a timer where the system has one as a descriptor, else a pipe

#if MST_HAVE_TIMERFD
static int open_alarm(int alarm[2], struct mst_err *err) {
  alarm[1] = -1;
  alarm[0] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (alarm[0] >= 0) return 0;
  return mst_err_set(err, MST_ESYS, errno, "timerfd_create", "%s",
                     strerror(errno));
}

// ring ends the deputy's sleep after so long. Waking a thread at once would cost 5 us,
// which a caller who is back by then need not have paid.
static void ring(const struct mst_deputy *deputy, int ms) {
  const struct itimerspec when = {
      .it_value = {.tv_nsec = ms > 0 ? ms * MST_NS_PER_MS : 1}};
  (void)timerfd_settime(deputy->alarm[0], 0, &when, NULL);
}
#else
static int open_alarm(int alarm[2], struct mst_err *err) {
  return mst_net_pipe(alarm, err);
}

static void ring(const struct mst_deputy *deputy, int ms) {
  (void)ms;
  const ssize_t n = write(deputy->alarm[1], "", 1);
  (void)n; // a full pipe wakes as well
}
#endif

// ---- the thread

// sleep_until waits without the lock. fd: of something that was lent and that nobody came
// back for, or -1.
static void sleep_until(struct mst_deputy *deputy, int ms, int fd) {
  struct pollfd fds[2] = {{.fd = deputy->alarm[0], .events = POLLIN},
                          {.fd = fd, .events = POLLIN}};
  deputy->asleep_ms = ms < 0 ? INT_MAX : ms;
  (void)pthread_mutex_unlock(&deputy->lock);
  (void)poll(fds, 2, ms);
  (void)pthread_mutex_lock(&deputy->lock);
  deputy->asleep_ms = 0;
  if (fds[0].revents != 0) {
    char bytes[16];
    const ssize_t n = read(deputy->alarm[0], bytes, sizeof bytes);
    (void)n; // it has rung, that is all
  }
}

// One call of serve: what it answers.
struct serving {
  const struct mst_deputy *deputy;
  int ms, fd;
};

static void serve_once(void *data) {
  struct serving *now = data;
  now->ms = now->deputy->serve(now->deputy->owner, &now->fd);
}

static void *deputy_main(void *data) {
  struct mst_deputy *deputy = data;
  unsigned seen = 0; // lends at the last look
  int quiet = 0;     // looks in a row that found nothing lent
  (void)pthread_mutex_lock(&deputy->lock);
  while (!deputy->end) {
    if (!deputy->lent) {
      const int rest = ++quiet > MST_DEPUTY_TICKS;
      sleep_until(deputy, rest ? -1 : deputy->tick_ms, -1);
      continue;
    }
    quiet = 0;
    const int stays_away = deputy->lends == seen;
    seen = deputy->lends;
    struct serving now = {.deputy = deputy, .ms = deputy->tick_ms, .fd = -1};
    if (stays_away) {
      deputy->serving = 1;
      const int failed = mst_assert_guard(serve_once, &now, deputy->failure);
      deputy->serving = 0;
      if (failed) break;
    }
    sleep_until(deputy, now.ms, now.fd);
  }
  (void)pthread_mutex_unlock(&deputy->lock);
  return NULL;
}

static void free_deputy(struct mst_deputy *deputy) {
  mst_net_close(&deputy->alarm[0]);
  mst_net_close(&deputy->alarm[1]);
  (void)pthread_mutex_destroy(&deputy->lock);
  free(deputy);
}

static int start_thread(struct mst_deputy *deputy) {
  sigset_t all, before;
  pthread_attr_t attr;
  (void)pthread_attr_init(&attr);
  (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  const int rc = pthread_create(&deputy->thread, &attr, deputy_main, deputy);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  (void)pthread_attr_destroy(&attr);
  return rc;
}

int mst_deputy_start(mst_deputy_serve serve, void *owner,
                     struct mst_deputy **out, struct mst_err *err) {
  struct mst_deputy *deputy = calloc(1, sizeof *deputy);
  if (deputy == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a thread");
  }
  (void)pthread_mutex_init(&deputy->lock, NULL);
  deputy->tick_ms = -1; // nothing was lent yet
  deputy->serve = serve;
  deputy->owner = owner;
  int rc = open_alarm(deputy->alarm, err);
  if (rc == 0) {
    mst_net_raise(&deputy->alarm[0]);
    mst_net_raise(&deputy->alarm[1]);
    const int error = start_thread(deputy);
    if (error != 0) {
      rc = mst_err_set(err, MST_ESYS, error, "pthread_create", "%s",
                       strerror(error));
    }
  }
  if (rc != 0) {
    free_deputy(deputy);
    return rc;
  }
  *out = deputy;
  return 0;
}

void mst_deputy_lend(struct mst_deputy *deputy, int tick_ms) {
  (void)pthread_mutex_lock(&deputy->lock);
  deputy->lent = 1;
  deputy->lends++;
  deputy->tick_ms = tick_ms;
  const int too_long = deputy->asleep_ms > tick_ms;
  if (too_long) deputy->asleep_ms = tick_ms;
  (void)pthread_mutex_unlock(&deputy->lock);
  if (too_long) ring(deputy, tick_ms);
}

void mst_deputy_take(struct mst_deputy *deputy) {
  (void)pthread_mutex_lock(&deputy->lock);
  deputy->lent = 0;
  (void)pthread_mutex_unlock(&deputy->lock);
}

const char *mst_deputy_failure(const struct mst_deputy *deputy) {
  return deputy->failure[0] == '\0' ? NULL : deputy->failure;
}

// Only the owner's thread writes it, and asks.
int mst_deputy_is_lent(const struct mst_deputy *deputy) { return deputy->lent; }

void mst_deputy_end(struct mst_deputy *deputy) {
  if (deputy == NULL) return;
  (void)pthread_mutex_lock(&deputy->lock);
  deputy->lent = 0;
  deputy->end = 1;
  (void)pthread_mutex_unlock(&deputy->lock);
  ring(deputy, 0);
  (void)pthread_join(deputy->thread, NULL);
  free_deputy(deputy);
}

int mst_deputy_may(const struct mst_deputy *deputy) {
  if (deputy == NULL) return mst_thread_is_r();
  return mst_thread_is_r() ? !deputy->lent : deputy->serving;
}
