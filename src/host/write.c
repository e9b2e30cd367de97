// From the link to descriptors. See relay_int.h.
//
// What can't be written yet waits in the end's queue, whose size the stream's credit bounds. Two
// things may hold it up: the descriptor is full, or what goes along with the next byte isn't there
// yet.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/relay_int.h"

static int may_go(const struct mst_end *end) {
  return mst_end_is_live(end) || end->stream->class == MST_STREAM_SEGMENT;
}

// ---- what the system lacks

// lacked notes that the system had no room. 1 while it is worth waiting for.
static int lacked(struct mst_end *end) {
  const int64_t now_ns = mst_clock_now();
  if (end->lacks_ns == 0) end->lacks_ns = now_ns;
  if (now_ns - end->lacks_ns >= MST_RELAY_LACKS_NS) return 0;
  mst_relay_retry(end->relay, now_ns + MST_RELAY_RETRY_NS);
  mst_end_wait(end);
  return 1;
}

// ---- frames that the relay itself must know

static void name_worker(struct mst_control_end *end,
                        const struct mst_head *head) {
  for (int i = 0; i < 3; i++) {
    struct mst_end *named = end->naming[i];
    end->naming[i] = NULL;
    if (named == NULL) continue;
    named->cluster = head->cluster;
    named->worker = head->worker;
    named->epoch = head->epoch;
    named->is_named = 1;
  }
}

// refuse_fork answers a FORK whose descriptors couldn't be made, for the fork server.
static void refuse_fork(struct mst_control_end *end, struct mst_head head) {
  const struct mst_proc_msg msg = {.number = end->drops_errno};
  uint8_t bytes[MST_HEAD_BYTES + MST_PROC_MSG_BYTES];
  head.kind = MST_KIND_FORK_FAILED;
  head.length = MST_PROC_MSG_BYTES;
  mst_head_encode(&head, bytes);
  mst_proc_msg_encode(&msg, bytes + MST_HEAD_BYTES);
  struct mst_end *base = &end->frames.end;
  if (mst_buf_append(&end->reply, bytes, sizeof bytes) != 0)
    mst_end_break(base);
  mst_end_ready(base, 1);
}

// pass follows the frames of a control stream. Returns how many of n bytes may be written now, or
// were dropped (*dropped), or an error.
static int64_t pass(struct mst_control_end *end, const uint8_t *bytes, size_t n,
                    int *dropped) {
  struct mst_head head;
  int whole;
  const int64_t part = mst_passing_next(&end->out, bytes, n, &head, &whole);
  *dropped = end->drops;
  if (part < 0) return part;
  if (whole && head.kind == MST_KIND_FORK) {
    if (end->drops) refuse_fork(end, head);
    name_worker(end, &head);
  }
  if (mst_passing_is_between(&end->out)) end->drops = 0;
  return part;
}

// ---- writing

static int64_t write_to(struct mst_end *end, const uint8_t *bytes, size_t n,
                        struct mst_err *err) {
  struct mst_segment_end *segment = mst_end_segment(end);
  if (segment != NULL) {
    const int rc = mst_segment_came(segment, bytes, n);
    return rc == 0 ? (int64_t)n : rc;
  }
  struct mst_frames_end *frames = mst_end_frames(end);
  if (frames == NULL) return mst_net_write(end->io.fd, bytes, n, err);
  // A reader takes a segment to be of the frame in which a read ends: other frames may follow here.
  const int alone =
      end->stream->class == MST_STREAM_DATA && frames->fd_count > 0;
  struct iovec part = {.iov_len = alone ? 1 : n};
  memcpy(&part.iov_base, &bytes, sizeof bytes);
  const int64_t sent = mst_net_sendv(end->io.fd, &part, 1, frames->fds,
                                     frames->fd_count, 0, err);
  if (sent <= 0) return sent;
  for (size_t i = 0; i < frames->fd_count; i++)
    mst_net_close(&frames->fds[i]);
  frames->fd_count = 0;
  return sent;
}

// took makes room for others of the stream's bytes.
static void took(struct mst_end *end, size_t n) {
  end->relay->moved = 1;
  mst_mux_took(&end->relay->trunk.mux, end->stream, n, mst_clock_now());
}

// put writes what fits. Returns how much is done with; less than n: is_full, or it waits.
static size_t put(struct mst_end *end, const uint8_t *bytes, size_t n) {
  size_t done = 0;
  struct mst_err err;
  mst_err_clear(&err);
  while (done < n && !end->no_more_writes) {
    const int64_t sent = write_to(end, bytes + done, n - done, &err);
    if (sent > 0) {
      end->lacks_ns = 0;
      done += (size_t)sent;
      took(end, (size_t)sent);
    } else if (sent == -MST_EAGAIN) {
      end->is_full = 1;
      mst_end_touch(end);
      return done;
    } else if (sent == -MST_ECLOSED || !lacked(end)) {
      // Nobody reads it, or there is no room for it: the other relay needn't send it.
      mst_mux_stop(&end->relay->trunk.mux, end->stream);
      mst_end_write_over(end);
    } else {
      return done;
    }
  }
  return n;
}

// put_frames is put for a control stream, whose frames the relay looks at.
static size_t put_frames(struct mst_control_end *control, const uint8_t *bytes,
                         size_t n) {
  struct mst_end *end = &control->frames.end;
  size_t done = 0;
  while (done < n && !end->no_more_writes) {
    const struct mst_passing before = control->out;
    int dropped;
    const int64_t part = pass(control, bytes + done, n - done, &dropped);
    if (part < 0) {
      mst_trunk_fail(&end->relay->trunk, -MST_EPROTO,
                     "bytes that are no frame");
      return n;
    }
    if (dropped) {
      took(end, (size_t)part);
      done += (size_t)part;
      continue;
    }
    const size_t sent = put(end, bytes + done, (size_t)part);
    done += sent;
    if (sent == (size_t)part) continue;
    // Only what was written is passed.
    struct mst_head head;
    int whole;
    control->out = before;
    if (sent > 0)
      (void)mst_passing_next(&control->out, bytes + done - sent, sent, &head,
                             &whole);
    return done;
  }
  return n;
}

static size_t put_any(struct mst_end *end, const uint8_t *bytes, size_t n) {
  struct mst_control_end *control = mst_end_control(end);
  return control != NULL ? put_frames(control, bytes, n) : put(end, bytes, n);
}

static int keep(struct mst_end *end, const uint8_t *bytes, size_t n) {
  struct mst_chunk *chunk = malloc(sizeof *chunk + n);
  if (chunk == NULL) return -MST_EMEM;
  *chunk = (struct mst_chunk){.n = n};
  memcpy(chunk->bytes, bytes, n);
  *(end->last != NULL ? &end->last->next : &end->first) = chunk;
  end->last = chunk;
  if (!end->is_full) mst_end_wait(end);
  return 0;
}

int mst_write_came(struct mst_end *end, const uint8_t *bytes, size_t n) {
  const int64_t now_ns = mst_clock_now();
  if (end->no_more_writes) {
    mst_mux_took(&end->relay->trunk.mux, end->stream, n, now_ns);
    end->relay->trunk.some_over = 1;
    return 0;
  }
  const size_t done = end->first == NULL && !end->is_full && may_go(end)
                          ? put_any(end, bytes, n)
                          : 0;
  if (done == n || end->no_more_writes) {
    if (done < n)
      mst_mux_took(&end->relay->trunk.mux, end->stream, n - done, now_ns);
    return 0;
  }
  return keep(end, bytes + done, n - done);
}

static void drop_first(struct mst_end *end) {
  struct mst_chunk *chunk = end->first;
  end->first = chunk->next;
  if (end->first == NULL) end->last = NULL;
  free(chunk);
}

// make_parts makes what the first chunk attaches. 1: go on.
static int make_parts(struct mst_end *end) {
  struct mst_frames_end *carrier =
      mst_end_frames(end); // mux lets no other be one
  struct mst_err err;
  mst_err_clear(&err);
  const int rc = mst_parts_make(carrier, end->first, &err);
  if (rc == -MST_EAGAIN) {
    mst_end_wait(end);
    return 0;
  }
  if (rc != 0) {
    if (rc != -MST_ECLOSED && lacked(end)) return 0;
    mst_parts_refuse(carrier, end->first,
                     err.sys_errno != 0 ? err.sys_errno : ENOMEM);
    if (end->first == NULL) return 0; // the end is broken
  }
  end->lacks_ns = 0;
  end->relay->trunk.some_over = end->relay->moved = 1;
  drop_first(end);
  return 1;
}

void mst_write_on(struct mst_end *end) {
  while (end->first != NULL && !end->is_full) {
    struct mst_chunk *chunk = end->first;
    if (chunk->count > 0) {
      if (!make_parts(end)) return;
      continue;
    }
    if (!may_go(end)) {
      mst_end_wait(end);
      return;
    }
    const size_t n = chunk->n - chunk->done;
    const size_t done = put_any(end, chunk->bytes + chunk->done, n);
    if (end->first != chunk) continue; // the end is over
    chunk->done += done;
    if (done < n) return;
    drop_first(end);
  }
  if (end->first == NULL && end->stream->got_end && !end->no_more_writes &&
      (end->is_made || end->stream->class == MST_STREAM_SEGMENT)) {
    mst_end_write_over(end);
  }
}
