// Tests of pool/recover: the verdict for one loss.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "mst_test.h"
#include "pool/recover.h"

static struct mst_counts counts;
static struct mst_tally tally = {.counts = &counts};
static struct mst_site here;
static struct mst_worker worker = {.site = &here};
static const struct mst_heal_policy policy = {
    .on = 1, .retries = 1, .heartbeat_ns = INT64_MAX};
static const struct mst_judged nothing;

static struct mst_call *call_of(int sent) {
  struct mst_call *call = mst_call_new(&tally, NULL);
  CHECK(call != NULL);
  mst_mailbox_expect(&worker.mailbox, NULL);
  mst_mailbox_add(&worker.mailbox, call);
  call->sent = (uint8_t)sent;
  return call;
}

// ended: how its incarnation ended.
static void ended(uint32_t pid, enum mst_exit how, int32_t number) {
  worker.pid = pid;
  worker.exit_known = 1;
  worker.exit_how = how;
  worker.exit_number = number;
  worker.lost_ns = 5 * MST_NS_PER_S;
}

static struct mst_verdict judged(const struct mst_judged *known) {
  ended(7, MST_EXIT_SIGNAL, SIGKILL);
  return mst_recover_judge(&worker, &policy, known, 0, 6);
}

static struct mst_verdict judge(void) { return judged(&nothing); }

// judge_stopped: in a cluster that is stopped.
static struct mst_verdict judge_stopped(const struct mst_judged *known) {
  ended(7, MST_EXIT_SIGNAL, SIGKILL);
  return mst_recover_judge(&worker, &policy, known, 1, 6);
}

static void end(void) {
  (void)mst_mailbox_forget(&worker.mailbox, NULL);
  (void)mst_mailbox_drop_cancelled(&worker.mailbox, 1);
  mst_worker_forget_why(&worker);
}

TEST("A call that kills its worker is retried, then it is poison") {
  const struct mst_call *call = call_of(1);
  struct mst_verdict verdict = judge();
  CHECK_INT(verdict.how, MST_RECOVER_NOW);
  CHECK_INT(verdict.attempts, 0);
  CHECK_INT(call->losses, 1);
  verdict = judge();
  CHECK_INT(verdict.how, MST_RECOVER_NOW);
  CHECK_INT(verdict.attempts, 2);
  end();
}

TEST("Neither an unsent call nor one behind a cancelled one is blamed") {
  struct mst_call *first = call_of(0);
  CHECK_INT(judge().how, MST_RECOVER_NOW);
  CHECK_INT(first->losses, 0);
  first->sent = 1;
  struct mst_call *second = call_of(1);
  first->cancelled = 1;
  worker.mailbox.unread--;
  CHECK_INT(judge().attempts, 0);
  CHECK_INT(second->losses, 0);
  CHECK(!second->cancelled && worker.mailbox.first == first); // as it was
  end();
}

TEST("A call that took too long ends as a timeout, and the next one has its "
     "own retries") {
  call_of(1)->timed_out = 1;
  call_of(1)->retries = 0;
  const struct mst_verdict verdict = judge();
  CHECK_INT(verdict.how, MST_RECOVER_NOW);
  CHECK(verdict.late && verdict.attempts == 0);
  end();
}

TEST("A worker whose state can't be restored is given up at once, with the "
     "reason") {
  (void)call_of(1);
  worker.journal.incomplete = MST_INCOMPLETE_ENDED;
  const struct mst_verdict verdict = judge();
  CHECK_INT(verdict.how, MST_RECOVER_GIVE_UP);
  CHECK_INT(verdict.why, MST_WHY_ENDED);
  CHECK_INT(worker.why, MST_WHY_NONE); // so the call's own loss doesn't say it
  end();
}

TEST("A launch that lacked a resource is retried later, but not forever") {
  ended(0, MST_EXIT_NONE, EMFILE);
  struct mst_verdict verdict =
      mst_recover_judge(&worker, &policy, &nothing, 0, 6);
  CHECK_INT(verdict.how, MST_RECOVER_LATER);
  CHECK_INT(worker.sys_errno, EMFILE);
  worker.launches = MST_SHORT_TRIES;
  verdict = mst_recover_judge(&worker, &policy, &nothing, 0, 6);
  CHECK_INT(verdict.how, MST_RECOVER_GIVE_UP);
  CHECK_INT(verdict.why, MST_WHY_SHORT);
  // A worker's message that it couldn't get the resource counts the same.
  worker.launches = 0;
  const struct mst_judged said = {.sys_errno = ENOMEM};
  verdict = judged(&said);
  CHECK_INT(verdict.how, MST_RECOVER_LATER);
  CHECK_INT(worker.sys_errno, ENOMEM);
  CHECK_INT(judge().how, MST_RECOVER_NOW); // the next one was there
  CHECK_INT(worker.sys_errno, 0);
}

TEST("The killer is muster, if it has said why; the kernel; or unknown") {
  const struct mst_judged oom = {.oom = 1};
  (void)judge_stopped(&oom);
  CHECK(worker.oom && !worker.ours);
  struct mst_call *call = call_of(1);
  call->timed_out = 1;
  // Somebody else may kill a worker whose cancelled call goes on: muster says what its watch said.
  worker.cancel = call->id;
  (void)judge_stopped(&nothing);
  CHECK(!worker.ours);
  worker.deaf = call->id;
  (void)judge_stopped(&oom);
  CHECK(!worker.oom && worker.ours);
  CHECK_INT(worker.why, MST_WHY_INTERRUPT);
  end();
}

TEST("Without healing, or during a stop, nothing is reported and nothing "
     "retried") {
  const struct mst_heal_policy off = {.heartbeat_ns = INT64_MAX};
  const struct mst_call *call = call_of(1);
  ended(7, MST_EXIT_SIGNAL, SIGKILL);
  CHECK_INT(mst_recover_judge(&worker, &off, &nothing, 0, 6).how,
            MST_RECOVER_LEAVE);
  CHECK_INT(judge_stopped(&nothing).how, MST_RECOVER_LEAVE);
  CHECK_INT(call->losses, 0);
  end();
}
