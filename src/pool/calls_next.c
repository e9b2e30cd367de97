// The order of the core's actions. The contract is in calls.h.
#include "base/mst_assert.h"
#include "pool/calls_int.h"

// ---- actions

static int give(struct mst_action *action, enum mst_do kind, uint32_t index) {
  *action = (struct mst_action){.kind = kind, .worker = index};
  return 1;
}

static int give_payload(struct mst_action *action, enum mst_do kind,
                        const struct mst_worker *worker,
                        struct mst_blob *payload, uint64_t id) {
  (void)give(action, kind, worker->mailbox.worker);
  action->payload = payload;
  action->id = id;
  return 1;
}

static int give_seed(struct mst_action *action, const struct mst_worker *worker,
                     const struct mst_seed *seed) {
  (void)give(action, MST_DO_SEED, worker->mailbox.worker);
  action->seed = *seed;
  return 1;
}

// give_job gives a job, or one of a group, that this incarnation doesn't have: 1, or 0 if it has
// all. If memory is too short to note it, it isn't sent, and the call fails.
static int give_job(struct mst_worker *worker, struct mst_job *job,
                    struct mst_action *action) {
  const uint32_t epoch = worker->epoch;
  struct mst_job *next = mst_job_missing(job, worker->mailbox.worker, epoch);
  if (next == NULL || mst_job_note(next, worker->mailbox.worker, epoch) != 0)
    return 0;
  return give_payload(action, MST_DO_JOB, worker, next->bytes, next->id);
}

// Replays the next entry: first the stream's position before it, then its job, then the call.
static int give_entry(struct mst_worker *worker, struct mst_action *action) {
  struct mst_entry *entry = worker->replay;
  if (entry->seed.known && !worker->seeded) {
    worker->seeded = 1;
    return give_seed(action, worker, &entry->seed);
  }
  if (give_job(worker, entry->job, action)) return 1;
  worker->seeded = 0;
  worker->replay = entry->next;
  worker->replay_left++;
  (void)give_payload(action, MST_DO_EXEC, worker, entry->payload, entry->call);
  action->flags = MST_FLAG_REPLAY | (entry->is_task ? MST_FLAG_TASK : 0);
  return 1;
}

static int give_replay(struct mst_calls *calls, struct mst_worker *worker,
                       struct mst_action *action) {
  if (worker->replay != NULL) return give_entry(worker, action);
  const int seeds = worker->seed.known || worker->rng_other;
  worker->replaying = 0;
  worker->rng_other = 0;
  if (seeds && !worker->seed.known) { // a fresh stream
    worker->rng_kept = 0;
    worker->rng_strayed = 1;
  }
  if (worker->replay_left == 0) mst_heal_idle(&worker->heal);
  mst_worker_go_on(calls, worker);
  return seeds ? give_seed(action, worker, &worker->seed) : 0;
}

// hears tells whether a worker would still evaluate a call: not after BYE.
static int hears(const struct mst_calls *calls,
                 const struct mst_worker *worker) {
  return mst_worker_is_up(worker) && calls->pool.phase == MST_POOL_RUNNING &&
         worker->stop_ns == NEVER;
}

static int give_call(struct mst_calls *calls, struct mst_worker *worker,
                     struct mst_action *action) {
  struct mst_call *call = worker->mailbox.next_sent;
  while (call != NULL && call->cancelled) { // it needn't be sent
    mst_calls_effects(calls, worker, mst_mailbox_drop(&worker->mailbox, call));
    call = worker->mailbox.next_sent;
  }
  if (call == NULL || !hears(calls, worker)) return 0;
  if (call->alone && call == worker->mailbox.first &&
      !mst_worker_run_alone(calls, worker)) {
    return 0;
  }
  if (give_job(worker, call->job, action)) return 1;
  worker->mailbox.next_sent = call->next;
  worker->mailbox.sending = call;
  (void)give_payload(action, MST_DO_EXEC, worker, call->payload, call->id);
  action->flags = call->is_task ? MST_FLAG_TASK : 0;
  action->attempt = (uint16_t)call->losses;
  return 1;
}

static int give_cancel(struct mst_worker *worker, struct mst_action *action) {
  const struct mst_call *call = worker->mailbox.first;
  if (call == NULL || !call->sent || !worker->channel) return 0;
  if (!call->cancelled && !call->timed_out) return 0;
  (void)give(action, MST_DO_CANCEL, worker->mailbox.worker);
  action->id = call->id;
  return 1;
}

// of_worker gives what is due for a worker, if it still makes sense: 1, or 0 if there is no action
// for the caller.
static int of_worker(struct mst_calls *calls, struct mst_worker *worker,
                     enum mst_do what, struct mst_action *action) {
  const uint32_t index = worker->mailbox.worker;
  switch (what) {
  case MST_DO_RESUME:
    mst_worker_ready(calls, worker);
    return 0;
  case MST_DO_JUDGE:
    mst_worker_lost(calls, worker);
    return give(action, what, index);
  case MST_DO_LEAVE:
    mst_worker_left(calls, worker);
    return 0;
  case MST_DO_REPLAY:
    if (!worker->replaying || !give_replay(calls, worker, action)) return 0;
    worker->todo |= 1u << MST_DO_REPLAY;
    return 1;
  case MST_DO_EXEC:
    if (!give_call(calls, worker, action)) return 0;
    worker->todo |= 1u << MST_DO_EXEC; // until none is left
    return 1;
  case MST_DO_CANCEL:
    return give_cancel(worker, action);
  case MST_DO_LAUNCH: // its host has come
    what = mst_worker_place(calls, worker);
    return what == 0 ? 0 : give(action, what, index);
  case MST_DO_TRIM:
    if (hears(calls, worker)) return give(action, what, index);
    worker->trims = 0;
    return 0;
  case MST_DO_CHECKPOINT:
  case MST_DO_WITHDRAW:
  case MST_DO_PING:
    if (!worker->channel) return 0;
    (void)give(action, what, index);
    action->id = worker->mailbox.withdraw;
    return 1;
  default:
    return give(action, what, index);
  }
}

static int next_of_workers(struct mst_calls *calls, struct mst_action *action) {
  struct mst_worker *worker = calls->pool.due.first;
  enum mst_do what;
  if (worker == NULL) return 0;
  // The caller must report whether the last call was sent.
  MST_ASSERT(worker->mailbox.sending == NULL);
  // What a step of the core has to tell comes before what follows from the step.
  while (calls->told == NULL &&
         (worker = mst_pool_next_due(&calls->pool, &what)) != NULL) {
    if (of_worker(calls, worker, what, action)) return 1;
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
static int next_drop(struct mst_calls *calls, struct mst_action *action) {
  if (calls->tally.jobs_released) {
    calls->tally.jobs_released = 0;
    mst_calls_trim(calls);
  }
  while (calls->dropping != NULL) {
    struct mst_job *job = calls->dropping;
    while (calls->drop_at < calls->pool.count) {
      const uint32_t i = calls->drop_at++;
      if (!calls->pool.workers[i]->channel) continue;
      if (!mst_job_was_sent(job, i, calls->pool.workers[i]->epoch)) continue;
      mst_job_forget(job, i);
      (void)give(action, MST_DO_DROP, i);
      action->id = job->id;
      return 1;
    }
    calls->dropping = NULL;
    mst_job_forgotten(job);
    mst_calls_trim(calls);
  }
  return 0;
}

// next_launch: LAUNCH, when nothing else is due.
static int next_launch(struct mst_calls *calls, struct mst_action *action) {
  struct mst_worker *worker = mst_pool_next_launch(&calls->pool);
  if (worker == NULL) return 0;
  worker->moves = 0;
  const enum mst_do what = mst_worker_place(calls, worker);
  return give(action, what, worker->mailbox.worker);
}

// begin: ready workers take calls, including one that became ready after STARTED and whose RESUME
// is due.
static void begin(struct mst_calls *calls) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    struct mst_worker *worker = calls->pool.workers[i];
    mst_heal_begin(&worker->heal, calls->now_ns);
    if (worker->state == MST_WORKER_IDLE) mst_worker_go_on(calls, worker);
  }
  calls->started = 1;
  mst_calls_look_for_work(calls);
}

// next_word: STARTED before all else, the end after it.
static int next_word(struct mst_calls *calls, struct mst_action *action) {
  if (!calls->pool.started_due && !calls->pool.end_due) return 0;
  const enum mst_do what = mst_pool_next_word(&calls->pool);
  if (what == 0) return 0;
  if (what == MST_DO_STARTED) begin(calls);
  return give(action, what, 0);
}

static int next_told(struct mst_calls *calls, struct mst_action *action) {
  struct mst_loss *loss = calls->told;
  if (loss == NULL) return 0;
  calls->told = loss->next;
  if (calls->told == NULL) calls->last_told = NULL;
  loss->next = NULL;
  (void)give(action, MST_DO_TELL, loss->worker);
  action->loss = loss;
  return 1;
}

static void dispatch(struct mst_calls *calls) {
  if (!calls->to_dispatch) return;
  calls->to_dispatch = 0;
  const struct mst_takers takers = mst_calls_takers(calls);
  if (mst_dispatch_all(&calls->dispatch, &takers, &calls->pool.due))
    calls->to_withdraw = 1;
}

int mst_calls_next_action(struct mst_calls *calls, struct mst_action *action,
                          int64_t now_ns) {
  calls->now_ns = now_ns;
  do {
    mst_calls_go_on(calls);
    dispatch(calls);
    mst_calls_withdraw(calls);
    if (next_told(calls, action)) return 1;
    if (next_word(calls, action)) return 1;
    if (next_of_workers(calls, action)) return 1;
    if (next_drop(calls, action)) return 1;
  } while (calls->told != NULL || calls->to_dispatch || calls->to_withdraw ||
           calls->tally.ready != NULL);
  return next_launch(calls, action) || next_word(calls, action);
}
