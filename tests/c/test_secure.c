// Tests of secure: who proves the key, who doesn't, and what goes across.
#include <poll.h>
#include <string.h>

#include "mst_random.h"
#include "mst_test.h"
#include "net/net.h"
#include "secure/secure.h"

static struct mst_secure *ends[2];
static int fds[2];
static struct mst_err errs[2];

static void open_ends(const uint8_t *dials, const char *name,
                      const uint8_t *accepts, const char *other) {
  CHECK_INT(mst_net_pair(fds, NULL), 0);
  for (int i = 0; i < 2; i++) {
    mst_net_unblock(fds[i]);
    mst_err_clear(&errs[i]);
    ends[i] = NULL;
  }
  CHECK_INT(
      mst_secure_open(MST_SECURE_DIALS, fds[0], dials, name, &ends[0], NULL),
      0);
  CHECK_INT(mst_secure_open(MST_SECURE_ACCEPTS, fds[1], accepts, other,
                            &ends[1], NULL),
            0);
}

static void close_ends(void) {
  for (int i = 0; i < 2; i++) {
    mst_secure_free(ends[i]);
    mst_net_close(&fds[i]);
  }
}

// shake lets both ends go on until each has an outcome.
static void shake(int outcome[2]) {
  outcome[0] = outcome[1] = -MST_EAGAIN;
  for (int turn = 0; turn < 20; turn++) {
    for (int i = 0; i < 2; i++) {
      if (outcome[i] != -MST_EAGAIN) continue;
      outcome[i] = mst_secure_shake(ends[i], &errs[i]);
      if (outcome[i] == -MST_EAGAIN)
        CHECK_INT(mst_secure_wants(ends[i]), POLLIN);
    }
  }
}

static const uint8_t key[MST_SECURE_KEY_BYTES] =
    "0123456789abcdef0123456789abcde";
static const uint8_t other_key[MST_SECURE_KEY_BYTES] = "another";

#define NEEDS_OPENSSL                                                          \
  if (!mst_secure_has()) SKIP("built without OpenSSL")

TEST("Two ends with one key find each other, and what they say arrives") {
  static uint8_t bytes[2000000], got[sizeof bytes];
  int outcome[2];
  NEEDS_OPENSSL;
  open_ends(key, "a", key, "a");
  shake(outcome);
  CHECK_INT(outcome[0], 0);
  CHECK_INT(outcome[1], 0);
  uint64_t random = 7;
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (uint8_t)mst_random(&random);
  for (int from = 0; from < 2; from++) {
    size_t sent = 0, there = 0;
    int was_full = 0;
    while (there < sizeof bytes) {
      int64_t n = -MST_EAGAIN;
      if (sent < sizeof bytes)
        n = mst_secure_write(ends[from], bytes + sent, sizeof bytes - sent,
                             NULL);
      if (n == -MST_EAGAIN && sent < sizeof bytes) {
        was_full = 1;
        CHECK_INT(mst_secure_wants(ends[from]), POLLOUT);
      }
      if (n > 0) sent += (size_t)n;
      if (n > 0 && sent < sizeof bytes) continue;
      n = mst_secure_read(ends[!from], got + there, 1000, NULL);
      if (n > 0) there += (size_t)n;
      if (n == -MST_EAGAIN) CHECK(!mst_secure_has_more(ends[!from]));
      if (n == 1000 && there < 2000) CHECK(mst_secure_has_more(ends[!from]));
    }
    CHECK(was_full);
    CHECK(memcmp(bytes, got, sizeof bytes) == 0);
  }
  close_ends();
}

TEST("Whoever has another key, or names another, is refused by both ends") {
  for (int which = 0; which < 2; which++) {
    int outcome[2];
    NEEDS_OPENSSL;
    open_ends(which == 0 ? other_key : key, which == 0 ? "a" : "b", key, "a");
    shake(outcome);
    CHECK(outcome[0] == -MST_EPROTO || outcome[0] == -MST_ECLOSED);
    CHECK_INT(outcome[1], -MST_EPROTO);
    CHECK(errs[1].text[0] != '\0');
    close_ends();
  }
}

TEST("What isn't TLS, or ends midway, is an error for whoever waits") {
  static const char *const said[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01",
                                     ""};
  for (int end = 0; end < 2; end++) {
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
      NEEDS_OPENSSL;
      open_ends(key, "a", key, "a");
      CHECK_INT(mst_secure_shake(ends[end], NULL), -MST_EAGAIN);
      const size_t n = strlen(said[i]);
      if (n > 0) CHECK_INT(mst_net_write(fds[!end], said[i], n, NULL), n);
      mst_net_cut(fds[!end]);
      const int rc = mst_secure_shake(ends[end], &errs[end]);
      CHECK_INT(rc, i == 0 ? -MST_EPROTO : -MST_ECLOSED);
      close_ends();
    }
  }
}

// is_version: this byte of whole TLS records says which version they have: nobody looks at that.
static int is_version(const uint8_t *bytes, size_t n, size_t at) {
  for (size_t record = 0; record + 5 <= n;) {
    if (at == record + 1 || at == record + 2) return 1;
    record += 5 + (size_t)(bytes[record + 3] << 8) + bytes[record + 4];
  }
  return 0;
}

TEST("A handshake in which any byte was changed doesn't succeed at both ends") {
  uint8_t bytes[4096];
  NEEDS_OPENSSL;
  for (size_t at = 0; at < 400; at++) {
    // Between them: what each says passes by here.
    int outcome[2] = {-MST_EAGAIN, -MST_EAGAIN}, there[2], changed = 0;
    size_t passed = 0;
    open_ends(key, "a", key, "a");
    mst_secure_free(ends[1]);
    CHECK_INT(mst_net_pair(there, NULL), 0);
    for (int i = 0; i < 2; i++)
      mst_net_unblock(there[i]);
    CHECK_INT(
        mst_secure_open(MST_SECURE_ACCEPTS, there[1], key, "a", &ends[1], NULL),
        0);
    const int here[2] = {fds[1], there[0]};
    for (int turn = 0; turn < 10; turn++) {
      const int i = turn % 2;
      if (outcome[i] == -MST_EAGAIN)
        outcome[i] = mst_secure_shake(ends[i], NULL);
      const int64_t n = mst_net_read(here[i], bytes, sizeof bytes, NULL);
      if (n <= 0) continue;
      if (passed <= at && at < passed + (size_t)n &&
          !is_version(bytes, (size_t)n, at - passed)) {
        bytes[at - passed] ^= 0x20;
        changed = 1;
      }
      passed += (size_t)n;
      CHECK_INT(mst_net_write(here[!i], bytes, (size_t)n, NULL), n);
    }
    if (changed) {
      CHECK(outcome[0] != 0 || outcome[1] != 0);
    } else {
      CHECK(outcome[0] == 0 && outcome[1] == 0);
    }
    for (int i = 0; i < 2; i++)
      mst_net_close(&there[i]);
    close_ends();
  }
}

TEST("The end of a connection is an end, with TLS's own or without") {
  int outcome[2];
  uint8_t byte;
  NEEDS_OPENSSL;
  open_ends(key, "a", key, "a");
  shake(outcome);
  CHECK_INT(mst_secure_write(ends[0], "x", 1, NULL), 1);
  mst_net_close(&fds[0]);
  CHECK_INT(mst_secure_read(ends[1], &byte, 1, NULL), 1);
  CHECK_INT(mst_secure_read(ends[1], &byte, 1, &errs[1]), -MST_ECLOSED);
  CHECK_INT(mst_secure_write(ends[1], "x", 1, NULL), -MST_ECLOSED);
  close_ends();
}
