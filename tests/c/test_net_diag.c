// Tests of net/diag: listeners whose queues really overflow, real connections, and the
// kernel's texts.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mst_test.h"
#include "net/diag.h"

#define CLIENTS 6
#define BACKLOG 2

static struct mst_err err;

// ---- sockets made for a test

static struct sockaddr_in address_of(int fd) {
  struct sockaddr_in address;
  socklen_t n = sizeof address;
  CHECK_INT(getsockname(fd, (struct sockaddr *)&address, &n), 0);
  return address;
}

static int listen_at(uint32_t host, int backlog) {
  const struct sockaddr_in any_port = {.sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(host)};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK(fd >= 0);
  CHECK_INT(bind(fd, (const struct sockaddr *)&any_port, sizeof any_port), 0);
  CHECK_INT(listen(fd, backlog), 0);
  return fd;
}

// connect_to starts a connect and comes back at once.
static int connect_to(uint32_t host, uint16_t port) {
  const struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = htons(port),
                                 .sin_addr.s_addr = htonl(host)};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  CHECK(fd >= 0);
  const int rc = connect(fd, (const struct sockaddr *)&to, sizeof to);
  CHECK(rc == 0 || errno == EINPROGRESS);
  return fd;
}

static int is_connected(int fd, int timeout_ms) {
  struct pollfd wait = {.fd = fd, .events = POLLOUT};
  return poll(&wait, 1, timeout_ms) == 1 && (wait.revents & POLLERR) == 0;
}

// listener_at looks up the listener by its port.
static struct mst_diag_listener listener_at(uint16_t port) {
  struct mst_diag_list list;
  const int rc = mst_diag_listeners(port, 0, &list, &err);
  if (rc == -MST_ESYS) mst_test_skip("the kernel doesn't list sockets");
  CHECK_INT(rc, 0);
  CHECK_INT(list.count, 1);
  const struct mst_diag_listener found = list.items[0];
  mst_diag_free(&list);
  CHECK(list.items == NULL);
  return found;
}

static int64_t count_of(enum mst_diag_counter counter) {
  struct mst_diag_counters counters;
  CHECK_INT(mst_diag_counters_read("/proc", &counters, &err), 0);
  CHECK(counters.value[counter] >= 0);
  return counters.value[counter];
}

// ---- listeners

TEST("F1: a listener of backlog 2 without accepts is seen to overflow") {
  const int fd = listen_at(INADDR_LOOPBACK, BACKLOG);
  const uint16_t port = ntohs(address_of(fd).sin_port);
  struct mst_diag_listener now = listener_at(port);
  CHECK_INT(now.depth, 0);
  CHECK_INT(now.backlog, BACKLOG);
  CHECK(now.drops <= 0); // -1: an old kernel
  const int64_t overflows = count_of(MST_DIAG_LISTEN_OVERFLOWS);
  const int64_t drops = count_of(MST_DIAG_LISTEN_DROPS);
  int clients[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = connect_to(INADDR_LOOPBACK, port);
  }
  // The queue holds one more than its backlog.
  for (int i = 0; i <= BACKLOG; i++) {
    CHECK(is_connected(clients[i], 5000));
  }
  now = listener_at(port);
  CHECK_INT(now.depth, BACKLOG + 1);
  CHECK_INT(now.backlog, BACKLOG);
  CHECK(now.drops == -1 || now.drops >= CLIENTS - BACKLOG - 1);
  CHECK_INT(now.port, port);
  CHECK_INT(now.is_v6, 0);
  CHECK_INT(now.uid, getuid());
  CHECK(memcmp(now.address, (const uint8_t[]){127, 0, 0, 1}, 4) == 0);
  CHECK(count_of(MST_DIAG_LISTEN_OVERFLOWS) >=
        overflows + CLIENTS - BACKLOG - 1);
  CHECK(count_of(MST_DIAG_LISTEN_DROPS) >= drops + CLIENTS - BACKLOG - 1);
  struct mst_diag_tcp last;
  CHECK_INT(mst_diag_tcp_look(clients[CLIENTS - 1], &last, &err), 0);
  CHECK_TEXT(mst_diag_state_name(last.state), "syn-sent");
  // The descriptor itself gives the same numbers, even without netlink.
  struct mst_diag_tcp self;
  CHECK_INT(mst_diag_tcp_look(fd, &self, &err), 0);
  CHECK_TEXT(mst_diag_state_name(self.state), "listen");
  CHECK_INT(self.depth, BACKLOG + 1);
  CHECK_INT(self.backlog, BACKLOG);
  // One accepted connection makes room.
  const int taken = accept(fd, NULL, NULL);
  CHECK(taken >= 0);
  CHECK_INT(listener_at(port).depth, BACKLOG);
  (void)close(taken);
  for (int i = 0; i < CLIENTS; i++) {
    (void)close(clients[i]);
  }
  (void)close(fd);
}

TEST("A handshake whose last packet is lost is counted as half-open") {
  // The listener's filter passes SYNs and drops all packets without that flag.
  struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),
                               BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 2, 0, 1),
                               BPF_STMT(BPF_RET | BPF_K, 0xFFFF),
                               BPF_STMT(BPF_RET | BPF_K, 0)};
  const struct sock_fprog filter = {.len = 4, .filter = code};
  for (int all = 0; all < 2; all++) {
    const int fd = listen_at(all ? INADDR_ANY : INADDR_LOOPBACK, 5);
    const uint16_t port = ntohs(address_of(fd).sin_port);
    CHECK_INT(listener_at(port).half_open, 0);
    CHECK_INT(
        setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter),
        0);
    const int one = connect_to(INADDR_LOOPBACK, port);
    const int two = connect_to(INADDR_LOOPBACK + (uint32_t)all, port);
    CHECK(is_connected(one, 5000) && is_connected(two, 5000));
    const struct mst_diag_listener now = listener_at(port);
    CHECK_INT(now.depth, 0);
    CHECK_INT(now.half_open, 2);
    (void)close(one);
    (void)close(two);
    (void)close(fd);
  }
}

TEST("All listeners are listed, each with its own address and inode") {
  const int a = listen_at(INADDR_LOOPBACK, 5);
  const int b = listen_at(0x7F0A0B0C, 7);
  struct mst_diag_list list;
  const int rc = mst_diag_listeners(0, 0, &list, &err);
  if (rc == -MST_ESYS) mst_test_skip("the kernel doesn't list sockets");
  CHECK_INT(rc, 0);
  struct stat about;
  CHECK_INT(fstat(b, &about), 0);
  int seen = 0;
  for (size_t i = 0; i < list.count; i++) {
    const struct mst_diag_listener *item = &list.items[i];
    if (item->inode != (uint64_t)about.st_ino) continue;
    seen++;
    CHECK_INT(item->backlog, 7);
    CHECK(memcmp(item->address, (const uint8_t[]){127, 10, 11, 12}, 4) == 0);
  }
  CHECK_INT(seen, 1);
  CHECK(list.count >= 2);
  mst_diag_free(&list);
  struct mst_diag_listener one;
  CHECK_INT(mst_diag_listener_of(a, &one, &err), 0);
  CHECK_INT(one.backlog, 5);
  CHECK_INT(one.port, ntohs(address_of(a).sin_port));
  (void)close(a);
  (void)close(b);
}

TEST("A listener of IPv6 has its whole address") {
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                 .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  socklen_t n = sizeof address;
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, n) != 0) {
    mst_test_skip("there is no IPv6");
  }
  CHECK_INT(listen(fd, 3), 0);
  CHECK_INT(getsockname(fd, (struct sockaddr *)&address, &n), 0);
  const struct mst_diag_listener now = listener_at(ntohs(address.sin6_port));
  CHECK_INT(now.is_v6, 1);
  CHECK_INT(now.backlog, 3);
  CHECK(memcmp(now.address, &address.sin6_addr, 16) == 0);
  (void)close(fd);
}

TEST("A socket that doesn't listen isn't a listener, and the error says so") {
  struct mst_diag_listener none;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int rc = mst_diag_listener_of(fd, &none, &err);
  if (rc == -MST_ESYS) mst_test_skip("the kernel doesn't list sockets");
  CHECK_INT(rc, -MST_EINPUT);
  CHECK_INT(mst_diag_listener_of(-1, &none, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, EBADF);
  CHECK_INT(mst_diag_listener_of(fd, &none, NULL), -MST_EINPUT);
  (void)close(fd);
}

// ---- one connection

TEST("A connection has its state and round trip") {
  NEEDS(MST_HAVE_DIAG);
  const int fd = listen_at(INADDR_LOOPBACK, 5);
  const int client =
      connect_to(INADDR_LOOPBACK, ntohs(address_of(fd).sin_port));
  CHECK(is_connected(client, 5000));
  const int served = accept(fd, NULL, NULL);
  CHECK(served >= 0);
  struct mst_diag_tcp tcp;
  CHECK_INT(mst_diag_tcp_look(client, &tcp, &err), 0);
  CHECK_TEXT(mst_diag_state_name(tcp.state), "established");
  CHECK(tcp.rtt_us > 0 && tcp.rtt_us < 5000000);
  CHECK(tcp.rto_us >= 1000);
  CHECK_INT(tcp.retransmits_total, 0);
  CHECK_INT(tcp.depth, 0);
  CHECK_INT(tcp.backlog, 0);
  (void)close(served);
  struct pollfd wait = {.fd = client, .events = POLLIN};
  CHECK_INT(poll(&wait, 1, 5000), 1);
  CHECK_INT(mst_diag_tcp_look(client, &tcp, &err), 0);
  CHECK_TEXT(mst_diag_state_name(tcp.state), "close-wait");
  (void)close(client);
  (void)close(fd);
}

TEST("Unacknowledged bytes are counted as sent again") {
  NEEDS(MST_HAVE_DIAG);
  struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const struct sock_fprog none = {.len = 1, .filter = code};
  const int fd = listen_at(INADDR_LOOPBACK, 5);
  const int client =
      connect_to(INADDR_LOOPBACK, ntohs(address_of(fd).sin_port));
  CHECK(is_connected(client, 5000));
  const int served = accept(fd, NULL, NULL);
  CHECK_INT(
      setsockopt(served, SOL_SOCKET, SO_ATTACH_FILTER, &none, sizeof none), 0);
  const int64_t before = count_of(MST_DIAG_RETRANS_SEGS);
  CHECK_INT(send(client, "x", 1, MSG_NOSIGNAL), 1);
  struct mst_diag_tcp tcp;
  // A probe of the tail, or the timer's after 0.2 s.
  for (int i = 0; i < 500; i++) {
    CHECK_INT(mst_diag_tcp_look(client, &tcp, &err), 0);
    if (tcp.retransmits_total > 0) break;
    (void)poll(NULL, 0, 10);
  }
  CHECK(tcp.retransmits_total > 0);
  CHECK(count_of(MST_DIAG_RETRANS_SEGS) > before);
  (void)close(client);
  (void)close(served);
  (void)close(fd);
}

TEST("A socket other than TCP has no TCP state") {
  NEEDS(MST_HAVE_DIAG);
  struct mst_diag_tcp tcp;
  int pair[2];
  CHECK_INT(mst_diag_tcp_look(-1, &tcp, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, EBADF);
  CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  CHECK_INT(mst_diag_tcp_look(pair[0], &tcp, &err), -MST_ESYS);
  CHECK_TEXT(mst_diag_state_name(tcp.state), "unknown");
  (void)close(pair[0]);
  (void)close(pair[1]);
  CHECK_TEXT(mst_diag_state_name(-1), "unknown");
  CHECK_TEXT(mst_diag_state_name(99), "unknown");
}

// ---- the kernel's answer, truncated and forged

TEST("A truncated answer of the kernel, or an error, isn't a list") {
  NEEDS(MST_HAVE_DIAG);
  struct mst_diag_list list = {0}, half = {0};
  uint8_t bytes[64] = {0};
  CHECK_INT(mst_diag_dump_take(bytes, 0, &list, &half, &err), 1);
  CHECK_INT(mst_diag_dump_take(bytes, 7, &list, &half, &err), -MST_EPROTO);
  CHECK_INT(mst_diag_dump_take(bytes, 16, &list, &half, &err), -MST_EPROTO);
  const uint32_t too_long = 65;
  memcpy(bytes, &too_long, 4);
  CHECK_INT(mst_diag_dump_take(bytes, 64, &list, &half, &err), -MST_EPROTO);
  const uint32_t error_length = 36;
  const int32_t number = -ENOENT;
  memcpy(bytes, &error_length, 4);
  bytes[4] = 2; // NLMSG_ERROR
  memcpy(bytes + 16, &number, 4);
  CHECK_INT(mst_diag_dump_take(bytes, 36, &list, &half, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOENT);
  bytes[4] = 3; // NLMSG_DONE
  CHECK_INT(mst_diag_dump_take(bytes, 36, &list, &half, &err), 0);
  CHECK_INT(list.count + half.count, 0);
}

// One message of a listener with attributes behind it, as the kernel sends them.
static int64_t drops_in(const uint8_t *attributes, size_t n, size_t cut) {
  struct mst_diag_list list = {0}, half = {0};
  struct {
    struct nlmsghdr head;
    struct inet_diag_msg socket;
    uint8_t rest[128];
  } message;
  memset(&message, 0, sizeof message);
  message.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.head.nlmsg_len =
      (uint32_t)(sizeof message.head + sizeof message.socket + n - cut);
  message.socket.idiag_state = 10; // TCP_LISTEN
  memcpy(message.rest, attributes, n);
  CHECK_INT(mst_diag_dump_take((const uint8_t *)&message,
                               message.head.nlmsg_len, &list, &half, &err),
            1);
  CHECK_INT(list.count, 1);
  const int64_t drops = list.items[0].drops;
  mst_diag_free(&list);
  return drops;
}

TEST(
    "Dropped packets are found among a listener's attributes, and only whole") {
  NEEDS(MST_HAVE_DIAG);
  uint32_t words[12] = {0};
  const uint16_t other[] = {5, 8}; // one byte, padded to 8 in all
  const uint16_t memory[] = {4 + 9 * 4, INET_DIAG_SKMEMINFO};
  memcpy(words, other, sizeof other);
  memcpy(words + 2, memory, sizeof memory);
  words[2 + 1 + 8] = 4000000000u;
  const uint8_t *bytes = (const uint8_t *)words;
  CHECK_INT(drops_in(bytes, sizeof words, 0), 4000000000);
  for (size_t cut = 1; cut <= sizeof words; cut++) {
    CHECK_INT(drops_in(bytes, sizeof words, cut), -1);
  }
  // Kernels before 4.7 have eight numbers there.
  const uint16_t shorter[] = {4 + 8 * 4, INET_DIAG_SKMEMINFO};
  memcpy(words + 2, shorter, sizeof shorter);
  CHECK_INT(drops_in(bytes, sizeof words, 4), -1);
  const uint16_t none[] = {0, INET_DIAG_SKMEMINFO};
  memcpy(words + 2, none, sizeof none);
  CHECK_INT(drops_in(bytes, sizeof words, 0), -1);
}

// ---- counters

static struct mst_diag_counters parsed(const char *text, int found) {
  struct mst_diag_counters counters;
  mst_diag_counters_clear(&counters);
  CHECK_INT(mst_diag_counters_parse(text, strlen(text), &counters), found);
  return counters;
}

TEST("Counters are found by name, at any position") {
  const struct mst_diag_counters got =
      parsed("TcpExt: ListenDrops Other ListenOverflows\n"
             "TcpExt: 12 99 4000\n"
             "IpExt: ListenDrops\nIpExt: 7\n"
             "Tcp: MaxConn OutSegs RetransSegs\n"
             "Tcp: -1 18446744073709551615 9223372036854775807",
             3);
  CHECK_INT(got.value[MST_DIAG_LISTEN_DROPS], 12);
  CHECK_INT(got.value[MST_DIAG_LISTEN_OVERFLOWS], 4000);
  CHECK_INT(got.value[MST_DIAG_RETRANS_SEGS], INT64_MAX);
  CHECK_INT(got.value[MST_DIAG_OUT_SEGS], -1);
  CHECK_INT(got.value[MST_DIAG_REQ_FULL_DROP], -1);
}

TEST("Texts that aren't the kernel's have no counters") {
  (void)parsed("", 0);
  (void)parsed("\n\n\n", 0);
  (void)parsed("TcpExt: ListenDrops\n", 0);
  (void)parsed("TcpExt: ListenDrops\nTcp: 5\n", 0);
  (void)parsed("TcpExt: ListenDrops\nTcpExt:\n", 0);
  (void)parsed("TcpExt: ListenDrops\nTcpExt: 5x\n", 0);
  (void)parsed("TcpExt: ListenDrops\nTcpExt: -5\n", 0);
  (void)parsed(": ListenDrops\n: 5\n", 0);
  (void)parsed("Tcp: ListenDrops\nTcp: 5\n", 0);
  (void)parsed("TcpExt ListenDrops\nTcpExt 5\n", 0);
}

TEST("Counters that can't be read are unknown") {
  struct mst_diag_counters counters;
  CHECK_INT(mst_diag_counters_read("/nowhere", &counters, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOENT);
  CHECK_INT(counters.value[MST_DIAG_LISTEN_DROPS], -1);
  char deep[5000];
  memset(deep, 'a', sizeof deep - 1);
  deep[sizeof deep - 1] = '\0';
  CHECK_INT(mst_diag_counters_read(deep, &counters, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENAMETOOLONG);
  CHECK_TEXT(mst_diag_counter_name(MST_DIAG_COUNTERS), "");
  CHECK_TEXT(mst_diag_counter_name(MST_DIAG_LISTEN_DROPS), "ListenDrops");
}

TEST("This machine's counters are all known except those that its kernel "
     "lacks") {
  struct mst_diag_counters counters;
  CHECK_INT(mst_diag_counters_read("/proc", &counters, &err), 0);
  int known = 0;
  for (int i = 0; i < MST_DIAG_COUNTERS; i++) {
    known += counters.value[i] >= 0;
  }
  CHECK(known >= MST_DIAG_COUNTERS - 3);
}

#if !MST_HAVE_DIAG
TEST("A build without the kernel's information says so, and knows nothing") {
  struct mst_diag_list list = {.count = 3};
  struct mst_diag_listener listener;
  struct mst_diag_tcp tcp;
  CHECK_INT(mst_diag_listeners(0, 0, &list, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOTSUP);
  CHECK_INT(list.count, 0);
  mst_diag_free(&list);
  CHECK_INT(mst_diag_listener_of(0, &listener, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOTSUP);
  CHECK_INT(listener.backlog, 0);
  CHECK_INT(mst_diag_tcp_look(0, &tcp, &err), -MST_ESYS);
  CHECK_INT(err.sys_errno, ENOTSUP);
  CHECK_INT(tcp.rtt_us, 0);
  CHECK_INT(mst_diag_dump_take(NULL, 0, &list, &list, &err), -MST_ESYS);
  CHECK_TEXT(mst_diag_state_name(1), "unknown");
}
#endif
