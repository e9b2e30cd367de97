// pool/turns: whose turn it is among groups of queued items, such as the users of one app. Pure.
//
// Start-time fair queuing (Goyal, Vin and Cheng, 1996) where each item takes one turn. An item goes
// in the turn after that of the item before it in its group, and after the present one; items of
// one turn go in the order of submission. So groups take turns, an item each, however many items
// each of them has, and a new group waits for at most two items of each other one. Each priority
// has turns of its own.
//
// Not chosen: a queue for each group in each set of workers, and a ring of them: each worker would
// have to know each group.
//
// An item that is removed leaves its turn unused, unless it is the last of its group: what is
// queued behind it goes no later than it would have gone, but no earlier either.
//
// Cost: O(1), amortised. Only mst_turns_join allocates.
#ifndef MST_POOL_TURNS_H
#define MST_POOL_TURNS_H

#include <stdint.h>

struct mst_queued;
struct mst_turn; // of a group, or of a priority

// Zeroed memory has no turns.
struct mst_turns {
  struct mst_turn **table; // a hash table
  uint32_t size, count;
  uint32_t empty;        // of those, without queued items
  struct mst_turn *last; // the group that something joined last, or NULL
};

// mst_turns_join sets `turn` of an item that is being queued, by its priority and group; one that
// has a turn keeps it (0: none). 0, or -MST_EMEM: then nothing has changed.
int mst_turns_join(struct mst_turns *turns, struct mst_queued *item);
// mst_turns_leave: it isn't queued any more. mst_turns_begin: since its turn has come.
void mst_turns_leave(struct mst_turns *turns, struct mst_queued *item);
void mst_turns_begin(struct mst_turns *turns, struct mst_queued *item);
// mst_turns_free frees all; no item may be queued.
void mst_turns_free(struct mst_turns *turns);
// mst_turns_check returns the invariant that is broken, or NULL. items: how many are queued.
const char *mst_turns_check(const struct mst_turns *turns, uint32_t items);

#endif
