// The relay's loop: the link in, the link out. See relay.h.
//
// Each round serves what is ready, takes what came over the link, then fills the link as far as mux
// lets it. Ends that wait for another end (passing, ends.c) are looked at once in each round: there
// are few.
#include <stdlib.h>
#include <string.h>

#include "host/relay_int.h"

#define IN_BYTES ((size_t)4 * (MST_PIECE_HEAD_BYTES + MST_PIECE_MAX))
#define PINGS 6 // in the time of a silence that counts as broken
#define OWES_NS MST_NS_PER_MS

// ---- opened and closed

static void link_ready(struct mst_io *io, uint32_t ready) {
  struct mst_relay *relay = io->owner;
  if ((ready & MST_WRITABLE) != 0) relay->out_blocked = 0;
}

static int watch_link(struct mst_relay *relay, int in, int out,
                      struct mst_err *err) {
  mst_net_unblock(in);
  mst_net_unblock(out);
  relay->in_io = (struct mst_io){
      .fd = in, .wanted = MST_READABLE, .ready = link_ready, .owner = relay};
  relay->out_io = (struct mst_io){
      .fd = out, .wanted = MST_WRITABLE, .ready = link_ready, .owner = relay};
  return mst_loop_add(relay->loop, &relay->in_io, err);
}

// want_out has the loop tell when the link takes more. It isn't in the loop otherwise: its end
// would be reported again and again.
static void want_out(struct mst_relay *relay) {
  const uint32_t write = relay->out_blocked ? MST_WRITABLE : 0;
  if (relay->out_io.fd == relay->in_io.fd) {
    (void)mst_loop_want(relay->loop, &relay->in_io, MST_READABLE | write, NULL);
  } else if (!relay->out_blocked) {
    mst_loop_remove(relay->loop, &relay->out_io);
  } else if (relay->out_io.slot == 0) {
    (void)mst_loop_add(relay->loop, &relay->out_io, NULL);
  }
}

static int open_first(struct mst_relay *relay, int fd, struct mst_err *err) {
  struct mst_stream *stream = mst_mux_first(&relay->mux);
  relay->first = stream == NULL ? NULL : mst_end_new(relay, stream);
  if (relay->first == NULL)
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a relay");
  return mst_end_give(relay->first, fd);
}

static void free_all(struct mst_relay *relay) {
  mst_end_free_all(relay);
  mst_loop_remove(relay->loop, &relay->in_io);
  mst_loop_remove(relay->loop, &relay->out_io);
  mst_loop_close(relay->loop);
  mst_mux_free(&relay->mux);
  mst_buf_free(&relay->in);
  free(relay->out);
  free(relay);
}

int mst_relay_open(const struct mst_relay_config *config,
                   struct mst_relay **out, struct mst_err *err) {
  struct mst_relay *relay = calloc(1, sizeof *relay);
  const int64_t now_ns = mst_clock_now();
  if (relay != NULL) relay->out = malloc(MST_RELAY_OUT_BYTES);
  if (relay == NULL || relay->out == NULL ||
      mst_buf_reserve(&relay->in, IN_BYTES) != 0) {
    if (relay != NULL) free(relay->out);
    free(relay);
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a relay");
  }
  relay->silence_ns = config->silence_ns;
  relay->delays = config->delays;
  relay->retry_ns = relay->owes_ns = INT64_MAX;
  relay->in_io.fd = relay->out_io.fd = -1;
  mst_mux_init(&relay->mux, 0, now_ns);
  int rc = mst_loop_open(MST_LOOP_BEST, &relay->loop, err);
  if (rc != 0) {
    mst_buf_free(&relay->in);
    free(relay->out);
    free(relay);
    return rc;
  }
  rc = watch_link(relay, config->in, config->out, err);
  if (rc == 0) rc = open_first(relay, config->first, err);
  if (rc != 0) {
    if (relay->first != NULL) { // the descriptor stays the caller's
      mst_loop_remove(relay->loop, &relay->first->io);
      relay->first->io.fd = -1;
    }
    free_all(relay);
    return rc;
  }
  mst_mux_ping(&relay->mux, now_ns); // measures the round trip
  relay->pinged_ns = now_ns;
  *out = relay;
  return 0;
}

void mst_relay_close(struct mst_relay *relay) {
  int in = relay->in_io.fd, out = relay->out_io.fd;
  // Whoever sees the end of another stream must find that the link is gone.
  mst_loop_remove(relay->loop, &relay->first->io);
  mst_net_close(&relay->first->io.fd);
  free_all(relay);
  if (out != in) mst_net_close(&out);
  mst_net_close(&in);
}

// ---- in

// came deals with one piece.
static void came(struct mst_relay *relay, const struct mst_came *what) {
  struct mst_end *end =
      what->stream == NULL ? NULL : (struct mst_end *)what->stream->owner;
  int rc = 0;
  switch (what->kind) {
  case MST_CAME_NOTHING:
    break;
  case MST_CAME_DATA:
    rc = mst_write_came(end, what->bytes, what->n);
    break;
  case MST_CAME_ATTACHED:
    rc = mst_parts_came(end, what);
    break;
  case MST_CAME_END:
    relay->some_over = 1;
    mst_write_on(end);
    break;
  case MST_CAME_STOP:
    mst_end_read_over(end);
    break;
  }
  if (rc != 0) mst_relay_fail(relay, rc, "no memory for what came");
}

static void take_pieces(struct mst_relay *relay, int64_t now_ns) {
  struct mst_came what;
  while (relay->failed == 0 && relay->in_head < relay->in.len) {
    size_t used;
    const int rc =
        mst_mux_read(&relay->mux, relay->in.data + relay->in_head,
                     relay->in.len - relay->in_head, now_ns, &what, &used);
    if (rc == 0) break;
    if (rc < 0) {
      mst_relay_fail(relay, rc,
                     rc == -MST_EMEM ? "no memory for a stream"
                                     : "the other end of the link sent bytes "
                                       "that it can't have meant");
      return;
    }
    relay->in_head += used;
    came(relay, &what);
  }
  const size_t left = relay->in.len - relay->in_head;
  if (left > 0 && relay->in_head > 0)
    memmove(relay->in.data, relay->in.data + relay->in_head, left);
  relay->in.len = left;
  relay->in_head = 0;
}

static void read_link(struct mst_relay *relay, int64_t now_ns) {
  const size_t room = relay->in.cap - relay->in.len;
  struct mst_err err;
  mst_err_clear(&err);
  const int64_t got =
      mst_net_read(relay->in_io.fd, relay->in.data + relay->in.len, room, &err);
  if (got == -MST_EAGAIN) return;
  if (got < 0) {
    mst_relay_fail(relay, (int)got,
                   got == -MST_ECLOSED ? "the link was closed" : err.text);
    return;
  }
  relay->in.len += (size_t)got;
  take_pieces(relay, now_ns);
}

// ---- out

static void write_link(struct mst_relay *relay) {
  struct mst_err err;
  mst_err_clear(&err);
  while (relay->out_head < relay->out_n && !relay->out_blocked) {
    const int64_t sent =
        mst_net_write(relay->out_io.fd, relay->out + relay->out_head,
                      relay->out_n - relay->out_head, &err);
    if (sent == -MST_EAGAIN) {
      relay->out_blocked = 1;
    } else if (sent < 0) {
      mst_relay_fail(relay, (int)sent,
                     sent == -MST_ECLOSED ? "the link was closed" : err.text);
      return;
    } else {
      relay->out_head += (size_t)sent;
    }
  }
  if (relay->out_head == relay->out_n) relay->out_head = relay->out_n = 0;
}

static void fill_link(struct mst_relay *relay, int64_t now_ns) {
  struct mst_turn turn;
  while (relay->failed == 0) {
    if (relay->out_n + MST_RELAY_TURN_MAX > MST_RELAY_OUT_BYTES) {
      write_link(relay);
      if (relay->out_n > 0) break;
    }
    if (!mst_mux_turn(&relay->mux, now_ns, &turn)) break;
    if (turn.stream != NULL) {
      mst_read_turn(turn.stream->owner, turn.most, now_ns);
      continue;
    }
    memcpy(relay->out + relay->out_n, turn.bytes, turn.n);
    relay->out_n += turn.n;
    if (turn.over != NULL) relay->some_over = 1;
  }
  write_link(relay);
}

// answer sends a ping after what wanted no answer, where the link has TCP's delays on: packets of
// the other end that wait for an acknowledgement go on with it.
static void answer(struct mst_relay *relay, int64_t now_ns) {
  if (!relay->delays || relay->mux.owes == MST_OWES_NOTHING) {
    relay->owes_ns = INT64_MAX;
    return;
  }
  if (relay->owes_ns == INT64_MAX) relay->owes_ns = now_ns + OWES_NS;
  if (relay->mux.owes != MST_OWES_NOW && now_ns < relay->owes_ns) return;
  relay->owes_ns = INT64_MAX;
  mst_mux_ping(&relay->mux, now_ns);
  fill_link(relay, now_ns);
}

// ---- rounds

static void serve_waiting(struct mst_relay *relay) {
  struct mst_end *end = relay->waiting;
  relay->waiting = NULL;
  while (end != NULL) {
    struct mst_end *next = end->next_waiting;
    end->waits = 0;
    mst_write_on(end);
    mst_read_on(end);
    end = next;
  }
}

static void free_over(struct mst_relay *relay) {
  if (!relay->some_over) return;
  relay->some_over = 0;
  for (struct mst_end *end = relay->ends, *next; end != NULL; end = next) {
    struct mst_stream *stream = end->stream;
    next = end->next;
    if (end->refs > 0 || end->first != NULL || !mst_mux_is_over(stream))
      continue;
    if (end == relay->first) {
      mst_relay_fail(relay, -MST_ECLOSED, "the link was closed");
      continue;
    }
    mst_end_free(end);
    mst_mux_close(&relay->mux, stream);
  }
}

static void check_time(struct mst_relay *relay, int64_t before_ns,
                       int64_t now_ns) {
  const int64_t beat_ns = relay->silence_ns / PINGS;
  if (now_ns >= relay->retry_ns) relay->retry_ns = INT64_MAX;
  // A process that was stopped hasn't listened.
  if (now_ns - before_ns > 2 * beat_ns) relay->mux.heard_ns = now_ns;
  if (now_ns - relay->mux.heard_ns > relay->silence_ns)
    mst_relay_fail(relay, -MST_ETIMEOUT, "the other end of the link is silent");
  if (now_ns - relay->pinged_ns < beat_ns) return;
  relay->pinged_ns = now_ns;
  mst_mux_ping(&relay->mux, now_ns);
}

static int wait_ms(const struct mst_relay *relay, int timeout_ms) {
  const int64_t beat_ns = relay->pinged_ns + relay->silence_ns / PINGS;
  int64_t due_ns = beat_ns < relay->retry_ns ? beat_ns : relay->retry_ns;
  if (relay->owes_ns < due_ns) due_ns = relay->owes_ns;
  const int most = timeout_ms < 0 ? 60000 : timeout_ms;
  return mst_clock_ms_until(due_ns, most);
}

// is_mark: a worker has only marked the end of its output, which its answer follows.
static int is_mark(const struct mst_relay *relay) {
  const struct mst_stream *one = relay->mux.bulk.first;
  if (one == NULL || one != relay->mux.bulk.last ||
      relay->mux.urgent.first != NULL || one->class != MST_STREAM_OUTPUT) {
    return 0;
  }
  const struct mst_end *end = one->owner;
  return mst_net_unread(end->io.fd) == 1;
}

int mst_relay_run(struct mst_relay *relay, int timeout_ms,
                  struct mst_err *err) {
  const int64_t before_ns = mst_clock_now();
  want_out(relay);
  mst_end_settle(relay);
  int rc = mst_loop_run(relay->loop, wait_ms(relay, timeout_ms), err);
  if (rc >= 0 &&
      is_mark(relay)) { // alone it would hold up the answer, see mux.h
    mst_end_settle(relay);
    rc = mst_loop_run(relay->loop, 1, err);
  }
  if (rc < 0) return rc;
  const int64_t now_ns = mst_clock_now();
  read_link(relay, now_ns);
  check_time(relay, before_ns, now_ns);
  uint64_t sent;
  do { // what was sent or written may be what others waited for
    relay->moved = 0;
    serve_waiting(relay);
    sent = relay->mux.flight.sent;
    fill_link(relay, now_ns);
  } while (relay->moved ||
           (relay->mux.flight.sent != sent && !relay->out_blocked));
  answer(relay, now_ns);
  free_over(relay);
  if (relay->first->no_more_reads && relay->failed == 0)
    mst_relay_fail(relay, -MST_ECLOSED, "this end was closed");
  if (relay->failed != 0 && err != NULL) *err = relay->err;
  return relay->failed;
}
