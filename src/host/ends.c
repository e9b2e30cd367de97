// One stream's descriptor on this side: when it is read and written, and when it is closed. See
// relay_int.h.
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "host/relay_int.h"

void mst_relay_retry(struct mst_relay *relay, int64_t at_ns) {
  if (at_ns < relay->retry_ns) relay->retry_ns = at_ns;
}

// ---- kinds

static int is(const struct mst_end *end, enum mst_stream_class class) {
  return end->stream->class == (uint8_t) class;
}

struct mst_frames_end *mst_end_frames(struct mst_end *end) {
  return is(end, MST_STREAM_CONTROL) || is(end, MST_STREAM_DATA)
             ? (struct mst_frames_end *)(void *)end
             : NULL;
}

struct mst_control_end *mst_end_control(struct mst_end *end) {
  return is(end, MST_STREAM_CONTROL) ? (struct mst_control_end *)(void *)end
                                     : NULL;
}

struct mst_data_end *mst_end_data(struct mst_end *end) {
  return is(end, MST_STREAM_DATA) ? (struct mst_data_end *)(void *)end : NULL;
}

struct mst_segment_end *mst_end_segment(struct mst_end *end) {
  return is(end, MST_STREAM_SEGMENT) ? (struct mst_segment_end *)(void *)end
                                     : NULL;
}

static struct mst_end *new_end(enum mst_stream_class class) {
  static const size_t sizes[] = {
      [MST_STREAM_CONTROL] = sizeof(struct mst_control_end),
      [MST_STREAM_DATA] = sizeof(struct mst_data_end),
      [MST_STREAM_OUTPUT] = sizeof(struct mst_end),
      [MST_STREAM_SEGMENT] = sizeof(struct mst_segment_end)};
  return calloc(1, sizes[class]);
}

// ---- made

struct mst_end *mst_end_new(struct mst_relay *relay,
                            struct mst_stream *stream) {
  struct mst_end *end = new_end((enum mst_stream_class)stream->class);
  if (end == NULL) return NULL;
  end->relay = relay;
  end->stream = stream;
  end->io.fd = -1;
  end->no_more_reads = stream->ended;
  end->no_more_writes = stream->got_end;
  stream->owner = end;
  struct mst_segment_end *segment = mst_end_segment(end);
  if (segment != NULL) segment->segment = MST_SEGMENT_NONE;
  end->next = relay->ends;
  if (end->next != NULL) end->next->prev = end;
  relay->ends = end;
  return end;
}

static void is_ready(struct mst_io *io, uint32_t ready) {
  struct mst_end *end = io->owner;
  if ((ready & MST_WRITABLE) != 0 && end->is_full) {
    end->is_full = 0;
    mst_end_wait(end); // mst_write_on is called for those that wait
  }
  if ((ready & MST_READABLE) != 0 && !end->no_more_reads) {
    mst_end_ready(end, 1);
  } else if (!end->no_more_writes && mst_net_is_closed(io->fd)) {
    mst_mux_stop(&end->relay->trunk.mux, end->stream);
    mst_end_write_over(end);
  }
  mst_end_touch(end);
}

static uint32_t wants(struct mst_end *end) {
  const struct mst_control_end *control = mst_end_control(end);
  const struct mst_data_end *data = mst_end_data(end);
  const int reads = !end->no_more_reads && !end->stream->ready &&
                    (control == NULL || control->held.len == 0) &&
                    (data == NULL || data->go_on_at == 0);
  return (reads ? MST_READABLE : 0) | (end->is_full ? MST_WRITABLE : 0);
}

int mst_end_give(struct mst_end *end, int fd) {
  MST_ASSERT(end->io.fd < 0);
  mst_net_unblock(fd);
  end->io = (struct mst_io){
      .fd = fd, .wanted = wants(end), .ready = is_ready, .owner = end};
  const int rc = mst_loop_add(end->relay->trunk.loop, &end->io, NULL);
  if (rc != 0) {
    end->io.fd = -1;
    return rc;
  }
  end->is_made = 1;
  mst_end_touch(end);
  return 0;
}

int mst_end_is_live(const struct mst_end *end) { return end->io.fd >= 0; }

static void close_fd(struct mst_end *end) {
  mst_loop_remove(end->relay->trunk.loop, &end->io);
  mst_net_close(&end->io.fd);
  end->is_full = 0;
}

static void close_fds(struct mst_end *end) {
  struct mst_frames_end *frames = mst_end_frames(end);
  for (size_t i = 0; frames != NULL && i < frames->fd_count; i++)
    mst_net_close(&frames->fds[i]);
  if (frames != NULL) frames->fd_count = 0;
}

// drop_chunks drops what waits. What should have gone along goes nowhere.
static void drop_chunks(struct mst_end *end) {
  while (end->first != NULL) {
    struct mst_chunk *chunk = end->first;
    end->first = chunk->next;
    for (size_t i = 0; i < chunk->count; i++) {
      struct mst_end *attached = chunk->attached[i];
      attached->refs--;
      if (attached->stream->class != MST_STREAM_SEGMENT)
        mst_end_break(attached);
    }
    free(chunk);
  }
  end->last = NULL;
  close_fds(end);
}

static void leave_lists(struct mst_end *end) {
  struct mst_relay *relay = end->relay;
  struct mst_end **at = &relay->touched;
  while (end->is_touched && *at != end)
    at = &(*at)->next_touched;
  if (end->is_touched) *at = end->next_touched;
  at = &relay->waiting;
  while (end->waits && *at != end)
    at = &(*at)->next_waiting;
  if (end->waits) *at = end->next_waiting;
  end->is_touched = end->waits = 0;
}

// forget lets other ends forget this one.
static void forget(struct mst_end *gone) {
  for (struct mst_end *end = gone->relay->ends; end != NULL; end = end->next) {
    struct mst_control_end *control = mst_end_control(end);
    struct mst_data_end *data = mst_end_data(end);
    if (data != NULL && data->prints == gone) data->prints = NULL;
    if (control == NULL) continue;
    for (int i = 0; i < 2; i++) {
      if (control->held_for[i] == gone) control->held_for[i] = NULL;
    }
    for (int i = 0; i < 3; i++) {
      if (control->naming[i] == gone) control->naming[i] = NULL;
    }
  }
}

static void free_one(struct mst_end *end) {
  struct mst_control_end *control = mst_end_control(end);
  struct mst_segment_end *segment = mst_end_segment(end);
  if (end->io.fd >= 0) close_fd(end);
  close_fds(end);
  if (segment != NULL && segment->sends) {
    mst_net_close(&segment->segment.fd); // another's, which only passed by
  } else if (segment != NULL) {
    mst_segment_close(&segment->segment);
  }
  if (control != NULL) {
    mst_buf_free(&control->held);
    mst_buf_free(&control->reply);
  }
  free(end);
}

void mst_end_free(struct mst_end *end) {
  MST_ASSERT(end->refs == 0 && end->first == NULL);
  leave_lists(end);
  forget(end);
  *(end->prev != NULL ? &end->prev->next : &end->relay->ends) = end->next;
  if (end->next != NULL) end->next->prev = end->prev;
  free_one(end);
}

void mst_end_free_all(struct mst_relay *relay) {
  while (relay->ends != NULL) {
    struct mst_end *end = relay->ends;
    relay->ends = end->next;
    while (end->first != NULL) {
      struct mst_chunk *chunk = end->first;
      end->first = chunk->next;
      free(chunk);
    }
    free_one(end);
  }
}

void mst_end_touch(struct mst_end *end) {
  if (end->is_touched) return;
  end->is_touched = 1;
  end->next_touched = end->relay->touched;
  end->relay->touched = end;
}

// settle has the loop watch what is wanted. With nothing wanted it still reports that the other
// side is gone: again and again, where something is left to be read.
static void settle(struct mst_end *end) {
  struct mst_loop *loop = end->relay->trunk.loop;
  const uint32_t wanted = wants(end);
  if (end->io.fd < 0) return;
  if (wanted == 0 && !end->no_more_reads) {
    mst_loop_remove(loop, &end->io);
    end->io.wanted = 0;
  } else if (end->io.slot != 0) {
    (void)mst_loop_want(loop, &end->io, wanted, NULL);
  } else {
    end->io.wanted = wanted;
    if (mst_loop_add(loop, &end->io, NULL) != 0) mst_end_break(end);
  }
}

void mst_end_settle(struct mst_relay *relay) {
  while (relay->touched != NULL) {
    struct mst_end *end = relay->touched;
    relay->touched = end->next_touched;
    end->is_touched = 0;
    settle(end);
  }
}

void mst_end_wait(struct mst_end *end) {
  if (end->waits) return;
  end->waits = 1;
  end->next_waiting = end->relay->waiting;
  end->relay->waiting = end;
}

void mst_end_ready(struct mst_end *end, int ready) {
  mst_mux_ready(&end->relay->trunk.mux, end->stream, ready);
  mst_end_touch(end);
}

static void close_if_over(struct mst_end *end) {
  if (end->no_more_reads && end->no_more_writes && end->io.fd >= 0)
    close_fd(end);
  mst_end_touch(end);
  end->relay->trunk.some_over = 1;
}

void mst_end_read_over(struct mst_end *end) {
  end->no_more_reads = 1;
  mst_mux_end(&end->relay->trunk.mux, end->stream);
  close_if_over(end);
}

void mst_end_write_over(struct mst_end *end) {
  struct mst_stream *stream = end->stream;
  end->no_more_writes = 1;
  drop_chunks(end);
  if (end->io.fd >= 0) mst_net_cut(end->io.fd);
  if (stream->got > stream->taken) {
    mst_mux_took(&end->relay->trunk.mux, stream,
                 (size_t)(stream->got - stream->taken), mst_clock_now());
  }
  close_if_over(end);
}

void mst_end_break(struct mst_end *end) {
  mst_mux_stop(&end->relay->trunk.mux, end->stream);
  mst_end_write_over(end);
  mst_end_read_over(end);
}

struct mst_end *mst_end_of_worker(struct mst_relay *relay,
                                  const struct mst_head *head,
                                  enum mst_stream_class class) {
  for (struct mst_end *end = relay->ends; end != NULL; end = end->next) {
    if (end->is_named && end->stream->class == (uint8_t) class &&
        end->cluster == head->cluster && end->worker == head->worker &&
        end->epoch == head->epoch) {
      return end;
    }
  }
  return NULL;
}
