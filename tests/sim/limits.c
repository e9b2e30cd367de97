// The monitor's limits: the effects of time, when the pool must be woken, and whether its notes of
// each worker agree with what it was told. See monitor.c.
#include "sim.h"

// --- The limits of one worker ---

static int64_t patience_ns(const struct sim_book *book) {
  return book->owed > 0 ? MST_STOP_BUSY_NS : MST_STOP_GRACE_NS;
}

static int64_t after(int64_t at_ns, int64_t more_ns) {
  return at_ns == SIM_NEVER || more_ns >= SIM_NEVER - at_ns ? SIM_NEVER
                                                            : at_ns + more_ns;
}

// During the start only workers from a queue have their own limit.
static int64_t boot_due_ns(const struct sim *sim, const struct sim_book *book) {
  const int runs =
      sim_is_running(sim) || (sim_is_starting(sim) && book->queued);
  if (!runs || !sim_is_on_its_way(book) || book->bye_due) return SIM_NEVER;
  return after(book->limit_ns, MST_RESTART_NS);
}

static int64_t news_due_ns(const struct sim *sim, const struct sim_book *book) {
  if (!sim_is_running(sim) || !book->lost || book->lost_due) return SIM_NEVER;
  if (sim_is_awaited(book) && !book->presumed) return SIM_NEVER;
  return after(book->lost_ns, MST_NEWS_NS);
}

static int64_t kill_due_ns(const struct sim *sim, const struct sim_book *book) {
  if (sim->failing || !book->bye_due || book->kill_due) return SIM_NEVER;
  return sim_is_awaited(book) ? book->bye_ns + patience_ns(book) : SIM_NEVER;
}

static int64_t reap_due_ns(const struct sim_book *book) {
  if (!sim_is_awaited(book) || !book->kill_due) return SIM_NEVER;
  return book->kill_ns + MST_REAP_NS;
}

// --- Time passes ---

static void boot_too_slow(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (book->epoch > 0) sim_saw(SIM_SAW_restart_too_slow);
  if (book->epoch == 0) sim_saw(SIM_SAW_late_too_slow);
  book->presumed = 1;
  if (sim_is_starting(sim)) {
    sim_start_loses(sim, MST_FAIL_DEADLINE, worker);
  } else {
    sim_loses(sim, book);
  }
}

static void give_up(struct sim *sim, struct sim_book *book) {
  const int leaves = sim_is_live(book) && book->drained;
  book->given_up = 1;
  if (leaves) book->left = 1;
  if (sim->failing) book->lost = 1;
  if (sim_is_running(sim) && book->bye_due) {
    sim_saw(SIM_SAW_retired_given_up_in_run);
  }
  sim_saw(sim_is_running(sim) ? SIM_SAW_given_up_in_run
                              : SIM_SAW_given_up_going_down);
}

static void time_of_worker(struct sim *sim, uint32_t worker) {
  struct sim_book *book = &sim->books[worker];
  if (boot_due_ns(sim, book) <= sim->now_ns) boot_too_slow(sim, worker);
  if (reap_due_ns(book) <= sim->now_ns) give_up(sim, book);
  if (news_due_ns(sim, book) <= sim->now_ns) {
    sim_lost_is_due(book);
    sim_saw(SIM_SAW_lost_half_told);
  }
  if (kill_due_ns(sim, book) <= sim->now_ns) {
    sim_kill_is_due(sim, book);
    sim_saw(book->owed > 0 ? SIM_SAW_busy_killed : SIM_SAW_hung_killed);
  }
}

static int64_t start_due_ns(const struct sim *sim) {
  if (!sim_is_starting(sim)) return SIM_NEVER;
  return sim->ready + sim_in_queue(sim) < sim->plan.need ? sim->deadline_ns
                                                         : SIM_NEVER;
}

void sim_told_time(struct sim *sim) {
  if (sim->now_ns >= start_due_ns(sim)) {
    uint32_t worker = 0;
    while (
        worker + 1 < sim->plan.count && sim->books[worker].launched &&
        (!sim_is_on_its_way(&sim->books[worker]) || sim->books[worker].queued))
      worker++;
    sim_start_fails(sim, MST_FAIL_DEADLINE, worker);
  }
  for (uint32_t i = 0; i < sim->plan.count; i++)
    time_of_worker(sim, i);
}

// --- The pool's notes, and when it wants to be woken ---

static int64_t earlier(int64_t a_ns, int64_t b_ns) {
  return a_ns < b_ns ? a_ns : b_ns;
}

static int64_t next_limit_ns(const struct sim *sim) {
  int64_t next_ns = start_due_ns(sim);
  if (sim_words_awaited(sim) && sim_all_ended(sim)) {
    next_ns = sim->down_began_ns + MST_NEWS_NS;
  }
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    const struct sim_book *book = &sim->books[i];
    next_ns = earlier(next_ns, boot_due_ns(sim, book));
    next_ns = earlier(next_ns, news_due_ns(sim, book));
    next_ns = earlier(next_ns, kill_due_ns(sim, book));
    next_ns = earlier(next_ns, reap_due_ns(book));
  }
  return next_ns;
}

static int takes_work(const struct mst_worker *worker) {
  return (worker->state == MST_WORKER_IDLE ||
          worker->state == MST_WORKER_BUSY) &&
         worker->stop_ns == INT64_MAX && worker->channel;
}

static void compare_channel(struct sim *sim, uint32_t index) {
  const struct mst_worker *worker = sim->core.pool.workers[index];
  const struct sim_book *book = &sim->books[index];
  // Nobody reads from a worker that was given as lost, or has left.
  const int open =
      book->launched && !book->closed && !book->lost_due && !book->left;
  if (worker->channel != open) {
    sim_fail(sim, "channel of worker %u", index);
  }
  const int pending = book->queued && !book->pid && sim_is_on_its_way(book);
  if ((worker->state == MST_WORKER_PENDING) != pending) {
    sim_fail(sim, "worker %u is pending or not", index);
  }
  if ((worker->state == MST_WORKER_LEFT) != book->left) {
    sim_fail(sim, "worker %u has left or not", index);
  }
  const int takes = sim_serves(book) && open;
  if (!sim->failing && takes_work(worker) != takes) {
    sim_fail(sim, "worker %u takes work or not", index);
  }
}

static void compare_worker(struct sim *sim, uint32_t index) {
  const struct mst_worker *worker = sim->core.pool.workers[index];
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
    if (!sim->down_due) compare_channel(sim, i);
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
