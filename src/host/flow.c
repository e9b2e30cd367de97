// What waits in a line, in both directions: bytes, and what goes along with them. See link_int.h.
#include <stdlib.h>
#include <string.h>

#include "host/link_int.h"

// An empty buffer that is larger than this is freed.
#define KEEP_BYTES ((size_t)16384)

// ---- bytes that wait

size_t mst_flow_waiting(const struct mst_flow *flow) {
  return flow->buf.len - flow->head;
}

// until_parcel: so many bytes come before the next parcel.
size_t mst_flow_until_parcel(const struct mst_flow *flow) {
  const size_t n = mst_flow_waiting(flow);
  const struct mst_parcel *next = flow->parcels.first;
  return next == NULL || next->at - flow->at > n
             ? n
             : (size_t)(next->at - flow->at);
}

const struct mst_parcel *mst_flow_parcel(const struct mst_flow *flow) {
  const struct mst_parcel *next = flow->parcels.first;
  return next != NULL && next->at == flow->at ? next : NULL;
}

void mst_flow_take(struct mst_flow *flow, void *to, size_t n) {
  if (to != NULL && n > 0) memcpy(to, flow->buf.data + flow->head, n);
  flow->head += n;
  flow->at += n;
  if (flow->head < flow->buf.len) return;
  flow->head = flow->buf.len = 0;
  mst_buf_trim(&flow->buf, KEEP_BYTES);
}

int mst_flow_reserve(struct mst_flow *flow, size_t n) {
  if (flow->head > 0 && flow->buf.cap - flow->buf.len < n) {
    flow->buf.len -= flow->head;
    memmove(flow->buf.data, flow->buf.data + flow->head, flow->buf.len);
    flow->head = 0;
  }
  return mst_buf_reserve(&flow->buf, n);
}

void mst_cargo_drop(struct mst_link *link, struct mst_cargo *cargo) {
  cargo->taken = 1;
  if (cargo->stream != NULL && !cargo->is_whole)
    mst_mux_stop(&link->trunk.mux, cargo->stream);
  link->trunk.some_over = 1;
}

int mst_parcel_add(struct mst_parcels *parcels, const struct mst_parcel *what) {
  struct mst_parcel *parcel = malloc(sizeof *parcel);
  if (parcel == NULL) return -MST_EMEM;
  *parcel = *what;
  parcel->next = NULL;
  *(parcels->last != NULL ? &parcels->last->next : &parcels->first) = parcel;
  parcels->last = parcel;
  return 0;
}

void mst_parcel_spend(struct mst_link *link, struct mst_parcels *parcels) {
  struct mst_parcel *parcel = parcels->first;
  parcels->first = parcel->next;
  if (parcels->first == NULL) parcels->last = NULL;
  if (parcel->cargo != NULL) mst_cargo_drop(link, parcel->cargo);
  parcel->cargo = NULL;
  parcel->next = NULL;
  *(link->spent.last != NULL ? &link->spent.last->next : &link->spent.first) =
      parcel;
  link->spent.last = parcel;
}

static void drop_all(struct mst_link *link, struct mst_flow *flow) {
  mst_flow_take(flow, NULL, mst_flow_waiting(flow));
  while (flow->parcels.first != NULL)
    mst_parcel_spend(link, &flow->parcels);
}

// ---- what its owner is called for

int mst_ll_has_ended(const struct mst_ll *line) {
  return line->ended || line->link->trunk.failed != 0;
}

int mst_ll_has_lost(const struct mst_ll *line) {
  const struct mst_parcel *parcel = mst_flow_parcel(&line->in);
  return parcel != NULL &&
         (parcel->cargo->is_lost ||
          (mst_flow_waiting(&line->in) == 0 && mst_ll_has_ended(line)));
}

int mst_ll_is_readable(const struct mst_ll *line) {
  const struct mst_parcel *parcel = mst_flow_parcel(&line->in);
  if (parcel != NULL) {
    return mst_ll_has_lost(line)
               ? !line->read_end
               : parcel->cargo->is_whole && mst_flow_waiting(&line->in) > 0;
  }
  return mst_flow_waiting(&line->in) > 0 ||
         (mst_ll_has_ended(line) && !line->read_end);
}

int mst_ll_is_dead(const struct mst_ll *line) {
  return line->cut || line->stopped || line->link->trunk.failed != 0;
}

size_t mst_ll_room(const struct mst_ll *line) {
  const size_t n = mst_flow_waiting(&line->out);
  return n < MST_LINE_OUT_MAX ? MST_LINE_OUT_MAX - n : 0;
}

uint32_t mst_ll_ready(const struct mst_ll *line) {
  const struct mst_io *io = line->line.io;
  uint32_t ready = 0;
  if (io == NULL) return 0;
  if (((io->wanted & MST_READABLE) != 0 && mst_ll_is_readable(line)) ||
      (mst_ll_has_ended(line) && !line->said_end))
    ready |= MST_READABLE;
  if ((io->wanted & MST_WRITABLE) != 0 &&
      (mst_ll_room(line) > 0 || mst_ll_is_dead(line)))
    ready |= MST_WRITABLE;
  return ready;
}

void mst_ll_due(struct mst_ll *line) {
  struct mst_link *link = line->link;
  struct mst_lls *list =
      line->class == MST_STREAM_OUTPUT ? &link->due_prints : &link->due;
  if (line->due || mst_ll_ready(line) == 0) return;
  line->due = 1;
  line->next_due = NULL;
  *(list->last != NULL ? &list->last->next_due : &list->first) = line;
  list->last = line;
}

// ---- its stream

// end_stream says that this end sends no more, once it has sent what it has.
void mst_ll_end_stream(struct mst_ll *line) {
  struct mst_stream *stream = line->stream;
  if (!line->cut || stream == NULL) return;
  if (mst_flow_waiting(&line->out) == 0)
    mst_mux_end(&line->link->trunk.mux, stream);
  mst_mux_stop(&line->link->trunk.mux, stream);
  line->link->trunk.some_over = 1;
}

void mst_ll_attach(struct mst_ll *line, struct mst_stream *stream) {
  line->stream = stream;
  line->has_gone = 1;
  stream->owner = line;
  if (mst_flow_waiting(&line->out) > 0)
    mst_mux_ready(&line->link->trunk.mux, stream, 1);
  mst_ll_end_stream(line);
}

void mst_ll_took(struct mst_ll *line, size_t n, int64_t now_ns) {
  if (line->stream != NULL && n > 0)
    mst_mux_took(&line->link->trunk.mux, line->stream, n, now_ns);
  line->link->trunk.some_over |= line->cut || line->ended;
}

void mst_ll_drop_in(struct mst_ll *line) {
  mst_ll_took(line, mst_flow_waiting(&line->in), mst_clock_now());
  drop_all(line->link, &line->in);
}

void mst_ll_cut(struct mst_ll *line) {
  if (line->cut) return;
  line->cut = line->ended = 1;
  mst_ll_end_stream(line);
  mst_ll_due(line);
}

int mst_ll_came(struct mst_ll *line, const uint8_t *bytes, size_t n,
                int64_t now_ns) {
  if (line->ended) {
    mst_ll_took(line, n, now_ns);
    return 0;
  }
  if (mst_flow_reserve(&line->in, n) != 0) return -MST_EMEM;
  memcpy(line->in.buf.data + line->in.buf.len, bytes, n);
  line->in.buf.len += n;
  mst_ll_due(line);
  return 0;
}

void mst_ll_end(struct mst_ll *line) {
  line->ended = 1;
  line->link->trunk.some_over = 1;
  mst_ll_due(line);
}

void mst_ll_stop(struct mst_ll *line) {
  line->stopped = 1;
  drop_all(line->link, &line->out);
  mst_mux_end(&line->link->trunk.mux, line->stream);
  line->link->trunk.some_over = 1;
  mst_ll_due(line);
}

void mst_ll_strand(struct mst_ll *line) {
  line->stopped = 1;
  drop_all(line->link, &line->out);
  mst_ll_end(line);
}

void mst_ll_abandon(struct mst_ll *line) {
  line->stream = NULL;
  drop_all(line->link, &line->out);
  mst_ll_due(line);
}
