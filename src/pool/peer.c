// The session's end of one worker: its state, and whether its channel is read.
#include <stdlib.h>

#include "pool/session_int.h"

struct mst_incarnation mst_peer_incarnation(const struct mst_peer *peer) {
  return (struct mst_incarnation){.cluster = peer->cluster->id,
                                  .worker = peer->index,
                                  .epoch = peer->worker->epoch};
}

int mst_peer_is_up(const struct mst_peer *peer) {
  return mst_worker_is_up(peer->worker);
}

void mst_peer_hold(struct mst_peer *peer) {
  if (peer->conduit.held) return;
  mst_conduit_hold(&peer->conduit, 1);
  peer->cluster->held++;
}

void mst_peer_hold_no_more(struct mst_peer *peer) {
  if (!peer->conduit.held) return;
  mst_conduit_hold(&peer->conduit, 0);
  peer->cluster->held--;
}

void mst_peer_unwatch(struct mst_peer *peer) {
  mst_conduit_deafen(&peer->conduit);
  peer->no_memory = 0;
  mst_peer_hold_no_more(peer);
}

void mst_peer_remove_directory(struct mst_peer *peer) {
  struct mst_host *host = peer->host;
  if (host->shares_files) {
    mst_trash_put(peer->cluster->session, peer->tempdir);
  } else {
    if (host->remove != NULL && peer->tempdir != NULL)
      host->remove(host, peer->tempdir);
    free(peer->tempdir);
  }
  peer->tempdir = NULL;
}

void mst_cluster_flush_late(struct mst_cluster *cluster) {
  cluster->flush_ns = INT64_MAX; // conduits set the time of the next try
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++)
    mst_conduit_flush(&cluster->peers[i]->conduit);
}
