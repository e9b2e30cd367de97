// chan: frames over one stream socket, or a line in its place (line.h), both ways, without a thread
// of its own.
//
// Incoming bytes stay in one buffer until their frames are taken, so a frame costs no copy after
// the kernel's. As much of an outgoing frame as fits is sent at once; the rest waits in a queue for
// mst_chan_flush. Payloads are shared blobs, so that one large payload for many workers exists
// once.
//
// A channel belongs to one thread. It never closes itself: it only reports errors and the end. No
// R.
#ifndef MST_CHAN_H
#define MST_CHAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "loop/line.h"
#include "net/net.h"
#include "share/blob.h"
#include "share/segment.h"
#include "wire/wire.h"

// One read asks for at least this: most answers come in one call.
#define MST_CHAN_READ_MIN ((size_t)65536)
// A larger buffer is freed once it is empty.
#define MST_CHAN_KEEP ((size_t)1 << 20)
// A frame's memory is reserved in steps of at most this or its present size, so that a false length
// costs no more memory than was really sent.
#define MST_CHAN_STEP_MAX ((size_t)64 << 20)

struct mst_chan_out; // one queued frame
struct mst_chan_map; // one received segment

struct mst_chan {
  int fd;                         // -1 when closed, or with a line
  struct mst_line *line;          // with a reference; NULL: none
  struct mst_buf in;              // bytes from in_head on aren't taken yet
  size_t in_head;                 // start of the oldest frame not taken
  uint64_t in_origin;             // bytes of the stream before in.data[0]
  uint64_t skip;                  // bytes still to discard, see mst_chan_drop
  struct mst_chan_map *maps;      // of frames in the buffer, in order
  struct mst_chan_map *spare_map; // for the next one, or NULL
  uint8_t takes_maps;  // whether segments may come; 0 after mst_chan_open
  uint8_t keeps_fds;   // their maps keep the descriptors, see mst_map_keep
  uint64_t length_max; // largest payload accepted now
  uint8_t ended;       // the peer is gone; frames received before can be taken
  struct mst_chan_out *out_first;
  struct mst_chan_out *out_last;
  size_t out_bytes; // bytes in the queue
  int64_t
      later_ns; // after a shortage of the system: don't try before this time; else 0
  int64_t pause_ns; // the last pause
};

// mst_chan_open takes over fd; the caller closes it by mst_chan_close.
void mst_chan_open(struct mst_chan *chan, int fd, uint64_t length_max);
// mst_chan_open_line takes over a reference. All of what is said of a socket below holds for it;
// its sends never wait.
void mst_chan_open_line(struct mst_chan *chan, struct mst_line *line,
                        uint64_t length_max);
int mst_chan_is_open(const struct mst_chan *chan);
// mst_chan_close shuts the socket down, closes it and frees both buffers.
void mst_chan_close(struct mst_chan *chan);
// mst_chan_shut ends it in both directions, also for copies in forked children.
void mst_chan_shut(struct mst_chan *chan);
// mst_chan_leave closes this process's copy and frees nothing: in a forked child, or where the
// loops are given up.
void mst_chan_leave(struct mst_chan *chan);

// mst_chan_send queues one frame and sends what fits; it sets head->length from the payload.
// payload may be NULL; a reference is taken if needed. fds go along with the first byte and stay
// the caller's. They can't be queued: with fds the queue must be empty, and -MST_EAGAIN means that
// nothing was sent or queued. A payload's segment goes along too, and may be queued; it sets the
// flag SEGMENT. fds and a segment exclude each other.
// Returns 0 (sent or queued: see out_bytes), -MST_ECLOSED, -MST_ESYS, -MST_EMEM.
// Blocks only if wait is 1, until all is sent. Without wait, an error means that nothing was sent.
// An error after a part was sent gives 0, as it does if the part is sent by mst_chan_flush.
// After -MST_ECLOSED, or any error after a part was sent, the socket is shut down: reading gives
// what came before, and then the end.
int mst_chan_send(struct mst_chan *chan, struct mst_head *head,
                  struct mst_blob *payload, const int *fds, size_t fd_count,
                  int wait, struct mst_err *err);

// mst_chan_send_ends sends a frame with `count` of these ends, which stay the caller's. Descriptors
// go along as above; lines, of the link that the channel's own belongs to, may be queued.
int mst_chan_send_ends(struct mst_chan *chan, struct mst_head *head,
                       struct mst_blob *payload, const struct mst_ends *ends,
                       size_t count, struct mst_err *err);

// mst_chan_send_small is mst_chan_send for a few bytes, copied if queued.
int mst_chan_send_small(struct mst_chan *chan, struct mst_head *head,
                        const void *payload, size_t n, int wait,
                        struct mst_err *err);

// mst_chan_flush sends the queue. 0 when it is empty, -MST_EAGAIN when some is left or it isn't
// time yet (mst_chan_later_ns), -MST_ECLOSED, -MST_ESYS. After an error the queue is empty and the
// socket is shut down: reading will report the end.
int mst_chan_flush(struct mst_chan *chan, struct mst_err *err);

// After a shortage of the system (ENOBUFS, ENOMEM; ETOOMANYREFS: this user has too many descriptors
// in flight) frames stay queued though the socket is writable: waiting for the socket would spin.
// mst_chan_wants_write tells whether the queue waits for the socket; mst_chan_later_ns when to
// flush otherwise, INT64_MAX if there is no pause.
int mst_chan_wants_write(const struct mst_chan *chan);
int64_t mst_chan_later_ns(const struct mst_chan *chan);

// mst_chan_fill reads what is there, up to the rest of one large frame. Blocks only if wait is 1
// and nothing is there. Returns 1 if bytes came, -MST_EAGAIN if none, -MST_ECLOSED at the end
// (ended is set), -MST_ESYS, -MST_EMEM, -MST_ELIMIT or -MST_EPROTO for a bad header or a descriptor
// that isn't a segment. After -MST_EMEM nothing was read: the bytes stay in the socket for a later
// fill.
int mst_chan_fill(struct mst_chan *chan, int wait, struct mst_err *err);

// mst_chan_peek looks at the oldest untaken frame: 1 and *frame, 0 if it is incomplete, -MST_EPROTO
// (also for a segment that is missing, unannounced or of another size than the frame says),
// -MST_ELIMIT. The payload is valid until the next fill or take.
int mst_chan_peek(struct mst_chan *chan, struct mst_frame *frame,
                  struct mst_err *err);
// mst_chan_map gives the segment of a frame in the buffer. NULL if the frame has none or it
// couldn't be mapped for lack of memory; mst_map_lost() if its descriptor couldn't be received.
// Valid until the frame is taken; hold it to keep it longer.
struct mst_map *mst_chan_map(const struct mst_chan *chan,
                             const struct mst_frame *frame);
// mst_chan_take removes the frame from mst_chan_peek, and its segment.
void mst_chan_take(struct mst_chan *chan, const struct mst_frame *frame);
// mst_chan_begun gives the header of an incomplete next frame, and the *have bytes of its payload
// that are there. Returns 1, or 0 if there is no such frame. mst_chan_drop drops that frame: the
// rest is discarded as it comes and takes no memory.
int mst_chan_begun(const struct mst_chan *chan, struct mst_frame *frame,
                   size_t *have);
void mst_chan_drop(struct mst_chan *chan, const struct mst_frame *frame);
// mst_chan_detach takes a frame and gives its payload to the caller: at *payload, in *bytes, which
// the caller frees. Its segment is released unless held. 0, or -MST_EMEM and nothing changes. A
// large frame isn't copied: the caller gets the buffer, and the bytes after the frame are copied.
int mst_chan_detach(struct mst_chan *chan, const struct mst_frame *frame,
                    struct mst_buf *bytes, const uint8_t **payload);

#endif
