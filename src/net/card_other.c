// Names, and systems without Linux's ioctl for network cards. See card.h.
#include "net/card.h"

#include "base/mst_features.h"

static const char *const names[MST_CARD_FEATURES] = {
    [MST_CARD_SCATTER_GATHER] = "scatter-gather",
    [MST_CARD_TSO] = "tcp-segmentation-offload",
    [MST_CARD_GSO] = "generic-segmentation-offload",
    [MST_CARD_GRO] = "generic-receive-offload",
    [MST_CARD_RX_CHECKSUM] = "rx-checksumming",
    [MST_CARD_TX_CHECKSUM] = "tx-checksumming",
    [MST_CARD_LINK] = "link",
    [MST_CARD_UP] = "up"};

const char *mst_card_feature_name(enum mst_card_feature feature) {
  return (unsigned)feature < MST_CARD_FEATURES ? names[feature] : "";
}

#if !MST_HAVE_DIAG
#include <errno.h>
#include <string.h>

int mst_card_look(const char *name, struct mst_card *card,
                  struct mst_err *err) {
  (void)name;
  memset(card->feature, -1, sizeof card->feature);
  return mst_err_set(err, MST_ESYS, ENOTSUP, NULL,
                     "this system doesn't report network cards");
}
#endif
