// Tests of fork/client: launches that a fork server doesn't read, and those that the system has no
// room for. The server is a program that only reads its channel, once it is let.
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "base/mst_fault.h"
#include "base/mst_features.h"
#include "fork/fork.h"
#include "mst_test.h"

#define LAUNCHES 2000u

static struct mst_host host;
static struct mst_loop *loop;
static struct mst_server *server;
static struct mst_conduit conduits[LAUNCHES];
static uint32_t launched, failed;

static void readable(void *owner) {
  mst_conduit_deafen(&conduits[*(uint32_t *)owner]);
}
static void controlled(void *owner, const struct mst_frame *frame) {
  (void)owner, (void)frame;
}
static void printed(void *owner, const char *bytes, size_t n) {
  (void)owner, (void)bytes, (void)n;
}
static void put_off(void *owner, int64_t later_ns) {
  (void)owner, (void)later_ns;
}
static const struct mst_conduit_events events = {.readable = readable,
                                                 .control = controlled,
                                                 .printed = printed,
                                                 .put_off = put_off};

static void heard(void *owner, const struct mst_news *news) {
  (void)owner;
  CHECK_INT(news->kind, MST_NEWS_FORK_FAILED);
  failed++;
}

static int count_fds(void) {
  int n = 0;
  DIR *dir = opendir("/proc/self/fd");
  if (dir == NULL) return 0; // not this system
  while (readdir(dir) != NULL)
    n++;
  CHECK_INT(closedir(dir), 0);
  return n;
}

// start makes a server that stands still until it gets SIGCONT, and then reads without end.
static void start(void) {
  char shell[] = "/bin/sh", flag[] = "-c",
       code[] = "kill -STOP $$; exec cat <&3 >/dev/null";
  char *const argv[] = {shell, flag, code, NULL};
  const char *const env[] = {NULL};
  struct mst_spawn spawn = {.file = shell,
                            .argv = argv,
                            .env = env,
                            .fds = {-1, -1, -1},
                            .output = -1, .errors = -1,
                            .input = -1};
  struct mst_blob *setup = mst_blob_new();
  siginfo_t info;
  NEEDS(MST_HAVE_SCM_RIGHTS);
  launched = failed = 0;
  CHECK_INT(mst_loop_open(MST_LOOP_BEST, &loop, NULL), 0);
  CHECK_INT(mst_server_start(&host, loop, loop, &spawn, setup, heard, NULL,
                             &server, NULL),
            0);
  mst_blob_release(setup);
  CHECK_INT(waitid(P_PID, (id_t)server->pid, &info, WSTOPPED), 0);
  server->state = MST_SERVER_READY; // it can't say so
}

static void launch(void) {
  static uint32_t numbers[LAUNCHES];
  const struct mst_incarnation of = {.cluster = 1, .worker = launched};
  CHECK(launched < LAUNCHES);
  numbers[launched] = launched;
  mst_conduit_init(&conduits[launched], loop, loop, &events,
                   &numbers[launched]);
  CHECK_INT(server->launcher.launch(&server->launcher, &of, &conduits[launched],
                                    NULL),
            0);
  launched++;
}

static void end(void) {
  mst_server_free(server);
  for (uint32_t i = 0; i < launched; i++) {
    mst_conduit_close(&conduits[i]);
    mst_tail_free(&conduits[i].output.tail);
  }
  mst_loop_close(loop);
}

TEST(
    "A server that doesn't read holds up nobody, and gets all launches later") {
  const int before = count_fds();
  start();
  while (server->waiting == NULL)
    launch();
  launch();
  launch();
  CHECK_INT(server->asked, launched);
  CHECK_INT(mst_loop_run(loop, 0, NULL), 0); // there is nothing to do
  CHECK_INT(kill(server->pid, SIGCONT), 0);
  while (server->waiting != NULL)
    (void)mst_loop_run(loop, -1, NULL);
  CHECK_INT(failed, 0);
  CHECK_INT(server->asked, launched); // it has answered none of them
  end();
  CHECK_INT(count_fds(), before);
}

TEST("Launches that wait are over when their server is gone") {
  const int before = count_fds();
  start();
  while (server->waiting == NULL)
    launch();
  launch();
  CHECK_INT(kill(server->pid, SIGKILL), 0);
  while (!server->launcher.gone)
    (void)mst_loop_run(loop, -1, NULL);
  CHECK(server->waiting == NULL);
  // A worker's end is closed with what was sent to nobody: its conduit ends.
  while (mst_conduit_listens(&conduits[launched - 1]))
    (void)mst_loop_run(loop, -1, NULL);
  end();
  CHECK_INT(count_fds(), before);
}

TEST("A launch that the system has no room for is tried again, in order") {
  start();
  (void)mst_fault_arm("net.send", 1, ETOOMANYREFS);
  launch();
  CHECK(server->waiting != NULL);
  CHECK(server->launcher.due_ns > 0);
  CHECK_INT(mst_loop_run(loop, 0, NULL), 0); // a writable socket is no reason
  launch();
  CHECK(server->waiting == NULL);
  CHECK_INT(mst_fault_arm("net.send", 0, 0), 3);
  (void)mst_fault_arm("net.send", 1, ETOOMANYREFS);
  launch();
  CHECK(server->waiting != NULL);
  server->launcher.reap(&server->launcher);
  CHECK(server->waiting == NULL);
  CHECK_INT(server->launcher.due_ns, 0);
  CHECK_INT(mst_fault_arm("net.send", 0, 0), 2);
  CHECK_INT(failed, 0);
  end();
}

TEST("A launch that can't be sent fails, and is nobody's to wait for") {
  start();
  (void)mst_fault_arm("net.send", 1, EIO);
  launch();
  CHECK_INT(mst_fault_arm("net.send", 0, 0), 1);
  CHECK_INT(failed, 1);
  CHECK_INT(server->asked, 0);
  CHECK(server->waiting == NULL);
  end();
}
