// A build without OpenSSL. See scan.h.
#include "discover/scan.h"

int mst_tls_has(void) { return 0; }
struct mst_tls *mst_tls_begin(int fd) {
  (void)fd;
  return NULL;
}
int mst_tls_step(struct mst_tls *tls, int *writes) {
  (void)tls;
  (void)writes;
  return -MST_EPROTO;
}
void mst_tls_end(struct mst_tls *tls) { (void)tls; }
