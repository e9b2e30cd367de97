// Tests of net/addr: text to addresses and back, names, and invalid texts.
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "mst_test.h"
#include "net/addr.h"

static void check_text(const char *host, int port, const char *text,
                       const char *only_host) {
  struct mst_addr addr;
  char out[MST_ADDR_TEXT_MAX];
  CHECK_INT(mst_addr_parse(host, port, &addr, NULL), 0);
  CHECK_TEXT(mst_addr_format(&addr, out), text);
  CHECK_TEXT(mst_addr_host(&addr, out), only_host);
}

static void check_refused(const char *host, int port) {
  struct mst_addr addr;
  struct mst_err err;
  mst_err_clear(&err);
  CHECK_INT(mst_addr_parse(host, port, &addr, &err), -MST_EINPUT);
  CHECK(err.text[0] != '\0');
}

TEST("Numbers and paths become addresses, and text again") {
  check_text("127.0.0.1", 80, "127.0.0.1:80", "127.0.0.1");
  check_text("255.255.255.255", 65535, "255.255.255.255:65535",
             "255.255.255.255");
  check_text("::1", 80, "[::1]:80", "::1");
  check_text("[::1]", 0, "[::1]:0", "::1");
  check_text("::ffff:10.0.0.1", 1, "[::ffff:10.0.0.1]:1", "::ffff:10.0.0.1");
  check_text("fe80::1%lo", 7, "[fe80::1%lo]:7", "fe80::1%lo");
  check_text("fe80::1%1", 7, "[fe80::1%lo]:7", "fe80::1%lo");
  check_text("localhost", 5, "127.0.0.1:5", "127.0.0.1");
  check_text("/tmp/x", 0, "/tmp/x", "/tmp/x");
  check_text("unix:x", 0, "unix:x", "unix:x");
}

TEST("A text that is neither an address nor a name is refused without a "
     "look-up") {
  check_refused("", 80);
  check_refused("10.0.0.0/24", 80);
  check_refused("10.0.0.300", 80);
  check_refused("1.2.3", 80);
  check_refused("12", 80);
  check_refused("a b", 80);
  check_refused("a;b", 80);
  check_refused("-oProxyCommand=x", 80);
  check_refused("[::1", 80);
  check_refused("[]", 80);
  check_refused("fe80::1%", 80);
  check_refused("fe80::1%nosuch0", 80);
  check_refused("caf\xC3\xA9", 80);
  check_refused("unix:", 80);
  check_refused("localhost", -1);
  check_refused("127.0.0.1", 65536);
}

TEST("Names and paths that are too long are refused") {
  char host[512];
  memset(host, 'a', sizeof host);
  host[MST_HOST_MAX + 1] = '\0';
  check_refused(host, 1);
  struct mst_addr addr;
  host[MST_HOST_MAX] = '\0';
  CHECK_INT(mst_addr_parse(host, 1, &addr, NULL), -MST_EAGAIN);
  host[0] = '/';
  host[sizeof addr.at.un.sun_path] = '\0';
  check_refused(host, 0);
  host[sizeof addr.at.un.sun_path - 1] = '\0';
  char out[MST_ADDR_TEXT_MAX];
  CHECK_INT(mst_addr_parse(host, 0, &addr, NULL), 0);
  CHECK_TEXT(mst_addr_format(&addr, out), host);
}

TEST("localhost is both loopback addresses, an unknown name is an error") {
  struct mst_addr addrs[MST_ADDRS_MAX];
  struct mst_err err;
  char out[MST_ADDR_TEXT_MAX];
  size_t count = 7;
  CHECK_INT(mst_addr_lookup("localhost", 9, addrs, MST_ADDRS_MAX, &count, NULL),
            0);
  CHECK_INT(count, 2);
  CHECK_TEXT(mst_addr_format(&addrs[0], out), "127.0.0.1:9");
  CHECK_TEXT(mst_addr_format(&addrs[1], out), "[::1]:9");
  CHECK_INT(mst_addr_lookup("::1", 9, addrs, MST_ADDRS_MAX, &count, NULL), 0);
  CHECK_INT(count, 1);
  mst_err_clear(&err);
  // A label may have 63 characters: no server is asked for more.
  const char *name = "a23456789012345678901234567890123456789012345678901234567"
                     "8901234.invalid";
  CHECK_INT(mst_addr_lookup(name, 9, addrs, MST_ADDRS_MAX, &count, &err),
            -MST_ECONNECT);
  CHECK_INT(count, 0);
  CHECK(strstr(err.text, "can't look up") != NULL);
}

TEST("Addresses are compared by all that matters, ports can be changed") {
  struct mst_addr one = mst_addr_ip4(htonl(INADDR_LOOPBACK), 80), other = one;
  CHECK(mst_addr_same(&one, &other));
  mst_addr_set_port(&other, 81);
  CHECK_INT(mst_addr_port(&other), 81);
  CHECK(!mst_addr_same(&one, &other));
  CHECK_INT(mst_addr_parse("::1", 80, &other, NULL), 0);
  CHECK(!mst_addr_same(&one, &other));
  struct mst_addr path;
  CHECK_INT(mst_addr_parse("/x", 0, &path, NULL), 0);
  CHECK(mst_addr_is_unix(&path));
  CHECK(!mst_addr_is_unix(&one));
  CHECK(mst_addr_same(&path, &path));
  CHECK(!mst_addr_same(&path, &one));
}
