// What processes get of lines, see line.h.
#include "loop/line.h"

#include "net/net.h"

void mst_ends_close(struct mst_ends *ends) {
  for (int i = 0; i < 3; i++) {
    mst_net_close(&ends->fds[i]);
    if (ends->lines[i] != NULL) ends->lines[i]->ops->release(ends->lines[i]);
    ends->lines[i] = NULL;
  }
}
