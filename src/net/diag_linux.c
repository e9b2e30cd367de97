// Listeners and connections by netlink's sock_diag and TCP_INFO. See diag.h.
//
// One dump for each family contains listeners and half-open connections. A half-open connection
// names no listener, so it is counted for the listener that it would go to: the one with its
// address, else one that listens on all addresses of that port. Not chosen: /proc/net/tcp, which
// lacks the backlog and has a line for each connection of the machine.
#include "net/diag.h"

#include "base/mst_features.h"

#if MST_HAVE_DIAG
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

// The kernel sends packets of up to 32 KB if the reader's buffer fits them.
#define PACKET_BYTES 32768
// The kernel answers from memory; this only ends a wait that should never happen.
#define ANSWER_S 2

// ---- the kernel's answer

static int grow(struct mst_diag_list *list, struct mst_err *err) {
  if (list->count < list->cap) return 0;
  if (list->count >= MST_DIAG_LISTENERS_MAX) {
    return mst_err_set(err, MST_ELIMIT, 0, NULL, "more than %u TCP sockets",
                       MST_DIAG_LISTENERS_MAX);
  }
  const size_t cap = list->cap == 0 ? 64 : 2 * list->cap;
  struct mst_diag_listener *items =
      realloc(list->items, cap * sizeof *list->items);
  if (items == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "realloc",
                       "no memory for a list of sockets");
  }
  list->items = items;
  list->cap = cap;
  return 0;
}

// drops_of finds the count of dropped packets in the attributes after a socket's message; -1 if it
// is missing. SK_MEMINFO_DROPS is newer than some systems' headers.
#define MEMINFO_DROPS 8
static int64_t drops_of(const uint8_t *bytes, size_t n) {
  struct nlattr head;
  for (size_t at = 0; at < n && n - at >= sizeof head;) {
    memcpy(&head, bytes + at, sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > n - at) return -1;
    const size_t value_n = head.nla_len - sizeof head;
    if (head.nla_type == INET_DIAG_SKMEMINFO &&
        value_n >= (MEMINFO_DROPS + 1) * sizeof(uint32_t)) {
      uint32_t drops;
      memcpy(&drops,
             bytes + at + sizeof head + MEMINFO_DROPS * sizeof(uint32_t),
             sizeof drops);
      return drops;
    }
    const size_t step = NLA_ALIGN(head.nla_len);
    at = step > n - at ? n : at + step;
  }
  return -1;
}

static int take_socket(const struct inet_diag_msg *socket, int64_t drops,
                       struct mst_diag_list *list,
                       struct mst_diag_list *half_open, struct mst_err *err) {
  const int is_listener = socket->idiag_state == TCP_LISTEN;
  struct mst_diag_list *into = is_listener ? list : half_open;
  // During a flood of SYNs the exact number doesn't matter.
  if (!is_listener && into->count >= MST_DIAG_LISTENERS_MAX) return 0;
  const int rc = grow(into, err);
  if (rc != 0) return rc;
  struct mst_diag_listener *item = &into->items[into->count++];
  *item = (struct mst_diag_listener){
      .inode = socket->idiag_inode,
      .drops = drops,
      .uid = socket->idiag_uid,
      .depth = is_listener ? socket->idiag_rqueue : 0,
      .backlog = is_listener ? socket->idiag_wqueue : 0,
      .port = ntohs(socket->id.idiag_sport),
      .is_v6 = socket->idiag_family == AF_INET6};
  memcpy(item->address, socket->id.idiag_src, item->is_v6 ? 16 : 4);
  return 0;
}

static int no_answer(struct mst_err *err) {
  return mst_err_set(err, MST_EPROTO, 0, "sock_diag",
                     "the kernel's answer is truncated");
}

int mst_diag_dump_take(const uint8_t *bytes, size_t n,
                       struct mst_diag_list *list,
                       struct mst_diag_list *half_open, struct mst_err *err) {
  struct nlmsghdr head;
  struct inet_diag_msg socket;
  struct nlmsgerr error;
  for (size_t at = 0; at < n;) {
    if (n - at < sizeof head) return no_answer(err);
    memcpy(&head, bytes + at, sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > n - at) {
      return no_answer(err);
    }
    const uint8_t *body = bytes + at + NLMSG_HDRLEN;
    const size_t body_n = head.nlmsg_len - sizeof head;
    if (head.nlmsg_type == NLMSG_DONE) return 0;
    if (head.nlmsg_type == NLMSG_ERROR) {
      if (body_n < sizeof error) return no_answer(err);
      memcpy(&error, body, sizeof error);
      const int number =
          error.error < 0 && error.error > -4096 ? -error.error : EPROTO;
      return mst_err_set(err, MST_ESYS, number, "sock_diag", "%s",
                         strerror(number));
    }
    if (head.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
      if (body_n < sizeof socket) return no_answer(err);
      memcpy(&socket, body, sizeof socket);
      const int64_t drops =
          drops_of(body + sizeof socket, body_n - sizeof socket);
      const int rc = take_socket(&socket, drops, list, half_open, err);
      if (rc != 0) return rc;
    }
    const size_t step = NLMSG_ALIGN(head.nlmsg_len);
    at = step > n - at ? n : at + step;
  }
  return 1;
}

// ---- asking

static int open_netlink(struct mst_err *err) {
  const struct timeval wait = {.tv_sec = ANSWER_S};
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) {
    return mst_err_set(err, MST_ESYS, errno, "socket",
                       "the kernel doesn't list sockets: %s", strerror(errno));
  }
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  return fd;
}

static int ask(int fd, uint8_t family, struct mst_err *err) {
  struct {
    struct nlmsghdr head;
    struct inet_diag_req_v2 want;
  } question;
  memset(&question, 0, sizeof question);
  question.head.nlmsg_len = sizeof question;
  question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  question.want.sdiag_family = family;
  question.want.sdiag_protocol = IPPROTO_TCP;
  question.want.idiag_ext = 1u << (INET_DIAG_SKMEMINFO - 1);
  question.want.idiag_states = 1u << TCP_LISTEN | 1u << TCP_SYN_RECV;
  ssize_t sent;
  do {
    sent = send(fd, &question, sizeof question, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    return mst_err_set(err, MST_ESYS, errno, "send", "%s", strerror(errno));
  }
  return 0;
}

static int dump(int fd, uint8_t family, uint8_t *packet,
                struct mst_diag_list *list, struct mst_diag_list *half_open,
                struct mst_err *err) {
  int rc = ask(fd, family, err);
  if (rc != 0) return rc;
  do {
    const ssize_t got = recv(fd, packet, PACKET_BYTES, 0);
    if (got < 0 && errno == EINTR) {
      rc = 1;
    } else if (got < 0) {
      rc = mst_err_set(err, MST_ESYS, errno, "recv", "%s", strerror(errno));
    } else if (got == 0) {
      rc = no_answer(err);
    } else {
      rc = mst_diag_dump_take(packet, (size_t)got, list, half_open, err);
    }
  } while (rc == 1);
  return rc;
}

// ---- half-open connections to their listeners

static int is_any(const struct mst_diag_listener *item) {
  static const uint8_t zero[16];
  return memcmp(item->address, zero, sizeof zero) == 0;
}

// fits rates how well a listener fits: 3 by address, 2 as one for all addresses of its family, 1
// for others of the port, 0 not at all.
static int fits(const struct mst_diag_listener *listener,
                const struct mst_diag_listener *half) {
  if (listener->port != half->port) return 0;
  const int is_same = listener->is_v6 == half->is_v6;
  if (is_same && memcmp(listener->address, half->address, 16) == 0) return 3;
  if (is_any(listener)) return is_same ? 2 : 1;
  // A listener of IPv6 has IPv4 clients too; their requests carry no address.
  return is_any(half) ? 1 : 0;
}

static void count_half_open(struct mst_diag_list *list,
                            const struct mst_diag_list *half_open) {
  for (size_t i = 0; i < half_open->count; i++) {
    struct mst_diag_listener *best = NULL;
    int best_fit = 0;
    for (size_t k = 0; k < list->count; k++) {
      const int fit = fits(&list->items[k], &half_open->items[i]);
      if (fit > best_fit) {
        best = &list->items[k];
        best_fit = fit;
      }
    }
    if (best != NULL) best->half_open++;
  }
}

// keep drops listeners that weren't asked for.
static void keep(struct mst_diag_list *list, uint16_t port, uint64_t inode) {
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++) {
    const struct mst_diag_listener *item = &list->items[i];
    if ((port == 0 || item->port == port) &&
        (inode == 0 || item->inode == inode)) {
      list->items[kept++] = *item;
    }
  }
  list->count = kept;
}

void mst_diag_free(struct mst_diag_list *list) {
  free(list->items);
  *list = (struct mst_diag_list){0};
}

int mst_diag_listeners(uint16_t port, uint64_t inode,
                       struct mst_diag_list *list, struct mst_err *err) {
  struct mst_diag_list half_open = {0};
  *list = (struct mst_diag_list){0};
  int rc;
  uint8_t *packet = malloc(PACKET_BYTES);
  if (packet == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a packet");
  }
  const int fd = open_netlink(err);
  if (fd < 0) {
    free(packet);
    return fd;
  }
  rc = dump(fd, AF_INET, packet, list, &half_open, err);
  if (rc == 0) {
    // A kernel without IPv6 has no IPv6 listeners.
    struct mst_err ignored;
    mst_err_clear(&ignored);
    rc = dump(fd, AF_INET6, packet, list, &half_open, &ignored);
    if (rc == -MST_ESYS) {
      rc = 0;
    } else if (rc != 0 && err != NULL) {
      *err = ignored;
    }
  }
  if (rc == 0) {
    count_half_open(list, &half_open);
    keep(list, port, inode);
  }
  (void)close(fd);
  free(packet);
  mst_diag_free(&half_open);
  return rc;
}

int mst_diag_listener_of(int fd, struct mst_diag_listener *listener,
                         struct mst_err *err) {
  struct stat about;
  struct mst_diag_list list;
  memset(listener, 0, sizeof *listener);
  if (fstat(fd, &about) != 0) {
    return mst_err_set(err, MST_ESYS, errno, "fstat", "%s", strerror(errno));
  }
  int rc = mst_diag_listeners(0, (uint64_t)about.st_ino, &list, err);
  if (rc == 0 && list.count == 0) {
    rc = mst_err_set(err, MST_EINPUT, 0, NULL,
                     "descriptor %d isn't a listening TCP socket", fd);
  }
  if (rc == 0) *listener = list.items[0];
  mst_diag_free(&list);
  return rc;
}

// ---- one connection

int mst_diag_tcp_look(int fd, struct mst_diag_tcp *tcp, struct mst_err *err) {
  struct tcp_info info;
  socklen_t n = sizeof info;
  memset(&info, 0, sizeof info); // an older kernel fills only part
  memset(tcp, 0, sizeof *tcp);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0) {
    return mst_err_set(err, MST_ESYS, errno, "getsockopt", "%s",
                       strerror(errno));
  }
  const int is_listener = info.tcpi_state == TCP_LISTEN;
  tcp->state = info.tcpi_state;
  tcp->rtt_us = info.tcpi_rtt;
  tcp->rttvar_us = info.tcpi_rttvar;
  tcp->rto_us = info.tcpi_rto;
  tcp->retransmits_total = info.tcpi_total_retrans;
  tcp->lost = info.tcpi_lost;
  // For a listener the kernel reuses two of the fields.
  tcp->depth = is_listener ? info.tcpi_unacked : 0;
  tcp->backlog = is_listener ? info.tcpi_sacked : 0;
  return 0;
}

const char *mst_diag_state_name(int32_t state) {
  static const char *const names[] = {"unknown",   "established", "syn-sent",
                                      "syn-recv",  "fin-wait-1",  "fin-wait-2",
                                      "time-wait", "close",       "close-wait",
                                      "last-ack",  "listen",      "closing"};
  const int32_t n = (int32_t)(sizeof names / sizeof names[0]);
  return names[state > 0 && state < n ? state : 0];
}

#endif
