// What is to be done next: the order in which the core's actions come. The contract is in calls.h.
#include "base/mst_assert.h"
#include "pool/calls_int.h"

// ---- what is to be done

static int give(struct mst_calls_action *action, enum mst_calls_do kind,
                uint32_t worker) {
  *action = (struct mst_calls_action){.kind = kind, .worker = worker};
  return 1;
}

static int give_payload(struct mst_calls_action *action, enum mst_calls_do kind,
                        const struct mst_lane *lane, struct mst_blob *payload,
                        uint64_t id) {
  (void)give(action, kind, lane->worker);
  action->payload = payload;
  action->id = id;
  return 1;
}

static int give_seed(struct mst_calls_action *action,
                     const struct mst_lane *lane, const struct mst_seed *seed) {
  (void)give(action, MST_CALLS_SEED, lane->worker);
  action->seed = *seed;
  return 1;
}

// give_job gives a job, or one of a group, that this incarnation doesn't have: 1, or 0 if it has
// all. Without memory for the note it isn't sent, and the call fails.
static int give_job(const struct mst_calls *calls, struct mst_lane *lane,
                    struct mst_job *job, struct mst_calls_action *action) {
  const uint32_t epoch = worker_of(calls, lane)->epoch;
  struct mst_job *next = mst_job_missing(job, lane->worker, epoch);
  if (next == NULL || mst_job_note(next, lane->worker, epoch) != 0) return 0;
  return give_payload(action, MST_CALLS_JOB, lane, next->bytes, next->id);
}

// The journal, entry by entry: the stream's position before it, the job that it needs, it.
static int give_entry(const struct mst_calls *calls, struct mst_lane *lane,
                      struct mst_calls_action *action) {
  struct mst_entry *entry = lane->replay;
  if (entry->seed.known && !lane->seeded) {
    lane->seeded = 1;
    return give_seed(action, lane, &entry->seed);
  }
  if (give_job(calls, lane, entry->job, action)) return 1;
  lane->seeded = 0;
  lane->replay = entry->next;
  lane->replay_left++;
  (void)give_payload(action, MST_CALLS_EXEC, lane, entry->payload, entry->call);
  action->flags = MST_FLAG_REPLAY;
  return 1;
}

static int give_replay(struct mst_calls *calls, struct mst_lane *lane,
                       struct mst_calls_action *action) {
  if (lane->replay != NULL) return give_entry(calls, lane, action);
  const int seeds = lane->seed.known || lane->rng_other;
  lane->replaying = 0;
  lane->rng_other = 0;
  if (seeds && !lane->seed.known) lane->rng_kept = 0; // a fresh one
  if (lane->replay_left == 0) mst_heal_idle(&lane->heal);
  mst_lane_go_on(calls, lane);
  return seeds ? give_seed(action, lane, &lane->seed) : 0;
}

// hears tells whether what is sent to a worker is still evaluated: not behind a BYE.
static int hears(const struct mst_calls *calls, const struct mst_lane *lane) {
  return mst_calls_is_up(calls, lane) &&
         calls->pool.phase == MST_POOL_RUNNING &&
         worker_of(calls, lane)->stop_ns == NEVER;
}

static int give_call(struct mst_calls *calls, struct mst_lane *lane,
                     struct mst_calls_action *action) {
  struct mst_call *call = lane->next_sent;
  while (call != NULL && call->cancelled) { // it never goes there
    mst_calls_effects(calls, lane, mst_lane_drop(lane, call));
    call = lane->next_sent;
  }
  if (call == NULL || !hears(calls, lane)) {
    lane->todo &= (uint16_t)~MST_TODO_CALLS;
    return 0;
  }
  if (give_job(calls, lane, call->job, action)) return 1;
  lane->next_sent = call->next;
  lane->sending = call;
  (void)give_payload(action, MST_CALLS_EXEC, lane, call->payload, call->id);
  action->flags = call->is_task ? MST_FLAG_TASK : 0;
  action->attempt = (uint16_t)(call == lane->first ? lane->heal.attempt : 0);
  return 1;
}

static int has_todo(struct mst_lane *lane, enum mst_todo what) {
  if ((lane->todo & what) == 0) return 0;
  lane->todo &= (uint16_t)~what;
  return 1;
}

// give_cancel: its watch is also asked whether it lives.
static int give_cancel(struct mst_calls *calls, struct mst_lane *lane,
                       struct mst_calls_action *action) {
  const struct mst_call *call = lane->first;
  if (call == NULL || !call->sent || lane->ended) return 0;
  if (!call->cancelled && !call->timed_out) return 0;
  mst_due_add(&calls->due, lane, MST_TODO_PING);
  (void)give(action, MST_CALLS_CANCEL, lane->worker);
  action->id = call->id;
  return 1;
}

// lane_action takes one thing that a lane has to do, 0 if it has nothing.
static int lane_action(struct mst_calls *calls, struct mst_lane *lane,
                       struct mst_calls_action *action) {
  MST_ASSERT(lane->sending == NULL); // the last one was neither sent nor not
  if (has_todo(lane, MST_TODO_PAUSE)) {
    return give(action, MST_CALLS_PAUSE, lane->worker);
  }
  if (has_todo(lane, MST_TODO_FORGET)) {
    return give(action, MST_CALLS_FORGET, lane->worker);
  }
  if (has_todo(lane, MST_TODO_BREAK)) {
    return give(action, MST_CALLS_BREAK, lane->worker);
  }
  if (has_todo(lane, MST_TODO_JUDGE) && lane->to_heal) {
    return give(action, MST_CALLS_JUDGE, lane->worker);
  }
  if (lane->replaying && give_replay(calls, lane, action)) return 1;
  if (has_todo(lane, MST_TODO_CHECKPOINT) && !lane->ended) {
    return give(action, MST_CALLS_CHECKPOINT, lane->worker);
  }
  if ((lane->todo & MST_TODO_CALLS) != 0 && give_call(calls, lane, action)) {
    return 1;
  }
  if (has_todo(lane, MST_TODO_CANCEL) && give_cancel(calls, lane, action)) {
    return 1;
  }
  if (has_todo(lane, MST_TODO_PING) && !lane->ended) {
    return give(action, MST_CALLS_PING, lane->worker);
  }
  return 0;
}

static int next_of_lanes(struct mst_calls *calls,
                         struct mst_calls_action *action) {
  while (calls->due.first != NULL) {
    struct mst_lane *lane = calls->due.first;
    if (lane_action(calls, lane, action)) return 1;
    mst_due_drop(&calls->due);
  }
  return 0;
}

// next_drop tells the workers that have it, one by one, to forget a job.
static int next_drop(struct mst_calls *calls, struct mst_calls_action *action) {
  if (calls->tally.jobs_released) {
    calls->tally.jobs_released = 0;
    mst_calls_trim(calls);
  }
  while (calls->dropping != NULL) {
    struct mst_job *job = calls->dropping;
    while (calls->drop_at < calls->pool.count) {
      const uint32_t i = calls->drop_at++;
      if (calls->lanes[i]->ended) continue;
      if (!mst_job_is_at(job, i, calls->pool.workers[i].epoch)) continue;
      (void)give(action, MST_CALLS_DROP, i);
      action->id = job->id;
      return 1;
    }
    mst_job_free(job);
    calls->dropping = NULL;
    mst_calls_trim(calls);
  }
  return 0;
}

// begin: those that are ready take calls. One that was ready after that, and whose JOINED
// follows, does so too.
static void begin(struct mst_calls *calls) {
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    struct mst_lane *lane = calls->lanes[i];
    mst_heal_begin(&lane->heal, calls->now_ns);
    if (worker_of(calls, lane)->state == MST_WORKER_IDLE) {
      mst_lane_go_on(calls, lane);
    }
  }
}

// of_pool says what an action of the worker states is for the world: 0 if nothing.
static int of_pool(struct mst_calls *calls, const struct mst_action *said,
                   struct mst_calls_action *action) {
  struct mst_lane *lane = calls->lanes[said->worker];
  switch (said->kind) {
  case MST_DO_LAUNCH:
    lane->ended = 0;
    lane->from_checkpoint = lane->journal.checkpoint;
    return give(action, MST_CALLS_LAUNCH, said->worker);
  case MST_DO_BYE:
    return give(action, MST_CALLS_BYE, said->worker);
  case MST_DO_KILL:
    return give(action, MST_CALLS_KILL, said->worker);
  case MST_DO_LOST:
    mst_lane_lost(calls, lane);
    return give(action, MST_CALLS_CLOSE, said->worker);
  case MST_DO_RESTARTED:
    mst_lane_resume(calls, lane);
    return 0;
  case MST_DO_STARTED:
    begin(calls);
    calls->started = 1;
    calls->to_dispatch = 1;
    return give(action, MST_CALLS_STARTED, 0);
  case MST_DO_START_FAILED:
    return give(action, MST_CALLS_START_FAILED, 0);
  case MST_DO_STOPPED:
    return give(action, MST_CALLS_STOPPED, 0);
  case MST_DO_JOINED:
    if (!lane->resuming) return 0; // STARTED came after it was ready
    mst_heal_begin(&lane->heal, calls->now_ns);
    mst_lane_resume(calls, lane);
    return 0;
  case MST_DO_CANCEL: // of launchers that come with other hosts
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
  mst_dispatch_all(&calls->dispatch, &takers, &calls->due);
}

int mst_calls_next_action(struct mst_calls *calls,
                          struct mst_calls_action *action, int64_t now_ns) {
  struct mst_action said;
  calls->now_ns = now_ns;
  do {
    mst_calls_look_for_left(calls);
    dispatch(calls);
    if (next_told(calls, action)) return 1;
    if (next_of_lanes(calls, action)) return 1;
    if (next_drop(calls, action)) return 1;
    if (calls->orphaned) {
      calls->orphaned = 0;
      return give(action, MST_CALLS_ORPHANED, 0);
    }
    if (mst_pool_next_action(&calls->pool, &said) == 1) {
      if (of_pool(calls, &said, action)) return 1;
    } else if (!calls->to_dispatch && calls->due.first == NULL) {
      return 0;
    }
  } while (1);
}
