// What goes along with frames: sockets, pipes and segments. See relay_int.h.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/relay_int.h"

// ---- descriptors that go to the other host

static struct mst_end *open_end(struct mst_relay *relay,
                                enum mst_stream_class class) {
  struct mst_stream *stream = mst_mux_open(&relay->mux, class);
  struct mst_end *end = stream == NULL ? NULL : mst_end_new(relay, stream);
  if (stream != NULL && end == NULL) {
    stream->ended = stream->got_end = 1;
    mst_mux_close(&relay->mux, stream);
  }
  return end;
}

// send_segment opens a stream for a segment, or finds the one that it was sent by before.
static int send_segment(struct mst_relay *relay, int *fd,
                        const struct stat *what,
                        struct mst_attached *attached) {
  struct mst_end *end = relay->ends;
  while (end != NULL &&
         (end->stream->class != MST_STREAM_SEGMENT || end->segment.fd < 0 ||
          end->no_more_reads || end->device != (uint64_t)what->st_dev ||
          end->inode != (uint64_t)what->st_ino)) {
    end = end->next;
  }
  attached->class = MST_STREAM_SEGMENT;
  attached->bytes = (uint64_t)what->st_size;
  attached->known = end != NULL;
  if (end != NULL) {
    mst_net_close(fd);
  } else {
    end = open_end(relay, MST_STREAM_SEGMENT);
    if (end == NULL) return -MST_EMEM;
    end->segment.fd = *fd;
    *fd = -1;
    end->bytes = attached->bytes;
    end->device = (uint64_t)what->st_dev;
    end->inode = (uint64_t)what->st_ino;
    mst_end_ready(end, 1);
  }
  end->used_ns = mst_clock_now();
  attached->stream = end->stream->id;
  return 0;
}

static int send_end(struct mst_relay *relay, int *fd,
                    enum mst_stream_class class, struct mst_attached *attached,
                    struct mst_end **out) {
  struct mst_end *end = open_end(relay, class);
  if (end == NULL) return -MST_EMEM;
  *attached = (struct mst_attached){.class = (uint8_t) class,
                                    .stream = end->stream->id};
  *out = end;
  const int rc = mst_end_give(end, *fd);
  *fd = -1;
  if (rc != 0) mst_end_break(end);
  return rc;
}

// class_of tells what a descriptor is, as far as it shows. FORK has a worker's data, control and
// output; the first of one or two sockets is a control.
static int class_of(const struct stat *what, size_t index, size_t count) {
  if (S_ISFIFO(what->st_mode)) return MST_STREAM_OUTPUT;
  if (!S_ISSOCK(what->st_mode))
    return what->st_size > 0 ? MST_STREAM_SEGMENT : -MST_EPROTO;
  return index == 0 && count == 3 ? MST_STREAM_DATA : MST_STREAM_CONTROL;
}

// know_each_other notes what belongs together: a worker's answers come after its output, and one of
// two is the channel of a fork server.
static void know_each_other(struct mst_end *const ends[MST_ATTACHED_MAX],
                            size_t count) {
  if (count == 3 && ends[0] != NULL && ends[2] != NULL &&
      ends[0]->stream->class == MST_STREAM_DATA &&
      ends[2]->stream->class == MST_STREAM_OUTPUT) {
    ends[0]->prints = ends[2];
  }
  if (count == 2 && ends[0] != NULL &&
      ends[0]->stream->class == MST_STREAM_CONTROL) {
    ends[0]->is_server = 1;
  }
}

int mst_parts_send(struct mst_end *carrier, int *fds, size_t count,
                   struct mst_attached attached[MST_ATTACHED_MAX]) {
  struct mst_relay *relay = carrier->relay;
  struct mst_end *ends[MST_ATTACHED_MAX] = {NULL};
  int rc = 0;
  for (size_t i = 0; i < count && rc == 0; i++) {
    struct stat what;
    int class =
        fstat(fds[i], &what) == 0 ? class_of(&what, i, count) : -MST_ESYS;
    if (class < 0) {
      rc = class;
    } else if (class == MST_STREAM_SEGMENT) {
      rc = send_segment(relay, &fds[i], &what, &attached[i]);
    } else {
      rc = send_end(relay, &fds[i], (enum mst_stream_class) class, &attached[i],
                    &ends[i]);
    }
  }
  for (size_t i = 0; i < count; i++)
    mst_net_close(&fds[i]);
  if (rc == 0) know_each_other(ends, count);
  return rc;
}

// ---- what came from the other host

int mst_parts_came(struct mst_end *carrier, const struct mst_came *came) {
  struct mst_relay *relay = carrier->relay;
  struct mst_chunk *chunk = calloc(1, sizeof *chunk);
  if (chunk == NULL) return -MST_EMEM;
  for (size_t i = 0; i < came->count; i++) {
    struct mst_end *end = came->streams[i]->owner;
    if (end == NULL) {
      end = mst_end_new(relay, came->streams[i]);
      if (end == NULL) {
        free(chunk);
        return -MST_EMEM;
      }
      end->bytes = came->attached[i].bytes;
    }
    chunk->attached[i] = end;
  }
  chunk->count = came->count;
  for (size_t i = 0; i < chunk->count; i++)
    chunk->attached[i]->refs++;
  know_each_other(chunk->attached, chunk->count);
  chunk->number = ++relay->chunks;
  chunk->since_ns = mst_clock_now();
  if (carrier->last != NULL) {
    carrier->last->next = chunk;
  } else {
    carrier->first = chunk;
  }
  carrier->last = chunk;
  mst_end_wait(carrier);
  return 0;
}

// make_ends makes the two ends of a socket pair or a pipe: ours, and theirs, which goes along.
static int make_ends(const struct mst_end *end, int *ours, int *theirs,
                     struct mst_err *err) {
  int pair[2];
  const int rc = end->stream->class == MST_STREAM_OUTPUT
                     ? mst_net_pipe(pair, err)
                     : mst_net_pair(pair, err);
  if (rc != 0) return rc;
  *ours = pair[0];
  *theirs = pair[1];
  return 0;
}

static int make_one(struct mst_end *end, int *fd, struct mst_err *err) {
  if (end->stream->class == MST_STREAM_SEGMENT) {
    if (!end->is_whole) return end->no_more_writes ? -MST_ECLOSED : -MST_EAGAIN;
    return mst_net_copy(end->segment.fd, fd, err);
  }
  int ours;
  int rc = make_ends(end, &ours, fd, err);
  if (rc != 0) return rc;
  mst_net_raise(&ours);
  rc = mst_end_give(end, ours);
  if (rc != 0) mst_net_close(fd);
  return rc;
}

int mst_parts_make(struct mst_end *carrier, struct mst_chunk *chunk,
                   struct mst_err *err) {
  // Those made before the system lacked something stay.
  while (carrier->fd_count < chunk->count) {
    struct mst_end *end = chunk->attached[carrier->fd_count];
    int fd = -1;
    const int rc = make_one(end, &fd, err);
    if (rc != 0) return rc;
    carrier->fds[carrier->fd_count++] = fd;
    mst_end_wait(end); // something may have come for it
  }
  for (size_t i = 0; i < chunk->count; i++) {
    chunk->attached[i]->refs--;
    if (chunk->count == 3) carrier->naming[i] = chunk->attached[i];
  }
  chunk->count = 0;
  return 0;
}

void mst_parts_refuse(struct mst_end *carrier, struct mst_chunk *chunk,
                      int sys_errno) {
  for (size_t i = 0; i < carrier->fd_count; i++)
    mst_net_close(&carrier->fds[i]);
  carrier->fd_count = 0;
  for (size_t i = 0; i < chunk->count; i++) {
    struct mst_end *end = chunk->attached[i];
    end->refs--;
    if (end->stream->class != MST_STREAM_SEGMENT) mst_end_break(end);
  }
  chunk->count = 0;
  if (carrier->stream->class == MST_STREAM_DATA) {
    mst_end_break(carrier);
    return;
  }
  carrier->drops = 1;
  carrier->drops_errno = sys_errno;
}

// ---- segments

int mst_segment_came(struct mst_end *end, const uint8_t *bytes, size_t n) {
  struct mst_err err;
  int rc = 0;
  mst_err_clear(&err);
  if (end->segment.fd < 0)
    rc = mst_segment_open(&end->segment, end->bytes, &err);
  if (rc == 0) rc = mst_segment_append(&end->segment, bytes, n, &err);
  if (rc == 0 && end->segment.bytes >= end->bytes) {
    rc = mst_segment_seal(&end->segment, &err);
    end->is_whole = rc == 0;
  }
  return rc;
}

void mst_parts_forget(struct mst_relay *relay, int64_t now_ns) {
  for (struct mst_end *end = relay->ends; end != NULL; end = end->next) {
    if (end->stream->class != MST_STREAM_SEGMENT || end->no_more_reads ||
        !end->is_whole) {
      continue;
    }
    if (now_ns - end->used_ns >= MST_RELAY_KEEP_NS) {
      mst_end_read_over(end);
    } else {
      mst_relay_retry(relay, end->used_ns + MST_RELAY_KEEP_NS);
    }
  }
}
