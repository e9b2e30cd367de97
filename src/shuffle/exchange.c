// Blocks between workers: see exchange.h. Here: which blocks are kept, and which are asked for.
//
// Not chosen: sending the bytes themselves on one machine, which copies them twice; a third thread,
// since the work (look up, hand over a descriptor) takes microseconds. The watch thread does all
// sending and receiving (guest.c): the R thread records its questions and wakes it. So a link needs
// no lock of its own, and no frame is ever split by another.
#include "shuffle/exchange_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "base/mst_cond.h"
#include "base/mst_entropy.h"
#include "base/mst_hash.h"
#include "fork/fork.h"

struct mst_exchange mst_exchange = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .way = {.again_ns = MST_EXCHANGE_AGAIN_NS,
            .silent_ns = MST_EXCHANGE_SILENT_NS}};

void mst_exchange_lock(void) { (void)pthread_mutex_lock(&mst_exchange.lock); }
void mst_exchange_unlock(void) {
  (void)pthread_mutex_unlock(&mst_exchange.lock);
}

// The last bytes of a segment of blocks; before them is a HAVE, as it would be sent.
struct footer {
  char magic[16];
  uint64_t token, offset, bytes; // of the HAVE
  uint8_t zero[MST_SEGMENT_ALIGN - 40];
};
static const char footer_magic[16] = "muster blocks 1";

static int same(const struct mst_want *a, const struct mst_want *b) {
  return a->stage == b->stage && a->task == b->task && a->attempt == b->attempt;
}

// ---- entries. With the lock

static struct mst_entry **bucket_of(const struct mst_want *want) {
  return &mst_exchange
              .entries[(want->task + 37 * want->stage) % MST_EXCHANGE_BUCKETS];
}

struct mst_entry **mst_exchange_find(const struct mst_want *want) {
  struct mst_entry **at = bucket_of(want);
  while (*at != NULL && !same(&(*at)->want, want))
    at = &(*at)->next;
  return at;
}

static void free_entry(struct mst_entry *entry) {
  if (entry->own) {
    if (entry->path == NULL) {
      mst_exchange.held -= entry->have.size;
    } else {
      (void)unlink(entry->path);
    }
  }
  mst_blob_release(entry->blob);
  mst_map_release(entry->map);
  free(entry->path);
  free(entry);
}

static void drop_entry(struct mst_entry **at) {
  struct mst_entry *gone = *at;
  *at = gone->next;
  free_entry(gone);
}

// new_entry makes one from a HAVE's bytes, already checked. NULL if memory is short.
static struct mst_entry *new_entry(const uint8_t *bytes, size_t n, int own) {
  struct mst_entry *entry = calloc(1, sizeof *entry);
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

static void keep(struct mst_entry *entry) {
  struct mst_entry **first = bucket_of(&entry->want);
  entry->next = *first;
  *first = entry;
}

// ---- answers to questions. With the lock

void mst_exchange_settle(struct mst_question *question,
                         enum mst_fetched state) {
  if (question->state != MST_FETCHED_OPEN) return;
  question->state = state;
  mst_exchange.open--;
  if (mst_exchange.open == 0)
    (void)pthread_cond_broadcast(&mst_exchange.answered);
}

void mst_exchange_settle_all(const struct mst_want *want,
                             enum mst_fetched state) {
  for (size_t i = 0; i < mst_exchange.question_count; i++) {
    if (same(&mst_exchange.questions[i].source.want, want)) {
      mst_exchange_settle(&mst_exchange.questions[i], state);
    }
  }
}

// keep_map keeps the blocks of another process's mapped segment if they are the wanted ones: their
// description is at the end of the map, see mst_exchange_sign. Takes over the map.
static int keep_map(const struct mst_source *source, struct mst_map *map) {
  struct footer footer = {0};
  struct mst_have have;
  if (map->bytes >= sizeof footer)
    memcpy(&footer, map->data + map->bytes - sizeof footer, sizeof footer);
  if (memcmp(footer.magic, footer_magic, sizeof footer.magic) != 0 ||
      footer.token != source->spot.token || footer.offset > map->bytes ||
      footer.bytes > map->bytes - footer.offset ||
      mst_have_decode(map->data + footer.offset, (size_t)footer.bytes, &have) !=
          0 ||
      !same(&have.want, &source->want) || have.size != map->bytes) {
    mst_map_release(map);
    return -MST_ECLOSED; // the descriptor refers to another segment now
  }
  struct mst_entry *entry = calloc(1, sizeof *entry);
  if (entry == NULL) {
    mst_map_release(map);
    return -MST_EMEM;
  }
  entry->want = have.want;
  entry->have = have;
  entry->map = map;
  mst_exchange_lock();
  mst_exchange.counts.opened++;
  keep(entry);
  mst_exchange_unlock();
  return 0;
}

void mst_exchange_learn(const struct mst_have *have, const uint8_t *bytes,
                        size_t n, struct mst_map *map) {
  const int wants_map = have->size > 0 && have->path_bytes == 0;
  if (*mst_exchange_find(&have->want) == NULL) {
    struct mst_entry *entry = NULL;
    const int has_map = map != NULL && !mst_map_is_lost(map);
    if (!wants_map || has_map) entry = new_entry(bytes, n, 0);
    if (entry == NULL) {
      mst_exchange_settle_all(&have->want, MST_FETCHED_NOT);
      return;
    }
    entry->map = mst_map_hold(map);
    keep(entry);
  }
  mst_exchange_settle_all(&have->want, MST_FETCHED_HERE);
}

// ---- R thread

// own_token gives a token that tells this process's segments from those of an earlier process with
// the same pid.
static uint64_t own_token(void) {
  while (mst_exchange.spots == 0) {
    uint8_t bytes[sizeof mst_exchange.spots];
    if (mst_entropy_take(bytes, sizeof bytes, NULL) != 0) return 0;
    memcpy(&mst_exchange.spots, bytes, sizeof bytes);
    mst_exchange.spots &= MST_SPOT_TOKEN_MAX;
  }
  return mst_exchange.spots;
}

static uint64_t aligned(uint64_t bytes) {
  return (bytes + MST_SEGMENT_ALIGN - 1) / MST_SEGMENT_ALIGN *
         MST_SEGMENT_ALIGN;
}

int mst_exchange_sign(const struct mst_want *want, struct mst_segment *segment,
                      const struct mst_block *blocks, uint32_t count,
                      struct mst_err *err) {
  struct mst_have have = {.want = *want, .count = count};
  const size_t n = mst_have_bytes(&have);
  mst_segment_align(segment);
  struct footer footer = {
      .token = own_token(), .offset = segment->bytes, .bytes = n};
  memcpy(footer.magic, footer_magic, sizeof footer.magic);
  have.size = aligned(footer.offset + n) + sizeof footer;
  uint8_t *bytes = malloc(n);
  if (bytes == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for blocks");
  }
  mst_have_encode(&have, blocks, bytes);
  int rc = mst_segment_append(segment, bytes, n, err);
  free(bytes);
  mst_segment_align(segment);
  if (rc == 0) rc = mst_segment_append(segment, &footer, sizeof footer, err);
  return rc;
}

struct mst_spot mst_exchange_spot(const struct mst_want *want) {
  struct mst_spot spot = {0};
  mst_exchange_lock();
  const struct mst_entry *entry = *mst_exchange_find(want);
  if (entry != NULL && entry->own && entry->blob->segment.fd >= 0 &&
      mst_exchange.spots != 0) {
    spot = (struct mst_spot){.pid = (int32_t)getpid(),
                             .fd = entry->blob->segment.fd,
                             .token = mst_exchange.spots};
  }
  mst_exchange_unlock();
  return spot;
}

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
  struct mst_entry *entry = NULL;
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
  mst_exchange_lock();
  struct mst_entry **old = mst_exchange_find(want);
  if (*old != NULL && (*old)->own) {
    entry->own = 0; // its file, if any, belongs to the other
    free_entry(entry);
  } else {
    if (*old != NULL) drop_entry(old);
    if (path == NULL) mst_exchange.held += size;
    keep(entry);
  }
  mst_exchange_unlock();
  return 0;
}

void mst_exchange_set(const struct mst_exchange_way *way) {
  mst_exchange_lock();
  mst_exchange.way = *way;
  mst_exchange_unlock();
}

uint64_t mst_exchange_held(void) {
  mst_exchange_lock();
  const uint64_t held = mst_exchange.held;
  mst_exchange_unlock();
  return held;
}

static void drop_stage(uint32_t stage) {
  for (uint32_t i = 0; i < MST_EXCHANGE_BUCKETS; i++) {
    for (struct mst_entry **at = &mst_exchange.entries[i]; *at != NULL;) {
      if ((*at)->want.stage == stage) {
        drop_entry(at);
      } else {
        at = &(*at)->next;
      }
    }
  }
}

void mst_exchange_drop(const struct mst_want *want) {
  mst_exchange_lock();
  if (want->attempt == 0) {
    drop_stage(want->stage);
  } else {
    struct mst_entry **at = mst_exchange_find(want);
    if (*at != NULL) drop_entry(at);
  }
  mst_exchange_unlock();
}

// open_there opens a source's segment directly. Returns the outcome; BARRED and OPEN mean: ask over
// a link.
static enum mst_fetched open_there(const struct mst_source *source) {
  struct mst_map *map;
  if (source->spot.pid == 0) return MST_FETCHED_OPEN;
  int rc = mst_map_open_at(source->spot.pid, source->spot.fd, &map, NULL);
  if (rc == 0) rc = keep_map(source, map);
  return rc == 0           ? MST_FETCHED_HERE
         : rc == -MST_ESYS ? MST_FETCHED_BARRED
                           : MST_FETCHED_NOT;
}

static struct mst_question question_of(const struct mst_source *source,
                                       int64_t now_ns) {
  struct mst_question question = {.source = *source, .since_ns = now_ns};
  mst_exchange_lock();
  const int here = *mst_exchange_find(&source->want) != NULL;
  mst_exchange_unlock();
  question.state = here                                ? MST_FETCHED_HERE
                   : source->worker == MST_SOURCE_SELF ? MST_FETCHED_NOT
                                                       : open_there(source);
  question.barred = question.state == MST_FETCHED_BARRED;
  if (question.barred) question.state = MST_FETCHED_OPEN;
  return question;
}

int mst_exchange_ask(const struct mst_source *sources, size_t n,
                     struct mst_err *err) {
  struct mst_question *questions = calloc(n > 0 ? n : 1, sizeof *questions);
  if (questions == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for questions");
  }
  const int64_t now_ns = mst_clock_now();
  for (size_t i = 0; i < n; i++)
    questions[i] = question_of(&sources[i], now_ns);
  mst_exchange_lock();
  free(mst_exchange.questions);
  mst_exchange.questions = questions;
  mst_exchange.question_count = n;
  mst_exchange.open = 0;
  // Forget how many earlier questions are open.
  for (size_t i = 0; i < mst_exchange.end_count; i++)
    mst_exchange.ends[i]->open = 0;
  for (size_t i = 0; i < n; i++)
    mst_exchange.open += questions[i].state == MST_FETCHED_OPEN;
  const int any = mst_exchange.open > 0;
  mst_exchange_unlock();
  if (any) mst_watch_wake();
  return 0;
}

size_t mst_exchange_wait(int timeout_ms) {
  const int64_t until_ns = mst_clock_now() + timeout_ms * MST_NS_PER_MS;
  mst_exchange_lock();
  int rc = 0;
  while (mst_exchange.open > 0 && rc == 0) {
    rc = mst_cond_wait(&mst_exchange.answered, &mst_exchange.lock, until_ns);
  }
  const size_t open = mst_exchange.open;
  mst_exchange_unlock();
  return open;
}

enum mst_fetched mst_exchange_state(size_t index) {
  mst_exchange_lock();
  MST_ASSERT(index < mst_exchange.question_count);
  const struct mst_question *question = &mst_exchange.questions[index];
  const enum mst_fetched state =
      question->barred && question->state == MST_FETCHED_NOT
          ? MST_FETCHED_BARRED
          : question->state;
  mst_exchange_unlock();
  return state;
}

// read_file reads one block of a file and checks its checksum. Read, not mapped: if a mapped file
// is truncated this process would die.
static int read_file(const char *path, const struct mst_block *block,
                     struct mst_map **map, struct mst_err *err) {
  // O_NONBLOCK: whatever took the file's place, such as a FIFO, mustn't block.
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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

// map_entry maps an own segment when this worker first reads it. With the lock.
static int map_entry(struct mst_entry *entry, struct mst_err *err) {
  if (entry->map != NULL) return 0;
  return mst_map_open(entry->blob->segment.fd, &entry->map, err);
}

int mst_exchange_describe(const struct mst_want *want, uint32_t index,
                          struct mst_block *block) {
  mst_exchange_lock();
  const struct mst_entry *entry = *mst_exchange_find(want);
  const int is_here = entry != NULL && index < entry->have.count;
  if (is_here) mst_have_block(&entry->have, index, block);
  mst_exchange_unlock();
  return is_here ? 0 : -MST_EINPUT;
}

int mst_exchange_read(const struct mst_want *want, uint32_t index,
                      struct mst_map **map, uint64_t *base,
                      struct mst_block *block, struct mst_err *err) {
  char *path = NULL;
  int rc = 0;
  *map = NULL;
  *base = 0;
  mst_exchange_lock();
  struct mst_entry *entry = *mst_exchange_find(want);
  if (entry == NULL || index >= entry->have.count) {
    mst_exchange_unlock();
    return mst_err_set(err, MST_EINPUT, 0, NULL, "the block isn't here");
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
  mst_exchange_unlock();
  if (path != NULL) {
    rc = read_file(path, block, map, err);
    free(path);
  }
  if (rc == -MST_EPROTO) mst_exchange_drop(want);
  return rc;
}

void mst_exchange_free(void) {
  for (uint32_t i = 0; i < MST_EXCHANGE_BUCKETS; i++) {
    while (mst_exchange.entries[i] != NULL)
      drop_entry(&mst_exchange.entries[i]);
  }
  free(mst_exchange.questions);
  mst_exchange.questions = NULL;
  mst_exchange.question_count = mst_exchange.open = 0;
  mst_exchange.spots = 0;
}
