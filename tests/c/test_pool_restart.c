// Tests of pool/state: workers that come back.
#include <errno.h>

#include "mst_pool_test.h"

// lose_worker ends a worker that serves, both signs at once.
static void lose_worker(uint32_t worker) {
  tell(MST_EV_CLOSED, worker);
  tell_exited(worker, MST_EXIT_SIGNAL, SIGSEGV);
}

// back_in_line runs a pool whose worker 0 is being relaunched; takes the LAUNCH.
static void back_in_line(uint32_t count) {
  run_pool(count);
  lose_worker(0);
  EXPECT("LOST 0");
  tell(MST_EV_RESTART, 0);
  EXPECT("LAUNCH 0");
  CHECK_INT(state_of(0), MST_WORKER_RESTARTING);
}

static void tell_forked_again(uint32_t worker) {
  tell_number(MST_EV_FORKED, worker, 200 + (int32_t)worker);
}

// --- The way back ---

TEST("A restarted worker begins anew, one epoch further on") {
  run_pool(2);
  for (int k = 0; k < 3; k++)
    tell(MST_EV_SENT, 0);
  tell(MST_EV_ANSWERED, 0);
  lose_worker(0);
  EXPECT("LOST 0");
  now_ms = 700;
  tell(MST_EV_RESTART, 0);
  CHECK_INT(pool.again, 1);
  EXPECT("LAUNCH 0");
  const struct mst_worker *worker = pool.workers[0];
  CHECK_INT(worker->state, MST_WORKER_RESTARTING);
  CHECK_INT(worker->epoch, 1);
  CHECK_INT(worker->pid, 0);
  CHECK_INT(worker->owed, 0); // the caller sends it again
  CHECK_INT(worker->done, 1); // counts all incarnations
  CHECK(worker->awaited && worker->channel && !worker->exit_known);
  CHECK(!worker->killed && !worker->lost_given && !worker->again);
  CHECK_INT(pool.again, 0);
  CHECK_INT(pool.in_flight, 1);
  tell_forked_again(0);
  CHECK_INT(worker->pid, 200);
  CHECK_INT(pool.processes, 2);
  EXPECT("");
  tell(MST_EV_READY, 0);
  EXPECT("RESTARTED 0");
  CHECK_INT(worker->state, MST_WORKER_IDLE);
  CHECK_INT(pool.in_flight, 0);
  CHECK_INT(pool.ready, 2);
  tick_at(800); // a limit that has passed isn't watched
  CHECK(mst_pool_wake_ns(&pool) == INT64_MAX);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_ANSWERED, 0);
  CHECK_INT(worker->done, 2);
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 0, BYE 1");
  tell_gone(0);
  tell_gone(1);
  EXPECT("STOPPED");
  finish();
}

TEST("A worker comes back whenever a restart is requested") {
  run_pool(1);
  for (uint32_t epoch = 1; epoch <= 5; epoch++) {
    lose_worker(0);
    EXPECT("LOST 0");
    tell(MST_EV_RESTART, 0);
    EXPECT("LAUNCH 0");
    CHECK_INT(pool.workers[0]->epoch, epoch);
    tell_forked_again(0);
    tell(MST_EV_READY, 0);
    EXPECT("RESTARTED 0");
  }
  CHECK_INT(pool.ready, 1);
  finish();
}

TEST("A restart is requested after LOST, and makes one incarnation") {
  run_pool(2);
  tell(MST_EV_RESTART, 0); // idle
  tell(MST_EV_SENT, 0);
  tell(MST_EV_RESTART, 0); // busy
  tell(MST_EV_CLOSED, 0);
  EXPECT("KILL 0");
  tell(MST_EV_RESTART, 0); // lost, not given
  EXPECT("");
  CHECK_INT(pool.again, 0);
  tell_exited(0, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("LOST 0");
  tell(MST_EV_RESTART, 0);
  tell(MST_EV_RESTART, 0);
  CHECK_INT(pool.again, 1);
  EXPECT("LAUNCH 0");
  tell(MST_EV_RESTART, 0); // restarting
  EXPECT("");
  tell(MST_EV_READY, 0);
  EXPECT("RESTARTED 0");
  tell(MST_EV_RESTART, 0);
  CHECK_INT(pool.workers[0]->epoch, 1);
  finish();
}

TEST("Restarts and silence mean nothing in a start, a stop or a take-down") {
  start(2, 1);
  EXPECT("LAUNCH 0");
  tell(MST_EV_SILENT, 0);
  tell(MST_EV_RESTART, 0);
  tell(MST_EV_READY, 0);
  tell(MST_EV_SILENT, 0);
  EXPECT("LAUNCH 1");
  tell_number(MST_EV_LAUNCH_FAILED, 1, EAGAIN);
  tell(MST_EV_RESTART, 1);
  tell(MST_EV_SILENT, 0);
  EXPECT("");
  tell_exited(0, MST_EXIT_CODE, 1);
  EXPECT("START_FAILED");
  finish();
}

TEST("The window holds for restarts, in the order of workers") {
  start(4, 1);
  for (uint32_t i = 0; i < 4; i++) {
    (void)taken();
    tell_forked(i);
    tell(MST_EV_READY, i);
  }
  EXPECT("STARTED");
  for (uint32_t i = 3; i >= 1; i--) {
    lose_worker(i);
    tell(MST_EV_RESTART, i);
  }
  // Earlier news comes before any launch.
  EXPECT("LOST 3, LOST 2, LOST 1, LAUNCH 1");
  CHECK_INT(pool.again, 2);
  tell(MST_EV_READY, 1);
  EXPECT("RESTARTED 1, LAUNCH 2");
  tell_number(MST_EV_LAUNCH_FAILED, 2, EAGAIN);
  EXPECT("LOST 2, LAUNCH 3");
  tell(MST_EV_RESTART, 2);
  EXPECT("");
  tell(MST_EV_READY, 3);
  EXPECT("RESTARTED 3, LAUNCH 2");
  CHECK_INT(pool.workers[2]->epoch, 2);
  mst_pool_free(&pool);
}

TEST("A restart that isn't ready in time is lost and killed") {
  run_pool(1);
  lose_worker(0);
  EXPECT("LOST 0");
  now_ms = 1000;
  tell(MST_EV_RESTART, 0);
  EXPECT("LAUNCH 0");
  tell_forked_again(0);
  CHECK(wake_ms() <= 1000 + RESTART_MS);
  tick_at(1000 + RESTART_MS - 1);
  EXPECT("");
  CHECK_INT(wake_ms(), 1000 + RESTART_MS);
  tick_at(1000 + RESTART_MS);
  EXPECT("KILL 0");
  CHECK_INT(state_of(0), MST_WORKER_LOST);
  tick_at(1000 + RESTART_MS + NEWS_MS);
  EXPECT("LOST 0");
  tell(MST_EV_READY, 0);
  EXPECT("");
  finish();
}

TEST("A restart's time runs from its launch, not from its place in line") {
  start(2, 1);
  for (uint32_t i = 0; i < 2; i++) {
    (void)taken();
    tell_forked(i);
    tell(MST_EV_READY, i);
  }
  EXPECT("STARTED");
  lose_worker(0);
  lose_worker(1);
  EXPECT("LOST 0, LOST 1");
  tell(MST_EV_RESTART, 0);
  tell(MST_EV_RESTART, 1);
  EXPECT("LAUNCH 0");
  now_ms = RESTART_MS - 1000;
  tell(MST_EV_READY, 0);
  EXPECT("RESTARTED 0, LAUNCH 1");
  tick_at(2 * RESTART_MS - 1001);
  EXPECT("");
  CHECK_INT(state_of(1), MST_WORKER_RESTARTING);
  CHECK_INT(wake_ms(), 2 * RESTART_MS - 1000);
  tick_at(2 * RESTART_MS - 1000);
  CHECK_INT(state_of(1), MST_WORKER_LOST);
  EXPECT("");
  mst_pool_free(&pool);
}

TEST("An earlier incarnation's unreaped process isn't waited for") {
  run_pool(2);
  tell(MST_EV_SILENT, 0);
  EXPECT("KILL 0");
  tick_at(NEWS_MS);
  EXPECT("LOST 0");
  CHECK_INT(pool.processes, 2);
  tell(MST_EV_RESTART, 0);
  CHECK_INT(pool.awaited, 2);
  EXPECT("LAUNCH 0");
  CHECK_INT(pool.processes, 1);
  CHECK_INT(pool.awaited, 2); // the next one
  tell_number(MST_EV_LAUNCH_FAILED, 0, EAGAIN);
  EXPECT("LOST 0");
  tell(MST_EV_STOP, 0);
  EXPECT("BYE 1");
  tell_gone(1);
  EXPECT("STOPPED");
  finish();
}

// --- The column "restarting" of the table ---

TEST("FORKED gives the pid of a restarting worker, once") {
  back_in_line(1);
  tell_number(MST_EV_FORKED, 0, -1);
  CHECK_INT(pool.workers[0]->pid, 0);
  tell_forked_again(0);
  tell_forked(0);
  CHECK_INT(pool.workers[0]->pid, 200);
  CHECK_INT(state_of(0), MST_WORKER_RESTARTING);
  finish();
}

TEST("LAUNCH_FAILED makes a restarting worker lost, and says why") {
  back_in_line(1);
  tell_number(MST_EV_LAUNCH_FAILED, 0, EMFILE);
  EXPECT("LOST 0");
  CHECK_INT(state_of(0), MST_WORKER_LOST);
  CHECK(pool.workers[0]->exit_known);
  CHECK_INT(pool.workers[0]->exit_how, MST_EXIT_NONE);
  CHECK_INT(pool.workers[0]->exit_number, EMFILE);
  CHECK_INT(pool.fail, MST_FAIL_NONE);
  CHECK_INT(pool.awaited, 0);
  tell(MST_EV_RESTART, 0);
  EXPECT("LAUNCH 0");
  mst_pool_free(&pool);
}

TEST("LAUNCH_FAILED after the channel's end says why a restart was lost") {
  back_in_line(1);
  tell(MST_EV_CLOSED, 0);
  EXPECT("");
  tell_number(MST_EV_LAUNCH_FAILED, 0, ENOMEM);
  EXPECT("LOST 0");
  CHECK_INT(pool.workers[0]->exit_number, ENOMEM);
  tell_number(MST_EV_LAUNCH_FAILED, 0, EAGAIN); // again
  CHECK_INT(pool.workers[0]->exit_number, ENOMEM);
  finish();
}

TEST("A restart can't have failed to launch once it has a pid or has spoken") {
  back_in_line(2);
  tell_forked_again(0);
  tell_number(MST_EV_LAUNCH_FAILED, 0, EAGAIN);
  CHECK_INT(state_of(0), MST_WORKER_RESTARTING);
  lose_worker(1);
  EXPECT("LOST 1");
  tell(MST_EV_RESTART, 1);
  EXPECT("LAUNCH 1");
  tell(MST_EV_READY, 1);
  EXPECT("RESTARTED 1");
  tell_number(MST_EV_LAUNCH_FAILED, 1, EAGAIN);
  CHECK_INT(state_of(1), MST_WORKER_IDLE);
  tell(MST_EV_SENT, 1);
  tell_number(MST_EV_LAUNCH_FAILED, 1, EAGAIN);
  CHECK_INT(state_of(1), MST_WORKER_BUSY);
  finish();
}

TEST("READY before FORKED brings a restarting worker back too") {
  back_in_line(1);
  tell(MST_EV_READY, 0);
  tell(MST_EV_READY, 0);
  EXPECT("RESTARTED 0");
  tell_forked_again(0);
  CHECK_INT(pool.processes, 1);
  finish();
}

TEST("SETUP_FAILED makes a restarting worker lost and ends its process") {
  back_in_line(1);
  tell_forked_again(0);
  tell(MST_EV_SETUP_FAILED, 0);
  EXPECT("KILL 0");
  CHECK_INT(state_of(0), MST_WORKER_LOST);
  tell_exited(0, MST_EXIT_CODE, 1);
  EXPECT("");
  tell(MST_EV_CLOSED, 0);
  EXPECT("LOST 0");
  CHECK_INT(pool.fail, MST_FAIL_NONE);
  tell(MST_EV_SETUP_FAILED, 0);
  finish();
}

TEST("SETUP_FAILED of a worker that serves is ignored") {
  run_pool(2);
  tell(MST_EV_SENT, 1);
  tell(MST_EV_SETUP_FAILED, 0);
  tell(MST_EV_SETUP_FAILED, 1);
  CHECK_INT(state_of(0), MST_WORKER_IDLE);
  CHECK_INT(state_of(1), MST_WORKER_BUSY);
  finish();
}

TEST("Nothing is sent to a restarting worker, and no answer comes from it") {
  back_in_line(1);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_ANSWERED, 0);
  CHECK_INT(pool.workers[0]->owed, 0);
  CHECK_INT(pool.workers[0]->done, 0);
  finish();
}

TEST("The end of a restarting worker is a loss, whichever sign comes first") {
  back_in_line(2);
  tell_forked_again(0);
  tell(MST_EV_CLOSED, 0);
  EXPECT("KILL 0");
  tell_exited(0, MST_EXIT_CODE, 3);
  EXPECT("LOST 0");
  lose_worker(1);
  EXPECT("LOST 1");
  tell(MST_EV_RESTART, 1);
  EXPECT("LAUNCH 1");
  tell_exited(1, MST_EXIT_CODE, 3); // before FORKED
  EXPECT("");
  CHECK_INT(state_of(1), MST_WORKER_LOST);
  tell(MST_EV_CLOSED, 1);
  EXPECT("LOST 1");
  CHECK_INT(pool.in_flight, 0);
  finish();
}

TEST("A silent worker is lost and killed, whatever it does") {
  run_pool(3);
  tell(MST_EV_SENT, 1);
  lose_worker(2);
  EXPECT("LOST 2");
  tell(MST_EV_RESTART, 2);
  EXPECT("LAUNCH 2");
  tell_forked_again(2);
  now_ms = 100;
  for (uint32_t i = 0; i < 3; i++) {
    tell(MST_EV_SILENT, i);
    CHECK_INT(state_of(i), MST_WORKER_LOST);
  }
  EXPECT("KILL 0, KILL 1, KILL 2");
  CHECK_INT(pool.workers[1]->owed, 1);
  CHECK(wake_ms() <= 100 + NEWS_MS);
  tell(MST_EV_SILENT, 0); // lost
  lose_worker(1);
  EXPECT("LOST 1");
  tick_at(100 + NEWS_MS); // nothing came from the others
  EXPECT("LOST 0, LOST 2");
  tell(MST_EV_SILENT, 0);
  finish();
}

TEST("Silence of a retired worker is ignored") {
  run_pool(1);
  tell(MST_EV_RETIRE, 0);
  EXPECT("BYE 0");
  tell(MST_EV_SILENT, 0);
  CHECK_INT(state_of(0), MST_WORKER_IDLE);
  finish();
}

TEST("An answer that was read before a silent worker was given still counts") {
  run_pool(1);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_SENT, 0);
  tell(MST_EV_SILENT, 0);
  EXPECT("KILL 0");
  tell(MST_EV_ANSWERED, 0);
  CHECK_INT(pool.workers[0]->owed, 1);
  CHECK_INT(state_of(0), MST_WORKER_LOST);
  finish();
}

TEST("A restarting worker that is retired is killed and stopped, not lost") {
  back_in_line(2);
  tell_forked_again(0);
  now_ms = 100;
  tell(MST_EV_RETIRE, 0);
  EXPECT("KILL 0");
  tell(MST_EV_RETIRE, 0);
  tell(MST_EV_READY, 0); // too late
  tell(MST_EV_SETUP_FAILED, 0);
  tell(MST_EV_CLOSED, 0);
  CHECK_INT(state_of(0), MST_WORKER_RESTARTING);
  tell_exited(0, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("");
  CHECK_INT(state_of(0), MST_WORKER_STOPPED);
  CHECK_INT(pool.in_flight, 0);
  tell(MST_EV_RESTART, 0);
  EXPECT("");
  finish();
}

TEST("A worker that is retired before its pid is known is killed when it is") {
  back_in_line(1);
  tell(MST_EV_RETIRE, 0);
  EXPECT("");
  now_ms = 3000;
  tell_forked_again(0);
  EXPECT("KILL 0");
  tick_at(3000 + REAP_MS);
  EXPECT("");
  CHECK_INT(state_of(0), MST_WORKER_LOST); // given up
  CHECK_INT(pool.awaited, 0);
  CHECK_INT(pool.in_flight, 0);
  tell(MST_EV_RESTART, 0); // no LOST was given
  EXPECT("");
  finish();
}

TEST("A retired restart whose launch fails is stopped") {
  back_in_line(1);
  tell(MST_EV_RETIRE, 0);
  tell_number(MST_EV_LAUNCH_FAILED, 0, EAGAIN);
  EXPECT("");
  CHECK_INT(state_of(0), MST_WORKER_STOPPED);
  CHECK_INT(pool.in_flight, 0);
  finish();
}

TEST("A lost worker that waits for its turn and is retired doesn't come back") {
  run_pool(2);
  lose_worker(0);
  tell(MST_EV_RESTART, 0);
  tell(MST_EV_RETIRE, 0);
  CHECK_INT(pool.again, 0);
  EXPECT("LOST 0");
  CHECK_INT(state_of(0), MST_WORKER_LOST);
  CHECK_INT(pool.workers[0]->epoch, 0);
  finish();
}

// --- A stop finds a restart ---

TEST("A stop ends a restart in any state, and waits for it") {
  enum { WAITS, ASKED, BORN, COUNT };
  start(COUNT, 2);
  for (uint32_t i = 0; i < COUNT; i++) {
    (void)taken();
    tell_forked(i);
    tell(MST_EV_READY, i);
  }
  EXPECT("STARTED");
  for (uint32_t i = 0; i < COUNT; i++)
    lose_worker(i);
  EXPECT("LOST 0, LOST 1, LOST 2");
  tell(MST_EV_RESTART, BORN);
  tell(MST_EV_RESTART, ASKED);
  EXPECT("LAUNCH 1, LAUNCH 2");
  tell(MST_EV_RESTART, WAITS);
  EXPECT("");
  tell_forked_again(BORN);
  tell(MST_EV_STOP, 0);
  EXPECT("KILL 2");
  CHECK_INT(pool.again, 0);
  tell(MST_EV_READY, BORN);
  tell_exited(BORN, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("");
  tell_forked_again(ASKED);
  EXPECT("KILL 1");
  tell_exited(ASKED, MST_EXIT_SIGNAL, SIGKILL);
  EXPECT("STOPPED");
  CHECK_INT(state_of(WAITS), MST_WORKER_LOST);
  CHECK_INT(state_of(ASKED), MST_WORKER_STOPPED);
  CHECK_INT(state_of(BORN), MST_WORKER_STOPPED);
  finish();
}

TEST("A stop gives up on a restart that is never heard of") {
  back_in_line(1);
  tell(MST_EV_STOP, 0);
  EXPECT("");
  tick_at(REAP_MS - 1);
  EXPECT("");
  tick_at(REAP_MS);
  EXPECT("STOPPED");
  CHECK_INT(state_of(0), MST_WORKER_LOST);
  finish();
}

TEST("A stop takes the news that a restart couldn't be launched") {
  back_in_line(1);
  tell(MST_EV_STOP, 0);
  tell_number(MST_EV_LAUNCH_FAILED, 0, EAGAIN);
  EXPECT("STOPPED");
  finish();
}

TEST("A stop says goodbye to a worker that has just come back") {
  back_in_line(1);
  tell_forked_again(0);
  tell(MST_EV_READY, 0);
  tell(MST_EV_STOP, 0);
  EXPECT("RESTARTED 0, BYE 0");
  tell_gone(0);
  EXPECT("STOPPED");
  finish();
}

// --- Late takers ---

TEST("No action of an earlier incarnation comes after the next launch") {
  run_pool(1);
  tell(MST_EV_SILENT, 0);
  tick_at(NEWS_MS); // lost, its process unreaped, and nobody takes anything
  tell(MST_EV_RESTART, 0);
  EXPECT("KILL 0, LOST 0, LAUNCH 0");
  mst_pool_free(&pool);
}

TEST("RESTARTED isn't reported for a worker that is lost again before it is "
     "taken") {
  back_in_line(1);
  tell_forked_again(0);
  tell(MST_EV_READY, 0);
  tell(MST_EV_CLOSED, 0);
  EXPECT("KILL 0");
  mst_pool_free(&pool);
}

TEST("A whole later life without a taker loses no action") {
  enum { COUNT = 3 };
  run_pool(COUNT);
  for (uint32_t i = 0; i < COUNT; i++) {
    lose_worker(i);
    tell(MST_EV_RESTART, i);
  }
  EXPECT("LOST 0, LOST 1, LOST 2, LAUNCH 0, LAUNCH 1, LAUNCH 2");
  for (uint32_t i = 0; i < COUNT; i++) {
    tell_forked_again(i);
    tell(MST_EV_READY, i);
    tell(MST_EV_CLOSED, i);
  }
  tell(MST_EV_STOP, 0);
  tick_at(REAP_MS);
  EXPECT("KILL 0, LOST 0, KILL 1, LOST 1, KILL 2, LOST 2, STOPPED");
  finish();
}
