// inbox: bytes that came from a connection and nobody has asked for yet; frames and lines
// found in them. Pure: no socket, no clock. No R; any thread, one at a time.
//
// A frame is what socket_send() makes (docs/PROTOCOL.md, "Messages between sockets"):
//   byte 0      kind, enum mst_inbox_kind
//   bytes 1-7   length of what follows, the most significant byte first
// A line ends with "\n" or "\r\n".
#ifndef MST_NET_INBOX_H
#define MST_NET_INBOX_H

#include "base/mst_buf.h"
#include "base/mst_err.h"

enum mst_inbox_kind {
  MST_INBOX_BYTES = 1, // bytes as they are
  MST_INBOX_OBJECT = 2 // one R object, as R's serialize() writes it
};

#define MST_INBOX_HEAD 8u
#define MST_INBOX_LENGTH_MAX ((UINT64_C(1) << 56) - 1)

struct mst_inbox {
  struct mst_buf buf;
  size_t at;      // bytes of buf before this one have been taken
  size_t scanned; // bytes from `at` on in which no line ends
};

// mst_inbox_head writes a frame's head; n is at most MST_INBOX_LENGTH_MAX.
void mst_inbox_head(enum mst_inbox_kind kind, uint64_t n,
                    uint8_t head[MST_INBOX_HEAD]);

// mst_inbox_bytes gives how many bytes are there.
size_t mst_inbox_bytes(const struct mst_inbox *inbox);

// mst_inbox_room makes room for n more bytes and gives the place to write them to, which
// mst_inbox_add then counts in. NULL without memory. Both move what is there: views are
// over.
uint8_t *mst_inbox_room(struct mst_inbox *inbox, size_t n);
void mst_inbox_add(struct mst_inbox *inbox, size_t n);

// mst_inbox_frame looks at the frame that is next. 0: it is all there; *bytes has its *n
// bytes without the head until the inbox changes. -MST_EAGAIN: *n more bytes are needed to
// go on. -MST_ELIMIT: it has more than `limit` bytes, *n says how many. -MST_EPROTO: it is
// none. Takes nothing: a caller may come back with another limit.
int mst_inbox_frame(const struct mst_inbox *inbox, uint64_t limit,
                    enum mst_inbox_kind *kind, const uint8_t **bytes,
                    uint64_t *n, struct mst_err *err);
// mst_inbox_line does the same for a line of at most `limit` bytes; *n is without its
// end, *whole with it.
int mst_inbox_line(struct mst_inbox *inbox, size_t limit, const uint8_t **bytes,
                   size_t *n, size_t *whole, struct mst_err *err);

// mst_inbox_take counts the first n bytes as taken; their place stays as it is until the
// next mst_inbox_room.
void mst_inbox_take(struct mst_inbox *inbox, size_t n);
void mst_inbox_free(struct mst_inbox *inbox);

#endif
