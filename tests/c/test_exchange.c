// Tests of shuffle/exchange: blocks are put, asked for, answered and read, by two threads as
// in a worker.
#include "shuffle/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "base/mst_fault.h"
#include "base/mst_hash.h"
#include "mst_exchange_test.h"

// For all tests of the exchange. No watch runs: these ask the guest themselves.
const struct mst_watch_guest *mst_test_guest(void) {
  return &mst_exchange_guest;
}

// spot_of puts a task's blocks as a worker does, and returns their spot.
static struct mst_spot spot_of(uint32_t task, const char *text) {
  const struct mst_want want = {1, task, 1};
  struct mst_block blocks[2] = {{0}, block_of(text)};
  struct mst_segment segment;
  CHECK_INT(mst_segment_open(&segment, 64, NULL), 0);
  CHECK_INT(mst_segment_append(&segment, text, strlen(text), NULL), 0);
  CHECK_INT(mst_exchange_sign(&want, &segment, blocks, 2, NULL), 0);
  CHECK_INT(mst_segment_seal(&segment, NULL), 0);
  CHECK_INT(
      mst_exchange_put(&want, &segment, NULL, segment.bytes, blocks, 2, NULL),
      0);
  return mst_exchange_spot(&want);
}

// in_another starts a process that puts some texts and waits. Returns its pid; spots[] gets the
// places of its blocks.
static pid_t in_another(struct mst_spot *spots, size_t n, int *done) {
  int out[2], in[2];
  CHECK(pipe(out) == 0 && pipe(in) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    char byte;
    for (size_t i = 0; i < n; i++)
      spots[i] = spot_of((uint32_t)i, i == 0 ? "first" : "second");
    const ssize_t all = (ssize_t)(n * sizeof *spots);
    if (write(out[1], spots, n * sizeof *spots) != all) abort();
    (void)close(in[1]);
    (void)!read(in[0], &byte, 1);
    (void)kill(getpid(), SIGKILL);
  }
  (void)close(in[0]);
  (void)close(out[1]);
  CHECK(read(out[0], spots, n * sizeof *spots) == (ssize_t)(n * sizeof *spots));
  (void)close(out[0]);
  *done = in[1];
  return pid;
}

static void ask_at(uint32_t task, const struct mst_spot *spot) {
  const struct mst_source source = {
      .want = {1, task, 1}, .worker = 2, .spot = *spot};
  CHECK_INT(mst_exchange_ask(&source, 1, NULL), 0);
}

TEST("F1 Blocks are opened directly, without asking") {
  struct mst_spot spots[2];
  int done;
  if (!MST_HAVE_MEMFD || !MST_HAVE_PROC) mst_test_skip("no /proc, no memfd");
  const pid_t pid = in_another(spots, 2, &done);
  begin();
  CHECK_INT(spots[0].pid, pid);
  ask_at(0, &spots[0]);
  CHECK_INT(mst_exchange_wait(0), 0);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_HERE);
  check_text(0, "first");
  // Another segment, another process's token, a descriptor of another kind, a closed one.
  struct mst_spot wrong[4] = {spots[0], spots[1], spots[1], spots[1]};
  wrong[1].token++;
  wrong[2].fd = done; // of a pipe here; there it is closed or another
  wrong[3].fd = 900;
  for (int i = 0; i < 4; i++) {
    ask_at(1, &wrong[i]);
    CHECK_INT(mst_exchange_state(0), MST_FETCHED_NOT);
  }
  ask_at(1, &spots[1]);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_HERE);
  (void)close(done); // its process ends; opened segments stay
  CHECK_INT(waitpid(pid, NULL, 0), pid);
  check_text(1, "second");
  const struct mst_want all = {.stage = 1};
  mst_exchange_drop(&all);
  ask_at(0, &spots[0]);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_NOT);
  end(NULL);
}

TEST("F1 Blocks that can't be opened directly are asked for by a link, if "
     "there can be one") {
  const struct mst_spot spot = {.pid = (int32_t)getpid(), .token = 1};
  struct mst_chan far;
  if (!MST_HAVE_PROC) mst_test_skip("no /proc");
  begin();
  link_to(&far, 2, 0);
  (void)mst_fault_arm("share.look", 1, EACCES);
  ask_at(0, &spot);
  CHECK_INT(wanted(&far), 0);
  say_have(&far, 0, "asked for");
  wait_for(0);
  check_text(0, "asked for");
  mst_chan_close(&far);
  (void)mst_fault_arm("share.look", 1, EACCES);
  ask_at(1, &spot);
  wait_for(0);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_BARRED);
  (void)mst_fault_arm("share.look", 0, 0);
  end(NULL);
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

TEST("F1 The number of open questions on a link is limited") {
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

TEST("F1 After a link's end, invalid frames or a later incarnation, blocks "
     "aren't there") {
  struct mst_chan far;
  begin();
  link_to(&far, 2, 0);
  ask(2, 2, 0);
  CHECK_INT(wanted(&far), 0);
  mst_chan_close(&far);
  wait_for(0);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_NOT);
  CHECK_INT(mst_exchange_state(1), MST_FETCHED_NOT);
  link_to(&far, 2, 1);
  ask(1, 2, 0); // of the one before
  wait_for(0);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_NOT);
  ask(1, 2, 1);
  CHECK_INT(wanted(&far), 0);
  struct mst_head head = {.kind = MST_KIND_EXEC};
  CHECK_INT(mst_chan_send_small(&far, &head, "x", 1, 0, NULL), 0);
  wait_for(0);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_NOT);
  ask(1, MST_SOURCE_SELF, 0);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_NOT);
  end(&far);
}

TEST("F1 Blocks of a silent worker without known listeners aren't there, "
     "though they may still come") {
  const struct mst_exchange_way quick = {.again_ns = 100 * MST_NS_PER_MS,
                                         .silent_ns = 30 * MST_NS_PER_S};
  struct mst_chan far;
  begin();
  mst_exchange_set(&quick);
  link_to(&far, 2, 0);
  ask(1, 2, 0);
  CHECK_INT(wanted(&far), 0);
  wait_for(0);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_NOT);
  say_have(&far, 0, "late");
  say_have(&far, 0, "late"); // and twice
  do {
    ask(1, 2, 0);
    wait_for(0);
  } while (mst_exchange_state(0) != MST_FETCHED_HERE);
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
