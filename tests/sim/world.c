// The virtual world: worker processes, their fork server, the user.
//
// A worker has two channels to the session, and each delivers in order: its own data channel
// (READY, FAILED, answers, the end) and the fork server's (FORKED, EXITED), which all workers
// share. Between the two any order is possible. A plan may also break the order within a channel
// and repeat news, which no real channel does: the pool must cope with that.
//
// News is true: EXITED comes only after the process ended, FORKED only after it started. So when
// the pool says that it is down, this file knows whether any process is still alive.
//
// Each incarnation of a worker is a process of its own, known by its epoch. If one is left when the
// next is launched, it is a ghost: its channels are closed, so it ends by itself, and only the fork
// server reports it.
#include <signal.h>

#include "sim.h"

// --- News ---

static int server_stuck(const struct sim *sim) {
  if (sim->plan.server_stuck_ns == SIM_NEVER) return 0;
  return sim->now_ns >= sim->start_ns + sim->plan.server_stuck_ns;
}

static int64_t news_delay_ns(struct sim *sim) {
  struct sim_rng *rng = &sim->rng;
  if (!sim_chance(rng, sim->plan.slow_news)) {
    return sim_between(rng, 10 * MST_NS_PER_US, MST_NS_PER_MS);
  }
  // Slow news straddles the pool's limits.
  const int64_t most_ns = !sim_chance(rng, 100)  ? MST_NS_PER_S
                          : sim_chance(rng, 100) ? 2 * MST_REAP_NS
                                                 : 12 * MST_NS_PER_S;
  return sim_between(rng, 0, most_ns);
}

static void tell(struct sim *sim, int64_t *last_ns, struct sim_entry news) {
  struct sim_rng *rng = &sim->rng;
  // An answer that comes twice, or before an earlier one, means a broken channel, which the session
  // doesn't pass on to the pool.
  const int answer = news.event.kind == MST_EV_ANSWERED;
  news.what = SIM_NEWS;
  news.at_ns = sim->now_ns + news_delay_ns(sim);
  if (!answer && sim_chance(rng, sim->plan.reorder)) {
    news.at_ns += sim_between(rng, 0, 2 * MST_NS_PER_S); // others overtake it
  } else {
    if (news.at_ns < *last_ns) news.at_ns = *last_ns;
    *last_ns = news.at_ns;
  }
  sim_agenda_put(&sim->agenda, news);
  if (!answer && sim_chance(rng, sim->plan.repeat)) {
    if (news.event.kind == MST_EV_EXITED)
      news.event.number++; // the first counts
    news.at_ns += sim_between(rng, 0, MST_NS_PER_S);
    news.what = SIM_NOISE;
    sim_agenda_put(&sim->agenda, news);
  }
}

static void tell_data(struct sim *sim, uint32_t worker,
                      enum mst_event_kind kind, uint64_t call) {
  struct sim_process *process = &sim->processes[worker];
  tell(sim, &process->data_ns,
       (struct sim_entry){.event = {.kind = kind, .worker = worker},
                          .epoch = process->epoch,
                          .call = call});
}

static void tell_server(struct sim *sim, uint32_t epoch,
                        struct mst_event event) {
  if (server_stuck(sim)) return;
  tell(sim, &sim->server_ns,
       (struct sim_entry){.event = event, .epoch = epoch});
}

static void put(struct sim *sim, int64_t delay_ns, enum sim_what what,
                struct mst_event event) {
  sim_agenda_put(
      &sim->agenda,
      (struct sim_entry){.at_ns = sim->now_ns + delay_ns,
                         .what = what,
                         .event = event,
                         .epoch = sim->processes[event.worker].epoch});
}

static void later(struct sim *sim, int64_t delay_ns, enum sim_what what,
                  uint32_t worker) {
  put(sim, delay_ns, what, (struct mst_event){.worker = worker});
}

static void die_later(struct sim *sim, int64_t delay_ns, uint32_t worker,
                      uint32_t how, int32_t number) {
  put(sim, delay_ns, SIM_DIE,
      (struct mst_event){.worker = worker, .how = how, .number = number});
}

static int32_t pid_of(uint32_t worker, uint32_t epoch) {
  return (int32_t)(1000 + worker + SIM_WORKERS_MAX * epoch);
}

// --- Boot ---

static int64_t boot_ns(struct sim *sim) {
  const int slow = sim_chance(&sim->rng, sim->plan.slow_boot);
  return sim_between(&sim->rng, MST_NS_PER_MS,
                     slow ? 20 * MST_NS_PER_S : 200 * MST_NS_PER_MS);
}

// The session's end of the channel sees the server close the other one, possibly before the
// server's message arrives.
static void fork_failed(struct sim *sim, uint32_t worker) {
  if (sim_chance(&sim->rng, 700)) tell_data(sim, worker, MST_EV_CLOSED, 0);
  tell_server(sim, sim->processes[worker].epoch,
              (struct mst_event){.kind = MST_EV_LAUNCH_FAILED,
                                 .worker = worker,
                                 .number = SIM_LAUNCH_ERRNO});
}

static const struct sim_boot *boot_of(const struct sim *sim, uint32_t worker) {
  const int first = sim->processes[worker].epoch == 0;
  return first ? &sim->plan.first : &sim->plan.later;
}

static void boot(struct sim *sim, uint32_t worker) {
  struct sim_rng *rng = &sim->rng;
  const struct sim_boot *chances = boot_of(sim, worker);
  const int64_t takes_ns = boot_ns(sim);
  if (sim_chance(rng, chances->die_booting)) {
    die_later(sim, takes_ns, worker, MST_EXIT_CODE, 1);
  } else if (sim_chance(rng, chances->setup_fail)) {
    later(sim, takes_ns, SIM_FAIL_SETUP, worker);
  } else if (!sim_chance(rng, chances->hang_booting)) {
    later(sim, takes_ns, SIM_READY, worker);
  }
}

// end_ghost: a process of an earlier incarnation sees its channels closed.
static void end_ghost(struct sim *sim, uint32_t worker, uint32_t epoch) {
  sim_saw(SIM_SAW_ghost);
  tell_server(sim, epoch,
              (struct mst_event){.kind = MST_EV_EXITED,
                                 .worker = worker,
                                 .how = MST_EXIT_SIGNAL,
                                 .number = SIGKILL});
}

// A launch may wait in a queue, for any time.
static int waits_in_queue(struct sim *sim, uint32_t worker) {
  struct sim_process *process = &sim->processes[worker];
  struct sim_rng *rng = &sim->rng;
  if (process->in_queue || !sim_chance(rng, sim->plan.queue)) return 0;
  process->in_queue = 1;
  tell_server(sim, process->epoch,
              (struct mst_event){.kind = MST_EV_PENDING, .worker = worker});
  const int64_t most_ns =
      sim_chance(rng, 300) ? 200 * MST_NS_PER_S : 2 * MST_NS_PER_S;
  later(sim, sim_between(rng, 0, most_ns), SIM_DEQUEUE, worker);
  return 1;
}

// Launches that must end are taken out of their queue, unless that comes too late.
void sim_world_withdraw(struct sim *sim) {
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    struct sim_process *process = &sim->processes[i];
    const struct mst_worker *worker = sim->core.pool.workers[i];
    if (!process->in_queue || process->forked || process->withdrawn) continue;
    if (worker->state != MST_WORKER_PENDING || worker->kill_ns == SIM_NEVER)
      continue;
    process->withdrawn = 1;
    if (sim_chance(&sim->rng, 300)) continue;
    process->in_queue = 0;
    fork_failed(sim, i);
  }
}

static void fork_worker(struct sim *sim, uint32_t worker, uint32_t epoch) {
  struct sim_rng *rng = &sim->rng;
  const struct sim_plan *plan = &sim->plan;
  const struct sim_boot *chances = boot_of(sim, worker);
  struct sim_process *process = &sim->processes[worker];
  if (server_stuck(sim) || sim_chance(rng, chances->launch_unheard)) return;
  if (epoch != process->epoch) { // too late: nobody waits for it any more
    tell_server(sim, epoch,
                (struct mst_event){.kind = MST_EV_FORKED,
                                   .worker = worker,
                                   .number = pid_of(worker, epoch)});
    end_ghost(sim, worker, epoch);
    return;
  }
  if (waits_in_queue(sim, worker)) return;
  if (!sim_host_launches(sim, worker) ||
      sim_chance(rng, chances->launch_fail)) {
    process->in_queue = 0;
    fork_failed(sim, worker);
    return;
  }
  process->forked = 1;
  process->alive = 1;
  process->channel = 1;
  process->held = sim_chance(rng, plan->held);
  process->unreaped = sim_chance(rng, plan->unreaped);
  process->unkillable = sim_chance(rng, plan->unkillable);
  process->bye_ignored = sim_chance(rng, plan->bye_ignored);
  tell_server(sim, epoch,
              (struct mst_event){.kind = MST_EV_FORKED,
                                 .worker = worker,
                                 .number = pid_of(worker, epoch)});
  boot(sim, worker);
}

static void be_ready(struct sim *sim, uint32_t worker) {
  struct sim_rng *rng = &sim->rng;
  tell_data(sim, worker, MST_EV_READY, 0);
  const int64_t most_ns =
      sim_chance(rng, 100) ? MST_NS_PER_S : 40 * MST_NS_PER_S;
  if (sim_chance(rng, sim->plan.die_idle)) {
    die_later(sim, sim_between(rng, 0, most_ns), worker, MST_EXIT_SIGNAL,
              SIGSEGV);
  }
  if (sim_chance(rng, sim->plan.wedge)) {
    later(sim, sim_between(rng, 0, most_ns), SIM_WEDGE, worker);
  }
  if (sim_chance(rng, sim->plan.hang)) {
    later(sim, sim_between(rng, 0, most_ns), SIM_HANG, worker);
  }
}

// --- End ---

static void close_channel(struct sim *sim, uint32_t worker) {
  if (!sim->processes[worker].channel) return;
  sim->processes[worker].channel = 0;
  tell_data(sim, worker, MST_EV_CLOSED, 0);
}

static void die(struct sim *sim, const struct mst_event *end) {
  struct sim_process *process = &sim->processes[end->worker];
  process->alive = 0;
  if (!process->held) close_channel(sim, end->worker);
  if (process->unreaped) return;
  tell_server(sim, process->epoch,
              (struct mst_event){.kind = MST_EV_EXITED,
                                 .worker = end->worker,
                                 .how = end->how,
                                 .number = end->number});
}

static void hang(struct sim *sim, uint32_t worker) {
  struct sim_process *process = &sim->processes[worker];
  if (process->hung) return;
  process->hung = 1;
  process->wake_ns = SIM_NEVER;
  if (sim_chance(&sim->rng, 600)) return; // until it is killed
  const int64_t takes_ns = sim_between(&sim->rng, 0, 15 * MST_NS_PER_S);
  process->wake_ns = sim->now_ns + takes_ns;
  later(sim, takes_ns, SIM_WAKE, worker);
}

// by_itself tells whether a process must run for this to happen.
static int by_itself(const struct sim_entry *entry) {
  switch (entry->what) {
  case SIM_READY:
  case SIM_FAIL_SETUP:
  case SIM_CALL_DONE:
  case SIM_WEDGE:
  case SIM_HEAR:
    return 1;
  case SIM_DIE:
    return entry->event.how == MST_EXIT_CODE;
  default:
    return 0;
  }
}

// put_off delays what a hung process was about to do until it wakes.
static int put_off(struct sim *sim, const struct sim_entry *entry) {
  const struct sim_process *process = &sim->processes[entry->event.worker];
  if (!process->hung || !by_itself(entry)) return 0;
  struct sim_entry again = *entry;
  again.at_ns = process->wake_ns;
  if (again.at_ns != SIM_NEVER) sim_agenda_put(&sim->agenda, again);
  return 1;
}

// BYE is read after the calls sent before it.
static void say_bye(struct sim *sim, uint32_t worker) {
  const struct sim_process *process = &sim->processes[worker];
  struct sim_rng *rng = &sim->rng;
  if (!process->bye || process->bye_ignored || process->computing) return;
  const int late = sim_chance(rng, sim->plan.bye_late);
  die_later(sim,
            sim_between(rng, 0, late ? 8 * MST_NS_PER_S : 5 * MST_NS_PER_MS),
            worker, MST_EXIT_CODE, 0);
}

void sim_world_kill(struct sim *sim, uint32_t worker) {
  struct sim_rng *rng = &sim->rng;
  if (server_stuck(sim)) return; // it would send the signal
  if (sim->processes[worker].unkillable) {
    // Stuck in the kernel: ends late or never.
    if (sim_chance(rng, 500)) return;
    die_later(sim, sim_between(rng, 0, 20 * MST_NS_PER_S), worker,
              MST_EXIT_SIGNAL, SIGKILL);
    return;
  }
  die_later(sim, sim_between(rng, 0, 2 * MST_NS_PER_MS), worker,
            MST_EXIT_SIGNAL, SIGKILL);
}

// --- Calls ---

static void compute(struct sim *sim, uint32_t worker) {
  struct sim_process *process = &sim->processes[worker];
  struct sim_rng *rng = &sim->rng;
  const int64_t most_ns =
      sim_chance(rng, 300) ? 3 * MST_NS_PER_S : 50 * MST_NS_PER_MS;
  const int64_t takes_ns = sim_between(rng, MST_NS_PER_US, most_ns);
  const uint64_t call = process->in[process->in_first];
  process->computing = 1;
  if (call != 0 && !sim->books[worker].lost_due) sim_ledger_began(sim, call);
  const uint32_t deadly =
      call == 0 ? sim->plan.die_replaying : sim->plan.die_busy;
  if (sim_chance(rng, deadly)) {
    die_later(sim, takes_ns, worker, MST_EXIT_SIGNAL, SIGKILL);
  } else {
    later(sim, takes_ns, SIM_CALL_DONE, worker);
  }
}

static void call_done(struct sim *sim, uint32_t worker) {
  struct sim_process *process = &sim->processes[worker];
  process->computing = 0;
  const uint64_t call = process->in[process->in_first++];
  if (process->channel) tell_data(sim, worker, MST_EV_ANSWERED, call);
  if (sim_chance(&sim->rng, sim->plan.die_answering)) {
    die_later(sim, 0, worker, MST_EXIT_CODE, 7);
  }
  if (process->in_first < process->in_count) {
    compute(sim, worker);
  } else {
    say_bye(sim, worker);
  }
}

void sim_world_receive(struct sim *sim, uint32_t worker, uint64_t call) {
  struct sim_process *process = &sim->processes[worker];
  if (!process->alive || !process->channel) return; // nobody receives it
  process->in[process->in_count++] = call;
  if (!process->computing) compute(sim, worker);
}

// A thread of its own serves the control channel: also while the worker computes, and when its data
// channel is closed.
void sim_world_ping(struct sim *sim, uint32_t worker) {
  const struct sim_process *process = &sim->processes[worker];
  if (!process->alive) return;
  if (!process->hung) {
    later(sim, news_delay_ns(sim), SIM_PONG, worker);
  } else if (process->wake_ns != SIM_NEVER) {
    const int64_t wait_ns = process->wake_ns - sim->now_ns;
    later(sim, wait_ns + news_delay_ns(sim), SIM_PONG, worker);
  }
}

// The worker's watch ends it if a call goes on for a whole grace after its interrupt.
void sim_world_interrupt(struct sim *sim, uint32_t worker, uint64_t call) {
  const struct sim_process *process = &sim->processes[worker];
  if (!process->alive || sim_chance(&sim->rng, sim->plan.deaf)) return;
  sim_saw(SIM_SAW_interrupted);
  sim_agenda_put(&sim->agenda,
                 (struct sim_entry){.at_ns = sim->now_ns + MST_CANCEL_GRACE_MS *
                                                               MST_NS_PER_MS,
                                    .what = SIM_INTERRUPTED,
                                    .event = {.worker = worker},
                                    .epoch = process->epoch,
                                    .call = call});
}

static void interrupted(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  const struct sim_process *process = &sim->processes[worker];
  if (!process->computing || process->in[process->in_first] != entry->call) {
    return;
  }
  sim_saw(SIM_SAW_ended_by_watch);
  die_later(sim, 0, worker, MST_EXIT_SIGNAL, SIGKILL);
}

void sim_world_ask(struct sim *sim, uint32_t worker, uint64_t call,
                   uint64_t wire) {
  if (!sim->processes[worker].alive) return;
  sim_agenda_put(
      &sim->agenda,
      (struct sim_entry){.at_ns = sim->now_ns + news_delay_ns(sim),
                         .what = SIM_HEAR,
                         .event = {.worker = worker, .number = (int32_t)wire},
                         .epoch = sim->processes[worker].epoch,
                         .call = call});
}

// pass_over: a call that hasn't begun won't, and the session hears of that; others go on.
static void pass_over(struct sim *sim, const struct sim_entry *entry) {
  struct sim_process *process = &sim->processes[entry->event.worker];
  uint32_t at = process->in_first + (uint32_t)(process->computing != 0);
  while (at < process->in_count && process->in[at] != entry->call)
    at++;
  if (at >= process->in_count) {
    sim_saw(SIM_SAW_withdrawn_too_late);
    return;
  }
  for (process->in_count--; at < process->in_count; at++)
    process->in[at] = process->in[at + 1];
  struct sim_entry news = *entry;
  news.what = SIM_WITHDRAWN;
  news.at_ns = sim->now_ns + news_delay_ns(sim);
  sim_agenda_put(&sim->agenda, news);
}

void sim_world_break(struct sim *sim, uint32_t worker) {
  if (!sim->processes[worker].alive) return;
  die_later(sim, sim_between(&sim->rng, 0, 5 * MST_NS_PER_MS), worker,
            MST_EXIT_SIGNAL, SIGKILL);
}

void sim_world_lose(struct sim *sim, uint32_t worker) {
  struct sim_process *process = &sim->processes[worker];
  process->unkillable = process->hung = 0;
  die_later(sim, 0, worker, MST_EXIT_SIGNAL, SIGKILL);
}

// --- Functions of sim.h ---

static void often(struct sim *sim, uint32_t count, enum sim_what what,
                  int64_t until_ns) {
  for (uint32_t i = 0; i < count; i++) {
    later(sim, sim_between(&sim->rng, 0, until_ns + 1), what,
          sim_below(&sim->rng, sim->plan.count));
  }
}

static void plan_healing(struct sim *sim) {
  struct sim_rng *rng = &sim->rng;
  const int64_t stop_ns = sim->plan.stop_ns;
  if (sim_chance(rng, 300)) often(sim, sim_below(rng, 4), SIM_SLEEP, stop_ns);
  if (sim_chance(rng, 300)) often(sim, sim_below(rng, 4), SIM_FORGET, stop_ns);
  if (sim_chance(rng, 200)) often(sim, sim_below(rng, 3), SIM_END, stop_ns);
  if (sim_chance(rng, 200)) often(sim, sim_below(rng, 3), SIM_GROW, stop_ns);
  often(sim, sim->plan.cancels, SIM_CANCEL, stop_ns);
  often(sim, sim->plan.drains, SIM_DRAIN, stop_ns);
  often(sim, sim->plan.returns, SIM_RETURN, stop_ns);
}

void sim_world_begin(struct sim *sim) {
  struct sim_rng *rng = &sim->rng;
  struct sim_plan *plan = &sim->plan;
  sim_plan_draw(rng, plan);
  sim->start_ns = sim_between(rng, 0, 1000000 * MST_NS_PER_S);
  sim->now_ns = sim->event_ns = sim->start_ns;
  often(sim, plan->calls, SIM_SEND, plan->stop_ns);
  often(sim, plan->odd, SIM_ODD, plan->stop_ns + MST_NS_PER_S);
  often(sim, plan->retires, SIM_RETIRE, plan->stop_ns);
  plan_healing(sim);
  later(sim, plan->stop_ns, SIM_STOP, 0);
  if (sim_chance(rng, 100)) {
    later(sim, plan->stop_ns + sim_between(rng, 0, MST_NS_PER_S), SIM_STOP, 0);
  }
}

// of_process handles what happens to, or in, the current process.
static void of_process(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  switch (entry->what) {
  case SIM_READY:
    be_ready(sim, worker);
    break;
  case SIM_FAIL_SETUP:
    tell_data(sim, worker, MST_EV_SETUP_FAILED, 0);
    die_later(sim, 0, worker, MST_EXIT_CODE, 1);
    break;
  case SIM_DIE:
    die(sim, &entry->event);
    break;
  case SIM_WEDGE:
    close_channel(sim, worker);
    break;
  case SIM_HANG:
    hang(sim, worker);
    break;
  case SIM_WAKE:
    sim->processes[worker].hung = 0;
    if (!sim->books[worker].lost) sim_saw(SIM_SAW_woke_in_time);
    break;
  case SIM_CALL_DONE:
    call_done(sim, worker);
    break;
  case SIM_INTERRUPTED:
    interrupted(sim, entry);
    break;
  case SIM_HEAR:
    pass_over(sim, entry);
    break;
  default:
    sim_fail(sim, "an entry that nobody serves");
    break;
  }
}

void sim_world_entry(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  if (entry->what == SIM_ODD) {
    sim_world_noise(sim);
    return;
  }
  if (entry->what == SIM_HOST) {
    sim_host_entry(sim, entry);
    return;
  }
  if (entry->what == SIM_FORK) {
    fork_worker(sim, worker, entry->epoch);
    return;
  }
  if (entry->what == SIM_DEQUEUE) {
    if (sim->processes[worker].in_queue &&
        sim->processes[worker].epoch == entry->epoch) {
      fork_worker(sim, worker, entry->epoch);
    }
    return;
  }
  const struct sim_process *process = &sim->processes[worker];
  if (!process->alive || process->epoch != entry->epoch) return;
  if (!put_off(sim, entry)) of_process(sim, entry);
}

void sim_world_launch(struct sim *sim, uint32_t worker) {
  struct sim_process *process = &sim->processes[worker];
  const uint32_t epoch = sim->core.pool.workers[worker]->epoch;
  if (process->alive && !process->unreaped) {
    end_ghost(sim, worker, process->epoch);
  }
  *process = (struct sim_process){.epoch = epoch};
  later(sim, news_delay_ns(sim), SIM_FORK, worker);
}

void sim_world_bye(struct sim *sim, uint32_t worker) {
  sim->processes[worker].bye = 1;
  say_bye(sim, worker);
}
