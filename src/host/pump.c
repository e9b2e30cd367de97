// Puts on a link what mux lets, and takes what has come. See link_int.h.
#include <stdlib.h>
#include <string.h>

#include "host/link_int.h"
#include "net/net.h"

void mst_link_fail(struct mst_link *link, int code, const char *text) {
  if (link->failed != 0) return;
  link->failed = code;
  if (text != NULL)
    (void)mst_err_set(&link->err, (enum mst_code) - code, 0, NULL, "%s", text);
  for (struct mst_cargo *at = link->cargo; at != NULL; at = at->next)
    if (at->blob == NULL && !at->is_whole) at->is_lost = 1;
  for (struct mst_ll *line = link->lines; line != NULL; line = line->next)
    mst_ll_due(line);
}

void mst_link_free(struct mst_link *link) {
  if (link->is_listed || !link->closed || link->lines != NULL) return;
  mst_mux_free(&link->mux);
  mst_cargo_free_all(link);
  while (link->spent.first != NULL) { // of lines, which can't have lines along
    struct mst_parcel *parcel = link->spent.first;
    link->spent.first = parcel->next;
    mst_blob_release(parcel->blob);
    free(parcel);
  }
  mst_buf_free(&link->in);
  free(link->out);
  (void)pthread_mutex_destroy(&link->lock);
  free(link);
}

// ---- in

static int came(struct mst_link *link, const struct mst_came *what,
                int64_t now_ns) {
  if (what->kind == MST_CAME_NOTHING) return 0;
  if (what->stream->class == MST_STREAM_SEGMENT) {
    struct mst_cargo *cargo = what->stream->owner;
    if (what->kind == MST_CAME_DATA) {
      mst_cargo_came(link, cargo, what->bytes, what->n, now_ns);
    } else {
      mst_cargo_end(link, cargo);
    }
    return 0;
  }
  struct mst_ll *line = what->stream->owner;
  switch (what->kind) {
  case MST_CAME_DATA:
    return mst_ll_came(line, what->bytes, what->n, now_ns);
  case MST_CAME_ATTACHED:
    return mst_parcel_came(line, what);
  case MST_CAME_END:
    mst_ll_end(line);
    break;
  case MST_CAME_STOP:
    mst_ll_stop(line);
    break;
  case MST_CAME_NOTHING:
    break;
  }
  return 0;
}

static void take_pieces(struct mst_link *link, int64_t now_ns) {
  struct mst_came what;
  while (link->failed == 0 && link->in_head < link->in.len) {
    size_t used;
    int rc = mst_mux_read(&link->mux, link->in.data + link->in_head,
                          link->in.len - link->in_head, now_ns, &what, &used);
    if (rc == 0) break;
    if (rc > 0) {
      link->in_head += used;
      rc = came(link, &what, now_ns);
    }
    if (rc < 0) {
      mst_link_fail(link, rc,
                    rc == -MST_EMEM ? "no memory for what came"
                                    : "the other end of the link sent bytes "
                                      "that it can't have meant");
    }
  }
  const size_t left = link->in.len - link->in_head;
  if (left > 0 && link->in_head > 0)
    memmove(link->in.data, link->in.data + link->in_head, left);
  link->in.len = left;
  link->in_head = 0;
}

void mst_link_read(struct mst_link *link, int64_t now_ns) {
  struct mst_err err;
  mst_err_clear(&err);
  if (link->failed != 0) return;
  const int64_t got = mst_net_read(link->in_io.fd, link->in.data + link->in.len,
                                   link->in.cap - link->in.len, &err);
  link->reads++;
  if (got == -MST_EAGAIN) return;
  if (got < 0) {
    mst_link_fail(link, (int)got,
                  got == -MST_ECLOSED ? "the link was closed" : err.text);
    return;
  }
  link->in.len += (size_t)got;
  take_pieces(link, now_ns);
}

// ---- out

static void write_link(struct mst_link *link) {
  struct mst_err err;
  mst_err_clear(&err);
  while (link->out_head < link->out_n && !link->out_blocked &&
         link->failed == 0) {
    const int64_t sent =
        mst_net_write(link->out_io.fd, link->out + link->out_head,
                      link->out_n - link->out_head, &err);
    if (sent == -MST_EAGAIN) {
      link->out_blocked = 1;
    } else if (sent < 0) {
      mst_link_fail(link, (int)sent,
                    sent == -MST_ECLOSED ? "the link was closed" : err.text);
    } else {
      link->out_head += (size_t)sent;
    }
  }
  if (link->out_head == link->out_n) link->out_head = link->out_n = 0;
}

// send_line puts at most `most` bytes of a line on the link, after what goes along.
static size_t send_line(struct mst_ll *line, size_t most, int64_t now_ns,
                        uint8_t *to) {
  struct mst_link *link = line->link;
  size_t said = 0;
  if (mst_flow_parcel(&line->out) != NULL) {
    struct mst_attached attached[MST_ATTACHED_MAX];
    size_t count;
    const int rc = mst_parcel_attach(link, line->out.parcels.first, now_ns,
                                     attached, &count);
    mst_parcel_spend(link, &line->out.parcels);
    if (rc != 0) {
      mst_link_fail(link, rc, "no memory for a stream");
      return 0;
    }
    said = mst_mux_attach(&link->mux, line->stream, attached, count, to);
  }
  size_t n = mst_flow_until_parcel(&line->out);
  if (n > most) n = most;
  if (n > 0) {
    mst_mux_data(&link->mux, line->stream, n, now_ns, to + said);
    mst_flow_take(&line->out, to + said + MST_PIECE_HEAD_BYTES, n);
    said += MST_PIECE_HEAD_BYTES + n;
  }
  if (mst_flow_waiting(&line->out) == 0) {
    mst_mux_ready(&link->mux, line->stream, 0);
    mst_ll_end_stream(line);
  }
  mst_ll_due(line);
  return said;
}

static size_t take_turn(struct mst_link *link, const struct mst_turn *turn,
                        int64_t now_ns, uint8_t *to) {
  if (turn->stream == NULL) {
    memcpy(to, turn->bytes, turn->n);
    link->some_over |= turn->over != NULL;
    return turn->n;
  }
  return turn->stream->class == MST_STREAM_SEGMENT
             ? mst_cargo_send(link, turn->stream->owner, turn->most, now_ns, to)
             : send_line(turn->stream->owner, turn->most, now_ns, to);
}

// want_out has the loop tell when the link takes more. It isn't in the loop otherwise: its end
// would be reported again and again.
static void want_out(struct mst_link *link) {
  const uint32_t write = link->out_blocked ? MST_WRITABLE : 0;
  if (link->failed != 0) {
    mst_loop_remove(link->prints, &link->in_io);
    mst_loop_remove(link->prints, &link->out_io);
  } else if (link->out_io.fd == link->in_io.fd) {
    (void)mst_loop_want(link->prints, &link->in_io, MST_READABLE | write, NULL);
  } else if (!link->out_blocked) {
    mst_loop_remove(link->prints, &link->out_io);
  } else if (link->out_io.slot == 0) {
    (void)mst_loop_add(link->prints, &link->out_io, NULL);
  }
}

void mst_link_push(struct mst_link *link, int64_t now_ns) {
  struct mst_turn turn;
  while (link->failed == 0) {
    if (link->out_n + MST_LINK_TURN_MAX > MST_LINK_OUT_BYTES) {
      write_link(link);
      if (link->out_n > 0) break;
    }
    if (!mst_mux_turn(&link->mux, now_ns, &turn)) break;
    link->out_n += take_turn(link, &turn, now_ns, link->out + link->out_n);
  }
  write_link(link);
}

void mst_link_fill(struct mst_link *link, int64_t now_ns) {
  mst_link_push(link, now_ns);
  want_out(link);
}
