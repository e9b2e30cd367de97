// The launchers of clusters: what they want, and what is known of workers whose launcher is gone.
#include <errno.h>

#include "pool/session_int.h"

// A host that doesn't answer within this time while its workers are ended is silent. A loaded one
// may only be late: then it sees the end of its link, and ends them itself.
#define SILENT_NS (3 * MST_NS_PER_S)

int mst_peer_is_told(const struct mst_peer *peer) {
  struct mst_launcher *launcher = peer->launcher;
  const struct mst_incarnation of = mst_peer_incarnation(peer);
  return !launcher->gone ||
         (launcher->tells != NULL && launcher->tells(launcher, &of));
}

void mst_cluster_reap(struct mst_cluster *cluster) {
  int adopted = 0;
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    struct mst_launcher *launcher = cluster->groups[g].launcher;
    launcher->reap(launcher);
    adopted |= cluster->groups[g].adopted;
  }
  struct mst_launcher *asked = NULL;
  for (uint32_t i = 0; adopted && i < cluster->calls.pool.count; i++) {
    const struct mst_peer *peer = cluster->peers[i];
    struct mst_launcher *former = peer->launcher;
    if (!peer->worker->awaited || former == asked || former == NULL ||
        former == peer->group->launcher || !mst_peer_is_told(peer)) {
      continue;
    }
    former->reap(former);
    asked = former;
  }
}

void mst_session_news(void *owner, const struct mst_news *news) {
  struct mst_session *session = owner;
  struct mst_cluster *cluster = session->clusters;
  while (cluster != NULL && cluster->id != news->of.cluster) {
    cluster = cluster->next;
  }
  if (cluster == NULL || news->of.worker >= cluster->calls.pool.count ||
      news->of.epoch != cluster->calls.pool.workers[news->of.worker]->epoch) {
    return; // of a freed cluster, or of an earlier incarnation
  }
  static const enum mst_event_kind kinds[] = {
      [MST_NEWS_FORKED] = MST_EV_FORKED,
      [MST_NEWS_FORK_FAILED] = MST_EV_LAUNCH_FAILED,
      [MST_NEWS_EXITED] = MST_EV_EXITED};
  if (news->kind == MST_NEWS_EXITED) {
    mst_calls_heard(&cluster->calls, news->of.worker, mst_clock_now());
    mst_peer_exited(cluster->peers[news->of.worker]);
  }
  const struct mst_event event = {.kind = kinds[news->kind],
                                  .worker = news->of.worker,
                                  .how = news->how,
                                  .number = news->number};
  mst_calls_event(&cluster->calls, &event, mst_clock_now());
}

// orphan_event: for a worker whose end no launcher will report, whether it never started, or has
// ended (its channel ended, or it was to be killed). MST_EV_TICK: neither.
static enum mst_event_kind orphan_event(const struct mst_peer *peer) {
  const struct mst_worker *worker = peer->worker;
  if (!worker->awaited || peer->launcher == NULL || mst_peer_is_told(peer)) {
    return MST_EV_TICK;
  }
  if ((worker->state == MST_WORKER_STARTING ||
       worker->state == MST_WORKER_RESTARTING) &&
      worker->pid == 0 && !peer->hello_seen) {
    return MST_EV_LAUNCH_FAILED;
  }
  const int to_be_killed = worker->kill_ns != INT64_MAX;
  return worker->channel && !to_be_killed ? MST_EV_TICK : MST_EV_EXITED;
}

void mst_cluster_orphans(struct mst_cluster *cluster) {
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    const struct mst_event event = {.kind = orphan_event(cluster->peers[i]),
                                    .worker = i,
                                    .how = MST_EXIT_UNKNOWN,
                                    .number = ECONNRESET};
    if (event.kind == MST_EV_TICK) continue;
    // If the process still runs, its watch ends it now.
    mst_conduit_cut_control(&cluster->peers[i]->conduit);
    if (event.kind == MST_EV_EXITED) mst_peer_exited(cluster->peers[i]);
    mst_calls_event(&cluster->calls, &event, mst_clock_now());
  }
}

// ---- sites

static int launch_nothing(struct mst_launcher *self,
                          const struct mst_incarnation *of,
                          struct mst_conduit *conduit, struct mst_err *err) {
  (void)self;
  (void)of;
  (void)conduit;
  return mst_err_set(err, MST_ESYS, ENOENT, NULL, "there is no launcher");
}

static void signal_nothing(struct mst_launcher *self,
                           const struct mst_incarnation *of, pid_t pid,
                           int signal) {
  (void)self;
  (void)of;
  (void)pid;
  (void)signal;
}

static void reap_nothing(struct mst_launcher *self) { (void)self; }

void mst_session_nowhere(struct mst_session *session) {
  session->nowhere_host = (struct mst_host){.name = "-"};
  session->nowhere = (struct mst_launcher){.host = &session->nowhere_host,
                                           .launch = launch_nothing,
                                           .signal = signal_nothing,
                                           .reap = reap_nothing};
}

void mst_peer_pend(struct mst_peer *peer) {
  peer->launcher = NULL;
  peer->host = &peer->cluster->session->nowhere_host;
}

void mst_cluster_launch(struct mst_cluster *cluster, uint32_t index) {
  struct mst_err err;
  mst_err_clear(&err);
  cluster->peers[index]->retired = 0;
  if (mst_peer_launch(cluster->peers[index], &err) == 0) return;
  const struct mst_event failed = {.kind = MST_EV_LAUNCH_FAILED,
                                   .worker = index,
                                   .number = err.sys_errno != 0 ? err.sys_errno
                                                                : EIO};
  mst_calls_event(&cluster->calls, &failed, mst_clock_now());
}

void mst_group_look(struct mst_cluster *cluster, struct mst_group *group) {
  struct mst_site *site = group->site;
  struct mst_launcher *nowhere = &cluster->session->nowhere;
  if (group->launcher->gone) {
    (void)mst_site_tell(site, MST_SITE_SERVERLESS, 0, mst_clock_now());
  }
  if (site->left != group->left) {
    group->left = site->left;
    group->launcher->host->next_left = group->leaves;
    group->leaves = group->launcher->host;
  }
  if (mst_site_waits(site) && group->launcher != nowhere) {
    group->launcher = nowhere;
    group->adopted = 1;
  }
}

static int is_on(const struct mst_cluster *cluster,
                 const struct mst_host *host) {
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    const struct mst_peer *peer = cluster->peers[i];
    if (peer->host == host && peer->worker->awaited) return 1;
  }
  return 0;
}

// release_left ends the hosts that all workers have left.
static void release_left(const struct mst_cluster *cluster,
                         struct mst_group *group) {
  for (struct mst_host **at = &group->leaves; *at != NULL;) {
    struct mst_host *host = *at;
    if (is_on(cluster, host)) {
      at = &host->next_left;
      continue;
    }
    *at = host->next_left;
    host->next_left = NULL;
    if (host->release != NULL) host->release(host);
  }
}

void mst_cluster_look_at_sites(struct mst_cluster *cluster, int64_t now_ns) {
  for (uint32_t g = 0; g < cluster->group_count; g++)
    mst_group_look(cluster, &cluster->groups[g]);
  mst_calls_look_at_sites(&cluster->calls, now_ns);
  for (uint32_t g = 0; g < cluster->group_count; g++)
    release_left(cluster, &cluster->groups[g]);
}

void mst_cluster_scale_soon(struct mst_cluster *cluster) {
  if (cluster->scaled != NULL) cluster->scale_ns = cluster->scale_away_ns = 0;
}

void mst_cluster_adopt(struct mst_cluster *cluster, struct mst_group *group,
                       struct mst_launcher *launcher) {
  mst_group_look(cluster, group);
  group->launcher = launcher;
  group->adopted = 1;
  (void)mst_site_tell(group->site, MST_SITE_SERVED, 0, mst_clock_now());
  mst_cluster_look_at_sites(cluster, mst_clock_now());
  mst_cluster_scale_soon(cluster); // it may have to be given back
}

uint32_t mst_cluster_waiting(const struct mst_cluster *cluster,
                             const struct mst_group *group) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    const struct mst_peer *peer = cluster->peers[i];
    n += peer->group == group && peer->worker->pends &&
         peer->worker->kill_ns == INT64_MAX;
  }
  return n;
}

// ---- hosts that are silent

static int is_far(const struct mst_peer *peer) {
  return peer->worker->awaited && peer->host->release != NULL;
}

static int was_heard(const struct mst_cluster *cluster,
                     const struct mst_host *host) {
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    const struct mst_peer *peer = cluster->peers[i];
    if (peer->host == host && peer->worker->heal.heard_ns >= cluster->asked_ns)
      return 1;
  }
  return 0;
}

void mst_cluster_leave_silent(struct mst_cluster *cluster, int64_t slept_ns,
                              int64_t now_ns) {
  const struct mst_pool *pool = &cluster->calls.pool;
  if (pool->phase != MST_POOL_STOPPING && pool->phase != MST_POOL_FAILING)
    return;
  // After a long sleep, signs may have come that weren't read yet.
  if (slept_ns > MST_NS_PER_S) cluster->asked_ns = 0;
  if (cluster->asked_ns != 0 && now_ns - cluster->asked_ns < SILENT_NS) return;
  for (uint32_t i = 0; cluster->asked_ns != 0 && i < pool->count; i++) {
    struct mst_host *host = cluster->peers[i]->host;
    if (!is_far(cluster->peers[i]) || host->silent) continue;
    if (was_heard(cluster, host)) continue;
    host->silent = 1;
    host->release(host);
  }
  cluster->asked_ns = now_ns;
  for (uint32_t i = 0; i < pool->count; i++) {
    if (is_far(cluster->peers[i])) mst_peer_ask_sign(cluster->peers[i]);
  }
}

int64_t mst_cluster_due_ns(const struct mst_cluster *cluster) {
  int64_t first_ns = INT64_MAX;
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    const int64_t due_ns = cluster->groups[g].launcher->due_ns;
    if (due_ns != 0 && due_ns < first_ns) first_ns = due_ns;
  }
  return first_ns;
}

int mst_cluster_spawns(const struct mst_cluster *cluster) {
  for (uint32_t g = 0; g < cluster->group_count; g++)
    if (cluster->groups[g].spawner != NULL) return 1;
  return 0;
}

int mst_cluster_lacks_reports(const struct mst_cluster *cluster) {
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    const struct mst_group *group = &cluster->groups[g];
    if (group->adopted || group->launcher->gone) return 1;
  }
  return 0;
}

static void set_silence(const struct mst_cluster *cluster, int64_t beat_ns) {
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    int64_t *silence_ns = &cluster->groups[g].launcher->silence_ns;
    if (*silence_ns == 0 || beat_ns < *silence_ns) *silence_ns = beat_ns;
  }
}

void mst_session_set_silence(const struct mst_session *session) {
  for (struct mst_cluster *at = session->clusters; at != NULL; at = at->next)
    for (uint32_t g = 0; g < at->group_count; g++)
      at->groups[g].launcher->silence_ns = 0;
  for (struct mst_cluster *at = session->clusters; at != NULL; at = at->next) {
    const int64_t beat_ns = at->calls.policy.heartbeat_ns;
    if (beat_ns != INT64_MAX) set_silence(at, beat_ns);
  }
}

static int cluster_needs(const struct mst_cluster *cluster,
                         const struct mst_launcher *launcher) {
  for (uint32_t g = 0; g < cluster->group_count; g++)
    if (cluster->groups[g].launcher == launcher) return 1;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    const struct mst_peer *peer = cluster->peers[i];
    if ((peer->launcher == launcher && peer->worker->awaited) ||
        peer->standby.home == launcher || peer->next_standby.home == launcher) {
      return 1;
    }
  }
  return 0;
}

int mst_session_needs(const struct mst_session *session,
                      const struct mst_launcher *launcher) {
  const struct mst_cluster *cluster = session->clusters;
  while (cluster != NULL && !cluster_needs(cluster, launcher))
    cluster = cluster->next;
  return cluster != NULL;
}

static int cluster_has_host(const struct mst_cluster *cluster,
                            const struct mst_host *host) {
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    if (cluster->groups[g].launcher->host == host) return 1;
    const struct mst_host *left = cluster->groups[g].leaves;
    while (left != NULL && left != host)
      left = left->next_left;
    if (left != NULL) return 1;
  }
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++)
    if (cluster->peers[i]->host == host) return 1;
  return 0;
}

int mst_session_has_host(const struct mst_session *session,
                         const struct mst_host *host) {
  const struct mst_cluster *cluster = session->clusters;
  while (cluster != NULL && !cluster_has_host(cluster, host))
    cluster = cluster->next;
  return cluster != NULL;
}
