// Reads a worker's messages: hello, answers, signs of life. The core gets the facts; the code that
// runs the loop (session.c) carries out the actions.
#include <stdlib.h>
#include <string.h>

#include "pool/session_int.h"

// One wake-up reads at most this much from one worker, so that others get their turn.
#define READ_BURST ((size_t)16 << 20)

static void tell(struct mst_peer *peer, enum mst_event_kind kind) {
  const struct mst_event event = {.kind = kind, .worker = peer->index};
  mst_calls_event(&peer->cluster->calls, &event, mst_clock_now());
}

// closed stops reading.
static void closed(struct mst_peer *peer) {
  mst_peer_unwatch(peer);
  tell(peer, MST_EV_CLOSED);
}

static void broken(struct mst_peer *peer, enum mst_why why) {
  mst_calls_broken(&peer->cluster->calls, peer->index, why, mst_clock_now());
}

static void take_hello(struct mst_peer *peer, const struct mst_frame *frame) {
  const struct mst_session *session = peer->cluster->session;
  struct mst_hello *hello = &peer->hello;
  if (mst_hello_decode(frame->payload, (size_t)frame->head.length, hello) !=
      0) {
    broken(peer, MST_WHY_HELLO);
    return;
  }
  if (hello->version_min > MST_WIRE_VERSION ||
      hello->version_max < MST_WIRE_VERSION) {
    broken(peer, MST_WHY_VERSION);
    return;
  }
  const char *build = peer->host->build;
  if (strcmp(hello->build, build != NULL ? build : session->build) != 0) {
    broken(peer, MST_WHY_BUILD);
    return;
  }
  peer->hello_seen = 1;
  peer->conduit.data.length_max = MST_FRAME_MAX;
  // FORKED from the server may come later, over another socket.
  const struct mst_event forked = {.kind = MST_EV_FORKED,
                                   .worker = peer->index,
                                   .number = (int32_t)hello->pid};
  if (hello->pid > 1) {
    mst_calls_event(&peer->cluster->calls, &forked, mst_clock_now());
  }
}

static void take_text(struct mst_peer *peer, const struct mst_frame *frame) {
  char text[MST_TEXT_MAX + 1u];
  const int known =
      mst_text_decode(frame->payload, (size_t)frame->head.length, text) == 0;
  if (frame->head.kind != MST_KIND_READY) {
    mst_calls_fail_told(&peer->cluster->calls, peer->index,
                        known ? text : "(unreadable)");
    tell(peer, MST_EV_SETUP_FAILED);
  } else if (known) {
    free(peer->tempdir);
    peer->tempdir = strdup(text);
    mst_conduit_drain(
        &peer->conduit); // so that no call's end is counted too many
    peer->printed_out = 0;
    tell(peer, MST_EV_READY);
  } else {
    broken(peer, MST_WHY_READY);
  }
}

// ---- answers

// take_bytes moves an answer's bytes out of the channel. 0, or -MST_EMEM: then they stay there.
static int take_bytes(struct mst_peer *peer, const struct mst_frame *frame,
                      struct mst_answered *answered) {
  const size_t n = (size_t)frame->head.length;
  int rc;
  answered->value_bytes = n;
  answered->map = mst_map_hold(mst_chan_map(&peer->conduit.data, frame));
  if (n > MST_ANSWER_SMALL) {
    rc = mst_chan_detach(&peer->conduit.data, frame, &answered->bytes,
                         &answered->value);
  } else {
    rc = mst_buf_append(&answered->bytes, frame->payload, n);
    answered->value = answered->bytes.data;
    if (rc == 0) mst_chan_take(&peer->conduit.data, frame);
  }
  if (rc != 0) mst_map_release(answered->map);
  return rc;
}

// begin_answer decodes what precedes an answer's value, in its first n bytes.
static struct mst_answered
begin_answer(struct mst_peer *peer, const struct mst_frame *frame, size_t n) {
  struct mst_answered answered = {.call = frame->head.call,
                                  .flags = frame->head.flags};
  mst_conduit_drain(&peer->conduit); // output printed before it
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
  const int is_early = (answered->flags & MST_FLAG_EARLY) != 0;
  if (!is_early && peer->printed_out > 0) peer->printed_out--;
  (is_early ? mst_calls_said : mst_calls_answered)(
      &peer->cluster->calls, peer->index, answered, mst_clock_now());
}

static int is_wanted(const struct mst_peer *peer,
                     const struct mst_frame *frame) {
  return (frame->head.flags & MST_FLAG_REPLAY) == 0 &&
         mst_calls_wants(&peer->cluster->calls, peer->index, frame->head.call);
}

// reached: the frame shows how far the worker has come.
static void reached(struct mst_peer *peer, const struct mst_frame *frame) {
  if ((frame->head.flags & MST_FLAG_REPLAY) == 0) {
    mst_calls_reached(&peer->cluster->calls, peer->index, frame->head.call,
                      mst_clock_now());
  }
}

// take_value gives an answer to the core: 1, or 0 if it must stay in the channel.
static int take_value(struct mst_peer *peer, const struct mst_frame *frame) {
  struct mst_answered answered =
      begin_answer(peer, frame, (size_t)frame->head.length);
  if (!is_wanted(peer, frame)) {
    mst_chan_take(&peer->conduit.data, frame);
  } else if (take_bytes(peer, frame, &answered) != 0) {
    peer->no_memory = 1;
    return 0;
  }
  end_answer(peer, &answered);
  return 1;
}

// drop_unwanted drops an unwanted answer while it arrives, so that no memory is needed for all of
// it. 0 if the incoming frame isn't one.
static int drop_unwanted(struct mst_peer *peer) {
  struct mst_frame frame;
  size_t have;
  if (!mst_chan_begun(&peer->conduit.data, &frame, &have) ||
      frame.head.kind != MST_KIND_VALUE ||
      have < mst_value_skip(frame.head.flags) ||
      !mst_calls_expects(&peer->cluster->calls, peer->index)) {
    return 0;
  }
  reached(peer, &frame);
  if (is_wanted(peer, &frame)) return 0;
  struct mst_answered answered = begin_answer(peer, &frame, have);
  mst_chan_drop(&peer->conduit.data, &frame);
  end_answer(peer, &answered);
  return 1;
}

// take_other handles frames that aren't answers.
static void take_other(struct mst_peer *peer, const struct mst_frame *frame) {
  const uint8_t kind = frame->head.kind;
  const enum mst_worker_state state = peer->worker->state;
  const int boots = state == MST_WORKER_STARTING ||
                    state == MST_WORKER_RESTARTING || state == MST_WORKER_LOST;
  if (kind == MST_KIND_HELLO && !peer->hello_seen) {
    take_hello(peer, frame);
  } else if (kind == MST_KIND_CHECKPOINTED && peer->hello_seen) {
    mst_standby_made(peer, frame);
  } else if (kind == MST_KIND_TRIM && peer->hello_seen) {
    mst_calls_trimmed(&peer->cluster->calls, peer->index, mst_clock_now());
  } else if (peer->hello_seen && boots &&
             (kind == MST_KIND_READY || kind == MST_KIND_FAILED ||
              kind == MST_KIND_REFUSE)) {
    take_text(peer, frame);
  } else {
    broken(peer, MST_WHY_MESSAGE);
  }
}

// take_frame handles the oldest frame: 1, or 0 if it must stay in the channel.
static int take_frame(struct mst_peer *peer, const struct mst_frame *frame,
                      int all) {
  const struct mst_calls *calls = &peer->cluster->calls;
  if (frame->head.kind != MST_KIND_VALUE ||
      !mst_calls_expects(calls, peer->index)) {
    take_other(peer, frame);
    mst_chan_take(&peer->conduit.data, frame);
    return 1;
  }
  reached(peer, frame);
  if (!all && (frame->head.flags & MST_FLAG_REPLAY) == 0 &&
      !mst_calls_may_read(calls, peer->index)) {
    return 0;
  }
  return take_value(peer, frame);
}

// reads_on: no frame so far has ended the channel.
static int reads_on(const struct mst_peer *peer) {
  return !peer->conduit.data.ended && peer->worker->channel;
}

// serve_frames handles the frames in the buffer: 1, or 0 if some must stay.
static int serve_frames(struct mst_peer *peer, int all) {
  struct mst_frame frame;
  int found;
  while (reads_on(peer) &&
         (found = mst_chan_peek(&peer->conduit.data, &frame, NULL)) != 0) {
    if (found < 0) {
      broken(peer, MST_WHY_FRAME);
      return 1;
    }
    if (!take_frame(peer, &frame, all)) return 0;
  }
  return 1;
}

// read_all reads what has arrived, and handles its frames. all: the worker has ended, so no frame
// may stay; frames read earlier are handled first, since none is handled after the channel's end.
static void read_all(struct mst_peer *peer, int all) {
  int rc = all && !serve_frames(peer, all) ? -MST_EMEM : 1;
  size_t before = peer->conduit.data.in.len;
  size_t burst = 0;
  while (rc == 1 && reads_on(peer) && burst < READ_BURST) {
    rc = mst_conduit_fill(&peer->conduit, NULL);
    if (rc == -MST_EMEM && drop_unwanted(peer)) rc = 1;
    const int short_of_memory = rc == -MST_EMEM && !all;
    // If memory is short, an answer stays until its caller waits for it, other frames until the
    // session runs again.
    if (short_of_memory &&
        mst_calls_expects(&peer->cluster->calls, peer->index))
      peer->no_memory = 1;
    const int waits = !serve_frames(peer, all);
    if (!all && (waits || short_of_memory)) {
      mst_peer_hold(peer);
      return;
    }
    if (waits) rc = -MST_EMEM;
    // Read again at once only to complete a frame.
    if (peer->conduit.data.in.len == peer->conduit.data.in_head) break;
    burst += peer->conduit.data.in.len - before;
    before = peer->conduit.data.in.len;
  }
  if (rc == 1 || rc == -MST_EAGAIN) return;
  if (rc == -MST_EMEM) {
    mst_calls_fail(&peer->cluster->calls, peer->index, MST_WHY_NO_MEMORY);
  }
  if (mst_conduit_listens(&peer->conduit)) closed(peer);
}

void mst_peer_read(struct mst_peer *peer) {
  if (mst_conduit_listens(&peer->conduit) && !peer->conduit.held)
    read_all(peer, 0);
}

void mst_peer_read_out(struct mst_peer *peer) {
  peer->no_memory = 0;
  mst_peer_hold_no_more(peer);
  if (mst_conduit_listens(&peer->conduit)) read_all(peer, 1);
}

void mst_peer_read_on(struct mst_peer *peer) {
  struct mst_cluster *cluster = peer->cluster;
  if (!mst_calls_may_read(&cluster->calls, peer->index)) return;
  mst_peer_hold_no_more(peer);
  if (!serve_frames(peer, 0)) {
    mst_peer_hold(peer);
  } else {
    mst_peer_read(peer);
  }
}

void mst_cluster_read_on(struct mst_cluster *cluster) {
  for (uint32_t i = 0; cluster->held > 0 && i < cluster->calls.pool.count;
       i++) {
    if (cluster->peers[i]->conduit.held && !cluster->peers[i]->no_memory) {
      mst_peer_read_on(cluster->peers[i]);
    }
  }
}

void mst_peer_readable(void *owner) {
  struct mst_peer *peer = owner;
  if (peer->conduit.held) {
    mst_peer_read_out(peer); // a held channel wakes us only when it has ended
  } else {
    mst_peer_read(peer);
  }
}

void mst_peer_control(void *owner, const struct mst_frame *frame) {
  struct mst_peer *peer = owner;
  struct mst_calls *calls = &peer->cluster->calls;
  if (frame->head.kind == MST_KIND_CANCEL)
    mst_calls_deaf(calls, peer->index, frame->head.call);
  if (frame->head.kind == MST_KIND_WITHDRAW &&
      frame->head.epoch == peer->worker->epoch) {
    mst_calls_withdrawn(calls, peer->index, frame->head.call, mst_clock_now());
  }
  if (frame->head.kind != MST_KIND_PONG || frame->head.length != 8) return;
  uint64_t nonce;
  memcpy(&nonce, frame->payload, sizeof nonce);
  if (nonce > peer->pong) peer->pong = nonce;
  mst_calls_heard(calls, peer->index, mst_clock_now());
}
