// The order of the core's actions. The contract is in calls.h.
#include "base/mst_assert.h"
#include "pool/calls_int.h"

// ---- actions

static int give(struct mst_calls_action *action, enum mst_calls_do kind,
                uint32_t worker) {
  *action = (struct mst_calls_action){.kind = kind, .worker = worker};
  return 1;
}

static int give_payload(struct mst_calls_action *action, enum mst_calls_do kind,
                        const struct mst_slot *slot, struct mst_blob *payload,
                        uint64_t id) {
  (void)give(action, kind, slot->mailbox.worker);
  action->payload = payload;
  action->id = id;
  return 1;
}

static int give_seed(struct mst_calls_action *action,
                     const struct mst_slot *slot, const struct mst_seed *seed) {
  (void)give(action, MST_CALLS_SEED, slot->mailbox.worker);
  action->seed = *seed;
  return 1;
}

// give_job gives a job, or one of a group, that this incarnation doesn't have: 1, or 0 if it has
// all. If memory is too short to note it, it isn't sent, and the call fails.
static int give_job(const struct mst_calls *calls, struct mst_slot *slot,
                    struct mst_job *job, struct mst_calls_action *action) {
  const uint32_t epoch = worker_of(calls, slot)->epoch;
  struct mst_job *next = mst_job_missing(job, slot->mailbox.worker, epoch);
  if (next == NULL || mst_job_note(next, slot->mailbox.worker, epoch) != 0)
    return 0;
  return give_payload(action, MST_CALLS_JOB, slot, next->bytes, next->id);
}

// Replays the next entry: first the stream's position before it, then its job, then the call.
static int give_entry(const struct mst_calls *calls, struct mst_slot *slot,
                      struct mst_calls_action *action) {
  struct mst_entry *entry = slot->replay;
  if (entry->seed.known && !slot->seeded) {
    slot->seeded = 1;
    return give_seed(action, slot, &entry->seed);
  }
  if (give_job(calls, slot, entry->job, action)) return 1;
  slot->seeded = 0;
  slot->replay = entry->next;
  slot->replay_left++;
  (void)give_payload(action, MST_CALLS_EXEC, slot, entry->payload, entry->call);
  action->flags = MST_FLAG_REPLAY | (entry->is_task ? MST_FLAG_TASK : 0);
  return 1;
}

static int give_replay(struct mst_calls *calls, struct mst_slot *slot,
                       struct mst_calls_action *action) {
  if (slot->replay != NULL) return give_entry(calls, slot, action);
  const int seeds = slot->seed.known || slot->rng_other;
  slot->replaying = 0;
  slot->rng_other = 0;
  if (seeds && !slot->seed.known) { // a fresh stream
    slot->rng_kept = 0;
    slot->rng_strayed = 1;
  }
  if (slot->replay_left == 0) mst_heal_idle(&slot->heal);
  mst_slot_go_on(calls, slot);
  return seeds ? give_seed(action, slot, &slot->seed) : 0;
}

// hears tells whether a worker would still evaluate a call: not after BYE.
static int hears(const struct mst_calls *calls, const struct mst_slot *slot) {
  return mst_calls_is_up(calls, slot) &&
         calls->pool.phase == MST_POOL_RUNNING &&
         worker_of(calls, slot)->stop_ns == NEVER;
}

static int give_call(struct mst_calls *calls, struct mst_slot *slot,
                     struct mst_calls_action *action) {
  struct mst_call *call = slot->mailbox.next_sent;
  while (call != NULL && call->cancelled) { // it needn't be sent
    mst_calls_effects(calls, slot, mst_mailbox_drop(&slot->mailbox, call));
    call = slot->mailbox.next_sent;
  }
  if (call == NULL || !hears(calls, slot)) {
    slot->mailbox.todo &= (uint16_t)~MST_TODO_CALLS;
    return 0;
  }
  if (call->alone && call == slot->mailbox.first &&
      !mst_slot_run_alone(calls, slot)) {
    slot->mailbox.todo &= (uint16_t)~MST_TODO_CALLS;
    return 0;
  }
  if (give_job(calls, slot, call->job, action)) return 1;
  slot->mailbox.next_sent = call->next;
  slot->mailbox.sending = call;
  (void)give_payload(action, MST_CALLS_EXEC, slot, call->payload, call->id);
  action->flags = call->is_task ? MST_FLAG_TASK : 0;
  action->attempt = (uint16_t)call->losses;
  return 1;
}

static int has_todo(struct mst_slot *slot, enum mst_todo what) {
  if ((slot->mailbox.todo & what) == 0) return 0;
  slot->mailbox.todo &= (uint16_t)~what;
  return 1;
}

static int give_cancel(struct mst_slot *slot, struct mst_calls_action *action) {
  const struct mst_call *call = slot->mailbox.first;
  if (call == NULL || !call->sent || slot->ended) return 0;
  if (!call->cancelled && !call->timed_out) return 0;
  (void)give(action, MST_CALLS_CANCEL, slot->mailbox.worker);
  action->id = call->id;
  return 1;
}

// slot_action takes the next action of a slot: 1, or 0 if there is none.
static int slot_action(struct mst_calls *calls, struct mst_slot *slot,
                       struct mst_calls_action *action) {
  // The caller must report whether the last call was sent.
  MST_ASSERT(slot->mailbox.sending == NULL);
  if (has_todo(slot, MST_TODO_PAUSE)) {
    return give(action, MST_CALLS_PAUSE, slot->mailbox.worker);
  }
  if (has_todo(slot, MST_TODO_FORGET)) {
    return give(action, MST_CALLS_FORGET, slot->mailbox.worker);
  }
  if (has_todo(slot, MST_TODO_BREAK)) {
    return give(action, MST_CALLS_BREAK, slot->mailbox.worker);
  }
  if (has_todo(slot, MST_TODO_JUDGE) && slot->to_heal) {
    return give(action, MST_CALLS_JUDGE, slot->mailbox.worker);
  }
  if (has_todo(slot, MST_TODO_ORPHANED) && slot->to_heal) {
    return give(action, MST_CALLS_ORPHANED, slot->mailbox.worker);
  }
  if (slot->replaying && give_replay(calls, slot, action)) return 1;
  if (has_todo(slot, MST_TODO_CHECKPOINT) && !slot->ended) {
    return give(action, MST_CALLS_CHECKPOINT, slot->mailbox.worker);
  }
  if ((slot->mailbox.todo & MST_TODO_CALLS) != 0 &&
      give_call(calls, slot, action)) {
    return 1;
  }
  if (has_todo(slot, MST_TODO_CANCEL) && give_cancel(slot, action)) {
    return 1;
  }
  if (has_todo(slot, MST_TODO_WITHDRAW) && !slot->ended) {
    (void)give(action, MST_CALLS_WITHDRAW, slot->mailbox.worker);
    action->id = slot->mailbox.withdraw;
    return 1;
  }
  if (has_todo(slot, MST_TODO_TRIM)) {
    if (hears(calls, slot))
      return give(action, MST_CALLS_TRIM, slot->mailbox.worker);
    slot->trims = 0;
  }
  if (has_todo(slot, MST_TODO_PING) && !slot->ended) {
    return give(action, MST_CALLS_PING, slot->mailbox.worker);
  }
  return 0;
}

static int next_of_slots(struct mst_calls *calls,
                         struct mst_calls_action *action) {
  while (calls->due.first != NULL) {
    struct mst_slot *slot = calls->slots[calls->due.first->worker];
    if (slot_action(calls, slot, action)) return 1;
    mst_due_drop(&calls->due);
  }
  return 0;
}

// next_drop tells the workers, one by one.
void mst_calls_trim(struct mst_calls *calls) {
  if (calls->dropping != NULL) return; // next_drop calls this again
  calls->dropping = mst_jobs_surplus(&calls->jobs);
  calls->drop_at = 0;
}

// next_drop tells the next worker that has the job to forget it.
static int next_drop(struct mst_calls *calls, struct mst_calls_action *action) {
  if (calls->tally.jobs_released) {
    calls->tally.jobs_released = 0;
    mst_calls_trim(calls);
  }
  while (calls->dropping != NULL) {
    struct mst_job *job = calls->dropping;
    while (calls->drop_at < calls->pool.count) {
      const uint32_t i = calls->drop_at++;
      if (calls->slots[i]->ended) continue;
      if (!mst_job_was_sent(job, i, calls->pool.workers[i].epoch)) continue;
      mst_job_forget(job, i);
      (void)give(action, MST_CALLS_DROP, i);
      action->id = job->id;
      return 1;
    }
    calls->dropping = NULL;
    mst_job_forgotten(job);
    mst_calls_trim(calls);
  }
  return 0;
}

// begin: ready workers take calls, including one that became ready after STARTED and whose JOINED
// follows.
static void begin(struct mst_calls *calls) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    struct mst_slot *slot = calls->slots[i];
    mst_heal_begin(&slot->heal, calls->now_ns);
    if (worker_of(calls, slot)->state == MST_WORKER_IDLE) {
      mst_slot_go_on(calls, slot);
    }
  }
}

// of_pool turns an action of the worker states into one for the world: 1, or 0 if it needs none.
static int of_pool(struct mst_calls *calls, const struct mst_action *said,
                   struct mst_calls_action *action) {
  struct mst_slot *slot = calls->slots[said->worker];
  switch (said->kind) {
  case MST_DO_LAUNCH:
    slot->ended = 0;
    slot->from_checkpoint = slot->journal.checkpoint;
    return give(action, MST_CALLS_LAUNCH, said->worker);
  case MST_DO_BYE:
    return give(action, MST_CALLS_BYE, said->worker);
  case MST_DO_KILL:
    return give(action, MST_CALLS_KILL, said->worker);
  case MST_DO_LOST:
    mst_slot_lost(calls, slot);
    return give(action, MST_CALLS_CLOSE, said->worker);
  case MST_DO_RESTARTED:
    mst_slot_resume(calls, slot);
    return 0;
  case MST_DO_STARTED:
    begin(calls);
    calls->started = 1;
    mst_calls_look_for_work(calls);
    return give(action, MST_CALLS_STARTED, 0);
  case MST_DO_START_FAILED:
    return give(action, MST_CALLS_START_FAILED, 0);
  case MST_DO_STOPPED:
    return give(action, MST_CALLS_STOPPED, 0);
  case MST_DO_JOINED:
    calls->to_withdraw = 1;
    if (!slot->resuming) return 0; // it was ready before STARTED
    mst_heal_begin(&slot->heal, calls->now_ns);
    mst_slot_resume(calls, slot);
    return 0;
  }
  return 0;
}

static int next_told(struct mst_calls *calls, struct mst_calls_action *action) {
  struct mst_loss *loss = calls->told;
  if (loss == NULL) return 0;
  calls->told = loss->next;
  if (calls->told == NULL) calls->last_told = NULL;
  loss->next = NULL;
  (void)give(action, MST_CALLS_TELL, loss->worker);
  action->loss = loss;
  return 1;
}

static void dispatch(struct mst_calls *calls) {
  if (!calls->to_dispatch) return;
  calls->to_dispatch = 0;
  const struct mst_takers takers = mst_calls_takers(calls);
  if (mst_dispatch_all(&calls->dispatch, &takers, &calls->due))
    calls->to_withdraw = 1;
}

int mst_calls_next_action(struct mst_calls *calls,
                          struct mst_calls_action *action, int64_t now_ns) {
  struct mst_action said;
  calls->now_ns = now_ns;
  do {
    mst_calls_look_for_left(calls);
    mst_calls_go_on(calls);
    dispatch(calls);
    mst_calls_withdraw(calls);
    if (next_told(calls, action)) return 1;
    if (next_of_slots(calls, action)) return 1;
    if (next_drop(calls, action)) return 1;
    if (mst_pool_next_action(&calls->pool, &said) == 1) {
      if (of_pool(calls, &said, action)) return 1;
    } else if (!calls->to_dispatch && calls->due.first == NULL &&
               calls->tally.ready == NULL) {
      return 0;
    }
  } while (1);
}
