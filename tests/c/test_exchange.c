// Tests of shuffle/exchange: blocks are put, asked for, answered and read, by two threads as
// in a worker. The watch is played by a thread of the test, other workers by its main thread
// at the far end of a link.
#include "shuffle/exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "base/mst_hash.h"
#include "fork/fork.h"
#include "mst_test.h"

static const struct mst_watch_guest *guest;
static atomic_int stop_watch;
static pthread_t watch;

void mst_watch_invite(const struct mst_watch_guest *one) { guest = one; }
void mst_watch_wake(void) {} // it looks every 10 ms

// A LINK that comes is handed over by the watch's thread, as in a worker.
static _Atomic int link_fd = -1;
static uint32_t link_worker, link_epoch;

static void take_link(void) {
  const int fd = atomic_exchange(&link_fd, -1);
  if (fd < 0) return;
  const struct mst_link_msg msg = {.worker = link_worker, .epoch = link_epoch};
  const struct mst_head head = {.kind = MST_KIND_LINK};
  uint8_t bytes[MST_LINK_BYTES];
  mst_link_encode(&msg, bytes);
  guest->link(&head, bytes, sizeof bytes, fd);
}

static void *watch_main(void *arg) {
  static struct pollfd fds[300];
  (void)arg;
  while (!stop_watch) {
    int timeout = 10;
    take_link();
    const size_t n = guest->fds(fds, 300, &timeout);
    if (poll(fds, (nfds_t)n, timeout > 10 ? 10 : timeout) > 0) {
      guest->ready(fds, n);
    }
  }
  return NULL;
}

static void begin(void) {
  CHECK_INT(mst_exchange_begin(NULL), 0);
  CHECK(guest != NULL);
  CHECK_INT(pthread_create(&watch, NULL, watch_main, NULL), 0);
}

// link_to gives the far end of a link to this worker.
static void link_to(struct mst_chan *far, uint32_t worker, uint32_t epoch) {
  int pair[2];
  CHECK_INT(mst_net_pair(pair, NULL), 0);
  link_worker = worker;
  link_epoch = epoch;
  atomic_store(&link_fd, pair[0]);
  while (atomic_load(&link_fd) >= 0)
    (void)poll(NULL, 0, 1);
  mst_chan_open(far, pair[1], 1 << 20);
  far->takes_maps = 1;
}

static struct mst_segment segment_of(const char *text) {
  struct mst_segment segment;
  CHECK_INT(mst_segment_open(&segment, 64, NULL), 0);
  CHECK_INT(mst_segment_append(&segment, text, strlen(text), NULL), 0);
  CHECK_INT(mst_segment_seal(&segment, NULL), 0);
  return segment;
}

static void put_text(uint32_t task, const char *text) {
  struct mst_segment segment = segment_of(text);
  const struct mst_want want = {1, task, 1};
  const struct mst_block blocks[2] = {
      {0}, {.bytes = strlen(text), .rows = 1, .stream = 0}};
  CHECK_INT(
      mst_exchange_put(&want, &segment, NULL, segment.bytes, blocks, 2, NULL),
      0);
  CHECK_INT(segment.fd, -1);
}

static void check_text(uint32_t task, const char *text) {
  const struct mst_want want = {1, task, 1};
  struct mst_map *map;
  struct mst_block block;
  uint64_t base;
  CHECK_INT(mst_exchange_read(&want, 1, &map, &base, &block, NULL), 0);
  CHECK_INT(block.bytes, strlen(text));
  CHECK(memcmp(map->data + base, text, strlen(text)) == 0);
  mst_map_release(map);
  CHECK_INT(mst_exchange_read(&want, 0, &map, &base, &block, NULL), 0);
  CHECK(map == NULL);
  CHECK_INT(mst_exchange_read(&want, 2, &map, &base, &block, NULL),
            -MST_EINPUT);
}

static void next_frame(struct mst_chan *far, struct mst_frame *frame) {
  while (mst_chan_peek(far, frame, NULL) == 0) {
    struct pollfd fd = {.fd = far->fd, .events = POLLIN};
    CHECK(poll(&fd, 1, 5000) == 1);
    CHECK_INT(mst_chan_fill(far, 0, NULL), 1);
  }
}

static void say(struct mst_chan *far, uint8_t kind, uint32_t task) {
  struct mst_head head = {.kind = kind};
  const struct mst_want want = {1, task, 1};
  uint8_t bytes[MST_WANT_BYTES];
  mst_want_encode(&want, bytes);
  CHECK_INT(mst_chan_send_small(far, &head, bytes, sizeof bytes, 0, NULL), 0);
}

static void say_have(struct mst_chan *far, uint32_t task, const char *text) {
  struct mst_blob *blob = mst_blob_new();
  uint8_t bytes[256];
  blob->segment = segment_of(text);
  const struct mst_have have = {
      .want = {1, task, 1}, .size = blob->segment.bytes, .count = 2};
  const struct mst_block blocks[2] = {{0}, {.bytes = strlen(text), .rows = 1}};
  mst_have_encode(&have, blocks, bytes);
  CHECK_INT(mst_buf_append(&blob->buf, bytes, mst_have_bytes(&have)), 0);
  struct mst_head head = {.kind = MST_KIND_HAVE};
  CHECK_INT(mst_chan_send(far, &head, blob, NULL, 0, 0, NULL), 0);
  mst_blob_release(blob);
}

static uint32_t wanted(struct mst_chan *far) {
  struct mst_frame frame;
  struct mst_want want;
  next_frame(far, &frame);
  CHECK_INT(frame.head.kind, MST_KIND_WANT);
  CHECK_INT(mst_want_decode(frame.payload, (size_t)frame.head.length, &want),
            0);
  mst_chan_take(far, &frame);
  return want.task;
}

static void ask(uint32_t tasks, uint32_t worker, uint32_t epoch) {
  struct mst_source sources[64];
  CHECK(tasks <= 64);
  for (uint32_t t = 0; t < tasks; t++) {
    sources[t] = (struct mst_source){
        .want = {1, t, 1}, .worker = worker, .epoch = epoch};
  }
  CHECK_INT(mst_exchange_ask(sources, tasks, NULL), 0);
}

static void wait_for(size_t left) {
  const int64_t end_ns = mst_clock_now() + 5 * MST_NS_PER_S;
  while (mst_exchange_wait(20) > left)
    CHECK(mst_clock_now() < end_ns);
}

static void end(struct mst_chan *far) {
  if (far != NULL) mst_chan_close(far);
  stop_watch = 1;
  CHECK_INT(pthread_join(watch, NULL), 0);
  mst_exchange_end();
}

TEST("F1 Own blocks are here at once, others' when they have come") {
  struct mst_chan far;
  begin();
  put_text(0, "own");
  ask(1, MST_SOURCE_SELF, 0);
  CHECK_INT(mst_exchange_wait(0), 0);
  CHECK_INT(mst_exchange_state(0), MST_FOUND_HERE);
  check_text(0, "own");
  ask(3, 5, 1); // before there is a link
  CHECK_INT(mst_exchange_wait(0), 2);
  link_to(&far, 5, 1);
  CHECK_INT(wanted(&far), 1);
  CHECK_INT(wanted(&far), 2);
  say(&far, MST_KIND_NONE, 2);
  say_have(&far, 1, "another's");
  wait_for(0);
  CHECK_INT(mst_exchange_state(1), MST_FOUND_HERE);
  CHECK_INT(mst_exchange_state(2), MST_FOUND_NOT);
  check_text(1, "another's");
  ask(2, 5, 1); // known by now
  CHECK_INT(mst_exchange_wait(0), 0);
  end(&far);
}

TEST("F1 A worker answers others while its R thread does something else") {
  struct mst_chan far;
  struct mst_frame frame;
  struct mst_have have;
  begin();
  put_text(0, "to be read");
  CHECK(mst_exchange_held() > 0);
  link_to(&far, 2, 0);
  say(&far, MST_KIND_WANT, 0);
  say(&far, MST_KIND_WANT, 7);
  next_frame(&far, &frame);
  CHECK_INT(frame.head.kind, MST_KIND_HAVE);
  CHECK_INT(mst_have_decode(frame.payload, (size_t)frame.head.length, &have),
            0);
  const struct mst_map *map = mst_chan_map(&far, &frame);
  CHECK(map != NULL && memcmp(map->data, "to be read", 10) == 0);
  mst_chan_take(&far, &frame);
  next_frame(&far, &frame);
  CHECK_INT(frame.head.kind, MST_KIND_NONE);
  mst_chan_take(&far, &frame);
  const struct mst_want all = {.stage = 1};
  mst_exchange_drop(&all);
  CHECK_INT(mst_exchange_held(), 0);
  say(&far, MST_KIND_WANT, 0);
  next_frame(&far, &frame);
  CHECK_INT(frame.head.kind, MST_KIND_NONE);
  end(&far);
}

TEST("F1 At most so many questions are open on a link") {
  struct mst_chan far;
  struct pollfd quiet;
  begin();
  link_to(&far, 2, 0);
  ask(MST_EXCHANGE_CREDIT + 4, 2, 0);
  for (uint32_t t = 0; t < MST_EXCHANGE_CREDIT; t++)
    CHECK_INT(wanted(&far), t);
  quiet = (struct pollfd){.fd = far.fd, .events = POLLIN};
  CHECK(far.in.len == 0 && poll(&quiet, 1, 250) == 0);
  say(&far, MST_KIND_NONE, 3);
  CHECK_INT(wanted(&far), MST_EXCHANGE_CREDIT);
  CHECK_INT(mst_exchange_wait(0), MST_EXCHANGE_CREDIT + 3);
  end(&far);
}

TEST("F1 The end of a link, nonsense on it, or a later incarnation say that "
     "blocks aren't there") {
  struct mst_chan far;
  begin();
  link_to(&far, 2, 0);
  ask(2, 2, 0);
  CHECK_INT(wanted(&far), 0);
  mst_chan_close(&far);
  wait_for(0);
  CHECK_INT(mst_exchange_state(0), MST_FOUND_NOT);
  CHECK_INT(mst_exchange_state(1), MST_FOUND_NOT);
  link_to(&far, 2, 1);
  ask(1, 2, 0); // of the one before
  wait_for(0);
  CHECK_INT(mst_exchange_state(0), MST_FOUND_NOT);
  ask(1, 2, 1);
  CHECK_INT(wanted(&far), 0);
  struct mst_head head = {.kind = MST_KIND_EXEC};
  CHECK_INT(mst_chan_send_small(&far, &head, "x", 1, 0, NULL), 0);
  wait_for(0);
  CHECK_INT(mst_exchange_state(0), MST_FOUND_NOT);
  ask(1, MST_SOURCE_SELF, 0);
  CHECK_INT(mst_exchange_state(0), MST_FOUND_NOT);
  end(&far);
}

TEST("F1 A question without an answer is asked again, once") {
  struct mst_chan far;
  begin();
  link_to(&far, 2, 0);
  ask(1, 2, 0);
  const int64_t begin_ns = mst_clock_now();
  CHECK_INT(wanted(&far), 0);
  CHECK_INT(wanted(&far), 0);
  const int64_t took_ns = mst_clock_now() - begin_ns;
  CHECK(took_ns > MST_EXCHANGE_AGAIN_NS - 200 * MST_NS_PER_MS);
  say_have(&far, 0, "late");
  say_have(&far, 0, "late"); // and twice
  wait_for(0);
  check_text(0, "late");
  end(&far);
}

TEST("F1 A block in a file is read if its checksum is right, else forgotten") {
  char path[] = "/tmp/mst-exchange-XXXXXX";
  const char *text = "spilled";
  struct mst_map *map;
  struct mst_block block;
  uint64_t base;
  begin();
  const int fd = mkstemp(path);
  CHECK(fd >= 0);
  CHECK(pwrite(fd, text, 7, 0) == 7 && ftruncate(fd, 64) == 0);
  const struct mst_want want = {1, 0, 1};
  const struct mst_block blocks[1] = {
      {.bytes = 7, .rows = 1, .check = mst_hash(text, 7)}};
  CHECK_INT(mst_exchange_put(&want, NULL, path, 64, blocks, 1, NULL), 0);
  CHECK_INT(mst_exchange_held(), 0);
  CHECK_INT(mst_exchange_read(&want, 0, &map, &base, &block, NULL), 0);
  CHECK(memcmp(map->data + base, text, 7) == 0);
  mst_map_release(map);
  CHECK(pwrite(fd, "S", 1, 0) == 1);
  CHECK_INT(mst_exchange_read(&want, 0, &map, &base, &block, NULL),
            -MST_EPROTO);
  CHECK_INT(mst_exchange_read(&want, 0, &map, &base, &block, NULL),
            -MST_EINPUT);
  CHECK(access(path, F_OK) != 0);
  (void)close(fd);
  end(NULL);
}
