// Noise: events that are meaningless when they come, which the pool must ignore.
#include "sim.h"

// odd_kind draws from all kinds except STOP and TICK.
static enum mst_event_kind odd_kind(struct sim_rng *rng) {
  const uint32_t kind = 1 + sim_below(rng, MST_EV_DRAIN - 2);
  return (enum mst_event_kind)(kind < MST_EV_STOP ? kind : kind + 2);
}

// ends_unlaunched: a worker that isn't launched yet may be asked to end.
static int ends_unlaunched(const struct sim *sim, enum mst_event_kind kind) {
  return sim_is_running(sim) && (kind == MST_EV_RETIRE || kind == MST_EV_DRAIN);
}

// Of a worker that takes no calls, or a pool that doesn't run.
static enum mst_event_kind idle_talk(struct sim *sim,
                                     const struct sim_book *book) {
  static const enum mst_event_kind kinds[] = {MST_EV_SENT, MST_EV_SILENT,
                                              MST_EV_RETIRE, MST_EV_RESTART};
  const enum mst_event_kind kind = kinds[sim_below(&sim->rng, 4)];
  const int runs = sim_is_running(sim);
  // For a lost worker, RETIRE isn't noise if it must come back; nor is RESTART once its loss was
  // given.
  if (kind == MST_EV_RESTART) {
    return runs && (book->lost_due || book->left) ? MST_EV_TICK : kind;
  }
  if (!runs) return kind;
  if (kind == MST_EV_RETIRE && (book->drained || book->again)) {
    return MST_EV_TICK;
  }
  return book->bye_due || book->lost ? kind : MST_EV_TICK;
}

static struct mst_event draw_noise(struct sim *sim) {
  struct sim_rng *rng = &sim->rng;
  const uint32_t worker = sim_below(rng, sim->plan.count);
  const struct sim_book *book = &sim->books[worker];
  struct mst_event event = {.kind = MST_EV_TICK, .worker = worker};
  switch (sim_below(rng, 9)) {
  case 0: // a worker that doesn't exist
    event.kind = odd_kind(rng);
    event.worker = sim->plan.count + sim_below(rng, 3);
    break;
  case 1: // an invalid pid
    event.kind = MST_EV_FORKED;
    event.number = sim_chance(rng, 500) ? 0 : -1;
    break;
  case 2:
    if (book->owed == 0) event.kind = MST_EV_ANSWERED;
    break;
  case 3: // of a worker that wasn't launched
    if (book->launched) break;
    event.kind = odd_kind(rng);
    event.number = 77;
    if (ends_unlaunched(sim, event.kind)) event.kind = MST_EV_TICK;
    break;
  case 4:
    if (book->ended) event.kind = MST_EV_EXITED;
    break;
  case 5:
    if (book->ready) event.kind = MST_EV_READY;
    break;
  case 6: // of a worker with a pid, or that takes calls
    if (book->pid ||
        (book->ready && !book->lost && !book->left && !sim->failing)) {
      event.kind = MST_EV_LAUNCH_FAILED;
    }
    break;
  case 7: // of a queue in which it isn't
    if (book->pid || book->ended) event.kind = MST_EV_PENDING;
    break;
  default:
    event.kind = idle_talk(sim, book);
    break;
  }
  return event;
}

void sim_world_noise(struct sim *sim) {
  const struct mst_event event = draw_noise(sim);
  // An unneeded TICK is the one case that the monitor books.
  sim_deliver(sim, event, event.kind != MST_EV_TICK);
}
