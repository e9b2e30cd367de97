// Links between workers: frames on them, and what is asked where. See exchange_int.h.
//
// Order of events: a LINK comes on the control channel before or after a question for that
// worker is written down; the question waits for it, or, where links are made by listeners,
// dials. A link that ends leaves a note, so that the next question for that worker doesn't wait
// for another LINK, but dials at once; where it can't, the blocks aren't there, and the plan finds
// out whether that worker is lost.
//
// A link on which nothing has come for again_ns while a question is open is slow: nothing more is
// asked there, and a new connection is made. Once that is up the slow one is closed. A late
// answer counts as any other until then.
#include "shuffle/exchange_int.h"

#include <stdlib.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "fork/fork.h"

#define HAVE_MAX                                                               \
  ((uint64_t)MST_HAVE_HEAD_BYTES + MST_TEXT_MAX +                              \
   (uint64_t)MST_BLOCKS_MAX * MST_BLOCK_BYTES)
#define LINE_ROOM_FIRST 16u

// ---- which there are

// line_to gives the one on which to ask a worker: the newest that is up.
static struct mst_line *line_to(uint32_t worker, uint32_t epoch) {
  for (size_t i = mst_exchange.line_count; i-- > 0;) {
    struct mst_line *line = mst_exchange.lines[i];
    if (line->worker == worker && line->epoch == epoch && !line->dead &&
        !line->slow && line->state == MST_LINE_UP &&
        (!mst_exchange.way.listen || line->handler != MST_HANDLER_NONE)) {
      return line;
    }
  }
  return NULL;
}

// had_line: there is or was one, or one is being made: none is on its way from the session.
static int had_line(uint32_t worker, uint32_t epoch) {
  for (size_t i = 0; i < mst_exchange.line_count; i++) {
    const struct mst_line *line = mst_exchange.lines[i];
    if (line->worker == worker && line->epoch == epoch &&
        line->state != MST_LINE_ACCEPTED) {
      return 1;
    }
  }
  return 0;
}

// was_replaced: there is something of a later incarnation.
static int was_replaced(const struct mst_source *source) {
  for (size_t i = 0; i < mst_exchange.line_count; i++) {
    const struct mst_line *line = mst_exchange.lines[i];
    if (line->worker == source->worker && line->epoch > source->epoch &&
        line->state != MST_LINE_ACCEPTED) {
      return 1;
    }
  }
  for (const struct mst_other *other = mst_exchange.others; other != NULL;
       other = other->next) {
    if (other->door.worker == source->worker &&
        other->door.epoch > source->epoch) {
      return 1;
    }
  }
  return 0;
}

void mst_links_kill(struct mst_line *line) {
  if (line->dead) return;
  line->dead = 1;
  mst_chan_close(&line->chan);
  for (size_t i = 0; i < mst_exchange.question_count; i++) {
    struct mst_question *question = &mst_exchange.questions[i];
    if (question->line == line) question->line = NULL;
  }
}

// bury frees the notes of dead lines to a worker, and of those that never were up.
static void bury(uint32_t worker) {
  size_t kept = 0;
  for (size_t i = 0; i < mst_exchange.line_count; i++) {
    struct mst_line *line = mst_exchange.lines[i];
    if (line->dead && (line->worker == worker || line->state != MST_LINE_UP)) {
      free(line);
    } else {
      mst_exchange.lines[kept++] = line;
    }
  }
  mst_exchange.line_count = kept;
}

static int make_room(void) {
  if (mst_exchange.line_count < mst_exchange.line_room) return 1;
  if (mst_exchange.line_room >= MST_LINKS_MAX) return 0;
  const size_t room = mst_exchange.line_room == 0 ? LINE_ROOM_FIRST
                                                  : 2 * mst_exchange.line_room;
  struct mst_line **more =
      realloc(mst_exchange.lines, room * sizeof(struct mst_line *));
  if (more == NULL) return 0;
  mst_exchange.lines = more;
  mst_exchange.line_room = room;
  return 1;
}

struct mst_line *mst_links_add(int fd, enum mst_line_state state,
                               uint32_t worker, uint32_t epoch,
                               uint32_t handler) {
  bury(state == MST_LINE_ACCEPTED ? MST_SOURCE_SELF : worker);
  struct mst_line *line = make_room() ? calloc(1, sizeof *line) : NULL;
  if (line == NULL) {
    mst_net_close(&fd);
    return NULL;
  }
  mst_net_raise(&fd);
  const int up = state == MST_LINE_UP;
  mst_chan_open(&line->chan, fd, up ? HAVE_MAX : MST_MEET_BYTES);
  line->chan.takes_maps = (uint8_t)up;
  line->state = state;
  line->worker = worker;
  line->epoch = epoch;
  line->handler = handler;
  mst_exchange.lines[mst_exchange.line_count++] = line;
  return line;
}

void mst_links_up(struct mst_line *line, uint32_t worker, uint32_t epoch) {
  for (size_t i = 0; i < mst_exchange.line_count; i++) {
    struct mst_line *other = mst_exchange.lines[i];
    if (other != line && other->worker == worker && other->epoch == epoch &&
        other->state == MST_LINE_UP && other->slow) {
      mst_links_kill(other);
    }
  }
  line->worker = worker;
  line->epoch = epoch;
  line->state = MST_LINE_UP;
  line->chan.length_max = HAVE_MAX;
  line->chan.takes_maps = 1;
}

void mst_links_free(void) {
  for (size_t i = 0; i < mst_exchange.line_count; i++) {
    mst_links_kill(mst_exchange.lines[i]);
    free(mst_exchange.lines[i]);
  }
  free(mst_exchange.lines);
  mst_exchange.lines = NULL;
  mst_exchange.line_count = mst_exchange.line_room = 0;
}

// ---- frames

static void send_small(struct mst_line *line, uint8_t kind,
                       const struct mst_want *want) {
  struct mst_head head = {.kind = kind};
  uint8_t bytes[MST_WANT_BYTES];
  mst_want_encode(want, bytes);
  const int rc =
      mst_chan_send_small(&line->chan, &head, bytes, sizeof bytes, 0, NULL);
  if (rc != 0) mst_links_kill(line);
}

static void answer(struct mst_line *line, const struct mst_want *want) {
  struct mst_entry *entry = *mst_exchange_find(want);
  if (entry == NULL || !entry->own) {
    send_small(line, MST_KIND_NONE, want);
    return;
  }
  struct mst_head head = {.kind = MST_KIND_HAVE};
  if (mst_chan_send(&line->chan, &head, entry->blob, NULL, 0, 0, NULL) != 0) {
    mst_links_kill(line);
  }
}

// heard notes an answer: one that answers may be dialled again at once, should it come to that.
static void heard(struct mst_line *line) {
  struct mst_other *other = mst_handlers_other(line->worker, line->epoch);
  if (line->open > 0) line->open--;
  if (other != NULL) other->tries = 0;
}

// take_frame serves one frame; 0 if it has no place on a link.
static int take_frame(struct mst_line *line, const struct mst_frame *frame) {
  struct mst_want want;
  struct mst_have have;
  const size_t n = (size_t)frame->head.length;
  if (line->state != MST_LINE_UP) return mst_handlers_take(line, frame);
  switch (frame->head.kind) {
  case MST_KIND_WANT:
    if (mst_want_decode(frame->payload, n, &want) != 0) return 0;
    answer(line, &want);
    return 1;
  case MST_KIND_NONE:
    if (mst_want_decode(frame->payload, n, &want) != 0) return 0;
    heard(line);
    mst_exchange_settle_all(&want, MST_FOUND_NOT);
    return 1;
  case MST_KIND_HAVE:
    if (mst_have_decode(frame->payload, n, &have) != 0) return 0;
    heard(line);
    mst_exchange_learn(&have, frame->payload, n,
                       mst_chan_map(&line->chan, frame));
    return 1;
  default:
    return 0;
  }
}

static void read_line(struct mst_line *line) {
  struct mst_frame frame;
  const int rc = mst_chan_fill(&line->chan, 0, NULL);
  int frames = 0;
  if (rc == 1) line->heard_ns = mst_clock_now();
  while (!line->dead &&
         (frames = mst_chan_peek(&line->chan, &frame, NULL)) == 1) {
    if (!take_frame(line, &frame)) {
      mst_links_kill(line);
      return;
    }
    if (!line->dead) mst_chan_take(&line->chan, &frame);
  }
  if (frames < 0 || (rc != 1 && rc != -MST_EAGAIN)) mst_links_kill(line);
}

static void guest_link(const struct mst_head *head, const uint8_t *payload,
                       size_t n, int fd) {
  struct mst_link_msg msg;
  (void)head;
  mst_exchange_lock();
  if (mst_link_decode(payload, n, &msg) != 0) {
    mst_net_close(&fd);
  } else if (mst_links_add(fd, MST_LINE_UP, msg.worker, msg.epoch,
                           MST_HANDLER_NONE) != NULL) {
    mst_exchange.counts.pairs++;
  }
  mst_exchange_unlock();
}

// ---- questions

// no_word takes a question back from a line that is slow: 1 if it is to be asked again.
static int no_word(struct mst_question *question, int64_t now_ns) {
  struct mst_line *line = question->line;
  const int64_t word_ns =
      line->heard_ns > question->sent_ns ? line->heard_ns : question->sent_ns;
  if (now_ns - word_ns <= mst_exchange.way.again_ns) return 0;
  const struct mst_other *other = mst_handlers_other(line->worker, line->epoch);
  if (other == NULL && question->sent > 1) return 0; // once on the same
  if (other != NULL) line->slow = 1;
  if (line->open > 0) line->open--;
  question->line = NULL;
  mst_exchange.counts.again++;
  return 1;
}

// seek has a connection made to a worker that there is no link to: 0, or not if there can be
// none.
static int seek(const struct mst_question *question, int64_t now_ns) {
  const struct mst_source *source = &question->source;
  struct mst_other *other = mst_handlers_other(source->worker, source->epoch);
  const int had = had_line(source->worker, source->epoch);
  const int late = now_ns - question->since_ns > mst_exchange.way.again_ns;
  if (was_replaced(source)) return -MST_ECLOSED;
  if (other == NULL) return had ? -MST_ECLOSED : 0;
  if (!had && !late && !mst_exchange.way.listen) return 0; // it is on its way
  return mst_handlers_dial(other, now_ns);
}

static void ask_one(struct mst_question *question, int64_t now_ns) {
  const struct mst_source *source = &question->source;
  if (now_ns - question->since_ns > mst_exchange.way.silent_ns) {
    mst_exchange_settle(question, MST_FOUND_SILENT);
    return;
  }
  if (question->line != NULL && !no_word(question, now_ns)) return;
  struct mst_line *line = line_to(source->worker, source->epoch);
  if (line == NULL) {
    if (seek(question, now_ns) != 0) {
      mst_exchange_settle(question, MST_FOUND_NOT);
    }
    return;
  }
  if (line->open >= MST_EXCHANGE_CREDIT) return;
  line->open++;
  question->line = line;
  if (question->sent < UINT8_MAX) question->sent++;
  question->sent_ns = now_ns;
  send_small(line, MST_KIND_WANT, &source->want);
}

// judge gives up what has had its time, and tells whether there is anything to be looked at
// again.
static int judge(int64_t now_ns) {
  int left = mst_exchange.open > 0;
  for (size_t i = 0; i < mst_exchange.question_count && left; i++) {
    struct mst_question *question = &mst_exchange.questions[i];
    if (question->state == MST_FOUND_OPEN) ask_one(question, now_ns);
  }
  for (size_t i = 0; i < mst_exchange.line_count; i++) {
    struct mst_line *line = mst_exchange.lines[i];
    if (line->dead || line->state == MST_LINE_UP) continue;
    if (now_ns > line->until_ns) {
      mst_links_kill(line);
    } else {
      left = 1;
    }
  }
  return left;
}

// ---- the watch's guest. What is waited for: lines, then listeners: the R thread may add one of
// those meanwhile.

static size_t polled_lines;

// flush_late sends what the system had no room for, when it is time.
static void flush_late(struct mst_line *line, int64_t now_ns, int *timeout_ms) {
  if (line->dead || mst_chan_later_ns(&line->chan) == INT64_MAX) return;
  if (mst_chan_later_ns(&line->chan) <= now_ns) {
    const int rc = mst_chan_flush(&line->chan, NULL);
    if (rc != 0 && rc != -MST_EAGAIN) mst_links_kill(line);
  }
  const int64_t later_ns = mst_chan_later_ns(&line->chan);
  if (line->dead || later_ns == INT64_MAX) return;
  const int most_ms = *timeout_ms < 0 ? MST_EXCHANGE_TICK_MS : *timeout_ms;
  *timeout_ms = mst_clock_ms_until(later_ns, most_ms);
}

static size_t guest_fds(struct pollfd *fds, size_t most, int *timeout_ms) {
  size_t n = 0;
  mst_exchange_lock();
  const int64_t now_ns = mst_clock_now();
  mst_exchange.look_ns = now_ns + MST_EXCHANGE_TICK_MS * MST_NS_PER_MS;
  if (judge(now_ns)) {
    const int most_ms = *timeout_ms < 0 ? MST_EXCHANGE_TICK_MS : *timeout_ms;
    *timeout_ms = mst_clock_ms_until(mst_exchange.look_ns, most_ms);
  }
  for (; n < mst_exchange.line_count && n < most; n++) {
    struct mst_line *line = mst_exchange.lines[n];
    flush_late(line, now_ns, timeout_ms);
    fds[n] = (struct pollfd){
        .fd = line->dead ? -1 : line->chan.fd, // poll() passes over -1
        .events = (short)(mst_chan_wants_write(&line->chan) ? POLLIN | POLLOUT
                                                            : POLLIN)};
  }
  polled_lines = n;
  const size_t doors = mst_handlers_fds(fds + n, most - n, now_ns);
  const size_t all = mst_exchange.line_count + doors;
  mst_exchange_unlock();
  return all;
}

static void guest_ready(const struct pollfd *fds, size_t n) {
  mst_exchange_lock();
  // No line came or went between guest_fds and here, since this thread does that.
  for (size_t i = 0; i < polled_lines && i < n; i++) {
    struct mst_line *line = mst_exchange.lines[i];
    if (fds[i].revents == 0 || line->dead) continue;
    if ((fds[i].revents & POLLOUT) != 0) {
      const int rc = mst_chan_flush(&line->chan, NULL);
      if (rc != 0 && rc != -MST_EAGAIN) mst_links_kill(line);
    }
    if (!line->dead && (fds[i].revents & ~POLLOUT) != 0) read_line(line);
  }
  for (size_t i = polled_lines; i < n; i++) {
    if (fds[i].revents != 0) mst_handlers_accept((uint32_t)(i - polled_lines));
  }
  mst_exchange_unlock();
}

const struct mst_watch_guest mst_links_guest = {
    .link = guest_link, .fds = guest_fds, .ready = guest_ready};
