// Tests of wire/link: messages are decoded as encoded, and invalid ones refused.
#include <string.h>

#include "base/mst_err.h"
#include "mst_test.h"
#include "share/segment.h"
#include "wire/link_msg.h"

TEST("WANT is decoded as it was encoded, and has one length") {
  uint8_t bytes[MST_WANT_BYTES + 1] = {0};
  struct mst_want want = {1, 2, 3}, want2;
  mst_want_encode(&want, bytes);
  CHECK_INT(mst_want_decode(bytes, MST_WANT_BYTES, &want2), 0);
  CHECK(want2.stage == 1 && want2.task == 2 && want2.attempt == 3);
  CHECK_INT(mst_want_decode(bytes, MST_WANT_BYTES - 1, &want2), -MST_EPROTO);
  bytes[8] = 0;
  CHECK_INT(mst_want_decode(bytes, MST_WANT_BYTES, &want2), -MST_EPROTO);
}

TEST("F3 MEET is decoded as it was encoded, and any other byte makes another "
     "one") {
  uint8_t bytes[MST_MEET_BYTES + 1] = {0};
  struct mst_meet meet = {7, 1, 8, 0x01020304, "fifteen letters"}, back;
  mst_meet_encode(&meet, bytes);
  CHECK_INT(bytes[12], 4);
  CHECK_INT(mst_meet_decode(bytes, MST_MEET_BYTES, &back), 0);
  CHECK(mst_meet_same(&meet, &back));
  for (size_t i = 0; i < MST_MEET_BYTES; i++) {
    bytes[i] ^= 0x40;
    CHECK_INT(mst_meet_decode(bytes, MST_MEET_BYTES, &back), 0);
    CHECK(!mst_meet_same(&meet, &back));
    bytes[i] ^= 0x40;
    CHECK_INT(mst_meet_decode(bytes, i, &back), -MST_EPROTO);
  }
  CHECK_INT(mst_meet_decode(bytes, MST_MEET_BYTES + 1, &back), -MST_EPROTO);
}

static const struct mst_block two[] = {
    {.offset = 0, .bytes = 100, .stream = 64, .rows = 5},
    {.offset = 128, .bytes = 1, .stream = 0, .rows = 1, .check = 9}};

static size_t have_of(struct mst_have *have, const char *path, uint8_t *out) {
  *have = (struct mst_have){.want = {4, 5, 6}, .size = 192, .count = 2};
  if (path != NULL) {
    have->path = path;
    have->path_bytes = (uint16_t)strlen(path);
  }
  mst_have_encode(have, two, out);
  return mst_have_bytes(have);
}

TEST("HAVE is decoded with its blocks, for a segment and for a file") {
  uint8_t bytes[256];
  struct mst_have have, back;
  struct mst_block block;
  for (int file = 0; file <= 1; file++) {
    const size_t n = have_of(&have, file ? "/tmp/b" : NULL, bytes);
    CHECK_INT(mst_have_decode(bytes, n, &back), 0);
    CHECK(back.want.stage == 4 && back.want.attempt == 6 && back.size == 192);
    CHECK_INT(back.path_bytes, file ? 6 : 0);
    CHECK(!file || memcmp(back.path, "/tmp/b", 6) == 0);
    mst_have_block(&back, 1, &block);
    CHECK(memcmp(&block, &two[1], sizeof block) == 0);
    for (size_t cut = 0; cut < n; cut++)
      CHECK_INT(mst_have_decode(bytes, cut, &back), -MST_EPROTO);
  }
}

// Changes one number of a good HAVE (8 bytes of it, at an offset).
static int after(size_t offset, uint64_t value) {
  uint8_t bytes[256];
  struct mst_have have, back;
  const size_t n = have_of(&have, NULL, bytes);
  for (int i = 0; i < 8; i++)
    bytes[offset + (size_t)i] = (uint8_t)(value >> (8 * i));
  return mst_have_decode(bytes, n, &back);
}

TEST("Blocks that reach outside, overlap, or aren't aligned are refused") {
  const size_t first = MST_HAVE_HEAD_BYTES;
  const size_t second = first + MST_BLOCK_BYTES;
  CHECK_INT(MST_SEGMENT_ALIGN, 64);
  CHECK_INT(after(0, 192), 0);
  CHECK_INT(after(0, 128), -MST_EPROTO);        // the second begins at the end
  CHECK_INT(after(0, UINT64_MAX), -MST_EPROTO); // no such size
  CHECK_INT(after(first, 32), -MST_EPROTO);
  CHECK_INT(after(first + 8, 200), -MST_EPROTO);
  CHECK_INT(after(first + 8, UINT64_MAX), -MST_EPROTO);
  CHECK_INT(after(first + 16, 100), -MST_EPROTO);
  CHECK_INT(after(first + 24, UINT64_MAX), -MST_EPROTO);
  CHECK_INT(after(second, 64), -MST_EPROTO);
  CHECK_INT(after(second, UINT64_MAX - 63), -MST_EPROTO);
  CHECK_INT(after(second + 8, 0), -MST_EPROTO); // rows without bytes
  CHECK_INT(after(second + 32, 1), 0);
}
