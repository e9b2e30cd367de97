// Target: mst_hello_decode.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "wire/wire.h"

static void run(const uint8_t *bytes, size_t n) {
  struct mst_hello hello;
  memset(&hello, 0xEE, sizeof hello);
  const int rc = mst_hello_decode(bytes, n, &hello);
  FUZZ_CHECK(rc == 0 || rc == -MST_EPROTO);
  if (rc != 0) return;
  FUZZ_CHECK(n <= MST_HELLO_BYTES_MAX);
  FUZZ_CHECK(memchr(hello.build, 0, sizeof hello.build) != NULL);
  FUZZ_CHECK(hello.version_min >= 1 && hello.version_min <= hello.version_max);
  FUZZ_CHECK(hello.big_endian <= 1 && hello.forked <= 1);
  FUZZ_CHECK(hello.pid >= 1 && hello.pid <= INT32_MAX);
  uint8_t again[MST_HELLO_BYTES_MAX];
  FUZZ_CHECK(mst_hello_encode(&hello, again, n - 1) == -MST_ELIMIT);
  FUZZ_CHECK(mst_hello_encode(&hello, again, n) == (int)n);
  FUZZ_CHECK(memcmp(again, bytes, n) == 0);
}

static void give(struct fuzz_sink *sink, const char *name,
                 struct mst_hello hello) {
  uint8_t bytes[MST_HELLO_BYTES_MAX];
  const int n = mst_hello_encode(&hello, bytes, sizeof bytes);
  FUZZ_CHECK(n > 0);
  sink->take(sink, name, bytes, (size_t)n);
}

static void seeds(struct fuzz_sink *sink) {
  struct mst_hello hello = {.version_min = 1,
                            .version_max = 1,
                            .forked = 1,
                            .pid = 4711,
                            .r_version = 0x00040203,
                            .build = "muster 0.1.0"};
  give(sink, "forked", hello);
  hello.forked = 0;
  hello.big_endian = 1;
  give(sink, "booted-big-endian", hello);
  hello.version_max = 3;
  give(sink, "versions-1-to-3", hello);
  hello.build[0] = '\0';
  give(sink, "build-empty", hello);
  memset(hello.build, 'b', sizeof hello.build - 1);
  give(sink, "build-longest", hello);
  uint8_t bytes[MST_HELLO_BYTES_MAX + 1];
  (void)mst_hello_encode(&hello, bytes, sizeof bytes);
  bytes[16] = sizeof hello.build; // a byte more than there is room for
  bytes[MST_HELLO_BYTES_MAX] = 'b';
  sink->take(sink, "build-too-long", bytes, sizeof bytes);
}

const struct fuzz_target fuzz_hello = {"hello", 0, run, seeds};
