// The core of calls: life, facts of the world, and what is to be done. The contract is in
// calls.h.
#include "pool/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "pool/calls_int.h"

// Limits on calls are looked at this often; signs of life more often than they are due.
#define LOOK_NS (10 * MST_NS_PER_MS)

// ---- life

static void free_lanes(struct mst_calls *calls, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) {
    mst_journal_free(&calls->lanes[i]->journal);
    free(calls->lanes[i]);
  }
}

// add_lanes makes those of workers from..to - 1.
static int add_lanes(struct mst_calls *calls, uint32_t from, uint32_t to) {
  struct mst_lane **lanes =
      mst_fault("calls.alloc")
          ? NULL
          : realloc(calls->lanes, to * sizeof(struct mst_lane *));
  if (lanes == NULL) return -MST_EMEM;
  calls->lanes = lanes;
  for (uint32_t i = from; i < to; i++) {
    lanes[i] = mst_fault("calls.alloc") ? NULL : calloc(1, sizeof **lanes);
    if (lanes[i] == NULL) {
      free_lanes(calls, from, i);
      return -MST_EMEM;
    }
    lanes[i]->worker = i;
    lanes[i]->launch_ns = NEVER;
    lanes[i]->journal.total = &calls->log_bytes;
    lanes[i]->journal.unfit = lanes[i]->journal.impossible =
        calls->no_checkpoints;
  }
  return 0;
}

int mst_calls_init(struct mst_calls *calls, uint32_t workers, uint32_t window) {
  memset(calls, 0, sizeof *calls);
  calls->policy.heartbeat_ns = calls->timeout_ns = NEVER;
  calls->policy.replay_max_ns = NEVER;
  calls->answer_bytes_max = MST_ANSWERS_BYTES;
  calls->common.journal.total = &calls->log_bytes;
  int rc = mst_pool_init(&calls->pool, workers, window);
  if (rc != 0) return rc;
  rc = add_lanes(calls, 0, workers);
  if (rc == 0) return 0;
  mst_pool_free(&calls->pool);
  free(calls->lanes);
  calls->lanes = NULL;
  return rc;
}

static void drop_answers(struct mst_calls *calls, struct mst_lane *lane) {
  while (lane->answers != NULL) {
    struct mst_call *answer = lane->answers;
    mst_calls_take(calls, answer);
    mst_call_release(answer);
  }
}

void mst_calls_close(struct mst_calls *calls, uint32_t worker, int64_t now_ns) {
  struct mst_lane *lane = calls->lanes[worker];
  calls->now_ns = now_ns;
  lane->ended = 1;
  drop_answers(calls, lane);
  while (lane->first != NULL) {
    struct mst_call *call = lane->first;
    if (call->is_task) {
      mst_lane_finish(calls, lane, call, MST_CALL_LOST);
    } else {
      mst_lane_drop(calls, lane, call);
    }
  }
  mst_journal_free(&lane->journal);
  lane->replay = lane->replayed = NULL;
  lane->replaying = lane->resuming = 0;
  lane->todo = 0;
  if (lane->drains) calls->draining--;
  lane->drains = 0;
  if (lane->to_heal) calls->to_heal--;
  lane->to_heal = 0;
  if (lane->launch_ns != NEVER) calls->waiting--;
  lane->launch_ns = NEVER;
  free(lane->failure);
  lane->failure = NULL;
}

void mst_calls_end(struct mst_calls *calls, int64_t now_ns) {
  mst_calls_end_queue(calls, now_ns);
  for (uint32_t i = 0; i < calls->pool.count; i++)
    mst_calls_close(calls, i, now_ns);
  while (calls->kept != NULL)
    mst_call_taken(calls->kept);
  mst_common_free(&calls->common);
}

void mst_calls_free(struct mst_calls *calls) {
  mst_calls_end(calls, calls->now_ns);
  while (calls->told != NULL) {
    struct mst_loss *loss = calls->told;
    calls->told = loss->next;
    mst_loss_free(loss);
  }
  if (calls->dropping != NULL) mst_job_free(calls->dropping);
  mst_jobs_free(&calls->jobs);
  mst_queue_free(&calls->queue);
  free_lanes(calls, 0, calls->pool.count);
  free(calls->lanes);
  mst_pool_free(&calls->pool);
  memset(calls, 0, sizeof *calls);
}

void mst_calls_start(struct mst_calls *calls, int64_t now_ns,
                     int64_t deadline_ns) {
  mst_calls_begin(calls, now_ns, deadline_ns, calls->pool.count);
}

void mst_calls_begin(struct mst_calls *calls, int64_t now_ns,
                     int64_t deadline_ns, uint32_t need) {
  calls->now_ns = now_ns;
  for (uint32_t i = 0; i < calls->pool.count; i++)
    calls->lanes[i]->resuming = 1; // until STARTED, or JOINED after it
  mst_pool_begin(&calls->pool, now_ns, deadline_ns, need);
}

int mst_calls_grow(struct mst_calls *calls, uint32_t more, int64_t now_ns) {
  const uint32_t from = calls->pool.count;
  calls->now_ns = now_ns;
  if (more > UINT32_MAX - from) return -MST_EINPUT;
  mst_calls_close_cast(calls);
  int rc = add_lanes(calls, from, from + more);
  if (rc != 0) return rc;
  for (uint32_t i = from; rc == 0 && i < from + more; i++) {
    struct mst_lane *lane = calls->lanes[i];
    rc = mst_common_copy(&calls->common, &lane->journal, &lane->calls);
  }
  if (rc == 0) rc = mst_pool_grow(&calls->pool, more);
  if (rc != 0) {
    free_lanes(calls, from, from + more);
    return rc;
  }
  for (uint32_t i = from; i < from + more; i++) {
    mst_heal_begin(&calls->lanes[i]->heal, now_ns);
    calls->lanes[i]->ended = 1;
    calls->lanes[i]->resuming = 1;
    mst_calls_tell_pool(calls, MST_EV_RESTART, i);
  }
  return 0;
}

// ---- what the files of the core share

static void tell_pool(struct mst_calls *calls, const struct mst_event *event) {
  mst_pool_event(&calls->pool, event, calls->now_ns);
}

void mst_calls_tell_pool(struct mst_calls *calls, enum mst_event_kind kind,
                         uint32_t worker) {
  const struct mst_event event = {.kind = kind, .worker = worker};
  tell_pool(calls, &event);
}

void mst_lane_todo(struct mst_calls *calls, struct mst_lane *lane,
                   uint16_t what) {
  lane->todo |= what;
  if (lane->due) return;
  lane->due = 1;
  lane->next_due = NULL;
  if (calls->due_last != NULL) {
    calls->due_last->next_due = lane;
  } else {
    calls->due_first = lane;
  }
  calls->due_last = lane;
}

void mst_lane_fail(struct mst_lane *lane, const char *text) {
  if (lane->failure == NULL) lane->failure = strdup(text);
}

void mst_lane_broken(struct mst_calls *calls, struct mst_lane *lane,
                     const char *text) {
  mst_lane_fail(lane, text);
  lane->ended = 1;
  mst_lane_todo(calls, lane, TODO_BREAK);
  mst_calls_tell_pool(calls, MST_EV_CLOSED, lane->worker);
}

// ---- facts of the world

void mst_calls_fail(struct mst_calls *calls, uint32_t worker,
                    const char *text) {
  mst_lane_fail(calls->lanes[worker], text);
}

void mst_calls_broken(struct mst_calls *calls, uint32_t worker,
                      const char *text, int64_t now_ns) {
  calls->now_ns = now_ns;
  mst_lane_broken(calls, calls->lanes[worker], text);
}

// stay_lost: one that is lost doesn't come back.
static void stay_lost(struct mst_calls *calls, struct mst_lane *lane) {
  if (worker_of(calls, lane)->state != MST_WORKER_LOST) return;
  lane->dead = 1;
  lane->sys_errno = 0; // nor with those that were given up for want of it
  if (lane->resuming) mst_lane_leave(calls, lane, 0, NULL);
}

// look_for_left gives up what workers that drained have left undone.
static void look_for_left(struct mst_calls *calls) {
  for (uint32_t i = 0; calls->draining > 0 && i < calls->pool.count; i++) {
    struct mst_lane *lane = calls->lanes[i];
    const struct mst_worker *worker = worker_of(calls, lane);
    const int left = worker->state == MST_WORKER_LEFT;
    if (!lane->drains || (!left && worker->drains)) continue;
    lane->drains = 0;
    calls->draining--;
    if (!left) continue; // it was asked to end otherwise, or was lost
    lane->ended = 1;
    mst_lane_leave(calls, lane, 0, NULL);
  }
}

static void drain(struct mst_calls *calls, struct mst_lane *lane,
                  const struct mst_event *event) {
  if (calls->pool.phase != MST_POOL_RUNNING) return;
  if (event->kind == MST_EV_DRAIN) stay_lost(calls, lane);
  tell_pool(calls, event);
  if (!lane->drains) calls->draining++;
  lane->drains = 1;
  mst_calls_sweep(calls);
}

void mst_calls_event(struct mst_calls *calls, const struct mst_event *event,
                     int64_t now_ns) {
  struct mst_lane *lane =
      event->worker < calls->pool.count ? calls->lanes[event->worker] : NULL;
  calls->now_ns = now_ns;
  if (lane == NULL) {
    tell_pool(calls, event);
    return;
  }
  switch (event->kind) {
  case MST_EV_DRAIN:
  case MST_EV_LEFT:
    drain(calls, lane, event);
    return;
  case MST_EV_RESTART:
    if (calls->pool.phase == MST_POOL_RUNNING &&
        worker_of(calls, lane)->state == MST_WORKER_LEFT) {
      look_for_left(calls); // what it has left undone stays so
      mst_lane_return(calls, lane);
    }
    break;
  case MST_EV_BACK:
    // Whatever it had to say had to wait.
    mst_heal_heard(&lane->heal, now_ns);
    break;
  case MST_EV_CLOSED:
    lane->ended = 1;
    break;
  default:
    break;
  }
  tell_pool(calls, event);
}

void mst_calls_retire(struct mst_calls *calls, uint32_t worker,
                      int64_t now_ns) {
  calls->now_ns = now_ns;
  stay_lost(calls, calls->lanes[worker]);
  mst_calls_tell_pool(calls, MST_EV_RETIRE, worker);
  mst_calls_sweep(calls);
}

void mst_calls_kill(struct mst_calls *calls, uint32_t worker, int64_t now_ns) {
  struct mst_lane *lane = calls->lanes[worker];
  calls->now_ns = now_ns;
  lane->dead = 1;
  lane->sys_errno = 0;
  mst_lane_fail(lane, "it was ended by killNode()");
  // One that is lost may wait for its turn to come back, one that isn't launched for it, too.
  const enum mst_worker_state state = worker_of(calls, lane)->state;
  const int waits = state == MST_WORKER_LOST || state == MST_WORKER_NONE;
  if (waits && lane->resuming) mst_lane_leave(calls, lane, 0, NULL);
  mst_calls_tell_pool(calls, waits ? MST_EV_RETIRE : MST_EV_SILENT, worker);
  mst_calls_sweep(calls);
}

// ---- time

static int has_limits(const struct mst_calls *calls) {
  return calls->timeout_ns != NEVER || calls->limited > 0;
}

// is_due tells whether the lanes are to be looked at one by one: not on every wake-up, since
// there may be a thousand of them.
static int is_due(const struct mst_calls *calls, int64_t slept_ns) {
  const int64_t beat_ns = calls->policy.heartbeat_ns;
  const int64_t every_ns = has_limits(calls) ? LOOK_NS : beat_ns / 12;
  if (calls->to_heal > 0 || calls->waiting > 0 || calls->alone ||
      calls->interrupts) {
    return 1;
  }
  if (beat_ns == NEVER && !has_limits(calls)) return 0;
  return slept_ns > beat_ns / 12 ||
         calls->now_ns - calls->looked_ns >= every_ns;
}

void mst_calls_tick(struct mst_calls *calls, int64_t slept_ns, int64_t now_ns) {
  calls->now_ns = now_ns;
  if (now_ns >= mst_pool_wake_ns(&calls->pool)) {
    mst_calls_tell_pool(calls, MST_EV_TICK, 0);
  }
  if (calls->pool.phase == MST_POOL_DOWN || !is_due(calls, slept_ns)) return;
  calls->looked_ns = now_ns;
  calls->alone = calls->interrupts = 0;
  for (uint32_t i = 0; i < calls->pool.count; i++)
    mst_lane_time(calls, calls->lanes[i], slept_ns);
}

int64_t mst_calls_wake_ns(const struct mst_calls *calls) {
  int64_t wake_ns = mst_pool_wake_ns(&calls->pool);
  for (uint32_t i = 0; calls->waiting > 0 && i < calls->pool.count; i++) {
    const int64_t launch_ns = calls->lanes[i]->launch_ns;
    if (launch_ns < wake_ns) wake_ns = launch_ns;
  }
  return wake_ns;
}

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
  return mst_lane_is_up(calls, lane) && calls->pool.phase == MST_POOL_RUNNING &&
         worker_of(calls, lane)->stop_ns == NEVER;
}

static int give_call(struct mst_calls *calls, struct mst_lane *lane,
                     struct mst_calls_action *action) {
  struct mst_call *call = lane->next_sent;
  while (call != NULL && call->cancelled) { // it never goes there
    mst_lane_drop(calls, lane, call);
    call = lane->next_sent;
  }
  if (call == NULL || !hears(calls, lane)) {
    lane->todo &= (uint16_t)~TODO_CALLS;
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
  mst_lane_todo(calls, lane, TODO_PING);
  (void)give(action, MST_CALLS_CANCEL, lane->worker);
  action->id = call->id;
  return 1;
}

// lane_action takes one thing that a lane has to do, 0 if it has nothing.
static int lane_action(struct mst_calls *calls, struct mst_lane *lane,
                       struct mst_calls_action *action) {
  MST_ASSERT(lane->sending == NULL); // the last one was neither sent nor not
  if (has_todo(lane, TODO_PAUSE)) {
    return give(action, MST_CALLS_PAUSE, lane->worker);
  }
  if (has_todo(lane, TODO_FORGET)) {
    return give(action, MST_CALLS_FORGET, lane->worker);
  }
  if (has_todo(lane, TODO_BREAK)) {
    return give(action, MST_CALLS_BREAK, lane->worker);
  }
  if (has_todo(lane, TODO_JUDGE) && lane->to_heal) {
    return give(action, MST_CALLS_JUDGE, lane->worker);
  }
  if (lane->replaying && give_replay(calls, lane, action)) return 1;
  if (has_todo(lane, TODO_CHECKPOINT) && !lane->ended) {
    return give(action, MST_CALLS_CHECKPOINT, lane->worker);
  }
  if ((lane->todo & TODO_CALLS) != 0 && give_call(calls, lane, action)) {
    return 1;
  }
  if (has_todo(lane, TODO_CANCEL) && give_cancel(calls, lane, action)) {
    return 1;
  }
  if (has_todo(lane, TODO_PING) && !lane->ended) {
    return give(action, MST_CALLS_PING, lane->worker);
  }
  return 0;
}

static int next_of_lanes(struct mst_calls *calls,
                         struct mst_calls_action *action) {
  while (calls->due_first != NULL) {
    struct mst_lane *lane = calls->due_first;
    if (lane_action(calls, lane, action)) return 1;
    calls->due_first = lane->next_due;
    if (calls->due_first == NULL) calls->due_last = NULL;
    lane->due = 0;
    lane->next_due = NULL;
  }
  return 0;
}

// next_drop tells the workers that have it, one by one, to forget a job.
static int next_drop(struct mst_calls *calls, struct mst_calls_action *action) {
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
    calls->dispatch = 1;
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

int mst_calls_next_action(struct mst_calls *calls,
                          struct mst_calls_action *action, int64_t now_ns) {
  struct mst_action said;
  calls->now_ns = now_ns;
  do {
    look_for_left(calls);
    if (calls->dispatch) {
      calls->dispatch = 0;
      mst_calls_dispatch(calls);
    }
    if (next_told(calls, action)) return 1;
    if (next_of_lanes(calls, action)) return 1;
    if (next_drop(calls, action)) return 1;
    if (calls->orphaned) {
      calls->orphaned = 0;
      return give(action, MST_CALLS_ORPHANED, 0);
    }
    if (mst_pool_next_action(&calls->pool, &said) == 1) {
      if (of_pool(calls, &said, action)) return 1;
    } else if (!calls->dispatch && calls->due_first == NULL) {
      return 0;
    }
  } while (1);
}
