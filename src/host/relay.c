// The relay's loop: the link in, the link out. See relay.h.
//
// Each round serves what is ready, takes what came over the link, then fills the link as far as mux
// lets it. Ends that wait for another end (passing, ends.c) are looked at once in each round: there
// are few.
#include <stdlib.h>
#include <string.h>

#include "host/relay_int.h"

// ---- in

static int came(struct mst_trunk *trunk, const struct mst_came *what,
                int64_t now_ns) {
  struct mst_end *end = what->stream->owner;
  (void)now_ns;
  switch (what->kind) {
  case MST_CAME_NOTHING:
    break;
  case MST_CAME_DATA:
    return mst_write_came(end, what->bytes, what->n);
  case MST_CAME_ATTACHED:
    return mst_parts_came(end, what);
  case MST_CAME_END:
    trunk->some_over = 1;
    mst_write_on(end);
    break;
  case MST_CAME_STOP:
    mst_end_read_over(end);
    break;
  }
  return 0;
}

// ---- opened and closed

static void link_ready(struct mst_io *io, uint32_t ready) {
  struct mst_trunk *trunk = io->owner;
  if ((ready & MST_WRITABLE) != 0) trunk->out_blocked = 0;
}

static int open_first(struct mst_relay *relay, int fd, struct mst_err *err) {
  struct mst_stream *stream = mst_mux_first(&relay->trunk.mux);
  relay->first = stream == NULL ? NULL : mst_end_new(relay, stream);
  if (relay->first == NULL)
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a relay");
  return mst_end_give(relay->first, fd);
}

static void free_all(struct mst_relay *relay) {
  struct mst_loop *loop = relay->trunk.loop;
  mst_end_free_all(relay);
  mst_trunk_free(&relay->trunk);
  mst_loop_close(loop);
  free(relay);
}

static const struct mst_trunk_ops ops = {
    .ready = link_ready, .came = came, .turn = mst_read_turn};

int mst_relay_open(const struct mst_link_config *config, int first,
                   struct mst_relay **out, struct mst_err *err) {
  struct mst_relay *relay = calloc(1, sizeof *relay);
  if (relay == NULL)
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a relay");
  relay->retry_ns = INT64_MAX;
  int rc = mst_loop_open(MST_LOOP_BEST, &relay->trunk.loop, err);
  if (rc != 0) {
    free(relay);
    return rc;
  }
  rc = mst_trunk_open(&relay->trunk, config, &ops, relay->trunk.loop,
                      mst_clock_now(), err);
  if (rc == 0) rc = open_first(relay, first, err);
  if (rc != 0) {
    free_all(relay);
    return rc;
  }
  *out = relay;
  return 0;
}

void mst_relay_close(struct mst_relay *relay) {
  // Whoever sees the end of another stream must find that the link is gone.
  mst_loop_remove(relay->trunk.loop, &relay->first->io);
  mst_net_close(&relay->first->io.fd);
  mst_end_free_all(relay);
  mst_trunk_close(&relay->trunk);
  free_all(relay);
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
  if (!relay->trunk.some_over) return;
  relay->trunk.some_over = 0;
  for (struct mst_end *end = relay->ends, *next; end != NULL; end = next) {
    struct mst_stream *stream = end->stream;
    next = end->next;
    if (end->refs > 0 || end->first != NULL || !mst_mux_is_over(stream))
      continue;
    if (end == relay->first) {
      mst_trunk_fail(&relay->trunk, -MST_ECLOSED, "the link was closed");
      continue;
    }
    mst_end_free(end);
    mst_mux_close(&relay->trunk.mux, stream);
  }
}

static int wait_ms(const struct mst_relay *relay, int timeout_ms) {
  const struct mst_trunk *trunk = &relay->trunk;
  const int64_t beat_ns = trunk->pinged_ns + mst_trunk_beat_ns(trunk);
  int64_t due_ns = beat_ns < relay->retry_ns ? beat_ns : relay->retry_ns;
  if (trunk->owes_ns < due_ns) due_ns = trunk->owes_ns;
  const int most = timeout_ms < 0 ? 60000 : timeout_ms;
  return mst_clock_ms_until(due_ns, most);
}

// is_mark: a worker has only marked the end of its output, which its answer follows.
static int is_mark(const struct mst_relay *relay) {
  const struct mst_stream *one = relay->trunk.mux.bulk.first;
  if (one == NULL || one != relay->trunk.mux.bulk.last ||
      relay->trunk.mux.urgent.first != NULL ||
      one->class != MST_STREAM_OUTPUT) {
    return 0;
  }
  const struct mst_end *end = one->owner;
  return mst_net_unread(end->io.fd) == 1;
}

int mst_relay_run(struct mst_relay *relay, int timeout_ms,
                  struct mst_err *err) {
  struct mst_trunk *trunk = &relay->trunk;
  const int64_t before_ns = mst_clock_now();
  mst_end_settle(relay);
  int rc = mst_loop_run(trunk->loop, wait_ms(relay, timeout_ms), err);
  if (rc >= 0 &&
      is_mark(relay)) { // alone it would hold up the answer, see mux.h
    mst_end_settle(relay);
    rc = mst_loop_run(trunk->loop, 1, err);
  }
  if (rc < 0) return rc;
  const int64_t now_ns = mst_clock_now();
  mst_trunk_read(trunk, now_ns);
  if (now_ns >= relay->retry_ns) relay->retry_ns = INT64_MAX;
  mst_trunk_beat(trunk, before_ns, now_ns);
  uint64_t sent;
  do { // what was sent or written may be what others waited for
    relay->moved = 0;
    serve_waiting(relay);
    sent = trunk->mux.flight.sent;
    mst_trunk_fill(trunk, now_ns);
  } while (relay->moved ||
           (trunk->mux.flight.sent != sent && !trunk->out_blocked));
  mst_trunk_answer(trunk, now_ns);
  free_over(relay);
  if (relay->first->no_more_reads)
    mst_trunk_fail(trunk, -MST_ECLOSED, "this end was closed");
  if (trunk->failed != 0 && err != NULL) *err = trunk->err;
  return trunk->failed;
}
