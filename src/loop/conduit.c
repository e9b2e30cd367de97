// A conduit by descriptors: two socket pairs and a pipe. See conduit.h.
#include "loop/conduit.h"

#include "net/net.h"

void mst_conduit_init(struct mst_conduit *conduit, struct mst_loop *loop,
                      struct mst_loop *prints,
                      const struct mst_conduit_events *events, void *owner) {
  *conduit = (struct mst_conduit){.events = events,
                                  .owner = owner,
                                  .loop = loop,
                                  .prints = prints,
                                  .data = {.fd = -1},
                                  .data_io = {.fd = -1},
                                  .control = {.fd = -1},
                                  .control_io = {.fd = -1},
                                  .output = {.io = {.fd = -1},
                                             .sink = events->printed,
                                             .sink_owner = owner}};
}

// want_of has the loop tell when a stream can go on, `read` if it is to be read.
static void want_of(struct mst_conduit *conduit, struct mst_io *io,
                    const struct mst_chan *chan, uint32_t read) {
  const uint32_t write = mst_chan_wants_write(chan) ? MST_WRITABLE : 0;
  const int64_t later_ns = mst_chan_later_ns(chan);
  if (io->slot == 0) return; // nobody listens any more
  if (later_ns != INT64_MAX) conduit->events->put_off(conduit->owner, later_ns);
  (void)mst_loop_want(conduit->loop, io, read | write, NULL);
}

static void want(struct mst_conduit *conduit) {
  want_of(conduit, &conduit->data_io, &conduit->data,
          conduit->held ? 0 : MST_READABLE);
}

static void want_control(struct mst_conduit *conduit) {
  want_of(conduit, &conduit->control_io, &conduit->control, MST_READABLE);
}

// ---- what the loop calls

static void data_ready(struct mst_io *io, uint32_t ready) {
  struct mst_conduit *conduit = io->owner;
  if ((ready & MST_WRITABLE) != 0) mst_conduit_flush(conduit);
  if ((ready & MST_READABLE) != 0) conduit->events->readable(conduit->owner);
}

int mst_conduit_hear(struct mst_conduit *conduit) {
  struct mst_frame frame;
  if (conduit->control.fd < 0) return 0;
  const int rc = mst_chan_fill(&conduit->control, 0, NULL);
  int found = 0;
  while (rc == 1 &&
         (found = mst_chan_peek(&conduit->control, &frame, NULL)) == 1) {
    conduit->events->control(conduit->owner, &frame);
    mst_chan_take(&conduit->control, &frame);
  }
  // Without memory it stays there until there is some.
  return (rc < 0 && rc != -MST_EAGAIN && rc != -MST_EMEM) || found < 0;
}

// The end of control says nothing that the end of data doesn't.
static void control_ready(struct mst_io *io, uint32_t ready) {
  struct mst_conduit *conduit = io->owner;
  if ((ready & MST_WRITABLE) != 0) mst_conduit_flush(conduit);
  if ((ready & MST_READABLE) != 0 && mst_conduit_hear(conduit) != 0)
    mst_loop_remove(conduit->loop, io);
}
// open_ends makes the three connections. ours: data, control, output; theirs likewise.
static int open_ends(int ours[3], int theirs[3], struct mst_err *err) {
  int pair[2];
  for (int i = 0; i < 3; i++)
    ours[i] = theirs[i] = -1;
  for (int i = 0; i < 3; i++) {
    const int rc = i < 2 ? mst_net_pair(pair, err) : mst_net_pipe(pair, err);
    if (rc != 0) return rc;
    mst_net_raise(&pair[0]);
    ours[i] = pair[0];
    theirs[i] = pair[1];
  }
  return 0;
}

// watch_ends takes our ends over.
static int watch_ends(struct mst_conduit *conduit, int ours[3],
                      struct mst_err *err) {
  mst_chan_open(&conduit->data, ours[0], MST_FRAME_MAX_HELLO);
  conduit->data.takes_maps = conduit->data.keeps_fds = 1;
  mst_chan_open(&conduit->control, ours[1], MST_FRAME_MAX_CONTROL);
  conduit->held = 0;
  conduit->data_io = (struct mst_io){.fd = ours[0],
                                     .wanted = MST_READABLE,
                                     .ready = data_ready,
                                     .owner = conduit};
  conduit->control_io = (struct mst_io){.fd = ours[1],
                                        .wanted = MST_READABLE,
                                        .ready = control_ready,
                                        .owner = conduit};
  ours[0] = ours[1] = -1;
  int rc = mst_loop_add(conduit->loop, &conduit->data_io, err);
  if (rc == 0) rc = mst_loop_add(conduit->loop, &conduit->control_io, err);
  if (rc != 0) return rc;
  rc = mst_output_open(&conduit->output, conduit->prints, ours[2], err);
  ours[2] = -1;
  return rc;
}

int mst_conduit_open(struct mst_conduit *conduit, int theirs[3],
                     struct mst_err *err) {
  int ours[3];
  int rc = open_ends(ours, theirs, err);
  if (rc == 0) rc = watch_ends(conduit, ours, err);
  if (rc == 0) return 0;
  for (int i = 0; i < 3; i++) {
    mst_net_close(&ours[i]);
    mst_net_close(&theirs[i]);
  }
  mst_conduit_close(conduit);
  return rc;
}

void mst_conduit_close(struct mst_conduit *conduit) {
  mst_conduit_deafen(conduit);
  mst_loop_remove(conduit->loop, &conduit->control_io);
  mst_output_close(&conduit->output);
  mst_chan_close(&conduit->data);
  mst_chan_close(&conduit->control);
}

void mst_conduit_break(struct mst_conduit *conduit) {
  mst_net_shutdown(conduit->data.fd);
  mst_net_shutdown(conduit->control.fd);
  mst_conduit_leave(conduit);
}

void mst_conduit_leave(struct mst_conduit *conduit) {
  mst_net_close(&conduit->data.fd);
  mst_net_close(&conduit->control.fd);
  mst_net_close(&conduit->output.io.fd);
}

// ---- data

int mst_conduit_send(struct mst_conduit *conduit, struct mst_head *head,
                     struct mst_blob *payload, struct mst_err *err) {
  const int rc = mst_chan_send(&conduit->data, head, payload, NULL, 0, 0, err);
  if (mst_conduit_queued(conduit)) want(conduit);
  return rc;
}

int mst_conduit_send_small(struct mst_conduit *conduit, struct mst_head *head,
                           const void *payload, size_t n, struct mst_err *err) {
  const int rc = mst_chan_send_small(&conduit->data, head, payload, n, 0, err);
  if (mst_conduit_queued(conduit)) want(conduit);
  return rc;
}

int mst_conduit_queued(const struct mst_conduit *conduit) {
  return conduit->data.out_first != NULL;
}

void mst_conduit_flush(struct mst_conduit *conduit) {
  if (mst_conduit_queued(conduit)) {
    (void)mst_chan_flush(&conduit->data, NULL);
    want(conduit);
  }
  if (mst_conduit_says(conduit)) {
    (void)mst_chan_flush(&conduit->control, NULL);
    want_control(conduit);
  }
}

int mst_conduit_fill(struct mst_conduit *conduit, struct mst_err *err) {
  return mst_chan_fill(&conduit->data, 0, err);
}

void mst_conduit_hold(struct mst_conduit *conduit, int on) {
  conduit->held = on != 0;
  want(conduit);
}

void mst_conduit_deafen(struct mst_conduit *conduit) {
  mst_loop_remove(conduit->loop, &conduit->data_io);
  conduit->data.ended = 1;
}

int mst_conduit_listens(const struct mst_conduit *conduit) {
  return conduit->data_io.slot != 0;
}

void mst_conduit_cut(struct mst_conduit *conduit) {
  mst_net_shutdown(conduit->data.fd);
}

// ---- control

int mst_conduit_say(struct mst_conduit *conduit, struct mst_head *head,
                    const void *payload, size_t n, struct mst_err *err) {
  if (conduit->control.fd < 0) {
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the worker is gone");
  }
  const int rc =
      mst_chan_send_small(&conduit->control, head, payload, n, 0, err);
  if (mst_conduit_says(conduit)) want_control(conduit);
  return rc;
}

int mst_conduit_says(const struct mst_conduit *conduit) {
  return conduit->control.out_first != NULL;
}

int mst_conduit_pass(struct mst_conduit *conduit, struct mst_head *head, int fd,
                     struct mst_err *err) {
  if (conduit->control.fd < 0) {
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the worker is gone");
  }
  return mst_chan_send(&conduit->control, head, NULL, &fd, 1, 0, err);
}

void mst_conduit_cut_control(struct mst_conduit *conduit) {
  mst_net_shutdown(conduit->control.fd);
}

// ---- the rest

void mst_conduit_drain(struct mst_conduit *conduit) {
  mst_output_drain(&conduit->output);
}

int mst_conduit_spins(const struct mst_conduit *conduit) {
  (void)conduit;
  return 1;
}
