// A worker's checkpoint: a copy of its process that waits. See fork.h.
//
// Problem: a worker's state can't be listed: bindings, environments, data changed in place,
// options, locale, packages, compiled code, open files. But a process can be copied.
//
// Way chosen: fork(). The copy waits for the session's order, without a thread. Before it replaces
// the worker it leaves a copy of itself, so that a worker that is lost repeatedly comes back each
// time. Both ends of `end` stay open, since each copy inherits it.
//
// Not chosen: a copy that stays and forks each worker, as the fork server does. It would be the
// parent of a worker that has a newer checkpoint by then, and could only end after it.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "fork/fork.h"

// A FORK's descriptors wait above their final numbers.
#define FD_FLOOR 16
// Without a pidfd the session is checked this often.
#define LOOK_MS 500
#define THREAD_END_MS 5

struct standby {
  int end;
  int output;
  int is_output[3]; // descriptors 1 and 2 lead to the output pipe
  pid_t session;
};

// die ends this copy without running any code of R or packages.
static void die(void) { (void)raise(SIGKILL); }

// leave ends this copy: its worker has a newer one or must end, or the session has ended.
static void leave(void) {
  if (mst_watch_is_orphan()) mst_watch_end();
  die();
}

// say_pid tells the session the pid.
static void say_pid(const struct standby *self) {
  struct mst_chan chan;
  struct mst_head head = {.kind = MST_KIND_FORKED};
  const struct mst_proc_msg msg = {.pid = (uint32_t)getpid()};
  uint8_t payload[MST_PROC_MSG_BYTES];
  mst_proc_msg_encode(&msg, payload);
  mst_chan_open(&chan, self->end, MST_FRAME_MAX_CONTROL);
  if (mst_chan_send_small(&chan, &head, payload, sizeof payload, 1, NULL) != 0)
    leave();
}

// stand makes this process, just forked, a standby.
static void stand(struct standby *self) {
  (void)setpgid(0, 0);
  // A stopped process wouldn't notice the session's end.
  mst_proc_die_with_parent(SIGCONT);
  say_pid(self);
}

// wait_for_fork waits until the session asks for a worker, and receives its descriptors.
static void wait_for_fork(const struct standby *self, int fds[3]) {
  uint8_t bytes[MST_HEAD_BYTES];
  size_t n = 0, count = 0;
  while (n < sizeof bytes) {
    struct pollfd polled[2] = {{.fd = self->end, .events = POLLIN},
                               {.fd = mst_fds_session(), .events = POLLIN}};
    const int ready = poll(polled, 2, polled[1].fd < 0 ? LOOK_MS : -1);
    if (ready < 0 && errno != EINTR) leave();
    if (polled[1].revents != 0 || (ready == 0 && mst_watch_is_orphan()))
      leave();
    if (ready <= 0 || polled[0].revents == 0) continue;
    int got_fds[MST_NET_FDS_MAX];
    size_t got_count = 0;
    int lost = 0;
    const int64_t got = mst_net_recv_fds(self->end, bytes + n, sizeof bytes - n,
                                         0, got_fds, &got_count, &lost, NULL);
    if (got == -MST_EAGAIN) continue;
    if (got < 0 || lost || count + got_count > 3) leave();
    n += (size_t)got;
    for (size_t i = 0; i < got_count; i++)
      fds[count++] = got_fds[i];
  }
  struct mst_head head;
  if (count != 3 ||
      mst_head_decode(bytes, n, MST_FRAME_MAX_CONTROL, &head) <= 0 ||
      head.kind != MST_KIND_FORK) {
    leave();
  }
}

static void close_all(int fds[3]) {
  for (int i = 0; i < 3; i++)
    mst_net_close(&fds[i]);
}

// become makes this process the worker. 0, or an error.
static int become(struct standby *self, int fds[3]) {
  int from[3] = {-1, -1, -1};
  int rc = 0;
  mst_net_close(&self->end);
  for (int i = 0; rc == 0 && i < 3; i++) {
    from[i] = mst_proc_dup(fds[i], FD_FLOOR);
    if (from[i] < 0) rc = -1;
  }
  if (rc == 0) rc = mst_fds_take(from, self->output, self->is_output);
  close_all(fds);
  close_all(from);
  if (rc != 0) return rc;
  mst_proc_expendable(0);
  return mst_watch_start(MST_FD_CONTROL, mst_fds_session(), self->session,
                         NULL);
}

// serve returns in the process that becomes the worker, a new one each time.
static void serve(struct standby *self) {
  for (;;) {
    int fds[3];
    stand(self);
    wait_for_fork(self, fds);
    const pid_t next = fork();
    if (next == 0) { // the next standby
      close_all(fds);
      continue;
    }
    if (next > 0)
      (void)setpgid(next, next);       // both sides set it; either may be first
    if (become(self, fds) != 0) die(); // the session sees it end
    if (next > 0) mst_watch_stands(next);
    return;
  }
}

// threads_left counts the threads of this process. A joined thread may still be counted for a
// moment.
static int threads_left(void) {
  int threads = mst_proc_threads();
  for (int ms = 0; threads > 2 && ms < THREAD_END_MS; ms++) {
    (void)poll(NULL, 0, 1);
    threads = mst_proc_threads();
  }
  return threads;
}

int mst_standby_make(int end, int output, pid_t session, const char *title,
                     struct mst_err *err) {
  struct standby self = {.end = end, .output = output, .session = session};
  const int threads = threads_left();
  if (threads != 2) { // this one and the watch
    mst_net_close(&end);
    return mst_err_set(err, MST_ESYS, threads < 0 ? ENOSYS : EDEADLK, "fork",
                       "the worker has other threads");
  }
  (void)fflush(NULL); // else buffered output would be written twice
  mst_watch_hold();
  const pid_t pid = fork();
  const int sys_errno = errno;
  if (pid != 0) mst_watch_release();
  if (pid != 0) mst_net_close(&end);
  if (pid < 0) {
    return mst_err_set(err, MST_ESYS, sys_errno, "fork", "%s",
                       strerror(sys_errno));
  }
  if (pid > 0) {
    (void)setpgid(pid, pid);
    mst_watch_stands(pid);
    return 1;
  }
  mst_proc_title(title);
  mst_proc_expendable(1);
  mst_watch_leave();
  if (mst_fds_leave(output, self.is_output) != 0) die();
  serve(&self);
  return 0;
}
