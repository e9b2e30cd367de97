// Tests of base/mst_features.h: the substitutes for missing features. A build without MST_PORTABLE
// tests the features themselves.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "fork/fork.h"
#include "mst_net_test.h"

TEST("A feature has one name, and MST_PORTABLE disables all of them") {
  size_t n;
  const struct mst_feature *features = mst_features(&n);
  CHECK(n > 10);
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < i; k++)
      CHECK(strcmp(features[i].name, features[k].name) != 0);
#ifdef MST_PORTABLE
    CHECK_INT(features[i].is_here, 0);
#endif
  }
}

TEST(
    "Descriptors go along with bytes, or are refused before any byte is sent") {
  int pair[2], fds[MST_NET_FDS_MAX], pipe_fds[2];
  char byte = 'x';
  size_t count = 9;
  int lost = 9;
  struct mst_err err;
  const struct iovec part = {.iov_base = &byte, .iov_len = 1};
  CHECK_INT(mst_net_pair(pair, NULL), 0);
  CHECK_INT(mst_net_pipe(pipe_fds, NULL), 0);
  const int64_t sent = mst_net_sendv(pair[0], &part, 1, pipe_fds, 2, 0, &err);
  if (MST_HAVE_SCM_RIGHTS) {
    CHECK_INT(sent, 1);
    CHECK_INT(mst_net_recv_fds(pair[1], &byte, 1, 0, fds, &count, &lost, NULL),
              1);
    CHECK_INT(count, 2);
    CHECK(write(fds[1], "y", 1) == 1);
    CHECK_INT(mst_net_read(pipe_fds[0], &byte, 1, NULL), 1);
    for (size_t i = 0; i < count; i++) {
      CHECK((fcntl(fds[i], F_GETFD) & FD_CLOEXEC) != 0);
      mst_net_close(&fds[i]);
    }
  } else {
    CHECK_INT(sent, -MST_ESYS);
    CHECK_INT(err.sys_errno, ENOTSUP);
    CHECK_INT(mst_net_recv_fds(pair[1], &byte, 1, 0, fds, &count, &lost, NULL),
              -MST_EAGAIN);
    CHECK_INT(count, 0);
    CHECK_INT(mst_net_sendv(pair[0], &part, 1, NULL, 0, 0, NULL), 1);
    CHECK_INT(mst_net_recv_fds(pair[1], &byte, 1, 0, fds, &count, &lost, NULL),
              1);
    CHECK_INT(count, 0);
  }
  for (int i = 0; i < 2; i++) {
    mst_net_close(&pair[i]);
    mst_net_close(&pipe_fds[i]);
  }
}

TEST("The best loop has a descriptor if there is epoll, and none otherwise") {
  struct mst_loop *loop;
  CHECK_INT(mst_loop_open(MST_LOOP_BEST, &loop, NULL), 0);
  CHECK_INT(mst_loop_fd(loop) >= 0, MST_HAVE_EPOLL);
  mst_loop_close(loop);
  const int rc = mst_loop_open(MST_LOOP_EPOLL, &loop, NULL);
  CHECK_INT(rc, MST_HAVE_EPOLL ? 0 : -MST_EINPUT);
  if (rc == 0) mst_loop_close(loop);
}

TEST("Every way to close descriptors closes all from a number on") {
  void (*const ways[])(int) = {mst_proc_close_from, mst_proc_close_each};
  for (int way = 0; way < 2; way++) {
    (void)fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
      for (int fd = 100; fd < 200; fd += 7)
        if (dup2(STDOUT_FILENO, fd) < 0) _exit(1);
      ways[way](107);
      if (fcntl(100, F_GETFD) < 0) _exit(2);
      for (int fd = 107; fd < 200; fd++)
        if (fcntl(fd, F_GETFD) >= 0) _exit(3);
      _exit(0);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
  }
}

TEST("An exiting process is distinguished from a living one until it is "
     "reaped") {
  int pair[2];
  CHECK(pipe(pair) == 0);
  (void)fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    char byte;
    mst_net_close(&pair[1]);
    (void)!read(pair[0], &byte, 1);
    _exit(0);
  }
  mst_net_close(&pair[0]);
  CHECK_INT(mst_proc_exits(pid), MST_HAVE_PROC ? 0 : -1);
  mst_net_close(&pair[1]);
  siginfo_t info;
  CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
  CHECK_INT(mst_proc_exits(pid), MST_HAVE_PROC ? 1 : -1);
  CHECK(waitpid(pid, NULL, 0) == pid);
  CHECK_INT(mst_proc_exits(pid), -1);
}

static void *waits_for_byte(void *arg) {
  int *fds = arg;
  char byte;
  fds[2] = mst_proc_thread();
  __atomic_store_n(&fds[3], 1, __ATOMIC_RELEASE);
  (void)!read(fds[0], &byte, 1);
  return NULL;
}

TEST("A thread that waits is told from one that computes") {
  struct mst_activity pace = {0};
  if (!MST_HAVE_PROC) {
    CHECK_INT(mst_proc_activity(mst_proc_thread(), &pace), -1);
    return;
  }
  CHECK_INT(mst_proc_activity(mst_proc_thread(), &pace), 0);
  CHECK_INT(pace.sleeps, 0);
  const int64_t before = pace.cpu_ns;
  while (pace.cpu_ns < before + 20 * MST_NS_PER_MS)
    CHECK_INT(mst_proc_activity(mst_proc_thread(), &pace), 0);
  int fds[4] = {0};
  CHECK(pipe(fds) == 0);
  pthread_t thread;
  CHECK_INT(pthread_create(&thread, NULL, waits_for_byte, fds), 0);
  while (__atomic_load_n(&fds[3], __ATOMIC_ACQUIRE) == 0) {
  }
  do {
    CHECK_INT(mst_proc_activity(fds[2], &pace), 0);
  } while (!pace.sleeps);
  mst_net_close(&fds[1]);
  CHECK_INT(pthread_join(thread, NULL), 0);
  mst_net_close(&fds[0]);
  while (mst_proc_activity(fds[2], &pace) == 0) { // until the kernel removes it
  }
}

// await_runs waits until mst_proc_runs says `wanted`.
static void await_runs(pid_t pid, int wanted) {
  while (mst_proc_runs(pid) != wanted)
    (void)poll(NULL, 0, 1);
}

TEST("L1: a process that computes is told from one that waits, and a stopped one") {
  int fds[2];
  CHECK(pipe(fds) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    char byte;
    (void)!read(fds[0], &byte, 1);
    for (volatile int i = 0;; i++) {
    }
  }
  if (!MST_HAVE_PROC) {
    CHECK_INT(mst_proc_runs(pid), 0);
  } else {
    await_runs(pid, 0);
    CHECK(write(fds[1], "", 1) == 1);
    await_runs(pid, 1);
    CHECK_INT(kill(pid, SIGSTOP), 0);
    await_runs(pid, 0);
    CHECK_INT(kill(pid, SIGCONT), 0);
    await_runs(pid, 1);
  }
  CHECK_INT(kill(pid, SIGKILL), 0);
  CHECK_INT(waitpid(pid, NULL, 0), pid);
  CHECK_INT(mst_proc_runs(pid), 0);
  mst_net_close(&fds[0]);
  mst_net_close(&fds[1]);
}

TEST("Unavailable facts of processes are unknown, not wrong") {
  int pidfd = mst_proc_pidfd(getpid());
  CHECK_INT(pidfd >= 0, MST_HAVE_PIDFD);
  mst_net_close(&pidfd);
  CHECK(mst_proc_threads() >= 1 || !MST_HAVE_PROC);
  if (!MST_HAVE_PROC) {
    CHECK_INT(mst_proc_threads(), -1);
    CHECK_INT(mst_proc_oom_kills(), -1);
  }
  mst_proc_title("nothing happens in a process whose command isn't boot.R's");
  CHECK_INT(mst_proc_can_fork(), MST_HAVE_FORK);
}

// ---- a booted worker without a pidfd: a child of its session, which a separate process plays

struct family {
  pid_t session;
  int control; // the session's end
  int alive;   // at its end when the worker has ended
};

// begin_family starts both. tempdir: the worker's, or NULL.
static struct family begin_family(const char *tempdir) {
  struct family family;
  int ends[2], told[2], held[2];
  char byte;
  CHECK(pipe(told) == 0 && pipe(held) == 0);
  connected_pair(&ends[0], &ends[1]);
  (void)fflush(NULL);
  family.session = fork();
  CHECK(family.session >= 0);
  if (family.session == 0) {
    const pid_t session = getpid();
    if (fork() == 0) {
      (void)setpgid(0, 0);
      mst_net_close(&ends[0]);
      mst_watch_invite(NULL);
      if (mst_watch_start(ends[1], -1, session, NULL) != 0) _exit(1);
      if (tempdir != NULL) mst_watch_set_tempdir(tempdir);
      if (write(told[1], "", 1) != 1) _exit(1);
    } else {
      mst_net_close(&ends[1]);
      (void)close(held[1]);
    }
    for (;;)
      (void)pause();
  }
  (void)close(held[1]);
  mst_net_close(&ends[1]);
  CHECK(read(told[0], &byte, 1) == 1);
  (void)close(told[0]);
  (void)close(told[1]);
  family.control = ends[0];
  family.alive = held[0];
  return family;
}

static void await_worker(struct family *family) {
  struct pollfd end = {.fd = family->alive, .events = POLLIN};
  CHECK_INT(poll(&end, 1, 20000), 1);
  CHECK(waitpid(family->session, NULL, 0) == family->session);
  (void)close(family->alive);
  mst_net_close(&family->control);
}

// A zombie keeps its pid, and the test's copy of the socket keeps that open.
TEST("A worker without a pidfd ends with a session that nobody reaps") {
  struct family family = begin_family(NULL);
  CHECK(kill(family.session, SIGKILL) == 0);
  await_worker(&family);
}

TEST("A worker without a pidfd removes the directories of a session that ends "
     "as its sockets do") {
  char base[] = "/tmp/mst-family-XXXXXX", booted[64], own[80];
  CHECK(mkdtemp(base) != NULL);
  (void)snprintf(booted, sizeof booted, "%s/booted", base);
  (void)snprintf(own, sizeof own, "%s/own", booted);
  CHECK(mkdir(booted, 0700) == 0 && mkdir(own, 0700) == 0);
  struct family family = begin_family(own);
  mst_net_close(&family.control); // the session's copy is the last
  CHECK(kill(family.session, SIGKILL) == 0);
  await_worker(&family);
  CHECK(access(base, F_OK) != 0);
}
