// Tasks that no worker has yet. The contract is in dispatch.h.
#include "pool/dispatch.h"

// leave: a task that leaves the queue no longer counts.
static void leave(struct mst_dispatch *dispatch, struct mst_call *task) {
  dispatch->bytes -= mst_blob_bytes(task->payload);
  if (task->awaited) dispatch->awaited--;
}

int mst_dispatch_put(struct mst_dispatch *dispatch, struct mst_call *task,
                     const uint32_t *workers, uint32_t count) {
  const int rc = mst_queue_put(&dispatch->queue, &task->queued, workers, count);
  if (rc == 0) dispatch->bytes += mst_blob_bytes(task->payload);
  return rc;
}

int mst_dispatch_return(struct mst_dispatch *dispatch, struct mst_call *task) {
  const int rc = mst_queue_put_back(&dispatch->queue, &task->queued);
  if (rc == 0) dispatch->bytes += mst_blob_bytes(task->payload);
  return rc;
}

void mst_dispatch_remove(struct mst_dispatch *dispatch, struct mst_call *task) {
  mst_queue_remove(&dispatch->queue, &task->queued);
  leave(dispatch, task);
}

void mst_dispatch_hold(struct mst_dispatch *dispatch, struct mst_call *task) {
  mst_queue_hold(&dispatch->queue, &task->queued);
}

int mst_dispatch_let_go(struct mst_dispatch *dispatch, struct mst_call *task) {
  return mst_queue_put_back(&dispatch->queue, &task->queued);
}

void mst_dispatch_strand(struct mst_dispatch *dispatch, struct mst_call *task,
                         int64_t now_ns) {
  mst_dispatch_remove(dispatch, task);
  task->stranded = 1;
  mst_call_settle(task, MST_CALL_LOST, now_ns);
}

void mst_dispatch_await(struct mst_dispatch *dispatch, struct mst_call *task) {
  if (task->awaited) return;
  task->awaited = 1;
  dispatch->awaited++;
}

// ---- to workers

static int give_one(struct mst_dispatch *dispatch,
                    const struct mst_takers *takers, uint32_t worker,
                    uint32_t depth, struct mst_due *due) {
  struct mst_worker *taker = takers->open(takers->owner, worker);
  if (taker == NULL || taker->mailbox.count >= depth) return 0;
  struct mst_mailbox *mailbox = &taker->mailbox;
  if (mailbox->first != NULL && mailbox->first->id == mailbox->slow) return 0;
  struct mst_queued *item =
      mst_queue_first(&dispatch->queue, worker, takers->quiet);
  if (item == NULL) return 0;
  struct mst_call *task = item->owner;
  mst_queue_take(&dispatch->queue, item);
  leave(dispatch, task);
  mst_mailbox_add(mailbox, task);
  if (task->awaited) mailbox->awaited = task->id;
  task->awaited = 0;
  mst_due_add(due, taker, MST_DO_EXEC);
  dispatch->turn = worker + 1;
  return 1;
}

void mst_dispatch_to(struct mst_dispatch *dispatch,
                     const struct mst_takers *takers, uint32_t worker,
                     struct mst_due *due) {
  while (mst_queue_count(&dispatch->queue) > 0 &&
         give_one(dispatch, takers, worker, MST_TASK_DEPTH, due)) {
  }
}

int mst_dispatch_all(struct mst_dispatch *dispatch,
                     const struct mst_takers *takers, struct mst_due *due) {
  const uint32_t n = takers->count;
  int ahead = 0;
  for (uint32_t depth = 1; depth <= MST_TASK_DEPTH; depth++) {
    const uint32_t turn = dispatch->turn;
    for (uint32_t k = 0; k < n; k++) {
      if (mst_queue_count(&dispatch->queue) == 0) return ahead;
      if (give_one(dispatch, takers, (turn + k) % n, depth, due) && depth > 1)
        ahead = 1;
    }
  }
  return ahead;
}

// ---- to nobody

struct sweeping {
  struct mst_dispatch *dispatch;
  const struct mst_takers *takers;
  int64_t now_ns;
};

static int usable(void *owner, uint32_t worker) {
  const struct mst_takers *takers = ((struct sweeping *)owner)->takers;
  return takers->usable(takers->owner, worker);
}

// It has left the queue already.
static void lose(void *owner, struct mst_queued *item) {
  const struct sweeping *sweeping = owner;
  struct mst_call *task = item->owner;
  leave(sweeping->dispatch, task);
  task->stranded = 1;
  mst_call_settle(task, MST_CALL_LOST, sweeping->now_ns);
}

void mst_dispatch_sweep(struct mst_dispatch *dispatch,
                        const struct mst_takers *takers, int64_t now_ns) {
  struct sweeping sweeping = {dispatch, takers, now_ns};
  if (mst_queue_count(&dispatch->queue) == 0) return;
  mst_queue_sweep(&dispatch->queue, takers->count, usable, lose, &sweeping);
}

void mst_dispatch_end(struct mst_dispatch *dispatch, int64_t now_ns) {
  struct mst_queued *item;
  while ((item = mst_queue_head(&dispatch->queue)) != NULL) {
    struct mst_call *task = item->owner;
    mst_dispatch_remove(dispatch, task);
    mst_call_settle(task, MST_CALL_LOST, now_ns);
  }
}

void mst_dispatch_free(struct mst_dispatch *dispatch) {
  mst_queue_free(&dispatch->queue);
}
