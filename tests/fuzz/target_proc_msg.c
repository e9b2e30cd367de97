// Target: mst_proc_msg_decode.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "wire/wire.h"

static void run(const uint8_t *bytes, size_t n) {
  struct mst_proc_msg msg;
  const int rc = mst_proc_msg_decode(bytes, n, &msg);
  FUZZ_CHECK(rc == 0 || rc == -MST_EPROTO);
  if (rc != 0) return;
  FUZZ_CHECK(n == MST_PROC_MSG_BYTES);
  FUZZ_CHECK(msg.pid <= INT32_MAX); // kill() of it hits one process at most
  uint8_t again[MST_PROC_MSG_BYTES];
  mst_proc_msg_encode(&msg, again);
  FUZZ_CHECK(memcmp(again, bytes, n) == 0);
}

static void seeds(struct fuzz_sink *sink) {
  static const struct {
    const char *name;
    struct mst_proc_msg msg;
  } cases[] = {{"server-ready", {4711, MST_EXIT_NONE, 1}},
               {"forked", {4712, MST_EXIT_NONE, 0}},
               {"fork-failed", {0, MST_EXIT_NONE, 11}},
               {"exited-code", {4712, MST_EXIT_CODE, 3}},
               {"exited-signal", {4712, MST_EXIT_SIGNAL, 9}},
               {"exited-unknown", {4712, MST_EXIT_UNKNOWN, 0}},
               {"exited-memory", {4712, MST_EXIT_MEMORY, 9}},
               {"number-negative", {4712, MST_EXIT_NONE, -1}}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint8_t bytes[MST_PROC_MSG_BYTES];
    mst_proc_msg_encode(&cases[i].msg, bytes);
    sink->take(sink, cases[i].name, bytes, sizeof bytes);
  }
  const uint8_t everyone[MST_PROC_MSG_BYTES] = {0xFF, 0xFF, 0xFF, 0xFF};
  sink->take(sink, "pid-of-everyone", everyone, sizeof everyone);
}

const struct fuzz_target fuzz_proc_msg = {"proc_msg", 0, run, seeds};
