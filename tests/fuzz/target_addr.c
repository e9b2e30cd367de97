// Target: mst_addr_parse, and the text that it is written back as.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "net/addr.h"

static void run(const uint8_t *bytes, size_t n) {
  char host[512], text[MST_ADDR_TEXT_MAX], again[MST_ADDR_TEXT_MAX];
  struct mst_addr addr, other;
  if (n >= sizeof host) return;
  if (n > 0) memcpy(host, bytes, n);
  host[n] = '\0';
  const int rc = mst_addr_parse(host, 80, &addr, NULL);
  FUZZ_CHECK(rc == 0 || rc == -MST_EAGAIN || rc == -MST_EINPUT);
  FUZZ_CHECK(rc != -MST_EAGAIN || strlen(host) <= MST_HOST_MAX);
  if (rc != 0) return;
  FUZZ_CHECK(addr.len > 0 && addr.len <= sizeof addr.at);
  // What it is written as is the same address.
  (void)mst_addr_host(&addr, text);
  FUZZ_CHECK(mst_addr_parse(text, 80, &other, NULL) == 0);
  FUZZ_CHECK(mst_addr_same(&addr, &other));
  FUZZ_CHECK(strcmp(mst_addr_host(&other, again), text) == 0);
  (void)mst_addr_format(&addr, again);
}

static void give(struct fuzz_sink *sink, const char *name, const char *text) {
  sink->take(sink, name, (const uint8_t *)text, strlen(text));
}

static void seeds(struct fuzz_sink *sink) {
  give(sink, "ip4", "127.0.0.1");
  give(sink, "ip6", "fe80::1");
  give(sink, "ip6-scope", "fe80::1%1");
  give(sink, "ip6-brackets", "[::ffff:10.0.0.1]");
  give(sink, "name", "node07.example.org");
  give(sink, "localhost", "localhost");
  give(sink, "network", "10.0.0.0/24");
  give(sink, "path", "/run/x.sock");
  give(sink, "path-relative", "unix:x");
}

const struct fuzz_target fuzz_addr = {"addr", 0, run, seeds};
