// Invariants of the core of calls, checked by tests after every step.
#include <stddef.h>

#include "pool/calls_int.h"
#include "pool/result.h"

static const char *check_list(const struct mst_worker *worker) {
  const struct mst_call *before = NULL;
  uint32_t n = 0;
  int unsent = 0;
  for (const struct mst_call *at = worker->mailbox.first; at != NULL;
       at = at->next) {
    if (at->before != before) return "a mailbox's list is broken";
    if (before != NULL && at->id <= before->id) return "calls out of order";
    if (at->mailbox != &worker->mailbox) return "a call is in another mailbox";
    if (!at->cancelled && at->state != MST_CALL_GIVEN) {
      return "a call in a mailbox that isn't given";
    }
    if (at == worker->mailbox.next_sent) unsent = 1;
    if (at->sent && unsent) return "a call was sent before one ahead of it";
    before = at;
    n++;
  }
  if (worker->mailbox.last != before) return "a mailbox's last call";
  if (worker->mailbox.next_sent != NULL && !unsent)
    return "the next call isn't there";
  return n == worker->mailbox.count ? NULL : "a mailbox's count";
}

static const char *check_answers(const struct mst_worker *worker) {
  uint32_t n = 0;
  for (const struct mst_call *at = worker->mailbox.answers; at != NULL;
       at = at->next) {
    if (at->is_task) return "a task among a mailbox's answers";
    if (at->state != MST_CALL_DONE && at->state != MST_CALL_LOST) {
      return "an answer that was never given";
    }
    n++;
  }
  for (const struct mst_call *at = worker->mailbox.first; at != NULL;
       at = at->next)
    n += !at->is_task && !at->cancelled;
  if (n != worker->mailbox.unread) return "answers to be taken";
  return (worker->mailbox.answered != 0) == (worker->mailbox.answers != NULL)
             ? NULL
             : "an answer is there or not";
}

static const char *check_mailbox(const struct mst_calls *calls,
                                 const struct mst_worker *worker) {
  const char *what = check_list(worker);
  if (what == NULL) what = check_answers(worker);
  if (what != NULL) return what;
  if (mst_worker_is_up(worker) && worker->stop_ns == NEVER &&
      calls->pool.phase == MST_POOL_RUNNING &&
      worker->mailbox.next_sent != NULL &&
      (worker->todo >> MST_DO_EXEC & 1u) == 0) {
    return "a call waits for nothing";
  }
  if (worker->launch_ns != NEVER && worker->state != MST_WORKER_LOST) {
    return "a worker that isn't lost is to be launched later";
  }
  if (worker->todo != 0 && !worker->due) return "something to do is forgotten";
  if (worker->pends && (!worker->awaited || worker->pid != 0))
    return "a launch that waits for a host was given up, or has a process";
  if (worker->pends && worker->link != 0)
    return "a worker that waits for a host is on one";
  if (worker->link > worker->site->link) return "a link that wasn't there";
  return NULL;
}

const char *mst_calls_check(const struct mst_calls *calls) {
  const char *what = mst_pool_check(&calls->pool);
  if (what == NULL) what = mst_queue_check(&calls->dispatch.queue);
  if (what == NULL) what = mst_needs_check(&calls->tally);
  uint32_t to_heal = 0, waiting = 0, alone = 0, quiet = 0, pending = 0;
  for (uint32_t g = 0; what == NULL && g < calls->site_count; g++) {
    what = mst_site_check(&calls->sites[g]);
    pending += calls->sites[g].pending;
  }
  for (uint32_t i = 0; what == NULL && i < calls->pool.count; i++) {
    what = check_mailbox(calls, calls->pool.workers[i]);
    to_heal += calls->pool.workers[i]->to_heal;
    alone += calls->pool.workers[i]->alone >= MST_ALONE_LATER;
    quiet += calls->pool.workers[i]->alone >= MST_ALONE_WAITS;
    waiting += calls->pool.workers[i]->launch_ns != NEVER;
    pending -= calls->pool.workers[i]->pends;
  }
  if (what != NULL) return what;
  if (to_heal != calls->to_heal) return "workers to be healed";
  if (alone != calls->alone || quiet != calls->quiet)
    return "workers that run alone";
  if (pending != 0) return "workers that wait for a host";
  if (waiting != calls->waiting) return "workers to be launched later";
  if (mst_calls_leaves_idle(calls))
    return "a task waits while a worker is idle";
  return NULL;
}
