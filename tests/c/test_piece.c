// Tests of wire/piece: headers and attachments are decoded as encoded, and invalid ones refused as
// soon as they show.
#include <string.h>

#include "base/mst_err.h"
#include "mst_test.h"
#include "wire/piece.h"
#include "wire/wire.h"

static const struct mst_piece pieces[] = {
    {.kind = MST_PIECE_DATA, .stream = 1, .length = 1},
    {.kind = MST_PIECE_DATA, .stream = UINT32_MAX, .length = MST_PIECE_MAX},
    {.kind = MST_PIECE_ATTACH, .stream = 5, .length = 3 * MST_ATTACHED_BYTES},
    {.kind = MST_PIECE_END, .stream = 7},
    {.kind = MST_PIECE_STOP, .stream = 8},
    {.kind = MST_PIECE_CREDIT, .stream = 9, .length = 8},
    {.kind = MST_PIECE_ACK, .length = 8},
    {.kind = MST_PIECE_PING, .length = 8},
    {.kind = MST_PIECE_PONG, .length = 8}};
#define PIECES (sizeof pieces / sizeof pieces[0])

TEST("The header of a piece is decoded as it was encoded, and not before it is "
     "whole") {
  uint8_t bytes[MST_PIECE_HEAD_BYTES];
  for (size_t i = 0; i < PIECES; i++) {
    struct mst_piece back = {0};
    mst_piece_encode(&pieces[i], bytes);
    for (size_t n = 0; n < sizeof bytes; n++)
      CHECK_INT(mst_piece_decode(bytes, n, &back), 0);
    CHECK_INT(back.kind, 0);
    CHECK_INT(mst_piece_decode(bytes, sizeof bytes, &back), sizeof bytes);
    CHECK(back.kind == pieces[i].kind && back.stream == pieces[i].stream &&
          back.length == pieces[i].length);
  }
}

TEST("Bytes that can't be the header of a piece are refused at the first that "
     "shows it") {
  struct mst_piece back;
  const uint8_t wrong[][MST_PIECE_HEAD_BYTES] = {
      {'W', 1}, {MST_PIECE_MAGIC, 0}, {MST_PIECE_MAGIC, 9}};
  CHECK_INT(mst_piece_decode(wrong[0], 1, &back), -MST_EPROTO);
  CHECK_INT(mst_piece_decode(wrong[1], 2, &back), -MST_EPROTO);
  CHECK_INT(mst_piece_decode(wrong[2], 2, &back), -MST_EPROTO);
  const uint8_t reserved[] = {MST_PIECE_MAGIC, MST_PIECE_END, 0, 1};
  CHECK_INT(mst_piece_decode(reserved, 4, &back), -MST_EPROTO);
  // Of the link, but with a stream; of a stream, but without.
  const uint8_t ack[] = {MST_PIECE_MAGIC, MST_PIECE_ACK, 0, 0, 1, 0, 0, 0};
  const uint8_t end[] = {MST_PIECE_MAGIC, MST_PIECE_END, 0, 0, 0, 0, 0, 0};
  CHECK_INT(mst_piece_decode(ack, 8, &back), -MST_EPROTO);
  CHECK_INT(mst_piece_decode(end, 8, &back), -MST_EPROTO);
}

static int decode_length(uint8_t kind, uint32_t length) {
  uint8_t bytes[MST_PIECE_HEAD_BYTES] = {MST_PIECE_MAGIC, kind};
  struct mst_piece back;
  bytes[4] = kind >= MST_PIECE_ACK ? 0 : 1;
  for (int i = 0; i < 4; i++)
    bytes[8 + i] = (uint8_t)(length >> 8 * i);
  return mst_piece_decode(bytes, sizeof bytes, &back);
}

TEST("Each kind of piece has its lengths") {
  CHECK_INT(decode_length(MST_PIECE_DATA, 0), -MST_EPROTO);
  CHECK_INT(decode_length(MST_PIECE_DATA, MST_PIECE_MAX + 1), -MST_EPROTO);
  CHECK_INT(decode_length(MST_PIECE_ATTACH, 0), -MST_EPROTO);
  CHECK_INT(decode_length(MST_PIECE_ATTACH, MST_ATTACHED_BYTES + 1),
            -MST_EPROTO);
  CHECK_INT(decode_length(MST_PIECE_ATTACH, 9 * MST_ATTACHED_BYTES),
            -MST_EPROTO);
  CHECK_INT(decode_length(MST_PIECE_END, 1), -MST_EPROTO);
  CHECK_INT(decode_length(MST_PIECE_STOP, 1), -MST_EPROTO);
  for (uint8_t kind = MST_PIECE_CREDIT; kind <= MST_PIECE_PONG; kind++) {
    CHECK_INT(decode_length(kind, 7), -MST_EPROTO);
    CHECK_INT(decode_length(kind, 8), MST_PIECE_HEAD_BYTES);
    CHECK_INT(decode_length(kind, UINT32_MAX), -MST_EPROTO);
  }
}

TEST("The word of a piece is decoded as it was encoded") {
  uint8_t bytes[MST_PIECE_WORD_BYTES];
  mst_piece_word_encode(UINT64_C(0x0102030405060708), bytes);
  CHECK_INT(bytes[0], 8);
  CHECK(mst_piece_word_decode(bytes) == UINT64_C(0x0102030405060708));
}

TEST("Attachments are decoded as encoded") {
  const struct mst_attached all[] = {
      {.class = MST_STREAM_DATA, .stream = 3},
      {.class = MST_STREAM_CONTROL, .stream = 5},
      {.class = MST_STREAM_OUTPUT, .stream = UINT32_MAX},
      {.class = MST_STREAM_SEGMENT, .stream = 9, .bytes = MST_FRAME_MAX},
      {.class = MST_STREAM_SEGMENT, .known = 1, .stream = 9, .bytes = 64}};
  uint8_t bytes[5 * MST_ATTACHED_BYTES];
  struct mst_attached back;
  for (size_t i = 0; i < 5; i++)
    mst_attached_encode(&all[i], bytes + i * MST_ATTACHED_BYTES);
  CHECK_INT(mst_attached_count(sizeof bytes), 5);
  for (size_t i = 0; i < 5; i++) {
    CHECK_INT(mst_attached_decode(bytes, sizeof bytes, i, &back), 0);
    CHECK(back.class == all[i].class && back.known == all[i].known &&
          back.stream == all[i].stream && back.bytes == all[i].bytes);
  }
  CHECK_INT(mst_attached_decode(bytes, sizeof bytes, 5, &back), -MST_EPROTO);
}

static int decode_attached(uint8_t class, uint8_t known, uint8_t reserved,
                           uint8_t stream, uint8_t size) {
  const uint8_t bytes[MST_ATTACHED_BYTES] = {
      class, known, reserved, 0, stream, 0, 0, 0, size};
  struct mst_attached back;
  return mst_attached_decode(bytes, sizeof bytes, 0, &back);
}

TEST("Attachments that can't be are refused") {
  CHECK_INT(decode_attached(MST_STREAM_DATA, 0, 0, 1, 0), 0);
  CHECK_INT(decode_attached(0, 0, 0, 1, 0), -MST_EPROTO);
  CHECK_INT(decode_attached(5, 0, 0, 1, 0), -MST_EPROTO);
  CHECK_INT(decode_attached(MST_STREAM_DATA, 1, 0, 1, 0), -MST_EPROTO);
  CHECK_INT(decode_attached(MST_STREAM_DATA, 0, 1, 1, 0), -MST_EPROTO);
  CHECK_INT(decode_attached(MST_STREAM_DATA, 0, 0, 0, 0), -MST_EPROTO);
  CHECK_INT(decode_attached(MST_STREAM_DATA, 0, 0, 1, 64), -MST_EPROTO);
  CHECK_INT(decode_attached(MST_STREAM_SEGMENT, 0, 0, 1, 0), -MST_EPROTO);
  CHECK_INT(decode_attached(MST_STREAM_SEGMENT, 2, 0, 1, 64), -MST_EPROTO);
  CHECK_INT(decode_attached(MST_STREAM_SEGMENT, 1, 0, 1, 64), 0);
}
