// pool/mailbox: one worker's calls, oldest first, and its answers until they are taken. Pure lists;
// the functions return what the caller must do. A mailbox knows neither its worker's state nor why
// a call leaves.
//
// When a call leaves, a call that was cancelled while it waited may become the oldest: the worker
// must interrupt it. The functions that remove calls say so (enum mst_mailbox_effect).
//
// Only the thread that has the session may use this. Nothing blocks, nothing allocates.
#ifndef MST_POOL_MAILBOX_H
#define MST_POOL_MAILBOX_H

#include <stdint.h>

#include "pool/call.h"

struct mst_mailbox {
  uint32_t worker;
  uint64_t calls;         // last id given
  struct mst_call *first; // unanswered, sent or not
  struct mst_call *last;
  struct mst_call *next_sent; // the oldest that isn't sent, or NULL
  struct mst_call *sending;   // EXEC was given, and isn't sent yet
  uint32_t count;             // of unanswered calls
  uint64_t withdraw; // the task that the worker was last asked not to begin
  uint64_t slow;     // the call behind which nothing is sent ahead
  struct mst_call *answers; // of verbs, not taken yet, oldest first
  struct mst_call *last_answer;
  uint32_t unread;    // verbs' calls whose answers are wanted and not taken
  uint64_t answered;  // arrival number of the oldest answer, 0 if there is none
  uint64_t awaited;   // answers up to this id are exempt from the answer limit
  const void *caller; // of the last call of a verb
  uint8_t mixed;      // unread answers may belong to several verbs
  uint64_t cast;      // number of the last cast that it got
};

// Bits.
enum mst_mailbox_effect {
  MST_MAILBOX_INTERRUPT = 1 // the oldest call was cancelled
};

// ---- unanswered calls

// mst_mailbox_add gives the worker a call, after all others.
void mst_mailbox_add(struct mst_mailbox *mailbox, struct mst_call *call);
// mst_mailbox_drop removes a call that nobody wants. mst_mailbox_finish removes one that was
// answered or failed: a verb's call joins the answers, a task is over. Both return effects.
unsigned mst_mailbox_drop(struct mst_mailbox *mailbox, struct mst_call *call);
unsigned mst_mailbox_finish(struct mst_mailbox *mailbox, struct mst_call *call,
                            enum mst_call_state state, int64_t now_ns);
// mst_mailbox_withdraw removes a task that its worker won't evaluate, and that has gone back to the
// queue. Returns effects.
unsigned mst_mailbox_withdraw(struct mst_mailbox *mailbox,
                              struct mst_call *task);
// mst_mailbox_drop_cancelled drops the cancelled calls that weren't sent; sent_too: also those that
// were. Returns effects.
unsigned mst_mailbox_drop_cancelled(struct mst_mailbox *mailbox, int sent_too);
// mst_mailbox_unsend: its calls must all be sent again.
void mst_mailbox_unsend(struct mst_mailbox *mailbox);

// ---- answers of verbs. caller NULL: of any verb

// mst_mailbox_expect counts one more answer for a verb to take.
void mst_mailbox_expect(struct mst_mailbox *mailbox, const void *caller);
// mst_mailbox_add_answer adds a finished call to the answers.
void mst_mailbox_add_answer(struct mst_mailbox *mailbox, struct mst_call *call);
// mst_mailbox_answer gives the oldest answer that a verb may take (DONE or LOST), or NULL.
// mst_mailbox_answered gives its arrival number, 0 if there is none.
uint64_t mst_mailbox_answered(const struct mst_mailbox *mailbox,
                              const void *caller);
struct mst_call *mst_mailbox_answer(const struct mst_mailbox *mailbox,
                                    const void *caller);
// mst_mailbox_has tells whether it holds a verb's calls or answers that are still wanted.
int mst_mailbox_has(const struct mst_mailbox *mailbox, const void *caller);
// mst_mailbox_take removes an answer; its reference becomes the caller's.
void mst_mailbox_take(struct mst_mailbox *mailbox, struct mst_call *answer);
// mst_mailbox_forget drops a verb's answers, and cancels its calls, which stay until they are
// answered. Returns effects.
unsigned mst_mailbox_forget(struct mst_mailbox *mailbox, const void *caller);

#endif
