// The verdict on a loss. The contract is in recover.h.
#include "pool/recover.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_err.h"

void mst_slot_fail(struct mst_slot *slot, enum mst_why why) {
  if (slot->why == MST_WHY_NONE) slot->why = why;
}

void mst_slot_fail_told(struct mst_slot *slot, const char *text) {
  if (slot->why != MST_WHY_NONE) return;
  slot->why = MST_WHY_TOLD;
  slot->failure = strdup(text);
}

void mst_slot_forget_why(struct mst_slot *slot) {
  slot->why = MST_WHY_NONE;
  free(slot->failure);
  slot->failure = NULL;
}

struct mst_loss *mst_slot_loss(const struct mst_slot *slot,
                               const struct mst_worker *worker,
                               uint32_t cluster, enum mst_loss_kind kind,
                               const char *words) {
  struct mst_loss *loss = calloc(1, sizeof *loss);
  if (loss == NULL) return NULL;
  loss->kind = kind;
  loss->cluster = cluster;
  loss->worker = slot->mailbox.worker;
  loss->pid = worker->pid;
  loss->how = worker->exit_known ? worker->exit_how : MST_EXIT_NONE;
  loss->number = worker->exit_number;
  loss->ours = slot->ours;
  loss->sys_errno = slot->sys_errno;
  if (words != NULL) loss->output = strdup(words);
  loss->why = slot->why;
  if (slot->failure != NULL) loss->reason = strdup(slot->failure);
  return loss;
}

enum mst_why mst_slot_lost_state(const struct mst_slot *slot) {
  static const enum mst_why whys[] = {[MST_COMPLETE] = MST_WHY_NONE,
                                      [MST_INCOMPLETE_MANY] = MST_WHY_MANY,
                                      [MST_INCOMPLETE_LONG] = MST_WHY_LONG,
                                      [MST_INCOMPLETE_MEMORY] = MST_WHY_MEMORY,
                                      [MST_INCOMPLETE_ENDED] = MST_WHY_ENDED};
  return whys[slot->journal.incomplete];
}

// ---- who killed it

// ignored_interrupt: its watch ended it since its call went on after its grace.
static int ignored_interrupt(const struct mst_slot *slot) {
  const struct mst_call *call = slot->mailbox.first;
  return call != NULL && slot->deaf == call->id;
}

// note_killer: muster, if it has noted a reason; the kernel, for memory; or unknown.
static void note_killer(struct mst_slot *slot, const struct mst_worker *worker,
                        int oom) {
  const int killed = worker->exit_known &&
                     worker->exit_how == MST_EXIT_SIGNAL &&
                     worker->exit_number == SIGKILL;
  if (killed && ignored_interrupt(slot)) {
    mst_slot_fail(slot, MST_WHY_INTERRUPT);
  }
  slot->ours = (uint8_t)(killed && slot->why != MST_WHY_NONE);
  slot->oom = (uint8_t)(killed && !slot->ours && oom);
}

// ---- launches that failed because the system lacked a resource

// launch_errno gives the errno of a failed launch, 0 if there was a process.
static int launch_errno(const struct mst_worker *worker) {
  const int failed = worker->exit_known && worker->exit_how == MST_EXIT_NONE;
  return failed ? worker->exit_number : 0;
}

// short_of gives the errno of a shortage that prevented the launch, or 0.
static int short_of(const struct mst_worker *worker,
                    const struct mst_judged *judged) {
  if (mst_err_is_shortage(judged->sys_errno)) return judged->sys_errno;
  const int sys_errno = launch_errno(worker);
  return mst_err_is_shortage(sys_errno) ? sys_errno : 0;
}

// launch_later: the worker isn't to blame for a shortage.
static struct mst_verdict launch_later(struct mst_slot *slot, int sys_errno) {
  slot->sys_errno = sys_errno;
  if (slot->launches < MST_SHORT_TRIES) {
    return (struct mst_verdict){.how = MST_RECOVER_LATER};
  }
  return (struct mst_verdict){.how = MST_RECOVER_GIVE_UP, .why = MST_WHY_SHORT};
}

// ---- which call is to blame

static struct mst_call *first_wanted(struct mst_call *at) {
  while (at != NULL && at->cancelled)
    at = at->next;
  return at;
}

// blame finds what the worker was doing, and the call that is now the oldest. A call that a lost
// worker was given, and never sent, isn't to blame.
static enum mst_heal_at blame(struct mst_slot *slot,
                              struct mst_verdict *verdict,
                              struct mst_call **oldest) {
  struct mst_call *first = slot->mailbox.first;
  struct mst_call *call = first_wanted(first);
  int evaluating = call == first && !slot->resuming && slot->replay_left == 0;
  if (call != NULL && call->timed_out) {
    verdict->late = 1;
    call = first_wanted(call->next);
    evaluating = 0;
    mst_heal_answered(&slot->heal);
  }
  *oldest = call;
  if (slot->replay_left > 0) return MST_HEAL_REPLAYING;
  return evaluating && call != NULL && call->sent ? MST_HEAL_EVALUATING
                                                  : MST_HEAL_IDLE;
}

// judge_loss asks heal.h, with the retries of the call that is to blame.
static struct mst_verdict judge_loss(struct mst_slot *slot,
                                     const struct mst_heal_policy *policy,
                                     int64_t now_ns) {
  struct mst_verdict verdict = {.how = MST_RECOVER_LEAVE};
  struct mst_call *oldest = slot->mailbox.first;
  struct mst_heal_policy own = *policy;
  const enum mst_heal_at at =
      policy->on ? blame(slot, &verdict, &oldest) : MST_HEAL_IDLE;
  if (oldest != NULL && oldest->retries >= 0) {
    own.retries = (uint32_t)oldest->retries;
  }
  uint32_t *losses = oldest == NULL ? NULL : &oldest->losses;
  switch (mst_heal_lost(&slot->heal, &own, at, losses, now_ns)) {
  case MST_HEAL_LEAVE:
    return verdict;
  case MST_HEAL_GIVE_UP:
    verdict.how = MST_RECOVER_GIVE_UP;
    return verdict;
  case MST_HEAL_POISON:
    verdict.attempts = own.retries + 1;
    break;
  case MST_HEAL_RESTART:
    break;
  }
  verdict.how = MST_RECOVER_NOW;
  if (slot->journal.incomplete) {
    verdict.how = MST_RECOVER_GIVE_UP;
    verdict.why = mst_slot_lost_state(slot);
  }
  return verdict;
}

struct mst_verdict mst_recover_judge(struct mst_slot *slot,
                                     const struct mst_worker *worker,
                                     const struct mst_heal_policy *policy,
                                     const struct mst_judged *judged, int ends,
                                     int64_t now_ns) {
  struct mst_call *first = slot->mailbox.first;
  note_killer(slot, worker, judged->oom);
  if (first_wanted(first) != first) mst_heal_answered(&slot->heal);
  if (ends) return (struct mst_verdict){.how = MST_RECOVER_LEAVE};
  if (policy->on && slot->launcher == MST_LAUNCHER_LOST) {
    mst_slot_forget_why(slot); // this is why it doesn't come back
    return (struct mst_verdict){.how = MST_RECOVER_GIVE_UP,
                                .why = MST_WHY_SERVER};
  }
  const int lacks = short_of(worker, judged);
  if (policy->on && lacks != 0) return launch_later(slot, lacks);
  slot->sys_errno = 0; // no shortage this time
  // The fork server found threads in itself (fork/server.c).
  if (launch_errno(worker) == EDEADLK) mst_slot_fail(slot, MST_WHY_THREADS);
  return judge_loss(slot, policy, now_ns);
}
