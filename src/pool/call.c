// One call: references, payload, answer, loss. The contract is in call.h.
#include "pool/call.h"

#include <stdlib.h>

#include "base/mst_assert.h"
#include "pool/result.h"

void mst_loss_free(struct mst_loss *loss) {
  if (loss == NULL) return;
  free(loss->output);
  free(loss->host);
  free(loss->job);
  free(loss->reason);
  free(loss);
}

void mst_answered_free(struct mst_answered *answered) {
  mst_buf_free(&answered->bytes);
  mst_map_release(answered->map);
  answered->map = NULL;
}

struct mst_call *mst_call_new(struct mst_tally *tally,
                              struct mst_blob *payload) {
  struct mst_call *call = calloc(1, sizeof *call);
  if (call == NULL) return NULL;
  call->tally = tally;
  call->refs = 1;
  call->retries = -1;
  call->payload = payload;
  if (payload != NULL) payload->refs++;
  return call;
}

static void release_payload(struct mst_call *call) {
  mst_blob_release(call->payload);
  call->payload = NULL;
}

int mst_call_has_failed(const struct mst_call *call) {
  if (!call->is_task || call->is_part) return 0;
  return call->state == MST_CALL_DONE   ? (call->flags & MST_FLAG_ERROR) != 0
         : call->state == MST_CALL_LOST ? call->loss != NULL
                                        : 0;
}

static int has_segment(const struct mst_blob *blob) {
  return blob != NULL && blob->segment.fd >= 0;
}

// keeps_question: not with segments, whose descriptors are few.
static int keeps_question(const struct mst_call *call) {
  const struct mst_job *job = call->job;
  if (call->refs < 2 || !mst_call_has_failed(call)) return 0;
  if (has_segment(call->payload) || (job != NULL && has_segment(job->bytes)))
    return 0;
  for (uint32_t i = 0; job != NULL && i < job->member_count; i++) {
    if (has_segment(job->members[i]->bytes)) return 0;
  }
  return 1;
}

void mst_call_release(struct mst_call *call) {
  MST_ASSERT(call->refs > 0);
  if (--call->refs > 0) return;
  if (call->tally != NULL) mst_call_taken(call);
  for (struct mst_call *said; (said = mst_call_take_said(call)) != NULL;)
    mst_call_release(said);
  mst_result_orphan(call);
  if (call->cause != NULL) mst_call_release(call->cause);
  release_payload(call);
  mst_cast_release(call->cast);
  mst_job_release(call->job);
  mst_buf_free(&call->bytes);
  mst_map_release(call->map);
  mst_loss_free(call->loss);
  free(call->label);
  free(call);
}

int mst_call_is_wanted(const struct mst_call *call) {
  if (call->cancelled || call->timed_out) return 0;
  // Else nobody will ask.
  return !call->is_task || call->refs > 1 || call->result != NULL;
}

// ---- its answer

static size_t answer_bytes(const struct mst_call *call) {
  return call->value_bytes + (call->map == NULL ? 0 : (size_t)call->map->bytes);
}

void mst_call_keep_answer(struct mst_call *call,
                          struct mst_answered *answered) {
  call->flags = answered->flags;
  call->bytes = answered->bytes;
  call->value = answered->value;
  call->value_bytes = answered->value_bytes;
  call->map = answered->map;
  if (call->map != NULL && call->result == NULL) mst_map_forget(call->map);
  call->counted = 1;
  call->tally->answer_bytes += answer_bytes(call);
  answered->bytes = (struct mst_buf){0};
  answered->map = NULL;
}

void mst_call_taken(struct mst_call *call) {
  if (call->counted) {
    call->counted = 0;
    call->tally->answer_bytes -= answer_bytes(call);
    if (call->is_task) mst_call_unlink(&call->tally->kept, call);
  }
  if (mst_call_is_done(call)) call->tally = NULL;
}

// ---- what it says before its answer

void mst_call_hear(struct mst_call *task, struct mst_answered *answered) {
  if (task->said_now < task->said_all) {
    task->said_now++;
    return;
  }
  struct mst_call *said = mst_call_new(task->tally, NULL);
  if (said == NULL) return;
  task->said_now = ++task->said_all;
  task->tally->counts->said++;
  said->worker = task->worker;
  said->state = MST_CALL_DONE;
  mst_call_keep_answer(said, answered);
  if (task->last_said == NULL) {
    task->said = said;
  } else {
    task->last_said->next = said;
  }
  task->last_said = said;
}

struct mst_call *mst_call_take_said(struct mst_call *task) {
  struct mst_call *said = task->said;
  if (said == NULL) return NULL;
  task->said = said->next;
  if (task->said == NULL) task->last_said = NULL;
  said->next = NULL;
  if (said->tally != NULL) mst_call_taken(said);
  return said;
}

// ---- its end

void mst_call_let_go(struct mst_call *call) {
  struct mst_tally *tally = call->tally;
  if (tally == NULL) return;
  if (call->timeout_ns > 0) tally->limited--;
  call->timeout_ns = 0;
  mst_needs_end(call);
  mst_queue_forget(&call->queued);
  mst_cast_release(call->cast);
  call->cast = NULL;
  mst_job_unuse(call->job);
  if (keeps_question(call)) return;
  release_payload(call);
  if (call->job == NULL) return;
  mst_job_release(call->job);
  call->job = NULL;
  tally->jobs_released = 1;
}

void mst_call_leave(struct mst_call *call) {
  struct mst_tally *tally = call->tally;
  for (struct mst_call *said = call->said; said != NULL; said = said->next)
    mst_call_taken(said); // it doesn't count any more, but stays
  mst_call_let_go(call);
  if (!call->counted) {
    call->tally = NULL;
  } else if (call->is_task) {
    mst_call_link(&tally->kept, call); // until somebody takes its answer
  }
  mst_call_release(call);
}

void mst_call_end(struct mst_call *call, enum mst_call_state state,
                  int64_t now_ns) {
  call->state = (uint8_t)state;
  call->done_ns = now_ns;
  call->tally->counts->tasks_done++;
  mst_result_settle(call);
}

void mst_call_settle(struct mst_call *call, enum mst_call_state state,
                     int64_t now_ns) {
  mst_call_end(call, state, now_ns);
  mst_call_leave(call);
}
