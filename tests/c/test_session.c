// Tests of pool/session with workers that are threads of this process: the session passes between
// the R thread and the I/O thread while tasks run and workers are lost. The thread sanitizer checks
// that only its owner uses it.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "base/mst_clock.h"
#include "base/mst_fault.h"
#include "mst_random.h"
#include "mst_test.h"
#include "pool/look.h"
#include "pool/session.h"
#include "pool/session_int.h"

#define WORKERS 2u
#define ROUNDS 400
#define TASKS 1200u
#define HANDS 300u
#define BUILD "a test"

// One incarnation of a worker. Its thread uses copies of these descriptors, so that the test can
// shut them down.
struct hand {
  pthread_t thread;
  int data, control;
  struct mst_incarnation of;
  uint32_t pid;
  atomic_int ended;
  int heard; // its end was reported
};

struct maker {
  struct mst_launcher launcher; // first member: casts both ways
  struct mst_session *session;
  struct hand hands[HANDS];
  uint32_t count;
};

static atomic_uint evaluations[TASKS];
static atomic_int frozen;  // workers read nothing
static atomic_int doubles; // an answer to a ping comes with one to a later ping

// ---- a worker

static void say(struct mst_chan *chan, const struct hand *hand, uint8_t kind,
                const struct mst_head *of, const void *bytes, size_t n) {
  struct mst_head head = {.kind = kind};
  if (kind != MST_KIND_HELLO) {
    head.cluster = hand->of.cluster;
    head.worker = hand->of.worker;
    head.epoch = hand->of.epoch;
  }
  if (of != NULL) {
    head.call = of->call;
    head.attempt = of->attempt;
  }
  (void)mst_chan_send_small(chan, &head, bytes, n, 1, NULL);
}

static void say_hello(struct mst_chan *chan, const struct hand *hand) {
  const struct mst_hello hello = {.version_min = MST_WIRE_VERSION,
                                  .version_max = MST_WIRE_VERSION,
                                  .forked = 1,
                                  .pid = hand->pid,
                                  .r_version = 0x00040202,
                                  .build = BUILD};
  uint8_t bytes[MST_HELLO_BYTES_MAX];
  const int n = mst_hello_encode(&hello, bytes, sizeof bytes);
  say(chan, hand, MST_KIND_HELLO, NULL, bytes, (size_t)n);
}

// An answer is the call's number, after the times.
static void evaluate(struct mst_chan *chan, const struct hand *hand,
                     const struct mst_frame *frame) {
  uint8_t bytes[MST_VALUE_HEAD_BYTES + sizeof(uint32_t)];
  const struct mst_value_head head = {.elapsed_s = 0};
  uint32_t number = 0;
  memcpy(&number, frame->payload, sizeof number);
  if (number < TASKS) atomic_fetch_add(&evaluations[number], 1);
  if (number % 7 == 0) (void)usleep(number % 500);
  mst_value_head_encode(&head, bytes);
  memcpy(bytes + MST_VALUE_HEAD_BYTES, &number, sizeof number);
  say(chan, hand, MST_KIND_VALUE, &frame->head, bytes, sizeof bytes);
}

// say_two_pongs sends both at once, the second as if the session had asked for a sign of life.
static void say_two_pongs(const struct hand *hand,
                          const struct mst_frame *ping) {
  uint8_t bytes[2 * (MST_HEAD_BYTES + 8u)] = {0};
  struct mst_head head = ping->head;
  head.kind = MST_KIND_PONG;
  for (size_t i = 0; i < 2; i++)
    mst_head_encode(&head, bytes + i * (MST_HEAD_BYTES + 8u));
  memcpy(bytes + MST_HEAD_BYTES, ping->payload, 8);
  CHECK_INT(write(hand->control, bytes, sizeof bytes), sizeof bytes);
}

// serve returns 0 when the worker must end.
static int serve(struct mst_chan *chan, const struct hand *hand) {
  struct mst_frame frame;
  uint8_t text[MST_TEXT_BYTES_MAX];
  const int got = mst_chan_fill(chan, 0, NULL);
  if (got < 0 && got != -MST_EAGAIN) return 0;
  while (mst_chan_peek(chan, &frame, NULL) == 1) {
    if (frame.head.kind == MST_KIND_SETUP) {
      const int n = mst_text_encode("/nonexistent/muster", text, sizeof text);
      say(chan, hand, MST_KIND_READY, NULL, text, (size_t)n);
    }
    if (frame.head.kind == MST_KIND_EXEC) evaluate(chan, hand, &frame);
    if (frame.head.kind == MST_KIND_PING && atomic_load(&doubles)) {
      say_two_pongs(hand, &frame);
    } else if (frame.head.kind == MST_KIND_PING) {
      say(chan, hand, MST_KIND_PONG, NULL, frame.payload,
          (size_t)frame.head.length);
    }
    if (frame.head.kind == MST_KIND_BYE) return 0;
    mst_chan_take(chan, &frame);
  }
  return 1;
}

static void *be_worker(void *arg) {
  struct hand *hand = arg;
  struct mst_chan data, control;
  mst_chan_open(&data, dup(hand->data), MST_FRAME_MAX);
  mst_chan_open(&control, dup(hand->control), MST_FRAME_MAX_CONTROL);
  say_hello(&data, hand);
  int goes_on = 1;
  while (goes_on) {
    if (atomic_load(&frozen)) {
      (void)usleep(1000);
      continue;
    }
    struct pollfd fds[2] = {{.fd = hand->data, .events = POLLIN},
                            {.fd = hand->control, .events = POLLIN}};
    if (poll(fds, 2, -1) <= 0) continue;
    if (fds[1].revents != 0) goes_on = serve(&control, hand);
    if (goes_on && fds[0].revents != 0) goes_on = serve(&data, hand);
  }
  mst_chan_close(&data);
  mst_chan_close(&control);
  atomic_store(&hand->ended, 1);
  return NULL;
}

// ---- the launcher

static void tell(struct maker *maker, const struct hand *hand,
                 enum mst_news_kind kind) {
  const int forked = kind == MST_NEWS_FORKED;
  const struct mst_news news = {.kind = kind,
                                .of = hand->of,
                                .how = forked ? 0 : MST_EXIT_SIGNAL,
                                .number = forked ? (int32_t)hand->pid : 9};
  mst_session_news(maker->session, &news);
}

static int launch(struct mst_launcher *self, const struct mst_incarnation *of,
                  struct mst_conduit *conduit, struct mst_err *err) {
  struct maker *maker = (struct maker *)(void *)self;
  struct mst_ends theirs;
  CHECK(maker->count < HANDS);
  CHECK_INT(mst_conduit_open(conduit, NULL, &theirs, err), 0);
  struct hand *hand = &maker->hands[maker->count++];
  *hand = (struct hand){.data = theirs.fds[0],
                        .control = theirs.fds[1],
                        .of = *of,
                        .pid = 100000u + maker->count};
  mst_net_close(&theirs.fds[2]);
  CHECK_INT(pthread_create(&hand->thread, NULL, be_worker, hand), 0);
  tell(maker, hand, MST_NEWS_FORKED);
  return 0;
}

static void end_hand(const struct hand *hand) {
  (void)shutdown(hand->data, SHUT_RDWR);
  (void)shutdown(hand->control, SHUT_RDWR);
}

static void signal_hand(struct mst_launcher *self,
                        const struct mst_incarnation *of, pid_t pid,
                        int signal) {
  const struct maker *maker = (const struct maker *)(void *)self;
  (void)of, (void)signal;
  for (uint32_t i = 0; i < maker->count; i++) {
    const struct hand *hand = &maker->hands[i];
    if (!hand->heard && (pid_t)hand->pid == pid) end_hand(hand);
  }
}

static void reap(struct mst_launcher *self) {
  struct maker *maker = (struct maker *)(void *)self;
  for (uint32_t i = 0; i < maker->count; i++) {
    struct hand *hand = &maker->hands[i];
    if (hand->heard || !atomic_load(&hand->ended)) continue;
    CHECK_INT(pthread_join(hand->thread, NULL), 0);
    hand->heard = 1;
    mst_net_close(&hand->data);
    mst_net_close(&hand->control);
    tell(maker, hand, MST_NEWS_EXITED);
  }
}

// ---- the session

static struct mst_session session;
static struct maker maker;
static struct mst_call *tasks[TASKS];
static uint32_t submitted, done;

// start_with starts WORKERS workers, and `later` that wait for their launcher.
// come has the host come that a site asks for.
static void come(struct mst_site *site) {
  enum mst_site_do what;
  do {
    CHECK_INT(mst_site_next(site, &what, mst_clock_now()), 1);
  } while (what == MST_SITE_SAY_LEAVES);
  CHECK_INT(what, MST_SITE_ASK);
  (void)mst_site_tell(site, MST_SITE_LINKED, 0, mst_clock_now());
  CHECK_INT(site->is, MST_SITE_BOOTING);
}

static struct mst_cluster *start_with(uint32_t later) {
  struct mst_cluster *cluster = NULL;
  struct mst_blob *setup = mst_blob_new();
  mst_thread_mark_r();
  maker.count = submitted = done = 0;
  for (uint32_t i = 0; i < TASKS; i++)
    atomic_store(&evaluations[i], 0);
  CHECK(setup != NULL);
  CHECK_INT(mst_session_open(&session, MST_LOOP_BEST, BUILD, NULL), 0);
  maker.session = &session;
  maker.launcher = (struct mst_launcher){.host = &session.here,
                                         .launch = launch,
                                         .signal = signal_hand,
                                         .reap = reap};
  // On another host each, for which they wait in the second group.
  struct mst_site there, awaited;
  const struct mst_site_terms terms = {
      .far = 1, .heals = 1, .start_ns = 60 * MST_NS_PER_S};
  mst_site_init(&there, &terms, MST_SITE_PAUSED, 0);
  come(&there);
  mst_site_init(&awaited, &terms, MST_SITE_PAUSED, 0);
  const struct mst_group groups[] = {{.workers = WORKERS,
                                      .launcher = &maker.launcher,
                                      .setup = setup,
                                      .site = &there},
                                     {.workers = later,
                                      .launcher = &session.nowhere,
                                      .setup = setup,
                                      .site = &awaited}};
  CHECK_INT(
      mst_cluster_new(&session, groups, later > 0 ? 2 : 1, 32, &cluster, NULL),
      0);
  mst_blob_release(setup);
  cluster->calls.policy = (struct mst_heal_policy){
      .on = 1, .retries = 100, .heartbeat_ns = INT64_MAX};
  cluster->calls.timeout_ns = INT64_MAX;
  mst_cluster_start(cluster, mst_clock_now() + 30 * MST_NS_PER_S);
  while (!cluster->started && !cluster->start_failed)
    CHECK_INT(mst_session_run(&session, 50, NULL), 0);
  CHECK(cluster->started);
  return cluster;
}

static struct mst_cluster *start_cluster(void) { return start_with(0); }

static void stop_cluster(struct mst_cluster *cluster) {
  mst_cluster_stop(cluster);
  while (!cluster->stopped)
    CHECK_INT(mst_session_run(&session, 50, NULL), 0);
  mst_cluster_free(cluster);
  mst_session_close(&session);
  for (uint32_t i = 0; i < maker.count; i++)
    CHECK(maker.hands[i].heard);
}

static void submit(struct mst_cluster *cluster, uint64_t *random) {
  static const struct mst_task_terms terms = {.retries = -1};
  const uint32_t pin = (uint32_t)mst_random_below(random, WORKERS);
  const uint32_t pinned = mst_random_below(random, 3) == 0;
  struct mst_blob *payload = mst_blob_new();
  CHECK(payload != NULL);
  CHECK_INT(mst_buf_append(&payload->buf, &submitted, sizeof submitted), 0);
  tasks[submitted] =
      mst_calls_submit(&cluster->calls, payload, pinned ? &pin : NULL, pinned,
                       &terms, mst_clock_now());
  CHECK(tasks[submitted] != NULL);
  submitted++;
  mst_blob_release(payload);
  mst_cluster_carry_out(cluster);
}

// take_done takes finished tasks, and checks that each answer is the task's own.
static void take_done(void) {
  for (uint32_t i = 0; i < submitted; i++) {
    struct mst_call *task = tasks[i];
    if (task == NULL || !mst_call_is_done(task)) continue;
    CHECK_INT(task->state, MST_CALL_DONE);
    CHECK_INT(task->value_bytes, MST_VALUE_HEAD_BYTES + sizeof i);
    CHECK_INT(memcmp(task->value + MST_VALUE_HEAD_BYTES, &i, sizeof i), 0);
    mst_call_taken(task);
    mst_call_release(task);
    tasks[i] = NULL;
    done++;
  }
}

// kill_one ends a worker that has something to do, as a crash would.
static void kill_one(const struct mst_cluster *cluster, uint64_t *random) {
  const uint32_t worker = (uint32_t)mst_random_below(random, WORKERS);
  if (cluster->calls.pool.workers[worker]->mailbox.first == NULL) return;
  for (uint32_t i = maker.count; i-- > 0;) {
    if (maker.hands[i].of.worker != worker) continue;
    end_hand(&maker.hands[i]);
    return;
  }
}

static int count_open(void) {
  int count = 0;
  for (int fd = 0; fd < 4096; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

TEST("The I/O thread goes on with the real pool while R computes, and workers "
     "die") {
  uint64_t random = 20261123;
  const int before = count_open();
  struct mst_cluster *cluster = start_cluster();
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t more = mst_random_below(&random, 6);
    for (; more > 0 && submitted < TASKS; more--)
      submit(cluster, &random);
    mst_session_lend(&session);
    (void)usleep((useconds_t)mst_random_below(&random, 1500)); // R computes
    mst_session_take(&session);
    const char *broken = mst_calls_check(&cluster->calls);
    if (broken != NULL) printf("    %s\n", broken);
    CHECK(broken == NULL);
    take_done();
    if (round % 8 == 7) kill_one(cluster, &random);
    if (round % 3 == 0) CHECK_INT(mst_session_run(&session, 0, NULL), 0);
  }
  const int64_t until_ns = mst_clock_now() + 60 * MST_NS_PER_S;
  while (done < submitted && mst_clock_now() < until_ns) {
    CHECK_INT(mst_session_run(&session, 20, NULL), 0);
    take_done();
  }
  CHECK_INT(done, submitted);
  CHECK(maker.count > WORKERS); // some were lost, and came back
  for (uint32_t i = 0; i < submitted; i++)
    CHECK(atomic_load(&evaluations[i]) >= 1);
  printf("    %u tasks, %u incarnations\n", submitted, maker.count);
  stop_cluster(cluster);
  CHECK_INT(count_open(), before);
}

TEST("A worker whose end was heard is replaced in the same turn, not after the "
     "next wait") {
  struct mst_cluster *cluster = start_cluster();
  struct hand *hand = &maker.hands[0];
  struct pollfd end = {.fd = cluster->peers[hand->of.worker]->conduit.data.fd,
                       .events = POLLIN};
  end_hand(hand);
  CHECK_INT(pthread_join(hand->thread, NULL), 0);
  hand->heard = 1;
  mst_net_close(&hand->data);
  mst_net_close(&hand->control);
  tell(&maker, hand, MST_NEWS_EXITED);
  CHECK_INT(poll(&end, 1, 30000), 1);
  CHECK_INT(mst_session_run(&session, 0, NULL), 0);
  CHECK_INT(maker.count, WORKERS + 1);
  stop_cluster(cluster);
}

TEST("A worker that answers is alive, also if a later sign of life comes with "
     "the answer") {
  struct mst_cluster *cluster = start_cluster();
  atomic_store(&doubles, 1);
  for (uint64_t nonce = 1; nonce <= 5; nonce++)
    CHECK_INT(mst_peer_ping(cluster->peers[0], nonce, 20000, NULL), 0);
  atomic_store(&doubles, 0);
  stop_cluster(cluster);
}

TEST("C6: an answer without memory is read when its worker has ended, if there "
     "is some then") {
  const int before = count_open();
  uint64_t random = 1;
  struct mst_cluster *cluster = start_cluster();
  submit(cluster, &random);
  const uint32_t worker = tasks[0]->mailbox->worker;
  const struct mst_peer *peer = cluster->peers[worker];
  struct pollfd answer = {.fd = peer->conduit.data.fd, .events = POLLIN};
  CHECK_INT(poll(&answer, 1, 30000), 1);
  (void)mst_fault_arm("base.realloc", 1, ENOMEM);
  CHECK_INT(mst_session_run(&session, 0, NULL), 0);
  CHECK(mst_fault_arm("", 0, 0) >= 1);
  CHECK_INT(peer->conduit.held, 1);
  CHECK_INT(mst_call_is_done(tasks[0]), 0);
  end_hand(&maker.hands[worker]);
  const int64_t until_ns = mst_clock_now() + 60 * MST_NS_PER_S;
  while (done < 1 && mst_clock_now() < until_ns) {
    CHECK_INT(mst_session_run(&session, 20, NULL), 0);
    take_done();
  }
  CHECK_INT(done, 1);
  CHECK_INT(atomic_load(&evaluations[0]), 1); // not again by another
  stop_cluster(cluster);
  CHECK_INT(count_open(), before);
}

TEST("A descriptor is readable once a task is over, by whichever thread") {
  int fds[2];
  char bytes[8];
  uint64_t random = 1;
  CHECK_INT(mst_net_pipe(fds, NULL), 0);
  struct mst_cluster *cluster = start_cluster();
  struct pollfd over = {.fd = fds[0], .events = POLLIN};
  mst_session_notify(&session, fds[1]);
  submit(cluster, &random);
  CHECK_INT(poll(&over, 1, 0), 0);
  mst_session_lend(&session); // the I/O thread serves
  CHECK_INT(poll(&over, 1, 30000), 1);
  mst_session_take(&session);
  CHECK(mst_call_is_done(tasks[0]));
  CHECK_INT(mst_net_read(fds[0], bytes, sizeof bytes, NULL), 1);
  take_done();
  // Tasks that a stop ends are over as well; it is told when the session is lent.
  submit(cluster, &random);
  mst_session_lend(&session);
  mst_session_take(&session);
  (void)mst_net_read(fds[0], bytes, sizeof bytes, NULL);
  const int was_done = mst_call_is_done(tasks[1]);
  stop_cluster(cluster);
  mst_session_lend(&session);
  mst_session_take(&session);
  CHECK_INT(poll(&over, 1, 0), !was_done);
  mst_session_notify(&session, -1);
  mst_net_close(&fds[0]);
  mst_net_close(&fds[1]);
}

// ---- hosts that come later

static uint32_t count_state(const struct mst_cluster *cluster,
                            enum mst_worker_state state) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < cluster->calls.pool.count; i++)
    n += cluster->calls.pool.workers[i]->state == state;
  return n;
}

TEST("Workers whose launcher comes later are pending, and join then") {
  enum { LATER = 40 }; // more than are launched at once
  struct mst_cluster *cluster = start_with(LATER);
  CHECK_INT(count_state(cluster, MST_WORKER_PENDING), LATER);
  CHECK(mst_site_waits(cluster->groups[1].site));
  CHECK_INT(maker.count, WORKERS);
  come(cluster->groups[1].site);
  mst_cluster_adopt(cluster, &cluster->groups[1], &maker.launcher);
  CHECK(!mst_site_waits(cluster->groups[1].site));
  while (count_state(cluster, MST_WORKER_IDLE) < WORKERS + LATER)
    CHECK_INT(mst_session_run(&session, 50, NULL), 0);
  CHECK_INT(maker.count, WORKERS + LATER);
  stop_cluster(cluster);
}

TEST("Workers move to a launcher that comes later") {
  struct mst_cluster *cluster = start_with(1);
  struct mst_group *group = &cluster->groups[0];
  (void)mst_site_tell(group->site, MST_SITE_LEAVES, 0, mst_clock_now());
  mst_cluster_look_at_sites(cluster, mst_clock_now());
  CHECK(group->leaves == &session.here && group->site->moved == 0);
  while (count_state(cluster, MST_WORKER_PENDING) < WORKERS + 1)
    CHECK_INT(mst_session_run(&session, 50, NULL), 0);
  CHECK_INT(mst_session_run(&session, 0, NULL), 0);
  CHECK(group->leaves == NULL && group->site->moved == 1);
  CHECK_INT(mst_cluster_waiting(cluster, group), WORKERS);
  CHECK(!mst_peer_ends(cluster->peers[0]));
  come(group->site);
  mst_cluster_adopt(cluster, group, &maker.launcher);
  while (count_state(cluster, MST_WORKER_IDLE) < WORKERS)
    CHECK_INT(mst_session_run(&session, 50, NULL), 0);
  CHECK_INT(maker.count, 2 * WORKERS);
  stop_cluster(cluster);
}

TEST("A cluster stops at once though workers are pending") {
  struct mst_cluster *cluster = start_with(2);
  mst_cluster_stop(cluster);
  CHECK_INT(mst_session_run(&session, 0, NULL), 0);
  CHECK(!cluster->calls.pool.workers[WORKERS]->awaited);
  CHECK(!cluster->calls.pool.workers[WORKERS + 1]->awaited);
  stop_cluster(cluster);
}

// Another host, where everything is frozen until the session lets go of it.
static uint32_t releases;
static void release_far(struct mst_host *host) {
  CHECK(host->silent);
  releases++;
  atomic_store(&frozen, 0);
}

TEST("A host from which nothing is heard while its cluster stops is left") {
  struct mst_host far = {.name = "far", .release = release_far};
  struct mst_cluster *cluster = start_cluster();
  struct mst_worker *slot = cluster->peers[0]->worker;
  for (uint32_t i = 0; i < WORKERS; i++)
    cluster->peers[i]->host = &far;
  releases = 0;
  mst_cluster_leave_silent(cluster, 0, mst_clock_now() + MST_NS_PER_S);
  CHECK_INT(cluster->asked_ns, 0); // it doesn't stop
  atomic_store(&frozen, 1);
  mst_cluster_stop(cluster);
  const int64_t asked_ns = mst_clock_now();
  mst_cluster_leave_silent(cluster, 0, asked_ns);
  mst_cluster_leave_silent(cluster, 0, asked_ns + 2 * MST_NS_PER_S);
  CHECK_INT(cluster->asked_ns, asked_ns);
  // One sign is enough, and they are asked again then.
  const int64_t again_ns = asked_ns + 3 * MST_NS_PER_S;
  slot->heal.heard_ns = asked_ns + 1;
  mst_cluster_leave_silent(cluster, 0, again_ns);
  CHECK(releases == 0 && cluster->asked_ns == again_ns);
  // So they are by a session that has slept.
  mst_cluster_leave_silent(cluster, 9 * MST_NS_PER_S,
                           again_ns + 9 * MST_NS_PER_S);
  CHECK(releases == 0 && cluster->asked_ns == again_ns + 9 * MST_NS_PER_S);
  cluster->asked_ns = again_ns;
  mst_cluster_leave_silent(cluster, 0, again_ns + 3 * MST_NS_PER_S);
  CHECK_INT(releases, 1);
  mst_cluster_leave_silent(cluster, 0, again_ns + 6 * MST_NS_PER_S);
  CHECK_INT(releases, 1);
  stop_cluster(cluster);
}

TEST("Pending workers whose launcher won't come are given up") {
  struct mst_cluster *cluster = start_with(2);
  struct mst_site *site = cluster->groups[1].site;
  enum mst_site_do ask;
  CHECK_INT(mst_site_next(site, &ask, mst_clock_now()), 1);
  CHECK_INT(mst_site_tell(site, MST_SITE_FAILED, 0, mst_clock_now()),
            MST_SITE_IS_LOST);
  while (!cluster->peers[WORKERS]->worker->dead ||
         !cluster->peers[WORKERS + 1]->worker->dead)
    CHECK_INT(mst_session_run(&session, 50, NULL), 0);
  // Another may come after all.
  (void)mst_site_tell(site, MST_SITE_RETRY, 0, mst_clock_now());
  come(site);
  mst_cluster_adopt(cluster, &cluster->groups[1], &maker.launcher);
  CHECK_INT(mst_cluster_revive(cluster), 2);
  while (count_state(cluster, MST_WORKER_IDLE) < WORKERS + 2)
    CHECK_INT(mst_session_run(&session, 50, NULL), 0);
  stop_cluster(cluster);
}
