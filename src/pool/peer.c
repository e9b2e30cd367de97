// The session's end of one worker: its channels, its hello, its answers.
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "pool/run.h"
#include "pool/run_int.h"
#include "pool/task.h"

// One wake-up reads at most this much of one worker before others have a turn.
#define READ_BURST ((size_t)16 << 20)

// So many waits for one of several workers may end without a look at their sockets.
#define UNHEARD_MAX 3u

static void printed(void *owner, const char *bytes, size_t n) {
  struct mst_peer *peer = owner;
  mst_log_write(&peer->cluster->log, &peer->part, peer->index, bytes, n);
}

void mst_peer_init(struct mst_peer *peer, struct mst_cluster *cluster,
                   uint32_t index) {
  peer->cluster = cluster;
  peer->index = index;
  peer->data.fd = peer->control.fd = -1;
  peer->data_watch.fd = peer->control_watch.fd = peer->output.watch.fd = -1;
  peer->output.sink = printed;
  peer->output.sink_owner = peer;
}

const struct mst_worker *mst_peer_worker(const struct mst_peer *peer) {
  return &peer->cluster->pool.workers[peer->index];
}

int mst_peer_is_up(const struct mst_peer *peer) {
  const enum mst_worker_state state = mst_peer_worker(peer)->state;
  return (state == MST_WORKER_IDLE || state == MST_WORKER_BUSY) &&
         !peer->resuming && !peer->data.ended;
}

void mst_peer_event(struct mst_peer *peer, enum mst_event_kind kind) {
  const struct mst_event event = {.kind = kind, .worker = peer->index};
  mst_cluster_event(peer->cluster, &event);
}

void mst_peer_fail(struct mst_peer *peer, const char *text) {
  if (peer->failure == NULL) peer->failure = strdup(text);
}

// closed stops reading; answers that came before can still be taken.
static void closed(struct mst_peer *peer) {
  mst_loop_remove(peer->cluster->session->loop, &peer->data_watch);
  peer->data.ended = 1;
  mst_peer_event(peer, MST_EV_CLOSED);
}

void mst_peer_broken(struct mst_peer *peer, const char *text) {
  mst_peer_fail(peer, text);
  mst_net_shutdown(peer->data.fd);
  closed(peer);
}

static void take_hello(struct mst_peer *peer, const struct mst_frame *frame) {
  const struct mst_session *session = peer->cluster->session;
  struct mst_hello *hello = &peer->hello;
  if (mst_hello_decode(frame->payload, (size_t)frame->head.length, hello) !=
      0) {
    mst_peer_broken(peer, "the worker's hello can't be read");
    return;
  }
  if (hello->version_min > MST_WIRE_VERSION ||
      hello->version_max < MST_WIRE_VERSION) {
    mst_peer_broken(peer, "the worker speaks another version of the protocol");
    return;
  }
  if (strcmp(hello->build, session->build) != 0) {
    mst_peer_broken(peer,
                    "the worker has another build of muster: it was installed "
                    "anew since this session loaded it; restart R");
    return;
  }
  peer->hello_seen = 1;
  peer->data.length_max = MST_FRAME_MAX;
  // The server's FORKED may come later than this, by another socket.
  const struct mst_event forked = {.kind = MST_EV_FORKED,
                                   .worker = peer->index,
                                   .number = (int32_t)hello->pid};
  if (hello->pid > 1) mst_cluster_event(peer->cluster, &forked);
}

static void take_text(struct mst_peer *peer, const struct mst_frame *frame) {
  char text[MST_TEXT_MAX + 1u];
  const int known =
      mst_text_decode(frame->payload, (size_t)frame->head.length, text) == 0;
  if (frame->head.kind != MST_KIND_READY) {
    mst_peer_fail(peer, known ? text : "(unreadable)");
    mst_peer_event(peer, MST_EV_SETUP_FAILED);
  } else if (known) {
    free(peer->tempdir);
    peer->tempdir = strdup(text);
    mst_peer_event(peer, MST_EV_READY);
  } else {
    mst_peer_broken(peer, "the worker's report that it is ready can't be read");
  }
}

// ---- calls and their answers

static struct mst_call *add_call(struct mst_peer *peer,
                                 struct mst_blob *payload,
                                 struct mst_task *task, int32_t tag,
                                 uint8_t unseen) {
  struct mst_call *call = malloc(sizeof *call);
  if (call == NULL) return NULL;
  *call = (struct mst_call){
      .id = ++peer->calls, .task = task, .tag = tag, .unseen = unseen};
  if (task != NULL) peer->tasks++;
  call->payload = payload;
  payload->refs++;
  if (peer->last_call != NULL) {
    peer->last_call->next = call;
  } else {
    peer->first_call = call;
  }
  peer->last_call = call;
  return call;
}

void mst_peer_pop_call(struct mst_peer *peer) {
  struct mst_call *call = peer->first_call;
  peer->first_call = call->next;
  if (peer->first_call == NULL) peer->last_call = NULL;
  mst_blob_release(call->payload);
  free(call);
  // The one that comes next may have been cancelled while it waited there.
  call = peer->first_call;
  if (call != NULL && call->cancelled) mst_peer_cancel(peer, call->id);
}

// drop_last takes back the newest call, which could not be sent.
static void drop_last(struct mst_peer *peer) {
  struct mst_call **at = &peer->first_call;
  struct mst_call *before = NULL;
  while (*at != peer->last_call) {
    before = *at;
    at = &(*at)->next;
  }
  mst_blob_release((*at)->payload);
  if ((*at)->task != NULL) peer->tasks--;
  free(*at);
  *at = NULL;
  peer->last_call = before;
  peer->calls--;
}

static int loss_is_next(const struct mst_peer *peer) {
  return peer->losses != NULL && peer->losses->call == peer->taken + 1;
}

// A frame that was served has the flag REPLAY: a real one has the number of a call
// that was taken before.
static int is_served(const struct mst_frame *frame) {
  return frame->head.kind != MST_KIND_VALUE ||
         (frame->head.flags & MST_FLAG_REPLAY) != 0;
}

static void pass(struct mst_peer *peer) {
  peer->taken++;
  peer->tasks--;
}

// skip_one passes over one frame or loss that nobody takes; 0 if there is none.
static int skip_one(struct mst_peer *peer) {
  struct mst_frame frame;
  if (loss_is_next(peer)) {
    if (!peer->losses->silent) return 0;
    mst_peer_pop_loss(peer);
    pass(peer);
    return 1;
  }
  if (peer->data.in_head >= peer->data.in_scanned) return 0;
  if (mst_chan_peek(&peer->data, &frame, NULL) != 1) return 0;
  if (!is_served(&frame) && frame.head.call > peer->taken) return 0;
  if (frame.head.kind == MST_KIND_VALUE && frame.head.call == peer->taken + 1) {
    pass(peer);
  }
  mst_chan_take(&peer->data, &frame);
  return 1;
}

void mst_peer_skip(struct mst_peer *peer) {
  while (skip_one(peer))
    ;
  const int next =
      loss_is_next(peer) || peer->data.in_head < peer->data.in_scanned;
  // The next answer counts as come in now: a worker with many can't starve
  // the others.
  peer->answered = next ? ++peer->cluster->session->arrivals : 0;
}

// take_answer leaves an answer where it is, until it is taken. That of a task is taken
// now, and one that nobody waits for any more is passed over.
static void take_answer(struct mst_peer *peer, const struct mst_frame *frame) {
  if ((frame->head.flags & MST_FLAG_REPLAY) != 0) {
    mst_peer_replayed(peer, frame);
    return;
  }
  const struct mst_call *call = peer->first_call;
  const uint64_t oldest = call == NULL ? peer->calls + 1 : call->id;
  if (frame->head.call < oldest &&
      mst_peer_worker(peer)->state == MST_WORKER_LOST) {
    // Dropped when its worker was known to be lost, and its channel not read out.
    if (peer->answered == 0) mst_peer_skip(peer);
    mst_peer_event(peer, MST_EV_ANSWERED);
    return;
  }
  if (call == NULL || frame->head.call != call->id) {
    mst_peer_broken(peer, "the worker sent an answer to another call");
    return;
  }
  struct mst_task *task = call->task;
  const int dropped = call->cancelled || task != NULL;
  // One that took too long has its loss instead, unless nobody waits for it.
  const int waits = !call->timed_out || call->cancelled;
  mst_peer_judge(peer, frame);
  if (task != NULL && waits) mst_task_answered(task, peer, frame);
  mst_peer_pop_call(peer);
  if (dropped) mst_chan_mark(&peer->data, frame, MST_FLAG_REPLAY);
  if (peer->answered == 0) mst_peer_skip(peer);
  mst_peer_event(peer, MST_EV_ANSWERED);
  if (peer->cluster->queued > 0) mst_tasks_dispatch(peer->cluster);
}

// take_frame serves a frame as it comes in. All stay where they are.
static void take_frame(struct mst_peer *peer, const struct mst_frame *frame) {
  const uint8_t kind = frame->head.kind;
  const struct mst_worker *worker = mst_peer_worker(peer);
  if (kind == MST_KIND_VALUE && (worker->owed > 0 || peer->replay_left > 0)) {
    take_answer(peer, frame);
    return;
  }
  if (kind == MST_KIND_HELLO && !peer->hello_seen) {
    take_hello(peer, frame);
  } else if (kind == MST_KIND_STATE && peer->hello_seen) {
    mst_peer_state_came(peer, frame);
  } else if (peer->hello_seen &&
             (worker->state == MST_WORKER_STARTING ||
              worker->state == MST_WORKER_RESTARTING ||
              worker->state == MST_WORKER_LOST) &&
             (kind == MST_KIND_READY || kind == MST_KIND_FAILED ||
              kind == MST_KIND_REFUSE)) {
    take_text(peer, frame);
  } else {
    mst_peer_broken(peer, "the worker sent a message that makes no sense here");
  }
  if (peer->answered == 0) mst_peer_skip(peer);
}

// read_data reads what is there and serves the frames in it.
static void read_data(struct mst_peer *peer) {
  struct mst_frame frame;
  size_t before = peer->data.in.len;
  size_t burst = 0;
  int rc = 1;
  while (rc == 1 && !peer->data.ended && burst < READ_BURST) {
    rc = mst_chan_fill(&peer->data, 0, NULL);
    int found;
    while (!peer->data.ended &&
           (found = mst_chan_scan(&peer->data, &frame, NULL)) != 0) {
      if (found < 0) {
        mst_peer_broken(peer, "the worker sent bytes that are no message");
        return;
      }
      take_frame(peer, &frame);
    }
    // Only a frame that is not whole yet is worth another read now.
    if (peer->data.in.len == peer->data.in_scanned) break;
    burst += peer->data.in.len - before;
    before = peer->data.in.len;
  }
  if (rc == 1 || rc == -MST_EAGAIN) return;
  if (rc == -MST_EMEM) mst_peer_fail(peer, "no memory for the worker's answer");
  if (peer->data_watch.slot != 0) closed(peer);
}

void mst_peer_data_ready(struct mst_watch *watch, uint32_t ready) {
  struct mst_peer *peer = watch->owner;
  if ((ready & MST_WRITABLE) != 0 && peer->data.out_first != NULL &&
      mst_chan_flush(&peer->data, NULL) == 0) {
    (void)mst_loop_want(peer->cluster->session->loop, watch, MST_READABLE,
                        NULL);
  }
  if ((ready & MST_READABLE) != 0) read_data(peer);
}

// A sign of life. The end of this channel says nothing that the other doesn't.
void mst_peer_control_ready(struct mst_watch *watch, uint32_t ready) {
  struct mst_peer *peer = watch->owner;
  struct mst_frame frame;
  (void)ready;
  const int rc = mst_chan_fill(&peer->control, 0, NULL);
  int found = 0;
  while (rc == 1 &&
         (found = mst_chan_peek(&peer->control, &frame, NULL)) == 1) {
    if (frame.head.kind == MST_KIND_PONG && frame.head.length == 8) {
      memcpy(&peer->pong, frame.payload, 8);
      mst_heal_heard(&peer->heal, mst_clock_now());
    }
    mst_chan_take(&peer->control, &frame);
  }
  if ((rc < 0 && rc != -MST_EAGAIN) || found < 0) {
    mst_loop_remove(peer->cluster->session->loop, watch);
  }
}

void mst_peer_want_write(struct mst_peer *peer) {
  (void)mst_loop_want(peer->cluster->session->loop, &peer->data_watch,
                      MST_READABLE | MST_WRITABLE, NULL);
}

void mst_peer_lost(struct mst_peer *peer) {
  mst_loop_remove(peer->cluster->session->loop, &peer->data_watch);
  peer->data.ended = 1;
  if (peer->to_heal) return;
  // Done when the loop has run: what runs now may be in the middle of this peer.
  peer->to_heal = 1;
  peer->cluster->session->to_heal++;
}

void mst_peer_retire(struct mst_peer *peer) {
  if (mst_peer_worker(peer)->state == MST_WORKER_LOST) peer->dead = 1;
  mst_peer_event(peer, MST_EV_RETIRE);
}

void mst_peer_kill(struct mst_peer *peer) {
  peer->dead = 1;
  mst_peer_fail(peer, "it was ended by killNode()");
  // One that is lost may wait for its turn to come back.
  const int lost = mst_peer_worker(peer)->state == MST_WORKER_LOST;
  mst_peer_event(peer, lost ? MST_EV_RETIRE : MST_EV_SILENT);
}

int mst_peer_flush(struct mst_peer *peer, int slice_ms, struct mst_err *err) {
  if (peer->data.out_first != NULL && !peer->data.ended) {
    mst_peer_want_write(peer);
    const int rc = mst_session_run(peer->cluster->session, slice_ms, err);
    if (rc != 0) return rc;
  }
  if (peer->data.ended || peer->resuming) {
    if (!peer->dead) return 0; // it is sent again
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the worker is gone");
  }
  return peer->data.out_first == NULL ? 0 : -MST_EAGAIN;
}

int mst_peer_send_job(struct mst_peer *peer, struct mst_job *job,
                      struct mst_err *err) {
  const uint32_t epoch = mst_peer_worker(peer)->epoch;
  if (job == NULL || mst_job_is_at(job, peer->index, epoch)) return 0;
  struct mst_head head = {.kind = MST_KIND_JOB,
                          .cluster = peer->cluster->id,
                          .worker = peer->index,
                          .epoch = epoch,
                          .call = job->id};
  const int rc = mst_chan_send(&peer->data, &head, job->bytes, NULL, 0, 0, err);
  // Without memory for the note it is sent again, and replaces itself.
  if (rc == 0) (void)mst_job_note(job, peer->index, epoch);
  return rc;
}

int mst_peer_send_call(struct mst_peer *peer, struct mst_call *call,
                       struct mst_err *err) {
  if (call->task != NULL) {
    const int sent = mst_peer_send_job(peer, call->task->job, err);
    if (sent != 0) return sent;
  }
  const int is_head = call == peer->first_call;
  struct mst_head head = {.kind = MST_KIND_EXEC,
                          .flags = call->task != NULL ? MST_FLAG_TASK : 0,
                          .attempt =
                              (uint16_t)(is_head ? peer->heal.attempt : 0),
                          .cluster = peer->cluster->id,
                          .worker = peer->index,
                          .epoch = mst_peer_worker(peer)->epoch,
                          .call = call->id};
  const int rc =
      mst_chan_send(&peer->data, &head, call->payload, NULL, 0, 0, err);
  if (rc != 0) return rc;
  call->sent = 1;
  if (is_head) peer->head_ns = mst_clock_now();
  mst_peer_event(peer, MST_EV_SENT);
  return 0;
}

int mst_peer_send(struct mst_peer *peer, struct mst_blob *payload, int32_t tag,
                  uint8_t unseen, int slice_ms, struct mst_err *err) {
  MST_ASSERT_HOLDS(peer->cluster->session);
  const struct mst_worker *worker = mst_peer_worker(peer);
  const int heals = peer->cluster->policy.on;
  if (peer->dead || worker->stop_ns != INT64_MAX ||
      (!heals && peer->data.ended)) {
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the worker is %s",
                       mst_worker_state_name(worker->state));
  }
  struct mst_call *call = add_call(peer, payload, NULL, tag, unseen);
  if (call == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a call");
  }
  // One that is lost or comes back gets its calls when it is there again.
  if (!mst_peer_is_up(peer)) return 0;
  const int rc = mst_peer_send_call(peer, call, err);
  if (rc == 0) {
    return peer->data.out_first == NULL ? 0
                                        : mst_peer_flush(peer, slice_ms, err);
  }
  const int gone = rc == -MST_ECLOSED || rc == -MST_ESYS;
  if (gone && peer->data_watch.slot != 0) read_data(peer);
  if (gone && heals) {
    mst_net_shutdown(peer->data.fd); // its end will be heard
    return 0;
  }
  drop_last(peer);
  return rc;
}

int mst_peer_send_task(struct mst_peer *peer, struct mst_blob *payload,
                       struct mst_task *task) {
  struct mst_call *call = add_call(peer, payload, task, 0, 0);
  if (call == NULL) return -MST_EMEM;
  const int rc = mst_peer_send_call(peer, call, NULL);
  if (rc == 0) {
    if (peer->data.out_first != NULL) mst_peer_want_write(peer);
    return 0;
  }
  if (rc == -MST_ECLOSED || rc == -MST_ESYS) {
    mst_net_shutdown(peer->data.fd); // its end will be heard
    return 0;
  }
  drop_last(peer);
  return rc;
}

// look finds among the peers the oldest answer, or one that is lost and owes.
static int look(struct mst_peer *const *peers, uint32_t n, uint32_t *lost) {
  int first = -MST_EAGAIN;
  for (uint32_t i = 0; i < n; i++) {
    const struct mst_peer *peer = peers[i];
    if (peer->answered != 0 &&
        (first < 0 || peer->answered < peers[first]->answered)) {
      first = (int)i;
    }
    const int gone =
        peer->dead || (peer->data.ended && !peer->cluster->policy.on);
    if (first == -MST_EAGAIN && gone && peer->first_call != NULL) {
      *lost = i;
      first = -MST_ECLOSED;
    }
  }
  return first;
}

// spin looks again and again. A single worker's socket is read directly, which
// spares a call; several are served by the loop.
static int spin(struct mst_peer *const *peers, uint32_t n, uint32_t *lost) {
  struct mst_session *session = peers[0]->cluster->session;
  const int64_t end_ns = mst_clock_now() + MST_SPIN_NS;
  int found;
  do {
    if (n == 1) {
      read_data(peers[0]);
    } else if (mst_loop_run(session->loop, 0, NULL) < 0) {
      return -MST_EAGAIN;
    }
    found = look(peers, n, lost);
  } while (found == -MST_EAGAIN && mst_clock_now() < end_ns);
  mst_spin_end(&session->spin, found != -MST_EAGAIN);
  return found;
}

// listen_between looks at the sockets, now and then, while answers that are there already
// end each wait: those of one worker would be taken one after the other, and another's
// that came long ago not be seen.
static int listen_between(struct mst_peer *const *peers, uint32_t n, int found,
                          uint32_t *lost) {
  struct mst_session *session = peers[0]->cluster->session;
  if (n == 1 || ++session->unheard < UNHEARD_MAX) return found;
  session->unheard = 0;
  (void)mst_loop_run(session->loop, 0,
                     NULL); // a failure shows in the next wait
  return look(peers, n, lost);
}

void mst_peer_poll(struct mst_peer *peer) {
  MST_ASSERT_HOLDS(peer->cluster->session);
  read_data(peer);
}

int mst_peer_wait(struct mst_peer *const *peers, uint32_t n, int timeout_ms,
                  uint32_t *lost, struct mst_err *err) {
  struct mst_session *session = peers[0]->cluster->session;
  MST_ASSERT_HOLDS(session);
  // While answers are always there already, nothing else would see to losses.
  if (session->to_heal > 0) mst_session_mend(session, mst_clock_now());
  int found = look(peers, n, lost);
  if (found != -MST_EAGAIN) return listen_between(peers, n, found, lost);
  session->unheard = 0;
  if (mst_spin_begin(&session->spin)) {
    found = spin(peers, n, lost);
    if (found != -MST_EAGAIN) return found;
  }
  const int rc = mst_session_run(session, timeout_ms, err);
  return rc < 0 ? rc : look(peers, n, lost);
}

static void taken(struct mst_peer *peer) {
  peer->taken++;
  mst_peer_skip(peer);
}

int mst_peer_take_answer(struct mst_peer *peer, struct mst_answer *answer) {
  struct mst_frame frame;
  if (peer->answered == 0) return 0;
  if (loss_is_next(peer)) return 2;
  int rc = mst_chan_peek(&peer->data, &frame, NULL);
  MST_ASSERT(rc == 1 && frame.head.kind == MST_KIND_VALUE);
  answer->head = frame.head;
  answer->large = (struct mst_buf){0};
  answer->map = mst_map_hold(mst_chan_map(&peer->data, &frame));
  if (frame.head.length <= MST_ANSWER_SMALL) {
    memcpy(answer->small, frame.payload, (size_t)frame.head.length);
    answer->payload = answer->small;
    mst_chan_take(&peer->data, &frame);
  } else {
    rc = mst_chan_detach(&peer->data, &frame, &answer->large, &answer->payload);
    if (rc != 0) {
      mst_answer_free(answer);
      return rc;
    }
  }
  taken(peer);
  return 1;
}

void mst_answer_free(struct mst_answer *answer) {
  mst_buf_free(&answer->large);
  mst_map_release(answer->map);
  answer->map = NULL;
}

struct mst_loss *mst_peer_take_loss(struct mst_peer *peer) {
  if (peer->answered == 0 || !loss_is_next(peer)) return NULL;
  struct mst_loss *loss = peer->losses;
  peer->losses = loss->next;
  loss->next = NULL;
  taken(peer);
  return loss;
}

uint32_t mst_peer_unread(const struct mst_peer *peer) {
  return (uint32_t)(peer->calls - peer->taken) - peer->tasks;
}

void mst_peer_drop(struct mst_peer *peer) {
  if (loss_is_next(peer)) mst_peer_pop_loss(peer);
  taken(peer);
}

int mst_peer_ping(struct mst_peer *peer, uint64_t nonce, int timeout_ms,
                  struct mst_err *err) {
  struct mst_head head = {.kind = MST_KIND_PING,
                          .cluster = peer->cluster->id,
                          .worker = peer->index};
  int rc =
      mst_chan_send_small(&peer->control, &head, &nonce, sizeof nonce, 0, err);
  const int64_t deadline_ns =
      mst_clock_now() + (int64_t)timeout_ms * MST_NS_PER_MS;
  const uint32_t epoch = mst_peer_worker(peer)->epoch;
  while (rc == 0 && peer->pong != nonce) {
    const int left_ms = mst_clock_ms_until(deadline_ns, timeout_ms);
    if (left_ms == 0) {
      return mst_err_set(err, MST_ETIMEOUT, 0, NULL, "no answer in time");
    }
    rc = mst_session_run(peer->cluster->session, left_ms, err);
    if (peer->data.ended || mst_peer_worker(peer)->epoch != epoch) {
      return mst_err_set(err, MST_ECLOSED, 0, NULL, "the worker is gone");
    }
  }
  return rc;
}
