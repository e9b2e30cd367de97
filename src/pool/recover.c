// The verdict on a loss. The contract is in recover.h.
#include "pool/recover.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_err.h"

void mst_worker_fail(struct mst_worker *worker, enum mst_why why) {
  if (worker->why == MST_WHY_NONE) worker->why = why;
}

void mst_worker_fail_told(struct mst_worker *worker, const char *text) {
  if (worker->why != MST_WHY_NONE) return;
  worker->why = MST_WHY_TOLD;
  worker->failure = strdup(text);
}

void mst_worker_forget_why(struct mst_worker *worker) {
  worker->why = MST_WHY_NONE;
  free(worker->failure);
  worker->failure = NULL;
}

static char *copy_of(const char *text) {
  return text == NULL ? NULL : strdup(text);
}

struct mst_loss *mst_worker_loss(const struct mst_worker *worker,
                                 uint32_t cluster, enum mst_loss_kind kind,
                                 const struct mst_judged *known) {
  struct mst_loss *loss = calloc(1, sizeof *loss);
  if (loss == NULL) return NULL;
  loss->kind = kind;
  loss->cluster = cluster;
  loss->worker = worker->mailbox.worker;
  loss->pid = worker->pid;
  loss->how = worker->exit_known ? worker->exit_how : MST_EXIT_NONE;
  loss->number = worker->exit_number;
  loss->ours = worker->ours;
  loss->sys_errno = worker->sys_errno;
  if (known != NULL) {
    loss->output = copy_of(known->words);
    loss->host = copy_of(known->host);
    loss->job = copy_of(known->job);
  }
  loss->why = worker->why;
  if (worker->failure != NULL) loss->reason = strdup(worker->failure);
  return loss;
}

enum mst_why mst_worker_lost_state(const struct mst_worker *worker) {
  static const enum mst_why whys[] = {[MST_COMPLETE] = MST_WHY_NONE,
                                      [MST_INCOMPLETE_MANY] = MST_WHY_MANY,
                                      [MST_INCOMPLETE_LONG] = MST_WHY_LONG,
                                      [MST_INCOMPLETE_MEMORY] = MST_WHY_MEMORY,
                                      [MST_INCOMPLETE_ENDED] = MST_WHY_ENDED};
  return whys[worker->journal.incomplete];
}

// ---- who killed it

// ignored_interrupt: its watch ended it since its call went on after its grace.
static int ignored_interrupt(const struct mst_worker *worker) {
  const struct mst_call *call = worker->mailbox.first;
  return call != NULL && worker->deaf == call->id;
}

// note_killer: muster, if it has noted a reason; the kernel, for memory; or unknown.
static void note_killer(struct mst_worker *worker, int oom) {
  const int killed = worker->exit_known &&
                     worker->exit_how == MST_EXIT_SIGNAL &&
                     worker->exit_number == SIGKILL;
  if (killed && ignored_interrupt(worker)) {
    mst_worker_fail(worker, MST_WHY_INTERRUPT);
  }
  worker->ours = (uint8_t)(killed && worker->why != MST_WHY_NONE);
  worker->oom = (uint8_t)(killed && !worker->ours && oom);
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
static struct mst_verdict launch_later(struct mst_worker *worker,
                                       int sys_errno) {
  worker->sys_errno = sys_errno;
  if (worker->launches < MST_SHORT_TRIES) {
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
static enum mst_heal_at blame(struct mst_worker *worker,
                              struct mst_verdict *verdict,
                              struct mst_call **oldest) {
  struct mst_call *first = worker->mailbox.first;
  struct mst_call *call = first_wanted(first);
  int evaluating =
      call == first && !worker->resuming && worker->replay_left == 0;
  if (call != NULL && call->timed_out) {
    verdict->late = 1;
    call = first_wanted(call->next);
    evaluating = 0;
    mst_heal_answered(&worker->heal);
  }
  *oldest = call;
  if (worker->replay_left > 0) return MST_HEAL_REPLAYING;
  return evaluating && call != NULL && call->sent ? MST_HEAL_EVALUATING
                                                  : MST_HEAL_IDLE;
}

// judge_loss asks heal.h, with the retries of the call that is to blame.
static struct mst_verdict judge_loss(struct mst_worker *worker,
                                     const struct mst_heal_policy *policy,
                                     int64_t now_ns) {
  struct mst_verdict verdict = {.how = MST_RECOVER_LEAVE};
  struct mst_call *oldest = worker->mailbox.first;
  struct mst_heal_policy own = *policy;
  const enum mst_heal_at at =
      policy->on ? blame(worker, &verdict, &oldest) : MST_HEAL_IDLE;
  if (oldest != NULL && oldest->retries >= 0) {
    own.retries = (uint32_t)oldest->retries;
  }
  uint32_t *losses = oldest == NULL ? NULL : &oldest->losses;
  switch (mst_heal_lost(&worker->heal, &own, at, losses, now_ns)) {
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
  if (worker->journal.incomplete) {
    verdict.how = MST_RECOVER_GIVE_UP;
    verdict.why = mst_worker_lost_state(worker);
  }
  return verdict;
}

struct mst_verdict mst_recover_judge(struct mst_worker *worker,
                                     const struct mst_heal_policy *policy,
                                     const struct mst_judged *judged, int ends,
                                     int64_t now_ns) {
  struct mst_call *first = worker->mailbox.first;
  note_killer(worker, judged->oom);
  if (first_wanted(first) != first) mst_heal_answered(&worker->heal);
  if (ends) return (struct mst_verdict){.how = MST_RECOVER_LEAVE};
  if (policy->on && worker->site->is == MST_SITE_LOST) {
    mst_worker_forget_why(worker); // this is why it doesn't come back
    return (struct mst_verdict){.how = MST_RECOVER_GIVE_UP,
                                .why = MST_WHY_SERVER};
  }
  const int lacks = short_of(worker, judged);
  if (policy->on && lacks != 0) return launch_later(worker, lacks);
  worker->sys_errno = 0; // no shortage this time
  // The fork server found threads in itself (fork/server.c).
  if (launch_errno(worker) == EDEADLK) mst_worker_fail(worker, MST_WHY_THREADS);
  return judge_loss(worker, policy, now_ns);
}
