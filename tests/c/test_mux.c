// Tests of host/mux over a simulated link: what is sent arrives, whole and in order, whoever
// stalls; small frames don't wait behind large ones; the link is kept busy, but not full; a peer
// that breaks a rule is noticed.
#include "mst_link_test.h"

static struct link link;

static struct app *other(int which, const struct app *app) {
  return app_of(&link.ends[which], app->id);
}

TEST("Bytes of a stream arrive whole and in order, and both ends forget it") {
  link_open(&link, 100, 1);
  struct app *data = side_attach(&link, 0, MST_STREAM_DATA);
  app_send(&link, &link.ends[0], data, 3000000);
  data->ends = 1;
  link_run(&link, 20);
  struct app *there = other(1, data);
  CHECK(there != NULL);
  app_send(&link, &link.ends[1], there, 10);
  there->ends = 1;
  link_run(&link, 100);
  CHECK_INT(there->got, 3000000);
  CHECK_INT(data->got, 10);
  CHECK(there->got_end && data->got_end);
  CHECK(there->stream == NULL && data->stream == NULL);
  CHECK_INT(link.ends[0].mux.count, 1);
  CHECK_INT(link.ends[1].mux.count, 1);
  link_close(&link);
}

TEST("An output comes from the end that didn't open it, a segment from the one "
     "that did") {
  link_open(&link, 100, 1);
  struct app *output = side_attach(&link, 0, MST_STREAM_OUTPUT);
  struct app *segment = side_attach(&link, 0, MST_STREAM_SEGMENT);
  CHECK(output->stream->ended && !output->stream->got_end);
  CHECK(!segment->stream->ended && segment->stream->got_end);
  app_send(&link, &link.ends[0], segment, 5000000);
  segment->ends = 1;
  link_run(&link, 5);
  struct app *prints = other(1, output);
  app_send(&link, &link.ends[1], prints, 700);
  prints->ends = 1;
  link_run(&link, 100);
  CHECK_INT(output->got, 700);
  CHECK_INT(other(1, segment)->got, 5000000);
  CHECK_INT(link.ends[0].mux.count, 1);
  CHECK_INT(link.ends[1].mux.count, 1);
  link_close(&link);
}

TEST("A reader that takes nothing holds up its own stream alone, at its "
     "window") {
  link_open(&link, 100, 1);
  struct app *slow = side_attach(&link, 0, MST_STREAM_DATA);
  struct app *fast = side_attach(&link, 0, MST_STREAM_DATA);
  link_run(&link, 2);
  other(1, slow)->stalls = 1;
  app_send(&link, &link.ends[0], slow, 10000000);
  app_send(&link, &link.ends[0], fast, 10000000);
  link_run(&link, 200);
  CHECK_INT(other(1, fast)->got, 10000000);
  CHECK_INT(other(1, slow)->got, MST_WINDOW_FIRST);
  other(1, slow)->stalls = 0;
  app_take(&link, &link.ends[1], other(1, slow));
  link_run(&link, 200);
  CHECK_INT(other(1, slow)->got, 10000000);
  link_close(&link);
}

TEST("Small answers of 63 workers don't wait for a large one of another") {
  link_open(&link, 50, 0.2);
  struct app *small[63];
  struct app *large = side_attach(&link, 1, MST_STREAM_DATA);
  for (int i = 0; i < 63; i++)
    small[i] = side_attach(&link, 1, MST_STREAM_DATA);
  app_send(&link, &link.ends[1], large, UINT64_C(2) << 30);
  link_run(&link, 100);
  uint64_t seed = mst_test_seed();
  int64_t slowest_ns = 0;
  for (int i = 0; i < 400; i++) {
    struct app *one = small[mst_random_below(&seed, 63)];
    const uint64_t before = other(0, one)->got;
    const int64_t since_ns = link.now_ns;
    app_send(&link, &link.ends[1], one, 1000);
    while (other(0, one)->got < before + 1000)
      link_step(&link);
    if (other(0, one)->got_ns - since_ns > slowest_ns)
      slowest_ns = other(0, one)->got_ns - since_ns;
    link_run(&link, (double)mst_random_below(&seed, 30) / 100);
  }
  // A piece takes 1.3 ms on this link; without turns it would be 80 ms and more.
  CHECK(slowest_ns < 6 * MST_NS_PER_MS);
  CHECK(other(0, large)->got > 0);
  link_close(&link);
}

// How long a small control frame takes beside a stream that never ends, in ms.
static double control_ms(double mb_per_s, double round_trip_ms) {
  link_open(&link, mb_per_s, round_trip_ms);
  struct app *large = side_attach(&link, 0, MST_STREAM_DATA);
  struct app *control = side_attach(&link, 0, MST_STREAM_CONTROL);
  app_send(&link, &link.ends[0], large, UINT64_C(1) << 40);
  link_run(&link, 40 * round_trip_ms + 500);
  int64_t slowest_ns = 0;
  for (int i = 0; i < 20; i++) {
    struct app *there = other(1, control);
    const uint64_t before = there->got;
    const int64_t since_ns = link.now_ns;
    app_send(&link, &link.ends[0], control, 40);
    while (there->got < before + 40)
      link_step(&link);
    if (there->got_ns - since_ns > slowest_ns)
      slowest_ns = there->got_ns - since_ns;
    link_run(&link, 1.7 * round_trip_ms);
  }
  link_close(&link);
  return (double)slowest_ns / 1e6;
}

TEST("A control frame takes two round trips at most, however large what is "
     "sent") {
  // Beside them a piece or two: 64 KiB take 0.7 ms at 100 MB/s, 4 KiB take 4 ms at 1 MB/s.
  CHECK(control_ms(100, 0.2) < 3);
  CHECK(control_ms(50, 20) < 45);
  CHECK(control_ms(1, 30) < 95);
}

// The part of the link's rate that one stream gets, once it has begun.
static double used(double mb_per_s, double round_trip_ms) {
  link_open(&link, mb_per_s, round_trip_ms);
  struct app *large = side_attach(&link, 0, MST_STREAM_DATA);
  app_send(&link, &link.ends[0], large, UINT64_C(1) << 40);
  link_run(&link, 30 * round_trip_ms + 100);
  const uint64_t before = other(1, large)->got;
  const int64_t since_ns = link.now_ns;
  link_run(&link, 10 * round_trip_ms + 50);
  const double rate = (double)(other(1, large)->got - before) /
                      (double)(link.now_ns - since_ns);
  const double part = rate / link.rate;
  link_close(&link);
  return part;
}

TEST("One stream has most of a link, near or far") {
  CHECK(used(1000, 0.1) > 0.8);
  CHECK(used(100, 1) > 0.9);
  CHECK(used(100, 20) > 0.8);
  CHECK(used(2, 30) > 0.9);
}

TEST("What is in flight stays below twice the rate times the round trip") {
  link_open(&link, 100, 10); // 1 MB on the way
  for (int i = 0; i < 8; i++) {
    app_send(&link, &link.ends[0], side_attach(&link, 0, MST_STREAM_DATA),
             UINT64_C(1) << 40);
  }
  link_run(&link, 1500);
  CHECK(link.ends[0].most_in_flight > 1000000);
  CHECK(link.ends[0].most_in_flight < 2300000);
  link_close(&link);
}

TEST("An end that wants no more of a stream gets its end, and no credit is "
     "needed for that") {
  link_open(&link, 100, 1);
  struct app *data = side_attach(&link, 0, MST_STREAM_DATA);
  link_run(&link, 2);
  struct app *there = other(1, data);
  there->stalls = 1;
  app_send(&link, &link.ends[0], data, 1000000);
  link_run(&link, 20);
  mst_mux_stop(&link.ends[1].mux, there->stream);
  link_run(&link, 5);
  CHECK(data->got_stop);
  CHECK(there->got_end);
  there->stalls = 0;
  app_take(&link, &link.ends[1], there);
  mst_mux_end(&link.ends[1].mux, there->stream);
  link_run(&link, 5);
  CHECK(data->stream == NULL && there->stream == NULL);
  link_close(&link);
}

TEST("Whatever the readers do, all that is sent arrives, and nothing is left") {
  uint64_t seed = mst_test_seed();
  for (int round = 0; round < 20; round++) {
    uint64_t sums[2][LINK_STREAMS_MAX] = {{0}};
    link_open(&link, (double)(1 + mst_random_below(&seed, 300)),
              (double)mst_random_below(&seed, 200) / 10);
    for (int i = 0; i < 3000; i++) {
      const int which = (int)mst_random_below(&seed, 2);
      struct side *side = &link.ends[which];
      const size_t at = (size_t)mst_random_below(&seed, side->app_count);
      struct app *app = &side->apps[at];
      switch (mst_random_below(&seed, 8)) {
      case 0:
        if (side->app_count < 60)
          (void)side_attach(
              &link, which,
              (enum mst_stream_class)(1 + mst_random_below(&seed, 4)));
        break;
      case 1:
        app->stalls = !app->stalls;
        if (app->stream != NULL) app_take(&link, side, app);
        break;
      case 2:
        if (at > 0 && mst_random_below(&seed, 4) == 0) {
          app->ends = 1;
          if (app->stream != NULL && !app->stream->ended)
            mst_mux_ready(&side->mux, app->stream, 1);
        }
        break;
      default:
        if (app->stream == NULL || app->stream->ended || app->ends) break;
        const uint64_t n = 1 + mst_random_below(&seed, 100000);
        app_send(&link, side, app, n);
        sums[which][app->id] += n;
      }
      link_run(&link, (double)mst_random_below(&seed, 20) / 100);
    }
    for (int which = 0; which < 2; which++) {
      struct side *side = &link.ends[which];
      for (size_t i = 0; i < side->app_count; i++) {
        struct app *app = &side->apps[i];
        app->stalls = 0;
        app->ends = i > 0;
        if (app->stream == NULL) continue;
        app_take(&link, side, app);
        if (app->stream != NULL && !app->stream->ended)
          mst_mux_ready(&side->mux, app->stream, 1);
      }
    }
    for (int i = 0;
         i < 100 && link.ends[0].mux.count + link.ends[1].mux.count > 2; i++)
      link_run(&link, 2000);
    for (int which = 0; which < 2; which++) {
      CHECK_INT(link.ends[which].mux.count, 1);
      for (size_t i = 0; i < link.ends[which].app_count; i++) {
        const struct app *app = &link.ends[which].apps[i];
        CHECK_INT(app->sent, sums[which][app->id]);
        CHECK_INT(other(1 - which, app)->got, app->sent);
      }
    }
    link_close(&link);
  }
}

// ---- a peer that breaks a rule

static struct mst_mux mux; // the session's
static uint8_t came_bytes[MST_PIECE_HEAD_BYTES + MST_PIECE_MAX];

static int feed(uint8_t kind, uint32_t stream, const void *bytes, size_t n) {
  const struct mst_piece piece = {
      .kind = kind, .stream = stream, .length = (uint32_t)n};
  struct mst_came came;
  size_t used;
  mst_piece_encode(&piece, came_bytes);
  if (n > 0 && bytes != NULL) {
    memcpy(came_bytes + MST_PIECE_HEAD_BYTES, bytes, n);
  }
  return mst_mux_read(&mux, came_bytes, MST_PIECE_HEAD_BYTES + n, 1, &came,
                      &used);
}

static int feed_word(uint8_t kind, uint32_t stream, uint64_t word) {
  uint8_t bytes[MST_PIECE_WORD_BYTES];
  mst_piece_word_encode(word, bytes);
  return feed(kind, stream, bytes, sizeof bytes);
}

static int feed_attach(uint32_t on, struct mst_attached attached) {
  uint8_t bytes[MST_ATTACHED_BYTES];
  mst_attached_encode(&attached, bytes);
  return feed(MST_PIECE_ATTACH, on, bytes, sizeof bytes);
}

static uint8_t next_kind(void) {
  struct mst_turn turn;
  struct mst_piece piece = {0};
  if (!mst_mux_turn(&mux, 1, &turn)) return 0;
  if (turn.stream != NULL) return MST_PIECE_DATA;
  CHECK(mst_piece_decode(turn.bytes, turn.n, &piece) > 0);
  return piece.kind;
}

TEST("What came is acknowledged, and allowed again, along with data if it is "
     "little") {
  uint8_t head[MST_PIECE_HEAD_BYTES];
  mst_mux_init(&mux, 1, 0);
  struct mst_stream *first = mst_mux_first(&mux);
  CHECK_INT(feed(MST_PIECE_DATA, 1, NULL, 2000), 1);
  CHECK_INT(next_kind(), 0);
  mst_mux_ready(&mux, first, 1);
  CHECK_INT(next_kind(), MST_PIECE_ACK);
  CHECK_INT(next_kind(), MST_PIECE_DATA);
  mst_mux_data(&mux, first, 10, 1, head);
  CHECK_INT(next_kind(), MST_PIECE_DATA);
  mst_mux_ready(&mux, first, 0);
  CHECK_INT(feed(MST_PIECE_DATA, 1, NULL, 18000), 1);
  CHECK_INT(next_kind(), MST_PIECE_ACK); // much: at once
  CHECK_INT(next_kind(), 0);
  mst_mux_took(&mux, first, 20000, 1);
  CHECK_INT(next_kind(), 0);
  mst_mux_ready(&mux, first, 1);
  CHECK_INT(next_kind(), MST_PIECE_CREDIT);
  CHECK_INT(first->granted, 20000 + MST_WINDOW_FIRST);
  CHECK_INT(next_kind(), MST_PIECE_DATA);
  CHECK(mst_mux_check(&mux) == NULL);
  mst_mux_free(&mux);
}

TEST("A peer that sends more than it may, or on streams that it can't, is "
     "noticed") {
  mst_mux_init(&mux, 1, 0);
  CHECK(mst_mux_first(&mux) != NULL);
  struct mst_stream *output = mst_mux_open(&mux, MST_STREAM_OUTPUT);
  struct mst_stream *segment = mst_mux_open(&mux, MST_STREAM_SEGMENT);
  CHECK_INT(feed(MST_PIECE_DATA, 1, NULL, MST_PIECE_MAX), 1);
  CHECK_INT(feed(MST_PIECE_DATA, 1, NULL, 1), -MST_EPROTO);
  CHECK_INT(feed(MST_PIECE_DATA, 99, NULL, 1), -MST_EPROTO);
  CHECK_INT(feed(MST_PIECE_END, 99, NULL, 0), -MST_EPROTO);
  CHECK_INT(feed(MST_PIECE_DATA, output->id, NULL, 1), 1);
  CHECK_INT(feed(MST_PIECE_DATA, segment->id, NULL, 1), -MST_EPROTO);
  CHECK_INT(feed(MST_PIECE_END, output->id, NULL, 0), 1);
  CHECK_INT(feed(MST_PIECE_END, output->id, NULL, 0), -MST_EPROTO);
  CHECK_INT(feed(MST_PIECE_DATA, output->id, NULL, 1), -MST_EPROTO);
  // Of a stream that is over, only what the other end may have said before it knew.
  CHECK_INT(feed(MST_PIECE_STOP, 99, NULL, 0), 1);
  CHECK_INT(feed_word(MST_PIECE_CREDIT, 99, 5), 1);
  CHECK(mst_mux_check(&mux) == NULL);
  mst_mux_free(&mux);
}

TEST("A peer that takes credit back, gives too much, or acknowledges what "
     "wasn't sent is noticed") {
  mst_mux_init(&mux, 1, 0);
  CHECK(mst_mux_first(&mux) != NULL);
  CHECK_INT(feed_word(MST_PIECE_CREDIT, 1, MST_WINDOW_FIRST - 1), -MST_EPROTO);
  CHECK_INT(feed_word(MST_PIECE_CREDIT, 1, MST_WINDOW_MAX + 1), -MST_EPROTO);
  CHECK_INT(feed_word(MST_PIECE_CREDIT, 1, MST_WINDOW_MAX), 1);
  CHECK_INT(feed_word(MST_PIECE_ACK, 0, 1), -MST_EPROTO);
  CHECK_INT(feed_word(MST_PIECE_ACK, 0, 0), 1);
  mst_mux_free(&mux);
}

TEST("A peer that attaches what it can't is noticed, and nothing stays of it") {
  mst_mux_init(&mux, 1, 0);
  CHECK(mst_mux_first(&mux) != NULL);
  struct mst_stream *output = mst_mux_open(&mux, MST_STREAM_OUTPUT);
  const struct mst_attached ok = {.class = MST_STREAM_DATA, .stream = 2};
  struct mst_attached wrong = ok;
  wrong.stream = 3; // an id of this end's
  CHECK_INT(feed_attach(1, wrong), -MST_EPROTO);
  wrong.stream = 1;
  CHECK_INT(feed_attach(1, wrong), -MST_EPROTO);
  CHECK_INT(feed_attach(output->id, ok), -MST_EPROTO);
  CHECK_INT(feed_attach(1, ok), 1);
  CHECK_INT(feed_attach(1, ok), -MST_EPROTO); // opened already
  const struct mst_attached known = {
      .class = MST_STREAM_SEGMENT, .known = 1, .stream = 2, .bytes = 64};
  CHECK_INT(feed_attach(1, known), -MST_EPROTO); // not a segment
  const struct mst_attached segment = {
      .class = MST_STREAM_SEGMENT, .stream = 4, .bytes = 64};
  CHECK_INT(feed_attach(1, segment), 1);
  wrong = segment;
  wrong.known = 1;
  CHECK_INT(feed_attach(1, wrong), 1);
  CHECK_INT(feed(MST_PIECE_END, 4, NULL, 0), 1);
  CHECK_INT(feed_attach(1, wrong), -MST_EPROTO); // forgotten
  // Two at once, of which the second is wrong: the first isn't opened either.
  uint8_t two[2 * MST_ATTACHED_BYTES];
  const struct mst_attached next = {.class = MST_STREAM_DATA, .stream = 6};
  mst_attached_encode(&next, two);
  mst_attached_encode(&ok, two + MST_ATTACHED_BYTES);
  const size_t before = mux.count;
  CHECK_INT(feed(MST_PIECE_ATTACH, 1, two, sizeof two), -MST_EPROTO);
  CHECK_INT(mux.count, before);
  CHECK(mst_mux_check(&mux) == NULL);
  mst_mux_free(&mux);
}

TEST("A thousand streams are found by their ids") {
  mst_mux_init(&mux, 0, 0);
  CHECK(mst_mux_first(&mux) != NULL);
  for (uint32_t i = 0; i < 1000; i++) {
    const struct mst_attached one = {.class = MST_STREAM_DATA,
                                     .stream = 3 + 2 * i};
    CHECK_INT(feed_attach(1, one), 1);
  }
  for (uint32_t i = 0; i < 1000; i++)
    CHECK_INT(feed(MST_PIECE_DATA, 3 + 2 * i, NULL, 5), 1);
  CHECK_INT(mux.count, 1001);
  CHECK(mst_mux_check(&mux) == NULL);
  mst_mux_free(&mux);
}
