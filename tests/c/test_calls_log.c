// Tests of pool/calls: the data for restoring a worker, and its bounds, by facts and actions.
#include "mst_calls_test.h"

// changes makes a worker evaluate a call of `bytes` bytes that changes it.
static void change(uint32_t worker, uint64_t id, struct mst_blob *blob) {
  CHECK_INT(
      mst_calls_send(&calls, worker, blob, NULL, 0, MST_UNSEEN_NOT, now_ns), 0);
  (void)taken();
  answer_as(worker, id, MST_FLAG_STATE);
  mst_calls_forget(&calls, worker, NULL, now_ns);
}

static struct mst_blob *large_blob(size_t bytes) {
  struct mst_blob *blob = mst_blob_new();
  CHECK(mst_buf_reserve(&blob->buf, bytes) == 0);
  blob->buf.len = bytes;
  return blob;
}

TEST("S2: journals have a quarter of the memory; a worker past that isn't "
     "restored, and says so") {
  const size_t step = MST_LOG_STEP_BYTES;
  run_calls(2);
  for (uint32_t i = 0; i < 2; i++)
    mst_calls_no_checkpoint(&calls, i, MST_REFUSED_EVER, now_ns);
  struct mst_blob *both = large_blob(step), *one = large_blob(2 * step);
  change(0, 1, both);
  CHECK_INT(calls.log_bytes, mst_blob_bytes(both));
  CHECK(mst_calls_log_grew(&calls));
  mst_calls_bound_log(&calls, INT64_MAX); // nothing tells
  change(1, 1, both);
  CHECK_INT(calls.log_bytes, mst_blob_bytes(both)); // held by both
  CHECK(!mst_calls_log_grew(&calls));
  change(1, 2, one);
  CHECK(mst_calls_log_grew(&calls));
  mst_calls_bound_log(&calls, (int64_t)(9 * mst_blob_bytes(both)));
  CHECK_INT(calls.pool.workers[1]->journal.incomplete, MST_COMPLETE);
  mst_calls_bound_log(&calls, (int64_t)(8 * mst_blob_bytes(both)));
  CHECK_INT(calls.pool.workers[1]->journal.incomplete, MST_INCOMPLETE_MEMORY);
  CHECK_INT(calls.pool.workers[0]->journal.incomplete, MST_COMPLETE);
  CHECK_INT(calls.log_bytes, mst_blob_bytes(both));
  change(1, 3, one); // isn't kept any more
  CHECK_INT(calls.pool.workers[1]->journal.count, 0);
  die(1);
  EXPECT("JUDGE 1, TELL 1");
  CHECK(calls.pool.workers[1]->dead);
  CHECK_INT(calls.pool.workers[1]->why, MST_WHY_MEMORY);
  lose_one(0); // has its state
  come_up(0);
  EXPECT("REEXEC 0 #1");
  answer_as(0, 1, MST_FLAG_REPLAY);
  mst_blob_release(both);
  mst_blob_release(one);
  finish();
}

TEST("A worker that can't be copied replays all its calls; where that would "
     "take too long its loss is an error") {
  run_calls(2);
  calls.policy.replay_max_ns = MST_NS_PER_S;
  struct mst_answered longer = {.call = 3, .elapsed_s = 1};
  for (uint32_t i = 0; i < 2; i++) {
    mst_calls_no_checkpoint(&calls, i, MST_REFUSED_EVER, now_ns);
    for (uint64_t id = 1; id <= 2; id++) { // without visible changes
      ask(i);
      (void)taken();
      told(i, id, 0);
    }
  }
  ask(1);
  (void)taken();
  mst_calls_answered(&calls, 1, &longer, now_ns);
  CHECK_INT(take(1), MST_CALL_DONE);
  CHECK_INT(calls.pool.workers[1]->journal.incomplete, MST_INCOMPLETE_LONG);
  lose_one(0);
  come_up(0);
  EXPECT("REEXEC 0 #1, REEXEC 0 #2");
  answer_as(0, 1, MST_FLAG_REPLAY);
  answer_as(0, 2, MST_FLAG_REPLAY);
  die(1);
  EXPECT("JUDGE 1, TELL 1");
  CHECK(calls.pool.workers[1]->dead);
  CHECK_INT(calls.pool.workers[1]->why, MST_WHY_LONG);
  finish();
}

TEST("S2: checkpoints shorten long journals, which are given up only past "
     "twice the bound") {
  run_calls(2);
  struct mst_blob *large = large_blob(MST_LOG_STEP_BYTES);
  change(0, 1, large);
  mst_calls_bound_log(&calls, (int64_t)(8 * mst_blob_bytes(large)));
  CHECK_TEXT(taken(), "");
  mst_calls_bound_log(&calls, (int64_t)(6 * mst_blob_bytes(large)));
  EXPECT("CHECKPOINT 0");
  mst_calls_bound_log(&calls, (int64_t)(2 * mst_blob_bytes(large)));
  CHECK_TEXT(taken(), "");
  CHECK_INT(calls.pool.workers[0]->journal.incomplete, MST_COMPLETE);
  mst_calls_bound_log(&calls, (int64_t)mst_blob_bytes(large) / 2);
  CHECK_INT(calls.pool.workers[0]->journal.incomplete, MST_INCOMPLETE_MEMORY);
  mst_calls_checkpointed(&calls, 0, 1, now_ns);
  CHECK_INT(calls.pool.workers[0]->journal.incomplete, MST_COMPLETE);
  change(0, 2, payload);
  lose_one(0);
  come_up(0);
  EXPECT("REEXEC 0 #2");
  answer_as(0, 2, MST_FLAG_REPLAY);
  mst_blob_release(large);
  finish();
}

TEST("S2: what a checkpoint covers, where that is kept, goes first when memory "
     "is short") {
  run_calls(2);
  struct mst_blob *large = large_blob(MST_LOG_STEP_BYTES);
  for (uint32_t i = 0; i < 2; i++)
    calls.pool.workers[i]->journal.keeps = 1;
  change(0, 1, large);
  mst_calls_checkpointed(&calls, 0, 1, now_ns);
  mst_calls_bound_log(&calls, (int64_t)(8 * mst_blob_bytes(large)));
  CHECK_INT(calls.pool.workers[0]->journal.past.count, 1);
  mst_calls_bound_log(&calls, (int64_t)(6 * mst_blob_bytes(large)));
  CHECK_INT(calls.pool.workers[0]->journal.past.count, 0);
  CHECK_INT(calls.log_bytes, 0);
  mst_blob_release(large);
  finish();
}

// --- Moves ---

// can_move tells whether a worker may move, with replays of up to a second.
static int can_move(uint32_t worker) {
  return mst_calls_can_move(&calls, worker, MST_NS_PER_S);
}

TEST("A worker can move if all that it is can be replayed, and in time") {
  run_calls(3);
  for (uint32_t i = 0; i < 3; i++)
    CHECK(can_move(i));
  change(0, 1, payload);
  CHECK(can_move(0));
  calls.pool.workers[0]->journal.replay_ns =
      2 * MST_NS_PER_S; // as if that took long
  CHECK(!can_move(0));
  mst_calls_checkpointed(&calls, 0, 1, now_ns);
  CHECK(!can_move(0)); // only the checkpoint has its state
  calls.pool.workers[1]->journal.keeps = 1;
  change(1, 1, payload);
  mst_calls_checkpointed(&calls, 1, 1, now_ns);
  CHECK(can_move(1));
  (void)submit_to(2);
  (void)taken();
  answer_as(2, 1, MST_FLAG_RNG); // what tasks draw is no state
  (void)taken();
  CHECK(can_move(2));
  (void)submit_to(0);
  (void)taken();
  answer_as(0, 2, MST_FLAG_RNG);
  (void)submit_to(0);
  (void)taken();
  answer_as(0, 3, MST_FLAG_RNG | MST_FLAG_STATE); // but for what they leave
  (void)taken();
  calls.pool.workers[0]->journal.keeps = 1;
  mst_calls_checkpointed(&calls, 0, 1, now_ns);
  CHECK(!can_move(0));
  ask(2);
  (void)taken();
  told(2, 2, MST_FLAG_RNG); // after a task drew, from who knows where
  (void)taken();
  CHECK(!can_move(2));
  calls.policy.fresh = 1;
  CHECK(can_move(0) && can_move(2));
  calls.policy.on = 0;
  CHECK(!can_move(1));
  finish();
}

// --- Checkpoints ---

TEST("What a worker drew is drawn again by a replay, from its start or its "
     "checkpoint, and its stream goes on") {
  run_calls(1);
  ask(0);
  EXPECT("EXEC 0 #1");
  answer_as(0, 1, MST_FLAG_RNG | MST_FLAG_STATE);
  CHECK_INT(take(0), MST_CALL_DONE);
  CHECK_TEXT(taken(), ""); // it needs no checkpoint for that
  CHECK(can_move(0));
  lose_one(0);
  come_up(0);
  EXPECT("REEXEC 0 #1"); // and no seed
  answer_as(0, 1, MST_FLAG_REPLAY | MST_FLAG_RNG | MST_FLAG_STATE);
  mst_calls_checkpointed(&calls, 0, 1, now_ns);
  ask(0);
  EXPECT("EXEC 0 #2");
  answer_as(0, 2, MST_FLAG_RNG);
  CHECK_INT(take(0), MST_CALL_DONE);
  lose_one(0);
  come_up(0);
  EXPECT("REEXEC 0 #2");
  answer_as(0, 2, MST_FLAG_REPLAY | MST_FLAG_RNG);
  // A task's random numbers aren't repeated, so the stream is a fresh one.
  (void)submit_to(0);
  EXPECT("EXEC 0 #3");
  answer_as(0, 3, MST_FLAG_RNG);
  lose_one(0);
  come_up(0);
  EXPECT("REEXEC 0 #2, SEED 0");
  finish();
}

TEST("A worker whose tasks drew before its calls did draws again from its "
     "start, and says so; what it draws from a checkpoint is repeated") {
  run_calls(1);
  calls.pool.workers[0]->journal.keeps = 1;
  change(0, 1, payload);
  (void)submit_to(0);
  EXPECT("EXEC 0 #2");
  answer_as(0, 2, MST_FLAG_RNG);
  ask(0);
  (void)taken();
  answer_as(0, 3, MST_FLAG_RNG | MST_FLAG_STATE);
  CHECK_INT(take(0), MST_CALL_DONE);
  (void)taken();
  mst_calls_checkpointed(&calls, 0, 1, now_ns);
  lose_one(0);
  come_up(0);
  EXPECT(""); // the checkpoint has what was drawn
  ask(0);
  EXPECT("EXEC 0 #4");
  answer_as(0, 4, MST_FLAG_RNG | MST_FLAG_STATE);
  CHECK_INT(take(0), MST_CALL_DONE);
  lose_one(0);
  come_up(0);
  EXPECT("REEXEC 0 #4");
  answer_as(0, 4, MST_FLAG_REPLAY | MST_FLAG_RNG | MST_FLAG_STATE);
  mst_calls_checkpoint_ended(&calls, 0, now_ns);
  (void)taken();
  lose_one(0);
  come_up(0);
  EXPECT("TELL 0, REEXEC 0 #1, REEXEC 0 #3, REEXEC 0 #4, SEED 0");
  finish();
}

TEST("Where workers are lost often, checkpoints are made more often") {
  run_calls(1);
  for (uint64_t id = 1; id <= 30; id++) {
    ask(0);
    (void)taken();
    struct mst_answered one = {.call = id, .elapsed_s = 1};
    mst_calls_answered(&calls, 0, &one, now_ns);
    CHECK_INT(take(0), MST_CALL_DONE);
    CHECK_TEXT(taken(), "");
  }
  calls.losses = 99; // one in six minutes: after sqrt(2 * 0.1 * 360) = 8.5 s
  ask(0);
  EXPECT("EXEC 0 #31");
  answer_as(0, 31, 0);
  EXPECT("CHECKPOINT 0");
  finish();
}

TEST("A worker without its state says so; one that was launched from its "
     "checkpoint has it") {
  run_calls(2);
  for (uint32_t i = 0; i < 2; i++) {
    change(i, 1, payload);
    mst_calls_checkpointed(&calls, i, 1, now_ns);
    CHECK_TEXT(taken(), "");
    change(i, 2, payload);
  }
  lose_one(0);
  mst_calls_checkpoint_ended(&calls, 0, now_ns); // while it boots
  come_up(0);
  EXPECT("REEXEC 0 #2, CHECKPOINT 0");
  answer_as(0, 2, MST_FLAG_REPLAY);
  mst_calls_checkpointed(&calls, 0, 1, now_ns);
  die(1);
  mst_calls_checkpoint_ended(&calls, 1, now_ns);
  EXPECT("JUDGE 1, TELL 1");
  CHECK_INT(calls.pool.workers[1]->why, MST_WHY_ENDED);
  finish();
}
