// Target: mst_stock_parse_run, which finds the end of an object of R's serialization.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "stock/parse.h"

static int whole(const uint8_t *bytes, size_t n, size_t *size) {
  struct mst_stock_parse scan = {0};
  const int rc = mst_stock_parse_run(&scan, bytes, n, size);
  FUZZ_CHECK(rc == 1 || rc == 0 || rc == -MST_EPROTO || rc == -MST_ELIMIT);
  FUZZ_CHECK(scan.at <= n);
  if (rc == 1) FUZZ_CHECK(*size >= 14 && *size <= n);
  mst_stock_parse_free(&scan);
  return rc;
}

static void run(const uint8_t *bytes, size_t n) {
  size_t size = 0, later = 0;
  const int verdict = whole(bytes, n, &size);
  // Fed in two parts it says the same, and what follows an object is of no concern.
  struct mst_stock_parse scan = {0};
  int rc = mst_stock_parse_run(&scan, bytes, n / 2, &later);
  if (rc == 0) rc = mst_stock_parse_run(&scan, bytes, n, &later);
  FUZZ_CHECK(rc == verdict);
  if (rc == 1) FUZZ_CHECK(later == size);
  // It can be used for another message.
  mst_stock_parse_reset(&scan);
  FUZZ_CHECK(mst_stock_parse_run(&scan, bytes, n, &later) == verdict);
  mst_stock_parse_free(&scan);
}

static size_t word(uint8_t *out, uint32_t value) {
  out[0] = (uint8_t)(value >> 24);
  out[1] = (uint8_t)(value >> 16);
  out[2] = (uint8_t)(value >> 8);
  out[3] = (uint8_t)value;
  return 4;
}

static size_t header(uint8_t *out, uint32_t version) {
  size_t n = 2;
  memcpy(out, "X\n", 2);
  n += word(out + n, version);
  n += word(out + n, 0x00040202);
  n += word(out + n, 0x00020300);
  if (version == 3) {
    n += word(out + n, 5);
    memcpy(out + n, "UTF-8", 5);
    n += 5;
  }
  return n;
}

static void seeds(struct fuzz_sink *sink) {
  uint8_t bytes[200];
  size_t n = header(bytes, 3);
  n += word(bytes + n, 254);
  sink->take(sink, "null", bytes, n);
  sink->take(sink, "null-cut", bytes, n - 1);
  n = header(bytes, 2);
  n += word(bytes + n, 13);
  n += word(bytes + n, 2);
  n += word(bytes + n, 1);
  n += word(bytes + n, 2);
  sink->take(sink, "integers", bytes, n);
  n = header(bytes, 3);
  n += word(bytes + n, 16);
  n += word(bytes + n, 1);
  n += word(bytes + n, 9);
  n += word(bytes + n, 0xffffffffu);
  sink->take(sink, "missing-string", bytes, n);
  n = header(bytes, 3);
  n += word(bytes + n, 24);
  n += word(bytes + n, 0xffffffffu);
  n += word(bytes + n, 1);
  n += word(bytes + n, 0);
  sink->take(sink, "long-vector", bytes, n);
}

const struct fuzz_target fuzz_scan = {
    .name = "scan", .run = run, .seeds = seeds};
