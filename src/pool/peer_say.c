// Sends the core's messages to a worker.
#include "pool/session.h"
#include "pool/session_int.h"

// head_of fills the fields that all frames to a worker share.
static struct mst_head head_of(const struct mst_peer *peer, uint8_t kind) {
  return (struct mst_head){.kind = kind,
                           .cluster = peer->cluster->id,
                           .worker = peer->index,
                           .epoch = peer->worker->epoch};
}

static int say_seed(struct mst_peer *peer, const struct mst_seed *seed) {
  struct mst_head head = {.kind = MST_KIND_SEED};
  uint8_t bytes[MST_SEED_BYTES];
  if (!seed->known) { // a fresh stream
    return mst_conduit_send(&peer->conduit, &head, NULL, NULL);
  }
  mst_seed_encode(seed, bytes);
  return mst_conduit_send_small(&peer->conduit, &head, bytes, sizeof bytes,
                                NULL);
}

static void say_cancel(struct mst_peer *peer, uint64_t call) {
  struct mst_head head = head_of(peer, MST_KIND_CANCEL);
  uint8_t payload[MST_CANCEL_BYTES];
  head.call = call;
  mst_cancel_encode(MST_CANCEL_GRACE_MS, payload);
  (void)mst_conduit_say(&peer->conduit, &head, payload, sizeof payload, NULL);
}

static void say_withdraw(struct mst_peer *peer, uint64_t call) {
  struct mst_head head = head_of(peer, MST_KIND_WITHDRAW);
  head.call = call;
  (void)mst_conduit_say(&peer->conduit, &head, NULL, 0, NULL);
}

void mst_peer_ask_sign(struct mst_peer *peer) {
  static const uint64_t nonce = 0; // mst_peer_ping never uses it
  struct mst_head head = {.kind = MST_KIND_PING,
                          .cluster = peer->cluster->id,
                          .worker = peer->index};
  // If the last ping isn't sent yet, don't queue another.
  if (mst_conduit_says(&peer->conduit)) return;
  (void)mst_conduit_say(&peer->conduit, &head, &nonce, sizeof nonce, NULL);
}

// look_at: the watch of a worker that computes, or waits for its turn, may be late.
static void look_at(const struct mst_peer *peer) {
  const struct mst_worker *worker = peer->worker;
  struct mst_heal *heal = &peer->worker->heal;
  const int64_t now_ns = mst_clock_now();
  if (peer->host->shares_processes && worker->awaited && worker->pid != 0 &&
      mst_heal_is_suspect(heal, &peer->cluster->calls.policy, now_ns) &&
      mst_proc_runs((pid_t)worker->pid)) {
    mst_heal_runs(heal, now_ns);
  }
}

// say_data sends an action over the data channel.
static int say_data(struct mst_peer *peer, const struct mst_action *action) {
  static const uint8_t kinds[] = {[MST_DO_BYE] = MST_KIND_BYE,
                                  [MST_DO_JOB] = MST_KIND_JOB,
                                  [MST_DO_EXEC] = MST_KIND_EXEC,
                                  [MST_DO_DROP] = MST_KIND_DROP,
                                  [MST_DO_TRIM] = MST_KIND_TRIM};
  struct mst_head head = head_of(peer, kinds[action->kind]);
  if (action->kind == MST_DO_BYE) head.epoch = 0;
  head.flags = action->flags;
  head.attempt = action->attempt;
  head.call = action->id;
  return mst_conduit_send(&peer->conduit, &head, action->payload, NULL);
}

void mst_peer_say(struct mst_peer *peer, const struct mst_action *action) {
  struct mst_calls *calls = &peer->cluster->calls;
  if (action->kind == MST_DO_CANCEL) {
    say_cancel(peer, action->id);
    return;
  }
  if (action->kind == MST_DO_WITHDRAW) {
    say_withdraw(peer, action->id);
    return;
  }
  if (action->kind == MST_DO_PING) {
    mst_peer_ask_sign(peer);
    look_at(peer);
    return;
  }
  if (action->kind == MST_DO_CHECKPOINT) {
    mst_standby_ask(peer);
    return;
  }
  const int rc = action->kind == MST_DO_SEED ? say_seed(peer, &action->seed)
                                             : say_data(peer, action);
  if (rc == 0) {
    if (action->kind == MST_DO_EXEC) {
      mst_calls_sent(calls, peer->index, mst_clock_now());
    }
    return;
  }
  // the session will learn of its end
  if (action->kind == MST_DO_BYE) return;
  // Messages that it sent before its end can still be read.
  if (rc != -MST_EMEM) mst_peer_read(peer);
  if (mst_calls_unsent(calls, peer->index, action->kind, rc, mst_clock_now())) {
    peer->send_rc = rc;
  }
}
