// Tests of pool/state: work, loss, stop, odd events, and the check itself.
#include <errno.h>

#include "mst_pool_test.h"

// --- Work ---

TEST("A worker is busy while it owes an answer") {
  run_pool(1);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_SENT, 0);
  CHECK_INT(state_of(0), MST_WORKER_BUSY);
  CHECK_INT(pool.workers[0]->owed, 2);
  tell(MST_EV_ANSWERED, 0);
  CHECK_INT(state_of(0), MST_WORKER_BUSY);
  tell(MST_EV_ANSWERED, 0);
  CHECK_INT(state_of(0), MST_WORKER_IDLE);
  tell(MST_EV_ANSWERED, 0); // of a call that nobody owes
  CHECK_INT(pool.workers[0]->owed, 0);
  CHECK_INT(pool.workers[0]->done, 2);
  finish();
}

TEST("Calls sent before the start or after a stop aren't owed") {
  start(2, 2);
  (void)taken();
  tell(MST_EV_SENT, 0);
  tell(MST_EV_READY, 0);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_READY, 1);
  EXPECT("STARTED");
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 0, BYE 1");
  tell(MST_EV_SENT, 0);
  CHECK_INT(pool.workers[0]->owed, 0);
  mst_pool_free(&pool);
}

// --- Loss ---

TEST("A worker whose channel ends is killed at once and lost with its status") {
  run_pool(2);
  tell(MST_EV_SENT, 1);
  tell(MST_EV_CLOSED, 1);
  EXPECT("KILL 1");
  CHECK_INT(state_of(1), MST_WORKER_LOST);
  tell_exited(1, MST_EXIT_SIGNAL, SIGSEGV);
  EXPECT("LOST 1");
  CHECK_INT(pool.workers[1]->exit_how, MST_EXIT_SIGNAL);
  CHECK_INT(pool.workers[1]->exit_number, SIGSEGV);
  CHECK_INT(pool.workers[1]->owed, 1);
  CHECK_INT(pool.processes, 1);
  CHECK_INT(state_of(0), MST_WORKER_IDLE);
  tell(MST_EV_SENT, 0); // the others go on
  CHECK_INT(state_of(0), MST_WORKER_BUSY);
  finish();
}

TEST("Answers in the channel of a worker that ended still count") {
  run_pool(1);
  for (int k = 0; k < 3; k++) {
    tell(MST_EV_SENT, 0);
  }
  tell_exited(0, MST_EXIT_CODE, 7);
  EXPECT("");
  CHECK_INT(state_of(0), MST_WORKER_LOST);
  tell(MST_EV_SENT, 0); // goes nowhere
  tell(MST_EV_ANSWERED, 0);
  tell(MST_EV_ANSWERED, 0);
  tell(MST_EV_CLOSED, 0);
  EXPECT("LOST 0");
  tell(MST_EV_ANSWERED, 0);
  CHECK_INT(pool.workers[0]->owed, 1);
  CHECK_INT(pool.workers[0]->done, 2);
  finish();
}

TEST("A loss of which one sign never comes is told in time") {
  run_pool(2);
  now_ms = 100;
  tell(MST_EV_CLOSED, 0); // its process is stuck
  EXPECT("KILL 0");
  CHECK_INT(wake_ms(), 100 + REAP_MS);
  now_ms = 200;
  tell_exited(1, MST_EXIT_CODE, 0); // a grandchild holds its channel
  EXPECT("");
  CHECK_INT(wake_ms(), 200 + NEWS_MS);
  tick_at(200 + NEWS_MS);
  EXPECT("LOST 1");
  CHECK_INT(wake_ms(), 100 + REAP_MS);
  tick_at(100 + REAP_MS);
  EXPECT("LOST 0");
  CHECK(!pool.workers[0]->exit_known);
  tell_exited(0, MST_EXIT_SIGNAL, SIGKILL); // not reported again
  tell(MST_EV_CLOSED, 1);
  CHECK_INT(pool.workers[0]->exit_number, SIGKILL);
  finish();
}

TEST("A loss is reported once, with the first information about its end") {
  run_pool(1);
  tell_exited(0, MST_EXIT_SIGNAL, SIGSEGV);
  tell_exited(0, MST_EXIT_CODE, 0);
  tell(MST_EV_CLOSED, 0);
  EXPECT("LOST 0");
  tell(MST_EV_CLOSED, 0);
  tell_exited(0, MST_EXIT_CODE, 0);
  tell_forked(0);
  tell(MST_EV_READY, 0);
  tick_at(60000);
  CHECK_INT(pool.workers[0]->exit_number, SIGSEGV);
  finish();
}

TEST("A lost worker whose pid is not known is killed when it is") {
  start(1, 1);
  (void)taken();
  tell(MST_EV_READY, 0);
  EXPECT("STARTED");
  now_ms = 50;
  tell(MST_EV_CLOSED, 0);
  EXPECT("");
  now_ms = 90;
  tell_forked(0);
  EXPECT("KILL 0");
  tell_exited(0, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("LOST 0");
  finish();
}

TEST("The end of a lost process that nobody reaps is given up") {
  run_pool(2);
  tell(MST_EV_CLOSED, 0);
  EXPECT("KILL 0");
  tick_at(REAP_MS - 1);
  EXPECT("");
  CHECK_INT(wake_ms(), REAP_MS);
  tick_at(REAP_MS);
  EXPECT("LOST 0");
  CHECK_INT(pool.processes, 1);
  CHECK(mst_pool_wake_ns(&pool) == INT64_MAX);
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 1");
  tell_gone(1);
  EXPECT("STOPPED");
  finish();
}

TEST("An end without a status is reported as unknown") {
  run_pool(1);
  tell(MST_EV_CLOSED, 0);
  tell_exited(0, MST_EXIT_UNKNOWN, 9);
  EXPECT("LOST 0");
  CHECK(pool.workers[0]->exit_known);
  CHECK_INT(pool.workers[0]->exit_how, MST_EXIT_UNKNOWN);
  CHECK_INT(pool.workers[0]->exit_number, 0);
  finish();
}

// --- Stop ---

TEST("A stop says goodbye to all and is done when all are reaped") {
  run_pool(2);
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 0, BYE 1");
  tell_exited(1, MST_EXIT_CODE, 0);
  tell(MST_EV_CLOSED, 0);
  EXPECT("");
  tell_exited(0, MST_EXIT_CODE, 0);
  EXPECT("STOPPED");
  CHECK_INT(state_of(0), MST_WORKER_STOPPED);
  CHECK_INT(state_of(1), MST_WORKER_STOPPED);
  CHECK(mst_pool_wake_ns(&pool) == INT64_MAX);
  finish();
}

TEST("A busy worker may finish for a moment, one that did gets the grace") {
  run_pool(3);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_SENT, 1);
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 0, BYE 1, BYE 2");
  CHECK_INT(wake_ms(), BUSY_MS);
  now_ms = BUSY_MS - 1;
  tell(MST_EV_ANSWERED, 1);
  tick_at(BUSY_MS - 1);
  EXPECT("");
  tick_at(BUSY_MS);
  EXPECT("KILL 0");
  tell_gone(0);
  CHECK_INT(pool.workers[0]->owed, 1);
  tick_at(GRACE_MS - 1);
  EXPECT("");
  tick_at(GRACE_MS);
  EXPECT("KILL 1, KILL 2");
  tell_gone(1);
  tell_gone(2);
  EXPECT("STOPPED");
  finish();
}

TEST("A stop gives up on a process that survives a kill") {
  run_pool(2);
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 0, BYE 1");
  tell_gone(0);
  tick_at(GRACE_MS);
  EXPECT("KILL 1");
  CHECK_INT(wake_ms(), GRACE_MS + REAP_MS);
  tick_at(GRACE_MS + REAP_MS);
  EXPECT("STOPPED");
  CHECK_INT(state_of(1), MST_WORKER_LOST);
  CHECK(!pool.workers[1]->exit_known);
  finish();
}

TEST("A stop reports losses first, and says no goodbye to lost workers") {
  run_pool(2);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_CLOSED, 0);
  EXPECT("KILL 0");
  tell(MST_EV_STOP, 0);
  EXPECT("LOST 0, BYE 1");
  tell_gone(1);
  EXPECT("");
  tell_exited(0, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("STOPPED");
  CHECK_INT(state_of(0), MST_WORKER_LOST);
  finish();
}

TEST("A worker that dies during a stop isn't a loss") {
  run_pool(1);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 0");
  tell(MST_EV_CLOSED, 0);
  EXPECT("");
  tell_exited(0, MST_EXIT_SIGNAL, SIGSEGV);
  EXPECT("STOPPED");
  CHECK_INT(pool.workers[0]->exit_number, SIGSEGV);
  finish();
}

TEST("A stop kills a worker without a known pid once it has one") {
  start(1, 1);
  (void)taken();
  tell(MST_EV_READY, 0);
  tell(MST_EV_STOP, 0);
  EXPECT("STARTED, BYE 0");
  tick_at(GRACE_MS);
  EXPECT("");
  now_ms = GRACE_MS + 1000;
  tell_forked(0);
  EXPECT("KILL 0");
  tick_at(GRACE_MS + 1000 + REAP_MS - 1);
  EXPECT("");
  tick_at(GRACE_MS + 1000 + REAP_MS);
  EXPECT("STOPPED");
  finish();
}

TEST("A second stop changes nothing") {
  run_pool(1);
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 0");
  now_ms = 4000;
  tell(MST_EV_STOP, 0);
  EXPECT("");
  tick_at(GRACE_MS);
  EXPECT("KILL 0");
  mst_pool_free(&pool);
}

TEST("A stop before the start has nothing to do") {
  CHECK_INT(mst_pool_init(&pool, 3, 3), 0);
  tell(MST_EV_STOP, 0);
  EXPECT("STOPPED");
  finish();
}

TEST("A pool that is down ignores everything") {
  run_pool(1);
  tell(MST_EV_STOP, 0);
  tell_gone(0);
  EXPECT("STOPPED"); // the goodbye was outrun by the end of the channel
  for (int kind = MST_EV_FORKED; kind <= MST_EV_TICK; kind++) {
    tell_number((enum mst_event_kind)kind, 0, 5);
  }
  CHECK_INT(pool.phase, MST_POOL_DOWN);
  CHECK_INT(pool.workers[0]->pid, 100);
  finish();
}

// --- Retire ---

TEST("A retired worker is stopped and the others go on") {
  run_pool(2);
  tell(MST_EV_RETIRE, 1);
  EXPECT("BYE 1");
  tell(MST_EV_SENT, 1); // after the goodbye nothing is owed
  tell(MST_EV_CLOSED, 1);
  CHECK_INT(state_of(1), MST_WORKER_IDLE);
  tell_exited(1, MST_EXIT_CODE, 0);
  EXPECT("");
  CHECK_INT(state_of(1), MST_WORKER_STOPPED);
  CHECK_INT(pool.phase, MST_POOL_RUNNING);
  tell(MST_EV_SENT, 0);
  CHECK_INT(state_of(0), MST_WORKER_BUSY);
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 0");
  tell_gone(0);
  EXPECT("STOPPED");
  finish();
}

TEST("A retired worker has the limits of a stop, from its own time on") {
  run_pool(3);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_SENT, 1);
  now_ms = 100;
  tell(MST_EV_RETIRE, 0);
  tell(MST_EV_RETIRE, 1);
  EXPECT("BYE 0, BYE 1");
  tell(MST_EV_ANSWERED, 1);
  tick_at(100 + BUSY_MS - 1);
  EXPECT("");
  CHECK_INT(wake_ms(), 100 + BUSY_MS);
  tick_at(100 + BUSY_MS);
  EXPECT("KILL 0");
  tell_gone(0);
  EXPECT(""); // no LOST: it was asked to end
  CHECK_INT(state_of(0), MST_WORKER_STOPPED);
  tick_at(100 + GRACE_MS);
  EXPECT("KILL 1");
  tell_gone(1);
  CHECK(mst_pool_wake_ns(&pool) <= 100 * MS + MST_STOP_GRACE_NS + MST_REAP_NS);
  tick_at(100 + GRACE_MS + REAP_MS);
  CHECK(mst_pool_wake_ns(&pool) == INT64_MAX);
  finish();
}

TEST("A retired worker that survives a kill is given up, not lost") {
  run_pool(2);
  tell(MST_EV_RETIRE, 0);
  EXPECT("BYE 0");
  tick_at(GRACE_MS);
  EXPECT("KILL 0");
  tick_at(GRACE_MS + REAP_MS);
  EXPECT("");
  CHECK_INT(state_of(0), MST_WORKER_LOST);
  CHECK(mst_pool_wake_ns(&pool) == INT64_MAX);
  tick_at(60000);
  EXPECT("");
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 1");
  tell_gone(1);
  EXPECT("STOPPED");
  finish();
}

TEST("A stop says no second goodbye to a retired worker") {
  run_pool(2);
  tell(MST_EV_RETIRE, 0);
  EXPECT("BYE 0");
  now_ms = 3000;
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 1");
  tick_at(GRACE_MS); // the first one's time runs since it was retired
  EXPECT("KILL 0");
  tick_at(3000 + GRACE_MS);
  EXPECT("KILL 1");
  tell_gone(0);
  tell_gone(1);
  EXPECT("STOPPED");
  finish();
}

TEST("Only a worker that serves can be retired, and once") {
  start(2, 1);
  EXPECT("LAUNCH 0");
  tell(MST_EV_RETIRE, 0);
  tell(MST_EV_RETIRE, 1);
  tell(MST_EV_READY, 0);
  tell(MST_EV_RETIRE, 0); // not all are ready yet
  EXPECT("LAUNCH 1");
  tell_forked(1);
  tell(MST_EV_READY, 1);
  EXPECT("STARTED");
  tell(MST_EV_CLOSED, 1);
  EXPECT("KILL 1");
  tell(MST_EV_RETIRE, 1); // lost
  tell_exited(1, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("LOST 1");
  tell(MST_EV_RETIRE, 1);
  tell(MST_EV_RETIRE, 0);
  tell(MST_EV_RETIRE, 0);
  EXPECT("BYE 0");
  tell(MST_EV_STOP, 0);
  tell(MST_EV_RETIRE, 0);
  EXPECT("");
  mst_pool_free(&pool);
}

// --- Unexpected events and late takers ---

TEST("Events of unknown workers are ignored") {
  start(2, 1);
  EXPECT("LAUNCH 0");
  for (int kind = MST_EV_FORKED; kind <= MST_EV_SILENT; kind++) {
    tell_number((enum mst_event_kind)kind, 1, 5); // not launched yet
    tell_number((enum mst_event_kind)kind, 2, 5);
    tell_number((enum mst_event_kind)kind, UINT32_MAX, 5);
  }
  tell((enum mst_event_kind)99, 0);
  CHECK_INT(pool.phase, MST_POOL_STARTING);
  finish();
}

TEST("A pid that would mean a group or every process is ignored") {
  start(1, 1);
  EXPECT("LAUNCH 0");
  tell_number(MST_EV_FORKED, 0, 0);
  tell_number(MST_EV_FORKED, 0, -1);
  CHECK_INT(pool.workers[0]->pid, 0);
  tell_number(MST_EV_FORKED, 0, 7);
  tell_number(MST_EV_FORKED, 0, 8);
  CHECK_INT(pool.workers[0]->pid, 7);
  finish();
}

TEST("A launch can't have failed once its worker has a pid or has spoken") {
  start(3, 3);
  (void)taken();
  tell_forked(0);
  tell_number(MST_EV_LAUNCH_FAILED, 0, EAGAIN);
  tell(MST_EV_READY, 1);
  tell_number(MST_EV_LAUNCH_FAILED, 1, EAGAIN);
  CHECK_INT(pool.phase, MST_POOL_STARTING);
  tell(MST_EV_READY, 0);
  tell(MST_EV_READY, 2);
  EXPECT("STARTED");
  tell(MST_EV_SENT, 1);
  tell_number(MST_EV_LAUNCH_FAILED, 1, EAGAIN);
  CHECK_INT(state_of(1), MST_WORKER_BUSY);
  CHECK(pool.workers[1]->awaited);
  finish();
}

TEST("A stop and a tick are for the pool, whatever worker they name") {
  run_pool(2);
  tell(MST_EV_CLOSED, 0);
  EXPECT("KILL 0");
  now_ms = REAP_MS;
  tell(MST_EV_TICK, 99);
  tell(MST_EV_STOP, 99);
  EXPECT("LOST 0, BYE 1");
  mst_pool_free(&pool);
}

TEST("A kill or goodbye that comes too late is dropped") {
  run_pool(2);
  tell(MST_EV_CLOSED, 0);
  tell_exited(0, MST_EXIT_CODE, 0); // before anybody took the KILL
  EXPECT("LOST 0");
  tell(MST_EV_STOP, 0);
  tell(MST_EV_CLOSED, 1); // before anybody took the BYE
  EXPECT("");
  tell_exited(1, MST_EXIT_CODE, 0);
  EXPECT("STOPPED");
  finish();
}

TEST("A whole life without a taker loses no action") {
  enum { COUNT = 3 };
  run_pool(COUNT);
  for (uint32_t i = 0; i < COUNT; i++) {
    tell(MST_EV_CLOSED, i);
  }
  tell(MST_EV_STOP, 0);
  tick_at(REAP_MS);
  EXPECT("KILL 0, LOST 0, KILL 1, LOST 1, KILL 2, LOST 2, STOPPED");
  finish();
}

TEST("Every state has a name") {
  CHECK_TEXT(mst_worker_state_name(MST_WORKER_NONE), "none");
  CHECK_TEXT(mst_worker_state_name(MST_WORKER_STARTING), "starting");
  CHECK_TEXT(mst_worker_state_name(MST_WORKER_IDLE), "idle");
  CHECK_TEXT(mst_worker_state_name(MST_WORKER_BUSY), "busy");
  CHECK_TEXT(mst_worker_state_name(MST_WORKER_LOST), "lost");
  CHECK_TEXT(mst_worker_state_name(MST_WORKER_RESTARTING), "restarting");
  CHECK_TEXT(mst_worker_state_name(MST_WORKER_STOPPED), "stopped");
  CHECK_TEXT(mst_worker_state_name((enum mst_worker_state)99), "unknown");
}

// --- The check itself ---

TEST("The check finds a pool that contradicts itself") {
  run_pool(2);
  struct mst_worker *worker = pool.workers[0];
  EXPECT_BROKEN(pool.in_flight++, pool.in_flight--);
  EXPECT_BROKEN(pool.processes--, pool.processes++);
  EXPECT_BROKEN(pool.awaited--, pool.awaited++);
  EXPECT_BROKEN(pool.ready--, pool.ready++);
  EXPECT_BROKEN(pool.next--, pool.next++);
  EXPECT_BROKEN(pool.fail = MST_FAIL_SETUP, pool.fail = MST_FAIL_NONE);
  EXPECT_BROKEN(pool.phase = MST_POOL_STARTING, pool.phase = MST_POOL_RUNNING);
  EXPECT_BROKEN(pool.phase = MST_POOL_DOWN, pool.phase = MST_POOL_RUNNING);
  EXPECT_BROKEN(worker->owed = 1, worker->owed = 0);
  EXPECT_BROKEN(worker->launched = 0, worker->launched = 1);
  EXPECT_BROKEN(worker->exit_known = 1, worker->exit_known = 0);
  EXPECT_BROKEN(worker->killed = 1, worker->killed = 0);
  EXPECT_BROKEN(worker->kill_ns = 5, worker->kill_ns = INT64_MAX);
  EXPECT_BROKEN(worker->lost_given = 1, worker->lost_given = 0);
  EXPECT_BROKEN(worker->channel = 0, worker->channel = 1);
  EXPECT_BROKEN(worker->state = MST_WORKER_BUSY,
                worker->state = MST_WORKER_IDLE);
  EXPECT_BROKEN(worker->state = MST_WORKER_RESTARTING,
                worker->state = MST_WORKER_IDLE);
  EXPECT_BROKEN(worker->state = MST_WORKER_STOPPED,
                worker->state = MST_WORKER_IDLE);
  finish();
}

TEST("The check finds a limit without a wake-up") {
  run_pool(1);
  tell(MST_EV_CLOSED, 0);
  EXPECT("KILL 0");
  const int64_t wake_ns = pool.wake_ns;
  EXPECT_BROKEN(pool.wake_ns = INT64_MAX, pool.wake_ns = wake_ns);
  finish();
}
