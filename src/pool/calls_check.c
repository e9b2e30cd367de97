// Invariants of the core of calls, checked by tests after every step.
#include <stddef.h>

#include "pool/calls_int.h"
#include "pool/result.h"

static const char *check_list(const struct mst_slot *slot) {
  const struct mst_call *before = NULL;
  uint32_t n = 0;
  int unsent = 0;
  for (const struct mst_call *at = slot->mailbox.first; at != NULL;
       at = at->next) {
    if (at->before != before) return "a mailbox's list is broken";
    if (before != NULL && at->id <= before->id) return "calls out of order";
    if (at->mailbox != &slot->mailbox) return "a call is in another mailbox";
    if (!at->cancelled && at->state != MST_CALL_GIVEN) {
      return "a call in a mailbox that isn't given";
    }
    if (at == slot->mailbox.next_sent) unsent = 1;
    if (at->sent && unsent) return "a call was sent before one ahead of it";
    before = at;
    n++;
  }
  if (slot->mailbox.last != before) return "a mailbox's last call";
  if (slot->mailbox.next_sent != NULL && !unsent)
    return "the next call isn't there";
  return n == slot->mailbox.count ? NULL : "a mailbox's count";
}

static const char *check_answers(const struct mst_slot *slot) {
  uint32_t n = 0;
  for (const struct mst_call *at = slot->mailbox.answers; at != NULL;
       at = at->next) {
    if (at->is_task) return "a task among a mailbox's answers";
    if (at->state != MST_CALL_DONE && at->state != MST_CALL_LOST) {
      return "an answer that was never given";
    }
    n++;
  }
  for (const struct mst_call *at = slot->mailbox.first; at != NULL;
       at = at->next)
    n += !at->is_task && !at->cancelled;
  if (n != slot->mailbox.unread) return "answers to be taken";
  return (slot->mailbox.answered != 0) == (slot->mailbox.answers != NULL)
             ? NULL
             : "an answer is there or not";
}

static const char *check_mailbox(const struct mst_calls *calls,
                                 const struct mst_slot *slot) {
  const struct mst_worker *worker = worker_of(calls, slot);
  const char *what = check_list(slot);
  if (what == NULL) what = check_answers(slot);
  if (what != NULL) return what;
  if (mst_calls_is_up(calls, slot) && worker->stop_ns == NEVER &&
      calls->pool.phase == MST_POOL_RUNNING &&
      slot->mailbox.next_sent != NULL &&
      (slot->mailbox.todo & MST_TODO_CALLS) == 0) {
    return "a call waits for nothing";
  }
  if (slot->launch_ns != NEVER && worker->state != MST_WORKER_LOST) {
    return "a worker that isn't lost is to be launched later";
  }
  if (slot->mailbox.todo != 0 && !slot->mailbox.due)
    return "something to do is forgotten";
  return NULL;
}

const char *mst_calls_check(const struct mst_calls *calls) {
  const char *what = mst_pool_check(&calls->pool);
  if (what == NULL) what = mst_queue_check(&calls->dispatch.queue);
  if (what == NULL) what = mst_needs_check(&calls->tally);
  uint32_t to_heal = 0, waiting = 0, draining = 0, alone = 0, quiet = 0;
  for (uint32_t i = 0; what == NULL && i < calls->pool.count; i++) {
    what = check_mailbox(calls, calls->slots[i]);
    to_heal += calls->slots[i]->to_heal;
    draining += calls->slots[i]->drains;
    alone += calls->slots[i]->alone >= MST_ALONE_LATER;
    quiet += calls->slots[i]->alone >= MST_ALONE_WAITS;
    waiting += calls->slots[i]->launch_ns != NEVER;
  }
  if (what != NULL) return what;
  if (to_heal != calls->to_heal) return "slots to be healed";
  if (draining != calls->draining) return "slots that drain";
  if (alone != calls->alone || quiet != calls->quiet)
    return "slots that run alone";
  if (waiting != calls->waiting) return "slots to be launched later";
  if (mst_calls_leaves_idle(calls))
    return "a task waits while a worker is idle";
  return NULL;
}
