// Worker states of one cluster. The contract is in state.h.
//
// One function takes each event to a leaf; a leaf changes one worker. Only four functions change
// the whole pool: start_fail() begins a take-down, lose() notes a loss, mst_pool_want_kill() ends a
// process, settle() ends the pool. Not chosen: a callback per state, which hides the events that a
// state ignores:
//
//                 starting     restarting  idle   busy         lost or stopped
//  FORKED         pid is known; KILL now if the worker was to be killed
//  LAUNCH_FAILED  lost, fails  lost        -      -            says why
//  READY          idle         idle        -      -            -
//  SETUP_FAILED   lost, fails  lost        -      -            says why
//  SENT           -            -           busy   owes 1 more  -
//  ANSWERED       -            -           -      owes 1 less  owes 1 less
//  CLOSED         lost, fails  lost        lost   lost         2nd sign: JUDGE
//  EXITED         lost, fails  lost        lost   lost         2nd sign: JUDGE
//  SILENT         -            lost        lost   lost         -
//  RETIRE         -            killed      BYE    BYE          no restart
//  RESTART        -            -           -      -            LAUNCH (if lost)
//
// More events and states:
//
//                 on its way   pending     idle or busy  draining    lost or left
//  PENDING        pending      -           -             -           -
//  FORKED         -            on its way  -             -           -
//  DRAIN          killed       given up    draining      -           no restart
//  ANSWERED       -            -           owes 1 less   0 left: BYE owes 1 less
//  RETIRE, STOP   killed       given up    BYE           as if busy  no restart
//  CLOSED, EXITED lost         lost        lost          lost if it owes, or left
//  RESTART        -            -           -             -           LAUNCH
//
// "fails" is start_lose(), and start_fail() if too few can still come: an idle worker, too, fails
// the start if it is lost before STARTED. During a stop or take-down CLOSED is only noted, and
// EXITED makes a worker stopped; the same holds for a retired worker, which also ignores SENT.
// Everything that isn't in the table is ignored: the world may repeat itself, and mix up the order
// of its two channels.
//
// Actions are bits of a worker (action.h), so they need no room, and none is lost or given twice:
// an incarnation gets each kind once at most. LAUNCH is made from `next`, `again` and `in_flight`
// when nothing is due, so nothing of an earlier incarnation is left by then.
//
// Time: a worker has at most one limit each for its news, its kill and its reaping, counted from
// lost_ns, stop_ns and kill_ns, and one for its restart (restart_ns), counted from LAUNCH, not from
// RESTART: with a small window, the others' boots aren't its fault. TICK checks all limits,
// O(workers), and sets wake_ns to the earliest; other events only lower wake_ns, O(1), so it is
// never late.
#include "pool/state.h"

#include "base/mst_assert.h"
#include "pool/state_int.h"

// --- Consequences for the pool ---

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
    mst_pool_want_kill(pool, i, now_ns);
  }
}

// start_lose removes one worker from the start, which fails if too few can still come. JUDGE
// follows STARTED, see start_done.
static void start_lose(struct mst_pool *pool, enum mst_fail fail,
                       uint32_t index, int32_t number, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  MST_ASSERT(pool->phase == MST_POOL_STARTING);
  if (worker->state == MST_WORKER_LOST) return; // the other sign of its end
  if (worker->state == MST_WORKER_IDLE) pool->ready--;
  mst_pool_set_state(pool, worker, MST_WORKER_LOST);
  pool->gone++;
  if (pool->count - pool->gone < pool->need) {
    start_fail(pool, fail, index, number, now_ns);
    return;
  }
  mst_pool_want_kill(pool, index, now_ns);
  // A worker from a queue may have delayed the deadline.
  mst_pool_arm(pool, mst_pool_start_due_ns(pool));
}

// fail_sharpen replaces "it ended" by the true reason: a failed fork or a refusal looks like that
// if the end is reported first.
static void fail_sharpen(struct mst_pool *pool, enum mst_fail fail,
                         uint32_t index, int32_t number) {
  if (pool->fail != MST_FAIL_EXITED || pool->fail_worker != index) return;
  pool->fail = fail;
  pool->fail_number = number;
}

// lose notes a sign of a worker's end in a running pool, or that it counts as lost. A process whose
// channel ended is useless: it is killed at once.
static void lose(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  MST_ASSERT(pool->phase == MST_POOL_RUNNING);
  if (worker->state != MST_WORKER_LOST) {
    mst_pool_set_state(pool, worker, MST_WORKER_LOST);
    worker->lost_ns = now_ns;
    mst_pool_want_kill(pool, index, now_ns);
  }
  mst_pool_arm(pool, mst_pool_news_due_ns(pool, worker));
  if (!worker->channel && worker->exit_known) {
    mst_pool_give_lost(pool, index);
  }
}

// start_done: the pool runs, perhaps without workers that come later or were lost.
static void start_done(struct mst_pool *pool, int64_t now_ns) {
  pool->phase = MST_POOL_RUNNING;
  pool->started_due = 1;
  for (uint32_t i = 0; i < pool->count; i++) {
    struct mst_worker *worker = pool->workers[i];
    if (worker->state == MST_WORKER_LOST) {
      worker->lost_ns = now_ns;
      lose(pool, i, now_ns);
    } else if (worker->state == MST_WORKER_STARTING && !worker->queued) {
      worker->restart_ns = now_ns;
    }
  }
  pool->wake_ns = mst_pool_due_ns(pool);
}

// settle ends a stop or take-down once nothing is left to wait for.
static void settle(struct mst_pool *pool, int64_t now_ns) {
  const int failing = pool->phase == MST_POOL_FAILING;
  if (!failing && pool->phase != MST_POOL_STOPPING) return;
  if (pool->awaited > 0) return;
  const int64_t due_ns = mst_pool_words_due_ns(pool);
  if (due_ns != NEVER && now_ns < due_ns) {
    mst_pool_arm(pool, due_ns);
    return;
  }
  pool->phase = MST_POOL_DOWN;
  pool->wake_ns = NEVER;
  pool->end_due = 1;
}

// --- Events of one worker ---

static void on_forked(struct mst_pool *pool, uint32_t index, int32_t pid,
                      int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  if (!worker->launched || worker->exit_known || worker->pid != 0) return;
  if (pid <= 0) return; // kill() would signal a group, or everybody
  worker->pid = (uint32_t)pid;
  if (worker->state == MST_WORKER_PENDING) {
    const int again = worker->epoch > 0;
    mst_pool_set_state(pool, worker,
                       again ? MST_WORKER_RESTARTING : MST_WORKER_STARTING);
    worker->restart_ns = now_ns;
    mst_pool_arm(pool, now_ns + MST_RESTART_NS);
  }
  // A launch that was given up is killed too, but not awaited again: a stuck parent could delay the
  // pool without limit.
  if (worker->awaited) {
    worker->has_process = 1;
    pool->processes++;
  }
  if (worker->kill_ns == NEVER) return;
  worker->kill_ns = now_ns;
  if (worker->awaited) mst_pool_arm(pool, now_ns + MST_REAP_NS);
  mst_pool_give_kill(pool, index);
}

// note_end: a worker ended that was asked to end, or taken down.
static void note_end(struct mst_pool *pool, struct mst_worker *worker) {
  if (!worker->exit_known) return;
  if (worker->state == MST_WORKER_LOST) return;
  if (worker->state == MST_WORKER_STOPPED) return;
  mst_pool_set_state(pool, worker,
                     worker->drains ? MST_WORKER_LEFT : MST_WORKER_STOPPED);
}

// on_end_sign: a worker's channel or process ended.
static void on_end_sign(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  if (worker->state == MST_WORKER_LEFT) return;
  switch (pool->phase) {
  case MST_POOL_STARTING:
    start_lose(pool, MST_FAIL_EXITED, index, 0, now_ns);
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
    MST_ASSERT(0 && "a worker in a pool that is not up");
    break;
  }
}

static void on_launch_failed(struct mst_pool *pool, uint32_t index,
                             int32_t sys_errno, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  const int starting = pool->phase == MST_POOL_STARTING;
  const int failing = pool->phase == MST_POOL_FAILING;
  const int again = worker->epoch > 0;
  if (!starting && !again && !failing && worker->was_ready) return;
  if (!worker->awaited || worker->pid != 0) return;
  // A worker that sent a message was forked.
  if (worker->state == MST_WORKER_IDLE || worker->state == MST_WORKER_BUSY ||
      worker->state == MST_WORKER_DRAINING) {
    return;
  }
  mst_pool_await_no_more(pool, worker);
  worker->exit_known = 1;
  worker->exit_how = MST_EXIT_NONE;
  worker->channel = 0;
  if (starting) {
    start_lose(pool, MST_FAIL_LAUNCH, index, sys_errno, now_ns);
  } else if (failing) {
    if (worker->state != MST_WORKER_LOST) {
      mst_pool_set_state(pool, worker, MST_WORKER_LOST);
    }
    fail_sharpen(pool, MST_FAIL_LAUNCH, index, sys_errno);
  } else {
    on_end_sign(pool, index, now_ns);
  }
  // If this failed the start, fail_number has the errno.
  worker->exit_number = pool->phase == MST_POOL_FAILING ? 0 : sys_errno;
}

static void on_pending(struct mst_pool *pool, uint32_t index) {
  struct mst_worker *worker = pool->workers[index];
  if (!worker->awaited || worker->pid != 0) return;
  if (worker->queued || worker->was_ready) return;
  const int on_its_way = mst_worker_is_on_its_way(worker->state);
  if (on_its_way) pool->in_flight--;
  worker->queued = 1;
  if (on_its_way) {
    pool->queued++;
    mst_pool_set_state(pool, worker, MST_WORKER_PENDING);
    worker->restart_ns = NEVER;
  }
}

static void on_ready(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  const int starting = pool->phase == MST_POOL_STARTING;
  if (!starting && pool->phase != MST_POOL_RUNNING) return;
  if (!mst_worker_is_on_its_way(worker->state) || worker->stop_ns != NEVER)
    return;
  worker->was_ready = 1;
  worker->restart_ns = NEVER;
  mst_pool_set_state(pool, worker, MST_WORKER_IDLE);
  if (worker->epoch == 0) pool->ready++;
  if (!starting) {
    mst_pool_give(pool, MST_DO_RESUME, index);
  } else if (pool->ready >= pool->need) {
    start_done(pool, now_ns);
  }
}

static void on_setup_failed(struct mst_pool *pool, uint32_t index,
                            int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  fail_sharpen(pool, MST_FAIL_SETUP, index, 0);
  if (!mst_worker_is_on_its_way(worker->state) || worker->stop_ns != NEVER)
    return;
  if (pool->phase == MST_POOL_RUNNING) {
    lose(pool, index, now_ns);
  } else if (pool->phase == MST_POOL_STARTING) {
    start_lose(pool, MST_FAIL_SETUP, index, 0, now_ns);
  }
}

static void on_sent(struct mst_pool *pool, uint32_t index) {
  struct mst_worker *worker = pool->workers[index];
  if (pool->phase != MST_POOL_RUNNING || worker->stop_ns != NEVER) return;
  if (worker->state == MST_WORKER_IDLE) {
    mst_pool_set_state(pool, worker, MST_WORKER_BUSY);
  }
  if (worker->state != MST_WORKER_BUSY) return;
  MST_ASSERT(worker->owed < UINT32_MAX);
  worker->owed++;
}

// An answer counts as long as the channel is read: also after the process's end is reported, and
// while a stop waits for busy workers. answers: 0 for a call that was withdrawn.
static void on_answered(struct mst_pool *pool, uint32_t index, int answers,
                        int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  if (worker->owed == 0 || !worker->channel) return;
  worker->owed--;
  worker->done += (uint64_t)answers;
  if (worker->owed == 0 && worker->state == MST_WORKER_BUSY) {
    mst_pool_set_state(pool, worker, MST_WORKER_IDLE);
  }
  if (worker->owed == 0 && worker->state == MST_WORKER_DRAINING) {
    mst_pool_say_bye(pool, index, now_ns);
  }
}

static void on_closed(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  if (!worker->channel) return; // also if not launched
  worker->channel = 0;
  on_end_sign(pool, index, now_ns);
}

static void on_exited(struct mst_pool *pool, const struct mst_event *event,
                      int64_t now_ns) {
  struct mst_worker *worker = pool->workers[event->worker];
  if (!worker->launched || worker->exit_known) return;
  const int told = event->how == MST_EXIT_CODE || event->how == MST_EXIT_SIGNAL;
  worker->exit_known = 1;
  worker->exit_how = told ? event->how : (uint32_t)MST_EXIT_UNKNOWN;
  worker->exit_number = told ? event->number : 0;
  mst_pool_await_no_more(pool, worker);
  on_end_sign(pool, event->worker, now_ns);
}

// --- Stop ---

// end_restart kills a worker that isn't ready, which can't be asked to end.
static void end_restart(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  if (worker->stop_ns != NEVER) return;
  worker->stop_ns = now_ns;
  mst_pool_want_kill(pool, index, now_ns);
}

// end_unlaunched: a partly started pool won't launch this worker.
static void end_unlaunched(struct mst_pool *pool, struct mst_worker *worker,
                           enum mst_worker_state state, int64_t now_ns) {
  worker->launched = worker->exit_known = 1;
  worker->exit_how = MST_EXIT_NONE;
  worker->stop_ns = now_ns;
  mst_pool_set_state(pool, worker, state);
  mst_pool_skip_launched(pool);
}

// undrain: RETIRE or STOP replaces DRAIN; deadlines apply.
static void undrain(struct mst_pool *pool, struct mst_worker *worker) {
  if (!mst_worker_is_live(worker)) return;
  worker->drains = 0;
  if (worker->state != MST_WORKER_DRAINING) return;
  mst_pool_set_state(pool, worker,
                     worker->owed > 0 ? MST_WORKER_BUSY : MST_WORKER_IDLE);
}

static void on_drain(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  if (pool->phase != MST_POOL_RUNNING) return;
  mst_pool_ask_again(pool, worker, 0);
  if (worker->state == MST_WORKER_NONE) {
    end_unlaunched(pool, worker, MST_WORKER_LEFT, now_ns);
  }
  if (worker->stop_ns != NEVER) return;
  if (mst_worker_is_on_its_way(worker->state)) {
    worker->drains = 1;
    end_restart(pool, index, now_ns);
  } else if (worker->state == MST_WORKER_IDLE ||
             worker->state == MST_WORKER_BUSY) {
    worker->drains = 1;
    mst_pool_set_state(pool, worker, MST_WORKER_DRAINING);
    if (worker->owed == 0) mst_pool_say_bye(pool, index, now_ns);
  }
}

static void on_retire(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  if (pool->phase != MST_POOL_RUNNING) return;
  mst_pool_ask_again(pool, worker, 0);
  undrain(pool, worker);
  if (worker->state == MST_WORKER_NONE) {
    end_unlaunched(pool, worker, MST_WORKER_STOPPED, now_ns);
  } else if (mst_worker_is_on_its_way(worker->state)) {
    end_restart(pool, index, now_ns);
  } else if (worker->state == MST_WORKER_IDLE ||
             worker->state == MST_WORKER_BUSY) {
    mst_pool_say_bye(pool, index, now_ns);
  }
}

static void on_restart(struct mst_pool *pool, uint32_t index) {
  struct mst_worker *worker = pool->workers[index];
  if (pool->phase != MST_POOL_RUNNING) return;
  const int lost = worker->state == MST_WORKER_LOST && worker->lost_given;
  if (!lost && worker->state != MST_WORKER_LEFT) return;
  mst_pool_ask_again(pool, worker, 1);
}

static void on_silent(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  if (pool->phase != MST_POOL_RUNNING || worker->stop_ns != NEVER) return;
  if (!mst_worker_is_live(worker)) return;
  worker->presumed = 1;
  lose(pool, index, now_ns);
}

// stop_worker says BYE, or gives JUDGE while that is still allowed.
static void stop_worker(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  mst_pool_ask_again(pool, worker, 0);
  undrain(pool, worker);
  if (worker->stop_ns != NEVER) return; // retired already
  if (worker->state == MST_WORKER_LOST) {
    mst_pool_give_lost(pool, index);
  } else if (mst_worker_is_on_its_way(worker->state)) {
    end_restart(pool, index, now_ns);
  } else if (mst_worker_is_live(worker)) {
    MST_ASSERT(worker->state == MST_WORKER_IDLE ||
               worker->state == MST_WORKER_BUSY);
    mst_pool_say_bye(pool, index, now_ns);
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
    for (uint32_t i = 0; i < pool->count; i++)
      stop_worker(pool, i, now_ns);
    break;
  case MST_POOL_FAILING:
  case MST_POOL_STOPPING:
  case MST_POOL_DOWN:
    break; // is ending already
  }
}

// --- Time ---

static void give_up(struct mst_pool *pool, struct mst_worker *worker) {
  mst_pool_await_no_more(pool, worker);
  worker->exit_how = MST_EXIT_UNKNOWN;
  if (!mst_worker_is_live(worker)) return;
  mst_pool_set_state(pool, worker,
                     worker->drains ? MST_WORKER_LEFT : MST_WORKER_LOST);
}

static void tick_worker(struct mst_pool *pool, uint32_t index, int64_t now_ns) {
  struct mst_worker *worker = pool->workers[index];
  if (mst_pool_restart_due_ns(pool, worker) <= now_ns) {
    worker->presumed = 1;
    if (pool->phase == MST_POOL_STARTING) {
      start_lose(pool, MST_FAIL_DEADLINE, index, 0, now_ns);
    } else {
      lose(pool, index, now_ns);
    }
  }
  if (mst_pool_reap_due_ns(worker) <= now_ns) give_up(pool, worker);
  if (mst_pool_news_due_ns(pool, worker) <= now_ns)
    mst_pool_give_lost(pool, index);
  if (mst_pool_kill_due_ns(pool, worker) <= now_ns)
    mst_pool_want_kill(pool, index, now_ns);
}

// first_not_ready: the first worker that the deadline applies to, or that wasn't launched. There is
// one: otherwise enough would be ready or queued.
static uint32_t first_not_ready(const struct mst_pool *pool) {
  uint32_t i = 0;
  while (i < pool->next && (pool->workers[i]->state != MST_WORKER_STARTING ||
                            pool->workers[i]->queued)) {
    i++;
  }
  MST_ASSERT(i < pool->count);
  return i;
}

static void on_tick(struct mst_pool *pool, int64_t now_ns) {
  if (now_ns >= mst_pool_start_due_ns(pool)) {
    start_fail(pool, MST_FAIL_DEADLINE, first_not_ready(pool), 0, now_ns);
  }
  for (uint32_t i = 0; i < pool->count; i++) {
    tick_worker(pool, i, now_ns);
  }
  pool->wake_ns = mst_pool_due_ns(pool);
}

// --- Functions of state.h ---

void mst_pool_begin(struct mst_pool *pool, int64_t now_ns, int64_t deadline_ns,
                    uint32_t need) {
  MST_ASSERT(pool->phase == MST_POOL_NEW);
  MST_ASSERT(need <= pool->count);
  pool->need = need;
  pool->phase = MST_POOL_STARTING;
  pool->deadline_ns = deadline_ns;
  mst_pool_arm(pool, deadline_ns);
  if (need == 0) start_done(pool, now_ns);
}

void mst_pool_event(struct mst_pool *pool, const struct mst_event *event,
                    int64_t now_ns) {
  const uint32_t index = event->worker;
  const int of_pool = event->kind == MST_EV_STOP || event->kind == MST_EV_TICK;
  if (pool->phase == MST_POOL_DOWN) return;
  pool->now_ns = now_ns; // for LAUNCH, whatever the event
  if (!of_pool && index >= pool->count) return; // callers don't check the index
  switch (event->kind) {
  case MST_EV_FORKED:
    on_forked(pool, index, event->number, now_ns);
    break;
  case MST_EV_LAUNCH_FAILED:
    on_launch_failed(pool, index, event->number, now_ns);
    break;
  case MST_EV_READY:
    on_ready(pool, index, now_ns);
    break;
  case MST_EV_SETUP_FAILED:
    on_setup_failed(pool, index, now_ns);
    break;
  case MST_EV_SENT:
    on_sent(pool, index);
    break;
  case MST_EV_ANSWERED:
    on_answered(pool, index, 1, now_ns);
    break;
  case MST_EV_WITHDRAWN:
    on_answered(pool, index, 0, now_ns);
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
  case MST_EV_PENDING:
    on_pending(pool, index);
    break;
  case MST_EV_DRAIN:
    on_drain(pool, index, now_ns);
    break;
  }
  settle(pool, now_ns);
}
