// Target: mst_inbox_frame and mst_inbox_line. The first byte cuts the rest in two pieces.
#include <string.h>

#include "fuzz.h"
#include "net/inbox.h"

#define LIMIT 64u

static void add(struct mst_inbox *inbox, const uint8_t *bytes, size_t n) {
  if (n == 0) return;
  uint8_t *room = mst_inbox_room(inbox, n);
  FUZZ_CHECK(room != NULL);
  memcpy(room, bytes, n);
  mst_inbox_add(inbox, n);
}

// Takes frames until there are no more; gives how many bytes they had.
static uint64_t take_frames(struct mst_inbox *inbox, int *rc) {
  uint64_t sum = 0;
  for (;;) {
    enum mst_inbox_kind kind;
    const uint8_t *bytes;
    uint64_t n;
    const size_t before = mst_inbox_bytes(inbox);
    *rc = mst_inbox_frame(inbox, LIMIT, &kind, &bytes, &n, NULL);
    FUZZ_CHECK(*rc == 0 || *rc == -MST_EAGAIN || *rc == -MST_ELIMIT ||
               *rc == -MST_EPROTO);
    if (*rc == -MST_EAGAIN) FUZZ_CHECK(n > 0 && n <= LIMIT + MST_INBOX_HEAD);
    if (*rc == -MST_ELIMIT) FUZZ_CHECK(n > LIMIT);
    if (*rc != 0) return sum;
    FUZZ_CHECK(n <= LIMIT && n + MST_INBOX_HEAD <= before);
    uint8_t head[MST_INBOX_HEAD];
    mst_inbox_head(kind, n, head);
    FUZZ_CHECK(memcmp(head, bytes - MST_INBOX_HEAD, MST_INBOX_HEAD) == 0);
    sum += n;
    mst_inbox_take(inbox, (size_t)n + MST_INBOX_HEAD);
  }
}

static size_t take_lines(struct mst_inbox *inbox, int *rc) {
  size_t lines = 0;
  for (;; lines++) {
    const uint8_t *bytes;
    size_t n, whole;
    *rc = mst_inbox_line(inbox, LIMIT, &bytes, &n, &whole, NULL);
    FUZZ_CHECK(*rc == 0 || *rc == -MST_EAGAIN || *rc == -MST_ELIMIT);
    if (*rc != 0) return lines;
    FUZZ_CHECK(n <= LIMIT && n < whole && bytes[whole - 1] == '\n');
    FUZZ_CHECK(n == 0 || memchr(bytes, '\n', n) == NULL);
    mst_inbox_take(inbox, whole);
  }
}

// The same, whether the bytes come at once or in two pieces.
static void run(const uint8_t *bytes, size_t n) {
  if (n == 0) return;
  const size_t rest = n - 1, cut = rest > 0 ? bytes[0] % (rest + 1) : 0;
  for (int lines = 0; lines < 2; lines++) {
    struct mst_inbox whole, pieces;
    memset(&whole, 0, sizeof whole);
    memset(&pieces, 0, sizeof pieces);
    int rc, rc_pieces;
    uint64_t got, got_pieces;
    add(&whole, bytes + 1, rest);
    got = lines ? take_lines(&whole, &rc) : take_frames(&whole, &rc);
    add(&pieces, bytes + 1, cut);
    got_pieces = lines ? take_lines(&pieces, &rc_pieces)
                       : take_frames(&pieces, &rc_pieces);
    if (rc_pieces == -MST_EAGAIN) {
      add(&pieces, bytes + 1 + cut, rest - cut);
      got_pieces += lines ? take_lines(&pieces, &rc_pieces)
                          : take_frames(&pieces, &rc_pieces);
    }
    FUZZ_CHECK(rc == rc_pieces && got == got_pieces);
    mst_inbox_free(&whole);
    mst_inbox_free(&pieces);
  }
}

static void seeds(struct fuzz_sink *sink) {
  const uint8_t frames[] = {9, 1, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c',
                            2, 0, 0, 0, 0, 0, 0, 0, 1, 0,   0,   0};
  sink->take(sink, "frames", frames, sizeof frames);
  const uint8_t large[] = {2, 1, 255, 255, 255, 255, 255, 255, 255, 1};
  sink->take(sink, "too-large", large, sizeof large);
  static const char lines[] = "\x03one\r\n\ntwo\rthree\nfour";
  sink->take(sink, "lines", (const uint8_t *)lines, sizeof lines - 1);
  uint8_t line[LIMIT + 4] = {LIMIT};
  memset(line + 1, 'x', sizeof line - 1);
  sink->take(sink, "line-too-long", line, sizeof line);
}

const struct fuzz_target fuzz_inbox = {"inbox", 0, run, seeds};
