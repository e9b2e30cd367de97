// Many streams over one link. See mux.h.
#include "host/mux.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_err.h"

#define TABLE_FIRST 64u
// Small pieces that a stream may have to send.
#define DUE_CREDIT 1u
#define DUE_STOP 2u
#define DUE_END 4u
// A stream's piece takes at most this part of what may be in flight, so that several share it.
#define PIECES_IN_FLIGHT 4u
#define PIECE_MIN UINT64_C(4096)

// ---- streams

static size_t place_of(const struct mst_mux *mux, uint32_t id) {
  return (id >> 1) & (mux->table_size - 1);
}

static struct mst_stream *find(const struct mst_mux *mux, uint32_t id) {
  if (mux->table_size == 0) return NULL;
  struct mst_stream *stream = mux->table[place_of(mux, id)];
  while (stream != NULL && stream->id != id)
    stream = stream->next;
  return stream;
}

static int grow_table(struct mst_mux *mux) {
  const size_t before = mux->table_size;
  if (mux->count < before) return 0;
  const size_t size = before == 0 ? TABLE_FIRST : 2 * before;
  struct mst_stream **table = calloc(size, sizeof *table);
  if (table == NULL) return -MST_EMEM;
  struct mst_stream **old = mux->table;
  mux->table = table;
  mux->table_size = size;
  for (size_t i = 0; i < before; i++) {
    for (struct mst_stream *stream = old[i], *next; stream != NULL;
         stream = next) {
      next = stream->next;
      stream->next = table[place_of(mux, stream->id)];
      table[place_of(mux, stream->id)] = stream;
    }
  }
  free(old);
  return 0;
}

static uint32_t first_window(uint8_t class) {
  return class == MST_STREAM_SEGMENT ? MST_WINDOW_SEGMENT : MST_WINDOW_FIRST;
}

// add opens a stream. ours: this end attached it.
static struct mst_stream *add(struct mst_mux *mux, uint32_t id, uint8_t class,
                              int ours) {
  struct mst_stream *stream =
      grow_table(mux) == 0 ? calloc(1, sizeof *stream) : NULL;
  if (stream == NULL) return NULL;
  stream->id = id;
  stream->class = class;
  stream->limit = stream->granted = stream->window = first_window(class);
  if (class == MST_STREAM_OUTPUT || class == MST_STREAM_SEGMENT) {
    const int sends = ours == (class == MST_STREAM_SEGMENT);
    stream->ended = !sends;
    stream->got_end = (uint8_t)sends;
  }
  stream->next = mux->table[place_of(mux, id)];
  mux->table[place_of(mux, id)] = stream;
  mux->count++;
  return stream;
}

void mst_mux_init(struct mst_mux *mux, int session, int64_t now_ns) {
  *mux = (struct mst_mux){
      .session = session != 0, .next_id = session ? 3 : 2, .heard_ns = now_ns};
  mst_flight_init(&mux->flight, now_ns);
}

void mst_mux_free(struct mst_mux *mux) {
  for (size_t i = 0; i < mux->table_size; i++) {
    while (mux->table[i] != NULL) {
      struct mst_stream *stream = mux->table[i];
      mux->table[i] = stream->next;
      free(stream);
    }
  }
  free(mux->table);
  mux->table = NULL;
  mux->table_size = mux->count = 0;
}

struct mst_stream *mst_mux_first(struct mst_mux *mux) {
  return add(mux, MST_STREAM_FIRST, MST_STREAM_CONTROL, 0);
}

struct mst_stream *mst_mux_open(struct mst_mux *mux,
                                enum mst_stream_class class) {
  struct mst_stream *stream = add(mux, mux->next_id, (uint8_t) class, 1);
  if (stream != NULL) mux->next_id += 2;
  return stream;
}

int mst_mux_is_over(const struct mst_stream *stream) {
  return stream->ended && stream->got_end && stream->taken == stream->got &&
         stream->due == 0;
}

// ---- turns

static int is_urgent(const struct mst_stream *stream) {
  return stream->class == MST_STREAM_CONTROL;
}

static int has_credit(const struct mst_stream *stream) {
  return stream->sent < stream->limit;
}

static struct mst_turn_queue *turns_of(struct mst_mux *mux,
                                       const struct mst_stream *stream) {
  return is_urgent(stream) ? &mux->urgent : &mux->bulk;
}

static void leave_turns(struct mst_mux *mux, struct mst_stream *stream) {
  struct mst_turn_queue *turns = turns_of(mux, stream);
  if (!stream->in_turn) return;
  stream->in_turn = 0;
  *(stream->turn_prev != NULL ? &stream->turn_prev->turn_next : &turns->first) =
      stream->turn_next;
  *(stream->turn_next != NULL ? &stream->turn_next->turn_prev : &turns->last) =
      stream->turn_prev;
  stream->turn_next = stream->turn_prev = NULL;
}

static void join_turns(struct mst_mux *mux, struct mst_stream *stream) {
  struct mst_turn_queue *turns = turns_of(mux, stream);
  const int may =
      stream->ready && has_credit(stream) && !stream->ended && !stream->stopped;
  if (stream->in_turn || !may) return;
  stream->in_turn = 1;
  stream->turn_prev = turns->last;
  *(turns->last != NULL ? &turns->last->turn_next : &turns->first) = stream;
  turns->last = stream;
}

static void add_due(struct mst_mux *mux, struct mst_stream *stream,
                    uint8_t due) {
  const int queued = stream->due != 0;
  stream->due |= due;
  if (queued) return;
  stream->next_due = NULL;
  *(mux->last_due != NULL ? &mux->last_due->next_due : &mux->due) = stream;
  mux->last_due = stream;
}

static void leave_due(struct mst_mux *mux, struct mst_stream *stream) {
  struct mst_stream *before = NULL;
  for (struct mst_stream *at = mux->due; at != NULL && at != stream;
       at = at->next_due)
    before = at;
  *(before != NULL ? &before->next_due : &mux->due) = stream->next_due;
  if (mux->last_due == stream) mux->last_due = before;
  stream->due = 0;
}

void mst_mux_close(struct mst_mux *mux, struct mst_stream *stream) {
  struct mst_stream **at = &mux->table[place_of(mux, stream->id)];
  MST_ASSERT(mst_mux_is_over(stream));
  while (*at != stream)
    at = &(*at)->next;
  *at = stream->next;
  leave_turns(mux, stream);
  mux->grown -= stream->window - first_window(stream->class);
  mux->count--;
  free(stream);
}

void mst_mux_ready(struct mst_mux *mux, struct mst_stream *stream, int ready) {
  stream->ready = ready != 0;
  if (ready) {
    join_turns(mux, stream);
  } else {
    leave_turns(mux, stream);
  }
}

void mst_mux_end(struct mst_mux *mux, struct mst_stream *stream) {
  if (stream->ended) return;
  stream->ended = 1;
  mst_mux_ready(mux, stream, 0);
  add_due(mux, stream, DUE_END);
}

void mst_mux_stop(struct mst_mux *mux, struct mst_stream *stream) {
  if (stream->got_end) return;
  add_due(mux, stream, DUE_STOP);
}

void mst_mux_ping(struct mst_mux *mux, int64_t now_ns) {
  mux->ping_due = 1;
  mux->ping = (uint64_t)now_ns;
}

// ---- sending

static void write_word(struct mst_turn *turn, uint8_t kind, uint32_t stream,
                       uint64_t word) {
  const struct mst_piece piece = {
      .kind = kind, .stream = stream, .length = MST_PIECE_WORD_BYTES};
  mst_piece_encode(&piece, turn->bytes);
  mst_piece_word_encode(word, turn->bytes + MST_PIECE_HEAD_BYTES);
  turn->n = MST_PIECE_HEAD_BYTES + MST_PIECE_WORD_BYTES;
}

static void write_bare(struct mst_turn *turn, uint8_t kind, uint32_t stream) {
  const struct mst_piece piece = {.kind = kind, .stream = stream};
  mst_piece_encode(&piece, turn->bytes);
  turn->n = MST_PIECE_HEAD_BYTES;
}

// say_due writes the next small piece of a stream's. END comes last.
static void say_due(struct mst_mux *mux, struct mst_turn *turn) {
  struct mst_stream *stream = mux->due;
  uint8_t says = DUE_END;
  if (stream->due & DUE_STOP) {
    says = DUE_STOP;
    write_bare(turn, MST_PIECE_STOP, stream->id);
  } else if (stream->due & DUE_CREDIT) {
    says = DUE_CREDIT;
    write_word(turn, MST_PIECE_CREDIT, stream->id, stream->granted);
  } else {
    write_bare(turn, MST_PIECE_END, stream->id);
  }
  if (stream->due == says) {
    leave_due(mux, stream);
    if (mst_mux_is_over(stream)) turn->over = stream;
  } else {
    stream->due &= (uint8_t)~says;
  }
}

static void write_ack(struct mst_mux *mux, struct mst_turn *turn) {
  mux->got_acked = mux->got;
  write_word(turn, MST_PIECE_ACK, 0, mux->got);
}

// say writes what mux itself has to say. 1, or 0 if that is nothing.
static int say(struct mst_mux *mux, struct mst_turn *turn) {
  if (mux->pong_due) {
    mux->pong_due = 0;
    write_word(turn, MST_PIECE_PONG, 0, mux->pong);
  } else if (mux->ping_due) {
    mux->ping_due = 0;
    write_word(turn, MST_PIECE_PING, 0, mux->ping);
  } else if (mux->got - mux->got_acked >= MST_ACK_BYTES) {
    write_ack(mux, turn);
  } else if (mux->due != NULL) {
    say_due(mux, turn);
  } else {
    return 0;
  }
  return 1;
}

// say_along writes what would soon have to be said, beside the data of a stream: by itself it would
// be a packet of its own. 1, or 0 if that is nothing.
static int say_along(struct mst_mux *mux, struct mst_stream *stream,
                     struct mst_turn *turn) {
  if (mux->got - mux->got_acked >= MST_ACK_ALONG_BYTES) {
    write_ack(mux, turn);
    return 1;
  }
  const uint64_t used = stream->window - (stream->granted - stream->taken);
  if (stream->got_end || used < stream->window / 4) return 0;
  stream->granted = stream->taken + stream->window;
  write_word(turn, MST_PIECE_CREDIT, stream->id, stream->granted);
  return 1;
}

static size_t piece_most(const struct mst_mux *mux,
                         const struct mst_stream *stream) {
  uint64_t most = mux->flight.most / PIECES_IN_FLIGHT;
  if (most < PIECE_MIN) most = PIECE_MIN;
  if (most > MST_PIECE_MAX) most = MST_PIECE_MAX;
  const uint64_t left = stream->limit - stream->sent;
  return (size_t)(left < most ? left : most);
}

int mst_mux_turn(struct mst_mux *mux, int64_t now_ns, struct mst_turn *turn) {
  *turn = (struct mst_turn){0};
  struct mst_stream *stream = NULL;
  if (!say(mux, turn)) {
    stream = mux->urgent.first;
    if (stream == NULL && mux->bulk.first != NULL) {
      if (!mst_flight_has_room(&mux->flight)) return 0;
      stream = mux->bulk.first;
    }
    if (stream == NULL) return 0;
    if (say_along(mux, stream, turn)) stream = NULL;
  }
  turn->stream = stream;
  if (stream == NULL) {
    mux->owes = MST_OWES_NOTHING;
    mst_flight_sent(&mux->flight, turn->n, now_ns);
  } else {
    turn->most = piece_most(mux, stream);
  }
  return 1;
}

void mst_mux_data(struct mst_mux *mux, struct mst_stream *stream, size_t n,
                  int64_t now_ns, uint8_t head[MST_PIECE_HEAD_BYTES]) {
  const struct mst_piece piece = {
      .kind = MST_PIECE_DATA, .stream = stream->id, .length = (uint32_t)n};
  MST_ASSERT(!stream->ended && stream->sent + n <= stream->limit);
  mst_piece_encode(&piece, head);
  stream->sent += n;
  mux->owes = MST_OWES_NOTHING;
  mst_flight_sent(&mux->flight, MST_PIECE_HEAD_BYTES + n, now_ns);
  leave_turns(mux, stream);
  join_turns(mux, stream); // behind the others
}

size_t mst_mux_attach(struct mst_mux *mux, const struct mst_stream *stream,
                      const struct mst_attached *attached, size_t count,
                      uint8_t out[MST_ATTACH_BYTES_MAX]) {
  const struct mst_piece piece = {.kind = MST_PIECE_ATTACH,
                                  .stream = stream->id,
                                  .length =
                                      (uint32_t)(count * MST_ATTACHED_BYTES)};
  MST_ASSERT(!stream->ended);
  mst_piece_encode(&piece, out);
  for (size_t i = 0; i < count; i++) {
    mst_attached_encode(&attached[i],
                        out + MST_PIECE_HEAD_BYTES + i * MST_ATTACHED_BYTES);
  }
  const size_t n = MST_PIECE_HEAD_BYTES + piece.length;
  mux->flight.sent += n;
  return n;
}

// ---- receiving

static int is_ours(const struct mst_mux *mux, uint32_t id) {
  return (id % 2 == 1) == mux->session;
}

// find_attached looks for what an ATTACH names. 0 and NULL: it must be opened.
static int find_attached(const struct mst_mux *mux,
                         const struct mst_attached *attached,
                         struct mst_stream **out) {
  *out = find(mux, attached->stream);
  if (is_ours(mux, attached->stream) || attached->stream == MST_STREAM_FIRST)
    return -MST_EPROTO;
  if (!attached->known) return *out == NULL ? 0 : -MST_EPROTO;
  return *out != NULL && (*out)->class == MST_STREAM_SEGMENT && !(*out)->got_end
             ? 0
             : -MST_EPROTO;
}

static void take_back(struct mst_mux *mux, struct mst_came *came, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (came->attached[i].known) continue;
    struct mst_stream *stream = came->streams[i];
    stream->ended = stream->got_end = 1;
    mst_mux_close(mux, stream);
  }
}

static int take_attached(struct mst_mux *mux, const struct mst_stream *stream,
                         struct mst_came *came) {
  if (stream->got_end || (stream->class != MST_STREAM_CONTROL &&
                          stream->class != MST_STREAM_DATA)) {
    return -MST_EPROTO;
  }
  came->kind = MST_CAME_ATTACHED;
  came->count = (size_t)mst_attached_count(came->n);
  for (size_t i = 0; i < came->count; i++) {
    struct mst_attached *attached = &came->attached[i];
    int rc = mst_attached_decode(came->bytes, came->n, i, attached);
    if (rc == 0) rc = find_attached(mux, attached, &came->streams[i]);
    if (rc == 0 && came->streams[i] == NULL) {
      came->streams[i] = add(mux, attached->stream, attached->class, 0);
      if (came->streams[i] == NULL) rc = -MST_EMEM;
    }
    if (rc != 0) {
      take_back(mux, came, i);
      return rc;
    }
  }
  return 0;
}

static int take_data(struct mst_stream *stream, struct mst_came *came) {
  if (stream->got_end || came->n > stream->granted - stream->got)
    return -MST_EPROTO;
  stream->got += came->n;
  came->kind = MST_CAME_DATA;
  return 0;
}

static int take_end(struct mst_mux *mux, struct mst_stream *stream,
                    struct mst_came *came) {
  if (stream->got_end) return -MST_EPROTO;
  stream->got_end = 1;
  if ((stream->due & ~(DUE_CREDIT | DUE_STOP)) == 0 && stream->due != 0) {
    leave_due(mux, stream);
  } else {
    stream->due &= (uint8_t) ~(DUE_CREDIT | DUE_STOP);
  }
  came->kind = MST_CAME_END;
  return 0;
}

static int take_credit(struct mst_mux *mux, struct mst_stream *stream,
                       const struct mst_came *came) {
  const uint64_t limit = mst_piece_word_decode(came->bytes);
  if (limit < stream->limit || limit - stream->sent > MST_WINDOW_MAX)
    return -MST_EPROTO;
  stream->limit = limit;
  join_turns(mux, stream);
  return 0;
}

static void take_stop(struct mst_mux *mux, struct mst_stream *stream,
                      struct mst_came *came) {
  if (stream->ended) return;
  stream->stopped = 1;
  leave_turns(mux, stream);
  came->kind = MST_CAME_STOP;
}

// take_of_stream takes a piece of a stream. One that is over here may still be told of its credit
// or that its reader is gone: the other end didn't know.
static int take_of_stream(struct mst_mux *mux, const struct mst_piece *piece,
                          struct mst_came *came) {
  struct mst_stream *stream = find(mux, piece->stream);
  came->stream = stream;
  if (stream == NULL) {
    return piece->kind == MST_PIECE_STOP || piece->kind == MST_PIECE_CREDIT
               ? 0
               : -MST_EPROTO;
  }
  switch (piece->kind) {
  case MST_PIECE_DATA:
    return take_data(stream, came);
  case MST_PIECE_ATTACH:
    return take_attached(mux, stream, came);
  case MST_PIECE_END:
    return take_end(mux, stream, came);
  case MST_PIECE_CREDIT:
    return take_credit(mux, stream, came);
  default:
    take_stop(mux, stream, came);
    return 0;
  }
}

static int take_of_link(struct mst_mux *mux, const struct mst_piece *piece,
                        const struct mst_came *came, int64_t now_ns) {
  const uint64_t word = mst_piece_word_decode(came->bytes);
  switch (piece->kind) {
  case MST_PIECE_ACK:
    return mst_flight_acked(&mux->flight, word, now_ns);
  case MST_PIECE_PING:
    mux->pong_due = 1;
    mux->pong = word;
    return 0;
  default:
    if (word <= (uint64_t)now_ns)
      mst_flight_round_trip(&mux->flight, now_ns - (int64_t)word);
    return 0;
  }
}

int mst_mux_read(struct mst_mux *mux, const uint8_t *bytes, size_t n,
                 int64_t now_ns, struct mst_came *came, size_t *used) {
  struct mst_piece piece;
  int rc = mst_piece_decode(bytes, n, &piece);
  came->kind = MST_CAME_NOTHING;
  came->stream = NULL;
  came->count = 0;
  if (rc <= 0) return rc;
  if (n - MST_PIECE_HEAD_BYTES < piece.length) return 0;
  came->bytes = bytes + MST_PIECE_HEAD_BYTES;
  came->n = piece.length;
  rc = piece.stream == 0 ? take_of_link(mux, &piece, came, now_ns)
                         : take_of_stream(mux, &piece, came);
  if (rc != 0) return rc;
  if (piece.kind != MST_PIECE_PONG) {
    mux->owes = piece.kind == MST_PIECE_ACK ? MST_OWES_NOW : MST_OWES_LATER;
  }
  *used = MST_PIECE_HEAD_BYTES + piece.length;
  mux->got += *used;
  mux->heard_ns = now_ns;
  return 1;
}

// grow doubles the window of a stream whose reader keeps up, if half of it was used up within two
// round trips: the stream waits for credit, then.
static void grow(struct mst_mux *mux, struct mst_stream *stream,
                 int64_t now_ns) {
  const uint32_t more = stream->window;
  if (stream->taken < stream->got ||
      now_ns - stream->granted_ns > 2 * mux->flight.round_trip_ns) {
    return;
  }
  if (2 * more > MST_WINDOW_MAX || mux->grown + more > MST_WINDOWS_MAX) return;
  stream->window += more;
  mux->grown += more;
}

void mst_mux_took(struct mst_mux *mux, struct mst_stream *stream, size_t n,
                  int64_t now_ns) {
  MST_ASSERT(n <= stream->got - stream->taken);
  stream->taken += n;
  if (stream->got_end) return;
  if (stream->granted - stream->taken > stream->window / 2) return;
  grow(mux, stream, now_ns);
  stream->granted_ns = now_ns;
  stream->granted = stream->taken + stream->window;
  add_due(mux, stream, DUE_CREDIT);
}

// ---- for tests

static const char *check_stream(const struct mst_mux *mux,
                                const struct mst_stream *stream) {
  if (stream->sent > stream->limit) return "a stream sent more than it may";
  if (stream->taken > stream->got || stream->got > stream->granted)
    return "a stream received more than it may";
  if (stream->granted - stream->taken > stream->window)
    return "a stream has more credit than its window";
  if (stream->window > MST_WINDOW_MAX) return "a window is too large";
  const int may =
      stream->ready && has_credit(stream) && !stream->ended && !stream->stopped;
  if (stream->in_turn && !may) return "a stream has a turn, but can't send";
  if (may && !stream->in_turn) return "a stream can send, but has no turn";
  (void)mux;
  return NULL;
}

const char *mst_mux_check(const struct mst_mux *mux) {
  size_t count = 0;
  uint64_t grown = 0;
  for (size_t i = 0; i < mux->table_size; i++) {
    for (const struct mst_stream *stream = mux->table[i]; stream != NULL;
         stream = stream->next) {
      const char *wrong = check_stream(mux, stream);
      if (wrong != NULL) return wrong;
      count++;
      grown += stream->window - first_window(stream->class);
    }
  }
  if (count != mux->count) return "streams are miscounted";
  if (grown != mux->grown) return "grown windows are miscounted";
  if (mux->flight.acked > mux->flight.sent)
    return "more is acknowledged than was sent";
  return NULL;
}
