// Tests of pool/calls: the core's contract, by facts and actions.
#include "mst_calls_test.h"

// --- Blame ---

TEST("A call isn't blamed for the death of its worker in a call that was "
     "cancelled then") {
  run_calls(1);
  struct mst_call *first = submit_to(0);
  struct mst_call *second = submit_to(0);
  EXPECT("EXEC 0 #1, EXEC 0 #2");
  fact(MST_EV_EXITED, 0, MST_EXIT_SIGNAL, SIGKILL); // its channel may hold more
  CHECK_INT(mst_call_cancel(first, now_ns), 1);
  fact(MST_EV_CLOSED, 0, 0, 0);
  EXPECT("CLOSE 0");
  tick(0);
  EXPECT("JUDGE 0, TELL 0, PAUSE 0, LAUNCH 0");
  come_up(0);
  EXPECT("EXEC 0 #2");
  CHECK_INT(calls.lanes[0]->heal.attempt, 0);
  answer(0, 2);
  CHECK_INT(second->state, MST_CALL_DONE);
  finish();
}

TEST("A call after one that there was no memory to send has all of its "
     "attempts") {
  run_calls(1);
  struct mst_call *first = submit_to(0);
  EXPECT("EXEC 0 #1");
  lose_one(0);
  struct mst_call *second = submit_to(0);
  come_up(0);
  unsent = MST_CALLS_EXEC;
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
