// Tests of pool/queue: compared with a list, with failing allocations, and by the number of
// comparisons.
#include <stdlib.h>
#include <string.h>

#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "mst_random.h"
#include "mst_test.h"
#include "pool/queue.h"

#define WORKERS 12u
#define ITEMS 400u

struct item {
  struct mst_queued queued;
  uint32_t workers[WORKERS]; // the workers that may take it
  uint32_t count;            // 0: any
  int in;
  int taken; // it may be put back
};

static struct item items[ITEMS];
static struct mst_queue queue;

static int may_have(const struct item *item, uint32_t worker) {
  if (item->count == 0) return 1;
  for (uint32_t k = 0; k < item->count; k++) {
    if (item->workers[k] == worker) return 1;
  }
  return 0;
}

static int goes_before(const struct mst_queued *a, const struct mst_queued *b) {
  if (a->priority != b->priority) return a->priority > b->priority;
  return a->turn != b->turn ? a->turn < b->turn : a->serial < b->serial;
}

static const struct item *first_by_looking(uint32_t worker) {
  const struct item *first = NULL;
  for (uint32_t i = 0; i < ITEMS; i++) {
    const struct item *item = &items[i];
    if (!item->in || !may_have(item, worker)) continue;
    if (first == NULL || goes_before(&item->queued, &first->queued))
      first = item;
  }
  return first;
}

static void draw_set(uint64_t *random, struct item *item) {
  item->count = 0;
  if (mst_random_below(random, 4) == 0) return; // any
  for (uint32_t i = 0; i < WORKERS; i++) {
    if (mst_random_below(random, 4) == 0) item->workers[item->count++] = i;
  }
}

static void put(uint64_t *random, struct item *item, uint64_t serial) {
  draw_set(random, item);
  item->queued =
      (struct mst_queued){.serial = serial,
                          .priority = (int32_t)mst_random_below(random, 3),
                          .group = mst_random_below(random, 5),
                          .owner = item};
  CHECK_INT(mst_queue_put(&queue, &item->queued, item->workers, item->count),
            0);
  item->in = 1;
}

static void take_out(struct item *item) {
  mst_queue_remove(&queue, &item->queued);
  item->in = 0;
}

// take_some takes or holds an item for a while, or puts it back, or for good.
static void take_some(uint64_t *random, struct item *item) {
  if (item->in && mst_random_below(random, 3) == 0) {
    mst_queue_hold(&queue, &item->queued);
    item->in = 0;
    item->taken = 1;
  } else if (item->in) {
    mst_queue_take(&queue, &item->queued);
    item->in = 0;
    item->taken = 1;
  } else if (item->taken && mst_random_below(random, 2) == 0) {
    CHECK_INT(mst_queue_put_back(&queue, &item->queued), 0);
    item->in = 1;
    item->taken = 0;
  } else {
    mst_queue_forget(&item->queued);
    item->taken = 0;
  }
}

static void empty_queue(void) {
  struct mst_queued *head;
  for (uint32_t i = 0; i < ITEMS; i++)
    mst_queue_forget(&items[i].queued);
  while ((head = mst_queue_head(&queue)) != NULL)
    take_out(head->owner);
  CHECK_INT(mst_queue_count(&queue), 0);
  mst_queue_free(&queue);
}

TEST("A queue gives each worker the same item as a search through all would") {
  uint64_t random = 7;
  memset(items, 0, sizeof items);
  for (uint64_t step = 1; step <= 20000; step++) {
    struct item *item = &items[mst_random_below(&random, ITEMS)];
    const uint32_t worker = (uint32_t)mst_random_below(&random, WORKERS);
    const uint32_t what = (uint32_t)mst_random_below(&random, 6);
    if (what == 5) {
      take_some(&random, item);
    } else if (!item->in && !item->taken && what < 2) {
      put(&random, item, step);
    } else if (item->in && what == 2) {
      take_out(item);
    } else {
      const struct item *want = first_by_looking(worker);
      const struct mst_queued *got = mst_queue_first(&queue, worker, 0);
      CHECK((got == NULL) == (want == NULL));
      CHECK(got == NULL || got->owner == want);
      if (got != NULL && what == 3) take_out(got->owner);
    }
    CHECK_TEXT(mst_queue_check(&queue) == NULL ? "" : mst_queue_check(&queue),
               "");
  }
  empty_queue();
}

static int is_even(void *owner, uint32_t worker) {
  (void)owner;
  return worker % 2 == 0;
}

static void note_out(void *owner, struct mst_queued *queued) {
  struct item *item = queued->owner;
  uint32_t *count = owner;
  item->in = 0;
  (*count)++;
}

TEST("A sweep removes items that no usable worker may have, each once") {
  uint64_t random = 3;
  uint32_t swept = 0, odd = 0;
  memset(items, 0, sizeof items);
  for (uint32_t i = 0; i < ITEMS; i++) {
    put(&random, &items[i], i + 1);
    int usable = items[i].count == 0;
    for (uint32_t k = 0; k < items[i].count; k++)
      usable |= items[i].workers[k] % 2 == 0;
    odd += !usable;
  }
  mst_queue_sweep(&queue, WORKERS, is_even, note_out, &swept);
  CHECK_INT(swept, odd);
  CHECK(mst_queue_check(&queue) == NULL);
  empty_queue();
}

TEST("The sets of items that are taken are kept, those of others aren't") {
  memset(items, 0, sizeof items);
  for (uint32_t i = 0; i < ITEMS; i++) {
    items[i].workers[0] = i; // each in a set of its own
    items[i].queued = (struct mst_queued){.serial = i + 1, .owner = &items[i]};
    CHECK_INT(mst_queue_put(&queue, &items[i].queued, items[i].workers, 1), 0);
    mst_queue_take(&queue, &items[i].queued);
  }
  CHECK_INT(mst_queue_count(&queue), 0);
  CHECK_INT(queue.sets, ITEMS);
  for (uint32_t i = 1; i < ITEMS; i++) {
    mst_queue_forget(&items[i].queued);
    mst_queue_forget(&items[i].queued); // which is nothing
    CHECK(mst_queue_check(&queue) == NULL);
  }
  CHECK(queue.sets < ITEMS / 2);
  CHECK_INT(mst_queue_put_back(&queue, &items[0].queued), 0);
  CHECK(mst_queue_first(&queue, 0, 0) == &items[0].queued);
  CHECK(mst_queue_first(&queue, 1, 0) == NULL);
  empty_queue();
}

TEST("A queue without memory for an item stays as it was") {
  uint64_t random = 11;
  int full = 0;
  memset(items, 0, sizeof items);
  for (uint32_t i = 0; i < 20; i++)
    put(&random, &items[i], i + 1);
  for (uint32_t nth = 1; nth <= 6; nth++) {
    uint32_t workers[] = {1, 3, 5, 40 + nth};
    struct mst_queued one = {.serial = 1000 + nth};
    CHECK_INT(mst_fault_arm("queue.alloc", (int)nth, 12), 0);
    const int rc = mst_queue_put(&queue, &one, workers, 4);
    (void)mst_fault_arm("queue.alloc", 0, 0);
    CHECK(rc == 0 || rc == -MST_EMEM);
    CHECK(mst_queue_check(&queue) == NULL);
    CHECK_INT(mst_queue_count(&queue), rc == 0 ? 21 : 20);
    mst_queue_remove(&queue, &one);
    CHECK_INT(mst_queue_count(&queue), 20);
  }
  // Put back among more than there were.
  mst_queue_take(&queue, &items[0].queued);
  for (uint32_t i = 20; i < 60; i++) {
    items[i].count = items[0].count;
    memcpy(items[i].workers, items[0].workers, sizeof items[0].workers);
    items[i].queued = (struct mst_queued){.serial = i + 1, .owner = &items[i]};
    CHECK_INT(mst_queue_put(&queue, &items[i].queued, items[i].workers,
                            items[i].count),
              0);
    CHECK_INT(mst_fault_arm("queue.alloc", 1, 12), 0);
    const int rc = mst_queue_put_back(&queue, &items[0].queued);
    (void)mst_fault_arm("queue.alloc", 0, 0);
    CHECK(rc == 0 || rc == -MST_EMEM);
    CHECK(mst_queue_check(&queue) == NULL);
    if (rc == 0) mst_queue_take(&queue, &items[0].queued);
    full += rc != 0;
  }
  CHECK(full > 0);
  empty_queue();
}

TEST("10,000 overlapping sets of 64 workers cost a few comparisons each") {
  enum { SETS = 10000, ALL = 64, EACH = 8 };
  uint64_t random = 5;
  struct mst_queued *many = calloc(SETS, sizeof *many);
  CHECK(many != NULL);
  for (uint32_t i = 0; i < SETS; i++) {
    uint32_t workers[ALL], count = 0;
    for (uint32_t w = 0; w < ALL; w++) {
      if (mst_random_below(&random, ALL / EACH) == 0) workers[count++] = w;
    }
    many[i] = (struct mst_queued){.serial = i + 1};
    CHECK_INT(mst_queue_put(&queue, &many[i], workers, count), 0);
  }
  const uint64_t put_steps = queue.steps;
  CHECK(put_steps < (uint64_t)SETS * EACH * 4);
  for (uint32_t i = 0; i < SETS / 4; i++)
    mst_queue_remove(&queue, &many[4 * i]);
  const uint64_t cancel_steps = queue.steps - put_steps;
  CHECK(cancel_steps < SETS);
  uint32_t taken = 0, idle = 0;
  while (idle < ALL) {
    const uint32_t worker = taken % ALL;
    struct mst_queued *first = mst_queue_first(&queue, worker, 0);
    idle = first == NULL ? idle + 1 : 0;
    if (first != NULL) mst_queue_remove(&queue, first);
    taken++;
  }
  CHECK_INT(mst_queue_count(&queue), 0);
  // Each set comes to the top at most once for each of its workers.
  CHECK(queue.steps - put_steps < (uint64_t)SETS * EACH * 2 * 14);
  mst_queue_free(&queue);
  free(many);
}
