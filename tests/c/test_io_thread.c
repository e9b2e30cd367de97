// Tests of loop/io_thread: which thread owns what was lent, and when.
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "loop/io_thread.h"
#include "mst_test.h"
#include "net/net.h"

// What is lent. The thread sanitizer checks that only one thread uses it at a time.
struct lent {
  int pipe[2];
  long bytes;   // read so far
  long calls;   // of serve
  int again_ms; // the result of serve
  int watched;  // by its pipe
};

#define TICK_MS 2

// The I/O thread reports its progress separately from what is lent.
static atomic_long served;
static atomic_long times;

static int serve(void *owner, int *fd) {
  struct lent *lent = owner;
  char bytes[64];
  const ssize_t n = read(lent->pipe[0], bytes, sizeof bytes);
  if (n > 0) lent->bytes += n;
  lent->calls++;
  atomic_store(&served, lent->bytes);
  atomic_fetch_add(&times, 1);
  if (lent->watched) *fd = lent->pipe[0];
  return lent->again_ms;
}

typedef int serve_fn(void *owner, int *fd);

// begin makes what is lent, and its I/O thread, which polls the pipe if `watches`.
static struct mst_io_thread *begin(struct lent *lent, int again_ms,
                                   serve_fn *serves, int watches) {
  struct mst_io_thread *thread = NULL;
  *lent = (struct lent){.again_ms = again_ms, .watched = watches};
  mst_thread_mark_r();
  CHECK_INT(mst_net_pipe(lent->pipe, NULL), 0);
  CHECK_INT(mst_io_thread_start(serves, lent, &thread, NULL), 0);
  return thread;
}

static void end(struct lent *lent, struct mst_io_thread *thread) {
  mst_io_thread_end(thread);
  mst_net_close(&lent->pipe[0]);
  mst_net_close(&lent->pipe[1]);
}

static void wait_for(atomic_long *value, long least) {
  while (atomic_load(value) < least)
    (void)poll(NULL, 0, 1);
}

static void put(const struct lent *lent) {
  CHECK_INT(write(lent->pipe[1], "x", 1), 1);
}

TEST("Events while the owner is away are served") {
  struct lent lent;
  struct mst_io_thread *thread = begin(&lent, 1000, serve, 1);
  mst_io_thread_lend(thread, TICK_MS);
  for (long k = 1; k <= 5; k++) {
    put(&lent);
    wait_for(&served, k);
  }
  mst_io_thread_take(thread);
  CHECK_INT(lent.bytes, 5);
  end(&lent, thread);
}

TEST("Nothing is served while the owner has it") {
  struct lent lent;
  struct mst_io_thread *thread = begin(&lent, 1000, serve, 1);
  mst_io_thread_lend(thread, TICK_MS);
  wait_for(&times, 1);
  mst_io_thread_take(thread);
  const long calls = lent.calls;
  put(&lent);
  (void)poll(NULL, 0, 20 * TICK_MS); // long enough for a mistake
  CHECK_INT(lent.calls, calls);
  CHECK_INT(lent.bytes, 0);
  mst_io_thread_lend(thread, TICK_MS);
  wait_for(&served, 1);
  end(&lent, thread);
}

TEST("The I/O thread never serves while the owner comes and goes") {
  struct lent lent;
  struct mst_io_thread *thread = begin(&lent, 1, serve, 1);
  long put_in = 0;
  const int64_t end_ns = mst_clock_now() + 300 * MST_NS_PER_MS;
  for (unsigned k = 0; mst_clock_now() < end_ns || atomic_load(&times) < 10;
       k++) {
    mst_io_thread_lend(thread, TICK_MS);
    if (k % 100 == 0) (void)poll(NULL, 0, 2 * TICK_MS + 1);
    mst_io_thread_take(thread);
    lent.calls++; // a race, if both had it
    if (put_in - lent.bytes < 100) {
      put(&lent);
      put_in++;
    }
  }
  mst_io_thread_lend(thread, TICK_MS);
  wait_for(&served, put_in);
  mst_io_thread_take(thread);
  CHECK_INT(lent.bytes, put_in);
  end(&lent, thread);
}

TEST("Without work the thread waits until the next lend") {
  struct lent lent;
  struct mst_io_thread *thread = begin(&lent, -1, serve, 0);
  mst_io_thread_lend(thread, TICK_MS);
  wait_for(&times, 1);
  put(&lent); // nobody looks
  (void)poll(NULL, 0, 20 * TICK_MS);
  CHECK_INT(atomic_load(&times), 1);
  mst_io_thread_take(thread);
  mst_io_thread_lend(thread, TICK_MS);
  wait_for(&served, 1);
  end(&lent, thread);
}

TEST("Without a descriptor the thread serves at the requested time") {
  struct lent lent;
  struct mst_io_thread *thread = begin(&lent, TICK_MS, serve, 0);
  mst_io_thread_lend(thread, TICK_MS);
  wait_for(&times, 3);
  put(&lent);
  wait_for(&served, 1);
  end(&lent, thread);
}

TEST("Without a time the thread sleeps until something is ready") {
  struct lent lent;
  struct mst_io_thread *thread = begin(&lent, -1, serve, 1);
  mst_io_thread_lend(thread, TICK_MS);
  wait_for(&times, 1);
  (void)poll(NULL, 0, 20 * TICK_MS); // long enough for a mistake
  CHECK_INT(atomic_load(&times), 1);
  put(&lent);
  wait_for(&served, 1);
  end(&lent, thread);
}

TEST("A shorter tick ends a longer one") {
  struct lent lent;
  struct mst_io_thread *thread = begin(&lent, -1, serve, 1);
  mst_io_thread_lend(thread, 900);
  mst_io_thread_take(thread);
  put(&lent);
  mst_io_thread_lend(thread, TICK_MS);
  wait_for(&served, 1);
  end(&lent, thread);
}

TEST("Serve is called again at the time it requested") {
  struct lent lent;
  struct mst_io_thread *thread = begin(&lent, 5, serve, 1);
  mst_io_thread_lend(thread, TICK_MS);
  wait_for(&times, 3);
  end(&lent, thread);
}

TEST("A sleeping I/O thread is woken by the next lend") {
  struct lent lent;
  struct mst_io_thread *thread = begin(&lent, 1000, serve, 1);
  for (long k = 1; k <= 3; k++) {
    (void)poll(NULL, 0, 2 * MST_IO_THREAD_TICKS * TICK_MS);
    put(&lent);
    mst_io_thread_lend(thread, TICK_MS);
    wait_for(&served, k);
    mst_io_thread_take(thread);
  }
  end(&lent, thread);
}

static struct mst_io_thread *known;
static atomic_int may;

static int serve_and_ask(void *owner, int *fd) {
  (void)owner;
  (void)fd;
  atomic_store(&may, mst_io_thread_may(known) ? 1 : 2);
  return -1;
}

TEST("Each side knows whether it owns what can be lent") {
  struct lent lent;
  known = begin(&lent, 1000, serve_and_ask, 1);
  CHECK(mst_io_thread_may(NULL));
  CHECK(mst_io_thread_may(known));
  CHECK(!mst_io_thread_is_lent(known));
  mst_io_thread_lend(known, TICK_MS);
  CHECK(mst_io_thread_is_lent(known));
  CHECK(!mst_io_thread_may(known));
  while (atomic_load(&may) == 0)
    (void)poll(NULL, 0, 1);
  CHECK_INT(atomic_load(&may), 1);
  mst_io_thread_take(known);
  CHECK(mst_io_thread_may(known));
  end(&lent, known);
}

static int serve_and_fail(void *owner, int *fd) {
  (void)fd;
  struct lent *lent = owner;
  lent->calls++;
  atomic_fetch_add(&times, 1);
  MST_ASSERT(lent->calls == 0);
  lent->bytes = -1; // goes on in an unknown state
  return 0;
}

TEST("C7: A failed assertion ends the I/O thread, and its owner learns of it") {
  struct lent lent;
  atomic_store(&times, 0);
  struct mst_io_thread *thread = begin(&lent, 0, serve_and_fail, 0);
  CHECK(mst_io_thread_failure(thread) == NULL);
  mst_io_thread_lend(thread, TICK_MS);
  wait_for(&times, 1);
  for (int k = 0; k < 3; k++) {
    mst_io_thread_take(thread);
    const char *failure = mst_io_thread_failure(thread);
    CHECK(failure != NULL &&
          strstr(failure, "lent->calls == 0 (test_io_thread.c:") != NULL);
    CHECK_INT(lent.calls, 1);
    CHECK_INT(lent.bytes, 0);
    mst_io_thread_lend(thread, TICK_MS);
    (void)poll(NULL, 0, 3 * TICK_MS);
  }
  end(&lent, thread);
}
