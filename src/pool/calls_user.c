// Requests of users to the core of calls: verbs' calls to one worker, tasks to any. The contract is
// in calls.h.
#include <string.h>

#include "base/mst_err.h"
#include "pool/calls_int.h"
#include "pool/result.h"

// ---- verbs

int mst_calls_send(struct mst_calls *calls, uint32_t index,
                   struct mst_blob *payload, const void *caller, int32_t tag,
                   uint8_t unseen, int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  calls->now_ns = now_ns;
  if (worker->dead) (void)mst_calls_revive(calls, now_ns);
  if (!mst_calls_is_usable(calls, worker) ||
      (!calls->policy.on && mst_worker_is_gone(worker))) {
    return -MST_ECLOSED;
  }
  struct mst_call *call = mst_call_new(&calls->tally, payload);
  if (call == NULL) return -MST_EMEM;
  call->caller = caller;
  call->tag = tag;
  call->unseen = unseen;
  call->cast = mst_calls_cast_of(calls, worker, payload, caller);
  mst_mailbox_expect(&worker->mailbox, caller);
  mst_mailbox_add(&worker->mailbox, call);
  // A worker that is lost or coming back gets its calls once it is there again.
  if (mst_worker_is_up(worker)) {
    mst_due_add(&calls->pool.due, worker, MST_DO_EXEC);
  }
  return 0;
}

void mst_calls_await(struct mst_calls *calls, uint32_t index) {
  struct mst_worker *worker = calls->pool.workers[index];
  worker->mailbox.awaited = worker->mailbox.calls;
  mst_calls_close_cast(calls);
}

void mst_calls_forget(struct mst_calls *calls, uint32_t index,
                      const void *caller, int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  calls->now_ns = now_ns;
  mst_calls_close_cast(calls);
  mst_calls_effects(calls, worker,
                    mst_mailbox_forget(&worker->mailbox, caller));
  mst_calls_drop_unsent(calls, worker);
}

// ---- tasks

static int can_have(struct mst_calls *calls, const uint32_t *workers,
                    uint32_t count) {
  const uint32_t n = workers == NULL ? calls->pool.count : count;
  for (uint32_t k = 0; k < n; k++) {
    const uint32_t index = workers == NULL ? k : workers[k];
    if (mst_calls_is_usable(calls, calls->pool.workers[index])) return 1;
  }
  return 0;
}

struct mst_call *mst_calls_submit(struct mst_calls *calls,
                                  struct mst_blob *payload,
                                  const uint32_t *workers, uint32_t count,
                                  const struct mst_task_terms *terms,
                                  int64_t now_ns) {
  struct mst_call *call = mst_call_new(&calls->tally, payload);
  if (call == NULL) return NULL;
  calls->now_ns = now_ns;
  call->is_task = 1;
  call->serial = calls->tally.counts->tasks + 1;
  call->retries = terms->retries;
  call->is_part = terms->is_part;
  call->alone = terms->alone;
  call->asked_ns = now_ns;
  if (terms->label != NULL && (call->label = strdup(terms->label)) == NULL) {
    mst_call_release(call);
    return NULL;
  }
  call->queued = (struct mst_queued){.serial = call->serial,
                                     .priority = terms->priority,
                                     .group = terms->group,
                                     .owner = call};
  if (mst_dispatch_put(&calls->dispatch, call, workers, count) != 0) {
    mst_call_release(call);
    return NULL;
  }
  call->job = terms->job;
  if (mst_needs_begin(call) != 0) {
    call->job = NULL;
    mst_dispatch_remove(&calls->dispatch, call);
    mst_call_release(call);
    return NULL;
  }
  if (call->held) mst_dispatch_hold(&calls->dispatch, call);
  call->refs++; // the caller's
  calls->tally.counts->tasks++;
  call->timeout_ns = terms->timeout_ns;
  if (call->timeout_ns > 0) calls->tally.limited++;
  mst_job_keep(call->job);
  mst_job_use(call->job);
  if (!can_have(calls, workers, count) &&
      (mst_calls_revive(calls, now_ns) == 0 ||
       !can_have(calls, workers, count))) {
    mst_dispatch_strand(&calls->dispatch, call, now_ns);
    return call;
  }
  calls->to_dispatch = 1;
  return call;
}

struct visiting {
  void (*visit)(void *, struct mst_call *);
  void *owner;
};

static void visit_task(void *owner, struct mst_call *call) {
  const struct visiting *visiting = owner;
  if (!call->is_task || call->is_part || mst_call_is_done(call)) return;
  visiting->visit(visiting->owner, call);
}

static void visit_queued(void *owner, struct mst_queued *item) {
  visit_task(owner, item->owner);
}

static void visit_list(struct visiting *visiting, struct mst_call *first) {
  for (struct mst_call *at = first; at != NULL; at = at->next)
    visit_task(visiting, at);
}

void mst_calls_each_task(const struct mst_calls *calls,
                         void (*visit)(void *, struct mst_call *),
                         void *owner) {
  struct visiting visiting = {visit, owner};
  mst_queue_each(&calls->dispatch.queue, visit_queued, &visiting);
  visit_list(&visiting, calls->tally.waiting);
  visit_list(&visiting, calls->tally.ready);
  for (uint32_t i = 0; i < calls->pool.count; i++)
    visit_list(&visiting, calls->pool.workers[i]->mailbox.first);
}

int mst_call_cancel(struct mst_call *task, int64_t now_ns) {
  if (mst_call_is_done(task)) return 0;
  struct mst_calls *calls = task->tally->calls;
  calls->now_ns = now_ns;
  if (task->state == MST_CALL_QUEUED) {
    mst_dispatch_remove(&calls->dispatch, task);
    mst_call_settle(task, MST_CALL_CANCELLED, now_ns);
    return 1;
  }
  // In a mailbox it is answered or lost like any other call, and then releases its reference.
  task->cancelled = 1;
  mst_call_end(task, MST_CALL_CANCELLED, now_ns);
  struct mst_worker *worker = calls->pool.workers[task->worker];
  if (task == worker->mailbox.first)
    mst_calls_effects(calls, worker, MST_MAILBOX_INTERRUPT);
  mst_calls_drop_unsent(calls, worker);
  return 1;
}

void mst_calls_await_task(struct mst_call *task) {
  if (mst_call_is_done(task)) return;
  if (task->state == MST_CALL_QUEUED) {
    mst_dispatch_await(&task->tally->calls->dispatch, task);
  } else if (task->mailbox->awaited < task->id) {
    task->mailbox->awaited = task->id;
  }
}
