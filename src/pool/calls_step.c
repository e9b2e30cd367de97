// Small steps of the core of calls. See calls_int.h.
#include "pool/calls_int.h"
#include "pool/result.h"

void mst_calls_tell_pool(struct mst_calls *calls, enum mst_event_kind kind,
                         uint32_t index) {
  const struct mst_event event = {.kind = kind, .worker = index};
  mst_pool_event(&calls->pool, &event, calls->now_ns);
}

int mst_worker_is_up(const struct mst_worker *worker) {
  const enum mst_worker_state state = worker->state;
  return (state == MST_WORKER_IDLE || state == MST_WORKER_BUSY) &&
         !worker->resuming && worker->channel;
}

int mst_calls_is_usable(const struct mst_calls *calls,
                        const struct mst_worker *worker) {
  if (worker->dead) return 0;
  if (worker->moves || worker->again)
    return calls->pool.phase == MST_POOL_RUNNING;
  return worker->stop_ns == NEVER && !worker->drains;
}

static int usable(void *owner, uint32_t index) {
  const struct mst_calls *calls = owner;
  return mst_calls_is_usable(calls, calls->pool.workers[index]);
}

static struct mst_worker *open_worker(void *owner, uint32_t index) {
  const struct mst_calls *calls = owner;
  struct mst_worker *worker = calls->pool.workers[index];
  if (!usable(owner, index) || !mst_worker_is_up(worker)) return NULL;
  // Nothing is sent ahead to wait behind a call that has run for long.
  const struct mst_call *first = worker->mailbox.first;
  if (first != NULL && first->sent &&
      calls->now_ns - worker->head_ns >= MST_AHEAD_NS)
    worker->mailbox.slow = first->id;
  return worker;
}

struct mst_takers mst_calls_takers(struct mst_calls *calls) {
  return (struct mst_takers){.count = calls->pool.count,
                             .open = open_worker,
                             .usable = usable,
                             .owner = calls,
                             .quiet = calls->quiet > 0};
}

void mst_calls_sweep(struct mst_calls *calls) {
  const struct mst_takers takers = mst_calls_takers(calls);
  mst_dispatch_sweep(&calls->dispatch, &takers, calls->now_ns);
}

// go_on queues one of them.
static void go_on(struct mst_calls *calls, struct mst_call *task) {
  struct mst_dispatch *dispatch = &calls->dispatch;
  mst_needs_end(task);
  if (task->cause == NULL && mst_dispatch_let_go(dispatch, task) == 0) {
    calls->to_dispatch = 1;
    if (!mst_queue_is_usable(&task->queued, calls->pool.count, usable, calls))
      mst_dispatch_strand(dispatch, task, calls->now_ns);
  } else {
    mst_dispatch_remove(dispatch, task);
    mst_call_settle(task, MST_CALL_LOST, calls->now_ns);
  }
}

void mst_calls_go_on(struct mst_calls *calls) {
  while (calls->tally.ready != NULL)
    go_on(calls, calls->tally.ready);
}

// interrupt has the worker interrupt its oldest call.
static void interrupt(struct mst_calls *calls, struct mst_worker *worker) {
  if (!worker->channel) return;
  mst_due_add(&calls->pool.due, worker, MST_DO_CANCEL);
  calls->interrupts = 1;
  if (worker->cancel == worker->mailbox.first->id)
    return; // its grace runs already
  worker->cancel = worker->mailbox.first->id;
  worker->cancel_ns = calls->now_ns;
}

void mst_calls_effects(struct mst_calls *calls, struct mst_worker *worker,
                       unsigned effects) {
  if ((effects & MST_MAILBOX_INTERRUPT) != 0) interrupt(calls, worker);
}

void mst_calls_drop_unsent(struct mst_calls *calls, struct mst_worker *worker) {
  const enum mst_worker_state state = worker->state;
  if (mst_worker_is_up(worker)) return; // it has them, and will answer
  // Calls that were sent stay until the verdict: the oldest is to blame for the death.
  const int ended = state == MST_WORKER_STOPPED || state == MST_WORKER_LEFT;
  mst_calls_effects(calls, worker,
                    mst_mailbox_drop_cancelled(&worker->mailbox, ended));
}

void mst_worker_hand_back(struct mst_calls *calls, struct mst_worker *worker) {
  struct mst_mailbox *mailbox = &worker->mailbox;
  for (struct mst_call *call = mailbox->first, *next; call != NULL;
       call = next) {
    next = call->next;
    if (!call->is_task || call->cancelled) continue;
    const int awaited = call->id <= mailbox->awaited;
    // Without memory it stays, and waits with its worker.
    if (mst_dispatch_return(&calls->dispatch, call) != 0) continue;
    mst_calls_effects(calls, worker, mst_mailbox_withdraw(mailbox, call));
    if (awaited) mst_dispatch_await(&calls->dispatch, call);
    mst_calls_look_for_work(calls);
  }
}
