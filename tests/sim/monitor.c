// The monitor: a second opinion on the pool.
//
// It keeps one book per worker from the events alone and never looks at the
// pool's states, so a mistake would have to be made twice, in two ways of
// thinking: state.c says what a state does with an event, this file says which
// facts make an action due. After every event:
//   - what the pool gives was due, was not given before, and nothing that is
//     due is missing once the queue is empty (judge.c);
//   - what the pool notes of a worker (pid, end, answers) is what was told;
//   - the pool wants to be woken no later than the next limit passes;
//   - when it says that all is down, nothing in the world lives but what was
//     given up after the whole of its time.
#include "sim.h"

// --- Where the pool is ---

int sim_is_starting(const struct sim *sim) {
  return !sim->failing && !sim->stopping && sim->ready < sim->plan.count;
}

int sim_is_running(const struct sim *sim) {
  return !sim->failing && !sim->stopping && sim->ready == sim->plan.count;
}

int sim_is_awaited(const struct sim_book *book) {
  return book->launched && !book->ended && !book->given_up;
}

// On its way back: launched again and neither ready nor at its end.
static int is_restarting(const struct sim_book *book) {
  const int ended = book->bye_due && (book->ended || book->given_up);
  return book->epoch > 0 && !book->ready && !book->lost && !ended;
}

static int serves(const struct sim_book *book) {
  return book->ready && !book->lost && !book->bye_due;
}

uint32_t sim_in_flight(const struct sim *sim) {
  uint32_t n = 0;
  if (sim_is_starting(sim)) return sim->launched - sim->ready;
  for (uint32_t i = 0; i < sim->launched; i++)
    n += (uint32_t)is_restarting(&sim->books[i]);
  return n;
}

static int all_ended(const struct sim *sim) {
  for (uint32_t i = 0; i < sim->launched; i++) {
    if (sim_is_awaited(&sim->books[i])) return 0;
  }
  return 1;
}

// The last words of the worker that failed the start by ending.
static int words_awaited(const struct sim *sim) {
  return sim->failing && sim->fail == MST_FAIL_EXITED &&
         !sim->books[sim->fail_worker].closed;
}

void sim_monitor_time(struct sim *sim) {
  if (sim->down_due) return;
  if (!sim->failing && !sim->stopping) return;
  if (!all_ended(sim)) return;
  if (words_awaited(sim)) {
    if (sim->now_ns < sim->down_began_ns + MST_NEWS_NS) return;
    sim_saw(SIM_SAW_words_never_came);
  }
  sim->down_due = 1;
}

// --- Booking events ---

static void kill_is_due(struct sim *sim, struct sim_book *book) {
  if (!sim_is_awaited(book) || book->kill_due) return;
  book->kill_due = 1;
  book->kill_ns = sim->now_ns;
}

static void start_fails(struct sim *sim, enum mst_fail fail, uint32_t worker) {
  sim->failing = 1;
  sim->down_began_ns = sim->now_ns;
  sim->fail = fail;
  sim->fail_worker = worker;
  for (uint32_t i = 0; i < sim->launched; i++) {
    kill_is_due(sim, &sim->books[i]);
  }
}

static void told_forked(struct sim *sim, struct sim_book *book,
                        int32_t number) {
  if (book->ended) {
    sim_saw(SIM_SAW_exited_before_forked);
    return;
  }
  if (book->ready) sim_saw(SIM_SAW_ready_before_forked);
  book->pid = 1;
  book->pid_number = number;
  if (book->given_up) {
    sim_saw(SIM_SAW_forked_when_given_up);
  } else if (book->kill_due) {
    sim_saw(SIM_SAW_kill_awaited_pid);
    book->kill_ns = sim->now_ns;
  }
}

static void loses(struct sim *sim, struct sim_book *book) {
  if (book->lost) return;
  book->lost = 1;
  book->lost_ns = sim->now_ns;
  kill_is_due(sim, book);
}

static void told_end_sign(struct sim *sim, uint32_t worker);

static void told_launch_failed(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (book->given_up) return;
  book->ended = 1;
  book->how = MST_EXIT_NONE;
  book->closed = 1;
  if (book->epoch > 0) {
    book->number = SIM_LAUNCH_ERRNO;
    sim_saw(SIM_SAW_restart_launch_failed);
    told_end_sign(sim, worker);
  } else if (sim_is_starting(sim)) {
    start_fails(sim, MST_FAIL_LAUNCH, worker);
  } else if (sim->fail == MST_FAIL_EXITED && sim->fail_worker == worker) {
    sim->fail = MST_FAIL_LAUNCH;
    sim_saw(SIM_SAW_launch_told_after_end);
  }
}

static void told_ready(struct sim *sim, struct sim_book *book) {
  if (sim_is_starting(sim)) {
    book->ready = 1;
    sim->ready++;
  } else if (sim_is_running(sim) && is_restarting(book) && !book->bye_due) {
    book->ready = 1;
    book->restarted_due = 1;
  }
}

static void told_setup_failed(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (book->epoch > 0) {
    if (!sim_is_running(sim) || !is_restarting(book) || book->bye_due) return;
    loses(sim, book);
    sim_saw(SIM_SAW_restart_setup_failed);
  } else if (sim_is_starting(sim)) {
    start_fails(sim, MST_FAIL_SETUP, worker);
  } else if (sim->fail == MST_FAIL_EXITED && sim->fail_worker == worker) {
    sim->fail = MST_FAIL_SETUP;
    sim_saw(SIM_SAW_setup_told_after_end);
  }
}

static void told_answered(struct sim_book *book) {
  if (book->owed == 0 || book->closed || book->lost_due) return;
  book->owed--;
  book->done++;
  if (book->ended) sim_saw(SIM_SAW_answer_after_exit);
  if (book->bye_due && book->owed == 0) sim_saw(SIM_SAW_finished_in_stop);
}

static void told_end_sign(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (sim_is_starting(sim)) {
    start_fails(sim, MST_FAIL_EXITED, worker);
  } else if (sim_is_running(sim) && !book->bye_due) {
    if (!book->lost) {
      if (is_restarting(book)) sim_saw(SIM_SAW_restart_died_booting);
      loses(sim, book);
      sim_saw(book->closed ? SIM_SAW_lost_closed_first
                           : SIM_SAW_lost_exited_first);
    }
    if (book->closed && book->ended) book->lost_due = 1;
  }
}

static void told_closed(struct sim *sim, uint32_t worker) {
  if (sim->books[worker].closed) return;
  sim->books[worker].closed = 1;
  told_end_sign(sim, worker);
}

static void told_exited(struct sim *sim, const struct mst_event *event) {
  struct sim_book *book = &sim->books[event->worker];
  if (book->ended) return;
  book->ended = 1;
  book->how = event->how;
  book->number = event->number;
  if (book->bye_due && !book->kill_due) {
    sim_saw(SIM_SAW_ended_by_itself_in_stop);
  }
  told_end_sign(sim, event->worker);
}

static void bye_is_due(struct sim *sim, struct sim_book *book) {
  book->bye_due = 1;
  book->bye_ns = sim->now_ns;
}

// ends_restart: one that isn't ready can't be asked to end, so it is killed.
static void ends_restart(struct sim *sim, struct sim_book *book) {
  bye_is_due(sim, book);
  book->unasked = 1;
  kill_is_due(sim, book);
}

static void told_retire(struct sim *sim, struct sim_book *book) {
  if (!sim_is_running(sim)) return;
  if (book->again) sim_saw(SIM_SAW_retire_finds_waiting);
  book->again = 0;
  if (book->lost || book->bye_due) return;
  if (is_restarting(book)) {
    ends_restart(sim, book);
    sim_saw(SIM_SAW_retire_finds_restarting);
    return;
  }
  bye_is_due(sim, book);
  sim_saw(SIM_SAW_retired);
}

static void told_silent(struct sim *sim, struct sim_book *book) {
  if (!sim_is_running(sim) || book->bye_due) return;
  if (serves(book) || is_restarting(book)) loses(sim, book);
}

static void told_restart(struct sim *sim, struct sim_book *book) {
  if (sim_is_running(sim) && book->lost_due) book->again = 1;
}

void sim_monitor_grown(struct sim *sim, uint32_t more) {
  for (uint32_t i = sim->plan.count; i < sim->plan.count + more; i++) {
    sim->books[i] = (struct sim_book){.launched = 1,
                                      .closed = 1,
                                      .ended = 1,
                                      .lost = 1,
                                      .lost_due = 1,
                                      .lost_given = 1};
  }
  sim->launched += more;
  sim->ready += more;
  sim_saw(SIM_SAW_grown);
}

static void told_stop(struct sim *sim) {
  if (sim->failing || sim->stopping) {
    sim_saw(SIM_SAW_stop_again);
    return;
  }
  if (sim_is_starting(sim)) {
    start_fails(sim, MST_FAIL_STOPPED, 0);
    return;
  }
  sim->stopping = 1;
  sim->down_began_ns = sim->now_ns;
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    struct sim_book *book = &sim->books[i];
    if (book->lost && !book->lost_due) sim_saw(SIM_SAW_lost_said_by_stop);
    if (book->again) sim_saw(SIM_SAW_stop_finds_waiting);
    book->again = 0;
    book->lost_due = book->lost;
    if (book->bye_due) {
      sim_saw(SIM_SAW_stop_finds_retired); // its time runs already
    } else if (is_restarting(book)) {
      ends_restart(sim, book);
      sim_saw(SIM_SAW_stop_finds_restarting);
    } else if (!book->lost) {
      bye_is_due(sim, book);
    }
  }
}

static int64_t patience_ns(const struct sim_book *book) {
  return book->owed > 0 ? MST_STOP_BUSY_NS : MST_STOP_GRACE_NS;
}

static int has_restart_limit(const struct sim *sim,
                             const struct sim_book *book) {
  return sim_is_running(sim) && is_restarting(book) && !book->bye_due;
}

static void time_of_worker(struct sim *sim, struct sim_book *book) {
  if (has_restart_limit(sim, book) &&
      sim->now_ns >= book->launch_ns + MST_RESTART_NS) {
    loses(sim, book);
    sim_saw(SIM_SAW_restart_too_slow);
  }
  if (sim_is_running(sim) && book->lost && !book->lost_due &&
      sim->now_ns >= book->lost_ns + MST_NEWS_NS) {
    book->lost_due = 1;
    sim_saw(SIM_SAW_lost_half_told);
  }
  if (book->bye_due && sim_is_awaited(book) && !book->kill_due &&
      sim->now_ns >= book->bye_ns + patience_ns(book)) {
    kill_is_due(sim, book);
    sim_saw(book->owed > 0 ? SIM_SAW_busy_killed : SIM_SAW_hung_killed);
  }
  if (sim_is_awaited(book) && book->kill_due &&
      sim->now_ns >= book->kill_ns + MST_REAP_NS) {
    book->given_up = 1;
    if (sim_is_running(sim) && book->bye_due) {
      sim_saw(SIM_SAW_retired_given_up_in_run);
    }
    sim_saw(sim_is_running(sim) ? SIM_SAW_given_up_in_run
                                : SIM_SAW_given_up_going_down);
  }
}

static void told_time(struct sim *sim) {
  if (sim_is_starting(sim) && sim->now_ns >= sim->deadline_ns) {
    uint32_t worker = 0;
    while (sim->books[worker].ready) {
      worker++;
    }
    start_fails(sim, MST_FAIL_DEADLINE, worker);
  }
  for (uint32_t i = 0; i < sim->launched; i++) {
    time_of_worker(sim, &sim->books[i]);
  }
}

void sim_monitor_event(struct sim *sim, const struct mst_event *event) {
  struct sim_book *book = &sim->books[event->worker];
  if (sim->down_due) return;
  switch (event->kind) {
  case MST_EV_FORKED:
    told_forked(sim, book, event->number);
    break;
  case MST_EV_LAUNCH_FAILED:
    told_launch_failed(sim, event->worker);
    break;
  case MST_EV_READY:
    told_ready(sim, book);
    break;
  case MST_EV_SETUP_FAILED:
    told_setup_failed(sim, event->worker);
    break;
  case MST_EV_SENT:
    if (sim_is_running(sim) && serves(book)) book->owed++;
    break;
  case MST_EV_ANSWERED:
    told_answered(book);
    break;
  case MST_EV_CLOSED:
    told_closed(sim, event->worker);
    break;
  case MST_EV_EXITED:
    told_exited(sim, event);
    break;
  case MST_EV_RETIRE:
    told_retire(sim, book);
    break;
  case MST_EV_RESTART:
    told_restart(sim, book);
    break;
  case MST_EV_SILENT:
    told_silent(sim, book);
    break;
  case MST_EV_STOP:
    told_stop(sim);
    break;
  case MST_EV_TICK:
    told_time(sim);
    break;
  default:
    break;
  }
  sim_monitor_time(sim);
}

// --- What the pool notes, and when it wants to be woken ---

static int64_t earlier(int64_t a_ns, int64_t b_ns) {
  return a_ns < b_ns ? a_ns : b_ns;
}

static int64_t next_limit_ns(const struct sim *sim) {
  int64_t next_ns = sim_is_starting(sim) ? sim->deadline_ns : SIM_NEVER;
  if (words_awaited(sim) && all_ended(sim)) {
    next_ns = sim->down_began_ns + MST_NEWS_NS;
  }
  for (uint32_t i = 0; i < sim->launched; i++) {
    const struct sim_book *book = &sim->books[i];
    if (sim_is_running(sim) && book->lost && !book->lost_due) {
      next_ns = earlier(next_ns, book->lost_ns + MST_NEWS_NS);
    }
    if (has_restart_limit(sim, book)) {
      next_ns = earlier(next_ns, book->launch_ns + MST_RESTART_NS);
    }
    if (!sim_is_awaited(book)) continue;
    if (book->kill_due) {
      next_ns = earlier(next_ns, book->kill_ns + MST_REAP_NS);
    } else if (book->bye_due) {
      next_ns = earlier(next_ns, book->bye_ns + patience_ns(book));
    }
  }
  return next_ns;
}

static void compare_worker(struct sim *sim, uint32_t index) {
  const struct mst_worker *worker = &sim->core.pool.workers[index];
  const struct sim_book *book = &sim->books[index];
  if (worker->epoch != book->epoch) sim_fail(sim, "epoch of worker %u", index);
  if (worker->again != book->again) {
    sim_fail(sim, "worker %u is to come back or not", index);
  }
  if (worker->pid != (uint32_t)book->pid_number) {
    sim_fail(sim, "pid of worker %u", index);
  }
  if (worker->owed != book->owed) {
    sim_fail(sim, "answers owed by worker %u", index);
  }
  if (worker->done != book->done) {
    sim_fail(sim, "answers given by worker %u", index);
  }
  if (mst_worker_channel_open(worker) != (book->launched && !book->closed)) {
    sim_fail(sim, "channel of worker %u", index);
  }
  if (worker->exit_known != book->ended) {
    sim_fail(sim, "end of worker %u is known or not", index);
  }
  if (book->ended &&
      (worker->exit_how != book->how || worker->exit_number != book->number)) {
    sim_fail(sim, "how worker %u ended", index);
  }
}

void sim_monitor_facts(struct sim *sim, int64_t wake_ns) {
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    compare_worker(sim, i);
  }
  if (sim->down_due) {
    if (wake_ns != SIM_NEVER) sim_fail(sim, "a pool that is down has a limit");
  } else if (wake_ns > next_limit_ns(sim)) {
    sim_fail(sim, "the pool would sleep past a limit");
  }
}

int64_t sim_monitor_bound_ns(const struct sim *sim) {
  if (!sim->failing && !sim->stopping) return SIM_NEVER;
  // Killed at the end of the grace, then FORKED at the end of the time to reap.
  return sim->down_began_ns + MST_STOP_GRACE_NS + 2 * MST_REAP_NS +
         MST_NEWS_NS + MST_NS_PER_S + sim->asleep_ns;
}
