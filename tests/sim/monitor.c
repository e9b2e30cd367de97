// The monitor: a second opinion on the pool.
//
// It keeps one book per worker from the events alone and never reads the pool's states, so a
// mistake would have to be made twice, in two ways of thinking: state.c says what a state does with
// an event, this file says which facts make an action due. After every event:
//   - each action was due, was not given before, and none that is due is missing once the
//     queue is empty (judge.c);
//   - the pool's notes of a worker (pid, end, answers) agree with what it was told, and it
//     wants to be woken no later than the next limit (limits.c);
//   - when it says that all is down, nothing in the world lives except what was given up
//     after its whole time limit.
#include "sim.h"

// --- Where the pool is ---

int sim_is_starting(const struct sim *sim) {
  return !sim->failing && !sim->stopping && !sim->runs;
}

int sim_is_running(const struct sim *sim) {
  return !sim->failing && !sim->stopping && sim->runs;
}

int sim_is_awaited(const struct sim_book *book) {
  return book->launched && !book->ended && !book->given_up;
}

// It was asked to end, and ended or was given up.
static int has_gone(const struct sim_book *book) {
  return book->bye_due && (book->ended || book->given_up);
}

int sim_is_live(const struct sim_book *book) {
  return book->launched && !book->lost && !book->left && !has_gone(book);
}

int sim_is_on_its_way(const struct sim_book *book) {
  return sim_is_live(book) && !book->ready;
}

int sim_serves(const struct sim_book *book) {
  return sim_is_live(book) && book->ready && !book->bye_due && !book->drained;
}

uint32_t sim_in_flight(const struct sim *sim) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < sim->plan.count; i++)
    n += sim_is_on_its_way(&sim->books[i]) && !sim->books[i].queued;
  return n;
}

uint32_t sim_in_queue(const struct sim *sim) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < sim->plan.count; i++)
    n += sim_is_on_its_way(&sim->books[i]) && sim->books[i].queued;
  return n;
}

int sim_all_ended(const struct sim *sim) {
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    if (sim_is_awaited(&sim->books[i])) return 0;
  }
  return 1;
}

// The last message of the worker that failed the start by ending.
int sim_words_awaited(const struct sim *sim) {
  return sim->failing && sim->fail == MST_FAIL_EXITED &&
         !sim->books[sim->fail_worker].closed;
}

void sim_monitor_time(struct sim *sim) {
  if (sim->down_due) return;
  if (!sim->failing && !sim->stopping) return;
  if (!sim_all_ended(sim)) return;
  if (sim_words_awaited(sim)) {
    if (sim->now_ns < sim->down_began_ns + MST_NEWS_NS) return;
    sim_saw(SIM_SAW_words_never_came);
  }
  sim->down_due = 1;
}

// --- Consequences of an event ---

void sim_kill_is_due(struct sim *sim, struct sim_book *book) {
  if (!sim_is_awaited(book) || book->kill_due) return;
  book->kill_due = 1;
  book->kill_ns = sim->now_ns;
}

void sim_start_fails(struct sim *sim, enum mst_fail fail, uint32_t worker) {
  sim->failing = 1;
  sim->down_began_ns = sim->now_ns;
  sim->fail = fail;
  sim->fail_worker = worker;
  for (uint32_t i = 0; i < sim->plan.count; i++)
    sim_kill_is_due(sim, &sim->books[i]);
}

void sim_start_loses(struct sim *sim, enum mst_fail fail, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (book->lost) return;
  if (book->ready) sim->ready--;
  book->lost = 1;
  book->lost_ns = SIM_NEVER;
  sim->gone++;
  if (sim->plan.count - sim->gone < sim->plan.need) {
    sim_start_fails(sim, fail, worker);
  } else {
    sim_kill_is_due(sim, book);
    sim_saw(SIM_SAW_lost_before_started);
  }
}

void sim_loses(struct sim *sim, struct sim_book *book) {
  if (book->lost) return;
  book->lost = 1;
  book->lost_ns = sim->now_ns;
  if (book->drained) sim_saw(SIM_SAW_drained_and_lost);
  sim_kill_is_due(sim, book);
}

// If a worker that had to end owes nothing, it has left: that isn't a loss.
void sim_lost_is_due(struct sim_book *book) {
  if (book->lost_due) return;
  if (book->drained && book->owed == 0) {
    book->lost = 0;
    book->left = 1;
    sim_saw(SIM_SAW_left_for_lost);
  } else {
    book->lost_due = 1;
  }
}

static void start_is_done(struct sim *sim) {
  sim->runs = 1;
  if (sim->ready < sim->plan.count) sim_saw(SIM_SAW_began_partly);
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    struct sim_book *book = &sim->books[i];
    if (book->lost) {
      book->lost_ns = sim->now_ns;
      if (book->closed && book->ended) sim_lost_is_due(book);
    } else if (sim_is_on_its_way(book) && !book->queued) {
      book->limit_ns = sim->now_ns;
    }
  }
}

static void bye_is_due(struct sim *sim, struct sim_book *book) {
  if (book->bye_due) return;
  book->bye_due = 1;
  book->bye_ns = sim->now_ns;
}

// ends_boot: a worker that isn't ready can't be asked to end, so it is killed.
static void ends_boot(struct sim *sim, struct sim_book *book) {
  if (book->bye_due) return;
  bye_is_due(sim, book);
  book->unasked = 1;
  sim_kill_is_due(sim, book);
}

// never_launched: it had to end before its launch.
static void never_launched(struct sim *sim, struct sim_book *book) {
  bye_is_due(sim, book);
  book->launched = book->closed = book->ended = book->unasked = 1;
  book->how = MST_EXIT_NONE;
  sim_saw(SIM_SAW_ended_unlaunched);
}

static void undrain(struct sim_book *book) {
  if (!sim_is_live(book) || !book->drained) return;
  book->drained = 0;
  sim_saw(SIM_SAW_undrained);
}

// --- Booking events ---

static void told_forked(struct sim *sim, struct sim_book *book,
                        int32_t number) {
  if (book->ended) {
    sim_saw(SIM_SAW_exited_before_forked);
    return;
  }
  if (book->ready) sim_saw(SIM_SAW_ready_before_forked);
  book->pid = 1;
  book->pid_number = number;
  if (book->queued && sim_is_on_its_way(book)) {
    book->limit_ns = sim->now_ns;
    sim_saw(SIM_SAW_forked_from_queue);
  }
  if (book->given_up) {
    sim_saw(SIM_SAW_forked_when_given_up);
  } else if (book->kill_due) {
    sim_saw(book->queued ? SIM_SAW_withdrawn_late : SIM_SAW_kill_awaited_pid);
    book->kill_ns = sim->now_ns;
  }
}

static void told_pending(struct sim_book *book) {
  if (!sim_is_awaited(book) || book->pid) return;
  if (book->queued || book->ready) return;
  book->queued = 1;
  sim_saw(SIM_SAW_pending);
  if (sim_is_on_its_way(book)) book->limit_ns = SIM_NEVER;
}

static void told_end_sign(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (book->left) return;
  if (sim->failing && book->ended) book->lost = 1;
  if (sim_is_starting(sim)) {
    sim_start_loses(sim, MST_FAIL_EXITED, worker);
  } else if (!sim_is_running(sim) || book->bye_due) {
    if (!book->ended || book->lost || !book->drained) return;
    book->left = 1;
    sim_saw(SIM_SAW_left_drained);
  } else {
    if (!book->lost) {
      if (sim_is_on_its_way(book)) {
        sim_saw(book->epoch > 0 ? SIM_SAW_restart_died_booting
                                : SIM_SAW_late_died_booting);
      }
      sim_loses(sim, book);
      sim_saw(book->closed ? SIM_SAW_lost_closed_first
                           : SIM_SAW_lost_exited_first);
    }
    if (book->closed && book->ended) sim_lost_is_due(book);
  }
}

static void told_launch_failed(struct sim *sim,
                               const struct mst_event *event) {
  const uint32_t worker = event->worker;
  struct sim_book *book = &sim->books[worker];
  if (book->given_up) return;
  book->ended = 1;
  book->how = MST_EXIT_NONE;
  book->closed = 1;
  book->launch_errno = event->number;
  if (book->queued && book->kill_due) sim_saw(SIM_SAW_withdrawn);
  if (sim_is_starting(sim)) {
    sim_start_loses(sim, MST_FAIL_LAUNCH, worker);
  } else if (!sim->failing) {
    if (book->epoch > 0) sim_saw(SIM_SAW_restart_launch_failed);
    told_end_sign(sim, worker);
  } else if (sim->fail == MST_FAIL_EXITED && sim->fail_worker == worker) {
    sim->fail = MST_FAIL_LAUNCH;
    sim_saw(SIM_SAW_launch_told_after_end);
  }
  if (sim->failing) {
    book->lost = 1;
  } else {
    book->number = event->number;
  }
}

static void told_ready(struct sim *sim, struct sim_book *book) {
  if (!sim_is_on_its_way(book) || book->bye_due) return;
  if (!sim_is_starting(sim) && !sim_is_running(sim)) return;
  book->ready = 1;
  book->limit_ns = SIM_NEVER;
  if (sim_is_running(sim)) {
    if (book->epoch > 0) {
      book->restarted_due = 1;
    } else {
      book->joined_due = 1;
    }
  }
  if (book->epoch > 0) return;
  sim->ready++;
  if (sim_is_starting(sim) && sim->ready >= sim->plan.need) {
    start_is_done(sim);
  }
}

static void told_setup_failed(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (sim->fail == MST_FAIL_EXITED && sim->fail_worker == worker) {
    sim->fail = MST_FAIL_SETUP;
    sim_saw(SIM_SAW_setup_told_after_end);
  }
  if (!sim_is_on_its_way(book) || book->bye_due) return;
  if (sim_is_starting(sim)) {
    sim_start_loses(sim, MST_FAIL_SETUP, worker);
  } else if (sim_is_running(sim)) {
    sim_loses(sim, book);
    if (book->epoch > 0) sim_saw(SIM_SAW_restart_setup_failed);
  }
}

static void told_sent(struct sim *sim, struct sim_book *book) {
  if (!sim_is_running(sim) || !sim_serves(book)) return;
  book->owed++;
  book->joined_moot = book->joined_due;
}

static void told_answered(struct sim *sim, struct sim_book *book,
                          uint32_t answers) {
  if (book->owed == 0 || book->closed || book->lost_due) return;
  book->owed--;
  book->done += answers;
  if (book->ended) sim_saw(SIM_SAW_answer_after_exit);
  if (book->bye_due && book->owed == 0) sim_saw(SIM_SAW_finished_in_stop);
  if (book->drained && sim_is_live(book) && book->owed == 0) {
    bye_is_due(sim, book);
    sim_saw(SIM_SAW_finished_in_drain);
  }
}

void sim_told_closed(struct sim *sim, uint32_t worker) {
  if (sim->books[worker].closed || !sim->books[worker].launched) return;
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

static void told_retire(struct sim *sim, struct sim_book *book) {
  if (!sim_is_running(sim)) return;
  if (book->again) sim_saw(SIM_SAW_retire_finds_waiting);
  book->again = 0;
  undrain(book);
  if (!book->launched) {
    never_launched(sim, book);
  } else if (sim_is_on_its_way(book)) {
    ends_boot(sim, book);
    sim_saw(SIM_SAW_retire_finds_restarting);
  } else if (sim_is_live(book)) {
    bye_is_due(sim, book);
    sim_saw(SIM_SAW_retired);
  }
}

static void told_drain(struct sim *sim, struct sim_book *book) {
  if (!sim_is_running(sim)) return;
  book->again = 0;
  if (!book->launched) {
    never_launched(sim, book);
    book->left = 1;
  }
  if (book->bye_due) return;
  if (sim_is_on_its_way(book)) {
    book->drained = 1;
    ends_boot(sim, book);
    sim_saw(SIM_SAW_drained_booting);
  } else if (sim_serves(book)) {
    book->drained = 1;
    sim_saw(book->owed > 0 ? SIM_SAW_drained_busy : SIM_SAW_drained_idle);
    if (book->owed == 0) bye_is_due(sim, book);
  }
}

static void told_restart(struct sim *sim, struct sim_book *book) {
  if (!sim_is_running(sim)) return;
  if (book->left) sim_saw(SIM_SAW_left_comes_back);
  if (book->lost_due || book->left) book->again = 1;
}

void sim_monitor_grown(struct sim *sim, uint32_t more) {
  for (uint32_t i = sim->plan.count; i < sim->plan.count + more; i++) {
    sim->books[i] = (struct sim_book){.launched = 1,
                                      .closed = 1,
                                      .ended = 1,
                                      .lost = 1,
                                      .lost_due = 1,
                                      .lost_given = 1,
                                      .limit_ns = SIM_NEVER};
  }
  sim->ready += more;
  sim_saw(SIM_SAW_grown);
}

static void stop_worker(struct sim *sim, struct sim_book *book) {
  if (book->lost && !book->lost_due) sim_saw(SIM_SAW_lost_said_by_stop);
  if (book->again) sim_saw(SIM_SAW_stop_finds_waiting);
  book->again = 0;
  undrain(book);
  if (book->bye_due) {
    sim_saw(SIM_SAW_stop_finds_retired); // its time limit is running
  } else if (book->lost) {
    sim_lost_is_due(book);
  } else if (sim_is_on_its_way(book)) {
    ends_boot(sim, book);
    sim_saw(book->queued && !book->pid ? SIM_SAW_stop_finds_pending
                                       : SIM_SAW_stop_finds_restarting);
  } else if (sim_is_live(book)) {
    bye_is_due(sim, book);
  }
}

static void told_stop(struct sim *sim) {
  if (sim->failing || sim->stopping) {
    sim_saw(SIM_SAW_stop_again);
    return;
  }
  if (sim_is_starting(sim)) {
    sim_start_fails(sim, MST_FAIL_STOPPED, 0);
    return;
  }
  sim->stopping = 1;
  sim->down_began_ns = sim->now_ns;
  for (uint32_t i = 0; i < sim->plan.count; i++)
    stop_worker(sim, &sim->books[i]);
}

static void told_silent(struct sim *sim, struct sim_book *book) {
  if (!sim_is_running(sim) || book->bye_due || !sim_is_live(book)) return;
  book->presumed = 1;
  sim_loses(sim, book);
}

void sim_monitor_event(struct sim *sim, const struct mst_event *event) {
  struct sim_book *book = &sim->books[event->worker];
  if (sim->down_due) return;
  switch (event->kind) {
  case MST_EV_FORKED:
    told_forked(sim, book, event->number);
    break;
  case MST_EV_LAUNCH_FAILED:
    told_launch_failed(sim, event);
    break;
  case MST_EV_READY:
    told_ready(sim, book);
    break;
  case MST_EV_SETUP_FAILED:
    told_setup_failed(sim, event->worker);
    break;
  case MST_EV_SENT:
    told_sent(sim, book);
    break;
  case MST_EV_ANSWERED:
    told_answered(sim, book, 1);
    break;
  case MST_EV_WITHDRAWN:
    told_answered(sim, book, 0);
    break;
  case MST_EV_CLOSED:
    sim_told_closed(sim, event->worker);
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
    sim_told_time(sim);
    break;
  case MST_EV_PENDING:
    told_pending(book);
    break;
  case MST_EV_DRAIN:
    told_drain(sim, book);
    break;
  }
  sim_monitor_time(sim);
}
