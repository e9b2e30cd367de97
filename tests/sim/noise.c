// Noise: events that mean nothing where they come, which the pool has to pass over.
#include "sim.h"

// odd_kind draws from all kinds but STOP and TICK.
static enum mst_event_kind odd_kind(struct sim_rng *rng) {
  return (enum mst_event_kind)(1 + sim_below(rng, MST_EV_SILENT));
}

// Of a worker that doesn't serve, or of a pool that doesn't run.
static enum mst_event_kind idle_talk(struct sim *sim,
                                     const struct sim_book *book) {
  static const enum mst_event_kind kinds[] = {MST_EV_SENT, MST_EV_SILENT,
                                              MST_EV_RETIRE, MST_EV_RESTART};
  const enum mst_event_kind kind = kinds[sim_below(&sim->rng, 4)];
  const int runs = sim_is_running(sim);
  // Of one that is lost RETIRE is no noise if it is to come back, nor is RESTART
  // once its loss was given.
  if (kind == MST_EV_RESTART) {
    return runs && book->lost_due ? MST_EV_TICK : kind;
  }
  if (!runs || book->bye_due) return kind;
  if (!book->lost) return MST_EV_TICK;
  return kind == MST_EV_RETIRE && book->again ? MST_EV_TICK : kind;
}

static struct mst_event draw_noise(struct sim *sim) {
  struct sim_rng *rng = &sim->rng;
  const uint32_t worker = sim_below(rng, sim->plan.count);
  const struct sim_book *book = &sim->books[worker];
  struct mst_event event = {.kind = MST_EV_TICK, .worker = worker};
  switch (sim_below(rng, 8)) {
  case 0: // a worker that there isn't
    event.kind = odd_kind(rng);
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
    event.kind = odd_kind(rng);
    event.number = 77;
    break;
  case 4:
    if (book->ended) event.kind = MST_EV_EXITED;
    break;
  case 5:
    if (book->ready) event.kind = MST_EV_READY;
    break;
  case 6: // of one that has a pid, or serves
    if (book->pid || (book->ready && !book->lost && !sim->failing)) {
      event.kind = MST_EV_LAUNCH_FAILED;
    }
    break;
  default:
    event.kind = idle_talk(sim, book);
    break;
  }
  return event;
}

void sim_world_noise(struct sim *sim) {
  const struct mst_event event = draw_noise(sim);
  // A TICK that nobody wanted is the one case that the monitor books.
  sim_deliver(sim, event, event.kind != MST_EV_TICK);
}
