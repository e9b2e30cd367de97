// Tests of discover/target: valid and refused targets, sets of ranges.
#include <stdlib.h>
#include <string.h>

#include "discover/target.h"
#include "mst_random.h"
#include "mst_test.h"

static int parse(const char *text, int edges, struct mst_range *range,
                 struct mst_err *err) {
  return mst_target_parse(text, strlen(text), edges, range, err);
}

static void check_range(const char *text, int edges, const char *first,
                        const char *last) {
  struct mst_range range;
  struct mst_err err;
  char got[MST_IP_TEXT_MAX];
  CHECK_INT(parse(text, edges, &range, &err), MST_TARGET_RANGE);
  struct mst_ip ip = {.v6 = range.v6, .net = range.net, .low = range.first};
  mst_ip_format(&ip, got);
  CHECK_TEXT(got, first);
  ip.low = range.last;
  mst_ip_format(&ip, got);
  CHECK_TEXT(got, last);
}

TEST("P1: addresses, blocks and ranges are read as intended") {
  check_range("10.15.16.7", 0, "10.15.16.7", "10.15.16.7");
  check_range("10.15.16.0/24", 0, "10.15.16.1", "10.15.16.254");
  check_range("10.15.16.7/24", 0, "10.15.16.1", "10.15.16.254");
  check_range("10.15.16.0/24", 1, "10.15.16.0", "10.15.16.255");
  check_range("10.15.16.4/30", 0, "10.15.16.5", "10.15.16.6");
  check_range("10.15.16.4/31", 0, "10.15.16.4", "10.15.16.5");
  check_range("10.15.16.4/32", 0, "10.15.16.4", "10.15.16.4");
  check_range("127.0.0.0/16", 0, "127.0.0.1", "127.0.255.254");
  check_range("128.0.0.0/1", 1, "128.0.0.0", "255.255.255.255");
  check_range("10.0.0.1-10.0.1.50", 0, "10.0.0.1", "10.0.1.50");
  check_range("10.0.0.1-50", 0, "10.0.0.1", "10.0.0.50");
  check_range("10.0.0.9-9", 0, "10.0.0.9", "10.0.0.9");
  check_range("::1", 0, "::1", "::1");
  check_range("fd00::/120", 0, "fd00::", "fd00::ff");
  check_range("fd00::1:5/128", 0, "fd00::1:5", "fd00::1:5");
  check_range("fe80::1-fe80::1:0", 0, "fe80::1", "fe80::1:0");
}

static void check_refused(const char *text, int code) {
  struct mst_range range;
  struct mst_err err;
  mst_err_clear(&err);
  if (parse(text, 0, &range, &err) != -code) {
    mst_test_fail(__FILE__, __LINE__, "\"%s\" wasn't refused", text);
  }
  CHECK(strlen(err.text) > 5);
}

TEST("Malformed and far too large targets are refused with a reason") {
  const char *const malformed[] = {"",
                                   "10.0.0",
                                   "10.0.0.0.1",
                                   "10.0.0.256",
                                   "010.0.0.1",
                                   "10.0.0.1/",
                                   "10.0.0.1/33",
                                   "10.0.0.1/-1",
                                   "0.0.0.0/0",
                                   "::/0",
                                   "10.0.0.1/24/8",
                                   "10.0.0.1/024",
                                   "10.0.0.1 ",
                                   "10.0.0.5-4",
                                   "10.0.0.5-256",
                                   "10.0.0.5-",
                                   "10.0.0.5-10.0.0",
                                   "10.0.0.5-::1",
                                   "::1-10.0.0.5",
                                   "::1::",
                                   "fe80::1%eth0",
                                   "12345",
                                   "1.2.3",
                                   "-host",
                                   ".host",
                                   "a b",
                                   "host:80",
                                   "fd00::/129",
                                   "host/24"};
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++)
    check_refused(malformed[i], MST_EINPUT);
  check_refused("fd00::/64", MST_ELIMIT);
  check_refused("fd00::/7", MST_ELIMIT);
  check_refused("fd00::/103", MST_ELIMIT);
  check_refused("fd00::-fd00:0:0:1::", MST_ELIMIT);
  check_refused("fd00::-fd00::100:0", MST_ELIMIT);
  char longer[MST_TARGET_TEXT_MAX + 2];
  memset(longer, 'a', sizeof longer);
  longer[sizeof longer - 1] = '\0';
  check_refused(longer, MST_EINPUT);
}

TEST("A possible host name is left to be looked up") {
  struct mst_range range;
  CHECK_INT(parse("localhost", 0, &range, NULL), MST_TARGET_NAME);
  CHECK_INT(parse("node-07.lab.example", 0, &range, NULL), MST_TARGET_NAME);
  CHECK_INT(parse("n1", 0, &range, NULL), MST_TARGET_NAME);
  CHECK_INT(parse("10.0.0.1a", 0, &range, NULL), MST_TARGET_NAME);
}

TEST("P1: two blocks in one call are one set in address order") {
  struct mst_range r[4];
  CHECK_INT(parse("fd00::/120", 0, &r[0], NULL), 0);
  CHECK_INT(parse("10.0.1.0/24", 1, &r[1], NULL), 0);
  CHECK_INT(parse("10.0.0.0/24", 1, &r[2], NULL), 0);
  CHECK_INT(parse("10.0.0.7", 1, &r[3], NULL), 0);
  CHECK_INT(mst_ranges_tidy(r, 4), 2);
  CHECK_INT(mst_ranges_total(r, 2), 512 + 256);
  CHECK_INT(r[0].v6, 0);
  CHECK_INT(r[0].first, 0x0a000000);
  CHECK_INT(r[0].last, 0x0a0001ff);
  CHECK_INT(mst_ranges_tidy(r, 0), 0);
}

// Sets of small numbers as bits, to compare with.
static uint64_t bits_of(const struct mst_range *ranges, size_t n) {
  uint64_t bits = 0;
  for (size_t i = 0; i < n; i++) {
    for (uint64_t k = ranges[i].first; k <= ranges[i].last; k++) {
      CHECK((bits >> k & 1) == 0);
      bits |= UINT64_C(1) << k;
    }
  }
  return bits;
}

static size_t some_ranges(uint64_t *seed, struct mst_range *ranges,
                          uint64_t *bits) {
  const size_t n = mst_random_below(seed, 6);
  *bits = 0;
  for (size_t i = 0; i < n; i++) {
    const uint64_t first = mst_random_below(seed, 60);
    const uint64_t last = first + mst_random_below(seed, 64 - first);
    ranges[i] = (struct mst_range){.first = first, .last = last};
    for (uint64_t k = first; k <= last; k++)
      *bits |= UINT64_C(1) << k;
  }
  return mst_ranges_tidy(ranges, n);
}

TEST("Sets of ranges are joined and subtracted like sets") {
  uint64_t seed = mst_test_seed();
  for (int run = 0; run < 20000; run++) {
    struct mst_range a[6], b[6], rest[12];
    uint64_t a_bits, b_bits;
    const size_t a_n = some_ranges(&seed, a, &a_bits);
    const size_t b_n = some_ranges(&seed, b, &b_bits);
    CHECK(bits_of(a, a_n) == a_bits);
    const size_t n = mst_ranges_less(a, a_n, b, b_n, rest);
    CHECK(n <= a_n + b_n);
    CHECK(bits_of(rest, n) == (a_bits & ~b_bits));
    for (size_t i = 1; i < n; i++)
      CHECK(rest[i - 1].last < rest[i].first);
    CHECK_INT(mst_ranges_total(rest, n),
              __builtin_popcountll(a_bits & ~b_bits));
  }
}

static int is_public(const char *text) {
  struct mst_range range;
  struct mst_ip ip;
  CHECK_INT(parse(text, 1, &range, NULL), 0);
  return mst_range_public(&range, &ip);
}

TEST("Private, shared, loopback and link-local addresses aren't public") {
  const char *const local[] = {
      "10.0.0.0/8",      "172.16.0.0/12", "192.168.0.0/16",
      "127.0.0.0/8",     "169.254.1.1",   "100.64.0.0/10",
      "fd12:3456::/112", "fe80::1",       "::1"};
  for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
    CHECK(!is_public(local[i]));
  CHECK(is_public("9.255.255.255-10.0.0.1"));
  CHECK(is_public("172.32.0.1"));
  CHECK(is_public("100.128.0.1"));
  CHECK(is_public("2001:db8::1"));
  CHECK(is_public("::2"));
  struct mst_range range;
  struct mst_ip ip;
  char text[MST_IP_TEXT_MAX];
  CHECK_INT(parse("10.255.255.250-11.0.0.5", 1, &range, NULL), 0);
  CHECK(mst_range_public(&range, &ip));
  mst_ip_format(&ip, text);
  CHECK_TEXT(text, "11.0.0.0");
}
