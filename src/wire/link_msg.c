// Messages of links: see link_msg.h. HAVE is laid out as
//   0 u64 size, 8 stage, 12 task, 16 attempt, 20 count, 24 u16 length of the path,
//   26 six bytes of zero, 32 blocks, then the path.
#include "wire/link_msg.h"

#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_err.h"
#include "wire/wire.h"
#include "wire/wire_int.h"

#define ALIGN 64u // MST_SEGMENT_ALIGN; wire knows nothing of segments

void mst_meet_encode(const struct mst_meet *meet, uint8_t out[MST_MEET_BYTES]) {
  put_u32(out, meet->worker);
  put_u32(out + 4, meet->epoch);
  put_u32(out + 8, meet->other_worker);
  put_u32(out + 12, meet->other_epoch);
  memcpy(out + 16, meet->token, MST_TOKEN_BYTES);
}

int mst_meet_decode(const uint8_t *bytes, size_t n, struct mst_meet *meet) {
  if (n != MST_MEET_BYTES) return -MST_EPROTO;
  meet->worker = get_u32(bytes);
  meet->epoch = get_u32(bytes + 4);
  meet->other_worker = get_u32(bytes + 8);
  meet->other_epoch = get_u32(bytes + 12);
  memcpy(meet->token, bytes + 16, MST_TOKEN_BYTES);
  return 0;
}

int mst_meet_same(const struct mst_meet *one, const struct mst_meet *other) {
  uint8_t differs = 0;
  for (size_t i = 0; i < MST_TOKEN_BYTES; i++)
    differs |= (uint8_t)(one->token[i] ^ other->token[i]);
  return differs == 0 && one->worker == other->worker &&
         one->epoch == other->epoch &&
         one->other_worker == other->other_worker &&
         one->other_epoch == other->other_epoch;
}

void mst_want_encode(const struct mst_want *want, uint8_t out[MST_WANT_BYTES]) {
  MST_ASSERT(want->attempt > 0);
  put_u32(out, want->stage);
  put_u32(out + 4, want->task);
  put_u32(out + 8, want->attempt);
}

int mst_want_decode(const uint8_t *bytes, size_t n, struct mst_want *want) {
  if (n != MST_WANT_BYTES) return -MST_EPROTO;
  want->stage = get_u32(bytes);
  want->task = get_u32(bytes + 4);
  want->attempt = get_u32(bytes + 8);
  return want->attempt > 0 ? 0 : -MST_EPROTO;
}

static void put_block(const struct mst_block *block, uint8_t *out) {
  put_u64(out, block->offset);
  put_u64(out + 8, block->bytes);
  put_u64(out + 16, block->stream);
  put_u64(out + 24, block->rows);
  put_u64(out + 32, block->check);
}

static void get_block(const uint8_t *bytes, struct mst_block *block) {
  block->offset = get_u64(bytes);
  block->bytes = get_u64(bytes + 8);
  block->stream = get_u64(bytes + 16);
  block->rows = get_u64(bytes + 24);
  block->check = get_u64(bytes + 32);
}

// Whether a block fits within `size` bytes and starts after `end`, where the previous block ends.
static int fits(const struct mst_block *block, uint64_t size, uint64_t end) {
  if (block->rows > INT32_MAX || block->offset % ALIGN != 0) return 0;
  if (block->bytes == 0) return block->rows == 0 && block->stream == 0;
  return block->offset >= end && block->offset < size &&
         block->bytes <= size - block->offset && block->stream < block->bytes;
}

size_t mst_have_bytes(const struct mst_have *have) {
  return MST_HAVE_HEAD_BYTES + (size_t)have->count * MST_BLOCK_BYTES +
         have->path_bytes;
}

void mst_have_encode(const struct mst_have *have,
                     const struct mst_block *blocks, uint8_t *out) {
  MST_ASSERT(have->want.attempt > 0 && have->count <= MST_BLOCKS_MAX);
  put_u64(out, have->size);
  mst_want_encode(&have->want, out + 8);
  put_u32(out + 20, have->count);
  put_u16(out + 24, have->path_bytes);
  memset(out + 26, 0, 6);
  uint8_t *at = out + MST_HAVE_HEAD_BYTES;
  uint64_t end = 0;
  for (uint32_t i = 0; i < have->count; i++, at += MST_BLOCK_BYTES) {
    MST_ASSERT(fits(&blocks[i], have->size, end));
    if (blocks[i].bytes > 0) end = blocks[i].offset + blocks[i].bytes;
    put_block(&blocks[i], at);
  }
  if (have->path_bytes > 0) memcpy(at, have->path, have->path_bytes);
}

int mst_have_decode(const uint8_t *bytes, size_t n, struct mst_have *have) {
  static const uint8_t zeros[6] = {0};
  if (n < MST_HAVE_HEAD_BYTES) return -MST_EPROTO;
  have->size = get_u64(bytes);
  have->count = get_u32(bytes + 20);
  have->path_bytes = get_u16(bytes + 24);
  have->blocks = bytes + MST_HAVE_HEAD_BYTES;
  if (mst_want_decode(bytes + 8, MST_WANT_BYTES, &have->want) != 0 ||
      have->size > MST_FRAME_MAX || have->count > MST_BLOCKS_MAX ||
      have->path_bytes > MST_TEXT_MAX || memcmp(bytes + 26, zeros, 6) != 0 ||
      n != mst_have_bytes(have)) {
    return -MST_EPROTO;
  }
  uint64_t end = 0;
  for (uint32_t i = 0; i < have->count; i++) {
    struct mst_block block;
    mst_have_block(have, i, &block);
    if (!fits(&block, have->size, end)) return -MST_EPROTO;
    if (block.bytes > 0) end = block.offset + block.bytes;
  }
  have->path =
      (const char *)have->blocks + (size_t)have->count * MST_BLOCK_BYTES;
  if (memchr(have->path, 0, have->path_bytes) != NULL) return -MST_EPROTO;
  return 0;
}

void mst_have_block(const struct mst_have *have, uint32_t index,
                    struct mst_block *block) {
  MST_ASSERT(index < have->count);
  get_block(have->blocks + (size_t)index * MST_BLOCK_BYTES, block);
}
