// Whose turn it is among groups. The contract is in turns.h.
#include "pool/turns.h"

#include <stdlib.h>

#include "base/mst_assert.h"
#include "base/mst_err.h"
#include "base/mst_fault.h"
#include "base/mst_hash.h"
#include "pool/queue.h"

#define TABLE_MIN 16u
// How many records without items are kept.
#define EMPTY_MAX 64u

// A record of a group at one priority; or of the priority itself, which all its groups refer to.
// Without items a group's is worth nothing: what it queues next goes after the present turn.
struct mst_turn {
  struct mst_turn *next;  // in the table
  struct mst_turn *level; // the priority's; of such a record, itself
  uint64_t group;
  int32_t priority;
  uint32_t count; // queued items
  // Of a group: the turn of its last item. Of a priority: the present turn.
  uint64_t turn;
};

static struct mst_turn **slot_of(const struct mst_turns *turns,
                                 int32_t priority, uint64_t group) {
  const uint64_t key[2] = {(uint64_t)(uint32_t)priority, group};
  return &turns->table[mst_hash(key, sizeof key) & (turns->size - 1)];
}

static int is_level(const struct mst_turn *one) { return one->level == one; }

static int grow_table(struct mst_turns *turns) {
  if (turns->count < turns->size) return 0;
  const struct mst_turns before = *turns;
  const uint32_t size = before.size == 0 ? TABLE_MIN : 2 * before.size;
  struct mst_turn **table =
      mst_fault("turns.alloc") ? NULL : calloc(size, sizeof *table);
  if (table == NULL) return before.size == 0 ? -MST_EMEM : 0;
  turns->table = table;
  turns->size = size;
  for (uint32_t i = 0; i < before.size; i++) {
    while (before.table[i] != NULL) {
      struct mst_turn *one = before.table[i];
      before.table[i] = one->next;
      struct mst_turn **slot = slot_of(turns, one->priority, one->group);
      one->next = *slot;
      *slot = one;
    }
  }
  free(before.table);
  return 0;
}

// record_of gives the record of a group, or without `level` that of the priority. NULL if memory is
// short.
static struct mst_turn *record_of(struct mst_turns *turns, int32_t priority,
                                  uint64_t group, struct mst_turn *level) {
  if (grow_table(turns) != 0) return NULL;
  struct mst_turn **slot = slot_of(turns, priority, group);
  struct mst_turn *one = *slot;
  while (one != NULL && (one->priority != priority || one->group != group ||
                         is_level(one) != (level == NULL)))
    one = one->next;
  if (one != NULL) return one;
  one = mst_fault("turns.alloc") ? NULL : calloc(1, sizeof *one);
  if (one == NULL) return NULL;
  *one = (struct mst_turn){.next = *slot,
                           .level = level == NULL ? one : level,
                           .group = group,
                           .priority = priority};
  *slot = one;
  turns->count++;
  turns->empty++;
  return one;
}

// drop_empty frees the records without items when there are too many. A priority has an item if any
// of its groups has one.
static void drop_empty(struct mst_turns *turns) {
  if (turns->empty <= EMPTY_MAX || turns->empty <= turns->count / 2) return;
  turns->last = NULL;
  for (uint32_t i = 0; i < turns->size; i++) {
    for (struct mst_turn **at = &turns->table[i]; *at != NULL;) {
      struct mst_turn *one = *at;
      if (one->count > 0) {
        at = &one->next;
        continue;
      }
      *at = one->next;
      free(one);
      turns->count--;
      turns->empty--;
    }
  }
}

static void add_item(struct mst_turns *turns, struct mst_turn *one) {
  if (one->count++ == 0) turns->empty--;
}

static void drop_item(struct mst_turns *turns, struct mst_turn *one) {
  MST_ASSERT(one->count > 0);
  if (--one->count == 0) turns->empty++;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

// group_of gives the record of an item's group. NULL if memory is short.
static struct mst_turn *group_of(struct mst_turns *turns,
                                 const struct mst_queued *item) {
  struct mst_turn *last = turns->last;
  if (last != NULL && last->priority == item->priority &&
      last->group == item->group)
    return last;
  struct mst_turn *level = record_of(turns, item->priority, 0, NULL);
  if (level == NULL) return NULL;
  last = record_of(turns, item->priority, item->group, level);
  if (last != NULL) turns->last = last;
  return last;
}

int mst_turns_join(struct mst_turns *turns, struct mst_queued *item) {
  struct mst_turn *group = group_of(turns, item);
  if (group == NULL) return -MST_EMEM;
  struct mst_turn *level = group->level;
  if (group->count == 0) group->turn = level->turn;
  const uint64_t next = later(group->turn, level->turn) + 1;
  if (item->turn == 0) item->turn = next;
  // It had one that these records don't know any more: it has waited longest.
  if (item->turn > next) item->turn = later(level->turn, 1);
  group->turn = later(group->turn, item->turn);
  add_item(turns, level);
  add_item(turns, group);
  item->of = group;
  return 0;
}

static void leave(struct mst_turns *turns, struct mst_queued *item) {
  struct mst_turn *group = item->of;
  item->of = NULL;
  drop_item(turns, group->level);
  drop_item(turns, group);
  drop_empty(turns);
}

void mst_turns_leave(struct mst_turns *turns, struct mst_queued *item) {
  if (item->of->turn == item->turn) item->of->turn--;
  leave(turns, item);
}

void mst_turns_begin(struct mst_turns *turns, struct mst_queued *item) {
  struct mst_turn *level = item->of->level;
  level->turn = later(level->turn, item->turn);
  leave(turns, item);
}

void mst_turns_free(struct mst_turns *turns) {
  for (uint32_t i = 0; i < turns->size; i++) {
    while (turns->table[i] != NULL) {
      struct mst_turn *one = turns->table[i];
      MST_ASSERT(one->count == 0);
      turns->table[i] = one->next;
      free(one);
    }
  }
  free(turns->table);
  *turns = (struct mst_turns){0};
}

const char *mst_turns_check(const struct mst_turns *turns, uint32_t items) {
  uint32_t count = 0, empty = 0, levels = 0, groups = 0;
  for (uint32_t i = 0; i < turns->size; i++) {
    for (const struct mst_turn *one = turns->table[i]; one != NULL;
         one = one->next) {
      count++;
      empty += one->count == 0;
      *(is_level(one) ? &levels : &groups) += one->count;
    }
  }
  if (levels != items || groups != items) return "the items of turns";
  return count == turns->count && empty == turns->empty ? NULL
                                                        : "counts of turns";
}
