// Tests of pool/state: pools that grow, and what the check says of restarts.
#include <errno.h>

#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "mst_pool_test.h"

static void tell_forked_again(uint32_t worker) {
  tell_number(MST_EV_FORKED, worker, 200 + (int32_t)worker);
}

// --- Growing ---

TEST("A pool that grows has more lost workers, which RESTART launches") {
  run_pool(2);
  CHECK_INT(grow(2), 0);
  CHECK_INT(pool.count, 4);
  EXPECT("");
  CHECK_INT(state_of(2), MST_WORKER_LOST);
  CHECK_INT(state_of(0), MST_WORKER_IDLE);
  CHECK_INT(pool.awaited, 2);
  tell(MST_EV_RESTART, 3);
  tell(MST_EV_RESTART, 2);
  EXPECT("LAUNCH 2, LAUNCH 3"); // the window of two is free
  for (uint32_t i = 2; i < 4; i++) {
    CHECK_INT(pool.workers[i]->epoch, 1);
    tell_forked_again(i);
    tell(MST_EV_READY, i);
  }
  EXPECT("RESTARTED 2, RESTARTED 3");
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 0, BYE 1, BYE 2, BYE 3");
  for (uint32_t i = 0; i < 4; i++)
    tell_gone(i);
  EXPECT("STOPPED");
  finish();
}

TEST("A worker that was added and never launched takes no events") {
  run_pool(1);
  CHECK_INT(grow(1), 0);
  for (int kind = MST_EV_FORKED; kind <= MST_EV_RETIRE; kind++) {
    tell_number((enum mst_event_kind)kind, 1, 5);
  }
  tell(MST_EV_SILENT, 1);
  tell(MST_EV_TICK, 0);
  EXPECT("");
  CHECK_INT(state_of(1), MST_WORKER_LOST);
  CHECK_INT(pool.workers[1]->pid, 0);
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 0");
  tell_gone(0);
  EXPECT("STOPPED");
  finish();
}

TEST("Growing keeps what is due, in its order") {
  run_pool(3);
  enum mst_do what;
  tell(MST_EV_CLOSED, 2);
  tell(MST_EV_CLOSED, 0);
  CHECK_INT(mst_pool_next_due(&pool, &what)->mailbox.worker, 2);
  CHECK_INT(what, MST_DO_KILL);
  tell(MST_EV_CLOSED, 1);
  CHECK_INT(grow(5), 0);
  EXPECT("KILL 0, KILL 1");
  for (uint32_t i = 3; i < 8; i++)
    tell(MST_EV_RESTART, i);
  EXPECT("LAUNCH 3, LAUNCH 4, LAUNCH 5");
  mst_pool_free(&pool);
}

TEST("A pool that isn't running, or would be too large, doesn't grow") {
  start(1, 1);
  CHECK_INT(grow(1), -MST_EINPUT);
  (void)taken();
  tell(MST_EV_READY, 0);
  EXPECT("STARTED");
  CHECK_INT(grow(UINT32_MAX), -MST_EINPUT);
  CHECK_INT(grow(0), 0);
  CHECK_INT(pool.count, 1);
  tell(MST_EV_STOP, 0);
  CHECK_INT(grow(1), -MST_EINPUT);
  EXPECT("BYE 0");
  mst_pool_free(&pool);
}

TEST("A pool without memory to grow stays unchanged") {
  run_pool(2);
  tell(MST_EV_CLOSED, 1);
  for (int nth = 1; nth <= 2; nth++) {
    (void)mst_fault_arm("pool.alloc", nth, ENOMEM);
    CHECK_INT(grow(4), -MST_EMEM);
    CHECK_INT(pool.count, 2);
    CHECK(mst_pool_check(&pool) == NULL);
  }
  (void)mst_fault_arm("pool.alloc", 0, 0);
  EXPECT("KILL 1");
  CHECK_INT(grow(4), 0);
  mst_pool_free(&pool);
}

// --- The check itself ---

TEST("The check finds restarts that contradict themselves") {
  run_pool(2);
  tell_gone(0);
  tell(MST_EV_RESTART, 0);
  EXPECT("LOST 0, LAUNCH 0");
  struct mst_worker *worker = pool.workers[0];
  EXPECT_BROKEN(pool.in_flight = 0, pool.in_flight = 1);
  EXPECT_BROKEN(pool.window = 0, pool.window = 2);
  EXPECT_BROKEN(pool.again = 1, pool.again = 0);
  EXPECT_BROKEN(worker->epoch = 0, worker->epoch = 1);
  EXPECT_BROKEN(worker->owed = 1, worker->owed = 0);
  EXPECT_BROKEN(worker->awaited = 0, worker->awaited = 1);
  EXPECT_BROKEN(worker->lost_given = 1, worker->lost_given = 0);
  EXPECT_BROKEN(worker->state = MST_WORKER_STARTING,
                worker->state = MST_WORKER_RESTARTING);
  EXPECT_BROKEN((worker->again = 1, pool.again = 1),
                (worker->again = 0, pool.again = 0));
  const int64_t limit_ns = worker->restart_ns, wake_ns = pool.wake_ns;
  EXPECT_BROKEN(worker->restart_ns = INT64_MAX, worker->restart_ns = limit_ns);
  EXPECT_BROKEN(pool.wake_ns = INT64_MAX, pool.wake_ns = wake_ns);
  finish();
}

TEST("The check finds a worker that should come back without a loss") {
  run_pool(2);
  tell_gone(0);
  EXPECT("LOST 0");
  CHECK_INT(grow(1), 0);
  tell(MST_EV_RESTART, 0);
  EXPECT_BROKEN(pool.workers[0]->again = 0, pool.workers[0]->again = 1);
  EXPECT_BROKEN(pool.workers[2]->lost_given = 0,
                pool.workers[2]->lost_given = 1);
  EXPECT_BROKEN(pool.phase = MST_POOL_STOPPING, pool.phase = MST_POOL_RUNNING);
  mst_pool_free(&pool);
}
