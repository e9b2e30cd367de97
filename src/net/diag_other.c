// Systems without sock_diag and Linux's TCP_INFO. See diag.h.
#include "net/diag.h"

#include <errno.h>
#include <string.h>

#include "base/mst_features.h"

#if !MST_HAVE_DIAG

static int not_told(struct mst_err *err) {
  return mst_err_set(err, MST_ESYS, ENOTSUP, NULL,
                     "this system doesn't report socket states");
}

int mst_diag_listeners(uint16_t port, uint64_t inode,
                       struct mst_diag_list *list, struct mst_err *err) {
  (void)port;
  (void)inode;
  *list = (struct mst_diag_list){0};
  return not_told(err);
}

int mst_diag_listener_of(int fd, struct mst_diag_listener *listener,
                         struct mst_err *err) {
  (void)fd;
  memset(listener, 0, sizeof *listener);
  return not_told(err);
}

void mst_diag_free(struct mst_diag_list *list) {
  *list = (struct mst_diag_list){0};
}

int mst_diag_dump_take(const uint8_t *bytes, size_t n,
                       struct mst_diag_list *list,
                       struct mst_diag_list *half_open, struct mst_err *err) {
  (void)bytes;
  (void)n;
  (void)list;
  (void)half_open;
  return not_told(err);
}

int mst_diag_tcp_look(int fd, struct mst_diag_tcp *tcp, struct mst_err *err) {
  (void)fd;
  memset(tcp, 0, sizeof *tcp);
  return not_told(err);
}

const char *mst_diag_state_name(int32_t state) {
  (void)state;
  return "unknown";
}

#endif
