// The session's end of one worker: what it is, and what the loop is to tell of its data channel.
#include "pool/session_int.h"

static void printed(void *owner, const char *bytes, size_t n) {
  struct mst_peer *peer = owner;
  if (peer->slot->replay_left > 0) return; // it was printed the first time
  mst_log_write(&peer->cluster->log, &peer->part, peer->index, bytes, n);
}

void mst_standby_init(struct mst_standby *standby) {
  *standby = (struct mst_standby){.chan = {.fd = -1}, .io = {.fd = -1}};
}

void mst_peer_init(struct mst_peer *peer, struct mst_cluster *cluster,
                   uint32_t index) {
  peer->cluster = cluster;
  peer->index = index;
  peer->data.fd = peer->control.fd = -1;
  peer->data_io.fd = peer->control_io.fd = peer->output.io.fd = -1;
  mst_standby_init(&peer->standby);
  mst_standby_init(&peer->next_standby);
  peer->output.sink = printed;
  peer->output.sink_owner = peer;
}

const struct mst_worker *mst_peer_worker(const struct mst_peer *peer) {
  return &peer->cluster->calls.pool.workers[peer->index];
}

int mst_peer_is_up(const struct mst_peer *peer) {
  return mst_calls_is_up(&peer->cluster->calls, peer->slot);
}

void mst_peer_hold(struct mst_peer *peer) {
  if (peer->held) return;
  peer->held = 1;
  peer->cluster->held++;
}

void mst_peer_hold_no_more(struct mst_peer *peer) {
  if (!peer->held) return;
  peer->held = 0;
  peer->cluster->held--;
}

void mst_peer_unwatch(struct mst_peer *peer) {
  mst_loop_remove(peer->cluster->session->loop, &peer->data_io);
  peer->data.ended = 1;
  peer->no_memory = 0;
  mst_peer_hold_no_more(peer);
}

// want has the loop tell what the data channel is ready for.
void mst_peer_want(struct mst_peer *peer) {
  if (peer->data_io.slot == 0) return; // it is lost
  const uint32_t read = peer->held ? 0 : MST_READABLE;
  const uint32_t write = mst_chan_wants_write(&peer->data) ? MST_WRITABLE : 0;
  const int64_t later_ns = mst_chan_later_ns(&peer->data);
  if (later_ns < peer->cluster->flush_ns) peer->cluster->flush_ns = later_ns;
  (void)mst_loop_want(peer->cluster->session->loop, &peer->data_io,
                      read | write, NULL);
}

void mst_cluster_flush_late(struct mst_cluster *cluster) {
  cluster->flush_ns = INT64_MAX;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    struct mst_peer *peer = cluster->peers[i];
    if (mst_chan_later_ns(&peer->data) == INT64_MAX) continue;
    (void)mst_chan_flush(&peer->data, NULL);
    mst_peer_want(peer); // notes when the next try is due
  }
}
