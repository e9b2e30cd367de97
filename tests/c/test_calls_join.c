// Tests of pool/calls: workers that come late, finish and leave, by facts and actions.
#include "base/mst_fault.h"
#include "mst_calls_test.h"

static enum mst_worker_state state_of(uint32_t worker) {
  return calls.pool.workers[worker]->state;
}

// --- Partly there ---

TEST("Calls to a worker that isn't there yet wait until it joins") {
  begin_calls(2, 1);
  come_up(0);
  EXPECT("STARTED");
  ask(1);
  (void)submit();
  (void)submit();
  (void)submit();
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  come_up(1);
  EXPECT("EXEC 1 #1, EXEC 1 #2");
  CHECK_INT(tasks[2]->worker, 1);
  answer(1, 1);
  CHECK_INT(take(1), MST_CALL_DONE);
  mst_calls_end(&calls, now_ns);
  finish();
}

TEST("A cluster may begin without any worker") {
  begin_calls(2, 0);
  CHECK_INT(calls.pool.phase, MST_POOL_RUNNING);
  fact(MST_EV_PENDING, 0, 0, 0);
  fact(MST_EV_PENDING, 1, 0, 0);
  EXPECT("");
  ask(1);
  (void)submit();
  EXPECT("");
  come_up(1);
  EXPECT("EXEC 1 #1, EXEC 1 #2");
  answer(1, 1);
  answer(1, 2);
  CHECK_INT(take(1), MST_CALL_DONE);
  EXPECT("");
  finish();
}

TEST("A worker that is ready before STARTED was taken is reported once") {
  begin_calls(2, 1);
  come_up(0);
  come_up(1); // the session sees both before it does anything
  ask(1);
  EXPECT("STARTED, EXEC 1 #1");
  answer(1, 1);
  EXPECT("");
  CHECK_INT(take(1), MST_CALL_DONE);
  finish();
}

TEST("A worker that was lost before STARTED comes back after it") {
  begin_calls(2, 1);
  fact(MST_EV_LAUNCH_FAILED, 1, 0, ENOENT);
  EXPECT("");
  ask(1);
  come_up(0);
  EXPECT("STARTED, JUDGE 1, LAUNCH 1");
  come_up(1);
  EXPECT("EXEC 1 #1");
  answer(1, 1);
  CHECK_INT(take(1), MST_CALL_DONE);
  finish();
}

TEST("A worker that is killed for good before its launch is never launched") {
  begin_in_window(3, 1, 1);
  come_up(0);
  EXPECT("STARTED, LAUNCH 1");
  mst_calls_kill(&calls, 2, now_ns);
  come_up(1);
  EXPECT("");
  CHECK_INT(state_of(2), MST_WORKER_STOPPED);
  CHECK(calls.pool.workers[2]->dead);
  finish();
}

TEST("A call waits for a worker in a queue without limit") {
  begin_calls(2, 1);
  fact(MST_EV_PENDING, 1, 0, 0);
  come_up(0);
  EXPECT("STARTED");
  struct mst_call *task = submit_to(1);
  tick(10 * MST_RESTART_NS);
  EXPECT("");
  CHECK_INT(task->state, MST_CALL_QUEUED);
  come_up(1);
  EXPECT("EXEC 1 #1");
  answer(1, 1);
  CHECK_INT(task->state, MST_CALL_DONE);
  finish();
}

TEST("Tasks of a worker whose launch waits in a queue go to others, with their "
     "losses") {
  run_calls(2);
  struct mst_call *first = submit(), *other = submit();
  struct mst_call *second = submit(), *filler = submit();
  struct mst_call *own = submit_to(0);
  EXPECT("EXEC 0 #1, EXEC 0 #2, EXEC 1 #1, EXEC 1 #2");
  ask(0);
  EXPECT("EXEC 0 #3");
  mst_calls_await_task(second);
  lose_one(0);
  CHECK_INT(first->losses, 1);
  fact(MST_EV_PENDING, 0, 0, 0);
  EXPECT("");
  CHECK_INT(first->state, MST_CALL_QUEUED);
  CHECK_INT(calls.dispatch.awaited, 2); // the second, and what comes before it
  CHECK_INT(calls.pool.workers[0]->mailbox.count, 1); // the verb's call
  answer(1, 1);
  EXPECT("EXEC 1 #3 again");
  CHECK_INT(first->worker, 1);
  answer(1, 2);
  EXPECT("EXEC 1 #4");
  CHECK_INT(second->worker, 1);
  CHECK_INT(calls.dispatch.awaited, 0);
  CHECK_INT(own->state, MST_CALL_QUEUED); // no other may take it
  lose_one(1);                            // its second, of two workers
  CHECK_INT(first->state, MST_CALL_LOST);
  CHECK_INT(first->loss->kind, MST_LOSS_POISON);
  come_up(1);
  EXPECT("EXEC 1 #4");
  come_up(0);
  EXPECT("EXEC 0 #3, EXEC 0 #4");
  answer(0, 3);
  CHECK_INT(take(0), MST_CALL_DONE);
  answer(0, 4);
  answer(1, 4);
  CHECK(own->state == MST_CALL_DONE && second->state == MST_CALL_DONE);
  CHECK(other->state == MST_CALL_DONE && filler->state == MST_CALL_DONE);
  finish();
}

TEST("Without memory for its place in the queue a task waits with its worker") {
  run_calls(2);
  struct mst_call *task = submit_to(0);
  EXPECT("EXEC 0 #1");
  lose_one(0);
  (void)submit_to(0); // more than there was room for
  (void)submit_to(0);
  (void)submit_to(0);
  (void)submit_to(0);
  CHECK_INT(mst_fault_arm("queue.alloc", 1, 12), 0);
  fact(MST_EV_PENDING, 0, 0, 0);
  (void)mst_fault_arm("queue.alloc", 0, 0);
  CHECK_INT(task->state, MST_CALL_GIVEN);
  come_up(0);
  EXPECT("EXEC 0 #1 again, EXEC 0 #2");
  mst_calls_end(&calls, now_ns);
  finish();
}

// --- Drain ---

TEST("A draining worker finishes its calls, gets no more, and leaves") {
  run_calls(2);
  struct mst_call *has[] = {submit_to(0), submit_to(0)};
  struct mst_call *waits = submit_to(0);
  const uint32_t both[] = {0, 1};
  (void)taken();
  fact(MST_EV_DRAIN, 0, 0, 0);
  CHECK_INT(waits->state, MST_CALL_LOST); // no other worker may take it
  struct mst_call *other =
      submit_with((struct mst_task_terms){.retries = -1}, both, 2);
  EXPECT("EXEC 1 #1");
  CHECK_INT(mst_calls_send(&calls, 0, payload, &caller, 0, 0, now_ns),
            -MST_ECLOSED);
  answer(0, 1);
  EXPECT("");
  answer(0, 2);
  EXPECT("BYE 0");
  die(0);
  EXPECT("CLOSE 0");
  CHECK_INT(state_of(0), MST_WORKER_LEFT);
  CHECK(has[0]->state == MST_CALL_DONE && has[1]->state == MST_CALL_DONE);
  answer(1, 1);
  CHECK_INT(other->state, MST_CALL_DONE);
  finish();
}

TEST("A call that is cancelled while its worker drains ends by its answer") {
  run_calls(1);
  (void)submit();
  (void)submit();
  (void)taken();
  fact(MST_EV_DRAIN, 0, 0, 0);
  CHECK_INT(mst_call_cancel(tasks[0], now_ns), 1);
  EXPECT("CANCEL 0 #1");
  answer(0, 1);
  CHECK(calls.pool.workers[0]->channel);
  answer(0, 2);
  CHECK_INT(tasks[1]->state, MST_CALL_DONE);
  EXPECT("BYE 0");
  mst_calls_end(&calls, now_ns);
  finish();
}

TEST("A worker that drains while it comes back leaves with its calls") {
  run_calls(2);
  (void)submit_to(0);
  ask(0);
  (void)taken();
  lose_one(0);
  fact(MST_EV_DRAIN, 0, 0, 0);
  EXPECT("");
  fact(MST_EV_FORKED, 0, 0, 300);
  EXPECT("KILL 0");
  die(0);
  EXPECT("CLOSE 0");
  CHECK_INT(tasks[0]->state, MST_CALL_LOST);
  CHECK(calls.pool.workers[0]->dead &&
        calls.pool.workers[0]->mailbox.first != NULL);
  mst_calls_forget(&calls, 0, &caller, now_ns);
  CHECK(calls.pool.workers[0]->mailbox.first == NULL);
  finish();
}

TEST("A worker that has left can come back with its state") {
  run_calls(1);
  ask(0);
  (void)taken();
  answer_as(0, 1, MST_FLAG_STATE);
  CHECK_INT(take(0), MST_CALL_DONE);
  fact(MST_EV_DRAIN, 0, 0, 0);
  EXPECT("BYE 0");
  die(0);
  EXPECT("CLOSE 0");
  struct mst_call *task = submit();
  CHECK_INT(task->state, MST_CALL_LOST);
  fact(MST_EV_RESTART, 0, 0, 0);
  EXPECT("LAUNCH 0");
  ask(0);
  come_up(0);
  EXPECT("REEXEC 0 #1, EXEC 0 #2");
  answer_as(0, 1, MST_FLAG_REPLAY);
  answer(0, 2);
  CHECK_INT(take(0), MST_CALL_DONE);
  finish();
}

TEST("A silent draining worker is lost") {
  run_calls(1);
  calls.policy.heartbeat_ns = 3 * MST_NS_PER_S;
  (void)submit();
  (void)taken();
  fact(MST_EV_DRAIN, 0, 0, 0);
  for (int64_t k = 0; k < 3; k++) {
    now_ns += MST_NS_PER_S;
    mst_calls_tick(&calls, 0, now_ns);
    EXPECT(k < 2 ? "PING 0" : "KILL 0");
  }
  mst_calls_end(&calls, now_ns);
  finish();
}

// --- Move ---

TEST("A worker that moves answers what it has, and comes back with its state") {
  run_calls(2);
  ask(0);
  EXPECT("EXEC 0 #1");
  told(0, 1, MST_FLAG_STATE);
  struct mst_call *has = submit_to(0);
  EXPECT("EXEC 0 #2");
  mst_calls_move(&calls, 0, now_ns);
  mst_calls_move(&calls, 0, now_ns); // which is nothing
  ask(0);
  struct mst_call *any = submit();
  struct mst_call *own = submit_to(0);
  EXPECT("EXEC 1 #1");
  answer(0, 2);
  CHECK_INT(has->state, MST_CALL_DONE);
  EXPECT("BYE 0");
  die(0);
  EXPECT("CLOSE 0, LAUNCH 0");
  fact(MST_EV_PENDING, 0, 0, 0);
  EXPECT("");
  come_up(0);
  EXPECT("REEXEC 0 #1, EXEC 0 #3, EXEC 0 #4");
  answer_as(0, 1, MST_FLAG_REPLAY);
  told(0, 3, 0);
  answer(0, 4);
  answer(1, 1);
  CHECK(own->state == MST_CALL_DONE && any->state == MST_CALL_DONE);
  CHECK_INT(calls.pool.workers[0]->heal.row, 0);
  finish();
}

TEST("A worker that is lost while it moves heals as any other") {
  run_calls(1);
  (void)submit();
  (void)taken();
  mst_calls_move(&calls, 0, now_ns);
  lose_one(0);
  come_up(0);
  EXPECT("EXEC 0 #1 again");
  CHECK(!calls.pool.workers[0]->moves);
  answer(0, 1);
  CHECK_INT(tasks[0]->state, MST_CALL_DONE);
  finish();
}

TEST("A worker that is asked to end while it moves stays away") {
  run_calls(1);
  (void)submit();
  (void)taken();
  mst_calls_move(&calls, 0, now_ns);
  mst_calls_retire(&calls, 0, now_ns);
  EXPECT("BYE 0");
  answer(0, 1);
  die(0);
  EXPECT("");
  CHECK_INT(state_of(0), MST_WORKER_STOPPED);
  finish();
}

TEST("A worker that is killed for good while it moves doesn't come back") {
  run_calls(1);
  mst_calls_move(&calls, 0, now_ns);
  EXPECT("BYE 0");
  mst_calls_kill(&calls, 0, now_ns);
  die(0);
  EXPECT("CLOSE 0");
  CHECK_INT(state_of(0), MST_WORKER_LEFT);
  CHECK(calls.pool.workers[0]->dead);
  finish();
}

// --- Growth ---

TEST("Added workers come up like lost ones") {
  run_calls(1);
  CHECK_INT(mst_calls_grow(&calls, 1, now_ns), 0);
  (void)submit();
  (void)submit();
  (void)submit();
  EXPECT("EXEC 0 #1, EXEC 0 #2, LAUNCH 1");
  come_up(1);
  EXPECT("EXEC 1 #1");
  answer(0, 1);
  answer(0, 2);
  answer(1, 1);
  finish();
}

TEST("U4: Added workers replay the calls that all others got") {
  run_calls(2);
  ask(0);
  ask(1); // to all
  EXPECT("EXEC 0 #1, EXEC 1 #1");
  mst_calls_await(&calls, 0);
  told(0, 1, 0);
  told(1, 1, MST_FLAG_STATE); // one has changed, which is enough
  ask(0);                     // to one
  EXPECT("EXEC 0 #2");
  mst_calls_await(&calls, 0);
  told(0, 2, MST_FLAG_STATE);
  ask(1); // after that: two calls to one each
  EXPECT("EXEC 1 #2");
  mst_calls_await(&calls, 1);
  told(1, 2, MST_FLAG_STATE);
  ask(1);
  ask(0); // to all, in another order, and nothing has changed
  EXPECT("EXEC 1 #3, EXEC 0 #3");
  told(0, 3, 0);
  told(1, 3, 0);
  ask(0);
  EXPECT("EXEC 0 #4");
  told(0, 4,
       MST_FLAG_STATE); // answered before the next is given: still one verb's
  ask(1);
  EXPECT("EXEC 1 #4");
  told(1, 4, MST_FLAG_STATE | MST_FLAG_ERROR);
  CHECK_INT(mst_calls_grow(&calls, 1, now_ns), 0);
  CHECK(!calls.common.incomplete);
  EXPECT("LAUNCH 2");
  come_up(2);
  ask(2);
  EXPECT("REEXEC 2 #1, REEXEC 2 #2, EXEC 2 #3");
  answer_as(2, 1, MST_FLAG_REPLAY);
  answer_as(2, 2, MST_FLAG_REPLAY | MST_FLAG_ERROR); // as on the others
  told(2, 3, 0);
  finish();
}

TEST(
    "U4: A worker that stays lost doesn't count among all, an added one does") {
  run_calls(2);
  mst_calls_kill(&calls, 1, now_ns);
  EXPECT("KILL 1");
  ask(0);
  EXPECT("EXEC 0 #1");
  told(0, 1, MST_FLAG_STATE);
  CHECK_INT(mst_calls_grow(&calls, 1, now_ns), 0);
  EXPECT("LAUNCH 2");
  come_up(2);
  EXPECT("REEXEC 2 #1");
  answer_as(2, 1, MST_FLAG_REPLAY);
  ask(0); // not the new one
  EXPECT("EXEC 0 #2");
  told(0, 2, MST_FLAG_STATE);
  CHECK_INT(mst_calls_grow(&calls, 1, now_ns), 0);
  CHECK_INT(calls.pool.workers[3]->journal.count, 1);
  EXPECT("LAUNCH 3");
  finish();
}

TEST("U4: Past the limits no calls to all are kept, and the calls say so") {
  run_calls(1);
  for (uint64_t i = 1; i <= MST_COMMON_CALLS_MAX + 1; i++) {
    CHECK(!calls.common.incomplete);
    ask(0);
    while (*taken() != '\0') {
    }
    told(0, i, MST_FLAG_STATE);
    mst_journal_free(&calls.pool.workers[0]->journal); // as a checkpoint would
  }
  ask(0); // the last cast ends with it
  CHECK(calls.common.incomplete);
  CHECK_INT(calls.common.journal.count, 0);
  EXPECT("EXEC 0 #10002");
  told(0, MST_COMMON_CALLS_MAX + 2, 0);
  finish();
}

TEST("U4: Calls to all count like those in journals") {
  run_calls(1);
  struct mst_blob *large = mst_blob_new();
  large->segment.bytes = 2 * MST_LOG_STEP_BYTES; // as if it were there
  CHECK_INT(
      mst_calls_send(&calls, 0, large, &caller, 0, MST_UNSEEN_NOT, now_ns), 0);
  (void)taken();
  mst_calls_await(&calls, 0);
  told(0, 1, MST_FLAG_STATE);
  CHECK_INT(calls.common.journal.count, 1);
  CHECK_INT(calls.log_bytes, large->segment.bytes);  // held by two journals
  mst_journal_free(&calls.pool.workers[0]->journal); // as a checkpoint would
  CHECK_INT(calls.log_bytes, large->segment.bytes);
  CHECK(mst_calls_log_grew(&calls));
  mst_calls_bound_log(&calls, (int64_t)MST_LOG_STEP_BYTES);
  CHECK_INT(calls.common.journal.count, 0);
  CHECK(calls.common.incomplete);
  CHECK_INT(calls.log_bytes, 0);
  large->segment.bytes = 0;
  mst_blob_release(large);
  finish();
}
