// Healing at work: what a loss means for a worker's calls, its way back, signs of
// life, and limits on calls. What to do is decided in heal.c and state.c, what to
// replay is kept by journal.c; here it is done.
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "pool/run.h"
#include "pool/run_int.h"
#include "pool/task.h"

// Words of a worker that go with a loss.
#define WORDS_MAX ((size_t)MST_TAIL_BYTES)
// Limits on calls are looked at this often.
#define LOOK_NS (10 * MST_NS_PER_MS)
// Ends for want of memory that come at once are heard within this time.
#define OOM_NS MST_NS_PER_S

void mst_loss_free(struct mst_loss *loss) {
  if (loss == NULL) return;
  free(loss->output);
  free(loss->reason);
  free(loss);
}

void mst_peer_pop_loss(struct mst_peer *peer) {
  struct mst_loss *loss = peer->losses;
  peer->losses = loss->next;
  mst_loss_free(loss);
}

static char *last_words(const struct mst_peer *peer) {
  char *words = malloc(WORDS_MAX + 1);
  if (words == NULL) return NULL;
  const size_t n = mst_tail_read(&peer->output.tail, words);
  words[n] = '\0';
  return words;
}

// look_for_oom counts what the kernel has ended for memory since it was last asked. Several
// workers may be ended at once, and their ends be heard one after the other.
static void look_for_oom(struct mst_session *session, int64_t now_ns) {
  const int64_t before = session->oom_kills;
  session->oom_kills = mst_proc_oom_kills();
  if (now_ns - session->oom_ns > OOM_NS) session->oom_new = 0;
  if (before < 0 || session->oom_kills <= before) return;
  session->oom_new += session->oom_kills - before;
  session->oom_ns = now_ns;
}

// ignored_interrupt: its watch ends a worker whose cancelled call goes on after its grace.
static int ignored_interrupt(const struct mst_peer *peer) {
  const struct mst_call *call = peer->first_call;
  return call != NULL && (call->cancelled || call->timed_out) &&
         peer->cancel == call->id &&
         mst_peer_worker(peer)->lost_ns - peer->cancel_ns >=
             MST_CANCEL_GRACE_MS * MST_NS_PER_MS;
}

// judge_end tells who has killed a worker: muster, which has said why it gave it up; the
// kernel for memory; or somebody who isn't known. The kernel's count is that of the cgroup,
// so another of its processes may be what was ended.
static void judge_end(struct mst_peer *peer, int64_t now_ns) {
  const struct mst_worker *worker = mst_peer_worker(peer);
  struct mst_session *session = peer->cluster->session;
  const int killed = worker->exit_known &&
                     worker->exit_how == MST_EXIT_SIGNAL &&
                     worker->exit_number == SIGKILL;
  if (killed && ignored_interrupt(peer)) {
    mst_peer_fail(peer, "its call went on for a second after it was "
                        "interrupted");
  }
  look_for_oom(session, now_ns);
  peer->ours = (uint8_t)(killed && peer->failure != NULL);
  peer->oom = (uint8_t)(killed && !peer->ours && session->oom_new > 0);
  if (peer->oom) session->oom_new--;
}

// loss_of describes how this incarnation ended. NULL without memory: then nobody
// is told, and what follows is done all the same.
static struct mst_loss *loss_of(struct mst_peer *peer,
                                enum mst_loss_kind kind) {
  const struct mst_worker *worker = mst_peer_worker(peer);
  struct mst_loss *loss = calloc(1, sizeof *loss);
  if (loss == NULL) return NULL;
  loss->kind = kind;
  loss->cluster = peer->cluster->id;
  loss->worker = peer->index;
  loss->pid = worker->pid;
  loss->how = worker->exit_known ? worker->exit_how : MST_EXIT_NONE;
  loss->number = worker->exit_number;
  loss->ours = peer->ours;
  loss->output = last_words(peer);
  if (peer->failure != NULL) loss->reason = strdup(peer->failure);
  return loss;
}

static void add_loss(struct mst_loss **list, struct mst_loss *loss) {
  while (*list != NULL)
    list = &(*list)->next;
  *list = loss;
}

int mst_peer_note_gone(struct mst_peer *peer, uint64_t call) {
  struct mst_loss *loss = calloc(1, sizeof *loss);
  if (loss == NULL) return -MST_EMEM;
  loss->call = call;
  loss->silent = 1;
  struct mst_loss **at = &peer->losses;
  while (*at != NULL && (*at)->call < call)
    at = &(*at)->next;
  loss->next = *at;
  *at = loss;
  return 0;
}

static void tell(struct mst_session *session, struct mst_loss *event) {
  if (event == NULL) return;
  if (session->event_count >= MST_EVENTS_MAX) {
    mst_loss_free(mst_session_event(session));
  }
  add_loss(&session->events, event);
  session->event_count++;
}

struct mst_loss *mst_session_event(struct mst_session *session) {
  struct mst_loss *event = session->events;
  if (event == NULL) return NULL;
  session->events = event->next;
  event->next = NULL;
  session->event_count--;
  return event;
}

// note_failed makes a loss the answer of the oldest call; answered: its frame is in
// the channel. Without memory for it the worker can't come back: nobody would ever hear
// of that call.
static int note_failed(struct mst_peer *peer, enum mst_loss_kind kind,
                       uint32_t attempts, int answered) {
  struct mst_call *call = peer->first_call;
  struct mst_loss *loss = loss_of(peer, kind);
  if (loss == NULL || (call->task != NULL && !answered &&
                       mst_peer_note_gone(peer, call->id) != 0)) {
    mst_loss_free(loss);
    peer->dead = 1;
    return -MST_EMEM;
  }
  loss->call = call->id;
  loss->attempts = attempts;
  loss->oom = peer->oom;
  if (call->task != NULL) {
    mst_task_failed(call->task, loss);
    call->task = NULL; // it has the answer
    return 0;
  }
  loss->tag = call->tag;
  add_loss(&peer->losses, loss);
  return 0;
}

static int fail_call(struct mst_peer *peer, enum mst_loss_kind kind,
                     uint32_t attempts) {
  const int rc = note_failed(peer, kind, attempts, 0);
  if (rc != 0) return rc;
  mst_peer_pop_call(peer);
  if (peer->answered == 0) mst_peer_skip(peer);
  return 0;
}

static uint32_t calls_of(const struct mst_peer *peer) {
  uint32_t n = 0;
  for (const struct mst_call *at = peer->first_call; at != NULL; at = at->next)
    n++;
  return n;
}

// leave: it stays lost. What it owes will not come.
static void leave(struct mst_peer *peer, enum mst_heal_verdict verdict) {
  peer->dead = 1;
  peer->resuming = 0;
  while (peer->first_call != NULL && peer->first_call->task != NULL) {
    if (fail_call(peer, MST_LOSS_GIVEN_UP, 1) != 0) break;
  }
  if (peer->cluster->queued > 0) mst_tasks_dispatch(peer->cluster);
  if (verdict == MST_HEAL_LEAVE) return;
  tell(peer->cluster->session, loss_of(peer, MST_LOSS_GIVEN_UP));
}

static void restart(struct mst_peer *peer) {
  struct mst_loss *event = loss_of(peer, MST_LOSS_RESTARTED);
  if (event != NULL) {
    event->oom = peer->oom;
    event->again = calls_of(peer);
    event->attempts = peer->heal.attempt;
    event->fresh_rng = peer->rng_other;
  }
  tell(peer->cluster->session, event);
  peer->alone = peer->oom;
  mst_journal_unask(&peer->journal);
  mst_peer_pause(peer);
  mst_log_end(&peer->cluster->log, &peer->part, peer->index);
  mst_tail_free(&peer->output.tail);
  free(peer->tempdir);
  free(peer->failure);
  peer->tempdir = peer->failure = NULL;
  peer->replay_left = 0;
  peer->spoiled = 0;
  peer->cancel = 0;
  peer->resuming = 1;
  for (struct mst_call *at = peer->first_call; at != NULL; at = at->next)
    at->sent = 0;
  mst_peer_event(peer, MST_EV_RESTART);
}

// settle_calls drops the calls that nobody waits for, and fails one that took too
// long. Returns whether the oldest of the others was being evaluated: one that was
// given to a worker that was lost already, and never sent, is not to blame.
static int settle_calls(struct mst_peer *peer) {
  int evaluating = !peer->resuming && peer->replay_left == 0 && !peer->spoiled;
  if (peer->first_call != NULL && peer->first_call->cancelled) {
    evaluating = 0;
    mst_heal_answered(&peer->heal);
  }
  mst_peer_drop_unsent(peer);
  if (peer->first_call != NULL && peer->first_call->timed_out) {
    (void)fail_call(peer, MST_LOSS_TIMEOUT, 1);
    evaluating = 0;
    mst_heal_answered(&peer->heal);
  }
  return evaluating && peer->first_call != NULL && peer->first_call->sent;
}

// policy_of: the cluster's, with the retries of the task that is at work.
static struct mst_heal_policy policy_of(const struct mst_peer *peer) {
  struct mst_heal_policy policy = peer->cluster->policy;
  const struct mst_call *call = peer->first_call;
  if (call != NULL && call->task != NULL && call->task->retries >= 0) {
    policy.retries = (uint32_t)call->task->retries;
  }
  return policy;
}

void mst_peer_heal(struct mst_peer *peer) {
  struct mst_cluster *cluster = peer->cluster;
  const struct mst_worker *worker = mst_peer_worker(peer);
  const int64_t now_ns = mst_clock_now();
  if (cluster->policy.on && cluster->launcher->gone &&
      cluster->pool.phase == MST_POOL_RUNNING) {
    cluster->orphaned = cluster->session->orphaned = 1; // wait for another
    return;
  }
  peer->to_heal = 0;
  cluster->session->to_heal--;
  mst_output_drain(&peer->output);
  judge_end(peer, now_ns);
  if (cluster->pool.phase != MST_POOL_RUNNING || worker->stop_ns != INT64_MAX ||
      peer->dead) {
    leave(peer, MST_HEAL_LEAVE);
    return;
  }
  const int evaluating = cluster->policy.on ? settle_calls(peer) : 0;
  const struct mst_heal_policy policy = policy_of(peer);
  enum mst_heal_verdict verdict =
      mst_heal_lost(&peer->heal, &policy, evaluating, now_ns);
  const int comes_back =
      verdict == MST_HEAL_RESTART || verdict == MST_HEAL_POISON;
  if (comes_back && peer->journal.incomplete) {
    mst_peer_fail(peer, "its journal of set-up is not complete: too many calls "
                        "have changed it");
    verdict = MST_HEAL_GIVE_UP;
  }
  if (verdict == MST_HEAL_POISON &&
      fail_call(peer, MST_LOSS_POISON, policy.retries + 1) != 0) {
    verdict = MST_HEAL_GIVE_UP;
  }
  if (verdict == MST_HEAL_RESTART || verdict == MST_HEAL_POISON) {
    restart(peer);
  } else {
    leave(peer, verdict);
  }
}

// ---- coming back

static int send_seed(struct mst_peer *peer, const struct mst_seed *seed) {
  struct mst_head head = {.kind = MST_KIND_SEED};
  uint8_t bytes[MST_SEED_BYTES];
  if (!seed->known) { // a fresh stream
    return mst_chan_send(&peer->data, &head, NULL, NULL, 0, 0, NULL);
  }
  mst_seed_encode(seed, bytes);
  return mst_chan_send_small(&peer->data, &head, bytes, sizeof bytes, 0, NULL);
}

static int send_entry(struct mst_peer *peer, const struct mst_entry *entry) {
  struct mst_head head = {.kind =
                              entry->snapshot ? MST_KIND_STATE : MST_KIND_EXEC,
                          .flags = entry->snapshot ? 0 : MST_FLAG_REPLAY,
                          .cluster = peer->cluster->id,
                          .worker = peer->index,
                          .epoch = mst_peer_worker(peer)->epoch,
                          .call = entry->call};
  int rc = 0;
  if (entry->seed.known) rc = send_seed(peer, &entry->seed);
  if (rc == 0) rc = mst_peer_send_job(peer, entry->job, NULL);
  if (rc == 0) {
    rc = mst_chan_send(&peer->data, &head, entry->payload, NULL, 0, 0, NULL);
  }
  if (rc == 0 && !entry->snapshot) peer->replay_left++;
  return rc;
}

static struct mst_entry *next_replayed(struct mst_entry *entry) {
  while (entry != NULL && entry->snapshot)
    entry = entry->next;
  return entry;
}

static int others_are_busy(const struct mst_peer *peer) {
  const struct mst_cluster *cluster = peer->cluster;
  for (uint32_t i = 0; i < cluster->pool.count; i++) {
    // One that is lost owes too, but computes nothing, and may owe for ever.
    const enum mst_worker_state state = cluster->pool.workers[i].state;
    if (i != peer->index && state == MST_WORKER_BUSY) return 1;
  }
  return 0;
}

static void send_calls(struct mst_peer *peer) {
  if (peer->alone && peer->first_call != NULL && others_are_busy(peer)) {
    peer->cluster->alone = 1;
    return; // tried again by mst_session_mend
  }
  peer->alone = 0;
  peer->resuming = 0;
  for (struct mst_call *call = peer->first_call; call != NULL;
       call = call->next) {
    if (mst_peer_send_call(peer, call, NULL) != 0) {
      mst_net_shutdown(peer->data.fd); // lost once more
      return;
    }
  }
  if (peer->data.out_first != NULL) mst_peer_want_write(peer);
  if (peer->cluster->queued > 0) mst_tasks_dispatch(peer->cluster);
}

void mst_peer_resume(struct mst_peer *peer) {
  int rc = 0;
  mst_heal_back(&peer->heal, mst_clock_now());
  peer->replay_left = 0;
  peer->replayed = next_replayed(peer->journal.first);
  for (const struct mst_entry *at = peer->journal.first; at != NULL && rc == 0;
       at = at->next) {
    rc = send_entry(peer, at);
  }
  if (rc == 0 && (peer->seed.known || peer->rng_other)) {
    rc = send_seed(peer, &peer->seed);
  }
  peer->rng_other = 0;
  if (rc != 0) {
    mst_net_shutdown(peer->data.fd);
    return;
  }
  if (peer->data.out_first != NULL) mst_peer_want_write(peer);
  if (peer->replay_left == 0) mst_heal_idle(&peer->heal);
  send_calls(peer);
}

static int is_before_snapshot(const struct mst_entry *entry) {
  while (entry != NULL && !entry->snapshot)
    entry = entry->next;
  return entry != NULL;
}

// Before a snapshot an error means nothing: what the call relied on in sight isn't
// there yet, and the snapshot has the last word.
void mst_peer_replayed(struct mst_peer *peer, const struct mst_frame *frame) {
  struct mst_entry *entry = peer->replayed;
  if (peer->replay_left == 0 || entry == NULL) return;
  peer->replay_left--;
  peer->replayed = next_replayed(entry->next);
  peer->head_ns = mst_clock_now(); // what it owes comes after the journal
  const int failed = (frame->head.flags & MST_FLAG_ERROR) != 0;
  if (failed && !entry->failed && !is_before_snapshot(entry)) {
    mst_peer_fail(peer,
                  "a call of its journal failed when it was replayed, see "
                  "cluster_journal()");
    peer->dead = 1;
    tell(peer->cluster->session, loss_of(peer, MST_LOSS_GIVEN_UP));
    mst_peer_event(peer, MST_EV_SILENT);
  } else if (peer->replay_left == 0) {
    mst_heal_idle(&peer->heal);
  }
}

// ---- the journal

static void note_seed(struct mst_peer *peer, const struct mst_frame *frame) {
  if ((frame->head.flags & MST_FLAG_RNG) != 0) {
    peer->rng_other = 1;
    peer->seed.known = 0;
  }
  if ((frame->head.flags & MST_FLAG_SEED) == 0) return;
  const size_t n = (size_t)frame->head.length;
  peer->rng_other = 0;
  if (n < MST_VALUE_HEAD_BYTES ||
      mst_seed_decode(frame->payload + MST_VALUE_HEAD_BYTES,
                      n - MST_VALUE_HEAD_BYTES, &peer->seed) != 0) {
    peer->seed.known = 0;
  }
}

static void note_state(struct mst_peer *peer, const struct mst_call *call,
                       const struct mst_frame *frame) {
  const uint16_t flags = frame->head.flags;
  struct mst_value_head times = {0};
  (void)mst_value_head_decode(frame->payload, (size_t)frame->head.length,
                              &times);
  const struct mst_entry entry = {.payload = call->payload,
                                  .job = call->task != NULL ? call->task->job
                                                            : NULL,
                                  .seed = peer->seed,
                                  .call = call->id,
                                  .elapsed_s = times.elapsed_s,
                                  .failed = (flags & MST_FLAG_ERROR) != 0,
                                  .visible = (flags & MST_FLAG_STATE) != 0,
                                  .unseen = call->unseen};
  (void)mst_journal_add(&peer->journal, &entry); // if not, it says so itself
  if (mst_journal_wants(&peer->journal, call->id)) {
    struct mst_head head = {.kind = MST_KIND_SNAPSHOT};
    (void)mst_chan_send(&peer->data, &head, NULL, NULL, 0, 0, NULL);
    if (peer->data.out_first != NULL) mst_peer_want_write(peer);
  }
}

// judge_cancelled: one that was interrupted in the middle of a change is neither
// what it was nor what it was to be. What it answers after that is not read.
static void judge_cancelled(struct mst_peer *peer,
                            const struct mst_frame *frame) {
  if ((frame->head.flags & MST_FLAG_STATE) == 0) return;
  peer->spoiled = 1;
  mst_peer_broken(peer, "it was interrupted in the middle of a change");
}

void mst_peer_judge(struct mst_peer *peer, const struct mst_frame *frame) {
  const struct mst_call *call = peer->first_call;
  const int64_t now_ns = mst_clock_now();
  const int cancelled = call->cancelled || call->timed_out;
  mst_heal_answered(&peer->heal);
  mst_heal_heard(&peer->heal, now_ns);
  peer->head_ns = now_ns;
  if (!peer->cluster->policy.on) {
    // Nothing is kept.
  } else if (cancelled) {
    judge_cancelled(peer, frame);
  } else {
    if ((frame->head.flags & MST_FLAG_STATE) != 0 || call->unseen) {
      note_state(peer, call, frame);
    }
    note_seed(peer, frame);
  }
  if (call->timed_out && !call->cancelled) {
    peer->oom = peer->ours = 0;
    (void)note_failed(peer, MST_LOSS_TIMEOUT, 1, 1);
  }
}

void mst_peer_state_came(struct mst_peer *peer, const struct mst_frame *frame) {
  struct mst_blob *blob = NULL;
  if (frame->head.length > 0) {
    blob = mst_blob_new();
    if (blob == NULL || mst_buf_append(&blob->buf, frame->payload,
                                       (size_t)frame->head.length) != 0) {
      mst_blob_release(blob);
      mst_journal_unask(&peer->journal);
      return;
    }
  }
  (void)mst_journal_snapshot(&peer->journal, blob);
  mst_blob_release(blob);
}

// ---- signs of life, and time limits

static void ask(struct mst_peer *peer) {
  static const uint64_t nonce = 0; // no ping of mst_peer_ping has it
  struct mst_head head = {.kind = MST_KIND_PING,
                          .cluster = peer->cluster->id,
                          .worker = peer->index};
  if (peer->control.out_first != NULL) return; // it hasn't read the last one
  (void)mst_chan_send_small(&peer->control, &head, &nonce, sizeof nonce, 0,
                            NULL);
}

static void listen_to(struct mst_peer *peer, int64_t slept_ns, int64_t now_ns) {
  switch (
      mst_heal_beat(&peer->heal, &peer->cluster->policy, slept_ns, now_ns)) {
  case MST_BEAT_ASK:
    ask(peer);
    break;
  case MST_BEAT_SILENT:
    mst_peer_fail(peer, "it didn't respond within `heartbeat` seconds (the "
                        "process or its host is stopped)");
    mst_peer_event(peer, MST_EV_SILENT);
    break;
  case MST_BEAT_FINE:
    break;
  }
}

static int64_t limit_of(const struct mst_peer *peer,
                        const struct mst_call *call) {
  const struct mst_task *task = call->task;
  return task != NULL && task->timeout_ns > 0 ? task->timeout_ns
                                              : peer->cluster->timeout_ns;
}

static void watch_time(struct mst_peer *peer, int64_t now_ns) {
  struct mst_call *call = peer->first_call;
  if (call == NULL || call->timed_out || call->cancelled) return;
  if (peer->resuming || peer->replay_left > 0) return;
  if (now_ns - peer->head_ns < limit_of(peer, call)) return;
  call->timed_out = 1;
  mst_peer_cancel(peer, call->id);
}

static int has_limits(const struct mst_cluster *cluster) {
  return cluster->timeout_ns != INT64_MAX || cluster->limited > 0;
}

// is_due tells whether the workers of a cluster are to be looked at one by one: not on
// every wake-up, since there may be a thousand of them.
static int is_due(struct mst_cluster *cluster, int64_t slept_ns,
                  int64_t now_ns) {
  const int64_t beat_ns = cluster->policy.heartbeat_ns;
  const int64_t every_ns = has_limits(cluster) ? LOOK_NS : beat_ns / 12;
  if (cluster->session->to_heal > 0 || cluster->alone) return 1;
  if (beat_ns == INT64_MAX && !has_limits(cluster)) return 0;
  return slept_ns > beat_ns / 12 || now_ns - cluster->looked_ns >= every_ns;
}

void mst_session_mend(struct mst_session *session, int64_t now_ns) {
  const int64_t slept_ns = now_ns - session->listened_ns;
  for (struct mst_cluster *cluster = session->clusters; cluster != NULL;
       cluster = cluster->next) {
    if (cluster->pool.phase == MST_POOL_DOWN) continue;
    if (!is_due(cluster, slept_ns, now_ns)) continue;
    const int beats = cluster->policy.heartbeat_ns != INT64_MAX &&
                      cluster->pool.phase == MST_POOL_RUNNING;
    const int limits = has_limits(cluster);
    cluster->looked_ns = now_ns;
    cluster->alone = 0;
    for (uint32_t i = 0; i < cluster->pool.count; i++) {
      struct mst_peer *peer = cluster->peers[i];
      if (peer->to_heal) mst_peer_heal(peer);
      const enum mst_worker_state state = mst_peer_worker(peer)->state;
      if (state != MST_WORKER_IDLE && state != MST_WORKER_BUSY) continue;
      if (peer->alone && peer->resuming) send_calls(peer);
      if (beats) listen_to(peer, slept_ns, now_ns);
      if (limits) watch_time(peer, now_ns);
    }
  }
}
