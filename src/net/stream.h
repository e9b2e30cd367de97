// stream: listeners and connections, over TCP and unix sockets. No R, no state; any
// thread.
//
// Every descriptor that comes from here is non-blocking and close-on-exec from birth, and
// the caller's to close (mst_net_close). TCP sockets have no Nagle delay.
//
// Nothing here waits longer than until `until_ns` (mst_clock_now). Functions that do a
// whole operation keep what is done so far in the caller's hands: they return
// -MST_EAGAIN when the time is over or a signal came, and go on when called again. So a
// caller with a deadline of 30 s gives slices of 50 ms and looks at its interrupts
// between them; without time (0) they do what can be done at once.
#ifndef MST_NET_STREAM_H
#define MST_NET_STREAM_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "net/addr.h"
#include "net/net.h"

// ---- listen.c

// The backlog that asks for the longest queue that the system allows
// (net.core.somaxconn on Linux).
#define MST_BACKLOG_MOST 0
#define MST_HANDLERS_MAX 256u

// mst_net_listen opens `count` listeners at addr (1 to MST_HANDLERS_MAX). Port 0 takes
// a free one; *bound tells it. With more than one they share the port (SO_REUSEPORT),
// each with a queue of its own, and the kernel spreads clients over them: closing one
// resets the clients in its queue, so make all once and close them together. backlog:
// MST_BACKLOG_MOST, or how many connections may wait for accept; Linux lets one more wait,
// and cuts longer ones without saying so. A unix path that nobody listens at any more
// is taken over; its file may be used by this user alone.
// On failure no descriptor is open. -MST_ECONNECT: bind or listen refused it (EADDRINUSE,
// EADDRNOTAVAIL, EACCES, ...). -MST_EINPUT: several listeners at a path. -MST_ESYS.
int mst_net_listen(const struct mst_addr *addr, int backlog, int *fds,
                   size_t count, struct mst_addr *bound, struct mst_err *err);

// mst_net_accept takes the next connection that is alive; those that their clients have
// reset in the meantime are closed and passed over. Never blocks. *peer may be NULL.
// -MST_EAGAIN if there is none, -MST_ESYS (EMFILE, ENFILE, ENOMEM, ENOBUFS: the client
// stays in the queue, and the listener stays ready).
int mst_net_accept(int listener, int *fd, struct mst_addr *peer,
                   struct mst_err *err);

// mst_net_is_own tells whether the other end of a unix socket is a process of the same user.
int mst_net_is_own(int fd);

// ---- dial.c

// mst_net_dial begins to connect. 0: *fd is connected. -MST_EAGAIN: *fd is on its way;
// when it is writable, ask mst_net_dial_done. Else *fd is -1: -MST_ECONNECT with
// sys_errno (ECONNREFUSED, ENETUNREACH, ENOENT and EAGAIN of a unix socket whose queue is
// full, ...), -MST_ESYS if there is no socket to be had (EMFILE, ENFILE, ENOBUFS, ...).
int mst_net_dial(const struct mst_addr *addr, int *fd, struct mst_err *err);

// mst_net_dial_done tells how it went: 0, or -MST_EAGAIN if it isn't decided yet (a
// socket may be reported writable too early), or -MST_ECONNECT with sys_errno:
// ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ...; a socket that has connected to itself counts
// as refused. *fd stays open.
int mst_net_dial_done(int fd, struct mst_err *err);

// A connect to the first of several addresses that answers. The next address is tried
// when one fails, or hasn't answered for MST_REACH_STAGGER_NS, while the earlier go on.
#define MST_REACH_STAGGER_NS (INT64_C(250) * 1000000)
struct mst_reach {
  struct mst_addr addrs[MST_ADDRS_MAX]; // filled by the caller
  size_t count;                         // of addrs; filled by the caller
  size_t next;                          // the next to try
  size_t won;                           // the one that fd of success is of
  int fds[MST_ADDRS_MAX];               // on their way, else -1
  int64_t next_ns;                      // when `next` is tried
  struct mst_err last;                  // of the one that failed last
};

// mst_reach_begin starts nothing yet; addrs and count must be filled.
void mst_reach_begin(struct mst_reach *reach);
// mst_reach_until goes on. 0: *fd is connected, the others are closed. -MST_EAGAIN as
// above. -MST_ECONNECT, -MST_ESYS: all have failed, err is of the last.
int mst_reach_until(struct mst_reach *reach, int *fd, int64_t until_ns,
                    struct mst_err *err);
// mst_reach_end closes what is on its way; again without harm.
void mst_reach_end(struct mst_reach *reach);

// mst_net_dial_is_full tells whether a connect to a unix path failed with an errno that may
// mean no more than a full queue: then another try may go through. Else nobody listens there.
int mst_net_dial_is_full(int sys_errno);

// ---- wait.c

// mst_net_wait waits until the socket is ready for `events` (POLLIN, POLLOUT), or has
// ended or failed. What poll() says (not 0), or 0 when the time is over or a signal came.
int mst_net_wait(int fd, short events, int64_t until_ns);

// mst_net_send_until sends bytes[*done .. n), counting *done up. 0: all is sent.
// -MST_EAGAIN, -MST_ECLOSED, -MST_ESYS.
int mst_net_send_until(int fd, const void *bytes, size_t n, size_t *done,
                       int64_t until_ns, struct mst_err *err);

// mst_net_peek is mst_net_recv without waiting that leaves the bytes where they are.
int64_t mst_net_peek(int fd, void *bytes, size_t n, struct mst_err *err);

// ---- opts.c. An option that the system or the kind of socket lacks is no error: it is
// advice, but for mst_net_set_user_timeout, which says so.

void mst_net_set_nodelay(int fd, int on);
// mst_net_set_keepalive has an idle connection probed after idle_s seconds, each
// interval_s, and given up after `count` probes without an answer.
void mst_net_set_keepalive(int fd, int idle_s, int interval_s, int count);
// mst_net_set_user_timeout gives a connection up whose data stays unacknowledged for so
// long. 0, or -MST_ESYS (ENOPROTOOPT where there is no such option).
int mst_net_set_user_timeout(int fd, int ms, struct mst_err *err);
// mst_net_close_reset closes with a reset: nothing stays in TIME_WAIT, and what was not
// sent yet is thrown away. For probes and for turning somebody away.
void mst_net_close_reset(int *fd);
// mst_net_is_reset tells whether a connection has failed (reset, timed out), without
// taking the error or data out.
int mst_net_is_reset(int fd);

#endif
