// Worker states of one cluster. The contract is in state.h.
//
// One function takes each event to a leaf; a leaf changes one worker, and what
// follows for the whole pool is said in four places only: start_fail() begins a
// take-down, lose() notes a loss, want_kill() ends a process, settle() ends the
// pool. A callback per state was the other way: it hides which events a state
// doesn't take, and that is what has to be read here:
//
//                 starting     restarting  idle   busy         lost or stopped
//  FORKED         pid is known; KILL now if the worker was to be killed
//  LAUNCH_FAILED  lost, fails  lost        -      -            says why
//  READY          idle         idle        -      -            -
//  SETUP_FAILED   lost, fails  lost        -      -            says why
//  SENT           -            -           busy   owes 1 more  -
//  ANSWERED       -            -           -      owes 1 less  owes 1 less
//  CLOSED         lost, fails  lost        lost   lost         2nd sign: LOST
//  EXITED         lost, fails  lost        lost   lost         2nd sign: LOST
//  SILENT         -            lost        lost   lost         -
//  RETIRE         -            killed      BYE    BYE          no restart
//  RESTART        -            -           -      -            LAUNCH (if lost)
//
// "fails" is start_fail(): also a worker that is idle fails the start when it
// is lost before all are ready. During a stop or take-down CLOSED is only
// noted, and EXITED makes a worker stopped; so it is for a retired one, which
// takes no SENT either. Whatever isn't in the table is ignored; the world
// repeats itself and mixes up the order of its two channels.
//
// Bound of the action queue: an incarnation gets at most one RESTARTED, one KILL
// (flag killed) and one of BYE and LOST (BYE goes to those that a stop or RETIRE
// finds not lost, and no LOST follows it); the pool gets STARTED at most once and
// one of START_FAILED and STOPPED. LAUNCH is never queued: it is made from `next`,
// `again` and `in_flight` when the queue is empty, so that nothing of an earlier
// incarnation is left in it. So 3 * workers + 2 entries never run out, even if
// nobody takes any.
//
// Time: a worker has at most one limit running for its news, its kill and its
// reaping each, computed from when it began (lost_ns, stop_ns, kill_ns), and one
// for its way back (restart_ns), which begins with the LAUNCH and not with the
// RESTART: in a small window the others' boots aren't its fault. TICK
// looks at all of them, O(workers), and notes the earliest in wake_ns; other
// events only lower wake_ns, O(1), so it is never late.
#include "pool/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "pool/state_int.h"

// --- Small changes ---

static void arm(struct mst_pool *pool, int64_t at_ns) {
  if (at_ns < pool->wake_ns) pool->wake_ns = at_ns;
}

static void give(struct mst_pool *pool, enum mst_action_kind kind,
                 uint32_t worker) {
  MST_ASSERT(pool->action_count < pool->action_cap);
  const size_t at = (pool->action_head + pool->action_count) % pool->action_cap;
  pool->actions[at] = (struct mst_action){kind, worker};
  pool->action_count++;
}

static int is_in_flight(enum mst_worker_state state) {
  return state == MST_WORKER_STARTING || state == MST_WORKER_RESTARTING;
}

static void set_state(struct mst_pool *pool, struct mst_worker *worker,
                      enum mst_worker_state state) {
  MST_ASSERT(worker->state != state);
  if (is_in_flight(worker->state)) {
    MST_ASSERT(pool->in_flight > 0);
    pool->in_flight--;
  }
  if (is_in_flight(state)) pool->in_flight++;
  worker->state = state;
}

static void ask_again(struct mst_pool *pool, struct mst_worker *worker,
                      uint8_t again) {
  if (worker->again == again) return;
  worker->again = again;
  pool->again += again ? 1u : UINT32_MAX; // or one less
}

// await_no_more: its end is known, it never was, or it is given up.
static void await_no_more(struct mst_pool *pool, struct mst_worker *worker) {
  if (!worker->awaited) return; // given up before
  MST_ASSERT(pool->awaited > 0);
  worker->awaited = 0;
  pool->awaited--;
  if (!worker->has_process) return;
  MST_ASSERT(pool->processes > 0);
  worker->has_process = 0;
  pool->processes--;
}

static void give_kill(struct mst_pool *pool, uint32_t index) {
  MST_ASSERT(pool->workers[index].pid != 0);
  MST_ASSERT(!pool->workers[index].killed);
  pool->workers[index].killed = 1;
  give(pool, MST_DO_KILL, index);
}

// want_kill ends a worker's process: now if its pid is known, else when FORKED
// brings it. The time to reap it runs from here on.
static void want_kill(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  if (!worker->awaited || worker->kill_ns != NEVER) return;
  worker->kill_ns = now_ns;
  arm(pool, now_ns + MST_REAP_NS);
  if (worker->pid != 0) give_kill(pool, index);
}

static void give_lost(struct mst_pool *pool, uint32_t index) {
  struct mst_worker *worker = &pool->workers[index];
  MST_ASSERT(worker->state == MST_WORKER_LOST);
  if (worker->lost_given) return;
  worker->lost_given = 1;
  give(pool, MST_DO_LOST, index);
}

// --- What follows for the pool ---

// start_fail turns the start into a take-down of all that was launched.
static void start_fail(struct mst_pool *pool, enum mst_fail fail,
                       uint32_t index, int32_t number, int64_t now_ns) {
  MST_ASSERT(pool->phase == MST_POOL_STARTING);
  MST_ASSERT(pool->fail == MST_FAIL_NONE);
  pool->phase = MST_POOL_FAILING;
  pool->stop_ns = now_ns;
  pool->fail = fail;
  pool->fail_worker = index;
  pool->fail_number = number;
  for (uint32_t i = 0; i < pool->next; i++) {
    want_kill(pool, i, now_ns);
  }
}

// fail_sharpen puts the true reason in place of "it ended", which is what a
// failed fork or a refusing worker looks like when its end is heard first.
static void fail_sharpen(struct mst_pool *pool, enum mst_fail fail,
                         uint32_t index, int32_t number) {
  if (pool->fail != MST_FAIL_EXITED || pool->fail_worker != index) return;
  pool->fail = fail;
  pool->fail_number = number;
}

// lose notes a sign of the end of a worker in a running pool. A process whose
// channel ended can't be used and must not stay: it is killed at once.
static void lose(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  MST_ASSERT(pool->phase == MST_POOL_RUNNING);
  if (worker->state != MST_WORKER_LOST) {
    set_state(pool, worker, MST_WORKER_LOST);
    worker->lost_ns = now_ns;
    arm(pool, now_ns + MST_NEWS_NS);
    want_kill(pool, index, now_ns);
  }
  if (!worker->channel_open && worker->exit_known) give_lost(pool, index);
}

// settle ends a stop or take-down once nothing of it is left to wait for.
static void settle(struct mst_pool *pool, int64_t now_ns) {
  const int failing = pool->phase == MST_POOL_FAILING;
  if (!failing && pool->phase != MST_POOL_STOPPING) return;
  if (pool->awaited > 0) return;
  const int64_t due_ns = mst_pool_words_due_ns(pool);
  if (due_ns != NEVER && now_ns < due_ns) {
    arm(pool, due_ns);
    return;
  }
  pool->phase = MST_POOL_DOWN;
  pool->wake_ns = NEVER;
  give(pool, failing ? MST_DO_START_FAILED : MST_DO_STOPPED, 0);
}

// --- Events of one worker ---

static void on_forked(struct mst_pool *pool, uint32_t index, int32_t pid,
                      int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  if (!worker->launched || worker->exit_known || worker->pid != 0) return;
  if (pid <= 0) return; // kill() would take it for a group or for everybody
  worker->pid = (uint32_t)pid;
  // A launch that was given up is killed too, but not waited for again: that
  // would let a stuck parent hold the pool up without limit.
  if (worker->awaited) {
    worker->has_process = 1;
    pool->processes++;
  }
  if (worker->kill_ns == NEVER) return;
  worker->kill_ns = now_ns;
  if (worker->awaited) arm(pool, now_ns + MST_REAP_NS);
  give_kill(pool, index);
}

// note_end: the end of a worker that was asked to end, or taken down.
static void note_end(struct mst_pool *pool, struct mst_worker *worker) {
  if (!worker->exit_known) return;
  if (worker->state == MST_WORKER_LOST) return;
  if (worker->state == MST_WORKER_STOPPED) return;
  set_state(pool, worker, MST_WORKER_STOPPED);
}

// A sign of a worker's end, its channel's or its process's.
static void on_end_sign(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  switch (pool->phase) {
  case MST_POOL_STARTING:
    set_state(pool, worker, MST_WORKER_LOST);
    start_fail(pool, MST_FAIL_EXITED, index, 0, now_ns);
    break;
  case MST_POOL_RUNNING:
    if (worker->stop_ns == NEVER) {
      lose(pool, index, now_ns);
    } else {
      note_end(pool, worker);
    }
    break;
  case MST_POOL_FAILING:
  case MST_POOL_STOPPING:
    note_end(pool, worker);
    break;
  case MST_POOL_NEW:
  case MST_POOL_DOWN:
    MST_ASSERT(!"a worker in a pool that is not up");
    break;
  }
}

static void on_launch_failed(struct mst_pool *pool, uint32_t index,
                             int32_t sys_errno, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  const int starting = pool->phase == MST_POOL_STARTING;
  const int again = worker->epoch > 0;
  if (!starting && !again && pool->phase != MST_POOL_FAILING) return;
  if (!worker->awaited || worker->pid != 0) return;
  // One that spoke was forked.
  if (worker->state == MST_WORKER_IDLE || worker->state == MST_WORKER_BUSY) {
    return;
  }
  await_no_more(pool, worker);
  worker->exit_known = 1;
  worker->exit_how = MST_EXIT_NONE;
  worker->exit_number = again ? sys_errno : 0;
  worker->channel_open = 0;
  if (again) {
    on_end_sign(pool, index, now_ns);
    return;
  }
  if (worker->state != MST_WORKER_LOST) {
    set_state(pool, worker, MST_WORKER_LOST);
  }
  if (starting) {
    start_fail(pool, MST_FAIL_LAUNCH, index, sys_errno, now_ns);
  } else {
    fail_sharpen(pool, MST_FAIL_LAUNCH, index, sys_errno);
  }
}

static void on_ready(struct mst_pool *pool, uint32_t index) {
  struct mst_worker *worker = &pool->workers[index];
  if (pool->phase == MST_POOL_RUNNING &&
      worker->state == MST_WORKER_RESTARTING && worker->stop_ns == NEVER) {
    worker->restart_ns = NEVER;
    set_state(pool, worker, MST_WORKER_IDLE);
    give(pool, MST_DO_RESTARTED, index);
    return;
  }
  if (pool->phase != MST_POOL_STARTING) return;
  if (worker->state != MST_WORKER_STARTING) return;
  set_state(pool, worker, MST_WORKER_IDLE);
  pool->ready++;
  if (pool->ready < pool->count) return;
  pool->phase = MST_POOL_RUNNING;
  pool->wake_ns = NEVER; // of the start's deadline; nothing else has a limit
  give(pool, MST_DO_STARTED, 0);
}

static void on_setup_failed(struct mst_pool *pool, uint32_t index,
                            int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  fail_sharpen(pool, MST_FAIL_SETUP, index, 0);
  if (pool->phase == MST_POOL_RUNNING &&
      worker->state == MST_WORKER_RESTARTING && worker->stop_ns == NEVER) {
    lose(pool, index, now_ns);
    return;
  }
  if (pool->phase != MST_POOL_STARTING) return;
  if (worker->state != MST_WORKER_STARTING) return;
  set_state(pool, worker, MST_WORKER_LOST);
  start_fail(pool, MST_FAIL_SETUP, index, 0, now_ns);
}

static void on_sent(struct mst_pool *pool, uint32_t index) {
  struct mst_worker *worker = &pool->workers[index];
  if (pool->phase != MST_POOL_RUNNING || worker->stop_ns != NEVER) return;
  if (worker->state == MST_WORKER_IDLE) {
    set_state(pool, worker, MST_WORKER_BUSY);
  }
  if (worker->state != MST_WORKER_BUSY) return;
  MST_ASSERT(worker->owed < UINT32_MAX);
  worker->owed++;
}

// An answer counts as long as the channel is read: also after the news that
// the process ended, and while a stop waits for busy workers.
static void on_answered(struct mst_pool *pool, uint32_t index) {
  struct mst_worker *worker = &pool->workers[index];
  if (worker->owed == 0 || !worker->channel_open || worker->lost_given) return;
  worker->owed--;
  worker->done++;
  if (worker->owed == 0 && worker->state == MST_WORKER_BUSY) {
    set_state(pool, worker, MST_WORKER_IDLE);
  }
}

static void on_closed(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  if (!worker->channel_open) return; // so also if it was not launched
  worker->channel_open = 0;
  on_end_sign(pool, index, now_ns);
}

static void on_exited(struct mst_pool *pool, const struct mst_event *event,
                      int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[event->worker];
  if (!worker->launched || worker->exit_known) return;
  const int told = event->how == MST_EXIT_CODE || event->how == MST_EXIT_SIGNAL;
  worker->exit_known = 1;
  worker->exit_how = told ? event->how : (uint32_t)MST_EXIT_UNKNOWN;
  worker->exit_number = told ? event->number : 0;
  await_no_more(pool, worker);
  on_end_sign(pool, event->worker, now_ns);
}

// --- Stop ---

// say_bye asks a worker to end, once; its limits run from here on.
static void say_bye(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  if (worker->stop_ns != NEVER) return;
  worker->stop_ns = now_ns;
  arm(pool, now_ns + MST_STOP_BUSY_NS);
  give(pool, MST_DO_BYE, index);
}

// end_restart ends one that isn't ready yet and so can't be asked.
static void end_restart(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  if (worker->stop_ns != NEVER) return;
  worker->stop_ns = now_ns;
  want_kill(pool, index, now_ns);
}

static void on_retire(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  if (pool->phase != MST_POOL_RUNNING) return;
  ask_again(pool, worker, 0);
  if (worker->state == MST_WORKER_RESTARTING) {
    end_restart(pool, index, now_ns);
  } else if (worker->state == MST_WORKER_IDLE ||
             worker->state == MST_WORKER_BUSY) {
    say_bye(pool, index, now_ns);
  }
}

static void on_restart(struct mst_pool *pool, uint32_t index) {
  struct mst_worker *worker = &pool->workers[index];
  if (pool->phase != MST_POOL_RUNNING) return;
  if (worker->state != MST_WORKER_LOST || !worker->lost_given) return;
  ask_again(pool, worker, 1);
}

static void on_silent(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  const struct mst_worker *worker = &pool->workers[index];
  if (pool->phase != MST_POOL_RUNNING || worker->stop_ns != NEVER) return;
  if (worker->state == MST_WORKER_IDLE || worker->state == MST_WORKER_BUSY ||
      worker->state == MST_WORKER_RESTARTING) {
    lose(pool, index, now_ns);
  }
}

// stop_worker says goodbye, or says LOST while that may still be said.
static void stop_worker(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  ask_again(pool, worker, 0);
  if (worker->stop_ns != NEVER) return; // retired before
  if (worker->state == MST_WORKER_LOST) {
    give_lost(pool, index);
  } else if (worker->state == MST_WORKER_RESTARTING) {
    end_restart(pool, index, now_ns);
  } else {
    MST_ASSERT(worker->state == MST_WORKER_IDLE ||
               worker->state == MST_WORKER_BUSY);
    say_bye(pool, index, now_ns);
  }
}

static void on_stop(struct mst_pool *pool, int64_t now_ns) {
  switch (pool->phase) {
  case MST_POOL_STARTING:
    start_fail(pool, MST_FAIL_STOPPED, 0, 0, now_ns);
    break;
  case MST_POOL_NEW:
  case MST_POOL_RUNNING:
    pool->phase = MST_POOL_STOPPING;
    for (uint32_t i = 0; i < pool->next; i++)
      stop_worker(pool, i, now_ns);
    break;
  case MST_POOL_FAILING:
  case MST_POOL_STOPPING:
  case MST_POOL_DOWN:
    break; // on its way down already
  }
}

// --- Time ---

static void give_up(struct mst_pool *pool, struct mst_worker *worker) {
  await_no_more(pool, worker);
  worker->exit_how = MST_EXIT_UNKNOWN;
  if (worker->state != MST_WORKER_LOST) {
    set_state(pool, worker, MST_WORKER_LOST);
  }
}

static void tick_worker(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = &pool->workers[index];
  if (mst_pool_restart_due_ns(pool, worker) <= now_ns)
    lose(pool, index, now_ns);
  if (mst_pool_news_due_ns(pool, worker) <= now_ns) give_lost(pool, index);
  if (mst_pool_kill_due_ns(pool, worker) <= now_ns)
    want_kill(pool, index, now_ns);
  if (mst_pool_reap_due_ns(worker) <= now_ns) give_up(pool, worker);
}

static uint32_t first_not_ready(const struct mst_pool *pool) {
  uint32_t i = 0;
  while (i < pool->next && pool->workers[i].state != MST_WORKER_STARTING) {
    i++;
  }
  MST_ASSERT(i < pool->count);
  return i;
}

static void on_tick(struct mst_pool *pool, int64_t now_ns) {
  if (pool->phase == MST_POOL_STARTING && now_ns >= pool->deadline_ns) {
    start_fail(pool, MST_FAIL_DEADLINE, first_not_ready(pool), 0, now_ns);
  }
  for (uint32_t i = 0; i < pool->next; i++) {
    tick_worker(pool, i, now_ns);
  }
  pool->wake_ns = mst_pool_due_ns(pool);
}

// --- The contract ---

void mst_pool_start(struct mst_pool *pool, int64_t now_ns,
                    int64_t deadline_ns) {
  (void)now_ns; // nothing depends on it yet; a TICK tells when the time is up
  MST_ASSERT(pool->phase == MST_POOL_NEW);
  pool->phase = MST_POOL_STARTING;
  pool->deadline_ns = deadline_ns;
  arm(pool, deadline_ns);
}

void mst_pool_event(struct mst_pool *pool, const struct mst_event *event,
                    int64_t now_ns) {
  const uint32_t index = event->worker;
  const int of_pool = event->kind == MST_EV_STOP || event->kind == MST_EV_TICK;
  if (pool->phase == MST_POOL_DOWN) return;
  pool->now_ns = now_ns; // also for LAUNCH, whatever the event
  if (!of_pool && index >= pool->count) return; // the index is the world's
  switch (event->kind) {
  case MST_EV_FORKED:
    on_forked(pool, index, event->number, now_ns);
    break;
  case MST_EV_LAUNCH_FAILED:
    on_launch_failed(pool, index, event->number, now_ns);
    break;
  case MST_EV_READY:
    on_ready(pool, index);
    break;
  case MST_EV_SETUP_FAILED:
    on_setup_failed(pool, index, now_ns);
    break;
  case MST_EV_SENT:
    on_sent(pool, index);
    break;
  case MST_EV_ANSWERED:
    on_answered(pool, index);
    break;
  case MST_EV_CLOSED:
    on_closed(pool, index, now_ns);
    break;
  case MST_EV_EXITED:
    on_exited(pool, event, now_ns);
    break;
  case MST_EV_RETIRE:
    on_retire(pool, index, now_ns);
    break;
  case MST_EV_RESTART:
    on_restart(pool, index);
    break;
  case MST_EV_SILENT:
    on_silent(pool, index, now_ns);
    break;
  case MST_EV_STOP:
    on_stop(pool, now_ns);
    break;
  case MST_EV_TICK:
    on_tick(pool, now_ns);
    break;
  }
  settle(pool, now_ns);
}

static int is_stale(const struct mst_pool *pool,
                    const struct mst_action *action) {
  const struct mst_worker *worker = &pool->workers[action->worker];
  // The pid of a reaped process may belong to somebody else by now.
  if (action->kind == MST_DO_KILL) return worker->exit_known;
  if (action->kind == MST_DO_BYE) return !worker->channel_open;
  if (action->kind == MST_DO_RESTARTED) {
    return worker->state != MST_WORKER_IDLE;
  }
  return 0;
}

static int next_queued(struct mst_pool *pool, struct mst_action *action) {
  while (pool->action_count > 0) {
    const struct mst_action oldest = pool->actions[pool->action_head];
    pool->action_head = (pool->action_head + 1) % pool->action_cap;
    pool->action_count--;
    if (is_stale(pool, &oldest)) continue;
    *action = oldest;
    return 1;
  }
  return 0;
}

static void launch(struct mst_pool *pool, uint32_t index,
                   enum mst_worker_state state, struct mst_action *action) {
  struct mst_worker *worker = &pool->workers[index];
  set_state(pool, worker, state);
  worker->launched = 1;
  worker->awaited = 1;
  worker->channel_open = 1;
  pool->awaited++;
  *action = (struct mst_action){MST_DO_LAUNCH, index};
}

// next_again launches the next incarnation of the first worker that is to have
// one. A process that was given as lost and not reaped yet was killed before:
// nobody waits for it any more.
static int next_again(struct mst_pool *pool, struct mst_action *action) {
  if (pool->phase != MST_POOL_RUNNING || pool->again == 0) return 0;
  if (pool->in_flight >= pool->window) return 0;
  uint32_t i = 0;
  while (!pool->workers[i].again)
    i++;
  struct mst_worker *worker = &pool->workers[i];
  ask_again(pool, worker, 0);
  await_no_more(pool, worker);
  mst_pool_begin_worker(worker, worker->epoch + 1);
  launch(pool, i, MST_WORKER_RESTARTING, action);
  worker->restart_ns = pool->now_ns;
  arm(pool, pool->now_ns + MST_RESTART_NS);
  return 1;
}

static int next_launch(struct mst_pool *pool, struct mst_action *action) {
  if (pool->phase != MST_POOL_STARTING) return next_again(pool, action);
  if (pool->next == pool->count || pool->in_flight >= pool->window) return 0;
  launch(pool, pool->next, MST_WORKER_STARTING, action);
  pool->next++;
  return 1;
}

int mst_pool_next_action(struct mst_pool *pool, struct mst_action *action) {
  return next_queued(pool, action) || next_launch(pool, action);
}

int64_t mst_pool_wake_ns(const struct mst_pool *pool) { return pool->wake_ns; }
