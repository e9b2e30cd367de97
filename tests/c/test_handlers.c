// Tests of shuffle/handlers: a worker's listeners, and connections to other workers' listeners.
#include <errno.h>
#include <sys/stat.h>

#include "mst_handlers_test.h"

TEST("F3 A reader dials the listener of its number, says MEET, and asks when "
     "it has heard MET") {
  struct mst_chan far;
  int fds[2];
  begin_listeners(fds, 2, MST_BACKLOG_MOST);
  know(2);
  ask(2, OTHER, 2);
  accept_one(fds[ME % 2], &far);
  const struct mst_meet meet = hear_meet(&far);
  struct pollfd quiet = {.fd = far.fd, .events = POLLIN};
  CHECK_INT(poll(&quiet, 1, AGAIN_MS / 3), 0);
  say_meet(&far, MST_KIND_MET, &meet);
  CHECK_INT(wanted(&far), 0);
  CHECK_INT(wanted(&far), 1);
  say_have(&far, 0, "first");
  say(&far, MST_KIND_NONE, 1);
  wait_for(0);
  check_text(0, "first");
  ask(6, OTHER, 2); // on the same connection
  for (uint32_t t = 1; t < 6; t++)
    CHECK_INT(wanted(&far), t);
  CHECK_INT(counts_now().dialled, 1);
  CHECK_INT(counts_now().met, 1);
  for (int i = 0; i < 2; i++)
    mst_net_close(&fds[i]);
  finish(&far);
}

TEST("F3 A reader that finds a queue full goes to the next listener") {
  struct mst_chan far;
  struct mst_addr addr;
  int fds[3], crowd[8];
  size_t n = 0;
  begin_listeners(fds, 3, 1);
  addr = address(folder, ME % 3);
  while (n < 8 && mst_net_dial(&addr, &crowd[n], NULL) == 0)
    n++;
  CHECK(n > 0 && n < 8);
  know(3);
  ask(1, OTHER, 2);
  welcome(fds[(ME + 1) % 3], &far);
  CHECK_INT(wanted(&far), 0);
  say_have(&far, 0, "through the next");
  wait_for(0);
  check_text(0, "through the next");
  CHECK_INT(counts_now().full, 1);
  CHECK_INT(counts_now().dialled, 2);
  for (int i = 0; i < 3; i++)
    mst_net_close(&fds[i]);
  while (n > 0)
    mst_net_close(&crowd[--n]);
  finish(&far);
}

TEST("F3 While all queues are full a reader tries again, until one has room") {
  struct mst_chan far;
  struct mst_addr addr;
  int listener, crowd[8], fd;
  size_t n = 0;
  make_folder();
  begin();
  patient();
  listener = listen_there(0, 1);
  addr = address(folder, 0);
  while (n < 8 && mst_net_dial(&addr, &crowd[n], NULL) == 0)
    n++;
  know(1);
  ask(1, OTHER, 2);
  const int64_t end_ns = mst_clock_now() + 30 * MST_NS_PER_S;
  while (counts_now().full < 3)
    CHECK(mst_clock_now() < end_ns);
  for (size_t i = 0; i < n; i++) {
    CHECK_INT(mst_net_accept(listener, &fd, NULL, NULL), 0);
    mst_net_close(&fd);
    mst_net_close(&crowd[i]);
  }
  welcome(listener, &far);
  CHECK_INT(wanted(&far), 0);
  say(&far, MST_KIND_NONE, 0);
  wait_for(0);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_NOT);
  CHECK(counts_now().dialled < 100); // with pauses
  mst_net_close(&listener);
  finish(&far);
}

TEST("F3 A reader leaves a silent listener for the next one") {
  struct mst_chan first, far;
  int fds[2];
  begin_listeners(fds, 2, MST_BACKLOG_MOST);
  quick(5000);
  know(2);
  ask(1, OTHER, 2);
  accept_one(fds[ME % 2], &first);
  (void)hear_meet(&first);
  welcome(fds[(ME + 1) % 2], &far);
  CHECK(ends(&first));
  CHECK_INT(wanted(&far), 0);
  say(&far, MST_KIND_NONE, 0);
  wait_for(0);
  mst_chan_close(&first);
  for (int i = 0; i < 2; i++)
    mst_net_close(&fds[i]);
  finish(&far);
}

TEST("F3 If a listener's process is gone, its blocks are reported missing at "
     "once") {
  make_folder();
  begin();
  patient();
  know(2); // there are none
  ask(3, OTHER, 2);
  wait_for(0);
  for (size_t i = 0; i < 3; i++)
    CHECK_INT(mst_exchange_state(i), MST_FETCHED_NOT);
  int listener = listen_there(0, 1);
  mst_net_close(&listener); // its file is still there
  struct mst_place place = {
      .worker = OTHER, .epoch = 5, .handlers = 1, .folder = folder};
  CHECK_INT(mst_exchange_knows(&place, NULL), 0);
  // On systems where a full queue also refuses, it takes as long as for a silent listener.
  const int unsure = mst_net_dial_is_full(ECONNREFUSED);
  if (unsure) quick(2 * AGAIN_MS);
  ask(1, OTHER, 5);
  wait_for(0);
  CHECK_INT(mst_exchange_state(0),
            unsure ? MST_FETCHED_SILENT : MST_FETCHED_NOT);
  ask(1, OTHER, 2); // of an earlier incarnation
  wait_for(0);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_NOT);
  finish(NULL);
}

// ---- the listening side

static uint8_t token[MST_TOKEN_BYTES];

static void dial(unsigned handler, struct mst_chan *far) {
  char where[80];
  int fd = -1;
  (void)snprintf(where, sizeof where, "%s/own", folder);
  const struct mst_addr addr = address(where, handler);
  CHECK_INT(mst_net_dial(&addr, &fd, NULL), 0);
  mst_chan_open(far, fd, 1 << 20);
  far->takes_maps = 1;
}

static struct mst_meet good_meet(void) {
  struct mst_meet meet = {
      .worker = OTHER, .epoch = 2, .other_worker = ME, .other_epoch = 1};
  memcpy(meet.token, token, sizeof token);
  return meet;
}

static void begin_listening(uint32_t count) {
  char where[80];
  struct stat at;
  make_folder();
  begin();
  patient();
  (void)snprintf(where, sizeof where, "%s/own", folder);
  CHECK_INT(mst_exchange_listen(where, count, token, NULL), 0);
  CHECK(stat(where, &at) == 0 && (at.st_mode & 077) == 0);
}

static void finish_listening(struct mst_chan *far) {
  char path[128];
  end(far);
  for (int i = 0; i < 16; i++) {
    (void)snprintf(path, sizeof path, "%s/own/%d", folder, i);
    (void)unlink(path);
  }
  (void)snprintf(path, sizeof path, "%s/own", folder);
  CHECK_INT(rmdir(path), 0);
  remove_folder();
}

TEST("F3 Each listener accepts peers that know its worker, and answers them") {
  struct mst_chan far[3];
  struct mst_frame frame;
  struct mst_meet met;
  uint8_t again[MST_TOKEN_BYTES];
  char where[80];
  begin_listening(2);
  (void)snprintf(where, sizeof where, "%s/own", folder);
  CHECK_INT(mst_exchange_listen(where, 3, again, NULL), 0); // one more
  CHECK(memcmp(token, again, sizeof token) == 0);
  put_text(0, "to be read");
  for (unsigned i = 0; i < 3; i++) {
    struct mst_meet meet = good_meet();
    meet.worker = OTHER + i;
    dial(i, &far[i]);
    say_meet(&far[i], MST_KIND_MEET, &meet);
    say(&far[i], MST_KIND_WANT, 0);
    next_frame(&far[i], &frame);
    CHECK_INT(frame.head.kind, MST_KIND_MET);
    CHECK_INT(mst_meet_decode(frame.payload, (size_t)frame.head.length, &met),
              0);
    CHECK(mst_meet_same(&met, &meet));
    mst_chan_take(&far[i], &frame);
    next_frame(&far[i], &frame);
    CHECK_INT(frame.head.kind, MST_KIND_HAVE);
    CHECK(is_told(&far[i], &frame, "to be read"));
    mst_chan_take(&far[i], &frame);
    CHECK_INT(counts_now().asked[i], 1);
  }
  CHECK_INT(links_now(), 3);
  CHECK_INT(counts_now().refused, 0);
  // A reader that didn't hear MET comes again; both are served.
  struct mst_chan second;
  const struct mst_meet meet = good_meet();
  dial(1, &second);
  say_meet(&second, MST_KIND_MEET, &meet);
  next_frame(&second, &frame);
  CHECK_INT(frame.head.kind, MST_KIND_MET);
  mst_chan_close(&second);
  mst_chan_close(&far[1]);
  mst_chan_close(&far[2]);
  finish_listening(&far[0]);
}

static void check_closed(const struct mst_meet *meet, uint8_t kind) {
  struct mst_chan far;
  dial(0, &far);
  say_meet(&far, kind, meet);
  CHECK(ends(&far));
  mst_chan_close(&far);
}

TEST("F3 A peer without the token, for another worker, or silent is closed") {
  struct mst_chan far;
  begin_listening(1);
  const struct mst_meet good = good_meet();
  struct mst_meet bad = good;
  bad.token[15] ^= 1;
  check_closed(&bad, MST_KIND_MEET);
  bad = good;
  bad.other_epoch++;
  check_closed(&bad, MST_KIND_MEET);
  bad = good;
  bad.other_worker++;
  check_closed(&bad, MST_KIND_MEET);
  check_closed(&good, MST_KIND_MET);
  CHECK_INT(counts_now().refused, 4);
  // Only a MEET is read from an unknown peer: no larger frame, no segment.
  patient();
  dial(0, &far);
  say_have(&far, 0, "too early");
  CHECK(ends(&far));
  mst_chan_close(&far);
  const struct mst_head large = {.kind = MST_KIND_MEET, .length = 4096};
  uint8_t head[MST_HEAD_BYTES];
  mst_head_encode(&large, head);
  dial(0, &far);
  CHECK(write(far.fd, head, sizeof head) == (ssize_t)sizeof head);
  CHECK(ends(&far));
  mst_chan_close(&far);
  quick(5000);
  dial(0, &far);
  const int64_t begin_ns = mst_clock_now();
  CHECK(ends(&far));
  CHECK(mst_clock_now() - begin_ns >= (AGAIN_MS - 5) * MST_NS_PER_MS);
  CHECK_INT(links_now(), 0);
  finish_listening(&far);
}

TEST(
    "F3 A folder that others can access, or a file, isn't used for listeners") {
  char path[128];
  struct mst_err err;
  make_folder();
  begin();
  patient();
  (void)snprintf(path, sizeof path, "%s/open", folder);
  CHECK_INT(mkdir(path, 0755), 0);
  CHECK_INT(mst_exchange_listen(path, 1, token, &err), -MST_ECONNECT);
  CHECK_INT(err.sys_errno, EACCES);
  CHECK_INT(rmdir(path), 0);
  (void)snprintf(path, sizeof path, "%s/none/there", folder);
  CHECK_INT(mst_exchange_listen(path, 1, token, &err), -MST_ECONNECT);
  CHECK_INT(err.sys_errno, ENOENT);
  finish(NULL);
}

TEST("F3 A folder whose path is too long for an address works through /proc, "
     "or is refused without it") {
  char where[400];
  struct mst_err err;
  make_folder();
  begin();
  patient();
  (void)snprintf(where, sizeof where, "%s/%0200d", folder, 1);
  if (!MST_HAVE_PROC) {
    CHECK_INT(mst_exchange_listen(where, 2, token, &err), -MST_ECONNECT);
    CHECK_INT(err.sys_errno, ENAMETOOLONG);
    CHECK(strstr(err.text, "TMPDIR") != NULL);
    CHECK_INT(rmdir(where), 0);
    finish(NULL);
    return;
  }
  CHECK_INT(mst_exchange_listen(where, 2, token, NULL), 0);
  // It dials itself, as if it were another.
  struct mst_place place = {
      .worker = ME, .epoch = 1, .handlers = 2, .folder = where};
  memcpy(place.token, token, sizeof token);
  CHECK_INT(mst_exchange_knows(&place, NULL), 0);
  ask(1, ME, 1);
  const int64_t end_ns = mst_clock_now() + 30 * MST_NS_PER_S;
  while (counts_now().accepted == 0)
    CHECK(mst_clock_now() < end_ns);
  end(NULL);
  for (int i = 0; i < 2; i++) {
    char path[420];
    (void)snprintf(path, sizeof path, "%s/%d", where, i);
    CHECK_INT(unlink(path), 0);
  }
  CHECK_INT(rmdir(where), 0);
  remove_folder();
}

TEST("F3 Two workers that dial each other at once keep the lower number's "
     "connection") {
  struct mst_chan mine, theirs;
  struct mst_frame frame;
  begin_listening(1);
  int listener = listen_there(0, MST_BACKLOG_MOST);
  know(1);
  ask(1, OTHER, 2);
  accept_one(listener, &mine); // on its way: MET isn't said
  struct mst_meet meet = hear_meet(&mine);
  struct mst_meet other = good_meet();
  dial(0, &theirs);
  say_meet(&theirs, MST_KIND_MEET, &other);
  CHECK(ends(&theirs)); // 8 is above 3
  mst_chan_close(&theirs);
  say_meet(&mine, MST_KIND_MET, &meet);
  CHECK_INT(wanted(&mine), 0);
  CHECK_INT(links_now(), 1);
  mst_chan_close(&mine);
  wait_links(0);
  // Now as the worker with the higher number.
  struct mst_exchange_way way = {.worker = OTHER + 1,
                                 .epoch = 1,
                                 .again_ns = AGAIN_MS * MST_NS_PER_MS,
                                 .silent_ns = 5 * MST_NS_PER_S};
  mst_exchange_set(&way);
  ask(1, OTHER, 2);
  accept_one(listener, &mine);
  next_frame(&mine, &frame);
  other.other_worker = OTHER + 1;
  dial(0, &theirs);
  say_meet(&theirs, MST_KIND_MEET, &other);
  next_frame(&theirs, &frame);
  CHECK_INT(frame.head.kind, MST_KIND_MET);
  mst_chan_take(&theirs, &frame);
  CHECK_INT(wanted(&theirs), 0); // and asks there
  CHECK_INT(links_now(), 1);
  mst_chan_close(&mine);
  mst_net_close(&listener);
  finish_listening(&theirs);
}
