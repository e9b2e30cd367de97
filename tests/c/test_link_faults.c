// Tests of host/link with what goes wrong: links that break at any byte, bytes that can't be meant.
#include <poll.h>
#include <sys/wait.h>

#include "host/keeper.h"
#include "mst_relay_test.h"

// ---- bytes that a host process can't have meant

static int raw[2]; // the other end of the session's link: to be read, written

static void open_raw(void) {
  int there[2], back[2];
  CHECK_INT(mst_net_pipe(there, NULL), 0);
  CHECK_INT(mst_net_pipe(back, NULL), 0);
  raw[0] = there[0];
  raw[1] = back[1];
  open_session(back[0], there[1], 60 * MST_NS_PER_S);
}

static void close_raw(void) {
  mst_net_close(&raw[0]);
  mst_net_close(&raw[1]);
  close_link();
}

static void say(uint8_t kind, uint32_t stream, const void *bytes, size_t n) {
  uint8_t all[MST_PIECE_HEAD_BYTES + 4096];
  const struct mst_piece piece = {
      .kind = kind, .stream = stream, .length = (uint32_t)n};
  mst_piece_encode(&piece, all);
  if (n > 0) memcpy(all + MST_PIECE_HEAD_BYTES, bytes, n);
  CHECK_INT(write(raw[1], all, MST_PIECE_HEAD_BYTES + n),
            MST_PIECE_HEAD_BYTES + n);
}

static void say_attach(uint32_t stream, uint8_t class, uint32_t id,
                       uint64_t size) {
  uint8_t bytes[MST_ATTACHED_BYTES];
  mst_attached_encode(
      &(struct mst_attached){.class = class, .stream = id, .bytes = size},
      bytes);
  say(MST_PIECE_ATTACH, stream, bytes, sizeof bytes);
}

static void see(void) {
  for (int i = 0; i < 3; i++) {
    CHECK(mst_loop_run(loop, 0, NULL) >= 0);
    mst_links_deliver(&links, mst_clock_now());
  }
}

TEST("A frame whose segment comes without it ends its channel") {
  uint8_t bytes[64] = {0};
  NEEDS(MST_HAVE_MEMFD);
  open_raw();
  say_attach(1, MST_STREAM_SEGMENT, 2, sizeof bytes);
  say(MST_PIECE_DATA, 2, bytes, sizeof bytes);
  say(MST_PIECE_END, 2, NULL, 0);
  say(MST_PIECE_END, 1, NULL, 0);
  see();
  CHECK_INT(mst_link_why(session, NULL), 0);
  CHECK_INT(mst_chan_fill(&first[0], 0, NULL), -MST_ECLOSED);
  close_raw();
}

TEST("Two segments for one byte break the rules, as do other streams") {
  static const uint8_t classes[] = {MST_STREAM_SEGMENT, MST_STREAM_CONTROL,
                                    MST_STREAM_DATA, MST_STREAM_OUTPUT};
  for (size_t i = 0; i < 4; i++) {
    open_raw();
    if (i == 0) say_attach(1, MST_STREAM_SEGMENT, 2, 64);
    say_attach(1, classes[i], 4, i == 0 ? 64 : 0);
    see();
    CHECK_INT(mst_link_why(session, NULL), -MST_EPROTO);
    close_raw();
  }
}

TEST("What comes after an end breaks the rules") {
  for (int i = 0; i < 3; i++) {
    open_raw();
    say(MST_PIECE_END, 1, NULL, 0);
    if (i == 0) say(MST_PIECE_END, 1, NULL, 0);
    if (i == 1) say(MST_PIECE_DATA, 1, "d", 1);
    if (i == 2) say_attach(1, MST_STREAM_SEGMENT, 2, 64);
    see();
    CHECK_INT(mst_link_why(session, NULL), -MST_EPROTO);
    close_raw();
  }
}

TEST("A channel that expects no segment refuses one that was lost, too") {
  uint8_t bytes[64] = {0};
  NEEDS(MST_HAVE_MEMFD);
  open_raw();
  say_attach(1, MST_STREAM_SEGMENT, 2, sizeof bytes);
  say(MST_PIECE_DATA, 1, "d", 1);
  say(MST_PIECE_DATA, 2, bytes, sizeof bytes);
  see();
  (void)mst_fault_arm("net.copy", 1, EMFILE);
  CHECK_INT(mst_chan_fill(&first[0], 0, NULL), -MST_EPROTO);
  CHECK_INT(mst_fault_arm("net.copy", 0, 0), 1);
  close_raw();
}

TEST("A segment that was never taken is freed with the last line") {
  uint8_t bytes[64] = {0};
  NEEDS(MST_HAVE_MEMFD);
  const int before = open_files();
  open_raw();
  say_attach(1, MST_STREAM_SEGMENT, 2, sizeof bytes);
  say(MST_PIECE_DATA, 1, "d", 1);
  say(MST_PIECE_DATA, 2, bytes, sizeof bytes);
  see();
  mst_links_end(&links); // before its last line
  mst_chan_close(&first[0]);
  session = NULL;
  close_raw();
  CHECK_INT(open_files(), before);
}

// ---- lines that can't go along

static unsigned called;
static void note_ready(struct mst_io *io, uint32_t ready) {
  (void)io;
  called += (ready & MST_READABLE) != 0;
}

TEST("A line whose other end was given up before it went along ends") {
  open_raw();
  struct mst_line *line = line_beside(&first[0], MST_STREAM_DATA);
  struct mst_io io = {
      .fd = -1, .line = line, .wanted = MST_READABLE, .ready = note_ready};
  line->refs++;
  CHECK_INT(mst_loop_add(loop, &io, NULL), 0);
  see();
  CHECK_INT(called, 0);
  line->ops->release(line);
  see();
  CHECK(called > 0);
  mst_loop_remove(loop, &io);
  struct mst_chan chan;
  mst_chan_open_line(&chan, line, MST_FRAME_MAX);
  CHECK_INT(mst_chan_fill(&chan, 0, NULL), -MST_ECLOSED);
  mst_chan_close(&chan);
  close_raw();
}

TEST("A line that waits to go along with what is dropped ends") {
  static char bytes[65536];
  struct mst_head head = {.kind = MST_KIND_FORK};
  struct mst_chan chan;
  open_raw();
  struct mst_ends ends = {.fds = {-1, -1, -1},
                          .lines = {line_beside(&first[0], MST_STREAM_DATA)}};
  ends.lines[0]->refs++;
  mst_chan_open_line(&chan, ends.lines[0], MST_FRAME_MAX);
  send_frame(&first[0], MST_KIND_PING, 1, bytes, sizeof bytes); // all credit
  CHECK_INT(mst_chan_send_ends(&first[0], &head, NULL, &ends, 1, NULL), 0);
  mst_ends_close(&ends);
  see();
  CHECK_INT(mst_chan_fill(&chan, 0, NULL), -MST_EAGAIN);
  say(MST_PIECE_STOP, 1, NULL, 0);
  see();
  CHECK_INT(mst_chan_fill(&chan, 0, NULL), -MST_ECLOSED);
  mst_chan_close(&chan);
  close_raw();
}

// ---- the keeper

TEST("A keeper ends though a forked child has its descriptors") {
  int there[2], back[2];
  struct mst_keeper *keeper;
  CHECK_INT(mst_net_pipe(there, NULL), 0);
  CHECK_INT(mst_net_pipe(back, NULL), 0);
  const struct mst_link_config here = {
      .cable = {.in = back[0], .out = there[1]}, .silence_ns = MST_NS_PER_S};
  CHECK_INT(mst_keeper_start(&here, mst_clock_now() + 20 * MST_NS_PER_S,
                             &keeper, NULL),
            0);
  const pid_t pid = fork();
  if (pid == 0) {
    (void)poll(NULL, 0, -1); // it ends when it is killed
    _exit(0);
  }
  mst_keeper_end(keeper);
  mst_keeper_free(keeper);
  (void)kill(pid, SIGKILL);
  CHECK_INT(waitpid(pid, NULL, 0), pid);
  for (int i = 0; i < 2; i++) {
    mst_net_close(&there[i]);
    mst_net_close(&back[i]);
  }
}

TEST("A link that an assertion left locked is given up without a wait") {
  open_raw();
  (void)pthread_mutex_lock(&session->lock);
  mst_link_keep(session, mst_clock_now()); // the keeper's thread, in the middle
  mst_link_break(session);
  CHECK_INT(session->trunk.failed, -MST_ECLOSED);
  (void)pthread_mutex_unlock(&session->lock); // so that this test frees it
  session->closed = 0;
  close_raw();
}

static _Atomic int keeps;
static void *keep_on(void *data) {
  while (keeps)
    mst_link_keep(data, mst_clock_now());
  return NULL;
}

TEST("A keeper's thread beside the session's races with nothing") {
  NEEDS(MST_HAVE_MEMFD);
  struct worker worker;
  struct mst_frame frame;
  pthread_t thread;
  open_link();
  start_server();
  start_worker(&worker, 0);
  keeps = 1;
  struct mst_io io = {.fd = -1,
                      .line = worker.data[0].line,
                      .wanted = MST_READABLE,
                      .ready = note_ready};
  CHECK_INT(mst_loop_add(loop, &io, NULL), 0);
  CHECK_INT(pthread_create(&thread, NULL, keep_on, session), 0);
  for (uint64_t call = 1; call <= 100; call++) {
    struct mst_head head = {.kind = MST_KIND_EXEC, .call = call};
    struct mst_blob *blob = blob_with(300000, (uint8_t)call);
    CHECK_INT(mst_chan_send(&worker.data[0], &head, blob, NULL, 0, 0, NULL), 0);
    for (int i = 0; i < 100; i++) { // as journals do
      blob->refs++;
      mst_blob_release(blob);
    }
    mst_blob_release(blob);
    send_frame(&worker.data[1], MST_KIND_VALUE, call, "v", 1);
    CHECK_INT(mst_loop_want(loop, &io, call % 2 ? 0 : MST_READABLE, NULL), 0);
    UNTIL(has_frame(&worker.data[1], &frame));
    CHECK_INT(frame.head.call, call);
    mst_chan_take(&worker.data[1], &frame);
    UNTIL(has_frame(&worker.data[0], &frame));
    CHECK_INT(frame.head.call, call);
    mst_chan_take(&worker.data[0], &frame);
  }
  mst_loop_remove(loop, &io);
  keeps = 0;
  CHECK_INT(pthread_join(thread, NULL), 0);
  close_worker(&worker);
  close_link();
}

// ---- a link that breaks

static int pass_from[2], pass_to[2];
static int64_t pass_left[2];

// pass moves bytes between the two ends, until so many have passed.
static void pass(void) {
  char bytes[4096];
  for (int i = 0; i < 2; i++) {
    if (pass_from[i] < 0) continue;
    size_t n = sizeof bytes;
    if ((uint64_t)pass_left[i] < n) n = (size_t)pass_left[i];
    const int64_t got = n == 0 ? 0 : mst_net_read(pass_from[i], bytes, n, NULL);
    if (got == -MST_EAGAIN) continue;
    if (got > 0) {
      pass_left[i] -= got;
      if (write(pass_to[i], bytes, (size_t)got) == got) continue;
    }
    for (int k = 0; k < 2; k++) {
      mst_net_close(&pass_from[k]);
      mst_net_close(&pass_to[k]);
    }
  }
}

static void open_passing(int64_t there_bytes, int64_t back_bytes) {
  int pipes[4][2];
  for (int i = 0; i < 4; i++) {
    CHECK_INT(mst_net_pipe(pipes[i], NULL), 0);
    mst_net_unblock(pipes[i][0]);
  }
  open_session(pipes[3][0], pipes[0][1], 60 * MST_NS_PER_S);
  open_host(pipes[1][0], pipes[2][1], 60 * MST_NS_PER_S);
  pass_from[0] = pipes[0][0];
  pass_to[0] = pipes[1][1];
  pass_from[1] = pipes[2][0];
  pass_to[1] = pipes[3][1];
  pass_left[0] = there_bytes;
  pass_left[1] = back_bytes;
}

static void pass_turns(int n) {
  for (int i = 0; i < n; i++) {
    turn();
    pass();
  }
}

static int whole_frame(struct mst_chan *chan) {
  struct mst_frame frame;
  if (!mst_chan_is_open(chan)) return 0;
  if (mst_chan_peek(chan, &frame, NULL) != 1) {
    (void)mst_chan_fill(chan, 0, NULL);
    if (mst_chan_peek(chan, &frame, NULL) != 1) return 0;
  }
  if (frame.head.flags & MST_FLAG_SEGMENT) {
    const struct mst_map *map = mst_chan_map(chan, &frame);
    CHECK(map != NULL && map->bytes == 3008);
    CHECK(map->data[0] == frame.head.call &&
          map->data[2999] == frame.head.call);
  }
  mst_chan_take(chan, &frame);
  return 1;
}

static int recv_some(struct mst_chan *chan, int *fds, size_t count) {
  uint8_t bytes[MST_HEAD_BYTES];
  size_t n = 0;
  int lost;
  const int64_t got =
      mst_net_recv_fds(chan->fd, bytes, sizeof bytes, 0, fds, &n, &lost, NULL);
  return got == MST_HEAD_BYTES && n == count;
}

// break_after has an exchange over a link that carries so many bytes: 1 if it broke.
static int break_after(int64_t there, int64_t back) {
  struct mst_head head = {.kind = MST_KIND_SETUP};
  struct mst_ends ends = MST_ENDS_NONE;
  struct worker worker = {0};
  int fds[8], got = 0;
  for (int i = 0; i < 2; i++)
    worker.data[i].fd = worker.control[i].fd = -1;
  worker.output_there = -1;
  open_passing(there, back);
  ends.lines[0] = line_beside(&first[0], MST_STREAM_CONTROL);
  ends.lines[1] = line_beside(&first[0], MST_STREAM_OUTPUT);
  CHECK_INT(mst_chan_send_ends(&first[0], &head, NULL, &ends, 2, NULL), 0);
  mst_chan_open_line(&server[0], ends.lines[0], MST_FRAME_MAX_CONTROL);
  server_output = ends.lines[1];
  send_fork(&worker, 0);
  struct mst_blob *blob = blob_with(3000, 7);
  head = (struct mst_head){.kind = MST_KIND_EXEC, .call = 7};
  for (int i = 0; i < 2; i++)
    (void)mst_chan_send(&worker.data[0], &head, blob, NULL, 0, 0, NULL);
  pass_turns(6);
  if (recv_some(&first[1], fds, 2)) {
    mst_chan_open(&server[1], fds[0], MST_FRAME_MAX_CONTROL);
    server_output_there = fds[1];
    pass_turns(6);
    if (recv_some(&server[1], fds, 3)) {
      mst_chan_open(&worker.data[1], fds[0], MST_FRAME_MAX);
      worker.data[1].takes_maps = 1;
      mst_chan_open(&worker.control[1], fds[1], MST_FRAME_MAX_CONTROL);
      worker.output_there = fds[2];
      print(&worker, "hello");
      (void)mst_chan_send(&worker.data[1], &head, blob, NULL, 0, 0, NULL);
    }
  }
  mst_blob_release(blob);
  for (int i = 0; i < 12; i++) {
    pass_turns(1);
    got += whole_frame(&worker.data[1]) + whole_frame(&worker.data[0]);
  }
  const int broke = pass_from[0] < 0;
  if (!broke) CHECK_INT(got, 3);
  if (broke) {
    CHECK(mst_link_why(session, NULL) != 0 && failures[1] != 0);
    close_host();
    for (int i = 0; i < 4; i++)
      (void)whole_frame(&worker.data[0]);
    struct mst_chan *const ours[] = {&first[0], &server[0], &worker.data[0],
                                     &worker.control[0]};
    for (int i = 0; i < 4; i++)
      CHECK_INT(mst_chan_fill(ours[i], 0, NULL), -MST_ECLOSED);
    (void)printed(&worker);
  }
  for (int k = 0; k < 2; k++) {
    mst_net_close(&pass_from[k]);
    mst_net_close(&pass_to[k]);
  }
  close_worker(&worker);
  close_link();
  return broke;
}

TEST("A link that breaks after any byte ends all channels, and leaks nothing") {
  NEEDS(MST_HAVE_MEMFD);
  for (int back = 0; back < 2; back++) {
    int64_t n = 0;
    (void)break_after(0, 0);
    const int before = open_files();
    while (break_after(back ? INT64_MAX : n, back ? n : INT64_MAX))
      n += n < 400 || n % 3010 < 10 ? 1 : 37;
    CHECK(n > 3000);
    CHECK_INT(open_files(), before);
  }
}
