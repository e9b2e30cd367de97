// card: what a network card does for the kernel. Linux; elsewhere nothing is told. No
// R, no state; any thread; no privilege needed. Nothing here changes anything.
#ifndef MST_NET_CARD_H
#define MST_NET_CARD_H

#include <stdint.h>

#include "base/mst_err.h"

// Each is 1 on, 0 off, -1 where the card's driver doesn't tell.
enum mst_card_feature {
  MST_CARD_SCATTER_GATHER, // packets are sent from pieces of memory
  MST_CARD_TSO,            // the card cuts large packets (tcp-segmentation)
  MST_CARD_GSO,            // the kernel does, as late as possible
  MST_CARD_GRO,            // received packets are put together
  MST_CARD_RX_CHECKSUM,
  MST_CARD_TX_CHECKSUM,
  MST_CARD_LINK, // the cable's other end is there
  MST_CARD_UP,   // switched on, by `ip link set up`
  MST_CARD_FEATURES
};

struct mst_card {
  int8_t feature[MST_CARD_FEATURES];
};

// mst_card_look asks a network interface by its name, such as "eth0". Never blocks for
// long: drivers answer from memory. -MST_EINPUT for a name that no interface can have,
// -MST_ESYS (ENODEV: there is none of that name; ENOTSUP: not on this system).
int mst_card_look(const char *name, struct mst_card *card, struct mst_err *err);

// mst_card_feature_name gives ethtool's name for it, such as "scatter-gather".
const char *mst_card_feature_name(enum mst_card_feature feature);

#endif
