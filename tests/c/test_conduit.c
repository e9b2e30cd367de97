// Tests of loop/conduit: two streams that don't wait for each other, held, cut and closed.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "base/mst_fault.h"
#include "loop/conduit.h"
#include "mst_test.h"

static struct mst_loop *loop;
static struct mst_conduit conduit;
static struct mst_chan data, control; // the worker's ends
static int output;

// What the owner was told.
static struct {
  int readable, controls;
  uint64_t call; // of the last frame of control
  char printed[64];
  size_t printed_bytes;
  int64_t later_ns;
} told;

static void readable(void *owner) {
  CHECK(owner == &told);
  told.readable++;
  (void)mst_conduit_fill(&conduit, NULL);
  if (conduit.data.ended) mst_conduit_deafen(&conduit);
}

static void controlled(void *owner, const struct mst_frame *frame) {
  CHECK(owner == &told);
  told.controls++;
  told.call = frame->head.call;
}

static void printed(void *owner, const char *bytes, size_t n) {
  CHECK(owner == &told);
  memcpy(told.printed + told.printed_bytes, bytes, n);
  told.printed_bytes += n;
}

static void put_off(void *owner, int64_t later_ns) {
  CHECK(owner == &told);
  told.later_ns = later_ns;
}

static void open_again(void) {
  struct mst_ends theirs;
  CHECK_INT(mst_conduit_open(&conduit, NULL, &theirs, NULL), 0);
  mst_chan_open(&data, theirs.fds[0], MST_FRAME_MAX);
  mst_chan_open(&control, theirs.fds[1], MST_FRAME_MAX_CONTROL);
  output = theirs.fds[2];
}

static void open_it(void) {
  static const struct mst_conduit_events events = {.readable = readable,
                                                   .control = controlled,
                                                   .printed = printed,
                                                   .put_off = put_off};
  memset(&told, 0, sizeof told);
  CHECK_INT(mst_loop_open(MST_LOOP_BEST, &loop, NULL), 0);
  mst_conduit_init(&conduit, loop, loop, &events, &told);
  open_again();
}

static void close_theirs(void) {
  mst_chan_close(&data);
  mst_chan_close(&control);
  mst_net_close(&output);
}

static void close_it(void) {
  mst_conduit_close(&conduit);
  close_theirs();
  mst_tail_free(&conduit.output.tail);
  mst_loop_close(loop);
}

static int run(void) { return mst_loop_run(loop, 0, NULL); }

static int say(uint64_t call) {
  struct mst_head head = {.kind = MST_KIND_CANCEL, .call = call};
  uint8_t payload[MST_CANCEL_BYTES];
  mst_cancel_encode(1, payload);
  return mst_conduit_say(&conduit, &head, payload, sizeof payload, NULL);
}

static int send_call(uint64_t call, size_t bytes) {
  struct mst_head head = {.kind = MST_KIND_EXEC, .call = call};
  struct mst_blob *payload = mst_blob_new();
  CHECK(payload != NULL && mst_buf_reserve(&payload->buf, bytes) == 0);
  memset(payload->buf.data, 'x', bytes);
  payload->buf.len = bytes;
  const int rc = mst_conduit_send(&conduit, &head, payload, NULL);
  mst_blob_release(payload);
  return rc;
}

static void answer(struct mst_chan *chan, uint64_t call) {
  struct mst_head head = {.kind = MST_KIND_VALUE, .call = call};
  CHECK_INT(mst_chan_send_small(chan, &head, "answer", 6, 0, NULL), 0);
}

// got gives the call of the next frame at a worker's end, 0 if there is none.
static uint64_t got(struct mst_chan *chan) {
  struct mst_frame frame;
  int found;
  while ((found = mst_chan_peek(chan, &frame, NULL)) == 0 &&
         mst_chan_fill(chan, 0, NULL) == 1)
    (void)run();
  if (found != 1) return 0;
  mst_chan_take(chan, &frame);
  return frame.head.call;
}

TEST("Control doesn't wait behind data that nobody reads") {
  open_it();
  uint64_t calls = 0;
  while (!mst_conduit_queued(&conduit))
    CHECK_INT(send_call(++calls, 100000), 0);
  CHECK_INT(say(7), 0);
  CHECK_INT(got(&control), 7);
  CHECK_INT(send_call(++calls, 10), 0);
  for (uint64_t i = 1; i <= calls; i++)
    CHECK_INT(got(&data), i); // the loop sends what was queued
  CHECK(!mst_conduit_queued(&conduit));
  CHECK_INT(told.later_ns, 0);
  close_it();
}

TEST("What the system had no room for is sent later, of both streams") {
  open_it();
  (void)mst_fault_arm("net.send", 1, ENOBUFS);
  CHECK_INT(say(1), 0);
  CHECK_INT(mst_fault_arm("net.send", 0, 0), 1);
  CHECK(mst_conduit_says(&conduit));
  CHECK(told.later_ns > 0);
  told.later_ns = 0;
  (void)mst_fault_arm("net.send", 1, ENOBUFS);
  CHECK_INT(send_call(2, 10), 0);
  CHECK_INT(mst_fault_arm("net.send", 0, 0), 1);
  CHECK(mst_conduit_queued(&conduit));
  CHECK(told.later_ns > 0);
  CHECK_INT(say(3), 0); // behind the first
  CHECK_INT(got(&control), 0);
  while (mst_clock_now() < told.later_ns)
    (void)run(); // writable sockets are no reason to try
  while (mst_conduit_queued(&conduit) || mst_conduit_says(&conduit))
    mst_conduit_flush(&conduit);
  CHECK_INT(got(&control), 1);
  CHECK_INT(got(&control), 3);
  CHECK_INT(got(&data), 2);
  close_it();
}

TEST("A full control stream goes on when the worker reads it") {
  open_it();
  uint64_t calls = 0;
  while (!mst_conduit_says(&conduit))
    CHECK_INT(say(++calls), 0);
  for (uint64_t i = 1; i <= calls; i++)
    CHECK_INT(got(&control), i);
  CHECK(!mst_conduit_says(&conduit));
  close_it();
}

TEST("A conduit that is held is read on where it was") {
  struct mst_frame frame;
  open_it();
  mst_conduit_hold(&conduit, 1);
  answer(&data, 5);
  answer(&control, 6);
  CHECK_INT(write(output, "text", 4), 4);
  while (run() > 0)
    ;
  CHECK_INT(told.readable, 0);
  CHECK_INT(told.controls, 1);
  CHECK_INT(told.call, 6);
  CHECK_INT(told.printed_bytes, 4);
  mst_conduit_hold(&conduit, 0);
  CHECK_INT(run(), 1);
  CHECK_INT(told.readable, 1);
  CHECK_INT(mst_chan_peek(&conduit.data, &frame, NULL), 1);
  CHECK_INT(frame.head.call, 5);
  close_it();
}

TEST("A deaf conduit keeps what was read, and reads no more") {
  struct mst_frame frame;
  open_it();
  answer(&data, 1);
  CHECK_INT(run(), 1);
  mst_conduit_deafen(&conduit);
  CHECK(!mst_conduit_listens(&conduit));
  answer(&data, 2);
  CHECK_INT(run(), 0);
  CHECK_INT(mst_chan_peek(&conduit.data, &frame, NULL), 1);
  CHECK_INT(frame.head.call, 1);
  mst_conduit_hold(&conduit, 0); // is no reason to listen again
  CHECK_INT(run(), 0);
  close_it();
}

TEST("A worker sees the end of what is cut, and of all that is closed") {
  open_it();
  CHECK_INT(send_call(1, 10), 0);
  mst_conduit_cut(&conduit);
  CHECK_INT(got(&data), 1);
  CHECK_INT(mst_chan_fill(&data, 0, NULL), -MST_ECLOSED);
  CHECK_INT(mst_chan_fill(&control, 0, NULL), -MST_EAGAIN);
  mst_conduit_cut_control(&conduit);
  CHECK_INT(mst_chan_fill(&control, 0, NULL), -MST_ECLOSED);
  mst_conduit_close(&conduit);
  mst_conduit_close(&conduit);
  CHECK_INT(say(2), -MST_ECLOSED);
  CHECK_INT(send_call(2, 10), -MST_ECLOSED);
  close_theirs();
  open_again();
  CHECK_INT(send_call(3, 10), 0);
  CHECK_INT(got(&data), 3);
  mst_conduit_break(&conduit);
  CHECK_INT(mst_chan_fill(&data, 0, NULL), -MST_ECLOSED);
  close_it();
}

static void open_without(const char *point, int nth) {
  struct mst_err err;
  struct mst_ends theirs;
  mst_err_clear(&err);
  (void)mst_fault_arm(point, nth, EMFILE);
  CHECK_INT(mst_conduit_open(&conduit, NULL, &theirs, &err), -MST_ESYS);
  CHECK_INT(mst_fault_arm(point, 0, 0), nth);
  CHECK_INT(err.sys_errno, EMFILE);
  for (int i = 0; i < 3; i++)
    CHECK_INT(theirs.fds[i], -1);
  CHECK_INT(conduit.data.fd, -1);
  CHECK_INT(conduit.control.fd, -1);
  CHECK_INT(conduit.output.io.fd, -1);
}

TEST("Without descriptors nothing of a conduit is left open") {
  open_it();
  mst_conduit_close(&conduit);
  close_theirs();
  open_without("net.pair", 1);
  open_without("net.pair", 2);
  open_without("net.pipe", 1);
  open_again();
  CHECK_INT(send_call(1, 10), 0);
  CHECK_INT(got(&data), 1);
  close_it();
}
