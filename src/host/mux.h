// host/mux: many streams over one link, one end of it. Pure: what came, what can be sent and the
// time go in; what to put on the link comes out. No descriptor, no clock, no R. One thread.
//
// A stream is one of class CONTROL, DATA, OUTPUT or SEGMENT (wire/piece.h). Three rules share the
// link:
//   credit: a stream sends no more than its reader has room for, so one worker that doesn't read
//     holds up no other, and memory is bounded at both ends. A reader that keeps up with its stream
//     gives it twice as much while that is used up within two round trips, up to MST_WINDOW_MAX.
//   turns: control streams go first, in the order in which they became ready; the others take
//     turns of one piece each. So a large answer holds up a small one by a piece.
//   flight: what was sent and isn't acknowledged stays below twice rate x round trip, both
//     measured, so that what goes first isn't queued inside the link. Control streams, and what mux
//     itself says, may exceed that.
// The owner reads from its descriptors when their stream's turn comes, not before.
#ifndef MST_HOST_MUX_H
#define MST_HOST_MUX_H

#include <stddef.h>
#include <stdint.h>

#include "host/flight.h"
#include "wire/piece.h"

// What a new stream may send before its reader has said anything: both ends know it.
#define MST_WINDOW_FIRST UINT32_C(65536)
#define MST_WINDOW_SEGMENT UINT32_C(1048576)
#define MST_WINDOW_MAX UINT32_C(4194304)
// The most that all windows of one end may grow by, together.
#define MST_WINDOWS_MAX (UINT64_C(64) << 20)
// A reader acknowledges after this many bytes, or along with data after fewer. srun and its daemon
// leave TCP's delays on (Nagle's algorithm, delayed acknowledgements): there, a small packet holds
// up whatever follows it by 40 ms, unless something comes back.
#define MST_ACK_BYTES UINT64_C(8192)
#define MST_ACK_ALONG_BYTES UINT64_C(1024)
// The stream that both ends have from the start: between session and host process, a CONTROL.
#define MST_STREAM_FIRST 1u

struct mst_stream {
  uint32_t id;
  uint8_t class; // enum mst_stream_class
  void *owner;   // the caller's
  // what this end sends
  uint64_t sent, limit;
  uint8_t ready; // the caller has something to send, or will see when it tries
  uint8_t ended; // END is sent, or this end never sends
  uint8_t stopped; // the other end wants no more
  // what it receives
  uint64_t got, taken, granted; // taken: the caller is done with it
  uint32_t window;
  int64_t granted_ns; // when `granted` last grew
  uint8_t got_end;    // END came, or the other end never sends
  // mux's own
  uint8_t due;     // small pieces to be sent
  uint8_t in_turn; // is in a queue of turns
  struct mst_stream *next, *next_due, *turn_next, *turn_prev;
};

struct mst_turn_queue {
  struct mst_stream *first, *last;
};

// Something came, but PONG, and nothing was sent since. NOW: an ACK, after which the other end may
// have more to say.
enum mst_owes { MST_OWES_NOTHING, MST_OWES_LATER, MST_OWES_NOW };

struct mst_mux {
  uint8_t session; // this end is the session's: its streams have odd ids
  uint32_t next_id;
  struct mst_stream **table; // by id
  size_t table_size, count;
  struct mst_turn_queue urgent, bulk;
  struct mst_stream *due, *last_due;
  uint64_t grown; // windows, beyond their first size
  // the link
  struct mst_flight flight;
  uint64_t got, got_acked; // bytes; got_acked: acknowledged to the other end
  int64_t heard_ns;        // when anything last came
  uint8_t ping_due, pong_due;
  uint64_t ping, pong;
  enum mst_owes owes;
};

// mst_mux_init makes one without streams. mst_mux_free frees all streams.
void mst_mux_init(struct mst_mux *mux, int session, int64_t now_ns);
void mst_mux_free(struct mst_mux *mux);
// mst_mux_first opens MST_STREAM_FIRST; mst_mux_open a new stream of this end's, which the next
// ATTACH must name. NULL if memory is short.
struct mst_stream *mst_mux_first(struct mst_mux *mux);
struct mst_stream *mst_mux_open(struct mst_mux *mux,
                                enum mst_stream_class class);
// mst_mux_is_over tells whether nothing will be sent or received any more, and all that came was
// taken; mst_mux_close then frees it. Both ends do that by themselves.
int mst_mux_is_over(const struct mst_stream *stream);
void mst_mux_close(struct mst_mux *mux, struct mst_stream *stream);

// ---- sending

// mst_mux_ready says whether there is something to send.
void mst_mux_ready(struct mst_mux *mux, struct mst_stream *stream, int ready);
// mst_mux_end: everything was sent. mst_mux_stop: the caller doesn't want what the stream sends.
void mst_mux_end(struct mst_mux *mux, struct mst_stream *stream);
void mst_mux_stop(struct mst_mux *mux, struct mst_stream *stream);
// mst_mux_ping asks the other end for a sign of life, which measures the round trip, too.
void mst_mux_ping(struct mst_mux *mux, int64_t now_ns);

struct mst_turn {
  struct mst_stream
      *stream; // whose turn it is, or NULL: put these bytes on the link
  size_t most; // so many bytes of the stream, at most
  uint8_t bytes[MST_PIECE_HEAD_BYTES + MST_PIECE_WORD_BYTES];
  size_t n;
  struct mst_stream *over; // with these bytes: the caller closes it; else NULL
};
// mst_mux_turn says what to put on the link next. 1, or 0 if there is nothing to send, or no room
// in flight: ask again when something came or became ready. Its bytes count as sent. A stream whose
// turn it is must be answered before the next call, by mst_mux_data, mst_mux_ready (0) or
// mst_mux_end.
int mst_mux_turn(struct mst_mux *mux, int64_t now_ns, struct mst_turn *turn);
// mst_mux_data counts a piece of n bytes of the stream, and writes its header.
void mst_mux_data(struct mst_mux *mux, struct mst_stream *stream, size_t n,
                  int64_t now_ns, uint8_t head[MST_PIECE_HEAD_BYTES]);
// mst_mux_attach writes an ATTACH, which goes before the stream's next piece of data. Returns the
// number of bytes written.
#define MST_ATTACH_BYTES_MAX                                                   \
  (MST_PIECE_HEAD_BYTES + MST_ATTACHED_MAX * MST_ATTACHED_BYTES)
size_t mst_mux_attach(struct mst_mux *mux, const struct mst_stream *stream,
                      const struct mst_attached *attached, size_t count,
                      uint8_t out[MST_ATTACH_BYTES_MAX]);

// ---- receiving

enum mst_came_kind {
  MST_CAME_NOTHING,  // mux has dealt with it
  MST_CAME_DATA,     // bytes of the stream
  MST_CAME_ATTACHED, // what goes along with the stream's next byte
  MST_CAME_END,      // the stream sends no more
  MST_CAME_STOP      // the other end wants no more: call mst_mux_end
};
struct mst_came {
  enum mst_came_kind kind;
  struct mst_stream *stream;
  const uint8_t *bytes; // within those given
  size_t n;
  struct mst_attached attached[MST_ATTACHED_MAX];
  struct mst_stream *streams[MST_ATTACHED_MAX]; // opened for these, or known
  size_t count;
};
// mst_mux_read takes the piece at the start of n bytes. 1, and *used bytes are done with; 0 if it
// isn't whole yet; -MST_EPROTO if the other end breaks a rule, -MST_EMEM: nothing changes.
int mst_mux_read(struct mst_mux *mux, const uint8_t *bytes, size_t n,
                 int64_t now_ns, struct mst_came *came, size_t *used);
// mst_mux_took: the caller is done with n bytes of the stream's, which makes room for others.
void mst_mux_took(struct mst_mux *mux, struct mst_stream *stream, size_t n,
                  int64_t now_ns);

// mst_mux_check tells what is wrong in its state, NULL if nothing is. For tests.
const char *mst_mux_check(const struct mst_mux *mux);

#endif
