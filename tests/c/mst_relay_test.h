// A session's link and a host's relay, joined by pipes, with the channels of a session before the
// one and those of a host's processes behind the other: for the tests of host/link and host/relay.
#ifndef MST_RELAY_TEST_H
#define MST_RELAY_TEST_H

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "base/mst_fault.h"
#include "host/link_int.h"
#include "host/relay_int.h"
#include "loop/chan.h"
#include "mst_random.h"
#include "mst_test.h"
#include "share/segment.h"

static struct mst_links links;
static struct mst_loop *loop; // the session's
static struct mst_link *session;
static struct mst_relay *relay;
static int failures[2]; // of the link, of the relay
static struct mst_err errs[2];
static struct mst_chan first[2];  // the first stream's ends
static struct mst_chan server[2]; // a fork server's channel: here, there
static struct mst_line *server_output;
static int server_output_there = -1;
static uint8_t has_delays; // the link that is opened next

// A worker, here and there.
struct worker {
  struct mst_chan data[2], control[2];
  struct mst_line *output; // read here
  int output_there;
};

static inline void open_session(int in, int out, int64_t silence_ns) {
  struct mst_line *line;
  const struct mst_link_config config = {.cable = {.in = in, .out = out},
                                         .silence_ns = silence_ns,
                                         .delays = has_delays};
  for (int i = 0; i < 2; i++) {
    first[i].fd = server[i].fd = -1;
    failures[i] = 0;
    mst_err_clear(&errs[i]);
  }
  CHECK_INT(mst_loop_open(MST_LOOP_BEST, &loop, NULL), 0);
  CHECK_INT(mst_link_open(&config, &links, loop, &session, &line, NULL), 0);
  mst_chan_open_line(&first[0], line, MST_FRAME_MAX);
}

static inline void open_host(int in, int out, int64_t silence_ns) {
  int pair[2];
  (void)signal(SIGPIPE, SIG_IGN);
  CHECK_INT(mst_net_pair(pair, NULL), 0);
  mst_chan_open(&first[1], pair[0], MST_FRAME_MAX);
  const struct mst_link_config config = {.cable = {.in = in, .out = out},
                                         .silence_ns = silence_ns,
                                         .delays = has_delays};
  CHECK_INT(mst_relay_open(&config, pair[1], &relay, NULL), 0);
}

static inline void open_link_for(int64_t silence_ns) {
  int there[2], back[2];
  NEEDS(MST_HAVE_SCM_RIGHTS);
  CHECK_INT(mst_net_pipe(there, NULL), 0);
  CHECK_INT(mst_net_pipe(back, NULL), 0);
  open_session(back[0], there[1], silence_ns);
  open_host(there[0], back[1], silence_ns);
}

static inline void open_link(void) { open_link_for(60 * MST_NS_PER_S); }

static inline void close_session(void) {
  mst_link_close(session);
  session = NULL;
}

static inline void close_host(void) {
  if (relay != NULL) mst_relay_close(relay);
  relay = NULL;
}

static inline void release(struct mst_line **line) {
  if (*line != NULL) (*line)->ops->release(*line);
  *line = NULL;
}

static inline void close_link(void) {
  close_session();
  close_host();
  for (int i = 0; i < 2; i++) {
    mst_chan_close(&first[i]);
    mst_chan_close(&server[i]);
  }
  release(&server_output);
  mst_net_close(&server_output_there);
  mst_links_end(&links);
  mst_loop_close(loop);
}

// turn serves both ends.
static inline void turn(void) {
  const int64_t now_ns = mst_clock_now();
  CHECK(mst_loop_run(loop, 0, NULL) >= 0);
  mst_links_deliver(&links, now_ns);
  if (session != NULL) {
    mst_link_keep(session, now_ns);
    failures[0] = mst_link_why(session, &errs[0]);
    (void)pthread_mutex_lock(&session->lock);
    const char *wrong = mst_mux_check(&session->trunk.mux);
    (void)pthread_mutex_unlock(&session->lock);
    CHECK_TEXT(wrong != NULL ? wrong : "", "");
  }
  if (relay != NULL && failures[1] == 0)
    failures[1] = mst_relay_run(relay, 0, &errs[1]);
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

static inline struct mst_line *line_beside(const struct mst_chan *chan,
                                           enum mst_stream_class class) {
  struct mst_line *line = chan->line->ops->open(chan->line, class);
  CHECK(line != NULL);
  return line;
}

// start_server: the session asks for a fork server, whose channel and output go along.
static inline void start_server(void) {
  int theirs[2];
  struct mst_head head = {.kind = MST_KIND_SETUP};
  const struct mst_ends ends = {
      .fds = {-1, -1, -1},
      .lines = {line_beside(&first[0], MST_STREAM_CONTROL),
                line_beside(&first[0], MST_STREAM_OUTPUT)}};
  CHECK_INT(mst_chan_send_ends(&first[0], &head, NULL, &ends, 2, NULL), 0);
  (void)take_fds(&first[1], theirs, 2);
  mst_chan_open_line(&server[0], ends.lines[0], MST_FRAME_MAX_CONTROL);
  mst_chan_open(&server[1], theirs[0], MST_FRAME_MAX_CONTROL);
  server_output = ends.lines[1];
  server_output_there = theirs[1];
}

static inline void send_fork(struct worker *worker, uint32_t index) {
  struct mst_head head = {.kind = MST_KIND_FORK, .cluster = 1, .worker = index};
  const struct mst_ends ends = {
      .fds = {-1, -1, -1},
      .lines = {line_beside(&server[0], MST_STREAM_DATA),
                line_beside(&server[0], MST_STREAM_CONTROL),
                line_beside(&server[0], MST_STREAM_OUTPUT)}};
  CHECK_INT(mst_chan_send_ends(&server[0], &head, NULL, &ends, 3, NULL), 0);
  mst_chan_open_line(&worker->data[0], ends.lines[0], MST_FRAME_MAX);
  worker->data[0].takes_maps = 1;
  mst_chan_open_line(&worker->control[0], ends.lines[1], MST_FRAME_MAX_CONTROL);
  worker->output = ends.lines[2];
}

static inline void take_fork(struct worker *worker, uint32_t index) {
  int fds[3];
  const struct mst_head head = take_fds(&server[1], fds, 3);
  CHECK(head.kind == MST_KIND_FORK && head.cluster == 1 &&
        head.worker == index);
  mst_chan_open(&worker->data[1], fds[0], MST_FRAME_MAX);
  worker->data[1].takes_maps = 1;
  mst_chan_open(&worker->control[1], fds[1], MST_FRAME_MAX_CONTROL);
  worker->output_there = fds[2];
}

static inline void start_worker(struct worker *worker, uint32_t index) {
  send_fork(worker, index);
  take_fork(worker, index);
}

static inline void close_side(struct worker *worker, int side) {
  mst_chan_close(&worker->data[side]);
  mst_chan_close(&worker->control[side]);
  if (side == 0) {
    release(&worker->output);
  } else {
    mst_net_close(&worker->output_there);
  }
}

static inline void close_worker(struct worker *worker) {
  close_side(worker, 0);
  close_side(worker, 1);
}

static inline void print(const struct worker *worker, const char *text) {
  CHECK_INT(write(worker->output_there, text, strlen(text)), strlen(text));
}

// printed tells what can be read of a worker's output here, within a static buffer.
static inline const char *printed(const struct worker *worker) {
  static char text[65536];
  int fd, lost;
  const int64_t got = worker->output->ops->read(
      worker->output, text, sizeof text - 1, &fd, &lost, NULL);
  text[got > 0 ? got : 0] = '\0';
  return text;
}

static inline int open_files(void) {
  DIR *dir = opendir("/proc/self/fd");
  int n = 0;
  if (dir == NULL) return 0;
  while (readdir(dir) != NULL)
    n++;
  (void)closedir(dir);
  return n;
}

// blob_with makes a payload with a segment of n bytes, all of them `byte`.
static inline struct mst_blob *blob_with(size_t n, uint8_t byte) {
  uint8_t size[MST_SEGMENT_BYTES], bytes[4096];
  struct mst_blob *blob = mst_blob_new();
  memset(bytes, byte, sizeof bytes);
  CHECK_INT(mst_segment_open(&blob->segment, n, NULL), 0);
  for (size_t at = 0; at < n; at += sizeof bytes) {
    const size_t part = n - at < sizeof bytes ? n - at : sizeof bytes;
    CHECK_INT(mst_segment_append(&blob->segment, bytes, part, NULL), 0);
  }
  CHECK_INT(mst_segment_seal(&blob->segment, NULL), 0);
  mst_segment_encode(blob->segment.bytes, size);
  CHECK_INT(mst_buf_append(&blob->buf, size, sizeof size), 0);
  return blob;
}

#endif
