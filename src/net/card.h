// card: offloads of a network card. Linux only; elsewhere nothing is known. Changes nothing. No R,
// no state; any thread; no privilege needed.
#ifndef MST_NET_CARD_H
#define MST_NET_CARD_H

#include <stdint.h>

#include "base/mst_err.h"

// Each is 1 on, 0 off, -1 if the driver doesn't say.
enum mst_card_feature {
  MST_CARD_SCATTER_GATHER, // packets are sent from pieces of memory
  MST_CARD_TSO,            // the card cuts large packets (tcp-segmentation)
  MST_CARD_GSO,            // the kernel cuts them, as late as possible
  MST_CARD_GRO,            // received packets are put together
  MST_CARD_RX_CHECKSUM,
  MST_CARD_TX_CHECKSUM,
  MST_CARD_LINK, // the cable is connected at both ends
  MST_CARD_UP,   // switched on, by `ip link set up`
  MST_CARD_FEATURES
};

struct mst_card {
  int8_t feature[MST_CARD_FEATURES];
};

// mst_card_look queries a network interface by its name, such as "eth0". Never blocks for long:
// drivers answer from memory. -MST_EINPUT for a name that no interface can have, -MST_ESYS (ENODEV:
// no interface of that name; ENOTSUP: not on this system).
int mst_card_look(const char *name, struct mst_card *card, struct mst_err *err);

// mst_card_feature_name gives ethtool's name of a feature, such as "scatter-gather".
const char *mst_card_feature_name(enum mst_card_feature feature);

#endif
