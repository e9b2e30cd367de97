// Target: mst_diag_dump_take: one packet of the kernel's list of sockets.
#include <string.h>

#include "base/mst_err.h"
#include "fuzz.h"
#include "net/diag.h"

// A message of sock_diag is a head of 16 bytes and a socket of 72; see netlink(7) and
// sock_diag(7). Offsets in the socket: family, state, ports, address, interface.
#define HEAD 16u
#define SOCKET 72u

static void run(const uint8_t *bytes, size_t n) {
  struct mst_diag_list list = {0}, half_open = {0};
  struct mst_err err;
  mst_err_clear(&err);
  const int rc = mst_diag_dump_take(bytes, n, &list, &half_open, &err);
  FUZZ_CHECK(rc == 0 || rc == 1 || rc == -MST_EPROTO || rc == -MST_ESYS);
  FUZZ_CHECK(rc != -MST_ESYS || err.sys_errno > 0);
  FUZZ_CHECK((list.count + half_open.count) * (HEAD + SOCKET) <= n);
  for (size_t i = 0; i < half_open.count; i++) {
    FUZZ_CHECK(half_open.items[i].depth == 0 &&
               half_open.items[i].backlog == 0);
  }
  mst_diag_free(&list);
  mst_diag_free(&half_open);
}

static size_t put_head(uint8_t *at, uint32_t length, uint16_t type) {
  memset(at, 0, HEAD);
  memcpy(at, &length, sizeof length);
  memcpy(at + 4, &type, sizeof type);
  return HEAD;
}

static size_t put_socket(uint8_t *at, uint8_t family, uint8_t state) {
  const size_t n = put_head(at, HEAD + SOCKET, 20);
  memset(at + n, 0, SOCKET);
  at[n] = family;
  at[n + 1] = state;
  at[n + 4] = 0x1f;
  at[n + 5] = 0x90;
  at[n + 8] = 127;
  at[n + 11] = 1;
  at[n + SOCKET - 16] = 3; // queue
  at[n + SOCKET - 12] = 2; // backlog
  return n + SOCKET;
}

static void seeds(struct fuzz_sink *sink) {
  uint8_t bytes[4 * (HEAD + SOCKET)];
  size_t n = put_socket(bytes, 2, 10);
  sink->take(sink, "listener", bytes, n);
  n += put_socket(bytes + n, 2, 3);
  n += put_socket(bytes + n, 10, 10);
  n += put_head(bytes + n, HEAD + 4, 3);
  memset(bytes + n, 0, 4);
  sink->take(sink, "three-and-done", bytes, n + 4);
  n = put_head(bytes, HEAD + 20, 2);
  memset(bytes + n, 0, 20);
  bytes[n] = 0xfe; // -ENOENT
  bytes[n + 1] = bytes[n + 2] = bytes[n + 3] = 0xff;
  sink->take(sink, "error", bytes, n + 20);
  n = put_head(bytes, HEAD - 1, 20);
  sink->take(sink, "too-short", bytes, n);
  n = put_head(bytes, 0xffffffff, 20);
  sink->take(sink, "too-long", bytes, n);
}

const struct fuzz_target fuzz_diag_dump = {"diag_dump", 0, run, seeds};
