// Framed channels. See chan.h.
#include "loop/chan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"

// One call transfers at most this: Linux stops at 2^31 by itself, macOS refuses more.
#define PART_MAX ((size_t)1 << 30)

struct mst_chan_out {
  struct mst_chan_out *next;
  struct mst_blob *payload;  // NULL if there is none
  size_t sent;               // of head and payload together
  struct mst_line *lines[3]; // go along, each with a reference
  size_t line_count;
  uint8_t head[MST_HEAD_BYTES];
};

// A segment belongs to the frame with the last byte of the read that brought it: the kernel ends a
// read after the bytes sent with a descriptor, and those are one frame or its beginning.
struct mst_chan_map {
  struct mst_chan_map *next;
  uint64_t end;        // of that read, in bytes of the stream
  struct mst_map *map; // NULL: no memory to map it
};

void mst_chan_open(struct mst_chan *chan, int fd, uint64_t length_max) {
  memset(chan, 0, sizeof *chan);
  chan->fd = fd;
  chan->length_max = length_max;
}

void mst_chan_open_line(struct mst_chan *chan, struct mst_line *line,
                        uint64_t length_max) {
  mst_chan_open(chan, -1, length_max);
  chan->line = line;
}

int mst_chan_is_open(const struct mst_chan *chan) {
  return chan->fd >= 0 || chan->line != NULL;
}

void mst_chan_shut(struct mst_chan *chan) {
  mst_net_shutdown(chan->fd);
  if (chan->line != NULL) chan->line->ops->cut(chan->line);
}

void mst_chan_leave(struct mst_chan *chan) {
  mst_net_close(&chan->fd);
  chan->line = NULL;
}

static void drop_first(struct mst_chan *chan) {
  struct mst_chan_out *out = chan->out_first;
  chan->out_first = out->next;
  if (chan->out_first == NULL) chan->out_last = NULL;
  for (size_t i = 0; i < out->line_count; i++)
    out->lines[i]->ops->release(out->lines[i]);
  mst_blob_release(out->payload);
  free(out);
}

static void drop_queue(struct mst_chan *chan) {
  while (chan->out_first != NULL)
    drop_first(chan);
  chan->out_bytes = 0;
  chan->later_ns = chan->pause_ns = 0;
}

static void drop_map(struct mst_chan_map **at) {
  struct mst_chan_map *gone = *at;
  *at = gone->next;
  mst_map_release(gone->map);
  free(gone);
}

void mst_chan_close(struct mst_chan *chan) {
  mst_chan_shut(chan);
  mst_net_close(&chan->fd);
  drop_queue(chan);
  if (chan->line != NULL) chan->line->ops->release(chan->line);
  chan->line = NULL;
  chan->ended = 1;
  mst_buf_free(&chan->in);
  chan->in_head = 0;
  chan->skip = 0;
  while (chan->maps != NULL)
    drop_map(&chan->maps);
  free(chan->spare_map);
  chan->spare_map = NULL;
}

// parts_left describes the unsent part of a frame.
static int parts_left(const uint8_t *head, const uint8_t *payload,
                      size_t payload_bytes, size_t sent,
                      struct iovec parts[2]) {
  int n = 0;
  if (sent < MST_HEAD_BYTES) {
    // iovec is not const-correct; sendmsg only reads.
    memcpy(&parts[n].iov_base, &(const uint8_t *){head + sent}, sizeof(void *));
    parts[n++].iov_len = MST_HEAD_BYTES - sent;
  }
  const size_t skip = sent < MST_HEAD_BYTES ? 0 : sent - MST_HEAD_BYTES;
  if (payload_bytes > skip) {
    memcpy(&parts[n].iov_base, &(const uint8_t *){payload + skip},
           sizeof(void *));
    const size_t left = payload_bytes - skip;
    parts[n++].iov_len = left < PART_MAX ? left : PART_MAX;
  }
  return n;
}

static int64_t send_some(struct mst_chan *chan, const struct iovec *parts,
                         int count, const struct mst_along *along, int wait,
                         struct mst_err *err) {
  if (chan->line != NULL)
    return chan->line->ops->write(chan->line, parts, count, along, err);
  return mst_net_sendv(chan->fd, parts, count, along->fds, along->fd_count,
                       wait, err);
}

// send_frame sends from *sent on. 0 when all is sent, -MST_EAGAIN, or an error.
static int send_frame(struct mst_chan *chan, const uint8_t *head,
                      const uint8_t *payload, size_t payload_bytes,
                      size_t *sent, const struct mst_along *along, int wait,
                      struct mst_err *err) {
  static const struct mst_along nothing = {0};
  const size_t all = MST_HEAD_BYTES + payload_bytes;
  while (*sent < all) {
    struct iovec parts[2];
    const int n = parts_left(head, payload, payload_bytes, *sent, parts);
    const int64_t rc =
        send_some(chan, parts, n, *sent == 0 ? along : &nothing, wait, err);
    if (rc < 0) return (int)rc;
    *sent += (size_t)rc;
  }
  return 0;
}

// Pauses before another try after a shortage of the system, each twice the one before.
#define PAUSE_MIN_NS MST_NS_PER_MS
#define PAUSE_MAX_NS (64 * MST_NS_PER_MS)

static void put_off(struct mst_chan *chan) {
  const int64_t pause_ns = 2 * chan->pause_ns;
  chan->pause_ns = pause_ns < PAUSE_MIN_NS   ? PAUSE_MIN_NS
                   : pause_ns > PAUSE_MAX_NS ? PAUSE_MAX_NS
                                             : pause_ns;
  chan->later_ns = mst_clock_now() + chan->pause_ns;
}

int mst_chan_wants_write(const struct mst_chan *chan) {
  return chan->out_first != NULL && chan->later_ns == 0;
}

int64_t mst_chan_later_ns(const struct mst_chan *chan) {
  return chan->out_first != NULL && chan->later_ns != 0 ? chan->later_ns
                                                        : INT64_MAX;
}

// send_blob is send_frame for a payload with its segment, and with `lines`.
static int send_blob(struct mst_chan *chan, const uint8_t *head,
                     struct mst_blob *blob, struct mst_line *const *lines,
                     size_t line_count, size_t *sent, int wait,
                     struct mst_err *err) {
  const uint8_t *bytes = blob == NULL ? NULL : blob->buf.data;
  const size_t n = blob == NULL ? 0 : blob->buf.len;
  const int has_segment = blob != NULL && blob->segment.fd >= 0;
  const struct mst_along along = {.fds = has_segment ? &blob->segment.fd : NULL,
                                  .fd_count = has_segment ? 1 : 0,
                                  .blob = has_segment ? blob : NULL,
                                  .lines = lines,
                                  .line_count = line_count};
  for (;;) {
    const size_t before = *sent;
    errno = 0;
    const int rc = send_frame(chan, head, bytes, n, sent, &along, wait, err);
    const int shortage = rc == -MST_ESYS && mst_err_is_shortage(errno);
    if (*sent > before) chan->pause_ns = 0;
    if (!shortage) {
      chan->later_ns = 0;
      return rc;
    }
    put_off(chan);
    if (!wait) return -MST_EAGAIN;
    const struct timespec pause = {.tv_nsec = (long)chan->pause_ns};
    (void)nanosleep(&pause, NULL);
  }
}

static int queue_frame(struct mst_chan *chan, const uint8_t *head,
                       struct mst_blob *payload, size_t sent,
                       struct mst_err *err) {
  struct mst_chan_out *out = malloc(sizeof *out);
  if (out == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "malloc",
                       "no memory to queue a frame");
  }
  out->next = NULL;
  out->payload = payload;
  if (payload != NULL) payload->refs++;
  out->sent = sent;
  out->line_count = 0;
  memcpy(out->head, head, MST_HEAD_BYTES);
  if (chan->out_last != NULL) {
    chan->out_last->next = out;
  } else {
    chan->out_first = out;
  }
  chan->out_last = out;
  chan->out_bytes +=
      MST_HEAD_BYTES + (payload == NULL ? 0 : payload->buf.len) - sent;
  return 0;
}

static int write_head(const struct mst_chan *chan, struct mst_head *head,
                      const struct mst_blob *payload,
                      uint8_t bytes[MST_HEAD_BYTES], struct mst_err *err) {
  head->length = payload == NULL ? 0 : payload->buf.len;
  if (head->length > MST_FRAME_MAX) {
    return mst_err_set(err, MST_ELIMIT, 0, NULL,
                       "a message can't be larger than 4 TiB");
  }
  if (payload != NULL && payload->segment.fd >= 0)
    head->flags |= MST_FLAG_SEGMENT;
  mst_head_encode(head, bytes);
  return mst_chan_is_open(chan)
             ? 0
             : mst_err_set(err, MST_ECLOSED, 0, NULL, "the channel is closed");
}

// send_by_line queues a frame and sends what fits.
static int send_by_line(struct mst_chan *chan, const uint8_t *head,
                        struct mst_blob *payload, struct mst_line *const *lines,
                        size_t count, struct mst_err *err) {
  int rc = queue_frame(chan, head, payload, 0, err);
  if (rc != 0) return rc;
  struct mst_chan_out *out = chan->out_last;
  for (; out->line_count < count; out->line_count++) {
    out->lines[out->line_count] = lines[out->line_count];
    lines[out->line_count]->refs++;
  }
  if (out != chan->out_first) return 0; // the link says when the others can go
  rc = mst_chan_flush(chan, err);
  return rc == -MST_EAGAIN ? 0 : rc;
}

int mst_chan_send_ends(struct mst_chan *chan, struct mst_head *head,
                       struct mst_blob *payload, const struct mst_ends *ends,
                       size_t count, struct mst_err *err) {
  uint8_t bytes[MST_HEAD_BYTES];
  if (chan->line == NULL)
    return mst_chan_send(chan, head, payload, ends->fds, count, 0, err);
  const int rc = write_head(chan, head, payload, bytes, err);
  return rc != 0 ? rc
                 : send_by_line(chan, bytes, payload, ends->lines, count, err);
}

int mst_chan_send(struct mst_chan *chan, struct mst_head *head,
                  struct mst_blob *payload, const int *fds, size_t fd_count,
                  int wait, struct mst_err *err) {
  uint8_t bytes[MST_HEAD_BYTES];
  size_t sent = 0;
  const int wrong = write_head(chan, head, payload, bytes, err);
  if (wrong != 0) return wrong;
  MST_ASSERT((head->flags & MST_FLAG_SEGMENT) == 0 || fd_count == 0);
  MST_ASSERT(!wait || (chan->out_first == NULL && chan->line == NULL));
  if (chan->line != NULL) {
    MST_ASSERT(fd_count == 0);
    return send_by_line(chan, bytes, payload, NULL, 0, err);
  }
  if (chan->out_first == NULL) {
    const int rc =
        fd_count == 0
            ? send_blob(chan, bytes, payload, NULL, 0, &sent, wait, err)
            : send_frame(chan, bytes,
                         payload == NULL ? NULL : payload->buf.data,
                         (size_t)head->length, &sent,
                         &(struct mst_along){.fds = fds, .fd_count = fd_count},
                         wait, err);
    const int failed = rc != 0 && rc != -MST_EAGAIN;
    // After half a frame the next one would be read as part of it. And an end seen by a send must
    // also show when reading, where callers wait for it.
    if (rc == -MST_ECLOSED || (failed && sent > 0)) mst_net_shutdown(chan->fd);
    // The peer was given the frame, and may have ended because of it. A queue may break off like
    // that, too.
    if (failed && sent > 0 && !wait) return 0;
    if (rc != -MST_EAGAIN) return rc;
  }
  if (fd_count > 0 && sent == 0) return -MST_EAGAIN;
  return queue_frame(chan, bytes, payload, sent, err);
}

int mst_chan_send_small(struct mst_chan *chan, struct mst_head *head,
                        const void *payload, size_t n, int wait,
                        struct mst_err *err) {
  struct mst_blob *blob = mst_blob_new();
  if (blob == NULL || mst_buf_append(&blob->buf, payload, n) != 0) {
    mst_blob_release(blob);
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a frame");
  }
  const int rc = mst_chan_send(chan, head, blob, NULL, 0, wait, err);
  mst_blob_release(blob);
  return rc;
}

int mst_chan_flush(struct mst_chan *chan, struct mst_err *err) {
  if (chan->later_ns != 0 && mst_clock_now() < chan->later_ns) {
    return -MST_EAGAIN;
  }
  while (chan->out_first != NULL) {
    struct mst_chan_out *out = chan->out_first;
    const size_t before = out->sent;
    const int rc = send_blob(chan, out->head, out->payload, out->lines,
                             out->line_count, &out->sent, 0, err);
    chan->out_bytes -= out->sent - before;
    if (rc == -MST_EAGAIN) return rc;
    if (rc != 0) {
      // Frames that were promised are lost: the peer must not go on.
      mst_chan_shut(chan);
      drop_queue(chan);
      return rc;
    }
    drop_first(chan);
  }
  return 0;
}

// compact moves the untaken frames to the front if the buffer would grow otherwise.
static void compact(struct mst_chan *chan) {
  const size_t left = chan->in.len - chan->in_head;
  if (left > 0) {
    memmove(chan->in.data, chan->in.data + chan->in_head, left);
  }
  chan->in.len = left;
  chan->in_origin += chan->in_head;
  chan->in_head = 0;
}

// bytes_wanted gives how much to read: the rest of a large frame whose header is known, else the
// size of a usual read.
static int bytes_wanted(struct mst_chan *chan, size_t *want,
                        struct mst_err *err) {
  struct mst_frame frame;
  uint64_t used = 0;
  *want = MST_CHAN_READ_MIN;
  if (chan->in.len == chan->in_head) return 0;
  const size_t have = chan->in.len - chan->in_head;
  const int rc = mst_frame_parse(chan->in.data + chan->in_head, have,
                                 chan->length_max, &frame, &used);
  if (rc < 0)
    return mst_err_set(err, (enum mst_code) - rc, 0, NULL, "bad header");
  if (rc == 0 && used > have + MST_CHAN_READ_MIN) {
    const uint64_t missing = used - have;
    const size_t step = have > MST_CHAN_STEP_MAX ? have : MST_CHAN_STEP_MAX;
    *want = missing > step ? step : (size_t)missing;
  }
  return 0;
}

// add_map keeps the segment that came with the bytes read up to now. If it keeps the descriptor too
// it sets *fd to -1. *fd = -1 on entry: this process had no room for the descriptor.
static int add_map(struct mst_chan *chan, int *fd, struct mst_err *err) {
  struct mst_map *map = NULL;
  if (*fd < 0) {
    map = mst_map_lost();
  } else if (mst_map_open(*fd, &map, err) == -MST_EPROTO) {
    return -MST_EPROTO;
  }
  struct mst_chan_map *added = chan->spare_map;
  chan->spare_map = NULL;
  *added = (struct mst_chan_map){.map = map};
  if (chan->keeps_fds && *fd >= 0 && added->map != NULL) {
    mst_map_keep(added->map, *fd);
    *fd = -1;
  }
  added->end = chan->in_origin + chan->in.len;
  struct mst_chan_map **at = &chan->maps;
  while (*at != NULL)
    at = &(*at)->next;
  *at = added;
  return 0;
}

// receive_some reads bytes, and a segment's descriptor if one may come along.
static int64_t receive_some(struct mst_chan *chan, uint8_t *to, size_t n,
                            int wait, int fds[MST_NET_FDS_MAX], size_t *count,
                            int *lost, struct mst_err *err) {
  if (chan->line == NULL) {
    return chan->takes_maps
               ? mst_net_recv_fds(chan->fd, to, n, wait, fds, count, lost, err)
               : mst_net_recv(chan->fd, to, n, wait, err);
  }
  MST_ASSERT(!wait);
  const int64_t got =
      chan->line->ops->read(chan->line, to, n, &fds[0], lost, err);
  *count = fds[0] >= 0;
  if ((*count == 0 && !*lost) || chan->takes_maps) return got;
  mst_net_close(&fds[0]);
  return mst_err_set(err, MST_EPROTO, 0, NULL, "a segment that nobody expects");
}

// receive reads at most n bytes to the end of the buffer, and a segment if one comes along.
static int receive(struct mst_chan *chan, size_t n, int wait,
                   struct mst_err *err) {
  // Allocate before reading: a descriptor comes only once.
  if (chan->takes_maps && chan->spare_map == NULL) {
    chan->spare_map = calloc(1, sizeof *chan->spare_map);
    if (chan->spare_map == NULL) {
      return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a segment");
    }
  }
  uint8_t *to = chan->in.data + chan->in.len;
  if (n > PART_MAX) n = PART_MAX;
  int fds[MST_NET_FDS_MAX] = {-1};
  size_t count = 0;
  int lost = 0;
  const int64_t got = receive_some(chan, to, n, wait, fds, &count, &lost, err);
  if (got < 0) return (int)got;
  chan->in.len += (size_t)got;
  int rc = 0;
  if (count > 1) {
    rc = mst_err_set(err, MST_EPROTO, 0, "recvmsg", "more than one descriptor");
  } else if (count == 1 || lost) {
    rc = add_map(chan, &fds[0], err);
  }
  for (size_t i = 0; i < count; i++)
    mst_net_close(&fds[i]);
  return rc == 0 ? 1 : rc;
}

// skip reads and discards bytes of a dropped frame. The next frame begins in another read.
static int skip(struct mst_chan *chan, int wait, struct mst_err *err) {
  uint8_t bytes[16384];
  const size_t n =
      chan->skip < sizeof bytes ? (size_t)chan->skip : sizeof bytes;
  int fds[MST_NET_FDS_MAX] = {-1}, lost = 0;
  size_t count = 0;
  const int64_t got =
      receive_some(chan, bytes, n, wait, fds, &count, &lost, err);
  for (size_t i = 0; i < count; i++) // of the frame, or of its beginning
    mst_net_close(&fds[i]);
  if (got == -MST_ECLOSED) chan->ended = 1;
  if (got < 0) return (int)got;
  chan->skip -= (uint64_t)got;
  chan->in_origin += (uint64_t)got;
  return 1;
}

int mst_chan_fill(struct mst_chan *chan, int wait, struct mst_err *err) {
  size_t want;
  if (chan->skip > 0 && mst_chan_is_open(chan)) return skip(chan, wait, err);
  int rc = bytes_wanted(chan, &want, err);
  if (rc != 0) return rc;
  if (!mst_chan_is_open(chan)) {
    chan->ended = 1;
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the channel is closed");
  }
  if (chan->in_head > 0 && chan->in.cap - chan->in.len < want) compact(chan);
  rc = mst_buf_reserve(&chan->in, want);
  if (rc != 0) {
    return mst_err_set(err, (enum mst_code) - rc, 0, "realloc",
                       "no memory to receive %zu bytes", want);
  }
  rc = receive(chan, chan->in.cap - chan->in.len, wait, err);
  if (rc == -MST_ECLOSED) chan->ended = 1;
  return rc;
}

// map_in gives the segment of the frame at these bytes of the stream.
static const struct mst_chan_map *map_in(const struct mst_chan *chan,
                                         uint64_t begin, uint64_t end) {
  const struct mst_chan_map *at = chan->maps;
  while (at != NULL && at->end <= begin)
    at = at->next;
  return at != NULL && at->end <= end ? at : NULL;
}

// segment_fits: the frame and the received descriptor agree whether there is a segment, and on its
// size.
static int segment_fits(const struct mst_chan *chan, size_t offset,
                        const struct mst_frame *frame, uint64_t used) {
  const int says = (frame->head.flags & MST_FLAG_SEGMENT) != 0;
  if (!says && chan->maps == NULL) return 1;
  const uint64_t begin = chan->in_origin + offset;
  const struct mst_chan_map *has = map_in(chan, begin, begin + used);
  if (!says || has == NULL) return !says && has == NULL;
  size_t skip = MST_SEGMENT_BYTES;
  if (frame->head.kind == MST_KIND_VALUE) {
    skip = mst_value_skip(frame->head.flags);
  } else if (frame->head.kind != MST_KIND_EXEC &&
             frame->head.kind != MST_KIND_JOB &&
             frame->head.kind != MST_KIND_HAVE) {
    return 0;
  }
  uint64_t size = 0;
  return frame->head.length >= skip &&
         mst_segment_decode(frame->payload + skip - MST_SEGMENT_BYTES,
                            MST_SEGMENT_BYTES, &size) == 0 &&
         (has->map == NULL || mst_map_is_lost(has->map) ||
          has->map->bytes == size);
}

static size_t offset_of(const struct mst_chan *chan,
                        const struct mst_frame *frame) {
  return (size_t)(frame->payload - chan->in.data) - (size_t)MST_HEAD_BYTES;
}

struct mst_map *mst_chan_map(const struct mst_chan *chan,
                             const struct mst_frame *frame) {
  if ((frame->head.flags & MST_FLAG_SEGMENT) == 0) return NULL;
  const uint64_t begin = chan->in_origin + offset_of(chan, frame);
  const struct mst_chan_map *has =
      map_in(chan, begin, begin + MST_HEAD_BYTES + frame->head.length);
  return has == NULL ? NULL : has->map;
}

int mst_chan_peek(struct mst_chan *chan, struct mst_frame *frame,
                  struct mst_err *err) {
  uint64_t used = 0;
  if (chan->in_head == chan->in.len) return 0;
  const int rc = mst_frame_parse(chan->in.data + chan->in_head,
                                 chan->in.len - chan->in_head, chan->length_max,
                                 frame, &used);
  if (rc < 0) {
    return mst_err_set(err, (enum mst_code) - rc, 0, NULL,
                       rc == -MST_ELIMIT ? "a frame is over the limit"
                                         : "bytes that are no frame");
  }
  if (rc == 1 && !segment_fits(chan, chan->in_head, frame, used)) {
    return mst_err_set(err, MST_EPROTO, 0, NULL,
                       "a frame and its segment don't fit");
  }
  return rc;
}

// pass skips bytes in the buffer and releases their segments.
static void pass(struct mst_chan *chan, size_t used) {
  chan->in_head += used;
  while (chan->maps != NULL &&
         chan->maps->end <= chan->in_origin + chan->in_head)
    drop_map(&chan->maps);
  if (chan->in_head == chan->in.len) {
    chan->in_origin += chan->in.len;
    chan->in.len = chan->in_head = 0;
    mst_buf_trim(&chan->in, MST_CHAN_KEEP);
  }
}

void mst_chan_take(struct mst_chan *chan, const struct mst_frame *frame) {
  const size_t used = MST_HEAD_BYTES + (size_t)frame->head.length;
  MST_ASSERT(chan->in_head + used <= chan->in.len);
  pass(chan, used);
}

int mst_chan_begun(const struct mst_chan *chan, struct mst_frame *frame,
                   size_t *have) {
  const size_t n = chan->in.len - chan->in_head;
  if (n < MST_HEAD_BYTES) return 0;
  frame->payload = chan->in.data + chan->in_head + MST_HEAD_BYTES;
  *have = n - MST_HEAD_BYTES;
  return mst_head_decode(chan->in.data + chan->in_head, n, chan->length_max,
                         &frame->head) > 0 &&
         *have < frame->head.length;
}

void mst_chan_drop(struct mst_chan *chan, const struct mst_frame *frame) {
  const size_t have = chan->in.len - chan->in_head;
  chan->skip = MST_HEAD_BYTES + frame->head.length - have;
  pass(chan, have);
}

int mst_chan_detach(struct mst_chan *chan, const struct mst_frame *frame,
                    struct mst_buf *bytes, const uint8_t **payload) {
  const size_t n = (size_t)frame->head.length;
  const size_t end = chan->in_head + MST_HEAD_BYTES + n;
  const size_t rest = chan->in.len - end;
  *bytes = (struct mst_buf){0};
  if (n <= rest) { // the rest costs more to copy
    if (mst_buf_append(bytes, frame->payload, n) != 0) return -MST_EMEM;
    *payload = bytes->data;
    mst_chan_take(chan, frame);
    return 0;
  }
  struct mst_buf left = {0};
  if (mst_buf_append(&left, chan->in.data + end, rest) != 0) return -MST_EMEM;
  *bytes = chan->in;
  *payload = frame->payload;
  chan->in = left;
  chan->in_head = 0;
  chan->in_origin += end;
  while (chan->maps != NULL && chan->maps->end <= chan->in_origin)
    drop_map(&chan->maps);
  return 0;
}
