// What the owners of lines do with them. See link_int.h.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/link_int.h"
#include "net/net.h"

static struct mst_ll *ll_of(struct mst_line *line) {
  return (struct mst_ll *)(void *)line;
}

static struct mst_line *open_line(struct mst_line *beside,
                                  enum mst_stream_class class) {
  struct mst_link *link = ll_of(beside)->link;
  (void)pthread_mutex_lock(&link->lock);
  struct mst_ll *line = mst_ll_new(link, class, NULL);
  (void)pthread_mutex_unlock(&link->lock);
  return line == NULL ? NULL : &line->line;
}

static int64_t closed(struct mst_err *err) {
  return mst_err_set(err, MST_ECLOSED, 0, NULL, "the other end is closed");
}

// take_cargo gives the segment that comes along, with one byte: the first of its frame.
static int64_t take_cargo(struct mst_ll *line, void *bytes, int *fd, int *lost,
                          struct mst_err *err) {
  const struct mst_cargo *cargo = line->in.parcels.first->cargo;
  if (mst_ll_has_lost(line)) { // what was to come with it is worth nothing
    mst_ll_drop_in(line);
    mst_ll_cut(line);
    line->read_end = 1;
    return closed(err);
  }
  if (!cargo->is_whole || mst_flow_waiting(&line->in) == 0) return -MST_EAGAIN;
  if (mst_net_copy(cargo->segment.fd, fd, NULL) != 0) {
    *fd = -1;
    *lost = 1;
  }
  mst_parcel_spend(line->link, &line->in.parcels);
  mst_flow_take(&line->in, bytes, 1);
  return 1;
}

static int64_t read_now(struct mst_ll *line, void *bytes, size_t n, int *fd,
                        int *lost, struct mst_err *err) {
  if (mst_flow_parcel(&line->in) != NULL)
    return take_cargo(line, bytes, fd, lost, err);
  const size_t there = mst_flow_until_parcel(&line->in);
  if (there == 0) {
    if (!mst_ll_has_ended(line)) return -MST_EAGAIN;
    line->read_end = 1;
    return closed(err);
  }
  if (n > there) n = there;
  mst_flow_take(&line->in, bytes, n);
  return (int64_t)n;
}

// fill puts on the link what it takes, unless that is to wait for more.
static void fill(struct mst_link *link, const struct mst_ll *line,
                 int64_t now_ns) {
  if (link->is_listed && link->links->held > 0 &&
      mst_flow_waiting(&line->out) < MST_LINE_HELD_MAX) {
    link->holds = 1;
  } else {
    mst_trunk_fill(&link->trunk, now_ns);
  }
}

static int64_t read_line(struct mst_line *of, void *bytes, size_t n, int *fd,
                         int *lost, struct mst_err *err) {
  struct mst_ll *line = ll_of(of);
  struct mst_link *link = line->link;
  const int64_t now_ns = mst_clock_now();
  *fd = -1;
  *lost = 0;
  (void)pthread_mutex_lock(&link->lock);
  if (!mst_ll_is_readable(line)) mst_link_read(link, now_ns);
  const int64_t got = read_now(line, bytes, n, fd, lost, err);
  if (got > 0) mst_ll_took(line, (size_t)got, now_ns);
  fill(link, line, now_ns);
  (void)pthread_mutex_unlock(&link->lock);
  return got;
}

static int add_along(struct mst_ll *line, const struct mst_along *along) {
  struct mst_parcel parcel = {.at = line->out.at + mst_flow_waiting(&line->out),
                              .blob = along->blob,
                              .count = along->line_count};
  if (along->blob == NULL && along->line_count == 0) return 0;
  for (size_t i = 0; i < along->line_count; i++)
    parcel.lines[i] = ll_of(along->lines[i]);
  const int rc = mst_parcel_add(&line->out.parcels, &parcel);
  if (rc != 0) return rc;
  if (along->blob != NULL) along->blob->refs++;
  for (size_t i = 0; i < along->line_count; i++)
    along->lines[i]->refs++;
  return 0;
}

static int64_t no_memory(struct mst_err *err) {
  errno = ENOMEM;
  return mst_err_set(err, MST_ESYS, ENOMEM, "malloc",
                     "no memory for a message");
}

static int64_t write_now(struct mst_ll *line, const struct iovec *parts,
                         int count, const struct mst_along *along,
                         struct mst_err *err) {
  if (mst_ll_is_dead(line)) return closed(err);
  size_t left = mst_ll_room(line), all = 0;
  for (int i = 0; i < count; i++)
    all += parts[i].iov_len;
  if (all < left) left = all;
  if (left == 0) return -MST_EAGAIN;
  if (mst_flow_reserve(&line->out, left) != 0 || add_along(line, along) != 0)
    return no_memory(err);
  const int64_t n = (int64_t)left;
  for (int i = 0; i < count && left > 0; i++) {
    const size_t part = parts[i].iov_len < left ? parts[i].iov_len : left;
    memcpy(line->out.buf.data + line->out.buf.len, parts[i].iov_base, part);
    line->out.buf.len += part;
    left -= part;
  }
  if (line->stream != NULL)
    mst_mux_ready(&line->link->trunk.mux, line->stream, 1);
  return n;
}

static int64_t write_line(struct mst_line *of, const struct iovec *parts,
                          int count, const struct mst_along *along,
                          struct mst_err *err) {
  struct mst_ll *line = ll_of(of);
  (void)pthread_mutex_lock(&line->link->lock);
  const int64_t n = write_now(line, parts, count, along, err);
  if (n > 0) fill(line->link, line, mst_clock_now());
  (void)pthread_mutex_unlock(&line->link->lock);
  return n;
}

static void want(struct mst_line *of, struct mst_io *io, uint32_t wanted) {
  struct mst_ll *line = ll_of(of);
  (void)pthread_mutex_lock(&line->link->lock);
  of->io = io;
  if (io != NULL) io->wanted = wanted;
  mst_ll_due(line);
  (void)pthread_mutex_unlock(&line->link->lock);
}

static void cut_line(struct mst_line *of) {
  struct mst_ll *line = ll_of(of);
  (void)pthread_mutex_lock(&line->link->lock);
  mst_ll_cut(line);
  mst_trunk_fill(&line->link->trunk, mst_clock_now());
  (void)pthread_mutex_unlock(&line->link->lock);
}

static void release(struct mst_line *of) {
  struct mst_ll *line = ll_of(of);
  struct mst_link *link = line->link;
  if (--of->refs > 1) return;
  (void)pthread_mutex_lock(&link->lock);
  if (of->refs == 1) { // its owner's, unless it waits to go along
    if (!line->has_gone && !line->ended) mst_ll_strand(line);
    (void)pthread_mutex_unlock(&link->lock);
    return;
  }
  mst_ll_cut(line);
  mst_ll_drop_in(line);
  mst_trunk_fill(&link->trunk, mst_clock_now());
  (void)pthread_mutex_unlock(&link->lock);
  mst_ll_free(line);
}

void mst_ll_free(struct mst_ll *line) {
  struct mst_link *link = line->link;
  (void)pthread_mutex_lock(&link->lock);
  const int needed = line->line.refs > 0 || line->due || line->stream != NULL;
  if (!needed) {
    while (line->out.parcels.first != NULL)
      mst_parcel_spend(link, &line->out.parcels);
    *(line->prev != NULL ? &line->prev->next : &link->lines) = line->next;
    if (line->next != NULL) line->next->prev = line->prev;
    mst_buf_free(&line->in.buf);
    mst_buf_free(&line->out.buf);
    if (link->first == line) link->first = NULL;
    free(line);
  }
  (void)pthread_mutex_unlock(&link->lock);
  if (!needed) mst_link_free(link);
}

static int64_t round_trip_ns(struct mst_line *of) {
  struct mst_link *link = ll_of(of)->link;
  (void)pthread_mutex_lock(&link->lock);
  const int64_t ns = link->trunk.mux.flight.round_trip_ns;
  (void)pthread_mutex_unlock(&link->lock);
  return ns;
}

static const struct mst_line_ops ops = {.open = open_line,
                                        .read = read_line,
                                        .write = write_line,
                                        .want = want,
                                        .cut = cut_line,
                                        .release = release,
                                        .round_trip_ns = round_trip_ns};

struct mst_ll *mst_ll_new(struct mst_link *link, enum mst_stream_class class,
                          struct mst_stream *stream) {
  struct mst_ll *line = calloc(1, sizeof *line);
  if (line == NULL) return NULL;
  line->line = (struct mst_line){.ops = &ops, .refs = 1};
  line->link = link;
  line->class = class;
  line->next = link->lines;
  if (line->next != NULL) line->next->prev = line;
  link->lines = line;
  if (stream != NULL) mst_ll_attach(line, stream);
  return line;
}
