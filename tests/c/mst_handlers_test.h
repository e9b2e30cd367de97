// What the tests of handlers and of links share: a folder with listeners, short time limits, and
// the other worker's side of MEET.
#ifndef MST_HANDLERS_TEST_H
#define MST_HANDLERS_TEST_H

#include <stdio.h>
#include <stdlib.h>

#include "mst_exchange_test.h"
#include "mst_net_test.h"

// Whoever says MET must do so within this time, on a busy machine too.
#define AGAIN_MS 400
#define ME 3u    // this worker
#define OTHER 8u // the one that the test plays

static char folder[64];
static const uint8_t other_token[MST_TOKEN_BYTES] = "the other's one";

static inline void make_folder(void) {
  (void)snprintf(folder, sizeof folder, "/tmp/mst-handlers-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
}

static inline void remove_folder(void) {
  char path[128];
  for (int i = 0; i < 16; i++) {
    (void)snprintf(path, sizeof path, "%s/%d", folder, i);
    (void)unlink(path);
  }
  CHECK_INT(rmdir(folder), 0);
}

// quick makes time limits short.
static inline void quick(int silent_ms) {
  const struct mst_exchange_way way = {.worker = ME,
                                       .epoch = 1,
                                       .again_ns = AGAIN_MS * MST_NS_PER_MS,
                                       .silent_ns = silent_ms * MST_NS_PER_MS};
  mst_exchange_set(&way);
}

// patient makes them so long that nothing is done because one is over.
static inline void patient(void) {
  const struct mst_exchange_way way = {.worker = ME,
                                       .epoch = 1,
                                       .again_ns = 3600 * MST_NS_PER_S,
                                       .silent_ns = 3600 * MST_NS_PER_S};
  mst_exchange_set(&way);
}

static inline struct mst_addr address(const char *where, unsigned handler) {
  char path[128];
  struct mst_addr addr;
  (void)snprintf(path, sizeof path, "%s/%u", where, handler);
  CHECK_INT(mst_addr_parse(path, 0, &addr, NULL), 0);
  return addr;
}

static inline int listen_there(unsigned handler, int backlog) {
  struct mst_addr addr = address(folder, handler), bound;
  int fd = -1;
  CHECK_INT(mst_net_listen(&addr, backlog, &fd, 1, &bound, NULL), 0);
  return fd;
}

// begin_listeners begins with so many listeners of the other worker.
static inline void begin_listeners(int *fds, unsigned count, int backlog) {
  make_folder();
  begin();
  patient();
  for (unsigned i = 0; i < count; i++)
    fds[i] = listen_there(i, backlog);
}

static inline void know(uint32_t handlers) {
  struct mst_place place = {
      .worker = OTHER, .epoch = 2, .handlers = handlers, .folder = folder};
  memcpy(place.token, other_token, sizeof place.token);
  CHECK_INT(mst_exchange_knows(&place, NULL), 0);
}

static inline struct mst_exchange_counts counts_now(void) {
  struct mst_exchange_counts counts;
  uint32_t handlers, links;
  mst_exchange_count(&counts, &handlers, &links);
  return counts;
}

static inline uint32_t links_now(void) {
  struct mst_exchange_counts counts;
  uint32_t handlers, links;
  mst_exchange_count(&counts, &handlers, &links);
  return links;
}

static inline void wait_links(uint32_t links) {
  const int64_t end_ns = mst_clock_now() + 30 * MST_NS_PER_S;
  while (links_now() != links) {
    CHECK(mst_clock_now() < end_ns);
    (void)poll(NULL, 0, 5);
  }
}

static inline void accept_one(int listener, struct mst_chan *far) {
  int fd = -1;
  const int64_t until_ns = mst_clock_now() + 30 * MST_NS_PER_S;
  CHECK_INT(accept_until(listener, &fd, NULL, until_ns, NULL), 0);
  mst_chan_open(far, fd, 1 << 20);
  far->takes_maps = 1;
}

static inline void say_meet(struct mst_chan *far, uint8_t kind,
                            const struct mst_meet *meet) {
  struct mst_head head = {.kind = kind};
  uint8_t bytes[MST_MEET_BYTES];
  mst_meet_encode(meet, bytes);
  CHECK_INT(mst_chan_send_small(far, &head, bytes, sizeof bytes, 0, NULL), 0);
}

// hear_meet takes the MEET of the worker that is tested.
static inline struct mst_meet hear_meet(struct mst_chan *far) {
  struct mst_frame frame;
  struct mst_meet meet;
  next_frame(far, &frame);
  CHECK_INT(frame.head.kind, MST_KIND_MEET);
  CHECK_INT(mst_meet_decode(frame.payload, (size_t)frame.head.length, &meet),
            0);
  mst_chan_take(far, &frame);
  CHECK(meet.worker == ME && meet.epoch == 1);
  CHECK(meet.other_worker == OTHER && meet.other_epoch == 2);
  CHECK(memcmp(meet.token, other_token, sizeof other_token) == 0);
  return meet;
}

// welcome accepts the worker that is tested, and says MET.
static inline void welcome(int listener, struct mst_chan *far) {
  accept_one(listener, far);
  const struct mst_meet meet = hear_meet(far);
  say_meet(far, MST_KIND_MET, &meet);
}

// ends tells whether the other end closes, without having said anything more.
static inline int ends(struct mst_chan *far) {
  struct pollfd fd = {.fd = far->fd, .events = POLLIN};
  CHECK(poll(&fd, 1, 5000) == 1);
  return mst_chan_fill(far, 0, NULL) == -MST_ECLOSED;
}

static inline void finish(struct mst_chan *far) {
  end(far);
  remove_folder();
}

#endif
