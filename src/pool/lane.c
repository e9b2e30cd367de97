// What one worker was given, and its answers. The contract is in lane.h.
#include "pool/lane.h"

#include <stddef.h>

// ---- the list of what is not answered

void mst_lane_add(struct mst_lane *lane, struct mst_call *call) {
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
}

// oldest: what follows if this call is the oldest from now on.
static unsigned oldest(const struct mst_lane *lane) {
  const struct mst_call *first = lane->first;
  return first != NULL && first->cancelled ? MST_LANE_INTERRUPT : 0;
}

static unsigned remove_call(struct mst_lane *lane, struct mst_call *call) {
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
  return was_first ? oldest(lane) : 0;
}

// read_less: an answer less is to be taken.
static void read_less(struct mst_lane *lane) {
  lane->unread--;
  if (lane->unread == 0) lane->mixed = 0;
}

unsigned mst_lane_drop(struct mst_lane *lane, struct mst_call *call) {
  if (!call->is_task && !call->cancelled) read_less(lane);
  const unsigned effects = remove_call(lane, call);
  mst_call_leave(call);
  return effects;
}

unsigned mst_lane_finish(struct mst_lane *lane, struct mst_call *call,
                         enum mst_call_state state, int64_t now_ns) {
  const unsigned effects = remove_call(lane, call);
  if (call->cancelled) {
    mst_call_leave(call);
  } else if (call->is_task) {
    mst_call_settle(call, state, now_ns);
  } else {
    call->state = (uint8_t)state;
    call->done_ns = now_ns;
    mst_call_let_go(call);
    mst_lane_add_answer(lane, call);
  }
  return effects;
}

unsigned mst_lane_drop_cancelled(struct mst_lane *lane, int sent_too) {
  int reset = 0;
  for (struct mst_call *call = lane->first, *next; call != NULL; call = next) {
    next = call->next;
    if (!call->cancelled || (call->sent && !sent_too)) continue;
    reset |= call == lane->first;
    (void)mst_lane_drop(lane, call);
  }
  return reset ? MST_LANE_RESET | oldest(lane) : 0;
}

void mst_lane_unsend(struct mst_lane *lane) {
  for (struct mst_call *at = lane->first; at != NULL; at = at->next)
    at->sent = 0;
  lane->next_sent = lane->first;
}

// ---- answers

void mst_lane_expect(struct mst_lane *lane, const void *verb) {
  if (lane->unread > 0 && lane->verb != verb) lane->mixed = 1;
  lane->verb = verb;
  lane->unread++;
}

void mst_lane_add_answer(struct mst_lane *lane, struct mst_call *call) {
  call->before = lane->last_answer;
  if (lane->last_answer != NULL) {
    lane->last_answer->next = call;
  } else {
    lane->answers = call;
  }
  lane->last_answer = call;
  call->lane = lane;
  if (lane->answered == 0) lane->answered = ++call->tally->counts->arrivals;
}

// is_any: every answer may be this verb's.
static int is_any(const struct mst_lane *lane, const void *verb) {
  return !lane->mixed || verb == NULL;
}

struct mst_call *mst_lane_answer(const struct mst_lane *lane,
                                 const void *verb) {
  struct mst_call *at = lane->answers;
  if (is_any(lane, verb)) return at;
  while (at != NULL && at->verb != verb)
    at = at->next;
  return at;
}

uint64_t mst_lane_answered(const struct mst_lane *lane, const void *verb) {
  return mst_lane_answer(lane, verb) == NULL ? 0 : lane->answered;
}

static int is_among(const struct mst_call *calls, const void *verb) {
  while (calls != NULL && (calls->verb != verb || calls->cancelled))
    calls = calls->next;
  return calls != NULL;
}

int mst_lane_has(const struct mst_lane *lane, const void *verb) {
  return is_among(lane->first, verb) || is_among(lane->answers, verb);
}

void mst_lane_take(struct mst_lane *lane, struct mst_call *answer) {
  struct mst_counts *counts = answer->tally->counts;
  if (answer->before != NULL) {
    answer->before->next = answer->next;
  } else {
    lane->answers = answer->next;
  }
  if (answer->next != NULL) {
    answer->next->before = answer->before;
  } else {
    lane->last_answer = answer->before;
  }
  answer->next = answer->before = NULL;
  answer->lane = NULL;
  read_less(lane);
  mst_call_taken(answer);
  // The next answer counts as come in now: a worker with many can't starve the others.
  lane->answered = lane->answers == NULL ? 0 : ++counts->arrivals;
}

static int is_of(const struct mst_call *call, const void *verb) {
  return !call->is_task && (verb == NULL || call->verb == verb);
}

unsigned mst_lane_forget(struct mst_lane *lane, const void *verb) {
  for (struct mst_call *call = lane->answers, *next; call != NULL;
       call = next) {
    next = call->next;
    if (!is_of(call, verb)) continue;
    mst_lane_take(lane, call);
    mst_call_release(call);
  }
  for (struct mst_call *call = lane->first; call != NULL; call = call->next) {
    if (!is_of(call, verb) || call->cancelled) continue;
    call->cancelled = 1;
    read_less(lane);
  }
  return oldest(lane);
}

// ---- lanes with something to do

void mst_due_add(struct mst_due *due, struct mst_lane *lane, uint16_t what) {
  lane->todo |= what;
  if (lane->due) return;
  lane->due = 1;
  lane->next_due = NULL;
  if (due->last != NULL) {
    due->last->next_due = lane;
  } else {
    due->first = lane;
  }
  due->last = lane;
}

void mst_due_drop(struct mst_due *due) {
  struct mst_lane *lane = due->first;
  due->first = lane->next_due;
  if (due->first == NULL) due->last = NULL;
  lane->due = 0;
  lane->next_due = NULL;
}
