// Tasks: a queue in front of the lanes. The contract is in calls.h.
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "pool/calls_int.h"

// ---- one task's life

static void release_payload(struct mst_call *call) {
  mst_blob_release(call->payload);
  call->payload = NULL;
  mst_cast_release(call->cast);
  call->cast = NULL;
}

void mst_call_release(struct mst_call *call) {
  MST_ASSERT(call->refs > 0);
  if (--call->refs > 0) return;
  if (call->calls != NULL) mst_call_taken(call);
  release_payload(call);
  mst_buf_free(&call->bytes);
  mst_map_release(call->map);
  mst_loss_free(call->loss);
  free(call);
}

// keep lists a task whose answer waits for somebody to take it.
static void keep(struct mst_call *call) {
  struct mst_calls *calls = call->calls;
  call->before = NULL;
  call->next = calls->kept;
  if (calls->kept != NULL) calls->kept->before = call;
  calls->kept = call;
}

static void unkeep(struct mst_call *call) {
  if (call->next != NULL) call->next->before = call->before;
  if (call->before != NULL) {
    call->before->next = call->next;
  } else {
    call->calls->kept = call->next;
  }
  call->next = call->before = NULL;
}

void mst_call_taken(struct mst_call *call) {
  if (call->counted) {
    call->counted = 0;
    call->calls->answer_bytes -= call->value_bytes;
    if (call->map != NULL) {
      call->calls->answer_bytes -= (size_t)call->map->bytes;
    }
    if (call->is_task) unkeep(call);
  }
  if (mst_call_is_done(call)) call->calls = NULL;
}

void mst_call_leave(struct mst_call *call) {
  mst_call_let_go(call);
  if (!call->counted) {
    call->calls = NULL;
  } else if (call->is_task) {
    keep(call);
  }
  mst_call_release(call);
}

void mst_call_let_go(struct mst_call *call) {
  struct mst_calls *calls = call->calls;
  if (calls == NULL) return;
  if (call->timeout_ns > 0) calls->limited--;
  call->timeout_ns = 0;
  release_payload(call);
  if (call->job == NULL) return;
  mst_job_release(call->job);
  call->job = NULL;
  mst_calls_trim(calls);
}

// end: what the user asked for is over.
static void end(struct mst_call *call, enum mst_call_state state) {
  call->state = (uint8_t)state;
  call->done_ns = call->calls->now_ns;
  call->calls->counts->tasks_done++;
}

void mst_call_settle(struct mst_call *call, enum mst_call_state state) {
  end(call, state);
  mst_call_leave(call);
}

int mst_call_is_done(const struct mst_call *call) {
  return call->state != MST_CALL_QUEUED && call->state != MST_CALL_GIVEN;
}

// ---- the queue

static void leave_queue(struct mst_call *call) {
  struct mst_calls *calls = call->calls;
  mst_queue_remove(&calls->queue, &call->queued);
  calls->queued_bytes -= mst_blob_bytes(call->payload);
  if (call->awaited) calls->awaited--;
}

int mst_lane_is_usable(const struct mst_calls *calls,
                       const struct mst_lane *lane) {
  const struct mst_worker *worker = worker_of(calls, lane);
  return !lane->dead && worker->stop_ns == NEVER && !worker->drains;
}

// Whatever it was given counts, a verb's calls and cancelled ones too: it has to do these
// first.
static int has_room(const struct mst_calls *calls, const struct mst_lane *lane,
                    uint32_t depth) {
  return lane->count < depth && mst_lane_is_usable(calls, lane) &&
         mst_lane_is_up(calls, lane);
}

static int give_one(struct mst_calls *calls, struct mst_lane *lane) {
  struct mst_queued *item = mst_queue_first(&calls->queue, lane->worker);
  if (item == NULL) return 0;
  struct mst_call *call = item->owner;
  leave_queue(call);
  (void)mst_lane_add(calls, lane, call);
  if (call->awaited) lane->awaited = call->id;
  call->awaited = 0;
  return 1;
}

void mst_lane_dispatch(struct mst_calls *calls, struct mst_lane *lane) {
  if (mst_queue_count(&calls->queue) == 0) return;
  while (has_room(calls, lane, MST_TASK_DEPTH) && give_one(calls, lane))
    calls->turn = lane->worker + 1;
}

// All have one to do before any has a second.
void mst_calls_dispatch(struct mst_calls *calls) {
  const uint32_t n = calls->pool.count;
  for (uint32_t depth = 1; depth <= MST_TASK_DEPTH; depth++) {
    const uint32_t turn = calls->turn;
    for (uint32_t k = 0; k < n; k++) {
      if (mst_queue_count(&calls->queue) == 0) return;
      const uint32_t i = (turn + k) % n;
      if (has_room(calls, calls->lanes[i], depth) &&
          give_one(calls, calls->lanes[i])) {
        calls->turn = i + 1;
      }
    }
  }
}

// ---- tasks that nobody will take

static int usable(void *owner, uint32_t worker) {
  const struct mst_calls *calls = owner;
  return mst_lane_is_usable(calls, calls->lanes[worker]);
}

// It has left the queue already.
static void lose(void *owner, struct mst_queued *item) {
  struct mst_calls *calls = owner;
  struct mst_call *call = item->owner;
  calls->queued_bytes -= mst_blob_bytes(call->payload);
  if (call->awaited) calls->awaited--;
  call->stranded = 1;
  mst_call_settle(call, MST_CALL_LOST);
}

void mst_calls_sweep(struct mst_calls *calls) {
  if (mst_queue_count(&calls->queue) == 0) return;
  mst_queue_sweep(&calls->queue, calls->pool.count, usable, lose, calls);
}

void mst_calls_end_queue(struct mst_calls *calls, int64_t now_ns) {
  struct mst_queued *item;
  calls->now_ns = now_ns;
  while ((item = mst_queue_head(&calls->queue)) != NULL) {
    struct mst_call *call = item->owner;
    leave_queue(call);
    mst_call_settle(call, MST_CALL_LOST);
  }
}

static int can_have(struct mst_calls *calls, const uint32_t *workers,
                    uint32_t count) {
  const uint32_t n = workers == NULL ? calls->pool.count : count;
  for (uint32_t k = 0; k < n; k++) {
    if (usable(calls, workers == NULL ? k : workers[k])) return 1;
  }
  return 0;
}

// ---- what users want

struct mst_call *mst_calls_submit(struct mst_calls *calls,
                                  struct mst_blob *payload,
                                  const uint32_t *workers, uint32_t count,
                                  const struct mst_task_terms *terms,
                                  int64_t now_ns) {
  struct mst_call *call = calloc(1, sizeof *call);
  if (call == NULL) return NULL;
  calls->now_ns = now_ns;
  call->calls = calls;
  call->is_task = 1;
  call->refs = 2; // the caller's and the cluster's
  call->serial = calls->counts->tasks + 1;
  call->retries = terms->retries;
  call->queued = (struct mst_queued){
      .serial = call->serial, .priority = terms->priority, .owner = call};
  if (mst_queue_put(&calls->queue, &call->queued, workers, count) != 0) {
    free(call);
    return NULL;
  }
  calls->counts->tasks++;
  call->payload = payload;
  payload->refs++;
  call->timeout_ns = terms->timeout_ns;
  if (call->timeout_ns > 0) calls->limited++;
  call->job = terms->job;
  mst_job_keep(call->job);
  calls->queued_bytes += mst_blob_bytes(payload);
  if (!can_have(calls, workers, count) &&
      (mst_calls_revive(calls, now_ns) == 0 ||
       !can_have(calls, workers, count))) {
    leave_queue(call);
    call->stranded = 1;
    mst_call_settle(call, MST_CALL_LOST);
    return call;
  }
  calls->dispatch = 1;
  return call;
}

int mst_call_cancel(struct mst_call *task, int64_t now_ns) {
  struct mst_calls *calls = task->calls;
  if (mst_call_is_done(task)) return 0;
  calls->now_ns = now_ns;
  if (task->state == MST_CALL_QUEUED) {
    leave_queue(task);
    mst_call_settle(task, MST_CALL_CANCELLED);
    return 1;
  }
  // In its lane it is answered or lost like any other; the reference goes with that.
  task->cancelled = 1;
  end(task, MST_CALL_CANCELLED);
  struct mst_lane *lane = task->lane;
  if (task == lane->first) mst_lane_interrupt(calls, lane);
  mst_lane_drop_unsent(calls, lane);
  return 1;
}

void mst_calls_await_task(struct mst_call *task) {
  if (mst_call_is_done(task)) return;
  if (task->state == MST_CALL_GIVEN) {
    if (task->lane->awaited < task->id) task->lane->awaited = task->id;
    return;
  }
  if (task->awaited) return;
  task->awaited = 1;
  task->calls->awaited++;
}

// ---- jobs

// The workers are told one after the other, see mst_calls_next_action.
void mst_calls_trim(struct mst_calls *calls) {
  if (calls->dropping != NULL) return; // looked at again then
  calls->dropping = mst_jobs_surplus(&calls->jobs);
  calls->drop_at = 0;
}
