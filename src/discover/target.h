// target: the addresses to probe. Pure: text in, ranges of addresses out.
//
// A range never crosses a multiple of 2^64 addresses, so that it is two 64-bit numbers and the
// upper half of an IPv6 address. A range that did would exceed every limit anyway.
#ifndef MST_DISCOVER_TARGET_H
#define MST_DISCOVER_TARGET_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"

// The longest target: two IPv6 addresses with a dash are 79 characters.
#define MST_TARGET_TEXT_MAX 255u
// Fits an address as text, with its NUL.
#define MST_IP_TEXT_MAX 46u
// A larger block of IPv6 addresses can't be searched by probing: a /64 would take half a million
// years at a million probes a second.
#define MST_TARGET_V6_MAX (UINT64_C(1) << 24)

struct mst_ip {
  int v6;            // 0: IPv4, in the lower 32 bits of `low`
  uint64_t net, low; // upper and lower half of an IPv6 address
};

struct mst_range {
  int v6;
  uint64_t net;         // as in mst_ip; 0 for IPv4
  uint64_t first, last; // both belong to it
};

enum mst_target_kind { MST_TARGET_RANGE = 0, MST_TARGET_NAME = 1 };

// mst_ip_parse reads one address of n bytes, IPv4 as four decimal numbers without leading zeros, or
// IPv6 (RFC 4291). 0, or -MST_EINPUT.
int mst_ip_parse(const char *text, size_t n, struct mst_ip *ip);
// mst_ip_format writes the address; IPv6 as RFC 5952 recommends.
void mst_ip_format(const struct mst_ip *ip, char text[MST_IP_TEXT_MAX]);
// mst_ip_bytes writes the 4 or 16 bytes in network order and returns their number.
size_t mst_ip_bytes(const struct mst_ip *ip, uint8_t bytes[16]);
struct mst_ip mst_ip_of_bytes(int v6, const uint8_t *bytes);

// mst_target_parse reads one target of n bytes (without NUL): an address, a block (10.15.16.0/24,
// fd00::/120), or a range (10.0.0.1-10.0.0.50, or 10.0.0.1-50 for the last number). The first and
// last address of an IPv4 block up to /30 are left out unless edges is 1: they name the network and
// its broadcast. Returns MST_TARGET_RANGE with *range filled; MST_TARGET_NAME if it could be a
// host's name; -MST_EINPUT, or -MST_ELIMIT for an IPv6 block that is too large, with the reason.
int mst_target_parse(const char *text, size_t n, int edges,
                     struct mst_range *range, struct mst_err *err);

// mst_ranges_tidy sorts ranges by address, IPv4 first, and joins those that touch or overlap.
// Returns the number left.
size_t mst_ranges_tidy(struct mst_range *ranges, size_t count);

// mst_ranges_less subtracts tidy ranges `without` from tidy `ranges` and writes the rest to out,
// which has room for count + without_count. Returns the number written.
size_t mst_ranges_less(const struct mst_range *ranges, size_t count,
                       const struct mst_range *without, size_t without_count,
                       struct mst_range *out);

// mst_ranges_total counts addresses; UINT64_MAX if there are more.
uint64_t mst_ranges_total(const struct mst_range *ranges, size_t count);
// mst_ranges_at gives an address by its number, from 0, in all ranges; before[i] is the number of
// addresses in ranges before i. The number must be below their total.
struct mst_ip mst_ranges_at(const struct mst_range *ranges,
                            const uint64_t *before, size_t count,
                            uint64_t address);

// mst_range_public tells whether the range has a public address, and gives the first: one that
// isn't private, local, shared (RFC 6598) or link-local.
int mst_range_public(const struct mst_range *range, struct mst_ip *first);

#endif
