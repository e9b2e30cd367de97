// The fork server's loop. See fork.h for the processes.
//
// One thread, one poll: the session's channel, the session's pidfd, and a pipe that the handlers of
// SIGCHLD, SIGTERM and SIGCONT write to (this process is ours, so its handlers are too). Forking
// happens here, inside .Call: the child returns from mst_server_run into R code that the server has
// already run, so that the child doesn't have to compile or load anything.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "fork/child.h"
#include "fork/fork.h"

// After its session is gone the server has this long to end its workers and to remove their files.
// Nobody waits for it then; on a loaded machine large processes take long to end.
#define END_NS (60 * MST_NS_PER_S)

struct kid {
  pid_t pid;
  uint32_t cluster, worker, epoch;
  int adopted; // it may still be another's child
};

static struct {
  struct kid *kids;
  size_t kid_count, kid_cap;
  struct mst_chan chan;
  int pending_fds[MST_NET_FDS_MAX]; // of FORK frames not taken yet
  size_t pending_count;
  int wake[2]; // pipe of the signal handlers
  volatile sig_atomic_t terminate;
  const struct mst_server_config *config;
  struct mst_host host; // this one, for its kills for memory
} server;

static void on_signal(int sig) {
  const int errno_kept = errno;
  if (sig == SIGTERM) server.terminate = 1;
  const ssize_t written = write(server.wake[1], "", 1);
  (void)written; // full: the loop wakes up anyway
  errno = errno_kept;
}

static int handle_signals(struct mst_err *err) {
  const int rc = mst_net_pipe(server.wake, err);
  if (rc != 0) return rc;
  (void)fcntl(server.wake[1], F_SETFL, O_NONBLOCK);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_NOCLDSTOP;
  (void)sigaction(SIGCHLD, &action, NULL);
  (void)sigaction(SIGTERM, &action, NULL);
  (void)sigaction(SIGCONT, &action, NULL);
  // SIGKILL until now, so that a boot that hangs ends with the session; from here on there may be
  // workers and directories to clean up. SIGCONT, since a stopped server takes no other signal but
  // SIGKILL: it continues, and sees that its parent has changed.
  mst_proc_die_with_parent(SIGCONT);
  return 0;
}

// say queues a message; serve() sends the unsent rest. Waiting here for a session that computes, or
// that is gone while its forked child holds the socket, would keep this loop from seeing the
// session's end.
static int say(uint8_t kind, const struct kid *kid, uint32_t pid, uint32_t how,
               int32_t number) {
  struct mst_head head = {.kind = kind};
  if (kid != NULL) {
    head.cluster = kid->cluster;
    head.worker = kid->worker;
    head.epoch = kid->epoch;
  }
  const struct mst_proc_msg msg = {.pid = pid, .how = how, .number = number};
  uint8_t payload[MST_PROC_MSG_BYTES];
  mst_proc_msg_encode(&msg, payload);
  return mst_chan_send_small(&server.chan, &head, payload, sizeof payload, 0,
                             NULL);
}

void mst_server_say(uint8_t kind, const char *text) {
  struct mst_chan chan;
  struct mst_head head = {.kind = kind};
  uint8_t payload[MST_TEXT_MAX + 8u];
  const int n = mst_text_encode(text, payload, sizeof payload);
  if (n < 0) return;
  mst_chan_open(&chan, MST_FD_DATA, MST_FRAME_MAX_CONTROL);
  (void)mst_chan_send_small(&chan, &head, payload, (size_t)n, 1, NULL);
}

static int remember(const struct kid *kid) {
  if (server.kid_count == server.kid_cap) {
    const size_t cap = server.kid_cap == 0 ? 64 : server.kid_cap * 2;
    struct kid *grown = realloc(server.kids, cap * sizeof *grown);
    if (grown == NULL) return -MST_EMEM;
    server.kids = grown;
    server.kid_cap = cap;
  }
  server.kids[server.kid_count++] = *kid;
  return 0;
}

// refusal gives the errno for refusing this fork, 0 to allow it.
static int refusal(const int fds[3]) {
  if (fds[0] < 0) return EMFILE; // there was no room for its descriptors
  if (mst_proc_threads() > 1) return EDEADLK; // client.c knows this errno
  return 0;
}

// fork_one makes one worker. Returns 1 in the worker, 0 in the server.
static int fork_one(const struct mst_frame *frame, const int fds[3],
                    int *child_rc, struct mst_err *err) {
  struct kid kid = {.cluster = frame->head.cluster,
                    .worker = frame->head.worker,
                    .epoch = frame->head.epoch};
  int failed = refusal(fds);
  if (failed == 0 && remember(&kid) != 0) failed = ENOMEM;
  if (failed != 0) {
    (void)say(MST_KIND_FORK_FAILED, &kid, 0, 0, failed);
    return 0;
  }
  const pid_t self = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    *child_rc = mst_child_become(fds, self, server.config->session, err);
    return 1;
  }
  if (pid < 0) {
    const int fork_errno = errno;
    server.kid_count--;
    (void)say(MST_KIND_FORK_FAILED, &kid, 0, 0, fork_errno);
    return 0;
  }
  (void)setpgid(pid, pid); // both sides set it; either may be first
  server.kids[server.kid_count - 1].pid = pid;
  (void)say(MST_KIND_FORKED, &kid, (uint32_t)pid, 0, 0);
  return 0;
}

static int is_kid(pid_t pid) {
  for (size_t i = 0; i < server.kid_count; i++) {
    if (server.kids[i].pid == pid) return 1;
  }
  return 0;
}

// reap_others reaps orphans that became children of this process: unneeded standbys, and processes
// that workers had started.
static void reap_others(void) {
  siginfo_t info = {0};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid > 0 && !is_kid(info.si_pid)) {
    (void)waitpid(info.si_pid, NULL, 0);
    info.si_pid = 0;
  }
}

static int has_ended(const struct kid *kid, uint32_t *how, int32_t *number) {
  const int rc = mst_reap(kid->pid, how, number);
  return rc == 1 || (rc < 0 && (!kid->adopted || kill(kid->pid, 0) != 0));
}

// is_for_memory tells whether the system seems to have ended a worker for memory. The session
// counts its own host's kills; of another host's it only hears this.
static int is_for_memory(uint32_t how, int32_t number) {
  if (how != MST_EXIT_SIGNAL || number != SIGKILL ||
      !mst_host_lacked_memory(&server.host, mst_clock_now())) {
    return 0;
  }
  mst_host_count_kill(&server.host);
  return 1;
}

static void reap_all(void) {
  for (size_t i = 0; i < server.kid_count;) {
    uint32_t how;
    int32_t number;
    if (!has_ended(&server.kids[i], &how, &number)) {
      i++;
      continue;
    }
    const struct kid gone = server.kids[i];
    server.kids[i] = server.kids[--server.kid_count];
    if (is_for_memory(how, number)) how = MST_EXIT_MEMORY;
    (void)say(MST_KIND_EXITED, &gone, (uint32_t)gone.pid, how, number);
  }
  reap_others(); // a kid that stops this loop has its own SIGCHLD
}

// adopt records as a worker a standby that became this process's child when its worker ended.
static void adopt(const struct mst_frame *frame) {
  struct mst_proc_msg msg;
  if (mst_proc_msg_decode(frame->payload, (size_t)frame->head.length, &msg) !=
          0 ||
      msg.pid <= 1) {
    return;
  }
  const struct kid kid = {.pid = (pid_t)msg.pid,
                          .cluster = frame->head.cluster,
                          .worker = frame->head.worker,
                          .epoch = frame->head.epoch,
                          .adopted = 1};
  (void)remember(&kid); // if memory is short, its end isn't reported
  reap_all();           // it may have ended before: then no SIGCHLD will come
}

static void signal_one(const struct mst_frame *frame) {
  struct mst_proc_msg msg;
  if (mst_proc_msg_decode(frame->payload, (size_t)frame->head.length, &msg) !=
      0) {
    return;
  }
  for (size_t i = 0; i < server.kid_count; i++) {
    const struct kid *kid = &server.kids[i];
    if (kid->cluster == frame->head.cluster &&
        kid->worker == frame->head.worker && kid->epoch == frame->head.epoch) {
      (void)kill(-kid->pid, msg.number);
    }
  }
}

// drop_fds removes the first n pending descriptors.
static void drop_fds(size_t n) {
  for (size_t i = 0; i < n; i++)
    mst_net_close(&server.pending_fds[i]);
  server.pending_count -= n;
  memmove(server.pending_fds, server.pending_fds + n,
          server.pending_count * sizeof(int));
}

// serve_frames carries out the session's requests. 1 in a forked worker, 0 in the server, -1 if the
// session is gone or its bytes are invalid.
static int serve_frames(int *child_rc, struct mst_err *err) {
  struct mst_frame frame;
  int rc;
  while ((rc = mst_chan_peek(&server.chan, &frame, err)) == 1) {
    if (frame.head.kind == MST_KIND_FORK) {
      if (server.pending_count < 3) return -1;
      if (fork_one(&frame, server.pending_fds, child_rc, err) == 1) return 1;
      drop_fds(3);
    } else if (frame.head.kind == MST_KIND_SIGNAL) {
      signal_one(&frame);
    } else if (frame.head.kind == MST_KIND_ADOPT) {
      adopt(&frame);
    } else if (frame.head.kind == MST_KIND_PING) {
      (void)say(MST_KIND_PONG, NULL, 0, 0, 0);
    }
    mst_chan_take(&server.chan, &frame);
  }
  return rc < 0 ? -1 : 0;
}

// read_one never reads past one frame, so that descriptors of the next frame aren't mixed up with
// this one's: a FORK frame is only a header.
static int read_one(struct mst_err *err) {
  struct mst_chan *chan = &server.chan;
  const size_t have = chan->in.len - chan->in_head;
  struct mst_frame frame;
  uint64_t used = 0;
  size_t want = MST_HEAD_BYTES;
  if (have > 0) {
    const int rc = mst_frame_parse(chan->in.data + chan->in_head, have,
                                   chan->length_max, &frame, &used);
    if (rc < 0) return rc;
    if (used > 0) want = (size_t)used;
  }
  if (mst_buf_reserve(&chan->in, want) != 0) return -MST_EMEM;
  int fds[MST_NET_FDS_MAX];
  size_t n = 0;
  int lost;
  const int64_t got = mst_net_recv_fds(chan->fd, chan->in.data + chan->in.len,
                                       want - have, 0, fds, &n, &lost, err);
  if (got < 0) return (int)got;
  chan->in.len += (size_t)got;
  while (lost && n < 3) // a FORK has three
    fds[n++] = -1;
  if (n > 0 && server.pending_count + n > MST_NET_FDS_MAX) return -MST_EPROTO;
  memcpy(server.pending_fds + server.pending_count, fds, n * sizeof(int));
  server.pending_count += n;
  return 0;
}

// end_kids kills and reaps all workers, and removes their directories.
static void end_kids(void) {
  const int64_t deadline_ns = mst_clock_now() + END_NS;
  for (size_t i = 0; i < server.kid_count; i++) {
    (void)kill(-server.kids[i].pid, SIGKILL);
  }
  while (server.kid_count > 0 && mst_clock_now() < deadline_ns) {
    reap_all();
    if (server.kid_count > 0) (void)poll(NULL, 0, 1);
  }
  (void)mst_tree_remove(server.config->temp_dir, deadline_ns);
  // Its parent directory, if this was the last server in it.
  char round[MST_TEXT_MAX];
  strncpy(round, server.config->temp_dir, sizeof round - 1);
  round[sizeof round - 1] = '\0';
  char *slash = strrchr(round, '/');
  if (slash == NULL || slash == round) return;
  *slash = '\0';
  (void)rmdir(round);
}

static void empty_wake(void) {
  char bytes[256];
  while (mst_net_read(server.wake[0], bytes, sizeof bytes, NULL) > 0)
    continue;
}

// serve returns 0 when the server must end, 1 in a forked worker, 2 when it is idle.
static int serve(int *child_rc, struct mst_err *err) {
  struct pollfd fds[3] = {
      {.fd = server.chan.fd, .events = POLLIN},
      {.fd = server.wake[0], .events = POLLIN},
      {.fd = mst_fds_session(), .events = POLLIN},
  };
  const int look_ms = fds[2].fd >= 0 ? -1 : 500;
  for (;;) {
    fds[0].events =
        mst_chan_wants_write(&server.chan) ? POLLIN | POLLOUT : POLLIN;
    const int64_t later_ns = mst_chan_later_ns(&server.chan);
    const int may_idle = server.config->idle_ms > 0 && server.kid_count > 0;
    const int ms = later_ns != INT64_MAX ? mst_clock_ms_until(later_ns, 500)
                   : may_idle            ? server.config->idle_ms
                                         : look_ms;
    const int ready = poll(fds, 3, ms);
    if (ready < 0 && errno != EINTR) return 0;
    empty_wake();
    reap_all();
    if (later_ns != INT64_MAX) (void)mst_chan_flush(&server.chan, err);
    if (server.terminate || getppid() != server.config->session) return 0;
    if (ready == 0 && may_idle && later_ns == INT64_MAX) return 2;
    if (ready <= 0) continue;
    if (fds[2].revents != 0) return 0;
    if ((fds[0].revents & POLLOUT) != 0)
      (void)mst_chan_flush(&server.chan, err);
    if ((fds[0].revents & ~POLLOUT) == 0) continue;
    const int rc = read_one(err);
    if (rc == -MST_EAGAIN) continue;
    if (rc < 0) return 0;
    const int served = serve_frames(child_rc, err);
    if (served != 0) return served > 0;
  }
}

// forget_server frees the server's memory in a forked worker. The descriptors are closed already.
static void forget_server(void) {
  free(server.kids);
  server.kids = NULL;
  server.kid_count = server.kid_cap = 0;
  server.chan.fd = -1; // its number belongs to the worker's own channel now
  mst_chan_close(&server.chan);
  server.pending_count = 0;
}

// begin_serving tells the session that this process is ready. 0, or an error.
static int begin_serving(struct mst_err *err) {
  mst_chan_open(&server.chan, MST_FD_DATA, MST_FRAME_MAX_CONTROL);
  if (mst_fds_keep() != 0) {
    return mst_err_set(err, MST_ESYS, errno, "open", "%s", strerror(errno));
  }
  const int rc = handle_signals(err);
  if (rc != 0) return rc;
  (void)mst_proc_adopt(); // on failure process 1 reaps standbys
  mst_host_here(&server.host);
  // A session that is gone is noticed by serve().
  (void)say(MST_KIND_SERVER_READY, NULL, (uint32_t)getpid(), 0,
            mst_proc_threads());
  return 0;
}

int mst_server_run(const struct mst_server_config *config,
                   struct mst_err *err) {
  const int is_first = server.config == NULL;
  server.config = config;
  const int rc = is_first ? begin_serving(err) : 0;
  if (rc != 0) return rc;
  // Otherwise every worker would write buffered output again.
  (void)fflush(NULL);
  int child_rc = 0;
  const int how = serve(&child_rc, err);
  if (how == 2) return MST_SERVER_IDLE;
  if (how == 1) {
    forget_server();
    return child_rc < 0 ? child_rc : 1;
  }
  end_kids();
  return 0;
}
