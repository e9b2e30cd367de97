// A queue for each set of workers. The contract is in queue.h.
#include "pool/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "base/mst_hash.h"

#define NOWHERE UINT32_MAX
#define TAKEN UINT32_MAX
#define TABLE_MIN 16u
// How many sets without items are kept, for later items with the same workers.
#define EMPTY_MAX 64u

struct mst_set {
  struct mst_set *next; // in the table
  struct mst_queue *queue;
  uint64_t hash;
  struct mst_queued **items; // a heap
  uint32_t item_count, item_cap;
  uint32_t taken;    // more items, that may be put back
  uint32_t count;    // workers; 0: any
  uint32_t *workers; // increasing
  uint32_t *places;  // in the workers' heaps; NOWHERE: not there
};

static void *grown(void *list, uint32_t cap, size_t size) {
  return mst_fault("queue.alloc") ? NULL : realloc(list, cap * size);
}

static struct mst_queue_key key_of(const struct mst_queued *item) {
  return (struct mst_queue_key){item->priority, item->turn, item->serial};
}

static int is_before(const struct mst_queue_key *a,
                     const struct mst_queue_key *b) {
  if (a->priority != b->priority) return a->priority > b->priority;
  if (a->turn != b->turn) return a->turn < b->turn;
  return a->serial < b->serial;
}

// ---- a set's items

static int item_before(struct mst_queue *queue, const struct mst_queued *a,
                       const struct mst_queued *b) {
  const struct mst_queue_key key_a = key_of(a), key_b = key_of(b);
  queue->steps++;
  return is_before(&key_a, &key_b);
}

static void place_item(struct mst_set *set, uint32_t at,
                       struct mst_queued *item) {
  set->items[at] = item;
  item->at = at;
}

static void item_up(struct mst_queue *queue, struct mst_set *set, uint32_t at) {
  struct mst_queued *item = set->items[at];
  while (at > 0) {
    const uint32_t parent = (at - 1) / 2;
    if (!item_before(queue, item, set->items[parent])) break;
    place_item(set, at, set->items[parent]);
    at = parent;
  }
  place_item(set, at, item);
}

static void item_down(struct mst_queue *queue, struct mst_set *set,
                      uint32_t at) {
  struct mst_queued *item = set->items[at];
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= set->item_count) break;
    if (child + 1 < set->item_count &&
        item_before(queue, set->items[child + 1], set->items[child])) {
      child++;
    }
    if (!item_before(queue, set->items[child], item)) break;
    place_item(set, at, set->items[child]);
    at = child;
  }
  place_item(set, at, item);
}

static void take_item(struct mst_queue *queue, struct mst_queued *item) {
  struct mst_set *set = item->set;
  const uint32_t at = item->at;
  struct mst_queued *last = set->items[--set->item_count];
  if (last != item) {
    place_item(set, at, last);
    item_up(queue, set, at);
    item_down(queue, set, last->at);
  }
  queue->count--;
}

static int is_empty(const struct mst_set *set) {
  return set->item_count == 0 && set->taken == 0;
}

// leave: an item that was taken out doesn't come back.
static void leave(struct mst_queue *queue, struct mst_queued *item) {
  struct mst_set *set = item->set;
  item->set = NULL;
  if (is_empty(set) && set != queue->any) queue->empty++;
}

// ---- a worker's sets

static void place_seen(struct mst_queue_worker *worker, uint32_t at,
                       const struct mst_queue_seen *seen) {
  worker->seen[at] = *seen;
  seen->set->places[seen->k] = at;
}

static int seen_before(struct mst_queue *queue, const struct mst_queue_seen *a,
                       const struct mst_queue_seen *b) {
  queue->steps++;
  return is_before(&a->key, &b->key);
}

static void seen_up(struct mst_queue *queue, struct mst_queue_worker *worker,
                    uint32_t at) {
  const struct mst_queue_seen seen = worker->seen[at];
  while (at > 0) {
    const uint32_t parent = (at - 1) / 2;
    if (!seen_before(queue, &seen, &worker->seen[parent])) break;
    place_seen(worker, at, &worker->seen[parent]);
    at = parent;
  }
  place_seen(worker, at, &seen);
}

static void seen_down(struct mst_queue *queue, struct mst_queue_worker *worker,
                      uint32_t at) {
  const struct mst_queue_seen seen = worker->seen[at];
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= worker->count) break;
    if (child + 1 < worker->count &&
        seen_before(queue, &worker->seen[child + 1], &worker->seen[child])) {
      child++;
    }
    if (!seen_before(queue, &worker->seen[child], &seen)) break;
    place_seen(worker, at, &worker->seen[child]);
    at = child;
  }
  place_seen(worker, at, &seen);
}

// see updates a worker's heap with the first item of a set.
static void see(struct mst_queue *queue, struct mst_set *set, uint32_t k) {
  struct mst_queue_worker *worker = &queue->workers[set->workers[k]];
  const struct mst_queued *first = set->items[0];
  uint32_t at = set->places[k];
  if (at == NOWHERE) at = worker->count++;
  const struct mst_queue_seen seen = {set, k, key_of(first)};
  place_seen(worker, at, &seen);
  seen_up(queue, worker, at);
  // If the former first item has gone, the set moves down.
  seen_down(queue, worker, set->places[k]);
}

static void forget(struct mst_queue *queue, struct mst_set *set, uint32_t k) {
  struct mst_queue_worker *worker = &queue->workers[set->workers[k]];
  const uint32_t at = set->places[k];
  if (at == NOWHERE) return;
  set->places[k] = NOWHERE;
  const struct mst_queue_seen last = worker->seen[--worker->count];
  if (at == worker->count) return;
  place_seen(worker, at, &last);
  seen_up(queue, worker, at);
  seen_down(queue, worker, last.set->places[last.k]);
}

// ---- sets

static void free_set(struct mst_set *set) {
  if (set == NULL) return;
  free(set->items);
  free(set->workers);
  free(set->places);
  free(set);
}

static struct mst_set *new_set(struct mst_queue *queue, const uint32_t *workers,
                               uint32_t count, uint64_t hash) {
  struct mst_set *set =
      mst_fault("queue.alloc") ? NULL : calloc(1, sizeof *set);
  if (set == NULL) return NULL;
  set->queue = queue;
  set->hash = hash;
  set->count = count;
  if (count == 0) return set;
  set->workers = grown(NULL, count, sizeof *set->workers);
  set->places = grown(NULL, count, sizeof *set->places);
  if (set->workers == NULL || set->places == NULL) {
    free_set(set);
    return NULL;
  }
  memcpy(set->workers, workers, count * sizeof *workers);
  for (uint32_t k = 0; k < count; k++)
    set->places[k] = NOWHERE;
  return set;
}

static struct mst_set **slot_of(const struct mst_queue *queue, uint64_t hash) {
  return &queue->table[hash & (queue->table_size - 1)];
}

// drop_empty frees the sets without items when there are too many.
static void drop_empty(struct mst_queue *queue) {
  if (queue->empty <= EMPTY_MAX || queue->empty <= queue->sets / 2) return;
  for (uint32_t i = 0; i < queue->table_size; i++) {
    struct mst_set **at = &queue->table[i];
    while (*at != NULL) {
      struct mst_set *set = *at;
      if (!is_empty(set)) {
        at = &set->next;
        continue;
      }
      for (uint32_t k = 0; k < set->count; k++)
        forget(queue, set, k);
      *at = set->next;
      free_set(set);
      queue->sets--;
      queue->empty--;
    }
  }
}

static int grow_table(struct mst_queue *queue) {
  if (queue->sets < queue->table_size) return 0;
  const uint32_t size =
      queue->table_size == 0 ? TABLE_MIN : 2 * queue->table_size;
  struct mst_set **before = queue->table;
  const uint32_t before_size = queue->table_size;
  struct mst_set **table =
      mst_fault("queue.alloc") ? NULL : calloc(size, sizeof *table);
  if (table == NULL) return before_size == 0 ? -MST_EMEM : 0;
  queue->table = table;
  queue->table_size = size;
  for (uint32_t i = 0; i < before_size; i++) {
    while (before[i] != NULL) {
      struct mst_set *set = before[i];
      before[i] = set->next;
      set->next = *slot_of(queue, set->hash);
      *slot_of(queue, set->hash) = set;
    }
  }
  free(before);
  return 0;
}

static struct mst_set *find_set(struct mst_queue *queue,
                                const uint32_t *workers, uint32_t count) {
  const size_t bytes = count * sizeof *workers;
  const uint64_t hash = mst_hash((const uint8_t *)workers, bytes);
  if (grow_table(queue) != 0) return NULL;
  struct mst_set *set = *slot_of(queue, hash);
  while (set != NULL && (set->hash != hash || set->count != count ||
                         memcmp(set->workers, workers, bytes) != 0))
    set = set->next;
  if (set != NULL) return set;
  set = new_set(queue, workers, count, hash);
  if (set == NULL) return NULL;
  set->next = *slot_of(queue, hash);
  *slot_of(queue, hash) = set;
  queue->sets++;
  queue->empty++;
  return set;
}

// ---- room, reserved before anything changes

static int room_for_item(struct mst_set *set) {
  if (set->item_count < set->item_cap) return 0;
  const uint32_t cap = set->item_cap == 0 ? 4 : 2 * set->item_cap;
  struct mst_queued **items = grown(set->items, cap, sizeof *items);
  if (items == NULL) return -MST_EMEM;
  set->items = items;
  set->item_cap = cap;
  return 0;
}

static int room_for_workers(struct mst_queue *queue, uint32_t count) {
  if (count <= queue->worker_count) return 0;
  struct mst_queue_worker *workers =
      grown(queue->workers, count, sizeof *workers);
  if (workers == NULL) return -MST_EMEM;
  memset(workers + queue->worker_count, 0,
         (count - queue->worker_count) * sizeof *workers);
  queue->workers = workers;
  queue->worker_count = count;
  return 0;
}

static int room_in_worker(struct mst_queue_worker *worker) {
  if (worker->count < worker->cap) return 0;
  const uint32_t cap = worker->cap == 0 ? 4 : 2 * worker->cap;
  struct mst_queue_seen *seen = grown(worker->seen, cap, sizeof *seen);
  if (seen == NULL) return -MST_EMEM;
  worker->seen = seen;
  worker->cap = cap;
  return 0;
}

static int make_room(struct mst_queue *queue, struct mst_set *set) {
  if (room_for_item(set) != 0) return -MST_EMEM;
  if (set->count == 0) return 0;
  const uint32_t last = set->workers[set->count - 1];
  if (room_for_workers(queue, last + 1) != 0) return -MST_EMEM;
  for (uint32_t k = 0; k < set->count; k++) {
    if (set->places[k] == NOWHERE &&
        room_in_worker(&queue->workers[set->workers[k]]) != 0) {
      return -MST_EMEM;
    }
  }
  return 0;
}

// ---- functions of queue.h

uint32_t mst_queue_count(const struct mst_queue *queue) { return queue->count; }

static int put(struct mst_queue *queue, struct mst_set *set,
               struct mst_queued *item) {
  if (make_room(queue, set) != 0 || mst_turns_join(&queue->turns, item) != 0) {
    return -MST_EMEM;
  }
  item->set = set;
  place_item(set, set->item_count++, item);
  item_up(queue, set, item->at);
  queue->count++;
  if (set->items[0] != item) return 0;
  for (uint32_t k = 0; k < set->count; k++)
    see(queue, set, k);
  return 0;
}

int mst_queue_put(struct mst_queue *queue, struct mst_queued *item,
                  const uint32_t *workers, uint32_t count) {
  struct mst_set *set;
  if (workers == NULL || count == 0) {
    if (queue->any == NULL) queue->any = new_set(queue, NULL, 0, 0);
    set = queue->any;
  } else {
    set = find_set(queue, workers, count);
  }
  if (set == NULL) return -MST_EMEM;
  const int was_empty = is_empty(set) && set != queue->any;
  item->turn = 0;
  const int rc = put(queue, set, item);
  if (rc == 0 && was_empty) queue->empty--;
  return rc;
}

static int is_queued(const struct mst_queued *item) {
  return item->set != NULL && item->at != TAKEN;
}

void mst_queue_remove(struct mst_queue *queue, struct mst_queued *item) {
  if (!is_queued(item)) return;
  take_item(queue, item);
  mst_turns_leave(&queue->turns, item);
  leave(queue, item);
  drop_empty(queue);
}

static void set_aside(struct mst_queue *queue, struct mst_queued *item) {
  take_item(queue, item);
  item->at = TAKEN;
  item->set->taken++;
}

void mst_queue_take(struct mst_queue *queue, struct mst_queued *item) {
  if (!is_queued(item)) return;
  set_aside(queue, item);
  mst_turns_begin(&queue->turns, item);
}

void mst_queue_hold(struct mst_queue *queue, struct mst_queued *item) {
  if (!is_queued(item)) return;
  set_aside(queue, item);
  mst_turns_leave(&queue->turns, item);
}

int mst_queue_put_back(struct mst_queue *queue, struct mst_queued *item) {
  struct mst_set *set = item->set;
  MST_ASSERT(set != NULL && item->at == TAKEN);
  const int rc = put(queue, set, item);
  if (rc == 0) set->taken--;
  return rc;
}

void mst_queue_forget(struct mst_queued *item) {
  if (item->set == NULL || item->at != TAKEN) return;
  struct mst_queue *queue = item->set->queue;
  item->set->taken--;
  leave(queue, item);
  drop_empty(queue);
}

// first_pinned corrects outdated keys at the top of a worker's heap, and gives its first item.
static struct mst_queued *first_pinned(struct mst_queue *queue,
                                       uint32_t worker_number) {
  if (worker_number >= queue->worker_count) return NULL;
  struct mst_queue_worker *worker = &queue->workers[worker_number];
  while (worker->count > 0) {
    struct mst_queue_seen *top = &worker->seen[0];
    if (top->set->item_count == 0) {
      forget(queue, top->set, top->k);
      continue;
    }
    struct mst_queued *first = top->set->items[0];
    if (first->serial == top->key.serial && first->turn == top->key.turn)
      return first;
    top->key = key_of(first);
    seen_down(queue, worker, 0);
  }
  return NULL;
}

struct mst_queued *mst_queue_first(struct mst_queue *queue, uint32_t worker,
                                   int own) {
  struct mst_queued *pinned = first_pinned(queue, worker);
  if (own) return pinned;
  struct mst_queued *any = queue->any != NULL && queue->any->item_count > 0
                               ? queue->any->items[0]
                               : NULL;
  if (pinned == NULL || any == NULL) return pinned != NULL ? pinned : any;
  return item_before(queue, pinned, any) ? pinned : any;
}

int mst_queue_is_for(const struct mst_queued *item, uint32_t worker) {
  const struct mst_set *set = item->set;
  uint32_t k = 0;
  while (k < set->count && set->workers[k] != worker)
    k++;
  return set->count == 0 || k < set->count;
}

struct mst_queued *mst_queue_head(const struct mst_queue *queue) {
  if (queue->count == 0) return NULL;
  if (queue->any != NULL && queue->any->item_count > 0) {
    return queue->any->items[0];
  }
  for (uint32_t i = 0; i < queue->table_size; i++) {
    for (struct mst_set *set = queue->table[i]; set != NULL; set = set->next) {
      if (set->item_count > 0) return set->items[0];
    }
  }
  return NULL;
}

static int is_usable(const struct mst_set *set, uint32_t workers,
                     int (*usable)(void *, uint32_t), void *owner) {
  const uint32_t n = set->count == 0 ? workers : set->count;
  for (uint32_t k = 0; k < n; k++) {
    if (usable(owner, set->count == 0 ? k : set->workers[k])) return 1;
  }
  return 0;
}

int mst_queue_is_usable(const struct mst_queued *item, uint32_t workers,
                        int (*usable)(void *, uint32_t), void *owner) {
  return is_usable(item->set, workers, usable, owner);
}

static void take_all(struct mst_queue *queue, struct mst_set *set,
                     void (*visit)(void *, struct mst_queued *), void *owner) {
  while (set->item_count > 0) {
    struct mst_queued *item = set->items[0];
    take_item(queue, item);
    mst_turns_leave(&queue->turns, item);
    leave(queue, item);
    visit(owner, item);
  }
}

static void each_item(const struct mst_set *set,
                      void (*visit)(void *, struct mst_queued *), void *owner) {
  for (uint32_t i = 0; set != NULL && i < set->item_count; i++)
    visit(owner, set->items[i]);
}

void mst_queue_each(const struct mst_queue *queue,
                    void (*visit)(void *, struct mst_queued *), void *owner) {
  each_item(queue->any, visit, owner);
  for (uint32_t i = 0; i < queue->table_size; i++) {
    for (const struct mst_set *set = queue->table[i]; set != NULL;
         set = set->next)
      each_item(set, visit, owner);
  }
}

void mst_queue_sweep(struct mst_queue *queue, uint32_t workers,
                     int (*usable)(void *, uint32_t),
                     void (*visit)(void *, struct mst_queued *), void *owner) {
  struct mst_set *any = queue->any;
  if (any != NULL && any->item_count > 0 &&
      !is_usable(any, workers, usable, owner)) {
    take_all(queue, any, visit, owner);
  }
  for (uint32_t i = 0; i < queue->table_size; i++) {
    for (struct mst_set *set = queue->table[i]; set != NULL; set = set->next) {
      if (set->item_count > 0 && !is_usable(set, workers, usable, owner)) {
        take_all(queue, set, visit, owner);
      }
    }
  }
}

void mst_queue_free(struct mst_queue *queue) {
  MST_ASSERT(queue->count == 0);
  free_set(queue->any);
  for (uint32_t i = 0; i < queue->table_size; i++) {
    while (queue->table[i] != NULL) {
      struct mst_set *set = queue->table[i];
      queue->table[i] = set->next;
      free_set(set);
    }
  }
  for (uint32_t i = 0; i < queue->worker_count; i++)
    free(queue->workers[i].seen);
  mst_turns_free(&queue->turns);
  free(queue->table);
  free(queue->workers);
  memset(queue, 0, sizeof *queue);
}

// ---- for tests

static const char *check_set(const struct mst_queue *queue,
                             const struct mst_set *set) {
  for (uint32_t i = 0; i < set->item_count; i++) {
    const struct mst_queued *item = set->items[i];
    const struct mst_queued *parent = set->items[i == 0 ? 0 : (i - 1) / 2];
    if (item->at != i || item->set != set) return "an item's place";
    const struct mst_queue_key own = key_of(item), above = key_of(parent);
    if (i > 0 && is_before(&own, &above)) return "a set's heap";
  }
  for (uint32_t k = 0; k < set->count; k++) {
    if (set->places[k] == NOWHERE) {
      if (set->item_count > 0) return "a worker doesn't know of a set";
      continue;
    }
    const struct mst_queue_seen *seen =
        &queue->workers[set->workers[k]].seen[set->places[k]];
    if (seen->set != set || seen->k != k) return "a set's place";
    if (set->item_count == 0) continue;
    const struct mst_queue_key first = key_of(set->items[0]);
    if (is_before(&first, &seen->key))
      return "a set comes earlier than a worker has seen";
  }
  return NULL;
}

static const char *check_worker(const struct mst_queue_worker *worker) {
  for (uint32_t i = 1; i < worker->count; i++) {
    const struct mst_queue_seen *seen = &worker->seen[i];
    const struct mst_queue_seen *parent = &worker->seen[(i - 1) / 2];
    if (is_before(&seen->key, &parent->key)) return "a worker's heap";
  }
  return NULL;
}

const char *mst_queue_check(const struct mst_queue *queue) {
  uint32_t count = queue->any == NULL ? 0 : queue->any->item_count;
  uint32_t sets = 0, empty = 0;
  const char *what = queue->any == NULL ? NULL : check_set(queue, queue->any);
  for (uint32_t i = 0; what == NULL && i < queue->table_size; i++) {
    for (const struct mst_set *set = queue->table[i];
         what == NULL && set != NULL; set = set->next) {
      what = check_set(queue, set);
      count += set->item_count;
      empty += (uint32_t)is_empty(set);
      sets++;
    }
  }
  for (uint32_t i = 0; what == NULL && i < queue->worker_count; i++)
    what = check_worker(&queue->workers[i]);
  if (what == NULL) what = mst_turns_check(&queue->turns, queue->count);
  if (what != NULL) return what;
  if (count != queue->count) return "the count of items";
  return sets == queue->sets && empty == queue->empty ? NULL : "counts of sets";
}
