// stream: listeners and connections, over TCP and unix sockets. No R, no state; any
// thread.
//
// Every descriptor from here is non-blocking and close-on-exec from birth; the caller closes it
// (mst_net_close). TCP sockets have no Nagle delay.
//
// Nothing here waits longer than until `until_ns` (mst_clock_now). Functions for whole operations
// keep their progress in the caller's struct: they return -MST_EAGAIN when the time is over or a
// signal came, and go on when called again. So a caller with a deadline of 30 s passes slices of 50
// ms and checks for interrupts between them; without time (0) they do what is possible at once.
#ifndef MST_NET_STREAM_H
#define MST_NET_STREAM_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "net/addr.h"
#include "net/net.h"

// ---- listen.c

// Asks for the longest queue that the system allows (net.core.somaxconn on Linux).
#define MST_BACKLOG_MOST 0
#define MST_HANDLERS_MAX 256u

// mst_net_listen opens `count` listeners at addr (1 to MST_HANDLERS_MAX). Port 0 takes a free one;
// *bound has it. Several listeners share the port (SO_REUSEPORT), each with its own queue, and the
// kernel spreads clients over them: closing one resets the clients in its queue, so open all at
// once and close them together. backlog: MST_BACKLOG_MOST, or how many connections may wait for
// accept; Linux lets one more wait, and silently cuts longer backlogs. Takes over a unix path that
// no process listens at any more; only this user may access its file.
// On failure no descriptor is open. -MST_ECONNECT: bind or listen failed (EADDRINUSE,
// EADDRNOTAVAIL, EACCES, ...). -MST_EINPUT: several listeners at a path. -MST_ESYS.
int mst_net_listen(const struct mst_addr *addr, int backlog, int *fds,
                   size_t count, struct mst_addr *bound, struct mst_err *err);

// mst_net_accept takes the next live connection; it closes and skips those already reset by their
// clients. Never blocks. *peer may be NULL. -MST_EAGAIN if there is none, -MST_ESYS (EMFILE,
// ENFILE, ENOMEM, ENOBUFS: the client stays in the queue, and the listener stays ready).
int mst_net_accept(int listener, int *fd, struct mst_addr *peer,
                   struct mst_err *err);

// mst_net_is_own tells whether the peer of a unix socket is a process of the same user.
int mst_net_is_own(int fd);

// ---- dial.c

// mst_net_dial starts to connect. 0: *fd is connected. -MST_EAGAIN: *fd is connecting; once it is
// writable, call mst_net_dial_done. Else *fd is -1: -MST_ECONNECT with sys_errno (ECONNREFUSED,
// ENETUNREACH, ENOENT, EAGAIN of a unix socket whose queue is full, ...), -MST_ESYS if no socket
// can be made (EMFILE, ENFILE, ENOBUFS, ...).
int mst_net_dial(const struct mst_addr *addr, int *fd, struct mst_err *err);

// mst_net_dial_done tells the outcome: 0, or -MST_EAGAIN if it isn't decided yet (a socket may be
// reported writable too early), or -MST_ECONNECT with sys_errno: ECONNREFUSED, ETIMEDOUT,
// EHOSTUNREACH, ...; a socket that has connected to itself counts as refused. *fd stays open.
int mst_net_dial_done(int fd, struct mst_err *err);

// A connect to the first of several addresses that answers. The next address is tried when one
// fails or hasn't answered for MST_REACH_STAGGER_NS; the earlier attempts go on.
#define MST_REACH_STAGGER_NS (INT64_C(250) * 1000000)
struct mst_reach {
  struct mst_addr addrs[MST_ADDRS_MAX]; // filled by the caller
  size_t count;                         // of addrs; filled by the caller
  size_t next;                          // the next to try
  size_t won;                           // index of the address that connected
  int fds[MST_ADDRS_MAX];               // connecting, else -1
  int64_t next_ns;                      // when to try `next`
  struct mst_err last;                  // the latest failure
};

// mst_reach_begin prepares, but doesn't connect yet; addrs and count must be filled.
void mst_reach_begin(struct mst_reach *reach);
// mst_reach_until goes on. 0: *fd is connected, the others are closed. -MST_EAGAIN as above.
// -MST_ECONNECT, -MST_ESYS: all have failed; err describes the last failure.
int mst_reach_until(struct mst_reach *reach, int *fd, int64_t until_ns,
                    struct mst_err *err);
// mst_reach_end closes pending attempts; may be called again.
void mst_reach_end(struct mst_reach *reach);

// mst_net_dial_is_full tells whether a connect to a unix path failed with an errno that may only
// mean a full queue: then another try may succeed. Otherwise no process listens there.
int mst_net_dial_is_full(int sys_errno);

// ---- wait.c

// mst_net_wait waits until the socket is ready for `events` (POLLIN, POLLOUT), or has ended or
// failed. Returns what poll() reports (not 0), or 0 when the time is over or a signal came.
int mst_net_wait(int fd, short events, int64_t until_ns);

// mst_net_send_until sends bytes[*done .. n) and advances *done. 0: all is sent.
// -MST_EAGAIN, -MST_ECLOSED, -MST_ESYS.
int mst_net_send_until(int fd, const void *bytes, size_t n, size_t *done,
                       int64_t until_ns, struct mst_err *err);

// mst_net_peek is mst_net_recv without waiting, and leaves the bytes in the socket.
int64_t mst_net_peek(int fd, void *bytes, size_t n, struct mst_err *err);

// ---- opts.c. Options are advice: one that the system or the kind of socket lacks is ignored. Only
// mst_net_set_user_timeout reports it.

void mst_net_set_nodelay(int fd, int on);
// mst_net_set_keepalive: an idle connection is probed after idle_s seconds, every interval_s, and
// given up after `count` probes without an answer.
void mst_net_set_keepalive(int fd, int idle_s, int interval_s, int count);
// mst_net_set_user_timeout gives a connection up when data stays unacknowledged for `ms`. 0, or
// -MST_ESYS (ENOPROTOOPT if there is no such option).
int mst_net_set_user_timeout(int fd, int ms, struct mst_err *err);
// mst_net_close_reset closes with a reset: nothing stays in TIME_WAIT, and unsent data is
// discarded. For probes and for rejecting clients.
void mst_net_close_reset(int *fd);
// mst_net_is_reset tells whether a connection has failed (reset, timed out), without consuming the
// error or data.
int mst_net_is_reset(int fd);

#endif
