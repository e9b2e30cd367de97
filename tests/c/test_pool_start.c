// Tests of pool/state: making a pool, its start and how a start fails.
#include <errno.h>

#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "mst_pool_test.h"

// --- Making a pool ---

TEST("A pool of no workers or with no window is refused") {
  CHECK_INT(mst_pool_init(&pool, 0, 1), -MST_EINPUT);
  CHECK_INT(mst_pool_init(&pool, 1, 0), -MST_EINPUT);
  mst_pool_free(&pool);
}

TEST("A pool without memory says so and keeps nothing") {
  for (int nth = 1; nth <= 2; nth++) {
    (void)mst_fault_arm("pool.alloc", nth, ENOMEM);
    CHECK_INT(mst_pool_init(&pool, 4, 2), -MST_EMEM);
    CHECK(pool.workers == NULL);
  }
  (void)mst_fault_arm("pool.alloc", 0, 0);
}

TEST("A new pool has no actions") {
  CHECK_INT(mst_pool_init(&pool, 4, 2), 0);
  EXPECT("");
  tell_forked(0);
  tell(MST_EV_READY, 0);
  tell(MST_EV_TICK, 0);
  CHECK(mst_pool_wake_ns(&pool) == INT64_MAX);
  finish();
}

static void start_again(void *arg) {
  (void)arg;
  mst_pool_begin(&pool, 0, 0, 1);
}

TEST("Starting a pool twice is a mistake of ours") {
  start(1, 1);
  CHECK(mst_test_asserts(start_again, NULL));
  mst_pool_free(&pool);
}

// --- Start ---

TEST("Launches fill the window and go on as workers become ready") {
  start(5, 2);
  EXPECT("LAUNCH 0, LAUNCH 1");
  tell_forked(0);
  tell_forked(1);
  EXPECT("");
  tell(MST_EV_READY, 1);
  EXPECT("LAUNCH 2");
  tell(MST_EV_READY, 0);
  EXPECT("LAUNCH 3");
  CHECK_INT(pool.in_flight, 2);
  CHECK_INT(state_of(0), MST_WORKER_IDLE);
  CHECK_INT(state_of(2), MST_WORKER_STARTING);
  CHECK_INT(state_of(4), MST_WORKER_NONE);
  mst_pool_free(&pool);
}

TEST("The pool is started when the last worker is ready, and says it once") {
  start(2, 9);
  EXPECT("LAUNCH 0, LAUNCH 1");
  CHECK_INT(wake_ms(), DEADLINE_MS);
  tell_forked(0);
  tell_forked(1);
  tell(MST_EV_READY, 1);
  EXPECT("");
  tell(MST_EV_READY, 0);
  EXPECT("STARTED");
  CHECK(mst_pool_wake_ns(&pool) == INT64_MAX);
  tell(MST_EV_READY, 0);
  tick_at(DEADLINE_MS + 1);
  finish();
}

TEST("A worker that is ready before the news of its fork counts") {
  start(1, 1);
  EXPECT("LAUNCH 0");
  tell(MST_EV_READY, 0);
  EXPECT("STARTED");
  CHECK_INT(pool.processes, 0);
  tell_forked(0);
  CHECK_INT(pool.processes, 1);
  CHECK_INT(pool.workers[0]->pid, 100);
  finish();
}

TEST("A failed launch takes the others down before the start has failed") {
  start(3, 3);
  EXPECT("LAUNCH 0, LAUNCH 1, LAUNCH 2");
  tell_forked(0);
  tell(MST_EV_READY, 0);
  tell_forked(2);
  tell_number(MST_EV_LAUNCH_FAILED, 1, EAGAIN);
  EXPECT("KILL 0, KILL 2");
  tell_exited(2, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("");
  tell_exited(0, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("START_FAILED");
  CHECK_INT(pool.fail, MST_FAIL_LAUNCH);
  CHECK_INT(pool.fail_worker, 1);
  CHECK_INT(pool.fail_number, EAGAIN);
  CHECK_INT(state_of(0), MST_WORKER_STOPPED);
  CHECK_INT(state_of(1), MST_WORKER_LOST);
  CHECK_INT(pool.workers[1]->exit_how, MST_EXIT_NONE);
  finish();
}

TEST("A take-down waits for launches in flight and kills what they bring") {
  start(4, 4);
  EXPECT("LAUNCH 0, LAUNCH 1, LAUNCH 2, LAUNCH 3");
  tell_number(MST_EV_LAUNCH_FAILED, 0, EMFILE);
  EXPECT("");
  tell_number(MST_EV_LAUNCH_FAILED, 1, ENOMEM);
  EXPECT("");
  tell_forked(2);
  EXPECT("KILL 2");
  tell_exited(2, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("");
  tell(MST_EV_READY, 3); // from before
  tell_forked(3);
  EXPECT("KILL 3");
  tell_exited(3, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("START_FAILED");
  CHECK_INT(pool.fail_worker, 0);
  CHECK_INT(pool.fail_number, EMFILE);
  finish();
}

TEST("A launch that wasn't taken yet is dropped after a failure") {
  start(3, 3);
  CHECK(mst_pool_next_launch(&pool) == pool.workers[0]);
  tell_number(MST_EV_LAUNCH_FAILED, 0, EAGAIN);
  EXPECT("START_FAILED");
  CHECK_INT(state_of(1), MST_WORKER_NONE);
  finish();
}

TEST("Set-up that fails fails the start, for that reason") {
  start(2, 2);
  EXPECT("LAUNCH 0, LAUNCH 1");
  tell_forked(0);
  tell_forked(1);
  tell(MST_EV_SETUP_FAILED, 1);
  EXPECT("KILL 0, KILL 1");
  CHECK_INT(state_of(1), MST_WORKER_LOST);
  tell_gone(1);
  tell_gone(0);
  EXPECT("START_FAILED");
  CHECK_INT(pool.fail, MST_FAIL_SETUP);
  CHECK_INT(pool.fail_worker, 1);
  finish();
}

TEST("The first failure stays the reason") {
  start(3, 3);
  EXPECT("LAUNCH 0, LAUNCH 1, LAUNCH 2");
  for (uint32_t i = 0; i < 3; i++) {
    tell_forked(i);
  }
  tell(MST_EV_SETUP_FAILED, 2);
  EXPECT("KILL 0, KILL 1, KILL 2");
  tell(MST_EV_SETUP_FAILED, 0);
  tell_gone(1);
  tell(MST_EV_STOP, 0);
  tick_at(DEADLINE_MS);
  for (uint32_t i = 0; i < 3; i++) {
    tell_gone(i);
  }
  EXPECT("START_FAILED");
  CHECK_INT(pool.fail, MST_FAIL_SETUP);
  CHECK_INT(pool.fail_worker, 2);
  finish();
}

TEST("A worker that ends before it is ready fails the start, with its status") {
  start(1, 1);
  EXPECT("LAUNCH 0");
  tell_forked(0);
  tell(MST_EV_CLOSED, 0);
  EXPECT("KILL 0"); // it may have closed its channel and live on
  tell_exited(0, MST_EXIT_CODE, 3);
  EXPECT("START_FAILED");
  CHECK_INT(pool.fail, MST_FAIL_EXITED);
  CHECK(pool.workers[0]->exit_known);
  CHECK_INT(pool.workers[0]->exit_number, 3);
  finish();
}

TEST("A ready worker that ends before the others are ready fails the start") {
  start(2, 2);
  EXPECT("LAUNCH 0, LAUNCH 1");
  tell_forked(0);
  tell_forked(1);
  tell(MST_EV_READY, 0);
  tell_gone(0);
  EXPECT("KILL 1"); // the one for 0 was outrun by its end
  tell_gone(1);
  EXPECT("START_FAILED");
  CHECK_INT(pool.fail, MST_FAIL_EXITED);
  CHECK_INT(pool.fail_worker, 0);
  finish();
}

TEST("A failed fork that first shows as a closed channel is reported as a "
     "fork") {
  start(1, 1);
  EXPECT("LAUNCH 0");
  tell(MST_EV_CLOSED, 0);
  EXPECT("");
  CHECK_INT(pool.fail, MST_FAIL_EXITED);
  tell_number(MST_EV_LAUNCH_FAILED, 0, ENOMEM);
  EXPECT("START_FAILED");
  CHECK_INT(pool.fail, MST_FAIL_LAUNCH);
  CHECK_INT(pool.fail_number, ENOMEM);
  finish();
}

TEST("A worker's last words are waited for if its end was heard first") {
  start(1, 1);
  EXPECT("LAUNCH 0");
  tell_forked(0);
  now_ms = 1000;
  tell_exited(0, MST_EXIT_CODE, 1);
  EXPECT("");
  CHECK(!pool.workers[0]->killed);
  CHECK_INT(wake_ms(), 1000 + NEWS_MS);
  tell(MST_EV_SETUP_FAILED, 0);
  EXPECT("START_FAILED");
  CHECK_INT(pool.fail, MST_FAIL_SETUP);
  finish();
}

TEST("Last words are waited for until the channel ends") {
  start(1, 1);
  EXPECT("LAUNCH 0");
  tell_exited(0, MST_EXIT_CODE, 1);
  EXPECT("");
  tell(MST_EV_CLOSED, 0);
  EXPECT("START_FAILED");
  CHECK_INT(pool.fail, MST_FAIL_EXITED);
  finish();
}

TEST("Last words are waited for up to a limit") {
  start(2, 2);
  EXPECT("LAUNCH 0, LAUNCH 1");
  tell_forked(0);
  tell_forked(1);
  tell_exited(0, MST_EXIT_CODE, 1);
  EXPECT("KILL 1");
  tick_at(10); // looks at all limits while worker 1 still lives
  tell_exited(1, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("");
  tick_at(NEWS_MS - 1);
  EXPECT("");
  tick_at(NEWS_MS);
  EXPECT("START_FAILED");
  finish();
}

TEST("A deadline that passes names the first worker that isn't ready") {
  start(3, 2);
  EXPECT("LAUNCH 0, LAUNCH 1");
  tell_forked(0);
  tell_forked(1);
  tell(MST_EV_READY, 0);
  EXPECT("LAUNCH 2");
  tick_at(DEADLINE_MS - 1);
  EXPECT("");
  tick_at(DEADLINE_MS);
  EXPECT("KILL 0, KILL 1");
  tell_forked(2);
  EXPECT("KILL 2");
  for (uint32_t i = 0; i < 3; i++) {
    tell_gone(i);
  }
  EXPECT("START_FAILED");
  CHECK_INT(pool.fail, MST_FAIL_DEADLINE);
  CHECK_INT(pool.fail_worker, 1);
  finish();
}

TEST("A stop during the start is a failed start, not a stop") {
  start(2, 1);
  EXPECT("LAUNCH 0");
  tell_forked(0);
  tell(MST_EV_STOP, 0);
  EXPECT("KILL 0");
  tell_gone(0);
  EXPECT("START_FAILED");
  CHECK_INT(pool.fail, MST_FAIL_STOPPED);
  finish();
}

TEST("A launch without an answer is given up") {
  start(1, 1);
  EXPECT("LAUNCH 0");
  tick_at(DEADLINE_MS);
  EXPECT("");
  CHECK_INT(wake_ms(), DEADLINE_MS + REAP_MS);
  tick_at(DEADLINE_MS + REAP_MS - 1);
  EXPECT("");
  tick_at(DEADLINE_MS + REAP_MS);
  EXPECT("START_FAILED");
  CHECK(!pool.workers[0]->exit_known);
  CHECK_INT(pool.workers[0]->exit_how, MST_EXIT_UNKNOWN);
  tell_forked(0); // too late for anybody
  finish();
}

TEST("A launch that was given up is killed when it comes, and not waited for") {
  start(2, 2);
  EXPECT("LAUNCH 0, LAUNCH 1");
  tell(MST_EV_STOP, 0);
  now_ms = 5000;
  tell_forked(1);
  EXPECT("KILL 1");
  tick_at(REAP_MS);
  EXPECT("");
  now_ms = REAP_MS + 1;
  tell_forked(0);
  EXPECT("KILL 0");
  tell_exited(1, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("START_FAILED");
  finish();
}
