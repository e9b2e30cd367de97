// resolve: names to addresses within a time limit. getaddrinfo() can take many seconds and can't be
// stopped, so it runs on its own thread, which is left behind when the time is over. No R; any
// thread.
#ifndef MST_NET_RESOLVE_H
#define MST_NET_RESOLVE_H

#include "net/addr.h"

struct mst_resolve;

// mst_resolve_begin starts to look up a name. The caller releases it by mst_resolve_drop.
// -MST_EMEM, -MST_ESYS (no thread, no descriptors).
int mst_resolve_begin(const char *host, int port, struct mst_resolve **out,
                      struct mst_err *err);
// mst_resolve_until waits for the answer. 0 or an error as mst_addr_lookup; -MST_EAGAIN when the
// time is over or a signal came.
int mst_resolve_until(struct mst_resolve *resolve, struct mst_addr *out,
                      size_t max, size_t *count, int64_t until_ns,
                      struct mst_err *err);
// mst_resolve_drop gives up the caller's reference. NULL is allowed.
void mst_resolve_drop(struct mst_resolve *resolve);

#endif
