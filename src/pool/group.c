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

// ---- launchers

// The number of workers may be large, so only of changes.
void mst_group_tell(struct mst_cluster *cluster, struct mst_group *group) {
  const uint8_t is = group->lost             ? MST_LAUNCHER_LOST
                     : group->launcher->gone ? MST_LAUNCHER_GONE
                                             : MST_LAUNCHER_THERE;
  if (is == group->launcher_is) return;
  group->launcher_is = is;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    if (cluster->peers[i]->group == group)
      cluster->peers[i]->worker->launcher = is;
  }
}

// ---- groups that wait for a launcher

// Launches asked for at once, of those that were pending: the pool's window doesn't count them.
#define JOINING_MOST 32u

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
  const struct mst_event pending = {.kind = MST_EV_PENDING,
                                    .worker = peer->index};
  peer->launcher = NULL;
  peer->host = &peer->cluster->session->nowhere_host;
  mst_calls_event(&peer->cluster->calls, &pending, mst_clock_now());
}

static int is_waiting(const struct mst_peer *peer) {
  const struct mst_worker *worker = peer->worker;
  return peer->launcher == NULL && worker->awaited &&
         worker->state == MST_WORKER_PENDING;
}

static int is_joining(const struct mst_peer *peer) {
  const struct mst_worker *worker = peer->worker;
  return peer->launcher != NULL && worker->queued &&
         (worker->state == MST_WORKER_PENDING ||
          worker->state == MST_WORKER_STARTING ||
          worker->state == MST_WORKER_RESTARTING);
}

static void not_launched(const struct mst_peer *peer) {
  const struct mst_event failed = {
      .kind = MST_EV_LAUNCH_FAILED, .worker = peer->index, .number = ENOENT};
  mst_calls_event(&peer->cluster->calls, &failed, mst_clock_now());
}

void mst_cluster_launch(struct mst_cluster *cluster, uint32_t index) {
  struct mst_err err;
  mst_err_clear(&err);
  cluster->peers[index]->retired = 0;
  if (cluster->peers[index]->group->waits) {
    mst_peer_pend(cluster->peers[index]);
    return;
  }
  if (mst_peer_launch(cluster->peers[index], &err) == 0) return;
  const struct mst_event failed = {.kind = MST_EV_LAUNCH_FAILED,
                                   .worker = index,
                                   .number = err.sys_errno != 0 ? err.sys_errno
                                                                : EIO};
  mst_calls_event(&cluster->calls, &failed, mst_clock_now());
}

// look_at_waiting takes back the launches of pending workers that must end, or whose launcher won't
// come, and asks for those whose launcher has come.
static void look_at_waiting(struct mst_cluster *cluster,
                            struct mst_group *group) {
  uint32_t waiting = 0, joining = 0;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    struct mst_peer *peer = cluster->peers[i];
    const struct mst_worker *worker = peer->worker;
    if (peer->group != group) continue;
    joining += (uint32_t)is_joining(peer);
    if (!is_waiting(peer)) continue;
    if (worker->kill_ns != INT64_MAX || group->lost) {
      not_launched(peer);
    } else if (!group->waits && joining < JOINING_MOST) {
      mst_cluster_launch(cluster, i);
      joining++;
    } else {
      waiting++;
    }
  }
  if (!group->waits && waiting == 0) group->joined = 0;
}

void mst_cluster_ask_launchers(struct mst_cluster *cluster) {
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    struct mst_group *group = &cluster->groups[g];
    mst_group_tell(cluster, group);
    if (group->waits || group->joined) look_at_waiting(cluster, group);
  }
}

void mst_cluster_scale_soon(struct mst_cluster *cluster) {
  if (cluster->scaled != NULL) cluster->scale_ns = cluster->scale_away_ns = 0;
}

void mst_cluster_adopt(struct mst_cluster *cluster, struct mst_group *group,
                       struct mst_launcher *launcher) {
  group->launcher = launcher;
  mst_cluster_scale_soon(cluster); // it may have to be given back
  group->orphaned = group->lost = 0;
  group->adopted = 1;
  group->joined |= group->waits;
  group->waits = group->asleep = group->woken = 0;
  mst_group_tell(cluster, group);
}

uint32_t mst_cluster_waiting(const struct mst_cluster *cluster,
                             const struct mst_group *group) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    const struct mst_peer *peer = cluster->peers[i];
    n += peer->group == group && is_waiting(peer) &&
         peer->worker->kill_ns == INT64_MAX;
  }
  return n;
}

void mst_cluster_await(struct mst_cluster *cluster, struct mst_group *group) {
  group->launcher = &cluster->session->nowhere;
  group->orphaned = group->lost = 0;
  group->adopted = group->waits = 1;
  mst_group_tell(cluster, group);
}

uint32_t mst_group_move(struct mst_cluster *cluster,
                        const struct mst_group *group,
                        const struct mst_host *host) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    const struct mst_peer *peer = cluster->peers[i];
    if (peer->group != group || peer->host != host) continue;
    if (!peer->worker->awaited) continue;
    mst_calls_move(&cluster->calls, i, mst_clock_now());
    n++;
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

void mst_cluster_give_up(struct mst_cluster *cluster, struct mst_group *group) {
  group->orphaned = 0;
  group->lost = 1;
  group->joined |= group->waits;
  group->waits = group->asleep = group->woken = 0;
  mst_group_tell(cluster, group);
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

int mst_session_waits(const struct mst_session *session) {
  for (const struct mst_cluster *at = session->clusters; at != NULL;
       at = at->next) {
    for (uint32_t g = 0; g < at->group_count; g++)
      if (at->groups[g].waits && !at->groups[g].asleep) return 1;
  }
  return 0;
}

static int cluster_has_host(const struct mst_cluster *cluster,
                            const struct mst_host *host) {
  for (uint32_t g = 0; g < cluster->group_count; g++)
    if (cluster->groups[g].launcher->host == host ||
        cluster->groups[g].leaves == host) {
      return 1;
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
