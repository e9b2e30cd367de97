// Hosts: where workers are launched, beside calls. The world has commands that lead to hosts,
// queues, hosts that end, and fork servers; the session tells sites what it sees, and does what
// they need, as src/ffi/session/tend.c and R/host-tend.R do.
#include "sim.h"

// ---- the world

static void later(struct sim *sim, uint32_t at, enum sim_host_does what,
                  int64_t delay_ns) {
  sim_agenda_put(&sim->agenda,
                 (struct sim_entry){.at_ns = sim->now_ns + delay_ns,
                                    .what = SIM_HOST,
                                    .event = {.worker = at, .how = what},
                                    .epoch = sim->hosts[at].link});
}

static int64_t drawn_ns(struct sim *sim, int64_t usual_ns, int64_t long_ns) {
  const int slow = sim_chance(&sim->rng, sim->plan.slow_hosts);
  return sim_between(&sim->rng, 0, slow ? long_ns : usual_ns);
}

int sim_host_launches(const struct sim *sim, uint32_t worker) {
  const struct mst_worker *record = sim->core.pool.workers[worker];
  const struct sim_host *host = &sim->hosts[record->site - sim->core.sites];
  return host->server == SIM_SERVER_READY && record->link == host->link;
}

// end_link ends all processes there.
static void end_link(struct sim *sim, uint32_t at) {
  struct sim_host *host = &sim->hosts[at];
  host->is = SIM_HOST_ENDED;
  host->server = SIM_SERVER_GONE;
  for (uint32_t i = 0; i < sim->plan.count; i++) {
    const struct mst_worker *record = sim->core.pool.workers[i];
    if (record->site == &sim->core.sites[at] && record->link == host->link)
      sim_world_lose(sim, i);
  }
}

static void come(struct sim *sim, uint32_t at) {
  struct sim_host *host = &sim->hosts[at];
  host->is = SIM_HOST_THERE;
  host->limit_ns = SIM_NEVER;
  if (sim_chance(&sim->rng, sim->plan.host_ends))
    later(sim, at, SIM_DOES_END, sim_between(&sim->rng, 0, 20 * MST_NS_PER_S));
  if (sim_chance(&sim->rng, sim->plan.host_ends))
    later(sim, at, SIM_DOES_LEAVE,
          sim_between(&sim->rng, 0, 20 * MST_NS_PER_S));
  if (sim->core.sites[at].terms.limited) {
    const int64_t most_ns =
        drawn_ns(sim, 30 * MST_NS_PER_S, 900 * MST_NS_PER_S);
    host->limit_ns = sim->now_ns + most_ns;
    later(sim, at, SIM_DOES_END, most_ns);
  }
}

void sim_host_entry(struct sim *sim, const struct sim_entry *entry) {
  const uint32_t at = entry->event.worker;
  struct sim_host *host = &sim->hosts[at];
  if (entry->epoch != host->link || host->is == SIM_HOST_ENDED) return;
  switch ((enum sim_host_does)entry->event.how) {
  case SIM_DOES_RUN:
    host->pends = 0;
    break;
  case SIM_DOES_COME:
    come(sim, at);
    break;
  case SIM_DOES_END:
    end_link(sim, at);
    break;
  case SIM_DOES_LEAVE:
    host->leaves = 1;
    break;
  case SIM_DOES_BOOT:
    host->server = SIM_SERVER_READY;
    break;
  case SIM_DOES_FAIL:
    host->server = SIM_SERVER_GONE;
    break;
  }
}

// ---- what the session does

static void tell(struct sim *sim, uint32_t at, enum mst_site_fact fact,
                 int64_t value) {
  struct mst_site *site = &sim->core.sites[at];
  const enum mst_site_is was = site->is;
  const enum mst_site_end end = mst_site_tell(site, fact, value, sim->now_ns);
  sim_note(sim, "SITE", at, (uint64_t)fact << 8 | site->is);
  if (was != site->is && site->is == MST_SITE_LOST) sim_saw(SIM_SAW_site_lost);
  if (end == MST_SITE_IS_ERROR) sim_saw(SIM_SAW_site_error);
  if (end == MST_SITE_GOES_ON && fact == MST_SITE_FAILED)
    sim_saw(SIM_SAW_site_again);
}

static void tell_all(struct sim *sim) {
  for (uint32_t at = 0; at < sim->core.site_count; at++) {
    struct sim_host *host = &sim->hosts[at];
    if (host->is == SIM_HOST_THERE) tell(sim, at, MST_SITE_LINKED, 0);
    if (host->is == SIM_HOST_ENDED) tell(sim, at, MST_SITE_ENDED, 0);
    if (host->server == SIM_SERVER_GONE) tell(sim, at, MST_SITE_SERVERLESS, 0);
    if (host->leaves && sim->core.sites[at].left < host->link &&
        host->is == SIM_HOST_THERE && !sim->core.sites[at].leaves) {
      sim_saw(SIM_SAW_host_leaves);
      tell(sim, at, MST_SITE_LEAVES, 0);
    }
    if (host->boots && host->server != SIM_SERVER_BOOTS) {
      host->boots = 0;
      tell(sim, at, MST_SITE_BOOTED, 0);
    }
  }
}

static void ask(struct sim *sim, uint32_t at) {
  struct sim_host *host = &sim->hosts[at];
  const int queued = sim->core.sites[at].terms.queued;
  if (host->is == SIM_HOST_THERE && sim->core.sites[at].left < host->link) {
    sim_fail(sim, "host %u is asked for and is there", at);
  }
  // Those of its former link go on there, and end when they have left.
  *host = (struct sim_host){.link = sim->core.sites[at].link,
                            .is = SIM_HOST_STARTS,
                            .limit_ns = SIM_NEVER};
  sim_saw(SIM_SAW_host_asked);
  if (sim_chance(&sim->rng, sim->plan.host_fails) &&
      sim_chance(&sim->rng, 300)) {
    host->is = SIM_HOST_NONE;
    tell(sim, at, MST_SITE_FAILED, 0);
    return;
  }
  int64_t waits_ns = 0;
  host->pends = queued && sim_chance(&sim->rng, 500);
  if (host->pends) {
    waits_ns = drawn_ns(sim, 5 * MST_NS_PER_S, 90 * MST_NS_PER_S);
    later(sim, at, SIM_DOES_RUN, waits_ns);
  }
  const int fails = sim_chance(&sim->rng, sim->plan.host_fails);
  later(sim, at, fails ? SIM_DOES_END : SIM_DOES_COME,
        waits_ns + drawn_ns(sim, 2 * MST_NS_PER_S, 60 * MST_NS_PER_S));
}

// fail: the link is ended, unless its fork server alone couldn't be replaced.
static void fail(struct sim *sim, uint32_t at, int lasts) {
  const int replaced = sim->core.sites[at].is == MST_SITE_REPLACED;
  tell(sim, at, MST_SITE_FAILED, lasts);
  if (!replaced && sim->core.sites[at].terms.far) end_link(sim, at);
}

static void serve(struct sim *sim, uint32_t at) {
  struct sim_host *host = &sim->hosts[at];
  const struct mst_site *site = &sim->core.sites[at];
  if (site->terms.far && host->is != SIM_HOST_THERE &&
      host->is != SIM_HOST_ENDED) {
    sim_fail(sim, "a fork server on a host %u that isn't there", at);
  }
  const int fails = sim_chance(&sim->rng, sim->plan.host_fails);
  if (host->is == SIM_HOST_ENDED || (fails && sim_chance(&sim->rng, 300))) {
    fail(sim, at, 0);
    return;
  }
  host->boots = 1;
  host->server = SIM_SERVER_BOOTS;
  later(sim, at, fails ? SIM_DOES_FAIL : SIM_DOES_BOOT,
        drawn_ns(sim, MST_NS_PER_S, 60 * MST_NS_PER_S));
}

static void take(struct sim *sim, uint32_t at) {
  const struct sim_host *host = &sim->hosts[at];
  const int ready = host->server == SIM_SERVER_READY;
  if (ready) tell(sim, at, MST_SITE_SERVED, 0);
  if (!ready) fail(sim, at, 0);
  if (!ready || sim->core.sites[at].is != MST_SITE_UP) return;
  sim_saw(sim->core.sites[at].terms.far ? SIM_SAW_host_joined
                                        : SIM_SAW_server_replaced);
}

static void carry_out(struct sim *sim, uint32_t at, enum mst_site_do what) {
  struct sim_host *host = &sim->hosts[at];
  const struct mst_site *site = &sim->core.sites[at];
  if (sim_chance(&sim->rng, sim->plan.host_interrupts)) {
    tell(sim, at, MST_SITE_UNDONE, what);
    return;
  }
  switch (what) {
  case MST_SITE_ASK:
    ask(sim, at);
    break;
  case MST_SITE_SERVE:
    serve(sim, at);
    break;
  case MST_SITE_TAKE:
    take(sim, at);
    break;
  case MST_SITE_WHY:
    if (host->is == SIM_HOST_THERE && site->why == MST_SITE_WHY_ENDED)
      sim_fail(sim, "host %u has not ended", at);
    sim_saw(site->why == MST_SITE_WHY_ENDED ? SIM_SAW_host_ended
                                            : SIM_SAW_host_late);
    fail(sim, at, sim_chance(&sim->rng, 100));
    break;
  case MST_SITE_LOOK:
    if (host->pends) sim_saw(SIM_SAW_host_pending);
    tell(sim, at, host->pends ? MST_SITE_PENDING : MST_SITE_RUNS, at % 2);
    break;
  case MST_SITE_LOOK_LEFT:
    tell(sim, at, MST_SITE_LEFT_NS,
         host->limit_ns == SIM_NEVER ? INT64_MAX
                                     : host->limit_ns - sim->now_ns);
    if (site->is != MST_SITE_UP) sim_saw(SIM_SAW_host_limit);
    break;
  default:
    break; // words
  }
}

static void users(struct sim *sim, uint32_t at) {
  const struct mst_site *site = &sim->core.sites[at];
  if (site->is == MST_SITE_ASLEEP && sim_chance(&sim->rng, 100)) {
    tell(sim, at, MST_SITE_WAKE, 0);
  } else if (site->is == MST_SITE_UP && site->terms.scales &&
             sim_chance(&sim->rng, 20)) {
    sim_saw(SIM_SAW_host_sleeps);
    tell(sim, at, MST_SITE_SLEEP, 0);
  } else if (site->is == MST_SITE_LOST && sim_chance(&sim->rng, 50)) {
    tell(sim, at, MST_SITE_RETRY, 0);
    if (mst_calls_revive(&sim->core, sim->now_ns) > 0)
      sim_saw(SIM_SAW_site_retried);
  }
}

static int is_idle(const struct sim *sim, const struct mst_worker *record) {
  return record->state == MST_WORKER_IDLE && mst_worker_is_up(record) &&
         record->replay_left == 0 && record->stop_ns == SIM_NEVER &&
         !record->dead && sim->plan.policy.on;
}

// A worker stays on a host that is left, or waits although its host is there, or won't be.
static void check(struct sim *sim) {
  for (uint32_t i = 0; i < sim->plan.count && sim_is_running(sim); i++) {
    const struct mst_worker *record = sim->core.pool.workers[i];
    const struct mst_site *site = record->site;
    if (record->awaited && record->link != 0 && record->link <= site->moved)
      sim_fail(sim, "worker %u stays on a host that all have left", i);
    if (record->link != 0 && record->link <= site->left && is_idle(sim, record))
      sim_fail(sim, "idle worker %u doesn't leave its host", i);
    if (record->pends && site->is == MST_SITE_UP && sim->plan.count <= 32)
      sim_fail(sim, "worker %u waits for a host that is there", i);
    for (const struct mst_call *at = record->mailbox.first;
         record->pends && at != NULL; at = at->next) {
      if (at->is_task && !at->cancelled)
        sim_fail(sim, "tasks wait with worker %u for its host", i);
    }
    if (record->pends && site->is == MST_SITE_LOST)
      sim_fail(sim, "worker %u waits for a host that won't come", i);
  }
}

void sim_hosts_look(struct sim *sim) {
  mst_calls_look_at_sites(&sim->core, sim->now_ns);
  check(sim);
}

void sim_hosts_tend(struct sim *sim) {
  if (sim->down_given) return;
  tell_all(sim);
  for (uint32_t at = 0; at < sim->core.site_count && sim_is_running(sim);
       at++) {
    enum mst_site_do what;
    users(sim, at);
    for (int n = 0;
         n < 20 && mst_site_next(&sim->core.sites[at], &what, sim->now_ns) == 1;
         n++)
      carry_out(sim, at, what);
  }
  sim_hosts_look(sim);
  sim_agenda_put(
      &sim->agenda,
      (struct sim_entry){
          .at_ns =
              sim->now_ns + sim_between(&sim->rng, MST_NS_PER_MS, MST_NS_PER_S),
          .what = SIM_TEND});
}

void sim_host_needed(struct sim *sim, uint32_t worker) {
  const uint32_t at =
      (uint32_t)(sim->core.pool.workers[worker]->site - sim->core.sites);
  tell(sim, at, MST_SITE_NEEDED, 0);
}

// sim_host_lose_server: the fork server that has launched a worker ends.
void sim_host_lose_server(struct sim *sim, uint32_t worker) {
  const uint32_t at =
      (uint32_t)(sim->core.pool.workers[worker]->site - sim->core.sites);
  if (sim->core.sites[at].is != MST_SITE_UP) return;
  sim->hosts[at].server = SIM_SERVER_GONE;
  tell(sim, at, MST_SITE_SERVERLESS, 0);
}

// ---- set up

static struct mst_site_terms draw_terms(struct sim *sim, int far) {
  struct sim_rng *rng = &sim->rng;
  struct mst_site_terms terms = {.far = (uint8_t)far,
                                 .heals = sim->plan.policy.on,
                                 .only = sim->plan.sites == 1,
                                 .start_ns = 30 * MST_NS_PER_S,
                                 .queue_ns = INT64_MAX};
  if (!far) return terms;
  terms.queued = (uint8_t)sim_chance(rng, 300);
  terms.limited = terms.queued && sim_chance(rng, 500);
  terms.scales = terms.heals && sim_chance(rng, 300);
  if (sim_chance(rng, 300)) terms.queue_ns = 60 * MST_NS_PER_S;
  return terms;
}

void sim_hosts_begin(struct sim *sim) {
  struct sim_plan *plan = &sim->plan;
  uint32_t workers[SIM_SITES_MAX] = {0}, there = 0;
  if (plan->sites > plan->count) plan->sites = plan->count;
  for (uint32_t i = 0; i < plan->count; i++)
    workers[i % plan->sites]++;
  if (mst_calls_split(&sim->core, workers, plan->sites) != 0) {
    sim_fail(sim, "mst_calls_split");
    return;
  }
  for (uint32_t at = 0; at < plan->sites; at++) {
    struct mst_site *site = &sim->core.sites[at];
    const int far = sim_chance(&sim->rng, plan->far);
    const int waits = far && at > 0 && sim_chance(&sim->rng, 400);
    const struct mst_site_terms terms = draw_terms(sim, far);
    mst_site_init(site, &terms,
                  !waits         ? MST_SITE_UP
                  : terms.scales ? MST_SITE_ASLEEP
                                 : MST_SITE_PAUSED,
                  sim->now_ns);
    if (waits) continue;
    there += workers[at];
    site->link = site->linked = terms.far;
    sim->hosts[at] = (struct sim_host){
        .link = site->link, .is = SIM_HOST_THERE, .server = SIM_SERVER_READY};
    if (far) come(sim, at);
  }
  if (plan->need > there) plan->need = there;
  sim_agenda_put(&sim->agenda,
                 (struct sim_entry){.at_ns = sim->now_ns, .what = SIM_TEND});
}
