// dialin: an intake, hosts that call at it and what happens to their connections, in a network
// namespace of its own, for test-dialin.R.
//
//   dialin CASE HOSTS [PEERS]
//
// The session is this process, hosts are another, and hostile peers are a third. One line of
// NAME=NUMBER... goes to standard output. Status: 0; 1 if something was wrong, with what on
// standard output; 77 if that can't be played here, with why.
#include "mst_intake_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define QUEUE 8 // of the listener
#define TURN_MAX 600u

// What the processes tell each other.
static struct shared {
  atomic_uint asked;    // hosts that had a connection
  atomic_uint least;    // attempts of the host that has fewest
  atomic_uint attempts; // of all
  atomic_uint heard;    // hosts that are in
  atomic_uint words;    // that hosts have answered
  atomic_uint speak;    // hosts say something now
  atomic_uint over;     // visitors go
  atomic_uint visits;
  atomic_uint forgotten; // hosts that have left, as the session knows
  atomic_uint turns;     // of peers, that are over
  atomic_uint told;      // peers that they speak another version
  atomic_uint clients;
  atomic_int failed; // a process has ended, with this status
} * shared;

static struct host hosts[HOSTS_MAX];
static uint32_t host_count, peer_count;

static _Noreturn void end_all(int status) {
  (void)fflush(stdout);
  shared->failed = status;
  _exit(status);
}

void mst_test_fail(const char *file, int line, const char *format, ...) {
  va_list args;
  va_start(args, format);
  printf("%s:%d: ", file, line);
  (void)vprintf(format, args);
  va_end(args);
  printf("\n");
  end_all(1);
}

void mst_test_skip(const char *reason) {
  printf("%s\n", reason);
  end_all(77);
}

static void tell(const char *name, int64_t number) {
  printf("%s=%lld ", name, (long long)number);
}

// ---- the kernel

// count_of gives what this namespace's kernel has counted.
static int64_t count_of(const char *name) {
  static char names[8192], values[8192];
  FILE *file = fopen("/proc/self/net/netstat", "r");
  int64_t count = -1;
  CHECK(file != NULL);
  if (fgets(names, sizeof names, file) != NULL &&
      fgets(values, sizeof values, file) != NULL) {
    char *name_at, *value_at;
    const char *one = strtok_r(names, " \n", &name_at),
               *other = strtok_r(values, " \n", &value_at);
    while (one != NULL && other != NULL && strcmp(one, name) != 0) {
      one = strtok_r(NULL, " \n", &name_at);
      other = strtok_r(NULL, " \n", &value_at);
    }
    if (one != NULL && other != NULL) count = strtoll(other, NULL, 10);
  }
  (void)fclose(file);
  return count;
}

static void reset_when_full(void) {
  FILE *file = fopen("/proc/sys/net/ipv4/tcp_abort_on_overflow", "w");
  if (file == NULL) SKIP("tcp_abort_on_overflow can't be set here");
  CHECK(fputs("1", file) >= 0);
  CHECK_INT(fclose(file), 0);
}

// forget has the kernel forget a connection, without a word to the other end.
static void forget(int *fd) {
  const int on = 1;
  if (setsockopt(*fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0)
    SKIP("a connection can't be forgotten here (TCP_REPAIR)");
  mst_net_close(fd);
}

// fire_wall drops all that the session sends, or ends that.
static void fire_wall(int on) {
  const int status =
      system(on ? "tc qdisc add dev va0 root blackhole 2>/dev/null"
                : "tc qdisc del dev va0 root 2>/dev/null");
  if (status != 0) SKIP("nothing drops packets here (tc, blackhole)");
}

static int64_t count_fds(void) {
  DIR *dir = opendir("/proc/self/fd");
  int64_t count = 0;
  CHECK(dir != NULL);
  while (readdir(dir) != NULL)
    count++;
  (void)closedir(dir);
  return count;
}

static int64_t memory_kb(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  long pages = 0;
  CHECK(file != NULL && fscanf(file, "%*d %ld", &pages) == 1);
  (void)fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

// ---- hosts, in a process of their own

// be forks a process that ends with this one.
static pid_t be(void (*what)(void)) {
  (void)fflush(NULL);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid > 0) return pid;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  what();
  _exit(0);
}

static void await(pid_t pid) {
  int status;
  CHECK_INT(waitpid(pid, &status, 0), pid);
  if (shared->failed) _exit(shared->failed);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// publish tells how far the hosts are.
static void publish(void) {
  uint32_t asked = 0, least = UINT32_MAX, all = 0, heard = 0;
  for (uint32_t i = 0; i < host_count; i++) {
    asked += hosts[i].asked;
    heard += hosts[i].heard;
    all += attempts(&hosts[i]);
    if (attempts(&hosts[i]) < least) least = attempts(&hosts[i]);
  }
  shared->asked = asked;
  shared->least = least;
  shared->attempts = all;
  shared->heard = heard;
}

// attend answers the session's words; "e" is the last. Returns 1 after that.
static int attend(struct host *host) {
  char word;
  for (;;) {
    const int64_t got = mst_secure_read(host->caller.secure, &word, 1, NULL);
    if (got == -MST_EAGAIN) return 0;
    if (got != 1) { // the session has forgotten it
      call_again(host);
      return 0;
    }
    CHECK(word == 'e' || word == 'w');
    CHECK_INT(mst_secure_write(host->caller.secure, &word, 1, NULL), 1);
    shared->words++;
    if (word == 'e') return 1;
  }
}

static void be_hosts(void) {
  uint32_t spoken = 0, left = host_count;
  static uint8_t gone[HOSTS_MAX];
  for (uint32_t i = 0; i < host_count; i++)
    open_host(&hosts[i], (uint16_t)i);
  while (left > 0) {
    for (uint32_t i = 0; i < host_count; i++) {
      if (gone[i]) continue;
      if (!hosts[i].heard) {
        step(&hosts[i]);
      } else if (attend(&hosts[i])) {
        gone[i] = 1;
        left--;
      }
    }
    if (spoken != shared->speak) {
      spoken = shared->speak;
      for (uint32_t i = 0; i < host_count; i++) {
        if (hosts[i].heard)
          (void)mst_secure_write(hosts[i].caller.secure, "h", 1, NULL);
      }
    }
    publish();
    (void)usleep(1000);
  }
}

// be_visitors has hosts come and go, with numbers behind those of the others.
static void be_visitors(void) {
  struct host *host = &hosts[host_count];
  while (!shared->over) {
    open_host(host, (uint16_t)host_count);
    while (!host->heard) {
      step(host);
      (void)usleep(1000);
    }
    shared->visits++;
    mst_caller_close(&host->caller);
    while (shared->forgotten < shared->visits)
      (void)usleep(1000);
  }
}

// be_there is be_hosts in the other namespace.
static void be_there(void) {
  char path[64];
  const char *pid = getenv("MUSTER_NETNS_PEER");
  CHECK(pid != NULL);
  (void)snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0);
  CHECK_INT(setns(fd, CLONE_NEWNET), 0);
  (void)close(fd);
  be_hosts();
}

// ---- hostile peers, in a process of their own

// be_peers has them come in turns: a turn ends when the intake has ended all that say something. A
// silent one may believe in a connection that the session has never seen, and waits for ever.
static void be_peers(void) {
  static struct peer peers[TURN_MAX];
  for (uint32_t done = 0; done < peer_count;) {
    const uint32_t left = peer_count - done,
                   n = left < TURN_MAX ? left : TURN_MAX;
    for (uint32_t i = 0; i < n; i++)
      open_peer(&peers[i], (enum what)(i % WHATS),
                i % WHATS == DRIPS ? MST_NS_PER_S : 0);
    for (uint32_t over = 0; over < n;) {
      over = 0;
      for (uint32_t i = 0; i < n; i++) {
        bother(&peers[i]);
        over += peers[i].over || peers[i].what == SILENT;
      }
      (void)usleep(1000);
    }
    for (uint32_t i = 0; i < n; i++) {
      shared->told += (unsigned)was_told(&peers[i]);
      close_peer(&peers[i]);
    }
    done += n;
    shared->turns++;
  }
}

// run_client runs `openssl s_client`, to whom the intake must not open.
static void run_client(char *const *more) {
  char where[MST_ADDR_TEXT_MAX];
  char *words[12] = {"openssl", "s_client", "-connect",
                     mst_addr_format(&bound, where)};
  for (int i = 0; more[i] != NULL; i++)
    words[4 + i] = more[i];
  int status;
  (void)fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
      (void)dup2(null, fd);
    (void)execvp(words[0], words);
    _exit(127);
  }
  CHECK_INT(waitpid(pid, &status, 0), pid);
  CHECK(WIFEXITED(status));
  if (WEXITSTATUS(status) == 127) _exit(0); // there is none here
  CHECK_INT(WEXITSTATUS(status), 1);
  shared->clients++;
}

static void be_clients(void) {
  static char *const how[][6] = {
      {NULL},
      {"-tls1_2", NULL},
      {"-tls1_2", "-psk", "3031323334353637", "-psk_identity", "a", NULL},
      {"-tls1_3", "-psk", "3031323334353637", "-psk_identity", "a", NULL},
      {"-tls1_3", "-psk", "3031323334353637", "-psk_identity", "b", NULL}};
  while (!shared->over) {
    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
      run_client(how[i]);
  }
}

// ---- the session

static int64_t limit_ns;

// attend_guests reads what guests say, and forgets those that have ended.
static void attend_guests(void) {
  for (uint32_t i = 0; i < guest_count;) {
    char word;
    const int64_t got = mst_secure_read(guests[i].secure, &word, 1, NULL);
    if (got < 0 && got != -MST_EAGAIN) {
      forget_guest(i);
      shared->forgotten++;
    } else {
      i++;
    }
  }
}

// go_round serves whoever comes, for a moment.
static void go_round(void) {
  if (shared->failed) _exit(shared->failed);
  CHECK(mst_clock_now() < limit_ns);
  if (intake == NULL) {
    (void)usleep(5000);
    return;
  }
  (void)mst_net_wait(mst_intake_fd(intake), POLLIN, in_ms(5));
  attend_guests();
  while (take_in())
    answer(&guests[guest_count - 1]);
}

static void say_to_all(const char *word) {
  for (uint32_t i = 0; i < guest_count; i++)
    CHECK_INT(mst_secure_write(guests[i].secure, word, 1, NULL), 1);
}

// dismiss finds that all hosts are in, each once, and reached by the session's last word.
static void dismiss(pid_t pid) {
  while (shared->heard < host_count)
    go_round();
  CHECK_INT(guest_count, host_count);
  const uint32_t words = shared->words;
  say_to_all("e");
  while (shared->words < words + host_count)
    go_round();
  await(pid);
  forget_guests();
  mst_intake_close(intake);
  tell("hosts", host_count);
  tell("attempts", shared->attempts);
}

static int listen_again(void) {
  int fd;
  CHECK_INT(mst_net_listen(&bound, QUEUE, &fd, 1, &bound, NULL), 0);
  return fd;
}

// All call while nobody serves the queue.
static void play_crowd(void) {
  const int listener = listen_at("127.0.0.1", QUEUE, &bound);
  const pid_t pid = be(be_hosts);
  while (count_of("ListenOverflows") == 0 || shared->least < 1)
    go_round();
  open_intake(&listener, 1, host_count);
  dismiss(pid);
  tell("overflows", count_of("ListenOverflows"));
}

static void play_lost(enum lose what) {
  const int listener = listen_at("127.0.0.1", QUEUE, &bound);
  lose_packets(listener, what);
  open_intake(&listener, 1, host_count);
  const pid_t pid = be(be_hosts);
  while (shared->least < 2 || (what == LOSE_BUT_SYN && shared->asked == 0))
    go_round();
  CHECK(what == LOSE_BUT_SYN || shared->asked == 0);
  CHECK_INT(guest_count, 0);
  keep_packets(listener);
  dismiss(pid);
}

static void play_refused(void) {
  bound = closed_port();
  const pid_t pid = be(be_hosts);
  while (shared->least < 3)
    go_round();
  CHECK_INT(shared->asked, 0);
  const int listener = listen_again();
  open_intake(&listener, 1, host_count);
  dismiss(pid);
}

// Hosts vanish: one that has a connection, one that is admitted, one that is in.
static void play_host_forgets(void) {
  struct host gone = {0};
  int fd;
  const int listener = listen_at("127.0.0.1", QUEUE, &bound);
  open_intake(&listener, 1, host_count);
  CHECK_INT(dial_within(&bound, &fd, NULL), 0);
  forget(&fd);
  for (int in = 0; in < 2; in++) {
    open_host(&gone, HOSTS_MAX - 1);
    while (in ? !gone.heard : !gone.begun) {
      if (in) {
        step(&gone);
        go_round();
      } else {
        call(&gone);
      }
    }
    forget(&gone.caller.fd);
    mst_caller_close(&gone.caller);
  }
  // Whoever comes now finds the places of two that are gone. The session learns of the second when
  // it says something: that is answered by a reset.
  const pid_t pid = be(be_hosts);
  while (shared->least < 1)
    go_round();
  CHECK_INT(mst_secure_write(guests[0].secure, "w", 1, NULL), 1);
  dismiss(pid);
}

// Every other host loses the session's end, and learns that when it says something.
static void play_session_forgets(void) {
  const int listener = listen_at("127.0.0.1", QUEUE, &bound);
  open_intake(&listener, 1, host_count);
  const pid_t pid = be(be_hosts);
  while (shared->heard < host_count)
    go_round();
  const uint32_t before = shared->attempts;
  for (uint32_t i = host_count; i-- > 0;) {
    if (guests[i].number % 2 == 0) continue;
    forget(&guests[i].fd);
    forget_guest(i);
  }
  shared->speak = 1;
  while (shared->attempts < before + host_count / 2)
    go_round();
  while (guest_count < host_count)
    go_round();
  dismiss(pid);
}

static uint32_t resent(void) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < guest_count; i++) {
    struct tcp_info info;
    socklen_t n = sizeof info;
    CHECK_INT(getsockopt(guests[i].fd, IPPROTO_TCP, TCP_INFO, &info, &n), 0);
    count += info.tcpi_total_retrans > 0;
  }
  return count;
}

// A firewall begins to drop what the session says, before hosts are in, and afterwards.
static void play_fire_wall(void) {
  const int listener = listen_at("10.9.0.1", QUEUE, &bound);
  open_intake(&listener, 1, host_count);
  fire_wall(1);
  const pid_t pid = be(be_there);
  while (shared->least < 2)
    go_round();
  CHECK_INT(shared->asked, 0);
  fire_wall(0);
  while (shared->asked == 0)
    go_round();
  fire_wall(1);
  const uint32_t attempts_then = shared->attempts;
  while (shared->attempts < attempts_then + host_count &&
         shared->heard < host_count)
    go_round();
  fire_wall(0);
  while (shared->heard < host_count)
    go_round();
  fire_wall(1);
  say_to_all("w");
  while (resent() < host_count)
    go_round();
  fire_wall(0);
  while (shared->words < host_count)
    go_round();
  dismiss(pid);
}

// Residents are in all the time, visitors come and go, and peers come in their turns. The queue is
// the longest there is: behind one of 8 most peers would wait for the kernel's tries, which are
// minutes apart in the end.
static void play_hostile(void) {
  const int listener = listen_at("127.0.0.1", MST_BACKLOG_MOST, &bound);
  open_intake(&listener, 1, host_count + 1);
  prepare(&hosts[0]);
  const pid_t residents = be(be_hosts);
  while (shared->heard < host_count)
    go_round();
  const int64_t fds_before = count_fds();
  const uint32_t turns = (peer_count + TURN_MAX - 1) / TURN_MAX;
  const pid_t others[] = {be(be_peers), be(be_visitors), be(be_clients)};
  int64_t fds = 0, fds_most = 0, kb = 0;
  uint32_t words = 0;
  for (uint32_t turn = 0; turn < turns; turn++) {
    while (shared->turns == turn) {
      go_round();
      const int64_t now = count_fds();
      if (now > fds_most) fds_most = now;
    }
    if (turn == 1) kb = memory_kb();
    for (uint32_t i = 0; i < guest_count; i++) { // each resident is still there
      if (guests[i].number >= host_count) continue;
      CHECK_INT(mst_secure_write(guests[i].secure, "w", 1, NULL), 1);
      words++;
    }
    CHECK_INT(words, (turn + 1) * host_count);
    while (shared->words < words)
      go_round();
  }
  const int64_t kb_more = memory_kb() - kb;
  shared->over = 1;
  for (int i = 0; i < 3; i++) {
    while (waitpid(others[i], NULL, WNOHANG) == 0)
      go_round();
  }
  while (guest_count > host_count)
    go_round();
  // Then nothing is left of the others.
  while ((fds = count_fds()) > fds_before)
    go_round();
  tell("peers", peer_count);
  tell("turn", TURN_MAX);
  tell("visits", shared->visits);
  tell("told", shared->told);
  tell("clients", shared->clients);
  tell("fds_most", fds_most - fds);
  tell("kb_more", kb_more);
  dismiss(residents);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*play)(void);
  } cases[] = {{"crowd", play_crowd},
               {"refused", play_refused},
               {"host-forgets", play_host_forgets},
               {"session-forgets", play_session_forgets},
               {"fire-wall", play_fire_wall},
               {"hostile", play_hostile}};
  if (argc < 3) return 2;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  if (!mst_secure_has()) SKIP("built without OpenSSL");
  host_count = (uint32_t)strtoul(argv[2], NULL, 10);
  peer_count = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
  CHECK(host_count > 0 && host_count < HOSTS_MAX);
  limit_ns = in_ms(LIMIT_MS);
  (void)mst_net_fd_raise_limit(4096);
  const int64_t began_ns = mst_clock_now();
  if (strcmp(argv[1], "syn") == 0) play_lost(LOSE_ALL);
  if (strcmp(argv[1], "ack") == 0) play_lost(LOSE_BUT_SYN);
  if (strcmp(argv[1], "reset") == 0) {
    reset_when_full();
    play_crowd();
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (strcmp(argv[1], cases[i].name) == 0) cases[i].play();
  }
  tell("ms", ms_since(began_ns));
  printf("\n");
  return 0;
}
