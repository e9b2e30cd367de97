// The hashes of states that a search has met.
#ifndef SIM_SEEN_H
#define SIM_SEEN_H

#include <stdint.h>

struct seen {
  uint64_t *table; // 0: empty; the caller frees it
  uint32_t size, count;
};
// seen_add tells whether a hash, which isn't 0, is new, and notes it. Ends the process if memory is
// short.
int seen_add(struct seen *seen, uint64_t hash);

#endif
