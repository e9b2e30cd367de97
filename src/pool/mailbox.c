// One worker's calls and answers. The contract is in mailbox.h.
#include "pool/mailbox.h"

#include <stddef.h>

// ---- unanswered calls

static void append(struct mst_call **first, struct mst_call **last,
                   struct mst_call *call) {
  call->next = NULL;
  call->before = *last;
  *(*last == NULL ? first : &(*last)->next) = call;
  *last = call;
}

static void take_out(struct mst_call **first, struct mst_call **last,
                     struct mst_call *call) {
  *(call->before == NULL ? first : &call->before->next) = call->next;
  *(call->next == NULL ? last : &call->next->before) = call->before;
  call->next = call->before = NULL;
  call->mailbox = NULL;
}

void mst_mailbox_add(struct mst_mailbox *mailbox, struct mst_call *call) {
  call->id = ++mailbox->calls;
  call->mailbox = mailbox;
  call->worker = mailbox->worker;
  call->state = MST_CALL_GIVEN;
  call->withdraws = 0;
  append(&mailbox->first, &mailbox->last, call);
  if (mailbox->next_sent == NULL) mailbox->next_sent = call;
  mailbox->count++;
}

// oldest gives the effects of a new oldest call.
static unsigned oldest(const struct mst_mailbox *mailbox) {
  const struct mst_call *first = mailbox->first;
  return first != NULL && first->cancelled ? MST_MAILBOX_INTERRUPT : 0;
}

static unsigned remove_call(struct mst_mailbox *mailbox,
                            struct mst_call *call) {
  const int was_first = call == mailbox->first;
  if (mailbox->next_sent == call) mailbox->next_sent = call->next;
  if (mailbox->sending == call) mailbox->sending = NULL;
  mailbox->count--;
  take_out(&mailbox->first, &mailbox->last, call);
  return was_first ? oldest(mailbox) : 0;
}

// read_less: one answer less is wanted.
static void read_less(struct mst_mailbox *mailbox) {
  mailbox->unread--;
  if (mailbox->unread == 0) mailbox->mixed = 0;
}

unsigned mst_mailbox_drop(struct mst_mailbox *mailbox, struct mst_call *call) {
  if (!call->is_task && !call->cancelled) read_less(mailbox);
  const unsigned effects = remove_call(mailbox, call);
  mst_call_leave(call);
  return effects;
}

unsigned mst_mailbox_finish(struct mst_mailbox *mailbox, struct mst_call *call,
                            enum mst_call_state state, int64_t now_ns) {
  const unsigned effects = remove_call(mailbox, call);
  if (call->cancelled) {
    mst_call_leave(call);
  } else if (call->is_task) {
    mst_call_settle(call, state, now_ns);
  } else {
    call->state = (uint8_t)state;
    call->done_ns = now_ns;
    mst_call_let_go(call);
    mst_mailbox_add_answer(mailbox, call);
  }
  return effects;
}

unsigned mst_mailbox_withdraw(struct mst_mailbox *mailbox,
                              struct mst_call *task) {
  task->id = 0;
  task->sent = 0;
  task->state = MST_CALL_QUEUED;
  return remove_call(mailbox, task);
}

unsigned mst_mailbox_drop_cancelled(struct mst_mailbox *mailbox, int sent_too) {
  const struct mst_call *first = mailbox->first;
  for (struct mst_call *call = mailbox->first, *next; call != NULL;
       call = next) {
    next = call->next;
    if (!call->cancelled || (call->sent && !sent_too)) continue;
    (void)mst_mailbox_drop(mailbox, call);
  }
  return mailbox->first == first ? 0 : oldest(mailbox);
}

void mst_mailbox_unsend(struct mst_mailbox *mailbox) {
  for (struct mst_call *at = mailbox->first; at != NULL; at = at->next)
    at->sent = at->withdraws = 0;
  mailbox->next_sent = mailbox->first;
}

// ---- answers

void mst_mailbox_expect(struct mst_mailbox *mailbox, const void *caller) {
  if (mailbox->unread > 0 && mailbox->caller != caller) mailbox->mixed = 1;
  mailbox->caller = caller;
  mailbox->unread++;
}

void mst_mailbox_add_answer(struct mst_mailbox *mailbox,
                            struct mst_call *call) {
  append(&mailbox->answers, &mailbox->last_answer, call);
  call->mailbox = mailbox;
  if (mailbox->answered == 0)
    mailbox->answered = ++call->tally->counts->arrivals;
}

// is_any: every answer may be taken for this caller.
static int is_any(const struct mst_mailbox *mailbox, const void *caller) {
  return !mailbox->mixed || caller == NULL;
}

struct mst_call *mst_mailbox_answer(const struct mst_mailbox *mailbox,
                                    const void *caller) {
  struct mst_call *at = mailbox->answers;
  if (is_any(mailbox, caller)) return at;
  while (at != NULL && at->caller != caller)
    at = at->next;
  return at;
}

uint64_t mst_mailbox_answered(const struct mst_mailbox *mailbox,
                              const void *caller) {
  return mst_mailbox_answer(mailbox, caller) == NULL ? 0 : mailbox->answered;
}

static int is_among(const struct mst_call *calls, const void *caller) {
  while (calls != NULL && (calls->caller != caller || calls->cancelled))
    calls = calls->next;
  return calls != NULL;
}

int mst_mailbox_has(const struct mst_mailbox *mailbox, const void *caller) {
  return is_among(mailbox->first, caller) || is_among(mailbox->answers, caller);
}

void mst_mailbox_take(struct mst_mailbox *mailbox, struct mst_call *answer) {
  struct mst_counts *counts = answer->tally->counts;
  take_out(&mailbox->answers, &mailbox->last_answer, answer);
  read_less(mailbox);
  mst_call_taken(answer);
  // The next answer counts as arriving now, so a worker with many can't starve the others.
  mailbox->answered = mailbox->answers == NULL ? 0 : ++counts->arrivals;
}

static int is_of(const struct mst_call *call, const void *caller) {
  return !call->is_task && (caller == NULL || call->caller == caller);
}

unsigned mst_mailbox_forget(struct mst_mailbox *mailbox, const void *caller) {
  for (struct mst_call *call = mailbox->answers, *next; call != NULL;
       call = next) {
    next = call->next;
    if (!is_of(call, caller)) continue;
    mst_mailbox_take(mailbox, call);
    mst_call_release(call);
  }
  for (struct mst_call *call = mailbox->first; call != NULL;
       call = call->next) {
    if (!is_of(call, caller) || call->cancelled) continue;
    call->cancelled = 1;
    read_less(mailbox);
  }
  return oldest(mailbox);
}
