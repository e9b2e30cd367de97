// Tests of net/stream: listeners, connects, whole operations and their deadlines.
#include "mst_net_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

static void check_born(int fd) {
  CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
}

static int option(int fd, int level, int name) {
  int value = -1;
  socklen_t n = sizeof value;
  CHECK_INT(getsockopt(fd, level, name, &value, &n), 0);
  return value;
}

static void check_pair_at(const char *host) {
  struct mst_addr bound, peer, local;
  int listener = listen_at(host, MST_BACKLOG_MOST, &bound);
  CHECK(mst_addr_port(&bound) > 0);
  int client = -1, server = -1;
  CHECK_INT(mst_net_accept(listener, &server, &peer, NULL), -MST_EAGAIN);
  CHECK_INT(server, -1);
  CHECK_INT(dial_within(&bound, &client, NULL), 0);
  CHECK_INT(accept_until(listener, &server, &peer, in_ms(30000), NULL), 0);
  CHECK_INT(mst_addr_local(client, &local, NULL), 0);
  CHECK(mst_addr_same(&local, &peer));
  check_born(listener);
  check_born(client);
  check_born(server);
  CHECK_INT(option(client, IPPROTO_TCP, TCP_NODELAY), 1);
  CHECK_INT(option(server, IPPROTO_TCP, TCP_NODELAY), 1);
  char bytes[3];
  size_t done = 0;
  CHECK_INT(mst_net_send_until(client, "abc", 3, &done, 0, NULL), 0);
  done = 0;
  CHECK_INT(recv_until(server, bytes, 3, &done, in_ms(30000), NULL), 0);
  CHECK(memcmp(bytes, "abc", 3) == 0);
  mst_net_close(&client);
  mst_net_close(&server);
  mst_net_close(&listener);
}

TEST("A client and a server meet over IPv4") { check_pair_at("127.0.0.1"); }

TEST("A client and a server meet over IPv6") {
  struct mst_addr addr;
  int fd = -1;
  CHECK_INT(mst_addr_parse("::1", 0, &addr, NULL), 0);
  if (mst_net_listen(&addr, 1, &fd, 1, &addr, NULL) != 0) {
    SKIP("this system has no IPv6");
  }
  mst_net_close(&fd);
  check_pair_at("::1");
}

static char *temp_path(char *out, size_t n) {
  (void)snprintf(out, n, "/tmp/mst-test-%ld.sock", (long)getpid());
  (void)unlink(out);
  return out;
}

TEST("Only this user may access a unix path, which is taken over from dead "
     "listeners") {
  char path[64];
  struct mst_addr addr, bound;
  struct mst_err err;
  struct stat at;
  int dead = -1, listener = -1, second = -1, client = -1, server = -1;
  mst_err_clear(&err);
  CHECK_INT(mst_addr_parse(temp_path(path, sizeof path), 0, &addr, NULL), 0);
  CHECK_INT(mst_net_listen(&addr, 1, &dead, 1, &bound, NULL), 0);
  CHECK_INT(stat(path, &at), 0);
  CHECK_INT(at.st_mode & 0777, 0600);
  mst_net_close(&dead);
  CHECK_INT(mst_net_listen(&addr, 1, &listener, 1, &bound, NULL), 0);
  CHECK_INT(mst_net_listen(&addr, 1, &second, 1, &bound, &err), -MST_ECONNECT);
  CHECK_INT(err.sys_errno, EADDRINUSE);
  CHECK_INT(second, -1);
  CHECK_INT(dial_within(&addr, &client, NULL), 0);
  CHECK_INT(accept_until(listener, &server, NULL, in_ms(30000), NULL), 0);
  mst_net_close(&server);
  mst_net_close(&client);
  // Not the connect that checked whether the path was in use.
  CHECK_INT(mst_net_accept(listener, &server, NULL, NULL), 0);
  mst_net_close(&server);
  mst_net_close(&listener);
  // A file that isn't a socket is left alone.
  CHECK_INT(unlink(path), 0);
  int file = open(path, O_CREAT | O_RDWR, 0600);
  CHECK(file >= 0);
  (void)close(file);
  CHECK_INT(mst_net_listen(&addr, 1, &listener, 1, &bound, NULL),
            -MST_ECONNECT);
  CHECK_INT(unlink(path), 0);
}

TEST("Several listeners share a port, each with a queue of its own") {
  struct mst_addr addr, bound;
  int fds[4], clients[64], server = -1, used = 0;
  CHECK_INT(mst_addr_parse("127.0.0.1", 0, &addr, NULL), 0);
  CHECK_INT(mst_net_listen(&addr, 64, fds, 4, &bound, NULL), 0);
  for (int i = 0; i < 64; i++)
    CHECK_INT(dial_within(&bound, &clients[i], NULL), 0);
  int accepted = 0;
  for (int i = 0; i < 4; i++) {
    const int before = accepted;
    while (mst_net_accept(fds[i], &server, NULL, NULL) == 0) {
      accepted++;
      mst_net_close(&server);
    }
    used += accepted > before;
  }
  CHECK_INT(accepted, 64);
  CHECK(used >= 2); // 1 in 4^63 that all meet at one
  for (int i = 0; i < 64; i++)
    mst_net_close(&clients[i]);
  for (int i = 0; i < 4; i++)
    mst_net_close(&fds[i]);
  struct mst_err err;
  CHECK_INT(mst_addr_parse("/tmp/x", 0, &addr, NULL), 0);
  CHECK_INT(mst_net_listen(&addr, 64, fds, 2, &bound, &err), -MST_EINPUT);
}

TEST("A port in use is an error that says so") {
  struct mst_addr bound;
  struct mst_err err;
  int listener = listen_at("127.0.0.1", 1, &bound), other = -1;
  mst_err_clear(&err);
  CHECK_INT(mst_net_listen(&bound, 1, &other, 1, &bound, &err), -MST_ECONNECT);
  CHECK_INT(err.sys_errno, EADDRINUSE);
  CHECK_TEXT(err.call, "bind");
  CHECK_INT(other, -1);
  mst_net_close(&listener);
}

TEST("S6 a refused connect is known") {
  const struct mst_addr addr = closed_port();
  struct mst_err err;
  int fd = -1;
  mst_err_clear(&err);
  CHECK_INT(dial_within(&addr, &fd, &err), -MST_ECONNECT);
  CHECK_INT(err.sys_errno, ECONNREFUSED);
  CHECK_INT(fd, -1);
}

TEST("A connect to oneself counts as refused") {
  // A socket that is bound and connects to its own address is the same as what a
  // connect to a free port of the ephemeral range meets by chance.
  struct mst_addr addr = closed_port();
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK_INT(bind(fd, &addr.at.any, addr.len), 0);
  CHECK_INT(connect(fd, &addr.at.any, addr.len), 0);
  struct mst_err err;
  mst_err_clear(&err);
  CHECK_INT(mst_net_dial_done(fd, &err), -MST_ECONNECT);
  CHECK_INT(err.sys_errno, ECONNREFUSED);
  mst_net_close(&fd);
}

TEST("S7 a client that has reset before accept is passed over") {
  struct mst_addr bound;
  int listener = listen_at("127.0.0.1", MST_BACKLOG_MOST, &bound);
  int bad = -1, good = -1, server = -1;
  for (int i = 0; i < 3; i++) {
    CHECK_INT(dial_within(&bound, &bad, NULL), 0);
    CHECK(mst_net_wait(listener, POLLIN, in_ms(30000)) != 0);
    mst_net_close_reset(&bad);
  }
  CHECK_INT(mst_net_accept(listener, &server, NULL, NULL), -MST_EAGAIN);
  CHECK_INT(dial_within(&bound, &bad, NULL), 0);
  mst_net_close_reset(&bad);
  CHECK_INT(dial_within(&bound, &good, NULL), 0);
  struct mst_addr peer, local;
  CHECK_INT(mst_net_accept(listener, &server, &peer, NULL), 0);
  CHECK_INT(mst_addr_local(good, &local, NULL), 0);
  CHECK(mst_addr_same(&peer, &local));
  mst_net_close(&good);
  mst_net_close(&server);
  mst_net_close(&listener);
}

TEST("A client that has sent and closed doesn't count as reset") {
  struct mst_addr bound;
  int listener = listen_at("127.0.0.1", MST_BACKLOG_MOST, &bound);
  int client = -1, server = -1;
  char byte = 0;
  size_t done = 0;
  CHECK_INT(dial_within(&bound, &client, NULL), 0);
  CHECK_INT(mst_net_send_until(client, "x", 1, &done, 0, NULL), 0);
  mst_net_close(&client);
  CHECK_INT(accept_until(listener, &server, NULL, in_ms(30000), NULL), 0);
  done = 0;
  CHECK_INT(recv_until(server, &byte, 1, &done, in_ms(30000), NULL), 0);
  CHECK_INT(byte, 'x');
  done = 0;
  CHECK_INT(recv_until(server, &byte, 1, &done, in_ms(30000), NULL),
            -MST_ECLOSED);
  mst_net_close(&server);
  mst_net_close(&listener);
}

TEST("Whole operations end at their deadline and keep their progress") {
  int client = -1, server = -1;
  connected_pair(&client, &server);
  char bytes[4];
  size_t done = 0;
  CHECK_INT(mst_net_send_until(client, "ab", 2, &done, 0, NULL), 0);
  done = 0;
  const int64_t began = mst_clock_now();
  CHECK_INT(recv_until(server, bytes, 4, &done, in_ms(60), NULL), -MST_EAGAIN);
  CHECK(ms_since(began) >= 60);
  CHECK_INT(done, 2);
  size_t sent = 0;
  CHECK_INT(mst_net_send_until(client, "cd", 2, &sent, 0, NULL), 0);
  CHECK_INT(recv_until(server, bytes, 4, &done, in_ms(30000), NULL), 0);
  CHECK(memcmp(bytes, "abcd", 4) == 0);
  // Nobody reads: the buffers fill up.
  const size_t n = (size_t)64 << 20;
  char *large = calloc(1, n);
  sent = 0;
  CHECK_INT(mst_net_send_until(client, large, n, &sent, in_ms(50), NULL),
            -MST_EAGAIN);
  CHECK(sent > 0 && sent < n);
  free(large);
  mst_net_close(&client);
  mst_net_close(&server);
}

static void on_alarm(int sig) { (void)sig; }

TEST("A signal ends a wait early") {
  int client = -1, server = -1;
  connected_pair(&client, &server);
  const struct sigaction act = {.sa_handler = on_alarm};
  CHECK_INT(sigaction(SIGUSR1, &act, NULL), 0);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    (void)usleep(50000);
    (void)kill(parent, SIGUSR1);
    _exit(0);
  }
  char byte;
  size_t done = 0;
  CHECK_INT(recv_until(server, &byte, 1, &done, in_ms(3600000), NULL),
            -MST_EAGAIN);
  while (waitpid(child, NULL, 0) != child)
    ;
  mst_net_close(&client);
  mst_net_close(&server);
}

TEST("A close with a reset reaches the other end") {
  int client = -1, server = -1;
  connected_pair(&client, &server);
  CHECK(!mst_net_is_reset(server));
  mst_net_close_reset(&client);
  CHECK(mst_net_wait(server, POLLIN, in_ms(30000)) != 0);
  CHECK(mst_net_is_reset(server));
  char byte;
  size_t done = 0;
  struct mst_err err;
  mst_err_clear(&err);
  CHECK_INT(recv_until(server, &byte, 1, &done, 0, &err), -MST_ECLOSED);
  CHECK_INT(err.sys_errno, ECONNRESET);
  mst_net_close(&server);
}

static int reach_all(const struct mst_addr *addrs, size_t count, int *fd,
                     size_t *won, int64_t until_ns, struct mst_err *err) {
  struct mst_reach reach;
  memcpy(reach.addrs, addrs, count * sizeof *addrs);
  reach.count = count;
  mst_reach_begin(&reach);
  const int rc = mst_reach_until(&reach, fd, until_ns, err);
  mst_reach_end(&reach);
  *won = reach.won;
  return rc;
}

TEST("Of several addresses the first that answers wins") {
  struct mst_addr addrs[3] = {closed_port(), closed_port()};
  struct mst_err err;
  int listener = listen_at("127.0.0.1", 1, &addrs[2]), fd = -1;
  size_t won;
  CHECK_INT(reach_all(addrs, 3, &fd, &won, in_ms(30000), NULL), 0);
  CHECK_INT(won, 2);
  mst_net_close(&fd);
  mst_err_clear(&err);
  CHECK_INT(reach_all(addrs, 2, &fd, &won, in_ms(30000), &err), -MST_ECONNECT);
  CHECK_INT(err.sys_errno, ECONNREFUSED);
  CHECK_INT(fd, -1);
  mst_net_close(&listener);
}

#ifdef __linux__
TEST("S6 a connect to a silent host ends at its deadline, another address is "
     "tried meanwhile") {
  struct mst_addr addrs[2];
  int silent = listen_at("127.0.0.1", 1, &addrs[0]);
  int listener = listen_at("127.0.0.1", 1, &addrs[1]), fd = -1;
  size_t won;
  lose_packets(silent, LOSE_ALL);
  int64_t began = mst_clock_now();
  CHECK_INT(reach_all(addrs, 1, &fd, &won, in_ms(100), NULL), -MST_EAGAIN);
  CHECK(ms_since(began) >= 100);
  CHECK_INT(fd, -1);
  began = mst_clock_now();
  CHECK_INT(reach_all(addrs, 2, &fd, &won, in_ms(30000), NULL), 0);
  CHECK_INT(won, 1);
  CHECK(ms_since(began) >= 250);
  mst_net_close(&fd);
  mst_net_close(&silent);
  mst_net_close(&listener);
}

TEST("A connect waits for a unix socket whose queue is full") {
  char path[64];
  struct mst_addr addr, bound;
  int listener = -1, clients[2] = {-1, -1}, late = -1, server = -1;
  size_t won;
  CHECK_INT(mst_addr_parse(temp_path(path, sizeof path), 0, &addr, NULL), 0);
  CHECK_INT(mst_net_listen(&addr, 1, &listener, 1, &bound, NULL), 0);
  CHECK_INT(dial_within(&addr, &clients[0], NULL), 0);
  CHECK_INT(dial_within(&addr, &clients[1], NULL), 0);
  const int64_t began = mst_clock_now();
  CHECK_INT(reach_all(&addr, 1, &late, &won, in_ms(60), NULL), -MST_EAGAIN);
  CHECK(ms_since(began) >= 59);
  CHECK_INT(mst_net_accept(listener, &server, NULL, NULL), 0);
  CHECK_INT(reach_all(&addr, 1, &late, &won, in_ms(30000), NULL), 0);
  check_born(late);
  mst_net_close(&late);
  mst_net_close(&server);
  mst_net_close(&clients[0]);
  mst_net_close(&clients[1]);
  mst_net_close(&listener);
  CHECK_INT(unlink(path), 0);
}
#endif

TEST("Options are set if the system has them") {
  int client = -1, server = -1;
  connected_pair(&client, &server);
  mst_net_set_nodelay(client, 0);
  CHECK_INT(option(client, IPPROTO_TCP, TCP_NODELAY), 0);
  mst_net_set_keepalive(client, 7, 3, 2);
  CHECK_INT(option(client, SOL_SOCKET, SO_KEEPALIVE) != 0, 1);
#ifdef __linux__
  CHECK_INT(option(client, IPPROTO_TCP, TCP_KEEPIDLE), 7);
  CHECK_INT(option(client, IPPROTO_TCP, TCP_KEEPINTVL), 3);
  CHECK_INT(option(client, IPPROTO_TCP, TCP_KEEPCNT), 2);
  struct mst_err err;
  if (MST_HAVE_SOCKET_FLAGS) {
    CHECK_INT(mst_net_set_user_timeout(client, 1500, NULL), 0);
    CHECK_INT(option(client, IPPROTO_TCP, TCP_USER_TIMEOUT), 1500);
  } else {
    CHECK_INT(mst_net_set_user_timeout(client, 1500, &err), -MST_ESYS);
    CHECK_INT(err.sys_errno, ENOPROTOOPT);
  }
#endif
  mst_net_close(&client);
  mst_net_close(&server);
}
