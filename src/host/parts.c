// What goes along with frames: sockets, pipes and segments. See relay_int.h.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host/relay_int.h"

// ---- segments that go to the session

static int send_segment(struct mst_relay *relay, int *fd,
                        struct mst_attached *attached) {
  struct stat what;
  if (fstat(*fd, &what) != 0) return -MST_ESYS;
  if (!S_ISREG(what.st_mode) || what.st_size == 0) return -MST_EPROTO;
  struct mst_stream *stream =
      mst_mux_open(&relay->trunk.mux, MST_STREAM_SEGMENT);
  struct mst_end *end = stream == NULL ? NULL : mst_end_new(relay, stream);
  if (stream != NULL && end == NULL) {
    stream->ended = stream->got_end = 1;
    mst_mux_close(&relay->trunk.mux, stream);
  }
  if (end == NULL) return -MST_EMEM;
  struct mst_segment_end *segment = mst_end_segment(end);
  segment->segment.fd = *fd;
  *fd = -1;
  segment->sends = 1;
  segment->bytes = (uint64_t)what.st_size;
  mst_end_ready(end, 1);
  *attached = (struct mst_attached){.class = MST_STREAM_SEGMENT,
                                    .stream = stream->id,
                                    .bytes = segment->bytes};
  return 0;
}

int mst_parts_send(struct mst_relay *relay, int *fds, size_t count,
                   struct mst_attached attached[MST_ATTACHED_MAX]) {
  int rc = 0;
  for (size_t i = 0; i < count && rc == 0; i++)
    rc = send_segment(relay, &fds[i], &attached[i]);
  for (size_t i = 0; i < count; i++)
    mst_net_close(&fds[i]);
  return rc;
}

// ---- what came from the session

// know_each_other: a worker's answers come after its output.
static void know_each_other(struct mst_end *const ends[MST_ATTACHED_MAX],
                            size_t count) {
  if (count != 3 || ends[2]->stream->class != MST_STREAM_OUTPUT) return;
  struct mst_data_end *data = mst_end_data(ends[0]);
  if (data != NULL) data->prints = ends[2];
}

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
      struct mst_segment_end *segment = mst_end_segment(end);
      if (segment != NULL) segment->bytes = came->attached[i].bytes;
    }
    chunk->attached[i] = end;
  }
  chunk->count = came->count;
  for (size_t i = 0; i < chunk->count; i++)
    chunk->attached[i]->refs++;
  know_each_other(chunk->attached, chunk->count);
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
  const struct mst_segment_end *segment = mst_end_segment(end);
  if (segment != NULL && !segment->is_whole)
    return end->no_more_writes ? -MST_ECLOSED : -MST_EAGAIN;
  if (segment != NULL) return mst_net_copy(segment->segment.fd, fd, err);
  int ours;
  int rc = make_ends(end, &ours, fd, err);
  if (rc != 0) return rc;
  mst_net_raise(&ours);
  rc = mst_end_give(end, ours);
  if (rc != 0) {
    mst_net_close(&ours);
    mst_net_close(fd);
  }
  return rc;
}

int mst_parts_make(struct mst_frames_end *carrier, struct mst_chunk *chunk,
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
  struct mst_control_end *control = mst_end_control(&carrier->end);
  for (size_t i = 0; i < chunk->count; i++) {
    chunk->attached[i]->refs--;
    if (control != NULL && chunk->count == 3)
      control->naming[i] = chunk->attached[i];
  }
  chunk->count = 0;
  return 0;
}

void mst_parts_refuse(struct mst_frames_end *carrier, struct mst_chunk *chunk,
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
  struct mst_control_end *control = mst_end_control(&carrier->end);
  if (control == NULL) {
    mst_end_break(&carrier->end);
    return;
  }
  control->drops = 1;
  control->drops_errno = sys_errno;
}

// ---- segments

int mst_segment_came(struct mst_segment_end *end, const uint8_t *bytes,
                     size_t n) {
  struct mst_err err;
  int rc = 0;
  mst_err_clear(&err);
  if (end->segment.fd < 0)
    rc = mst_segment_open_must(&end->segment, end->bytes, &err);
  if (rc == 0) rc = mst_segment_append(&end->segment, bytes, n, &err);
  if (rc == 0 && end->segment.bytes >= end->bytes) {
    rc = mst_segment_seal(&end->segment, &err);
    end->is_whole = rc == 0;
  }
  return rc;
}
