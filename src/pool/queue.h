// pool/queue: what waits for a worker, where each may be for certain workers only. Pure: no
// socket, no clock, no R.
//
// Problem: with one list, what is first may be for a busy worker, and whoever looks for
// something for an idle one passes it by: 300 tasks for worker 1 hold up all behind them.
//
// Way chosen: a queue for each set of workers, a heap by priority and order of submission;
// and for each worker a heap of the sets that it is in, by what is first in each. What is
// noted there of a set may be out of date in one way only: what was first has gone, so the
// set comes later than it says. That is put right when it comes to the top, once for each
// worker of the set and each item that was first, and so is paid for by its submission.
// Not chosen: exact heaps. Each item that is taken would touch all workers of its set.
//
// Cost: put O(log items + workers in the set), first O(log sets) and remove O(log items),
// both amortised.
#ifndef MST_POOL_QUEUE_H
#define MST_POOL_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct mst_set; // of workers

// Embedded in what waits. The first three are the caller's, and stay while it waits.
struct mst_queued {
  uint64_t serial;  // order of submission, unique
  int32_t priority; // higher goes first
  void *owner;
  struct mst_set *set; // NULL: it doesn't wait
  uint32_t at;         // its place there
};

// A set as one worker sees it.
struct mst_queue_seen {
  struct mst_set *set;
  uint32_t k;       // the worker's place in the set
  int32_t priority; // of what was first there
  uint64_t serial;
};

struct mst_queue_worker {
  struct mst_queue_seen *seen; // a heap
  uint32_t count, cap;
};

// Zeroed memory is an empty queue.
struct mst_queue {
  struct mst_set *any;    // for whichever worker
  struct mst_set **table; // the others, by what is in them
  uint32_t table_size;
  uint32_t sets, empty;             // in the table, of these without items
  struct mst_queue_worker *workers; // by number
  uint32_t worker_count;
  uint32_t count; // items
  uint64_t steps; // comparisons so far: for tests of cost
};

// mst_queue_free frees an empty queue.
void mst_queue_free(struct mst_queue *queue);
uint32_t mst_queue_count(const struct mst_queue *queue);
// mst_queue_put adds an item. workers: increasing numbers; NULL or none: any. 0, or -MST_EMEM:
// then nothing has changed.
int mst_queue_put(struct mst_queue *queue, struct mst_queued *item,
                  const uint32_t *workers, uint32_t count);
// mst_queue_remove takes an item out, without harm if it isn't in.
void mst_queue_remove(struct mst_queue *queue, struct mst_queued *item);
// mst_queue_first gives the item that a worker is to take next, NULL if there is none for it.
// It stays.
struct mst_queued *mst_queue_first(struct mst_queue *queue, uint32_t worker);
// mst_queue_is_for tells whether an item that waits is for this worker too. O(its workers).
int mst_queue_is_for(const struct mst_queued *item, uint32_t worker);
// mst_queue_head gives some item, NULL if there is none: to take out all.
struct mst_queued *mst_queue_head(const struct mst_queue *queue);
// mst_queue_sweep takes out all items of the sets of which no worker is usable, and calls
// visit for each, which must not use the queue. `any` has all workers, 0 to workers - 1.
// O(sets * workers).
void mst_queue_sweep(struct mst_queue *queue, uint32_t workers,
                     int (*usable)(void *, uint32_t),
                     void (*visit)(void *, struct mst_queued *), void *owner);
// mst_queue_check tells which invariant is broken, NULL if none.
const char *mst_queue_check(const struct mst_queue *queue);

#endif
