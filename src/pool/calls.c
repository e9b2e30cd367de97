// The core of calls: set-up and end, facts of the world, answers, time. The contract is in calls.h.
#include "pool/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "pool/calls_int.h"

// Limits on calls are checked this often; signs of life more often than they are due.
#define LOOK_NS (10 * MST_NS_PER_MS)

// ---- life

// set_up prepares the workers from..to - 1 for calls.
static void set_up(struct mst_calls *calls, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) {
    struct mst_worker *worker = calls->pool.workers[i];
    worker->launch_ns = NEVER;
    worker->rng_kept = 1;
    worker->site = &calls->sites[0];
    worker->journal.total = &calls->log_bytes;
    worker->journal.unfit = worker->journal.impossible = calls->no_checkpoints;
  }
}

static void free_journals(struct mst_calls *calls, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++)
    mst_journal_free(&calls->pool.workers[i]->journal);
}

int mst_calls_init(struct mst_calls *calls, uint32_t workers, uint32_t window) {
  memset(calls, 0, sizeof *calls);
  calls->policy.heartbeat_ns = calls->timeout_ns = NEVER;
  calls->policy.replay_max_ns = NEVER;
  calls->answer_bytes_max = MST_ANSWERS_BYTES;
  calls->withdraw_ns = NEVER;
  calls->tally.calls = calls;
  calls->common.journal.total = &calls->log_bytes;
  calls->sites = calloc(1, sizeof *calls->sites);
  if (calls->sites == NULL) return -MST_EMEM;
  calls->site_count = 1;
  const struct mst_site_terms here = {
      .heals = 1, .start_ns = NEVER, .queue_ns = NEVER};
  mst_site_init(calls->sites, &here, MST_SITE_UP, 0);
  const int rc = mst_pool_init(&calls->pool, workers, window);
  if (rc == 0) {
    set_up(calls, 0, workers);
  } else {
    free(calls->sites);
    calls->sites = NULL;
  }
  return rc;
}

void mst_calls_close(struct mst_calls *calls, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  calls->now_ns = now_ns;
  worker->channel = 0; // nothing more is said to it
  while (worker->mailbox.answers != NULL) {
    struct mst_call *answer = worker->mailbox.answers;
    mst_mailbox_take(&worker->mailbox, answer);
    mst_call_release(answer);
  }
  while (worker->mailbox.first != NULL) {
    struct mst_call *call = worker->mailbox.first;
    if (call->is_task) {
      (void)mst_mailbox_finish(&worker->mailbox, call, MST_CALL_LOST, now_ns);
    } else {
      (void)mst_mailbox_drop(&worker->mailbox, call);
    }
  }
  mst_journal_free(&worker->journal);
  worker->replay = worker->replayed = NULL;
  worker->replaying = worker->resuming = 0;
  worker->todo = 0;
  worker->moves = 0;
  if (worker->to_heal) calls->to_heal--;
  worker->to_heal = 0;
  if (worker->launch_ns != NEVER) calls->waiting--;
  worker->launch_ns = NEVER;
  worker->site->pending -= worker->pends;
  worker->pends = 0;
  mst_worker_forget_why(worker);
}

void mst_calls_end_queue(struct mst_calls *calls, int64_t now_ns) {
  calls->now_ns = now_ns;
  mst_dispatch_end(&calls->dispatch, now_ns);
  struct mst_call *held;
  while ((held = calls->tally.ready != NULL ? calls->tally.ready
                                            : calls->tally.waiting) != NULL) {
    mst_dispatch_remove(&calls->dispatch, held);
    mst_call_settle(held, MST_CALL_LOST, now_ns);
  }
}

void mst_calls_end(struct mst_calls *calls, int64_t now_ns) {
  mst_calls_end_queue(calls, now_ns);
  for (uint32_t i = 0; i < calls->pool.count; i++)
    mst_calls_close(calls, i, now_ns);
  while (calls->tally.kept != NULL)
    mst_call_taken(calls->tally.kept);
  mst_common_free(&calls->common);
}

void mst_calls_free(struct mst_calls *calls) {
  mst_calls_end(calls, calls->now_ns);
  while (calls->told != NULL) {
    struct mst_loss *loss = calls->told;
    calls->told = loss->next;
    mst_loss_free(loss);
  }
  if (calls->dropping != NULL) mst_job_forgotten(calls->dropping);
  mst_jobs_free(&calls->jobs);
  mst_dispatch_free(&calls->dispatch);
  free_journals(calls, 0, calls->pool.count);
  mst_pool_free(&calls->pool);
  free(calls->sites);
  memset(calls, 0, sizeof *calls);
}

void mst_calls_begin(struct mst_calls *calls, int64_t now_ns,
                     int64_t deadline_ns, uint32_t need) {
  calls->now_ns = calls->began_ns = now_ns;
  for (uint32_t i = 0; i < calls->pool.count; i++)
    calls->pool.workers[i]->resuming = 1; // until STARTED, or a later RESUME
  mst_pool_begin(&calls->pool, now_ns, deadline_ns, need);
}

int mst_calls_grow(struct mst_calls *calls, uint32_t more, int64_t now_ns) {
  const uint32_t from = calls->pool.count;
  calls->now_ns = now_ns;
  mst_calls_close_cast(calls);
  int rc = mst_pool_make_room(&calls->pool, more);
  if (rc != 0) return rc;
  set_up(calls, from, from + more);
  for (uint32_t i = from; rc == 0 && i < from + more; i++) {
    struct mst_worker *worker = calls->pool.workers[i];
    rc = mst_common_copy(&calls->common, &worker->journal,
                         &worker->mailbox.calls);
  }
  if (rc != 0) {
    free_journals(calls, from, from + more);
    mst_pool_give_room_back(&calls->pool, more);
    return rc;
  }
  mst_pool_grow(&calls->pool, more);
  for (uint32_t i = from; i < from + more; i++) {
    struct mst_worker *worker = calls->pool.workers[i];
    mst_heal_begin(&worker->heal, now_ns);
    worker->resuming = 1;
    mst_calls_tell_pool(calls, MST_EV_RESTART, i);
  }
  return 0;
}

// ---- facts of the world

void mst_calls_fail(struct mst_calls *calls, uint32_t index, enum mst_why why) {
  mst_worker_fail(calls->pool.workers[index], why);
}

void mst_calls_fail_told(struct mst_calls *calls, uint32_t index,
                         const char *text) {
  mst_worker_fail_told(calls->pool.workers[index], text);
}

static void broken(struct mst_calls *calls, struct mst_worker *worker,
                   enum mst_why why) {
  mst_worker_fail(worker, why);
  mst_due_add(&calls->pool.due, worker, MST_DO_BREAK);
  mst_calls_tell_pool(calls, MST_EV_CLOSED, worker->mailbox.worker);
}

void mst_calls_broken(struct mst_calls *calls, uint32_t index, enum mst_why why,
                      int64_t now_ns) {
  calls->now_ns = now_ns;
  broken(calls, calls->pool.workers[index], why);
}

// stay_lost: a worker that is lost, or has left to come back, won't.
static void stay_lost(struct mst_calls *calls, struct mst_worker *worker) {
  const int returns = worker->state == MST_WORKER_LEFT && worker->again;
  if (worker->state != MST_WORKER_LOST && !returns) return;
  worker->dead = 1;
  worker->sys_errno = 0; // mst_calls_revive must pass it over, too
  if (worker->resuming) mst_worker_leave(calls, worker, 0, NULL);
}

// come_back: a worker that moves has left.
static void come_back(struct mst_calls *calls, struct mst_worker *worker) {
  // Its checkpoint stays where it was.
  if (worker->journal.checkpoint || worker->journal.asking) {
    mst_journal_ended(&worker->journal);
    mst_due_add(&calls->pool.due, worker, MST_DO_FORGET);
  }
  mst_worker_return(worker);
  mst_calls_tell_pool(calls, MST_EV_RESTART, worker->mailbox.worker);
}

void mst_worker_left(struct mst_calls *calls, struct mst_worker *worker) {
  const int moves = worker->moves && calls->pool.phase == MST_POOL_RUNNING;
  worker->todo &= ~(1u << MST_DO_LEAVE);
  worker->moves = 0;
  mst_due_add(&calls->pool.due, worker, MST_DO_CLOSE);
  if (moves) {
    come_back(calls, worker);
  } else {
    mst_worker_leave(calls, worker, 0, NULL);
  }
}

static void drain(struct mst_calls *calls, struct mst_worker *worker,
                  const struct mst_event *event) {
  if (calls->pool.phase != MST_POOL_RUNNING) return;
  stay_lost(calls, worker);
  mst_pool_event(&calls->pool, event, calls->now_ns);
  mst_calls_sweep(calls);
}

void mst_calls_move(struct mst_calls *calls, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  const enum mst_worker_state state = worker->state;
  calls->now_ns = now_ns;
  if (!calls->policy.on || !mst_calls_is_usable(calls, worker)) return;
  if (worker->resuming || worker->replay_left > 0) return;
  if (state != MST_WORKER_IDLE && state != MST_WORKER_BUSY) return;
  worker->moves = 1;
  drain(calls, worker,
        &(struct mst_event){.kind = MST_EV_DRAIN, .worker = index});
}

void mst_calls_event(struct mst_calls *calls, const struct mst_event *event,
                     int64_t now_ns) {
  struct mst_worker *worker = event->worker < calls->pool.count
                                  ? calls->pool.workers[event->worker]
                                  : NULL;
  calls->now_ns = now_ns;
  if (worker == NULL) {
    mst_pool_event(&calls->pool, event, calls->now_ns);
    return;
  }
  switch (event->kind) {
  case MST_EV_DRAIN:
    drain(calls, worker, event);
    return;
  case MST_EV_RESTART:
    if (calls->pool.phase == MST_POOL_RUNNING &&
        worker->state == MST_WORKER_LEFT) {
      // Its unanswered tasks fail now.
      if ((worker->todo >> MST_DO_LEAVE & 1u) != 0)
        mst_worker_left(calls, worker);
      mst_worker_return(worker);
    }
    break;
  default:
    break;
  }
  mst_pool_event(&calls->pool, event, calls->now_ns);
  if (event->kind == MST_EV_PENDING && worker->state == MST_WORKER_PENDING)
    mst_worker_hand_back(calls, worker);
}

void mst_calls_retire(struct mst_calls *calls, uint32_t index, int64_t now_ns) {
  calls->now_ns = now_ns;
  stay_lost(calls, calls->pool.workers[index]);
  calls->pool.workers[index]->moves = 0;
  mst_calls_tell_pool(calls, MST_EV_RETIRE, index);
  mst_calls_sweep(calls);
}

void mst_calls_kill(struct mst_calls *calls, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  calls->now_ns = now_ns;
  worker->dead = 1;
  worker->moves = 0;
  worker->sys_errno = 0;
  mst_worker_fail(worker, MST_WHY_KILLED);
  // One that was lost, has left or was never launched may be waiting for its launch.
  const enum mst_worker_state state = worker->state;
  const int waits = state == MST_WORKER_LOST || state == MST_WORKER_LEFT ||
                    state == MST_WORKER_NONE;
  if (waits && worker->resuming) mst_worker_leave(calls, worker, 0, NULL);
  mst_calls_tell_pool(calls, waits ? MST_EV_RETIRE : MST_EV_SILENT, index);
  mst_calls_sweep(calls);
}

// ---- answers

static void drop(struct mst_calls *calls, struct mst_worker *worker,
                 struct mst_call *call) {
  mst_calls_effects(calls, worker, mst_mailbox_drop(&worker->mailbox, call));
}

static void finish(struct mst_calls *calls, struct mst_worker *worker,
                   struct mst_call *call, enum mst_call_state state) {
  mst_calls_effects(
      calls, worker,
      mst_mailbox_finish(&worker->mailbox, call, state, calls->now_ns));
}

int mst_calls_expects(const struct mst_calls *calls, uint32_t index) {
  return calls->pool.workers[index]->owed > 0 ||
         calls->pool.workers[index]->replay_left > 0;
}

int mst_calls_wants(const struct mst_calls *calls, uint32_t index,
                    uint64_t call) {
  const struct mst_call *first = calls->pool.workers[index]->mailbox.first;
  return first != NULL && first->id == call && mst_call_is_wanted(first);
}

int mst_calls_may_read(const struct mst_calls *calls, uint32_t index) {
  const struct mst_worker *worker = calls->pool.workers[index];
  const struct mst_call *first = worker->mailbox.first;
  const int fits = calls->tally.answer_bytes <= calls->answer_bytes_max;
  if (fits || calls->dispatch.awaited > 0) return 1;
  if (first == NULL || worker->replay_left > 0) return 1;
  return first->id <= worker->mailbox.awaited || !mst_call_is_wanted(first);
}

static void take_answer(struct mst_calls *calls, struct mst_worker *worker,
                        struct mst_answered *answered) {
  struct mst_call *call = worker->mailbox.first;
  const int late = call->timed_out && !call->cancelled;
  mst_worker_note(calls, worker, answered);
  // The call may have failed because the worker couldn't read the job.
  if ((answered->flags & MST_FLAG_ERROR) != 0 && call->job != NULL) {
    mst_job_again(call->job, worker->mailbox.worker);
  }
  if (late) {
    // It ends as a timeout; no worker died.
    worker->oom = worker->ours = 0;
    mst_worker_fail_first(calls, worker, MST_LOSS_TIMEOUT, 1, NULL);
  } else {
    if (mst_call_is_wanted(call)) mst_call_keep_answer(call, answered);
    finish(calls, worker, call, MST_CALL_DONE);
  }
  mst_calls_tell_pool(calls, MST_EV_ANSWERED, worker->mailbox.worker);
  mst_worker_look_alone(calls, worker);
  if (calls->tally.ready != NULL) {
    // What waited for this answer goes to the same worker first, and then to all.
    calls->dispatch.turn = worker->mailbox.worker;
    mst_calls_look_for_work(calls);
    return;
  }
  const struct mst_takers takers = mst_calls_takers(calls);
  mst_dispatch_to(&calls->dispatch, &takers, worker->mailbox.worker,
                  &calls->pool.due);
  mst_calls_sent_ahead(calls, worker);
  if (worker->mailbox.count == 0) calls->to_withdraw = 1;
}

static int has_ended(const struct mst_worker *worker) {
  const enum mst_worker_state state = worker->state;
  return state == MST_WORKER_LOST || state == MST_WORKER_STOPPED;
}

void mst_calls_answered(struct mst_calls *calls, uint32_t index,
                        struct mst_answered *answered, int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  const uint64_t oldest = worker->mailbox.first == NULL
                              ? worker->mailbox.calls + 1
                              : worker->mailbox.first->id;
  calls->now_ns = now_ns;
  if ((answered->flags & MST_FLAG_REPLAY) != 0) {
    mst_worker_replayed(calls, worker, answered->flags);
  } else if (answered->call < oldest && has_ended(worker)) {
    // Dropped when the worker was known to have ended, before its channel was read to the end.
    mst_calls_tell_pool(calls, MST_EV_ANSWERED, index);
  } else if (worker->mailbox.first == NULL || answered->call != oldest ||
             !worker->mailbox.first->sent) {
    broken(calls, worker, MST_WHY_ANSWER);
  } else {
    take_answer(calls, worker, answered);
  }
  mst_answered_free(answered);
}

void mst_calls_said(struct mst_calls *calls, uint32_t index,
                    struct mst_answered *answered, int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  struct mst_call *of = worker->mailbox.first;
  calls->now_ns = now_ns;
  const int wanted = of != NULL && of->id == answered->call && of->sent &&
                     mst_call_is_wanted(of);
  struct mst_call *call =
      wanted && !of->is_task ? mst_call_new(&calls->tally, NULL) : NULL;
  if (wanted && of->is_task) {
    mst_call_hear(of, answered);
  } else if (call != NULL) {
    call->id = of->id;
    call->caller = of->caller;
    call->tag = of->tag;
    call->worker = index;
    call->state = MST_CALL_DONE;
    call->done_ns = now_ns;
    mst_call_keep_answer(call, answered);
    mst_mailbox_expect(&worker->mailbox, call->caller);
    mst_mailbox_add_answer(&worker->mailbox, call);
  }
  mst_answered_free(answered);
}

// ---- sending

void mst_calls_sent(struct mst_calls *calls, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  struct mst_call *call = worker->mailbox.sending;
  calls->now_ns = now_ns;
  if (call == NULL) return; // a replayed call
  worker->mailbox.sending = NULL;
  call->sent = 1;
  call->said_now = 0;
  if (call->is_task && call->sent_ns == 0) call->sent_ns = now_ns;
  if (call == worker->mailbox.first) worker->head_ns = now_ns;
  mst_calls_tell_pool(calls, MST_EV_SENT, index);
}

int mst_calls_unsent(struct mst_calls *calls, uint32_t index, enum mst_do what,
                     int rc, int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  struct mst_call *call = worker->mailbox.sending;
  const int gone = rc != -MST_EMEM;
  calls->now_ns = now_ns;
  worker->mailbox.sending = NULL;
  if (what == MST_DO_TRIM) worker->trims = 0;
  if (what == MST_DO_DROP || what == MST_DO_TRIM) return 0;
  if (gone || call == NULL) {
    worker->replaying = 0;
    // The pool will learn of its end.
    mst_due_add(&calls->pool.due, worker, MST_DO_BREAK);
    if (call == NULL || call->is_task || calls->policy.on) return 0;
  }
  const int of_verb = !call->is_task;
  if (of_verb) {
    if (call->id == worker->mailbox.calls) worker->mailbox.calls--;
    drop(calls, worker, call);
  } else {
    finish(calls, worker, call, MST_CALL_LOST);
  }
  return of_verb;
}

// ---- time

static int has_limits(const struct mst_calls *calls) {
  return calls->timeout_ns != NEVER || calls->tally.limited > 0;
}

// is_due tells whether to check each worker: not on every wake-up, there may be a thousand.
static int is_due(const struct mst_calls *calls, int64_t slept_ns) {
  const int64_t beat_ns = calls->policy.heartbeat_ns;
  const int64_t every_ns = has_limits(calls) ? LOOK_NS : beat_ns / 12;
  if (calls->to_heal > 0 || calls->waiting > 0 || calls->alone > 0 ||
      calls->interrupts) {
    return 1;
  }
  if (beat_ns == NEVER && !has_limits(calls)) return 0;
  return slept_ns > beat_ns / 12 ||
         calls->now_ns - calls->looked_ns >= every_ns;
}

void mst_calls_tick(struct mst_calls *calls, int64_t slept_ns, int64_t now_ns) {
  calls->now_ns = now_ns;
  if (now_ns >= calls->withdraw_ns) calls->to_withdraw = 1;
  if (now_ns >= mst_pool_wake_ns(&calls->pool)) {
    mst_calls_tell_pool(calls, MST_EV_TICK, 0);
  }
  if (calls->pool.phase == MST_POOL_DOWN || !is_due(calls, slept_ns)) return;
  calls->looked_ns = now_ns;
  calls->interrupts = 0;
  for (uint32_t i = 0; i < calls->pool.count; i++)
    mst_worker_time(calls, calls->pool.workers[i], slept_ns);
}

int64_t mst_calls_wake_ns(const struct mst_calls *calls) {
  int64_t wake_ns = mst_pool_wake_ns(&calls->pool);
  if (calls->withdraw_ns < wake_ns) wake_ns = calls->withdraw_ns;
  for (uint32_t i = 0; calls->waiting > 0 && i < calls->pool.count; i++) {
    const int64_t launch_ns = calls->pool.workers[i]->launch_ns;
    if (launch_ns < wake_ns) wake_ns = launch_ns;
  }
  for (uint32_t i = 0; calls->quiet > 0 && i < calls->pool.count; i++) {
    const struct mst_worker *worker = calls->pool.workers[i];
    if (worker->alone < MST_ALONE_WAITS) continue;
    const int64_t end_ns = worker->alone_ns + worker->hold_ns + 1;
    if (end_ns < wake_ns) wake_ns = end_ns;
  }
  return wake_ns;
}
