// chan: frames over one stream socket, both ways, without an own thread.
//
// Incoming bytes stay in one buffer until their frames are taken, so a frame
// costs no copy after the kernel's. Outgoing frames are sent at once as far as
// they fit; the rest waits in a queue for mst_chan_flush. Payloads are shared
// blobs, so that one large payload for many workers exists once.
//
// A channel belongs to one thread. It never closes itself: after an error or
// the end it only says so. No R.
#ifndef MST_CHAN_H
#define MST_CHAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_buf.h"
#include "base/mst_err.h"
#include "net/net.h"
#include "share/blob.h"
#include "share/segment.h"
#include "wire/wire.h"

// One read asks for at least this much: most answers come in one call.
#define MST_CHAN_READ_MIN ((size_t)65536)
// A buffer that held a large frame is given back when it is empty.
#define MST_CHAN_KEEP ((size_t)1 << 20)
// A frame's room is reserved in steps of at most this or what is already there,
// so that a length that lies costs no more memory than was really sent.
#define MST_CHAN_STEP_MAX ((size_t)64 << 20)

struct mst_chan_out; // one queued frame
struct mst_chan_map; // one segment that came

struct mst_chan {
  int fd;             // -1 when closed
  struct mst_buf in;  // bytes from in_head on are not taken yet
  size_t in_head;     // start of the oldest frame not taken
  uint64_t in_origin; // bytes of the stream before in.data[0]
  uint64_t skip;      // bytes to come that nobody wants, see mst_chan_drop
  struct mst_chan_map *maps;      // of frames in the buffer, in their order
  struct mst_chan_map *spare_map; // for the next; NULL if there is none
  uint8_t takes_maps;             // segments may come; 0 after mst_chan_open
  uint8_t keeps_fds;   // their maps keep their descriptors, see mst_map_keep
  uint64_t length_max; // largest payload accepted now
  uint8_t ended;       // the peer is gone; what came before can be taken
  struct mst_chan_out *out_first;
  struct mst_chan_out *out_last;
  size_t out_bytes; // bytes in the queue
  int64_t
      later_ns; // the system had no room: nothing is tried before this, 0 if it had
  int64_t pause_ns; // how long it was waited for the last time
};

// mst_chan_open takes over fd; the caller closes through mst_chan_close.
void mst_chan_open(struct mst_chan *chan, int fd, uint64_t length_max);
// mst_chan_close shuts the socket down, closes it and frees both buffers.
void mst_chan_close(struct mst_chan *chan);

// mst_chan_send queues one frame and sends what fits; head->length is set from
// the payload. payload may be NULL for none; a reference is taken if needed.
// fds go along with the first byte; they are only read during the call, and
// must then be accepted at once: with fds the queue must be empty, and
// -MST_EAGAIN means that nothing was sent or queued.
// A payload's segment goes along too, and may be queued; the flag SEGMENT is set by it.
// fds and a segment exclude each other.
// Returns 0 (sent or queued: see out_bytes), -MST_ECLOSED, -MST_ESYS, -MST_EMEM.
// After -MST_ECLOSED, or another error with a part sent, the socket is shut
// down: reading gives what had come before and then tells the end.
// Blocks only if wait is 1, until all is sent.
int mst_chan_send(struct mst_chan *chan, struct mst_head *head,
                  struct mst_blob *payload, const int *fds, size_t fd_count,
                  int wait, struct mst_err *err);

// mst_chan_send_small is mst_chan_send for a few bytes, copied if queued.
int mst_chan_send_small(struct mst_chan *chan, struct mst_head *head,
                        const void *payload, size_t n, int wait,
                        struct mst_err *err);

// mst_chan_flush sends what is queued. 0 when the queue is empty, -MST_EAGAIN
// when some is left, or it isn't time yet (mst_chan_later_ns), -MST_ECLOSED,
// -MST_ESYS. After an error the queue is empty and the socket is shut down:
// reading will tell the end.
int mst_chan_flush(struct mst_chan *chan, struct mst_err *err);

// What the system had no room for (ENOBUFS, ENOMEM; ETOOMANYREFS: as many descriptors of this
// user are under way as it allows) stays queued, though the socket is writable: waiting for the
// socket would spin. mst_chan_wants_write tells whether the socket is what the queue waits for;
// mst_chan_later_ns when to flush else, INT64_MAX if there is nothing of the kind.
int mst_chan_wants_write(const struct mst_chan *chan);
int64_t mst_chan_later_ns(const struct mst_chan *chan);

// mst_chan_fill reads what is there, as much as one large frame wants. Blocks
// only if wait is 1 and nothing is there. Returns 1 if bytes came, -MST_EAGAIN
// if none, -MST_ECLOSED at the end (ended is set), -MST_ESYS, -MST_EMEM,
// -MST_ELIMIT or -MST_EPROTO for a bad header or a descriptor that is no segment.
// After -MST_EMEM nothing was read: what came stays, and may be filled again later.
int mst_chan_fill(struct mst_chan *chan, int wait, struct mst_err *err);

// mst_chan_peek gives the oldest frame that is not taken: 1 and *frame, 0 if it isn't whole,
// -MST_EPROTO (also for a segment that is missing, of another size than the frame says, or that no
// frame speaks of), -MST_ELIMIT. The payload is valid until the next fill or take.
int mst_chan_peek(struct mst_chan *chan, struct mst_frame *frame,
                  struct mst_err *err);
// mst_chan_map gives the segment of a frame in the buffer, NULL without one, or if it
// couldn't be mapped for want of memory; mst_map_lost() if there was no descriptor for it.
// Valid until the frame is taken; hold it for longer.
struct mst_map *mst_chan_map(const struct mst_chan *chan,
                             const struct mst_frame *frame);
// mst_chan_take drops the frame that peek gave, with its segment.
void mst_chan_take(struct mst_chan *chan, const struct mst_frame *frame);
// mst_chan_begun gives the header of the frame that is next to be taken and isn't whole, and what
// is there of its payload, *have bytes: 1, or 0 if there is none such. mst_chan_drop drops that
// frame: the rest of it is thrown away as it comes, which takes no memory.
int mst_chan_begun(const struct mst_chan *chan, struct mst_frame *frame,
                   size_t *have);
void mst_chan_drop(struct mst_chan *chan, const struct mst_frame *frame);
// mst_chan_detach takes it, but gives its payload to the caller: in *bytes, which the caller
// frees, at *payload. Its segment goes, unless it was held. 0 or -MST_EMEM, and all stays. A
// large frame is not copied: the buffer goes with it, and what stands behind it is.
int mst_chan_detach(struct mst_chan *chan, const struct mst_frame *frame,
                    struct mst_buf *bytes, const uint8_t **payload);

#endif
