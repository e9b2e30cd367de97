// What both ends of a link are told: link.h, relay.h.
#ifndef MST_HOST_LINK_CONFIG_H
#define MST_HOST_LINK_CONFIG_H

#include <stdint.h>

#include "host/cable.h"

struct mst_link_config {
  struct mst_cable cable;
  // The link counts as broken after this time without a byte; pings are sent six times as often.
  int64_t silence_ns;
  // The link has TCP's delays on: a small packet waits until the one before is acknowledged, which
  // happens after 40 ms, unless something comes back. So something is sent back sooner.
  uint8_t delays;
};

#endif
