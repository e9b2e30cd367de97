// Tests of pool/calls: losses, what is sent again, and limits, by facts and actions.
#include "mst_calls_test.h"

// --- Blame ---

TEST("A call isn't blamed for the death of its worker in one that was "
     "cancelled then") {
  run_calls(1);
  struct mst_call *first = submit_to(0);
  struct mst_call *second = submit_to(0);
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  fact(MST_EV_EXITED, 0, MST_EXIT_SIGNAL,
       SIGKILL); // its channel may hold more answers
  CHECK_INT(mst_call_cancel(first, now_ns), 1);
  fact(MST_EV_CLOSED, 0, 0, 0);
  EXPECT("JUDGE 0, TELL 0, LAUNCH 0");
  come_up(0);
  EXPECT("EXEC 0 #2");
  CHECK_INT(second->losses, 0);
  answer(0, 2);
  CHECK_INT(second->state, MST_CALL_DONE);
  finish();
}

TEST("A call after one that couldn't be sent for lack of memory has all its "
     "attempts") {
  run_calls(1);
  struct mst_call *first = submit_to(0);
  EXPECT("EXEC 0 #1");
  lose_one(0);
  struct mst_call *second = submit_to(0);
  come_up(0);
  unsent = MST_DO_EXEC;
  exec_rc = -MST_EMEM;
  EXPECT("EXEC 0 #1 again, EXEC 0 #2");
  CHECK_INT(first->state, MST_CALL_LOST);
  lose_one(0);
  come_up(0);
  EXPECT("EXEC 0 #2 again");
  answer(0, 2);
  CHECK_INT(second->state, MST_CALL_DONE);
  finish();
}

TEST("A call fails with its last attempt, and those behind it go on") {
  run_calls(1);
  ask(0);
  ask(0);
  (void)taken();
  lose_one(0);
  come_up(0);
  EXPECT("EXEC 0 #1 again, EXEC 0 #2");
  lose_one(0);
  struct mst_call *poison =
      mst_mailbox_answer(&calls.pool.workers[0]->mailbox, &caller);
  CHECK(poison != NULL && poison->state == MST_CALL_LOST);
  CHECK_INT(poison->loss->kind, MST_LOSS_POISON);
  CHECK_INT(poison->loss->attempts, 2);
  CHECK_INT(poison->loss->number, SIGKILL);
  CHECK_INT(take(0), MST_CALL_LOST);
  come_up(0);
  EXPECT("EXEC 0 #2");
  answer(0, 2);
  CHECK_INT(take(0), MST_CALL_DONE);
  finish();
}

TEST("A task that may not be tried again fails at once, and its worker comes "
     "back") {
  run_calls(1);
  struct mst_call *task =
      submit_with((struct mst_task_terms){.retries = 0}, NULL, 0);
  (void)taken();
  lose_one(0);
  CHECK_INT(task->state, MST_CALL_LOST);
  CHECK_INT(task->loss->kind, MST_LOSS_POISON);
  come_up(0);
  finish();
}

TEST(
    "A worker that dies too often without a call is given up, with its calls") {
  run_calls(2);
  struct mst_call *pinned = NULL;
  for (uint32_t n = 0; n <= MST_HEAL_DEATHS; n++) {
    die(0);
    if (n == MST_HEAL_DEATHS) pinned = submit_to(0);
    if (n < MST_HEAL_DEATHS) {
      // Only losses of workers that were there are reported.
      EXPECT("JUDGE 0, TELL 0, LAUNCH 0");
      fact(MST_EV_FORKED, 0, 0, 200 + (int32_t)n);
    }
  }
  EXPECT("JUDGE 0, TELL 0");
  CHECK_INT(pinned->state, MST_CALL_LOST);
  CHECK(calls.pool.workers[0]->dead);
  CHECK_INT(mst_calls_send(&calls, 0, payload, &caller, 0, 0, now_ns),
            -MST_ECLOSED);
  (void)submit();
  EXPECT("EXEC 1 #1");
  answer(1, 1);
  finish();
}

TEST("Without healing a lost worker stays lost, and so do its calls") {
  run_calls(2);
  calls.policy.on = 0;
  struct mst_call *task = submit_to(0);
  ask(0);
  (void)taken();
  die(0);
  CHECK_INT(mst_calls_send(&calls, 0, payload, &caller, 0, 0, now_ns),
            -MST_ECLOSED);
  EXPECT("JUDGE 0");
  CHECK_INT(task->state, MST_CALL_LOST);
  CHECK(calls.pool.workers[0]->dead &&
        calls.pool.workers[0]->mailbox.first != NULL);
  mst_calls_forget(&calls, 0, &caller, now_ns);
  CHECK(calls.pool.workers[0]->mailbox.first == NULL);
  finish();
}

// --- Replay ---

TEST("A worker's calls are replayed in order, before those it still owes") {
  run_calls(1);
  ask(0);
  ask(0);
  ask(0);
  (void)taken();
  answer_as(0, 1, MST_FLAG_STATE);
  answer(0, 2);
  answer_as(0, 3, MST_FLAG_STATE);
  for (int i = 0; i < 3; i++)
    CHECK_INT(take(0), MST_CALL_DONE);
  ask(0);
  EXPECT("EXEC 0 #4");
  lose_one(0);
  come_up(0);
  // Whatever it has changed.
  EXPECT("REEXEC 0 #1, REEXEC 0 #2, REEXEC 0 #3, EXEC 0 #4 again");
  for (uint64_t id = 1; id <= 3; id++)
    answer_as(0, id, MST_FLAG_REPLAY);
  answer(0, 4);
  CHECK_INT(take(0), MST_CALL_DONE);
  finish();
}

TEST("A death in the replay counts only against the worker") {
  run_calls(1);
  ask(0);
  (void)taken();
  answer_as(0, 1, MST_FLAG_STATE);
  CHECK_INT(take(0), MST_CALL_DONE);
  ask(0);
  (void)taken();
  lose_one(0);
  come_up(0);
  EXPECT("REEXEC 0 #1, EXEC 0 #2 again");
  lose_one(0);
  come_up(0);
  EXPECT("REEXEC 0 #1, EXEC 0 #2 again");
  CHECK_INT(calls.pool.workers[0]->mailbox.first->losses, 1);
  answer_as(0, 1, MST_FLAG_REPLAY);
  answer(0, 2);
  CHECK_INT(take(0), MST_CALL_DONE);
  finish();
}

TEST("A worker whose replay fails is given up, with the reason") {
  run_calls(1);
  ask(0);
  (void)taken();
  answer_as(0, 1, MST_FLAG_STATE);
  CHECK_INT(take(0), MST_CALL_DONE);
  lose_one(0);
  come_up(0);
  EXPECT("REEXEC 0 #1");
  answer_as(0, 1, MST_FLAG_REPLAY | MST_FLAG_ERROR);
  CHECK(calls.pool.workers[0]->dead &&
        calls.pool.workers[0]->why != MST_WHY_NONE);
  EXPECT("TELL 0, KILL 0");
  die(0);
  EXPECT("JUDGE 0");
  finish();
}

TEST("C1: a call that ended before it learned of its cancellation is in the "
     "journal") {
  run_calls(1);
  struct mst_call *task = submit();
  struct mst_call *next = submit();
  (void)taken();
  CHECK_INT(mst_call_cancel(task, now_ns), 1);
  EXPECT("CANCEL 0 #1");
  answer_as(0, 1, MST_FLAG_STATE);
  EXPECT("");
  lose_one(0);
  come_up(0);
  EXPECT("REEXEC 0 #1, EXEC 0 #2 again");
  answer_as(0, 1, MST_FLAG_REPLAY);
  answer(0, 2);
  CHECK_INT(next->state, MST_CALL_DONE);
  finish();
}

TEST("C1: a call that was interrupted and undone isn't in the journal") {
  run_calls(1);
  calls.policy.heartbeat_ns = INT64_MAX;
  CHECK_INT(mst_calls_send(&calls, 0, payload, NULL, 0, 1, now_ns), 0);
  struct mst_call *next = submit();
  (void)taken();
  mst_calls_forget(&calls, 0, NULL, now_ns);
  EXPECT("CANCEL 0 #1");
  answer_as(0, 1, MST_FLAG_ERROR);
  lose_one(0);
  come_up(0);
  EXPECT("EXEC 0 #2 again");
  answer(0, 2);
  CHECK_INT(next->state, MST_CALL_DONE);
  finish();
}

TEST("An answer to another call breaks its worker") {
  run_calls(1);
  ask(0);
  ask(0);
  (void)taken();
  answer(0, 2);
  CHECK(!calls.pool.workers[0]->channel &&
        calls.pool.workers[0]->why != MST_WHY_NONE);
  EXPECT("KILL 0, BREAK 0");
  mst_calls_end(&calls, now_ns);
  finish();
}

// --- Limits ---

TEST("C1: a worker that was told of a cancel may finish what it must not leave "
     "half done, for minutes") {
  run_calls(1);
  calls.policy.heartbeat_ns = INT64_MAX;
  struct mst_call *task = submit();
  struct mst_call *next = submit();
  (void)taken();
  CHECK_INT(mst_call_cancel(task, now_ns), 1);
  EXPECT("CANCEL 0 #1");
  tick(MST_CANCEL_FINISH_NS - MS);
  EXPECT("WITHDRAW 0 #2");
  CHECK_INT(calls.pool.workers[0]->state, MST_WORKER_BUSY);
  tick(10 * MS);
  EXPECT("KILL 0");
  CHECK_INT(calls.pool.workers[0]->why, MST_WHY_CANCEL);
  die(0);
  EXPECT("JUDGE 0, TELL 0, LAUNCH 0");
  come_up(0);
  EXPECT("EXEC 0 #2");
  answer(0, 2);
  CHECK_INT(next->state, MST_CALL_DONE);
  finish();
}

TEST("L1: one whose watch is silent then is the heartbeat's affair") {
  run_calls(1);
  calls.policy.heartbeat_ns = 12 * MST_NS_PER_S;
  struct mst_call *task = submit();
  (void)taken();
  CHECK_INT(mst_call_cancel(task, now_ns), 1);
  EXPECT("CANCEL 0 #1");
  for (int s = 1; s < 12; s++)
    tick(MST_NS_PER_S);
  CHECK_INT(calls.pool.workers[0]->state, MST_WORKER_BUSY);
  (void)taken(); // PINGs
  tick(MST_NS_PER_S);
  EXPECT("KILL 0");
  CHECK_INT(calls.pool.workers[0]->why, MST_WHY_HEARTBEAT);
  mst_calls_end(&calls, now_ns);
  finish();
}

TEST("A session that slept through an interrupt waits once more before it ends "
     "a worker") {
  run_calls(1);
  calls.policy.heartbeat_ns = INT64_MAX;
  (void)submit();
  (void)taken();
  CHECK_INT(mst_call_cancel(tasks[0], now_ns), 1);
  (void)taken();
  now_ns += 2 * MST_CANCEL_FINISH_NS;
  mst_calls_tick(&calls, 2 * MST_CANCEL_FINISH_NS, now_ns);
  EXPECT("");
  tick(MST_CANCEL_FINISH_NS);
  EXPECT("KILL 0");
  mst_calls_end(&calls, now_ns);
  finish();
}

TEST("A call that takes too long is interrupted, and fails by whatever comes "
     "next") {
  run_calls(1);
  const struct mst_task_terms terms = {.retries = -1,
                                       .timeout_ns = MST_NS_PER_S};
  struct mst_call *answered = submit_with(terms, NULL, 0);
  struct mst_call *killed = submit_with(terms, NULL, 0);
  (void)taken();
  tick(MST_NS_PER_S);
  EXPECT("CANCEL 0 #1, WITHDRAW 0 #2");
  answer(0, 1); // it had begun the next before it was asked
  CHECK_INT(answered->loss->kind, MST_LOSS_TIMEOUT);
  tick(MST_NS_PER_S - 1);
  EXPECT("");
  tick(10 * MS);
  EXPECT("CANCEL 0 #2");
  lose_one(0);
  CHECK_INT(killed->loss->kind, MST_LOSS_TIMEOUT);
  CHECK_INT(calls.tally.limited, 0);
  come_up(0);
  finish();
}

// --- Launches that fail for lack of a resource ---

static void fail_launch(void) {
  fact(MST_EV_LAUNCH_FAILED, 0, 0, EAGAIN);
}

TEST("A launch that fails for lack of a resource is retried after growing "
     "pauses") {
  run_calls(1);
  lose_one(0);
  int64_t pause_ns = MST_SHORT_PAUSE_NS;
  for (uint32_t n = 0; n < MST_SHORT_TRIES; n++, pause_ns *= 2) {
    fail_launch();
    EXPECT("JUDGE 0");
    CHECK_INT(calls.pool.workers[0]->launch_ns, now_ns + pause_ns);
    CHECK(mst_calls_wake_ns(&calls) <= now_ns + pause_ns);
    tick(pause_ns - 1);
    EXPECT("");
    tick(1);
    EXPECT("LAUNCH 0");
  }
  fail_launch();
  EXPECT("JUDGE 0, TELL 0");
  CHECK(calls.pool.workers[0]->dead);
  CHECK_INT(calls.pool.workers[0]->sys_errno, EAGAIN);
  ask(0); // another request retries it
  EXPECT("LAUNCH 0");
  come_up(0);
  EXPECT("EXEC 0 #1");
  answer(0, 1);
  CHECK_INT(take(0), MST_CALL_DONE);
  finish();
}

TEST("A worker that was given up for its own deaths isn't revived for an old "
     "want") {
  run_calls(1);
  lose_one(0);
  fail_launch();
  EXPECT("JUDGE 0");
  tick(MST_SHORT_PAUSE_NS);
  EXPECT("LAUNCH 0");
  for (uint32_t n = 1; n <= MST_HEAL_DEATHS; n++) {
    fact(MST_EV_FORKED, 0, 0, 200 + (int32_t)n);
    die(0);
    EXPECT(n < MST_HEAL_DEATHS ? "JUDGE 0, TELL 0, LAUNCH 0"
                               : "JUDGE 0, TELL 0");
  }
  CHECK(calls.pool.workers[0]->dead);
  CHECK_INT(mst_calls_send(&calls, 0, payload, &caller, 0, 0, now_ns),
            -MST_ECLOSED);
  CHECK_INT(mst_calls_revive(&calls, now_ns), 0);
  finish();
}

TEST("A worker waits for another fork server, and is given up if there won't be "
     "one, until there is") {
  run_calls(2);
  struct mst_worker *lost = calls.pool.workers[0];
  lost->site->is = MST_SITE_GONE;
  (void)submit_to(0);
  EXPECT("EXEC 0 #1");
  die(0);
  EXPECT("JUDGE 0");
  tick(0);
  EXPECT("JUDGE 0");
  CHECK(lost->to_heal && tasks[0]->state == MST_CALL_GIVEN);
  lost->site->is = MST_SITE_UP;
  tick(0);
  EXPECT("JUDGE 0, TELL 0, LAUNCH 0");
  come_up(0);
  EXPECT("EXEC 0 #1 again");
  answer(0, 1);
  lost->site->is = MST_SITE_LOST;
  die(0);
  EXPECT("JUDGE 0, TELL 0");
  CHECK_INT(lost->why, MST_WHY_SERVER);
  CHECK_INT(mst_calls_send(&calls, 0, payload, &caller, 0, 0, now_ns),
            -MST_ECLOSED);
  ask(1); // the others go on
  EXPECT("EXEC 1 #1");
  answer(1, 1);
  CHECK_INT(take(1), MST_CALL_DONE);
  lost->site->is = MST_SITE_UP;
  ask(0);
  EXPECT("LAUNCH 0");
  come_up(0);
  EXPECT("EXEC 0 #2");
  answer(0, 2);
  CHECK_INT(take(0), MST_CALL_DONE);
  finish();
}

TEST("A worker that is retired while it waits for a launch stays away") {
  run_calls(2);
  lose_one(0);
  fail_launch();
  EXPECT("JUDGE 0");
  mst_calls_retire(&calls, 0, now_ns);
  CHECK_INT(calls.waiting, 0);
  CHECK_INT(mst_calls_revive(&calls, now_ns), 0);
  CHECK_INT(mst_calls_send(&calls, 0, payload, &caller, 0, 0, now_ns),
            -MST_ECLOSED);
  finish();
}

TEST("A worker that is killed for good isn't replaced, wherever it is") {
  run_calls(2);
  mst_calls_kill(&calls, 0, now_ns);
  EXPECT("KILL 0");
  die(0);
  EXPECT("JUDGE 0");
  lose_one(1);
  mst_calls_kill(&calls, 1, now_ns); // it boots
  come_up(1);
  EXPECT("KILL 1");
  die(1);
  EXPECT("JUDGE 1");
  struct mst_call *task = submit();
  CHECK_INT(task->state, MST_CALL_LOST);
  finish();
}
