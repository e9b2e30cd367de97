// The state of a worker. The contract is in look.h.
#include "pool/look.h"

static enum mst_healing healing_of(const struct mst_peer *peer) {
  const struct mst_heal_policy *policy = &peer->cluster->calls.policy;
  const struct mst_worker *worker = peer->worker;
  if (!policy->on || worker->dead || worker->journal.incomplete) {
    return MST_HEALING_NONE;
  }
  if (policy->fresh) return MST_HEALING_FRESH;
  return worker->journal.unfit ? MST_HEALING_REPLAY : MST_HEALING_STATE;
}

int mst_peer_ends(const struct mst_peer *peer) {
  const struct mst_worker *worker = peer->worker;
  const int comes_back = peer->worker->moves || worker->again;
  return peer->retired || (worker->stop_ns != INT64_MAX && !comes_back);
}

struct mst_look mst_peer_look(const struct mst_peer *peer, int64_t now_ns) {
  const struct mst_heal_policy *policy = &peer->cluster->calls.policy;
  const struct mst_worker *worker = peer->worker;
  const int ends = mst_peer_ends(peer);
  const int runs = worker->owed > 0 && worker->mailbox.first != NULL;
  const int up =
      !worker->dead && worker->stop_ns == INT64_MAX &&
      (worker->state == MST_WORKER_IDLE || worker->state == MST_WORKER_BUSY);
  const int lives = worker->awaited || worker->again || worker->moves ||
                    (worker->to_heal && !worker->dead);
  return (struct mst_look){
      .state = worker->state,
      .healing = healing_of(peer),
      .pid = worker->pid,
      .epoch = worker->epoch,
      .unread = worker->mailbox.unread,
      .done = worker->done,
      .exit_how = worker->exit_known ? worker->exit_how : MST_EXIT_NONE,
      .exit_number = worker->exit_number,
      .sys_errno = worker->sys_errno,
      .heard_ns = worker->heal.heard_ns,
      .began_ns = runs ? worker->head_ns : INT64_MAX,
      .exit_known = worker->exit_known,
      .suspect = mst_heal_is_suspect(&worker->heal, policy, now_ns) != 0,
      .oom = worker->oom,
      .ours = worker->ours,
      .up = (uint8_t)up,
      .awaited = worker->awaited,
      .ending = worker->state == MST_WORKER_LOST && worker->awaited &&
                !worker->lost_given,
      .ends = (uint8_t)ends,
      .dead = worker->dead,
      .resuming = worker->resuming,
      .replaying = worker->replay_left > 0,
      .mute = worker->dead || (mst_worker_is_gone(worker) && !policy->on),
      .lives = !ends && lives};
}
