// Gives up a session after one of its assertions failed. The contract is in session.h.
//
// Problem: any part of the core's state may be wrong. Stopping the clusters as usual might wait for
// ever, return a wrong answer, or write to the wrong place.
//
// Way chosen: nothing of the core is used again. Workers and servers see the end of their channels,
// as they do when the session's process ends, and end themselves.
#include "pool/session_int.h"

static void break_peer(struct mst_peer *peer) {
  mst_conduit_break(&peer->conduit);
  mst_net_shutdown(peer->standby.chan.fd);
  mst_net_shutdown(peer->next_standby.chan.fd);
  mst_chan_leave(&peer->standby.chan);
  mst_chan_leave(&peer->next_standby.chan);
}

static void break_cluster(struct mst_cluster *cluster) {
  cluster->closed = 1;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++)
    break_peer(cluster->peers[i]);
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    struct mst_spawner *spawner = cluster->groups[g].spawner;
    if (spawner != NULL) mst_spawner_end(spawner);
  }
}

void mst_session_break(struct mst_session *session) {
  struct mst_cluster *cluster = session->clusters;
  session->broken = 1;
  session->clusters = NULL; // so launchers' news reaches no cluster
  mst_io_thread_end(session->io_thread);
  session->io_thread = NULL;
  session->counts.tasks_done++; // whoever waits has to ask
  mst_session_tell_over(session);
  for (; cluster != NULL; cluster = cluster->next)
    break_cluster(cluster);
  if (session->prints != session->loop) mst_loop_close(session->prints);
  mst_loop_close(session->loop);
  session->loop = session->prints = NULL;
}

const char *mst_session_failure(const struct mst_session *session) {
  return session->io_thread == NULL ? NULL
                                    : mst_io_thread_failure(session->io_thread);
}
