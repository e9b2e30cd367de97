// What the user does in a small world. See explore.h.
#include "base/mst_err.h"
#include "explore.h"

#define LIMIT_NS MST_NS_PER_S

static const char verbs[2];

static const struct mst_worker *worker_of(const struct ex *ex, uint32_t w) {
  return ex->core.pool.workers[w];
}

static uint32_t own_worker(const struct ex_ask *ask) {
  return ask->workers == 2 ? 1 : 0;
}

// needs_of gives a reference to all that a task needs, or NULL.
static struct mst_job *needs_of(struct ex *ex, uint8_t index) {
  struct mst_job *jobs[1 + EX_CALLS], *all;
  uint32_t count = 0;
  mst_job_keep(ex->calls[index].job);
  if (ex->calls[index].job != NULL) jobs[count++] = ex->calls[index].job;
  for (uint8_t k = 0; k < index; k++) {
    if ((ex->asks[index].needs & (1u << k)) == 0) continue;
    jobs[count++] = mst_result_hold(&ex->core.jobs, ex->calls[k].task);
  }
  (void)mst_job_group(jobs, count, &all);
  while (count > 0)
    mst_job_release(jobs[--count]);
  return all;
}

static void ask_task(struct ex *ex, uint8_t index) {
  const struct ex_ask *ask = &ex->asks[index];
  struct ex_call *call = &ex->calls[index];
  struct mst_job *needs = needs_of(ex, index);
  const struct mst_task_terms terms = {.job = needs,
                                       .retries = ask->retries,
                                       .timeout_ns =
                                           ask->has_limit ? LIMIT_NS : 0};
  uint32_t set[EX_WORKERS];
  uint32_t count = 0;
  for (uint32_t i = 0; i < EX_WORKERS; i++) {
    if ((ask->workers & (1u << i)) != 0) set[count++] = i;
  }
  call->task =
      mst_calls_submit(&ex->core, call->payload, count > 0 ? set : NULL, count,
                       &terms, ex->now_ns);
  mst_job_release(needs);
  call->task->tag = index;
  if (ex->plan->awaited) mst_calls_await_task(call->task);
}

static void ask_verb(struct ex *ex, uint8_t index) {
  const struct ex_ask *ask = &ex->asks[index];
  struct ex_call *call = &ex->calls[index];
  const uint32_t worker = own_worker(ask);
  const struct mst_worker *record = worker_of(ex, worker);
  const int gone = record->dead && record->sys_errno == 0;
  const int rc =
      mst_calls_send(&ex->core, worker, call->payload, &verbs[ask->caller],
                     index, MST_UNSEEN_NOT, ex->now_ns);
  if (rc == 0) {
    call->mailbox = (uint8_t)(1 + worker);
    if (gone) ex_fail(ex, "a worker that is gone takes a call");
    return;
  }
  call->outcome = EX_REFUSED;
  ex_saw(EX_SAW_refused);
  if (rc != -MST_ECLOSED) ex_fail(ex, "mst_calls_send: %d", rc);
  if (!record->dead && worker_of(ex, worker)->stop_ns == EX_NEVER &&
      !worker_of(ex, worker)->drains &&
      !(ex->plan->no_healing && !record->channel)) {
    ex_fail(ex, "worker %u takes no call", worker);
  }
}

void ex_ask_next(struct ex *ex) {
  const uint8_t index = ex->asked++;
  const uint32_t dead =
      ex->core.pool.workers[0]->dead + ex->core.pool.workers[1]->dead;
  ex->calls[index].asked = 1;
  if (ex->asks[index].is_task) {
    ask_task(ex, index);
  } else {
    ask_verb(ex, index);
  }
  if (dead > ex->core.pool.workers[0]->dead + ex->core.pool.workers[1]->dead) {
    ex_saw(EX_SAW_revived);
  }
}

void ex_cancel(struct ex *ex, uint8_t index) {
  struct ex_call *call = &ex->calls[index];
  ex_saw(call->task->held                       ? EX_SAW_cancelled_waiting
         : call->task->state == MST_CALL_QUEUED ? EX_SAW_cancelled_queued
         : call->task->sent                     ? EX_SAW_cancelled_sent
                                                : EX_SAW_cancelled_given);
  call->cancelled = 1;
  call->outcome = EX_CANCELLED;
  if (mst_call_cancel(call->task, ex->now_ns) != 1) {
    ex_fail(ex, "call %u isn't done and can't be cancelled", index);
  }
}

int ex_of_verb(const struct ex *ex, uint8_t i, uint8_t index) {
  return !ex->asks[i].is_task && ex->asks[i].caller == ex->asks[index].caller &&
         ex->asks[i].workers == ex->asks[index].workers;
}

void ex_forget(struct ex *ex, uint8_t index) {
  const uint32_t worker = own_worker(&ex->asks[index]);
  const char *caller = &verbs[ex->asks[index].caller];
  ex_saw(mst_mailbox_answer(&ex->core.pool.workers[worker]->mailbox, caller) !=
                 NULL
             ? EX_SAW_forgotten_answer
             : EX_SAW_forgotten_sent);
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    struct ex_call *call = &ex->calls[i];
    if (!call->asked || !ex_of_verb(ex, i, index)) continue;
    if (call->outcome != EX_PENDING) continue;
    call->outcome = EX_CANCELLED;
    call->cancelled = 1;
  }
  mst_calls_forget(&ex->core, worker, caller, ex->now_ns);
}

void ex_stop(struct ex *ex) {
  ex->stopping = 1;
  ex_saw(EX_SAW_stopped_early);
  mst_calls_end_queue(&ex->core, ex->now_ns);
  ex_fact(ex, MST_EV_STOP, 0, 0, 0);
}
