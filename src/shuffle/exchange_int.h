// What exchange.c (blocks and questions), links.c (links), handlers.c (listeners, and new
// connections to those of others) and guest.c (what is said on links) share; each uses those
// before it. Functions here want the lock, and those of the last three are the watch thread's,
// but where it is said otherwise.
#ifndef MST_SHUFFLE_EXCHANGE_INT_H
#define MST_SHUFFLE_EXCHANGE_INT_H

#include <poll.h>
#include <pthread.h>

#include "loop/chan.h"
#include "net/addr.h"
#include "shuffle/exchange.h"

// While something is asked for, time limits are looked at this often.
#define MST_EXCHANGE_TICK_MS 100

// What is known of one attempt's blocks, own or another's.
struct mst_entry {
  struct mst_entry *next;
  struct mst_want want;
  struct mst_blob *
      blob; // HAVE as it is sent; its segment if they are own; NULL: all in the map
  struct mst_have have; // points into the blob's bytes, or the map's
  struct mst_map *map;  // of the segment, NULL if not mapped yet, or a file
  char *path;           // NULL: a segment
  uint8_t own;
};

enum mst_end_state {
  MST_END_UP,
  MST_END_DIALLED, // by this worker; MEET is said, MET not heard
  MST_END_ACCEPTED // from its listener; MEET isn't heard, so it may be anybody
};

// One end of a link.
struct mst_link_end {
  struct mst_chan chan;
  uint32_t worker, epoch; // of the other end; says nothing while ACCEPTED
  uint32_t handler;       // that accepted it, or was dialled
  uint32_t open;          // questions
  enum mst_end_state state;
  uint8_t dead;     // kept as a note that there was one, until there is another
  uint8_t slow;     // gave no word in time: nothing more is asked there
  int64_t heard_ns; // when something came last
  int64_t until_ns; // while not UP: when it is given up
};

struct mst_question {
  struct mst_source source;
  enum mst_found state;
  uint8_t barred;           // it couldn't be opened where it lies
  struct mst_link_end *end; // that it is open on, NULL: none
  int64_t since_ns;         // first asked
  int64_t sent_ns;
};

// Where another worker listens.
struct mst_other {
  struct mst_other *next;
  struct mst_place place; // with a folder of its own
  uint32_t handler;       // the next to dial
  uint32_t tries;         // since it was heard
  int64_t retry_ns;       // not before
  uint8_t gone;           // nobody listens there any more
};

struct mst_exchange {
  pthread_mutex_t lock;
  pthread_cond_t answered;
  struct mst_entry *entries;
  struct mst_question *questions;
  size_t question_count;
  size_t open;
  struct mst_link_end **ends; // owned, grows
  size_t end_count, line_cap;
  uint64_t held;
  uint64_t spots; // the token of own spots, 0 until there is one
  struct mst_exchange_way way;
  // handlers.c
  int listeners[MST_HANDLERS_MAX];
  uint32_t handlers; // listeners that are open; they stay so
  uint8_t token[MST_TOKEN_BYTES];
  int64_t look_ns; // when there is something to be done that nothing wakes for
  int64_t accept_ns; // after want of descriptors nothing is accepted before
  struct mst_other *others;
  struct mst_exchange_counts counts;
};
extern struct mst_exchange mst_exchange;

// ---- exchange.c

void mst_exchange_lock(void);
void mst_exchange_unlock(void);
struct mst_entry **mst_exchange_find(const struct mst_want *want);
// mst_exchange_learn keeps what a HAVE says (its n bytes, which were checked), with its map, and
// settles who asked for it.
void mst_exchange_learn(const struct mst_have *have, const uint8_t *bytes,
                        size_t n, struct mst_map *map);
void mst_exchange_settle(struct mst_question *question, enum mst_found state);
void mst_exchange_settle_all(const struct mst_want *want, enum mst_found state);
// mst_exchange_free frees all entries and questions.
void mst_exchange_free(void);

// ---- guest.c

extern const struct mst_watch_guest mst_exchange_guest;

// ---- links.c

// mst_links_to gives the one on which to ask a worker: the newest that is up, or NULL.
struct mst_link_end *mst_links_to(uint32_t worker, uint32_t epoch);
// mst_links_replaced: there is something of a later incarnation.
int mst_links_replaced(const struct mst_source *source);
// mst_links_add makes a end of a descriptor, which it closes if it can't (NULL).
struct mst_link_end *mst_links_add(int fd, enum mst_end_state state,
                                   uint32_t worker, uint32_t epoch,
                                   uint32_t handler);
// mst_links_kill closes it. What is open on it is asked elsewhere, or isn't there.
void mst_links_kill(struct mst_link_end *end);
// mst_links_up: who is at the other end is known. Others to the same worker that gave no word
// are closed.
void mst_links_up(struct mst_link_end *end, uint32_t worker, uint32_t epoch);
// mst_links_free closes and frees all.
void mst_links_free(void);

// ---- handlers.c

// mst_handlers_other gives where an incarnation listens, NULL if that isn't known.
struct mst_other *mst_handlers_other(uint32_t worker, uint32_t epoch);
// mst_handlers_dial has one connection made to it, unless one is on its way, or it isn't time
// yet: 0, or -MST_ECLOSED if nobody listens there.
int mst_handlers_dial(struct mst_other *other, int64_t now_ns);
// mst_handlers_take serves a frame of a end that isn't UP; 0 if it has no place there.
int mst_handlers_take(struct mst_link_end *end, const struct mst_frame *frame);
// mst_handlers_fds fills in the listeners, at most `most`: how many there are.
size_t mst_handlers_fds(struct pollfd *fds, size_t most, int64_t now_ns);
// mst_handlers_accept takes connections from one that is ready.
void mst_handlers_accept(uint32_t handler);
// mst_handlers_free closes and frees all.
void mst_handlers_free(void);

#endif
