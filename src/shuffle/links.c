// Links between workers: which there are, and how they come and go. What is said on them is
// guest.c's. See exchange_int.h.
//
// A link that ends leaves a note, so that the next question for that worker doesn't wait for
// another LINK from the session, but dials at once; where it can't, the blocks aren't there, and
// the plan finds out whether that worker is lost.
#include "shuffle/exchange_int.h"

#include <stdlib.h>

#define HAVE_MAX                                                               \
  ((uint64_t)MST_HAVE_HEAD_BYTES + MST_TEXT_MAX +                              \
   (uint64_t)MST_BLOCKS_MAX * MST_BLOCK_BYTES)
#define LINE_CAP_FIRST 16u

struct mst_line *mst_links_to(uint32_t worker, uint32_t epoch) {
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

int mst_links_had(uint32_t worker, uint32_t epoch) {
  for (size_t i = 0; i < mst_exchange.line_count; i++) {
    const struct mst_line *line = mst_exchange.lines[i];
    if (line->worker == worker && line->epoch == epoch &&
        line->state != MST_LINE_ACCEPTED) {
      return 1;
    }
  }
  return 0;
}

int mst_links_replaced(const struct mst_source *source) {
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
  if (mst_exchange.line_count < mst_exchange.line_cap) return 1;
  if (mst_exchange.line_cap >= MST_LINKS_MAX) return 0;
  const size_t cap =
      mst_exchange.line_cap == 0 ? LINE_CAP_FIRST : 2 * mst_exchange.line_cap;
  struct mst_line **more =
      realloc(mst_exchange.lines, cap * sizeof(struct mst_line *));
  if (more == NULL) return 0;
  mst_exchange.lines = more;
  mst_exchange.line_cap = cap;
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
  mst_exchange.line_count = mst_exchange.line_cap = 0;
}
