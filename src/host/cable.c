// What carries a link's bytes. See cable.h.
#include "host/cable.h"

#include "net/net.h"

int64_t mst_cable_read(const struct mst_cable *cable, void *bytes, size_t n,
                       struct mst_err *err) {
  return cable->secure == NULL ? mst_net_read(cable->in, bytes, n, err)
                               : mst_secure_read(cable->secure, bytes, n, err);
}

int64_t mst_cable_write(const struct mst_cable *cable, const void *bytes,
                        size_t n, struct mst_err *err) {
  return cable->secure == NULL ? mst_net_write(cable->out, bytes, n, err)
                               : mst_secure_write(cable->secure, bytes, n, err);
}

int mst_cable_has_more(const struct mst_cable *cable) {
  return cable->secure != NULL && mst_secure_has_more(cable->secure);
}

void mst_cable_close(struct mst_cable *cable) {
  mst_secure_free(cable->secure);
  if (cable->out != cable->in) mst_net_close(&cable->out);
  mst_net_close(&cable->in);
  *cable = MST_CABLE_NONE;
}
