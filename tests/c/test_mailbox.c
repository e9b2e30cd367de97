// Tests of only pool/mailbox and pool/dispatch: calls that leave a mailbox, whose answers are
// whose, and which worker gets the next task.
#include "mst_test.h"
#include "pool/dispatch.h"

static struct mst_counts counts;
static struct mst_tally tally = {.counts = &counts};
static struct mst_worker all[3] = {{.mailbox = {.worker = 0}},
                                       {.mailbox = {.worker = 1}},
                                       {.mailbox = {.worker = 2}}};
static struct mst_mailbox *const mailbox = &all[0].mailbox;
static struct mst_due due;
static const char caller, other_caller;

static struct mst_call *call_of(const void *whose) {
  struct mst_call *call = mst_call_new(&tally, NULL);
  CHECK(call != NULL);
  call->caller = whose;
  mst_mailbox_expect(mailbox, whose);
  mst_mailbox_add(mailbox, call);
  return call;
}

static struct mst_call *task_of(struct mst_dispatch *dispatch,
                                const uint32_t *workers, uint32_t count) {
  struct mst_blob *payload = mst_blob_new();
  CHECK(payload != NULL);
  struct mst_call *task = mst_call_new(&tally, payload);
  mst_blob_release(payload);
  CHECK(task != NULL);
  task->is_task = 1;
  task->serial = ++counts.tasks;
  task->queued = (struct mst_queued){.serial = task->serial, .owner = task};
  CHECK_INT(mst_dispatch_put(dispatch, task, workers, count), 0);
  return task;
}

TEST("A call that was cancelled while it waited is interrupted once it is the "
     "oldest, and no other") {
  struct mst_call *first = call_of(&caller), *second = call_of(&other_caller);
  struct mst_call *third = call_of(&caller);
  first->sent = second->sent = third->sent = 1;
  CHECK_INT(mst_mailbox_forget(mailbox, &other_caller), 0); // it waits
  CHECK(second->cancelled);
  CHECK_INT(mst_mailbox_finish(mailbox, first, MST_CALL_DONE, 1),
            MST_MAILBOX_INTERRUPT);
  CHECK_INT(mst_mailbox_finish(mailbox, second, MST_CALL_DONE, 2), 0);
  CHECK(mailbox->first == third);
  mst_mailbox_take(mailbox, first);
  mst_call_release(first);
  CHECK_INT(mst_mailbox_forget(mailbox, NULL), MST_MAILBOX_INTERRUPT);
  CHECK_INT(mst_mailbox_drop_cancelled(mailbox, 0), 0); // the worker has it
  CHECK_INT(mst_mailbox_drop_cancelled(mailbox, 1), 0);
  CHECK(mailbox->first == NULL && mailbox->count == 0 && mailbox->unread == 0);
}

TEST("Cancelled calls that weren't sent are dropped, and the following ones "
     "aren't interrupted") {
  (void)call_of(&caller);
  (void)call_of(&caller);
  struct mst_call *wanted = call_of(&other_caller);
  CHECK_INT(mst_mailbox_forget(mailbox, &caller), MST_MAILBOX_INTERRUPT);
  CHECK_INT(mst_mailbox_drop_cancelled(mailbox, 0), 0);
  CHECK(mailbox->first == wanted && mailbox->next_sent == wanted);
  CHECK_INT(mailbox->count, 1);
  CHECK_INT(mst_mailbox_drop(mailbox, wanted), 0);
}

TEST("Answers of several verbs go to each verb, those of one to anybody") {
  struct mst_call *first = call_of(&caller), *second = call_of(&other_caller);
  (void)mst_mailbox_finish(mailbox, first, MST_CALL_DONE, 1);
  CHECK(mst_mailbox_answer(mailbox, &other_caller) == NULL);
  CHECK_INT(mst_mailbox_answered(mailbox, &other_caller), 0);
  CHECK_INT(mst_mailbox_answered(mailbox, &caller), 1);
  (void)mst_mailbox_finish(mailbox, second, MST_CALL_LOST, 1);
  CHECK(mst_mailbox_answer(mailbox, &other_caller) == second);
  mst_mailbox_take(mailbox, first);
  mst_call_release(first);
  // The rest counts as received now.
  CHECK_INT(mst_mailbox_answered(mailbox, &other_caller), 2);
  mst_mailbox_take(mailbox, second);
  mst_call_release(second);
  CHECK_INT(mailbox->answered, 0);
  struct mst_call *third = call_of(&caller);
  (void)mst_mailbox_finish(mailbox, third, MST_CALL_DONE, 1);
  CHECK(mst_mailbox_answer(mailbox, &other_caller) == third);
  CHECK_INT(mst_mailbox_forget(mailbox, NULL), 0);
}

static uint8_t takes_calls[3] = {1, 1, 1};
static int usable(void *owner, uint32_t worker) {
  (void)owner;
  return takes_calls[worker];
}
static struct mst_worker *open_worker(void *owner, uint32_t worker) {
  return usable(owner, worker) ? &all[worker] : NULL;
}

TEST("Each worker has one task before any has a second, the next in turn "
     "first") {
  const struct mst_takers takers = {3, open_worker, usable, NULL, 0};
  struct mst_dispatch dispatch = {.turn = 2};
  const uint32_t pinned = 1;
  takes_calls[0] = 0;
  struct mst_call *tasks[] = {
      task_of(&dispatch, NULL, 0), task_of(&dispatch, &pinned, 1),
      task_of(&dispatch, NULL, 0), task_of(&dispatch, NULL, 0),
      task_of(&dispatch, NULL, 0)};
  mst_dispatch_await(&dispatch, tasks[4]);
  mst_dispatch_all(&dispatch, &takers, &due);
  CHECK_INT(tasks[0]->worker, 2);
  CHECK_INT(tasks[1]->worker, 1);
  CHECK_INT(tasks[2]->worker, 2);
  CHECK_INT(tasks[3]->worker, 1);
  CHECK_INT(tasks[4]->state, MST_CALL_QUEUED);
  CHECK(due.first == &all[2] && due.last == &all[1]);
  CHECK_INT(dispatch.awaited, 1);
  // A worker that has finished one has room for another.
  (void)mst_mailbox_finish(&all[1].mailbox, tasks[1], MST_CALL_DONE, 1);
  mst_dispatch_to(&dispatch, &takers, 1, &due);
  CHECK_INT(tasks[4]->worker, 1);
  CHECK_INT(all[1].mailbox.awaited, tasks[4]->id);
  CHECK_INT(dispatch.awaited, 0);
  for (uint32_t i = 1; i < 3; i++) {
    while (all[i].mailbox.first != NULL)
      (void)mst_mailbox_finish(&all[i].mailbox, all[i].mailbox.first,
                               MST_CALL_DONE, 2);
  }
  CHECK_INT(counts.tasks_done, 5);
  mst_dispatch_free(&dispatch);
}

TEST("Tasks that no worker will ever take are lost, those of other workers "
     "stay") {
  const struct mst_takers takers = {2, open_worker, usable, NULL, 0};
  struct mst_dispatch dispatch = {0};
  const uint32_t pinned = 1;
  struct mst_call *lost = task_of(&dispatch, &pinned, 1);
  struct mst_call *stays = task_of(&dispatch, NULL, 0);
  lost->refs++;
  stays->refs++;
  takes_calls[1] = 0;
  mst_dispatch_sweep(&dispatch, &takers, 7);
  CHECK_INT(lost->state, MST_CALL_LOST);
  CHECK(lost->stranded && lost->done_ns == 7);
  CHECK_INT(stays->state, MST_CALL_QUEUED);
  mst_dispatch_end(&dispatch, 8);
  CHECK_INT(stays->state, MST_CALL_LOST);
  CHECK(!stays->stranded && dispatch.bytes == 0);
  mst_call_release(lost);
  mst_call_release(stays);
  mst_dispatch_free(&dispatch);
}
