// ether: hosts that exist on an Ethernet only, for tests of discover() and others.
//
//   ether INTERFACE ADDRESS=KIND...
//
// Answers ARP and TCP for these addresses on the interface, which has none of its own, as
// far as a connect goes; all other addresses are absent: nobody answers their ARP. "ready" is
// written to standard output at the start, and at the end of standard input, when it ends,
// "SYNS DROPPED": how many SYNs it has seen, and how many of them it left unanswered as lost.
//
//   open      accepts
//   open:MS   accepts after so many ms: a host that is that far away
//   refused   resets
//   silent    has an address (ARP), but no answer to TCP: a firewall
//   lossy     accepts, but a fifth of the SYNs get lost, never two in a row: first SYNs
//   barred    says by ICMP that it may not be reached
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HOSTS_MAX 300
#define FRAME_MAX 1600
#define QUEUE_MAX 4096

struct host {
  uint32_t ip; // network order
  const char *kind;
  int delay_ms, lost_last;
};

struct waiting {
  int64_t due_ns;
  size_t n;
  uint8_t frame[128];
};

static struct host hosts[HOSTS_MAX];
static int host_count, fd;
static uint8_t mac[6];
static struct waiting
    queue[QUEUE_MAX]; // a ring; delays differ, so each is looked at
static size_t queued;
static unsigned long syns, dropped;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct host *find(uint32_t ip) {
  for (int i = 0; i < host_count; i++) {
    if (hosts[i].ip == ip) return &hosts[i];
  }
  return NULL;
}

static uint32_t add_up(const void *bytes, size_t n, uint32_t sum) {
  const uint8_t *p = bytes;
  for (; n > 1; n -= 2, p += 2)
    sum += (uint32_t)(p[0] << 8 | p[1]);
  if (n == 1) sum += (uint32_t)(p[0] << 8);
  return sum;
}

static uint16_t fold(uint32_t sum) {
  while (sum >> 16)
    sum = (sum & 0xffff) + (sum >> 16);
  return htons((uint16_t)~sum);
}

static void send_frame(const uint8_t *frame, size_t n, int delay_ms) {
  if (delay_ms == 0) {
    if (write(fd, frame, n) < 0) perror("write");
  } else if (queued < QUEUE_MAX) {
    queue[queued].due_ns = now_ns() + (int64_t)delay_ms * 1000000;
    queue[queued].n = n;
    memcpy(queue[queued++].frame, frame, n);
  }
}

// send_due sends what has waited long enough and gives the time of the next, or -1.
static int64_t send_due(void) {
  int64_t next = -1;
  const int64_t now = now_ns();
  for (size_t i = 0; i < queued;) {
    if (queue[i].due_ns <= now) {
      if (write(fd, queue[i].frame, queue[i].n) < 0) perror("write");
      queue[i] = queue[--queued];
    } else {
      if (next < 0 || queue[i].due_ns < next) next = queue[i].due_ns;
      i++;
    }
  }
  return next;
}

static void answer_arp(uint8_t *frame, size_t n) {
  uint8_t *arp = frame + 14;
  uint32_t target;
  if (n < 42 || arp[7] != 1) return;
  memcpy(&target, arp + 24, 4);
  if (find(target) == NULL) return;
  memcpy(frame, frame + 6, 6);
  memcpy(frame + 6, mac, 6);
  arp[7] = 2;
  memcpy(arp + 18, arp + 8, 10); // their address and IP
  memcpy(arp + 8, mac, 6);
  memcpy(arp + 14, &target, 4);
  send_frame(frame, 42, 0);
}

// head begins a frame back to where `in` came from: Ethernet and IP of `bytes` more.
static void head(uint8_t *out, const uint8_t *in, int protocol, size_t bytes) {
  struct iphdr from,
      ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = (uint8_t)protocol};
  memcpy(&from, in + 14, sizeof from);
  memcpy(out, in + 6, 6);
  memcpy(out + 6, mac, 6);
  out[12] = 8, out[13] = 0;
  ip.tot_len = htons((uint16_t)(sizeof ip + bytes));
  ip.saddr = from.daddr;
  ip.daddr = from.saddr;
  ip.check = fold(add_up(&ip, sizeof ip, 0));
  memcpy(out + 14, &ip, sizeof ip);
}

static void answer_syn(const uint8_t *in, const struct tcphdr *syn,
                       const struct host *host) {
  uint8_t out[54];
  struct tcphdr tcp;
  memset(&tcp, 0, sizeof tcp);
  head(out, in, IPPROTO_TCP, sizeof tcp);
  tcp.source = syn->dest;
  tcp.dest = syn->source;
  tcp.ack_seq = htonl(ntohl(syn->seq) + 1);
  tcp.ack = 1;
  tcp.doff = 5;
  if (strcmp(host->kind, "refused") == 0) {
    tcp.rst = 1;
  } else {
    tcp.syn = 1;
    tcp.seq = htonl(12345);
    tcp.window = htons(64240);
  }
  uint32_t sum = add_up(out + 14 + 12, 8, IPPROTO_TCP + sizeof tcp);
  tcp.check = fold(add_up(&tcp, sizeof tcp, sum));
  memcpy(out + 34, &tcp, sizeof tcp);
  send_frame(out, sizeof out, host->delay_ms);
}

static void answer_barred(const uint8_t *in, size_t n) {
  uint8_t out[14 + 20 + 8 + 28] = {0};
  if (n < 14 + 28) return;
  head(out, in, IPPROTO_ICMP, 36);
  out[34] = ICMP_DEST_UNREACH;
  out[35] = ICMP_HOST_ANO;
  memcpy(out + 42, in + 14, 28);
  const uint16_t sum = fold(add_up(out + 34, 36, 0));
  memcpy(out + 36, &sum, 2);
  send_frame(out, sizeof out, 0);
}

static void take_tcp(const uint8_t *in, size_t n) {
  struct iphdr ip;
  struct tcphdr tcp;
  if (n < 54) return;
  memcpy(&ip, in + 14, sizeof ip);
  if (ip.protocol != IPPROTO_TCP || ip.ihl != 5) return;
  memcpy(&tcp, in + 34, sizeof tcp);
  struct host *host = find(ip.daddr);
  if (host == NULL || !tcp.syn || tcp.ack) return;
  syns++;
  if (strcmp(host->kind, "silent") == 0) return;
  if (strcmp(host->kind, "lossy") == 0) {
    host->lost_last = !host->lost_last && rand() % 5 == 0;
    if (host->lost_last) {
      dropped++;
      return;
    }
  }
  if (strcmp(host->kind, "barred") == 0) {
    answer_barred(in, n);
  } else {
    answer_syn(in, &tcp, host);
  }
}

static void open_interface(const char *name) {
  struct ifreq request;
  struct sockaddr_ll at = {.sll_family = AF_PACKET,
                           .sll_protocol = htons(ETH_P_ALL)};
  memset(&request, 0, sizeof request);
  strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
  if (fd < 0 || ioctl(fd, SIOCGIFHWADDR, &request) != 0) {
    perror(name);
    exit(1);
  }
  memcpy(mac, request.ifr_hwaddr.sa_data, 6);
  at.sll_ifindex = (int)if_nametoindex(name);
  const int bytes = 8 << 20;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
  if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0) {
    perror("bind");
    exit(1);
  }
}

int main(int argc, char **argv) {
  if (argc < 2 || argc - 2 > HOSTS_MAX) return 2;
  for (int i = 2; i < argc; i++) {
    char *equals = strchr(argv[i], '=');
    if (equals == NULL) return 2;
    *equals = '\0';
    struct host *host = &hosts[host_count++];
    host->kind = equals + 1;
    if (strncmp(host->kind, "open:", 5) == 0)
      host->delay_ms = (int)strtol(host->kind + 5, NULL, 10);
    if (inet_pton(AF_INET, argv[i], &host->ip) != 1) return 2;
  }
  srand(7);
  open_interface(argv[1]);
  puts("ready");
  fflush(stdout);
  for (;;) {
    uint8_t frame[FRAME_MAX];
    struct sockaddr_ll from;
    socklen_t from_n = sizeof from;
    struct pollfd at[2] = {{.fd = fd, .events = POLLIN},
                           {.fd = 0, .events = POLLIN}};
    const int64_t next = send_due(),
                  left = next < 0 ? 1000000000 : next - now_ns();
    const struct timespec wait = {
        0, left > 0 ? (left < 999999999 ? left : 999999999) : 0};
    ppoll(at, 2, &wait, NULL);
    if ((at[1].revents & (POLLIN | POLLHUP)) && read(0, frame, 1) <= 0) break;
    if (!(at[0].revents & POLLIN)) continue;
    const ssize_t n =
        recvfrom(fd, frame, sizeof frame, 0, (struct sockaddr *)&from, &from_n);
    if (n < 34 || from.sll_pkttype == PACKET_OUTGOING) continue;
    if (frame[12] == 8 && frame[13] == 6) answer_arp(frame, (size_t)n);
    if (frame[12] == 8 && frame[13] == 0) take_tcp(frame, (size_t)n);
  }
  printf("%lu %lu\n", syns, dropped);
  return 0;
}
