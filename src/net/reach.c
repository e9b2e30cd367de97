// Connecting to a host with several addresses. See stream.h.
//
// Way chosen: RFC 8305's staggered attempts without its sorting, which getaddrinfo() has done. A
// host whose IPv6 is a black hole then costs 250 ms, not the whole timeout.
//
// A unix socket whose queue is full refuses a non-blocking connect at once (EAGAIN), and nothing
// reports when it has space again. So there the connect itself waits, limited by SO_SNDTIMEO.
#include "net/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/time.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"

#define WAIT_MS_MAX 3600000

void mst_reach_begin(struct mst_reach *reach) {
  reach->next = 0;
  reach->won = 0;
  reach->next_ns = 0;
  for (size_t i = 0; i < MST_ADDRS_MAX; i++)
    reach->fds[i] = -1;
  mst_err_clear(&reach->last);
}

void mst_reach_end(struct mst_reach *reach) {
  for (size_t i = 0; i < MST_ADDRS_MAX; i++)
    mst_net_close(&reach->fds[i]);
}

static void note_failure(struct mst_reach *reach, const struct mst_err *err) {
  reach->last = *err;
  reach->next_ns = 0; // try the next one now
}

static int win(struct mst_reach *reach, size_t i, int *fd) {
  *fd = reach->fds[i];
  reach->fds[i] = -1;
  reach->won = i;
  mst_reach_end(reach);
  return 0;
}

static void set_send_timeout(int fd, int64_t ms) {
  const struct timeval limit = {.tv_sec = (time_t)(ms / 1000),
                                .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

// dial_path is mst_net_dial, but waits while the queue is full.
static int dial_path(const struct mst_addr *addr, int *fd, int64_t until_ns,
                     struct mst_err *err) {
  int rc = mst_net_dial(addr, fd, err);
  if (rc != -MST_ECONNECT || err->sys_errno != EAGAIN) return rc;
  const int ms = mst_clock_ms_until(until_ns, WAIT_MS_MAX);
  if (ms == 0) return -MST_EAGAIN;
  *fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (*fd < 0) {
    return mst_err_set(err, MST_ESYS, errno, "socket", "%s", strerror(errno));
  }
  (void)fcntl(*fd, F_SETFD, FD_CLOEXEC);
  set_send_timeout(*fd, ms);
  rc = connect(*fd, &addr->at.any, addr->len) == 0 ? 0 : errno;
  set_send_timeout(*fd, 0);
  (void)fcntl(*fd, F_SETFL, O_NONBLOCK);
  if (rc == 0) return 0;
  mst_net_close(fd);
  if (rc == EAGAIN || rc == EINTR) return -MST_EAGAIN;
  return mst_err_set(err, MST_ECONNECT, rc, "connect", "%s", strerror(rc));
}

// begin_next tries the next address. 0 if it is connected at once.
static int begin_next(struct mst_reach *reach, int64_t until_ns) {
  struct mst_err err;
  const size_t i = reach->next;
  mst_err_clear(&err);
  if (mst_addr_is_unix(&reach->addrs[i])) {
    const int rc = dial_path(&reach->addrs[i], &reach->fds[i], until_ns, &err);
    if (rc == 0 || rc == -MST_EAGAIN) return rc; // try this address again
    reach->next++;
    note_failure(reach, &err);
    return rc;
  }
  reach->next++;
  reach->next_ns = mst_clock_now() + MST_REACH_STAGGER_NS;
  const int rc = mst_net_dial(&reach->addrs[i], &reach->fds[i], &err);
  if (rc != 0 && rc != -MST_EAGAIN) note_failure(reach, &err);
  return rc;
}

enum { LOOK_NONE = -1, LOOK_SIGNAL = -2 };

// look checks the sockets that poll() reports. Returns the index of a connected one, or LOOK_*.
static int look(struct mst_reach *reach, int64_t until_ns) {
  struct pollfd at[MST_ADDRS_MAX];
  size_t which[MST_ADDRS_MAX];
  nfds_t n = 0;
  for (size_t i = 0; i < reach->next; i++) {
    if (reach->fds[i] < 0) continue;
    at[n] = (struct pollfd){.fd = reach->fds[i], .events = POLLOUT};
    which[n++] = i;
  }
  const int ready = poll(at, n, mst_clock_ms_until(until_ns, WAIT_MS_MAX));
  if (ready <= 0) return ready < 0 ? LOOK_SIGNAL : LOOK_NONE;
  for (nfds_t k = 0; k < n; k++) {
    if (at[k].revents == 0) continue;
    struct mst_err err;
    mst_err_clear(&err);
    const int rc = mst_net_dial_done(at[k].fd, &err);
    if (rc == 0) return (int)which[k];
    if (rc == -MST_EAGAIN) continue;
    mst_net_close(&reach->fds[which[k]]);
    note_failure(reach, &err);
  }
  return LOOK_NONE;
}

static int all_failed(const struct mst_reach *reach) {
  for (size_t i = 0; i < reach->count; i++) {
    if (reach->fds[i] >= 0) return 0;
  }
  return reach->next >= reach->count;
}

static int is_due(const struct mst_reach *reach) {
  return reach->next < reach->count && mst_clock_now() >= reach->next_ns;
}

int mst_reach_until(struct mst_reach *reach, int *fd, int64_t until_ns,
                    struct mst_err *err) {
  MST_ASSERT(reach->count >= 1 && reach->count <= MST_ADDRS_MAX);
  *fd = -1;
  for (;;) {
    while (is_due(reach)) {
      const size_t i = reach->next;
      const int rc = begin_next(reach, until_ns);
      if (rc == 0) return win(reach, i, fd);
      if (rc == -MST_EAGAIN && reach->next == i) return rc;
    }
    if (all_failed(reach)) {
      if (err != NULL) *err = reach->last;
      return -reach->last.code;
    }
    const int more = reach->next < reach->count && reach->next_ns < until_ns;
    const int found = look(reach, more ? reach->next_ns : until_ns);
    if (found >= 0) return win(reach, (size_t)found, fd);
    if (found == LOOK_SIGNAL) return -MST_EAGAIN;
    if (!all_failed(reach) && !is_due(reach) && mst_clock_now() >= until_ns) {
      return -MST_EAGAIN;
    }
  }
}
