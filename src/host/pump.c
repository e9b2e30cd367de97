// What a link's trunk asks of its lines and segments. See link_int.h.
#include <stdlib.h>
#include <string.h>

#include "host/link_int.h"

static struct mst_link *link_of(struct mst_trunk *trunk) {
  return (struct mst_link *)(void *)trunk;
}

void mst_pump_fails(struct mst_trunk *trunk) {
  struct mst_link *link = link_of(trunk);
  for (struct mst_cargo *at = link->cargo; at != NULL; at = at->next)
    if (at->blob == NULL && !at->is_whole) at->is_lost = 1;
  for (struct mst_ll *line = link->lines; line != NULL; line = line->next)
    mst_ll_due(line);
}

void mst_link_free(struct mst_link *link) {
  if (link->is_listed || !link->closed || link->lines != NULL) return;
  mst_trunk_free(&link->trunk);
  mst_cargo_free_all(link);
  while (link->spent.first != NULL) { // of lines, which can't have lines along
    struct mst_parcel *parcel = link->spent.first;
    link->spent.first = parcel->next;
    mst_blob_release(parcel->blob);
    free(parcel);
  }
  (void)pthread_mutex_destroy(&link->lock);
  free(link);
}

// ---- in

int mst_pump_came(struct mst_trunk *trunk, const struct mst_came *what,
                  int64_t now_ns) {
  struct mst_link *link = link_of(trunk);
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

void mst_link_read(struct mst_link *link, int64_t now_ns) {
  link->reads++;
  mst_trunk_read(&link->trunk, now_ns);
}

// ---- out

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
      mst_trunk_fail(&link->trunk, rc, "no memory for a stream");
      return 0;
    }
    said = mst_mux_attach(&link->trunk.mux, line->stream, attached, count, to);
  }
  size_t n = mst_flow_until_parcel(&line->out);
  if (n > most) n = most;
  if (n > 0) {
    mst_mux_data(&link->trunk.mux, line->stream, n, now_ns, to + said);
    mst_flow_take(&line->out, to + said + MST_PIECE_HEAD_BYTES, n);
    said += MST_PIECE_HEAD_BYTES + n;
  }
  if (mst_flow_waiting(&line->out) == 0) {
    mst_mux_ready(&link->trunk.mux, line->stream, 0);
    mst_ll_end_stream(line);
  }
  mst_ll_due(line);
  return said;
}

void mst_pump_turn(struct mst_trunk *trunk, struct mst_stream *stream,
                   size_t most, int64_t now_ns) {
  uint8_t *to = mst_trunk_end(trunk);
  trunk->out_n +=
      stream->class == MST_STREAM_SEGMENT
          ? mst_cargo_send(link_of(trunk), stream->owner, most, now_ns, to)
          : send_line(stream->owner, most, now_ns, to);
}
