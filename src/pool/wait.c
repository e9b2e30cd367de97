// Requests of users to workers: send calls, wait for answers, end workers. Each function also
// carries out the resulting actions.
#include "pool/session_int.h"

// How many waits for one of several workers may end without a check of their sockets.
#define UNHEARD_MAX 3u

// ---- calls

int mst_peer_flush(struct mst_peer *peer, int slice_ms, struct mst_err *err) {
  const struct mst_worker *worker = peer->worker;
  if (mst_conduit_queued(&peer->conduit) && !peer->conduit.data.ended) {
    const int rc = mst_session_run(peer->cluster->session, slice_ms, err);
    if (rc != 0) return rc;
  }
  if (peer->conduit.data.ended || worker->resuming) {
    if (!worker->dead) return 0; // it will be sent again
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the worker is gone");
  }
  return mst_conduit_queued(&peer->conduit) ? -MST_EAGAIN : 0;
}

int mst_peer_send(struct mst_peer *peer, struct mst_blob *payload,
                  const void *caller, int32_t tag, uint8_t unseen, int slice_ms,
                  struct mst_err *err) {
  struct mst_cluster *cluster = peer->cluster;
  MST_ASSERT_HOLDS(cluster->session);
  const int rc = mst_calls_send(&cluster->calls, peer->index, payload, caller,
                                tag, unseen, mst_clock_now());
  if (rc == -MST_ECLOSED) {
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the worker is %s",
                       mst_worker_state_name(peer->worker->state));
  }
  if (rc != 0) {
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a call");
  }
  peer->send_rc = 0;
  mst_cluster_carry_out(cluster);
  if (peer->send_rc != 0) return peer->send_rc;
  // A worker that is lost or coming back gets its calls once it is there again.
  if (!mst_peer_is_up(peer) || !mst_conduit_queued(&peer->conduit)) return 0;
  return mst_peer_flush(peer, slice_ms, err);
}

void mst_peer_poll(struct mst_peer *peer) {
  MST_ASSERT_HOLDS(peer->cluster->session);
  mst_peer_read(peer);
  mst_cluster_carry_out(peer->cluster);
}

struct mst_call *mst_peer_answer(const struct mst_peer *peer,
                                 const void *caller) {
  return mst_mailbox_answer(&peer->worker->mailbox, caller);
}

void mst_peer_take(struct mst_peer *peer, struct mst_call *answer) {
  mst_mailbox_take(&peer->worker->mailbox, answer);
}

uint32_t mst_peer_unread(const struct mst_peer *peer) {
  return peer->worker->mailbox.unread;
}

int mst_peer_owes(const struct mst_peer *peer, const void *caller) {
  return mst_mailbox_has(&peer->worker->mailbox, caller);
}

int mst_peer_owes_several(const struct mst_peer *peer) {
  return peer->worker->mailbox.mixed;
}

const void *mst_peer_caller(const struct mst_peer *peer) {
  return peer->worker->mailbox.caller;
}

const struct mst_journal *mst_peer_journal(const struct mst_peer *peer) {
  return &peer->worker->journal;
}

enum mst_why mst_peer_why(const struct mst_peer *peer) {
  return peer->worker->why;
}

char *const *mst_peer_failure(const struct mst_peer *peer) {
  return &peer->worker->failure;
}

// ---- answers

// look finds the oldest answer among the peers, or else a lost peer that owes one.
static int look(struct mst_peer *const *peers, uint32_t n, const void *caller,
                uint32_t *lost) {
  int first = -MST_EAGAIN;
  uint64_t oldest = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct mst_peer *peer = peers[i];
    const struct mst_worker *worker = peer->worker;
    const uint64_t answered = mst_mailbox_answered(&worker->mailbox, caller);
    if (answered != 0 && (oldest == 0 || answered < oldest)) {
      first = (int)i;
      oldest = answered;
    }
    if (first != -MST_EAGAIN) continue;
    const int gone = worker->dead || (mst_worker_is_gone(worker) &&
                                      !peer->cluster->calls.policy.on);
    if (gone && worker->mailbox.first != NULL) {
      *lost = i;
      first = -MST_ECLOSED;
    } else if (peer->no_memory) {
      *lost = i;
      first = -MST_EMEM;
    }
  }
  return first;
}

int64_t mst_peers_spin_ns(struct mst_peer *const *peers, uint32_t n,
                          struct mst_spin **spin) {
  struct mst_session *session = peers[0]->cluster->session;
  int64_t most_ns = 0;
  *spin = &session->spin;
  for (uint32_t i = 0; i < n; i++) {
    const struct mst_conduit *conduit = &peers[i]->conduit;
    const int64_t ns = mst_spin_ns(mst_conduit_soon_ns(conduit));
    if (ns == 0) return 0;
    if (mst_conduit_is_far(conduit)) *spin = &session->spin_far;
    if (ns > most_ns) most_ns = ns;
  }
  return mst_spin_begin(*spin) ? most_ns : 0;
}

// poll_for polls without sleep. A single worker's channel is read directly, which saves a system
// call; for several it runs the loop.
static int poll_for(int64_t ns, struct mst_peer *const *peers, uint32_t n,
                    const void *caller, uint32_t *lost) {
  struct mst_session *session = peers[0]->cluster->session;
  const int64_t end_ns = mst_clock_now() + ns;
  int found;
  do {
    if (n == 1) {
      mst_peer_poll(peers[0]);
    } else if (mst_session_serve(session) < 0) {
      return -MST_EAGAIN;
    }
    found = look(peers, n, caller, lost);
  } while (found == -MST_EAGAIN && mst_clock_now() < end_ns);
  return found;
}

// listen_between checks the sockets now and then while answers that are already there end each
// wait. Otherwise all answers of one worker would be taken before an older one of another is
// noticed.
static int listen_between(struct mst_peer *const *peers, uint32_t n,
                          const void *caller, int found, uint32_t *lost) {
  struct mst_session *session = peers[0]->cluster->session;
  if (n == 1 || ++session->unheard < UNHEARD_MAX) return found;
  session->unheard = 0;
  (void)mst_session_serve(session); // a failure shows in the next wait
  return look(peers, n, caller, lost);
}

// begin_waiting: these peers are exempt from the answer limit.
static void begin_waiting(struct mst_peer *const *peers, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    struct mst_peer *peer = peers[i];
    mst_calls_await(&peer->cluster->calls, peer->index);
    peer->no_memory = 0;
    if (!peer->conduit.held) continue;
    mst_peer_read_on(peer);
    mst_cluster_carry_out(peer->cluster);
  }
}

static int needs_healing(const struct mst_session *session) {
  const struct mst_cluster *cluster = session->clusters;
  while (cluster != NULL && cluster->calls.to_heal == 0)
    cluster = cluster->next;
  return cluster != NULL;
}

int mst_peer_wait(struct mst_peer *const *peers, uint32_t n, const void *caller,
                  int timeout_ms, uint32_t *lost, struct mst_err *err) {
  struct mst_session *session = peers[0]->cluster->session;
  MST_ASSERT_HOLDS(session);
  begin_waiting(peers, n);
  // If answers are always there already, nothing else handles losses.
  if (needs_healing(session)) mst_session_heal(session);
  int found = look(peers, n, caller, lost);
  if (found != -MST_EAGAIN) {
    return listen_between(peers, n, caller, found, lost);
  }
  session->unheard = 0;
  struct mst_spin *spin;
  const int64_t spin_ns = mst_peers_spin_ns(peers, n, &spin);
  if (spin_ns > 0) {
    found = poll_for(spin_ns, peers, n, caller, lost);
    mst_spin_end(spin, found != -MST_EAGAIN);
    if (found != -MST_EAGAIN) return found;
  }
  const int rc = mst_session_run(session, timeout_ms, err);
  return rc < 0 ? rc : look(peers, n, caller, lost);
}

// has_no_memory retries reading an answer for which memory was short. 1 if it still is.
static int has_no_memory(struct mst_peer *peer) {
  if (!peer->no_memory) return 0;
  peer->no_memory = 0;
  if (peer->conduit.held) mst_peer_read_on(peer);
  mst_cluster_carry_out(peer->cluster);
  return peer->no_memory;
}

int mst_task_await(struct mst_call *task) {
  mst_calls_await_task(task);
  if (mst_call_is_done(task)) return 0;
  struct mst_cluster *cluster = mst_task_cluster(task);
  if (cluster->held == 0) return 0;
  // A worker's answers come in order, so this may be the answer to an earlier call.
  if (task->mailbox != NULL) {
    return has_no_memory(cluster->peers[task->mailbox->worker]) ? -MST_EMEM : 0;
  }
  int without = 0, others = 0;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
    // A retry may have given it to a worker.
    if (task->queued.set == NULL) return 0;
    // One that is held waits for the answer of any.
    if (cluster->calls.pool.workers[i]->dead ||
        (!task->held && !mst_queue_is_for(&task->queued, i)))
      continue;
    const int none = has_no_memory(cluster->peers[i]);
    without |= none;
    others |= !none;
  }
  return without && !others ? -MST_EMEM : 0;
}

// ---- workers

int mst_peer_ping(struct mst_peer *peer, uint64_t nonce, int timeout_ms,
                  struct mst_err *err) {
  struct mst_head head = {.kind = MST_KIND_PING,
                          .cluster = peer->cluster->id,
                          .worker = peer->index};
  int rc = mst_conduit_say(&peer->conduit, &head, &nonce, sizeof nonce, err);
  const int64_t deadline_ns =
      mst_clock_now() + (int64_t)timeout_ms * MST_NS_PER_MS;
  const uint32_t epoch = peer->worker->epoch;
  while (rc == 0 && peer->pong < nonce) {
    const int left_ms = mst_clock_ms_until(deadline_ns, timeout_ms);
    if (left_ms == 0) {
      return mst_err_set(err, MST_ETIMEOUT, 0, NULL, "no answer in time");
    }
    rc = mst_session_run(peer->cluster->session, left_ms, err);
    if (peer->conduit.data.ended || peer->worker->epoch != epoch) {
      return mst_err_set(err, MST_ECLOSED, 0, NULL, "the worker is gone");
    }
  }
  return rc;
}

void mst_peer_retire(struct mst_peer *peer) {
  peer->retired = 1;
  mst_calls_retire(&peer->cluster->calls, peer->index, mst_clock_now());
  mst_cluster_carry_out(peer->cluster);
}

void mst_peer_kill(struct mst_peer *peer) {
  mst_calls_kill(&peer->cluster->calls, peer->index, mst_clock_now());
  mst_cluster_carry_out(peer->cluster);
}

int mst_cluster_wakes(struct mst_cluster *cluster) {
  if (cluster->scaled == NULL) return 0;
  cluster->scale_ns = 0;
  mst_cluster_look_at_scale(cluster, mst_clock_now());
  mst_cluster_carry_out(cluster);
  for (uint32_t g = 0; g < cluster->group_count; g++) {
    if (mst_site_due_ns(cluster->groups[g].site) <= mst_clock_now()) return 1;
  }
  return 0;
}

void mst_peer_forget(struct mst_peer *peer, const void *caller) {
  peer->no_memory = 0; // the answer may be unwanted now
  mst_calls_forget(&peer->cluster->calls, peer->index, caller, mst_clock_now());
  mst_cluster_carry_out(peer->cluster);
}

void mst_session_cancel(struct mst_session *session, const void *caller) {
  for (struct mst_cluster *cluster = session->clusters; cluster != NULL;
       cluster = cluster->next) {
    for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
      if (cluster->calls.pool.workers[i]->mailbox.unread > 0) {
        cluster->peers[i]->no_memory = 0;
        mst_calls_forget(&cluster->calls, i, caller, mst_clock_now());
      }
    }
    mst_cluster_carry_out(cluster);
  }
}
