// Addresses: text to bytes and back. See addr.h.
#include "net/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#define SCOPE_MAX 64u // "%" and the name of an interface

static const char unix_prefix[] = "unix:";
#define UNIX_PREFIX (sizeof unix_prefix - 1)

int mst_addr_is_path(const char *host) {
  return host[0] == '/' || strncmp(host, unix_prefix, UNIX_PREFIX) == 0;
}

static int parse_path(const char *host, struct mst_addr *out,
                      struct mst_err *err) {
  const char *path = host[0] == '/' ? host : host + UNIX_PREFIX;
  const size_t n = strlen(path);
  struct sockaddr_un *un = &out->at.un;
  if (n == 0 || n >= sizeof un->sun_path) {
    return mst_err_set(err, MST_EINPUT, n == 0 ? EINVAL : ENAMETOOLONG, NULL,
                       "a unix socket's path must have 1 to %u bytes, not %u",
                       (unsigned)sizeof un->sun_path - 1, (unsigned)n);
  }
  un->sun_family = AF_UNIX;
  memcpy(un->sun_path, path, n + 1);
  out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
  return 0;
}

struct mst_addr mst_addr_ip4(uint32_t ip_be, int port) {
  struct mst_addr addr;
  memset(&addr, 0, sizeof addr);
  addr.len = sizeof addr.at.in4;
  addr.at.in4.sin_family = AF_INET;
  addr.at.in4.sin_addr.s_addr = ip_be;
  addr.at.in4.sin_port = htons((uint16_t)port);
  return addr;
}

struct mst_addr mst_addr_ip6(const uint8_t ip[16], int port) {
  struct mst_addr addr;
  memset(&addr, 0, sizeof addr);
  addr.len = sizeof addr.at.in6;
  addr.at.in6.sin6_family = AF_INET6;
  memcpy(&addr.at.in6.sin6_addr, ip, 16);
  addr.at.in6.sin6_port = htons((uint16_t)port);
  return addr;
}

// scope_of gives the number of an interface from its name or number, 0 if it isn't either.
static uint32_t scope_of(const char *text) {
  const uint32_t index = if_nametoindex(text);
  if (index != 0) return index;
  uint32_t number = 0;
  for (; *text >= '0' && *text <= '9' && number < 100000000u; text++)
    number = number * 10 + (uint32_t)(*text - '0');
  return *text == '\0' ? number : 0;
}

// parse_ip6 reads an address, perhaps with a scope: fe80::1%eth0, fe80::1%2. Returns 1 on success.
static int parse_ip6(const char *host, size_t n, int port,
                     struct mst_addr *out) {
  char text[INET6_ADDRSTRLEN + SCOPE_MAX];
  if (n >= sizeof text) return 0;
  memcpy(text, host, n);
  text[n] = '\0';
  char *percent = strchr(text, '%');
  uint32_t scope = 0;
  if (percent != NULL) {
    *percent = '\0';
    scope = scope_of(percent + 1);
    if (scope == 0) return 0;
  }
  uint8_t ip[16];
  if (inet_pton(AF_INET6, text, ip) != 1) return 0;
  *out = mst_addr_ip6(ip, port);
  out->at.in6.sin6_scope_id = scope;
  return 1;
}

static int parse_number(const char *host, int port, struct mst_addr *out) {
  const size_t n = strlen(host);
  uint32_t ip;
  if (inet_pton(AF_INET, host, &ip) == 1) {
    *out = mst_addr_ip4(ip, port);
    return 1;
  }
  if (host[0] == '[' && n > 2 && host[n - 1] == ']') {
    return parse_ip6(host + 1, n - 2, port, out);
  }
  return parse_ip6(host, n, port, out);
}

// is_name tells whether host may be looked up. Obvious mistakes, like the / of a network or digits
// that are nearly an address, aren't sent to a resolver.
static int is_name(const char *host) {
  const size_t n = strlen(host);
  int letters = 0;
  if (n == 0 || n > MST_HOST_MAX || host[0] == '-') return 0;
  for (const char *c = host; *c != '\0'; c++) {
    const int letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                       *c == '_' || *c == '-';
    letters |= letter;
    if (!letter && !(*c >= '0' && *c <= '9') && *c != '.') return 0;
  }
  return letters;
}

static int is_localhost(const char *host) {
  return strcmp(host, "localhost") == 0;
}

int mst_addr_parse(const char *host, int port, struct mst_addr *out,
                   struct mst_err *err) {
  memset(out, 0, sizeof *out);
  if (port < 0 || port > 65535) {
    return mst_err_set(err, MST_EINPUT, EINVAL, NULL,
                       "the port must be from 0 to 65535, not %d", port);
  }
  if (mst_addr_is_path(host)) return parse_path(host, out, err);
  if (is_localhost(host)) {
    *out = mst_addr_ip4(htonl(INADDR_LOOPBACK), port);
    return 0;
  }
  if (parse_number(host, port, out)) return 0;
  if (is_name(host)) return -MST_EAGAIN;
  return mst_err_set(err, MST_EINPUT, EINVAL, NULL,
                     "\"%.80s\" is neither an address nor a host name", host);
}

static int name_error(const char *host, int code, struct mst_err *err) {
  const int number = code == EAI_SYSTEM ? errno : 0;
  const char *why = code == EAI_SYSTEM ? strerror(number) : gai_strerror(code);
  return mst_err_set(err, MST_ECONNECT, number, "getaddrinfo",
                     "can't look up \"%.80s\": %s", host, why);
}

static int ask_resolver(const char *host, int port, struct mst_addr *out,
                        size_t max, size_t *count, struct mst_err *err) {
  struct addrinfo hints;
  struct addrinfo *found = NULL;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM; // or each address comes three times
  const int code = getaddrinfo(host, NULL, &hints, &found);
  if (code != 0) return name_error(host, code, err);
  for (const struct addrinfo *at = found; at != NULL && *count < max;
       at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    struct mst_addr *addr = &out[(*count)++];
    memset(addr, 0, sizeof *addr);
    addr->len = at->ai_addrlen;
    memcpy(&addr->at, at->ai_addr, at->ai_addrlen);
    mst_addr_set_port(addr, port);
  }
  freeaddrinfo(found);
  return *count > 0 ? 0 : name_error(host, EAI_NONAME, err);
}

int mst_addr_lookup(const char *host, int port, struct mst_addr *out,
                    size_t max, size_t *count, struct mst_err *err) {
  *count = 0;
  const int rc = mst_addr_parse(host, port, out, err);
  if (rc == -MST_EAGAIN) return ask_resolver(host, port, out, max, count, err);
  if (rc != 0) return rc;
  *count = 1;
  if (is_localhost(host) && max > 1) {
    out[(*count)++] = mst_addr_ip6(in6addr_loopback.s6_addr, port);
  }
  return 0;
}

int mst_addr_port(const struct mst_addr *addr) {
  if (addr->len == 0) return 0;
  if (addr->at.any.sa_family == AF_INET) return ntohs(addr->at.in4.sin_port);
  if (addr->at.any.sa_family == AF_INET6) return ntohs(addr->at.in6.sin6_port);
  return 0;
}

void mst_addr_set_port(struct mst_addr *addr, int port) {
  const in_port_t port_be = htons((uint16_t)port);
  if (addr->at.any.sa_family == AF_INET) addr->at.in4.sin_port = port_be;
  if (addr->at.any.sa_family == AF_INET6) addr->at.in6.sin6_port = port_be;
}

int mst_addr_is_unix(const struct mst_addr *addr) {
  return addr->len > 0 && addr->at.any.sa_family == AF_UNIX;
}

int mst_addr_same(const struct mst_addr *one, const struct mst_addr *other) {
  if (one->len == 0 || other->len == 0) return one->len == other->len;
  if (one->at.any.sa_family != other->at.any.sa_family) return 0;
  if (mst_addr_port(one) != mst_addr_port(other)) return 0;
  switch (one->at.any.sa_family) {
  case AF_INET:
    return one->at.in4.sin_addr.s_addr == other->at.in4.sin_addr.s_addr;
  case AF_INET6:
    return memcmp(&one->at.in6.sin6_addr, &other->at.in6.sin6_addr, 16) == 0 &&
           one->at.in6.sin6_scope_id == other->at.in6.sin6_scope_id;
  default:
    return strncmp(one->at.un.sun_path, other->at.un.sun_path,
                   sizeof one->at.un.sun_path) == 0;
  }
}

static char *format_path(const struct mst_addr *addr, char *out) {
  const size_t head = offsetof(struct sockaddr_un, sun_path);
  const size_t capacity = addr->len > head ? addr->len - head : 0;
  const size_t n =
      strnlen(addr->at.un.sun_path, capacity < sizeof addr->at.un.sun_path
                                        ? capacity
                                        : sizeof addr->at.un.sun_path);
  (void)snprintf(out, MST_ADDR_TEXT_MAX, "%s%.*s",
                 n > 0 && addr->at.un.sun_path[0] == '/' ? "" : unix_prefix,
                 (int)n, addr->at.un.sun_path);
  return out;
}

static char *format_ip6(const struct mst_addr *addr, char *out) {
  (void)inet_ntop(AF_INET6, &addr->at.in6.sin6_addr, out, MST_ADDR_TEXT_MAX);
  const uint32_t scope = addr->at.in6.sin6_scope_id;
  if (scope != 0) {
    const size_t n = strlen(out);
    char name[IF_NAMESIZE];
    if (if_indextoname(scope, name) != NULL) {
      (void)snprintf(out + n, MST_ADDR_TEXT_MAX - n, "%%%s", name);
    } else {
      (void)snprintf(out + n, MST_ADDR_TEXT_MAX - n, "%%%u", scope);
    }
  }
  return out;
}

char *mst_addr_host(const struct mst_addr *addr, char *out) {
  out[0] = '\0';
  if (addr->len == 0) return out;
  switch (addr->at.any.sa_family) {
  case AF_INET:
    (void)inet_ntop(AF_INET, &addr->at.in4.sin_addr, out, MST_ADDR_TEXT_MAX);
    return out;
  case AF_INET6:
    return format_ip6(addr, out);
  case AF_UNIX:
    return format_path(addr, out);
  default:
    return out;
  }
}

char *mst_addr_format(const struct mst_addr *addr, char *out) {
  char host[MST_ADDR_TEXT_MAX];
  (void)mst_addr_host(addr, host);
  const int brackets = addr->len > 0 && addr->at.any.sa_family == AF_INET6;
  if (addr->len == 0 || mst_addr_is_unix(addr)) {
    memcpy(out, host, sizeof host);
  } else {
    // A host here is a number, far shorter than the buffer.
    (void)snprintf(out, MST_ADDR_TEXT_MAX, "%s%.*s%s:%d", brackets ? "[" : "",
                   INET6_ADDRSTRLEN + (int)IF_NAMESIZE, host,
                   brackets ? "]" : "", mst_addr_port(addr));
  }
  return out;
}

int mst_addr_local(int fd, struct mst_addr *out, struct mst_err *err) {
  memset(out, 0, sizeof *out);
  out->len = sizeof out->at;
  if (getsockname(fd, &out->at.any, &out->len) == 0) return 0;
  out->len = 0;
  return mst_err_set(err, MST_ESYS, errno, "getsockname", "%s",
                     strerror(errno));
}

int mst_addr_peer(int fd, struct mst_addr *out, struct mst_err *err) {
  memset(out, 0, sizeof *out);
  out->len = sizeof out->at;
  if (getpeername(fd, &out->at.any, &out->len) == 0) return 0;
  out->len = 0;
  return mst_err_set(err, MST_ESYS, errno, "getpeername", "%s",
                     strerror(errno));
}
