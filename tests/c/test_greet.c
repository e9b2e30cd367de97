// Tests of host/greet: the mark is found after anything, bytes that a link changes are noticed, and
// neither end waits for ever.
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mst_clock.h"
#include "host/greet.h"
#include "mst_test.h"
#include "net/net.h"

#define MARK MST_GREET_MARK
#define MARK_BYTES (sizeof MARK - 1)

// found_in tells how many bytes of text were used when the mark was found, given `part` at once; 0
// if it wasn't.
static size_t found_in(const char *text, size_t part) {
  struct mst_greet greet = {0};
  const size_t n = strlen(text);
  for (size_t at = 0; at < n; at += part) {
    size_t used;
    const size_t now = n - at < part ? n - at : part;
    const int rc =
        mst_greet_mark(&greet, (const uint8_t *)text + at, now, &used);
    if (rc == 1) return at + used;
    CHECK_INT(rc, 0);
    CHECK_INT(used, now);
  }
  return 0;
}

TEST("The mark is found after any other bytes, however they are cut") {
  static const char *const before[] = {"", "Last login: today\r\n", "<",
                                       "<muster<muster host", "<<<"};
  char text[100];
  for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
    (void)snprintf(text, sizeof text, "%s%s\n", before[i], MARK);
    for (size_t part = 1; part <= strlen(text); part++)
      CHECK_INT(found_in(text, part), strlen(before[i]) + MARK_BYTES);
  }
  CHECK_INT(found_in("<muster host 2>", 3), 0);
}

TEST("No more than 64 KiB are skipped") {
  struct mst_greet greet = {0};
  static uint8_t noise[MST_GREET_SKIP_MAX + 1];
  size_t used;
  memset(noise, 'x', sizeof noise);
  CHECK_INT(mst_greet_mark(&greet, noise, sizeof noise - 1, &used), 0);
  CHECK_INT(mst_greet_mark(&greet, noise, 1, &used), -MST_EPROTO);
}

static void values(uint8_t bytes[MST_GREET_BYTES]) {
  for (size_t i = 0; i < MST_GREET_BYTES; i++)
    bytes[i] = (uint8_t)i;
}

TEST("Any byte that is changed, lost or added is noticed") {
  uint8_t bytes[MST_GREET_BYTES + 1];
  size_t used;
  for (size_t i = 2; i < MST_GREET_BYTES; i++) {
    struct mst_greet greet = {0};
    values(bytes);
    bytes[i] ^= 0x80;
    CHECK_INT(mst_greet_echo(&greet, bytes, MST_GREET_BYTES, &used),
              -MST_EPROTO);
    values(bytes);
    memmove(bytes + i, bytes + i + 1, MST_GREET_BYTES - i - 1);
    greet = (struct mst_greet){0};
    CHECK(mst_greet_echo(&greet, bytes, MST_GREET_BYTES - 1, &used) != 1);
  }
  struct mst_greet greet = {0};
  values(bytes);
  CHECK_INT(mst_greet_echo(&greet, (const uint8_t *)"\r\n", 2, &used), 0);
  CHECK_INT(mst_greet_echo(&greet, bytes, MST_GREET_BYTES, &used), 1);
  CHECK_INT(used, MST_GREET_BYTES);
}

// ---- over pipes

static struct mst_cable cables[2]; // the session's, the host's
static struct mst_greet_link ends[2];

static void open_link(int64_t ms) {
  int there[2], back[2];
  CHECK_INT(mst_net_pipe(there, NULL), 0);
  CHECK_INT(mst_net_pipe(back, NULL), 0);
  const int64_t until_ns = mst_clock_now() + ms * MST_NS_PER_MS;
  cables[0] = (struct mst_cable){.in = back[0], .out = there[1]};
  cables[1] = (struct mst_cable){.in = there[0], .out = back[1]};
  for (int i = 0; i < 2; i++)
    ends[i] = (struct mst_greet_link){&cables[i], -1, until_ns};
}

static void close_link(void) {
  mst_cable_close(&cables[0]);
  mst_cable_close(&cables[1]);
}

TEST("Session and host greet each other, whatever startup files print") {
  struct mst_tail skipped = {0};
  char text[MST_TAIL_BYTES];
  open_link(20000);
  const pid_t pid = fork();
  if (pid == 0) {
    mst_cable_close(&cables[0]);
    const ssize_t n = write(cables[1].out, "Welcome!\n", 9);
    _exit(n == 9 && mst_greet_host(&ends[1], NULL) == 0 ? 0 : 1);
  }
  CHECK_INT(mst_greet_session(&ends[0], &skipped, NULL), 0);
  int status;
  CHECK_INT(waitpid(pid, &status, 0), pid);
  CHECK_INT(status, 0);
  const size_t n = mst_tail_read(&skipped, text);
  CHECK(n >= 9 && memcmp(text, "Welcome!\n", 9) == 0);
  mst_tail_free(&skipped);
  close_link();
}

TEST("A greeting ends with its time, with the link, or when it isn't wanted") {
  struct mst_tail skipped = {0};
  int until[2];
  open_link(30);
  CHECK_INT(mst_greet_session(&ends[0], &skipped, NULL), -MST_ETIMEOUT);
  CHECK_INT(mst_greet_host(&ends[1], NULL), -MST_ETIMEOUT);
  close_link();
  open_link(20000);
  mst_cable_close(&cables[1]);
  CHECK_INT(mst_greet_session(&ends[0], &skipped, NULL), -MST_ECLOSED);
  close_link();
  open_link(20000);
  CHECK_INT(mst_net_pair(until, NULL), 0);
  ends[0].until = until[0];
  mst_net_close(&until[1]);
  CHECK_INT(mst_greet_session(&ends[0], &skipped, NULL), -MST_ECLOSED);
  mst_net_close(&until[0]);
  close_link();
  mst_tail_free(&skipped);
}

TEST("A host that is sent other bytes says so, and a session that gets them") {
  struct mst_tail skipped = {0};
  static char noise[MST_GREET_BYTES];
  open_link(20000);
  memset(noise, 'x', sizeof noise);
  CHECK_INT(write(cables[0].out, noise, sizeof noise), sizeof noise);
  CHECK_INT(mst_greet_host(&ends[1], NULL), -MST_EPROTO);
  close_link();
  open_link(20000);
  CHECK_INT(write(cables[1].out, MARK "\n\0\1\3", MARK_BYTES + 4),
            MARK_BYTES + 4);
  CHECK_INT(mst_greet_session(&ends[0], &skipped, NULL), -MST_EPROTO);
  close_link();
  mst_tail_free(&skipped);
}
