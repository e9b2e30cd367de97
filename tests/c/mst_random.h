// mst_random: numbers that look random and come from a seed (splitmix64), so
// that a failure can be replayed.
#ifndef MST_RANDOM_H
#define MST_RANDOM_H

#include <stdint.h>

// mst_random gives the next 64 bits; *state starts as the seed.
static inline uint64_t mst_random(uint64_t *state) {
  *state += UINT64_C(0x9E3779B97F4A7C15);
  uint64_t bits = *state;
  bits = (bits ^ bits >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  bits = (bits ^ bits >> 27) * UINT64_C(0x94D049BB133111EB);
  return bits ^ bits >> 31;
}

// mst_random_below gives a number from 0 to limit - 1; limit must not be 0. The
// bias of the remainder doesn't matter to a test.
static inline uint64_t mst_random_below(uint64_t *state, uint64_t limit) {
  return mst_random(state) % limit;
}

#endif
