// Calls that nobody wants any more: their worker is told, their answers are dropped.
#include <stdlib.h>

#include "pool/run.h"
#include "pool/run_int.h"
#include "pool/task.h"

static void send_cancel(struct mst_peer *peer, uint64_t call) {
  struct mst_head head = {.kind = MST_KIND_CANCEL,
                          .cluster = peer->cluster->id,
                          .worker = peer->index,
                          .epoch = mst_peer_worker(peer)->epoch,
                          .call = call};
  uint8_t payload[MST_CANCEL_BYTES];
  mst_cancel_encode(MST_CANCEL_GRACE_MS, payload);
  (void)mst_chan_send_small(&peer->control, &head, payload, sizeof payload, 0,
                            NULL);
}

void mst_peer_cancel(struct mst_peer *peer, uint64_t call) {
  if (peer->control.fd < 0 || peer->data.ended) return;
  send_cancel(peer, call);
  if (peer->cancel == call) return; // its grace runs already
  peer->cancel = call;
  peer->cancel_ns = mst_clock_now();
}

void mst_peer_cancel_call(struct mst_peer *peer, uint64_t id) {
  for (struct mst_call *call = peer->first_call; call != NULL;
       call = call->next) {
    if (call->id == id) call->cancelled = 1;
  }
  if (peer->first_call != NULL && peer->first_call->id == id) {
    mst_peer_cancel(peer, id);
  }
}

void mst_peer_forget(struct mst_peer *peer) {
  while (peer->answered != 0)
    mst_peer_drop(peer);
  for (struct mst_call *call = peer->first_call; call != NULL;
       call = call->next) {
    if (call->task != NULL || call->cancelled) continue;
    call->cancelled = 1;
    peer->tasks++; // nobody takes it
  }
  const struct mst_call *first = peer->first_call;
  if (first != NULL && first->cancelled) mst_peer_cancel(peer, first->id);
  mst_peer_drop_unsent(peer);
}

void mst_peer_drop_unsent(struct mst_peer *peer) {
  if (mst_peer_is_up(peer)) return; // it has them, and will answer
  // The next call has all of its attempts.
  if (peer->first_call != NULL && peer->first_call->cancelled) {
    mst_heal_answered(&peer->heal);
  }
  struct mst_call **at = &peer->first_call;
  peer->last_call = NULL;
  while (*at != NULL) {
    struct mst_call *call = *at;
    // Without memory for the note it is sent again, and its answer dropped.
    if (!call->cancelled || mst_peer_note_gone(peer, call->id) != 0) {
      peer->last_call = call;
      at = &call->next;
      continue;
    }
    *at = call->next;
    if (call->task != NULL) mst_task_failed(call->task, NULL);
    mst_blob_release(call->payload);
    free(call);
  }
  if (peer->answered == 0) mst_peer_skip(peer);
}

void mst_session_cancel(struct mst_session *session, const void *verb) {
  for (struct mst_cluster *cluster = session->clusters; cluster != NULL;
       cluster = cluster->next) {
    for (uint32_t i = 0; i < cluster->pool.count; i++) {
      struct mst_peer *peer = cluster->peers[i];
      if (peer->verb == verb && mst_peer_unread(peer) > 0) {
        mst_peer_forget(peer);
      }
    }
  }
}
