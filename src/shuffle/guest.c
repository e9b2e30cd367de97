// Frames on links, and where questions are asked: the watch's guest. See exchange_int.h.
//
// A link that is silent for again_ns while a question is open is slow: nothing more is asked on it,
// and a new connection is made. Once that is up the slow one is closed. A late answer is valid
// until then.
#include "shuffle/exchange_int.h"

#include <stdlib.h>

#include "base/mst_clock.h"
#include "base/mst_cond.h"
#include "fork/fork.h"

// ---- frames

static void send_small(struct mst_link_end *end, uint8_t kind,
                       const struct mst_want *want) {
  struct mst_head head = {.kind = kind};
  uint8_t bytes[MST_WANT_BYTES];
  mst_want_encode(want, bytes);
  const int rc =
      mst_chan_send_small(&end->chan, &head, bytes, sizeof bytes, 0, NULL);
  if (rc != 0) mst_links_kill(end);
}

static void answer(struct mst_link_end *end, const struct mst_want *want) {
  struct mst_entry *entry = *mst_exchange_find(want);
  if (entry == NULL || !entry->own) {
    send_small(end, MST_KIND_NONE, want);
    return;
  }
  struct mst_head head = {.kind = MST_KIND_HAVE};
  if (mst_chan_send(&end->chan, &head, entry->blob, NULL, 0, 0, NULL) != 0) {
    mst_links_kill(end);
  }
}

// heard notes an answer: this worker may be dialled again at once if necessary.
static void heard(struct mst_link_end *end) {
  struct mst_other *other = mst_handlers_other(end->worker, end->epoch);
  if (end->open > 0) end->open--;
  if (other != NULL) other->tries = 0;
}

// take_frame serves one frame; 0 if it isn't valid on a link.
static int take_frame(struct mst_link_end *end, const struct mst_frame *frame) {
  struct mst_want want;
  struct mst_have have;
  const size_t n = (size_t)frame->head.length;
  if (end->state != MST_END_UP) return mst_handlers_take(end, frame);
  switch (frame->head.kind) {
  case MST_KIND_WANT:
    if (mst_want_decode(frame->payload, n, &want) != 0) return 0;
    answer(end, &want);
    return 1;
  case MST_KIND_NONE:
    if (mst_want_decode(frame->payload, n, &want) != 0) return 0;
    heard(end);
    mst_exchange_settle_all(&want, MST_FETCHED_NOT);
    return 1;
  case MST_KIND_HAVE:
    if (mst_have_decode(frame->payload, n, &have) != 0) return 0;
    heard(end);
    mst_exchange_learn(&have, frame->payload, n,
                       mst_chan_map(&end->chan, frame));
    return 1;
  default:
    return 0;
  }
}

static void read_end(struct mst_link_end *end) {
  struct mst_frame frame;
  const int rc = mst_chan_fill(&end->chan, 0, NULL);
  int frames = 0;
  if (rc == 1) end->heard_ns = mst_clock_now();
  while (!end->dead &&
         (frames = mst_chan_peek(&end->chan, &frame, NULL)) == 1) {
    if (!take_frame(end, &frame)) {
      mst_links_kill(end);
      return;
    }
    if (!end->dead) mst_chan_take(&end->chan, &frame);
  }
  if (frames < 0 || (rc != 1 && rc != -MST_EAGAIN)) mst_links_kill(end);
}

// ---- questions

// no_word takes a question back from a slow link: 1 if it must be asked again.
static int no_word(struct mst_question *question, int64_t now_ns) {
  struct mst_link_end *end = question->end;
  const int64_t word_ns =
      end->heard_ns > question->sent_ns ? end->heard_ns : question->sent_ns;
  if (now_ns - word_ns <= mst_exchange.way.again_ns) return 0;
  end->slow = 1;
  if (end->open > 0) end->open--;
  question->end = NULL;
  mst_exchange.counts.again++;
  return 1;
}

// seek starts a connection to a worker without a link. 0, or -MST_ECLOSED if there can be none.
static int seek(const struct mst_question *question, int64_t now_ns) {
  const struct mst_source *source = &question->source;
  struct mst_other *other = mst_handlers_other(source->worker, source->epoch);
  if (other == NULL || mst_links_replaced(source)) return -MST_ECLOSED;
  return mst_handlers_dial(other, now_ns);
}

static void ask_one(struct mst_question *question, int64_t now_ns) {
  const struct mst_source *source = &question->source;
  if (now_ns - question->since_ns > mst_exchange.way.silent_ns) {
    mst_exchange_settle(question, MST_FETCHED_SILENT);
    return;
  }
  if (question->end != NULL && !no_word(question, now_ns)) return;
  struct mst_link_end *end = mst_links_to(source->worker, source->epoch);
  if (end == NULL) {
    if (seek(question, now_ns) != 0) {
      mst_exchange_settle(question, MST_FETCHED_NOT);
    }
    return;
  }
  if (end->open >= MST_EXCHANGE_CREDIT) return;
  end->open++;
  question->end = end;
  question->sent_ns = now_ns;
  send_small(end, MST_KIND_WANT, &source->want);
}

// judge asks open questions and gives up on expired ones, and tells whether anything must be
// checked again.
static int judge(int64_t now_ns) {
  int left = mst_exchange.open > 0;
  for (size_t i = 0; i < mst_exchange.question_count && left; i++) {
    struct mst_question *question = &mst_exchange.questions[i];
    if (question->state == MST_FETCHED_OPEN) ask_one(question, now_ns);
  }
  for (size_t i = 0; i < mst_exchange.end_count; i++) {
    struct mst_link_end *end = mst_exchange.ends[i];
    if (end->dead || end->state == MST_END_UP) continue;
    if (now_ns > end->until_ns) {
      mst_links_kill(end);
    } else {
      left = 1;
    }
  }
  return left;
}

// ---- the watch's guest. Polls ends of links, then listeners, which the R thread may add
// meanwhile.

static size_t polled_ends;

// flush_late sends what a shortage of the system held back, when it is time.
static void flush_late(struct mst_link_end *end, int64_t now_ns,
                       int *timeout_ms) {
  if (end->dead || mst_chan_later_ns(&end->chan) == INT64_MAX) return;
  if (mst_chan_later_ns(&end->chan) <= now_ns) {
    const int rc = mst_chan_flush(&end->chan, NULL);
    if (rc != 0 && rc != -MST_EAGAIN) mst_links_kill(end);
  }
  const int64_t later_ns = mst_chan_later_ns(&end->chan);
  if (end->dead || later_ns == INT64_MAX) return;
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
  for (; n < mst_exchange.end_count && n < most; n++) {
    struct mst_link_end *end = mst_exchange.ends[n];
    flush_late(end, now_ns, timeout_ms);
    fds[n] = (struct pollfd){
        .fd = end->dead ? -1 : end->chan.fd, // poll() skips -1
        .events = (short)(mst_chan_wants_write(&end->chan) ? POLLIN | POLLOUT
                                                           : POLLIN)};
  }
  polled_ends = n;
  const size_t listeners = mst_handlers_fds(fds + n, most - n, now_ns);
  const size_t all = mst_exchange.end_count + listeners;
  mst_exchange_unlock();
  return all;
}

static void guest_ready(const struct pollfd *fds, size_t n) {
  mst_exchange_lock();
  // Ends haven't changed since guest_fds: only this thread changes them.
  for (size_t i = 0; i < polled_ends && i < n; i++) {
    struct mst_link_end *end = mst_exchange.ends[i];
    if (fds[i].revents == 0 || end->dead) continue;
    if ((fds[i].revents & POLLOUT) != 0) {
      const int rc = mst_chan_flush(&end->chan, NULL);
      if (rc != 0 && rc != -MST_EAGAIN) mst_links_kill(end);
    }
    if (!end->dead && (fds[i].revents & ~POLLOUT) != 0) read_end(end);
  }
  for (size_t i = polled_ends; i < n; i++) {
    if (fds[i].revents != 0) mst_handlers_accept((uint32_t)(i - polled_ends));
  }
  mst_exchange_unlock();
}

// guest_leave, in a copy of a worker: the links are the worker's, so they are closed but not shut
// down, and its files stay.
static void guest_leave(void) {
  (void)pthread_mutex_init(&mst_exchange.lock, NULL);
  for (size_t i = 0; i < mst_exchange.end_count; i++)
    mst_net_close(&mst_exchange.ends[i]->chan.fd);
  for (uint32_t i = 0; i < MST_EXCHANGE_BUCKETS; i++) {
    struct mst_entry *at = mst_exchange.entries[i];
    for (; at != NULL; at = at->next) {
      free(at->path);
      at->path = NULL;
    }
  }
  mst_exchange_end();
}

const struct mst_watch_guest mst_exchange_guest = {.fds = guest_fds,
                                                   .ready = guest_ready,
                                                   .hold = mst_exchange_lock,
                                                   .release =
                                                       mst_exchange_unlock,
                                                   .leave = guest_leave};

// ---- its life

int mst_exchange_begin(struct mst_err *err) {
  const int rc = mst_cond_init(&mst_exchange.answered);
  if (rc != 0) {
    return mst_err_set(err, MST_ESYS, rc, "pthread_cond_init", "%s",
                       strerror(rc));
  }
  mst_watch_invite(&mst_exchange_guest);
  return 0;
}

void mst_exchange_end(void) {
  mst_exchange_lock();
  mst_links_free();
  mst_handlers_free();
  mst_exchange_free();
  mst_exchange_unlock();
  (void)pthread_cond_destroy(&mst_exchange.answered);
}
