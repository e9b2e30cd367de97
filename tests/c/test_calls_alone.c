// The core of calls: what runs while no other worker computes. See pool/recover.h.
#include "mst_calls_test.h"

TEST("After an out-of-memory death the calls wait until all others are idle") {
  run_calls(2);
  struct mst_call *first = submit_to(0);
  struct mst_call *second = submit_to(1);
  (void)taken();
  judged.oom = 1;
  lose_one(0);
  come_up(0);
  EXPECT("");
  tick(MS);
  EXPECT("");
  answer(1, 1);
  EXPECT("");
  tick(MS);
  EXPECT("TRIM 1");
  trimmed(1);
  EXPECT("EXEC 0 #1 again");
  answer(0, 1);
  CHECK(first->state == MST_CALL_DONE && second->state == MST_CALL_DONE);
  finish();
}

TEST("While a call runs alone nobody is given what anybody may take") {
  run_calls(2);
  struct mst_call *six[6];
  for (int i = 0; i < 6; i++)
    six[i] = submit(); // 0, 2 to the first worker, 1, 3 to the second
  (void)taken();
  judged.oom = 1;
  lose_one(0);
  come_up(0);
  EXPECT("");
  CHECK_INT(calls.quiet, 1);
  answer(1, 1);
  EXPECT("");
  answer(1, 2);
  EXPECT("");
  struct mst_call *own = submit_to(1); // what a worker computes may wait for it
  EXPECT("EXEC 1 #3");
  tick(MS);
  EXPECT("");
  answer(1, 3);
  tick(MS);
  EXPECT("TRIM 1");
  trimmed(1);
  EXPECT("EXEC 0 #1 again, EXEC 0 #2");
  answer(0, 1);
  CHECK_INT(calls.quiet, 0);
  EXPECT("EXEC 0 #3, EXEC 1 #4");
  answer(0, 2);
  answer(0, 3);
  answer(1, 4);
  EXPECT("");
  CHECK_INT(own->state, MST_CALL_DONE);
  for (int i = 0; i < 6; i++)
    CHECK_INT(six[i]->state, MST_CALL_DONE);
  finish();
}

TEST("Others are held for a minute, or twice as long as the call had run") {
  run_calls(2);
  struct mst_call *more[3];
  (void)submit();
  struct mst_call *endless = submit();
  (void)taken();
  tick(40 * MST_NS_PER_S);
  judged.oom = 1;
  lose_one(0);
  come_up(0);
  EXPECT("");
  for (int i = 0; i < 3; i++)
    more[i] = submit();
  tick(79 * MST_NS_PER_S);
  EXPECT("");
  CHECK_INT(calls.quiet, 1);
  CHECK(mst_calls_wake_ns(&calls) - now_ns <= MST_NS_PER_S + 1);
  tick(2 * MST_NS_PER_S);
  CHECK_INT(calls.quiet, 0);
  EXPECT("");   // none waits behind a call that takes so long
  answer(1, 1); // not endless after all
  CHECK_INT(endless->state, MST_CALL_DONE);
  tick(MS);
  EXPECT("EXEC 1 #2, EXEC 1 #3");
  answer(1, 2);
  answer(1, 3);
  tick(MS);
  EXPECT("EXEC 1 #4");
  answer(1, 4);
  tick(MS);
  EXPECT("TRIM 1");
  trimmed(1);
  EXPECT("EXEC 0 #1 again");
  CHECK_INT(calls.quiet, 1);
  struct mst_call *last = submit();
  EXPECT("");
  tick(81 * MST_NS_PER_S);
  EXPECT("EXEC 1 #5");
  answer(1, 5);
  answer(0, 1);
  for (int i = 0; i < 3; i++)
    CHECK_INT(more[i]->state, MST_CALL_DONE);
  CHECK_INT(last->state, MST_CALL_DONE);
  EXPECT("");
  finish();
}

TEST("Two calls that were killed for memory run one after the other") {
  run_calls(2);
  struct mst_call *first = submit(), *second = submit();
  (void)taken();
  judged.oom = 1;
  lose_one(0);
  judged.oom = 1;
  lose_one(1);
  come_up(0);
  come_up(1);
  EXPECT("EXEC 0 #1 again");
  tick(MS);
  EXPECT("");
  answer(0, 1);
  tick(MS);
  EXPECT("TRIM 0");
  trimmed(0);
  EXPECT("EXEC 1 #1 again");
  answer(1, 1);
  CHECK(first->state == MST_CALL_DONE && second->state == MST_CALL_DONE);
  CHECK_INT(calls.quiet, 0);
  finish();
}

TEST("A call that is killed for memory while it runs alone ends, and others go "
     "on") {
  run_calls(2);
  struct mst_call *first = submit(), *others[3];
  for (int i = 0; i < 3; i++)
    others[i] = submit();
  (void)taken();
  judged.oom = 1;
  lose_one(0);
  come_up(0);
  answer(1, 1);
  answer(1, 2);
  tick(MS);
  EXPECT("TRIM 1");
  trimmed(1);
  EXPECT("EXEC 0 #1 again, EXEC 0 #2");
  judged.oom = 1;
  lose_one(0);
  CHECK_INT(first->state, MST_CALL_LOST);
  come_up(0);
  EXPECT("EXEC 0 #2");
  answer(0, 2);
  for (int i = 0; i < 3; i++)
    CHECK_INT(others[i]->state, MST_CALL_DONE);
  CHECK_INT(calls.quiet, 0);
  finish();
}

TEST("A call that must run alone waits for others' memory, but not for ever") {
  run_calls(2);
  (void)submit_to(0);
  (void)taken();
  judged.oom = 1;
  lose_one(0);
  come_up(0);
  EXPECT("TRIM 1");
  tick(59 * MST_NS_PER_S);
  EXPECT("");
  CHECK(mst_calls_wake_ns(&calls) - now_ns <= MST_NS_PER_S + 1);
  tick(2 * MST_NS_PER_S);
  EXPECT("EXEC 0 #1 again");
  trimmed(1); // late
  EXPECT("");
  answer(0, 1);
  CHECK_INT(calls.quiet, 0);
  finish();
}

TEST("A call that must run alone doesn't wait for the memory of a worker that "
     "died") {
  run_calls(2);
  (void)submit_to(0);
  (void)taken();
  judged.oom = 1;
  lose_one(0);
  come_up(0);
  EXPECT("TRIM 1");
  die(1);
  EXPECT("JUDGE 1, TELL 1, LAUNCH 1");
  tick(0);
  EXPECT("EXEC 0 #1 again");
  come_up(1);
  answer(0, 1);
  EXPECT("");
  finish();
}

TEST("If others get calls while they give back memory, they give it back "
     "again") {
  run_calls(2);
  (void)submit_to(0);
  (void)taken();
  judged.oom = 1;
  lose_one(0);
  come_up(0);
  EXPECT("TRIM 1");
  (void)submit_to(1);
  EXPECT("EXEC 1 #1");
  trimmed(1);
  EXPECT("");
  answer(1, 1);
  tick(MS);
  EXPECT("TRIM 1");
  trimmed(1);
  EXPECT("EXEC 0 #1 again");
  answer(0, 1);
  finish();
}

TEST("Where a call that waits to run alone is cancelled, its worker goes on") {
  run_calls(2);
  struct mst_call *first = submit_to(0);
  (void)submit_to(1);
  (void)taken();
  judged.oom = 1;
  lose_one(0);
  come_up(0);
  EXPECT("");
  CHECK_INT(mst_call_cancel(first, now_ns), 1);
  EXPECT("");
  tick(MS);
  CHECK_INT(calls.quiet, 0);
  struct mst_call *next = submit_to(0);
  EXPECT("EXEC 0 #2");
  answer(0, 2);
  answer(1, 1);
  CHECK_INT(next->state, MST_CALL_DONE);
  finish();
}

TEST("A task that is submitted to run alone waits until the others are idle") {
  run_calls(2);
  struct mst_call *busy = submit_to(1);
  struct mst_call *alone = submit_alone(0);
  struct mst_call *later = submit();
  EXPECT("EXEC 1 #1");
  CHECK_INT(calls.quiet, 1);
  answer(1, 1);
  tick(MS);
  EXPECT("TRIM 1");
  trimmed(1);
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  answer(0, 1);
  CHECK_INT(calls.quiet, 0);
  answer(0, 2);
  CHECK(busy->state == MST_CALL_DONE && alone->state == MST_CALL_DONE);
  CHECK_INT(later->state, MST_CALL_DONE);
  alone = submit_alone(1);
  EXPECT("TRIM 0");
  CHECK_INT(mst_call_cancel(alone, now_ns), 1);
  trimmed(0);
  tick(MS);
  CHECK_INT(calls.quiet, 0);
  later = submit_to(1);
  EXPECT("EXEC 1 #3");
  answer(1, 3);
  finish();
}

TEST("A task that is submitted to run alone does so again after its worker's "
     "loss") {
  run_calls(2);
  struct mst_call *alone = submit_alone(0);
  EXPECT("TRIM 1");
  trimmed(1);
  EXPECT("EXEC 0 #1");
  lose_one(0);
  come_up(0);
  EXPECT("TRIM 1");
  trimmed(1);
  EXPECT("EXEC 0 #1 again");
  answer(0, 1);
  CHECK_INT(alone->state, MST_CALL_DONE);
  finish();
}
