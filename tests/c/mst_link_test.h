// A simulated link between two muxes, for their tests: virtual time, a rate, a delay, a buffer that
// makes its writer wait. Streams carry bytes that say where they belong.
#ifndef MST_LINK_TEST_H
#define MST_LINK_TEST_H

#include <stdlib.h>
#include <string.h>

#include "base/mst_buf.h"
#include "base/mst_clock.h"
#include "base/mst_err.h"
#include "host/mux.h"
#include "mst_random.h"
#include "mst_test.h"

#define LINK_STREAMS_MAX 256
#define STEP_NS (10 * MST_NS_PER_US)

// What an application has at one end of a stream.
struct app {
  struct mst_stream *stream; // NULL once it is over
  uint32_t id;
  uint64_t to_send, sent; // sent: put on the link
  uint8_t ends;           // when all is sent
  uint64_t got;
  uint64_t held;  // came, and isn't taken
  uint8_t stalls; // takes nothing
  uint8_t got_end, got_stop;
  int64_t since_ns; // when to_send last grew from nothing
  int64_t got_ns;   // when bytes last came
};

// One direction: bytes on their way, each chunk with the time when it arrives.
struct wire {
  struct mst_buf bytes;
  size_t head;
  uint64_t arrived_to; // of bytes.data: what is there for the reader
  int64_t free_ns;     // when the sender's side is done with what was put in
  struct {
    size_t end;
    int64_t at_ns;
  } chunks[4096];
  size_t chunk_first, chunk_count;
};

struct side {
  struct mst_mux mux;
  struct app apps[LINK_STREAMS_MAX];
  size_t app_count;
  struct wire out;
  uint64_t most_in_flight;
};

struct link {
  struct side ends[2]; // 0: the session's
  int64_t now_ns;
  double rate; // bytes per ns
  int64_t delay_ns;
  size_t buffer; // bytes that wait for the link, at most
};

static inline uint8_t link_byte(uint32_t id, uint64_t at) {
  return (uint8_t)(id * 31u + at + (at >> 8) * 7u);
}

static inline void link_open(struct link *link, double mb_per_s,
                             double round_trip_ms) {
  memset(link, 0, sizeof *link);
  link->now_ns = MST_NS_PER_S;
  link->rate = mb_per_s * 1e6 / 1e9;
  link->delay_ns = (int64_t)(round_trip_ms * 1e6 / 2);
  link->buffer = (size_t)4 << 20;
  for (int i = 0; i < 2; i++) {
    mst_mux_init(&link->ends[i].mux, i == 0, link->now_ns);
    struct app *app = &link->ends[i].apps[link->ends[i].app_count++];
    *app = (struct app){.stream = mst_mux_first(&link->ends[i].mux),
                        .id = MST_STREAM_FIRST};
    CHECK(app->stream != NULL);
    app->stream->owner = app;
    mst_mux_ping(&link->ends[i].mux, link->now_ns);
  }
}

static inline void link_close(struct link *link) {
  for (int i = 0; i < 2; i++) {
    mst_mux_free(&link->ends[i].mux);
    mst_buf_free(&link->ends[i].out.bytes);
  }
}

static inline struct app *app_of(struct side *side, uint32_t id) {
  for (size_t i = 0; i < side->app_count; i++) {
    if (side->apps[i].id == id) return &side->apps[i];
  }
  return NULL;
}

// wire_put puts bytes on the link: they leave one after another, and arrive after the delay.
static inline void wire_put(struct link *link, struct wire *wire,
                            const void *bytes, size_t n) {
  CHECK_INT(mst_buf_append(&wire->bytes, bytes, n), 0);
  if (wire->free_ns < link->now_ns) wire->free_ns = link->now_ns;
  wire->free_ns += (int64_t)((double)n / link->rate);
  CHECK(wire->chunk_count < 4096);
  const size_t at = (wire->chunk_first + wire->chunk_count++) % 4096;
  wire->chunks[at].end = wire->bytes.len;
  wire->chunks[at].at_ns = wire->free_ns + link->delay_ns;
}

static inline int wire_is_full(const struct link *link,
                               const struct wire *wire) {
  const double waits = (double)(wire->free_ns - link->now_ns) * link->rate;
  return waits > (double)link->buffer || wire->chunk_count > 4000;
}

static inline void app_done(struct side *side, struct app *app) {
  if (app->stream == NULL || !mst_mux_is_over(app->stream)) return;
  mst_mux_close(&side->mux, app->stream);
  app->stream = NULL;
}

// side_attach opens a stream of a class and says so on the first stream, at once.
static inline struct app *side_attach(struct link *link, int which,
                                      enum mst_stream_class class) {
  struct side *side = &link->ends[which];
  CHECK(side->app_count < LINK_STREAMS_MAX);
  struct app *app = &side->apps[side->app_count++];
  struct mst_stream *stream = mst_mux_open(&side->mux, class);
  CHECK(stream != NULL);
  *app = (struct app){.stream = stream, .id = stream->id};
  stream->owner = app;
  const struct mst_attached attached = {
      .class = (uint8_t) class,
      .stream = stream->id,
      .bytes = class == MST_STREAM_SEGMENT ? UINT64_C(1) << 40 : 0};
  uint8_t bytes[MST_ATTACH_BYTES_MAX];
  const size_t n =
      mst_mux_attach(&side->mux, side->apps[0].stream, &attached, 1, bytes);
  wire_put(link, &side->out, bytes, n);
  return app;
}

static inline void app_send(struct link *link, struct side *side,
                            struct app *app, uint64_t n) {
  if (app->to_send == 0) app->since_ns = link->now_ns;
  app->to_send += n;
  if (app->stream != NULL && !app->stream->ended)
    mst_mux_ready(&side->mux, app->stream, 1);
}

static inline void side_send(struct link *link, struct side *side) {
  struct mst_turn turn;
  static uint8_t piece[MST_PIECE_HEAD_BYTES + MST_PIECE_MAX];
  while (!wire_is_full(link, &side->out) &&
         mst_mux_turn(&side->mux, link->now_ns, &turn)) {
    if (turn.stream == NULL) {
      wire_put(link, &side->out, turn.bytes, turn.n);
      if (turn.over != NULL) app_done(side, turn.over->owner);
      continue;
    }
    struct app *app = turn.stream->owner;
    const size_t n =
        app->to_send < turn.most ? (size_t)app->to_send : turn.most;
    if (n == 0) {
      mst_mux_ready(&side->mux, turn.stream, 0);
      if (app->ends) mst_mux_end(&side->mux, turn.stream);
      continue;
    }
    mst_mux_data(&side->mux, turn.stream, n, link->now_ns, piece);
    for (size_t i = 0; i < n; i++)
      piece[MST_PIECE_HEAD_BYTES + i] = link_byte(app->id, app->sent + i);
    wire_put(link, &side->out, piece, MST_PIECE_HEAD_BYTES + n);
    app->sent += n;
    app->to_send -= n;
  }
  const uint64_t flight = side->mux.flight.sent - side->mux.flight.acked;
  if (flight > side->most_in_flight) side->most_in_flight = flight;
}

static inline void app_take(struct link *link, struct side *side,
                            struct app *app) {
  if (app->stalls || app->held == 0) return;
  mst_mux_took(&side->mux, app->stream, (size_t)app->held, link->now_ns);
  app->held = 0;
  app_done(side, app);
}

static inline void side_came(struct link *link, struct side *side,
                             const struct mst_came *came) {
  if (came->kind == MST_CAME_ATTACHED) {
    for (size_t i = 0; i < came->count; i++) {
      if (came->attached[i].known) continue;
      CHECK(side->app_count < LINK_STREAMS_MAX);
      struct app *app = &side->apps[side->app_count++];
      *app =
          (struct app){.stream = came->streams[i], .id = came->streams[i]->id};
      app->stream->owner = app;
    }
    return;
  }
  if (came->kind == MST_CAME_NOTHING) return;
  struct app *app = came->stream->owner;
  if (came->kind == MST_CAME_DATA) {
    for (size_t i = 0; i < came->n; i++)
      CHECK_INT(came->bytes[i], link_byte(app->id, app->got + i));
    app->got += came->n;
    app->held += came->n;
    app->got_ns = link->now_ns;
    app_take(link, side, app);
  } else if (came->kind == MST_CAME_END) {
    app->got_end = 1;
    app_done(side, app);
  } else {
    app->got_stop = 1;
    mst_mux_end(&side->mux, came->stream);
  }
}

static inline void side_receive(struct link *link, struct side *side,
                                struct wire *wire) {
  while (wire->chunk_count > 0 &&
         wire->chunks[wire->chunk_first].at_ns <= link->now_ns) {
    wire->arrived_to = wire->chunks[wire->chunk_first].end;
    wire->chunk_first = (wire->chunk_first + 1) % 4096;
    wire->chunk_count--;
  }
  struct mst_came came;
  size_t used;
  while (wire->head < wire->arrived_to) {
    const int rc = mst_mux_read(&side->mux, wire->bytes.data + wire->head,
                                (size_t)wire->arrived_to - wire->head,
                                link->now_ns, &came, &used);
    CHECK_INT(rc, 1); // chunks are whole pieces
    wire->head += used;
    side_came(link, side, &came);
  }
  if (wire->head == wire->bytes.len) {
    wire->head = wire->bytes.len = 0;
    wire->arrived_to = 0;
  }
}

// link_step lets 10 us pass.
static inline void link_step(struct link *link) {
  link->now_ns += STEP_NS;
  for (int i = 0; i < 2; i++) {
    side_receive(link, &link->ends[i], &link->ends[1 - i].out);
    side_send(link, &link->ends[i]);
    const char *wrong = mst_mux_check(&link->ends[i].mux);
    if (wrong != NULL) mst_test_fail(__FILE__, __LINE__, "%s", wrong);
  }
}

static inline void link_run(struct link *link, double ms) {
  const int64_t end_ns = link->now_ns + (int64_t)(ms * 1e6);
  while (link->now_ns < end_ns)
    link_step(link);
}

#endif
