// Tests of pool/turns, in the queue whose items take turns.
#include <stdlib.h>
#include <string.h>

#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "mst_random.h"
#include "mst_test.h"
#include "pool/queue.h"

#define ITEMS 600u

static struct mst_queued items[ITEMS];
static uint32_t used;
static struct mst_queue queue;

static struct mst_queued *put_at(uint64_t group, int32_t priority) {
  struct mst_queued *item = &items[used];
  *item = (struct mst_queued){
      .serial = ++used, .group = group, .priority = priority};
  CHECK_INT(mst_queue_put(&queue, item, NULL, 0), 0);
  CHECK(mst_queue_check(&queue) == NULL);
  return item;
}

static struct mst_queued *put(uint64_t group) { return put_at(group, 0); }

static void put_many(uint64_t group, int n) {
  for (int i = 0; i < n; i++)
    (void)put(group);
}

static struct mst_queued *take(void) {
  struct mst_queued *first = mst_queue_first(&queue, 0, 0);
  CHECK(first != NULL);
  mst_queue_take(&queue, first);
  CHECK(mst_queue_check(&queue) == NULL);
  return first;
}

// groups_taken gives the groups of the next n items as text, such as "aba".
static const char *groups_taken(int n) {
  static char text[64];
  for (int i = 0; i < n; i++)
    text[i] = (char)('a' + take()->group);
  text[n] = 0;
  return text;
}

static void end_queue(void) {
  struct mst_queued *head;
  for (uint32_t i = 0; i < used; i++)
    mst_queue_forget(&items[i]);
  while ((head = mst_queue_head(&queue)) != NULL)
    mst_queue_remove(&queue, head);
  CHECK_INT(queue.turns.count, queue.turns.empty);
  mst_queue_free(&queue);
  memset(items, 0, sizeof items);
  used = 0;
}

TEST("Items of one group go in the order of submission") {
  put_many(0, 3);
  CHECK_INT(take()->serial, 1);
  put_many(0, 2);
  for (uint64_t serial = 2; serial <= 5; serial++)
    CHECK_INT(take()->serial, serial);
  end_queue();
}

TEST("Groups take turns, however many items each has") {
  put_many(0, 6);
  put_many(1, 2);
  put_many(2, 3);
  CHECK_TEXT(groups_taken(11), "abcabcacaaa");
  end_queue();
}

TEST("A group that comes later waits for no more than two items of each") {
  put_many(0, 100);
  put_many(1, 100);
  (void)groups_taken(50);
  for (uint64_t group = 2; group < 40; group++) {
    (void)put(group);
    int waits = 0;
    while (take()->group != group)
      waits++;
    CHECK(waits <= 4);
  }
  end_queue();
}

TEST("A group that submits an item each time that one was taken gets its turn, "
     "and no more") {
  put_many(0, 20);
  (void)put(1);
  int own = 0;
  for (int i = 0; i < 20; i++) {
    const uint64_t group = take()->group;
    own += group == 1;
    if (group == 1) (void)put(1);
  }
  CHECK_INT(own, 10);
  end_queue();
}

TEST("Each priority has turns of its own") {
  put_many(0, 3);
  put_many(1, 1);
  for (int i = 0; i < 50; i++) {
    (void)put_at(0, 1);
    CHECK_INT(take()->priority, 1);
  }
  put_many(2, 1);
  CHECK_TEXT(groups_taken(5), "abcaa");
  end_queue();
}

TEST("Items that are removed or held don't cost their group its turns") {
  struct mst_queued *held[10];
  for (int i = 0; i < 10; i++) {
    held[i] = put(0);
    mst_queue_hold(&queue, held[i]);
  }
  put_many(1, 4);
  put_many(0, 2);
  CHECK_TEXT(groups_taken(2), "ba");
  // What was held comes before what was submitted later.
  CHECK_INT(mst_queue_put_back(&queue, held[3]), 0);
  CHECK(mst_queue_check(&queue) == NULL);
  CHECK(take() == held[3]);
  for (int i = 0; i < 100; i++)
    mst_queue_remove(&queue, put(0));
  CHECK_TEXT(groups_taken(4), "babb");
  put_many(1, 1);
  put_many(0, 1);
  CHECK_TEXT(groups_taken(2), "ba");
  end_queue();
}

TEST("An item that is put back goes before those of its group") {
  put_many(0, 4);
  put_many(1, 4);
  struct mst_queued *first = take();
  (void)groups_taken(3);
  CHECK_INT(mst_queue_put_back(&queue, first), 0);
  CHECK(take() == first);
  end_queue();
}

TEST("An item that comes back after the records of its turn were dropped goes "
     "first") {
  put_many(0, 300);
  for (int i = 0; i < 299; i++)
    (void)take();
  struct mst_queued *last = take();
  for (uint64_t group = 1; group < 200; group++)
    mst_queue_remove(&queue, put(group));
  CHECK(queue.turns.count < 100);
  put_many(1, 1);
  CHECK_INT(mst_queue_put_back(&queue, last), 0);
  CHECK(take() == last);
  end_queue();
}

TEST("Any mix of items ends with each group served as often as the others, "
     "while it has items") {
  uint64_t random = 9;
  int served[4] = {0}, has[4] = {0};
  for (int i = 0; i < 150; i++) {
    for (uint64_t group = 0; group < 4; group++) {
      const int n = used < 590 && mst_random_below(&random, 3) == 0;
      has[group] += n;
      put_many(group, n);
    }
  }
  int least = has[0];
  for (int group = 1; group < 4; group++)
    if (has[group] < least) least = has[group];
  for (int i = 0; i < 4 * least; i++)
    served[take()->group]++;
  for (int group = 0; group < 4; group++)
    CHECK(served[group] >= least - 1 && served[group] <= least + 1);
  end_queue();
}

TEST("Without memory for its turn an item isn't queued") {
  for (int nth = 1; nth <= 3; nth++) {
    struct mst_queued item = {.serial = 1};
    CHECK_INT(mst_fault_arm("turns.alloc", nth, 12), 0);
    CHECK_INT(mst_queue_put(&queue, &item, NULL, 0), -MST_EMEM);
    (void)mst_fault_arm("turns.alloc", 0, 0);
    CHECK(mst_queue_check(&queue) == NULL);
    CHECK_INT(mst_queue_count(&queue), 0);
    mst_queue_free(&queue);
  }
}
