// Links between workers: which ones exist, and how they begin and end. guest.c has the frames on
// them. See exchange_int.h.
//
// A link that ends leaves a record until there is another to that worker: its epoch shows that an
// earlier incarnation is gone.
#include "shuffle/exchange_int.h"

#include <stdlib.h>

#define HAVE_MAX                                                               \
  ((uint64_t)MST_HAVE_HEAD_BYTES + MST_TEXT_MAX +                              \
   (uint64_t)MST_BLOCKS_MAX * MST_BLOCK_BYTES)
#define LINE_CAP_FIRST 16u

struct mst_link_end *mst_links_to(uint32_t worker, uint32_t epoch) {
  for (size_t i = mst_exchange.end_count; i-- > 0;) {
    struct mst_link_end *end = mst_exchange.ends[i];
    if (end->worker == worker && end->epoch == epoch && !end->dead &&
        !end->slow && end->state == MST_END_UP) {
      return end;
    }
  }
  return NULL;
}

int mst_links_replaced(const struct mst_source *source) {
  for (size_t i = 0; i < mst_exchange.end_count; i++) {
    const struct mst_link_end *end = mst_exchange.ends[i];
    if (end->worker == source->worker && end->epoch > source->epoch &&
        end->state != MST_END_ACCEPTED) {
      return 1;
    }
  }
  for (const struct mst_other *other = mst_exchange.others; other != NULL;
       other = other->next) {
    if (other->place.worker == source->worker &&
        other->place.epoch > source->epoch) {
      return 1;
    }
  }
  return 0;
}

void mst_links_kill(struct mst_link_end *end) {
  if (end->dead) return;
  end->dead = 1;
  mst_chan_close(&end->chan);
  for (size_t i = 0; i < mst_exchange.question_count; i++) {
    struct mst_question *question = &mst_exchange.questions[i];
    if (question->end == end) question->end = NULL;
  }
}

// bury frees the records of dead links to a worker, and of those that were never up.
static void bury(uint32_t worker) {
  size_t kept = 0;
  for (size_t i = 0; i < mst_exchange.end_count; i++) {
    struct mst_link_end *end = mst_exchange.ends[i];
    if (end->dead && (end->worker == worker || end->state != MST_END_UP)) {
      free(end);
    } else {
      mst_exchange.ends[kept++] = end;
    }
  }
  mst_exchange.end_count = kept;
}

static int make_room(void) {
  if (mst_exchange.end_count < mst_exchange.line_cap) return 1;
  if (mst_exchange.line_cap >= MST_LINKS_MAX) return 0;
  const size_t cap =
      mst_exchange.line_cap == 0 ? LINE_CAP_FIRST : 2 * mst_exchange.line_cap;
  struct mst_link_end **more =
      realloc(mst_exchange.ends, cap * sizeof(struct mst_link_end *));
  if (more == NULL) return 0;
  mst_exchange.ends = more;
  mst_exchange.line_cap = cap;
  return 1;
}

struct mst_link_end *mst_links_add(int fd, enum mst_end_state state,
                                   uint32_t worker, uint32_t epoch,
                                   uint32_t handler) {
  bury(state == MST_END_ACCEPTED ? MST_SOURCE_SELF : worker);
  struct mst_link_end *end = make_room() ? calloc(1, sizeof *end) : NULL;
  if (end == NULL) {
    mst_net_close(&fd);
    return NULL;
  }
  mst_net_raise(&fd);
  const int up = state == MST_END_UP;
  mst_chan_open(&end->chan, fd, up ? HAVE_MAX : MST_MEET_BYTES);
  end->chan.takes_maps = (uint8_t)up;
  end->state = state;
  end->worker = worker;
  end->epoch = epoch;
  end->handler = handler;
  mst_exchange.ends[mst_exchange.end_count++] = end;
  return end;
}

void mst_links_up(struct mst_link_end *end, uint32_t worker, uint32_t epoch) {
  for (size_t i = 0; i < mst_exchange.end_count; i++) {
    struct mst_link_end *other = mst_exchange.ends[i];
    if (other != end && other->worker == worker && other->epoch == epoch &&
        other->state == MST_END_UP && other->slow) {
      mst_links_kill(other);
    }
  }
  end->worker = worker;
  end->epoch = epoch;
  end->state = MST_END_UP;
  end->chan.length_max = HAVE_MAX;
  end->chan.takes_maps = 1;
}

void mst_links_free(void) {
  for (size_t i = 0; i < mst_exchange.end_count; i++) {
    mst_links_kill(mst_exchange.ends[i]);
    free(mst_exchange.ends[i]);
  }
  free(mst_exchange.ends);
  mst_exchange.ends = NULL;
  mst_exchange.end_count = mst_exchange.line_cap = 0;
}
