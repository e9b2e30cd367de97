// The virtual world: worker processes, their fork server, the user.
//
// A worker has two channels to the session, and each delivers in order: its own
// data channel (READY, FAILED, answers, the end) and the fork server's (FORKED,
// EXITED), which all workers share. Across the two any order happens. A plan
// may also break the order within a channel and repeat news, which no real
// channel does: the pool has to bear it all the same.
//
// News are true: EXITED comes only after the process ended, FORKED only after
// there was one. So when the pool says that it is down, this file knows whether
// something still lives.
#include <signal.h>

#include "sim.h"

// --- Drawing a plan ---

static uint32_t some(struct sim_rng *rng) {
  static const uint32_t chances[] = {0, 0, 0, 10, 50, 200, 600};
  return chances[sim_below(rng, sizeof chances / sizeof chances[0])];
}

static void draw_size(struct sim_rng *rng, struct sim_plan *plan) {
  const uint32_t most = sim_chance(rng, 100) ? SIM_WORKERS_MAX : 6;
  plan->count = 1 + sim_below(rng, most);
  plan->window = 1 + sim_below(rng, plan->count + 2);
  plan->calls = sim_below(rng, 40);
  plan->retires = sim_chance(rng, 300) ? sim_below(rng, plan->count + 1) : 0;
  plan->odd = sim_chance(rng, 500) ? sim_below(rng, 20) : 0;
  plan->lazy = sim_chance(rng, 300) ? 300 : 0;
  plan->late = sim_chance(rng, 300) ? 300 : 0;
}

static void draw_start(struct sim_rng *rng, struct sim_plan *plan) {
  plan->slow_boot = some(rng);
  if (sim_chance(rng, 600)) return; // most starts go well
  plan->launch_fail = some(rng) / 4;
  plan->launch_unheard = some(rng) / 4;
  plan->setup_fail = some(rng) / 4;
  plan->die_booting = some(rng) / 4;
  plan->hang_booting = some(rng) / 4;
}

static void draw_life(struct sim_rng *rng, struct sim_plan *plan) {
  plan->die_idle = some(rng);
  plan->wedge = some(rng) / 2;
  plan->die_busy = some(rng) / 4;
  plan->die_answering = some(rng) / 4;
  plan->held = some(rng);
  plan->unreaped = some(rng) / 2;
  plan->unkillable = some(rng) / 2;
  plan->bye_ignored = some(rng);
  plan->bye_late = some(rng);
  plan->slow_news = some(rng);
  if (sim_chance(rng, 300)) {
    plan->reorder = some(rng);
    plan->repeat = some(rng);
  }
}

static void draw_times(struct sim_rng *rng, struct sim_plan *plan) {
  plan->deadline_ns = SIM_NEVER;
  if (sim_chance(rng, 900)) {
    plan->deadline_ns = sim_between(rng, MST_NS_PER_S, 60 * MST_NS_PER_S);
  }
  plan->stop_ns = sim_between(rng, 0, 40 * MST_NS_PER_S);
  if (sim_chance(rng, 100)) {
    plan->stop_ns = sim_between(rng, 0, 2 * MST_NS_PER_S);
  }
  plan->server_stuck_ns = SIM_NEVER;
  if (sim_chance(rng, 50)) {
    plan->server_stuck_ns = sim_between(rng, 0, 40 * MST_NS_PER_S);
  }
}

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
  // Slow ones straddle the limits of the pool.
  const int64_t most_ns =
      sim_chance(rng, 100) ? 12 * MST_NS_PER_S : MST_NS_PER_S;
  return sim_between(rng, 0, most_ns);
}

static void tell(struct sim *sim, int64_t *last_ns, struct mst_event event) {
  struct sim_rng *rng = &sim->rng;
  int64_t at_ns = sim->now_ns + news_delay_ns(sim);
  if (sim_chance(rng, sim->plan.reorder)) {
    at_ns += sim_between(rng, 0, 2 * MST_NS_PER_S); // others overtake it
  } else {
    if (at_ns < *last_ns) at_ns = *last_ns;
    *last_ns = at_ns;
  }
  sim_agenda_put(&sim->agenda, at_ns, SIM_NEWS, event);
  // An answer that comes twice can't be told from two answers.
  if (event.kind != MST_EV_ANSWERED && sim_chance(rng, sim->plan.repeat)) {
    if (event.kind == MST_EV_EXITED) event.number++; // only the first counts
    at_ns += sim_between(rng, 0, MST_NS_PER_S);
    sim_agenda_put(&sim->agenda, at_ns, SIM_NOISE, event);
  }
}

static void tell_data(struct sim *sim, uint32_t worker,
                      enum mst_event_kind kind) {
  tell(sim, &sim->processes[worker].data_ns,
       (struct mst_event){.kind = kind, .worker = worker});
}

static void tell_server(struct sim *sim, struct mst_event event) {
  if (!server_stuck(sim)) tell(sim, &sim->server_ns, event);
}

static void later(struct sim *sim, int64_t delay_ns, enum sim_what what,
                  uint32_t worker) {
  sim_agenda_put(&sim->agenda, sim->now_ns + delay_ns, what,
                 (struct mst_event){.worker = worker});
}

static void die_later(struct sim *sim, int64_t delay_ns, uint32_t worker,
                      uint32_t how, int32_t number) {
  sim_agenda_put(
      &sim->agenda, sim->now_ns + delay_ns, SIM_DIE,
      (struct mst_event){.worker = worker, .how = how, .number = number});
}

// --- Boot ---

static int64_t boot_ns(struct sim *sim) {
  const int slow = sim_chance(&sim->rng, sim->plan.slow_boot);
  return sim_between(&sim->rng, MST_NS_PER_MS,
                     slow ? 20 * MST_NS_PER_S : 200 * MST_NS_PER_MS);
}

// The session's end of the channel sees the server close the other one; that
// may be heard before the server's words.
static void fork_failed(struct sim *sim, uint32_t worker) {
  if (sim_chance(&sim->rng, 700)) tell_data(sim, worker, MST_EV_CLOSED);
  tell_server(sim, (struct mst_event){.kind = MST_EV_LAUNCH_FAILED,
                                      .worker = worker,
                                      .number = SIM_LAUNCH_ERRNO});
}

static void boot(struct sim *sim, uint32_t worker) {
  struct sim_rng *rng = &sim->rng;
  const struct sim_plan *plan = &sim->plan;
  const int64_t takes_ns = boot_ns(sim);
  if (sim_chance(rng, plan->die_booting)) {
    die_later(sim, takes_ns, worker, MST_EXIT_CODE, 1);
  } else if (sim_chance(rng, plan->setup_fail)) {
    later(sim, takes_ns, SIM_FAIL_SETUP, worker);
  } else if (!sim_chance(rng, plan->hang_booting)) {
    later(sim, takes_ns, SIM_READY, worker);
  }
}

static void fork_worker(struct sim *sim, uint32_t worker) {
  struct sim_rng *rng = &sim->rng;
  const struct sim_plan *plan = &sim->plan;
  struct sim_process *process = &sim->processes[worker];
  if (server_stuck(sim) || sim_chance(rng, plan->launch_unheard)) return;
  if (sim_chance(rng, plan->launch_fail)) {
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
  tell_server(sim, (struct mst_event){.kind = MST_EV_FORKED,
                                      .worker = worker,
                                      .number = 1000 + (int32_t)worker});
  boot(sim, worker);
}

static void be_ready(struct sim *sim, uint32_t worker) {
  struct sim_rng *rng = &sim->rng;
  tell_data(sim, worker, MST_EV_READY);
  const int64_t most_ns =
      sim_chance(rng, 100) ? MST_NS_PER_S : 40 * MST_NS_PER_S;
  if (sim_chance(rng, sim->plan.die_idle)) {
    die_later(sim, sim_between(rng, 0, most_ns), worker, MST_EXIT_SIGNAL,
              SIGSEGV);
  }
  if (sim_chance(rng, sim->plan.wedge)) {
    later(sim, sim_between(rng, 0, most_ns), SIM_WEDGE, worker);
  }
}

// --- End ---

static void close_channel(struct sim *sim, uint32_t worker) {
  if (!sim->processes[worker].channel) return;
  sim->processes[worker].channel = 0;
  tell_data(sim, worker, MST_EV_CLOSED);
}

static void die(struct sim *sim, const struct mst_event *end) {
  struct sim_process *process = &sim->processes[end->worker];
  process->alive = 0;
  if (!process->held) close_channel(sim, end->worker);
  if (process->unreaped) return;
  tell_server(sim, (struct mst_event){.kind = MST_EV_EXITED,
                                      .worker = end->worker,
                                      .how = end->how,
                                      .number = end->number});
}

// BYE is read after the calls before it.
static void say_bye(struct sim *sim, uint32_t worker) {
  const struct sim_process *process = &sim->processes[worker];
  struct sim_rng *rng = &sim->rng;
  if (!process->bye || process->bye_ignored || process->computing) return;
  const int late = sim_chance(rng, sim->plan.bye_late);
  die_later(sim,
            sim_between(rng, 0, late ? 8 * MST_NS_PER_S : 5 * MST_NS_PER_MS),
            worker, MST_EXIT_CODE, 0);
}

static void kill_worker(struct sim *sim, uint32_t worker) {
  struct sim_rng *rng = &sim->rng;
  if (server_stuck(sim)) return; // it is the one who signals
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
  process->computing = 1;
  if (sim_chance(rng, sim->plan.die_busy)) {
    die_later(sim, takes_ns, worker, MST_EXIT_SIGNAL, SIGKILL);
  } else {
    later(sim, takes_ns, SIM_CALL_DONE, worker);
  }
}

static void call_done(struct sim *sim, uint32_t worker) {
  struct sim_process *process = &sim->processes[worker];
  process->computing = 0;
  process->calls--;
  if (process->channel) tell_data(sim, worker, MST_EV_ANSWERED);
  if (sim_chance(&sim->rng, sim->plan.die_answering)) {
    die_later(sim, 0, worker, MST_EXIT_CODE, 7);
  }
  if (process->calls > 0) {
    compute(sim, worker);
  } else {
    say_bye(sim, worker);
  }
}

static void send_call(struct sim *sim) {
  const uint32_t worker = sim_below(&sim->rng, sim->plan.count);
  struct sim_process *process = &sim->processes[worker];
  const enum mst_worker_state state = sim->pool.workers[worker].state;
  if (state != MST_WORKER_IDLE && state != MST_WORKER_BUSY) return;
  if (!sim_is_running(sim) || sim->books[worker].bye_due) return;
  sim_deliver(sim, (struct mst_event){.kind = MST_EV_SENT, .worker = worker},
              0);
  if (!process->alive || !process->channel) return; // it goes nowhere
  process->calls++;
  if (!process->computing) compute(sim, worker);
}

// --- Noise: events that mean nothing where they come ---

static struct mst_event draw_noise(struct sim *sim) {
  struct sim_rng *rng = &sim->rng;
  const uint32_t worker = sim_below(rng, sim->plan.count);
  const struct sim_book *book = &sim->books[worker];
  struct mst_event event = {.kind = MST_EV_TICK, .worker = worker};
  switch (sim_below(rng, 8)) {
  case 0: // a worker that there isn't
    event.kind = (enum mst_event_kind)(1 + sim_below(rng, MST_EV_EXITED));
    event.worker = sim->plan.count + sim_below(rng, 3);
    break;
  case 1: // a pid that is none
    event.kind = MST_EV_FORKED;
    event.number = sim_chance(rng, 500) ? 0 : -1;
    break;
  case 2:
    if (book->owed == 0) event.kind = MST_EV_ANSWERED;
    break;
  case 3: // of a worker that was not launched
    if (book->launched) break;
    event.kind = (enum mst_event_kind)(1 + sim_below(rng, MST_EV_EXITED));
    event.number = 77;
    break;
  case 4:
    if (book->ended) event.kind = MST_EV_EXITED;
    break;
  case 5:
    if (book->ready) event.kind = MST_EV_READY;
    break;
  case 6:
    if (book->pid || (book->ready && !sim->failing)) {
      event.kind = MST_EV_LAUNCH_FAILED;
    }
    break;
  default:
    if (!sim_is_running(sim) || book->lost || book->bye_due) {
      event.kind = sim_chance(rng, 500) ? MST_EV_SENT : MST_EV_RETIRE;
    }
    break;
  }
  return event;
}

static void make_noise(struct sim *sim) {
  const struct mst_event event = draw_noise(sim);
  // A TICK that nobody wanted is the one case that the monitor books.
  sim_deliver(sim, event, event.kind != MST_EV_TICK);
}

// --- The world's face ---

void sim_world_begin(struct sim *sim) {
  struct sim_rng *rng = &sim->rng;
  struct sim_plan *plan = &sim->plan;
  draw_size(rng, plan);
  draw_start(rng, plan);
  draw_life(rng, plan);
  draw_times(rng, plan);
  sim->start_ns = sim_between(rng, 0, 1000000 * MST_NS_PER_S);
  sim->now_ns = sim->start_ns;
  for (uint32_t i = 0; i < plan->calls; i++) {
    later(sim, sim_between(rng, 0, plan->stop_ns + 1), SIM_SEND, 0);
  }
  for (uint32_t i = 0; i < plan->odd; i++) {
    later(sim, sim_between(rng, 0, plan->stop_ns + MST_NS_PER_S), SIM_ODD, 0);
  }
  for (uint32_t i = 0; i < plan->retires; i++) {
    later(sim, sim_between(rng, 0, plan->stop_ns + 1), SIM_RETIRE,
          sim_below(rng, plan->count));
  }
  later(sim, plan->stop_ns, SIM_STOP, 0);
  if (sim_chance(rng, 100)) {
    later(sim, plan->stop_ns + sim_between(rng, 0, MST_NS_PER_S), SIM_STOP, 0);
  }
}

void sim_world_entry(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t worker = entry->event.worker;
  const int alive = worker < sim->plan.count && sim->processes[worker].alive;
  switch (entry->what) {
  case SIM_NEWS:
    sim_deliver(sim, entry->event, 0);
    break;
  case SIM_NOISE:
    sim_deliver(sim, entry->event, 1);
    break;
  case SIM_SEND:
    send_call(sim);
    break;
  case SIM_RETIRE:
    sim_deliver(sim,
                (struct mst_event){.kind = MST_EV_RETIRE, .worker = worker}, 0);
    break;
  case SIM_STOP:
    sim_deliver(sim, (struct mst_event){.kind = MST_EV_STOP}, 0);
    break;
  case SIM_ODD:
    make_noise(sim);
    break;
  case SIM_FORK:
    fork_worker(sim, worker);
    break;
  case SIM_READY:
    if (alive) be_ready(sim, worker);
    break;
  case SIM_FAIL_SETUP:
    if (!alive) break;
    tell_data(sim, worker, MST_EV_SETUP_FAILED);
    die_later(sim, 0, worker, MST_EXIT_CODE, 1);
    break;
  case SIM_DIE:
    if (alive) die(sim, &entry->event);
    break;
  case SIM_WEDGE:
    if (alive) close_channel(sim, worker);
    break;
  case SIM_CALL_DONE:
    if (alive) call_done(sim, worker);
    break;
  }
}

void sim_world_action(struct sim *sim, const struct mst_action *action) {
  switch (action->kind) {
  case MST_DO_LAUNCH:
    later(sim, news_delay_ns(sim), SIM_FORK, action->worker);
    break;
  case MST_DO_BYE:
    sim->processes[action->worker].bye = 1;
    say_bye(sim, action->worker);
    break;
  case MST_DO_KILL:
    kill_worker(sim, action->worker);
    break;
  case MST_DO_STARTED:
  case MST_DO_START_FAILED:
  case MST_DO_LOST:
  case MST_DO_STOPPED:
    break; // for the user only
  }
}
