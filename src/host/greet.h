// host/greet: the first bytes on a link, before its relays.
//
// The host process says a mark. What comes before it (banners, startup files that print) is
// skipped. Then the session sends all 256 byte values, and the host process sends them back: a link
// that changes bytes, as a terminal does, is noticed before anything depends on it. No R. Any
// thread.
#ifndef MST_HOST_GREET_H
#define MST_HOST_GREET_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "base/mst_tail.h"
#include "host/cable.h"

// The number changes with what relays say to each other.
#define MST_GREET_MARK "<muster host 1>"
// More than this isn't skipped.
#define MST_GREET_SKIP_MAX UINT64_C(65536)
#define MST_GREET_BYTES 256u

// What the session looks for, pure.
struct mst_greet {
  size_t marked;    // of the mark
  size_t echoed;    // of the byte values
  uint64_t skipped; // bytes that are neither
};
// mst_greet_mark looks for the mark in n bytes, mst_greet_echo for the byte values. *used: how many
// bytes are done with. 1: it is there; 0: not yet; -MST_EPROTO: too much else came.
int mst_greet_mark(struct mst_greet *greet, const uint8_t *bytes, size_t n,
                   size_t *used);
int mst_greet_echo(struct mst_greet *greet, const uint8_t *bytes, size_t n,
                   size_t *used);

struct mst_greet_link {
  const struct mst_cable *cable;
  int until; // a socket: its end ends the greeting, too; -1: none
  int64_t until_ns;
};
// mst_greet_host is the host process's part, mst_greet_session the session's; skipped gets what
// came before the mark. Both wait, until until_ns. 0; -MST_ECLOSED if the link or `until` has
// ended, -MST_ETIMEOUT, -MST_EPROTO, -MST_ESYS.
int mst_greet_host(const struct mst_greet_link *link, struct mst_err *err);
int mst_greet_session(const struct mst_greet_link *link,
                      struct mst_tail *skipped, struct mst_err *err);

#endif
