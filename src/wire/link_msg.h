// wire/link: messages of the links between workers. Pure; wire.h's conventions hold here too:
// encoders assert ranges, decoders check them and reject unused bytes.
#ifndef MST_LINK_MSG_H
#define MST_LINK_MSG_H

#include <stddef.h>
#include <stdint.h>

// The most blocks that one map task makes: 4096 for parts, and one for all of these.
#define MST_BLOCKS_MAX 4097u

// MEET, and MET, which repeats it: who connects to whose listener. The token belongs to the
// listener's incarnation; its readers know it from the session.
#define MST_TOKEN_BYTES 16u
struct mst_meet {
  uint32_t worker, epoch;             // the one that connects
  uint32_t other_worker, other_epoch; // the one that listens
  uint8_t token[MST_TOKEN_BYTES];
};
#define MST_MEET_BYTES 32u
void mst_meet_encode(const struct mst_meet *meet, uint8_t out[MST_MEET_BYTES]);
int mst_meet_decode(const uint8_t *bytes, size_t n, struct mst_meet *meet);
// mst_meet_same compares all fields, in a time that reveals nothing about the token.
int mst_meet_same(const struct mst_meet *one, const struct mst_meet *other);

// WANT, and NONE: the blocks of one attempt of a map task.
struct mst_want {
  uint32_t stage, task, attempt; // attempt from 1
};
#define MST_WANT_BYTES 12u
void mst_want_encode(const struct mst_want *want, uint8_t out[MST_WANT_BYTES]);
int mst_want_decode(const uint8_t *bytes, size_t n, struct mst_want *want);

// One block in a segment or a file.
struct mst_block {
  uint64_t offset; // a multiple of MST_SEGMENT_ALIGN
  uint64_t bytes;  // vectors and stream; 0: no rows
  uint64_t stream; // start of the R bytes after offset; below bytes
  uint64_t rows;
  uint64_t
      check; // mst_hash of the bytes, 0 in a segment, which nobody can change
};
#define MST_BLOCK_BYTES 40u

// HAVE: the blocks, in a segment (whose size comes first) or in a file, one after another.
struct mst_have {
  struct mst_want want;
  uint64_t size; // of the segment or the file; 0: no rows, no segment, no file
  uint32_t count;
  uint16_t path_bytes; // 0: a segment
  const char *path;    // not ended by NUL
  const uint8_t *blocks;
};
#define MST_HAVE_HEAD_BYTES 32u
// mst_have_bytes gives the size of the message.
size_t mst_have_bytes(const struct mst_have *have);
// mst_have_encode writes it, with blocks from an array; ignores have->blocks.
void mst_have_encode(const struct mst_have *have,
                     const struct mst_block *blocks, uint8_t *out);
// mst_have_decode checks all blocks. have points into the bytes.
int mst_have_decode(const uint8_t *bytes, size_t n, struct mst_have *have);
// mst_have_block reads one block of a decoded message.
void mst_have_block(const struct mst_have *have, uint32_t index,
                    struct mst_block *block);

#endif
