// addr: addresses of sockets. IPv4, IPv6 and unix paths in one value; text to address and back. No
// R, no state; any thread.
//
// A host in text is one of
//   10.1.2.3  fe80::1%eth0  [::1]    a number
//   /run/x.sock  unix:x.sock         the path of a unix socket; the port has no meaning
//   node07.example.org               a name, to be looked up
#ifndef MST_NET_ADDR_H
#define MST_NET_ADDR_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/mst_err.h"

struct mst_addr {
  socklen_t len; // bytes of `at` in use, 0 while it is empty
  union {
    struct sockaddr any;
    struct sockaddr_in in4;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
  } at;
};

// The longest host name in DNS.
#define MST_HOST_MAX 253u
// Fits the output of mst_addr_format and mst_addr_host: a unix path and its NUL.
#define MST_ADDR_TEXT_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) + 16u)
// At most this many addresses of a name are tried.
#define MST_ADDRS_MAX 16u

// mst_addr_is_path tells whether a host means a unix socket.
int mst_addr_is_path(const char *host);

// mst_addr_parse makes an address from a number or a path; "localhost" becomes 127.0.0.1. Never
// blocks. -MST_EAGAIN if host is a name, which mst_addr_lookup must resolve. -MST_EINPUT if it
// isn't any of these (characters that no name has, digits that aren't an address, a path or a name
// that is too long) or if port isn't from 0 to 65535.
int mst_addr_parse(const char *host, int port, struct mst_addr *out,
                   struct mst_err *err);

// mst_addr_lookup also resolves names, and gives at most max of their addresses, in the order in
// which to try them. "localhost" is 127.0.0.1 and then ::1, without a resolver. For names it blocks
// as long as the resolver does, which may be many seconds. -MST_ECONNECT if the name has no address
// or the resolver doesn't answer.
int mst_addr_lookup(const char *host, int port, struct mst_addr *out,
                    size_t max, size_t *count, struct mst_err *err);

// mst_addr_ip4 and mst_addr_ip6 make an address from bytes in network order.
struct mst_addr mst_addr_ip4(uint32_t ip_be, int port);
struct mst_addr mst_addr_ip6(const uint8_t ip[16], int port);

// mst_addr_port gives the port, 0 for a unix path; mst_addr_set_port changes it.
int mst_addr_port(const struct mst_addr *addr);
void mst_addr_set_port(struct mst_addr *addr, int port);
int mst_addr_is_unix(const struct mst_addr *addr);
// mst_addr_same compares family, host, port and scope.
int mst_addr_same(const struct mst_addr *one, const struct mst_addr *other);

// mst_addr_format writes "10.1.2.3:80", "[::1]:80" or a path; mst_addr_host the same without port
// and brackets. An unnamed unix socket is "unix:". Both return out, which has MST_ADDR_TEXT_MAX
// bytes.
char *mst_addr_format(const struct mst_addr *addr, char *out);
char *mst_addr_host(const struct mst_addr *addr, char *out);

// mst_addr_local and mst_addr_peer get a socket's own and its peer's address.
// -MST_ESYS; ENOTCONN if the socket has no peer.
int mst_addr_local(int fd, struct mst_addr *out, struct mst_err *err);
int mst_addr_peer(int fd, struct mst_addr *out, struct mst_err *err);

#endif
