// Tests of wire/msg.c: the fixed messages. Every input ends at a guard page, is
// fed whole, cut at every byte and with a byte too many.
#include <math.h>
#include <string.h>

#include "base/mst_err.h"
#include "mst_guard.h"
#include "mst_random.h"
#include "mst_test.h"
#include "wire/wire.h"

#define ROUNDS 5000

static struct mst_guard guard_open(void) {
  struct mst_guard guard;
  CHECK(mst_guard_open(&guard, 2 * MST_TEXT_BYTES_MAX) == 0);
  return guard;
}

// Any text without NUL; n bytes and the end.
static void random_text(uint64_t *random, char *out, size_t n) {
  for (size_t i = 0; i < n; i++) {
    out[i] = (char)(1 + mst_random_below(random, 255));
  }
  out[n] = '\0';
}

// --- HELLO ------------------------------------------------------------------

static const struct mst_hello hello_example = {.version_min = 1,
                                               .version_max = 0x0203,
                                               .big_endian = 0,
                                               .forked = 1,
                                               .pid = 0x07060504,
                                               .r_version = 0x00040203,
                                               .build = "muster 0.1.0"};

static const uint8_t hello_bytes[] = {
    1,    0,    0x03, 0x02, 0,    1,    0,    0, // versions, byte order, forked
    0x04, 0x05, 0x06, 0x07, 0x03, 0x02, 0x04, 0, // pid, R 4.2.3
    12,   0,    'm',  'u',  's',  't',  'e',  'r',
    ' ',  '0',  '.',  '1',  '.',  '0'};

static int hellos_equal(const struct mst_hello *a, const struct mst_hello *b) {
  return a->version_min == b->version_min && a->version_max == b->version_max &&
         a->big_endian == b->big_endian && a->forked == b->forked &&
         a->pid == b->pid && a->r_version == b->r_version &&
         strcmp(a->build, b->build) == 0;
}

TEST("A HELLO is written as the bytes that the protocol says") {
  uint8_t bytes[MST_HELLO_BYTES_MAX];
  CHECK_INT(mst_hello_encode(&hello_example, bytes, sizeof bytes),
            sizeof hello_bytes);
  CHECK(memcmp(bytes, hello_bytes, sizeof hello_bytes) == 0);
  struct mst_hello back;
  CHECK_INT(mst_hello_decode(hello_bytes, sizeof hello_bytes, &back), 0);
  CHECK(hellos_equal(&hello_example, &back));
}

static struct mst_hello random_hello(uint64_t *random) {
  struct mst_hello hello = {
      .version_min = (uint16_t)(1 + mst_random_below(random, 0xFFFF)),
      .big_endian = (uint8_t)mst_random_below(random, 2),
      .forked = (uint8_t)mst_random_below(random, 2),
      .pid = (uint32_t)(1 + mst_random_below(random, INT32_MAX)),
      .r_version = (uint32_t)mst_random_below(random, 0x1000000)};
  const uint64_t newer = mst_random_below(random, 0x10000u - hello.version_min);
  hello.version_max = (uint16_t)(hello.version_min + newer);
  random_text(random, hello.build,
              (size_t)mst_random_below(random, sizeof hello.build));
  return hello;
}

TEST("A HELLO makes the round trip, cut or lengthened it is refused") {
  uint64_t random = mst_test_seed();
  struct mst_guard guard = guard_open();
  for (int round = 0; round < ROUNDS / 10; round++) {
    const struct mst_hello hello = random_hello(&random);
    uint8_t bytes[MST_HELLO_BYTES_MAX + 1] = {0};
    const int n = mst_hello_encode(&hello, bytes, MST_HELLO_BYTES_MAX);
    CHECK(n > 0);
    for (int cut = 0; cut <= n + 1; cut++) {
      struct mst_hello back;
      const uint8_t *placed = mst_guard_place(&guard, bytes, (size_t)cut);
      CHECK_INT(mst_hello_decode(placed, (size_t)cut, &back),
                cut == n ? 0 : -MST_EPROTO);
      if (cut == n) CHECK(hellos_equal(&hello, &back));
    }
  }
  mst_guard_close(&guard);
}

TEST("A HELLO needs room for all of it and writes nothing otherwise") {
  struct mst_guard guard = guard_open();
  const uint8_t blank[sizeof hello_bytes] = {0};
  for (size_t cap = 0; cap < sizeof hello_bytes; cap++) {
    uint8_t *out = mst_guard_place(&guard, blank, cap);
    CHECK_INT(mst_hello_encode(&hello_example, out, cap), -MST_ELIMIT);
    CHECK(memcmp(out, blank, cap) == 0);
  }
  uint8_t *out = mst_guard_place(&guard, blank, sizeof hello_bytes);
  CHECK_INT(mst_hello_encode(&hello_example, out, sizeof hello_bytes),
            sizeof hello_bytes);
  mst_guard_close(&guard);
}

TEST("A HELLO with a field out of its range is refused") {
  static const struct {
    size_t at;
    uint8_t byte;
  } cases[] = {{0, 0},     {1, 3},     {4, 2},  {5, 2},   {6, 1},
               {7, 1},     {11, 0x80}, {15, 1}, {16, 11}, {16, 13},
               {16, 0xFF}, {17, 1},    {18, 0}, {29, 0}};
  struct mst_guard guard = guard_open();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct mst_hello back;
    uint8_t *bytes = mst_guard_place(&guard, hello_bytes, sizeof hello_bytes);
    bytes[cases[i].at] = cases[i].byte;
    CHECK_INT(mst_hello_decode(bytes, sizeof hello_bytes, &back), -MST_EPROTO);
  }
  struct mst_hello back;
  uint8_t *bytes = mst_guard_place(&guard, hello_bytes, sizeof hello_bytes);
  memset(bytes + 8, 0, 4);
  CHECK_INT(mst_hello_decode(bytes, sizeof hello_bytes, &back), -MST_EPROTO);
  mst_guard_close(&guard);
}

TEST("A HELLO's build may have 63 bytes or none, and not 64") {
  struct mst_hello hello = hello_example;
  uint8_t bytes[MST_HELLO_BYTES_MAX + 1];
  struct mst_hello back;
  memset(hello.build, 'b', 63);
  hello.build[63] = '\0';
  CHECK_INT(mst_hello_encode(&hello, bytes, MST_HELLO_BYTES_MAX),
            MST_HELLO_BYTES_MAX);
  CHECK_INT(mst_hello_decode(bytes, MST_HELLO_BYTES_MAX, &back), 0);
  CHECK(hellos_equal(&hello, &back));
  bytes[16] = 64;
  bytes[MST_HELLO_BYTES_MAX] = 'b';
  CHECK_INT(mst_hello_decode(bytes, sizeof bytes, &back), -MST_EPROTO);
  hello.build[0] = '\0';
  CHECK_INT(mst_hello_encode(&hello, bytes, sizeof bytes), 18);
  CHECK_INT(mst_hello_decode(bytes, 18, &back), 0);
  CHECK(hellos_equal(&hello, &back));
}

static void encode_hello(void *hello) {
  uint8_t bytes[MST_HELLO_BYTES_MAX + 1];
  (void)mst_hello_encode(hello, bytes, sizeof bytes);
}

TEST("An invalid HELLO fails an assertion at its writer") {
  struct mst_hello hello = hello_example;
  CHECK(!mst_test_asserts(encode_hello, &hello));
  hello.version_min = 0;
  CHECK(mst_test_asserts(encode_hello, &hello));
  hello = hello_example;
  hello.version_max = 0;
  CHECK(mst_test_asserts(encode_hello, &hello));
  hello = hello_example;
  hello.pid = 0;
  CHECK(mst_test_asserts(encode_hello, &hello));
  hello = hello_example;
  memset(hello.build, 'b', sizeof hello.build); // no end
  CHECK(mst_test_asserts(encode_hello, &hello));
}

// --- VALUE's times ----------------------------------------------------------

TEST("Times are three little-endian doubles") {
  static const uint8_t want[MST_VALUE_HEAD_BYTES] = {
      0, 0, 0, 0, 0, 0, 0xF0, 0x3F,  // 1
      0, 0, 0, 0, 0, 0, 0xD0, 0x3F,  // 0.25
      0, 0, 0, 0, 0, 0, 0x04, 0xC0}; // -2.5
  const struct mst_value_head value = {1, 0.25, -2.5};
  uint8_t bytes[MST_VALUE_HEAD_BYTES];
  mst_value_head_encode(&value, bytes);
  CHECK(memcmp(bytes, want, sizeof want) == 0);
}

TEST("Times make the round trip to the last bit") {
  uint64_t random = mst_test_seed();
  struct mst_guard guard = guard_open();
  for (int round = 0; round < ROUNDS; round++) {
    uint8_t bytes[MST_VALUE_HEAD_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++) {
      bytes[i] = (uint8_t)mst_random(&random);
    }
    const uint8_t *placed = mst_guard_place(&guard, bytes, sizeof bytes);
    struct mst_value_head value;
    const int rc = mst_value_head_decode(placed, sizeof bytes, &value);
    const int finite = isfinite(value.user_s) && isfinite(value.system_s) &&
                       isfinite(value.elapsed_s);
    CHECK_INT(rc, finite ? 0 : -MST_EPROTO);
    if (rc != 0) continue;
    uint8_t again[MST_VALUE_HEAD_BYTES];
    mst_value_head_encode(&value, again);
    CHECK(memcmp(again, bytes, sizeof bytes) == 0);
  }
  mst_guard_close(&guard);
}

TEST("Times cut at any byte are refused, R bytes behind them are left alone") {
  const struct mst_value_head value = {0.125, 0, 3.5};
  uint8_t bytes[MST_VALUE_HEAD_BYTES + 10] = {0};
  mst_value_head_encode(&value, bytes);
  struct mst_guard guard = guard_open();
  for (size_t n = 0; n <= sizeof bytes; n++) {
    struct mst_value_head back;
    const uint8_t *placed = mst_guard_place(&guard, bytes, n);
    const int rc = mst_value_head_decode(placed, n, &back);
    CHECK_INT(rc, n < MST_VALUE_HEAD_BYTES ? -MST_EPROTO : 0);
    if (rc == 0) CHECK(back.user_s == 0.125 && back.elapsed_s == 3.5);
  }
  mst_guard_close(&guard);
}

static void encode_value_head(void *value) {
  uint8_t bytes[MST_VALUE_HEAD_BYTES];
  mst_value_head_encode(value, bytes);
}

TEST("A time that isn't a number is refused, and an assertion at the writer") {
  const double bad[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 3; i++) {
    for (int field = 0; field < 3; field++) {
      double times[3] = {1, 2, 3};
      times[field] = bad[i];
      struct mst_value_head value = {times[0], times[1], times[2]};
      CHECK(mst_test_asserts(encode_value_head, &value));
    }
  }
  uint8_t bytes[MST_VALUE_HEAD_BYTES] = {0};
  struct mst_value_head value;
  CHECK_INT(mst_value_head_decode(bytes, sizeof bytes, &value), 0);
  bytes[22] = 0xF0;
  bytes[23] = 0x7F; // infinity
  CHECK_INT(mst_value_head_decode(bytes, sizeof bytes, &value), -MST_EPROTO);
}

// --- messages about processes -----------------------------------------------

TEST("A message about a process is pid, how and number") {
  static const uint8_t want[MST_PROC_MSG_BYTES] = {
      0x04, 0x03, 0x02, 0x01, 2, 0, 0, 0, 9, 0, 0, 0};
  const struct mst_proc_msg msg = {0x01020304, MST_EXIT_SIGNAL, 9};
  uint8_t bytes[MST_PROC_MSG_BYTES];
  mst_proc_msg_encode(&msg, bytes);
  CHECK(memcmp(bytes, want, sizeof want) == 0);
}

TEST("Messages about processes make the round trip, also negative numbers") {
  static const struct mst_proc_msg cases[] = {
      {0, MST_EXIT_NONE, 0},         {1, MST_EXIT_NONE, 1},
      {INT32_MAX, MST_EXIT_CODE, 0}, {7, MST_EXIT_CODE, 255},
      {7, MST_EXIT_SIGNAL, 1},       {7, MST_EXIT_SIGNAL, 127},
      {7, MST_EXIT_UNKNOWN, 0},      {7, MST_EXIT_NONE, INT32_MIN},
      {7, MST_EXIT_NONE, INT32_MAX}, {7, MST_EXIT_NONE, -1},
      {7, MST_EXIT_MEMORY, 9}};
  struct mst_guard guard = guard_open();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint8_t bytes[MST_PROC_MSG_BYTES + 1] = {0};
    mst_proc_msg_encode(&cases[i], bytes);
    for (size_t n = 0; n <= sizeof bytes; n++) {
      struct mst_proc_msg back;
      const uint8_t *placed = mst_guard_place(&guard, bytes, n);
      const int rc = mst_proc_msg_decode(placed, n, &back);
      CHECK_INT(rc, n == MST_PROC_MSG_BYTES ? 0 : -MST_EPROTO);
      if (rc != 0) continue;
      CHECK_INT(back.pid, cases[i].pid);
      CHECK_INT(back.how, cases[i].how);
      CHECK_INT(back.number, cases[i].number);
    }
  }
  mst_guard_close(&guard);
}

static void encode_proc_msg(void *msg) {
  uint8_t bytes[MST_PROC_MSG_BYTES];
  mst_proc_msg_encode(msg, bytes);
}

TEST("An impossible pid, end, exit code or signal is refused on both sides") {
  static const struct mst_proc_msg cases[] = {
      {(uint32_t)INT32_MAX + 1, MST_EXIT_NONE, 0},
      {UINT32_MAX, MST_EXIT_NONE, 0}, // (pid_t)-1 would mean every process
      {7, MST_EXIT_MEMORY + 1, 9},
      {7, MST_EXIT_MEMORY, 0},
      {7, UINT32_MAX, 0},
      {7, MST_EXIT_CODE, -1},
      {7, MST_EXIT_CODE, 256},
      {7, MST_EXIT_SIGNAL, 0},
      {7, MST_EXIT_SIGNAL, 128},
      {7, MST_EXIT_SIGNAL, -9}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct mst_proc_msg msg = cases[i];
    CHECK(mst_test_asserts(encode_proc_msg, &msg));
    uint8_t bytes[MST_PROC_MSG_BYTES];
    const uint32_t fields[3] = {msg.pid, msg.how, (uint32_t)msg.number};
    for (size_t at = 0; at < sizeof bytes; at++) {
      bytes[at] = (uint8_t)(fields[at / 4] >> (8 * (at % 4)));
    }
    CHECK_INT(mst_proc_msg_decode(bytes, sizeof bytes, &msg), -MST_EPROTO);
  }
}

// --- texts ------------------------------------------------------------------

TEST("A text is its length and its bytes") {
  static const uint8_t want[] = {3, 0, 0, 0, 'R', 0xC3, 0xA9};
  uint8_t bytes[sizeof want];
  CHECK_INT(mst_text_encode("R\xC3\xA9", bytes, sizeof bytes), sizeof want);
  CHECK(memcmp(bytes, want, sizeof want) == 0);
}

TEST("Texts make the round trip, cut or lengthened they are refused") {
  uint64_t random = mst_test_seed();
  struct mst_guard guard = guard_open();
  static const size_t lengths[] = {0, 1, 17, 300, MST_TEXT_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    char text[MST_TEXT_MAX + 1], back[MST_TEXT_MAX + 1];
    uint8_t bytes[MST_TEXT_BYTES_MAX + 1] = {0};
    random_text(&random, text, lengths[i]);
    const int n = mst_text_encode(text, bytes, MST_TEXT_BYTES_MAX);
    CHECK_INT(n, 4 + lengths[i]);
    for (int cut = 0; cut <= n + 1; cut++) {
      const uint8_t *placed = mst_guard_place(&guard, bytes, (size_t)cut);
      CHECK_INT(mst_text_decode(placed, (size_t)cut, back),
                cut == n ? 0 : -MST_EPROTO);
      if (cut == n) CHECK(strcmp(text, back) == 0);
    }
  }
  mst_guard_close(&guard);
}

TEST("A text needs room for all of it and writes nothing otherwise") {
  struct mst_guard guard = guard_open();
  const uint8_t blank[10] = {0};
  for (size_t cap = 0; cap <= 10; cap++) {
    uint8_t *out = mst_guard_place(&guard, blank, cap);
    CHECK_INT(mst_text_encode("muster", out, cap), cap < 10 ? -MST_ELIMIT : 10);
    if (cap < 10) CHECK(memcmp(out, blank, cap) == 0);
  }
  mst_guard_close(&guard);
}

TEST("A text with a NUL inside or a length past the limit is refused") {
  char back[MST_TEXT_MAX + 1];
  uint8_t bytes[MST_TEXT_BYTES_MAX + 1];
  memset(bytes, 'x', sizeof bytes);
  memcpy(bytes, (uint8_t[]){6, 0, 0, 0}, 4);
  for (size_t at = 4; at < 10; at++) {
    bytes[at] = 0;
    CHECK_INT(mst_text_decode(bytes, 10, back), -MST_EPROTO);
    bytes[at] = 'x';
  }
  CHECK_INT(mst_text_decode(bytes, 10, back), 0);
  memcpy(bytes,
         (uint8_t[]){(MST_TEXT_MAX + 1) & 0xFF, (MST_TEXT_MAX + 1) >> 8, 0, 0},
         4);
  CHECK_INT(mst_text_decode(bytes, sizeof bytes, back), -MST_EPROTO);
  memset(bytes, 0xFF, 4); // 4 + length would overflow 32 bits
  CHECK_INT(mst_text_decode(bytes, 3, back), -MST_EPROTO);
  CHECK_INT(mst_text_decode(bytes, sizeof bytes, back), -MST_EPROTO);
}

// Encodes `before` bytes of x, then the text, then many bytes of y; returns how many bytes of text
// were sent.
static int sent_length(size_t before, const char *middle) {
  static char text[2 * MST_TEXT_MAX];
  uint8_t bytes[MST_TEXT_BYTES_MAX];
  memset(text, 'x', before);
  memcpy(text + before, middle, strlen(middle));
  memset(text + before + strlen(middle), 'y', MST_TEXT_MAX - 100);
  text[before + strlen(middle) + MST_TEXT_MAX - 100] = '\0';
  const int n = mst_text_encode(text, bytes, sizeof bytes);
  CHECK(n >= 4 && memcmp(bytes + 4, text, (size_t)n - 4) == 0);
  return n - 4;
}

TEST("A text that is too long is cut between two characters") {
  const int limit = (int)MST_TEXT_MAX;
  const char *four = "\xF0\x9F\x90\x8E"; // one character of four bytes
  CHECK_INT(sent_length(MST_TEXT_MAX, ""), limit);
  CHECK_INT(sent_length(MST_TEXT_MAX - 4, four), limit);
  CHECK_INT(sent_length(MST_TEXT_MAX - 3, four), limit - 3);
  CHECK_INT(sent_length(MST_TEXT_MAX - 2, four), limit - 2);
  CHECK_INT(sent_length(MST_TEXT_MAX - 1, four), limit - 1);
  CHECK_INT(sent_length(MST_TEXT_MAX, four), limit);
  CHECK_INT(sent_length(MST_TEXT_MAX - 1, "\xC3\xA9"), limit - 1);
  CHECK_INT(sent_length(MST_TEXT_MAX - 2, "\xC3\xA9"), limit);
}

TEST("A long text in another encoding is cut at the limit") {
  CHECK_INT(sent_length(MST_TEXT_MAX - 5, "\xA4\xA4\xA4\xA4\xA4\xA4\xA4\xA4"),
            MST_TEXT_MAX);
}

// --- seeds and cancels ------------------------------------------------------

static const struct mst_seed seed_example = {
    .known = 1, .words = {10407, 1, -1, INT32_MAX, INT32_MIN, 0x04030201, -2}};

static const uint8_t seed_bytes[MST_SEED_BYTES] = {
    0xA7, 0x28, 0, 0, 1, 0,    0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
    0xFF, 0x7F, 0, 0, 0, 0x80, 1, 2, 3,    4,    0xFE, 0xFF, 0xFF, 0xFF};

static int seeds_equal(const struct mst_seed *a, const struct mst_seed *b) {
  return a->known == b->known &&
         memcmp(a->words, b->words, sizeof a->words) == 0;
}

TEST("A seed is seven little-endian integers") {
  uint8_t bytes[MST_SEED_BYTES];
  mst_seed_encode(&seed_example, bytes);
  CHECK(memcmp(bytes, seed_bytes, sizeof bytes) == 0);
  struct mst_seed back = {0};
  CHECK_INT(mst_seed_decode(seed_bytes, sizeof seed_bytes, &back), 0);
  CHECK(seeds_equal(&back, &seed_example));
}

TEST("Seeds make the round trip, whatever their words") {
  uint64_t random = mst_test_seed();
  struct mst_guard guard = guard_open();
  for (int round = 0; round < ROUNDS; round++) {
    struct mst_seed seed = {.known = 1};
    seed.words[0] = (int32_t)(100 * mst_random_below(&random, 21474836) + 7);
    for (int i = 1; i < MST_SEED_WORDS; i++) {
      seed.words[i] =
          (int32_t)((int64_t)mst_random_below(&random, 1ULL << 32) + INT32_MIN);
    }
    uint8_t bytes[MST_SEED_BYTES];
    mst_seed_encode(&seed, bytes);
    struct mst_seed back = {0};
    const uint8_t *placed = mst_guard_place(&guard, bytes, sizeof bytes);
    CHECK_INT(mst_seed_decode(placed, sizeof bytes, &back), 0);
    CHECK(seeds_equal(&back, &seed));
  }
  mst_guard_close(&guard);
}

TEST("A seed cut at any byte is refused, R bytes behind it are left alone") {
  uint8_t bytes[MST_SEED_BYTES + 10];
  memset(bytes, 0xEE, sizeof bytes);
  memcpy(bytes, seed_bytes, sizeof seed_bytes);
  struct mst_guard guard = guard_open();
  for (size_t n = 0; n <= sizeof bytes; n++) {
    struct mst_seed back = {0};
    const uint8_t *placed = mst_guard_place(&guard, bytes, n);
    const int rc = mst_seed_decode(placed, n, &back);
    CHECK_INT(rc, n < MST_SEED_BYTES ? -MST_EPROTO : 0);
    if (rc == 0) CHECK(seeds_equal(&back, &seed_example));
  }
  mst_guard_close(&guard);
}

static void encode_seed(void *seed) {
  uint8_t bytes[MST_SEED_BYTES];
  mst_seed_encode(seed, bytes);
}

TEST("A seed of another generator is refused, and asserted at the writer") {
  // The last two digits are the generator; 3 is Mersenne-Twister, 7 L'Ecuyer.
  static const int32_t wrong[] = {0,    3,         6,         8,  403,
                                  406,  408,       10403,     -7, -93,
                                  -107, INT32_MIN, INT32_MAX, 70};
  static const int32_t right[] = {7, 107, 407, 507, 10007, 10407};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct mst_seed seed = seed_example;
    seed.words[0] = wrong[i];
    CHECK(mst_test_asserts(encode_seed, &seed));
    uint8_t bytes[MST_SEED_BYTES];
    memcpy(bytes, seed_bytes, sizeof bytes);
    for (int k = 0; k < 4; k++) {
      bytes[k] = (uint8_t)((uint32_t)wrong[i] >> (8 * k));
    }
    CHECK_INT(mst_seed_decode(bytes, sizeof bytes, &seed), -MST_EPROTO);
  }
  for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
    struct mst_seed seed = seed_example, back;
    uint8_t bytes[MST_SEED_BYTES];
    seed.words[0] = right[i];
    mst_seed_encode(&seed, bytes);
    CHECK_INT(mst_seed_decode(bytes, sizeof bytes, &back), 0);
    CHECK(seeds_equal(&back, &seed));
  }
}

TEST("A cancel is its grace in milliseconds, and no other length is valid") {
  static const uint32_t graces[] = {0, 1, 1000, 0x04030201, UINT32_MAX};
  struct mst_guard guard = guard_open();
  for (size_t i = 0; i < sizeof graces / sizeof graces[0]; i++) {
    uint8_t bytes[MST_CANCEL_BYTES + 1] = {0};
    mst_cancel_encode(graces[i], bytes);
    for (size_t at = 0; at < MST_CANCEL_BYTES; at++) {
      CHECK_INT(bytes[at], (graces[i] >> (8 * at)) & 0xFF);
    }
    for (size_t n = 0; n <= sizeof bytes; n++) {
      uint32_t back = 77;
      const uint8_t *placed = mst_guard_place(&guard, bytes, n);
      const int rc = mst_cancel_decode(placed, n, &back);
      CHECK_INT(rc, n == MST_CANCEL_BYTES ? 0 : -MST_EPROTO);
      CHECK_INT(back, rc == 0 ? graces[i] : 77);
    }
  }
  mst_guard_close(&guard);
}

TEST("Random bytes never crash a decoder") {
  uint64_t random = mst_test_seed();
  struct mst_guard guard = guard_open();
  for (int round = 0; round < ROUNDS; round++) {
    uint8_t bytes[100];
    const size_t n = (size_t)mst_random_below(&random, sizeof bytes + 1);
    // Small bytes are more often within a range than random ones.
    const uint64_t top = mst_random_below(&random, 2) == 0 ? 4 : 256;
    for (size_t i = 0; i < n; i++) {
      bytes[i] = (uint8_t)mst_random_below(&random, top);
    }
    const uint8_t *placed = mst_guard_place(&guard, bytes, n);
    struct mst_hello hello;
    struct mst_proc_msg msg;
    struct mst_value_head value;
    struct mst_seed seed;
    uint32_t grace_ms;
    char text[MST_TEXT_MAX + 1];
    const int codes[] = {mst_hello_decode(placed, n, &hello),
                         mst_proc_msg_decode(placed, n, &msg),
                         mst_value_head_decode(placed, n, &value),
                         mst_text_decode(placed, n, text),
                         mst_seed_decode(placed, n, &seed),
                         mst_cancel_decode(placed, n, &grace_ms)};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
      CHECK(codes[i] == 0 || codes[i] == -MST_EPROTO);
  }
  mst_guard_close(&guard);
}

TEST("A segment's size is 8 bytes from 1 to the largest, and others are "
     "refused") {
  static const uint8_t example[MST_SEGMENT_BYTES] = {0x40, 0x42, 0x0F};
  static const uint64_t sizes[] = {1, 1000000, MST_FRAME_MAX};
  uint8_t bytes[MST_SEGMENT_BYTES];
  uint64_t size = 7;
  for (size_t i = 0; i < 3; i++) {
    mst_segment_encode(sizes[i], bytes);
    for (size_t n = 0; n <= sizeof bytes; n++) {
      const int rc = mst_segment_decode(bytes, n, &size);
      CHECK_INT(rc, n == sizeof bytes ? 0 : -MST_EPROTO);
      CHECK(size == (n == sizeof bytes ? sizes[i] : i == 0 ? 7 : sizes[i - 1]));
    }
  }
  mst_segment_encode(1000000, bytes);
  CHECK(memcmp(bytes, example, sizeof bytes) == 0);
  memset(bytes, 0, sizeof bytes);
  CHECK_INT(mst_segment_decode(bytes, sizeof bytes, &size), -MST_EPROTO);
  mst_segment_encode(MST_FRAME_MAX, bytes);
  bytes[0] = 1;
  CHECK_INT(mst_segment_decode(bytes, sizeof bytes, &size), -MST_EPROTO);
  CHECK_INT(mst_value_skip(0), MST_VALUE_HEAD_BYTES);
  CHECK_INT(mst_value_skip(MST_FLAG_SEGMENT | MST_FLAG_SEED),
            MST_VALUE_HEAD_BYTES + MST_SEED_BYTES + MST_SEGMENT_BYTES);
}
