// The agenda and the random numbers. See sim.h.
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

// splitmix64: every seed is good, and the state is one number.
uint64_t sim_random(struct sim_rng *rng) {
  rng->state += UINT64_C(0x9E3779B97F4A7C15);
  uint64_t z = rng->state;
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

uint32_t sim_below(struct sim_rng *rng, uint32_t n) {
  return (uint32_t)(sim_random(rng) % n);
}

int sim_chance(struct sim_rng *rng, uint32_t permille) {
  return sim_below(rng, 1000) < permille;
}

int64_t sim_between(struct sim_rng *rng, int64_t low_ns, int64_t high_ns) {
  return low_ns + (int64_t)(sim_random(rng) % (uint64_t)(high_ns - low_ns));
}

static int is_before(const struct sim_entry *a, const struct sim_entry *b) {
  if (a->at_ns != b->at_ns) return a->at_ns < b->at_ns;
  return a->order < b->order;
}

static void swap(struct sim_agenda *agenda, size_t i, size_t j) {
  const struct sim_entry kept = agenda->entries[i];
  agenda->entries[i] = agenda->entries[j];
  agenda->entries[j] = kept;
}

static void grow(struct sim_agenda *agenda) {
  const size_t cap = agenda->cap == 0 ? 64 : agenda->cap * 2;
  struct sim_entry *entries =
      realloc(agenda->entries, cap * sizeof *agenda->entries);
  if (entries == NULL) {
    (void)fprintf(stderr, "sim: no memory\n");
    exit(2);
  }
  agenda->entries = entries;
  agenda->cap = cap;
}

void sim_agenda_put(struct sim_agenda *agenda, struct sim_entry entry) {
  if (agenda->count == agenda->cap) grow(agenda);
  size_t i = agenda->count++;
  entry.order = agenda->made++;
  agenda->entries[i] = entry;
  while (i > 0) {
    const size_t above = (i - 1) / 2;
    if (!is_before(&agenda->entries[i], &agenda->entries[above])) break;
    swap(agenda, i, above);
    i = above;
  }
}

int sim_agenda_take(struct sim_agenda *agenda, struct sim_entry *entry) {
  if (agenda->count == 0) return 0;
  *entry = agenda->entries[0];
  agenda->entries[0] = agenda->entries[--agenda->count];
  size_t i = 0;
  for (;;) {
    size_t first = i;
    for (size_t below = 2 * i + 1; below <= 2 * i + 2; below++) {
      if (below < agenda->count &&
          is_before(&agenda->entries[below], &agenda->entries[first])) {
        first = below;
      }
    }
    if (first == i) return 1;
    swap(agenda, i, first);
    i = first;
  }
}

int64_t sim_agenda_next_ns(const struct sim_agenda *agenda) {
  return agenda->count == 0 ? SIM_NEVER : agenda->entries[0].at_ns;
}

void sim_agenda_free(struct sim_agenda *agenda) {
  free(agenda->entries);
  *agenda = (struct sim_agenda){0};
}
