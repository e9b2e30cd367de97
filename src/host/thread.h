// host/thread: a host process's relay, on a thread of its own, so that the link is served whatever
// R does. No R.
//
// The thread greets the other end, then runs a relay until the link or the first stream ends. Then
// it closes everything: what is joined to its descriptors sees their end.
#ifndef MST_HOST_THREAD_H
#define MST_HOST_THREAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_err.h"
#include "host/relay.h"

struct mst_relay_thread;

enum mst_relay_state {
  MST_RELAY_GREETS, // the other end hasn't answered
  MST_RELAY_WORKS,
  MST_RELAY_OVER
};

// mst_relay_start starts a thread that takes over the descriptors, see mst_relay_open; the greeting
// may last until until_ns. 0, -MST_EMEM, -MST_ESYS: then nothing is taken over.
int mst_relay_start(const struct mst_link_config *config, int first,
                    int64_t until_ns, struct mst_relay_thread **out,
                    struct mst_err *err);
enum mst_relay_state mst_relay_state(const struct mst_relay_thread *thread);
// mst_relay_why tells why it is over: the code and *why, which may be NULL; 0 while it isn't.
int mst_relay_why(const struct mst_relay_thread *thread, struct mst_err *why);
// mst_relay_end waits for the thread and frees it. The caller closes its end of the first stream
// before: that ends the thread within milliseconds. NULL is allowed. Only in the process that
// started it.
void mst_relay_end(struct mst_relay_thread *thread);

#endif
