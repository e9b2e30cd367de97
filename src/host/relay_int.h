// Shared by the files of the relay. Each uses only those before it in this list: passing.c, ends.c,
// parts.c, write.c, read.c, relay.c.
#ifndef MST_HOST_RELAY_INT_H
#define MST_HOST_RELAY_INT_H

#include "base/mst_buf.h"
#include "base/mst_clock.h"
#include "host/relay.h"
#include "host/trunk.h"
#include "loop/loop.h"
#include "net/net.h"
#include "share/segment.h"
#include "wire/wire.h"

// ---- passing.c: where in its frames a stream of bytes is. Pure.

struct mst_passing {
  uint8_t head[MST_HEAD_BYTES];
  size_t have;   // of the header, 0 between two frames
  uint64_t left; // of the payload
};
// mst_passing_next takes the bytes that belong to one frame's header, or to its payload: returns
// how many of n, at least one. *whole: with them a header is complete, in *head. -MST_EPROTO for
// bytes that aren't a frame.
int64_t mst_passing_next(struct mst_passing *at, const uint8_t *bytes, size_t n,
                         struct mst_head *head, int *whole);
// mst_passing_is_between tells whether the next byte begins a frame.
int mst_passing_is_between(const struct mst_passing *at);

// ---- What waits for a descriptor to take it: bytes, or what goes along with the next byte.

struct mst_chunk {
  struct mst_chunk *next;
  size_t count; // attached; 0: bytes
  struct mst_end *attached[MST_ATTACHED_MAX];
  size_t n, done;
  uint8_t bytes[];
};

// ---- ends.c: one stream's descriptor on this side. What a kind of stream has besides follows the
// first member, so that pointers may be cast both ways.

struct mst_end { // OUTPUT has no more than this
  struct mst_relay *relay;
  struct mst_end *next, *prev; // all of the relay's
  struct mst_stream *stream;
  struct mst_io io;          // fd -1: not made yet, or closed
  uint8_t is_made;           // it has, or had, a descriptor
  uint8_t no_more_reads;     // its end was read, or isn't wanted
  uint8_t no_more_writes;    // the other side of the descriptor is gone
  uint8_t is_full;           // the descriptor takes no more for now
  uint8_t is_touched, waits; // in the relay's lists: `touched`, `waiting`
  struct mst_end *next_touched, *next_waiting;
  size_t refs;                    // chunks that attach it
  struct mst_chunk *first, *last; // from the link, for the descriptor
  int64_t
      lacks_ns; // since when the system has lacked something for it, 0: it doesn't
  // the worker that it belongs to, if it is one's
  uint32_t cluster, worker, epoch;
  uint8_t is_named;
};

// CONTROL and DATA: frames, with descriptors along.
struct mst_frames_end {
  struct mst_end end;
  struct mst_passing in;     // from the descriptor to the link
  int fds[MST_ATTACHED_MAX]; // go along with the next byte for the descriptor
  size_t fd_count;
};

struct mst_control_end {
  struct mst_frames_end frames;
  struct mst_passing out; // from the link to the descriptor
  // Read, but it waits for a worker's last words.
  struct mst_buf held;
  uint64_t held_output, held_data; // so many bytes of these have to be sent
  struct mst_end *held_for[2];     // output, data; NULL: gone
  int64_t held_ns;
  uint8_t held_passes; // it was waited for
  struct mst_buf
      reply; // the relay's own answers, for the other side of the link
  struct mst_end
      *naming[3]; // the worker's ends, named by the FORK that comes next
  uint8_t drops;  // the next frame is dropped: what goes along couldn't be made
  int drops_errno;
};

struct mst_data_end {
  struct mst_frames_end frames;
  struct mst_end *prints; // the worker's OUTPUT
  uint64_t go_on_at; // wait until so many bytes of that were sent; 0: don't
};

struct mst_segment_end {
  struct mst_end end;
  struct mst_segment segment; // sent: a descriptor; received: being written
  uint64_t bytes;             // its size
  uint8_t sends;              // it goes to the session
  uint8_t is_whole;           // all bytes are there
};

// Each gives NULL for another kind of stream.
struct mst_frames_end *mst_end_frames(struct mst_end *end);
struct mst_control_end *mst_end_control(struct mst_end *end);
struct mst_data_end *mst_end_data(struct mst_end *end);
struct mst_segment_end *mst_end_segment(struct mst_end *end);

struct mst_relay {
  struct mst_trunk trunk; // first member: casts both ways
  struct mst_end *ends, *touched, *waiting;
  struct mst_end *first;
  uint8_t moved;    // something was written or made, which others may wait for
  int64_t retry_ns; // try again what the system had no room for; INT64_MAX
};

// How long what goes along with a frame may wait for descriptors or memory, and news of a worker's
// end for its answers to be sent.
#define MST_RELAY_LACKS_NS (5 * MST_NS_PER_S)
#define MST_RELAY_RETRY_NS (20 * MST_NS_PER_MS)
#define MST_RELAY_LAST_NS (500 * MST_NS_PER_MS)

// mst_end_new makes the end of a stream, without a descriptor. NULL if memory is short.
struct mst_end *mst_end_new(struct mst_relay *relay, struct mst_stream *stream);
// mst_end_give gives it its descriptor. 0: it owns that from now on; -MST_ESYS, -MST_EMEM.
int mst_end_give(struct mst_end *end, int fd);
// mst_end_free frees it; its stream, which must be over, stays. mst_end_free_all frees all.
void mst_end_free(struct mst_end *end);
void mst_end_free_all(struct mst_relay *relay);
// mst_end_touch: what to wait for may have changed; mst_end_settle sets that for all touched.
void mst_end_touch(struct mst_end *end);
void mst_end_settle(struct mst_relay *relay);
// mst_end_wait notes that it waits for another end.
void mst_end_wait(struct mst_end *end);
// mst_end_ready says that there is something to read, or may be.
void mst_end_ready(struct mst_end *end, int ready);
// mst_end_is_live: it has a descriptor. mst_end_read_over, mst_end_write_over: nothing more is read
// from it, or written to it. With both it is closed.
int mst_end_is_live(const struct mst_end *end);
void mst_end_read_over(struct mst_end *end);
void mst_end_write_over(struct mst_end *end);
// mst_end_break does both, and tells the other relay that nothing more is wanted.
void mst_end_break(struct mst_end *end);
// mst_end_of_worker finds a worker's end of this class, or NULL.
struct mst_end *mst_end_of_worker(struct mst_relay *relay,
                                  const struct mst_head *head,
                                  enum mst_stream_class class);
// mst_relay_retry asks for another turn in a while.
void mst_relay_retry(struct mst_relay *relay, int64_t at_ns);

// ---- parts.c: what goes along with frames, both ways

// mst_parts_send opens streams for segments that came along with a frame, and fills in `attached`.
// It takes the descriptors over. 0, or -MST_EPROTO for other descriptors, -MST_EMEM, -MST_ESYS:
// then all are closed.
int mst_parts_send(struct mst_relay *relay, int *fds, size_t count,
                   struct mst_attached attached[MST_ATTACHED_MAX]);
// mst_parts_came makes the ends of what is attached to the next byte of the carrier's, and adds
// them to its queue. 0, -MST_EMEM.
int mst_parts_came(struct mst_end *carrier, const struct mst_came *came);
// mst_parts_make makes the descriptors of an attached chunk. 0: the carrier's fds are there;
// -MST_EAGAIN: a segment isn't whole yet; -MST_ECLOSED: it won't be; -MST_ESYS, -MST_EMEM: the
// system lacks something.
int mst_parts_make(struct mst_frames_end *carrier, struct mst_chunk *chunk,
                   struct mst_err *err);
// mst_parts_refuse drops an attached chunk that can't be made. The frame that it goes with is
// dropped, too, or on a DATA the carrier ends.
void mst_parts_refuse(struct mst_frames_end *carrier, struct mst_chunk *chunk,
                      int sys_errno);
// mst_segment_came writes bytes of a segment. 0, -MST_EMEM, -MST_ESYS.
int mst_segment_came(struct mst_segment_end *end, const uint8_t *bytes,
                     size_t n);

// ---- write.c: from the link to descriptors

// mst_write_came takes bytes that came for an end: writes them, or keeps them.
int mst_write_came(struct mst_end *end, const uint8_t *bytes, size_t n);
// mst_write_on goes on with what is kept, as far as it may.
void mst_write_on(struct mst_end *end);

// ---- read.c: from descriptors to the link

// mst_read_turn serves the trunk, see trunk.h.
void mst_read_turn(struct mst_trunk *trunk, struct mst_stream *stream,
                   size_t most, int64_t now_ns);
// mst_read_on goes on with an end that waited for another, if it needn't any more.
void mst_read_on(struct mst_end *end);

#endif
