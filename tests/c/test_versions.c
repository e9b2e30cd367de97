// Which versions are compatible: docs/PROTOCOL.md. A session receives hellos of newer, older and
// broken workers, byte for byte; each worker is a pair of sockets without a process.
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "mst_test.h"
#include "pool/session.h"
#include "pool/session_int.h"

#define BUILD "a test"

// The only worker: its first message, and its ends of the channels.
struct stranger {
  struct mst_launcher launcher; // first member: casts both ways
  struct mst_session *session;
  uint8_t bytes[MST_HEAD_BYTES + MST_HELLO_BYTES_MAX + 1];
  size_t n;
  int data, control;
  int ready; // SETUP came, and READY was answered
  uint8_t setup_version;
};
static struct stranger stranger;
static struct mst_session session;

static void tell(uint32_t cluster, enum mst_news_kind kind) {
  const int is_end = kind == MST_NEWS_EXITED;
  const struct mst_news news = {.kind = kind,
                                .of = {.cluster = cluster},
                                .how = is_end ? MST_EXIT_SIGNAL : 0,
                                .number = is_end ? 9 : 4711};
  mst_session_news(&session, &news);
}

static int launch(struct mst_launcher *self, const struct mst_incarnation *of,
                  struct mst_conduit *conduit, struct mst_err *err) {
  struct mst_ends theirs;
  (void)self;
  CHECK_INT(mst_conduit_open(conduit, NULL, &theirs, err), 0);
  stranger.data = theirs.fds[0];
  stranger.control = theirs.fds[1];
  mst_net_close(&theirs.fds[2]);
  CHECK_INT(send(stranger.data, stranger.bytes, stranger.n, MSG_NOSIGNAL),
            stranger.n);
  tell(of->cluster, MST_NEWS_FORKED);
  return 0;
}

static void end_it(struct mst_launcher *self, const struct mst_incarnation *of,
                   pid_t pid, int signal) {
  (void)self, (void)pid, (void)signal;
  if (stranger.data < 0) return;
  mst_net_close(&stranger.data);
  mst_net_close(&stranger.control);
  tell(of->cluster, MST_NEWS_EXITED);
}

// answer_setup says READY once SETUP is there.
static void answer_setup(void) {
  uint8_t bytes[MST_HEAD_BYTES];
  if (stranger.ready || stranger.data < 0 ||
      recv(stranger.data, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT) <
          (ssize_t)sizeof bytes)
    return;
  uint8_t ready[MST_HEAD_BYTES + 8];
  const int n = mst_text_encode("/t", ready + MST_HEAD_BYTES, 8);
  const struct mst_head head = {.kind = MST_KIND_READY, .length = (uint64_t)n};
  mst_head_encode(&head, ready);
  CHECK_INT(bytes[3], MST_KIND_SETUP);
  stranger.setup_version = bytes[2];
  CHECK_INT(send(stranger.data, ready, MST_HEAD_BYTES + (size_t)n, 0),
            MST_HEAD_BYTES + (size_t)n);
  stranger.ready = 1;
}

static void nothing_to_reap(struct mst_launcher *self) { (void)self; }

static const struct mst_hello known = {.version_min = 1,
                                       .version_max = 1,
                                       .forked = 1,
                                       .pid = 4711,
                                       .r_version = 0x00040202,
                                       .build = BUILD};

// say_hello sets the next worker's hello, followed by `more` zero bytes.
static void say_hello(const struct mst_hello *hello, size_t more) {
  memset(&stranger, 0, sizeof stranger);
  const int n = mst_hello_encode(hello, stranger.bytes + MST_HEAD_BYTES,
                                 MST_HELLO_BYTES_MAX);
  const struct mst_head head = {.kind = MST_KIND_HELLO,
                                .length = (uint64_t)n + more};
  mst_head_encode(&head, stranger.bytes);
  stranger.n = MST_HEAD_BYTES + (size_t)n + more;
}

// start returns the session's objection to the worker: NONE if it was admitted.
static enum mst_why start(void) {
  struct mst_cluster *cluster = NULL;
  struct mst_blob *setup = mst_blob_new();
  mst_thread_mark_r();
  CHECK(setup != NULL);
  CHECK_INT(mst_session_open(&session, MST_LOOP_BEST, BUILD, NULL), 0);
  stranger.launcher = (struct mst_launcher){.host = &session.here,
                                            .launch = launch,
                                            .signal = end_it,
                                            .reap = nothing_to_reap};
  stranger.data = stranger.control = -1;
  const struct mst_group group = {
      .workers = 1, .launcher = &stranger.launcher, .setup = setup};
  CHECK_INT(mst_cluster_new(&session, &group, 1, 32, &cluster, NULL), 0);
  mst_blob_release(setup);
  cluster->calls.timeout_ns = INT64_MAX;
  mst_cluster_start(cluster, mst_clock_now() + 30 * MST_NS_PER_S);
  while (!cluster->started && !cluster->start_failed) {
    CHECK_INT(mst_session_run(&session, 10, NULL), 0);
    answer_setup();
  }
  const enum mst_why why = cluster->calls.pool.workers[0]->why;
  CHECK_INT(cluster->started, why == MST_WHY_NONE);
  if (cluster->started) mst_cluster_stop(cluster);
  while (cluster->started && !cluster->stopped) {
    CHECK_INT(mst_session_run(&session, 10, NULL), 0);
    end_it(NULL, &(struct mst_incarnation){.cluster = cluster->id}, 0, 0);
  }
  mst_cluster_free(cluster);
  mst_session_close(&session);
  return why;
}

static void refused(enum mst_why why) {
  CHECK_INT(start(), why);
  CHECK(!stranger.ready);
}

TEST("A worker of this version is admitted, and addressed in it") {
  say_hello(&known, 0);
  CHECK_INT(start(), MST_WHY_NONE);
  CHECK(stranger.ready);
  CHECK_INT(stranger.setup_version, MST_WIRE_VERSION);
}

TEST("A newer worker that also speaks this version is admitted, in this "
     "version") {
  struct mst_hello newer = known;
  newer.version_max = 0xFFFF;
  say_hello(&newer, 0);
  CHECK_INT(start(), MST_WHY_NONE);
  CHECK_INT(stranger.setup_version, MST_WIRE_VERSION);
}

TEST("A worker that only speaks newer versions is refused, with the reason") {
  struct mst_hello newer = known;
  newer.version_min = newer.version_max = MST_WIRE_VERSION + 1;
  say_hello(&newer, 0);
  refused(MST_WHY_VERSION);
}

TEST("A worker of another build is refused, with the reason") {
  struct mst_hello other = known;
  other.build[0] = 'A';
  say_hello(&other, 0);
  refused(MST_WHY_BUILD);
}

TEST("A hello that is longer than this version's is refused, with the reason") {
  say_hello(&known, 1);
  refused(MST_WHY_HELLO);
}

TEST("Before a hello nothing else, and nothing longer, is read") {
  say_hello(&known, 0);
  memset(stranger.bytes + 32, 0xFF, 2); // the length: 65,535
  refused(MST_WHY_FRAME);
  say_hello(&known, 0);
  stranger.bytes[3] = MST_KIND_READY;
  refused(MST_WHY_MESSAGE);
}

TEST("A frame of another version, kind or flag ends the worker that sent it") {
  const struct {
    size_t at;
    uint8_t byte;
  } cases[] = {{2, MST_WIRE_VERSION + 1}, {3, 22}, {5, 0x80}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    say_hello(&known, 0);
    stranger.bytes[cases[i].at] = cases[i].byte;
    refused(MST_WHY_FRAME);
  }
}
