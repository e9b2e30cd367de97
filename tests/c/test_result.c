// Tests of pool/result: tasks that need the results of others.
#include "base/mst_fault.h"
#include "mst_calls_test.h"
#include "pool/result.h"

// submit_for gives the pool a task that needs the results of up to three others.
static struct mst_call *submit_for(struct mst_call *const *sources,
                                   uint32_t count) {
  struct mst_job *jobs[3], *all;
  for (uint32_t i = 0; i < count; i++) {
    jobs[i] = mst_result_hold(&calls.jobs, sources[i]);
    CHECK(jobs[i] != NULL);
  }
  CHECK_INT(mst_job_group(jobs, count, &all), 0);
  struct mst_call *task =
      submit_with((struct mst_task_terms){.retries = -1, .job = all}, NULL, 0);
  mst_job_release(all);
  for (uint32_t i = 0; i < count; i++)
    mst_job_release(jobs[i]);
  return task;
}

// give answers with the value `text`, and a segment with `shared` if that isn't NULL.
static void give(uint32_t worker, uint64_t call, const char *text,
                 const char *shared) {
  struct mst_answered answered = {.call = call};
  struct mst_segment segment = MST_SEGMENT_NONE;
  const uint8_t head[MST_VALUE_HEAD_BYTES] = {0};
  CHECK_INT(mst_buf_append(&answered.bytes, head, sizeof head), 0);
  if (shared != NULL) {
    uint8_t size[MST_SEGMENT_BYTES];
    answered.flags = MST_FLAG_SEGMENT;
    CHECK_INT(mst_segment_open(&segment, strlen(shared), NULL), 0);
    CHECK_INT(mst_segment_append(&segment, shared, strlen(shared), NULL), 0);
    CHECK_INT(mst_segment_seal(&segment, NULL), 0);
    CHECK_INT(mst_map_open(segment.fd, &answered.map, NULL), 0);
    mst_map_keep(answered.map, segment.fd); // takes it over, as a channel does
    mst_segment_encode(segment.bytes, size);
    CHECK_INT(mst_buf_append(&answered.bytes, size, sizeof size), 0);
  }
  CHECK_INT(mst_buf_append(&answered.bytes, text, strlen(text)), 0);
  answered.value = answered.bytes.data;
  answered.value_bytes = answered.bytes.len;
  mst_calls_answered(&calls, worker, &answered, now_ns);
  check_calls();
}

// next_job gives the payload of the next action, which must be a JOB.
static const struct mst_blob *next_job(void) {
  struct mst_action action;
  CHECK_INT(mst_calls_next_action(&calls, &action, now_ns), 1);
  CHECK_INT(action.kind, MST_DO_JOB);
  return action.payload;
}

static void check_text(const struct mst_blob *blob, size_t from,
                       const char *text) {
  CHECK_INT(blob->buf.len, from + strlen(text));
  CHECK_INT(memcmp(blob->buf.data + from, text, strlen(text)), 0);
}

// --- In order ---

TEST("A task waits for the answer of another, and goes to the worker that gave "
     "it") {
  run_calls(2);
  (void)submit();
  (void)submit_for(tasks, 1);
  EXPECT("EXEC 0 #1");
  CHECK_INT(tasks[1]->held, MST_HELD_WAITING);
  CHECK_INT(calls.dispatch.bytes, 0);
  give(0, 1, "one", NULL);
  CHECK_INT(tasks[1]->worker, 0);
  check_text(next_job(), 0, "one");
  EXPECT("EXEC 0 #2");
  answer(0, 2);
  EXPECT("DROP 0 #1");
  finish();
}

TEST("It waits for all, also for those that are done, and for each once") {
  run_calls(1);
  (void)submit();
  (void)submit();
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  give(0, 1, "one", NULL);
  struct mst_call *const three[] = {tasks[0], tasks[1], tasks[1]};
  (void)submit_for(three, 3);
  EXPECT("");
  CHECK_INT(tasks[2]->waits, 2);
  give(0, 2, "two", NULL);
  check_text(next_job(), 0, "one");
  check_text(next_job(), 0, "two");
  EXPECT("EXEC 0 #3");
  mst_calls_end(&calls, now_ns);
  finish();
}

TEST("Tasks that need the same result share it, also after it has come") {
  run_calls(2);
  (void)submit();
  (void)submit_for(tasks, 1);
  (void)submit_for(tasks, 1);
  (void)taken();
  give(0, 1, "one", NULL);
  EXPECT("JOB 0 #1, EXEC 0 #2, JOB 1 #1, EXEC 1 #1");
  (void)submit_for(tasks, 1);
  EXPECT("EXEC 0 #3");
  answer(0, 2);
  answer(0, 3);
  answer(1, 1);
  EXPECT("DROP 0 #1, DROP 1 #1");
  CHECK(tasks[0]->result == NULL);
  (void)submit_for(tasks, 1); // it is made anew
  EXPECT("JOB 1 #2, EXEC 1 #2");
  mst_calls_end(&calls, now_ns);
  finish();
}

TEST("A worker that returns is sent the result again, and so is one whose call "
     "failed; each is told to forget it") {
  run_calls(1);
  (void)submit();
  (void)submit_for(tasks, 1);
  (void)submit_for(tasks, 1);
  (void)taken();
  give(0, 1, "one", NULL);
  EXPECT("JOB 0 #1, EXEC 0 #2, EXEC 0 #3");
  lose_one(0);
  come_up(0);
  EXPECT("JOB 0 #1, EXEC 0 #2 again, EXEC 0 #3");
  answer_as(0, 2, MST_FLAG_ERROR);
  EXPECT("");
  answer(0, 3);
  EXPECT("DROP 0 #1");
  finish();
}

TEST("A result that a journal has is sent once to a worker that returns, also "
     "for later tasks") {
  run_calls(1);
  (void)submit();
  (void)submit_for(tasks, 1);
  (void)taken();
  give(0, 1, "one", NULL);
  EXPECT("JOB 0 #1, EXEC 0 #2");
  answer_as(0, 2, MST_FLAG_STATE);
  EXPECT("DROP 0 #1");
  lose_one(0);
  (void)submit_for(tasks, 1);
  come_up(0);
  EXPECT("JOB 0 #1, REEXEC 0 #2, EXEC 0 #3");
  mst_calls_end(&calls, now_ns);
  finish();
}

TEST("Somebody who waits for it lets answers be read; nobody else does") {
  run_calls(1);
  (void)submit();
  (void)submit_for(tasks, 1);
  (void)taken();
  calls.answer_bytes_max = 0;
  calls.tally.answer_bytes = 1;
  CHECK(!mst_calls_may_read(&calls, 0));
  mst_calls_await_task(tasks[1]);
  CHECK(mst_calls_may_read(&calls, 0));
  calls.tally.answer_bytes = 0;
  CHECK_INT(mst_call_cancel(tasks[1], now_ns), 1);
  CHECK_INT(calls.dispatch.awaited, 0);
  answer(0, 1);
  finish();
}

TEST("An answer is wanted as long as a task needs it, whoever has let it go") {
  run_calls(1);
  struct mst_call *source = submit();
  task_count = 0;
  (void)submit_for(&source, 1);
  EXPECT("EXEC 0 #1");
  mst_call_release(source);
  CHECK(mst_calls_wants(&calls, 0, 1));
  CHECK_INT(mst_call_cancel(tasks[0], now_ns), 1);
  CHECK(!mst_calls_wants(&calls, 0, 1));
  answer(0, 1);
  finish();
}

// --- Failures ---

static void check_cause(const struct mst_call *task,
                        const struct mst_call *cause) {
  CHECK_INT(task->state, MST_CALL_LOST);
  CHECK(task->cause == cause && task->loss == NULL && !task->stranded);
}

TEST("What failed is the cause of all that needed it, directly or not") {
  run_calls(1);
  (void)submit();
  (void)submit_for(tasks, 1);
  (void)submit_for(tasks + 1, 1);
  EXPECT("EXEC 0 #1");
  answer_as(0, 1, MST_FLAG_ERROR);
  EXPECT("");
  check_cause(tasks[1], tasks[0]);
  check_cause(tasks[2], tasks[0]);
  (void)submit_for(tasks + 2, 1); // one that failed already
  EXPECT("");
  check_cause(tasks[3], tasks[0]);
  CHECK(tasks[0]->cause == NULL);
  CHECK_INT(tasks[0]->refs, 4);
  finish();
}

TEST("A task that is cancelled, or lost, is a cause; the others aren't waited "
     "for") {
  run_calls(2);
  (void)submit();
  (void)submit_to(1);
  (void)submit_for(tasks, 2);
  (void)submit_for(tasks + 1, 1);
  EXPECT("EXEC 0 #1, EXEC 1 #1");
  CHECK_INT(mst_call_cancel(tasks[0], now_ns), 1);
  EXPECT("CANCEL 0 #1");
  check_cause(tasks[2], tasks[0]);
  mst_calls_kill(&calls, 1, now_ns);
  EXPECT("KILL 1");
  die(1);
  (void)taken();
  check_cause(tasks[3], tasks[1]);
  answer(0, 1);
  finish();
}

TEST("A task may be cancelled while it waits") {
  run_calls(1);
  (void)submit();
  (void)submit_for(tasks, 1);
  (void)submit_for(tasks, 1);
  EXPECT("EXEC 0 #1");
  CHECK_INT(mst_call_cancel(tasks[2], now_ns), 1);
  CHECK_INT(tasks[2]->state, MST_CALL_CANCELLED);
  give(0, 1, "one", NULL);
  EXPECT("JOB 0 #1, EXEC 0 #2");
  answer(0, 2);
  EXPECT("DROP 0 #1");
  finish();
}

TEST("The workers that may take it can be gone when it has what it needs") {
  run_calls(2);
  (void)submit_to(0);
  struct mst_job *result = mst_result_hold(&calls.jobs, tasks[0]);
  const uint32_t other = 1;
  (void)submit_with((struct mst_task_terms){.retries = -1, .job = result},
                    &other, 1);
  mst_job_release(result);
  EXPECT("EXEC 0 #1");
  fact(MST_EV_DRAIN, 1, 0, 0);
  EXPECT("BYE 1");
  give(0, 1, "one", NULL);
  EXPECT("");
  CHECK(tasks[1]->state == MST_CALL_LOST && tasks[1]->stranded);
  mst_calls_end(&calls, now_ns);
  (void)taken();
  mst_calls_free(&calls);
  for (uint32_t i = 0; i < 2; i++)
    mst_call_release(tasks[i]);
  mst_blob_release(payload);
}

TEST("All that wait are lost with the cluster, and may outlive it") {
  run_calls(1);
  (void)submit();
  (void)submit_for(tasks, 1);
  (void)submit_for(tasks + 1, 1);
  EXPECT("EXEC 0 #1");
  struct mst_job *result = mst_result_hold(&calls.jobs, tasks[1]);
  mst_calls_end(&calls, now_ns);
  for (uint32_t i = 0; i < 3; i++)
    CHECK_INT(tasks[i]->state, MST_CALL_LOST);
  CHECK_INT(result->state, MST_JOB_UNMET);
  finish();
  mst_job_release(result);
}

TEST("Short memory is an end for those that wait, and leaves the answer") {
  run_calls(1);
  (void)submit();
  struct mst_job *result = mst_result_hold(&calls.jobs, tasks[0]);
  const struct mst_task_terms terms = {.retries = -1, .job = result};
  CHECK_INT(mst_fault_arm("result.needs", 1, 1), 0);
  CHECK(mst_calls_submit(&calls, payload, NULL, 0, &terms, now_ns) == NULL);
  check_calls();
  (void)mst_fault_arm("result.needs", 0, 0);
  (void)submit_with(terms, NULL, 0);
  mst_job_release(result);
  EXPECT("EXEC 0 #1");
  CHECK_INT(mst_fault_arm("result.bytes", 1, 1), 0);
  give(0, 1, "one", NULL);
  EXPECT("");
  (void)mst_fault_arm("result.bytes", 0, 0);
  check_cause(tasks[1], tasks[0]);
  CHECK_INT(tasks[0]->state, MST_CALL_DONE);
  finish();
}

// --- Segments ---

TEST("A segment goes on with the descriptor that it came with") {
  NEEDS(MST_HAVE_MEMFD);
  run_calls(1);
  (void)submit();
  (void)submit_for(tasks, 1);
  EXPECT("EXEC 0 #1");
  give(0, 1, "one", "shared");
  CHECK_INT(tasks[0]->map->fd, -1);
  const struct mst_blob *blob = next_job();
  check_text(blob, MST_SEGMENT_BYTES, "one");
  struct mst_map *map = NULL;
  CHECK_INT(mst_map_open(blob->segment.fd, &map, NULL), 0);
  CHECK_INT(memcmp(map->data, "shared", 6), 0);
  CHECK_INT(blob->segment.bytes, map->bytes);
  mst_map_release(map);
  EXPECT("EXEC 0 #2");
  mst_calls_end(&calls, now_ns);
  finish();
}

TEST("A segment that came before anybody needed it is copied") {
  NEEDS(MST_HAVE_MEMFD);
  run_calls(1);
  (void)submit();
  EXPECT("EXEC 0 #1");
  give(0, 1, "one", "shared");
  CHECK_INT(tasks[0]->map->fd, -1); // a session may have many answers
  (void)submit_for(tasks, 1);
  struct mst_map *map = NULL;
  CHECK_INT(mst_map_open(next_job()->segment.fd, &map, NULL), 0);
  CHECK_INT(memcmp(map->data, "shared", 6), 0);
  mst_map_release(map);
  (void)taken();
  mst_calls_end(&calls, now_ns);
  finish();
}

TEST("A segment that couldn't be received is no value") {
  run_calls(1);
  (void)submit();
  (void)submit_for(tasks, 1);
  EXPECT("EXEC 0 #1");
  uint8_t bytes[MST_VALUE_HEAD_BYTES + MST_SEGMENT_BYTES] = {0};
  struct mst_answered answered = {
      .call = 1, .flags = MST_FLAG_SEGMENT, .map = mst_map_lost()};
  CHECK_INT(mst_buf_append(&answered.bytes, bytes, sizeof bytes), 0);
  answered.value = answered.bytes.data;
  answered.value_bytes = sizeof bytes;
  mst_calls_answered(&calls, 0, &answered, now_ns);
  EXPECT("");
  check_cause(tasks[1], tasks[0]);
  finish();
}
