// pool/mailbox: the calls that one worker was given, oldest first, and its answers until they are
// taken. Pure: lists, and what follows for whoever uses them. It knows neither what state its
// worker is in nor why a call leaves.
//
// What leaves a mailbox may bring a call to its head that was cancelled while it waited there: the
// worker is to interrupt it. The functions that take calls out say so (enum mst_mailbox_effect).
//
// One thread at a time: whoever has the session. Nothing blocks, nothing allocates.
#ifndef MST_POOL_MAILBOX_H
#define MST_POOL_MAILBOX_H

#include <stdint.h>

#include "pool/call.h"

// What a mailbox has to do. calls_next.c has the order.
enum mst_todo {
  MST_TODO_PAUSE = 1,
  MST_TODO_BREAK = 2,
  MST_TODO_JUDGE = 4,
  MST_TODO_CHECKPOINT = 8,
  MST_TODO_CALLS = 16, // some are to be sent
  MST_TODO_CANCEL = 32,
  MST_TODO_PING = 64,
  MST_TODO_FORGET = 128
};

struct mst_mailbox {
  uint32_t worker;
  uint64_t calls;             // last id given
  struct mst_call *first;     // sent or to be sent and not answered
  struct mst_call *last;      //
  struct mst_call *next_sent; // the first that is not sent, NULL if none
  struct mst_call *sending;   // EXEC was given, and is not sent yet
  uint32_t count;             // of these
  struct mst_call *answers;   // of verbs, to be taken, oldest first
  struct mst_call *last_answer;
  uint32_t unread;    // calls of verbs whose answers are wanted and not taken
  uint64_t answered;  // arrival of the oldest answer, 0 if none is there
  uint64_t awaited;   // answers up to this id are read whatever the bound
  const void *caller; // of the last call of a verb
  uint8_t mixed;      // what is unread may be of several verbs
  uint64_t cast;      // number of the last that it got
  // what is to be done: the order is that of mst_calls_next_action
  struct mst_mailbox *next_due;
  uint8_t due;   // it is in the list of those with something to do
  uint16_t todo; // bits of enum mst_todo
};

// Bits.
enum mst_mailbox_effect {
  MST_MAILBOX_INTERRUPT = 1, // the oldest call is one that was cancelled
  MST_MAILBOX_RESET =
      2 // the oldest call left without a try: the next has all of its own
};

// ---- calls that are not answered

// mst_mailbox_add gives a call to the worker, as its last one.
void mst_mailbox_add(struct mst_mailbox *mailbox, struct mst_call *call);
// mst_mailbox_drop takes out a call that nobody wants. Returns effects, as does
// mst_mailbox_finish, which takes out one that is answered or failed: a verb's goes among the
// answers, a task's is its own.
unsigned mst_mailbox_drop(struct mst_mailbox *mailbox, struct mst_call *call);
unsigned mst_mailbox_finish(struct mst_mailbox *mailbox, struct mst_call *call,
                            enum mst_call_state state, int64_t now_ns);
// mst_mailbox_drop_cancelled drops the cancelled calls; sent_too: also those that the worker has
// got. Returns effects.
unsigned mst_mailbox_drop_cancelled(struct mst_mailbox *mailbox, int sent_too);
// mst_mailbox_unsend: the worker has none of its calls any more.
void mst_mailbox_unsend(struct mst_mailbox *mailbox);

// ---- answers of verbs. caller NULL: of any

// mst_mailbox_expect counts one more answer that a verb is to take.
void mst_mailbox_expect(struct mst_mailbox *mailbox, const void *caller);
// mst_mailbox_add_answer puts a call that is over among the answers.
void mst_mailbox_add_answer(struct mst_mailbox *mailbox, struct mst_call *call);
// mst_mailbox_answered gives the arrival of the oldest answer that a verb may take, 0 if there
// is none; mst_mailbox_answer that answer: DONE or LOST, NULL if there is none.
uint64_t mst_mailbox_answered(const struct mst_mailbox *mailbox,
                              const void *caller);
struct mst_call *mst_mailbox_answer(const struct mst_mailbox *mailbox,
                                    const void *caller);
// mst_mailbox_has tells whether a call of a verb, or an answer to one, is wanted.
int mst_mailbox_has(const struct mst_mailbox *mailbox, const void *caller);
// mst_mailbox_take takes an answer out: the caller has its reference.
void mst_mailbox_take(struct mst_mailbox *mailbox, struct mst_call *answer);
// mst_mailbox_forget drops a verb's answers, and cancels its calls: they stay until their answers
// come. Returns effects.
unsigned mst_mailbox_forget(struct mst_mailbox *mailbox, const void *caller);

// ---- mailboxes with something to do

struct mst_due {
  struct mst_mailbox *first, *last;
};

// mst_due_add notes what a mailbox has to do: bits of enum mst_todo, or 0, have it looked at.
void mst_due_add(struct mst_due *due, struct mst_mailbox *mailbox,
                 uint16_t what);
// mst_due_drop takes the first one off the list.
void mst_due_drop(struct mst_due *due);

#endif
