// Tests of dialin/caller and dialin/serve with a key: a host in a process of its own, the session
// here.
#include "mst_net_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "dialin/caller.h"
#include "dialin/intake.h"
#include "dialin/serve.h"

static const uint8_t key[MST_SECURE_KEY_BYTES] = "0123456789abcdef";

static struct mst_loop *loop;
static struct mst_dialin *dialin;
static struct mst_addr bound;
static int listener, used_fd;
static struct mst_secure *used;
static pid_t host;
static const char *why = ""; // the host is refused

#define NEEDS_OPENSSL                                                          \
  if (!mst_secure_has()) SKIP("built without OpenSSL")

static void use(void *owner, uint32_t worker, int fd,
                struct mst_secure *secure) {
  (void)owner;
  CHECK_INT(worker, 0);
  CHECK_INT(used_fd, -1);
  used_fd = fd;
  used = secure;
}

static void serve(const char *name) {
  static struct mst_dialin_proof proof;
  proof = (struct mst_dialin_proof){.key = key, .name = name};
  CHECK_INT(mst_loop_open(MST_LOOP_BEST, &loop, NULL), 0);
  CHECK_INT(mst_dialin_open(loop, &listener, 1, &proof, 7, 1, use, NULL,
                            &dialin, NULL),
            0);
}

// call forks a host, which exits with what mst_caller_run returned, made positive, or with 100 once
// it has heard the session's word.
static void call(const struct mst_caller *how, int64_t give_up_ms) {
  (void)fflush(NULL);
  used_fd = -1;
  host = fork();
  if (host != 0) return;
  struct mst_caller caller = *how;
  struct mst_err err;
  mst_err_clear(&err);
  mst_net_close(&listener);
  if (mst_caller_open(&caller, in_ms(give_up_ms), NULL) != 0) _exit(99);
  int rc;
  while ((rc = mst_caller_run(&caller, in_ms(50), &err)) == 0 ||
         rc == -MST_EAGAIN) {
    if (rc != 0) continue;
    char byte = 'h';
    int64_t got = mst_secure_write(caller.secure, &byte, 1, NULL);
    if (got == 1) got = -MST_EAGAIN;
    while (got == -MST_EAGAIN) {
      (void)mst_net_wait(caller.fd, POLLIN, in_ms(1000));
      got = mst_secure_read(caller.secure, &byte, 1, NULL);
    }
    if (got == 1 && byte == 's') _exit(100);
    mst_caller_again(&caller);
  }
  mst_caller_close(&caller);
  if (rc == -MST_EPROTO && strcmp(err.text, why) != 0) {
    (void)fprintf(stderr, "refused: %s\n", err.text);
    _exit(98);
  }
  _exit(-rc);
}

static int is_over(int *status) {
  if (waitpid(host, status, WNOHANG) != host) return 0;
  *status = WIFEXITED(*status) ? WEXITSTATUS(*status) : -1;
  return 1;
}

// run serves until the host process has ended, and gives its status.
static int run(void) {
  int status, said = 0;
  while (!is_over(&status)) {
    (void)mst_loop_run(loop, 5, NULL);
    mst_dialin_tick(dialin, mst_clock_now());
    if (used_fd < 0 || said) continue;
    char byte;
    CHECK_INT(mst_secure_read(used, &byte, 1, NULL), 1);
    CHECK_INT(byte, 'h');
    CHECK_INT(mst_secure_write(used, "s", 1, NULL), 1);
    said = 1;
  }
  return status;
}

static void end(void) {
  mst_secure_free(used);
  used = NULL;
  mst_net_close(&used_fd);
  mst_dialin_close(dialin);
  mst_loop_close(loop);
  mst_net_close(&listener);
}

static struct mst_caller caller_of(const uint8_t *with, uint32_t cluster) {
  struct mst_caller caller = {
      .count = 1, .cluster = cluster, .key = {.name = "a"}};
  caller.addrs[0] = bound;
  memcpy(caller.key.bytes, with, sizeof caller.key.bytes);
  return caller;
}

TEST("A host that has the key is admitted, and hears what the session says") {
  NEEDS_OPENSSL;
  listener = listen_at("127.0.0.1", 2, &bound);
  const struct mst_caller caller = caller_of(key, 7);
  call(&caller, 60000);
  (void)usleep(600000); // the session is busy: the first connection is given up
  serve("a");
  CHECK_INT(run(), 100);
  CHECK_INT(mst_dialin_used(dialin), 1);
  end();
}

TEST("A host without the key isn't admitted, and gives up in its time") {
  static const uint8_t other[MST_SECURE_KEY_BYTES] = "guess";
  NEEDS_OPENSSL;
  listener = listen_at("127.0.0.1", 2, &bound);
  const struct mst_caller caller = caller_of(other, 7);
  serve("a");
  call(&caller, 700);
  CHECK_INT(run(), MST_ETIMEOUT);
  CHECK_INT(mst_dialin_used(dialin), 0);
  end();
}

TEST("A host that isn't expected is refused, and doesn't call again") {
  NEEDS_OPENSSL;
  listener = listen_at("127.0.0.1", 2, &bound);
  const struct mst_caller caller = caller_of(key, 8);
  why = "no such cluster here";
  serve("a");
  call(&caller, 60000);
  CHECK_INT(run(), MST_EPROTO);
  CHECK_INT(mst_dialin_used(dialin), 0);
  end();
}

TEST("Peers that say nothing, or something else, take no place for long") {
  NEEDS_OPENSSL;
  int silent[20];
  listener = listen_at("127.0.0.1", 40, &bound);
  for (int i = 0; i < 20; i++) {
    CHECK(mst_net_dial(&bound, &silent[i], NULL) <= 0);
    if (i % 2 == 0) continue;
    size_t done = 0;
    CHECK(mst_net_wait(silent[i], POLLOUT, in_ms(20000)) != 0);
    CHECK_INT(mst_net_send_until(silent[i], "GET / HTTP/1.0\r\n\r\n", 18, &done,
                                 in_ms(20000), NULL),
              0);
  }
  serve("a");
  const struct mst_caller caller = caller_of(key, 7);
  call(&caller, 60000);
  CHECK_INT(run(), 100);
  while (mst_dialin_waiting(dialin) > 0) {
    (void)mst_loop_run(loop, 20, NULL);
    mst_dialin_tick(dialin, mst_clock_now());
  }
  for (int i = 0; i < 20; i++)
    mst_net_close(&silent[i]);
  end();
}

TEST("An intake admits as many hosts as are expected, and others once one is "
     "gone") {
  struct mst_intake *intake;
  NEEDS_OPENSSL;
  listener = listen_at("127.0.0.1", 8, &bound);
  struct mst_intake_config config = {.listeners = &listener,
                                     .count = 1,
                                     .key = {.name = "a"},
                                     .cluster = 7,
                                     .places = 2};
  memcpy(config.key.bytes, key, sizeof config.key.bytes);
  CHECK_INT(mst_intake_open(&config, &intake, NULL), 0);
  const struct mst_caller caller = caller_of(key, 7);
  uint8_t taken[2] = {0, 0};
  for (int i = 0; i < 4; i++) {
    int status, fd;
    uint32_t place;
    why = "no more are needed here";
    call(&caller, 60000);
    if (i == 2) {
      while (!is_over(&status))
        (void)usleep(1000);
      CHECK_INT(status, MST_EPROTO);
      taken[1] = 0;
      mst_intake_expect(intake, 1);
      continue;
    }
    // The thread may hear of a host before it hears that another one is expected.
    while (mst_net_wait(mst_intake_fd(intake), POLLIN, in_ms(20)) == 0)
      if (i == 3 && is_over(&status)) call(&caller, 60000);
    CHECK_INT(mst_intake_take(intake, &fd, &used, &place), 1);
    CHECK(place < 2 && !taken[place]);
    taken[place] = 1;
    char byte;
    CHECK_INT(mst_secure_read(used, &byte, 1, NULL), 1);
    CHECK_INT(mst_secure_write(used, "s", 1, NULL), 1);
    while (!is_over(&status))
      (void)usleep(1000);
    CHECK_INT(status, 100);
    mst_secure_free(used);
    used = NULL;
    mst_net_close(&fd);
  }
  mst_intake_close(intake);
}
