// Tests of wire/frame.c: bytes to frames. Every input ends at a guard page.
#include <pthread.h>
#include <string.h>

#include "base/mst_err.h"
#include "mst_guard.h"
#include "mst_random.h"
#include "mst_test.h"
#include "wire/wire.h"

#define ROUNDS 20000

static const uint8_t kinds[] = {
    MST_KIND_HELLO,       MST_KIND_SETUP,         MST_KIND_READY,
    MST_KIND_FAILED,      MST_KIND_EXEC,          MST_KIND_VALUE,
    MST_KIND_BYE,         MST_KIND_REFUSE,        MST_KIND_SEED,
    MST_KIND_CHECKPOINT,  MST_KIND_CHECKPOINTED,  MST_KIND_PING,
    MST_KIND_PONG,        MST_KIND_CANCEL,        MST_KIND_SERVER_READY,
    MST_KIND_FORK,        MST_KIND_SERVER_REFUSE, MST_KIND_FORKED,
    MST_KIND_FORK_FAILED, MST_KIND_EXITED,        MST_KIND_SIGNAL,
    MST_KIND_JOB,         MST_KIND_DROP,          MST_KIND_DIAL,
    MST_KIND_ADMIT,       MST_KIND_WANT,          MST_KIND_HAVE,
    MST_KIND_NONE,        MST_KIND_MEET,          MST_KIND_MET,
    MST_KIND_STANDBY,     MST_KIND_ADOPT,         MST_KIND_HOST,
    MST_KIND_SERVER,      MST_KIND_REMOVE,        MST_KIND_LEAVING,
    MST_KIND_TRIM,        MST_KIND_WITHDRAW};

static int is_kind(int number) {
  for (size_t i = 0; i < sizeof kinds; i++) {
    if (kinds[i] == number) return 1;
  }
  return 0;
}

static struct mst_guard guard_open(size_t room) {
  struct mst_guard guard;
  CHECK(mst_guard_open(&guard, room) == 0);
  return guard;
}

static int heads_equal(const struct mst_head *a, const struct mst_head *b) {
  return a->kind == b->kind && a->flags == b->flags &&
         a->attempt == b->attempt && a->cluster == b->cluster &&
         a->worker == b->worker && a->epoch == b->epoch && a->call == b->call &&
         a->length == b->length;
}

// Any head that a writer may send. Half of the lengths are small.
static struct mst_head random_head(uint64_t *random) {
  const uint64_t length_limit =
      mst_random_below(random, 2) == 0 ? 65 : MST_FRAME_MAX + 1;
  return (struct mst_head){
      .kind = kinds[mst_random_below(random, sizeof kinds)],
      .flags = (uint16_t)(mst_random(random) & MST_FLAGS_KNOWN),
      .attempt = (uint16_t)mst_random(random),
      .cluster = (uint32_t)mst_random(random),
      .worker = (uint32_t)mst_random(random),
      .epoch = (uint32_t)mst_random(random),
      .call = mst_random(random),
      .length = mst_random_below(random, length_limit)};
}

static const struct mst_head head_example = {.kind = MST_KIND_EXEC,
                                             .flags = MST_FLAG_XDR,
                                             .attempt = 0x0201,
                                             .cluster = 0x06050403,
                                             .worker = 0x0A090807,
                                             .epoch = 0x0E0D0C0B,
                                             .call = 0x161514131211100F,
                                             .length = 0x0000000000001817};

static const uint8_t bytes_example[MST_HEAD_BYTES] = {
    'M',  's',  1,    5,    0x04, 0x00, 0x01, 0x02, // magic to attempt
    0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, // cluster, worker
    0x0B, 0x0C, 0x0D, 0x0E, 0,    0,    0,    0,    // epoch, reserved
    0x0F, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, // call
    0x17, 0x18, 0,    0,    0,    0,    0,    0};   // length

TEST("A header is written as the 40 bytes that the protocol says") {
  uint8_t bytes[MST_HEAD_BYTES];
  memset(bytes, 0xEE, sizeof bytes);
  mst_head_encode(&head_example, bytes);
  CHECK(memcmp(bytes, bytes_example, sizeof bytes) == 0);
}

TEST("The 40 bytes that the protocol says are read as a header") {
  struct mst_guard guard = guard_open(MST_HEAD_BYTES);
  struct mst_head head;
  const uint8_t *bytes = mst_guard_place(&guard, bytes_example, MST_HEAD_BYTES);
  CHECK_INT(mst_head_decode(bytes, MST_HEAD_BYTES, MST_FRAME_MAX, &head),
            MST_HEAD_BYTES);
  CHECK(heads_equal(&head, &head_example));
  mst_guard_close(&guard);
}

TEST("Heads make the round trip through bytes, whatever their fields") {
  uint64_t random = mst_test_seed();
  struct mst_guard guard = guard_open(MST_HEAD_BYTES);
  for (int round = 0; round < ROUNDS; round++) {
    const struct mst_head head = random_head(&random);
    uint8_t bytes[MST_HEAD_BYTES];
    mst_head_encode(&head, bytes);
    const uint8_t *placed = mst_guard_place(&guard, bytes, sizeof bytes);
    struct mst_head back;
    CHECK_INT(mst_head_decode(placed, sizeof bytes, MST_FRAME_MAX, &back),
              MST_HEAD_BYTES);
    CHECK(heads_equal(&head, &back));
  }
  mst_guard_close(&guard);
}

TEST("A header cut at any byte asks for more and leaves the head alone") {
  uint64_t random = mst_test_seed();
  struct mst_guard guard = guard_open(MST_HEAD_BYTES);
  for (int round = 0; round < ROUNDS / 40; round++) {
    const struct mst_head sent = random_head(&random);
    uint8_t bytes[MST_HEAD_BYTES];
    mst_head_encode(&sent, bytes);
    for (size_t cut = 0; cut < MST_HEAD_BYTES; cut++) {
      struct mst_head head = head_example;
      const uint8_t *placed = mst_guard_place(&guard, bytes, cut);
      CHECK_INT(mst_head_decode(placed, cut, MST_FRAME_MAX, &head), 0);
      CHECK(heads_equal(&head, &head_example));
    }
  }
  mst_guard_close(&guard);
}

TEST("No bytes, without an address, ask for more") {
  struct mst_head head;
  struct mst_frame frame;
  uint64_t used = 7;
  CHECK_INT(mst_head_decode(NULL, 0, MST_FRAME_MAX, &head), 0);
  CHECK_INT(mst_frame_parse(NULL, 0, MST_FRAME_MAX, &frame, &used), 0);
  CHECK_INT(used, 0);
}

TEST("A wrong field is reported as soon as it is there and not before") {
  static const struct {
    size_t at;   // the byte that is made wrong
    size_t told; // the number of bytes at which it must be reported
  } cases[] = {{0, 1},   {1, 2},   {2, 3},   {3, 4},  {5, 6},
               {20, 24}, {21, 24}, {22, 24}, {23, 24}};
  struct mst_guard guard = guard_open(MST_HEAD_BYTES);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint8_t bytes[MST_HEAD_BYTES];
    memcpy(bytes, bytes_example, sizeof bytes);
    bytes[cases[i].at] ^= 0x80;
    for (size_t n = 0; n <= MST_HEAD_BYTES; n++) {
      struct mst_head head;
      const uint8_t *placed = mst_guard_place(&guard, bytes, n);
      CHECK_INT(mst_head_decode(placed, n, MST_FRAME_MAX, &head),
                n < cases[i].told ? 0 : -MST_EPROTO);
    }
  }
  mst_guard_close(&guard);
}

TEST("Only this version of the protocol is read") {
  for (int version = 0; version < 256; version++) {
    uint8_t bytes[MST_HEAD_BYTES];
    memcpy(bytes, bytes_example, sizeof bytes);
    bytes[2] = (uint8_t)version;
    struct mst_head head;
    CHECK_INT(mst_head_decode(bytes, 3, MST_FRAME_MAX, &head),
              version == MST_WIRE_VERSION ? 0 : -MST_EPROTO);
  }
}

TEST("Each known kind is read, each reserved kind is refused") {
  for (int kind = 0; kind < 256; kind++) {
    uint8_t bytes[MST_HEAD_BYTES];
    memcpy(bytes, bytes_example, sizeof bytes);
    bytes[3] = (uint8_t)kind;
    struct mst_head head;
    CHECK_INT(mst_head_decode(bytes, sizeof bytes, MST_FRAME_MAX, &head),
              is_kind(kind) ? (int)MST_HEAD_BYTES : -MST_EPROTO);
  }
}

TEST("Kinds and flags have the numbers that the protocol says") {
  CHECK_INT(MST_KIND_SEED, 9);
  CHECK_INT(MST_KIND_CHECKPOINT, 10);
  CHECK_INT(MST_KIND_CHECKPOINTED, 11);
  CHECK_INT(MST_KIND_JOB, 12);
  CHECK_INT(MST_KIND_DROP, 13);
  CHECK_INT(MST_KIND_DIAL, 14);
  CHECK_INT(MST_KIND_ADMIT, 15);
  CHECK_INT(MST_KIND_CANCEL, 18);
  CHECK_INT(MST_KIND_WANT, 48);
  CHECK_INT(MST_KIND_HAVE, 49);
  CHECK_INT(MST_KIND_NONE, 50);
  CHECK_INT(MST_KIND_MEET, 51);
  CHECK_INT(MST_KIND_MET, 52);
  CHECK_INT(MST_KIND_TRIM, 19);
  CHECK_INT(MST_KIND_STANDBY, 20);
  CHECK_INT(MST_KIND_ADOPT, 39);
  CHECK_INT(MST_KIND_HOST, 40);
  CHECK_INT(MST_KIND_SERVER, 41);
  CHECK_INT(MST_KIND_REMOVE, 42);
  CHECK_INT(MST_KIND_LEAVING, 43);
  CHECK_INT(MST_KIND_WITHDRAW, 21);
  CHECK_INT(sizeof kinds, 38);
  const unsigned flags[] = {MST_FLAG_ERROR,  MST_FLAG_STATE,   MST_FLAG_XDR,
                            MST_FLAG_REPLAY, MST_FLAG_RNG,     MST_FLAG_SEED,
                            MST_FLAG_TASK,   MST_FLAG_SEGMENT, MST_FLAG_EARLY};
  for (unsigned k = 0; k < sizeof flags / sizeof flags[0]; k++) {
    CHECK_INT(flags[k], 1u << k);
  }
  CHECK_INT(MST_FLAGS_KNOWN, 0x1FF);
}

TEST("Every set of known flags is read, every other one is refused") {
  for (unsigned flags = 0; flags <= 0xFFFF; flags++) {
    uint8_t bytes[MST_HEAD_BYTES];
    memcpy(bytes, bytes_example, sizeof bytes);
    bytes[4] = (uint8_t)(flags & 0xFF);
    bytes[5] = (uint8_t)(flags >> 8);
    struct mst_head head;
    CHECK_INT(mst_head_decode(bytes, sizeof bytes, MST_FRAME_MAX, &head),
              flags <= MST_FLAGS_KNOWN ? (int)MST_HEAD_BYTES : -MST_EPROTO);
  }
}

TEST("A header with one byte changed is an error or another valid header") {
  uint64_t random = mst_test_seed();
  struct mst_guard guard = guard_open(MST_HEAD_BYTES);
  for (int round = 0; round < 20; round++) {
    const struct mst_head head = random_head(&random);
    uint8_t bytes[MST_HEAD_BYTES];
    mst_head_encode(&head, bytes);
    for (size_t at = 0; at < MST_HEAD_BYTES; at++) {
      for (unsigned change = 1; change < 256; change++) {
        bytes[at] = (uint8_t)(bytes[at] ^ change);
        const uint8_t *placed = mst_guard_place(&guard, bytes, sizeof bytes);
        struct mst_head other;
        const int rc =
            mst_head_decode(placed, sizeof bytes, MST_FRAME_MAX, &other);
        if (rc == (int)MST_HEAD_BYTES) {
          uint8_t again[MST_HEAD_BYTES];
          mst_head_encode(&other, again);
          CHECK(!heads_equal(&head, &other));
          CHECK(memcmp(again, bytes, sizeof bytes) == 0);
        } else {
          CHECK(rc == -MST_EPROTO || rc == -MST_ELIMIT);
        }
        bytes[at] = (uint8_t)(bytes[at] ^ change);
      }
    }
  }
  mst_guard_close(&guard);
}

static void set_length(uint8_t *bytes, uint64_t length) {
  for (int i = 0; i < 8; i++)
    bytes[32 + i] = (uint8_t)(length >> (8 * i));
}

TEST("A length at the limit is read, one past it is refused") {
  static const uint64_t limits[] = {0, 1, MST_FRAME_MAX_HELLO,
                                    MST_FRAME_MAX_CONTROL, MST_FRAME_MAX};
  uint8_t bytes[MST_HEAD_BYTES];
  memcpy(bytes, bytes_example, sizeof bytes);
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
    struct mst_head head = head_example;
    set_length(bytes, limits[i] + 1);
    CHECK_INT(mst_head_decode(bytes, sizeof bytes, limits[i], &head),
              -MST_ELIMIT);
    CHECK(heads_equal(&head, &head_example));
    set_length(bytes, limits[i]);
    CHECK_INT(mst_head_decode(bytes, sizeof bytes, limits[i], &head),
              MST_HEAD_BYTES);
    CHECK(head.length == limits[i]);
  }
}

TEST("A length past MST_FRAME_MAX is refused whatever the caller's limit") {
  static const uint64_t lengths[] = {
      MST_FRAME_MAX + 1, UINT64_C(1) << 63, UINT64_MAX - MST_HEAD_BYTES,
      UINT64_MAX - MST_HEAD_BYTES + 1, UINT64_MAX};
  uint8_t bytes[MST_HEAD_BYTES];
  memcpy(bytes, bytes_example, sizeof bytes);
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    struct mst_frame frame;
    uint64_t used = 7;
    set_length(bytes, lengths[i]);
    CHECK_INT(mst_frame_parse(bytes, sizeof bytes, UINT64_MAX, &frame, &used),
              -MST_ELIMIT);
    CHECK_INT(used, 0);
  }
}

TEST("The largest frame is announced with its whole size") {
  uint8_t bytes[MST_HEAD_BYTES];
  memcpy(bytes, bytes_example, sizeof bytes);
  set_length(bytes, MST_FRAME_MAX);
  struct mst_frame frame;
  uint64_t used = 0;
  CHECK_INT(mst_frame_parse(bytes, sizeof bytes, MST_FRAME_MAX, &frame, &used),
            0);
  CHECK(used == MST_FRAME_MAX + MST_HEAD_BYTES);
}

// Writes a frame with a payload of `length` counted bytes, returns its size.
static size_t frame_write(uint8_t *out, uint8_t kind, uint64_t call,
                          size_t length) {
  const struct mst_head head = {.kind = kind, .call = call, .length = length};
  mst_head_encode(&head, out);
  for (size_t i = 0; i < length; i++) {
    out[MST_HEAD_BYTES + i] = (uint8_t)(call + i);
  }
  return MST_HEAD_BYTES + length;
}

TEST("A frame cut at every byte says how much it needs, and is found when "
     "complete") {
  uint8_t bytes[MST_HEAD_BYTES + 300];
  struct mst_guard guard = guard_open(sizeof bytes);
  for (size_t length = 0; length <= 300; length += 60) {
    const size_t whole = frame_write(bytes, MST_KIND_VALUE, 9, length);
    for (size_t cut = 0; cut < whole; cut++) {
      struct mst_frame frame = {.head = head_example, .payload = bytes};
      uint64_t used = 7;
      const uint8_t *placed = mst_guard_place(&guard, bytes, cut);
      CHECK_INT(mst_frame_parse(placed, cut, MST_FRAME_MAX, &frame, &used), 0);
      CHECK_INT(used, cut < MST_HEAD_BYTES ? 0 : whole);
      CHECK(heads_equal(&frame.head, &head_example) && frame.payload == bytes);
    }
    struct mst_frame frame;
    uint64_t used = 0;
    const uint8_t *placed = mst_guard_place(&guard, bytes, whole);
    CHECK_INT(mst_frame_parse(placed, whole, MST_FRAME_MAX, &frame, &used), 1);
    CHECK_INT(used, whole);
    CHECK(frame.payload == placed + MST_HEAD_BYTES);
    CHECK_INT(frame.head.length, length);
  }
  mst_guard_close(&guard);
}

TEST("Consecutive frames are found one by one") {
  uint8_t bytes[1000];
  size_t n = frame_write(bytes, MST_KIND_EXEC, 1, 0);
  n += frame_write(bytes + n, MST_KIND_EXEC, 2, 100);
  n += frame_write(bytes + n, MST_KIND_BYE, 3, 5);
  struct mst_guard guard = guard_open(sizeof bytes);
  const uint8_t *placed = mst_guard_place(&guard, bytes, n);
  size_t at = 0;
  for (uint64_t call = 1; call <= 3; call++) {
    struct mst_frame frame;
    uint64_t used = 0;
    CHECK_INT(mst_frame_parse(placed + at, n - at, 100, &frame, &used), 1);
    CHECK_INT(frame.head.call, call);
    for (size_t i = 0; i < frame.head.length; i++) {
      CHECK_INT(frame.payload[i], call + i);
    }
    at += (size_t)used;
  }
  CHECK_INT(at, n);
  mst_guard_close(&guard);
}

TEST("A frame behind garbage is not looked for") {
  uint8_t bytes[100] = {'G'};
  const size_t n = 1 + frame_write(bytes + 1, MST_KIND_EXEC, 1, 10);
  struct mst_frame frame;
  uint64_t used = 7;
  CHECK_INT(mst_frame_parse(bytes, n, MST_FRAME_MAX, &frame, &used),
            -MST_EPROTO);
  CHECK_INT(used, 0);
}

TEST("Random bytes never crash the parser, and its verdict never changes") {
  uint64_t random = mst_test_seed();
  uint8_t bytes[2 * MST_HEAD_BYTES];
  struct mst_guard guard = guard_open(sizeof bytes);
  for (int round = 0; round < ROUNDS / 10; round++) {
    // A valid start of random length makes every check reachable.
    memcpy(bytes, bytes_example, sizeof bytes_example);
    const size_t right = (size_t)mst_random_below(&random, MST_HEAD_BYTES + 1);
    for (size_t i = right; i < sizeof bytes; i++) {
      bytes[i] = (uint8_t)mst_random(&random);
    }
    int verdict = 0;
    for (size_t n = 0; n <= sizeof bytes; n++) {
      struct mst_frame frame;
      uint64_t used = 0;
      const uint8_t *placed = mst_guard_place(&guard, bytes, n);
      const int rc = mst_frame_parse(placed, n, 30, &frame, &used);
      CHECK(rc == 1 || rc == 0 || rc == -MST_EPROTO || rc == -MST_ELIMIT);
      CHECK(rc != 1 || used <= n);
      if (verdict != 0) CHECK_INT(rc, verdict);
      verdict = rc;
    }
  }
  mst_guard_close(&guard);
}

static void encode_head(void *head) {
  uint8_t bytes[MST_HEAD_BYTES];
  mst_head_encode(head, bytes);
}

TEST("A writer that breaks the contract fails an assertion") {
  struct mst_head head = head_example;
  CHECK(!mst_test_asserts(encode_head, &head));
  for (int kind = 0; kind < 256; kind++) {
    head.kind = (uint8_t)kind;
    CHECK_INT(mst_test_asserts(encode_head, &head), !is_kind(kind));
  }
  head = head_example;
  head.flags = MST_FLAGS_KNOWN + 1;
  CHECK(mst_test_asserts(encode_head, &head));
  head = head_example;
  head.length = MST_FRAME_MAX;
  CHECK(!mst_test_asserts(encode_head, &head));
  head.length = MST_FRAME_MAX + 1;
  CHECK(mst_test_asserts(encode_head, &head));
}

static void *parse_often(void *bytes) {
  uintptr_t found = 0;
  for (int i = 0; i < 1000; i++) {
    struct mst_frame frame;
    uint64_t used;
    found +=
        mst_frame_parse(bytes, MST_HEAD_BYTES + 50, 50, &frame, &used) == 1;
  }
  return (void *)found;
}

TEST("Several threads may parse the same bytes at once") {
  uint8_t bytes[MST_HEAD_BYTES + 50];
  (void)frame_write(bytes, MST_KIND_VALUE, 4, 50);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    CHECK_INT(pthread_create(&threads[i], NULL, parse_often, bytes), 0);
  }
  for (int i = 0; i < 4; i++) {
    void *found = NULL;
    CHECK_INT(pthread_join(threads[i], &found), 0);
    CHECK_INT((uintptr_t)found, 1000);
  }
}
