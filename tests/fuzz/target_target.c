// Target: mst_target_parse, and the sets that its ranges make.
#include <string.h>

#include "base/mst_err.h"
#include "discover/target.h"
#include "fuzz.h"

// What was read must be what its text, written anew, is read as.
static void check_round_trip(const struct mst_range *range) {
  char first[MST_IP_TEXT_MAX], last[MST_IP_TEXT_MAX];
  char text[2 * MST_IP_TEXT_MAX];
  struct mst_ip ip = {.v6 = range->v6, .net = range->net, .low = range->first};
  struct mst_range again;
  mst_ip_format(&ip, first);
  ip.low = range->last;
  mst_ip_format(&ip, last);
  const size_t n = strlen(first);
  memcpy(text, first, n);
  text[n] = '-';
  memcpy(text + n + 1, last, strlen(last) + 1);
  FUZZ_CHECK(mst_target_parse(text, strlen(text), 1, &again, NULL) ==
             MST_TARGET_RANGE);
  FUZZ_CHECK(again.v6 == range->v6 && again.net == range->net &&
             again.first == range->first && again.last == range->last);
}

static void run(const uint8_t *bytes, size_t n) {
  const char *text = (const char *)bytes;
  struct mst_range whole, inner, rest[3];
  struct mst_err err;
  struct mst_ip ip;
  mst_err_clear(&err);
  const int rc = mst_target_parse(text, n, 1, &whole, &err);
  FUZZ_CHECK(rc == MST_TARGET_RANGE || rc == MST_TARGET_NAME ||
             rc == -MST_EINPUT || rc == -MST_ELIMIT);
  FUZZ_CHECK((rc < 0) == (err.text[0] != '\0'));
  FUZZ_CHECK(mst_target_parse(text, n, 0, &inner, NULL) == rc);
  if (rc != MST_TARGET_RANGE) return;
  FUZZ_CHECK(whole.first <= whole.last && inner.first <= inner.last);
  FUZZ_CHECK(inner.first >= whole.first && inner.last <= whole.last);
  FUZZ_CHECK(whole.v6 || (whole.net == 0 && whole.last <= UINT32_MAX));
  FUZZ_CHECK(!whole.v6 || whole.last - whole.first < MST_TARGET_V6_MAX);
  check_round_trip(&whole);
  const size_t edges = mst_ranges_less(&whole, 1, &inner, 1, rest);
  FUZZ_CHECK(mst_ranges_total(rest, edges) ==
             mst_ranges_total(&whole, 1) - mst_ranges_total(&inner, 1));
  if (mst_range_public(&whole, &ip)) {
    FUZZ_CHECK(ip.low >= whole.first && ip.low <= whole.last);
  }
}

static void seeds(struct fuzz_sink *sink) {
  static const char *const texts[][2] = {
      {"address", "10.15.16.7"},
      {"block", "10.15.16.0/24"},
      {"block-31", "10.0.0.0/31"},
      {"range", "10.0.0.1-10.0.0.50"},
      {"range-short", "10.0.0.1-50"},
      {"range-public", "9.255.255.1-10.0.0.9"},
      {"v6", "fd00::1"},
      {"v6-block", "fd00::/120"},
      {"v6-largest", "fd00::/104"},
      {"v6-too-large", "fd00::/64"},
      {"v6-range", "fe80::1-fe80::ff"},
      {"v6-v4", "::ffff:10.0.0.1"},
      {"name", "node-07.lab.example"},
      {"octal", "010.0.0.1"},
      {"all", "0.0.0.0/0"},
      {"backwards", "10.0.0.9-3"},
      {"zone", "fe80::1%eth0"}};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    sink->take(sink, texts[i][0], (const uint8_t *)texts[i][1],
               strlen(texts[i][1]));
}

const struct fuzz_target fuzz_target_text = {"target", 0, run, seeds};
