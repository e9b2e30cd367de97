// Tests of loop/chan with segments: which frame a segment belongs to, however the
// bytes are cut, and mismatches.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "base/mst_fault.h"
#include "loop/chan.h"
#include "mst_random.h"
#include "mst_test.h"

static struct mst_chan ours, theirs;

static void open_pair(void) {
  int pair[2];
  CHECK_INT(mst_net_pair(pair, NULL), 0);
  mst_chan_open(&ours, pair[0], MST_FRAME_MAX);
  mst_chan_open(&theirs, pair[1], MST_FRAME_MAX);
  theirs.takes_maps = 1;
}

static void close_pair(void) {
  mst_chan_close(&ours);
  mst_chan_close(&theirs);
  CHECK(theirs.maps == NULL);
}

static int count_fds(void) {
  int n = 0;
  for (int fd = 0; fd < 2048; fd++)
    n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

// payload_of makes an EXEC's payload whose segment begins with that letter; without a segment
// (letter 0) it has that size.
static struct mst_blob *payload_of(char letter, size_t more) {
  struct mst_blob *blob = mst_blob_new();
  static const uint8_t filler[4096];
  uint8_t size[MST_SEGMENT_BYTES];
  CHECK(blob != NULL);
  if (letter != 0) {
    NEEDS(MST_HAVE_MEMFD);
    CHECK_INT(mst_segment_open(&blob->segment, 1, NULL), 0);
    CHECK_INT(mst_segment_append(&blob->segment, &letter, 1, NULL), 0);
    CHECK_INT(mst_segment_seal(&blob->segment, NULL), 0);
    mst_segment_encode(blob->segment.bytes, size);
    CHECK_INT(mst_buf_append(&blob->buf, size, sizeof size), 0);
  }
  CHECK(more <= sizeof filler);
  CHECK_INT(mst_buf_append(&blob->buf, filler, more), 0);
  return blob;
}

static void send_one(uint64_t call, char letter, size_t more) {
  struct mst_head head = {.kind = MST_KIND_EXEC, .call = call};
  struct mst_blob *blob = payload_of(letter, more);
  CHECK_INT(mst_chan_send(&ours, &head, blob, NULL, 0, 0, NULL), 0);
  mst_blob_release(blob);
}

// next takes the next frame, and checks its number and its segment.
static void check_next(uint64_t call, char letter) {
  struct mst_frame frame;
  int rc;
  while ((rc = mst_chan_peek(&theirs, &frame, NULL)) == 0)
    CHECK_INT(mst_chan_fill(&theirs, 1, NULL), 1);
  CHECK_INT(rc, 1);
  CHECK_INT(frame.head.call, call);
  struct mst_map *map = mst_chan_map(&theirs, &frame);
  CHECK((map != NULL) == (letter != 0));
  if (map != NULL) CHECK_INT(map->data[0], letter);
  mst_chan_take(&theirs, &frame);
}

TEST("Each segment comes with its own frame") {
  const int before = count_fds();
  open_pair();
  send_one(1, 0, 10);
  send_one(2, 'b', 0);
  send_one(3, 'c', 100);
  send_one(4, 0, 0);
  send_one(5, 0, 4000);
  send_one(6, 'f', 4000);
  const char letters[] = {0, 'b', 'c', 0, 0, 'f'};
  for (uint64_t i = 0; i < 6; i++)
    check_next(i + 1, letters[i]);
  CHECK(theirs.maps == NULL);
  close_pair();
  CHECK_INT(count_fds(), before);
}

TEST("Frames keep their segments while they wait") {
  open_pair();
  for (uint64_t i = 1; i <= 20; i++)
    send_one(i, i % 3 == 0 ? (char)('a' + i) : 0, i * 7);
  for (int rc = 1; rc == 1;)
    rc = mst_chan_fill(&theirs, 0, NULL);
  for (uint64_t i = 1; i <= 20; i++)
    check_next(i, i % 3 == 0 ? (char)('a' + i) : 0);
  close_pair();
}

TEST("Segments that were queued go out with their frames") {
  open_pair();
  static const int small = 4608;
  (void)setsockopt(ours.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  for (uint64_t i = 1; i <= 30; i++)
    send_one(i, i % 2 == 0 ? (char)('a' + i) : 0, 4000);
  CHECK(ours.out_bytes > 0);
  for (uint64_t i = 1; i <= 30; i++) {
    const int rc = mst_chan_flush(&ours, NULL);
    CHECK(rc == 0 || rc == -MST_EAGAIN);
    struct mst_frame frame;
    while (mst_chan_peek(&theirs, &frame, NULL) == 0) {
      (void)mst_chan_flush(&ours, NULL);
      const int got = mst_chan_fill(&theirs, 0, NULL);
      CHECK(got == 1 || got == -MST_EAGAIN);
    }
    check_next(i, i % 2 == 0 ? (char)('a' + i) : 0);
  }
  close_pair();
}

// send_cut writes a frame's bytes up to `cut`, then the rest, the descriptor with the
// first byte.
static void send_cut(const uint8_t *bytes, size_t n, size_t cut, int fd,
                     int to_the_end) {
  struct iovec part;
  memcpy(&part.iov_base, &(const uint8_t *){bytes}, sizeof(void *));
  part.iov_len = cut;
  CHECK_INT(mst_net_sendv(ours.fd, &part, 1, &fd, fd < 0 ? 0 : 1, 0, NULL),
            (long long)cut);
  (void)mst_chan_fill(&theirs, 0, NULL);
  if (!to_the_end || cut == n) return;
  memcpy(&part.iov_base, &(const uint8_t *){bytes + cut}, sizeof(void *));
  part.iov_len = n - cut;
  CHECK_INT(mst_net_sendv(ours.fd, &part, 1, NULL, 0, 0, NULL),
            (long long)(n - cut));
}

// A frame with its payload as bytes; returns its length.
static size_t frame_of(const struct mst_blob *blob, uint64_t call,
                       uint16_t flags, uint8_t *bytes) {
  const struct mst_head head = {.kind = MST_KIND_EXEC,
                                .call = call,
                                .flags = flags,
                                .length = blob->buf.len};
  mst_head_encode(&head, bytes);
  memcpy(bytes + MST_HEAD_BYTES, blob->buf.data, blob->buf.len);
  return MST_HEAD_BYTES + blob->buf.len;
}

TEST("A frame with a segment may be cut at every byte, and end there") {
  const int before = count_fds();
  struct mst_blob *blob = payload_of('k', 5);
  uint8_t bytes[128];
  const size_t n = frame_of(blob, 7, MST_FLAG_SEGMENT, bytes);
  for (size_t cut = 1; cut <= n; cut++) {
    open_pair();
    send_one(6, 0, 3);
    send_cut(bytes, n, cut, blob->segment.fd, 1);
    send_one(8, 0, 3);
    check_next(6, 0);
    check_next(7, 'k');
    check_next(8, 0);
    close_pair();
    open_pair(); // and nothing more comes
    send_cut(bytes, n, cut, blob->segment.fd, 0);
    mst_chan_close(&ours);
    struct mst_frame frame;
    CHECK_INT(mst_chan_peek(&theirs, &frame, NULL), cut == n);
    CHECK_INT(mst_chan_fill(&theirs, 0, NULL), -MST_ECLOSED);
    close_pair();
  }
  mst_blob_release(blob);
  CHECK_INT(count_fds(), before);
}

// refused tells whether a frame sent with this descriptor is refused.
static int refused(struct mst_blob *blob, uint16_t flags, int fd, size_t cut) {
  uint8_t bytes[128];
  struct mst_frame frame;
  const size_t n = frame_of(blob, 1, flags, bytes);
  open_pair();
  send_cut(bytes, n, cut, fd, 1);
  int rc = mst_chan_peek(&theirs, &frame, NULL);
  for (int i = 0; rc == 0 && i < 3; i++) {
    rc = mst_chan_fill(&theirs, 0, NULL);
    if (rc == 1) rc = mst_chan_peek(&theirs, &frame, NULL);
  }
  close_pair();
  return rc == -MST_EPROTO;
}

TEST("A frame and its segment must fit") {
  const int before = count_fds();
  struct mst_blob *with = payload_of('k', 5), *other = payload_of(0, 20);
  const size_t n = MST_HEAD_BYTES + with->buf.len;
  for (size_t cut = 1; cut <= n; cut++) {
    CHECK(!refused(with, MST_FLAG_SEGMENT, with->segment.fd, cut));
    CHECK(refused(with, MST_FLAG_SEGMENT, -1, cut)); // none came
    CHECK(refused(with, 0, with->segment.fd, cut));  // nobody speaks of it
  }
  mst_segment_encode(with->segment.bytes + 1, with->buf.data); // another size
  CHECK(refused(with, MST_FLAG_SEGMENT, with->segment.fd, n));
  memset(with->buf.data, 0, MST_SEGMENT_BYTES);
  CHECK(refused(with, MST_FLAG_SEGMENT, with->segment.fd, n));
  with->buf.len = MST_SEGMENT_BYTES - 1; // no room for a size
  CHECK(refused(with, MST_FLAG_SEGMENT, with->segment.fd, MST_HEAD_BYTES));
  int pipe_fds[2];
  CHECK_INT(mst_net_pipe(pipe_fds, NULL), 0);
  CHECK(refused(other, MST_FLAG_SEGMENT, pipe_fds[0], 30)); // no segment at all
  mst_net_close(&pipe_fds[0]);
  mst_net_close(&pipe_fds[1]);
  mst_blob_release(with);
  mst_blob_release(other);
  CHECK_INT(count_fds(), before);
}

TEST("A channel that takes no segments refuses their frames") {
  struct mst_frame frame;
  open_pair();
  theirs.takes_maps = 0;
  send_one(1, 'a', 0);
  CHECK_INT(mst_chan_fill(&theirs, 1, NULL), 1);
  CHECK_INT(mst_chan_peek(&theirs, &frame, NULL), -MST_EPROTO);
  close_pair();
}

TEST("If memory is short a segment is missing, but its frame is there") {
  struct mst_frame frame;
  open_pair();
  send_one(1, 'a', 0);
  send_one(2, 'b', 0);
  mst_fault_arm("share.map", 1, ENOMEM);
  CHECK_INT(mst_chan_fill(&theirs, 1, NULL), 1);
  mst_fault_arm("", 0, 0);
  CHECK_INT(mst_chan_peek(&theirs, &frame, NULL), 1);
  CHECK((frame.head.flags & MST_FLAG_SEGMENT) != 0);
  CHECK(mst_chan_map(&theirs, &frame) == NULL);
  mst_chan_take(&theirs, &frame);
  check_next(2, 'b');
  close_pair();
}

TEST("A shared payload keeps its segment until the last reference goes") {
  const int before = count_fds();
  struct mst_blob *blob = payload_of('s', 0);
  blob->refs += 2;
  CHECK_INT(mst_blob_bytes(blob), MST_SEGMENT_BYTES + MST_SEGMENT_ALIGN);
  for (int i = 0; i < 3; i++) {
    open_pair();
    struct mst_head head = {.kind = MST_KIND_EXEC, .call = 1};
    CHECK_INT(mst_chan_send(&ours, &head, blob, NULL, 0, 0, NULL), 0);
    mst_blob_release(blob);
    check_next(1, 's');
    close_pair();
  }
  CHECK_INT(count_fds(), before);
}

// detach_next detaches the next frame, and checks it after the contents of the buffer have moved.
static void detach_next(uint64_t call, char letter, size_t length) {
  struct mst_frame frame;
  struct mst_buf bytes;
  const uint8_t *payload;
  while (mst_chan_peek(&theirs, &frame, NULL) == 0)
    CHECK_INT(mst_chan_fill(&theirs, 1, NULL), 1);
  const struct mst_head head = frame.head;
  struct mst_map *map = mst_map_hold(mst_chan_map(&theirs, &frame));
  mst_fault_arm("base.realloc", 1, ENOMEM);
  const int failed = mst_chan_detach(&theirs, &frame, &bytes, &payload);
  mst_fault_arm("", 0, 0);
  if (failed != 0) { // nothing has changed
    CHECK_INT(failed, -MST_EMEM);
    CHECK_INT(mst_chan_peek(&theirs, &frame, NULL), 1);
    CHECK_INT(mst_chan_detach(&theirs, &frame, &bytes, &payload), 0);
  }
  send_one(1000, 0, 4096);
  CHECK_INT(mst_chan_fill(&theirs, 0, NULL), 1);
  CHECK_INT(head.call, call);
  CHECK_INT(head.length, length);
  for (size_t i = letter == 0 ? 0 : MST_SEGMENT_BYTES; i < length; i++)
    CHECK_INT(payload[i], 0);
  CHECK((map != NULL) == (letter != 0));
  if (map != NULL) CHECK_INT(map->data[0], letter);
  mst_map_release(map);
  mst_buf_free(&bytes);
}

TEST("A detached frame belongs to the reader, and the bytes behind it stay") {
  static const size_t sizes[] = {1, 4000, 0, 300, 4096, 17};
  const int before = count_fds();
  for (size_t first = 0; first < 6; first++) {
    open_pair();
    for (size_t i = 0; i < 6; i++)
      send_one(i, i % 2 == 1 ? 'k' : 0, sizes[(first + i) % 6]);
    for (size_t i = 0; i < 6; i++) {
      const size_t more = i % 2 == 1 ? MST_SEGMENT_BYTES : 0;
      detach_next(i, i % 2 == 1 ? 'k' : 0, sizes[(first + i) % 6] + more);
    }
    for (size_t i = 0; i < 6; i++)
      check_next(1000, 0);
    CHECK(theirs.maps == NULL);
    CHECK_INT(theirs.in.len, 0);
    close_pair();
  }
  CHECK_INT(count_fds(), before);
}

// begin_one sends a frame of which only the first part gets out, before the send fails.
static void begin_one(int number) {
  struct mst_head head = {.kind = MST_KIND_EXEC, .call = 1};
  struct mst_blob *blob = mst_blob_new();
  CHECK(blob != NULL);
  for (int i = 0; i < 1024; i++) {
    static const uint8_t filler[4096];
    CHECK_INT(mst_buf_append(&blob->buf, filler, sizeof filler), 0);
  }
  (void)mst_fault_arm("net.send", 2, number);
  CHECK_INT(mst_chan_send(&ours, &head, blob, NULL, 0, 0, NULL), 0);
  CHECK_INT(mst_fault_arm("net.send", 0, 0), 2);
  mst_blob_release(blob);
}

TEST("A frame that breaks off was sent, and the end shows when reading") {
  static const int numbers[] = {EPIPE, ECONNRESET, EIO};
  for (int i = 0; i < 3; i++) {
    open_pair();
    begin_one(numbers[i]);
    CHECK_INT(ours.out_bytes, 0);
    CHECK_INT(mst_chan_fill(&ours, 1, NULL), -MST_ECLOSED);
    while (mst_chan_fill(&theirs, 1, NULL) == 1)
      ;
    CHECK_INT(theirs.ended, 1);
    struct mst_frame frame;
    size_t have = 0;
    CHECK_INT(mst_chan_begun(&theirs, &frame, &have), 1);
    CHECK(have > 0);
    close_pair();
    open_pair(); // nothing was sent: an error
    (void)mst_fault_arm("net.send", 1, numbers[i]);
    struct mst_head head = {.kind = MST_KIND_EXEC, .call = 1};
    CHECK(mst_chan_send(&ours, &head, NULL, NULL, 0, 0, NULL) < 0);
    close_pair();
  }
}

// After one shortage of the system a frame waits for a time, not for the socket.
static void find_no_room(int number, char fill) {
  open_pair();
  (void)mst_fault_arm("net.send", 1, number);
  send_one(1, fill, 100);
  CHECK(ours.out_first != NULL);
  CHECK(!mst_chan_wants_write(&ours));
  const int64_t later_ns = mst_chan_later_ns(&ours);
  CHECK(later_ns > mst_clock_now() - MST_NS_PER_S && later_ns != INT64_MAX);
  (void)mst_fault_arm("net.send", 1, number);
  while (mst_chan_flush(&ours, NULL) == -MST_EAGAIN &&
         mst_chan_later_ns(&ours) == later_ns)
    ;
  CHECK(mst_chan_later_ns(&ours) > later_ns); // the second try failed as well
  CHECK_INT(mst_fault_arm("net.send", 0, 0), 1);
  while (mst_chan_flush(&ours, NULL) == -MST_EAGAIN)
    ;
  CHECK_INT(mst_chan_later_ns(&ours), INT64_MAX);
  send_one(2, 0, 100);
  CHECK_INT(mst_chan_fill(&theirs, 0, NULL), 1);
  if (fill != 0) (void)mst_chan_fill(&theirs, 0, NULL);
  check_next(1, fill);
  check_next(2, 0);
  close_pair();
}

TEST("Frames held back by a shortage of the system are sent later, without "
     "spinning") {
  find_no_room(ENOBUFS, 0);
  find_no_room(ENOMEM, 0);
  find_no_room(ETOOMANYREFS, 'x');
}

// with_no_room calls run() while this process can't have another descriptor.
static void with_no_room(void (*run)(void)) {
  struct rlimit before, none;
  CHECK_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest = dup(ours.fd);
  CHECK(lowest >= 0);
  CHECK_INT(close(lowest), 0);
  none = before;
  none.rlim_cur = (rlim_t)lowest;
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
  run();
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void fill_theirs(void) {
  while (mst_chan_fill(&theirs, 0, NULL) == 1) {
  }
}

TEST(
    "C5: A segment that there is no descriptor for is lost, and nothing else") {
  NEEDS(MST_HAVE_MEMFD);
  const int before = count_fds();
  struct mst_frame frame;
  for (int keeps = 0; keeps < 2; keeps++) {
    open_pair();
    theirs.keeps_fds = (uint8_t)keeps;
    send_one(1, 0, 100);
    send_one(2, 'b', 100);
    send_one(3, 0, 100);
    with_no_room(fill_theirs);
    send_one(4, 'd', 100);
    check_next(1, 0);
    CHECK_INT(mst_chan_peek(&theirs, &frame, NULL), 1);
    CHECK_INT(frame.head.call, 2);
    CHECK(mst_map_is_lost(mst_chan_map(&theirs, &frame)));
    mst_chan_take(&theirs, &frame);
    check_next(3, 0);
    check_next(4, 'd');
    close_pair();
  }
  CHECK_INT(count_fds(), before);
}

TEST("C6: A frame that is dropped before it is complete leaves later ones "
     "intact") {
  enum { BYTES = 3 << 20 };
  static uint8_t filler[BYTES];
  const int before = count_fds();
  for (int with_segment = 0; with_segment < 2; with_segment++) {
    struct mst_frame frame;
    size_t have = 0;
    open_pair();
    send_one(1, 'a', 100);
    struct mst_blob *large = payload_of(with_segment ? 'b' : 0, 100);
    CHECK_INT(mst_buf_append(&large->buf, filler, BYTES), 0);
    struct mst_head head = {.kind = MST_KIND_EXEC, .call = 2};
    CHECK_INT(mst_chan_send(&ours, &head, large, NULL, 0, 0, NULL), 0);
    mst_blob_release(large);
    send_one(3, 'c', 100);
    CHECK(ours.out_first != NULL); // it doesn't fit into the socket
    CHECK_INT(mst_chan_begun(&theirs, &frame, &have), 0);
    check_next(1, 'a');
    while (mst_chan_begun(&theirs, &frame, &have) == 0)
      CHECK_INT(mst_chan_fill(&theirs, 0, NULL), 1);
    CHECK_INT(frame.head.call, 2);
    CHECK(have < frame.head.length);
    mst_chan_drop(&theirs, &frame);
    CHECK(theirs.maps == NULL);
    // The rest of it needs no memory.
    CHECK_INT(mst_fault_arm("base.realloc", 1, ENOMEM) >= 0, 1);
    while (ours.out_first != NULL || theirs.skip > 0) {
      (void)mst_chan_flush(&ours, NULL);
      if (theirs.skip > 0) CHECK_INT(mst_chan_fill(&theirs, 0, NULL), 1);
    }
    CHECK_INT(mst_fault_arm("", 0, 0), 0);
    check_next(3, 'c');
    close_pair();
  }
  CHECK_INT(count_fds(), before);
}
