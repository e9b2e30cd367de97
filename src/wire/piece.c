// Pieces: see piece.h. A header is laid out as
//   0 u8 magic, 1 u8 kind, 2 u16 zero, 4 u32 stream, 8 u32 length;
// an attached descriptor as
//   0 u8 class, 1 u8 known, 2 u16 zero, 4 u32 stream, 8 u64 bytes.
#include "wire/piece.h"

#include "base/mst_assert.h"
#include "base/mst_err.h"
#include "wire/wire.h"
#include "wire/wire_int.h"

static int is_of_link(uint8_t kind) { return kind >= MST_PIECE_ACK; }

static int length_fits(uint8_t kind, uint32_t length) {
  switch (kind) {
  case MST_PIECE_DATA:
    return length >= 1 && length <= MST_PIECE_MAX;
  case MST_PIECE_ATTACH:
    return mst_attached_count(length) > 0;
  case MST_PIECE_END:
  case MST_PIECE_STOP:
    return length == 0;
  default:
    return length == MST_PIECE_WORD_BYTES;
  }
}

static int kind_known(uint8_t kind) {
  return kind >= MST_PIECE_DATA && kind <= MST_PIECE_PONG;
}

void mst_piece_encode(const struct mst_piece *piece,
                      uint8_t out[MST_PIECE_HEAD_BYTES]) {
  MST_ASSERT(kind_known(piece->kind));
  MST_ASSERT(length_fits(piece->kind, piece->length));
  MST_ASSERT(is_of_link(piece->kind) == (piece->stream == 0));
  out[0] = MST_PIECE_MAGIC;
  out[1] = piece->kind;
  put_u16(out + 2, 0);
  put_u32(out + 4, piece->stream);
  put_u32(out + 8, piece->length);
}

int mst_piece_decode(const uint8_t *bytes, size_t n, struct mst_piece *piece) {
  if (n > 0 && bytes[0] != MST_PIECE_MAGIC) return -MST_EPROTO;
  if (n > 1 && !kind_known(bytes[1])) return -MST_EPROTO;
  if (n >= 4 && get_u16(bytes + 2) != 0) return -MST_EPROTO;
  if (n >= 8 && is_of_link(bytes[1]) != (get_u32(bytes + 4) == 0))
    return -MST_EPROTO;
  if (n < MST_PIECE_HEAD_BYTES) return 0;
  const uint32_t length = get_u32(bytes + 8);
  if (!length_fits(bytes[1], length)) return -MST_EPROTO;
  *piece = (struct mst_piece){
      .kind = bytes[1], .stream = get_u32(bytes + 4), .length = length};
  return (int)MST_PIECE_HEAD_BYTES;
}

void mst_piece_word_encode(uint64_t word, uint8_t out[MST_PIECE_WORD_BYTES]) {
  put_u64(out, word);
}

uint64_t mst_piece_word_decode(const uint8_t bytes[MST_PIECE_WORD_BYTES]) {
  return get_u64(bytes);
}

static int attached_fits(const struct mst_attached *attached) {
  const int segment = attached->class == MST_STREAM_SEGMENT;
  return attached->class >= MST_STREAM_CONTROL &&
         attached->class <= MST_STREAM_SEGMENT && attached->known <= segment &&
         attached->stream > 0 && attached->bytes <= MST_FRAME_MAX &&
         segment == (attached->bytes > 0);
}

void mst_attached_encode(const struct mst_attached *attached,
                         uint8_t out[MST_ATTACHED_BYTES]) {
  MST_ASSERT(attached_fits(attached));
  out[0] = attached->class;
  out[1] = attached->known;
  put_u16(out + 2, 0);
  put_u32(out + 4, attached->stream);
  put_u64(out + 8, attached->bytes);
}

int mst_attached_count(size_t n) {
  if (n == 0 || n % MST_ATTACHED_BYTES != 0) return -MST_EPROTO;
  if (n / MST_ATTACHED_BYTES > MST_ATTACHED_MAX) return -MST_EPROTO;
  return (int)(n / MST_ATTACHED_BYTES);
}

int mst_attached_decode(const uint8_t *bytes, size_t n, size_t index,
                        struct mst_attached *attached) {
  if (mst_attached_count(n) <= (int)index) return -MST_EPROTO;
  bytes += index * MST_ATTACHED_BYTES;
  *attached = (struct mst_attached){.class = bytes[0],
                                    .known = bytes[1],
                                    .stream = get_u32(bytes + 4),
                                    .bytes = get_u64(bytes + 8)};
  return get_u16(bytes + 2) == 0 && attached_fits(attached) ? 0 : -MST_EPROTO;
}
