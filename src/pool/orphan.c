// What is known of workers whose launcher is gone.
#include <errno.h>

#include "pool/session_int.h"

int mst_peer_is_told(const struct mst_peer *peer) {
  struct mst_launcher *launcher = peer->launcher;
  const struct mst_incarnation of = mst_peer_incarnation(peer);
  return !launcher->gone ||
         (launcher->tells != NULL && launcher->tells(launcher, &of));
}

void mst_cluster_reap(struct mst_cluster *cluster) {
  struct mst_launcher *asked = cluster->launcher;
  asked->reap(asked);
  if (!cluster->adopted) return;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    struct mst_launcher *launcher = cluster->peers[i]->launcher;
    if (!mst_peer_worker(cluster->peers[i])->awaited || launcher == asked ||
        launcher == NULL || !mst_peer_is_told(cluster->peers[i])) {
      continue;
    }
    launcher->reap(launcher);
    asked = launcher;
  }
}

// orphan_event: for a worker whose end no launcher will report, whether it never started, or has
// ended (its channel ended, or it was to be killed). MST_EV_TICK: neither.
static enum mst_event_kind orphan_event(const struct mst_peer *peer) {
  const struct mst_worker *worker = mst_peer_worker(peer);
  if (!worker->awaited || peer->launcher == NULL || mst_peer_is_told(peer)) {
    return MST_EV_TICK;
  }
  if ((worker->state == MST_WORKER_STARTING ||
       worker->state == MST_WORKER_RESTARTING) &&
      worker->pid == 0 && !peer->hello_seen) {
    return MST_EV_LAUNCH_FAILED;
  }
  const int to_be_killed = worker->kill_ns != INT64_MAX;
  return mst_worker_channel_open(worker) && !to_be_killed ? MST_EV_TICK
                                                          : MST_EV_EXITED;
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
