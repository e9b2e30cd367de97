// Tests of pool/calls: tasks that come back to the queue from behind a call.
#include "mst_calls_test.h"

static void withdrawn(uint32_t worker, uint64_t call) {
  mst_calls_withdrawn(&calls, worker, call, now_ns);
  check_calls();
}

// run_ahead: worker 0 has a long task and one behind it, worker 1 a short one.
static void run_ahead(void) {
  run_calls(2);
  for (int i = 0; i < 3; i++)
    (void)submit();
  EXPECT("EXEC 0 #1, EXEC 0 #2, EXEC 1 #1");
}

// ask_back: worker 1 is idle, and worker 0 is asked for what waits there.
static void ask_back(void) {
  run_ahead();
  tick(MST_WITHDRAW_NS);
  EXPECT("");
  answer(1, 1);
  EXPECT("WITHDRAW 0 #2");
}

TEST("A task that waits behind a call goes to a worker that is idle") {
  ask_back();
  CHECK_INT(tasks[2]->state, MST_CALL_GIVEN);
  withdrawn(0, 2);
  CHECK_INT(calls.pool.workers[0]->owed, 1);
  CHECK_INT(calls.pool.workers[0]->done, 0); // it has answered nothing
  EXPECT("EXEC 1 #2");
  CHECK_INT(tasks[2]->worker, 1);
  answer(1, 2);
  CHECK_INT(tasks[2]->state, MST_CALL_DONE);
  answer(0, 1);
  finish();
}

TEST("It is asked for once the call before it has run for a while") {
  run_ahead();
  answer(1, 1);
  EXPECT("");
  CHECK_INT(mst_calls_wake_ns(&calls), now_ns + MST_WITHDRAW_NS);
  tick(MST_WITHDRAW_NS - 1);
  EXPECT("");
  tick(1);
  EXPECT("WITHDRAW 0 #2");
  tick(MST_NS_PER_S); // once: without an answer it stays where it is
  EXPECT("");
  CHECK_INT(mst_calls_wake_ns(&calls), INT64_MAX);
  answer(0, 1);
  answer(0, 2);
  withdrawn(0, 2); // no such call
  finish();
}

TEST("Nothing else is sent to wait where a task was asked for") {
  ask_back();
  withdrawn(0, 2);
  EXPECT("EXEC 1 #2");
  (void)submit();
  (void)submit();
  EXPECT("EXEC 1 #3");
  CHECK_INT(tasks[4]->state, MST_CALL_QUEUED);
  answer(0, 1);
  EXPECT("EXEC 0 #3");
  answer(0, 3);
  answer(1, 2);
  answer(1, 3);
  finish();
}

TEST("A task that only its worker may take isn't asked for on behalf of "
     "others") {
  run_calls(2);
  (void)submit_to(0);
  (void)submit_to(0);
  (void)submit_to(1);
  EXPECT("EXEC 0 #1, EXEC 0 #2, EXEC 1 #1");
  tick(MST_WITHDRAW_NS);
  answer(1, 1);
  EXPECT("");
  CHECK_INT(mst_calls_wake_ns(&calls), MST_NS_PER_S + MST_AHEAD_NS);
  answer(0, 1);
  answer(0, 2);
  finish();
}

// gone_back: the task behind the long one of the only worker is in the queue again.
static void gone_back(void) {
  run_calls(1);
  (void)submit();
  (void)submit();
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  tick(MST_AHEAD_NS - 1);
  EXPECT("");
  tick(1);
  EXPECT("WITHDRAW 0 #2"); // its id is used up
  withdrawn(0, 2);
  CHECK_INT(tasks[1]->state, MST_CALL_QUEUED);
  EXPECT("");
}

TEST("A task behind a call that has run for long goes back to the queue, "
     "idle worker or not") {
  gone_back();
  CHECK_INT(mst_calls_wake_ns(&calls), INT64_MAX);
  (void)submit();
  (void)submit_with((struct mst_task_terms){.retries = -1, .priority = 1}, NULL,
                    0);
  EXPECT(""); // neither waits there now
  answer(0, 1);
  EXPECT("EXEC 0 #3, EXEC 0 #4");
  CHECK_INT(tasks[3]->state, MST_CALL_GIVEN); // the urgent one
  CHECK_INT(tasks[1]->state, MST_CALL_GIVEN); // in its old place
  CHECK_INT(tasks[2]->state, MST_CALL_QUEUED);
  CHECK_INT(mst_calls_wake_ns(&calls), now_ns + MST_AHEAD_NS);
  answer(0, 3);
  EXPECT("EXEC 0 #5");
  answer(0, 4);
  answer(0, 5);
  finish();
}

TEST("Nothing is sent ahead behind a call that has run for long") {
  run_calls(2);
  (void)submit_to(0);
  EXPECT("EXEC 0 #1");
  tick(MST_AHEAD_NS);
  (void)submit_to(0);
  EXPECT("");
  ask(1);
  EXPECT("EXEC 1 #1");
  (void)submit_to(1); // that one has just begun
  EXPECT("EXEC 1 #2");
  told(1, 1, 0);
  answer(1, 2);
  answer(0, 1);
  EXPECT("EXEC 0 #2");
  answer(0, 2);
  finish();
}

TEST("A verb's call stays with its worker") {
  run_calls(2);
  (void)submit_to(0);
  EXPECT("EXEC 0 #1");
  ask(0);
  EXPECT("EXEC 0 #2");
  tick(MST_WITHDRAW_NS);
  EXPECT("");
  answer(0, 1);
  told(0, 2, 0);
  finish();
}

TEST("The answer to a later call may come before the news of a withdrawn one") {
  ask_back();
  ask(0);
  EXPECT("EXEC 0 #3");
  answer(0, 1);
  EXPECT("");
  // The worker has passed over #2, and answers #3.
  mst_calls_reached(&calls, 0, 3, now_ns);
  CHECK(mst_calls_wants(&calls, 0, 3));
  CHECK_INT(tasks[2]->state, MST_CALL_QUEUED);
  told(0, 3, 0);
  EXPECT("EXEC 0 #4");
  withdrawn(0, 2); // the news, late
  answer(0, 4);
  finish();
}

TEST("A task that was cancelled meanwhile goes, and isn't queued") {
  ask_back();
  CHECK_INT(mst_call_cancel(tasks[2], now_ns), 1);
  withdrawn(0, 2);
  CHECK_INT(calls.pool.workers[0]->owed, 1);
  EXPECT("");
  answer(0, 1);
  finish();
}

TEST("A task whose worker is lost before it agrees is sent again, once") {
  ask_back();
  lose_one(0);
  withdrawn(0, 2); // after the verdict it is about nothing
  come_up(0);
  EXPECT("EXEC 0 #1 again, EXEC 0 #2");
  tick(MST_WITHDRAW_NS);
  EXPECT("WITHDRAW 0 #2"); // its new worker may be asked
  withdrawn(0, 2);
  EXPECT("EXEC 1 #2");
  answer(0, 1);
  answer(1, 2);
  finish();
}

TEST("A task that its worker won't begin isn't to blame for the loss") {
  ask_back();
  answer(0, 1);
  die(0);
  withdrawn(0, 2); // read before the verdict
  EXPECT("JUDGE 0, TELL 0, EXEC 1 #2, LAUNCH 0");
  CHECK_INT(tasks[2]->losses, 0);
  answer(1, 2);
  come_up(0);
  finish();
}

TEST("One that comes back while the cluster stops is lost") {
  ask_back();
  mst_calls_end_queue(&calls, now_ns);
  const struct mst_event stop = {.kind = MST_EV_STOP};
  mst_calls_event(&calls, &stop, now_ns);
  withdrawn(0, 2);
  CHECK_INT(tasks[2]->state, MST_CALL_LOST);
  (void)taken();
  mst_calls_end(&calls, now_ns);
  finish();
}
