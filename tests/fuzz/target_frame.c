// Target: mst_head_decode and mst_frame_parse.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "wire/wire.h"

// What is decoded must encode to the same bytes.
static void check_head(const uint8_t *bytes, const struct mst_head *head) {
  uint8_t again[MST_HEAD_BYTES];
  mst_head_encode(head, again);
  FUZZ_CHECK(memcmp(again, bytes, sizeof again) == 0);
}

static int parse(const uint8_t *bytes, size_t n, uint64_t length_max) {
  struct mst_frame frame;
  uint64_t used = 7;
  const int rc = mst_frame_parse(bytes, n, length_max, &frame, &used);
  FUZZ_CHECK(rc == 1 || rc == 0 || rc == -MST_EPROTO || rc == -MST_ELIMIT);
  if (rc < 0) FUZZ_CHECK(used == 0);
  if (rc == 0) FUZZ_CHECK(n < MST_HEAD_BYTES ? used == 0 : used > n);
  FUZZ_CHECK(used <= MST_HEAD_BYTES + MST_FRAME_MAX);
  if (rc == 1) {
    FUZZ_CHECK(used <= n && used == MST_HEAD_BYTES + frame.head.length);
    FUZZ_CHECK(frame.head.length <= length_max);
    FUZZ_CHECK(frame.payload == bytes + MST_HEAD_BYTES);
    check_head(bytes, &frame.head);
  }
  return rc;
}

static void run(const uint8_t *bytes, size_t n) {
  static const uint64_t limits[] = {
      0, MST_FRAME_MAX_HELLO, MST_FRAME_MAX_CONTROL, MST_FRAME_MAX, UINT64_MAX};
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
    const int verdict = parse(bytes, n, limits[i]);
    if (n == 0) continue;
    // A verdict must stand when a byte more comes; every cut is fed, so this
    // holds for all the bytes to come.
    const int earlier = parse(bytes, n - 1, limits[i]);
    FUZZ_CHECK(earlier == 0 || earlier == verdict);
  }
}

// Writes a frame with a payload of zeros and gives its size.
static size_t write_frame(uint8_t *out, uint8_t kind, uint16_t flags,
                          size_t length) {
  const struct mst_head head = {.kind = kind,
                                .flags = flags,
                                .cluster = 1,
                                .worker = 3,
                                .call = 258,
                                .length = length};
  mst_head_encode(&head, out);
  memset(out + MST_HEAD_BYTES, 0, length);
  return MST_HEAD_BYTES + length;
}

static void seeds(struct fuzz_sink *sink) {
  uint8_t bytes[300];
  size_t n = write_frame(bytes, MST_KIND_HELLO, 0, 30);
  sink->take(sink, "hello", bytes, n);
  n = write_frame(bytes, MST_KIND_EXEC, MST_FLAG_XDR, 0);
  sink->take(sink, "exec-empty", bytes, n);
  sink->take(sink, "exec-cut", bytes, n / 2);
  n = write_frame(bytes, MST_KIND_VALUE, MST_FLAG_ERROR | MST_FLAG_STATE, 24);
  sink->take(sink, "value", bytes, n);
  n = write_frame(bytes, MST_KIND_EXEC, MST_FLAG_REPLAY, 10);
  sink->take(sink, "exec-replay", bytes, n);
  n = write_frame(bytes, MST_KIND_VALUE, MST_FLAG_SEED | MST_FLAG_RNG,
                  MST_VALUE_HEAD_BYTES + MST_SEED_BYTES);
  sink->take(sink, "value-seed", bytes, n);
  n = write_frame(bytes, MST_KIND_SEED, 0, MST_SEED_BYTES);
  n += write_frame(bytes + n, MST_KIND_CHECKPOINT, 0, 0);
  n += write_frame(bytes + n, MST_KIND_CHECKPOINTED, 0, 12);
  sink->take(sink, "seed-snapshot-state", bytes, n);
  n = write_frame(bytes, MST_KIND_JOB, 0, 20);
  n += write_frame(bytes + n, MST_KIND_DROP, 0, 0);
  sink->take(sink, "job-drop", bytes, n);
  n = write_frame(bytes, MST_KIND_CANCEL, 0, MST_CANCEL_BYTES);
  sink->take(sink, "cancel", bytes, n);
  n = write_frame(bytes, MST_KIND_VALUE, 0, 24);
  bytes[5] = (MST_FLAGS_KNOWN + 1) >> 8;
  sink->take(sink, "value-unknown-flag", bytes, n);
  n = write_frame(bytes, MST_KIND_PING, 0, 8);
  n += write_frame(bytes + n, MST_KIND_PONG, 0, 8);
  sink->take(sink, "ping-pong", bytes, n);
  n = write_frame(bytes, MST_KIND_FORK, 0, 0);
  bytes[39] = 0x80;
  sink->take(sink, "fork-length-too-large", bytes, n);
  n = write_frame(bytes, MST_KIND_BYE, 0, 0);
  bytes[22] = 1;
  sink->take(sink, "bye-reserved-not-zero", bytes, n);
  memcpy(bytes, "GET / HTTP/1.1\r\n\r\n", 18);
  sink->take(sink, "other-protocol", bytes, 18);
}

const struct fuzz_target fuzz_frame = {"frame", 0, run, seeds};
