// host/cable: what carries a link's bytes: the pipes of a command, or a connection with TLS. No R.
#ifndef MST_HOST_CABLE_H
#define MST_HOST_CABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "secure/secure.h"

struct mst_cable {
  int in, out;               // may be the same socket
  struct mst_secure *secure; // NULL: bytes cross as they are
};
#define MST_CABLE_NONE ((struct mst_cable){.in = -1, .out = -1})

// mst_cable_read and mst_cable_write as mst_net_read and mst_net_write. mst_cable_has_more:
// something can be read that no loop will report.
int64_t mst_cable_read(const struct mst_cable *cable, void *bytes, size_t n,
                       struct mst_err *err);
int64_t mst_cable_write(const struct mst_cable *cable, const void *bytes,
                        size_t n, struct mst_err *err);
int mst_cable_has_more(const struct mst_cable *cable);
// mst_cable_close closes it; it is MST_CABLE_NONE then.
void mst_cable_close(struct mst_cable *cable);

#endif
