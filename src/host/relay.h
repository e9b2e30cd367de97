// host/relay: the host process's end of a link, whose other end is the session's (link.h). It joins
// the link's streams to the descriptors of fork servers and workers here. No R.
//
// What it reads from a descriptor it sends over the stream that belongs to it, and writes to the
// descriptor what comes. Frames pass as they are, and descriptors with them: for a line that goes
// along with a frame it makes a socket pair or a pipe, for a segment a segment with the same bytes.
// So fork servers and workers talk to the session as if they were on its host.
//
// Order: what a worker has printed is sent before an answer that was sent later, and both before
// the news that it has ended.
//
// A relay belongs to one thread, which must block SIGPIPE. It never waits but in mst_relay_run.
#ifndef MST_HOST_RELAY_H
#define MST_HOST_RELAY_H

#include <stdint.h>

#include "base/mst_err.h"
#include "host/link_config.h"

struct mst_relay;

// mst_relay_open makes a relay that takes over the config's descriptors, and `first`: a socket for
// MST_STREAM_FIRST, whose end ends the relay. 0, -MST_EMEM, -MST_ESYS: then nothing is taken over.
int mst_relay_open(const struct mst_link_config *config, int first,
                   struct mst_relay **out, struct mst_err *err);
// mst_relay_run serves what is ready; it waits up to timeout_ms for that (-1: without limit). 0
// while the relay works. -MST_ECLOSED once the other end has closed the link or the first stream
// has ended on this side, -MST_ETIMEOUT after a silence, -MST_EPROTO if the other end broke a rule,
// -MST_ESYS, -MST_EMEM; err says more. Close it then.
int mst_relay_run(struct mst_relay *relay, int timeout_ms, struct mst_err *err);
// mst_relay_close closes the link and all descriptors: their other ends see that.
void mst_relay_close(struct mst_relay *relay);

#endif
