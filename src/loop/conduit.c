// A conduit by descriptors, two socket pairs and a pipe; or by three lines. See conduit.h.
#include "loop/conduit.h"

#include "net/net.h"

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
  if (!mst_chan_is_open(&conduit->control)) return 0;
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

// ---- opened

void mst_conduit_init(struct mst_conduit *conduit, struct mst_loop *loop,
                      struct mst_loop *prints,
                      const struct mst_conduit_events *events, void *owner) {
  *conduit = (struct mst_conduit){
      .events = events,
      .owner = owner,
      .loop = loop,
      .prints = prints,
      .data = {.fd = -1},
      .data_io = {.fd = -1, .ready = data_ready, .owner = conduit},
      .control = {.fd = -1},
      .control_io = {.fd = -1, .ready = control_ready, .owner = conduit},
      .output = {
          .io = {.fd = -1}, .sink = events->printed, .sink_owner = owner}};
}

static int open_fds(struct mst_ends *ours, struct mst_ends *theirs,
                    struct mst_err *err) {
  int pair[2];
  for (int i = 0; i < 3; i++) {
    const int rc = i < 2 ? mst_net_pair(pair, err) : mst_net_pipe(pair, err);
    if (rc != 0) return rc;
    mst_net_raise(&pair[0]);
    ours->fds[i] = pair[0];
    theirs->fds[i] = pair[1];
  }
  return 0;
}

static int no_line(struct mst_err *err) {
  return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a worker");
}

static int open_lines(struct mst_line *over, struct mst_ends *ours,
                      struct mst_ends *theirs, struct mst_err *err) {
  static const enum mst_stream_class classes[] = {
      MST_STREAM_DATA, MST_STREAM_CONTROL, MST_STREAM_OUTPUT};
  for (int i = 0; i < 3; i++) {
    struct mst_line *line = over->ops->open(over, classes[i]);
    if (line == NULL) return no_line(err);
    ours->lines[i] = theirs->lines[i] = line;
    line->refs++;
  }
  return 0;
}

static void open_chan(struct mst_chan *chan, struct mst_io *io,
                      struct mst_ends *ours, int i, uint64_t length_max) {
  mst_chan_open(chan, ours->fds[i], length_max);
  chan->line = ours->lines[i];
  io->fd = ours->fds[i];
  io->line = ours->lines[i];
  io->wanted = MST_READABLE;
  ours->fds[i] = -1;
  ours->lines[i] = NULL;
}

// watch_ends takes our ends over.
static int watch_ends(struct mst_conduit *conduit, struct mst_ends *ours,
                      struct mst_err *err) {
  open_chan(&conduit->data, &conduit->data_io, ours, 0, MST_FRAME_MAX_HELLO);
  conduit->data.takes_maps = conduit->data.keeps_fds = 1;
  open_chan(&conduit->control, &conduit->control_io, ours, 1,
            MST_FRAME_MAX_CONTROL);
  conduit->held = 0;
  int rc = mst_loop_add(conduit->loop, &conduit->data_io, err);
  if (rc == 0) rc = mst_loop_add(conduit->loop, &conduit->control_io, err);
  if (rc != 0) return rc;
  if (ours->lines[2] != NULL) {
    mst_output_open_line(&conduit->output, conduit->prints, ours->lines[2]);
    ours->lines[2] = NULL;
    return 0;
  }
  rc = mst_output_open(&conduit->output, conduit->prints, ours->fds[2], err);
  ours->fds[2] = -1;
  return rc;
}

int mst_conduit_open(struct mst_conduit *conduit, const struct mst_chan *over,
                     struct mst_ends *theirs, struct mst_err *err) {
  struct mst_ends ours = MST_ENDS_NONE;
  *theirs = MST_ENDS_NONE;
  int rc = over != NULL && over->line != NULL
               ? open_lines(over->line, &ours, theirs, err)
               : open_fds(&ours, theirs, err);
  if (rc == 0) rc = watch_ends(conduit, &ours, err);
  if (rc == 0) return 0;
  mst_ends_close(&ours);
  mst_ends_close(theirs);
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
  conduit->data_io.slot = conduit->control_io.slot = 0;
  mst_chan_leave(&conduit->data);
  mst_chan_leave(&conduit->control);
  mst_output_leave(&conduit->output);
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
  mst_chan_shut(&conduit->data);
}

// ---- control

int mst_conduit_say(struct mst_conduit *conduit, struct mst_head *head,
                    const void *payload, size_t n, struct mst_err *err) {
  if (!mst_chan_is_open(&conduit->control)) {
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

static int open_pair(const struct mst_chan *beside, struct mst_chan *chan,
                     struct mst_ends *theirs, struct mst_err *err) {
  int pair[2];
  *theirs = MST_ENDS_NONE;
  if (beside->line != NULL) {
    struct mst_line *line =
        beside->line->ops->open(beside->line, MST_STREAM_CONTROL);
    if (line == NULL) return no_line(err);
    theirs->lines[0] = line;
    line->refs++;
    mst_chan_open_line(chan, line, MST_FRAME_MAX_CONTROL);
    return 0;
  }
  const int rc = mst_net_pair(pair, err);
  if (rc != 0) return rc;
  mst_net_raise(&pair[0]);
  theirs->fds[0] = pair[1];
  mst_chan_open(chan, pair[0], MST_FRAME_MAX_CONTROL);
  return 0;
}

int mst_conduit_pass(struct mst_conduit *conduit, struct mst_head *head,
                     struct mst_chan *chan, struct mst_err *err) {
  struct mst_ends theirs;
  if (!mst_chan_is_open(&conduit->control)) {
    return mst_err_set(err, MST_ECLOSED, 0, NULL, "the worker is gone");
  }
  int rc = open_pair(&conduit->control, chan, &theirs, err);
  if (rc != 0) return rc;
  rc = mst_chan_send_ends(&conduit->control, head, NULL, &theirs, 1, err);
  mst_ends_close(&theirs);
  if (rc != 0) mst_chan_close(chan);
  return rc;
}

void mst_conduit_cut_control(struct mst_conduit *conduit) {
  mst_chan_shut(&conduit->control);
}

// ---- the rest

void mst_conduit_drain(struct mst_conduit *conduit) {
  mst_output_drain(&conduit->output);
}

int mst_conduit_is_far(const struct mst_conduit *conduit) {
  return conduit->data.line != NULL;
}

int64_t mst_conduit_soon_ns(const struct mst_conduit *conduit) {
  struct mst_line *line = conduit->data.line;
  if (line == NULL) return 0;
  const int64_t ns = line->ops->round_trip_ns(line);
  return ns > 0 ? ns : INT64_MAX;
}
