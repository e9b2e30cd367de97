// The monitor's verdict on actions: each was due by the monitor's books and wasn't given before,
// and none is missing once the queue is empty.
#include "sim.h"

// --- Judging actions ---

// begin_again starts the book of the next incarnation.
static void begin_again(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (!book->again) sim_fail(sim, "LAUNCH again that nobody asked for");
  if (!book->lost_given && !book->left) {
    sim_fail(sim, "LAUNCH again before LOST");
  }
  for (uint32_t i = 0; i < worker; i++) {
    if (sim->books[i].again) sim_fail(sim, "LAUNCH again out of order");
  }
  if (sim_is_awaited(book)) sim_saw(SIM_SAW_restart_left_unreaped);
  *book = (struct sim_book){.epoch = book->epoch + 1,
                            .launched = 1,
                            .limit_ns = sim->event_ns,
                            .done = book->done};
}

static uint32_t first_unlaunched(const struct sim *sim) {
  uint32_t i = 0;
  while (i < sim->plan.count && sim->books[i].launched)
    i++;
  return i;
}

static int some_again(const struct sim *sim) {
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    if (sim->books[i].again) return 1;
  }
  return 0;
}

static void judge_launch(struct sim *sim, uint32_t worker) {
  if (sim_in_flight(sim) >= sim->plan.window) {
    sim_fail(sim, "more than window launches in flight");
  }
  if (sim_is_running(sim) && some_again(sim)) {
    begin_again(sim, worker);
    return;
  }
  if (!sim_is_starting(sim) && !sim_is_running(sim)) {
    sim_fail(sim, "LAUNCH when the start is over");
  }
  if (worker != first_unlaunched(sim)) {
    sim_fail(sim, "LAUNCH out of order or twice");
  }
  if (sim->failed) return;
  sim->books[worker].launched = 1;
  sim->books[worker].limit_ns = sim_is_running(sim) ? sim->event_ns : SIM_NEVER;
}

static void judge_kill(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (!book->kill_due) sim_fail(sim, "KILL without a reason");
  if (!book->pid) sim_fail(sim, "KILL without a pid");
  if (book->ended) sim_fail(sim, "KILL of a process that is gone");
  if (book->kill_given) sim_fail(sim, "KILL twice");
  book->kill_given = 1;
  if (book->lost && sim->processes[worker].alive) {
    sim_saw(SIM_SAW_wedged_killed);
  }
}

static void judge_bye(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (!book->bye_due || book->unasked) {
    sim_fail(sim, "BYE unasked for, or to a worker that isn't there");
  }
  if (book->closed) sim_fail(sim, "BYE into a channel that ended");
  if (book->bye_given) sim_fail(sim, "BYE twice");
  book->bye_given = 1;
}

static void judge_lost(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (!book->lost_due) sim_fail(sim, "LOST without a reason or too early");
  if (book->lost_given) sim_fail(sim, "LOST twice");
  book->lost_given = 1;
}

static void judge_restarted(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (!book->restarted_due) sim_fail(sim, "RESTARTED of one that isn't ready");
  if (book->restarted_given) sim_fail(sim, "RESTARTED twice");
  if (book->lost) sim_fail(sim, "RESTARTED of a lost worker");
  book->restarted_given = 1;
  sim_saw(book->epoch > 2 ? SIM_SAW_restarted_often : SIM_SAW_restarted);
}

static void judge_joined(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (!book->joined_due) sim_fail(sim, "JOINED of one that isn't ready");
  if (book->joined_given) sim_fail(sim, "JOINED twice");
  if (!sim->started_given) sim_fail(sim, "JOINED before STARTED");
  if (book->lost) sim_fail(sim, "JOINED of a lost worker");
  book->joined_given = 1;
  sim_saw(SIM_SAW_joined);
}

static void judge_started(struct sim *sim) {
  if (!sim->runs) sim_fail(sim, "STARTED before enough were ready");
  if (sim->failing) sim_fail(sim, "STARTED after a failure");
  if (sim->started_given) sim_fail(sim, "STARTED twice");
  sim->started_given = 1;
  sim_saw(SIM_SAW_started);
}

static void judge_down(struct sim *sim) {
  if (sim->down_given) sim_fail(sim, "down twice");
  if (!sim->down_due) sim_fail(sim, "down too early");
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    if (sim->processes[i].alive && !sim->books[i].given_up) {
      sim_fail(sim, "down while the process of worker %u lives", i);
    }
  }
  sim->down_given = 1;
}

static void judge_start_failed(struct sim *sim) {
  static const enum sim_sight sights[] = {
      [MST_FAIL_LAUNCH] = SIM_SAW_fail_launch,
      [MST_FAIL_SETUP] = SIM_SAW_fail_setup,
      [MST_FAIL_EXITED] = SIM_SAW_fail_exited,
      [MST_FAIL_DEADLINE] = SIM_SAW_fail_deadline,
      [MST_FAIL_STOPPED] = SIM_SAW_fail_stopped};
  if (!sim->failing) sim_fail(sim, "START_FAILED without a failure");
  if (sim->core.pool.fail != sim->fail ||
      sim->core.pool.fail_worker != sim->fail_worker) {
    sim_fail(sim, "START_FAILED for reason %d of worker %u, not %d of %u",
             (int)sim->core.pool.fail, sim->core.pool.fail_worker,
             (int)sim->fail, sim->fail_worker);
  }
  const int32_t number = sim->fail == MST_FAIL_LAUNCH
                             ? sim->books[sim->fail_worker].launch_errno
                             : 0;
  if (sim->core.pool.fail_number != number)
    sim_fail(sim, "START_FAILED's errno");
  judge_down(sim);
  if (!sim->failed) sim_saw(sights[sim->fail]);
}

static void judge_stopped(struct sim *sim) {
  if (!sim->stopping) sim_fail(sim, "STOPPED without a stop");
  judge_down(sim);
  sim_saw(SIM_SAW_stopped);
}

void sim_monitor_call(struct sim *sim, uint32_t worker) {
  const struct sim_book *book = &sim->books[worker];
  if (sim_serves(book)) return;
  sim_fail(sim, "a call is sent to worker %u, which %s", worker,
           book->left                   ? "has left"
           : book->drained              ? "drains"
           : book->lost                 ? "is lost"
           : !book->launched            ? "isn't launched"
           : book->queued && !book->pid ? "is pending"
                                        : "isn't ready or is to end");
}

void sim_monitor_action(struct sim *sim, const struct mst_action *action) {
  if (action->worker >= sim->plan.count) {
    sim_fail(sim, "an action for worker %u", action->worker);
    return;
  }
  switch (action->kind) {
  case MST_DO_LAUNCH:
    judge_launch(sim, action->worker);
    break;
  case MST_DO_BYE:
    judge_bye(sim, action->worker);
    break;
  case MST_DO_KILL:
    judge_kill(sim, action->worker);
    break;
  case MST_DO_STARTED:
    judge_started(sim);
    break;
  case MST_DO_START_FAILED:
    judge_start_failed(sim);
    break;
  case MST_DO_JUDGE:
    judge_lost(sim, action->worker);
    break;
  case MST_DO_RESUME:
    if (sim->books[action->worker].epoch > 0) {
      judge_restarted(sim, action->worker);
    } else {
      judge_joined(sim, action->worker);
    }
    break;
  case MST_DO_STOPPED:
    judge_stopped(sim);
    break;
  default:
    if (!sim->books[action->worker].left)
      sim_fail(sim, "LEAVE of one that hasn't");
    break;
  }
}

// --- Nothing is missing ---

static void settled_worker(struct sim *sim, uint32_t i, int room) {
  const struct sim_book *book = &sim->books[i];
  const int gone = book->bye_due && (book->ended || book->given_up);
  if (book->again && room) sim_fail(sim, "LAUNCH of worker %u is missing", i);
  if (book->again) sim_saw(SIM_SAW_restart_waited_for_window);
  if (book->lost_due && !book->lost_given) {
    sim_fail(sim, "LOST of worker %u is missing", i);
  }
  if (book->kill_due && book->pid && !book->ended && !book->kill_given) {
    sim_fail(sim, "KILL of worker %u is missing", i);
  }
  const int open = !book->closed && !book->left;
  if (book->bye_due && !book->unasked && open && !book->bye_given) {
    sim_fail(sim, "BYE to worker %u is missing", i);
  }
  if (book->lost || book->left || gone) return;
  if (book->restarted_due && !book->restarted_given) {
    sim_fail(sim, "RESTARTED of worker %u is missing", i);
  }
  if (book->joined_due && !book->joined_given && !book->joined_moot) {
    sim_fail(sim, "JOINED of worker %u is missing", i);
  }
}

void sim_monitor_settled(struct sim *sim) {
  const int room = sim_in_flight(sim) < sim->plan.window;
  if (sim_is_running(sim) && !sim->started_given) {
    sim_fail(sim, "enough are ready and STARTED is missing");
  }
  if ((sim_is_starting(sim) || sim_is_running(sim)) && room &&
      first_unlaunched(sim) < sim->plan.count) {
    sim_fail(sim, "the window has room and LAUNCH is missing");
  }
  if (sim->down_due && !sim->down_given) {
    sim_fail(sim, "all is down and the pool doesn't say it");
  }
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    if (sim->books[i].launched) settled_worker(sim, i, room);
  }
}
