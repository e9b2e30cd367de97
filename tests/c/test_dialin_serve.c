// 1,000 workers dial in at once to a listener with a backlog of 2 whose acceptor pauses: the
// cores of dialin on real sockets. One separate process has all workers, with a loop and a dialer
// for each.
#include "mst_net_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "dialin/serve.h"

#define WORKERS 1000u
#define PAUSE_MS 200
#define GIVE_UP_NS (60 * MST_NS_PER_S)

// ---- the workers

struct worker {
  struct mst_io io;
  struct mst_dialer dialer;
  struct crowd *crowd;
  int fd;
  uint8_t bytes[2 * MST_DIAL_BYTES];
  size_t got;
};
struct crowd {
  struct mst_loop *loop;
  struct mst_addr addr;
  struct worker *workers;
  uint32_t over, done, turn;
  uint64_t attempts;
};

static void happened(struct worker *worker, enum mst_dialer_event event);

static void close_worker(struct worker *worker) {
  mst_loop_remove(worker->crowd->loop, &worker->io);
  mst_net_close_reset(&worker->fd);
}

static void hear(struct worker *worker) {
  const int64_t got = mst_net_recv(worker->fd, worker->bytes + worker->got,
                                   sizeof worker->bytes - worker->got, 0, NULL);
  if (got == -MST_EAGAIN) return;
  if (got < 0) {
    happened(worker, MST_DIALER_ENDED);
    return;
  }
  worker->got += (size_t)got;
  struct mst_dial dial;
  if (worker->dialer.state == MST_DIALER_ASKING) {
    const int rc =
        mst_dial_decode(worker->bytes, worker->got, MST_KIND_ADMIT, &dial);
    if (rc < 0 || (rc > 0 && !mst_dial_same(&dial, &worker->dialer.dial))) {
      happened(worker, MST_DIALER_REFUSED);
    } else if (rc > 0) {
      happened(worker, MST_DIALER_ADMITTED);
    }
  }
  if (worker->dialer.state == MST_DIALER_BEGUN &&
      worker->got >= MST_DIAL_BYTES + MST_HEAD_BYTES) {
    happened(worker, MST_DIALER_HEARD);
  }
}

static void worker_ready(struct mst_io *io, uint32_t ready) {
  struct worker *worker = io->owner;
  (void)ready;
  if (worker->dialer.state != MST_DIALER_DIALING) {
    hear(worker);
    return;
  }
  const int rc = mst_net_dial_done(worker->fd, NULL);
  if (rc == 0) happened(worker, MST_DIALER_CONNECTED);
  if (rc == -MST_ECONNECT) happened(worker, MST_DIALER_ENDED);
}

static void open_worker(struct worker *worker) {
  const int rc = mst_net_dial(&worker->crowd->addr, &worker->fd, NULL);
  worker->got = 0;
  worker->crowd->attempts++;
  if (rc != 0 && rc != -MST_EAGAIN) {
    happened(worker, MST_DIALER_ENDED);
    return;
  }
  worker->io = (struct mst_io){.fd = worker->fd,
                               .wanted = MST_WRITABLE,
                               .ready = worker_ready,
                               .owner = worker};
  (void)mst_loop_add(worker->crowd->loop, &worker->io, NULL);
  if (rc == 0) happened(worker, MST_DIALER_CONNECTED);
}

static void say(struct worker *worker, const uint8_t *bytes, size_t n) {
  size_t done = 0;
  if (mst_net_send_until(worker->fd, bytes, n, &done, 0, NULL) != 0) {
    happened(worker, MST_DIALER_ENDED);
  }
}

static void happened(struct worker *worker, enum mst_dialer_event event) {
  struct crowd *crowd = worker->crowd;
  const unsigned todo =
      mst_dialer_event(&worker->dialer, event, mst_clock_now());
  if (todo & MST_DIALER_CLOSE) close_worker(worker);
  if (todo & MST_DIALER_OPEN) open_worker(worker);
  if (todo & MST_DIALER_SEND) {
    uint8_t bytes[MST_DIAL_BYTES];
    (void)mst_loop_want(crowd->loop, &worker->io, MST_READABLE, NULL);
    mst_dial_encode(&worker->dialer.dial, MST_KIND_DIAL, bytes);
    say(worker, bytes, sizeof bytes);
  }
  if (todo & MST_DIALER_BEGIN) {
    // A HELLO without its payload stands for the rest of the protocol.
    const struct mst_head head = {.kind = MST_KIND_HELLO};
    uint8_t bytes[MST_HEAD_BYTES];
    mst_head_encode(&head, bytes);
    say(worker, bytes, sizeof bytes);
  }
  if (todo & MST_DIALER_END) {
    crowd->over++;
    crowd->done += worker->dialer.state == MST_DIALER_DONE;
  }
}

// tick_some serves a few that are due, so that they don't all connect at the same moment: a
// thousand processes wouldn't either. Returns whether there may be more.
static int tick_some(struct crowd *crowd) {
  const int64_t now_ns = mst_clock_now();
  int served = 0;
  for (uint32_t i = 0; i < WORKERS && served < 4; i++) {
    const uint32_t at = (crowd->turn + i) % WORKERS;
    if (crowd->workers[at].dialer.due_ns > now_ns) continue;
    happened(&crowd->workers[at], MST_DIALER_TICK);
    served++;
    if (served == 4) crowd->turn = at + 1;
  }
  return served == 4;
}

// Waits until the other end of `word` has closed it, so that both ends of all connections
// can be counted. Then all of them are closed.
static _Noreturn void be_workers(const struct mst_addr *addr, int word) {
  struct crowd crowd = {.addr = *addr};
  uint64_t random = (uint64_t)mst_clock_now();
  crowd.workers = calloc(WORKERS, sizeof *crowd.workers);
  if (crowd.workers == NULL ||
      mst_loop_open(MST_LOOP_BEST, &crowd.loop, NULL) != 0)
    _exit(2);
  for (uint32_t i = 0; i < WORKERS; i++) {
    struct mst_dial dial = {.cluster = 1, .worker = i};
    for (size_t k = 0; k < MST_NONCE_BYTES; k++)
      dial.nonce[k] =
          (uint8_t)((random = random * 6364136223846793005u + 1) >> 56);
    crowd.workers[i].crowd = &crowd;
    crowd.workers[i].fd = -1;
    mst_dialer_open(&crowd.workers[i].dialer, &dial, mst_clock_now(),
                    mst_clock_now() + GIVE_UP_NS);
  }
  while (crowd.over < WORKERS) {
    const int more = tick_some(&crowd);
    (void)mst_loop_run(crowd.loop, more ? 0 : 1, NULL);
  }
  char byte;
  (void)!write(word, &crowd.attempts, sizeof crowd.attempts);
  (void)!read(word, &byte, 1);
  _exit(crowd.done == WORKERS ? 0 : 3);
}

// ---- the session

struct session {
  int *fds; // by worker, -1: none
  int twice;
};

static void use(void *owner, uint32_t worker, int fd,
                struct mst_secure *secure) {
  (void)secure;
  struct session *session = owner;
  session->twice += session->fds[worker] >= 0;
  session->fds[worker] = fd;
  const struct mst_head head = {.kind = MST_KIND_SETUP};
  uint8_t bytes[MST_HEAD_BYTES];
  size_t done = 0;
  mst_head_encode(&head, bytes);
  CHECK_INT(mst_net_send_until(fd, bytes, sizeof bytes, &done, 0, NULL), 0);
}

#ifdef __linux__
// Sockets of a port in one of two states, of the acceptor's end.
static int count_sockets(int port, unsigned one, unsigned other) {
  FILE *file = fopen("/proc/net/tcp", "r");
  char text[512];
  int count = 0;
  CHECK(file != NULL);
  while (fgets(text, sizeof text, file) != NULL) {
    unsigned local, state;
    if (sscanf(text, " %*d: %*x:%x %*x:%*x %x", &local, &state) != 2) continue;
    count += (int)local == port && (state == one || state == other);
  }
  (void)fclose(file);
  return count;
}
#endif

// Connections beside those of the workers that are in use.
static int left_over(const struct mst_dialin *dialin,
                     const struct mst_addr *bound) {
  int count = (int)mst_dialin_waiting(dialin);
#ifdef __linux__
  count += count_sockets(mst_addr_port(bound), 1, 3) - (int)WORKERS;
#else
  (void)bound;
#endif
  return count;
}

// Dials in once and gives the time from the first connect until all are in use.
static int64_t dial_in(uint64_t *attempts) {
  struct mst_addr bound;
  struct session session = {.fds = malloc(WORKERS * sizeof(int))};
  struct mst_loop *loop;
  struct mst_dialin *dialin;
  int listener = listen_at("127.0.0.1", 2, &bound), word[2], status = 0;
  CHECK(session.fds != NULL);
  for (uint32_t i = 0; i < WORKERS; i++)
    session.fds[i] = -1;
  CHECK_INT(mst_net_pair(word, NULL), 0);
  (void)fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    mst_net_close(&word[0]);
    mst_net_close(&listener);
    be_workers(&bound, word[1]);
  }
  mst_net_close(&word[1]);
  const int64_t began = mst_clock_now();
  (void)usleep(PAUSE_MS * 1000); // the acceptor is busy with something else
  CHECK_INT(mst_loop_open(MST_LOOP_BEST, &loop, NULL), 0);
  CHECK_INT(mst_dialin_open(loop, &listener, 1, NULL, 1, WORKERS, use, &session,
                            &dialin, NULL),
            0);
  while (mst_dialin_used(dialin) < WORKERS &&
         mst_clock_now() < began + GIVE_UP_NS) {
    (void)mst_loop_run(loop, 50, NULL);
    mst_dialin_tick(dialin, mst_clock_now());
  }
  const int64_t took = ms_since(began);
  CHECK_INT(mst_dialin_used(dialin), WORKERS);
  size_t done = 0;
  CHECK_INT(recv_until(word[0], attempts, sizeof *attempts, &done, in_ms(60000),
                       NULL),
            0);
  // No half-open survivor: connections that the workers have closed end here too, whether the
  // acceptor has them or its queue, which leaves one connection for each.
  const int64_t until_ns = in_ms(60000);
  while (left_over(dialin, &bound) > 0 && mst_clock_now() < until_ns) {
    (void)mst_loop_run(loop, 10, NULL);
    mst_dialin_tick(dialin, mst_clock_now());
  }
  CHECK_INT(left_over(dialin, &bound), 0);
  CHECK_INT(session.twice, 0);
  mst_net_close(&word[0]);
  while (waitpid(child, &status, 0) != child)
    ;
  CHECK_INT(status, 0); // all of them heard the session
  for (uint32_t i = 0; i < WORKERS; i++)
    mst_net_close(&session.fds[i]);
  mst_dialin_close(dialin);
  mst_loop_close(loop);
  mst_net_close(&listener);
  free(session.fds);
  return took;
}

TEST("1,000 workers dial in to a backlog of 2 within 10 connections each, none "
     "twice") {
  if (mst_net_fd_raise_limit(3 * WORKERS) < (int64_t)(3 * WORKERS)) {
    SKIP("the hard limit on open files is below 3,000");
  }
  uint64_t attempts = 0;
  const int64_t took = dial_in(&attempts);
  printf("    all in use after %lld ms, %llu connections\n", (long long)took,
         (unsigned long long)attempts);
  CHECK(attempts >= WORKERS);
  CHECK(attempts <= 10 * (uint64_t)WORKERS); // they pause, and don't hammer
}
