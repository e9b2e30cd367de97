// Tests of pool/state: pending, draining, left, and pools partly there.
#include <errno.h>

#include "mst_pool_test.h"

static void begin(uint32_t count, uint32_t window, uint32_t need) {
  memset(&pool, 0xA5, sizeof pool);
  CHECK_INT(mst_pool_init(&pool, count, window), 0);
  mst_pool_begin(&pool, 0, DEADLINE_MS * MS, need);
}

static int takes_work(uint32_t index) {
  const struct mst_worker *worker = pool.workers[index];
  return (worker->state == MST_WORKER_IDLE ||
          worker->state == MST_WORKER_BUSY) &&
         worker->stop_ns == INT64_MAX && worker->channel;
}

// --- Partly there ---

TEST("A pool that needs one of three starts with one, and the others join") {
  begin(3, 3, 1);
  EXPECT("LAUNCH 0, LAUNCH 1, LAUNCH 2");
  now_ms = 10;
  tell(MST_EV_READY, 1);
  EXPECT("STARTED");
  CHECK(takes_work(1) && !takes_work(0));
  CHECK_INT(wake_ms(), 10 + RESTART_MS);
  tell(MST_EV_READY, 0);
  EXPECT("JOINED 0");
  tick_at(10 + RESTART_MS);
  EXPECT("");
  CHECK_INT(state_of(2), MST_WORKER_LOST);
  tick_at(10 + RESTART_MS + NEWS_MS);
  EXPECT("LOST 2");
  tell(MST_EV_RESTART, 2);
  EXPECT("LAUNCH 2");
  tell(MST_EV_READY, 2);
  EXPECT("RESTARTED 2");
  finish();
}

TEST("A start fails once fewer workers than it needs can still come") {
  begin(3, 3, 2);
  (void)taken();
  tell_number(MST_EV_LAUNCH_FAILED, 0, EAGAIN);
  EXPECT("");
  CHECK_INT(pool.phase, MST_POOL_STARTING);
  tell_number(MST_EV_LAUNCH_FAILED, 2, ENOMEM);
  CHECK_INT(pool.phase, MST_POOL_FAILING);
  CHECK_INT(pool.fail_worker, 2);
  CHECK_INT(pool.fail_number, ENOMEM);
  tell_number(MST_EV_LAUNCH_FAILED, 1, EAGAIN);
  EXPECT("START_FAILED");
  finish();
}

TEST("A worker that is lost before STARTED is reported as lost after it") {
  begin(2, 2, 1);
  (void)taken();
  tell_number(MST_EV_LAUNCH_FAILED, 0, EAGAIN);
  EXPECT("");
  tell(MST_EV_READY, 1);
  EXPECT("STARTED, LOST 0");
  CHECK_INT(pool.workers[0]->exit_how, MST_EXIT_NONE);
  CHECK_INT(pool.workers[0]->exit_number, EAGAIN);
  finish();
}

TEST("A worker that was ready and died doesn't count for STARTED") {
  begin(3, 3, 2);
  (void)taken();
  tell_forked(0);
  tell(MST_EV_READY, 0);
  tell(MST_EV_CLOSED, 0);
  EXPECT("KILL 0");
  tell(MST_EV_READY, 1);
  EXPECT("");
  now_ms = 50;
  tell(MST_EV_READY, 2);
  EXPECT("STARTED");
  CHECK_INT(wake_ms(), REAP_MS);
  tell_exited(0, MST_EXIT_CODE, 3);
  EXPECT("LOST 0");
  finish();
}

TEST("A pool that is partly there launches on within its window") {
  begin(4, 1, 1);
  EXPECT("LAUNCH 0");
  tell(MST_EV_READY, 0);
  EXPECT("STARTED, LAUNCH 1");
  tell(MST_EV_RETIRE, 2); // not launched yet, and never will be
  CHECK_INT(state_of(2), MST_WORKER_STOPPED);
  tell(MST_EV_DRAIN, 3);
  CHECK_INT(state_of(3), MST_WORKER_LEFT);
  tell(MST_EV_READY, 1);
  EXPECT("LEFT 3, JOINED 1");
  tell(MST_EV_RESTART, 3);
  EXPECT("LAUNCH 3");
  CHECK_INT(pool.workers[3]->epoch, 1);
  finish();
}

TEST("A pool that is partly there can grow before all were launched") {
  begin(3, 1, 1);
  (void)taken();
  tell(MST_EV_READY, 0);
  EXPECT("STARTED, LAUNCH 1");
  CHECK_INT(grow(1), 0);
  CHECK(mst_pool_check(&pool) == NULL);
  tell(MST_EV_READY, 1);
  EXPECT("JOINED 1, LAUNCH 2");
  tell(MST_EV_READY, 2);
  EXPECT("JOINED 2");
  tell(MST_EV_RESTART, 3);
  EXPECT("LAUNCH 3");
  finish();
}

TEST("A stop ends a pool that is partly there") {
  begin(3, 2, 1);
  (void)taken();
  tell_forked(0);
  tell(MST_EV_READY, 0);
  EXPECT("STARTED, LAUNCH 2");
  tell_forked(1);
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 0, KILL 1");
  tell_gone(0);
  tell_gone(1);
  EXPECT("");
  tell_number(MST_EV_LAUNCH_FAILED, 2, EAGAIN);
  EXPECT("STOPPED");
  finish();
}

// --- Pending ---

TEST("A pending worker leaves the window and has no limit until FORKED") {
  begin(3, 1, 1);
  EXPECT("LAUNCH 0");
  tell(MST_EV_READY, 0);
  EXPECT("STARTED, LAUNCH 1");
  tell(MST_EV_PENDING, 1);
  CHECK_INT(state_of(1), MST_WORKER_PENDING);
  EXPECT("LAUNCH 2");
  tell(MST_EV_READY, 2);
  EXPECT("JOINED 2");
  tick_at(1000 * RESTART_MS);
  EXPECT("");
  CHECK_INT(pool.wake_ns, INT64_MAX);
  tell_forked(1);
  CHECK_INT(state_of(1), MST_WORKER_STARTING);
  CHECK_INT(wake_ms(), 1001 * RESTART_MS);
  CHECK_INT(pool.in_flight, 0);
  tell(MST_EV_READY, 1);
  EXPECT("JOINED 1");
  finish();
}

TEST("The start's deadline passes over pending workers, not over others") {
  begin(2, 2, 2);
  (void)taken();
  tell(MST_EV_PENDING, 1);
  tell(MST_EV_READY, 0);
  tick_at(DEADLINE_MS);
  CHECK_INT(pool.phase, MST_POOL_STARTING);
  tell_number(MST_EV_LAUNCH_FAILED, 1, ECANCELED);
  CHECK_INT(pool.phase, MST_POOL_FAILING);
  mst_pool_free(&pool);

  now_ms = 0;
  begin(2, 2, 2);
  (void)taken();
  tell(MST_EV_PENDING, 0);
  tick_at(DEADLINE_MS);
  CHECK_INT(pool.fail, MST_FAIL_DEADLINE);
  CHECK_INT(pool.fail_worker, 1);
  EXPECT("");
  mst_pool_free(&pool);
}

TEST("A pending worker that must end ends without a process, or is killed") {
  begin(3, 3, 1);
  (void)taken();
  tell(MST_EV_READY, 0);
  EXPECT("STARTED");
  tell(MST_EV_PENDING, 1);
  tell(MST_EV_RETIRE, 1);
  tell(MST_EV_PENDING, 1);
  tell(MST_EV_RETIRE, 1);
  EXPECT("");
  tell_number(MST_EV_LAUNCH_FAILED, 1, ECANCELED);
  CHECK_INT(state_of(1), MST_WORKER_STOPPED);
  tell(MST_EV_RETIRE, 2);
  EXPECT("");
  tell(MST_EV_PENDING, 2); // the news of the queue comes too late
  EXPECT("");
  tell_forked(2);
  EXPECT("KILL 2");
  tell_exited(2, MST_EXIT_SIGNAL, SIGKILL);
  CHECK_INT(state_of(2), MST_WORKER_STOPPED);
  finish();
}

TEST("A restart may be pending too") {
  run_pool(1);
  tell_gone(0);
  EXPECT("LOST 0");
  tell(MST_EV_RESTART, 0);
  EXPECT("LAUNCH 0");
  tell(MST_EV_PENDING, 0);
  tick_at(10 * RESTART_MS);
  tell_forked(0);
  CHECK_INT(state_of(0), MST_WORKER_RESTARTING);
  tell(MST_EV_READY, 0);
  EXPECT("RESTARTED 0");
  finish();
}

// --- Draining and left ---

TEST("A draining worker finishes what it owes, without limit, and leaves") {
  run_pool(2);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_DRAIN, 0);
  EXPECT("");
  CHECK_INT(state_of(0), MST_WORKER_DRAINING);
  CHECK(!takes_work(0));
  tell(MST_EV_SENT, 0);
  CHECK_INT(pool.workers[0]->owed, 1);
  tick_at(100 * GRACE_MS);
  EXPECT("");
  tell(MST_EV_ANSWERED, 0);
  EXPECT("BYE 0");
  tell_gone(0);
  EXPECT("LEFT 0");
  CHECK_INT(state_of(0), MST_WORKER_LEFT);
  tell(MST_EV_RESTART, 0);
  EXPECT("LAUNCH 0");
  tell(MST_EV_READY, 0);
  EXPECT("RESTARTED 0");
  finish();
}

TEST("A draining worker that ends while it owes is lost") {
  run_pool(1);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_DRAIN, 0);
  tell_gone(0);
  EXPECT("LOST 0");
  finish();
}

TEST("A draining worker's last answers may come after its end") {
  run_pool(1);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_DRAIN, 0);
  tell_exited(0, MST_EXIT_CODE, 0);
  tell(MST_EV_ANSWERED, 0);
  tell(MST_EV_CLOSED, 0);
  EXPECT("LEFT 0");
  CHECK_INT(state_of(0), MST_WORKER_LEFT);
  finish();
}

TEST("A later retire or stop overrides draining") {
  run_pool(2);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_SENT, 1);
  tell(MST_EV_DRAIN, 0);
  tell(MST_EV_DRAIN, 1);
  tell(MST_EV_RETIRE, 0);
  EXPECT("BYE 0");
  tick_at(BUSY_MS);
  EXPECT("KILL 0");
  tell_exited(0, MST_EXIT_SIGNAL, SIGKILL);
  CHECK_INT(state_of(0), MST_WORKER_STOPPED);
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 1");
  tell_gone(1);
  EXPECT("STOPPED");
  finish();
}
