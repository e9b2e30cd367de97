// Blocks between workers: see exchange.h.
//
// Not chosen: sending the bytes themselves on one machine, which copies them twice; a third
// thread, since what there is to do (look up, hand over a descriptor) takes microseconds.
// All sending and receiving is the watch thread's: the R thread writes down what it wants and
// wakes it. So a link needs no lock of its own, and no frame is ever cut by another.
//
// Order of events on a link: LINK comes on the control channel before or after a question for
// that worker is written down; the question waits for it. The link's end answers all that are
// open on it with "not here": the plan finds out whether that worker is lost.
#include "shuffle/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "base/mst_hash.h"
#include "fork/fork.h"
#include "loop/chan.h"

// While something is asked for, time limits are looked at this often.
#define TICK_MS 100
#define HAVE_MAX                                                               \
  ((uint64_t)MST_HAVE_HEAD_BYTES + MST_TEXT_MAX +                              \
   (uint64_t)MST_BLOCKS_MAX * MST_BLOCK_BYTES)

// What is known of one attempt's blocks, own or another's.
struct entry {
  struct entry *next;
  struct mst_want want;
  struct mst_blob *blob; // HAVE as it is sent; its segment if they are own
  struct mst_have have;  // points into the blob's bytes
  struct mst_map *map;   // of the segment, NULL if not mapped yet, or a file
  char *path;            // NULL: a segment
  uint8_t own;
};

struct link {
  struct mst_chan chan;
  uint32_t worker, epoch;
  uint32_t open; // questions
  uint8_t dead;
};

struct question {
  struct mst_source source;
  enum mst_found state;
  uint8_t sent;     // times
  int64_t since_ns; // first asked
  int64_t sent_ns;
};

static struct {
  pthread_mutex_t lock;
  pthread_cond_t answered;
  struct entry *entries;
  struct question *questions;
  size_t question_count;
  size_t open;
  struct link *links[MST_LINKS_MAX];
  size_t link_count;
  uint64_t held;
  // A pipe: the R thread has written something down. Made with the first link, before
  // which there is nobody to ask.
  int wake[2];
} exchange = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .answered = PTHREAD_COND_INITIALIZER,
              .wake = {-1, -1}};

static void lock(void) { (void)pthread_mutex_lock(&exchange.lock); }
static void unlock(void) { (void)pthread_mutex_unlock(&exchange.lock); }

static int same(const struct mst_want *a, const struct mst_want *b) {
  return a->stage == b->stage && a->task == b->task && a->attempt == b->attempt;
}

// ---- entries. With the lock

static struct entry **find(const struct mst_want *want) {
  struct entry **at = &exchange.entries;
  while (*at != NULL && !same(&(*at)->want, want))
    at = &(*at)->next;
  return at;
}

static void free_entry(struct entry *entry) {
  if (entry->own) {
    if (entry->path == NULL) {
      exchange.held -= entry->have.size;
    } else {
      (void)unlink(entry->path);
    }
  }
  mst_blob_release(entry->blob);
  mst_map_release(entry->map);
  free(entry->path);
  free(entry);
}

static void drop_entry(struct entry **at) {
  struct entry *gone = *at;
  *at = gone->next;
  free_entry(gone);
}

// new_entry makes one of a HAVE's bytes, which were checked. NULL without memory.
static struct entry *new_entry(const uint8_t *bytes, size_t n, int own) {
  struct entry *entry = calloc(1, sizeof *entry);
  if (entry == NULL) return NULL;
  entry->own = (uint8_t)own;
  entry->blob = mst_blob_new();
  if (entry->blob == NULL || mst_buf_append(&entry->blob->buf, bytes, n) != 0 ||
      mst_have_decode(entry->blob->buf.data, n, &entry->have) != 0) {
    mst_blob_release(entry->blob);
    free(entry);
    return NULL;
  }
  entry->want = entry->have.want;
  if (entry->have.path_bytes > 0) {
    entry->path = strndup(entry->have.path, entry->have.path_bytes);
    if (entry->path == NULL) {
      mst_blob_release(entry->blob);
      free(entry);
      return NULL;
    }
  }
  return entry;
}

static void keep(struct entry *entry) {
  entry->next = exchange.entries;
  exchange.entries = entry;
}

// ---- answers to questions. With the lock

static void settle(struct question *question, enum mst_found state) {
  if (question->state != MST_FOUND_OPEN) return;
  question->state = state;
  exchange.open--;
  if (exchange.open == 0) (void)pthread_cond_broadcast(&exchange.answered);
}

static void settle_all(const struct mst_want *want, enum mst_found state) {
  for (size_t i = 0; i < exchange.question_count; i++) {
    if (same(&exchange.questions[i].source.want, want)) {
      settle(&exchange.questions[i], state);
    }
  }
}

// ---- links. Watch thread, with the lock

static struct link *link_to(uint32_t worker, uint32_t epoch) {
  for (size_t i = 0; i < exchange.link_count; i++) {
    struct link *link = exchange.links[i];
    if (link->worker == worker && link->epoch == epoch) return link;
  }
  return NULL;
}

// was_replaced: there is a link to a later incarnation.
static int was_replaced(const struct mst_source *source) {
  for (size_t i = 0; i < exchange.link_count; i++) {
    const struct link *link = exchange.links[i];
    if (link->worker == source->worker && link->epoch > source->epoch) return 1;
  }
  return 0;
}

static void kill_link(struct link *link) {
  if (link->dead) return;
  link->dead = 1;
  mst_chan_close(&link->chan);
  for (size_t i = 0; i < exchange.question_count; i++) {
    const struct mst_source *source = &exchange.questions[i].source;
    if (source->worker == link->worker && source->epoch == link->epoch) {
      settle(&exchange.questions[i], MST_FOUND_NOT);
    }
  }
}

static void send_small(struct link *link, uint8_t kind,
                       const struct mst_want *want) {
  struct mst_head head = {.kind = kind};
  uint8_t bytes[MST_WANT_BYTES];
  mst_want_encode(want, bytes);
  const int rc =
      mst_chan_send_small(&link->chan, &head, bytes, sizeof bytes, 0, NULL);
  if (rc != 0) kill_link(link);
}

static void answer(struct link *link, const struct mst_want *want) {
  struct entry *entry = *find(want);
  if (entry == NULL || !entry->own) {
    send_small(link, MST_KIND_NONE, want);
    return;
  }
  struct mst_head head = {.kind = MST_KIND_HAVE};
  if (mst_chan_send(&link->chan, &head, entry->blob, NULL, 0, 0, NULL) != 0) {
    kill_link(link);
  }
}

static int take_have(struct link *link, const struct mst_frame *frame) {
  struct mst_have have;
  if (mst_have_decode(frame->payload, (size_t)frame->head.length, &have) != 0) {
    return 0;
  }
  struct mst_map *map = mst_chan_map(&link->chan, frame);
  const int wants_map = have.size > 0 && have.path_bytes == 0;
  if (*find(&have.want) == NULL) {
    struct entry *entry = NULL;
    if (!wants_map || map != NULL) {
      entry = new_entry(frame->payload, (size_t)frame->head.length, 0);
    }
    if (entry == NULL) {
      settle_all(&have.want, MST_FOUND_NOT);
      return 1;
    }
    entry->map = mst_map_hold(map);
    keep(entry);
  }
  settle_all(&have.want, MST_FOUND_HERE);
  return 1;
}

// take_frame serves one frame; 0 if it has no place on a link.
static int take_frame(struct link *link, const struct mst_frame *frame) {
  struct mst_want want;
  const size_t n = (size_t)frame->head.length;
  switch (frame->head.kind) {
  case MST_KIND_WANT:
    if (mst_want_decode(frame->payload, n, &want) != 0) return 0;
    answer(link, &want);
    return 1;
  case MST_KIND_NONE:
    if (mst_want_decode(frame->payload, n, &want) != 0) return 0;
    if (link->open > 0) link->open--;
    settle_all(&want, MST_FOUND_NOT);
    return 1;
  case MST_KIND_HAVE:
    if (link->open > 0) link->open--;
    return take_have(link, frame);
  default:
    return 0;
  }
}

static void read_link(struct link *link) {
  struct mst_frame frame;
  const int rc = mst_chan_fill(&link->chan, 0, NULL);
  while (!link->dead && mst_chan_peek(&link->chan, &frame, NULL) == 1) {
    if (!take_frame(link, &frame)) {
      kill_link(link);
      return;
    }
    if (!link->dead) mst_chan_take(&link->chan, &frame);
  }
  if (rc != 1 && rc != -MST_EAGAIN) kill_link(link);
}

// A link to an incarnation that is lost makes room, and one that can't be had answers.
static void bury(void) {
  size_t kept = 0;
  for (size_t i = 0; i < exchange.link_count; i++) {
    if (exchange.links[i]->dead) {
      free(exchange.links[i]);
    } else {
      exchange.links[kept++] = exchange.links[i];
    }
  }
  exchange.link_count = kept;
}

static int can_wake(void) {
  if (exchange.wake[0] >= 0) return 1;
  if (mst_net_pipe(exchange.wake, NULL) != 0) return 0;
  mst_net_raise(&exchange.wake[0], 1024);
  mst_net_raise(&exchange.wake[1], 1024);
  return 1;
}

static void guest_link(const struct mst_head *head, const uint8_t *payload,
                       size_t n, int fd) {
  struct mst_link_msg msg;
  (void)head;
  lock();
  bury();
  struct link *link = calloc(1, sizeof *link);
  if (link == NULL || exchange.link_count == MST_LINKS_MAX || !can_wake() ||
      mst_link_decode(payload, n, &msg) != 0) {
    free(link);
    mst_net_close(&fd);
    unlock();
    return;
  }
  mst_net_raise(&fd, 1024);
  mst_chan_open(&link->chan, fd, HAVE_MAX);
  link->chan.takes_maps = 1;
  link->worker = msg.worker;
  link->epoch = msg.epoch;
  exchange.links[exchange.link_count++] = link;
  unlock();
}

// ask sends what is written down, as far as credit goes, and judges what has waited too
// long.
static void ask(int64_t now_ns) {
  for (size_t i = 0; i < exchange.question_count; i++) {
    struct question *question = &exchange.questions[i];
    if (question->state != MST_FOUND_OPEN) continue;
    if (now_ns - question->since_ns > MST_EXCHANGE_SILENT_NS) {
      settle(question, MST_FOUND_SILENT);
      continue;
    }
    const struct mst_source *source = &question->source;
    struct link *link = link_to(source->worker, source->epoch);
    if (link == NULL ? was_replaced(source) : link->dead) {
      settle(question, MST_FOUND_NOT);
      continue;
    }
    if (link == NULL) continue; // it is on its way
    const int again = question->sent == 1 &&
                      now_ns - question->sent_ns > MST_EXCHANGE_AGAIN_NS;
    if (question->sent > 0 && !again) continue;
    if (link->open >= MST_EXCHANGE_CREDIT && !again) continue;
    link->open += !again;
    question->sent++;
    question->sent_ns = now_ns;
    send_small(link, MST_KIND_WANT, &question->source.want);
  }
}

static size_t guest_fds(struct pollfd *fds, size_t most, int *timeout_ms) {
  size_t n = 0;
  lock();
  if (exchange.open > 0) {
    ask(mst_clock_now());
    if (*timeout_ms < 0 || *timeout_ms > TICK_MS) *timeout_ms = TICK_MS;
  }
  fds[n++] = (struct pollfd){.fd = exchange.wake[0], .events = POLLIN}; // or -1
  for (size_t i = 0; i < exchange.link_count && n < most; i++) {
    const struct link *link = exchange.links[i];
    // A dead one keeps its place until the next one comes: poll() passes over it.
    fds[n++] = (struct pollfd){
        .fd = link->dead ? -1 : link->chan.fd,
        .events =
            (short)(link->chan.out_first == NULL ? POLLIN : POLLIN | POLLOUT)};
  }
  unlock();
  return n;
}

static void guest_ready(const struct pollfd *fds, size_t n) {
  lock();
  if (fds[0].revents != 0) {
    uint8_t bytes[64];
    while (mst_net_read(exchange.wake[0], bytes, sizeof bytes, NULL) > 0) {
    }
  }
  // No link came between guest_fds and here, since this thread takes them.
  for (size_t i = 1; i < n; i++) {
    struct link *link = exchange.links[i - 1];
    if (fds[i].revents == 0 || link->dead) continue;
    if ((fds[i].revents & POLLOUT) != 0) {
      const int rc = mst_chan_flush(&link->chan, NULL);
      if (rc != 0 && rc != -MST_EAGAIN) kill_link(link);
    }
    if (!link->dead && (fds[i].revents & ~POLLOUT) != 0) read_link(link);
  }
  unlock();
}

static const struct mst_watch_guest guest = {
    .link = guest_link, .fds = guest_fds, .ready = guest_ready};

void mst_exchange_begin(void) { mst_watch_invite(&guest); }

void mst_exchange_end(void) {
  lock();
  for (size_t i = 0; i < exchange.link_count; i++)
    kill_link(exchange.links[i]);
  bury();
  while (exchange.entries != NULL)
    drop_entry(&exchange.entries);
  free(exchange.questions);
  exchange.questions = NULL;
  exchange.question_count = exchange.open = 0;
  mst_net_close(&exchange.wake[0]);
  mst_net_close(&exchange.wake[1]);
  unlock();
}

// ---- R thread

int mst_exchange_put(const struct mst_want *want, struct mst_segment *segment,
                     const char *path, uint64_t size,
                     const struct mst_block *blocks, uint32_t count,
                     struct mst_err *err) {
  const struct mst_have have = {
      .want = *want,
      .size = size,
      .count = count,
      .path = path,
      .path_bytes = (uint16_t)(path == NULL ? 0 : strlen(path))};
  const size_t n = mst_have_bytes(&have);
  uint8_t *bytes = malloc(n);
  struct entry *entry = NULL;
  if (bytes != NULL) {
    mst_have_encode(&have, blocks, bytes);
    entry = new_entry(bytes, n, 1);
  }
  free(bytes);
  if (entry == NULL) {
    if (segment != NULL) mst_segment_close(segment);
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for blocks");
  }
  if (segment != NULL) {
    entry->blob->segment = *segment;
    *segment = MST_SEGMENT_NONE;
  }
  lock();
  struct entry **old = find(want);
  if (*old != NULL && (*old)->own) {
    entry->own = 0; // its file, if it has one, is the other's
    free_entry(entry);
  } else {
    if (*old != NULL) drop_entry(old);
    if (path == NULL) exchange.held += size;
    keep(entry);
  }
  unlock();
  return 0;
}

uint64_t mst_exchange_held(void) {
  lock();
  const uint64_t held = exchange.held;
  unlock();
  return held;
}

void mst_exchange_drop(const struct mst_want *want) {
  lock();
  for (struct entry **at = &exchange.entries; *at != NULL;) {
    const struct mst_want *has = &(*at)->want;
    const int gone =
        want->attempt == 0 ? has->stage == want->stage : same(has, want);
    if (gone) {
      drop_entry(at);
    } else {
      at = &(*at)->next;
    }
  }
  unlock();
}

// Without a link yet, the first one that comes wakes the thread.
static void wake(void) {
  const uint8_t byte = 0;
  // A pipe that is full wakes as well.
  ssize_t rc = -1;
  do {
    rc = write(exchange.wake[1], &byte, 1);
  } while (rc < 0 && errno == EINTR);
}

int mst_exchange_ask(const struct mst_source *sources, size_t n,
                     struct mst_err *err) {
  struct question *questions = calloc(n > 0 ? n : 1, sizeof *questions);
  if (questions == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for questions");
  }
  const int64_t now_ns = mst_clock_now();
  lock();
  free(exchange.questions);
  exchange.questions = questions;
  exchange.question_count = n;
  exchange.open = 0;
  // What was asked before and isn't any more leaves no debts.
  for (size_t i = 0; i < exchange.link_count; i++)
    exchange.links[i]->open = 0;
  for (size_t i = 0; i < n; i++) {
    const int here = *find(&sources[i].want) != NULL;
    const int lost = !here && sources[i].worker == MST_SOURCE_SELF;
    questions[i] = (struct question){.source = sources[i],
                                     .state = here   ? MST_FOUND_HERE
                                              : lost ? MST_FOUND_NOT
                                                     : MST_FOUND_OPEN,
                                     .since_ns = now_ns};
    exchange.open += !here && !lost;
  }
  const int can = exchange.open > 0 && exchange.wake[1] >= 0;
  unlock();
  if (can) wake();
  return 0;
}

size_t mst_exchange_wait(int timeout_ms) {
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += (long)timeout_ms * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  lock();
  int rc = 0;
  while (exchange.open > 0 && rc == 0) {
    rc = pthread_cond_timedwait(&exchange.answered, &exchange.lock, &until);
  }
  const size_t open = exchange.open;
  unlock();
  return open;
}

enum mst_found mst_exchange_state(size_t index) {
  lock();
  MST_ASSERT(index < exchange.question_count);
  const enum mst_found state = exchange.questions[index].state;
  unlock();
  return state;
}

// read_file reads one block of a file and looks at its checksum. Read, not mapped: a
// file may be cut while it is mapped, which would end this process.
static int read_file(const char *path, const struct mst_block *block,
                     struct mst_map **map, struct mst_err *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return mst_err_set(err, MST_EPROTO, errno, "open", "%s", strerror(errno));
  }
  int rc = mst_map_read(fd, block->offset, block->bytes, map, err);
  mst_net_close(&fd);
  if (rc == 0 && mst_hash((*map)->data, (size_t)block->bytes) != block->check) {
    mst_map_release(*map);
    *map = NULL;
    rc = mst_err_set(err, MST_EPROTO, 0, NULL, "its checksum is wrong");
  }
  return rc;
}

// map_entry maps an own segment when it is first read here. With the lock.
static int map_entry(struct entry *entry, struct mst_err *err) {
  if (entry->map != NULL) return 0;
  return mst_map_open(entry->blob->segment.fd, &entry->map, err);
}

int mst_exchange_read(const struct mst_want *want, uint32_t index,
                      struct mst_map **map, uint64_t *base,
                      struct mst_block *block, struct mst_err *err) {
  char *path = NULL;
  int rc = 0;
  *map = NULL;
  *base = 0;
  lock();
  struct entry *entry = *find(want);
  if (entry == NULL || index >= entry->have.count) {
    unlock();
    return mst_err_set(err, MST_EINPUT, 0, NULL, "a block that isn't here");
  }
  mst_have_block(&entry->have, index, block);
  if (block->bytes > 0 && entry->path != NULL) {
    path = strdup(entry->path);
    if (path == NULL) rc = mst_err_set(err, MST_EMEM, 0, "strdup", "no memory");
  } else if (block->bytes > 0) {
    rc = map_entry(entry, err);
    if (rc == 0) {
      *map = mst_map_hold(entry->map);
      *base = block->offset;
      if (mst_map_at(*map, block->offset, block->bytes) == NULL) {
        mst_map_release(*map);
        *map = NULL;
        rc = mst_err_set(err, MST_EPROTO, 0, NULL, "a block past the segment");
      }
    }
  }
  unlock();
  if (path != NULL) {
    rc = read_file(path, block, map, err);
    free(path);
  }
  if (rc == -MST_EPROTO) mst_exchange_drop(want);
  return rc;
}
