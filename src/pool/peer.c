// The session's end of one worker: its channels, its hello, its answers.
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "pool/run.h"
#include "pool/run_int.h"

// One wake-up reads at most this much of one worker before others have a turn.
#define READ_BURST ((size_t)16 << 20)

static void printed(void *owner, const char *bytes, size_t n) {
  struct mst_peer *peer = owner;
  if (peer->slot->replay_left > 0) return; // it was printed the first time
  mst_log_write(&peer->cluster->log, &peer->part, peer->index, bytes, n);
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

static void tell(struct mst_peer *peer, enum mst_event_kind kind) {
  const struct mst_event event = {.kind = kind, .worker = peer->index};
  mst_cluster_event(peer->cluster, &event);
}

static void hold(struct mst_peer *peer) {
  if (peer->held) return;
  peer->held = 1;
  peer->cluster->held++;
}

static void hold_no_more(struct mst_peer *peer) {
  if (!peer->held) return;
  peer->held = 0;
  peer->cluster->held--;
}

void mst_peer_unwatch(struct mst_peer *peer) {
  mst_loop_remove(peer->cluster->session->loop, &peer->data_io);
  peer->data.ended = 1;
  peer->no_memory = 0;
  hold_no_more(peer);
}

// closed stops reading.
static void closed(struct mst_peer *peer) {
  mst_peer_unwatch(peer);
  tell(peer, MST_EV_CLOSED);
}

static void broken(struct mst_peer *peer, const char *text) {
  mst_calls_broken(&peer->cluster->calls, peer->index, text, mst_clock_now());
  mst_cluster_carry_out(peer->cluster);
}

static void take_hello(struct mst_peer *peer, const struct mst_frame *frame) {
  const struct mst_session *session = peer->cluster->session;
  struct mst_hello *hello = &peer->hello;
  if (mst_hello_decode(frame->payload, (size_t)frame->head.length, hello) !=
      0) {
    broken(peer, "the worker's hello can't be read");
    return;
  }
  if (hello->version_min > MST_WIRE_VERSION ||
      hello->version_max < MST_WIRE_VERSION) {
    broken(peer, "the worker speaks another version of the protocol");
    return;
  }
  if (strcmp(hello->build, session->build) != 0) {
    broken(peer, "the worker has another build of muster: it was installed "
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
    mst_calls_fail(&peer->cluster->calls, peer->index,
                   known ? text : "(unreadable)");
    tell(peer, MST_EV_SETUP_FAILED);
  } else if (known) {
    free(peer->tempdir);
    peer->tempdir = strdup(text);
    tell(peer, MST_EV_READY);
  } else {
    broken(peer, "the worker's report that it is ready can't be read");
  }
}

// ---- answers

// take_bytes takes an answer's bytes off the channel. 0, or -MST_EMEM: then it stays there.
static int take_bytes(struct mst_peer *peer, const struct mst_frame *frame,
                      struct mst_answered *answered) {
  const size_t n = (size_t)frame->head.length;
  int rc;
  answered->value_bytes = n;
  answered->map = mst_map_hold(mst_chan_map(&peer->data, frame));
  if (n > MST_ANSWER_SMALL) {
    rc =
        mst_chan_detach(&peer->data, frame, &answered->bytes, &answered->value);
  } else {
    rc = mst_buf_append(&answered->bytes, frame->payload, n);
    answered->value = answered->bytes.data;
    if (rc == 0) mst_chan_take(&peer->data, frame);
  }
  if (rc != 0) mst_map_release(answered->map);
  return rc;
}

// begin_answer reads what stands before an answer's value, in its first n bytes.
static struct mst_answered
begin_answer(struct mst_peer *peer, const struct mst_frame *frame, size_t n) {
  struct mst_answered answered = {.call = frame->head.call,
                                  .flags = frame->head.flags};
  mst_output_drain(&peer->output); // what was printed before it
  struct mst_value_head times = {0};
  (void)mst_value_head_decode(frame->payload, n, &times);
  answered.elapsed_s = times.elapsed_s;
  if ((answered.flags & MST_FLAG_SEED) != 0 &&
      (n < MST_VALUE_HEAD_BYTES ||
       mst_seed_decode(frame->payload + MST_VALUE_HEAD_BYTES,
                       n - MST_VALUE_HEAD_BYTES, &answered.seed) != 0)) {
    answered.seed.known = 0;
  }
  return answered;
}

static void end_answer(struct mst_peer *peer, struct mst_answered *answered) {
  ((answered->flags & MST_FLAG_EARLY) != 0 ? mst_calls_said
                                           : mst_calls_answered)(
      &peer->cluster->calls, peer->index, answered, mst_clock_now());
  mst_cluster_carry_out(peer->cluster);
}

static int is_wanted(const struct mst_peer *peer,
                     const struct mst_frame *frame) {
  return (frame->head.flags & MST_FLAG_REPLAY) == 0 &&
         mst_calls_wants(&peer->cluster->calls, peer->index, frame->head.call);
}

// take_value gives an answer to the core. 1; 0 if it has to wait where it is.
static int take_value(struct mst_peer *peer, const struct mst_frame *frame) {
  struct mst_answered answered =
      begin_answer(peer, frame, (size_t)frame->head.length);
  if (!is_wanted(peer, frame)) {
    mst_chan_take(&peer->data, frame);
  } else if (take_bytes(peer, frame, &answered) != 0) {
    peer->no_memory = 1;
    return 0;
  }
  end_answer(peer, &answered);
  return 1;
}

// drop_unwanted spares an answer that nobody wants the memory to be whole first. 0 if that is not
// what comes.
static int drop_unwanted(struct mst_peer *peer) {
  struct mst_frame frame;
  size_t have;
  if (!mst_chan_begun(&peer->data, &frame, &have) ||
      frame.head.kind != MST_KIND_VALUE ||
      have < mst_value_skip(frame.head.flags) ||
      !mst_calls_expects(&peer->cluster->calls, peer->index) ||
      is_wanted(peer, &frame)) {
    return 0;
  }
  struct mst_answered answered = begin_answer(peer, &frame, have);
  mst_chan_drop(&peer->data, &frame);
  end_answer(peer, &answered);
  return 1;
}

// take_other serves what is no answer.
static void take_other(struct mst_peer *peer, const struct mst_frame *frame) {
  const uint8_t kind = frame->head.kind;
  const enum mst_worker_state state = mst_peer_worker(peer)->state;
  const int boots = state == MST_WORKER_STARTING ||
                    state == MST_WORKER_RESTARTING || state == MST_WORKER_LOST;
  if (kind == MST_KIND_HELLO && !peer->hello_seen) {
    take_hello(peer, frame);
  } else if (kind == MST_KIND_CHECKPOINTED && peer->hello_seen) {
    mst_standby_made(peer, frame);
    mst_cluster_carry_out(peer->cluster);
  } else if (peer->hello_seen && boots &&
             (kind == MST_KIND_READY || kind == MST_KIND_FAILED ||
              kind == MST_KIND_REFUSE)) {
    take_text(peer, frame);
  } else {
    broken(peer, "the worker sent a message that makes no sense here");
  }
}

// take_frame serves the oldest frame. 1; 0 if it has to wait where it is.
static int take_frame(struct mst_peer *peer, const struct mst_frame *frame,
                      int all) {
  const struct mst_calls *calls = &peer->cluster->calls;
  if (frame->head.kind != MST_KIND_VALUE ||
      !mst_calls_expects(calls, peer->index)) {
    take_other(peer, frame);
    mst_chan_take(&peer->data, frame);
    return 1;
  }
  if (!all && (frame->head.flags & MST_FLAG_REPLAY) == 0 &&
      !mst_calls_may_read(calls, peer->index)) {
    return 0;
  }
  return take_value(peer, frame);
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

// stay_unread: what is in the channel stays there, and is no reason to wake up.
static void stay_unread(struct mst_peer *peer) {
  hold(peer);
  mst_peer_want(peer);
}

// serve_frames takes the frames that are in the buffer. 1; 0 if some have to wait.
static int serve_frames(struct mst_peer *peer, int all) {
  struct mst_frame frame;
  int found;
  while (!peer->data.ended &&
         (found = mst_chan_peek(&peer->data, &frame, NULL)) != 0) {
    if (found < 0) {
      broken(peer, "the worker sent bytes that are no message");
      return 1;
    }
    if (!take_frame(peer, &frame, all)) return 0;
  }
  return 1;
}

// read_all reads what is there and serves the frames in it. all: it has ended, so nothing waits;
// frames that were read before come first, since none is served past the channel's end.
static void read_all(struct mst_peer *peer, int all) {
  int rc = all && !serve_frames(peer, all) ? -MST_EMEM : 1;
  size_t before = peer->data.in.len;
  size_t burst = 0;
  while (rc == 1 && !peer->data.ended && burst < READ_BURST) {
    rc = mst_chan_fill(&peer->data, 0, NULL);
    if (rc == -MST_EMEM && drop_unwanted(peer)) rc = 1;
    const int short_of_memory = rc == -MST_EMEM && !all;
    // An answer waits for who wants it, anything else until the session runs again.
    if (short_of_memory &&
        mst_calls_expects(&peer->cluster->calls, peer->index))
      peer->no_memory = 1;
    const int waits = !serve_frames(peer, all);
    if (!all && (waits || short_of_memory)) {
      stay_unread(peer);
      return;
    }
    if (waits) rc = -MST_EMEM;
    // Only a frame that is not whole yet is worth another read now.
    if (peer->data.in.len == peer->data.in_head) break;
    burst += peer->data.in.len - before;
    before = peer->data.in.len;
  }
  if (rc == 1 || rc == -MST_EAGAIN) return;
  if (rc == -MST_EMEM) {
    mst_calls_fail(&peer->cluster->calls, peer->index,
                   "no memory for the worker's answer");
  }
  if (peer->data_io.slot != 0) closed(peer);
}

static void read_data(struct mst_peer *peer) {
  if (peer->data_io.slot != 0 && !peer->held) read_all(peer, 0);
}

void mst_peer_read_out(struct mst_peer *peer) {
  peer->no_memory = 0;
  hold_no_more(peer);
  if (peer->data_io.slot != 0) read_all(peer, 1);
}

void mst_peer_read_on(struct mst_peer *peer) {
  struct mst_cluster *cluster = peer->cluster;
  if (!mst_calls_may_read(&cluster->calls, peer->index)) return;
  hold_no_more(peer);
  mst_peer_want(peer);
  if (!serve_frames(peer, 0)) {
    stay_unread(peer);
  } else {
    read_data(peer);
  }
}

void mst_cluster_read_on(struct mst_cluster *cluster) {
  for (uint32_t i = 0; cluster->held > 0 && i < cluster->calls.pool.count;
       i++) {
    if (cluster->peers[i]->held && !cluster->peers[i]->no_memory) {
      mst_peer_read_on(cluster->peers[i]);
    }
  }
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

void mst_peer_data_ready(struct mst_io *io, uint32_t ready) {
  struct mst_peer *peer = io->owner;
  if ((ready & MST_WRITABLE) != 0 && peer->data.out_first != NULL) {
    (void)mst_chan_flush(&peer->data, NULL);
    mst_peer_want(peer);
  }
  if ((ready & MST_READABLE) == 0) return;
  if (peer->held) {
    mst_peer_read_out(peer); // nobody asked: it has ended
  } else {
    read_data(peer);
  }
}

// A sign of life. The end of this channel says nothing that the other doesn't.
void mst_peer_control_ready(struct mst_io *io, uint32_t ready) {
  struct mst_peer *peer = io->owner;
  struct mst_frame frame;
  (void)ready;
  const int rc = mst_chan_fill(&peer->control, 0, NULL);
  int found = 0;
  while (rc == 1 &&
         (found = mst_chan_peek(&peer->control, &frame, NULL)) == 1) {
    if (frame.head.kind == MST_KIND_PONG && frame.head.length == 8) {
      memcpy(&peer->pong, frame.payload, 8);
      mst_calls_heard(&peer->cluster->calls, peer->index, mst_clock_now());
    }
    mst_chan_take(&peer->control, &frame);
  }
  // Without memory it stays there until there is some.
  if ((rc < 0 && rc != -MST_EAGAIN && rc != -MST_EMEM) || found < 0) {
    mst_loop_remove(peer->cluster->session->loop, io);
  }
}

// ---- what users want

void mst_peer_retire(struct mst_peer *peer) {
  peer->retired = 1;
  mst_calls_retire(&peer->cluster->calls, peer->index, mst_clock_now());
  mst_cluster_carry_out(peer->cluster);
}

void mst_peer_kill(struct mst_peer *peer) {
  mst_calls_kill(&peer->cluster->calls, peer->index, mst_clock_now());
  mst_cluster_carry_out(peer->cluster);
}

void mst_peer_forget(struct mst_peer *peer, const void *verb) {
  peer->no_memory = 0; // nobody may want what there was none for
  mst_calls_forget(&peer->cluster->calls, peer->index, verb, mst_clock_now());
  mst_cluster_carry_out(peer->cluster);
}

void mst_session_cancel(struct mst_session *session, const void *verb) {
  for (struct mst_cluster *cluster = session->clusters; cluster != NULL;
       cluster = cluster->next) {
    for (uint32_t i = 0; i < cluster->calls.pool.count; i++) {
      if (cluster->calls.slots[i]->lane.unread > 0) {
        cluster->peers[i]->no_memory = 0;
        mst_calls_forget(&cluster->calls, i, verb, mst_clock_now());
      }
    }
    mst_cluster_carry_out(cluster);
  }
}

int mst_peer_flush(struct mst_peer *peer, int slice_ms, struct mst_err *err) {
  const struct mst_slot *slot = peer->slot;
  if (peer->data.out_first != NULL && !peer->data.ended) {
    mst_peer_want(peer);
    const int rc = mst_session_run(peer->cluster->session, slice_ms, err);
    if (rc != 0) return rc;
  }
  if (peer->data.ended || slot->resuming) {
    if (!slot->dead) return 0; // it is sent again
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the worker is gone");
  }
  return peer->data.out_first == NULL ? 0 : -MST_EAGAIN;
}

int mst_peer_send(struct mst_peer *peer, struct mst_blob *payload,
                  const void *verb, int32_t tag, uint8_t unseen, int slice_ms,
                  struct mst_err *err) {
  struct mst_cluster *cluster = peer->cluster;
  MST_ASSERT_HOLDS(cluster->session);
  const int rc = mst_calls_send(&cluster->calls, peer->index, payload, verb,
                                tag, unseen, mst_clock_now());
  if (rc == -MST_ECLOSED) {
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the worker is %s",
                       mst_worker_state_name(mst_peer_worker(peer)->state));
  }
  if (rc != 0) {
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a call");
  }
  peer->send_rc = 0;
  mst_cluster_carry_out(cluster);
  if (peer->send_rc != 0) return peer->send_rc;
  // One that is lost or comes back gets its calls when it is there again.
  if (!mst_peer_is_up(peer) || peer->data.out_first == NULL) return 0;
  return mst_peer_flush(peer, slice_ms, err);
}

void mst_peer_poll(struct mst_peer *peer) {
  MST_ASSERT_HOLDS(peer->cluster->session);
  read_data(peer);
}

struct mst_call *mst_peer_answer(const struct mst_peer *peer,
                                 const void *verb) {
  return mst_lane_answer(&peer->slot->lane, verb);
}

void mst_peer_take(struct mst_peer *peer, struct mst_call *answer) {
  mst_lane_take(&peer->slot->lane, answer);
}

uint32_t mst_peer_unread(const struct mst_peer *peer) {
  return peer->slot->lane.unread;
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
