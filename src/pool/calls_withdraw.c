// Work finds an idle worker: a task that was sent ahead goes back to the queue while it waits
// behind a call, at once if another worker is idle, else when the call has run for so long that a
// round trip costs nothing beside it: so it keeps its place in the queue. The contract is in
// calls.h.
//
// A worker is asked on its control channel, which its watch serves while R computes. It answers
// only if the task hasn't begun, and then passes it over. So a task is never evaluated twice, and
// one without an answer stays where it is.
#include "pool/calls_int.h"

static int is_idle(void *owner, uint32_t index) {
  const struct mst_calls *calls = owner;
  const struct mst_worker *worker = calls->pool.workers[index];
  return worker->mailbox.count == 0 && mst_calls_is_usable(calls, worker) &&
         mst_worker_is_up(worker);
}

static uint32_t count_idle(const struct mst_calls *calls) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < calls->pool.count; i++)
    n += (uint32_t)is_idle((void *)(uintptr_t)calls, i);
  return n;
}

// waiting_task gives the task that waits in a worker behind a call, sent or not, if its worker may
// be asked for it, or NULL.
static struct mst_call *waiting_task(const struct mst_worker *worker) {
  struct mst_call *task = worker->mailbox.last;
  if (worker->mailbox.count < 2 || !task->is_task) return NULL;
  if (task->cancelled || task->withdraws) return NULL;
  if (!mst_worker_is_up(worker)) return NULL;
  return task;
}

// suits_idle tells whether a worker that is idle may take the task.
static int suits_idle(const struct mst_calls *calls,
                      const struct mst_call *task) {
  return mst_queue_is_usable(&task->queued, calls->pool.count, is_idle,
                             (void *)(uintptr_t)calls);
}

int mst_calls_leaves_idle(const struct mst_calls *calls) {
  if (calls->to_withdraw || calls->to_dispatch || calls->pool.due.first != NULL)
    return 0;
  if (calls->withdraw_ns != NEVER || calls->quiet > 0) return 0;
  if (calls->pool.phase != MST_POOL_RUNNING) return 0;
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    const struct mst_call *task = waiting_task(calls->pool.workers[i]);
    if (task != NULL && suits_idle(calls, task)) return 1;
  }
  return 0;
}

static void look_again(struct mst_calls *calls, int64_t at_ns) {
  if (at_ns < calls->withdraw_ns) calls->withdraw_ns = at_ns;
}

static void ask_for(struct mst_calls *calls, struct mst_worker *worker,
                    struct mst_call *task) {
  task->withdraws = 1;
  worker->mailbox.withdraw = task->id;
  worker->mailbox.slow = worker->mailbox.first->id;
  mst_due_add(&calls->pool.due, worker, MST_DO_WITHDRAW);
}

void mst_calls_sent_ahead(struct mst_calls *calls,
                          const struct mst_worker *worker) {
  if (worker->mailbox.count > 1)
    look_again(calls, calls->now_ns + MST_AHEAD_NS);
}

// look_at has a worker asked for the task that waits there if it is time, or plans when to look at
// it again. 1 if the task is asked for on behalf of an idle worker.
static int look_at(struct mst_calls *calls, struct mst_worker *worker,
                   uint32_t idle) {
  struct mst_call *task = waiting_task(worker);
  if (task == NULL) return 0;
  const int for_idle = idle > 0 && suits_idle(calls, task);
  const int64_t began_ns = task->sent ? worker->head_ns : calls->now_ns;
  const int64_t due_ns = began_ns + (for_idle ? MST_WITHDRAW_NS : MST_AHEAD_NS);
  if (calls->now_ns < due_ns) {
    look_again(calls, due_ns);
    return 0;
  }
  ask_for(calls, worker, task);
  // The worker may not agree: then the idle one waits for another's task.
  if (for_idle) look_again(calls, calls->now_ns + MST_WITHDRAW_NS);
  return for_idle;
}

void mst_calls_withdraw(struct mst_calls *calls) {
  if (!calls->to_withdraw) return;
  calls->to_withdraw = 0;
  calls->withdraw_ns = NEVER;
  if (calls->quiet > 0 || calls->pool.phase != MST_POOL_RUNNING) return;
  uint32_t idle = count_idle(calls);
  for (uint32_t i = 0; i < calls->pool.count; i++)
    idle -= (uint32_t)look_at(calls, calls->pool.workers[i], idle);
}

static struct mst_call *find(const struct mst_worker *worker, uint64_t id) {
  struct mst_call *call = worker->mailbox.last;
  while (call != NULL && call->id != id)
    call = call->before;
  return call;
}

// leave takes the task out of the mailbox: into the queue, if it may still be evaluated.
static unsigned leave(struct mst_calls *calls, struct mst_mailbox *mailbox,
                      struct mst_call *task) {
  const int awaited = task->id <= mailbox->awaited;
  if (task->cancelled) return mst_mailbox_drop(mailbox, task);
  if (calls->pool.phase != MST_POOL_RUNNING ||
      mst_dispatch_return(&calls->dispatch, task) != 0) {
    return mst_mailbox_finish(mailbox, task, MST_CALL_LOST, calls->now_ns);
  }
  const unsigned effects = mst_mailbox_withdraw(mailbox, task);
  task->timed_out = 0;
  task->sent_ns = 0;
  if (awaited) mst_dispatch_await(&calls->dispatch, task);
  return effects;
}

void mst_calls_withdrawn(struct mst_calls *calls, uint32_t index, uint64_t call,
                         int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  struct mst_call *task = find(worker, call);
  calls->now_ns = now_ns;
  // After the verdict on a loss it is sent again anyway.
  if (task == NULL || !task->sent || !task->is_task) return;
  mst_calls_effects(calls, worker, leave(calls, &worker->mailbox, task));
  mst_calls_tell_pool(calls, MST_EV_WITHDRAWN, index);
  mst_worker_look_alone(calls, worker);
  mst_calls_sweep(calls);
  mst_calls_look_for_work(calls);
}

void mst_calls_reached(struct mst_calls *calls, uint32_t index, uint64_t call,
                       int64_t now_ns) {
  const struct mst_mailbox *mailbox = &calls->pool.workers[index]->mailbox;
  while (mailbox->first != NULL && mailbox->first->withdraws &&
         mailbox->first->id < call)
    mst_calls_withdrawn(calls, index, mailbox->first->id, now_ns);
}
