// Target: mst_mux_read, which reads what another host sends: any bytes leave a mux that can go on
// and whose state is right, or are refused. What it has to say about them are whole pieces.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "host/mux.h"

// Takes what came, as an owner does.
static void take(struct mst_mux *mux, const struct mst_came *came) {
  if (came->kind == MST_CAME_DATA) {
    mst_mux_took(mux, came->stream, came->n, 5);
  } else if (came->kind == MST_CAME_STOP) {
    mst_mux_end(mux, came->stream);
  } else if (came->kind == MST_CAME_ATTACHED) {
    FUZZ_CHECK(came->count > 0 && came->count <= MST_ATTACHED_MAX);
    for (size_t i = 0; i < came->count; i++)
      FUZZ_CHECK(came->streams[i]->id == came->attached[i].stream);
  }
  if (came->kind != MST_CAME_NOTHING && mst_mux_is_over(came->stream))
    mst_mux_close(mux, came->stream);
}

// Puts on the link what there is to say.
static void say_all(struct mst_mux *mux) {
  struct mst_turn turn;
  while (mst_mux_turn(mux, 6, &turn)) {
    struct mst_piece piece;
    if (turn.stream != NULL) {
      uint8_t head[MST_PIECE_HEAD_BYTES];
      FUZZ_CHECK(turn.most > 0 && turn.most <= MST_PIECE_MAX);
      mst_mux_data(mux, turn.stream, turn.most, 6, head);
      continue;
    }
    FUZZ_CHECK(mst_piece_decode(turn.bytes, turn.n, &piece) ==
               (int)MST_PIECE_HEAD_BYTES);
    FUZZ_CHECK(turn.n == MST_PIECE_HEAD_BYTES + piece.length);
    if (turn.over != NULL) mst_mux_close(mux, turn.over);
  }
}

static void run(const uint8_t *bytes, size_t n) {
  struct mst_mux mux;
  mst_mux_init(&mux, 1, 1);
  struct mst_stream *first = mst_mux_first(&mux);
  FUZZ_CHECK(first != NULL);
  struct mst_stream *data = mst_mux_open(&mux, MST_STREAM_DATA);
  FUZZ_CHECK(data != NULL && mst_mux_open(&mux, MST_STREAM_OUTPUT) != NULL &&
             mst_mux_open(&mux, MST_STREAM_SEGMENT) != NULL);
  mst_mux_ready(&mux, first, 1);
  mst_mux_ready(&mux, data, 1);
  for (;;) {
    struct mst_came came;
    size_t used = 0;
    const int rc = mst_mux_read(&mux, bytes, n, 2, &came, &used);
    FUZZ_CHECK(mst_mux_check(&mux) == NULL);
    FUZZ_CHECK(rc == 0 || rc == 1 || rc == -MST_EPROTO);
    if (rc != 1) break;
    FUZZ_CHECK(used > 0 && used <= n);
    bytes += used;
    n -= used;
    take(&mux, &came);
    say_all(&mux);
    FUZZ_CHECK(mst_mux_check(&mux) == NULL);
  }
  mst_mux_free(&mux);
}

static size_t put(uint8_t *out, uint8_t kind, uint32_t stream,
                  const uint8_t *bytes, size_t n) {
  const struct mst_piece piece = {
      .kind = kind, .stream = stream, .length = (uint32_t)n};
  mst_piece_encode(&piece, out);
  if (n > 0) memcpy(out + MST_PIECE_HEAD_BYTES, bytes, n);
  return MST_PIECE_HEAD_BYTES + n;
}

static void seeds(struct fuzz_sink *sink) {
  const struct mst_attached attached = {
      .class = MST_STREAM_SEGMENT, .stream = 2, .bytes = 64};
  uint8_t bytes[512], word[MST_PIECE_WORD_BYTES], what[MST_ATTACHED_BYTES];
  mst_piece_word_encode(70000, word);
  mst_attached_encode(&attached, what);
  size_t n = put(bytes, MST_PIECE_CREDIT, 3, word, sizeof word);
  sink->take(sink, "credit", bytes, n);
  n += put(bytes + n, MST_PIECE_DATA, 1, word, sizeof word);
  n += put(bytes + n, MST_PIECE_PING, 0, word, sizeof word);
  sink->take(sink, "data", bytes, n);
  n += put(bytes + n, MST_PIECE_ATTACH, 1, what, sizeof what);
  n += put(bytes + n, MST_PIECE_DATA, 2, word, sizeof word);
  n += put(bytes + n, MST_PIECE_END, 2, NULL, 0);
  n += put(bytes + n, MST_PIECE_STOP, 3, NULL, 0);
  sink->take(sink, "attach", bytes, n);
  mst_piece_word_encode(12, word);
  n = put(bytes, MST_PIECE_ACK, 0, word, sizeof word);
  n += put(bytes + n, MST_PIECE_PONG, 0, word, sizeof word);
  sink->take(sink, "link", bytes, n);
}

const struct fuzz_target fuzz_mux = {"mux", 0, run, seeds};
