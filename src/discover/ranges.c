// Sets of addresses as sorted ranges. See target.h.
#include <stdlib.h>

#include "discover/target.h"

static int by_address(const void *a, const void *b) {
  const struct mst_range *x = a, *y = b;
  if (x->v6 != y->v6) return x->v6 < y->v6 ? -1 : 1;
  if (x->net != y->net) return x->net < y->net ? -1 : 1;
  return x->first < y->first ? -1 : x->first > y->first;
}

static int same_space(const struct mst_range *a, const struct mst_range *b) {
  return a->v6 == b->v6 && a->net == b->net;
}

size_t mst_ranges_tidy(struct mst_range *ranges, size_t count) {
  if (count == 0) return 0;
  qsort(ranges, count, sizeof *ranges, by_address);
  size_t kept = 0;
  for (size_t i = 1; i < count; i++) {
    struct mst_range *before = &ranges[kept];
    const int touches =
        same_space(before, &ranges[i]) &&
        (before->last == UINT64_MAX || ranges[i].first <= before->last + 1);
    if (!touches) {
      ranges[++kept] = ranges[i];
    } else if (ranges[i].last > before->last) {
      before->last = ranges[i].last;
    }
  }
  return kept + 1;
}

size_t mst_ranges_less(const struct mst_range *ranges, size_t count,
                       const struct mst_range *without, size_t without_count,
                       struct mst_range *out) {
  size_t written = 0, j = 0;
  for (size_t i = 0; i < count; i++) {
    struct mst_range rest = ranges[i];
    int some = 1;
    // Those wholly before this range are before all later ranges, too.
    while (j < without_count && by_address(&without[j], &rest) < 0 &&
           !(same_space(&without[j], &rest) && without[j].last >= rest.first))
      j++;
    for (size_t k = j; some && k < without_count; k++) {
      const struct mst_range *cut = &without[k];
      if (!same_space(cut, &rest) || cut->first > rest.last) break;
      if (cut->last < rest.first) continue;
      if (cut->first > rest.first) {
        out[written] = rest;
        out[written++].last = cut->first - 1;
      }
      some = cut->last < rest.last;
      if (some) rest.first = cut->last + 1;
    }
    if (some) out[written++] = rest;
  }
  return written;
}

uint64_t mst_ranges_total(const struct mst_range *ranges, size_t count) {
  uint64_t total = 0;
  for (size_t i = 0; i < count; i++) {
    const uint64_t size = ranges[i].last - ranges[i].first; // less one
    if (size >= UINT64_MAX - total) return UINT64_MAX;
    total += size + 1;
  }
  return total;
}

// IPv4 blocks that aren't public: this network, private (RFC 1918), shared (RFC 6598), loopback,
// link-local (RFC 3927). Sorted.
static const struct mst_range local_v4[] = {
    {0, 0, 0x00000000, 0x00ffffff}, {0, 0, 0x0a000000, 0x0affffff},
    {0, 0, 0x64400000, 0x647fffff}, {0, 0, 0x7f000000, 0x7fffffff},
    {0, 0, 0xa9fe0000, 0xa9feffff}, {0, 0, 0xac100000, 0xac1fffff},
    {0, 0, 0xc0a80000, 0xc0a8ffff}};

// Unique local (RFC 4193), link-local and loopback addresses. All of a range has the same upper
// half.
static int is_local_v6(const struct mst_range *range) {
  const uint64_t top = range->net >> 48;
  return (top & 0xfe00) == 0xfc00 || (top & 0xffc0) == 0xfe80 ||
         (range->net == 0 && range->last <= 1);
}

int mst_range_public(const struct mst_range *range, struct mst_ip *first) {
  if (range->v6) {
    *first = (struct mst_ip){.v6 = 1, .net = range->net, .low = range->first};
    // Behind the unspecified address and loopback, which are 0 and 1.
    if (range->net == 0 && first->low <= 1) first->low = 2;
    return !is_local_v6(range);
  }
  struct mst_range rest[1 + sizeof local_v4 / sizeof local_v4[0]];
  const size_t n = mst_ranges_less(range, 1, local_v4,
                                   sizeof local_v4 / sizeof local_v4[0], rest);
  if (n > 0) *first = (struct mst_ip){.low = rest[0].first};
  return n > 0;
}

struct mst_ip mst_ranges_at(const struct mst_range *ranges,
                            const uint64_t *before, size_t count,
                            uint64_t address) {
  size_t low = 0, high = count; // before[low] <= address
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    if (before[middle] <= address) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const struct mst_range *range = &ranges[low];
  return (struct mst_ip){.v6 = range->v6,
                         .net = range->net,
                         .low = range->first + (address - before[low])};
}
