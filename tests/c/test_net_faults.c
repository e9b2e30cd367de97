// S4, S6, S7 and S8: provoked failures between two ends of a connection.
// Packets are lost by socket filters, clients reset, listeners don't accept.
#include "mst_net_test.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/mst_fault.h"
#include "net/diag.h"

#ifdef __linux__

static uint32_t half_open_at(int listener) {
  struct mst_diag_listener at;
  NEEDS(MST_HAVE_DIAG);
  CHECK_INT(mst_diag_listener_of(listener, &at, NULL), 0);
  return at.half_open;
}

static int64_t overflows(void) {
  struct mst_diag_counters now;
  CHECK_INT(mst_diag_counters_read("/proc", &now, NULL), 0);
  return now.value[MST_DIAG_LISTEN_OVERFLOWS];
}

TEST("S4 dropped SYN: a full queue delays clients, and is reported") {
  struct mst_addr bound;
  int listener = listen_at("127.0.0.1", 1, &bound);
  int clients[2], late = -1, server = -1;
  const int64_t before = overflows();
  // Linux lets one more wait than the backlog says.
  for (int i = 0; i < 2; i++)
    CHECK_INT(dial_within(&bound, &clients[i], NULL), 0);
  const int64_t began = mst_clock_now();
  CHECK_INT(mst_net_dial(&bound, &late, NULL), -MST_EAGAIN);
  CHECK_INT(mst_net_wait(late, POLLOUT, in_ms(100)), 0);
  CHECK_INT(mst_net_dial_done(late, NULL), -MST_EAGAIN);
  CHECK(overflows() > before);
  struct mst_diag_tcp tcp;
  if (MST_HAVE_DIAG) {
    CHECK_INT(mst_diag_tcp_look(listener, &tcp, NULL), 0);
    CHECK_INT(tcp.depth, 2);
    CHECK_INT(tcp.backlog, 1);
  }
  CHECK_INT(mst_net_accept(listener, &server, NULL, NULL), 0);
  // The client's SYN is sent again after a second.
  CHECK(mst_net_wait(late, POLLOUT, in_ms(30000)) != 0);
  CHECK_INT(mst_net_dial_done(late, NULL), 0);
  CHECK(ms_since(began) > 500);
  mst_net_close(&late);
  mst_net_close(&server);
  mst_net_close(&clients[0]);
  mst_net_close(&clients[1]);
  mst_net_close(&listener);
}

TEST("S4 dropped final ACK: a client that speaks first gets in") {
  struct mst_addr bound;
  int listener = listen_at("127.0.0.1", 16, &bound), client = -1, server = -1;
  size_t done = 0;
  char bytes[5];
  lose_packets(listener, LOSE_BUT_SYN);
  CHECK_INT(dial_within(&bound, &client, NULL), 0); // half-open: only it knows
  CHECK_INT(mst_net_accept(listener, &server, NULL, NULL), -MST_EAGAIN);
  CHECK_INT(half_open_at(listener), 1);
  CHECK_INT(mst_net_send_until(client, "hello", 5, &done, 0, NULL), 0);
  keep_packets(listener);
  CHECK_INT(accept_until(listener, &server, NULL, in_ms(30000), NULL), 0);
  done = 0;
  CHECK_INT(recv_until(server, bytes, 5, &done, in_ms(30000), NULL), 0);
  CHECK(memcmp(bytes, "hello", 5) == 0);
  CHECK_INT(half_open_at(listener), 0);
  mst_net_close(&client);
  mst_net_close(&server);
  mst_net_close(&listener);
}

TEST("S4 half-open on the client: the server has forgotten, the client learns "
     "it when it sends") {
  struct mst_addr bound;
  int listener = listen_at("127.0.0.1", 16, &bound), client = -1, server = -1;
  const int once = 1;
  char byte;
  size_t done = 0;
  CHECK_INT(setsockopt(listener, IPPROTO_TCP, TCP_SYNCNT, &once, sizeof once),
            0);
  lose_packets(listener, LOSE_BUT_SYN);
  CHECK_INT(dial_within(&bound, &client, NULL), 0);
  const int64_t until_ns = in_ms(60000);
  while (half_open_at(listener) > 0 && mst_clock_now() < until_ns)
    (void)mst_net_wait(listener, POLLIN, in_ms(50));
  keep_packets(listener);
  CHECK_INT(half_open_at(listener), 0);
  CHECK_INT(mst_net_accept(listener, &server, NULL, NULL), -MST_EAGAIN);
  // A silent client would wait forever: only its own deadline helps.
  CHECK_INT(recv_until(client, &byte, 1, &done, in_ms(100), NULL), -MST_EAGAIN);
  size_t sent = 0;
  CHECK_INT(mst_net_send_until(client, "x", 1, &sent, 0, NULL), 0);
  struct mst_err err;
  mst_err_clear(&err);
  CHECK_INT(recv_until(client, &byte, 1, &done, in_ms(30000), &err),
            -MST_ECLOSED);
  CHECK_INT(err.sys_errno, ECONNRESET);
  mst_net_close(&client);
  mst_net_close(&listener);
}

TEST("S4 half-open on the server: the timeout of sent data detects a client "
     "that is gone") {
  int client = -1, server = -1;
  connected_pair(&client, &server);
  char byte;
  size_t done = 0;
  // The reset is lost, as when the client's host loses its power.
  lose_packets(server, LOSE_ALL);
  mst_net_close_reset(&client);
  CHECK_INT(recv_until(server, &byte, 1, &done, in_ms(100), NULL), -MST_EAGAIN);
  NEEDS(MST_HAVE_SOCKET_FLAGS);
  CHECK_INT(mst_net_set_user_timeout(server, 300, NULL), 0);
  size_t sent = 0;
  struct mst_err err;
  mst_err_clear(&err);
  CHECK_INT(mst_net_send_until(server, "x", 1, &sent, 0, NULL), 0);
  CHECK(recv_until(server, &byte, 1, &done, in_ms(60000), &err) < 0);
  CHECK_INT(err.sys_errno, ETIMEDOUT);
  mst_net_close(&server);
}

TEST("S4 RST: clients in the queue of a closing listener learn it at once") {
  struct mst_addr addr, bound;
  int fds[2], clients[16], resets = 0;
  CHECK_INT(mst_addr_parse("127.0.0.1", 0, &addr, NULL), 0);
  CHECK_INT(mst_net_listen(&addr, 64, fds, 2, &bound, NULL), 0);
  for (int i = 0; i < 16; i++)
    CHECK_INT(dial_within(&bound, &clients[i], NULL), 0);
  mst_net_close(&fds[0]);
  mst_net_close(&fds[1]);
  for (int i = 0; i < 16; i++) {
    char byte;
    size_t done = 0;
    struct mst_err err;
    mst_err_clear(&err);
    const int rc = recv_until(clients[i], &byte, 1, &done, in_ms(30000), &err);
    CHECK_INT(rc, -MST_ECLOSED);
    resets += err.sys_errno == ECONNRESET;
    mst_net_close(&clients[i]);
  }
  CHECK_INT(resets, 16);
}

TEST("S8 writable too early isn't connected") {
  struct mst_addr bound;
  int listener = listen_at("127.0.0.1", 16, &bound), client = -1;
  lose_packets(listener, LOSE_ALL);
  CHECK_INT(mst_net_dial(&bound, &client, NULL), -MST_EAGAIN);
  for (int i = 0; i < 3; i++)
    CHECK_INT(mst_net_dial_done(client, NULL), -MST_EAGAIN);
  mst_net_close(&client);
  mst_net_close(&listener);
}
#endif

TEST("S8 false readiness only costs another round") {
  struct mst_addr bound;
  int listener = listen_at("127.0.0.1", 16, &bound), client = -1, server = -1;
  char byte = 0;
  size_t done = 0;
  CHECK_INT(dial_within(&bound, &client, NULL), 0);
  CHECK(mst_net_wait(listener, POLLIN, in_ms(30000)) != 0);
  // poll() says ready, and the call would block.
  (void)mst_fault_arm("net.accept", 1, EAGAIN);
  CHECK_INT(accept_until(listener, &server, NULL, in_ms(30000), NULL), 0);
  (void)mst_fault_arm("net.send", 1, EAGAIN);
  CHECK_INT(mst_net_send_until(client, "x", 1, &done, in_ms(30000), NULL), 0);
  CHECK(mst_net_wait(server, POLLIN, in_ms(30000)) != 0);
  done = 0;
  (void)mst_fault_arm("net.recv", 1, EAGAIN);
  CHECK_INT(recv_until(server, &byte, 1, &done, in_ms(30000), NULL), 0);
  CHECK_INT(byte, 'x');
  CHECK_INT(mst_fault_arm("net.recv", 0, 0), 2);
  // And the deadline holds, however often readiness is false.
  done = 0;
  CHECK_INT(recv_until(server, &byte, 1, &done, in_ms(50), NULL), -MST_EAGAIN);
  mst_net_close(&client);
  mst_net_close(&server);
  mst_net_close(&listener);
}

// Runs in a child until it is killed.
static void trouble(const struct mst_addr *addr) {
  for (;;) {
    int fd = -1;
    if (dial_within(addr, &fd, NULL) == 0) mst_net_close_reset(&fd);
    (void)usleep(2000);
  }
}

TEST("S7 the accept timeout holds while bad clients come, and a good one gets "
     "in") {
  struct mst_addr bound;
  int listener = listen_at("127.0.0.1", 16, &bound), good = -1, server = -1;
  const pid_t child = fork();
  if (child == 0) trouble(&bound);
  int64_t began = mst_clock_now();
  const int64_t until_ns = in_ms(300);
  int rc;
  // A bad client that hasn't reset yet looks like a good one.
  while ((rc = accept_until(listener, &server, NULL, until_ns, NULL)) == 0)
    mst_net_close(&server);
  CHECK_INT(rc, -MST_EAGAIN);
  CHECK(ms_since(began) >= 300);
  CHECK_INT(dial_within(&bound, &good, NULL), 0);
  size_t done = 0;
  CHECK_INT(mst_net_send_until(good, "g", 1, &done, 0, NULL), 0);
  char byte = 0;
  while (byte != 'g') {
    CHECK_INT(accept_until(listener, &server, NULL, in_ms(30000), NULL), 0);
    done = 0;
    (void)recv_until(server, &byte, 1, &done, in_ms(1000), NULL);
    mst_net_close(&server);
  }
  (void)kill(child, SIGKILL);
  while (waitpid(child, NULL, 0) != child)
    ;
  mst_net_close(&good);
  mst_net_close(&listener);
}

TEST("S4 a slow drip of bytes doesn't prolong an operation") {
  int client = -1, server = -1;
  connected_pair(&client, &server);
  const pid_t child = fork();
  if (child == 0) {
    for (;;) {
      size_t done = 0;
      (void)mst_net_send_until(client, "d", 1, &done, 0, NULL);
      (void)usleep(20000);
    }
  }
  char bytes[1000];
  size_t done = 0;
  const int64_t began = mst_clock_now();
  CHECK_INT(recv_until(server, bytes, sizeof bytes, &done, in_ms(200), NULL),
            -MST_EAGAIN);
  CHECK(ms_since(began) >= 200);
  CHECK(done > 0 && done < sizeof bytes);
  (void)kill(child, SIGKILL);
  while (waitpid(child, NULL, 0) != child)
    ;
  mst_net_close(&client);
  mst_net_close(&server);
}
