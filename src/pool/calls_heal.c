// Losses, restarts, and limits on calls. recover.h, heal.h and state.h decide what to do, and
// journal.h keeps what is replayed. The contract is in calls.h.
#include <stdlib.h>

#include "pool/calls_int.h"

// ---- events for the user

static struct mst_loss *loss_of(const struct mst_calls *calls,
                                const struct mst_worker *worker,
                                enum mst_loss_kind kind,
                                const struct mst_judged *known) {
  return mst_worker_loss(worker, calls->id, kind, known);
}

static void tell(struct mst_calls *calls, struct mst_loss *loss) {
  if (loss == NULL) return;
  if (calls->last_told != NULL) {
    calls->last_told->next = loss;
  } else {
    calls->told = loss;
  }
  calls->last_told = loss;
}

static int64_t limit_of(const struct mst_calls *calls,
                        const struct mst_call *call) {
  return call->timeout_ns > 0 ? call->timeout_ns : calls->timeout_ns;
}

void mst_worker_fail_first(struct mst_calls *calls, struct mst_worker *worker,
                           enum mst_loss_kind kind, uint32_t attempts,
                           const struct mst_judged *known) {
  struct mst_call *call = worker->mailbox.first;
  struct mst_loss *loss = loss_of(calls, worker, kind, known);
  if (loss != NULL) {
    loss->call = call->id;
    loss->attempts = attempts;
    loss->oom = worker->oom;
    loss->tag = call->tag;
    loss->limit_ns = limit_of(calls, call);
    loss->own_limit = call->timeout_ns > 0;
    if (call->sent && worker->lost_ns != NEVER)
      loss->ran_ns = worker->lost_ns - worker->head_ns;
  }
  if (!call->cancelled) {
    call->loss = loss;
  } else {
    mst_loss_free(loss);
  }
  mst_calls_effects(
      calls, worker,
      mst_mailbox_finish(&worker->mailbox, call, MST_CALL_LOST, calls->now_ns));
}

// ---- a loss

void mst_worker_lost(struct mst_calls *calls, struct mst_worker *worker) {
  worker->replaying = 0;
  mst_journal_unask(&worker->journal);
  if (worker->to_heal) return;
  worker->to_heal = 1;
  calls->to_heal++;
}

static void wait_no_more(struct mst_calls *calls, struct mst_worker *worker) {
  if (worker->launch_ns == NEVER) return;
  worker->launch_ns = NEVER;
  calls->waiting--;
}

void mst_worker_leave(struct mst_calls *calls, struct mst_worker *worker,
                      int told, const struct mst_judged *known) {
  worker->dead = 1;
  worker->resuming = worker->moves = 0;
  wait_no_more(calls, worker);
  mst_calls_effects(calls, worker,
                    mst_mailbox_drop_cancelled(&worker->mailbox, 1));
  for (struct mst_call *call = worker->mailbox.first, *next; call != NULL;
       call = next) {
    next = call->next;
    call->sent = 0;
    if (!call->is_task) continue; // its verb sees that the worker is dead
    call->loss = loss_of(calls, worker, MST_LOSS_GIVEN_UP, known);
    if (call->loss != NULL) {
      call->loss->call = call->id;
      call->loss->attempts = 1;
      call->loss->oom = worker->oom;
    }
    (void)mst_mailbox_finish(&worker->mailbox, call, MST_CALL_LOST,
                             calls->now_ns);
  }
  mst_calls_sweep(calls);
  mst_calls_look_for_work(calls);
  // Keep the checkpoint if the system only lacked a resource: the worker may be revived from it.
  if ((worker->journal.checkpoint || worker->journal.asking) &&
      (worker->sys_errno == 0 || worker->journal.incomplete)) {
    mst_due_add(&calls->pool.due, worker, MST_DO_FORGET);
  }
  if (told) tell(calls, loss_of(calls, worker, MST_LOSS_GIVEN_UP, known));
}

// redraws tells whether a replay changes what the worker keeps, strays whether it ends at another
// position of the stream.
static int redraws(const struct mst_worker *worker, int from_checkpoint) {
  return from_checkpoint ? worker->rng_since : worker->rng_redraws;
}

static int strays(const struct mst_worker *worker, int from_checkpoint) {
  return from_checkpoint ? worker->rng_other : worker->rng_strayed;
}

// let_go prepares the worker for the next incarnation.
static void let_go(struct mst_worker *worker) {
  mst_worker_forget_why(worker);
  worker->replay_left = 0;
  worker->cancel = 0;
  worker->mailbox.withdraw = worker->mailbox.slow = 0;
  worker->trims = 0;
  worker->resuming = 1;
  mst_mailbox_unsend(&worker->mailbox);
}

void mst_worker_return(struct mst_worker *worker) {
  worker->dead = 0;
  let_go(worker);
}

static void set_alone(struct mst_calls *calls, struct mst_worker *worker,
                      enum mst_alone alone) {
  const int held = worker->alone >= MST_ALONE_WAITS;
  calls->alone -= (uint32_t)(worker->alone >= MST_ALONE_LATER);
  calls->quiet -= (uint32_t)held;
  if (worker->alone != alone) worker->alone_ns = calls->now_ns;
  worker->alone = (uint8_t)alone;
  calls->alone += (uint32_t)(worker->alone >= MST_ALONE_LATER);
  calls->quiet += (uint32_t)(worker->alone >= MST_ALONE_WAITS);
  if (held && calls->quiet == 0) mst_calls_look_for_work(calls);
}

static void restart(struct mst_calls *calls, struct mst_worker *worker,
                    const struct mst_judged *known) {
  // A worker that had no process replaces one whose loss was already reported.
  struct mst_loss *event =
      worker->pid == 0 ? NULL
                       : loss_of(calls, worker, MST_LOSS_RESTARTED, known);
  if (event != NULL) {
    event->oom = worker->oom;
    event->again = worker->mailbox.count;
    if (worker->mailbox.first != NULL) {
      event->attempts = worker->mailbox.first->losses;
    }
    event->fresh_rng = strays(worker, worker->journal.checkpoint) &&
                       !redraws(worker, worker->journal.checkpoint);
  }
  calls->losses++;
  tell(calls, event);
  const struct mst_call *first = worker->mailbox.first;
  const int again = worker->oom && first != NULL && first->losses > 0;
  const int hangs = worker->why == MST_WHY_HEARTBEAT;
  const int64_t ran_ns = calls->now_ns - worker->head_ns;
  worker->hold_ns =
      2 * ran_ns > MST_ALONE_HOLD_NS ? 2 * ran_ns : MST_ALONE_HOLD_NS;
  set_alone(calls, worker, again ? MST_ALONE_NEXT : MST_ALONE_NOT);
  let_go(worker);
  // Its replacement may be as long in coming as its host hangs.
  if (hangs) mst_worker_hand_back(calls, worker);
  mst_calls_tell_pool(calls, MST_EV_RESTART, worker->mailbox.worker);
}

// ---- launches that failed because the system lacked a resource

static void launch_now(struct mst_calls *calls, struct mst_worker *worker) {
  wait_no_more(calls, worker);
  if (calls->pool.phase != MST_POOL_RUNNING || worker->stop_ns != NEVER ||
      worker->dead) {
    mst_worker_leave(calls, worker, 0, NULL);
    return;
  }
  mst_calls_tell_pool(calls, MST_EV_RESTART, worker->mailbox.worker);
}

uint32_t mst_calls_revive(struct mst_calls *calls, int64_t now_ns) {
  uint32_t n = 0;
  calls->now_ns = now_ns;
  if (calls->pool.phase != MST_POOL_RUNNING) return 0;
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    struct mst_worker *worker = calls->pool.workers[i];
    const int waits = worker->why == MST_WHY_SERVER &&
                      worker->site->is != MST_SITE_LOST &&
                      !mst_site_is_gone(worker->site);
    if (!worker->dead || (worker->sys_errno == 0 && !waits)) continue;
    if (worker->state != MST_WORKER_LOST) continue;
    worker->dead = 0;
    worker->launches = 0;
    let_go(worker);
    mst_calls_tell_pool(calls, MST_EV_RESTART, i);
    n++;
  }
  return n;
}

// ---- the verdict on a loss

static void launch_later(struct mst_calls *calls, struct mst_worker *worker) {
  let_go(worker);
  worker->launch_ns = calls->now_ns + (MST_SHORT_PAUSE_NS << worker->launches);
  worker->launches++;
  calls->waiting++;
}

// carry_out carries out a verdict, calls first.
static void carry_out(struct mst_calls *calls, struct mst_worker *worker,
                      const struct mst_verdict *verdict,
                      const struct mst_judged *known) {
  (void)mst_mailbox_drop_cancelled(&worker->mailbox, 1);
  if (verdict->late) {
    mst_worker_fail_first(calls, worker, MST_LOSS_TIMEOUT, 1, known);
  }
  if (verdict->attempts > 0) {
    mst_worker_fail_first(calls, worker, MST_LOSS_POISON, verdict->attempts,
                          known);
  }
  if (verdict->why != MST_WHY_NONE) mst_worker_fail(worker, verdict->why);
  switch (verdict->how) {
  case MST_RECOVER_NOW:
    restart(calls, worker, known);
    break;
  case MST_RECOVER_LATER:
    launch_later(calls, worker);
    break;
  case MST_RECOVER_GIVE_UP:
  case MST_RECOVER_LEAVE:
    mst_worker_leave(calls, worker, verdict->how == MST_RECOVER_GIVE_UP, known);
    break;
  }
}

void mst_calls_judged(struct mst_calls *calls, uint32_t index,
                      const struct mst_judged *judged, int64_t now_ns) {
  struct mst_worker *worker = calls->pool.workers[index];
  calls->now_ns = now_ns;
  if (calls->policy.on && mst_site_is_gone(worker->site) &&
      calls->pool.phase == MST_POOL_RUNNING) {
    free(judged->words); // it waits for another fork server
    return;
  }
  worker->to_heal = 0;
  calls->to_heal--;
  const int ends = calls->pool.phase != MST_POOL_RUNNING ||
                   worker->stop_ns != NEVER || worker->dead;
  const struct mst_verdict verdict =
      mst_recover_judge(worker, &calls->policy, judged, ends, now_ns);
  carry_out(calls, worker, &verdict, judged);
  free(judged->words);
}

// ---- coming back

// give_up: it came back, but its state can't be restored.
static void give_up(struct mst_calls *calls, struct mst_worker *worker,
                    enum mst_why why) {
  mst_worker_fail(worker, why);
  worker->dead = 1;
  tell(calls, loss_of(calls, worker, MST_LOSS_GIVEN_UP, NULL));
  mst_calls_tell_pool(calls, MST_EV_SILENT, worker->mailbox.worker);
}

void mst_worker_ready(struct mst_calls *calls, struct mst_worker *worker) {
  if (worker->epoch == 0) { // it joins
    calls->to_withdraw = 1;
    if (!worker->resuming) return; // it was ready before STARTED
    mst_heal_begin(&worker->heal, calls->now_ns);
  }
  mst_heal_back(&worker->heal, calls->now_ns);
  worker->sys_errno = 0;
  worker->launches = 0;
  worker->replay_left = 0;
  worker->replayed = worker->replay =
      mst_journal_start(&worker->journal, worker->from_checkpoint);
  worker->replaying = 1;
  worker->seeded = 0;
  worker->rng_other = (uint8_t)strays(worker, worker->from_checkpoint);
  worker->rng_kept = 1;
  // Its checkpoint ended after the verdict.
  if (worker->journal.incomplete && !worker->from_checkpoint) {
    worker->replaying = 0;
    give_up(calls, worker, mst_worker_lost_state(worker));
    return;
  }
  if (redraws(worker, worker->from_checkpoint) && !calls->policy.fresh)
    tell(calls, loss_of(calls, worker, MST_LOSS_REDRAWN, NULL));
  mst_due_add(&calls->pool.due, worker, MST_DO_REPLAY);
}

static int others_are_busy(const struct mst_calls *calls,
                           const struct mst_worker *worker) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    const struct mst_worker *other = calls->pool.workers[i];
    // A lost worker owes answers too, but computes nothing, perhaps for ever. Others may not have
    // been sent their calls yet.
    if (other != worker &&
        (other->state == MST_WORKER_BUSY || other->alone == MST_ALONE_RUNS ||
         (mst_worker_is_up(other) && other->mailbox.first != NULL)))
      return 1;
  }
  return 0;
}

static int others_trim(const struct mst_calls *calls,
                       const struct mst_worker *worker) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    const struct mst_worker *other = calls->pool.workers[i];
    if (other != worker && other->trims && mst_worker_is_up(other)) return 1;
  }
  return 0;
}

static void trim_others(struct mst_calls *calls,
                        const struct mst_worker *worker) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    struct mst_worker *other = calls->pool.workers[i];
    if (other == worker || !mst_worker_is_up(other)) continue;
    other->trims = 1;
    mst_due_add(&calls->pool.due, other, MST_DO_TRIM);
  }
}

// may_run tells whether what must run alone may begin. If not, mst_worker_time asks again.
static int may_run(struct mst_calls *calls, struct mst_worker *worker) {
  if (others_are_busy(calls, worker)) {
    if (worker->alone != MST_ALONE_LATER)
      set_alone(calls, worker, MST_ALONE_WAITS);
    return 0;
  }
  if (worker->alone != MST_ALONE_TRIMS) {
    set_alone(calls, worker, MST_ALONE_TRIMS);
    trim_others(calls, worker);
  }
  return !others_trim(calls, worker) ||
         calls->now_ns - worker->alone_ns > worker->hold_ns;
}

void mst_worker_look_alone(struct mst_calls *calls, struct mst_worker *worker) {
  const struct mst_call *first = worker->mailbox.first;
  if (worker->alone < MST_ALONE_LATER) return;
  const enum mst_worker_state state = worker->state;
  const int there = state == MST_WORKER_IDLE || state == MST_WORKER_BUSY ||
                    state == MST_WORKER_DRAINING;
  const int over = first == NULL || (worker->alone == MST_ALONE_RUNS &&
                                     first->id != worker->alone_call);
  // If it was lost, its restart sets this again.
  if (!there || over) {
    set_alone(calls, worker, MST_ALONE_NOT);
  } else if (calls->now_ns - worker->alone_ns > worker->hold_ns) {
    if (worker->alone == MST_ALONE_RUNS)
      set_alone(calls, worker, MST_ALONE_NOT);
    if (worker->alone == MST_ALONE_WAITS)
      set_alone(calls, worker, MST_ALONE_LATER);
  }
}

void mst_worker_go_on(struct mst_calls *calls, struct mst_worker *worker) {
  if (worker->alone != MST_ALONE_NOT && worker->mailbox.first != NULL) {
    if (!may_run(calls, worker)) return;
    set_alone(calls, worker, MST_ALONE_RUNS);
    worker->alone_call = worker->mailbox.first->id;
  } else {
    set_alone(calls, worker, MST_ALONE_NOT);
  }
  worker->resuming = 0;
  if (worker->journal.incomplete) mst_worker_want(calls, worker, 1);
  mst_heal_back(&worker->heal,
                calls->now_ns); // signs of life count from now on
  worker->mailbox.next_sent = worker->mailbox.first;
  mst_due_add(&calls->pool.due, worker, MST_DO_EXEC);
  mst_calls_look_for_work(calls);
}

int mst_worker_run_alone(struct mst_calls *calls, struct mst_worker *worker) {
  const struct mst_call *call = worker->mailbox.first;
  if (worker->alone == MST_ALONE_RUNS && worker->alone_call == call->id)
    return 1;
  worker->resuming = 1;
  worker->hold_ns = MST_ALONE_HOLD_NS;
  set_alone(calls, worker, MST_ALONE_NEXT);
  mst_worker_go_on(calls, worker);
  return !worker->resuming;
}

void mst_calls_trimmed(struct mst_calls *calls, uint32_t index,
                       int64_t now_ns) {
  calls->now_ns = now_ns;
  calls->pool.workers[index]->trims = 0;
  for (uint32_t i = 0; i < calls->pool.count && calls->quiet > 0; i++) {
    if (calls->pool.workers[i]->alone == MST_ALONE_TRIMS)
      mst_worker_go_on(calls, calls->pool.workers[i]);
  }
}

void mst_worker_replayed(struct mst_calls *calls, struct mst_worker *worker,
                         uint16_t flags) {
  const struct mst_entry *entry = worker->replayed;
  if (worker->replay_left == 0 || entry == NULL) return;
  worker->replay_left--;
  worker->replayed = entry->next;
  worker->head_ns = calls->now_ns; // its calls start after the replay
  const int failed = (flags & MST_FLAG_ERROR) != 0;
  if (failed && !entry->failed) {
    give_up(calls, worker, MST_WHY_REPLAY);
  } else if (worker->replay_left == 0 && !worker->replaying) {
    mst_heal_idle(&worker->heal);
  }
}

// ---- signs of life, and time limits

void mst_calls_heard(struct mst_calls *calls, uint32_t index, int64_t now_ns) {
  mst_heal_heard(&calls->pool.workers[index]->heal, now_ns);
}

void mst_calls_deaf(struct mst_calls *calls, uint32_t index, uint64_t call) {
  calls->pool.workers[index]->deaf = call;
}

static void listen_to(struct mst_calls *calls, struct mst_worker *worker,
                      int64_t slept_ns) {
  switch (
      mst_heal_beat(&worker->heal, &calls->policy, slept_ns, calls->now_ns)) {
  case MST_BEAT_ASK:
    mst_due_add(&calls->pool.due, worker, MST_DO_PING);
    break;
  case MST_BEAT_SILENT:
    mst_worker_fail(worker, MST_WHY_HEARTBEAT);
    mst_calls_tell_pool(calls, MST_EV_SILENT, worker->mailbox.worker);
    break;
  case MST_BEAT_FINE:
    break;
  }
}

static void watch_time(struct mst_calls *calls, struct mst_worker *worker) {
  struct mst_call *call = worker->mailbox.first;
  if (call == NULL || call->timed_out || call->cancelled) return;
  if (worker->resuming || worker->replaying || worker->replay_left > 0) return;
  if (calls->now_ns - worker->head_ns < limit_of(calls, call)) return;
  call->timed_out = 1;
  mst_calls_effects(calls, worker, MST_MAILBOX_INTERRUPT);
}

static int is_interrupted(const struct mst_worker *worker) {
  const struct mst_call *call = worker->mailbox.first;
  return call != NULL && call->sent && worker->cancel == call->id &&
         (call->cancelled || call->timed_out);
}

// A worker's watch interrupts a cancelled call, and ends the worker if the call goes on anyway. It
// lets the worker finish what mustn't be left half done (loading packages that a task needs,
// reading a large message). A silent watch is the heartbeat's affair.
static void watch_cancelled(struct mst_calls *calls, struct mst_worker *worker,
                            int64_t slept_ns) {
  if (!is_interrupted(worker)) return;
  // After a long sleep, an answer may have arrived that wasn't read yet.
  if (slept_ns > MST_NS_PER_S) worker->cancel_ns = calls->now_ns;
  if (worker->replay_left > 0) worker->cancel_ns = calls->now_ns;
  if (calls->now_ns - worker->cancel_ns < MST_CANCEL_FINISH_NS) return;
  mst_worker_fail(worker, MST_WHY_CANCEL);
  mst_calls_tell_pool(calls, MST_EV_SILENT, worker->mailbox.worker);
}

void mst_worker_time(struct mst_calls *calls, struct mst_worker *worker,
                     int64_t slept_ns) {
  if (worker->launch_ns <= calls->now_ns) launch_now(calls, worker);
  if (worker->to_heal) mst_due_add(&calls->pool.due, worker, MST_DO_JUDGE);
  // Also if what waited was cancelled.
  const int waits =
      worker->alone >= MST_ALONE_LATER && worker->alone < MST_ALONE_RUNS;
  mst_worker_look_alone(calls, worker);
  const enum mst_worker_state state = worker->state;
  if (state != MST_WORKER_IDLE && state != MST_WORKER_BUSY &&
      state != MST_WORKER_DRAINING) {
    return;
  }
  if (waits) mst_worker_go_on(calls, worker);
  if (worker->resuming && !waits) return; // RESUME is still to come
  if (is_interrupted(worker)) calls->interrupts = 1;
  if (calls->pool.phase == MST_POOL_RUNNING && calls->started) {
    listen_to(calls, worker, slept_ns);
    watch_cancelled(calls, worker, slept_ns);
  }
  watch_time(calls, worker);
}
