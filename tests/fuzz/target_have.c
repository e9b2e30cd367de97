// Target: mst_have_decode, which reads what another worker says of its blocks.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "wire/link_msg.h"

static void run(const uint8_t *bytes, size_t n) {
  struct mst_have have;
  const int rc = mst_have_decode(bytes, n, &have);
  FUZZ_CHECK(rc == 0 || rc == -MST_EPROTO);
  if (rc != 0) return;
  static struct mst_block blocks[MST_BLOCKS_MAX];
  static uint8_t
      again[MST_HAVE_HEAD_BYTES + MST_BLOCKS_MAX * MST_BLOCK_BYTES + 65536];
  uint64_t end = 0;
  for (uint32_t i = 0; i < have.count; i++) {
    mst_have_block(&have, i, &blocks[i]);
    FUZZ_CHECK(blocks[i].bytes == 0 || blocks[i].offset >= end);
    FUZZ_CHECK(blocks[i].bytes == 0 ||
               blocks[i].offset + blocks[i].bytes <= have.size);
    if (blocks[i].bytes > 0) end = blocks[i].offset + blocks[i].bytes;
  }
  mst_have_encode(&have, blocks, again);
  FUZZ_CHECK(mst_have_bytes(&have) == n && memcmp(again, bytes, n) == 0);
}

static void seeds(struct fuzz_sink *sink) {
  const struct mst_block blocks[] = {
      {.offset = 0, .bytes = 100, .stream = 64, .rows = 5},
      {.offset = 64},
      {.offset = 128, .bytes = 64, .stream = 0, .rows = 1, .check = 77}};
  uint8_t bytes[512];
  struct mst_have have = {.want = {1, 2, 1}, .size = 192, .count = 3};
  mst_have_encode(&have, blocks, bytes);
  sink->take(sink, "segment", bytes, mst_have_bytes(&have));
  have.path = "/tmp/blocks-1-2-1";
  have.path_bytes = 17;
  mst_have_encode(&have, blocks, bytes);
  sink->take(sink, "file", bytes, mst_have_bytes(&have));
  have = (struct mst_have){.want = {1, 2, 1}};
  mst_have_encode(&have, blocks, bytes);
  sink->take(sink, "nothing", bytes, mst_have_bytes(&have));
}

const struct fuzz_target fuzz_have = {"have", 0, run, seeds};
