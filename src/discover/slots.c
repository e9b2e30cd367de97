// The system's limits. See scan.h.
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mst_features.h"
#include "base/mst_kernel.h"
#include "discover/scan.h"
#include "net/net.h"

// Left for R and others if many are free; a quarter if few are.
#define DESCRIPTORS_LEFT 64
// Half of the default of net.ipv4.neigh.default.gc_thresh3.
#define NEAR_MAX 512u

uint32_t mst_scan_slots(uint32_t wanted) {
  int64_t soft, hard, open_now;
  mst_net_fd_limits(&soft, &hard, &open_now);
  if (open_now < 0) open_now = DESCRIPTORS_LEFT;
  const int64_t free_now = soft - open_now - 1; // the scan's loop needs one
  const int64_t left =
      free_now / 4 < DESCRIPTORS_LEFT ? free_now / 4 : DESCRIPTORS_LEFT;
  int64_t room = free_now - left;
  const int64_t most = wanted > 0 ? wanted : MST_SCAN_IN_FLIGHT;
  if (room > most) room = most;
  return room < 1 ? 1 : (uint32_t)room;
}

uint32_t mst_scan_near_max(void) {
  char text[32]; // empty in a namespace that hides the limit
  (void)mst_kernel_read(MST_PROC "/sys/net/ipv4/neigh/default/gc_thresh3", text,
                        sizeof text);
  const int64_t entries = mst_kernel_number(text);
  if (entries < 2 || entries > 1 << 24) return NEAR_MAX;
  return (uint32_t)(entries / 2);
}

static int range_v4(const struct ifaddrs *at, struct mst_range *range) {
  struct sockaddr_in address, mask;
  memcpy(&address, at->ifa_addr, sizeof address);
  memcpy(&mask, at->ifa_netmask, sizeof mask);
  const uint32_t bits = ntohl(mask.sin_addr.s_addr);
  const uint32_t ip = ntohl(address.sin_addr.s_addr);
  *range = (struct mst_range){.first = ip & bits, .last = ip | ~bits};
  return 1;
}

static int range_v6(const struct ifaddrs *at, struct mst_range *range) {
  struct sockaddr_in6 address, mask;
  memcpy(&address, at->ifa_addr, sizeof address);
  memcpy(&mask, at->ifa_netmask, sizeof mask);
  const struct mst_ip ip = mst_ip_of_bytes(1, address.sin6_addr.s6_addr);
  const struct mst_ip bits = mst_ip_of_bytes(1, mask.sin6_addr.s6_addr);
  if (bits.net != UINT64_MAX) return 0; // no link is that large
  *range = (struct mst_range){.v6 = 1,
                              .net = ip.net,
                              .first = ip.low & bits.low,
                              .last = ip.low | ~bits.low};
  return 1;
}

size_t mst_scan_links(struct mst_range *ranges, size_t max) {
  struct ifaddrs *all = NULL;
  size_t n = 0;
  if (getifaddrs(&all) != 0) return 0;
  for (const struct ifaddrs *at = all; at != NULL && n < max;
       at = at->ifa_next) {
    if (at->ifa_addr == NULL || at->ifa_netmask == NULL) continue;
    if ((at->ifa_flags & (IFF_LOOPBACK | IFF_POINTOPOINT)) != 0) continue;
    if (at->ifa_addr->sa_family == AF_INET) {
      n += (size_t)range_v4(at, &ranges[n]);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      n += (size_t)range_v6(at, &ranges[n]);
    }
  }
  freeifaddrs(all);
  return mst_ranges_tidy(ranges, n);
}
