// The parser of targets. See target.h.
//
// Not read by inet_aton(), which takes "10.1" for 10.0.0.1 and "010.0.0.1" for 8.0.0.1: a scan must
// never probe addresses that its user didn't mean.
#include "discover/target.h"

#include <arpa/inet.h>
#include <string.h>

static int is_digit(char c) { return c >= '0' && c <= '9'; }

// read_number reads at most three digits, no leading zero. -1 if there is no number.
static int read_number(const char **at, const char *end) {
  const char *p = *at;
  int value = 0;
  while (p < end && is_digit(*p) && p - *at < 4)
    value = value * 10 + (*p++ - '0');
  const int64_t digits = p - *at;
  if (digits == 0 || digits > 3 || (digits > 1 && **at == '0')) return -1;
  *at = p;
  return value;
}

static int parse_v4(const char *text, size_t n, struct mst_ip *ip) {
  const char *at = text, *end = text + n;
  uint64_t value = 0;
  for (int i = 0; i < 4; i++) {
    if (i > 0 && (at == end || *at++ != '.')) return -MST_EINPUT;
    const int number = read_number(&at, end);
    if (number < 0 || number > 255) return -MST_EINPUT;
    value = value << 8 | (uint64_t)number;
  }
  if (at != end) return -MST_EINPUT;
  *ip = (struct mst_ip){.low = value};
  return 0;
}

static uint64_t read_big(const uint8_t *bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 8; i++)
    value = value << 8 | bytes[i];
  return value;
}

static void write_big(uint64_t value, uint8_t *bytes) {
  for (int i = 7; i >= 0; i--, value >>= 8)
    bytes[i] = (uint8_t)value;
}

int mst_ip_parse(const char *text, size_t n, struct mst_ip *ip) {
  if (memchr(text, ':', n) == NULL) return parse_v4(text, n, ip);
  char copy[MST_IP_TEXT_MAX];
  uint8_t bytes[16];
  if (n >= sizeof copy || memchr(text, '\0', n) != NULL) return -MST_EINPUT;
  memcpy(copy, text, n);
  copy[n] = '\0';
  if (inet_pton(AF_INET6, copy, bytes) != 1) return -MST_EINPUT;
  *ip = mst_ip_of_bytes(1, bytes);
  return 0;
}

size_t mst_ip_bytes(const struct mst_ip *ip, uint8_t bytes[16]) {
  if (!ip->v6) {
    for (int i = 0; i < 4; i++)
      bytes[i] = (uint8_t)(ip->low >> (24 - 8 * i));
    return 4;
  }
  write_big(ip->net, bytes);
  write_big(ip->low, bytes + 8);
  return 16;
}

struct mst_ip mst_ip_of_bytes(int v6, const uint8_t *bytes) {
  if (v6) {
    return (struct mst_ip){
        .v6 = 1, .net = read_big(bytes), .low = read_big(bytes + 8)};
  }
  uint64_t low = 0;
  for (int i = 0; i < 4; i++)
    low = low << 8 | bytes[i];
  return (struct mst_ip){.low = low};
}

void mst_ip_format(const struct mst_ip *ip, char text[MST_IP_TEXT_MAX]) {
  uint8_t bytes[16];
  (void)mst_ip_bytes(ip, bytes);
  (void)inet_ntop(ip->v6 ? AF_INET6 : AF_INET, bytes, text, MST_IP_TEXT_MAX);
}

static int refuse(struct mst_err *err, const char *why) {
  return mst_err_set(err, MST_EINPUT, 0, NULL, "%s", why);
}

// cut_v4 gives the block of an IPv4 address with a prefix of 1 to 32 bits.
static void cut_v4(const struct mst_ip *ip, int prefix, int edges,
                   struct mst_range *range) {
  const uint64_t size = UINT64_C(1) << (32 - prefix);
  const uint64_t first = ip->low & ~(size - 1);
  const uint64_t off = !edges && prefix <= 30 ? 1 : 0;
  *range =
      (struct mst_range){.first = first + off, .last = first + size - 1 - off};
}

static int parse_block(const char *text, size_t n, const char *slash, int edges,
                       struct mst_range *range, struct mst_err *err) {
  struct mst_ip ip;
  const char *at = slash + 1, *end = text + n;
  if (mst_ip_parse(text, (size_t)(slash - text), &ip) != 0) {
    return refuse(err, "the part before the slash isn't an address");
  }
  const int bits = ip.v6 ? 128 : 32;
  const int prefix = read_number(&at, end);
  if (prefix < 0 || at != end || prefix > bits) {
    return refuse(err, ip.v6 ? "the number of bits must be from 1 to 128"
                             : "the number of bits must be from 1 to 32");
  }
  if (prefix == 0) {
    return refuse(err, "a block of 0 bits contains all addresses");
  }
  if (!ip.v6) {
    cut_v4(&ip, prefix, edges, range);
    return MST_TARGET_RANGE;
  }
  const uint64_t mask =
      prefix < 64 || prefix == 128 ? 0 : UINT64_MAX >> (prefix - 64);
  if (prefix < 64 || mask >= MST_TARGET_V6_MAX) {
    return mst_err_set(err, MST_ELIMIT, 0, NULL,
                       "a block of IPv6 addresses must have 104 bits or more");
  }
  *range = (struct mst_range){
      .v6 = 1, .net = ip.net, .first = ip.low & ~mask, .last = ip.low | mask};
  return MST_TARGET_RANGE;
}

static int parse_range(const char *text, size_t n, const char *dash,
                       struct mst_range *range, struct mst_err *err) {
  struct mst_ip from, to;
  const char *at = dash + 1, *end = text + n;
  if (mst_ip_parse(text, (size_t)(dash - text), &from) != 0) {
    return refuse(err, "the part before the dash isn't an address");
  }
  const size_t rest = (size_t)(end - at);
  if (!from.v6 && memchr(at, '.', rest) == NULL) {
    const int number = read_number(&at, end); // the last number only
    if (number < 0 || number > 255 || at != end) {
      return refuse(err, "the range must end with an address or a number up "
                         "to 255");
    }
    to = from;
    to.low = (from.low & ~UINT64_C(255)) | (uint64_t)number;
  } else if (mst_ip_parse(at, rest, &to) != 0 || to.v6 != from.v6) {
    return refuse(err,
                  "the part after the dash isn't an address of the same kind");
  }
  if (to.net < from.net || (to.net == from.net && to.low < from.low)) {
    return refuse(err, "the range must not end before its start");
  }
  if (to.net != from.net || (to.v6 && to.low - from.low >= MST_TARGET_V6_MAX)) {
    return mst_err_set(err, MST_ELIMIT, 0, NULL,
                       "a range may have 2^24 IPv6 addresses");
  }
  *range = (struct mst_range){
      .v6 = from.v6, .net = from.net, .first = from.low, .last = to.low};
  return MST_TARGET_RANGE;
}

// could_be_name: letters, digits, dots, dashes and underscores, with at least one letter; digits
// and dots alone are a mistyped address.
static int could_be_name(const char *text, size_t n) {
  int letters = 0;
  for (size_t i = 0; i < n; i++) {
    const char c = text[i];
    const int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !is_digit(c) && c != '.' && c != '-' && c != '_') return 0;
    letters += letter;
  }
  return letters > 0 && text[0] != '-' && text[0] != '.';
}

int mst_target_parse(const char *text, size_t n, int edges,
                     struct mst_range *range, struct mst_err *err) {
  if (n == 0) return refuse(err, "it is empty");
  if (n > MST_TARGET_TEXT_MAX) return refuse(err, "it is too long");
  const char *slash = memchr(text, '/', n);
  if (slash != NULL) return parse_block(text, n, slash, edges, range, err);
  struct mst_ip ip;
  if (mst_ip_parse(text, n, &ip) == 0) {
    *range = (struct mst_range){
        .v6 = ip.v6, .net = ip.net, .first = ip.low, .last = ip.low};
    return MST_TARGET_RANGE;
  }
  if (could_be_name(text, n)) return MST_TARGET_NAME;
  const char *dash = memchr(text, '-', n);
  if (dash != NULL) return parse_range(text, n, dash, range, err);
  if (memchr(text, '%', n) != NULL) {
    return refuse(err, "addresses with a zone (%) can't be probed");
  }
  return refuse(err, "it isn't an address, block, range or host name");
}
