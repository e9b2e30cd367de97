// Tests of shuffle/links: links that are cut, silent or send invalid frames, and many of them.
#include "mst_handlers_test.h"

// A link, and also a listener.
static int begin_link(struct mst_chan *link, int silent_ms) {
  make_folder();
  begin();
  quick(silent_ms);
  const int listener = listen_there(0, MST_BACKLOG_MOST);
  know(1);
  link_to(link, OTHER, 2);
  return listener;
}

TEST("F1 An unanswered question is repeated on a new connection, and the old "
     "link is closed") {
  struct mst_chan link, far;
  int listener = begin_link(&link, 5000);
  ask(2, OTHER, 2);
  const int64_t begin_ns = mst_clock_now();
  CHECK_INT(wanted(&link), 0);
  CHECK_INT(wanted(&link), 1);
  welcome(listener, &far);
  CHECK(mst_clock_now() - begin_ns > (AGAIN_MS - 10) * MST_NS_PER_MS);
  CHECK_INT(wanted(&far), 0);
  CHECK_INT(wanted(&far), 1);
  CHECK(ends(&link));
  say_have(&far, 0, "at last");
  say_have(&far, 1, "too");
  wait_for(0);
  check_text(0, "at last");
  check_text(1, "too");
  CHECK_INT(links_now(), 1);
  CHECK_INT(counts_now().accepted, 1);
  CHECK_INT(counts_now().met, 1);
  mst_chan_close(&link);
  mst_net_close(&listener);
  finish(&far);
}

TEST("F1 A late answer on the silent link counts, while there is no other") {
  struct mst_chan link, far;
  int listener = begin_link(&link, 5000);
  ask(1, OTHER, 2);
  CHECK_INT(wanted(&link), 0);
  accept_one(listener, &far);
  (void)hear_meet(&far);
  say_have(&link, 0, "late");
  wait_for(0);
  check_text(0, "late");
  mst_chan_close(&link);
  mst_net_close(&listener);
  finish(&far);
}

TEST("F1 A link that answers other questions isn't silent") {
  struct mst_chan link;
  int listener = begin_link(&link, 10000);
  ask(6, OTHER, 2);
  for (uint32_t t = 0; t < 6; t++)
    CHECK_INT(wanted(&link), t);
  for (uint32_t t = 0; t < 6; t++) {
    (void)poll(NULL, 0, AGAIN_MS / 2);
    say(&link, MST_KIND_NONE, 5 - t);
  }
  wait_for(0);
  CHECK_INT(counts_now().again, 0);
  CHECK_INT(counts_now().dialled, 0);
  mst_net_close(&listener);
  finish(&link);
}

TEST("F1 A question that stays unanswered on every connection is given up") {
  struct mst_chan link, far[8];
  int listener = begin_link(&link, 4 * AGAIN_MS), n = 0;
  ask(1, OTHER, 2);
  CHECK_INT(wanted(&link), 0);
  while (mst_exchange_wait(10) > 0) {
    int fd = -1;
    if (mst_net_accept(listener, &fd, NULL, NULL) != 0) continue;
    CHECK(n < 8);
    mst_chan_open(&far[n], fd, 1 << 20);
    const struct mst_meet meet = hear_meet(&far[n]);
    say_meet(&far[n++], MST_KIND_MET, &meet);
  }
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_SILENT);
  CHECK(n >= 2); // one after the other
  CHECK_INT(counts_now().again, n);
  while (n > 0)
    mst_chan_close(&far[--n]);
  mst_net_close(&listener);
  finish(&link);
}

// Sent instead of an answer; after each the reader reconnects and asks again.
enum nonsense {
  END,
  HALF_FRAME,
  NO_FRAME,
  GARBAGE_HAVE,
  PAST_SEGMENT,
  OTHER_SIZE,
  NO_SEGMENT,
  NONSENSE
};

static void send_have(struct mst_chan *far, uint64_t says, uint64_t block,
                      int segment, size_t cut, int garbage) {
  struct mst_blob *blob = mst_blob_new();
  uint8_t bytes[256];
  if (segment && MST_HAVE_MEMFD) blob->segment = segment_of("sixty-four");
  const struct mst_have have = {.want = {1, 0, 1}, .size = says, .count = 1};
  const struct mst_block blocks[1] = {{.bytes = 64, .rows = 1}};
  mst_have_encode(&have, blocks, bytes);
  memcpy(bytes + MST_HAVE_HEAD_BYTES + 8, &block, 8); // little-endian here
  if (garbage) memset(bytes + 8, 0xff, 20);
  CHECK_INT(mst_buf_append(&blob->buf, bytes, mst_have_bytes(&have)), 0);
  struct mst_head head = {.kind = MST_KIND_HAVE, .length = blob->buf.len};
  if (cut > 0) {
    uint8_t out[MST_HEAD_BYTES];
    mst_head_encode(&head, out);
    CHECK(write(far->fd, out, sizeof out) == (ssize_t)sizeof out);
    CHECK(write(far->fd, bytes, cut) == (ssize_t)cut);
  } else {
    CHECK_INT(mst_chan_send(far, &head, blob, NULL, 0, 0, NULL), 0);
  }
  mst_blob_release(blob);
}

static void be_nonsense(struct mst_chan *far, enum nonsense what) {
  switch (what) {
  case HALF_FRAME:
    send_have(far, 64, 64, 0, 20, 0);
    break;
  case NO_FRAME:
    CHECK(write(far->fd, "\377\377\377\377", 4) == 4);
    break;
  case GARBAGE_HAVE:
    send_have(far, 64, 64, 1, 0, 1);
    break;
  case PAST_SEGMENT: // the index says more than there is
    send_have(far, 64, 4096, 1, 0, 0);
    break;
  case OTHER_SIZE: // so does the message
    send_have(far, 128, 128, 1, 0, 0);
    break;
  case NO_SEGMENT:
    send_have(far, 64, 64, 0, 0, 0);
    break;
  default:
    break;
  }
  if (what == END || what == HALF_FRAME) mst_net_shutdown(far->fd);
}

TEST("F1 A link that is cut, in a frame or between two, or talks nonsense, is "
     "closed, and what it said is nothing; the question goes to a new one") {
  struct mst_chan far[NONSENSE + 1];
  int listener = begin_link(&far[0], 60000);
  patient();
  ask(1, OTHER, 2);
  int link = 0;
  for (int what = 0; what < NONSENSE; what++) {
    if (what == OTHER_SIZE && !MST_HAVE_MEMFD) continue;
    CHECK_INT(wanted(&far[link]), 0);
    be_nonsense(&far[link], (enum nonsense)what);
    if (what == NO_SEGMENT) break;
    CHECK(ends(&far[link]));
    CHECK_INT(mst_exchange_wait(0), 1);
    welcome(listener, &far[++link]);
  }
  // A HAVE without its segment means that the blocks are unavailable: no memory, for example.
  wait_for(0);
  CHECK_INT(mst_exchange_state(0), MST_FETCHED_NOT);
  const struct mst_want want = {1, 0, 1};
  struct mst_map *map;
  struct mst_block block;
  uint64_t base;
  CHECK_INT(mst_exchange_read(&want, 0, &map, &base, &block, NULL),
            -MST_EINPUT);
  for (int i = 0; i < link; i++)
    mst_chan_close(&far[i]);
  mst_net_close(&listener);
  finish(&far[link]);
}

TEST("F1 A link that ended before it was needed doesn't keep a question "
     "waiting") {
  struct mst_chan link, far;
  int listener = begin_link(&link, 60000);
  patient();
  mst_chan_close(&link);
  wait_links(0);
  ask(1, OTHER, 2);
  welcome(listener, &far);
  CHECK_INT(wanted(&far), 0);
  mst_net_close(&listener);
  finish(&far);
}

TEST("F1 A worker has links to more than 257 others") {
  enum { MANY = 400 };
  static struct mst_chan far[MANY];
  if (mst_net_fd_raise_limit(2048) < 2048) mst_test_skip("few descriptors");
  begin();
  for (uint32_t i = 0; i < MANY; i++)
    link_to(&far[i], 100 + i, 0);
  wait_links(MANY);
  static struct mst_source sources[MANY];
  for (uint32_t i = 0; i < MANY; i++)
    sources[i] = (struct mst_source){.want = {1, i, 1}, .worker = 100 + i};
  CHECK_INT(mst_exchange_ask(sources, MANY, NULL), 0);
  for (uint32_t i = 0; i < MANY; i++) {
    CHECK_INT(wanted(&far[i]), i);
    say(&far[i], MST_KIND_NONE, i);
  }
  wait_for(0);
  for (uint32_t i = 1; i < MANY; i++)
    mst_chan_close(&far[i]);
  end(&far[0]);
}

TEST("A wait ends after its time, and at once when nothing is open") {
  struct mst_chan far;
  begin();
  link_to(&far, OTHER, 2);
  const int64_t begin_ns = mst_clock_now();
  ask(1, OTHER, 2);
  CHECK_INT(mst_exchange_wait(120), 1);
  const int64_t took_ns = mst_clock_now() - begin_ns;
  CHECK(took_ns >= 120 * MST_NS_PER_MS);
  ask(0, OTHER, 2);
  CHECK_INT(mst_exchange_wait(60000), 0);
  end(&far);
}
