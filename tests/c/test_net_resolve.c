// Tests of net/resolve, net/conn and net/inbox: names within a time limit, whole messages.
#include "mst_net_test.h"

#include <stdlib.h>

#include "net/conn.h"
#include "net/resolve.h"

TEST("A name is looked up on a thread, and an answer that nobody wants is let "
     "go") {
  struct mst_resolve *resolve;
  struct mst_addr addrs[4];
  struct mst_err err;
  size_t count = 9;
  // A number needs no resolver.
  CHECK_INT(mst_resolve_begin("127.0.0.1", 9, &resolve, NULL), 0);
  CHECK_INT(mst_resolve_until(resolve, addrs, 4, &count, in_ms(60000), NULL),
            0);
  CHECK_INT(count, 1);
  CHECK_INT(mst_addr_port(&addrs[0]), 9);
  mst_resolve_drop(resolve);
  CHECK_INT(mst_resolve_begin("10.0.0.300", 9, &resolve, NULL), 0);
  mst_err_clear(&err);
  CHECK_INT(mst_resolve_until(resolve, addrs, 4, &count, in_ms(60000), &err),
            -MST_EINPUT);
  CHECK(strstr(err.text, "10.0.0.300") != NULL);
  mst_resolve_drop(resolve);
  for (int i = 0; i < 20; i++) {
    CHECK_INT(mst_resolve_begin("localhost", 9, &resolve, NULL), 0);
    (void)mst_resolve_until(resolve, addrs, 4, &count, 0, NULL);
    mst_resolve_drop(resolve);
  }
  mst_resolve_drop(NULL);
  (void)usleep(50000); // the threads close their descriptors
}

// The kind and bytes of the next frame, -1 if there is none yet.
static int next_frame(struct mst_conn *conn, uint64_t limit, uint64_t *n) {
  enum mst_inbox_kind kind;
  const uint8_t *bytes;
  for (;;) {
    const int rc = mst_inbox_frame(&conn->in, limit, &kind, &bytes, n, NULL);
    if (rc == 0) {
      mst_inbox_take(&conn->in, (size_t)*n + MST_INBOX_HEAD);
      return (int)kind;
    }
    if (rc != -MST_EAGAIN) return rc;
    if (mst_conn_fill(conn, (size_t)*n, in_ms(20), NULL) != 0) return -1;
  }
}

static void put_frame(struct mst_conn *conn, const void *bytes, size_t n) {
  uint8_t head[MST_INBOX_HEAD];
  mst_inbox_head(MST_INBOX_BYTES, n, head);
  CHECK_INT(mst_conn_put(conn, head, sizeof head), 0);
  CHECK_INT(mst_conn_put(conn, bytes, n), 0);
}

TEST("A message that can't be sent in time isn't torn") {
  int fds[2];
  struct mst_conn from, to;
  uint64_t n = 0;
  const size_t large = (size_t)16 << 20;
  uint8_t *bytes = calloc(1, large);
  CHECK(bytes != NULL);
  connected_pair(&fds[0], &fds[1]);
  mst_conn_init(&from, fds[0]);
  mst_conn_init(&to, fds[1]);
  put_frame(&from, bytes, large);
  CHECK_INT(mst_conn_flush(&from, in_ms(20), NULL), -MST_EAGAIN);
  put_frame(&from, "after", 5);
  CHECK_INT(next_frame(&to, large - 1, &n), -MST_ELIMIT);
  CHECK_INT(n, large);
  uint64_t got[2] = {0, 0};
  for (int i = 0; i < 2;) {
    const int rc = mst_conn_flush(&from, in_ms(1), NULL);
    CHECK(rc == 0 || rc == -MST_EAGAIN);
    if (next_frame(&to, large, &got[i]) == MST_INBOX_BYTES) i++;
  }
  CHECK_INT(got[0], large);
  CHECK_INT(got[1], 5);
  CHECK_INT(mst_conn_unsent(&from), 0);
  CHECK_INT(from.sent_bytes, to.received_bytes);
  mst_conn_close(&from);
  CHECK_INT(mst_conn_fill(&to, 1, in_ms(30000), NULL), -MST_ECLOSED);
  CHECK(to.ended != 0);
  mst_conn_close(&to);
  mst_conn_close(&to);
  free(bytes);
}
