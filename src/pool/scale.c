// Clusters that let hosts go when nothing is to do, and ask for them again. See sched/scale.h.
#include <stdlib.h>

#include "pool/look.h"
#include "pool/session_int.h"

// How often it is looked at what is needed, while somebody waits and while nobody does.
#define LOOK_NS (100 * MST_NS_PER_MS)
#define AWAY_NS MST_NS_PER_S

int mst_cluster_scale(struct mst_cluster *cluster, const uint8_t *scales,
                      int64_t idle_ns) {
  MST_ASSERT(cluster->scaled == NULL && cluster->calls.policy.on);
  cluster->scaled = calloc(cluster->group_count, sizeof *cluster->scaled);
  if (cluster->scaled == NULL) return -MST_EMEM;
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    cluster->scaled[g].busy_ns = mst_clock_now();
    cluster->groups[g].scales = scales[g];
    cluster->groups[g].asleep = scales[g] && cluster->groups[g].waits;
  }
  cluster->scale = (struct mst_scale){.idle_ns = idle_ns};
  mst_cluster_scale_soon(cluster);
  return 0;
}

// ---- facts

static enum mst_scale_is is_now(const struct mst_group *group) {
  if (group->waits && group->asleep) return MST_SCALE_ASLEEP;
  const int there = !group->waits && !group->lost && !group->launcher->gone;
  return there ? MST_SCALE_UP : MST_SCALE_AWAITED;
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
  if (!look.lives || peer->group->lost) return;
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
        !group->scales || group->leaves != NULL || group->kept > 0;
    *host = (struct mst_scale_host){.is = is_now(group),
                                    .called = group->kept > 0,
                                    .stays = (uint8_t)stays,
                                    .busy_ns = host->busy_ns};
  }
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++)
    look_at_worker(cluster, i, now_ns);
}

// ---- decisions

static void let_go(struct mst_cluster *cluster, struct mst_group *group) {
  group->leaves = group->launcher->host;
  group->asleep = 1;
  mst_cluster_await(cluster, group);
}

static void act(struct mst_cluster *cluster) {
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    struct mst_group *group = &cluster->groups[g];
    if (cluster->scaled[g].act == MST_SCALE_SLEEP) let_go(cluster, group);
    if (cluster->scaled[g].act != MST_SCALE_WAKE) continue;
    group->asleep = 0;
    group->woken = 1;
  }
}

// leave_hosts has workers leave hosts that were given back; the last one out ends its host. Returns
// whether some are left.
static int leave_hosts(struct mst_cluster *cluster) {
  int left = 0;
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    struct mst_group *group = &cluster->groups[g];
    struct mst_host *host = group->leaves;
    if (host == NULL) continue;
    if (mst_group_move(cluster, group, host) > 0) {
      left = 1;
      continue;
    }
    group->leaves = NULL;
    if (host->release != NULL) host->release(host);
  }
  return left;
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
  act(cluster);
  const int left = leave_hosts(cluster);
  cluster->scale_ns = now_ns + LOOK_NS;
  cluster->scale_away_ns = away_ns(cluster, left, now_ns);
}

int64_t mst_session_scale_ns(const struct mst_session *session) {
  int64_t first_ns = INT64_MAX;
  for (const struct mst_cluster *at = session->clusters; at != NULL;
       at = at->next) {
    if (at->scale_away_ns < first_ns) first_ns = at->scale_away_ns;
  }
  return first_ns;
}

// ---- groups that somebody has to ask for

uint32_t mst_cluster_woken(struct mst_cluster *cluster) {
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    if (!cluster->groups[g].woken) continue;
    cluster->groups[g].woken = 0;
    return g;
  }
  return MST_NO_GROUP;
}

void mst_cluster_keep(struct mst_cluster *cluster, uint32_t group, int more) {
  uint32_t *kept = &cluster->groups[group].kept;
  *kept = more < 0 ? *kept - (*kept > 0) : *kept + 1;
  mst_cluster_scale_soon(cluster);
}

static int cluster_has_woken(const struct mst_cluster *cluster) {
  for (uint32_t g = 0; cluster->scaled != NULL && g < cluster->group_count; g++)
    if (cluster->groups[g].woken) return 1;
  return 0;
}

int mst_session_woken(const struct mst_session *session) {
  const struct mst_cluster *at = session->clusters;
  while (at != NULL && !cluster_has_woken(at))
    at = at->next;
  return at != NULL;
}
