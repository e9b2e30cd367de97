// How each call ended in a small world in which nothing happens by itself any more. See explore.h.
#include <stdio.h>

#include "explore.h"

static const struct mst_worker *worker_of(const struct ex *ex, uint32_t w) {
  return ex->core.pool.workers[w];
}

// is_gone: it was given up, or asked to end.
static int is_gone(const struct ex *ex, uint32_t worker) {
  return ex->core.pool.workers[worker]->dead || worker_of(ex, worker)->drains ||
         worker_of(ex, worker)->stop_ns != EX_NEVER;
}

static int was_gone(const struct ex *ex, uint32_t worker) {
  return is_gone(ex, worker) || ((ex->gone >> worker) & 1) != 0;
}

static int may_be_lost(const struct ex *ex, uint8_t index) {
  const struct ex_call *call = &ex->calls[index];
  if (ex->stopping || call->no_memory) return 1;
  if (call->mailbox != 0) return was_gone(ex, call->mailbox - 1u);
  // It was given to a worker, and never sent.
  if (call->task->id != 0) return was_gone(ex, call->task->worker);
  const uint8_t workers = ex->asks[index].workers;
  for (uint32_t i = 0; i < EX_WORKERS; i++) {
    const int is_for = workers == 0 || (workers & (1u << i)) != 0;
    if (is_for && !was_gone(ex, i)) return 0;
  }
  return 1;
}

static enum ex_outcome outcome_of(const struct mst_call *call) {
  if (call->state == MST_CALL_DONE) return EX_VALUE;
  if (call->state == MST_CALL_CANCELLED) return EX_CANCELLED;
  if (call->loss == NULL) return EX_LOST;
  if (call->loss->kind == MST_LOSS_POISON) return EX_POISON;
  return call->loss->kind == MST_LOSS_TIMEOUT ? EX_LATE : EX_LOST;
}

static void see(enum ex_outcome outcome) {
  static const enum ex_sight sights[] = {[EX_VALUE] = EX_SAW_answered,
                                         [EX_POISON] = EX_SAW_poison,
                                         [EX_LATE] = EX_SAW_late,
                                         [EX_LOST] = EX_SAW_lost};
  if (outcome >= EX_VALUE && outcome <= EX_LOST && outcome != EX_REFUSED) {
    ex_saw(sights[outcome]);
  }
}

// is_for: it needs a task that failed, directly or not.
static int is_for(const struct ex *ex, uint8_t index,
                  const struct mst_call *cause) {
  uint8_t needs = ex->asks[index].needs;
  for (uint8_t k = index; k-- > 0;) {
    if ((needs & (1u << k)) == 0) continue;
    if (ex->calls[k].task == cause) return cause->state != MST_CALL_DONE;
    needs = (uint8_t)(needs | ex->asks[k].needs);
  }
  return 0;
}

static void judge_end(struct ex *ex, uint8_t index, const struct mst_call *at) {
  struct ex_call *call = &ex->calls[index];
  const enum ex_outcome outcome = outcome_of(at);
  if (call->outcome == EX_CANCELLED && outcome == EX_CANCELLED) return;
  if (call->outcome != EX_PENDING) {
    ex_fail(ex, "call %u ends twice: %u, %u", index, call->outcome, outcome);
    return;
  }
  call->outcome = (uint8_t)outcome;
  see(outcome);
  if (outcome == EX_VALUE && (at->value_bytes != EX_ANSWER_BYTES ||
                              at->value[EX_ANSWER_BYTES - 1] != index)) {
    ex_fail(ex, "call %u has another's answer", index);
  }
  if (outcome == EX_CANCELLED) ex_fail(ex, "call %u is cancelled", index);
  if (outcome == EX_LATE && !call->late) {
    ex_fail(ex, "call %u is late within its time", index);
  }
  if ((outcome == EX_VALUE || outcome == EX_POISON) && call->late) {
    ex_fail(ex, "call %u was late, and that isn't told", index);
  }
  if (at->cause != NULL) {
    ex_saw(EX_SAW_unmet);
    if (outcome != EX_LOST || !is_for(ex, index, at->cause))
      ex_fail(ex, "call %u ends for a cause that isn't one", index);
  } else if (outcome == EX_LOST && !may_be_lost(ex, index)) {
    ex_fail(ex, "call %u is lost", index);
  }
  if (outcome == EX_POISON && call->blamed == 0) {
    ex_fail(ex, "call %u is poison", index);
  }
}

// take_answers: a verb gets the answers to its calls in order.
static void take_answers(struct ex *ex, uint32_t worker) {
  struct mst_call *answer;
  uint8_t next = 0;
  while ((answer = mst_mailbox_answer(&ex->core.pool.workers[worker]->mailbox,
                                      NULL)) != NULL) {
    const uint8_t index = (uint8_t)answer->tag;
    if (index < next) ex_fail(ex, "answer %u comes out of turn", index);
    next = (uint8_t)(index + 1);
    judge_end(ex, index, answer);
    mst_mailbox_take(answer->mailbox, answer);
    mst_call_release(answer);
  }
}

// leave_dead: a verb that waits for a worker that stays lost sees that, and gives up its calls.
static void leave_dead(struct ex *ex, uint32_t worker) {
  const struct mst_worker *record = ex->core.pool.workers[worker];
  if (!ex->stopping && !is_gone(ex, worker)) return;
  for (const struct mst_call *at = record->mailbox.first; at != NULL;
       at = at->next) {
    if (at->is_task || at->cancelled) continue;
    if (ex->calls[at->tag].outcome != EX_PENDING) {
      ex_fail(ex, "call %d is left after its end", at->tag);
    }
    ex->calls[at->tag].outcome = EX_LOST;
    ex_saw(EX_SAW_lost);
  }
  mst_calls_forget(&ex->core, worker, NULL, ex->now_ns);
}

// may_stay_left: it was drained, given up or killed, and didn't only move.
static int may_stay_left(const struct ex *ex, uint32_t worker) {
  return (((ex->gone | ex->ended) >> worker) & 1) != 0;
}

static void judge_worker(struct ex *ex, uint32_t worker) {
  const struct mst_worker *record = ex->core.pool.workers[worker];
  const enum mst_worker_state state = worker_of(ex, worker)->state;
  // A worker that is killed and never reaped is given up at its time limit.
  const int given_up = worker_of(ex, worker)->stop_ns != EX_NEVER &&
                       !worker_of(ex, worker)->awaited;
  const int final = state == MST_WORKER_IDLE || state == MST_WORKER_STOPPED ||
                    (state == MST_WORKER_LEFT && may_stay_left(ex, worker)) ||
                    (state == MST_WORKER_LOST && (record->dead || given_up));
  if (!final) {
    ex_fail(ex, "worker %u stays %s", worker, mst_worker_state_name(state));
  }
  if (((ex->ended >> worker) & 1) != 0 && state != MST_WORKER_STOPPED &&
      state != MST_WORKER_LOST && state != MST_WORKER_LEFT) {
    ex_fail(ex, "worker %u is back, and was killed for good", worker);
  }
  if (record->resuming || record->replaying || record->replay_left > 0) {
    if (!is_gone(ex, worker)) ex_fail(ex, "worker %u never goes on", worker);
  }
  if (record->to_heal || record->launch_ns != EX_NEVER) {
    ex_fail(ex, "worker %u is left without a word", worker);
  }
}

static void judge_left(struct ex *ex) {
  const struct mst_calls *core = &ex->core;
  for (uint32_t i = 0; i < EX_WORKERS; i++) {
    const struct mst_worker *record = core->pool.workers[i];
    if (record->mailbox.count > 0 || record->mailbox.first != NULL ||
        record->mailbox.answers != NULL || record->mailbox.unread > 0) {
      ex_fail(ex, "worker %u still has calls", i);
    }
  }
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    if (ex->calls[i].asked && ex->calls[i].outcome == EX_PENDING) {
      ex_fail(ex, "call %u has no end", i);
    }
  }
  if (mst_queue_count(&core->dispatch.queue) > 0)
    ex_fail(ex, "tasks in the queue");
  if (core->dispatch.awaited > 0 || core->tally.limited > 0 ||
      core->dispatch.bytes > 0) {
    ex_fail(ex, "counts of what is there no more");
  }
}

static void judge_tasks(struct ex *ex) {
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    struct mst_call *task = ex->calls[i].task;
    if (task == NULL) continue;
    if (!mst_call_is_done(task)) {
      ex_fail(ex, "task %u has no end", i);
      continue;
    }
    judge_end(ex, i, task);
    mst_call_taken(task);
  }
}

static struct ex_event next_alone(const struct ex *ex) {
  struct ex_event events[EX_EVENTS_MAX];
  const uint32_t n = ex_events(ex, events);
  for (uint32_t i = 0; i < n; i++) {
    if (events[i].what < EX_MISHAPS && events[i].what != EX_ASK) {
      return events[i];
    }
  }
  return (struct ex_event){0};
}

static void end_pool(struct ex *ex) {
  if (!ex->stopping) {
    ex->stopping = 1;
    mst_calls_end_queue(&ex->core, ex->now_ns);
    ex_fact(ex, MST_EV_STOP, 0, 0, 0);
  }
  for (unsigned k = 0; k < 100 && !ex->failed && !ex->stopped; k++) {
    const struct ex_event event = next_alone(ex);
    if (event.what == 0) break;
    ex_apply(ex, event);
  }
  if (!ex->stopped) ex_fail(ex, "the pool never stops");
}

void ex_verdict(struct ex *ex) {
  ex_log(ex, "verdict");
  for (uint32_t i = 0; i < EX_WORKERS && !ex->stopping; i++)
    judge_worker(ex, i);
  for (uint32_t i = 0; i < EX_WORKERS; i++) {
    take_answers(ex, i);
    if (ex->stopping) leave_dead(ex, i);
    // After asking a worker to end, the session closes it.
    if (worker_of(ex, i)->stop_ns != EX_NEVER || ex->stopping) {
      leave_dead(ex, i);
      mst_calls_close(&ex->core, i, ex->now_ns);
    }
    leave_dead(ex, i);
  }
  judge_tasks(ex);
  judge_left(ex);
  if (ex->core.tally.answer_bytes > 0) ex_fail(ex, "bytes of answers are left");
  if (ex->core.tally.kept != NULL) ex_fail(ex, "a task's answer is kept");
  if (!ex->failed) end_pool(ex);
}

// caused counts the tasks that hold this one as their cause.
static uint32_t caused(const struct ex *ex, const struct mst_call *task) {
  uint32_t n = 0;
  for (uint8_t i = 0; i < EX_CALLS; i++)
    n += ex->calls[i].task != NULL && ex->calls[i].task->cause == task;
  return n;
}

void ex_released(struct ex *ex) {
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    const struct ex_call *call = &ex->calls[i];
    const size_t job = call->job != NULL;
    // A task that has failed keeps what it was.
    const struct mst_call *failed =
        call->task != NULL && mst_call_has_failed(call->task) ? call->task
                                                              : NULL;
    const size_t kept = failed != NULL && failed->payload != NULL;
    if (call->payload->refs != 1 + job + kept) {
      ex_fail(ex, "the payload of call %u is still held", i);
    }
    if (job > 0 &&
        call->job->refs != 1u + (failed != NULL && failed->job != NULL)) {
      ex_fail(ex, "the job of call %u is still held", i);
    }
    if (call->task == NULL) continue;
    if (!mst_call_is_done(call->task)) {
      ex_fail(ex, "task %u outlives its cluster undone", i);
    }
    if (call->task->refs != 1 + caused(ex, call->task) ||
        call->task->tally != NULL) {
      ex_fail(ex, "task %u is still held", i);
    }
  }
}
