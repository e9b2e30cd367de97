// What the tests of net/ share: listeners on the loopback, times, and the kernel's socket
// filters, by which packets are lost on purpose.
#ifndef MST_NET_TEST_H
#define MST_NET_TEST_H

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "mst_test.h"
#include "net/stream.h"

static inline int64_t in_ms(int64_t ms) {
  return mst_clock_now() + ms * MST_NS_PER_MS;
}

static inline int64_t ms_since(int64_t began_ns) {
  return (mst_clock_now() - began_ns) / MST_NS_PER_MS;
}

// A listener on a free port of the loopback.
static inline int listen_at(const char *host, int backlog,
                            struct mst_addr *bound) {
  struct mst_addr addr;
  int fd = -1;
  CHECK_INT(mst_addr_parse(host, 0, &addr, NULL), 0);
  CHECK_INT(mst_net_listen(&addr, backlog, &fd, 1, bound, NULL), 0);
  return fd;
}

// An address of the loopback on which nobody listens.
static inline struct mst_addr closed_port(void) {
  struct mst_addr bound;
  int fd = listen_at("127.0.0.1", 1, &bound);
  mst_net_close(&fd);
  return bound;
}

// A connect that is done within two seconds, or its error.
static inline int dial_within(const struct mst_addr *addr, int *fd,
                              struct mst_err *err) {
  const int64_t until_ns = in_ms(30000);
  int rc = mst_net_dial(addr, fd, err);
  while (rc == -MST_EAGAIN && mst_net_wait(*fd, POLLOUT, until_ns) != 0)
    rc = mst_net_dial_done(*fd, err);
  if (rc != 0) mst_net_close(fd);
  return rc;
}

// accept_until waits for a connection; recv_until fills bytes[*done .. n), counting *done up.
static inline int accept_until(int listener, int *fd, struct mst_addr *peer,
                               int64_t until_ns, struct mst_err *err) {
  for (;;) {
    const int rc = mst_net_accept(listener, fd, peer, err);
    if (rc != -MST_EAGAIN) return rc;
    if (mst_net_wait(listener, POLLIN, until_ns) == 0) return -MST_EAGAIN;
  }
}

static inline int recv_until(int fd, void *bytes, size_t n, size_t *done,
                             int64_t until_ns, struct mst_err *err) {
  while (*done < n) {
    const int64_t got =
        mst_net_recv(fd, (uint8_t *)bytes + *done, n - *done, 0, err);
    if (got > 0) {
      *done += (size_t)got;
      continue;
    }
    if (got != -MST_EAGAIN) return (int)got;
    if (mst_net_wait(fd, POLLIN, until_ns) == 0) return -MST_EAGAIN;
  }
  return 0;
}

static inline void connected_pair(int *client, int *server) {
  struct mst_addr bound;
  int listener = listen_at("127.0.0.1", MST_BACKLOG_MOST, &bound);
  CHECK_INT(dial_within(&bound, client, NULL), 0);
  CHECK_INT(accept_until(listener, server, NULL, in_ms(30000), NULL), 0);
  mst_net_close(&listener);
}

#ifdef __linux__
#include <linux/filter.h>

// lose_packets has the kernel lose packets that come to a socket: all, or all but those
// with the SYN flag (the final ACK of a handshake, data). keep_packets ends it.
enum lose { LOSE_ALL, LOSE_BUT_SYN };

static inline void lose_packets(int fd, enum lose what) {
  struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  // The 14th byte of a TCP header has its flags; 2 is SYN.
  struct sock_filter but_syn[] = {{BPF_LD | BPF_B | BPF_ABS, 0, 0, 13},
                                  {BPF_JMP | BPF_JSET | BPF_K, 0, 1, 2},
                                  {BPF_RET | BPF_K, 0, 0, 0xffff},
                                  {BPF_RET | BPF_K, 0, 0, 0}};
  struct sock_fprog program = {.len = 1, .filter = all};
  if (what == LOSE_BUT_SYN) {
    program = (struct sock_fprog){.len = 4, .filter = but_syn};
  }
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) !=
      0) {
    SKIP("this system lets no filter be attached to a socket");
  }
}

static inline void keep_packets(int fd) {
  const int none = 0;
  CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none),
            0);
}
#endif

#endif
