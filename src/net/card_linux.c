// Network cards by the ioctl that ethtool uses. See card.h.
#include "net/card.h"

#include "base/mst_features.h"

#if MST_HAVE_DIAG
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

// Each command gets one number and needs no privilege.
static const uint32_t commands[MST_CARD_UP] = {
    [MST_CARD_SCATTER_GATHER] = ETHTOOL_GSG,
    [MST_CARD_TSO] = ETHTOOL_GTSO,
    [MST_CARD_GSO] = ETHTOOL_GGSO,
    [MST_CARD_GRO] = ETHTOOL_GGRO,
    [MST_CARD_RX_CHECKSUM] = ETHTOOL_GRXCSUM,
    [MST_CARD_TX_CHECKSUM] = ETHTOOL_GTXCSUM,
    [MST_CARD_LINK] = ETHTOOL_GLINK};

int mst_card_look(const char *name, struct mst_card *card,
                  struct mst_err *err) {
  struct ifreq request;
  const size_t n = strlen(name);
  memset(&request, 0, sizeof request);
  memset(card->feature, -1, sizeof card->feature);
  if (n == 0 || n >= sizeof request.ifr_name) {
    return mst_err_set(err, MST_EINPUT, 0, NULL,
                       "invalid name of an interface");
  }
  memcpy(request.ifr_name, name, n);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return mst_err_set(err, MST_ESYS, errno, "socket", "%s", strerror(errno));
  }
  int told = 0, failed = 0;
  for (size_t i = 0; i < MST_CARD_UP; i++) {
    struct ethtool_value value = {.cmd = commands[i]};
    request.ifr_data = (char *)&value;
    if (ioctl(fd, SIOCETHTOOL, &request) == 0) {
      card->feature[i] = value.data != 0;
      told++;
    } else {
      failed = errno;
    }
  }
  request.ifr_flags = 0; // a union with ifr_data
  if (ioctl(fd, SIOCGIFFLAGS, &request) == 0) {
    card->feature[MST_CARD_UP] = (request.ifr_flags & IFF_UP) != 0;
    told++;
  } else {
    failed = errno;
  }
  (void)close(fd);
  if (told > 0) return 0;
  return mst_err_set(err, MST_ESYS, failed, "ioctl", "%s", strerror(failed));
}

#endif
