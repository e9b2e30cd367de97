// Two relays, joined by pipes, with a session's ends before the one and those of a host's processes
// behind the other: for the tests of host/relay.
#ifndef MST_RELAY_TEST_H
#define MST_RELAY_TEST_H

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "base/mst_fault.h"
#include "host/relay_int.h"
#include "loop/chan.h"
#include "mst_random.h"
#include "mst_test.h"
#include "share/segment.h"

static struct mst_relay *relays[2]; // the session's, the host's
static int failures[2];
static struct mst_err errs[2];
static struct mst_chan first[2];  // the first stream's ends
static struct mst_chan server[2]; // a fork server's channel: here, there
static int server_output[2] = {-1, -1};
static uint8_t has_delays; // the link that is opened next

// A worker, here and there.
struct worker {
  struct mst_chan data[2], control[2];
  int output[2]; // read here, written there
};

static inline void open_relay(int which, int in, int out, int64_t silence_ns) {
  int pair[2];
  (void)signal(SIGPIPE, SIG_IGN);
  for (int i = 0; which == 0 && i < 2; i++)
    first[i].fd = server[i].fd = -1;
  CHECK_INT(mst_net_pair(pair, NULL), 0);
  mst_chan_open(&first[which], pair[0], MST_FRAME_MAX);
  const struct mst_relay_config config = {.in = in,
                                          .out = out,
                                          .first = pair[1],
                                          .session = which == 0,
                                          .silence_ns = silence_ns,
                                          .delays = has_delays};
  CHECK_INT(mst_relay_open(&config, &relays[which], NULL), 0);
  failures[which] = 0;
  mst_err_clear(&errs[which]);
}

static inline void open_link(void) {
  int there[2], back[2];
  NEEDS(MST_HAVE_SCM_RIGHTS);
  CHECK_INT(mst_net_pipe(there, NULL), 0);
  CHECK_INT(mst_net_pipe(back, NULL), 0);
  open_relay(0, back[0], there[1], 60 * MST_NS_PER_S);
  open_relay(1, there[0], back[1], 60 * MST_NS_PER_S);
}

static inline void close_relay(int which) {
  if (relays[which] != NULL) mst_relay_close(relays[which]);
  relays[which] = NULL;
}

static inline void close_link(void) {
  for (int i = 0; i < 2; i++) {
    close_relay(i);
    mst_chan_close(&first[i]);
    mst_chan_close(&server[i]);
    mst_net_close(&server_output[i]);
  }
}

static inline void turn(void) {
  for (int i = 0; i < 2; i++) {
    if (relays[i] != NULL && failures[i] == 0)
      failures[i] = mst_relay_run(relays[i], 0, &errs[i]);
  }
}

#define UNTIL(cond)                                                            \
  do {                                                                         \
    const int64_t mst_end_ns = mst_clock_now() + 20 * MST_NS_PER_S;            \
    while (!(cond)) {                                                          \
      CHECK(mst_clock_now() < mst_end_ns);                                     \
      turn();                                                                  \
    }                                                                          \
  } while (0)

static inline void turns(int n) {
  for (int i = 0; i < n; i++)
    turn();
}

// ---- frames

static inline void send_frame(struct mst_chan *chan, uint8_t kind,
                              uint64_t call, const void *bytes, size_t n) {
  struct mst_head head = {.kind = kind, .call = call};
  CHECK_INT(mst_chan_send_small(chan, &head, bytes, n, 0, NULL), 0);
}

// has_frame: a whole frame is there to be taken.
static inline int has_frame(struct mst_chan *chan, struct mst_frame *frame) {
  if (chan->out_first != NULL) (void)mst_chan_flush(chan, NULL);
  int rc = mst_chan_peek(chan, frame, NULL);
  if (rc == 0 && !chan->ended) {
    (void)mst_chan_fill(chan, 0, NULL);
    rc = mst_chan_peek(chan, frame, NULL);
  }
  CHECK(rc >= 0);
  return rc;
}

static inline int has_ended(struct mst_chan *chan) {
  struct mst_frame frame;
  if (has_frame(chan, &frame)) mst_chan_take(chan, &frame);
  return chan->ended;
}

// take waits for a frame, and gives its head.
static inline struct mst_head take(struct mst_chan *chan) {
  struct mst_frame frame;
  UNTIL(has_frame(chan, &frame));
  const struct mst_head head = frame.head;
  mst_chan_take(chan, &frame);
  return head;
}

// take_fds waits for a frame of nothing but a header, with descriptors.
static inline struct mst_head take_fds(struct mst_chan *chan, int *fds,
                                       size_t count) {
  uint8_t bytes[MST_HEAD_BYTES];
  struct mst_head head;
  size_t n = 0, have = 0;
  while (n < sizeof bytes) {
    int more[MST_NET_FDS_MAX], lost;
    size_t more_count = 0;
    const int64_t got = mst_net_recv_fds(chan->fd, bytes + n, sizeof bytes - n,
                                         0, more, &more_count, &lost, NULL);
    turn();
    if (got == -MST_EAGAIN) continue;
    CHECK(got > 0);
    n += (size_t)got;
    for (size_t i = 0; i < more_count; i++) {
      CHECK(have < count);
      fds[have++] = more[i];
    }
  }
  CHECK_INT(have, count);
  CHECK_INT(mst_head_decode(bytes, n, 0, &head), MST_HEAD_BYTES);
  return head;
}

// start_server: the session asks for a fork server, whose channel and output go along.
static inline void start_server(void) {
  int pair[2], output[2], theirs[2];
  struct mst_head head = {.kind = MST_KIND_SETUP};
  CHECK_INT(mst_net_pair(pair, NULL), 0);
  CHECK_INT(mst_net_pipe(output, NULL), 0);
  const int fds[] = {pair[1], output[1]};
  CHECK_INT(mst_chan_send(&first[0], &head, NULL, fds, 2, 0, NULL), 0);
  mst_net_close(&pair[1]);
  mst_net_close(&output[1]);
  (void)take_fds(&first[1], theirs, 2);
  mst_chan_open(&server[0], pair[0], MST_FRAME_MAX_CONTROL);
  mst_chan_open(&server[1], theirs[0], MST_FRAME_MAX_CONTROL);
  server_output[0] = output[0];
  server_output[1] = theirs[1];
}

static inline void send_fork(struct worker *worker, uint32_t index) {
  int data[2], control[2], output[2];
  CHECK_INT(mst_net_pair(data, NULL), 0);
  CHECK_INT(mst_net_pair(control, NULL), 0);
  CHECK_INT(mst_net_pipe(output, NULL), 0);
  struct mst_head head = {.kind = MST_KIND_FORK, .cluster = 1, .worker = index};
  int fds[] = {data[1], control[1], output[1]};
  CHECK_INT(mst_chan_send(&server[0], &head, NULL, fds, 3, 0, NULL), 0);
  for (int i = 0; i < 3; i++)
    mst_net_close(&fds[i]);
  mst_chan_open(&worker->data[0], data[0], MST_FRAME_MAX);
  worker->data[0].takes_maps = 1;
  mst_chan_open(&worker->control[0], control[0], MST_FRAME_MAX_CONTROL);
  worker->output[0] = output[0];
}

static inline void take_fork(struct worker *worker, uint32_t index) {
  int fds[3];
  const struct mst_head head = take_fds(&server[1], fds, 3);
  CHECK(head.kind == MST_KIND_FORK && head.cluster == 1 &&
        head.worker == index);
  mst_chan_open(&worker->data[1], fds[0], MST_FRAME_MAX);
  worker->data[1].takes_maps = 1;
  mst_chan_open(&worker->control[1], fds[1], MST_FRAME_MAX_CONTROL);
  worker->output[1] = fds[2];
}

static inline void start_worker(struct worker *worker, uint32_t index) {
  send_fork(worker, index);
  take_fork(worker, index);
}

static inline void close_side(struct worker *worker, int side) {
  mst_chan_close(&worker->data[side]);
  mst_chan_close(&worker->control[side]);
  mst_net_close(&worker->output[side]);
}

static inline void close_worker(struct worker *worker) {
  close_side(worker, 0);
  close_side(worker, 1);
}

static inline void print(const struct worker *worker, const char *text) {
  CHECK_INT(write(worker->output[1], text, strlen(text)), strlen(text));
}

// printed tells what can be read of a worker's output here, within a static buffer.
static inline const char *printed(const struct worker *worker) {
  static char text[65536];
  const int64_t got =
      mst_net_read(worker->output[0], text, sizeof text - 1, NULL);
  text[got > 0 ? got : 0] = '\0';
  return text;
}

#endif
