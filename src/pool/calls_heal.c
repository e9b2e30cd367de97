// Losses, restarts, and limits on calls. recover.h, heal.h and state.h decide what to do, and
// journal.h keeps what is replayed. The contract is in calls.h.
#include <stdlib.h>

#include "pool/calls_int.h"

// ---- events for the user

static struct mst_loss *loss_of(const struct mst_calls *calls,
                                const struct mst_slot *slot,
                                enum mst_loss_kind kind, const char *words) {
  return mst_slot_loss(slot, worker_of(calls, slot), calls->id, kind, words);
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

void mst_slot_fail_first(struct mst_calls *calls, struct mst_slot *slot,
                         enum mst_loss_kind kind, uint32_t attempts,
                         const char *words) {
  struct mst_call *call = slot->mailbox.first;
  struct mst_loss *loss = loss_of(calls, slot, kind, words);
  if (loss != NULL) {
    loss->call = call->id;
    loss->attempts = attempts;
    loss->oom = slot->oom;
    loss->tag = call->tag;
    loss->limit_ns = limit_of(calls, call);
    loss->own_limit = call->timeout_ns > 0;
  }
  if (!call->cancelled) {
    call->loss = loss;
  } else {
    mst_loss_free(loss);
  }
  mst_calls_effects(
      calls, slot,
      mst_mailbox_finish(&slot->mailbox, call, MST_CALL_LOST, calls->now_ns));
}

// ---- a loss

void mst_slot_lost(struct mst_calls *calls, struct mst_slot *slot) {
  slot->ended = 1;
  slot->replaying = 0;
  if (slot->to_heal) return;
  slot->to_heal = 1;
  calls->to_heal++;
}

static void wait_no_more(struct mst_calls *calls, struct mst_slot *slot) {
  if (slot->launch_ns == NEVER) return;
  slot->launch_ns = NEVER;
  calls->waiting--;
}

void mst_slot_leave(struct mst_calls *calls, struct mst_slot *slot, int told,
                    const char *words) {
  slot->dead = 1;
  slot->resuming = slot->moves = 0;
  wait_no_more(calls, slot);
  mst_calls_effects(calls, slot, mst_mailbox_drop_cancelled(&slot->mailbox, 1));
  for (struct mst_call *call = slot->mailbox.first, *next; call != NULL;
       call = next) {
    next = call->next;
    call->sent = 0;
    if (!call->is_task) continue; // its verb sees that the worker is dead
    call->loss = loss_of(calls, slot, MST_LOSS_GIVEN_UP, words);
    if (call->loss != NULL) {
      call->loss->call = call->id;
      call->loss->attempts = 1;
      call->loss->oom = slot->oom;
    }
    (void)mst_mailbox_finish(&slot->mailbox, call, MST_CALL_LOST,
                             calls->now_ns);
  }
  mst_calls_sweep(calls);
  mst_calls_look_for_work(calls);
  // Keep the checkpoint if the system only lacked a resource: the worker may be revived from it.
  if ((slot->journal.checkpoint || slot->journal.asking) &&
      (slot->sys_errno == 0 || slot->journal.incomplete)) {
    mst_due_add(&calls->due, &slot->mailbox, MST_TODO_FORGET);
  }
  if (told) tell(calls, loss_of(calls, slot, MST_LOSS_GIVEN_UP, words));
}

// redraws tells whether a replay changes what the worker keeps, strays whether it ends at another
// position of the stream.
static int redraws(const struct mst_slot *slot, int from_checkpoint) {
  return from_checkpoint ? slot->rng_since : slot->rng_redraws;
}

static int strays(const struct mst_slot *slot, int from_checkpoint) {
  return from_checkpoint ? slot->rng_other : slot->rng_strayed;
}

// let_go prepares the slot for the next incarnation.
static void let_go(struct mst_calls *calls, struct mst_slot *slot) {
  mst_journal_unask(&slot->journal);
  mst_due_add(&calls->due, &slot->mailbox, MST_TODO_PAUSE);
  mst_slot_forget_why(slot);
  slot->replay_left = 0;
  slot->cancel = 0;
  slot->mailbox.withdraw = slot->mailbox.slow = 0;
  slot->trims = 0;
  slot->resuming = 1;
  mst_mailbox_unsend(&slot->mailbox);
}

void mst_slot_return(struct mst_calls *calls, struct mst_slot *slot) {
  slot->dead = 0;
  let_go(calls, slot);
}

static void set_alone(struct mst_calls *calls, struct mst_slot *slot,
                      enum mst_alone alone) {
  const int held = slot->alone >= MST_ALONE_WAITS;
  calls->alone -= (uint32_t)(slot->alone >= MST_ALONE_LATER);
  calls->quiet -= (uint32_t)held;
  if (slot->alone != alone) slot->alone_ns = calls->now_ns;
  slot->alone = (uint8_t)alone;
  calls->alone += (uint32_t)(slot->alone >= MST_ALONE_LATER);
  calls->quiet += (uint32_t)(slot->alone >= MST_ALONE_WAITS);
  if (held && calls->quiet == 0) mst_calls_look_for_work(calls);
}

static void restart(struct mst_calls *calls, struct mst_slot *slot,
                    const char *words) {
  // A worker that had no process replaces one whose loss was already reported.
  struct mst_loss *event =
      worker_of(calls, slot)->pid == 0
          ? NULL
          : loss_of(calls, slot, MST_LOSS_RESTARTED, words);
  if (event != NULL) {
    event->oom = slot->oom;
    event->again = slot->mailbox.count;
    if (slot->mailbox.first != NULL) {
      event->attempts = slot->mailbox.first->losses;
    }
    event->fresh_rng = strays(slot, slot->journal.checkpoint) &&
                       !redraws(slot, slot->journal.checkpoint);
  }
  calls->losses++;
  tell(calls, event);
  const struct mst_call *first = slot->mailbox.first;
  const int again = slot->oom && first != NULL && first->losses > 0;
  const int hangs = slot->why == MST_WHY_HEARTBEAT;
  const int64_t ran_ns = calls->now_ns - slot->head_ns;
  slot->hold_ns =
      2 * ran_ns > MST_ALONE_HOLD_NS ? 2 * ran_ns : MST_ALONE_HOLD_NS;
  set_alone(calls, slot, again ? MST_ALONE_NEXT : MST_ALONE_NOT);
  let_go(calls, slot);
  // Its replacement may be as long in coming as its host hangs.
  if (hangs) mst_slot_hand_back(calls, slot);
  mst_calls_tell_pool(calls, MST_EV_RESTART, slot->mailbox.worker);
}

// ---- launches that failed because the system lacked a resource

static void launch_now(struct mst_calls *calls, struct mst_slot *slot) {
  wait_no_more(calls, slot);
  if (calls->pool.phase != MST_POOL_RUNNING ||
      worker_of(calls, slot)->stop_ns != NEVER || slot->dead) {
    mst_slot_leave(calls, slot, 0, NULL);
    return;
  }
  mst_calls_tell_pool(calls, MST_EV_RESTART, slot->mailbox.worker);
}

uint32_t mst_calls_revive(struct mst_calls *calls, int64_t now_ns) {
  uint32_t n = 0;
  calls->now_ns = now_ns;
  if (calls->pool.phase != MST_POOL_RUNNING) return 0;
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    struct mst_slot *slot = calls->slots[i];
    const int waits =
        slot->why == MST_WHY_SERVER && slot->launcher == MST_LAUNCHER_THERE;
    if (!slot->dead || (slot->sys_errno == 0 && !waits)) continue;
    if (worker_of(calls, slot)->state != MST_WORKER_LOST) continue;
    slot->dead = 0;
    slot->launches = 0;
    let_go(calls, slot);
    mst_calls_tell_pool(calls, MST_EV_RESTART, i);
    n++;
  }
  return n;
}

// ---- the verdict on a loss

static void launch_later(struct mst_calls *calls, struct mst_slot *slot) {
  let_go(calls, slot);
  slot->launch_ns = calls->now_ns + (MST_SHORT_PAUSE_NS << slot->launches);
  slot->launches++;
  calls->waiting++;
}

// carry_out carries out a verdict, calls first.
static void carry_out(struct mst_calls *calls, struct mst_slot *slot,
                      const struct mst_verdict *verdict, const char *words) {
  (void)mst_mailbox_drop_cancelled(&slot->mailbox, 1);
  if (verdict->late) {
    mst_slot_fail_first(calls, slot, MST_LOSS_TIMEOUT, 1, words);
  }
  if (verdict->attempts > 0) {
    mst_slot_fail_first(calls, slot, MST_LOSS_POISON, verdict->attempts, words);
  }
  if (verdict->why != MST_WHY_NONE) mst_slot_fail(slot, verdict->why);
  switch (verdict->how) {
  case MST_RECOVER_NOW:
    restart(calls, slot, words);
    break;
  case MST_RECOVER_LATER:
    launch_later(calls, slot);
    break;
  case MST_RECOVER_GIVE_UP:
  case MST_RECOVER_LEAVE:
    mst_slot_leave(calls, slot, verdict->how == MST_RECOVER_GIVE_UP, words);
    break;
  }
}

void mst_calls_judged(struct mst_calls *calls, uint32_t worker,
                      const struct mst_judged *judged, int64_t now_ns) {
  struct mst_slot *slot = calls->slots[worker];
  calls->now_ns = now_ns;
  slot->to_heal = 0;
  calls->to_heal--;
  const int ends = calls->pool.phase != MST_POOL_RUNNING ||
                   worker_of(calls, slot)->stop_ns != NEVER || slot->dead;
  const struct mst_verdict verdict = mst_recover_judge(
      slot, worker_of(calls, slot), &calls->policy, judged, ends, now_ns);
  carry_out(calls, slot, &verdict, judged->words);
  free(judged->words);
}

// ---- coming back

// give_up: it came back, but its state can't be restored.
static void give_up(struct mst_calls *calls, struct mst_slot *slot,
                    enum mst_why why) {
  mst_slot_fail(slot, why);
  slot->dead = 1;
  tell(calls, loss_of(calls, slot, MST_LOSS_GIVEN_UP, NULL));
  mst_calls_tell_pool(calls, MST_EV_SILENT, slot->mailbox.worker);
}

void mst_slot_resume(struct mst_calls *calls, struct mst_slot *slot) {
  mst_heal_back(&slot->heal, calls->now_ns);
  slot->sys_errno = 0;
  slot->launches = 0;
  slot->replay_left = 0;
  slot->replayed = slot->replay =
      mst_journal_start(&slot->journal, slot->from_checkpoint);
  slot->replaying = 1;
  slot->seeded = 0;
  slot->rng_other = (uint8_t)strays(slot, slot->from_checkpoint);
  slot->rng_kept = 1;
  // Its checkpoint ended after the verdict.
  if (slot->journal.incomplete && !slot->from_checkpoint) {
    slot->replaying = 0;
    give_up(calls, slot, mst_slot_lost_state(slot));
    return;
  }
  if (redraws(slot, slot->from_checkpoint) && !calls->policy.fresh)
    tell(calls, loss_of(calls, slot, MST_LOSS_REDRAWN, NULL));
  mst_due_add(&calls->due, &slot->mailbox, 0);
}

static int others_are_busy(const struct mst_calls *calls,
                           const struct mst_slot *slot) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    const struct mst_slot *other = calls->slots[i];
    // A lost worker owes answers too, but computes nothing, perhaps for ever. Others may not have
    // been sent their calls yet.
    if (other != slot &&
        (worker_of(calls, other)->state == MST_WORKER_BUSY ||
         other->alone == MST_ALONE_RUNS ||
         (mst_calls_is_up(calls, other) && other->mailbox.first != NULL)))
      return 1;
  }
  return 0;
}

static int others_trim(const struct mst_calls *calls,
                       const struct mst_slot *slot) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    const struct mst_slot *other = calls->slots[i];
    if (other != slot && other->trims && mst_calls_is_up(calls, other))
      return 1;
  }
  return 0;
}

static void trim_others(struct mst_calls *calls, const struct mst_slot *slot) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    struct mst_slot *other = calls->slots[i];
    if (other == slot || !mst_calls_is_up(calls, other)) continue;
    other->trims = 1;
    mst_due_add(&calls->due, &other->mailbox, MST_TODO_TRIM);
  }
}

// may_run tells whether what must run alone may begin. If not, mst_slot_time asks again.
static int may_run(struct mst_calls *calls, struct mst_slot *slot) {
  if (others_are_busy(calls, slot)) {
    if (slot->alone != MST_ALONE_LATER) set_alone(calls, slot, MST_ALONE_WAITS);
    return 0;
  }
  if (slot->alone != MST_ALONE_TRIMS) {
    set_alone(calls, slot, MST_ALONE_TRIMS);
    trim_others(calls, slot);
  }
  return !others_trim(calls, slot) ||
         calls->now_ns - slot->alone_ns > slot->hold_ns;
}

void mst_slot_look_alone(struct mst_calls *calls, struct mst_slot *slot) {
  const struct mst_call *first = slot->mailbox.first;
  if (slot->alone < MST_ALONE_LATER) return;
  const enum mst_worker_state state = worker_of(calls, slot)->state;
  const int there = state == MST_WORKER_IDLE || state == MST_WORKER_BUSY ||
                    state == MST_WORKER_DRAINING;
  const int over = first == NULL || (slot->alone == MST_ALONE_RUNS &&
                                     first->id != slot->alone_call);
  // If it was lost, its restart sets this again.
  if (!there || over) {
    set_alone(calls, slot, MST_ALONE_NOT);
  } else if (calls->now_ns - slot->alone_ns > slot->hold_ns) {
    if (slot->alone == MST_ALONE_RUNS) set_alone(calls, slot, MST_ALONE_NOT);
    if (slot->alone == MST_ALONE_WAITS) set_alone(calls, slot, MST_ALONE_LATER);
  }
}

void mst_slot_go_on(struct mst_calls *calls, struct mst_slot *slot) {
  if (slot->alone != MST_ALONE_NOT && slot->mailbox.first != NULL) {
    if (!may_run(calls, slot)) return;
    set_alone(calls, slot, MST_ALONE_RUNS);
    slot->alone_call = slot->mailbox.first->id;
  } else {
    set_alone(calls, slot, MST_ALONE_NOT);
  }
  slot->resuming = 0;
  if (slot->journal.incomplete) mst_slot_want(calls, slot, 1);
  mst_heal_back(&slot->heal, calls->now_ns); // signs of life count from now on
  slot->mailbox.next_sent = slot->mailbox.first;
  mst_due_add(&calls->due, &slot->mailbox, MST_TODO_CALLS);
  mst_calls_look_for_work(calls);
}

int mst_slot_run_alone(struct mst_calls *calls, struct mst_slot *slot) {
  const struct mst_call *call = slot->mailbox.first;
  if (slot->alone == MST_ALONE_RUNS && slot->alone_call == call->id) return 1;
  slot->resuming = 1;
  slot->hold_ns = MST_ALONE_HOLD_NS;
  set_alone(calls, slot, MST_ALONE_NEXT);
  mst_slot_go_on(calls, slot);
  return !slot->resuming;
}

void mst_calls_trimmed(struct mst_calls *calls, uint32_t worker,
                       int64_t now_ns) {
  calls->now_ns = now_ns;
  calls->slots[worker]->trims = 0;
  for (uint32_t i = 0; i < calls->pool.count && calls->quiet > 0; i++) {
    if (calls->slots[i]->alone == MST_ALONE_TRIMS)
      mst_slot_go_on(calls, calls->slots[i]);
  }
}

void mst_slot_replayed(struct mst_calls *calls, struct mst_slot *slot,
                       uint16_t flags) {
  const struct mst_entry *entry = slot->replayed;
  if (slot->replay_left == 0 || entry == NULL) return;
  slot->replay_left--;
  slot->replayed = entry->next;
  slot->head_ns = calls->now_ns; // its calls start after the replay
  const int failed = (flags & MST_FLAG_ERROR) != 0;
  if (failed && !entry->failed) {
    give_up(calls, slot, MST_WHY_REPLAY);
  } else if (slot->replay_left == 0 && !slot->replaying) {
    mst_heal_idle(&slot->heal);
  }
}

// ---- signs of life, and time limits

void mst_calls_heard(struct mst_calls *calls, uint32_t worker, int64_t now_ns) {
  mst_heal_heard(&calls->slots[worker]->heal, now_ns);
}

void mst_calls_deaf(struct mst_calls *calls, uint32_t worker, uint64_t call) {
  calls->slots[worker]->deaf = call;
}

static void listen_to(struct mst_calls *calls, struct mst_slot *slot,
                      int64_t slept_ns) {
  switch (mst_heal_beat(&slot->heal, &calls->policy, slept_ns, calls->now_ns)) {
  case MST_BEAT_ASK:
    mst_due_add(&calls->due, &slot->mailbox, MST_TODO_PING);
    break;
  case MST_BEAT_SILENT:
    mst_slot_fail(slot, MST_WHY_HEARTBEAT);
    mst_calls_tell_pool(calls, MST_EV_SILENT, slot->mailbox.worker);
    break;
  case MST_BEAT_FINE:
    break;
  }
}

static void watch_time(struct mst_calls *calls, struct mst_slot *slot) {
  struct mst_call *call = slot->mailbox.first;
  if (call == NULL || call->timed_out || call->cancelled) return;
  if (slot->resuming || slot->replaying || slot->replay_left > 0) return;
  if (calls->now_ns - slot->head_ns < limit_of(calls, call)) return;
  call->timed_out = 1;
  mst_calls_effects(calls, slot, MST_MAILBOX_INTERRUPT);
}

static int is_interrupted(const struct mst_slot *slot) {
  const struct mst_call *call = slot->mailbox.first;
  return call != NULL && call->sent && slot->cancel == call->id &&
         (call->cancelled || call->timed_out);
}

// A worker's watch interrupts a cancelled call, and ends the worker if the call goes on anyway. It
// lets the worker finish what mustn't be left half done (loading packages that a task needs,
// reading a large message). A silent watch is the heartbeat's affair.
static void watch_cancelled(struct mst_calls *calls, struct mst_slot *slot,
                            int64_t slept_ns) {
  if (!is_interrupted(slot)) return;
  // After a long sleep, an answer may have arrived that wasn't read yet.
  if (slept_ns > MST_NS_PER_S) slot->cancel_ns = calls->now_ns;
  if (slot->replay_left > 0) slot->cancel_ns = calls->now_ns;
  if (calls->now_ns - slot->cancel_ns < MST_CANCEL_FINISH_NS) return;
  mst_slot_fail(slot, MST_WHY_CANCEL);
  mst_calls_tell_pool(calls, MST_EV_SILENT, slot->mailbox.worker);
}

void mst_slot_time(struct mst_calls *calls, struct mst_slot *slot,
                   int64_t slept_ns) {
  if (slot->launch_ns <= calls->now_ns) launch_now(calls, slot);
  if (slot->to_heal) {
    if (calls->policy.on && slot->launcher == MST_LAUNCHER_GONE &&
        calls->pool.phase == MST_POOL_RUNNING) {
      // Wait for another launcher.
      mst_due_add(&calls->due, &slot->mailbox, MST_TODO_ORPHANED);
    } else {
      mst_due_add(&calls->due, &slot->mailbox, MST_TODO_JUDGE);
    }
  }
  // Also if what waited was cancelled.
  const int waits =
      slot->alone >= MST_ALONE_LATER && slot->alone < MST_ALONE_RUNS;
  mst_slot_look_alone(calls, slot);
  const enum mst_worker_state state = worker_of(calls, slot)->state;
  if (state != MST_WORKER_IDLE && state != MST_WORKER_BUSY &&
      state != MST_WORKER_DRAINING) {
    return;
  }
  if (waits) mst_slot_go_on(calls, slot);
  if (slot->resuming && !waits) return; // RESTARTED is still to come
  if (is_interrupted(slot)) calls->interrupts = 1;
  if (calls->pool.phase == MST_POOL_RUNNING && calls->started) {
    listen_to(calls, slot, slept_ns);
    watch_cancelled(calls, slot, slept_ns);
  }
  watch_time(calls, slot);
}
