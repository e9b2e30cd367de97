// Names of addresses. See scan.h.
#include <arpa/inet.h>
#include <netdb.h>

#include "discover/scan.h"
#include "net/addr.h"

int mst_ip_name(const struct mst_ip *ip, char name[MST_NAME_MAX]) {
  uint8_t bytes[16];
  (void)mst_ip_bytes(ip, bytes);
  const struct mst_addr addr = ip->v6
                                   ? mst_addr_ip6(bytes, 0)
                                   : mst_addr_ip4(htonl((uint32_t)ip->low), 0);
  return getnameinfo(&addr.at.any, addr.len, name, MST_NAME_MAX, NULL, 0,
                     NI_NAMEREQD) == 0
             ? 0
             : -MST_ECONNECT;
}
