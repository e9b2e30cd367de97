// What goes along with bytes: segments, and lines. See link_int.h.
#include <stdlib.h>

#include "host/link_int.h"

// ---- segments

static struct mst_cargo *new_cargo(struct mst_link *link,
                                   struct mst_stream *stream, uint64_t bytes) {
  struct mst_cargo *cargo = calloc(1, sizeof *cargo);
  if (cargo == NULL) return NULL;
  cargo->stream = stream;
  cargo->bytes = bytes;
  cargo->segment = MST_SEGMENT_NONE;
  cargo->next = link->cargo;
  link->cargo = cargo;
  stream->owner = cargo;
  return cargo;
}

static int open_stream(struct mst_link *link, enum mst_stream_class class,
                       struct mst_attached *attached, struct mst_stream **out) {
  *out = mst_mux_open(&link->trunk.mux, class);
  if (*out == NULL) return -MST_EMEM;
  *attached =
      (struct mst_attached){.class = (uint8_t) class, .stream = (*out)->id};
  return 0;
}

// attach_segment opens a stream for a segment, or finds the one that it was sent by before.
static int attach_segment(struct mst_link *link, struct mst_parcel *parcel,
                          int64_t now_ns, struct mst_attached *attached) {
  struct mst_blob *blob = parcel->blob;
  struct mst_blob *owner = blob->lender != NULL ? blob->lender : blob;
  struct mst_cargo *cargo = link->cargo;
  while (cargo != NULL && (cargo->owner != owner || cargo->stream == NULL ||
                           cargo->stream->ended))
    cargo = cargo->next;
  if (cargo != NULL) {
    *attached = (struct mst_attached){
        .class = MST_STREAM_SEGMENT, .known = 1, .stream = cargo->stream->id};
  } else {
    struct mst_stream *stream;
    if (open_stream(link, MST_STREAM_SEGMENT, attached, &stream) != 0)
      return -MST_EMEM;
    cargo = new_cargo(link, stream, owner->segment.bytes);
    if (cargo == NULL) {
      stream->ended = stream->got_end = 1;
      mst_mux_close(&link->trunk.mux, stream);
      return -MST_EMEM;
    }
    cargo->blob = blob;
    cargo->owner = owner;
    parcel->blob = NULL;
    mst_mux_ready(&link->trunk.mux, stream, 1);
    link->forget_ns = now_ns; // so that those without use don't pile up
  }
  attached->bytes = cargo->bytes;
  cargo->used_ns = now_ns;
  return 0;
}

int mst_parcel_attach(struct mst_link *link, struct mst_parcel *parcel,
                      int64_t now_ns,
                      struct mst_attached attached[MST_ATTACHED_MAX],
                      size_t *count) {
  int rc = 0;
  *count = 0;
  if (parcel->blob != NULL)
    rc = attach_segment(link, parcel, now_ns, &attached[(*count)++]);
  for (size_t i = 0; rc == 0 && i < parcel->count; i++) {
    struct mst_stream *stream;
    rc = open_stream(link, parcel->lines[i]->class, &attached[(*count)++],
                     &stream);
    if (rc == 0) mst_ll_attach(parcel->lines[i], stream);
  }
  return rc;
}

int mst_parcel_came(struct mst_ll *line, const struct mst_came *came) {
  struct mst_link *link = line->link;
  struct mst_parcel parcel = {.at = line->in.at + line->in.buf.len -
                                    line->in.head};
  // The host process's workers send nothing else, and one for each frame.
  if (came->count != 1 || came->attached[0].class != MST_STREAM_SEGMENT ||
      came->attached[0].known ||
      (line->in.parcels.last != NULL && line->in.parcels.last->at == parcel.at))
    return -MST_EPROTO;
  parcel.cargo = new_cargo(link, came->streams[0], came->attached[0].bytes);
  if (parcel.cargo == NULL) return -MST_EMEM;
  if (line->ended) {
    mst_cargo_drop(link, parcel.cargo);
    return 0;
  }
  return mst_parcel_add(&line->in.parcels, &parcel);
}

size_t mst_cargo_send(struct mst_link *link, struct mst_cargo *cargo,
                      size_t most, int64_t now_ns, uint8_t *to) {
  const uint64_t at = cargo->stream->sent, left = cargo->bytes - at;
  if (left == 0) {
    cargo->is_whole = 1;
    mst_mux_ready(&link->trunk.mux, cargo->stream, 0);
    if (cargo->used_ns + MST_LINK_KEEP_NS < link->forget_ns)
      link->forget_ns = cargo->used_ns + MST_LINK_KEEP_NS;
    return 0;
  }
  const int64_t got =
      mst_segment_read(cargo->owner->segment.fd, at, to + MST_PIECE_HEAD_BYTES,
                       left < most ? (size_t)left : most, NULL);
  if (got <= 0) { // the host sees that it isn't whole
    mst_cargo_end(link, cargo);
    return 0;
  }
  mst_mux_data(&link->trunk.mux, cargo->stream, (size_t)got, now_ns, to);
  return MST_PIECE_HEAD_BYTES + (size_t)got;
}

static void is_there(struct mst_link *link, int lost, struct mst_cargo *cargo) {
  cargo->is_whole = !lost;
  cargo->is_lost = lost != 0;
  for (struct mst_ll *line = link->lines; line != NULL; line = line->next) {
    if (line->in.parcels.first != NULL &&
        line->in.parcels.first->cargo == cargo)
      mst_ll_due(line);
  }
}

void mst_cargo_came(struct mst_link *link, struct mst_cargo *cargo,
                    const uint8_t *bytes, size_t n, int64_t now_ns) {
  int rc = 0;
  struct mst_segment *segment = &cargo->segment;
  if (!cargo->taken && !cargo->is_lost) {
    if (segment->fd < 0)
      rc = mst_segment_open_must(segment, cargo->bytes, NULL);
    if (rc == 0) rc = mst_segment_append(segment, bytes, n, NULL);
    if (rc == 0 && segment->bytes >= cargo->bytes) {
      rc = mst_segment_seal(segment, NULL);
      if (rc == 0) is_there(link, 0, cargo);
    }
  }
  mst_mux_took(&link->trunk.mux, cargo->stream, n, now_ns);
  if (rc == 0) return;
  mst_mux_stop(&link->trunk.mux, cargo->stream);
  is_there(link, 1, cargo);
}

void mst_cargo_end(struct mst_link *link, struct mst_cargo *cargo) {
  link->trunk.some_over = 1;
  if (cargo->blob != NULL) {
    mst_mux_end(&link->trunk.mux, cargo->stream);
  } else if (!cargo->is_whole) {
    is_there(link, 1, cargo);
  }
}

// is_unused: nobody else has the segment, so it isn't sent again.
static int is_unused(const struct mst_cargo *cargo) {
  return cargo->blob->refs == 1 &&
         (cargo->owner == cargo->blob || cargo->owner->refs == 1);
}

static int is_kept(const struct mst_cargo *cargo) {
  return cargo->blob != NULL && cargo->is_whole && cargo->stream != NULL &&
         !cargo->stream->ended;
}

static struct mst_cargo *used_first(const struct mst_link *link) {
  struct mst_cargo *first = NULL;
  for (struct mst_cargo *at = link->cargo; at != NULL; at = at->next)
    if (is_kept(at) && (first == NULL || at->used_ns < first->used_ns))
      first = at;
  return first;
}

// forget ends those that were sent, and not used again.
static void forget(struct mst_link *link, int64_t now_ns) {
  size_t kept = 0;
  link->forget_ns = INT64_MAX;
  for (struct mst_cargo *at = link->cargo; at != NULL; at = at->next) {
    const int64_t over_ns = at->used_ns + MST_LINK_KEEP_NS;
    if (!is_kept(at)) continue;
    if (over_ns <= now_ns || is_unused(at)) {
      mst_cargo_end(link, at);
      continue;
    }
    kept++;
    if (over_ns < link->forget_ns) link->forget_ns = over_ns;
  }
  for (; kept > MST_LINK_KEEP_MOST; kept--)
    mst_cargo_end(link, used_first(link));
}

static void free_cargo(struct mst_cargo *cargo) {
  mst_blob_release(cargo->blob);
  mst_segment_close(&cargo->segment);
  free(cargo);
}

void mst_cargo_tidy(struct mst_link *link, int64_t now_ns) {
  if (now_ns >= link->forget_ns) forget(link, now_ns);
  for (struct mst_cargo **at = &link->cargo; *at != NULL;) {
    struct mst_cargo *cargo = *at;
    if (cargo->stream != NULL && mst_mux_is_over(cargo->stream)) {
      mst_mux_close(&link->trunk.mux, cargo->stream);
      cargo->stream = NULL;
    }
    if (cargo->stream != NULL || (cargo->blob == NULL && !cargo->taken)) {
      at = &cargo->next;
      continue;
    }
    *at = cargo->next;
    free_cargo(cargo);
  }
}

void mst_cargo_free_all(struct mst_link *link) {
  while (link->cargo != NULL) {
    struct mst_cargo *cargo = link->cargo;
    link->cargo = cargo->next;
    free_cargo(cargo);
  }
}

void mst_cargo_abandon(struct mst_link *link) {
  for (struct mst_cargo *at = link->cargo; at != NULL; at = at->next) {
    at->stream = NULL;
    if (at->blob == NULL && !at->is_whole) is_there(link, 1, at);
  }
}
