// Links between workers: the session makes a socketpair for each pair of incarnations and
// hands the ends over. What they are for: docs/SHUFFLE.md. The contract is in run.h.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_clock.h"
#include "pool/run.h"
#include "pool/run_int.h"
#include "wire/link.h"

// pair_at gives what is noted of a pair: 0, or which incarnations have a link.
static uint64_t *pair_at(struct mst_cluster *cluster, uint32_t i, uint32_t j) {
  return &cluster->links[(size_t)i * cluster->link_count + j];
}

static uint64_t pair_of(uint32_t epoch_i, uint32_t epoch_j) {
  return ((uint64_t)epoch_i + 1) << 32 | ((uint64_t)epoch_j + 1);
}

// What is noted of a worker itself, in the diagonal: which incarnation had all its links when
// they were looked at last.
static uint64_t seen_of(const struct mst_peer *peer) {
  if (!mst_peer_is_up(peer) || peer->control.fd < 0) return 0;
  const uint32_t epoch = mst_peer_worker(peer)->epoch;
  return pair_of(epoch, epoch);
}

// is_settled: no worker has come or gone since. This is asked for each answer of a shuffle, where
// a look at all pairs would be long with many workers.
static int is_settled(struct mst_cluster *cluster) {
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    if (*pair_at(cluster, i, i) != seen_of(cluster->peers[i])) return 0;
  }
  return 1;
}

static void settle(struct mst_cluster *cluster) {
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++)
    *pair_at(cluster, i, i) = seen_of(cluster->peers[i]);
}

// make_room for as many workers as there are now; what is noted stays.
static int make_room(struct mst_cluster *cluster, struct mst_err *err) {
  const uint32_t n = cluster->calls.pool.count, before = cluster->link_count;
  if (n <= before) return 0;
  uint64_t *links = calloc((size_t)n * n, sizeof *links);
  if (links == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for links");
  }
  for (uint32_t i = 0; i < before; i++) {
    memcpy(links + (size_t)i * n, cluster->links + (size_t)i * before,
           before * sizeof *links);
  }
  free(cluster->links);
  cluster->links = links;
  cluster->link_count = n;
  return 0;
}

// tell sends one end. With a descriptor a frame is sent at once or not at all.
static int tell(struct mst_peer *peer, const struct mst_peer *other, int fd,
                struct mst_err *err) {
  const struct mst_link_msg msg = {.worker = other->index,
                                   .epoch = mst_peer_worker(other)->epoch};
  struct mst_head head = {.kind = MST_KIND_LINK,
                          .cluster = peer->cluster->id,
                          .worker = peer->index,
                          .epoch = mst_peer_worker(peer)->epoch};
  uint8_t bytes[MST_LINK_BYTES];
  mst_link_encode(&msg, bytes);
  struct mst_blob *blob = mst_blob_new();
  if (blob == NULL || mst_buf_append(&blob->buf, bytes, sizeof bytes) != 0) {
    mst_blob_release(blob);
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a frame");
  }
  const int rc = mst_chan_send(&peer->control, &head, blob, &fd, 1, 0, err);
  mst_blob_release(blob);
  return rc;
}

// Pauses between tries while this user has too many descriptors under way.
#define LINK_PAUSE_MIN_NS MST_NS_PER_MS
#define LINK_PAUSE_MAX_NS (100 * MST_NS_PER_MS)

static void put_off(struct mst_cluster *cluster) {
  const int64_t pause_ns = 2 * cluster->link_pause_ns;
  cluster->link_pause_ns = pause_ns < LINK_PAUSE_MIN_NS   ? LINK_PAUSE_MIN_NS
                           : pause_ns > LINK_PAUSE_MAX_NS ? LINK_PAUSE_MAX_NS
                                                          : pause_ns;
  cluster->link_ns = mst_clock_now() + cluster->link_pause_ns;
}

// is_short: as many descriptors of this user are under way as the system allows, or it has no
// memory for more.
static int is_short(int rc, const struct mst_err *err) {
  return rc == -MST_ESYS && err != NULL &&
         (err->sys_errno == ETOOMANYREFS || err->sys_errno == ENOBUFS);
}

// passes tells whether an error of one pair is no reason to give up: the worker has no time now,
// or is about to be lost, or this user has as many descriptors under way as the system allows,
// which the workers are taking.
static int passes(int rc, const struct mst_err *err) {
  return rc == -MST_EAGAIN || rc == -MST_ECLOSED || is_short(rc, err);
}

// link_pair returns 0, or an error; one worker may have got an end then, whose other end is
// closed: it will find that out.
static int link_pair(struct mst_peer *a, struct mst_peer *b,
                     struct mst_err *err) {
  int pair[2];
  int rc = mst_net_pair(pair, err);
  if (rc != 0) return rc;
  rc = tell(a, b, pair[0], err);
  if (rc == 0) rc = tell(b, a, pair[1], err);
  mst_net_close(&pair[0]);
  mst_net_close(&pair[1]);
  return rc;
}

int mst_cluster_link(struct mst_cluster *cluster, struct mst_err *err) {
  MST_ASSERT_HOLDS(cluster->session);
  int left = 0;
  const int rc = make_room(cluster, err);
  if (rc != 0) return rc;
  if (is_settled(cluster)) return 0;
  if (mst_clock_now() < cluster->link_ns) return 1;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    struct mst_peer *a = cluster->peers[i];
    if (seen_of(a) == 0) continue;
    for (uint32_t j = i + 1; j < cluster->calls.pool.count; j++) {
      struct mst_peer *b = cluster->peers[j];
      if (seen_of(b) == 0) continue;
      uint64_t *noted = pair_at(cluster, i, j);
      const uint64_t now =
          pair_of(mst_peer_worker(a)->epoch, mst_peer_worker(b)->epoch);
      if (*noted == now) continue;
      const int linked = link_pair(a, b, err);
      if (linked == 0) {
        *noted = now;
      } else if (is_short(linked, err)) {
        put_off(cluster); // each other pair would only fail as well
        return left + 1;
      } else if (passes(linked, err)) {
        left++;
      } else {
        return linked;
      }
    }
  }
  cluster->link_pause_ns = 0;
  if (left == 0) settle(cluster);
  return left;
}
