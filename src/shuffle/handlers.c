// Handlers: a worker's listeners, and connections to other workers' listeners. See exchange_int.h.
//
// Why several: the system limits a listener's queue, and readers that find it full must wait; with
// n listeners each reader shares a queue with few others and has n - 1 more to try. The watch
// thread empties them all, even while R computes, so none fills unless it is stopped. A unix socket
// reports a full queue at once (Linux: EAGAIN), where TCP would be silent for a second or more.
//
// The connecting side speaks first: MEET, with who it is, whom it wants, and the token that the
// other's incarnation told the session. MET repeats it; only then is it a link. A peer that says
// anything else, or belongs to another user, is closed, and so is a connection that stays silent
// too long, at either end. A reader without a MET tries the next listener after a random pause, so
// that readers that were rejected together don't come back together.
//
// Not chosen: abstract sockets, which every user can reach; one socket for all readers, served by
// several threads: it has one queue.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "base/mst_entropy.h"
#include "base/mst_features.h"
#include "fork/fork.h"
#include "shuffle/exchange_int.h"

// The most connections accepted from a listener at a time: links are served in between.
#define ACCEPT_MAX 64
// Without free descriptors a connection stays in the queue, and the listener stays ready.
#define ACCEPT_PAUSE_NS (100 * MST_NS_PER_MS)
// The pause after a failure is random, below a bound that doubles.
#define PAUSE_FIRST_NS (10 * MST_NS_PER_MS)
#define PAUSE_DOUBLINGS 6u

// ---- addresses

// address_of gives a listener's address. A path that is too long is reached through a descriptor of
// its folder, if the system has /proc; the caller closes *folder_fd.
static int address_of(const char *folder, uint32_t handler, int *folder_fd,
                      struct mst_addr *addr, struct mst_err *err) {
  char path[sizeof addr->at.un.sun_path];
  *folder_fd = -1;
  int n = snprintf(path, sizeof path, "%s/%u", folder, (unsigned)handler);
  if (n >= (int)sizeof path && !MST_HAVE_PROC) {
    return mst_err_set(err, MST_ECONNECT, ENAMETOOLONG, "bind",
                       "its path is too long for a socket: R needs a shorter "
                       "TMPDIR");
  }
  if (n >= (int)sizeof path) {
    *folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*folder_fd < 0) {
      return mst_err_set(err, MST_ECONNECT, errno, "open", "%s",
                         strerror(errno));
    }
    n = snprintf(path, sizeof path, MST_PROC "/self/fd/%d/%u", *folder_fd,
                 (unsigned)handler);
  }
  MST_ASSERT(n < (int)sizeof path);
  const int rc = mst_addr_parse(path, 0, addr, err);
  if (rc != 0) mst_net_close(folder_fd);
  return rc;
}

// ---- own listeners. R thread

// make_folder makes a folder that only this user can access, or accepts an existing one.
static int make_folder(const char *folder, struct mst_err *err) {
  struct stat at;
  if (mkdir(folder, S_IRWXU) != 0 && errno != EEXIST) {
    return mst_err_set(err, MST_ECONNECT, errno, "mkdir", "%s",
                       strerror(errno));
  }
  if (lstat(folder, &at) != 0 || !S_ISDIR(at.st_mode) ||
      at.st_uid != geteuid() || (at.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return mst_err_set(err, MST_ECONNECT, EACCES, "mkdir",
                       "the folder must be private to this user");
  }
  return 0;
}

static int listen_one(const char *folder, uint32_t handler, int *fd,
                      struct mst_err *err) {
  struct mst_addr addr, bound;
  int folder_fd;
  int rc = address_of(folder, handler, &folder_fd, &addr, err);
  if (rc != 0) return rc;
  rc = mst_net_listen(&addr, MST_BACKLOG_MOST, fd, 1, &bound, err);
  mst_net_close(&folder_fd);
  mst_net_raise(fd);
  return rc;
}

int mst_exchange_listen(const char *folder, uint32_t count,
                        uint8_t token[MST_TOKEN_BYTES], struct mst_err *err) {
  MST_ASSERT(count >= 1 && count <= MST_HANDLERS_MAX);
  // Only this thread adds listeners, and none are removed: reading the count needs no lock.
  const uint32_t before = mst_exchange.handlers;
  int rc = 0;
  if (before == 0) {
    rc = make_folder(folder, err);
    if (rc == 0)
      rc = mst_entropy_take(mst_exchange.token, MST_TOKEN_BYTES, err);
  }
  for (uint32_t i = before; i < count && rc == 0; i++) {
    int fd = -1;
    rc = listen_one(folder, i, &fd, err);
    if (rc != 0) break;
    mst_exchange_lock();
    mst_exchange.listeners[i] = fd;
    mst_exchange.handlers = i + 1;
    mst_exchange_unlock();
  }
  memcpy(token, mst_exchange.token, MST_TOKEN_BYTES);
  if (count > before) mst_watch_wake();
  return rc;
}

void mst_exchange_count(struct mst_exchange_counts *counts, uint32_t *handlers,
                        uint32_t *links) {
  mst_exchange_lock();
  *counts = mst_exchange.counts;
  *handlers = mst_exchange.handlers;
  *links = 0;
  for (size_t i = 0; i < mst_exchange.end_count; i++) {
    const struct mst_link_end *end = mst_exchange.ends[i];
    *links += !end->dead && end->state == MST_END_UP;
  }
  mst_exchange_unlock();
}

// ---- own listeners. Watch thread

size_t mst_handlers_fds(struct pollfd *fds, size_t most, int64_t now_ns) {
  const size_t all = mst_exchange.handlers;
  const int pauses = now_ns < mst_exchange.accept_ns;
  for (size_t i = 0; i < all && i < most; i++) {
    fds[i] = (struct pollfd){.fd = pauses ? -1 : mst_exchange.listeners[i],
                             .events = POLLIN};
  }
  return all;
}

static size_t strangers(void) {
  size_t n = 0;
  for (size_t i = 0; i < mst_exchange.end_count; i++) {
    const struct mst_link_end *end = mst_exchange.ends[i];
    n += !end->dead && end->state == MST_END_ACCEPTED;
  }
  return n;
}

void mst_handlers_accept(uint32_t handler) {
  const int64_t now_ns = mst_clock_now();
  for (int i = 0; i < ACCEPT_MAX; i++) {
    int fd = -1;
    const int rc =
        strangers() >= MST_STRANGERS_MAX
            ? -MST_ELIMIT
            : mst_net_accept(mst_exchange.listeners[handler], &fd, NULL, NULL);
    if (rc == -MST_EAGAIN) return;
    if (rc != 0) {
      mst_exchange.accept_ns = now_ns + ACCEPT_PAUSE_NS;
      return;
    }
    mst_exchange.counts.accepted++;
    if (!mst_net_is_own(fd)) {
      mst_exchange.counts.refused++;
      mst_net_close(&fd);
      continue;
    }
    struct mst_link_end *end =
        mst_links_add(fd, MST_END_ACCEPTED, MST_SOURCE_SELF, 0, handler);
    if (end != NULL) end->until_ns = now_ns + mst_exchange.way.again_ns;
  }
}

// ---- others. R thread

static void free_other(struct mst_other **at) {
  struct mst_other *gone = *at;
  *at = gone->next;
  free(gone->place.folder);
  free(gone);
}

// forget_before drops a worker's earlier incarnations. Returns 1 if this one is known.
static int forget_before(const struct mst_place *place) {
  int known = 0;
  for (struct mst_other **at = &mst_exchange.others; *at != NULL;) {
    struct mst_other *other = *at;
    if (other->place.worker == place->worker &&
        other->place.epoch < place->epoch) {
      free_other(at);
      continue;
    }
    if (other->place.worker == place->worker) {
      known = 1;
      other->place.handlers = place->handlers;
    }
    at = &other->next;
  }
  return known;
}

int mst_exchange_knows(const struct mst_place *place, struct mst_err *err) {
  MST_ASSERT(place->handlers >= 1 && place->handlers <= MST_HANDLERS_MAX);
  mst_exchange_lock();
  if (!forget_before(place)) {
    struct mst_other *other = calloc(1, sizeof *other);
    char *folder = strdup(place->folder);
    if (other == NULL || folder == NULL) {
      mst_exchange_unlock();
      free(other);
      free(folder);
      return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a place");
    }
    other->place = *place;
    other->place.folder = folder;
    // Readers' worker numbers spread them over the listeners.
    other->handler = mst_exchange.way.worker;
    other->next = mst_exchange.others;
    mst_exchange.others = other;
  }
  mst_exchange_unlock();
  return 0;
}

// ---- others. Watch thread

struct mst_other *mst_handlers_other(uint32_t worker, uint32_t epoch) {
  struct mst_other *other = mst_exchange.others;
  while (other != NULL &&
         (other->place.worker != worker || other->place.epoch != epoch))
    other = other->next;
  return other;
}

// pause_ns is random below the bound for this number of tries. Any generator will do: it only has
// to differ between workers.
static int64_t pause_ns(uint32_t tries, int64_t now_ns) {
  static uint64_t state;
  if (state == 0) state = (uint64_t)now_ns ^ (uint64_t)getpid() << 32;
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  const uint32_t doublings = tries < PAUSE_DOUBLINGS ? tries : PAUSE_DOUBLINGS;
  return (int64_t)((state >> 33) % (uint64_t)(PAUSE_FIRST_NS << doublings));
}

static void put_off(struct mst_other *other, int64_t now_ns) {
  other->retry_ns = now_ns + pause_ns(other->tries, now_ns);
  other->tries++;
}

static struct mst_meet meet_for(const struct mst_other *other) {
  struct mst_meet meet = {.worker = mst_exchange.way.worker,
                          .epoch = mst_exchange.way.epoch,
                          .other_worker = other->place.worker,
                          .other_epoch = other->place.epoch};
  memcpy(meet.token, other->place.token, MST_TOKEN_BYTES);
  return meet;
}

static void say(struct mst_link_end *end, uint8_t kind,
                const struct mst_meet *meet) {
  struct mst_head head = {.kind = kind};
  uint8_t bytes[MST_MEET_BYTES];
  mst_meet_encode(meet, bytes);
  if (mst_chan_send_small(&end->chan, &head, bytes, sizeof bytes, 0, NULL) !=
      0) {
    mst_links_kill(end);
  }
}

// dial_one tries one listener: 1 if it connected, 0 if its queue is full or there is no free
// descriptor, -MST_ECLOSED if nobody listens.
static int dial_one(struct mst_other *other, uint32_t handler, int64_t now_ns) {
  struct mst_addr addr;
  struct mst_err err;
  int folder_fd, fd = -1;
  mst_err_clear(&err);
  int rc = address_of(other->place.folder, handler, &folder_fd, &addr, &err);
  if (rc == 0) {
    mst_exchange.counts.dialled++;
    rc = mst_net_dial(&addr, &fd, &err);
    mst_net_close(&folder_fd);
  }
  if (rc != 0) {
    mst_net_close(&fd);
    const int full = rc != -MST_ECONNECT || mst_net_dial_is_full(err.sys_errno);
    mst_exchange.counts.full += rc == -MST_ECONNECT && full;
    return full ? 0 : -MST_ECLOSED;
  }
  struct mst_link_end *end = mst_links_add(
      fd, MST_END_DIALLED, other->place.worker, other->place.epoch, handler);
  if (end == NULL) return 0;
  end->until_ns = now_ns + mst_exchange.way.again_ns;
  const struct mst_meet meet = meet_for(other);
  say(end, MST_KIND_MEET, &meet);
  return 1;
}

// dialled_to gives the pending connection to a worker, or NULL.
static struct mst_link_end *dialled_to(uint32_t worker, uint32_t epoch) {
  for (size_t i = 0; i < mst_exchange.end_count; i++) {
    struct mst_link_end *end = mst_exchange.ends[i];
    if (!end->dead && end->state == MST_END_DIALLED && end->worker == worker &&
        end->epoch == epoch) {
      return end;
    }
  }
  return NULL;
}

int mst_handlers_dial(struct mst_other *other, int64_t now_ns) {
  if (other->gone) return -MST_ECLOSED;
  if (dialled_to(other->place.worker, other->place.epoch) != NULL) return 0;
  if (now_ns < other->retry_ns) {
    if (other->retry_ns < mst_exchange.look_ns) {
      mst_exchange.look_ns = other->retry_ns;
    }
    return 0;
  }
  uint32_t closed = 0;
  for (uint32_t k = 0; k < other->place.handlers; k++) {
    const uint32_t handler = other->handler++ % other->place.handlers;
    const int rc = dial_one(other, handler, now_ns);
    closed += rc < 0;
    if (rc == 1) break;
  }
  other->gone = closed == other->place.handlers;
  put_off(other, now_ns);
  return other->gone ? -MST_ECLOSED : 0;
}

// crosses tells whether this worker is dialling the sender of a MEET itself. The connection of the
// lower number stays, so that two workers that dial each other at once have one link.
static int crosses(const struct mst_meet *meet) {
  struct mst_link_end *own = dialled_to(meet->worker, meet->epoch);
  if (own == NULL) return 0;
  if (mst_exchange.way.worker < meet->worker) return 1;
  mst_links_kill(own);
  return 0;
}

// take_meet checks who has connected. A worker that missed its MET may connect again.
static int take_meet(struct mst_link_end *end, const struct mst_meet *meet) {
  struct mst_meet want = *meet;
  want.other_worker = mst_exchange.way.worker;
  want.other_epoch = mst_exchange.way.epoch;
  memcpy(want.token, mst_exchange.token, MST_TOKEN_BYTES);
  if (!mst_meet_same(meet, &want)) {
    mst_exchange.counts.refused++;
    return 0;
  }
  if (crosses(meet)) return 0;
  mst_links_up(end, meet->worker, meet->epoch);
  mst_exchange.counts.asked[end->handler]++;
  say(end, MST_KIND_MET, meet);
  return 1;
}

static int take_met(struct mst_link_end *end, const struct mst_meet *meet) {
  const struct mst_other *other = mst_handlers_other(end->worker, end->epoch);
  if (other == NULL) return 0;
  const struct mst_meet want = meet_for(other);
  if (!mst_meet_same(meet, &want)) return 0;
  mst_links_up(end, end->worker, end->epoch);
  mst_exchange.counts.met++;
  return 1;
}

int mst_handlers_take(struct mst_link_end *end, const struct mst_frame *frame) {
  struct mst_meet meet;
  const int waits = end->state == MST_END_ACCEPTED;
  if (frame->head.kind != (waits ? MST_KIND_MEET : MST_KIND_MET) ||
      mst_meet_decode(frame->payload, (size_t)frame->head.length, &meet) != 0) {
    mst_exchange.counts.refused += (uint64_t)waits;
    return 0;
  }
  return waits ? take_meet(end, &meet) : take_met(end, &meet);
}

void mst_handlers_free(void) {
  for (uint32_t i = 0; i < mst_exchange.handlers; i++)
    mst_net_close(&mst_exchange.listeners[i]);
  mst_exchange.handlers = 0;
  while (mst_exchange.others != NULL)
    free_other(&mst_exchange.others);
}
