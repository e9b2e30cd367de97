// Tests of host/relay: segments; how streams, links and their ends end; what a host lacks.
#include "mst_relay_test.h"

// ---- segments

static struct mst_blob *with_segment(size_t bytes, int seed) {
  struct mst_blob *blob = mst_blob_new();
  uint8_t size[MST_SEGMENT_BYTES];
  uint8_t part[4096];
  CHECK_INT(mst_segment_open(&blob->segment, bytes, NULL), 0);
  for (size_t at = 0; at < bytes; at += sizeof part) {
    for (size_t i = 0; i < sizeof part; i++)
      part[i] = (uint8_t)((size_t)seed + (at + i) * 13 + at / 4096);
    CHECK_INT(mst_segment_append(&blob->segment, part, sizeof part, NULL), 0);
  }
  CHECK_INT(mst_segment_seal(&blob->segment, NULL), 0);
  mst_segment_encode(blob->segment.bytes, size);
  CHECK_INT(mst_buf_append(&blob->buf, size, sizeof size), 0);
  return blob;
}

static void check_segment(struct mst_chan *chan, uint64_t call, size_t bytes,
                          int seed) {
  struct mst_frame frame;
  UNTIL(has_frame(chan, &frame));
  CHECK_INT(frame.head.call, call);
  const struct mst_map *map = mst_chan_map(chan, &frame);
  CHECK(map != NULL && !mst_map_is_lost(map));
  CHECK_INT(map->bytes, bytes);
  for (size_t i = 0; i < bytes; i++)
    CHECK_INT(map->data[i], (uint8_t)((size_t)seed + i * 13 + i / 4096));
  mst_chan_take(chan, &frame);
}

TEST("A segment for several workers crosses the link once") {
  NEEDS(MST_HAVE_MEMFD);
  enum { BYTES = 1 << 20, WORKERS = 6 };
  struct worker workers[WORKERS];
  open_link();
  start_server();
  struct mst_blob *blob = with_segment(BYTES, 3);
  for (uint32_t i = 0; i < WORKERS; i++) {
    struct mst_head head = {.kind = MST_KIND_EXEC, .call = i + 1};
    start_worker(&workers[i], i);
    CHECK_INT(mst_chan_send(&workers[i].data[0], &head, blob, NULL, 0, 0, NULL),
              0);
  }
  const uint64_t before = session->trunk.mux.flight.sent;
  for (uint32_t i = 0; i < WORKERS; i++)
    check_segment(&workers[i].data[1], i + 1, BYTES, 3);
  CHECK(session->trunk.mux.flight.sent - before < BYTES + BYTES / 4);
  mst_blob_release(blob);
  for (uint32_t i = 0; i < WORKERS; i++)
    close_worker(&workers[i]);
  close_link();
}

TEST("Answers come with their segments, and frames around them keep theirs") {
  NEEDS(MST_HAVE_MEMFD);
  struct worker worker;
  open_link();
  start_server();
  start_worker(&worker, 0);
  for (uint64_t call = 1; call <= 8; call++) {
    struct mst_head head = {.kind = MST_KIND_EXEC, .call = call};
    if (call % 2 == 0) {
      send_frame(&worker.data[1], MST_KIND_EXEC, call, "none", 4);
      continue;
    }
    struct mst_blob *blob = with_segment(40960, (int)call);
    CHECK_INT(mst_chan_send(&worker.data[1], &head, blob, NULL, 0, 0, NULL), 0);
    mst_blob_release(blob);
  }
  for (uint64_t call = 1; call <= 8; call++) {
    if (call % 2 == 0) {
      CHECK_INT(take(&worker.data[0]).call, call);
    } else {
      check_segment(&worker.data[0], call, 40960, (int)call);
    }
  }
  close_worker(&worker);
  close_link();
}

// ---- ends

TEST("When a worker closes its ends the session sees that, and the other way "
     "round") {
  struct worker one, two;
  open_link();
  start_server();
  start_worker(&one, 0);
  start_worker(&two, 1);
  close_side(&one, 1);
  UNTIL(has_ended(&one.data[0]) && has_ended(&one.control[0]));
  close_side(&two, 0);
  UNTIL(has_ended(&two.data[1]) && has_ended(&two.control[1]));
  // Nobody reads its output any more.
  UNTIL(write(two.output_there, "x", 1) < 0);
  CHECK_INT(errno, EPIPE);
  close_side(&one, 0);
  close_side(&two, 1);
  close_link();
}

TEST("A stream is over when the session closes it, though a child of the "
     "worker has a copy of the other end") {
  struct worker worker;
  open_link();
  start_server();
  const size_t before = session->trunk.mux.count;
  start_worker(&worker, 0);
  CHECK_INT(session->trunk.mux.count, before + 3);
  close_side(&worker, 0); // the worker's ends stay open
  UNTIL(session->trunk.mux.count == before && relay->trunk.mux.count == before);
  close_side(&worker, 1);
  close_link();
}

TEST("When the link breaks all ends are closed, on both sides") {
  struct worker worker;
  open_link();
  start_server();
  start_worker(&worker, 0);
  close_host();
  UNTIL(failures[0] != 0);
  CHECK_INT(failures[0], -MST_ECLOSED);
  close_session();
  for (int side = 0; side < 2; side++) {
    UNTIL(has_ended(&worker.data[side]) && has_ended(&worker.control[side]) &&
          has_ended(&server[side]) && has_ended(&first[side]));
  }
  close_worker(&worker);
  close_link();
}

TEST("A session that closes the link ends the relay, and its channels") {
  open_link();
  start_server();
  close_session();
  UNTIL(has_ended(&first[0]) && has_ended(&server[0]));
  UNTIL(failures[1] != 0);
  CHECK_INT(failures[1], -MST_ECLOSED);
  close_link();
}

TEST("A host hears that its session has ended, though a child of the session "
     "still has the link") {
  int copy;
  open_link();
  CHECK_INT(mst_net_copy(session->trunk.out_io.fd, &copy, NULL), 0);
  close_session();
  UNTIL(has_ended(&first[1]));
  mst_net_close(&copy);
  close_link();
}

TEST(
    "A link that is silent is broken, one that only has nothing to say isn't") {
  open_link_for(300 * MST_NS_PER_MS);
  const int64_t end_ns = mst_clock_now() + 900 * MST_NS_PER_MS;
  while (mst_clock_now() < end_ns)
    turn();
  CHECK_INT(failures[0], 0);
  CHECK_INT(failures[1], 0);
  struct mst_relay *silent = relay;
  relay = NULL;
  UNTIL(failures[0] != 0);
  CHECK_INT(failures[0], -MST_ETIMEOUT);
  relay = silent;
  close_link();
}

static uint64_t sent_after(int64_t wait_ns) {
  const int64_t end_ns = mst_clock_now() + wait_ns;
  while (mst_clock_now() < end_ns)
    turn();
  return session->trunk.mux.flight.sent + relay->trunk.mux.flight.sent;
}

TEST("Something is sent back soon, once, where the link has TCP's delays on") {
  for (has_delays = 0; has_delays < 2; has_delays++) {
    open_link();
    (void)sent_after(10 * MST_NS_PER_MS); // the first pings
    send_frame(&first[0], MST_KIND_REMOVE, 1, "x", 1);
    (void)take(&first[1]);
    const uint64_t before = sent_after(0);
    const uint64_t after = sent_after(20 * MST_NS_PER_MS);
    CHECK_INT(after - before, has_delays ? 2 * 20 : 0); // PING and PONG
    close_link();
  }
  has_delays = 0;
}

TEST("Bytes that no relay sends break the link") {
  int there[2], back[2];
  CHECK_INT(mst_net_pipe(there, NULL), 0);
  CHECK_INT(mst_net_pipe(back, NULL), 0);
  open_session(back[0], there[1], 60 * MST_NS_PER_S);
  CHECK_INT(write(back[1], "Last login: Thu Nov 26\n", 23), 23);
  UNTIL(failures[0] != 0);
  CHECK_INT(failures[0], -MST_EPROTO);
  mst_net_close(&back[1]);
  mst_net_close(&there[0]);
  close_link();
}

TEST("A process that sends no frames breaks the link, not the session") {
  open_link();
  CHECK_INT(write(first[1].fd, "hello", 5), 5);
  UNTIL(failures[1] != 0);
  CHECK_INT(failures[1], -MST_EPROTO);
  close_host();
  UNTIL(failures[0] != 0);
  close_link();
}

TEST("A host without descriptors refuses a worker, and goes on") {
  struct worker worker, other;
  open_link();
  start_server();
  send_fork(&worker, 0);
  (void)mst_fault_arm("net.pipe", 1, EMFILE);
  const int64_t end_ns = mst_clock_now() + 100 * MST_NS_PER_MS;
  while (mst_clock_now() < end_ns)
    turn();
  CHECK(mst_fault_arm("net.pipe", 0, 0) >= 1);
  take_fork(&worker, 0); // a moment later there was room
  send_frame(&worker.data[0], MST_KIND_EXEC, 9, "call", 4);
  CHECK_INT(take(&worker.data[1]).call, 9);
  start_worker(&other, 1);
  close_worker(&worker);
  close_worker(&other);
  close_link();
}
