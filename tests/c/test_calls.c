// Tests of pool/calls: users' requests, by facts and actions. Losses: test_calls_heal.c; workers
// that come late or leave: test_calls_join.c.
#include "mst_calls_test.h"

static int may_read(uint32_t worker) {
  return mst_calls_may_read(&calls, worker);
}

// --- Order ---

TEST(
    "A worker is sent its calls in order, and its answers are taken in order") {
  run_calls(2);
  ask(0);
  ask(1);
  ask(0);
  EXPECT("EXEC 0 #1, EXEC 0 #2, EXEC 1 #1");
  answer(1, 1);
  answer(0, 1);
  CHECK(mst_mailbox_answered(&calls.pool.workers[1]->mailbox, &caller) <
        mst_mailbox_answered(&calls.pool.workers[0]->mailbox, &caller));
  answer(0, 2);
  CHECK_INT(take(0), MST_CALL_DONE);
  CHECK_INT(take(0), MST_CALL_DONE);
  CHECK_INT(take(1), MST_CALL_DONE);
  CHECK(mst_mailbox_answer(&calls.pool.workers[0]->mailbox, &caller) == NULL);
  finish();
}

TEST(
    "All workers have one task before any has a second, and none has a third") {
  run_calls(2);
  for (int i = 0; i < 6; i++)
    (void)submit();
  EXPECT("EXEC 0 #1, EXEC 0 #2, EXEC 1 #1, EXEC 1 #2");
  CHECK_INT(tasks[0]->worker, 0);
  CHECK_INT(tasks[1]->worker, 1);
  CHECK_INT(tasks[4]->state, MST_CALL_QUEUED);
  answer(1, 1);
  EXPECT("EXEC 1 #3");
  CHECK_INT(tasks[4]->worker, 1);
  CHECK_INT(tasks[5]->state, MST_CALL_QUEUED);
  EXPECT("");
  mst_calls_end(&calls, now_ns);
  CHECK_INT(tasks[5]->state, MST_CALL_LOST);
  CHECK(tasks[5]->loss == NULL);
  finish();
}

TEST("A task of higher priority goes first; one for a certain worker waits for "
     "it") {
  run_calls(2);
  for (int i = 0; i < 4; i++)
    (void)submit();
  (void)taken();
  const uint32_t second = 1;
  struct mst_call *low = submit();
  struct mst_call *high = submit_with(
      (struct mst_task_terms){.retries = -1, .priority = 1}, NULL, 0);
  struct mst_call *pinned = submit_with(
      (struct mst_task_terms){.retries = -1, .priority = 2}, &second, 1);
  answer(0, 1);
  EXPECT("EXEC 0 #3");
  CHECK_INT(high->state, MST_CALL_GIVEN);
  CHECK_INT(pinned->state, MST_CALL_QUEUED);
  answer(1, 1);
  EXPECT("EXEC 1 #3");
  CHECK_INT(pinned->state, MST_CALL_GIVEN);
  CHECK_INT(low->state, MST_CALL_QUEUED);
  mst_calls_end(&calls, now_ns);
  finish();
}

static void note_task(void *owner, struct mst_call *task) {
  uint32_t *seen = owner;
  for (uint32_t i = 0; i < task_count; i++)
    *seen |= tasks[i] == task ? 1u << i : 0;
}

static uint32_t tasks_seen(void) {
  uint32_t seen = 0;
  mst_calls_each_task(&calls, note_task, &seen);
  return seen;
}

TEST("Tasks that aren't over are found wherever they are, parts of others "
     "aren't") {
  run_calls(2);
  CHECK_INT(tasks_seen(), 0);
  for (int i = 0; i < 3; i++)
    (void)submit_to(1);
  (void)submit();
  ask(0);
  (void)submit_with((struct mst_task_terms){.is_part = 1}, NULL, 0);
  (void)taken();
  (void)submit();
  CHECK_INT(tasks_seen(), 0x2F); // all but the part
  answer(1, 1);
  (void)taken();
  CHECK_INT(mst_call_cancel(tasks[2], now_ns), 1);
  CHECK_INT(tasks_seen(), 0x2A);
  mst_calls_end(&calls, now_ns);
  CHECK_INT(tasks_seen(), 0);
  finish();
}

TEST("A job is sent once to each incarnation, before the first call that needs "
     "it") {
  run_calls(1);
  struct mst_job *job = mst_jobs_hold(&calls.jobs, payload);
  const struct mst_task_terms terms = {.retries = -1, .job = job};
  (void)submit_with(terms, NULL, 0);
  (void)submit_with(terms, NULL, 0);
  EXPECT("JOB 0 #1, EXEC 0 #1, EXEC 0 #2");
  lose_one(0);
  come_up(0);
  EXPECT("JOB 0 #1, EXEC 0 #1 again, EXEC 0 #2");
  answer(0, 1);
  answer(0, 2);
  mst_job_release(job);
  finish();
}

TEST("C5: A job whose call has failed is sent again: it may not have been "
     "read") {
  run_calls(1);
  struct mst_job *job = mst_jobs_hold(&calls.jobs, payload);
  const struct mst_task_terms terms = {.retries = -1, .job = job};
  for (uint64_t id = 1; id <= 3; id++)
    (void)submit_with(terms, NULL, 0);
  EXPECT("JOB 0 #1, EXEC 0 #1, EXEC 0 #2");
  answer_as(0, 1, MST_FLAG_ERROR);
  EXPECT("JOB 0 #1, EXEC 0 #3");
  answer(0, 2);
  answer(0, 3);
  mst_job_release(job);
  finish();
}

TEST("V4: A task that needs several jobs has them all before it, again after "
     "a loss or an error") {
  run_calls(1);
  struct mst_blob *bytes = mst_blob_new();
  CHECK(bytes != NULL && mst_buf_append(&bytes->buf, "other", 5) == 0);
  struct mst_job *two[] = {mst_jobs_hold(&calls.jobs, payload),
                           mst_jobs_hold(&calls.jobs, bytes)};
  mst_blob_release(bytes);
  struct mst_task_terms terms = {.retries = -1, .job = two[1]};
  (void)submit_with(terms, NULL, 0);
  CHECK_INT(mst_job_group(two, 2, &terms.job), 0);
  for (uint64_t id = 2; id <= 4; id++)
    (void)submit_with(terms, NULL, 0);
  mst_job_release(terms.job);
  EXPECT("JOB 0 #2, EXEC 0 #1, JOB 0 #1, EXEC 0 #2");
  lose_one(0);
  come_up(0);
  EXPECT("JOB 0 #2, EXEC 0 #1 again, JOB 0 #1, EXEC 0 #2");
  answer(0, 1);
  EXPECT("EXEC 0 #3");
  answer_as(0, 2, MST_FLAG_ERROR);
  EXPECT("JOB 0 #1, JOB 0 #2, EXEC 0 #4");
  answer(0, 3);
  answer(0, 4);
  for (int i = 0; i < 2; i++) {
    CHECK_INT(two[i]->refs, 2); // the task with an error keeps them
    mst_job_release(two[i]);
  }
  finish();
}

TEST("A job too many is dropped by the worker that has it") {
  run_calls(2);
  for (uint8_t i = 0; i < MST_JOBS_KEPT + 1; i++) {
    struct mst_blob *bytes = mst_blob_new();
    CHECK_INT(mst_buf_append(&bytes->buf, &i, 1), 0);
    struct mst_job *job = mst_jobs_hold(&calls.jobs, bytes);
    const uint32_t second = 1;
    struct mst_call *task = submit_with(
        (struct mst_task_terms){.retries = -1, .job = job}, &second, 1);
    mst_job_release(job);
    mst_blob_release(bytes);
    (void)taken();
    answer(1, i + 1u);
    mst_call_release(task);
    task_count--;
  }
  EXPECT("DROP 1 #1");
  finish();
}

// --- The bound on untaken answers ---

TEST("Past the bound only answers that somebody waits for are read") {
  run_calls(2);
  calls.answer_bytes_max = 10;
  ask(0);
  ask(0);
  ask(1);
  (void)taken();
  answer_with(0, 1, 10);
  CHECK(may_read(0) && may_read(1));
  ask(0);
  (void)taken();
  answer_with(0, 2, 1);
  CHECK(!may_read(0) && !may_read(1));
  mst_calls_await(&calls, 1);
  CHECK(!may_read(0) && may_read(1));
  mst_calls_await(&calls, 0);
  CHECK(may_read(0));
  answer(0, 3);
  ask(0); // after the wait began
  (void)taken();
  CHECK(!may_read(0));
  CHECK_INT(take(0), MST_CALL_DONE);
  CHECK(may_read(0));
  finish();
}

TEST("Past the bound an awaited task is read, with all that comes before it") {
  run_calls(1);
  calls.answer_bytes_max = 0;
  for (int i = 0; i < 5; i++)
    (void)submit();
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  answer_with(0, 1, 5);
  EXPECT("EXEC 0 #3");
  CHECK(!may_read(0));
  mst_calls_await_task(tasks[2]);
  CHECK(may_read(0));
  answer_with(0, 2, 5);
  CHECK(may_read(0));
  EXPECT("EXEC 0 #4");
  mst_calls_await_task(tasks[4]); // in the queue: any answer may precede it
  mst_calls_await_task(tasks[4]);
  CHECK_INT(calls.dispatch.awaited, 1);
  answer_with(0, 3, 5);
  CHECK_INT(calls.dispatch.awaited, 0); // it has a worker
  CHECK(may_read(0));
  EXPECT("EXEC 0 #5");
  answer_with(0, 4, 5);
  CHECK(may_read(0));
  answer_with(0, 5, 5);
  CHECK_INT(calls.tally.answer_bytes, 25);
  for (uint32_t i = 0; i < 5; i++)
    mst_call_taken(tasks[i]);
  CHECK_INT(calls.tally.answer_bytes, 0);
  finish();
}

TEST("Past the bound answers whose tasks were released are read") {
  run_calls(1);
  calls.answer_bytes_max = 0;
  struct mst_call *task = submit();
  struct mst_call *cancelled = submit();
  (void)taken();
  answer_with(0, 1, 5);
  CHECK(!may_read(0));
  CHECK_INT(mst_call_cancel(cancelled, now_ns), 1);
  EXPECT("CANCEL 0 #2");
  CHECK(may_read(0) && !mst_calls_wants(&calls, 0, 2));
  answer(0, 2);
  (void)submit();
  (void)taken();
  CHECK(!may_read(0) && mst_calls_wants(&calls, 0, 3));
  task_count--;
  mst_call_release(tasks[task_count]); // nobody will ask for it
  CHECK(may_read(0) && !mst_calls_wants(&calls, 0, 3));
  answer(0, 3);
  CHECK_INT(task->state, MST_CALL_DONE);
  finish();
}

// --- Cancellation ---

TEST("A task that is cancelled in the queue is never sent") {
  run_calls(1);
  for (int i = 0; i < 3; i++)
    (void)submit();
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  CHECK_INT(mst_call_cancel(tasks[2], now_ns), 1);
  CHECK_INT(mst_call_cancel(tasks[2], now_ns), 0);
  EXPECT("");
  answer(0, 1);
  EXPECT("");
  answer(0, 2);
  CHECK_INT(tasks[2]->state, MST_CALL_CANCELLED);
  CHECK_INT(mst_call_cancel(tasks[1], now_ns), 0);
  finish();
}

TEST("A running task is interrupted, and one behind it when its turn comes") {
  run_calls(1);
  for (int i = 0; i < 3; i++)
    (void)submit();
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  CHECK_INT(mst_call_cancel(tasks[1], now_ns), 1);
  EXPECT("");
  CHECK_INT(mst_call_cancel(tasks[0], now_ns), 1);
  EXPECT("CANCEL 0 #1");
  answer(0, 1);
  EXPECT("EXEC 0 #3, CANCEL 0 #2");
  answer_as(0, 2, MST_FLAG_ERROR);
  answer(0, 3);
  CHECK_INT(tasks[0]->state, MST_CALL_CANCELLED);
  CHECK_INT(tasks[1]->state, MST_CALL_CANCELLED);
  CHECK_INT(tasks[2]->state, MST_CALL_DONE);
  finish();
}

TEST("A call that is cancelled while its worker comes back isn't sent again") {
  run_calls(1);
  (void)submit();
  (void)submit();
  (void)taken();
  lose_one(0);
  CHECK_INT(mst_call_cancel(tasks[0], now_ns), 1);
  come_up(0);
  EXPECT("EXEC 0 #2");
  answer(0, 2);
  finish();
}

TEST("Calls that a verb forgets are dropped, those of another verb stay") {
  run_calls(1);
  ask(0);
  CHECK_INT(mst_calls_send(&calls, 0, payload, &other_caller, 5, 0, now_ns), 0);
  ask(0);
  (void)taken();
  answer(0, 1);
  CHECK(mst_mailbox_answer(&calls.pool.workers[0]->mailbox, &other_caller) ==
        NULL);
  mst_calls_forget(&calls, 0, &caller, now_ns);
  check_calls();
  CHECK(mst_mailbox_answer(&calls.pool.workers[0]->mailbox, NULL) == NULL);
  EXPECT(""); // the call being evaluated is the other's
  answer(0, 2);
  EXPECT("CANCEL 0 #3");
  answer(0, 3);
  struct mst_call *other =
      mst_mailbox_answer(&calls.pool.workers[0]->mailbox, &other_caller);
  CHECK(other != NULL && other->tag == 5);
  CHECK(mst_mailbox_answer(&calls.pool.workers[0]->mailbox, &caller) == NULL);
  mst_mailbox_take(other->mailbox, other);
  mst_call_release(other);
  CHECK_INT(calls.pool.workers[0]->mailbox.unread, 0);
  finish();
}

// A worker's early value, one byte.
static void say(uint32_t worker, uint64_t call, char what) {
  struct mst_answered said = {.call = call, .value_bytes = 1};
  CHECK_INT(mst_buf_append(&said.bytes, &what, 1), 0);
  said.value = said.bytes.data;
  mst_calls_said(&calls, worker, &said, now_ns);
  check_calls();
}

// Takes the verb's oldest answer, which must be this one byte.
static void expect_said(char what) {
  struct mst_call *at =
      mst_mailbox_answer(&calls.pool.workers[0]->mailbox, &caller);
  CHECK(at != NULL && at->value_bytes == 1);
  CHECK_INT(*(const char *)at->value, what);
  mst_mailbox_take(at->mailbox, at);
  mst_call_release(at);
  check_calls();
}

TEST("Early values of a worker go to the verb, in order, and aren't answers") {
  run_calls(1);
  ask(0);
  ask(0);
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  say(0, 1, 'a');
  say(0, 1, 'b');
  say(0, 2, 'x'); // it doesn't evaluate this one yet
  CHECK_INT(calls.pool.workers[0]->mailbox.unread,
            4); // the calls' own answers, too
  expect_said('a');
  answer(0, 1);
  expect_said('b');
  CHECK_INT(take(0), MST_CALL_DONE);
  CHECK(mst_mailbox_answer(&calls.pool.workers[0]->mailbox, &caller) == NULL);
  say(0, 2, 'c');
  mst_calls_forget(&calls, 0, &caller, now_ns);
  check_calls();
  say(0, 2, 'd'); // nobody wants it
  CHECK_INT(calls.pool.workers[0]->mailbox.unread, 0);
  EXPECT("CANCEL 0 #2");
  answer(0, 2);
  finish();
}

// What a task has said, one byte each.
static void expect_heard(struct mst_call *task, const char *want) {
  char got[8] = {0};
  struct mst_call *said;
  for (size_t n = 0; (said = mst_call_take_said(task)) != NULL; n++) {
    CHECK(n < sizeof got - 1);
    got[n] = *(const char *)said->value;
    mst_call_release(said);
    check_calls();
  }
  CHECK_TEXT(got, want);
}

TEST("A task says each value once, though it is tried again") {
  run_calls(1);
  struct mst_call *task = submit();
  struct mst_call *other = submit();
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  say(0, 1, 'a');
  say(0, 1, 'b');
  CHECK_INT(calls.tally.answer_bytes, 2);
  struct mst_call *first = mst_call_take_said(task);
  CHECK_INT(*(const char *)first->value, 'a');
  mst_call_release(first);
  CHECK_INT(calls.tally.answer_bytes, 1);
  lose_one(0);
  come_up(0);
  EXPECT("EXEC 0 #1 again, EXEC 0 #2");
  expect_heard(task, "b");
  say(0, 1, 'a');
  expect_heard(task, "");
  say(0, 1, 'b');
  say(0, 1, 'c');
  answer(0, 1);
  say(0, 2, 'x');
  answer(0, 2);
  expect_heard(other, "x");
  CHECK_INT(calls.tally.answer_bytes,
            0); // what is left doesn't hold up reading
  expect_heard(task, "c");
  finish();
}

TEST("What a task has said is freed with it, and outlives its cluster") {
  run_calls(1);
  (void)submit();
  struct mst_call *task = submit();
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  say(0, 1, 'a'); // finish() releases it
  answer(0, 1);
  say(0, 2, 'b');
  mst_calls_end(&calls, now_ns);
  CHECK_INT(task->state, MST_CALL_LOST);
  CHECK_INT(calls.tally.answer_bytes, 0);
  struct mst_call *heard = mst_call_take_said(task);
  CHECK(heard != NULL && heard->value[0] == 'b');
  mst_call_release(heard);
  finish();
}

TEST("Early values of a task are dropped") {
  run_calls(1);
  (void)submit();
  EXPECT("EXEC 0 #1");
  say(0, 1, 'a');
  CHECK_INT(calls.pool.workers[0]->mailbox.unread, 0);
  answer(0, 1);
  finish();
}

// --- One action at a time ---

static void take_next(void *unused) {
  struct mst_action action;
  (void)unused;
  (void)mst_calls_next_action(&calls, &action, now_ns);
}

TEST("No other action is taken until a call is reported as sent or failed") {
  struct mst_action action;
  run_calls(1);
  ask(0);
  ask(0);
  CHECK_INT(mst_calls_next_action(&calls, &action, now_ns), 1);
  CHECK_INT(action.kind, MST_DO_EXEC);
  CHECK(mst_test_asserts(take_next, NULL));
  mst_calls_sent(&calls, 0, now_ns);
  EXPECT("EXEC 0 #2");
  mst_calls_end(&calls, now_ns);
  finish();
}

TEST("Facts that come while a call is being sent wait for the next action") {
  struct mst_action action;
  run_calls(2);
  (void)submit_to(0);
  (void)submit_to(0);
  (void)submit_to(1);
  CHECK_INT(mst_calls_next_action(&calls, &action, now_ns), 1);
  CHECK_INT(action.kind, MST_DO_EXEC);
  // Its socket is closed: received bytes are read first, then the end.
  die(0);
  CHECK_INT(mst_calls_unsent(&calls, 0, MST_DO_EXEC, -MST_ECLOSED, now_ns), 0);
  check_calls();
  CHECK_INT(tasks[0]->state, MST_CALL_GIVEN);
  EXPECT("BREAK 0, JUDGE 0, TELL 0, EXEC 1 #1, LAUNCH 0");
  come_up(0);
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  for (uint64_t id = 1; id <= 2; id++)
    answer(0, id);
  answer(1, 1);
  finish();
}

TEST("A launch that fails while it is carried out is one more loss") {
  struct mst_action action;
  run_calls(1);
  die(0);
  do {
    CHECK_INT(mst_calls_next_action(&calls, &action, now_ns), 1);
    if (action.kind != MST_DO_LAUNCH) carry_out(&action);
  } while (action.kind != MST_DO_LAUNCH);
  fact(MST_EV_LAUNCH_FAILED, 0, 0, ENOENT);
  EXPECT(
      "JUDGE 0, LAUNCH 0"); // a worker that never ran isn't reported
  come_up(0);
  finish();
}

// --- The end ---

TEST("A stop ends waiting tasks, and answers of running ones still count") {
  run_calls(1);
  for (int i = 0; i < 3; i++)
    (void)submit();
  (void)taken();
  ask(0);
  (void)taken();
  mst_calls_end_queue(&calls, now_ns);
  CHECK_INT(tasks[2]->state, MST_CALL_LOST);
  CHECK(tasks[2]->loss == NULL);
  fact(MST_EV_STOP, 0, 0, 0);
  EXPECT("BYE 0");
  answer(0, 1);
  CHECK_INT(tasks[0]->state, MST_CALL_DONE);
  die(0);
  EXPECT("STOPPED");
  CHECK_INT(tasks[1]->state, MST_CALL_GIVEN);
  mst_calls_end(&calls, now_ns);
  CHECK_INT(tasks[1]->state, MST_CALL_LOST);
  finish();
}

TEST("A retired worker gets no more calls and isn't replaced") {
  run_calls(2);
  struct mst_call *pinned[] = {submit_to(0), submit_to(0), submit_to(0)};
  (void)taken();
  mst_calls_retire(&calls, 0, now_ns);
  CHECK_INT(pinned[2]->state, MST_CALL_LOST); // no other worker may take it
  EXPECT("BYE 0");
  CHECK_INT(mst_calls_send(&calls, 0, payload, &caller, 0, 0, now_ns),
            -MST_ECLOSED);
  answer(0, 1);
  EXPECT("");
  answer(0, 2);
  die(0);
  EXPECT("");
  mst_calls_close(&calls, 0, now_ns);
  (void)submit();
  EXPECT("EXEC 1 #1");
  answer(1, 1);
  finish();
}
