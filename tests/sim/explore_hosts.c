// Hosts in small worlds: each worker is on a host of its own, which its site leaves or loses, and
// which comes again, or doesn't. What sites do by themselves is explored in site_explore.c. See
// explore.h.
#include "explore.h"

static struct mst_site *site_of(struct ex *ex, uint32_t worker) {
  return ex->core.pool.workers[worker]->site;
}

void ex_hosts_begin(struct ex *ex) {
  static const uint32_t workers[EX_WORKERS] = {1, 1};
  const struct mst_site_terms terms = {
      .far = 1, .heals = 1, .start_ns = 3600 * MST_NS_PER_S};
  if (ex->left.moves + ex->left.hosts == 0) return;
  (void)mst_calls_split(&ex->core, workers, EX_WORKERS);
  for (uint32_t i = 0; i < EX_WORKERS; i++)
    mst_site_init(&ex->core.sites[i], &terms, MST_SITE_UP, ex->now_ns);
}

// A host that is asked for comes, or doesn't.
int ex_host_may_come(const struct ex *ex, uint32_t worker) {
  const struct mst_site *site = ex->core.pool.workers[worker]->site;
  return site->terms.far && !ex->stopping &&
         (mst_site_waits(site) || site->is == MST_SITE_REPLACED);
}

static void tell(struct ex *ex, uint32_t worker, enum mst_site_fact fact,
                 int64_t value) {
  (void)mst_site_tell(site_of(ex, worker), fact, value, ex->now_ns);
}

// ex_host_comes: once its pause is over, for which the worker alone waits.
void ex_host_comes(struct ex *ex, uint32_t worker, int lasts) {
  struct mst_site *site = site_of(ex, worker);
  const int paused = site->is == MST_SITE_PAUSED && site->ask_ns > ex->now_ns;
  const int64_t at_ns = paused ? site->ask_ns : ex->now_ns;
  enum mst_site_do what;
  while (mst_site_next(site, &what, at_ns) == 1) {
    if (what == MST_SITE_ASK && lasts) {
      (void)mst_site_tell(site, MST_SITE_FAILED, 1, at_ns);
      break;
    }
    if (what == MST_SITE_ASK)
      (void)mst_site_tell(site, MST_SITE_LINKED, 0, at_ns);
    if (what == MST_SITE_SERVE)
      (void)mst_site_tell(site, MST_SITE_SERVED, 0, at_ns);
  }
  ex_saw(lasts ? EX_SAW_host_lost : EX_SAW_host_came);
}

void ex_host_leaves(struct ex *ex, uint32_t worker) {
  tell(ex, worker, MST_SITE_LEAVES, 0);
  mst_calls_look_at_sites(&ex->core, ex->now_ns);
  if (ex->core.pool.workers[worker]->moves) ex_saw(EX_SAW_moved);
}

// ex_host_ends: what its worker wrote before is read.
void ex_host_ends(struct ex *ex, uint32_t worker, uint32_t answers) {
  const uint32_t link = ex->core.pool.workers[worker]->link;
  if (link == site_of(ex, worker)->link) tell(ex, worker, MST_SITE_ENDED, 0);
  ex_die(ex, worker, answers);
}

// ex_worker_waits: its tasks go to others, and those that it wasn't sent yet as well.
void ex_worker_waits(struct ex *ex, uint32_t worker) {
  ex->processes[worker].life = EX_NONE;
  ex_saw(EX_SAW_waits_for_host);
  for (uint8_t i = 0; i < EX_CALLS; i++) {
    struct ex_call *call = &ex->calls[i];
    if (call->task == NULL || call->task->state != MST_CALL_QUEUED) continue;
    if (call->mailbox != 1 + worker && call->mailbox != 0) continue;
    call->mailbox = 0;
    call->handed_back = 1;
    ex_saw(EX_SAW_handed_back);
  }
}
