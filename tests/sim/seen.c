// See seen.h.
#include "seen.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t *slot_of(uint64_t *table, uint32_t size, uint64_t hash) {
  uint32_t at = (uint32_t)hash & (size - 1);
  while (table[at] != 0 && table[at] != hash)
    at = (at + 1) & (size - 1);
  return &table[at];
}

static void grow(struct seen *seen) {
  const uint32_t size = seen->size == 0 ? 1024 : 2 * seen->size;
  uint64_t *table = calloc(size, sizeof *table);
  if (table == NULL) {
    (void)fprintf(stderr, "sim: no memory\n");
    exit(2);
  }
  for (uint32_t i = 0; i < seen->size; i++) {
    const uint64_t hash = seen->table[i];
    if (hash != 0) *slot_of(table, size, hash) = hash;
  }
  free(seen->table);
  seen->table = table;
  seen->size = size;
}

int seen_add(struct seen *seen, uint64_t hash) {
  if (2 * seen->count >= seen->size) grow(seen);
  uint64_t *slot = slot_of(seen->table, seen->size, hash);
  if (*slot == hash) return 0;
  *slot = hash;
  seen->count++;
  return 1;
}
