// Tests of shuffle/exchange: blocks are put, asked for, answered and read, by two threads as
// in a worker.
#include "shuffle/exchange.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "base/mst_hash.h"
#include "mst_exchange_test.h"
#include "shuffle/exchange_int.h"

// For all tests of the exchange. No watch runs: these ask the guest themselves.
const struct mst_watch_guest *mst_test_guest(void) {
  return &mst_exchange_guest;
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
  begin();
  put_text(0, "to be read");
  CHECK_INT(mst_exchange_held() > 0, MST_HAVE_MEMFD);
  link_to(&far, 2, 0);
  say(&far, MST_KIND_WANT, 0);
  say(&far, MST_KIND_WANT, 7);
  next_frame(&far, &frame);
  CHECK_INT(frame.head.kind, MST_KIND_HAVE);
  CHECK(is_told(&far, &frame, "to be read"));
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
