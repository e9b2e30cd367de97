// Shared by the files of the link, each of which uses only those before it in this list: flow.c,
// cargo.c, pump.c, line.c, link.c. What is declared here is called with the link's lock, but where
// it says otherwise.
#ifndef MST_HOST_LINK_INT_H
#define MST_HOST_LINK_INT_H

#include <pthread.h>

#include "base/mst_buf.h"
#include "base/mst_clock.h"
#include "host/link.h"
#include "host/trunk.h"
#include "share/segment.h"

// A line may have so many bytes wait for others, see mst_links_hold.
#define MST_LINE_HELD_MAX ((size_t)16 << 10)
// A line holds so many bytes that the link hasn't taken.
#define MST_LINE_OUT_MAX ((size_t)2 * MST_PIECE_MAX)
// A segment that was sent is kept, at both ends, while it is used again within this time; one that
// nobody can send again, until the next is sent.
#define MST_LINK_KEEP_NS (10 * MST_NS_PER_S)
// No more are kept: a process may have an eighth of its limit on descriptors, often 1,024, as
// segments, and those that are on their way count, too.
#define MST_LINK_KEEP_MOST 64

// A segment that crosses the link.
struct mst_cargo {
  struct mst_cargo *next;
  struct mst_stream *stream; // NULL: over
  uint64_t bytes;
  struct mst_blob *blob;      // that goes, with a reference; NULL: it comes
  struct mst_blob *owner;     // of its segment
  struct mst_segment segment; // that comes
  uint8_t is_whole;
  uint8_t is_lost; // it won't be whole
  uint8_t taken;   // that comes: nobody waits for it
  int64_t used_ns;
};

// What goes along with a byte of a line's.
struct mst_parcel {
  struct mst_parcel *next;
  uint64_t at;             // which byte, counted from the line's first
  struct mst_cargo *cargo; // that comes
  struct mst_blob *blob;   // that goes, with a reference; or
  struct mst_ll *lines[3]; // these, each with one
  size_t count;
};
struct mst_parcels {
  struct mst_parcel *first, *last;
};

// The bytes of a line that wait, in one direction.
struct mst_flow {
  struct mst_buf buf;
  size_t head; // bytes before it are done with
  uint64_t at; // how many are, from the line's first
  struct mst_parcels parcels;
};

// A line of this link.
struct mst_ll {
  struct mst_line line; // first member: casts both ways
  struct mst_link *link;
  struct mst_ll *next, *prev;
  struct mst_stream *stream; // NULL: it hasn't gone along yet, or is over
  enum mst_stream_class class;
  struct mst_flow in, out;
  uint8_t has_gone; // along with others, so that the other end exists
  uint8_t ended;    // nothing more comes
  uint8_t cut;      // this end wants no more, and sends no more than it has
  uint8_t stopped;  // the other end wants no more
  uint8_t said_end; // its owner was called because of its end
  uint8_t read_end; // its owner has read that
  uint8_t due;      // in a list of those whose owners have to be called
  struct mst_ll *next_due;
};
struct mst_lls {
  struct mst_ll *first, *last;
};

struct mst_link {
  struct mst_trunk trunk; // first member: casts both ways
  struct mst_link *next;  // of the session's
  struct mst_links *links;
  uint8_t is_listed; // is one of these
  uint8_t holds;     // what waits for mst_links_go_on
  pthread_mutex_t lock;
  struct mst_ll *lines;
  struct mst_ll *first; // the line to the host process; NULL: freed
  struct mst_cargo *cargo;
  struct mst_parcels spent; // they went: tidied up by the session's thread
  struct mst_lls due_prints, due;
  int64_t forget_ns; // when a segment may have to be forgotten
  // the keeper's
  int64_t kept_ns;
  uint64_t reads, reads_kept;
  uint8_t strikes;
  uint8_t closed;
};

// ---- flow.c: what waits in lines

// mst_parcel_add copies a parcel to the end of a list. 0, -MST_EMEM. mst_parcel_spend moves the
// first to those that were dealt with, whose references the session's thread releases.
int mst_parcel_add(struct mst_parcels *parcels, const struct mst_parcel *what);
void mst_parcel_spend(struct mst_link *link, struct mst_parcels *parcels);
// mst_cargo_drop: nobody waits for a segment that comes.
void mst_cargo_drop(struct mst_link *link, struct mst_cargo *cargo);
// mst_flow_waiting gives the bytes that wait, mst_flow_until_parcel those before the next parcel;
// mst_flow_parcel what goes along with the next byte, or NULL. mst_flow_take takes n bytes out;
// mst_flow_reserve makes room, 0 or -MST_EMEM.
size_t mst_flow_waiting(const struct mst_flow *flow);
size_t mst_flow_until_parcel(const struct mst_flow *flow);
const struct mst_parcel *mst_flow_parcel(const struct mst_flow *flow);
void mst_flow_take(struct mst_flow *flow, void *to, size_t n);
int mst_flow_reserve(struct mst_flow *flow, size_t n);
// mst_ll_ready tells what its owner is to be called for, mst_ll_due has that done.
// mst_ll_has_lost: a segment that comes next won't be there, or the byte that it goes along with.
int mst_ll_has_lost(const struct mst_ll *line);
int mst_ll_is_readable(const struct mst_ll *line);
int mst_ll_has_ended(const struct mst_ll *line);
int mst_ll_is_dead(const struct mst_ll *line); // it takes no more
size_t mst_ll_room(const struct mst_ll *line);
uint32_t mst_ll_ready(const struct mst_ll *line);
void mst_ll_due(struct mst_ll *line);
// mst_ll_attach gives it its stream, as it goes along. mst_ll_took makes room for others of its
// bytes; mst_ll_drop_in drops what came. mst_ll_cut: this end wants no more; mst_ll_end_stream then
// ends the stream once all was sent.
void mst_ll_attach(struct mst_ll *line, struct mst_stream *stream);
void mst_ll_took(struct mst_ll *line, size_t n, int64_t now_ns);
void mst_ll_drop_in(struct mst_ll *line);
void mst_ll_cut(struct mst_ll *line);
void mst_ll_end_stream(struct mst_ll *line);
// mst_ll_came takes bytes, 0 or -MST_EMEM; mst_ll_end the stream's end; mst_ll_stop: the other end
// wants no more; mst_ll_abandon: the link is closed.
int mst_ll_came(struct mst_ll *line, const uint8_t *bytes, size_t n,
                int64_t now_ns);
void mst_ll_end(struct mst_ll *line);
void mst_ll_stop(struct mst_ll *line);
void mst_ll_strand(struct mst_ll *line); // nobody can have it go along any more
void mst_ll_abandon(struct mst_ll *line);

// ---- cargo.c: what goes along

// mst_parcel_attach describes what goes, and opens its streams. It may take over the reference to
// the blob: none is counted, since the keeper's thread does this, too. 0, -MST_EMEM.
int mst_parcel_attach(struct mst_link *link, struct mst_parcel *parcel,
                      int64_t now_ns,
                      struct mst_attached attached[MST_ATTACHED_MAX],
                      size_t *count);
// mst_parcel_came notes what comes along with the line's next byte. 0, -MST_EPROTO, -MST_EMEM.
int mst_parcel_came(struct mst_ll *line, const struct mst_came *came);
// mst_cargo_send puts at most `most` bytes of a segment on the link, at `to`, and returns their
// number with the header. mst_cargo_came takes bytes; mst_cargo_end: nothing more comes, or is
// wanted; mst_cargo_abandon: the link has ended.
size_t mst_cargo_send(struct mst_link *link, struct mst_cargo *cargo,
                      size_t most, int64_t now_ns, uint8_t *to);
void mst_cargo_came(struct mst_link *link, struct mst_cargo *cargo,
                    const uint8_t *bytes, size_t n, int64_t now_ns);
void mst_cargo_end(struct mst_link *link, struct mst_cargo *cargo);
void mst_cargo_abandon(struct mst_link *link);
// mst_cargo_tidy frees those that are over, and ends those that weren't used again. Only the
// session's thread does that.
void mst_cargo_tidy(struct mst_link *link, int64_t now_ns);
void mst_cargo_free_all(struct mst_link *link);

// ---- pump.c

// What the trunk asks for, see trunk.h. mst_link_read takes what has come.
int mst_pump_came(struct mst_trunk *trunk, const struct mst_came *what,
                  int64_t now_ns);
void mst_pump_turn(struct mst_trunk *trunk, struct mst_stream *stream,
                   size_t most, int64_t now_ns);
void mst_pump_fails(struct mst_trunk *trunk);
void mst_link_read(struct mst_link *link, int64_t now_ns);
// mst_link_free frees it if nobody needs it; without the lock.
void mst_link_free(struct mst_link *link);

// ---- line.c: what the owners of lines do

// mst_ll_new makes a line; one that has a stream has gone along. NULL: no memory. mst_ll_free frees
// it if nobody needs it; without the lock.
struct mst_ll *mst_ll_new(struct mst_link *link, enum mst_stream_class class,
                          struct mst_stream *stream);
void mst_ll_free(struct mst_ll *line);

#endif
