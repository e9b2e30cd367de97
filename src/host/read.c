// From descriptors to the link. See relay_int.h.
//
// An end is read when its turn on the link comes, straight into what goes to the link. In the host
// process two things may have to be sent before: what a worker printed before an answer; and,
// before the news that it has ended, all that it left in its output and its data.
#include <errno.h>
#include <string.h>

#include "host/relay_int.h"

// ---- what goes to the link

// next_bytes gives where the next piece's bytes go.
static uint8_t *next_bytes(const struct mst_end *end) {
  return mst_trunk_end(&end->relay->trunk) + MST_PIECE_HEAD_BYTES;
}

// send puts n bytes that lie behind room for a header at the end of what goes out.
static void send(struct mst_end *end, size_t n, int64_t now_ns) {
  struct mst_relay *relay = end->relay;
  if (n == 0) return;
  mst_mux_data(&relay->trunk.mux, end->stream, n, now_ns,
               mst_trunk_end(&relay->trunk));
  relay->trunk.out_n += MST_PIECE_HEAD_BYTES + n;
}

// send_with sends n bytes, of which those from `start` on have descriptors along.
static int send_with(struct mst_end *end, size_t start, size_t n, int *fds,
                     size_t count, int64_t now_ns) {
  struct mst_relay *relay = end->relay;
  struct mst_attached attached[MST_ATTACHED_MAX];
  uint8_t bytes[MST_ATTACH_BYTES_MAX];
  const int rc = mst_parts_send(relay, fds, count, attached);
  if (rc != 0) return rc;
  const uint8_t *from =
      mst_trunk_end(&relay->trunk) + MST_PIECE_HEAD_BYTES + start;
  send(end, start, now_ns);
  const size_t said =
      mst_mux_attach(&relay->trunk.mux, end->stream, attached, count, bytes);
  memmove(mst_trunk_end(&relay->trunk) + said + MST_PIECE_HEAD_BYTES, from,
          n - start);
  memcpy(mst_trunk_end(&relay->trunk), bytes, said);
  relay->trunk.out_n += said;
  send(end, n - start, now_ns);
  return 0;
}

// ---- a worker's last words

static int is_behind(const struct mst_end *end, uint64_t at) {
  return end != NULL && !end->no_more_reads && !end->stream->stopped &&
         end->stream->sent < at;
}

static int must_hold(const struct mst_control_end *end) {
  if (is_behind(end->held_for[0], end->held_output)) return 1;
  return is_behind(end->held_for[1], end->held_data) &&
         mst_clock_now() - end->held_ns < MST_RELAY_LAST_NS;
}

// note_left notes what a worker that has ended left unread. 1 if that is anything.
static int note_left(struct mst_control_end *end, const struct mst_head *head) {
  struct mst_relay *relay = end->frames.end.relay;
  uint64_t *const until[] = {&end->held_output, &end->held_data};
  static const enum mst_stream_class classes[] = {MST_STREAM_OUTPUT,
                                                  MST_STREAM_DATA};
  for (int i = 0; i < 2; i++) {
    struct mst_end *left = mst_end_of_worker(relay, head, classes[i]);
    end->held_for[i] = left;
    *until[i] = 0;
    if (left == NULL || !mst_end_is_live(left)) continue;
    *until[i] = left->stream->sent + mst_net_unread(left->io.fd);
    if (is_behind(left, *until[i])) mst_end_ready(left, 1);
  }
  end->held_ns = mst_clock_now();
  return must_hold(end);
}

// ---- frames

// look follows the frames in n bytes. *start: where the last one begins. *sends: so many may be
// sent now. passes: the first EXITED was waited for. 0, -MST_EPROTO.
static int look(struct mst_frames_end *end, const uint8_t *bytes, size_t n,
                int passes, size_t *start, size_t *sends) {
  size_t at = 0;
  *start = 0;
  while (at < n) {
    const struct mst_passing before = end->in;
    struct mst_head head;
    int whole;
    if (mst_passing_is_between(&end->in)) *start = at;
    const int64_t part =
        mst_passing_next(&end->in, bytes + at, n - at, &head, &whole);
    if (part < 0) return -MST_EPROTO;
    struct mst_control_end *control = mst_end_control(&end->end);
    if (control != NULL && whole && head.kind == MST_KIND_EXITED) {
      if (!passes && note_left(control, &head)) {
        end->in = before;
        break;
      }
      passes = 0;
    }
    at += (size_t)part;
  }
  *sends = at;
  return 0;
}

// hold waits with what is held until a worker's last words were sent.
static void hold(struct mst_control_end *control) {
  struct mst_end *end = &control->frames.end;
  control->held_passes = 0;
  mst_end_ready(end, 0);
  mst_end_wait(end);
  mst_relay_retry(end->relay, control->held_ns + MST_RELAY_LAST_NS);
}

static void fail(struct mst_end *end, int rc) {
  mst_trunk_fail(&end->relay->trunk, rc,
                 rc == -MST_EMEM ? "no memory to go on"
                                 : "a process on this host sent no frames");
}

static void take_from(struct mst_buf *buf, size_t n) {
  buf->len -= n;
  memmove(buf->data, buf->data + n, buf->len);
}

// send_held goes on with what waited for a worker's last words.
static void send_held(struct mst_control_end *control, size_t most,
                      int64_t now_ns) {
  struct mst_end *end = &control->frames.end;
  struct mst_buf *held = &control->held;
  size_t start, sends;
  uint8_t *bytes = next_bytes(end);
  const size_t n = held->len < most ? held->len : most;
  memcpy(bytes, held->data, n);
  const int rc =
      look(&control->frames, bytes, n, control->held_passes, &start, &sends);
  if (rc != 0) {
    fail(end, rc);
    return;
  }
  control->held_passes = 0;
  send(end, sends, now_ns);
  take_from(held, sends);
  if (sends < n) hold(control);
}

// ---- reading

static void ended(struct mst_end *end) {
  if (mst_net_is_closed(end->io.fd)) { // in both directions
    mst_mux_stop(&end->relay->trunk.mux, end->stream);
    mst_end_write_over(end);
  }
  mst_end_read_over(end);
}

// awaits_output: what the worker printed before this moment goes first.
static int awaits_output(struct mst_data_end *end) {
  struct mst_end *prints = end->prints;
  if (prints == NULL || prints->no_more_reads || !mst_end_is_live(prints)) {
    end->go_on_at = 0; // there won't be more
    return 0;
  }
  if (end->go_on_at == 0) {
    const size_t unread = mst_net_unread(prints->io.fd);
    if (unread == 0) return 0;
    end->go_on_at = prints->stream->sent + unread;
    mst_end_ready(prints, 1);
  }
  if (is_behind(prints, end->go_on_at)) return 1;
  end->go_on_at = 0;
  return 0;
}

// send_read sends what was read with `count` descriptors. Takes these over.
static int send_read(struct mst_frames_end *frames, size_t got, int *fds,
                     size_t count, int64_t now_ns) {
  struct mst_end *end = &frames->end;
  struct mst_control_end *control = mst_end_control(end);
  const uint8_t *bytes = next_bytes(end);
  size_t start, sends;
  int rc = look(frames, bytes, got, 0, &start, &sends);
  if (rc == 0 && count > 0)
    return send_with(end, start, got, fds, count, now_ns);
  for (size_t i = 0; i < count; i++)
    mst_net_close(&fds[i]);
  if (rc != 0) return rc;
  if (sends < got)
    rc = mst_buf_append(&control->held, bytes + sends, got - sends);
  send(end, sends, now_ns);
  if (control != NULL && control->held.len > 0) hold(control);
  return rc;
}

static void read_socket(struct mst_frames_end *frames, size_t most,
                        int64_t now_ns) {
  struct mst_end *end = &frames->end;
  int fds[MST_NET_FDS_MAX], lost = 0;
  size_t count = 0;
  const int64_t got = mst_net_recv_fds(end->io.fd, next_bytes(end), most, 0,
                                       fds, &count, &lost, NULL);
  if (got == -MST_EAGAIN) {
    mst_end_ready(end, 0);
    return;
  }
  if (got < 0) {
    ended(end);
    return;
  }
  if (lost) { // without its segment the frame is worth nothing
    mst_end_break(end);
    return;
  }
  const int rc = send_read(frames, (size_t)got, fds, count, now_ns);
  if (rc == -MST_ESYS) {
    mst_end_break(end);
  } else if (rc != 0) {
    fail(end, rc);
  }
}

static void read_pipe(struct mst_end *end, size_t most, int64_t now_ns) {
  const int64_t got = mst_net_read(end->io.fd, next_bytes(end), most, NULL);
  if (got == -MST_EAGAIN) {
    mst_end_ready(end, 0);
  } else if (got < 0) {
    mst_end_read_over(end);
  } else {
    send(end, (size_t)got, now_ns);
  }
}

static void read_segment(struct mst_segment_end *segment, size_t most,
                         int64_t now_ns) {
  struct mst_end *end = &segment->end;
  const uint64_t at = end->stream->sent, left = segment->bytes - at;
  if (left == 0) {
    mst_end_read_over(end);
    return;
  }
  const int64_t got = mst_segment_read(segment->segment.fd, at, next_bytes(end),
                                       left < most ? (size_t)left : most, NULL);
  if (got < 0) {
    mst_end_read_over(end); // the session sees that it isn't whole
  } else {
    send(end, (size_t)got, now_ns);
  }
}

static void send_reply(struct mst_control_end *control, size_t most,
                       int64_t now_ns) {
  struct mst_end *end = &control->frames.end;
  struct mst_buf *reply = &control->reply;
  const size_t n = reply->len < most ? reply->len : most;
  memcpy(next_bytes(end), reply->data, n);
  send(end, n, now_ns);
  take_from(reply, n);
}

static void read_control(struct mst_control_end *control, size_t most,
                         int64_t now_ns) {
  if (control->reply.len > 0 && mst_passing_is_between(&control->frames.in)) {
    send_reply(control, most, now_ns);
  } else if (control->held.len > 0) {
    send_held(control, most, now_ns);
  } else {
    read_socket(&control->frames, most, now_ns);
  }
}

static void read_data(struct mst_data_end *data, size_t most, int64_t now_ns) {
  struct mst_end *end = &data->frames.end;
  if (awaits_output(data)) {
    mst_end_ready(end, 0);
    mst_end_wait(end);
  } else {
    read_socket(&data->frames, most, now_ns);
  }
}

void mst_read_turn(struct mst_trunk *trunk, struct mst_stream *stream,
                   size_t most, int64_t now_ns) {
  struct mst_end *end = stream->owner;
  struct mst_segment_end *segment = mst_end_segment(end);
  struct mst_control_end *control = mst_end_control(end);
  struct mst_data_end *data = mst_end_data(end);
  (void)trunk;
  if (segment != NULL) {
    read_segment(segment, most, now_ns);
  } else if (!mst_end_is_live(end)) {
    mst_end_read_over(end);
  } else if (control != NULL) {
    read_control(control, most, now_ns);
  } else if (data != NULL) {
    read_data(data, most, now_ns);
  } else {
    read_pipe(end, most, now_ns);
  }
}

void mst_read_on(struct mst_end *end) {
  struct mst_control_end *control = mst_end_control(end);
  struct mst_data_end *data = mst_end_data(end);
  if (end->no_more_reads) return;
  if (control != NULL && control->held.len > 0 && !control->held_passes) {
    if (must_hold(control)) {
      mst_end_wait(end);
    } else {
      control->held_passes = 1;
      mst_end_ready(end, 1);
    }
  }
  if (data != NULL && data->go_on_at > 0) {
    if (awaits_output(data)) {
      mst_end_wait(end);
    } else {
      mst_end_ready(end, 1);
    }
  }
}
