// Four sums of products side by side: a multiplication has to wait for the one before, and a core
// can run four at once. Each word is mixed in by an odd constant, and the upper half of the
// product, which is mixed best, is folded into the lower.
#include "base/mst_hash.h"

#include <string.h>

#define LANES 4u
#define WORD sizeof(uint64_t)
static const uint64_t odd[LANES] = {
    UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xd6e8feb86659fd93),
    UINT64_C(0xa0761d6478bd642f), UINT64_C(0xe7037ed1a0b428db)};

static uint64_t mix(uint64_t sum, uint64_t word, uint64_t by) {
  sum = (sum ^ word) * by;
  return sum ^ (sum >> 32);
}

uint64_t mst_hash(const void *bytes, size_t n) {
  const unsigned char *at = bytes;
  uint64_t lane[LANES] = {n, odd[1], odd[2], odd[3]};
  size_t left = n;
  for (; left >= LANES * WORD; left -= LANES * WORD, at += LANES * WORD) {
    uint64_t words[LANES];
    memcpy(words, at, sizeof words);
    for (size_t i = 0; i < LANES; i++)
      lane[i] = mix(lane[i], words[i], odd[i]);
  }
  unsigned char last[LANES * WORD] = {0};
  if (left > 0) memcpy(last, at, left);
  uint64_t sum = 0;
  for (size_t i = 0; i < LANES; i++) {
    uint64_t word;
    memcpy(&word, last + i * WORD, WORD);
    sum = mix(sum, mix(lane[i], word, odd[i]), odd[0]);
  }
  return mix(sum, n, odd[1]);
}
