// What must hold in a small world. See explore.h.
//
// After each step of the core: its own invariants. Without actions left: nothing is forgotten, and
// the counters are right. When a call is sent: it may be sent, and it is its turn. After a loss:
// what the world's own books blame pays for it, and nothing else. In a quiet world: each call has
// ended once, and as it should.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "explore.h"

static const struct mst_worker *worker_of(const struct ex *ex, uint32_t w) {
  return ex->core.pool.workers[w];
}

void ex_fail(struct ex *ex, const char *format, ...) {
  va_list args;
  if (ex->failed) return;
  ex->failed = 1;
  va_start(args, format);
  (void)vsnprintf(ex->failure, sizeof ex->failure, format, args);
  va_end(args);
}

void ex_log(const struct ex *ex, const char *format, ...) {
  va_list args;
  if (!ex->logging) return;
  va_start(args, format);
  (void)vprintf(format, args);
  va_end(args);
  (void)printf("\n");
}

void ex_check(struct ex *ex) {
  const char *what = mst_calls_check(&ex->core);
  if (what != NULL) ex_fail(ex, "mst_calls_check: %s", what);
}

static int is_for(const struct ex *ex, uint8_t call, uint32_t worker) {
  const uint8_t workers = ex->asks[call].workers;
  return workers == 0 || (workers & (1u << worker)) != 0;
}

static int is_queued(const struct ex *ex, uint8_t call) {
  const struct mst_call *task = ex->calls[call].task;
  return task != NULL && task->state == MST_CALL_QUEUED && !task->held;
}

// ---- sending

static void judge_replay(struct ex *ex, uint32_t worker, uint8_t call) {
  struct ex_process *process = &ex->processes[worker];
  const uint8_t at = process->replayed++;
  if (at >= process->to_replay) {
    ex_fail(ex, "worker %u is sent more than its journal has", worker);
  } else if (ex->journal[worker][process->first + at] != call) {
    ex_fail(ex, "worker %u is sent call %u of its journal, not %u", worker,
            call, ex->journal[worker][process->first + at]);
  }
}

// judge_turn: a verb's calls go in the order in which they were made; queued tasks do, too.
static void judge_turn(struct ex *ex, uint32_t worker, uint8_t call) {
  const struct mst_worker *record = ex->core.pool.workers[worker];
  for (uint8_t i = 0; i < call; i++) {
    if (ex->calls[i].handed_back) continue; // others may be in mailboxes by now
    if (is_queued(ex, i) && is_for(ex, i, worker) && ex->asks[call].is_task) {
      ex_fail(ex, "task %u is sent before task %u", call, i);
    }
  }
  for (const struct mst_call *at = record->mailbox.first; at != NULL;
       at = at->next) {
    const uint8_t other =
        at->payload == NULL ? EX_CALLS : ex_call_of(ex, at->payload);
    if (other == call) return;
    if (!at->sent && !at->cancelled) {
      ex_fail(ex, "call %u is sent before call %u", call, other);
    }
  }
  ex_fail(ex, "call %u is sent, and in no mailbox", call);
}

static void judge_first_sight(struct ex *ex, uint32_t worker, uint8_t call) {
  struct ex_call *at = &ex->calls[call];
  if (!is_for(ex, call, worker)) {
    ex_fail(ex, "call %u is sent to worker %u", call, worker);
  }
  if (at->mailbox != 0 && at->mailbox != 1 + worker) {
    ex_fail(ex, "call %u goes from worker %u to %u", call, at->mailbox - 1u,
            worker);
  }
  at->mailbox = (uint8_t)(1 + worker);
}

// judge_results: a task goes to a worker that has all that it needs.
static void judge_results(struct ex *ex, uint32_t worker, uint8_t call) {
  const uint8_t needs = ex->asks[call].needs;
  if ((ex->processes[worker].results & needs) != needs) {
    ex_fail(ex, "call %u is sent without a result that it needs", call);
  }
  if (needs != 0) ex_saw(EX_SAW_result);
}

void ex_judge_sent(struct ex *ex, uint32_t worker,
                   const struct mst_action *action) {
  struct ex_process *process = &ex->processes[worker];
  const uint8_t call = ex_call_of(ex, action->payload);
  if (call == EX_CALLS || !ex->calls[call].asked) {
    ex_fail(ex, "a call is sent that nobody made");
    return;
  }
  const struct ex_call *at = &ex->calls[call];
  if (process->lacks && (action->flags & MST_FLAG_REPLAY) == 0) {
    ex_fail(ex, "call %u is sent to worker %u, which lacks its state", call,
            worker);
  }
  if (ex->asks[call].has_job && ((process->jobs >> call) & 1) == 0) {
    ex_fail(ex, "call %u is sent without its job", call);
  }
  judge_results(ex, worker, call);
  if ((action->flags & MST_FLAG_REPLAY) != 0) {
    judge_replay(ex, worker, call);
    return;
  }
  if (process->replayed != process->to_replay) {
    ex_fail(ex, "call %u is sent before the journal", call);
  }
  if (at->cancelled) ex_fail(ex, "call %u is sent and was cancelled", call);
  if (at->outcome != EX_PENDING ||
      (at->task != NULL && mst_call_is_done(at->task))) {
    ex_fail(ex, "call %u is sent after its end", call);
  }
  if (action->id <= process->last_id) {
    ex_fail(ex, "call %u is sent twice or out of turn", call);
  }
  if (action->attempt != at->blamed) {
    ex_fail(ex, "call %u is sent as attempt %u, not %u", call, action->attempt,
            at->blamed);
  }
  if (((action->flags & MST_FLAG_TASK) != 0) != ex->asks[call].is_task) {
    ex_fail(ex, "call %u is sent as a task or not", call);
  }
  if (at->blamed > 0) ex_saw(EX_SAW_retried);
  process->last_id = action->id;
  judge_first_sight(ex, worker, call);
  judge_turn(ex, worker, call);
}

// ---- losses

static int is_short(const struct mst_worker *worker) {
  return worker->exit_known && worker->exit_how == MST_EXIT_NONE &&
         worker->exit_number == EAGAIN;
}

static uint8_t limit_of(const struct ex *ex, uint8_t call) {
  const int8_t own = ex->asks[call].retries;
  return (uint8_t)(own >= 0 ? (uint32_t)own : ex->core.policy.retries);
}

// blamed_of gives the call that the process was evaluating when it ended, as far as its answers
// tell; EX_CALLS if none. It may have been making a checkpoint before that call.
static uint8_t blamed_of(const struct ex *ex, uint32_t worker) {
  const struct mst_worker *record = ex->core.pool.workers[worker];
  const struct ex_process *process = &ex->processes[worker];
  uint32_t at = 0;
  while (at < process->in_count && process->in[at].checkpoint)
    at++;
  if (at == process->in_count) return EX_CALLS;
  const struct ex_frame *frame = &process->in[at];
  if (frame->replay || ex->calls[frame->call].cancelled) return EX_CALLS;
  if (record->mailbox.first != NULL && record->mailbox.first->timed_out)
    return EX_CALLS;
  return frame->call;
}

static int is_poison(const struct ex *ex, uint8_t call) {
  const struct mst_call *task = ex->calls[call].task;
  const struct mst_worker *record =
      ex->core.pool.workers[ex->calls[call].mailbox - 1];
  const struct mst_call *at = task != NULL ? task : record->mailbox.answers;
  while (task == NULL && at != NULL && at->tag != call)
    at = at->next;
  return at != NULL && at->state == MST_CALL_LOST && at->loss != NULL &&
         at->loss->kind == MST_LOSS_POISON;
}

void ex_judge_loss(struct ex *ex, uint32_t worker) {
  const struct mst_worker *record = ex->core.pool.workers[worker];
  const struct mst_worker *state = worker_of(ex, worker);
  const struct mst_judged judged = {.oom = ex->plan->oom};
  const int heals = ex->core.policy.on && !record->dead && !is_short(state) &&
                    record->site->is != MST_SITE_LOST &&
                    ex->core.pool.phase == MST_POOL_RUNNING &&
                    state->stop_ns == EX_NEVER;
  const int was_dead = record->dead;
  const uint8_t call = heals ? blamed_of(ex, worker) : EX_CALLS;
  const int last_try = record->launches >= MST_SHORT_TRIES;
  mst_calls_judged(&ex->core, worker, &judged, ex->now_ns);
  if (record->to_heal) return; // it waits for a host
  if (heals && call == EX_CALLS) ex->deaths[worker]++;
  if (record->dead && !was_dead && !ex->lasting && !ex->plan->no_healing &&
      !ex->stopping && !last_try && ex->deaths[worker] <= MST_HEAL_DEATHS) {
    ex_fail(ex, "worker %u is given up", worker);
  }
  if (call == EX_CALLS) return;
  const int poison = ++ex->calls[call].blamed > limit_of(ex, call);
  if (poison != is_poison(ex, call)) {
    ex_fail(ex, "call %u after %u losses is poison or not", call,
            ex->calls[call].blamed);
  }
}

// ---- a core without actions

static void settled_mailbox(struct ex *ex, uint32_t worker) {
  const struct mst_worker *record = ex->core.pool.workers[worker];
  const struct ex_process *process = &ex->processes[worker];
  uint32_t sent = 0, there = 0, passed = 0;
  for (const struct mst_call *at = record->mailbox.first; at != NULL;
       at = at->next) {
    sent += at->sent;
    passed += at->id == process->withdrawn;
  }
  for (uint32_t i = 0; i < process->in_count; i++)
    there += !process->in[i].replay && !process->in[i].checkpoint;
  if (record->due) ex_fail(ex, "worker %u has something to do", worker);
  if (!mst_worker_is_up(record)) return;
  const int asked_to_end = worker_of(ex, worker)->stop_ns != EX_NEVER;
  if (sent != record->mailbox.count && !asked_to_end && !ex->stopping) {
    ex_fail(ex, "calls of worker %u aren't sent", worker);
  }
  if (worker_of(ex, worker)->owed != sent) {
    ex_fail(ex, "worker %u owes %u answers to %u calls", worker,
            worker_of(ex, worker)->owed, sent);
  }
  if (process->life == EX_ALIVE && there + passed != sent) {
    ex_fail(ex, "worker %u has %u calls of %u", worker, there, sent);
  }
}

static int has_room(const struct ex *ex, uint32_t worker) {
  const struct mst_worker *record = ex->core.pool.workers[worker];
  return mst_worker_is_up(record) && !record->dead &&
         record->mailbox.count < MST_TASK_DEPTH &&
         (record->mailbox.first == NULL ||
          record->mailbox.first->id != record->mailbox.slow) &&
         worker_of(ex, worker)->stop_ns == EX_NEVER;
}

// waits_for_one: one of the tasks that it needs isn't over.
static int waits_for_one(const struct ex *ex, uint8_t index) {
  for (uint8_t k = 0; k < index; k++) {
    if ((ex->asks[index].needs & (1u << k)) != 0 &&
        !mst_call_is_done(ex->calls[k].task)) {
      return 1;
    }
  }
  return 0;
}

static void settled_task(struct ex *ex, uint8_t index) {
  struct ex_call *call = &ex->calls[index];
  if (call->task == NULL) return;
  if (call->task->held && !waits_for_one(ex, index)) {
    ex_fail(ex, "task %u waits for nothing", index);
  }
  for (uint32_t i = 0; i < EX_WORKERS && is_queued(ex, index); i++) {
    if (is_for(ex, index, i) && has_room(ex, i)) {
      ex_fail(ex, "task %u waits, and worker %u has room", index, i);
    }
  }
  if (call->cancelled && call->task->state != MST_CALL_CANCELLED) {
    ex_fail(ex, "task %u was cancelled, and ends otherwise", index);
  }
  if (call->cancelled && call->task->counted) {
    ex_fail(ex, "the answer of task %u is kept, and was cancelled", index);
  }
}

static void settled_counts(struct ex *ex) {
  const struct mst_calls *core = &ex->core;
  uint32_t queued = 0, held = 0, limited = 0, awaited = 0, open = 0;
  size_t answer_bytes = 0;
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    const struct mst_call *task = ex->calls[i].task;
    if (task == NULL) continue;
    queued += task->state == MST_CALL_QUEUED && !task->held;
    held += task->held == MST_HELD_WAITING;
    limited += task->timeout_ns > 0;
    awaited += task->state == MST_CALL_QUEUED && task->awaited;
    open += !mst_call_is_done(task);
    answer_bytes += task->counted ? task->value_bytes : 0;
  }
  for (uint32_t i = 0; i < EX_WORKERS; i++) {
    for (const struct mst_call *at = core->pool.workers[i]->mailbox.answers;
         at != NULL; at = at->next)
      answer_bytes += at->counted ? at->value_bytes : 0;
  }
  if (mst_queue_count(&core->dispatch.queue) != queued ||
      core->dispatch.bytes != queued + held) {
    ex_fail(ex, "%u tasks wait, and the queue has %u", queued,
            mst_queue_count(&core->dispatch.queue));
  }
  if (core->dispatch.awaited != awaited) {
    ex_fail(ex, "tasks that somebody waits for");
  }
  if (core->tally.limited != limited) ex_fail(ex, "calls with a limit");
  if (core->tally.answer_bytes != answer_bytes) ex_fail(ex, "bytes of answers");
  if (core->tally.counts->tasks - core->tally.counts->tasks_done != open) {
    ex_fail(ex, "tasks that are not done");
  }
}

void ex_settled(struct ex *ex) {
  const struct mst_calls *core = &ex->core;
  if (core->pool.due.first != NULL || core->told != NULL || core->to_dispatch ||
      core->tally.ready != NULL) {
    ex_fail(ex, "something to do is left");
  }
  for (uint32_t i = 0; i < EX_WORKERS; i++)
    settled_mailbox(ex, i);
  if (!ex->stopping) {
    for (uint8_t i = 0; i < EX_CALLS; i++)
      settled_task(ex, i);
  }
  settled_counts(ex);
}
