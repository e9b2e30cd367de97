// Tests of host/link and host/keeper: what a session's end of a link does by itself.
#include <poll.h>
#include <sys/resource.h>

#include "base/mst_tail.h"
#include "host/keeper.h"
#include "host/thread.h"
#include "mst_relay_test.h"

TEST("A worker on another host takes no descriptor of the session") {
  struct worker worker;
  open_link();
  start_server();
  if (access("/proc/self/fd", R_OK) != 0) SKIP("no /proc");
  const int before = open_files();
  start_worker(&worker, 0);
  CHECK_INT(open_files() - before, 2 * 3); // the worker's, the relay's
  close_side(&worker, 1);
  UNTIL(open_files() == before);
  close_side(&worker, 0);
  close_link();
}

TEST("What was written before a channel is closed arrives, and then its end") {
  struct worker worker;
  struct mst_frame frame;
  static char bytes[60000];
  open_link();
  start_server();
  start_worker(&worker, 0);
  for (uint64_t call = 1; call <= 2; call++)
    send_frame(&worker.data[0], MST_KIND_EXEC, call, bytes, sizeof bytes);
  close_side(&worker, 0);
  for (uint64_t call = 1; call <= 2; call++) {
    UNTIL(has_frame(&worker.data[1], &frame));
    CHECK_INT(frame.head.call, call);
    mst_chan_take(&worker.data[1], &frame);
  }
  UNTIL(has_ended(&worker.data[1]) && has_ended(&worker.control[1]));
  close_side(&worker, 1);
  close_link();
}

TEST("Small writes wait until they can cross together, large ones don't") {
  struct worker workers[2];
  struct mst_frame frame;
  static char bytes[60000];
  open_link();
  start_server();
  for (uint32_t w = 0; w < 2; w++)
    start_worker(&workers[w], w);
  const uint64_t *sent = &session->trunk.mux.flight.sent;
  const uint64_t before = *sent;
  mst_links_hold(&links);
  mst_links_hold(&links);
  for (int w = 0; w < 2; w++)
    send_frame(&workers[w].data[0], MST_KIND_EXEC, 1, bytes, 100);
  mst_links_go_on(&links);
  CHECK(*sent == before);
  mst_links_go_on(&links);
  const uint64_t together = *sent;
  CHECK(together > before + 200);
  mst_links_hold(&links);
  send_frame(&workers[0].data[0], MST_KIND_EXEC, 2, bytes, sizeof bytes);
  CHECK(*sent > together + MST_LINE_HELD_MAX);
  mst_links_go_on(&links);
  for (int w = 0; w < 2; w++) {
    UNTIL(has_frame(&workers[w].data[1], &frame));
    CHECK_INT(frame.head.call, 1);
    mst_chan_take(&workers[w].data[1], &frame);
  }
  UNTIL(has_frame(&workers[0].data[1], &frame));
  CHECK_INT(frame.head.call, 2);
  mst_chan_take(&workers[0].data[1], &frame);
  for (int w = 0; w < 2; w++) {
    close_side(&workers[w], 0);
    close_side(&workers[w], 1);
  }
  close_link();
}

TEST("Small writes that wait cross before their link is closed") {
  struct worker worker;
  open_link();
  start_server();
  start_worker(&worker, 0);
  mst_links_hold(&links);
  send_frame(&first[0], MST_KIND_REMOVE, 1, "d", 1);
  send_frame(&server[0], MST_KIND_BYE, 2, NULL, 0);
  send_frame(&worker.data[0], MST_KIND_BYE, 3, NULL, 0);
  close_session();
  mst_links_go_on(&links);
  (void)mst_relay_run(relay, 0, NULL); // reads first
  close_host();
  CHECK_INT(take(&first[1]).call, 1);
  CHECK_INT(take(&server[1]).call, 2);
  CHECK_INT(take(&worker.data[1]).call, 3);
  CHECK(has_ended(&first[1]) && has_ended(&worker.data[1]));
  close_worker(&worker);
  close_link();
}

TEST("Channels that are closed before they went along end over there") {
  struct worker worker;
  open_link();
  start_server();
  const size_t before = session->trunk.mux.count;
  send_fork(&worker, 0);
  close_side(&worker, 0);
  take_fork(&worker, 0);
  UNTIL(has_ended(&worker.data[1]) && has_ended(&worker.control[1]));
  close_side(&worker, 1);
  UNTIL(session->trunk.mux.count == before && relay->trunk.mux.count == before);
  // Or they never went along.
  release(&(struct mst_line *){line_beside(&server[0], MST_STREAM_DATA)});
  turns(3);
  CHECK_INT(session->trunk.mux.count, before);
  close_link();
}

// ---- owners

static unsigned called[2]; // to read, to write

static void note_ready(struct mst_io *io, uint32_t ready) {
  (void)io;
  called[0] += (ready & MST_READABLE) != 0;
  called[1] += (ready & MST_WRITABLE) != 0;
}

TEST("An owner is called while there is something to read, once for the end") {
  struct worker worker;
  struct mst_frame frame;
  open_link();
  start_server();
  start_worker(&worker, 0);
  struct mst_io io = {.fd = -1,
                      .line = worker.data[0].line,
                      .wanted = MST_READABLE,
                      .ready = note_ready};
  CHECK_INT(mst_loop_add(loop, &io, NULL), 0);
  turns(10);
  CHECK_INT(called[0], 0);
  send_frame(&worker.data[1], MST_KIND_VALUE, 1, "v", 1);
  UNTIL(called[0] > 2);
  CHECK(has_frame(&worker.data[0], &frame));
  mst_chan_take(&worker.data[0], &frame);
  CHECK_INT(mst_chan_fill(&worker.data[0], 0, NULL), -MST_EAGAIN);
  turns(10);
  called[0] = 0;
  turns(10);
  CHECK_INT(called[0], 0);
  // One that doesn't want to read hears of the end alone.
  CHECK_INT(mst_loop_want(loop, &io, 0, NULL), 0);
  send_frame(&worker.data[1], MST_KIND_VALUE, 2, "v", 1);
  turns(50);
  CHECK_INT(called[0], 0);
  close_side(&worker, 1);
  UNTIL(called[0] > 0);
  turns(10);
  CHECK_INT(called[0], 1);
  CHECK(has_frame(&worker.data[0], &frame) && frame.head.call == 2);
  mst_loop_remove(loop, &io);
  close_side(&worker, 0);
  close_link();
}

TEST("An owner with more than fits is called when there is room") {
  struct worker worker;
  struct mst_frame frame;
  enum { BYTES = 1000000 };
  static char bytes[BYTES];
  open_link();
  start_server();
  start_worker(&worker, 0);
  struct mst_io io = {.fd = -1,
                      .line = worker.data[0].line,
                      .wanted = MST_WRITABLE,
                      .ready = note_ready};
  send_frame(&worker.data[0], MST_KIND_EXEC, 1, bytes, BYTES);
  CHECK(mst_chan_wants_write(&worker.data[0]));
  CHECK_INT(mst_loop_add(loop, &io, NULL), 0);
  while (worker.data[0].out_first != NULL) {
    called[1] = 0;
    UNTIL(!has_frame(&worker.data[1], &frame) && called[1] > 0);
    (void)mst_chan_flush(&worker.data[0], NULL);
  }
  UNTIL(has_frame(&worker.data[1], &frame));
  CHECK_INT(frame.head.length, BYTES);
  mst_loop_remove(loop, &io);
  close_worker(&worker);
  close_link();
}

// ---- segments

#define NEVER_OVER (INT64_MAX / 2)

static struct mst_blob *with_segment(uint8_t mark) {
  uint8_t size[MST_SEGMENT_BYTES], bytes[4096] = {mark};
  struct mst_blob *blob = mst_blob_new();
  CHECK_INT(mst_segment_open(&blob->segment, sizeof bytes, NULL), 0);
  CHECK_INT(mst_segment_append(&blob->segment, bytes, sizeof bytes, NULL), 0);
  CHECK_INT(mst_segment_seal(&blob->segment, NULL), 0);
  mst_segment_encode(blob->segment.bytes, size);
  CHECK_INT(mst_buf_append(&blob->buf, size, sizeof size), 0);
  return blob;
}

static struct mst_cargo *cargo_of(const struct mst_blob *blob) {
  struct mst_cargo *cargo = session->cargo;
  while (cargo != NULL && cargo->owner != blob)
    cargo = cargo->next;
  return cargo;
}

// to_worker has a segment arrive that was used then.
static void to_worker(struct worker *worker, struct mst_blob *blob,
                      int64_t used_ns) {
  struct mst_head head = {.kind = MST_KIND_EXEC, .call = 1};
  struct mst_frame frame;
  CHECK_INT(mst_chan_send(&worker->data[0], &head, blob, NULL, 0, 0, NULL), 0);
  UNTIL(has_frame(&worker->data[1], &frame));
  mst_chan_take(&worker->data[1], &frame);
  UNTIL(cargo_of(blob)->is_whole);
  cargo_of(blob)->used_ns = used_ns;
}

TEST("A segment that nobody can send again isn't kept once others are sent") {
  NEEDS(MST_HAVE_MEMFD);
  struct worker worker;
  struct mst_blob *kept = with_segment(1), *borrower = with_segment(1);
  open_link();
  start_server();
  start_worker(&worker, 0);
  CHECK_INT(mst_blob_borrow(borrower, kept), 1);
  to_worker(&worker, kept, NEVER_OVER);
  mst_blob_release(kept); // borrower has it
  for (uint8_t i = 2; i < 20; i++) {
    struct mst_blob *once = with_segment(i);
    to_worker(&worker, once, NEVER_OVER);
    CHECK(cargo_of(kept) != NULL);
    UNTIL(session->cargo->owner == once && session->cargo->next != NULL &&
          session->cargo->next->next == NULL);
    mst_blob_release(once);
  }
  mst_blob_release(borrower);
  struct mst_blob *last = with_segment(1);
  to_worker(&worker, last, NEVER_OVER);
  UNTIL(session->cargo->owner == last && session->cargo->next == NULL);
  mst_blob_release(last);
  close_worker(&worker);
  close_link();
}

TEST("Of many segments that may be sent again, those used last are kept") {
  NEEDS(MST_HAVE_MEMFD);
  enum { COUNT = MST_LINK_KEEP_MOST + 10, GONE = 9 };
  struct worker worker;
  struct mst_blob *blobs[COUNT];
  const int64_t now_ns = mst_clock_now();
  open_link();
  start_server();
  start_worker(&worker, 0);
  for (int i = 0; i < COUNT; i++) {
    blobs[i] = with_segment((uint8_t)i);
    // So that the next one isn't the one to go, however long this takes.
    to_worker(&worker, blobs[i], now_ns + i - MST_NS_PER_S);
  }
  for (int i = 0; i < COUNT; i++) {
    if (i < GONE) UNTIL(cargo_of(blobs[i]) == NULL);
    if (i > GONE) CHECK(cargo_of(blobs[i]) != NULL);
  }
  to_worker(&worker, blobs[0], now_ns); // once more
  for (int i = 0; i < COUNT; i++)
    mst_blob_release(blobs[i]);
  close_worker(&worker);
  close_link();
}

TEST("A segment that comes is taken where no more may be made") {
  NEEDS(MST_HAVE_MEMFD);
  enum { MOST = 32 };
  struct worker worker;
  struct mst_frame frame;
  struct mst_head head = {.kind = MST_KIND_EXEC, .call = 1};
  struct mst_segment own[MOST], more;
  const struct rlimit limit = {.rlim_cur = 8 * MOST, .rlim_max = 8 * MOST};
  open_link();
  start_server();
  start_worker(&worker, 0);
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
  struct mst_blob *blob = with_segment(1);
  for (int i = 0; i < MOST - 1; i++)
    CHECK_INT(mst_segment_open(&own[i], 1, NULL), 0);
  CHECK_INT(mst_segment_open(&more, 1, NULL), -MST_ESYS);
  for (int side = 0; side < 2; side++) {
    CHECK_INT(mst_chan_send(&worker.data[side], &head, blob, NULL, 0, 0, NULL),
              0);
    UNTIL(has_frame(&worker.data[!side], &frame));
    struct mst_map *map = mst_chan_map(&worker.data[!side], &frame);
    CHECK(map != NULL && !mst_map_is_lost(map));
    mst_chan_take(&worker.data[!side], &frame);
  }
  mst_blob_release(blob);
  for (int i = 0; i < MOST - 1; i++)
    mst_segment_close(&own[i]);
  close_worker(&worker);
  close_link();
}

TEST("A reader without descriptors hears that a segment was lost") {
  NEEDS(MST_HAVE_MEMFD);
  struct worker worker;
  struct mst_frame frame;
  struct mst_head head = {.kind = MST_KIND_EXEC, .call = 1};
  struct mst_blob *blob = with_segment(1);
  open_link();
  start_server();
  start_worker(&worker, 0);
  CHECK_INT(mst_chan_send(&worker.data[1], &head, blob, NULL, 0, 0, NULL), 0);
  mst_blob_release(blob);
  UNTIL(session->cargo != NULL && session->cargo->is_whole);
  (void)mst_fault_arm("net.copy", 1, EMFILE);
  UNTIL(has_frame(&worker.data[0], &frame));
  CHECK_INT(mst_fault_arm("net.copy", 0, 0), 1);
  struct mst_map *map = mst_chan_map(&worker.data[0], &frame);
  CHECK(map != NULL && mst_map_is_lost(map));
  mst_chan_take(&worker.data[0], &frame);
  UNTIL(session->cargo == NULL);
  close_worker(&worker);
  close_link();
}

// ---- the keeper

TEST("A session that doesn't serve its link for long isn't silent") {
  int there[2], back[2], pair[2];
  struct mst_keeper *keeper;
  struct mst_relay_thread *host;
  struct mst_frame frame;
  NEEDS(MST_HAVE_SCM_RIGHTS);
  const int64_t silence_ns = 240 * MST_NS_PER_MS;
  CHECK_INT(mst_net_pipe(there, NULL), 0);
  CHECK_INT(mst_net_pipe(back, NULL), 0);
  CHECK_INT(mst_net_pair(pair, NULL), 0);
  (void)signal(SIGPIPE, SIG_IGN);
  const struct mst_link_config at_host = {
      .cable = {.in = there[0], .out = back[1]}, .silence_ns = silence_ns};
  const struct mst_link_config here = {
      .cable = {.in = back[0], .out = there[1]}, .silence_ns = silence_ns};
  const int64_t until_ns = mst_clock_now() + 20 * MST_NS_PER_S;
  CHECK_INT(mst_keeper_start(&here, until_ns, &keeper, NULL), 0);
  CHECK_INT(mst_keeper_greeted(keeper, NULL), 0);
  CHECK_INT(mst_relay_start(&at_host, pair[1], until_ns, &host, NULL), 0);
  struct pollfd polled = {.fd = mst_keeper_fd(keeper), .events = POLLIN};
  CHECK_INT(poll(&polled, 1, 20000), 1);
  CHECK_INT(mst_keeper_greeted(keeper, NULL), 1);
  open_session(here.cable.in, here.cable.out, silence_ns);
  mst_keeper_keep(keeper, session);
  mst_chan_open(&first[1], pair[0], MST_FRAME_MAX);
  (void)poll(NULL, 0, 1000); // R is busy
  CHECK_INT(mst_relay_state(host), MST_RELAY_WORKS);
  CHECK_INT(mst_link_why(session, NULL), 0);
  for (uint64_t call = 1; call <= 200; call++) { // beside the keeper
    send_frame(&first[0], MST_KIND_PING, call, "12345678", 8);
    while (!has_frame(&first[1], &frame))
      (void)mst_loop_run(loop, 0, NULL);
    CHECK_INT(frame.head.call, call);
    mst_chan_take(&first[1], &frame);
    if (call % 20 == 0) (void)poll(NULL, 0, 30);
  }
  mst_keeper_end(keeper);
  mst_keeper_free(keeper);
  close_link();
  mst_relay_end(host);
}

TEST("A command that doesn't greet, or says something else, gives no link") {
  int there[2], back[2];
  struct mst_keeper *keeper;
  struct mst_err err;
  char skipped[MST_TAIL_BYTES];
  for (int silent = 0; silent < 2; silent++) {
    CHECK_INT(mst_net_pipe(there, NULL), 0);
    CHECK_INT(mst_net_pipe(back, NULL), 0);
    const struct mst_link_config here = {
        .cable = {.in = back[0], .out = there[1]}, .silence_ns = MST_NS_PER_S};
    const int64_t wait_ns = (silent ? 20 : 20000) * MST_NS_PER_MS;
    CHECK_INT(mst_keeper_start(&here, mst_clock_now() + wait_ns, &keeper, NULL),
              0);
    CHECK_INT(write(back[1], "welcome\n", 8), 8);
    if (!silent) mst_net_close(&back[1]);
    struct pollfd polled = {.fd = mst_keeper_fd(keeper), .events = POLLIN};
    CHECK_INT(poll(&polled, 1, 20000), 1);
    CHECK_INT(mst_keeper_greeted(keeper, &err),
              silent ? -MST_ETIMEOUT : -MST_ECLOSED);
    CHECK_INT(mst_keeper_skipped(keeper, skipped), 8);
    CHECK(memcmp(skipped, "welcome\n", 8) == 0);
    mst_keeper_end(keeper);
    mst_keeper_free(keeper);
    for (int i = 0; i < 2; i++) {
      mst_net_close(&there[i]);
      mst_net_close(&back[i]);
    }
  }
}
