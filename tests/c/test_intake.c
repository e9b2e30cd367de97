// S5: hostile peers of an intake: none is taken in or keeps a host out, and nothing of them stays.
#include "mst_intake_test.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define PLACES 8u
#define PEERS_MAX 256u

#define NEEDS_OPENSSL                                                          \
  if (!mst_secure_has()) SKIP("built without OpenSSL")

static struct host hosts[PLACES];
static struct peer peers[PEERS_MAX];

static void open_here(uint32_t places) {
  const int listener = listen_at("127.0.0.1", MST_BACKLOG_MOST, &bound);
  open_intake(&listener, 1, places);
}

// ---- rounds

// go_round gives everybody a turn. Returns how many peers aren't over, and how many hosts haven't
// heard the session.
static uint32_t go_round(uint32_t host_count, uint32_t peer_count) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < host_count; i++) {
    step(&hosts[i]);
    left += !hosts[i].heard;
  }
  while (take_in())
    answer(&guests[guest_count - 1]);
  for (uint32_t i = 0; i < peer_count; i++) {
    bother(&peers[i]);
    left += !peers[i].over;
  }
  (void)usleep(1000);
  return left;
}

static void close_hosts(uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    mst_caller_close(&hosts[i].caller);
  forget_guests();
}

// let_in has hosts come, all of which get in, each once, while peers are there.
static void let_in(uint32_t host_count, uint32_t peer_count) {
  const int64_t limit_ns = in_ms(LIMIT_MS);
  for (uint32_t i = 0; i < host_count; i++)
    open_host(&hosts[i], (uint16_t)i);
  for (uint32_t in = 0; in < host_count;) {
    (void)go_round(host_count, peer_count);
    in = 0;
    for (uint32_t i = 0; i < host_count; i++)
      in += hosts[i].heard;
    CHECK(mst_clock_now() < limit_ns);
  }
  CHECK_INT(guest_count, host_count);
  close_hosts(host_count);
}

static void see_off(uint32_t peer_count) {
  const int64_t limit_ns = in_ms(LIMIT_MS);
  uint32_t told = 0;
  while (go_round(0, peer_count) > 0)
    CHECK(mst_clock_now() < limit_ns);
  for (uint32_t i = 0; i < peer_count; i++) {
    told += (uint32_t)was_told(&peers[i]);
    close_peer(&peers[i]);
  }
  CHECK(told > 0);
}

// ---- what there is of things

static int count_fds(void) {
  DIR *dir = opendir("/proc/self/fd");
  int count = 0;
  if (dir == NULL) return 0; // the harness looks in the end, here nobody can
  while (readdir(dir) != NULL)
    count++;
  (void)closedir(dir);
  return count;
}

// Of the sanitizers: bytes that are allocated and not freed.
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static int64_t count_bytes(void) {
  return __sanitizer_get_current_allocated_bytes == NULL
             ? 0
             : (int64_t)__sanitizer_get_current_allocated_bytes();
}

// ---- tests

TEST("S5 hostile peers of each kind are all ended, hosts get in meanwhile, and "
     "nothing stays of them") {
  int fds = 0;
  int64_t bytes = 0;
  NEEDS_OPENSSL;
  open_here(PLACES);
  prepare(&hosts[0]);
  for (int round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
      open_peer(&peers[i], (enum what)(i % WHATS), 0);
      bother(&peers[i]);
    }
    let_in(PLACES, PEERS_MAX);
    see_off(PEERS_MAX);
    CHECK_INT(guest_count, 0);
    // What the first round needs for good is allocated in it. A peer has 5 kB at least.
    if (round > 0) {
      CHECK_INT(count_fds(), fds);
      CHECK(count_bytes() < bytes + 100000);
    }
    fds = count_fds();
    bytes = count_bytes();
  }
  mst_intake_close(intake);
}

TEST("S5 a peer that is silent costs a descriptor and little more") {
  const int64_t limit_ns = in_ms(LIMIT_MS);
  NEEDS_OPENSSL;
  open_here(1);
  let_in(1, 0);
  const int fds = count_fds();
  const int64_t bytes = count_bytes();
  for (uint32_t i = 0; i < PEERS_MAX; i++)
    open_peer(&peers[i], SILENT, 0);
  while (fds > 0 && count_fds() < fds + 2 * (int)PEERS_MAX) {
    CHECK(mst_clock_now() < limit_ns);
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
      bother(&peers[i]);
      if (!peers[i].over) continue; // it took so long that its time was over
      close_peer(&peers[i]);
      open_peer(&peers[i], SILENT, 0);
    }
  }
  CHECK(count_bytes() < bytes + PEERS_MAX * 1000);
  mst_intake_close(intake);
  for (uint32_t i = 0; i < PEERS_MAX; i++)
    close_peer(&peers[i]);
}

TEST("S5 an intake that is closed midway ends all peers and hosts, and leaves "
     "nothing") {
  const int64_t limit_ns = in_ms(LIMIT_MS);
  NEEDS_OPENSSL;
  open_here(PLACES);
  prepare(&hosts[0]);
  for (uint32_t i = 0; i < PEERS_MAX; i++) {
    open_peer(&peers[i], (enum what)(i % WHATS), 0);
    bother(&peers[i]);
  }
  for (uint32_t i = 0; i < 3; i++)
    open_host(&hosts[i], (uint16_t)i);
  // One host is in, and nobody has taken it; one is admitted and mute; one calls.
  while (mst_net_unread(mst_intake_fd(intake)) == 0 || !hosts[1].begun) {
    step(&hosts[0]);
    if (!hosts[1].begun) call(&hosts[1]);
    (void)usleep(1000);
    CHECK(mst_clock_now() < limit_ns);
  }
  call(&hosts[2]);
  mst_intake_close(intake);
  for (uint32_t i = 0; i < PEERS_MAX; i++) {
    while (!peers[i].over) {
      bother(&peers[i]);
      CHECK(mst_clock_now() < limit_ns);
    }
    close_peer(&peers[i]);
  }
  uint8_t byte;
  for (int i = 0; i < 2; i++) {
    int64_t got;
    while ((got = mst_secure_read(hosts[i].caller.secure, &byte, 1, NULL)) ==
           -MST_EAGAIN)
      CHECK(mst_clock_now() < limit_ns);
    CHECK_INT(got, -MST_ECLOSED);
  }
  for (int i = 0; i < 3; i++)
    mst_caller_close(&hosts[i].caller);
}

TEST("An intake's descriptor can be read as long as somebody waits behind it") {
  const int64_t limit_ns = in_ms(LIMIT_MS);
  NEEDS_OPENSSL;
  open_here(PLACES);
  for (uint32_t i = 0; i < 3; i++)
    open_host(&hosts[i], (uint16_t)i);
  while (mst_net_unread(mst_intake_fd(intake)) < 3) {
    for (uint32_t i = 0; i < 3; i++)
      step(&hosts[i]);
    (void)usleep(1000);
    CHECK(mst_clock_now() < limit_ns);
  }
  for (uint32_t i = 0; i < 3; i++) {
    CHECK(mst_net_wait(mst_intake_fd(intake), POLLIN, in_ms(0)) != 0);
    CHECK_INT(take_in(), 1);
  }
  CHECK_INT(take_in(), 0);
  CHECK_INT(mst_net_wait(mst_intake_fd(intake), POLLIN, in_ms(0)), 0);
  close_hosts(3);
  mst_intake_close(intake);
}

TEST("S4 a host that was admitted and says nothing keeps its place for a "
     "while, and others out for no longer") {
  const int64_t limit_ns = in_ms(LIMIT_MS);
  NEEDS_OPENSSL;
  open_here(1);
  open_host(&hosts[1], 1);
  while (!hosts[1].begun) {
    call(&hosts[1]);
    CHECK(mst_clock_now() < limit_ns);
  }
  let_in(1, 0); // a host that isn't refused for what may be over soon
  uint8_t byte;
  CHECK_INT(mst_secure_read(hosts[1].caller.secure, &byte, 1, NULL),
            -MST_ECLOSED);
  mst_caller_close(&hosts[1].caller);
  mst_intake_close(intake);
}

TEST("S4 a host whose connection is gone calls until the session has learned "
     "that, and is let in") {
  const int64_t limit_ns = in_ms(LIMIT_MS);
  NEEDS_OPENSSL;
  open_here(1);
  open_host(&hosts[0], 0);
  while (!take_in()) {
    step(&hosts[0]);
    CHECK(mst_clock_now() < limit_ns);
  }
  // The session has said nothing yet: the host can't know whether it is in.
  call_again(&hosts[0]);
  const uint32_t before = attempts(&hosts[0]);
  while (attempts(&hosts[0]) < before + 3) {
    step(&hosts[0]);
    CHECK(!hosts[0].begun);
    (void)usleep(1000);
    CHECK(mst_clock_now() < limit_ns);
  }
  forget_guests();
  while (!hosts[0].heard) {
    (void)go_round(1, 0);
    CHECK(mst_clock_now() < limit_ns);
  }
  close_hosts(1);
  mst_intake_close(intake);
}

// What is on its way through a relay that is slow.
struct piece {
  int64_t due_ns;
  int to; // index of the end
  size_t n;
  uint8_t bytes[1024];
};
static struct piece pieces[64];
static size_t piece_count;

// carry takes what both ends of a relay say, and hands it on after delay_ms. 0: one has ended.
static int carry(const int ends[2], int delay_ms) {
  size_t kept = 0;
  for (int i = 0; i < 2; i++) {
    struct piece *piece = &pieces[piece_count];
    const int64_t n =
        mst_net_recv(ends[i], piece->bytes, sizeof piece->bytes, 0, NULL);
    if (n == -MST_EAGAIN) continue;
    if (n < 0) return 0;
    piece->due_ns = in_ms(delay_ms);
    piece->to = !i;
    piece->n = (size_t)n;
    CHECK(++piece_count < sizeof pieces / sizeof *pieces);
  }
  for (size_t i = 0; i < piece_count; i++) {
    struct piece *piece = &pieces[i];
    if (piece->due_ns > mst_clock_now()) {
      pieces[kept++] = *piece;
    } else {
      (void)mst_net_write(ends[piece->to], piece->bytes, piece->n, NULL);
    }
  }
  piece_count = kept;
  return 1;
}

TEST("A host gets in from as far away as half a second there and back") {
  const int64_t limit_ns = in_ms(LIMIT_MS);
  int ends[2] = {-1, -1};
  NEEDS_OPENSSL;
  open_here(1);
  const struct mst_addr real = bound;
  int relay = listen_at("127.0.0.1", 8, &bound);
  open_host(&hosts[0], 0);
  bound = real;
  while (!hosts[0].heard) {
    (void)go_round(1, 0);
    CHECK(mst_clock_now() < limit_ns && attempts(&hosts[0]) < 60);
    if (ends[0] < 0) {
      if (mst_net_accept(relay, &ends[0], NULL, NULL) != 0) continue;
      CHECK_INT(dial_within(&bound, &ends[1], NULL), 0);
      piece_count = 0;
    }
    if (carry(ends, 250)) continue;
    mst_net_close(&ends[0]);
    mst_net_close(&ends[1]);
  }
  close_hosts(1);
  mst_net_close(&ends[0]);
  mst_net_close(&ends[1]);
  mst_net_close(&relay);
  mst_intake_close(intake);
}

// be_many, in a process of its own, opens silent connections, and then is a host that gets in.
static _Noreturn void be_many(uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    open_peer(&peers[i], SILENT, 0);
  open_host(&hosts[0], 0);
  while (!hosts[0].heard) {
    step(&hosts[0]);
    (void)usleep(1000);
  }
  _exit(0);
}

TEST("S4 hosts get in though there are more peers than descriptors") {
  int status = 0;
  struct rlimit limit, few;
  NEEDS_OPENSSL;
  NEEDS(
      MST_HAVE_EPOLL); // poll() takes no more entries, free ones among them, than the limit
  int listener = listen_at("127.0.0.1", MST_BACKLOG_MOST, &bound);
  (void)fflush(NULL);
  const pid_t other = fork();
  if (other == 0) be_many(PEERS_MAX);
  CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
  few = (struct rlimit){.rlim_cur = 160, .rlim_max = limit.rlim_max};
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
  open_intake(&listener, 1, 1);
  while (waitpid(other, &status, WNOHANG) == 0)
    (void)go_round(0, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  forget_guests();
  mst_intake_close(intake);
  CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
}
