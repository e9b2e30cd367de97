// What one worker was given, and its answers. The contract is in calls.h.
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "pool/calls_int.h"

int mst_lane_is_up(const struct mst_calls *calls, const struct mst_lane *lane) {
  const enum mst_worker_state state = worker_of(calls, lane)->state;
  return (state == MST_WORKER_IDLE || state == MST_WORKER_BUSY) &&
         !lane->resuming && !lane->ended;
}

// ---- the list of what is not answered

struct mst_call *mst_lane_add(struct mst_calls *calls, struct mst_lane *lane,
                              struct mst_call *call) {
  call->id = ++lane->calls;
  call->lane = lane;
  call->worker = lane->worker;
  call->state = MST_CALL_GIVEN;
  call->next = NULL;
  call->before = lane->last;
  if (lane->last != NULL) {
    lane->last->next = call;
  } else {
    lane->first = call;
  }
  lane->last = call;
  if (lane->next_sent == NULL) lane->next_sent = call;
  lane->count++;
  // One that is lost or comes back gets its calls when it is there again.
  if (mst_lane_is_up(calls, lane)) mst_lane_todo(calls, lane, TODO_CALLS);
  return call;
}

void mst_lane_remove(struct mst_calls *calls, struct mst_lane *lane,
                     struct mst_call *call) {
  const int was_first = call == lane->first;
  if (call->before != NULL) {
    call->before->next = call->next;
  } else {
    lane->first = call->next;
  }
  if (call->next != NULL) {
    call->next->before = call->before;
  } else {
    lane->last = call->before;
  }
  if (lane->next_sent == call) lane->next_sent = call->next;
  if (lane->sending == call) lane->sending = NULL;
  lane->count--;
  call->next = call->before = NULL;
  call->lane = NULL;
  // The one that comes next may have been cancelled while it waited there.
  if (was_first && lane->first != NULL && lane->first->cancelled) {
    mst_lane_interrupt(calls, lane);
  }
}

void mst_lane_drop(struct mst_calls *calls, struct mst_lane *lane,
                   struct mst_call *call) {
  if (!call->is_task && !call->cancelled) lane->unread--;
  if (lane->unread == 0) lane->mixed = 0;
  mst_lane_remove(calls, lane, call);
  mst_call_leave(call);
}

static void add_answer(struct mst_calls *calls, struct mst_lane *lane,
                       struct mst_call *call) {
  call->before = lane->last_answer;
  if (lane->last_answer != NULL) {
    lane->last_answer->next = call;
  } else {
    lane->answers = call;
  }
  lane->last_answer = call;
  call->lane = lane;
  if (lane->answered == 0) lane->answered = ++calls->counts->arrivals;
}

void mst_lane_finish(struct mst_calls *calls, struct mst_lane *lane,
                     struct mst_call *call, enum mst_call_state state) {
  mst_lane_remove(calls, lane, call);
  if (call->cancelled) {
    mst_call_leave(call);
    return;
  }
  if (call->is_task) {
    mst_call_settle(call, state);
    return;
  }
  call->state = (uint8_t)state;
  call->done_ns = calls->now_ns;
  mst_call_let_go(call);
  add_answer(calls, lane, call);
}

// ---- interrupts

void mst_lane_interrupt(struct mst_calls *calls, struct mst_lane *lane) {
  if (!worker_of(calls, lane)->launched || lane->ended) return;
  mst_lane_todo(calls, lane, TODO_CANCEL);
  calls->interrupts = 1;
  if (lane->cancel == lane->first->id) return; // its grace runs already
  lane->cancel = lane->first->id;
  lane->cancel_ns = calls->now_ns;
}

static void drop_cancelled(struct mst_calls *calls, struct mst_lane *lane,
                           int sent_too) {
  for (struct mst_call *call = lane->first, *next; call != NULL; call = next) {
    next = call->next;
    if (!call->cancelled || (call->sent && !sent_too)) continue;
    // The next call has all of its attempts.
    if (call == lane->first) mst_heal_answered(&lane->heal);
    mst_lane_drop(calls, lane, call);
  }
}

void mst_lane_drop_cancelled(struct mst_calls *calls, struct mst_lane *lane) {
  drop_cancelled(calls, lane, 1);
}

void mst_lane_drop_unsent(struct mst_calls *calls, struct mst_lane *lane) {
  const enum mst_worker_state state = worker_of(calls, lane)->state;
  if (mst_lane_is_up(calls, lane)) return; // it has them, and will answer
  // What it was sent stays until it is judged: its death is the first one's doing.
  drop_cancelled(calls, lane,
                 state == MST_WORKER_STOPPED || state == MST_WORKER_LEFT);
}

static int is_of(const struct mst_call *call, const void *verb) {
  return !call->is_task && (verb == NULL || call->verb == verb);
}

// take_out takes an answer off the list.
static void take_out(struct mst_calls *calls, struct mst_lane *lane,
                     struct mst_call *call) {
  if (call->before != NULL) {
    call->before->next = call->next;
  } else {
    lane->answers = call->next;
  }
  if (call->next != NULL) {
    call->next->before = call->before;
  } else {
    lane->last_answer = call->before;
  }
  call->next = call->before = NULL;
  call->lane = NULL;
  lane->unread--;
  if (lane->unread == 0) lane->mixed = 0;
  mst_call_taken(call);
  // The next answer counts as come in now: a worker with many can't starve the others.
  lane->answered = lane->answers == NULL ? 0 : ++calls->counts->arrivals;
}

void mst_calls_forget(struct mst_calls *calls, uint32_t worker,
                      const void *verb, int64_t now_ns) {
  struct mst_lane *lane = calls->lanes[worker];
  calls->now_ns = now_ns;
  mst_calls_close_cast(calls);
  for (struct mst_call *call = lane->answers, *next; call != NULL;
       call = next) {
    next = call->next;
    if (!is_of(call, verb)) continue;
    take_out(calls, lane, call);
    mst_call_release(call);
  }
  for (struct mst_call *call = lane->first; call != NULL; call = call->next) {
    if (!is_of(call, verb) || call->cancelled) continue;
    call->cancelled = 1;
    lane->unread--;
  }
  if (lane->unread == 0) lane->mixed = 0;
  if (lane->first != NULL && lane->first->cancelled) {
    mst_lane_interrupt(calls, lane);
  }
  mst_lane_drop_unsent(calls, lane);
}

// ---- verbs

// has_all tells whether every worker that takes calls has the cast that goes on.
static int has_all(const struct mst_calls *calls, const struct mst_cast *cast) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    const struct mst_lane *lane = calls->lanes[i];
    if (lane->cast != cast->number && mst_lane_is_usable(calls, lane)) return 0;
  }
  return 1;
}

void mst_calls_close_cast(struct mst_calls *calls) {
  struct mst_common *common = &calls->common;
  if (common->now == NULL) return;
  mst_common_close(common, has_all(calls, common->now));
}

// cast_of gives the cast that a call is of. Each of one cast goes to another worker.
static struct mst_cast *cast_of(struct mst_calls *calls, struct mst_lane *lane,
                                struct mst_blob *payload, const void *verb) {
  struct mst_common *common = &calls->common;
  if (!calls->policy.on) return NULL; // nothing is kept
  if (!mst_common_goes_on(common, payload, verb) ||
      lane->cast == common->now->number) {
    mst_calls_close_cast(calls);
  }
  if (payload->one) return NULL;
  struct mst_cast *cast = mst_common_open(common, payload, verb);
  if (cast != NULL) lane->cast = cast->number;
  return cast;
}

int mst_calls_send(struct mst_calls *calls, uint32_t worker,
                   struct mst_blob *payload, const void *verb, int32_t tag,
                   uint8_t unseen, int64_t now_ns) {
  struct mst_lane *lane = calls->lanes[worker];
  calls->now_ns = now_ns;
  if (lane->dead && lane->sys_errno != 0) (void)mst_calls_revive(calls, now_ns);
  if (!mst_lane_is_usable(calls, lane) || (!calls->policy.on && lane->ended)) {
    return -MST_ECLOSED;
  }
  struct mst_call *call = calloc(1, sizeof *call);
  if (call == NULL) return -MST_EMEM;
  call->calls = calls;
  call->payload = payload;
  payload->refs++;
  call->refs = 1;
  call->verb = verb;
  call->tag = tag;
  call->retries = -1;
  call->unseen = unseen;
  call->cast = cast_of(calls, lane, payload, verb);
  if (lane->unread > 0 && lane->verb != verb) lane->mixed = 1;
  lane->verb = verb;
  lane->unread++;
  (void)mst_lane_add(calls, lane, call);
  return 0;
}

uint64_t mst_lane_answered(const struct mst_lane *lane, const void *verb) {
  if (!lane->mixed || verb == NULL || lane->answered == 0) {
    return lane->answered;
  }
  const struct mst_call *at = lane->answers;
  while (at != NULL && at->verb != verb)
    at = at->next;
  return at == NULL ? 0 : lane->answered;
}

struct mst_call *mst_calls_answer(const struct mst_calls *calls,
                                  uint32_t worker, const void *verb) {
  const struct mst_lane *lane = calls->lanes[worker];
  struct mst_call *at = lane->answers;
  if (!lane->mixed || verb == NULL) return at;
  while (at != NULL && at->verb != verb)
    at = at->next;
  return at;
}

void mst_calls_take(struct mst_calls *calls, struct mst_call *answer) {
  take_out(calls, answer->lane, answer);
}

// ---- answers

void mst_calls_await(struct mst_calls *calls, uint32_t worker) {
  struct mst_lane *lane = calls->lanes[worker];
  lane->awaited = lane->calls;
  mst_calls_close_cast(calls);
}

int mst_calls_expects(const struct mst_calls *calls, uint32_t worker) {
  return calls->pool.workers[worker].owed > 0 ||
         calls->lanes[worker]->replay_left > 0;
}

static int is_kept(const struct mst_call *call) {
  if (call->cancelled || call->timed_out) return 0;
  return !call->is_task || call->refs > 1; // else nobody will ask
}

int mst_calls_wants(const struct mst_calls *calls, uint32_t worker,
                    uint64_t call) {
  const struct mst_call *first = calls->lanes[worker]->first;
  return first != NULL && first->id == call && is_kept(first);
}

int mst_calls_may_read(const struct mst_calls *calls, uint32_t worker) {
  const struct mst_lane *lane = calls->lanes[worker];
  const struct mst_call *first = lane->first;
  const int fits = calls->answer_bytes <= calls->answer_bytes_max;
  if (fits || calls->awaited > 0) return 1;
  if (first == NULL || lane->replay_left > 0) return 1;
  return first->id <= lane->awaited || !is_kept(first);
}

static void free_answered(struct mst_answered *answered) {
  mst_buf_free(&answered->bytes);
  mst_map_release(answered->map);
  answered->map = NULL;
}

static void keep_answer(struct mst_calls *calls, struct mst_call *call,
                        struct mst_answered *answered) {
  call->flags = answered->flags;
  call->bytes = answered->bytes;
  call->value = answered->value;
  call->value_bytes = answered->value_bytes;
  call->map = answered->map;
  call->counted = 1;
  calls->answer_bytes += answered->value_bytes;
  if (call->map != NULL) calls->answer_bytes += (size_t)call->map->bytes;
  answered->bytes = (struct mst_buf){0};
  answered->map = NULL;
}

static void take_answer(struct mst_calls *calls, struct mst_lane *lane,
                        struct mst_answered *answered) {
  struct mst_call *call = lane->first;
  const int late = call->timed_out && !call->cancelled;
  mst_lane_note(calls, lane, answered);
  // What failed may be that the worker couldn't read the job.
  if ((answered->flags & MST_FLAG_ERROR) != 0 && call->job != NULL) {
    mst_job_unnote(call->job, lane->worker);
  }
  if (late) {
    // It has its loss instead, which no death is to blame for.
    lane->oom = lane->ours = 0;
    mst_lane_fail_first(calls, lane, MST_LOSS_TIMEOUT, 1, NULL);
  } else {
    if (is_kept(call)) keep_answer(calls, call, answered);
    mst_lane_finish(calls, lane, call, MST_CALL_DONE);
  }
  mst_calls_tell_pool(calls, MST_EV_ANSWERED, lane->worker);
  mst_lane_dispatch(calls, lane);
}

static int has_ended(const struct mst_calls *calls,
                     const struct mst_lane *lane) {
  const enum mst_worker_state state = worker_of(calls, lane)->state;
  return state == MST_WORKER_LOST || state == MST_WORKER_STOPPED;
}

void mst_calls_answered(struct mst_calls *calls, uint32_t worker,
                        struct mst_answered *answered, int64_t now_ns) {
  struct mst_lane *lane = calls->lanes[worker];
  const uint64_t oldest =
      lane->first == NULL ? lane->calls + 1 : lane->first->id;
  calls->now_ns = now_ns;
  if ((answered->flags & MST_FLAG_REPLAY) != 0) {
    mst_lane_replayed(calls, lane, answered->flags);
  } else if (answered->call < oldest && has_ended(calls, lane)) {
    // Dropped when its worker was known to have ended, and its channel not read out.
    mst_calls_tell_pool(calls, MST_EV_ANSWERED, worker);
  } else if (lane->first == NULL || answered->call != oldest ||
             !lane->first->sent) {
    mst_lane_broken(calls, lane, "the worker sent an answer to another call");
  } else {
    take_answer(calls, lane, answered);
  }
  free_answered(answered);
}

void mst_calls_said(struct mst_calls *calls, uint32_t worker,
                    struct mst_answered *answered, int64_t now_ns) {
  struct mst_lane *lane = calls->lanes[worker];
  const struct mst_call *of = lane->first;
  calls->now_ns = now_ns;
  const int wanted = of != NULL && of->id == answered->call && of->sent &&
                     !of->is_task && is_kept(of);
  struct mst_call *call = wanted ? calloc(1, sizeof *call) : NULL;
  if (call != NULL) {
    call->calls = calls;
    call->refs = 1;
    call->id = of->id;
    call->verb = of->verb;
    call->tag = of->tag;
    call->worker = worker;
    call->state = MST_CALL_DONE;
    call->done_ns = now_ns;
    keep_answer(calls, call, answered);
    lane->unread++;
    add_answer(calls, lane, call);
  }
  free_answered(answered);
}

// ---- what is to be sent

void mst_calls_sent(struct mst_calls *calls, uint32_t worker, int64_t now_ns) {
  struct mst_lane *lane = calls->lanes[worker];
  struct mst_call *call = lane->sending;
  calls->now_ns = now_ns;
  if (call == NULL) return; // of the journal
  lane->sending = NULL;
  call->sent = 1;
  if (call->is_task && call->sent_ns == 0) call->sent_ns = now_ns;
  if (call == lane->first) lane->head_ns = now_ns;
  mst_calls_tell_pool(calls, MST_EV_SENT, worker);
}

int mst_calls_unsent(struct mst_calls *calls, uint32_t worker,
                     enum mst_calls_do what, int rc, int64_t now_ns) {
  struct mst_lane *lane = calls->lanes[worker];
  struct mst_call *call = lane->sending;
  const int gone = rc != -MST_EMEM;
  calls->now_ns = now_ns;
  lane->sending = NULL;
  if (what == MST_CALLS_DROP) return 0;
  if (gone || call == NULL) {
    lane->replaying = 0;
    mst_lane_todo(calls, lane, TODO_BREAK); // its end will be heard
    if (call == NULL || call->is_task || calls->policy.on) return 0;
  }
  const int verb = !call->is_task;
  // The next call has all of its attempts.
  if (call == lane->first) mst_heal_answered(&lane->heal);
  if (verb) {
    if (call->id == lane->calls) lane->calls--;
    mst_lane_drop(calls, lane, call);
  } else {
    mst_lane_finish(calls, lane, call, MST_CALL_LOST);
  }
  return verb;
}
