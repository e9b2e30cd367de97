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

static void free_slots(struct mst_calls *calls, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) {
    mst_journal_free(&calls->slots[i]->journal);
    free(calls->slots[i]);
  }
}

// add_slots makes the slots of workers from..to - 1.
static int add_slots(struct mst_calls *calls, uint32_t from, uint32_t to) {
  struct mst_slot **slots =
      mst_fault("calls.alloc")
          ? NULL
          : realloc(calls->slots, to * sizeof(struct mst_slot *));
  if (slots == NULL) return -MST_EMEM;
  calls->slots = slots;
  for (uint32_t i = from; i < to; i++) {
    slots[i] = mst_fault("calls.alloc") ? NULL : calloc(1, sizeof **slots);
    if (slots[i] == NULL) {
      free_slots(calls, from, i);
      return -MST_EMEM;
    }
    slots[i]->mailbox.worker = i;
    slots[i]->launch_ns = NEVER;
    slots[i]->rng_kept = 1;
    slots[i]->journal.total = &calls->log_bytes;
    slots[i]->journal.unfit = slots[i]->journal.impossible =
        calls->no_checkpoints;
  }
  return 0;
}

int mst_calls_init(struct mst_calls *calls, uint32_t workers, uint32_t window) {
  memset(calls, 0, sizeof *calls);
  calls->policy.heartbeat_ns = calls->timeout_ns = NEVER;
  calls->policy.replay_max_ns = NEVER;
  calls->answer_bytes_max = MST_ANSWERS_BYTES;
  calls->withdraw_ns = NEVER;
  calls->tally.calls = calls;
  calls->common.journal.total = &calls->log_bytes;
  int rc = mst_pool_init(&calls->pool, workers, window);
  if (rc != 0) return rc;
  rc = add_slots(calls, 0, workers);
  if (rc == 0) return 0;
  mst_pool_free(&calls->pool);
  free(calls->slots);
  calls->slots = NULL;
  return rc;
}

void mst_calls_close(struct mst_calls *calls, uint32_t worker, int64_t now_ns) {
  struct mst_slot *slot = calls->slots[worker];
  calls->now_ns = now_ns;
  slot->ended = 1;
  while (slot->mailbox.answers != NULL) {
    struct mst_call *answer = slot->mailbox.answers;
    mst_mailbox_take(&slot->mailbox, answer);
    mst_call_release(answer);
  }
  while (slot->mailbox.first != NULL) {
    struct mst_call *call = slot->mailbox.first;
    if (call->is_task) {
      (void)mst_mailbox_finish(&slot->mailbox, call, MST_CALL_LOST, now_ns);
    } else {
      (void)mst_mailbox_drop(&slot->mailbox, call);
    }
  }
  mst_journal_free(&slot->journal);
  slot->replay = slot->replayed = NULL;
  slot->replaying = slot->resuming = 0;
  slot->mailbox.todo = 0;
  if (slot->drains) calls->draining--;
  slot->drains = slot->moves = 0;
  if (slot->to_heal) calls->to_heal--;
  slot->to_heal = 0;
  if (slot->launch_ns != NEVER) calls->waiting--;
  slot->launch_ns = NEVER;
  mst_slot_forget_why(slot);
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
  free_slots(calls, 0, calls->pool.count);
  free(calls->slots);
  mst_pool_free(&calls->pool);
  memset(calls, 0, sizeof *calls);
}

void mst_calls_begin(struct mst_calls *calls, int64_t now_ns,
                     int64_t deadline_ns, uint32_t need) {
  calls->now_ns = calls->began_ns = now_ns;
  for (uint32_t i = 0; i < calls->pool.count; i++)
    calls->slots[i]->resuming = 1; // until STARTED, or a later JOINED
  mst_pool_begin(&calls->pool, now_ns, deadline_ns, need);
}

int mst_calls_grow(struct mst_calls *calls, uint32_t more, int64_t now_ns) {
  const uint32_t from = calls->pool.count;
  calls->now_ns = now_ns;
  if (more > UINT32_MAX - from) return -MST_EINPUT;
  mst_calls_close_cast(calls);
  int rc = add_slots(calls, from, from + more);
  if (rc != 0) return rc;
  for (uint32_t i = from; rc == 0 && i < from + more; i++) {
    struct mst_slot *slot = calls->slots[i];
    rc = mst_common_copy(&calls->common, &slot->journal, &slot->mailbox.calls);
  }
  if (rc == 0) rc = mst_pool_grow(&calls->pool, more);
  if (rc != 0) {
    free_slots(calls, from, from + more);
    return rc;
  }
  for (uint32_t i = from; i < from + more; i++) {
    mst_heal_begin(&calls->slots[i]->heal, now_ns);
    calls->slots[i]->ended = 1;
    calls->slots[i]->resuming = 1;
    mst_calls_tell_pool(calls, MST_EV_RESTART, i);
  }
  return 0;
}

// ---- facts of the world

void mst_calls_fail(struct mst_calls *calls, uint32_t worker,
                    enum mst_why why) {
  mst_slot_fail(calls->slots[worker], why);
}

void mst_calls_fail_told(struct mst_calls *calls, uint32_t worker,
                         const char *text) {
  mst_slot_fail_told(calls->slots[worker], text);
}

static void broken(struct mst_calls *calls, struct mst_slot *slot,
                   enum mst_why why) {
  mst_slot_fail(slot, why);
  slot->ended = 1;
  mst_due_add(&calls->due, &slot->mailbox, MST_TODO_BREAK);
  mst_calls_tell_pool(calls, MST_EV_CLOSED, slot->mailbox.worker);
}

void mst_calls_broken(struct mst_calls *calls, uint32_t worker,
                      enum mst_why why, int64_t now_ns) {
  calls->now_ns = now_ns;
  broken(calls, calls->slots[worker], why);
}

// stay_lost: a worker that is lost, or has left to come back, won't.
static void stay_lost(struct mst_calls *calls, struct mst_slot *slot) {
  const struct mst_worker *worker = worker_of(calls, slot);
  const int returns = worker->state == MST_WORKER_LEFT && worker->again;
  if (worker->state != MST_WORKER_LOST && !returns) return;
  slot->dead = 1;
  slot->sys_errno = 0; // mst_calls_revive must pass it over, too
  if (slot->resuming) mst_slot_leave(calls, slot, 0, NULL);
}

// come_back: a worker that moves has left.
static void come_back(struct mst_calls *calls, struct mst_slot *slot) {
  // Its checkpoint stays where it was.
  if (slot->journal.checkpoint || slot->journal.asking) {
    mst_journal_ended(&slot->journal);
    mst_due_add(&calls->due, &slot->mailbox, MST_TODO_FORGET);
  }
  mst_slot_return(calls, slot);
  mst_calls_tell_pool(calls, MST_EV_RESTART, slot->mailbox.worker);
}

void mst_calls_look_for_left(struct mst_calls *calls) {
  for (uint32_t i = 0; calls->draining > 0 && i < calls->pool.count; i++) {
    struct mst_slot *slot = calls->slots[i];
    const struct mst_worker *worker = worker_of(calls, slot);
    const int left = worker->state == MST_WORKER_LEFT;
    const int moves = slot->moves;
    if (!slot->drains || (!left && worker->drains)) continue;
    slot->drains = slot->moves = 0;
    calls->draining--;
    if (!left) continue; // it was asked to end in another way, or was lost
    slot->ended = 1;
    if (moves && calls->pool.phase == MST_POOL_RUNNING) {
      come_back(calls, slot);
    } else {
      mst_slot_leave(calls, slot, 0, NULL);
    }
  }
}

static void drain(struct mst_calls *calls, struct mst_slot *slot,
                  const struct mst_event *event) {
  if (calls->pool.phase != MST_POOL_RUNNING) return;
  stay_lost(calls, slot);
  mst_pool_event(&calls->pool, event, calls->now_ns);
  if (!slot->drains) calls->draining++;
  slot->drains = 1;
  mst_calls_sweep(calls);
}

void mst_calls_move(struct mst_calls *calls, uint32_t worker, int64_t now_ns) {
  struct mst_slot *slot = calls->slots[worker];
  const enum mst_worker_state state = worker_of(calls, slot)->state;
  calls->now_ns = now_ns;
  if (!calls->policy.on || !mst_calls_is_usable(calls, slot)) return;
  if (slot->resuming || slot->replay_left > 0) return;
  if (state != MST_WORKER_IDLE && state != MST_WORKER_BUSY) return;
  slot->moves = 1;
  drain(calls, slot,
        &(struct mst_event){.kind = MST_EV_DRAIN, .worker = worker});
}

void mst_calls_event(struct mst_calls *calls, const struct mst_event *event,
                     int64_t now_ns) {
  struct mst_slot *slot =
      event->worker < calls->pool.count ? calls->slots[event->worker] : NULL;
  calls->now_ns = now_ns;
  if (slot == NULL) {
    mst_pool_event(&calls->pool, event, calls->now_ns);
    return;
  }
  switch (event->kind) {
  case MST_EV_DRAIN:
    drain(calls, slot, event);
    return;
  case MST_EV_RESTART:
    if (calls->pool.phase == MST_POOL_RUNNING &&
        worker_of(calls, slot)->state == MST_WORKER_LEFT) {
      mst_calls_look_for_left(calls); // its unanswered tasks fail now
      mst_slot_return(calls, slot);
    }
    break;
  case MST_EV_CLOSED:
    slot->ended = 1;
    break;
  default:
    break;
  }
  mst_pool_event(&calls->pool, event, calls->now_ns);
  if (event->kind == MST_EV_PENDING &&
      worker_of(calls, slot)->state == MST_WORKER_PENDING)
    mst_slot_hand_back(calls, slot);
}

void mst_calls_retire(struct mst_calls *calls, uint32_t worker,
                      int64_t now_ns) {
  calls->now_ns = now_ns;
  stay_lost(calls, calls->slots[worker]);
  calls->slots[worker]->moves = 0;
  mst_calls_tell_pool(calls, MST_EV_RETIRE, worker);
  mst_calls_sweep(calls);
}

void mst_calls_kill(struct mst_calls *calls, uint32_t worker, int64_t now_ns) {
  struct mst_slot *slot = calls->slots[worker];
  calls->now_ns = now_ns;
  slot->dead = 1;
  slot->moves = 0;
  slot->sys_errno = 0;
  mst_slot_fail(slot, MST_WHY_KILLED);
  // One that was lost, has left or was never launched may be waiting for its launch.
  const enum mst_worker_state state = worker_of(calls, slot)->state;
  const int waits = state == MST_WORKER_LOST || state == MST_WORKER_LEFT ||
                    state == MST_WORKER_NONE;
  if (waits && slot->resuming) mst_slot_leave(calls, slot, 0, NULL);
  mst_calls_tell_pool(calls, waits ? MST_EV_RETIRE : MST_EV_SILENT, worker);
  mst_calls_sweep(calls);
}

// ---- answers

static void drop(struct mst_calls *calls, struct mst_slot *slot,
                 struct mst_call *call) {
  mst_calls_effects(calls, slot, mst_mailbox_drop(&slot->mailbox, call));
}

static void finish(struct mst_calls *calls, struct mst_slot *slot,
                   struct mst_call *call, enum mst_call_state state) {
  mst_calls_effects(
      calls, slot,
      mst_mailbox_finish(&slot->mailbox, call, state, calls->now_ns));
}

int mst_calls_expects(const struct mst_calls *calls, uint32_t worker) {
  return calls->pool.workers[worker].owed > 0 ||
         calls->slots[worker]->replay_left > 0;
}

int mst_calls_wants(const struct mst_calls *calls, uint32_t worker,
                    uint64_t call) {
  const struct mst_call *first = calls->slots[worker]->mailbox.first;
  return first != NULL && first->id == call && mst_call_is_wanted(first);
}

int mst_calls_may_read(const struct mst_calls *calls, uint32_t worker) {
  const struct mst_slot *slot = calls->slots[worker];
  const struct mst_call *first = slot->mailbox.first;
  const int fits = calls->tally.answer_bytes <= calls->answer_bytes_max;
  if (fits || calls->dispatch.awaited > 0) return 1;
  if (first == NULL || slot->replay_left > 0) return 1;
  return first->id <= slot->mailbox.awaited || !mst_call_is_wanted(first);
}

static void take_answer(struct mst_calls *calls, struct mst_slot *slot,
                        struct mst_answered *answered) {
  struct mst_call *call = slot->mailbox.first;
  const int late = call->timed_out && !call->cancelled;
  mst_slot_note(calls, slot, answered);
  // The call may have failed because the worker couldn't read the job.
  if ((answered->flags & MST_FLAG_ERROR) != 0 && call->job != NULL) {
    mst_job_again(call->job, slot->mailbox.worker);
  }
  if (late) {
    // It ends as a timeout; no worker died.
    slot->oom = slot->ours = 0;
    mst_slot_fail_first(calls, slot, MST_LOSS_TIMEOUT, 1, NULL);
  } else {
    if (mst_call_is_wanted(call)) mst_call_keep_answer(call, answered);
    finish(calls, slot, call, MST_CALL_DONE);
  }
  mst_calls_tell_pool(calls, MST_EV_ANSWERED, slot->mailbox.worker);
  mst_slot_look_alone(calls, slot);
  if (calls->tally.ready != NULL) {
    // What waited for this answer goes to the same worker first, and then to all.
    calls->dispatch.turn = slot->mailbox.worker;
    mst_calls_look_for_work(calls);
    return;
  }
  const struct mst_takers takers = mst_calls_takers(calls);
  mst_dispatch_to(&calls->dispatch, &takers, slot->mailbox.worker, &calls->due);
  mst_calls_sent_ahead(calls, slot);
  if (slot->mailbox.count == 0) calls->to_withdraw = 1;
}

static int has_ended(const struct mst_calls *calls,
                     const struct mst_slot *slot) {
  const enum mst_worker_state state = worker_of(calls, slot)->state;
  return state == MST_WORKER_LOST || state == MST_WORKER_STOPPED;
}

void mst_calls_answered(struct mst_calls *calls, uint32_t worker,
                        struct mst_answered *answered, int64_t now_ns) {
  struct mst_slot *slot = calls->slots[worker];
  const uint64_t oldest = slot->mailbox.first == NULL ? slot->mailbox.calls + 1
                                                      : slot->mailbox.first->id;
  calls->now_ns = now_ns;
  if ((answered->flags & MST_FLAG_REPLAY) != 0) {
    mst_slot_replayed(calls, slot, answered->flags);
  } else if (answered->call < oldest && has_ended(calls, slot)) {
    // Dropped when the worker was known to have ended, before its channel was read to the end.
    mst_calls_tell_pool(calls, MST_EV_ANSWERED, worker);
  } else if (slot->mailbox.first == NULL || answered->call != oldest ||
             !slot->mailbox.first->sent) {
    broken(calls, slot, MST_WHY_ANSWER);
  } else {
    take_answer(calls, slot, answered);
  }
  mst_answered_free(answered);
}

void mst_calls_said(struct mst_calls *calls, uint32_t worker,
                    struct mst_answered *answered, int64_t now_ns) {
  struct mst_slot *slot = calls->slots[worker];
  struct mst_call *of = slot->mailbox.first;
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
    call->worker = worker;
    call->state = MST_CALL_DONE;
    call->done_ns = now_ns;
    mst_call_keep_answer(call, answered);
    mst_mailbox_expect(&slot->mailbox, call->caller);
    mst_mailbox_add_answer(&slot->mailbox, call);
  }
  mst_answered_free(answered);
}

// ---- sending

void mst_calls_sent(struct mst_calls *calls, uint32_t worker, int64_t now_ns) {
  struct mst_slot *slot = calls->slots[worker];
  struct mst_call *call = slot->mailbox.sending;
  calls->now_ns = now_ns;
  if (call == NULL) return; // a replayed call
  slot->mailbox.sending = NULL;
  call->sent = 1;
  call->said_now = 0;
  if (call->is_task && call->sent_ns == 0) call->sent_ns = now_ns;
  if (call == slot->mailbox.first) slot->head_ns = now_ns;
  mst_calls_tell_pool(calls, MST_EV_SENT, worker);
}

int mst_calls_unsent(struct mst_calls *calls, uint32_t worker,
                     enum mst_calls_do what, int rc, int64_t now_ns) {
  struct mst_slot *slot = calls->slots[worker];
  struct mst_call *call = slot->mailbox.sending;
  const int gone = rc != -MST_EMEM;
  calls->now_ns = now_ns;
  slot->mailbox.sending = NULL;
  if (what == MST_CALLS_TRIM) slot->trims = 0;
  if (what == MST_CALLS_DROP || what == MST_CALLS_TRIM) return 0;
  if (gone || call == NULL) {
    slot->replaying = 0;
    // The pool will learn of its end.
    mst_due_add(&calls->due, &slot->mailbox, MST_TODO_BREAK);
    if (call == NULL || call->is_task || calls->policy.on) return 0;
  }
  const int of_verb = !call->is_task;
  if (of_verb) {
    if (call->id == slot->mailbox.calls) slot->mailbox.calls--;
    drop(calls, slot, call);
  } else {
    finish(calls, slot, call, MST_CALL_LOST);
  }
  return of_verb;
}

// ---- time

static int has_limits(const struct mst_calls *calls) {
  return calls->timeout_ns != NEVER || calls->tally.limited > 0;
}

// is_due tells whether to check each slot: not on every wake-up, there may be a thousand.
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
    mst_slot_time(calls, calls->slots[i], slept_ns);
}

int64_t mst_calls_wake_ns(const struct mst_calls *calls) {
  int64_t wake_ns = mst_pool_wake_ns(&calls->pool);
  if (calls->withdraw_ns < wake_ns) wake_ns = calls->withdraw_ns;
  for (uint32_t i = 0; calls->waiting > 0 && i < calls->pool.count; i++) {
    const int64_t launch_ns = calls->slots[i]->launch_ns;
    if (launch_ns < wake_ns) wake_ns = launch_ns;
  }
  for (uint32_t i = 0; calls->quiet > 0 && i < calls->pool.count; i++) {
    const struct mst_slot *slot = calls->slots[i];
    if (slot->alone < MST_ALONE_WAITS) continue;
    const int64_t end_ns = slot->alone_ns + slot->hold_ns + 1;
    if (end_ns < wake_ns) wake_ns = end_ns;
  }
  return wake_ns;
}
