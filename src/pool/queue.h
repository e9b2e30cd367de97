// pool/queue: items that wait for a worker; each may be restricted to a set of workers. Pure: no
// socket, no clock, no R.
//
// Problem: in a single list the first items may be for a busy worker, and a search for an idle one
// passes over them: 300 tasks for worker 1 delay all behind them.
//
// Way chosen: a queue for each set of workers, a heap by priority, turn (turns.h) and order of
// submission; and for each worker a heap of its sets, by the first item of each. A key there may be
// outdated in one way only: the first item has gone, so the set belongs further down. That is
// corrected when the set reaches the top, at most once for each worker of the set and each former
// first item; the submission of that item pays for it. Not chosen: exact heaps. Each item that is
// taken would change the heaps of all workers of its set.
//
// Cost: put O(log items + workers in the set), first O(log sets) and remove O(log items), both
// amortised.
#ifndef MST_POOL_QUEUE_H
#define MST_POOL_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "pool/turns.h"

struct mst_set; // of workers

// Embedded in the items. The caller sets the first four fields, which don't change while it waits.
struct mst_queued {
  uint64_t serial;  // order of submission, unique
  int32_t priority; // higher goes first
  uint64_t group;   // items of one priority take turns by group
  void *owner;
  uint64_t turn;       // see turns.h; 0: it has none yet
  struct mst_turn *of; // its group's, if it is queued
  struct mst_set *set; // NULL: it is neither queued nor taken
  uint32_t at;         // its place in the set's heap, if it is queued
};

// What items are ordered by.
struct mst_queue_key {
  int32_t priority;
  uint64_t turn, serial;
};

// A set as one worker sees it.
struct mst_queue_seen {
  struct mst_set *set;
  uint32_t k;               // the worker's place in the set
  struct mst_queue_key key; // of the item that was first
};

struct mst_queue_worker {
  struct mst_queue_seen *seen; // a heap
  uint32_t count, cap;
};

// Zeroed memory is an empty queue.
struct mst_queue {
  struct mst_set *any;    // for any worker
  struct mst_set **table; // the others, a hash table by their workers
  uint32_t table_size;
  uint32_t sets, empty; // in the table; of these, without any item
  struct mst_turns turns;
  struct mst_queue_worker *workers; // by number
  uint32_t worker_count;
  uint32_t count; // items
  uint64_t steps; // comparisons so far; for tests of cost
};

// mst_queue_free frees an empty queue.
void mst_queue_free(struct mst_queue *queue);
uint32_t mst_queue_count(const struct mst_queue *queue);
// mst_queue_put adds an item. workers: increasing numbers; NULL or empty: any. 0, or -MST_EMEM:
// then nothing has changed.
int mst_queue_put(struct mst_queue *queue, struct mst_queued *item,
                  const uint32_t *workers, uint32_t count);
// mst_queue_remove removes an item; does nothing if it isn't queued. mst_queue_take does so until
// mst_queue_put_back, which puts it into its former place; the queue keeps its set, and must stay,
// until mst_queue_forget. mst_queue_hold does so before its turn has come.
void mst_queue_remove(struct mst_queue *queue, struct mst_queued *item);
void mst_queue_take(struct mst_queue *queue, struct mst_queued *item);
void mst_queue_hold(struct mst_queue *queue, struct mst_queued *item);
// mst_queue_put_back: 0, or -MST_EMEM: then it is still taken, or held.
int mst_queue_put_back(struct mst_queue *queue, struct mst_queued *item);
// mst_queue_forget: an item won't be put back; does nothing if it isn't taken.
void mst_queue_forget(struct mst_queued *item);
// mst_queue_first gives the next item for a worker, or NULL; the item stays queued. own: only of
// sets that don't have all workers.
struct mst_queued *mst_queue_first(struct mst_queue *queue, uint32_t worker,
                                   int own);
// mst_queue_is_for tells whether a queued item may go to this worker. O(its workers).
int mst_queue_is_for(const struct mst_queued *item, uint32_t worker);
// mst_queue_is_usable tells whether any of the workers of a queued or taken item is usable, as for
// mst_queue_sweep. O(its workers).
int mst_queue_is_usable(const struct mst_queued *item, uint32_t workers,
                        int (*usable)(void *, uint32_t), void *owner);
// mst_queue_head gives some item, or NULL: for emptying the queue.
struct mst_queued *mst_queue_head(const struct mst_queue *queue);
// mst_queue_each calls visit for each queued item, in no order; visit must not use the queue.
void mst_queue_each(const struct mst_queue *queue,
                    void (*visit)(void *, struct mst_queued *), void *owner);
// mst_queue_sweep removes all items of sets that have no usable worker, and calls visit for each;
// visit must not use the queue. The set for any worker has workers 0 to workers - 1. O(sets *
// workers).
void mst_queue_sweep(struct mst_queue *queue, uint32_t workers,
                     int (*usable)(void *, uint32_t),
                     void (*visit)(void *, struct mst_queued *), void *owner);
// mst_queue_check returns the invariant that is broken, or NULL.
const char *mst_queue_check(const struct mst_queue *queue);

#endif
