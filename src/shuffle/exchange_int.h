// Shared by exchange.c (blocks and questions), links.c (links), handlers.c (listeners, and new
// connections to those of others) and guest.c (frames on links); each uses those before it.
// Functions here need the lock, and those of the last three belong to the watch thread, unless
// stated otherwise.
#ifndef MST_SHUFFLE_EXCHANGE_INT_H
#define MST_SHUFFLE_EXCHANGE_INT_H

#include <poll.h>
#include <pthread.h>

#include "loop/chan.h"
#include "net/addr.h"
#include "shuffle/exchange.h"

// While a question is open, time limits are checked this often.
#define MST_EXCHANGE_TICK_MS 100

// The description of one attempt's blocks, own or another's.
struct mst_entry {
  struct mst_entry *next;
  struct mst_want want;
  struct mst_blob *
      blob; // HAVE as it is sent, and the segment of own blocks; NULL: all in the map
  struct mst_have have; // points into the blob's bytes, or the map's
  struct mst_map *map;  // of the segment, or a file; NULL if not mapped yet
  char *path;           // NULL: a segment
  uint8_t own;
};

enum mst_end_state {
  MST_END_UP,
  MST_END_DIALLED, // by this worker; MEET is sent, MET hasn't come
  MST_END_ACCEPTED // from its listener; MEET hasn't come: it may be anybody
};

// One end of a link.
struct mst_link_end {
  struct mst_chan chan;
  uint32_t worker, epoch; // of the other end; unset while ACCEPTED
  uint32_t handler;       // the one that accepted it, or was dialled
  uint32_t open;          // questions
  enum mst_end_state state;
  uint8_t dead;     // kept as a record until there is a newer link
  uint8_t slow;     // didn't answer in time: ask nothing more on it
  int64_t heard_ns; // when something last came
  int64_t until_ns; // while not UP: when to give it up
};

struct mst_question {
  struct mst_source source;
  enum mst_fetched state;
  uint8_t barred;           // it couldn't be opened directly
  struct mst_link_end *end; // link it was asked on, or NULL
  int64_t since_ns;         // when first asked
  int64_t sent_ns;
};

// Where another worker listens.
struct mst_other {
  struct mst_other *next;
  struct mst_place place; // with its own copy of the folder
  uint32_t handler;       // the next to dial
  uint32_t tries;         // since its last answer
  int64_t retry_ns;       // not before
  uint8_t gone;           // nobody listens there any more
};

// A reader of many tasks' blocks looks up each of them for each part.
#define MST_EXCHANGE_BUCKETS 256u

struct mst_exchange {
  pthread_mutex_t lock;
  pthread_cond_t answered;
  struct mst_entry *entries[MST_EXCHANGE_BUCKETS]; // by task
  struct mst_question *questions;
  size_t question_count;
  size_t open;
  struct mst_link_end **ends; // owned, grows
  size_t end_count, line_cap;
  uint64_t held;
  uint64_t spots; // token of own spots, 0 until there is one
  struct mst_exchange_way way;
  // handlers.c
  int listeners[MST_HANDLERS_MAX];
  uint32_t handlers; // open listeners; they stay open
  uint8_t token[MST_TOKEN_BYTES];
  int64_t look_ns;   // when to act next without a wake-up
  int64_t accept_ns; // don't accept before this, for lack of descriptors
  struct mst_other *others;
  struct mst_exchange_counts counts;
};
extern struct mst_exchange mst_exchange;

// ---- exchange.c

void mst_exchange_lock(void);
void mst_exchange_unlock(void);
struct mst_entry **mst_exchange_find(const struct mst_want *want);
// mst_exchange_learn keeps the contents of a HAVE (n bytes, already checked) and its map, and
// settles the questions for it.
void mst_exchange_learn(const struct mst_have *have, const uint8_t *bytes,
                        size_t n, struct mst_map *map);
void mst_exchange_settle(struct mst_question *question, enum mst_fetched state);
void mst_exchange_settle_all(const struct mst_want *want,
                             enum mst_fetched state);
// mst_exchange_free frees all entries and questions.
void mst_exchange_free(void);

// ---- guest.c

extern const struct mst_watch_guest mst_exchange_guest;

// ---- links.c

// mst_links_to gives the link for asking a worker: the newest that is up, or NULL.
struct mst_link_end *mst_links_to(uint32_t worker, uint32_t epoch);
// mst_links_replaced: is a later incarnation known?
int mst_links_replaced(const struct mst_source *source);
// mst_links_add makes an end from a descriptor; on failure it closes that and returns NULL.
struct mst_link_end *mst_links_add(int fd, enum mst_end_state state,
                                   uint32_t worker, uint32_t epoch,
                                   uint32_t handler);
// mst_links_kill closes it. Its open questions are asked elsewhere, or fail.
void mst_links_kill(struct mst_link_end *end);
// mst_links_up: the peer of this end is known now. Closes slow links to the same worker.
void mst_links_up(struct mst_link_end *end, uint32_t worker, uint32_t epoch);
// mst_links_free closes and frees all.
void mst_links_free(void);

// ---- handlers.c

// mst_handlers_other gives the listeners of an incarnation, NULL if unknown.
struct mst_other *mst_handlers_other(uint32_t worker, uint32_t epoch);
// mst_handlers_dial starts a connection to it, unless one is under way or it isn't time yet. 0, or
// -MST_ECLOSED if nobody listens there.
int mst_handlers_dial(struct mst_other *other, int64_t now_ns);
// mst_handlers_take serves a frame of an end that isn't UP; 0 if the frame isn't valid there.
int mst_handlers_take(struct mst_link_end *end, const struct mst_frame *frame);
// mst_handlers_fds fills in the listeners, at most `most`. Returns their number.
size_t mst_handlers_fds(struct pollfd *fds, size_t most, int64_t now_ns);
// mst_handlers_accept accepts connections from a ready listener.
void mst_handlers_accept(uint32_t handler);
// mst_handlers_free closes and frees all.
void mst_handlers_free(void);

#endif
