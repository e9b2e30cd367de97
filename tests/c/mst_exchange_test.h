// What the tests of shuffle/exchange share. The watch is played by a thread of the test, other
// workers by its main thread at the far end of a link.
#ifndef MST_EXCHANGE_TEST_H
#define MST_EXCHANGE_TEST_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "base/mst_hash.h"
#include "fork/fork.h"
#include "mst_test.h"
#include "shuffle/exchange_int.h"

static const struct mst_watch_guest *guest;
static atomic_int stop_watch;
static pthread_t watch;
const struct mst_watch_guest *mst_test_guest(void); // test_exchange.c

static inline void *watch_main(void *arg) {
  static struct pollfd fds[1024];
  (void)arg;
  while (!stop_watch) {
    int timeout = 10;
    const size_t n = guest->fds(fds, 1024, &timeout);
    CHECK(n <= 1024);
    if (poll(fds, (nfds_t)n, timeout > 10 ? 10 : timeout) > 0) {
      guest->ready(fds, n);
    }
  }
  return NULL;
}

static inline void begin(void) {
  CHECK_INT(mst_exchange_begin(NULL), 0);
  guest = mst_test_guest();
  CHECK(guest != NULL);
  CHECK_INT(pthread_create(&watch, NULL, watch_main, NULL), 0);
}

static inline struct mst_segment segment_of(const char *text) {
  struct mst_segment segment;
  CHECK_INT(mst_segment_open(&segment, 64, NULL), 0);
  CHECK_INT(mst_segment_append(&segment, text, strlen(text), NULL), 0);
  CHECK_INT(mst_segment_seal(&segment, NULL), 0);
  return segment;
}

// Where texts are on builds without segments: in files, removed at the end.
#define TEXT_PATH_BYTES 40
static char text_paths[8][TEXT_PATH_BYTES];
static size_t text_path_count;

static inline const char *file_of(const char *text) {
  CHECK(text_path_count < 8);
  char *path = text_paths[text_path_count++];
  (void)snprintf(path, TEXT_PATH_BYTES, "/tmp/mst-text-XXXXXX");
  const int fd = mkstemp(path);
  CHECK(fd >= 0);
  CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  (void)close(fd);
  return path;
}

static inline struct mst_block block_of(const char *text) {
  return (struct mst_block){
      .bytes = strlen(text), .rows = 1, .check = mst_hash(text, strlen(text))};
}

static inline void put_text(uint32_t task, const char *text) {
  const struct mst_want want = {1, task, 1};
  const struct mst_block blocks[2] = {{0}, block_of(text)};
  struct mst_segment segment = MST_SEGMENT_NONE;
  if (MST_HAVE_MEMFD) segment = segment_of(text);
  const char *path = MST_HAVE_MEMFD ? NULL : file_of(text);
  CHECK_INT(mst_exchange_put(&want, path == NULL ? &segment : NULL, path, 64,
                             blocks, 2, NULL),
            0);
  CHECK_INT(segment.fd, -1);
}

// is_told tells whether a frame, a HAVE, hands over that text.
static inline int is_told(struct mst_chan *far, const struct mst_frame *frame,
                          const char *text) {
  struct mst_have have;
  const struct mst_map *map = mst_chan_map(far, frame);
  CHECK_INT(mst_have_decode(frame->payload, (size_t)frame->head.length, &have),
            0);
  if (!MST_HAVE_MEMFD) return map == NULL && have.path_bytes > 0;
  return map != NULL && memcmp(map->data, text, strlen(text)) == 0;
}

static inline void check_text(uint32_t task, const char *text) {
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

static inline void next_frame(struct mst_chan *far, struct mst_frame *frame) {
  while (mst_chan_peek(far, frame, NULL) == 0) {
    struct pollfd fd = {.fd = far->fd, .events = POLLIN};
    CHECK(poll(&fd, 1, 5000) == 1);
    CHECK_INT(mst_chan_fill(far, 0, NULL), 1);
  }
}

static inline void say(struct mst_chan *far, uint8_t kind, uint32_t task) {
  struct mst_head head = {.kind = kind};
  const struct mst_want want = {1, task, 1};
  uint8_t bytes[MST_WANT_BYTES];
  mst_want_encode(&want, bytes);
  CHECK_INT(mst_chan_send_small(far, &head, bytes, sizeof bytes, 0, NULL), 0);
}

static inline void say_have(struct mst_chan *far, uint32_t task,
                            const char *text) {
  struct mst_blob *blob = mst_blob_new();
  uint8_t bytes[256];
  if (MST_HAVE_MEMFD) blob->segment = segment_of(text);
  const char *path = MST_HAVE_MEMFD ? NULL : file_of(text);
  const struct mst_have have = {
      .want = {1, task, 1},
      .size = 64,
      .count = 2,
      .path = path,
      .path_bytes = (uint16_t)(path == NULL ? 0 : strlen(path))};
  const struct mst_block blocks[2] = {{0}, block_of(text)};
  mst_have_encode(&have, blocks, bytes);
  CHECK_INT(mst_buf_append(&blob->buf, bytes, mst_have_bytes(&have)), 0);
  struct mst_head head = {.kind = MST_KIND_HAVE};
  CHECK_INT(mst_chan_send(far, &head, blob, NULL, 0, 0, NULL), 0);
  mst_blob_release(blob);
}

static inline uint32_t wanted(struct mst_chan *far) {
  struct mst_frame frame;
  struct mst_want want;
  next_frame(far, &frame);
  CHECK_INT(frame.head.kind, MST_KIND_WANT);
  CHECK_INT(mst_want_decode(frame.payload, (size_t)frame.head.length, &want),
            0);
  mst_chan_take(far, &frame);
  return want.task;
}

// Where this process listens, once link_to has been called; removed at the end.
static char own_folder[40];

// link_to gives the far end of a link to this worker, which another has dialled.
static inline void link_to(struct mst_chan *far, uint32_t worker,
                           uint32_t epoch) {
  struct mst_meet meet = {.worker = worker,
                          .epoch = epoch,
                          .other_worker = mst_exchange.way.worker,
                          .other_epoch = mst_exchange.way.epoch};
  struct mst_head head = {.kind = MST_KIND_MEET};
  struct mst_frame frame;
  struct mst_addr addr;
  uint8_t bytes[MST_MEET_BYTES];
  char path[48];
  int fd = -1;
  if (own_folder[0] == '\0') {
    (void)snprintf(own_folder, sizeof own_folder, "/tmp/mst-links-XXXXXX");
    CHECK(mkdtemp(own_folder) != NULL);
  }
  CHECK_INT(mst_exchange_listen(own_folder, 1, meet.token, NULL), 0);
  (void)snprintf(path, sizeof path, "%s/0", own_folder);
  CHECK_INT(mst_addr_parse(path, 0, &addr, NULL), 0);
  CHECK_INT(mst_net_dial(&addr, &fd, NULL), 0);
  mst_chan_open(far, fd, 1 << 20);
  far->takes_maps = 1;
  mst_meet_encode(&meet, bytes);
  CHECK_INT(mst_chan_send_small(far, &head, bytes, sizeof bytes, 0, NULL), 0);
  next_frame(far, &frame);
  CHECK_INT(frame.head.kind, MST_KIND_MET);
  mst_chan_take(far, &frame);
}

static inline void ask(uint32_t tasks, uint32_t worker, uint32_t epoch) {
  struct mst_source sources[64];
  CHECK(tasks <= 64);
  for (uint32_t t = 0; t < tasks; t++) {
    sources[t] = (struct mst_source){
        .want = {1, t, 1}, .worker = worker, .epoch = epoch};
  }
  CHECK_INT(mst_exchange_ask(sources, tasks, NULL), 0);
}

static inline void wait_for(size_t left) {
  const int64_t end_ns = mst_clock_now() + 30 * MST_NS_PER_S;
  while (mst_exchange_wait(20) > left)
    CHECK(mst_clock_now() < end_ns);
}

static inline void end(struct mst_chan *far) {
  if (far != NULL) mst_chan_close(far);
  stop_watch = 1;
  CHECK_INT(pthread_join(watch, NULL), 0);
  mst_exchange_end();
  while (text_path_count > 0)
    (void)unlink(text_paths[--text_path_count]);
  if (own_folder[0] != '\0') {
    char path[48];
    (void)snprintf(path, sizeof path, "%s/0", own_folder);
    (void)unlink(path);
    CHECK_INT(rmdir(own_folder), 0);
    own_folder[0] = '\0';
  }
}

#endif
