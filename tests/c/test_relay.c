// Tests of host/relay: frames and what goes along with them pass, in their order.
#include "mst_relay_test.h"

TEST("Frames pass in both directions, as they are") {
  struct mst_frame frame;
  open_link();
  send_frame(&first[0], MST_KIND_PING, 0, "12345678", 8);
  UNTIL(has_frame(&first[1], &frame));
  CHECK_INT(frame.head.kind, MST_KIND_PING);
  CHECK(memcmp(frame.payload, "12345678", 8) == 0);
  send_frame(&first[1], MST_KIND_PONG, 0, "87654321", 8);
  UNTIL(has_frame(&first[0], &frame));
  CHECK(memcmp(frame.payload, "87654321", 8) == 0);
  close_link();
}

TEST("A worker that is started over a link has its three descriptors") {
  struct worker worker;
  open_link();
  start_server();
  start_worker(&worker, 4);
  send_frame(&worker.data[0], MST_KIND_EXEC, 9, "call", 4);
  CHECK_INT(take(&worker.data[1]).call, 9);
  send_frame(&worker.data[1], MST_KIND_VALUE, 9, "answer", 6);
  CHECK_INT(take(&worker.data[0]).call, 9);
  send_frame(&worker.control[0], MST_KIND_PING, 0, "12345678", 8);
  CHECK_INT(take(&worker.control[1]).kind, MST_KIND_PING);
  print(&worker, "hello");
  const char *text = "";
  UNTIL(*(text = printed(&worker)) != '\0');
  CHECK_TEXT(text, "hello");
  close_worker(&worker);
  close_link();
}

TEST("Large frames pass whole, and hold up neither others nor control") {
  struct worker one, two;
  enum { BYTES = 6000000 };
  struct mst_frame frame;
  open_link();
  start_server();
  start_worker(&one, 0);
  start_worker(&two, 1);
  struct mst_blob *large = mst_blob_new();
  struct mst_head head = {.kind = MST_KIND_EXEC, .call = 1};
  CHECK_INT(mst_buf_reserve(&large->buf, BYTES), 0);
  large->buf.len = BYTES;
  for (size_t i = 0; i < BYTES; i++)
    large->buf.data[i] = (uint8_t)(i * 7 + i / 256);
  CHECK_INT(mst_chan_send(&one.data[0], &head, large, NULL, 0, 0, NULL), 0);
  for (uint64_t call = 1; call <= 20; call++) { // nobody reads that one
    turns(3);
    (void)mst_chan_flush(&one.data[0], NULL);
    send_frame(&two.data[0], MST_KIND_EXEC, call, "x", 1);
    CHECK_INT(take(&two.data[1]).call, call);
    send_frame(&one.control[0], MST_KIND_CANCEL, call, "1234", 4);
    CHECK_INT(take(&one.control[1]).call, call);
  }
  CHECK(one.data[0].out_first != NULL);
  UNTIL(mst_chan_flush(&one.data[0], NULL) <= 0 &&
        has_frame(&one.data[1], &frame));
  CHECK_INT(frame.head.length, BYTES);
  CHECK(memcmp(frame.payload, large->buf.data, BYTES) == 0);
  mst_blob_release(large);
  close_worker(&one);
  close_worker(&two);
  close_link();
}

TEST("What a worker has printed is there before the answer that it sent "
     "afterwards") {
  struct worker worker;
  struct mst_frame frame;
  open_link();
  start_server();
  start_worker(&worker, 0);
  static char text[50001], back[sizeof text];
  for (uint64_t call = 1; call <= 10; call++) {
    size_t n = 0;
    memset(text, 'a' + (int)call, sizeof text - 1);
    print(&worker, text);
    send_frame(&worker.data[1], MST_KIND_VALUE, call, "v", 1);
    UNTIL(has_frame(&worker.data[0], &frame));
    CHECK_INT(frame.head.call, call);
    mst_chan_take(&worker.data[0], &frame);
    // No turn of a relay in between.
    for (;;) {
      int fd, lost;
      const int64_t got = worker.output->ops->read(
          worker.output, back + n, sizeof back - n, &fd, &lost, NULL);
      if (got <= 0) break;
      n += (size_t)got;
    }
    CHECK_INT(n, sizeof text - 1);
    CHECK(memcmp(text, back, n) == 0);
  }
  close_worker(&worker);
  close_link();
}

TEST("An answer waits while its worker's output isn't read, as the worker "
     "itself would") {
  struct worker worker;
  struct mst_frame frame;
  open_link();
  start_server();
  start_worker(&worker, 0);
  static char text[50001];
  memset(text, 'x', sizeof text - 1);
  print(&worker, text);
  turns(50);
  print(&worker, text);
  send_frame(&worker.data[1], MST_KIND_VALUE, 1, "v", 1);
  turns(200);
  CHECK(!has_frame(&worker.data[0], &frame));
  size_t n = 0;
  UNTIL((n += strlen(printed(&worker))) > 0 &&
        has_frame(&worker.data[0], &frame));
  n += strlen(printed(&worker));
  CHECK_INT(n, 2 * (sizeof text - 1));
  close_worker(&worker);
  close_link();
}

TEST("Answers of a worker that closes its output come nevertheless") {
  struct worker worker;
  struct mst_frame frame;
  static char text[20001];
  open_link();
  start_server();
  start_worker(&worker, 0);
  memset(text, 'x', sizeof text - 1);
  print(&worker, text);
  mst_net_close(&worker.output_there);
  for (uint64_t call = 1; call <= 5; call++) {
    send_frame(&worker.data[1], MST_KIND_VALUE, call, "v", 1);
    UNTIL(has_frame(&worker.data[0], &frame));
    CHECK_INT(frame.head.call, call);
    mst_chan_take(&worker.data[0], &frame);
  }
  CHECK_INT(strlen(printed(&worker)), sizeof text - 1);
  close_worker(&worker);
  close_link();
}

static void tell_exited(uint32_t index) {
  struct mst_head head = {
      .kind = MST_KIND_EXITED, .cluster = 1, .worker = index};
  const struct mst_proc_msg msg = {
      .pid = 77, .how = MST_EXIT_SIGNAL, .number = 9};
  uint8_t payload[MST_PROC_MSG_BYTES];
  mst_proc_msg_encode(&msg, payload);
  CHECK_INT(
      mst_chan_send_small(&server[1], &head, payload, sizeof payload, 0, NULL),
      0);
}

TEST("The news that a worker has ended come after its last words and answers") {
  struct worker worker, other;
  struct mst_frame frame;
  static char text[60001];
  open_link();
  start_server();
  start_worker(&worker, 0);
  start_worker(&other, 1);
  memset(text, 'x', sizeof text - 1);
  print(&worker, text);
  for (uint64_t call = 1; call <= 10; call++)
    send_frame(&worker.data[1], MST_KIND_VALUE, call, text, 6000);
  close_side(&worker, 1);
  tell_exited(0);
  tell_exited(1); // others' news keep their order
  const struct mst_head head = take(&server[0]);
  CHECK(head.kind == MST_KIND_EXITED && head.worker == 0);
  CHECK_INT(strlen(printed(&worker)), sizeof text - 1);
  for (uint64_t call = 1; call <= 10; call++) {
    CHECK(has_frame(&worker.data[0], &frame));
    CHECK_INT(frame.head.call, call);
    mst_chan_take(&worker.data[0], &frame);
  }
  CHECK_INT(take(&server[0]).worker, 1);
  close_side(&worker, 0);
  close_worker(&other);
  close_link();
}

TEST(
    "A session that leaves a worker's answers unread hears that it has ended") {
  struct worker worker;
  static char bytes[60000];
  open_link();
  start_server();
  start_worker(&worker, 0);
  for (uint64_t call = 1; call <= 50; call++) {
    send_frame(&worker.data[1], MST_KIND_VALUE, call, bytes, sizeof bytes);
    turns(20);
    (void)mst_chan_flush(&worker.data[1], NULL);
  }
  tell_exited(0);
  CHECK_INT(take(&server[0]).kind, MST_KIND_EXITED);
  close_worker(&worker);
  close_link();
}

// ---- at random

TEST("Whatever workers and session do, every frame arrives once, in order") {
  enum { WORKERS = 8, ROUNDS = 3000 };
  static struct worker workers[WORKERS];
  static char bytes[100000];
  uint64_t seed = mst_test_seed(), said[WORKERS][2] = {{0}},
           heard[WORKERS][2] = {{0}};
  open_link();
  start_server();
  for (uint32_t i = 0; i < WORKERS; i++)
    start_worker(&workers[i], i);
  for (int round = 0; round < ROUNDS; round++) {
    const size_t at = (size_t)mst_random_below(&seed, WORKERS);
    const int side = (int)mst_random_below(&seed, 2);
    struct mst_chan *chan = &workers[at].data[side];
    struct mst_frame frame;
    if (mst_random_below(&seed, 3) > 0 && chan->out_bytes < 400000) {
      const size_t most = mst_random_below(&seed, 4) == 0 ? sizeof bytes : 300;
      send_frame(chan, MST_KIND_EXEC, ++said[at][side], bytes,
                 (size_t)mst_random_below(&seed, most));
    } else if (has_frame(chan, &frame)) {
      CHECK_INT(frame.head.call, ++heard[at][side]);
      mst_chan_take(chan, &frame);
    }
    turns((int)mst_random_below(&seed, 3));
  }
  for (size_t at = 0; at < WORKERS; at++) {
    for (int side = 0; side < 2; side++) {
      struct mst_chan *other = &workers[at].data[1 - side];
      while (heard[at][side] < said[at][1 - side]) {
        (void)mst_chan_flush(other, NULL);
        CHECK_INT(take(&workers[at].data[side]).call, ++heard[at][side]);
      }
    }
  }
  for (uint32_t i = 0; i < WORKERS; i++)
    close_worker(&workers[i]);
  close_link();
}
