// A worker's second thread: pings, and the end of the session. See fork.h.
//
// The R thread may compute in C for hours, so only another thread can tell the session that the
// worker lives, and end it when the session is gone. It blocks all signals (R's handlers must run
// on the R thread), takes no lock that the R thread could hold for long, and never calls R.
//
// End of file on the control channel doesn't prove that the session is gone: a forked child of the
// session (mclapply) keeps a copy of the socket. The session's pidfd does. But the pidfd isn't
// enough either: the session may end this worker by closing its channels.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "base/mst_thread.h"
#include "fork/crash.h"
#include "fork/fork.h"

// How often to check for the session without a pidfd, and always for a crash.
#define LOOK_MS 500
#define CRASH_LOOK_MS 1000
// How long after the end of the session's sockets its pidfd, or pid, may take to show its end: if
// it is known to be exiting, and if that is unknown.
#define EXIT_MS 5000
#define GONE_MS 100
// The session's end must end the worker within a second.
#define CLEAN_NS (500 * MST_NS_PER_MS)

// Values of watch.end without a descriptor.
#define END_LOST (-1)
#define END_AWAITED (-2)

static struct {
  int control_fd;
  int session_fd;
  pid_t session;
  int is_child; // child of the session: booted alone
  // The R thread writes it before the flag; this one reads it after the flag.
  char tempdir[MST_TEXT_MAX + 1u];
  volatile int tempdir_known;
  const struct mst_watch_guest *guest; // NULL, or set once
  pid_t standby;                       // the newest, 0 if none
  pid_t standby_was;                   // the previous one, still to be reaped
  int end;                             // the descriptor that came with STANDBY
} watch = {.end = END_AWAITED};

// Bytes of frames read at once, and the largest ping among them.
#define FRAMES_BYTES 1024u
#define PING_MAX (FRAMES_BYTES - MST_HEAD_BYTES)

// The polled descriptors: this thread's own three, then the guest's, for which the array grows.
enum { AT_CONTROL, AT_SESSION, AT_WAKE, OWN_FDS };
#define GUEST_FDS_FIRST 64u
// Descriptors of STANDBYs whose frames haven't been read yet.
#define PENDING_FDS 32u
static struct {
  struct pollfd *fds; // never freed
  size_t cap;         // for the guest's
  int wake[2];        // a pipe
  int pending[PENDING_FDS];
  size_t pending_count;
} polled = {.wake = {-1, -1}};

// Calls that are withdrawn and whose EXECs haven't been read yet: the session sends few ahead.
#define WITHDRAWN_MAX 4u

// The present call, and up to which call they are cancelled. Both threads hold the lock for a few
// instructions only. The signal is sent with the lock held, so that it can't hit a later call.
static struct {
  pthread_mutex_t lock;
  uint64_t call;      // 0: none
  uint64_t cancelled; // calls up to this one
  int open;           // `call` may be interrupted now
  int raised;         // SIGINT was sent for `call`
  int64_t grace_ns;   // from CANCEL
  uint64_t begun;     // the last call that the R thread took
  uint64_t withdrawn
      [WITHDRAWN_MAX]; // calls that it will meet and pass over; 0: free
  uint64_t doomed;     // the call to kill after `span`, 0 if none
  struct mst_span span;
  int thread; // the R thread
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER};

// session_gone is the check without a pidfd. An unreaped session can still be signalled, but has no
// children any more.
static int session_gone(void) {
  if (watch.is_child) return getppid() != watch.session;
  return kill(watch.session, 0) != 0 && errno == ESRCH;
}

// was_orphaned tells whether the session has ended. Its sockets close a moment before any other
// sign, and on a busy machine that moment may be long.
static int was_orphaned(void) {
  struct pollfd fd = {.fd = watch.session_fd, .events = POLLIN};
  if (watch.session_fd >= 0) {
    if (poll(&fd, 1, 0) > 0) return 1;
    const int exits = mst_proc_exits(watch.session);
    return exits != 0 && poll(&fd, 1, exits > 0 ? EXIT_MS : GONE_MS) > 0;
  }
  for (int ms = 0; ms < GONE_MS && !session_gone(); ms++)
    (void)poll(NULL, 0, 1);
  return session_gone();
}

// remove_home removes the files that packages left in the directory of this worker's fork server
// (R/worker-keep.R). The server does that itself, unless it was killed.
static void remove_home(const char *base) {
  static const char name[] = "/server";
  char home[sizeof watch.tempdir + sizeof name];
  (void)snprintf(home, sizeof home, "%s%s", base, name);
  (void)mst_tree_remove(home, mst_clock_now() + CLEAN_NS);
}

static void end_worker(void) {
  const int orphan = was_orphaned();
  const int stands = __atomic_load_n(&watch.standby, __ATOMIC_ACQUIRE) != 0;
  // A standby goes on using its files.
  if (__atomic_load_n(&watch.tempdir_known, __ATOMIC_ACQUIRE) &&
      (orphan || !stands)) {
    (void)mst_tree_remove(watch.tempdir, mst_clock_now() + CLEAN_NS);
    // When the session is gone the last worker also removes the directories above its own, which
    // are empty then. Otherwise they are the session's.
    const int levels = orphan ? 2 : 0;
    for (int level = 0; level < levels; level++) {
      char *slash = strrchr(watch.tempdir, '/');
      if (slash == NULL || slash == watch.tempdir) break;
      *slash = '\0';
      if (level == 0) remove_home(watch.tempdir);
      if (rmdir(watch.tempdir) != 0) break;
    }
  }
  // The whole group: processes started by this worker end with it.
  (void)kill(0, SIGKILL);
}

// The unsent rest of an answer. It goes first, else the next answer would be read as part of this
// one.
static struct {
  uint8_t bytes[MST_HEAD_BYTES + PING_MAX];
  size_t n, at;
} rest;

// send_rest sends it. Never waits: a session that doesn't read must not keep this thread from
// seeing its end.
static void send_rest(void) {
  struct iovec part = {.iov_base = rest.bytes + rest.at,
                       .iov_len = rest.n - rest.at};
  if (part.iov_len == 0) return;
  const int64_t sent =
      mst_net_sendv(watch.control_fd, &part, 1, NULL, 0, 0, NULL);
  if (sent > 0) rest.at += (size_t)sent;
}

// answer sends a ping's payload back, or drops the answer if the socket is full.
static void answer(const struct mst_frame *ping) {
  struct mst_head head = ping->head;
  const size_t length = (size_t)head.length;
  send_rest();
  if (rest.at < rest.n || length > PING_MAX) return;
  head.kind = MST_KIND_PONG;
  mst_head_encode(&head, rest.bytes);
  memcpy(rest.bytes + MST_HEAD_BYTES, ping->payload, length);
  rest.n = MST_HEAD_BYTES + length;
  rest.at = 0;
  send_rest();
  if (rest.at == 0) rest.n = 0; // nothing was sent: the next ping asks again
}

// doom has the call killed if it goes on for longer than its grace. With the lock held.
static void doom(void) {
  gate.doomed = gate.call;
  mst_span_begin(&gate.span, gate.thread, gate.grace_ns);
  mst_watch_wake(); // the watch may be waiting for longer than that
}

// interrupt sends SIGINT to the whole group, since the call may wait for a child. Once per call;
// with the lock held.
static void interrupt(void) {
  if (gate.call == 0 || gate.call > gate.cancelled) return;
  doom();
  if (gate.raised) return;
  gate.raised = 1;
  (void)kill(0, SIGINT);
}

// place_of gives the place of a withdrawn call, or of 0 a free one; NULL if there is none. With the
// lock held.
static uint64_t *place_of(uint64_t call) {
  for (size_t i = 0; i < WITHDRAWN_MAX; i++) {
    if (gate.withdrawn[i] == call) return &gate.withdrawn[i];
  }
  return NULL;
}

enum mst_take mst_watch_call_begin(uint64_t call) {
  (void)pthread_mutex_lock(&gate.lock);
  enum mst_take take = MST_TAKE_EVALUATE;
  uint64_t *withdrawn = call == 0 ? NULL : place_of(call);
  if (call > gate.begun) gate.begun = call;
  if (withdrawn != NULL) {
    *withdrawn = 0;
    take = MST_TAKE_WITHDRAWN;
  } else if (call != 0 && call <= gate.cancelled) {
    take = MST_TAKE_CANCELLED;
  }
  gate.call = take == MST_TAKE_EVALUATE ? call : 0;
  gate.open = gate.raised = 0;
  (void)pthread_mutex_unlock(&gate.lock);
  return take;
}

void mst_watch_call_open(void) {
  (void)pthread_mutex_lock(&gate.lock);
  gate.open = 1;
  interrupt();
  (void)pthread_mutex_unlock(&gate.lock);
}

int mst_watch_call_shut(void) {
  (void)pthread_mutex_lock(&gate.lock);
  const int raised = gate.raised;
  gate.open = 0;
  gate.doomed = 0; // what follows isn't the user's call
  (void)pthread_mutex_unlock(&gate.lock);
  return raised;
}

int mst_watch_call_end(void) {
  (void)pthread_mutex_lock(&gate.lock);
  const int raised = gate.raised;
  gate.call = 0;
  gate.open = gate.raised = 0;
  gate.doomed = 0;
  (void)pthread_mutex_unlock(&gate.lock);
  return raised;
}

// cancel interrupts the present call if it is cancelled; if it can't be interrupted now, as soon as
// it can.
static void cancel(const struct mst_frame *frame) {
  uint32_t grace_ms;
  if (mst_cancel_decode(frame->payload, (size_t)frame->head.length,
                        &grace_ms) != 0) {
    return;
  }
  (void)pthread_mutex_lock(&gate.lock);
  if (frame->head.call > gate.cancelled) gate.cancelled = frame->head.call;
  gate.grace_ns = (int64_t)grace_ms * MST_NS_PER_MS;
  if (gate.open) interrupt();
  (void)pthread_mutex_unlock(&gate.lock);
}

// withdraw has a call passed over that hasn't begun, and says so. The answer is never dropped, so
// there is none, and the call is evaluated, while the socket is full. Without an answer the session
// leaves the call where it is.
static void withdraw(const struct mst_frame *frame) {
  const uint64_t call = frame->head.call;
  send_rest();
  if (rest.at < rest.n || call == 0) return;
  (void)pthread_mutex_lock(&gate.lock);
  uint64_t *place = place_of(0);
  const int begun = call <= gate.begun || place == NULL;
  if (!begun) *place = call;
  (void)pthread_mutex_unlock(&gate.lock);
  if (begun) return;
  struct mst_head head = frame->head;
  head.length = 0;
  mst_head_encode(&head, rest.bytes);
  rest.n = MST_HEAD_BYTES;
  rest.at = 0;
  send_rest();
}

// say_why tells the session, just before the worker ends, that its call didn't obey: CANCEL comes
// back. If the socket is full, the session doesn't learn why.
static void say_why(void) {
  struct mst_head head = {.kind = MST_KIND_CANCEL, .call = gate.doomed};
  uint8_t bytes[MST_HEAD_BYTES];
  struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
  send_rest();
  if (rest.at < rest.n) return;
  mst_head_encode(&head, bytes);
  (void)mst_net_sendv(watch.control_fd, &part, 1, NULL, 0, 0, NULL);
}

// doom_ms ends the worker if the call's grace is over. Returns how long to wait for that, -1 if
// there is nothing to wait for.
static int doom_ms(void) {
  (void)pthread_mutex_lock(&gate.lock);
  const int doomed = gate.doomed != 0;
  if (doomed && mst_span_look(&gate.span, gate.thread)) {
    say_why();
    end_worker(); // with the lock held, so the call can't end meanwhile
  }
  (void)pthread_mutex_unlock(&gate.lock);
  return doomed ? MST_PACE_MS : -1;
}

// oldest_fd takes the oldest pending descriptor: 1, or 0 if there is none.
static int oldest_fd(int *fd) {
  if (polled.pending_count == 0) return 0;
  *fd = polled.pending[0];
  polled.pending_count--;
  memmove(polled.pending, polled.pending + 1,
          polled.pending_count * sizeof polled.pending[0]);
  return 1;
}

// take_end keeps the end for the R thread.
static void take_end(void) {
  int fd;
  if (!oldest_fd(&fd)) return;
  int before = __atomic_exchange_n(&watch.end, fd, __ATOMIC_ACQ_REL);
  if (before >= 0) mst_net_close(&before); // nobody asked for it
}

// receive_control reads the control channel; descriptors wait for their frame.
static int64_t receive_control(uint8_t *bytes, size_t n) {
  int fds[MST_NET_FDS_MAX];
  size_t count = 0;
  int lost;
  const int64_t got =
      mst_net_recv_fds(watch.control_fd, bytes, n, 0, fds, &count, &lost, NULL);
  if (got > 0 && lost) fds[count++] = -1;
  for (size_t i = 0; i < count; i++) {
    if (polled.pending_count < PENDING_FDS) {
      polled.pending[polled.pending_count++] = fds[i];
    } else {
      mst_net_close(&fds[i]);
    }
  }
  return got;
}

// take_frames serves the whole frames in the buffer and moves the rest to its front. -1 if the
// bytes aren't frames.
static int take_frames(uint8_t *bytes, size_t *n, uint64_t length_max) {
  size_t at = 0;
  for (;;) {
    struct mst_frame frame;
    uint64_t used = 0;
    const int rc =
        mst_frame_parse(bytes + at, *n - at, length_max, &frame, &used);
    if (rc < 0) return -1;
    if (rc == 0) break;
    if (frame.head.kind == MST_KIND_PING) answer(&frame);
    if (frame.head.kind == MST_KIND_CANCEL) cancel(&frame);
    if (frame.head.kind == MST_KIND_WITHDRAW) withdraw(&frame);
    if (frame.head.kind == MST_KIND_STANDBY) take_end();
    at += (size_t)used;
  }
  memmove(bytes, bytes + at, *n - at);
  *n -= at;
  return 0;
}

// guest_fds asks the guest what to wait for. If memory is short the last ones must wait.
static size_t guest_fds(const struct mst_watch_guest *guest, int *timeout_ms) {
  for (;;) {
    const size_t n = guest->fds(polled.fds + OWN_FDS, polled.cap, timeout_ms);
    if (n <= polled.cap) return n;
    struct pollfd *more =
        realloc(polled.fds, (OWN_FDS + 2 * n) * sizeof *polled.fds);
    if (more == NULL) return polled.cap;
    polled.fds = more;
    polled.cap = 2 * n;
  }
}

static void take_wakes(void) {
  uint8_t bytes[64];
  if (polled.fds[AT_WAKE].revents == 0) return;
  while (mst_net_read(polled.wake[0], bytes, sizeof bytes, NULL) > 0) {
  }
}

// reap reaps a standby that has ended, so that it doesn't stay a zombie for long.
static void reap(pid_t *standby) {
  pid_t pid = __atomic_load_n(standby, __ATOMIC_ACQUIRE);
  if (pid <= 0 || waitpid(pid, NULL, WNOHANG) == 0) return;
  (void)__atomic_compare_exchange_n(standby, &pid, 0, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE);
}

static void reap_standbys(void) {
  reap(&watch.standby);
  reap(&watch.standby_was);
}

static void *watch_main(void *arg) {
  (void)arg;
  MST_ASSERT_IO_THREAD();
  uint8_t bytes[FRAMES_BYTES];
  size_t n = 0;
  for (;;) {
    const struct mst_watch_guest *guest =
        __atomic_load_n(&watch.guest, __ATOMIC_ACQUIRE);
    const int doom = doom_ms(), report = mst_crash_ms(gate.thread);
    if (report == 0) break;
    int timeout = watch.session_fd < 0 ? LOOK_MS : CRASH_LOOK_MS;
    if (doom >= 0 || report > 0) timeout = MST_PACE_MS;
    size_t count = 0;
    if (guest != NULL) count = guest_fds(guest, &timeout);
    const struct pollfd *fds = polled.fds;
    polled.fds[AT_CONTROL].events =
        rest.at < rest.n ? POLLIN | POLLOUT : POLLIN;
    const int ready = poll(polled.fds, (nfds_t)(OWN_FDS + count), timeout);
    if (ready == 0) reap_standbys();
    if (ready < 0 && errno != EINTR) break;
    if (watch.session_fd < 0 && session_gone()) break;
    if (ready > 0 && fds[AT_SESSION].revents != 0) break;
    if (ready > 0) take_wakes();
    if (ready > 0 && guest != NULL) guest->ready(fds + OWN_FDS, count);
    if (ready > 0 && (fds[AT_CONTROL].revents & POLLOUT) != 0) send_rest();
    if (ready <= 0 || (fds[AT_CONTROL].revents & ~POLLOUT) == 0) continue;
    const int64_t got = receive_control(bytes + n, sizeof bytes - n);
    if (got == -MST_EAGAIN) continue;
    if (got < 0) break;
    n += (size_t)got;
    if (take_frames(bytes, &n, sizeof bytes - MST_HEAD_BYTES) != 0) break;
  }
  end_worker();
  return NULL;
}

// ---- the end of R

static struct {
  pid_t pid;    // of the process that it is about
  int is_asked; // at_exit runs
  int lost;     // the R thread saw the channel's end
} leaving;

// R ends when its channel does, and may be quicker than the watch, which has more to remove. The
// watch then ends the process.
static void at_exit(void) {
  if (!leaving.lost || leaving.pid != getpid() || !was_orphaned()) return;
  (void)poll(NULL, 0, EXIT_MS);
}

void mst_watch_lost(void) { leaving.lost = 1; }

// prepare makes the pipe and the array for poll().
static int prepare(struct mst_err *err) {
  polled.fds = calloc(OWN_FDS + GUEST_FDS_FIRST, sizeof *polled.fds);
  if (polled.fds == NULL) {
    return mst_err_set(err, MST_EMEM, 0, "calloc", "no memory for a watch");
  }
  polled.cap = GUEST_FDS_FIRST;
  if (mst_net_pipe(polled.wake, err) != 0) return -MST_ESYS;
  (void)fcntl(polled.wake[1], F_SETFL, O_NONBLOCK);
  for (int i = 0; i < 2; i++)
    mst_net_raise(&polled.wake[i]);
  polled.fds[AT_CONTROL] =
      (struct pollfd){.fd = watch.control_fd, .events = POLLIN};
  polled.fds[AT_SESSION] = // or -1
      (struct pollfd){.fd = watch.session_fd, .events = POLLIN};
  polled.fds[AT_WAKE] = (struct pollfd){.fd = polled.wake[0], .events = POLLIN};
  return 0;
}

int mst_watch_start(int control_fd, int session_fd, pid_t session,
                    struct mst_err *err) {
  watch.control_fd = control_fd;
  watch.session_fd = session_fd;
  watch.session = session;
  watch.is_child = getppid() == session;
  watch.tempdir_known = 0;
  watch.standby = watch.standby_was = 0;
  watch.end = END_AWAITED;
  gate.thread = mst_proc_thread();
  gate.begun = 0; // a fork server has taken calls, to be quick
  leaving.pid = getpid();
  leaving.lost = 0;
  if (!leaving.is_asked) leaving.is_asked = atexit(at_exit) == 0;
  const int prepared = prepare(err);
  if (prepared != 0) return prepared;
  pthread_t thread;
  const int rc = mst_thread_start(&thread, watch_main, NULL);
  if (rc != 0) {
    return mst_err_set(err, MST_ESYS, rc, "pthread_create", "%s", strerror(rc));
  }
  (void)pthread_detach(thread);
  return 0;
}

void mst_watch_invite(const struct mst_watch_guest *guest) {
  __atomic_store_n(&watch.guest, guest, __ATOMIC_RELEASE);
}

void mst_watch_wake(void) {
  const uint8_t byte = 0;
  ssize_t rc = -1;
  do { // a full pipe wakes as well
    rc = write(polled.wake[1], &byte, 1);
  } while (rc < 0 && errno == EINTR);
}

void mst_watch_set_tempdir(const char *path) {
  if (strlen(path) > MST_TEXT_MAX) return;
  if (path != watch.tempdir) strncpy(watch.tempdir, path, MST_TEXT_MAX);
  __atomic_store_n(&watch.tempdir_known, 1, __ATOMIC_RELEASE);
}

const char *mst_watch_tempdir(void) { return watch.tempdir; }

// ---- standbys

int mst_watch_take_end(int timeout_ms) {
  const int64_t deadline_ns =
      mst_clock_now() + (int64_t)timeout_ms * MST_NS_PER_MS;
  int fd = END_AWAITED;
  for (;;) {
    fd = __atomic_exchange_n(&watch.end, END_AWAITED, __ATOMIC_ACQ_REL);
    if (fd != END_AWAITED || mst_clock_now() >= deadline_ns) break;
    (void)poll(NULL, 0,
               1); // it was sent before the frame that makes this thread ask
  }
  return fd >= 0 ? fd : END_LOST;
}

void mst_watch_hold(void) {
  (void)pthread_mutex_lock(&gate.lock);
  if (watch.guest != NULL) watch.guest->hold();
}

void mst_watch_release(void) {
  if (watch.guest != NULL) watch.guest->release();
  (void)pthread_mutex_unlock(&gate.lock);
}

void mst_watch_leave(void) {
  if (watch.guest != NULL) watch.guest->leave();
  watch.guest = NULL;
  for (int i = 0; i < 2; i++)
    mst_net_close(&polled.wake[i]);
  while (polled.pending_count > 0)
    mst_net_close(&polled.pending[--polled.pending_count]);
  free(polled.fds);
  polled.fds = NULL;
  rest.n = rest.at = 0;
  memset(&gate, 0, sizeof gate);
  (void)pthread_mutex_init(&gate.lock, NULL);
}

void mst_watch_stands(pid_t standby) {
  reap_standbys();
  __atomic_store_n(&watch.standby_was, watch.standby, __ATOMIC_RELEASE);
  __atomic_store_n(&watch.standby, standby, __ATOMIC_RELEASE);
}

int mst_watch_is_orphan(void) { return was_orphaned(); }

void mst_watch_end(void) { end_worker(); }
