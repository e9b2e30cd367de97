// What run.c and peer.c share.
#ifndef MST_POOL_RUN_INT_H
#define MST_POOL_RUN_INT_H

#include "pool/run.h"

// mst_cluster_event gives the pool an event and carries out what it says.
void mst_cluster_event(struct mst_cluster *cluster,
                       const struct mst_event *event);

void mst_peer_init(struct mst_peer *peer, struct mst_cluster *cluster,
                   uint32_t index);
// mst_peer_launch makes the worker's channels, asks the launcher for a process
// and sends it its set-up. On an error nothing is left open.
int mst_peer_launch(struct mst_peer *peer, struct mst_err *err);
// mst_peer_lost stops reading from a worker that is lost: a process that it left
// behind may hold the other end for ever.
void mst_peer_lost(struct mst_peer *peer);
// mst_peer_want_write has the loop flush the data channel's queue.
void mst_peer_want_write(struct mst_peer *peer);
#endif
