// Tests of fork/watch: a worker's second thread.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "fork/fork.h"
#include "loop/chan.h"
#include "mst_net_test.h"

#define PINGS 400u
#define PAYLOAD 900u

// A worker in a group of its own, since its watch ends the whole group.
static pid_t start_worker(int fd, int other) {
  const pid_t session = getpid();
  (void)fflush(NULL);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  (void)setpgid(0, 0);
  mst_net_close(&other);
  mst_watch_invite(NULL); // as tests of the exchange may have done
  if (mst_watch_start(fd, -1, session, NULL) != 0) _exit(1);
  for (;;)
    (void)pause();
}

// A session that asks and doesn't read: the answers fill the socket, and some are dropped. Those
// that it reads are complete.
TEST("Answers to pings are complete or missing, however full the socket is") {
  int pair[2], status = 0;
  static const int small = 4608;
  // A unix socket takes a small frame whole or not at all; TCP takes what fits.
  connected_pair(&pair[0], &pair[1]);
  (void)setsockopt(pair[0], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  (void)setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  const pid_t pid = start_worker(pair[1], pair[0]);
  CHECK(pid > 0);
  mst_net_close(&pair[1]);
  struct mst_chan chan;
  mst_chan_open(&chan, pair[0], MST_FRAME_MAX_CONTROL);
  uint8_t payload[PAYLOAD];
  uint32_t answers = 0;
  uint64_t last = 0;
  for (uint64_t i = 1; i <= PINGS; i++) {
    struct mst_head head = {.kind = MST_KIND_PING, .call = i};
    memset(payload, (int)(i % 251), sizeof payload);
    CHECK_INT(
        mst_chan_send_small(&chan, &head, payload, sizeof payload, 0, NULL), 0);
    if (i % 40 != 0 && i != PINGS) continue;
    // Now it reads until the answer to a last, or a repeated, ping is there.
    const int64_t until_ns = mst_clock_now() + 30 * MST_NS_PER_S;
    while (last < i && mst_clock_now() < until_ns) {
      struct mst_frame frame;
      const int got = mst_chan_fill(&chan, 0, NULL);
      CHECK(got == 1 || got == -MST_EAGAIN);
      int found;
      while ((found = mst_chan_peek(&chan, &frame, NULL)) == 1) {
        CHECK_INT(frame.head.kind, MST_KIND_PONG);
        CHECK_INT(frame.head.length, PAYLOAD);
        CHECK(frame.head.call >= last); // some are repeated
        last = frame.head.call;
        for (uint32_t k = 0; k < PAYLOAD; k++)
          CHECK_INT(frame.payload[k], (int)(last % 251));
        answers++;
        mst_chan_take(&chan, &frame);
      }
      CHECK_INT(found, 0);
      (void)mst_chan_flush(&chan, NULL);
      if (got != -MST_EAGAIN || last >= i) continue;
      if (chan.out_first == NULL) {
        (void)mst_chan_send_small(&chan, &head, payload, sizeof payload, 0,
                                  NULL);
      }
      (void)usleep(1000);
    }
    CHECK(last >= i);
  }
  CHECK(answers >= 10);
  mst_chan_close(&chan); // the end of its session's channel ends the worker
  while (waitpid(pid, &status, 0) != pid)
    ;
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

// A worker whose R thread takes the calls whose numbers it reads, and tells what becomes of them.
static pid_t start_taker(int fd, int other, int orders, int answers) {
  const pid_t session = getpid();
  (void)fflush(NULL);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  (void)setpgid(0, 0);
  mst_net_close(&other);
  mst_watch_invite(NULL);
  if (mst_watch_start(fd, -1, session, NULL) != 0) _exit(1);
  uint8_t call;
  while (read(orders, &call, 1) == 1) {
    const uint8_t take = (uint8_t)mst_watch_call_begin(call);
    if (write(answers, &take, 1) != 1) break;
  }
  for (;;)
    (void)pause();
}

// withdrawn_before_pong sends a ping after what was sent, and gives the call of a WITHDRAW that
// comes back before the answer, or 0.
static uint64_t withdrawn_before_pong(struct mst_chan *chan) {
  static const uint64_t nonce = 7;
  struct mst_head ping = {.kind = MST_KIND_PING};
  CHECK_INT(mst_chan_send_small(chan, &ping, &nonce, sizeof nonce, 1, NULL), 0);
  uint64_t call = 0;
  for (;;) {
    struct mst_frame frame;
    const int found = mst_chan_peek(chan, &frame, NULL);
    CHECK(found >= 0);
    if (found == 0) {
      const int got = mst_chan_fill(chan, 0, NULL);
      CHECK(got == 1 || got == -MST_EAGAIN);
      (void)usleep(1000);
      continue;
    }
    const struct mst_head head = frame.head;
    mst_chan_take(chan, &frame);
    if (head.kind == MST_KIND_PONG) return call;
    CHECK_INT(head.kind, MST_KIND_WITHDRAW);
    CHECK_INT(head.epoch, 5);
    CHECK_INT(head.length, 0);
    call = head.call;
  }
}

static uint64_t withdraw(struct mst_chan *chan, uint64_t call) {
  struct mst_head head = {.kind = MST_KIND_WITHDRAW, .call = call, .epoch = 5};
  CHECK_INT(mst_chan_send(chan, &head, NULL, NULL, 0, 1, NULL), 0);
  return withdrawn_before_pong(chan);
}

static int begin(const int orders[2], const int answers[2], uint8_t call) {
  uint8_t take = 99;
  CHECK_INT(write(orders[1], &call, 1), 1);
  CHECK_INT(read(answers[0], &take, 1), 1);
  return take;
}

TEST("A call is withdrawn until it begins, and then passed over once") {
  int pair[2], orders[2], answers[2], status = 0;
  connected_pair(&pair[0], &pair[1]);
  CHECK_INT(pipe(orders), 0);
  CHECK_INT(pipe(answers), 0);
  const pid_t pid = start_taker(pair[1], pair[0], orders[0], answers[1]);
  CHECK(pid > 0);
  mst_net_close(&pair[1]);
  struct mst_chan chan;
  mst_chan_open(&chan, pair[0], MST_FRAME_MAX_CONTROL);
  CHECK_INT(begin(orders, answers, 1), MST_TAKE_EVALUATE);
  CHECK_INT(withdraw(&chan, 1), 0); // it has begun
  CHECK_INT(withdraw(&chan, 2), 2);
  CHECK_INT(begin(orders, answers, 2), MST_TAKE_WITHDRAWN);
  CHECK_INT(withdraw(&chan, 2), 0); // it has met it
  CHECK_INT(begin(orders, answers, 3), MST_TAKE_EVALUATE);
  CHECK_INT(begin(orders, answers, 0), MST_TAKE_EVALUATE); // replayed
  // It keeps few in mind, and says nothing to others.
  for (uint64_t call = 4; call <= 7; call++)
    CHECK_INT(withdraw(&chan, call), call);
  CHECK_INT(withdraw(&chan, 8), 0);
  for (uint8_t call = 4; call <= 7; call++)
    CHECK_INT(begin(orders, answers, call), MST_TAKE_WITHDRAWN);
  CHECK_INT(begin(orders, answers, 8), MST_TAKE_EVALUATE);
  mst_chan_close(&chan);
  while (waitpid(pid, &status, 0) != pid)
    ;
  for (int i = 0; i < 2; i++) {
    mst_net_close(&orders[i]);
    mst_net_close(&answers[i]);
  }
}
