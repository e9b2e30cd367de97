// Tests of base/mst_buf: growable bytes.
#include <errno.h>
#include <string.h>

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "mst_random.h"
#include "mst_test.h"

TEST("Sizes are added, and an overflow is reported") {
  size_t sum = 7;
  CHECK_INT(mst_size_add(2, 3, &sum), 0);
  CHECK_INT(sum, 5);
  CHECK_INT(mst_size_add(SIZE_MAX, 0, &sum), 0);
  CHECK(sum == SIZE_MAX);
  CHECK_INT(mst_size_add(SIZE_MAX - 1, 1, &sum), 0);
  CHECK(sum == SIZE_MAX);
  sum = 7;
  CHECK_INT(mst_size_add(SIZE_MAX, 1, &sum), -MST_ELIMIT);
  CHECK_INT(mst_size_add(1, SIZE_MAX, &sum), -MST_ELIMIT);
  CHECK_INT(sum, 7);
}

TEST("An empty buffer reserves nothing until it is asked to") {
  struct mst_buf buf = {0};
  CHECK_INT(mst_buf_append(&buf, NULL, 0), 0);
  CHECK_INT(mst_buf_reserve(&buf, 0), 0);
  CHECK(buf.data == NULL && buf.cap == 0);
  mst_buf_free(&buf);
}

TEST("Appended bytes are all there, in order, whatever their sizes") {
  uint64_t random = mst_test_seed();
  struct mst_buf buf = {0};
  uint8_t piece[600];
  size_t total = 0;
  for (int round = 0; round < 200; round++) {
    const size_t n = (size_t)mst_random_below(&random, sizeof piece + 1);
    for (size_t i = 0; i < n; i++)
      piece[i] = (uint8_t)((total + i) % 251);
    CHECK_INT(mst_buf_append(&buf, piece, n), 0);
    total += n;
    CHECK_INT(buf.len, total);
    CHECK(buf.cap >= buf.len);
  }
  for (size_t i = 0; i < total; i++)
    CHECK_INT(buf.data[i], i % 251);
  mst_buf_free(&buf);
}

TEST("A buffer at least doubles, so that appending stays linear") {
  struct mst_buf buf = {0};
  int grown = 0;
  size_t cap = 0;
  for (int i = 0; i < 100000; i++) {
    CHECK_INT(mst_buf_append(&buf, "x", 1), 0);
    if (buf.cap == cap) continue;
    CHECK(buf.cap >= 2 * cap);
    cap = buf.cap;
    grown++;
  }
  CHECK(grown < 20);
  mst_buf_free(&buf);
}

TEST("Reserving keeps the bytes in use and adds all the room requested") {
  struct mst_buf buf = {0};
  CHECK_INT(mst_buf_append(&buf, "muster", 6), 0);
  CHECK_INT(mst_buf_reserve(&buf, 100000), 0);
  CHECK_INT(buf.len, 6);
  CHECK(buf.cap - buf.len >= 100000);
  memset(buf.data + buf.len, 0xAB, 100000); // the sanitizer checks the size
  CHECK(memcmp(buf.data, "muster", 6) == 0);
  mst_buf_free(&buf);
}

TEST("A reservation that overflows fails and changes nothing") {
  struct mst_buf buf = {0};
  CHECK_INT(mst_buf_append(&buf, "muster", 6), 0);
  const struct mst_buf before = buf;
  CHECK_INT(mst_buf_reserve(&buf, SIZE_MAX), -MST_ELIMIT);
  CHECK_INT(mst_buf_append(&buf, "x", SIZE_MAX - 5), -MST_ELIMIT);
  CHECK(memcmp(&buf, &before, sizeof buf) == 0);
  mst_buf_free(&buf);
}

TEST("If an allocation fails the buffer is unchanged") {
  int failed_at_all = 0;
  for (int nth = 1;; nth++) {
    struct mst_buf buf = {0};
    int rc = 0;
    (void)mst_fault_arm("base.realloc", nth, ENOMEM);
    for (int i = 0; i < 10 && rc == 0; i++) {
      const struct mst_buf before = buf;
      rc = mst_buf_append(&buf,
                          "0123456789abcdef0123456789abcdef"
                          "0123456789abcdef0123456789abcdef",
                          64);
      if (rc != 0) CHECK(memcmp(&buf, &before, sizeof buf) == 0);
    }
    const int met = mst_fault_arm("", 0, 0);
    mst_buf_free(&buf);
    if (met < nth) {
      CHECK_INT(rc, 0);
      break;
    }
    CHECK_INT(rc, -MST_EMEM);
    failed_at_all++;
  }
  CHECK(failed_at_all >= 2); // the first reservation and one that grows
}

TEST("Trimming frees memory only if none is in use and much is reserved") {
  struct mst_buf buf = {0};
  CHECK_INT(mst_buf_append(&buf, "muster", 6), 0);
  mst_buf_trim(&buf, 0);
  CHECK(buf.data != NULL && buf.len == 6);
  buf.len = 0;
  mst_buf_trim(&buf, buf.cap);
  CHECK(buf.data != NULL);
  mst_buf_trim(&buf, buf.cap - 1);
  CHECK(buf.data == NULL && buf.cap == 0);
  mst_buf_trim(&buf, 0);
  CHECK(buf.data == NULL);
}

TEST("A freed buffer may be freed again and used again") {
  struct mst_buf buf = {0};
  CHECK_INT(mst_buf_append(&buf, "a", 1), 0);
  mst_buf_free(&buf);
  CHECK(buf.data == NULL && buf.len == 0 && buf.cap == 0);
  mst_buf_free(&buf);
  CHECK_INT(mst_buf_append(&buf, "bc", 2), 0);
  CHECK(buf.len == 2 && memcmp(buf.data, "bc", 2) == 0);
  mst_buf_free(&buf);
}
