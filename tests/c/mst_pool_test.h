// A pool under test: one event in, the exact list of actions out.
#ifndef MST_POOL_TEST_H
#define MST_POOL_TEST_H

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "mst_test.h"
#include "pool/state.h"

#define MS MST_NS_PER_MS
#define REAP_MS (MST_REAP_NS / MS)
#define NEWS_MS (MST_NEWS_NS / MS)
#define BUSY_MS (MST_STOP_BUSY_NS / MS)
#define GRACE_MS (MST_STOP_GRACE_NS / MS)
#define RESTART_MS (MST_RESTART_NS / MS)
#define DEADLINE_MS 30000

// Each test runs in a process of its own, so these start as zero.
static struct mst_pool pool;
static int64_t now_ms;

static char taken_text[1000];
static size_t taken_length;

static inline void write_down(const char *name,
                              const struct mst_worker *worker) {
  char *at = taken_text + taken_length;
  const size_t room = sizeof taken_text - taken_length;
  const char *comma = taken_length > 0 ? ", " : "";
  const int n = worker == NULL ? snprintf(at, room, "%s%s", comma, name)
                               : snprintf(at, room, "%s%s %u", comma, name,
                                          worker->mailbox.worker);
  CHECK(n > 0 && (size_t)n < room);
  taken_length += (size_t)n;
}

static inline void take_word(void) {
  static const char *const names[] = {[MST_DO_STARTED] = "STARTED",
                                      [MST_DO_START_FAILED] = "START_FAILED",
                                      [MST_DO_STOPPED] = "STOPPED"};
  const enum mst_do what = mst_pool_next_word(&pool);
  if (what != 0) write_down(names[what], NULL);
}

// taken takes all that is to be done, as calls_next.c does, and writes it down, as in
// "STARTED, KILL 0".
static inline const char *taken(void) {
  static const char *const names[] = {[MST_DO_BYE] = "BYE",
                                      [MST_DO_KILL] = "KILL",
                                      [MST_DO_JUDGE] = "LOST",
                                      [MST_DO_LEAVE] = "LEFT",
                                      [MST_DO_RESUME] = "JOINED"};
  const struct mst_worker *worker;
  enum mst_do what;
  taken_text[0] = '\0';
  taken_length = 0;
  take_word();
  while ((worker = mst_pool_next_due(&pool, &what)) != NULL) {
    const int again = what == MST_DO_RESUME && worker->epoch > 0;
    write_down(again ? "RESTARTED" : names[what], worker);
  }
  while ((worker = mst_pool_next_launch(&pool)) != NULL)
    write_down("LAUNCH", worker);
  take_word();
  CHECK(mst_pool_check(&pool) == NULL);
  return taken_text;
}
#define EXPECT(want) CHECK_TEXT(taken(), want)

static inline void give(struct mst_event event) {
  mst_pool_event(&pool, &event, now_ms * MS);
  const char *broken = mst_pool_check(&pool);
  CHECK_TEXT(broken == NULL ? "" : broken, "");
}

static inline void tell(enum mst_event_kind kind, uint32_t worker) {
  give((struct mst_event){.kind = kind, .worker = worker});
}

static inline void tell_number(enum mst_event_kind kind, uint32_t worker,
                               int32_t number) {
  give((struct mst_event){.kind = kind, .worker = worker, .number = number});
}

static inline void tell_forked(uint32_t worker) {
  tell_number(MST_EV_FORKED, worker, 100 + (int32_t)worker);
}

static inline void tell_exited(uint32_t worker, uint32_t how, int32_t number) {
  give((struct mst_event){
      .kind = MST_EV_EXITED, .worker = worker, .how = how, .number = number});
}

static inline void tell_gone(uint32_t worker) { // both signs of a clean end
  tell(MST_EV_CLOSED, worker);
  tell_exited(worker, MST_EXIT_CODE, 0);
}

static inline void tick_at(int64_t ms) {
  now_ms = ms;
  tell(MST_EV_TICK, 0);
}

static inline int64_t wake_ms(void) { return mst_pool_wake_ns(&pool) / MS; }

static inline void start(uint32_t count, uint32_t window) {
  memset(&pool, 0xA5, sizeof pool); // init must not trust what it finds
  CHECK_INT(mst_pool_init(&pool, count, window), 0);
  mst_pool_begin(&pool, 0, DEADLINE_MS * MS, pool.count);
}

static inline int grow(uint32_t more) {
  const int rc = mst_pool_make_room(&pool, more);
  if (rc == 0) mst_pool_grow(&pool, more);
  return rc;
}

// run_pool starts count workers, all forked and ready, and takes the actions.
static inline void run_pool(uint32_t count) {
  start(count, count);
  (void)taken();
  for (uint32_t i = 0; i < count; i++) {
    tell_forked(i);
  }
  for (uint32_t i = 0; i < count; i++) {
    tell(MST_EV_READY, i);
  }
  EXPECT("STARTED");
}

static inline void finish(void) {
  EXPECT("");
  mst_pool_free(&pool);
}

#define EXPECT_BROKEN(change, undo)                                            \
  do {                                                                         \
    change;                                                                    \
    CHECK(mst_pool_check(&pool) != NULL);                                      \
    undo;                                                                      \
    CHECK(mst_pool_check(&pool) == NULL);                                      \
  } while (0)

static inline enum mst_worker_state state_of(uint32_t worker) {
  return pool.workers[worker]->state;
}

#endif
