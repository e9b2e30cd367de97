// Tests of stock/word and of links whose peers aren't proved yet: at most a few kilobytes are read
// from them, and never by the parser of R's format.
#include <string.h>

#include "base/mst_err.h"
#include "mst_test.h"
#include "net/net.h"
#include "stock/conn.h"
#include "stock/word.h"

static const char right[] = "0123456789abcdef0123456789abcdef";
static const char wrong[] = "0123456789abcdef0123456789abcdee";

TEST("A word is found behind its mark, cut at any byte and up to the limit") {
  static uint8_t bytes[MST_STOCK_FIRST_MAX + 100];
  const size_t mark = strlen(MST_STOCK_MARK);
  const size_t whole = mark + MST_STOCK_WORD_BYTES;
  const size_t begins[] = {0, 1, 300, MST_STOCK_FIRST_MAX - whole};
  for (size_t k = 0; k < 4; k++) {
    memset(bytes, 'm', sizeof bytes);
    memcpy(bytes + begins[k], MST_STOCK_MARK, mark);
    memcpy(bytes + begins[k] + mark, right, MST_STOCK_WORD_BYTES);
    const size_t end = begins[k] + whole;
    size_t at = 0;
    for (size_t n = 0; n < end; n++)
      CHECK_INT(mst_stock_word_find(bytes, n, &at), 0);
    CHECK_INT(mst_stock_word_find(bytes, end, &at), 1);
    CHECK_INT(at, begins[k] + mark);
    CHECK_INT(mst_stock_word_find(bytes, sizeof bytes, &at), 1);
  }
  size_t at = 0;
  memset(bytes, 0, sizeof bytes);
  memcpy(bytes + MST_STOCK_FIRST_MAX - whole + 1, MST_STOCK_MARK, mark);
  CHECK_INT(mst_stock_word_find(bytes, MST_STOCK_FIRST_MAX - 1, &at), 0);
  CHECK_INT(mst_stock_word_find(bytes, MST_STOCK_FIRST_MAX, &at), -MST_EPROTO);
}

TEST("Two words are the same if every byte is") {
  uint8_t other[MST_STOCK_WORD_BYTES];
  const uint8_t *word = (const uint8_t *)right;
  memcpy(other, right, sizeof other);
  CHECK_INT(mst_stock_word_same(word, other), 1);
  for (size_t i = 0; i < sizeof other; i++) {
    other[i] ^= 0x80;
    CHECK_INT(mst_stock_word_same(word, other), 0);
    other[i] ^= 0x80;
  }
}

static void send_bytes(int fd, const void *bytes, size_t n) {
  uint8_t copy[8192];
  memcpy(copy, bytes, n);
  const struct iovec part = {.iov_base = copy, .iov_len = n};
  CHECK_INT(mst_net_sendv(fd, &part, 1, NULL, 0, 1, NULL), (int64_t)n);
}

// A message of R's: a string that holds the mark and a word.
static size_t answer(uint8_t *bytes, const char *word) {
  static const uint8_t head[] = {'X', '\n', 0, 0, 0, 2, 0, 4, 2, 2, 0,
                                 2,   3,    0, 0, 0, 0, 9, 0, 0, 0};
  const size_t text = strlen(MST_STOCK_MARK) + MST_STOCK_WORD_BYTES;
  memcpy(bytes, head, sizeof head);
  bytes[sizeof head] = (uint8_t)text;
  memcpy(bytes + sizeof head + 1, MST_STOCK_MARK, strlen(MST_STOCK_MARK));
  memcpy(bytes + sizeof head + 1 + strlen(MST_STOCK_MARK), word,
         MST_STOCK_WORD_BYTES);
  return sizeof head + 1 + text;
}

TEST("A link's messages are read once its peer has sent the right word") {
  uint8_t bytes[128];
  const size_t n = answer(bytes, right);
  int fds[2];
  CHECK_INT(mst_net_pair(fds, NULL), 0);
  struct mst_stock_conn link;
  mst_stock_conn_init(&link, fds[0], 1);
  CHECK_INT(mst_stock_conn_prove(&link, right), 0); // it has sent nothing
  send_bytes(fds[1], bytes, n - 1);
  CHECK_INT(mst_stock_conn_fill(&link), 0);
  send_bytes(fds[1], bytes + n - 1, 1);
  CHECK_INT(mst_stock_conn_fill(&link), 1);
  CHECK_INT(link.whole, 0);
  CHECK_INT(mst_stock_conn_prove(&link, wrong), 0);
  CHECK_INT(mst_stock_conn_fill(&link), 1); // still its word only
  CHECK_INT(link.whole, 0);
  CHECK_INT(mst_stock_conn_prove(&link, right), 1);
  CHECK_INT(mst_stock_conn_fill(&link), 1);
  CHECK_INT(link.whole, n);
  CHECK_INT(mst_stock_conn_prove(&link, right), 0); // once
  mst_stock_conn_close(&link);
  mst_net_close(&fds[1]);
}

TEST("Bytes of a peer without a word are never parsed, whole message or not") {
  static uint8_t noise[MST_STOCK_FIRST_MAX];
  const uint8_t null[] = {'X', '\n', 0, 0, 0, 2, 0, 4, 2,
                          2,   0,    2, 3, 0, 0, 0, 0, 254};
  int fds[2];
  CHECK_INT(mst_net_pair(fds, NULL), 0);
  struct mst_stock_conn link;
  mst_stock_conn_init(&link, fds[0], 1);
  send_bytes(fds[1], null, sizeof null);
  CHECK_INT(mst_stock_conn_fill(&link), 0);
  CHECK_INT(link.whole, 0);
  CHECK_INT(link.scan.begun, 0);
  send_bytes(fds[1], noise, sizeof noise - sizeof null);
  CHECK_INT(mst_stock_conn_fill(&link), -MST_EPROTO);
  CHECK(link.in.cap <= 4 * MST_STOCK_FIRST_MAX);
  mst_stock_conn_close(&link);
  mst_net_close(&fds[1]);
}
