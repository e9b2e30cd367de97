// What entry points own while R may run.
//
// Problem: most of R's API can run the user's code (finalizers in any allocation, condition
// handlers, ALTREP classes), which may use muster, stop the cluster, or leave by a jump. Handles
// are looked up again afterwards; what can't be looked up again, or must be freed if R jumps, is
// held here.
//
// Way chosen: a stack of held objects, each with the depth of the entry that holds it. Entries end
// in one place, however R leaves them (entry.c), which frees what they hold. Not chosen: external
// pointers with finalizers, since R visits every one of them in each collection.
#include <stdlib.h>

#include "base/mst_assert.h"
#include "ffi/entry/entry.h"

struct held {
  uint32_t depth;
  void *what;
  void (*let_go)(void *);
};

static struct {
  struct held *list;
  size_t count, capacity;
} held;

// Number of nested entries.
static uint32_t depth;

uint32_t ffi_depth(void) { return depth; }

uint32_t ffi_level_up(void) { return ++depth; }

uint32_t ffi_level_down(void) {
  while (held.count > 0 && held.list[held.count - 1].depth >= depth) {
    const struct held last = held.list[--held.count];
    last.let_go(last.what);
  }
  return --depth;
}

void *ffi_hold(void *what, void (*let_go)(void *)) {
  MST_ASSERT(depth > 0); // otherwise nobody would free it
  if (held.count == held.capacity) {
    const size_t capacity = held.capacity == 0 ? 16 : 2 * held.capacity;
    struct held *list = realloc(held.list, capacity * sizeof *list);
    if (list == NULL) {
      let_go(what);
      Rf_error("no memory");
    }
    held.list = list;
    held.capacity = capacity;
  }
  held.list[held.count++] =
      (struct held){.depth = depth, .what = what, .let_go = let_go};
  return what;
}

// forget removes the last occurrence from the list; 0 if there is none.
static int forget(const void *what, struct held *found) {
  for (size_t i = held.count; i-- > 0;) {
    if (held.list[i].what != what) continue;
    *found = held.list[i];
    held.count--;
    for (; i < held.count; i++)
      held.list[i] = held.list[i + 1];
    return 1;
  }
  return 0;
}

void ffi_drop(const void *what) {
  struct held found;
  if (forget(what, &found)) found.let_go(found.what);
}

void ffi_unhold(const void *what) {
  struct held found;
  (void)forget(what, &found);
}

static void release_blob(void *blob) { mst_blob_release(blob); }

struct mst_blob *ffi_new_blob(void) {
  struct mst_blob *blob = mst_blob_new();
  if (blob == NULL) Rf_error("no memory");
  return ffi_hold(blob, release_blob);
}

struct mst_blob *ffi_hold_blob(struct mst_blob *blob) {
  blob->refs++;
  return ffi_hold(blob, release_blob);
}
