// Tests of stock/parse and stock/conn: the end of an object in R's serialization format, however
// its bytes come. R's own output is tested from R (test-psock-stock.R).
#include <errno.h>
#include <string.h>

#include "base/mst_fault.h"
#include "mst_test.h"
#include "net/net.h"
#include "stock/conn.h"

struct message {
  uint8_t bytes[4096];
  size_t n;
};

static void word(struct message *m, uint32_t value) {
  const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16),
                            (uint8_t)(value >> 8), (uint8_t)value};
  memcpy(m->bytes + m->n, bytes, 4);
  m->n += 4;
}

static void header(struct message *m) {
  m->n = 0;
  memcpy(m->bytes, "X\n", 2);
  m->n = 2;
  word(m, 2);
  word(m, 0x00040202);
  word(m, 0x00020300);
}

static void string(struct message *m, const char *text) {
  word(m, 9);
  word(m, (uint32_t)strlen(text));
  memcpy(m->bytes + m->n, text, strlen(text));
  m->n += strlen(text);
}

// check_ends feeds a message cut at every byte, and with more after it.
static void check_ends(struct message *m) {
  struct mst_stock_parse scan = {0};
  size_t size = 0;
  for (size_t n = 0; n < m->n; n++) {
    CHECK_INT(mst_stock_parse_run(&scan, m->bytes, n, &size), 0);
  }
  CHECK_INT(mst_stock_parse_run(&scan, m->bytes, m->n, &size), 1);
  CHECK_INT(size, m->n);
  mst_stock_parse_reset(&scan);
  CHECK_INT(mst_stock_parse_run(&scan, m->bytes, m->n + 3, &size), 1);
  CHECK_INT(size, m->n);
  mst_stock_parse_free(&scan);
}

TEST("An object's end is found, however its bytes are cut") {
  struct message m;
  header(&m);
  word(&m, 19 | 0x200); // a list with names
  word(&m, 3);
  word(&m, 254); // NULL
  word(&m, 14);  // 2 numbers
  word(&m, 2);
  for (int i = 0; i < 4; i++)
    word(&m, 0x12345678);
  word(&m, 4); // an environment
  word(&m, 0);
  word(&m, 253);
  for (int i = 0; i < 3; i++)
    word(&m, 254);
  word(&m, 2 | 0x400); // names
  word(&m, 1);
  string(&m, "names");
  word(&m, 16);
  word(&m, 3);
  string(&m, "a");
  string(&m, "");
  word(&m, 9);
  word(&m, 0xffffffffu); // NA
  word(&m, 254);
  check_ends(&m);
}

TEST("The end of byte code with calls that refer to each other is found") {
  struct message m;
  header(&m);
  word(&m, 21); // code, one place for references
  word(&m, 1);
  word(&m, 13); // instructions
  word(&m, 1);
  word(&m, 7);
  word(&m, 3);   // constants
  word(&m, 244); // a definition: number 0, a call
  word(&m, 0);
  word(&m, 6);
  word(&m, 254); // no tag
  word(&m, 1);   // a symbol, after its type
  word(&m, 1);
  string(&m, "f");
  word(&m, 243); // its tail: a reference
  word(&m, 0);
  word(&m, 14); // a number, after its type
  word(&m, 14);
  word(&m, 0);
  word(&m, 21); // code inside of code
  word(&m, 13);
  word(&m, 0);
  word(&m, 0);
  check_ends(&m);
}

TEST("A list of a hundred thousand elements takes one entry of the stack") {
  enum { COUNT = 100000 };
  struct mst_buf buf = {0};
  struct message m;
  header(&m);
  CHECK_INT(mst_buf_append(&buf, m.bytes, m.n), 0);
  m.n = 0;
  word(&m, 2);   // a pair
  word(&m, 254); // of NULL
  for (int i = 0; i < COUNT; i++)
    CHECK_INT(mst_buf_append(&buf, m.bytes, m.n), 0);
  CHECK_INT(mst_buf_append(&buf, m.bytes + 4, 4), 0); // and the end
  struct mst_stock_parse scan = {0};
  size_t size = 0;
  CHECK_INT(mst_stock_parse_run(&scan, buf.data, buf.len, &size), 1);
  CHECK_INT(size, buf.len);
  CHECK(scan.cap <= 64);
  mst_stock_parse_free(&scan);
  mst_buf_free(&buf);
}

TEST("An invalid message, or endless nesting, is refused") {
  static const char *const bad[] = {"A\n", "HTTP/1.1 200 OK", "X ", "\0\0"};
  struct mst_stock_parse scan = {0};
  size_t size = 0;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    mst_stock_parse_reset(&scan);
    CHECK_INT(mst_stock_parse_run(&scan, (const uint8_t *)bad[i], 2, &size),
              -MST_EPROTO);
  }
  struct message m;
  const uint32_t items[] = {200, 26, 245, 246};
  for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
    header(&m);
    word(&m, items[i]);
    mst_stock_parse_reset(&scan);
    CHECK_INT(mst_stock_parse_run(&scan, m.bytes, m.n, &size), -MST_EPROTO);
  }
  header(&m);
  word(&m, 13);
  word(&m, 0xfffffffeu); // a length below -1
  mst_stock_parse_reset(&scan);
  CHECK_INT(mst_stock_parse_run(&scan, m.bytes, m.n, &size), -MST_EPROTO);
  // Pairs inside of pairs: each level stays open.
  struct mst_buf buf = {0};
  header(&m);
  CHECK_INT(mst_buf_append(&buf, m.bytes, m.n), 0);
  m.n = 0;
  word(&m, 2);
  int rc = 0;
  mst_stock_parse_reset(&scan);
  for (uint32_t i = 0; rc == 0 && i < 2 * MST_STOCK_PARSE_DEPTH_MAX + 100; i++)
    CHECK_INT(mst_buf_append(&buf, m.bytes, 4), 0);
  CHECK_INT(mst_stock_parse_run(&scan, buf.data, buf.len, &size), -MST_ELIMIT);
  mst_stock_parse_free(&scan);
  mst_buf_free(&buf);
}

TEST("A link takes messages one by one, and says when no more will come") {
  struct message m;
  int fds[2];
  CHECK_INT(mst_net_pair(fds, NULL), 0);
  struct mst_stock_conn link;
  mst_stock_conn_init(&link, fds[0], 1);
  link.proved = 1;
  header(&m);
  word(&m, 254);
  const size_t one = m.n;
  memcpy(m.bytes + one, m.bytes, one);
  const struct iovec part = {.iov_base = m.bytes, .iov_len = 2 * one - 1};
  CHECK_INT(mst_stock_conn_fill(&link), 0);
  CHECK_INT(mst_net_sendv(fds[1], &part, 1, NULL, 0, 1, NULL),
            (int64_t)(2 * one - 1));
  CHECK_INT(mst_stock_conn_fill(&link), 1);
  CHECK_INT(link.whole, one);
  mst_stock_conn_take(&link);
  CHECK_INT(mst_stock_conn_fill(&link), 0);
  mst_net_close(&fds[1]);
  CHECK_INT(mst_stock_conn_fill(&link), -MST_ECLOSED);
  mst_stock_conn_close(&link);
  CHECK_INT(link.fd, -1);
  CHECK_INT(mst_stock_conn_fill(&link), -MST_ECLOSED);
  mst_stock_conn_close(&link);
}

TEST("A detached message is the caller's, and the next one is there") {
  static const size_t sizes[] = {10, 20000, 4096, 5000};
  int fds[2];
  CHECK_INT(mst_net_pair(fds, NULL), 0);
  struct mst_stock_conn link;
  mst_stock_conn_init(&link, fds[0], 1);
  link.proved = 1;
  static uint8_t bytes[20000];
  for (size_t i = 0; i < 4; i++)
    CHECK_INT(mst_buf_append(&link.in, bytes, sizes[i]), 0);
  for (size_t i = 0; i < 4; i++) {
    struct mst_buf got;
    link.whole = sizes[i]; // as the parser would say
    const size_t before = link.in.len;
    mst_fault_arm("base.realloc", 1, ENOMEM);
    const int rc = mst_stock_conn_detach(&link, &got);
    mst_fault_arm("", 0, 0);
    if (rc == -MST_EMEM) { // it stays
      CHECK_INT(link.in.len, before);
      CHECK_INT(mst_stock_conn_detach(&link, &got), 1);
    }
    CHECK_INT(got.len, sizes[i]);
    CHECK_INT(link.in.len, before - sizes[i]);
    CHECK_INT(link.whole, 0);
    mst_buf_free(&got);
  }
  mst_net_close(&fds[1]);
  mst_stock_conn_close(&link);
}

TEST("A link sends what fits and goes on later") {
  int fds[2];
  CHECK_INT(mst_net_pair(fds, NULL), 0);
  struct mst_stock_conn link;
  mst_stock_conn_init(&link, fds[0], 1);
  static uint8_t large[1 << 20];
  CHECK_INT(mst_buf_append(&link.out, large, sizeof large), 0);
  CHECK_INT(mst_stock_conn_flush(&link), 0);
  CHECK((mst_stock_conn_events(&link) & POLLOUT) != 0);
  size_t got = 0;
  static uint8_t sink[1 << 16];
  while (got < sizeof large) {
    const int64_t n = mst_net_recv(fds[1], sink, sizeof sink, 0, NULL);
    if (n > 0) got += (size_t)n;
    (void)mst_stock_conn_flush(&link);
  }
  CHECK_INT(mst_stock_conn_flush(&link), 1);
  CHECK((mst_stock_conn_events(&link) & POLLOUT) == 0);
  mst_net_close(&fds[1]);
  CHECK_INT(mst_buf_append(&link.out, large, 10), 0);
  CHECK_INT(mst_stock_conn_flush(&link), -MST_ECLOSED);
  mst_stock_conn_close(&link);
}
