// A plan: the size of a world, and how often which things go wrong in it. See sim.h.
#include "sim.h"

static uint32_t some(struct sim_rng *rng) {
  static const uint32_t chances[] = {0, 0, 0, 10, 50, 200, 600};
  return chances[sim_below(rng, sizeof chances / sizeof chances[0])];
}

static void draw_size(struct sim_rng *rng, struct sim_plan *plan) {
  const uint32_t most = sim_chance(rng, 100) ? SIM_WORKERS_MAX : 6;
  plan->count = 1 + sim_below(rng, most);
  plan->window = 1 + sim_below(rng, plan->count + 2);
  plan->calls = sim_below(rng, SIM_CALLS_MAX + 1);
  plan->retires = sim_chance(rng, 300) ? sim_below(rng, plan->count + 1) : 0;
  plan->odd = sim_chance(rng, 500) ? sim_below(rng, 20) : 0;
  plan->lazy = sim_chance(rng, 300) ? 300 : 0;
  plan->late = sim_chance(rng, 300) ? 300 : 0;
}

static void draw_newer(struct sim_rng *rng, struct sim_plan *plan) {
  plan->need = plan->count;
  if (sim_chance(rng, 300)) plan->need = 1 + sim_below(rng, plan->count);
  plan->queue = sim_chance(rng, 300) ? some(rng) : 0;
  plan->drains = sim_chance(rng, 300) ? sim_below(rng, plan->count + 1) : 0;
  plan->returns = sim_chance(rng, 500) ? 2 * plan->drains : 0;
}

static void draw_boot(struct sim_rng *rng, struct sim_boot *boot) {
  boot->launch_fail = some(rng) / 4;
  boot->launch_unheard = some(rng) / 4;
  boot->setup_fail = some(rng) / 4;
  boot->die_booting = some(rng) / 4;
  boot->hang_booting = some(rng) / 4;
}

static void draw_start(struct sim_rng *rng, struct sim_plan *plan) {
  plan->slow_boot = some(rng);
  if (sim_chance(rng, 400)) draw_boot(rng, &plan->first); // most go well
  if (sim_chance(rng, 600)) draw_boot(rng, &plan->later);
  if (sim_chance(rng, 30)) plan->later.die_booting = 1000;
  if (sim_chance(rng, 30)) plan->later.launch_fail = 900;
}

static void draw_healing(struct sim_rng *rng, struct sim_plan *plan) {
  static const int64_t beats_ns[] = {MST_NS_PER_S, 3 * MST_NS_PER_S,
                                     10 * MST_NS_PER_S, SIM_NEVER};
  plan->policy =
      (struct mst_heal_policy){.on = (uint8_t)sim_chance(rng, 800),
                               .retries = sim_below(rng, 4),
                               .heartbeat_ns = beats_ns[sim_below(rng, 4)]};
  plan->changes = some(rng);
  plan->tasks = sim_chance(rng, 500) ? 500 : 0;
  plan->cancels = sim_chance(rng, 500) ? sim_below(rng, 6) : 0;
  plan->deaf = some(rng);
  plan->timeout_ns = sim_chance(rng, 200)
                         ? sim_between(rng, MST_NS_PER_MS, MST_NS_PER_S)
                         : SIM_NEVER;
  plan->die_replaying = some(rng) / 2;
  plan->hang = sim_chance(rng, 400) ? some(rng) : 0;
  plan->slow_mend = some(rng);
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
  if (sim_chance(rng, 50)) {
    plan->stop_ns += 2 * MST_RESTART_NS;
  }
  if (sim_chance(rng, 100)) {
    plan->stop_ns = sim_between(rng, 0, 2 * MST_NS_PER_S);
  }
  plan->server_stuck_ns = SIM_NEVER;
  if (sim_chance(rng, 50)) {
    plan->server_stuck_ns = sim_between(rng, 0, 40 * MST_NS_PER_S);
  }
}

static void draw_hosts(struct sim_rng *rng, struct sim_plan *plan) {
  plan->sites = sim_chance(rng, 500) ? 1 + sim_below(rng, SIM_SITES_MAX) : 1;
  plan->far = sim_chance(rng, 500) ? 700 : 0;
  plan->host_fails = some(rng) / 2;
  plan->host_ends = some(rng);
  plan->slow_hosts = some(rng) / 2;
  plan->host_interrupts = some(rng) / 4;
}

void sim_plan_draw(struct sim_rng *rng, struct sim_plan *plan) {
  draw_size(rng, plan);
  draw_start(rng, plan);
  draw_life(rng, plan);
  draw_healing(rng, plan);
  draw_times(rng, plan);
  draw_newer(rng, plan);
  draw_hosts(rng, plan);
}
