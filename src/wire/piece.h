// wire/piece: what the two ends of a link say to each other (host/link.h, host/relay.h). Pure;
// wire.h's conventions hold here too: encoders assert ranges, decoders check them.
//
// The link between two hosts is a pair of byte streams that carries many streams at once, in
// pieces: a header of 12 bytes and at most 64 KiB. The bytes of all DATA pieces of a stream, one
// after another, are what one end was given, and what the other gives to its reader.
#ifndef MST_PIECE_H
#define MST_PIECE_H

#include <stddef.h>
#include <stdint.h>

#include "wire/stream.h"

#define MST_PIECE_MAGIC 0xD7u
#define MST_PIECE_HEAD_BYTES 12u
#define MST_PIECE_MAX 65536u // bytes after the header

enum mst_piece_kind {
  MST_PIECE_DATA = 1,   // bytes of the stream, at least one
  MST_PIECE_ATTACH = 2, // what goes along with the stream's next byte
  MST_PIECE_END = 3,    // no more DATA or ATTACH of this stream will come
  MST_PIECE_STOP =
      4, // the reader of this stream is gone: send no more, but END
  MST_PIECE_CREDIT = 5, // u64: how many bytes of the stream may be sent, in all
  // of the link itself, stream 0
  MST_PIECE_ACK = 6,  // u64: how many bytes of the link have come, in all
  MST_PIECE_PING = 7, // u64, which PONG repeats
  MST_PIECE_PONG = 8
};

struct mst_piece {
  uint8_t kind;    // enum mst_piece_kind
  uint32_t stream; // from 1; 0 for those of the link itself
  uint32_t length; // bytes after the header, 8 for a u64, 0 for END and STOP
};

void mst_piece_encode(const struct mst_piece *piece,
                      uint8_t out[MST_PIECE_HEAD_BYTES]);
// mst_piece_decode reads a header from n bytes: MST_PIECE_HEAD_BYTES if piece was filled, 0 if n is
// too small for a verdict, -MST_EPROTO as soon as the bytes can't be a header. bytes may be NULL if
// n is 0.
int mst_piece_decode(const uint8_t *bytes, size_t n, struct mst_piece *piece);

// The u64 of a piece.
#define MST_PIECE_WORD_BYTES 8u
void mst_piece_word_encode(uint64_t word, uint8_t out[MST_PIECE_WORD_BYTES]);
uint64_t mst_piece_word_decode(const uint8_t bytes[MST_PIECE_WORD_BYTES]);

// ATTACH: what goes along. A new stream is opened by whoever sends this.
struct mst_attached {
  uint8_t class;   // enum mst_stream_class
  uint8_t known;   // SEGMENT: the stream was opened before, for another frame
  uint32_t stream; // from 1
  uint64_t bytes;  // SEGMENT: its size, from 1 to MST_FRAME_MAX; else 0
};
// As many as one message of a socket can have.
#define MST_ATTACHED_MAX 8u
#define MST_ATTACHED_BYTES 16u
void mst_attached_encode(const struct mst_attached *attached,
                         uint8_t out[MST_ATTACHED_BYTES]);
// mst_attached_decode reads the one at `index` of an ATTACH of n bytes. 0, or -MST_EPROTO.
// mst_attached_count gives how many there are, from 1, or -MST_EPROTO.
int mst_attached_count(size_t n);
int mst_attached_decode(const uint8_t *bytes, size_t n, size_t index,
                        struct mst_attached *attached);

#endif
