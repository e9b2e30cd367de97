// Clusters that let hosts go when nothing is to do, and ask for them again. See sched/scale.h.
#include <stdlib.h>

#include "pool/look.h"
#include "pool/session_int.h"

// How often it is looked at what is needed, while somebody waits and while nobody does.
#define LOOK_NS (100 * MST_NS_PER_MS)
#define AWAY_NS MST_NS_PER_S

int mst_cluster_scale(struct mst_cluster *cluster, int64_t idle_ns) {
  MST_ASSERT(cluster->scaled == NULL && cluster->calls.policy.on);
  cluster->scaled = calloc(cluster->group_count, sizeof *cluster->scaled);
  if (cluster->scaled == NULL) return -MST_EMEM;
  for (uint32_t g = 0; g < cluster->group_count; g++)
    cluster->scaled[g].busy_ns = mst_clock_now();
  cluster->scale = (struct mst_scale){.idle_ns = idle_ns};
  mst_cluster_scale_soon(cluster);
  return 0;
}

// ---- facts

static enum mst_scale_is is_now(const struct mst_group *group) {
  return group->site->is == MST_SITE_ASLEEP ? MST_SCALE_ASLEEP
         : group->site->is == MST_SITE_UP   ? MST_SCALE_UP
                                            : MST_SCALE_AWAITED;
}

static int is_idle(const struct mst_look *look,
                   const struct mst_worker *worker) {
  return look->state == MST_WORKER_IDLE && worker->mailbox.first == NULL &&
         !look->resuming && !look->replaying && !worker->journal.asking;
}

static void look_at_worker(struct mst_cluster *cluster, uint32_t index,
                           int64_t now_ns) {
  const struct mst_peer *peer = cluster->peers[index];
  struct mst_scale_host *host = &cluster->scaled[peer->group - cluster->groups];
  const struct mst_look look = mst_peer_look(peer, now_ns);
  if (!look.lives || peer->group->site->is == MST_SITE_LOST) return;
  host->workers++;
  if (host->is == MST_SCALE_ASLEEP) {
    host->called |= peer->worker->mailbox.first != NULL;
    host->wanted |=
        mst_queue_first(&cluster->calls.dispatch.queue, index, 0) != NULL;
  } else if (host->is == MST_SCALE_UP) {
    host->busy |= !is_idle(&look, peer->worker);
    host->coming += !look.up && look.state != MST_WORKER_DRAINING;
    // It may have done something since the last look.
    if (peer->worker->head_ns > host->busy_ns)
      host->busy_ns = peer->worker->head_ns;
    host->stays |=
        !mst_calls_can_move(&cluster->calls, index, cluster->scale.idle_ns);
  }
}

static void look_at_workers(struct mst_cluster *cluster, int64_t now_ns) {
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    const struct mst_group *group = &cluster->groups[g];
    struct mst_scale_host *host = &cluster->scaled[g];
    const int stays =
        !group->site->terms.scales || group->leaves != NULL || group->kept > 0;
    *host = (struct mst_scale_host){.is = is_now(group),
                                    .called = group->kept > 0,
                                    .stays = (uint8_t)stays,
                                    .busy_ns = host->busy_ns};
  }
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++)
    look_at_worker(cluster, i, now_ns);
}

// ---- decisions

static void act(struct mst_cluster *cluster, int64_t now_ns) {
  static const enum mst_site_fact facts[] = {
      [MST_SCALE_WAKE] = MST_SITE_WAKE, [MST_SCALE_SLEEP] = MST_SITE_SLEEP};
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    const enum mst_scale_do what = cluster->scaled[g].act;
    if (what == MST_SCALE_NOTHING) continue;
    (void)mst_site_tell(cluster->groups[g].site, facts[what], 0, now_ns);
  }
  mst_cluster_look_at_sites(cluster, now_ns);
}

static int is_left(const struct mst_cluster *cluster) {
  uint32_t g = 0;
  while (g < cluster->group_count && cluster->groups[g].leaves == NULL)
    g++;
  return g < cluster->group_count;
}

// away_ns gives when to look again though nobody waits.
static int64_t away_ns(const struct mst_cluster *cluster, int left,
                       int64_t now_ns) {
  int64_t due_ns =
      mst_scale_due_ns(&cluster->scale, cluster->scaled, cluster->group_count);
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    if (cluster->scaled[g].busy && due_ns > now_ns + AWAY_NS)
      due_ns = now_ns + AWAY_NS;
  }
  return left && due_ns > now_ns + LOOK_NS ? now_ns + LOOK_NS : due_ns;
}

void mst_cluster_look_at_scale(struct mst_cluster *cluster, int64_t now_ns) {
  if (cluster->scale_ns > now_ns) return;
  if (cluster->calls.pool.phase != MST_POOL_RUNNING || cluster->stop_begun) {
    cluster->scale_ns = cluster->scale_away_ns = INT64_MAX;
    return;
  }
  look_at_workers(cluster, now_ns);
  (void)mst_scale_look(&cluster->scale, cluster->scaled, cluster->group_count,
                       mst_queue_count(&cluster->calls.dispatch.queue), now_ns);
  act(cluster, now_ns);
  cluster->scale_ns = now_ns + LOOK_NS;
  cluster->scale_away_ns = away_ns(cluster, is_left(cluster), now_ns);
}

int64_t mst_session_scale_ns(const struct mst_session *session) {
  int64_t first_ns = INT64_MAX;
  for (const struct mst_cluster *at = session->clusters; at != NULL;
       at = at->next) {
    if (at->scale_away_ns < first_ns) first_ns = at->scale_away_ns;
  }
  return first_ns;
}

// ---- what callers say

void mst_cluster_keep(struct mst_cluster *cluster, uint32_t group, int more) {
  uint32_t *kept = &cluster->groups[group].kept;
  *kept = more < 0 ? *kept - (*kept > 0) : *kept + 1;
  mst_cluster_scale_soon(cluster);
}
