// inbox: received bytes of a connection that haven't been taken yet, and the frames and lines in
// them. Pure: no socket, no clock. No R; any thread, one at a time.
//
// socket_send() makes frames (docs/PROTOCOL.md, "Messages between sockets"):
//   byte 0      kind, enum mst_inbox_kind
//   bytes 1-7   length of what follows, the most significant byte first
// A line ends with "\n" or "\r\n".
#ifndef MST_NET_INBOX_H
#define MST_NET_INBOX_H

#include "base/mst_buf.h"
#include "base/mst_err.h"

enum mst_inbox_kind {
  MST_INBOX_BYTES = 1, // raw bytes
  MST_INBOX_OBJECT = 2 // one R object, as written by serialize()
};

#define MST_INBOX_HEAD 8u
#define MST_INBOX_LENGTH_MAX ((UINT64_C(1) << 56) - 1)

struct mst_inbox {
  struct mst_buf buf;
  size_t at;      // bytes of buf before this one have been taken
  size_t scanned; // bytes after `at` known to hold no line end
};

// mst_inbox_head writes a frame's head; n is at most MST_INBOX_LENGTH_MAX.
void mst_inbox_head(enum mst_inbox_kind kind, uint64_t n,
                    uint8_t head[MST_INBOX_HEAD]);

// mst_inbox_bytes gives the number of bytes not taken yet.
size_t mst_inbox_bytes(const struct mst_inbox *inbox);

// mst_inbox_room reserves n more bytes and returns where to write them, NULL if memory is short;
// mst_inbox_add then adds them. Both may move the contents, which invalidates earlier views.
uint8_t *mst_inbox_room(struct mst_inbox *inbox, size_t n);
void mst_inbox_add(struct mst_inbox *inbox, size_t n);

// mst_inbox_frame looks at the next frame and takes nothing: a caller may try again with another
// limit. 0: it is complete; *bytes points to its *n bytes after the head, until the inbox changes.
// -MST_EAGAIN: needs *n more bytes to go on. -MST_ELIMIT: it has *n bytes, more than `limit`.
// -MST_EPROTO: not a frame.
int mst_inbox_frame(const struct mst_inbox *inbox, uint64_t limit,
                    enum mst_inbox_kind *kind, const uint8_t **bytes,
                    uint64_t *n, struct mst_err *err);
// mst_inbox_line does the same for a line of at most `limit` bytes; *n excludes the line end,
// *whole includes it.
int mst_inbox_line(struct mst_inbox *inbox, size_t limit, const uint8_t **bytes,
                   size_t *n, size_t *whole, struct mst_err *err);

// mst_inbox_take marks the first n bytes as taken; they stay in place until the next
// mst_inbox_room.
void mst_inbox_take(struct mst_inbox *inbox, size_t n);
void mst_inbox_free(struct mst_inbox *inbox);

#endif
