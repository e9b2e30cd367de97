// host/link: the session's end of a link to another host, whose other end is the host process's
// relay (relay.h). No R.
//
// The session's streams are lines (loop/line.h): channels and outputs read and write them in place.
// No descriptor, no copy of a socket's and no other thread is between a worker's channel and the
// link: what is written goes to the link at once if mux (mux.h) lets it, and what came is taken
// from it by whoever waits.
//
// Order: pieces are taken in the order in which they came, and the relay sends them in the right
// one (relay.h). What a worker printed is given to its reader as soon as it has come, everything
// else when the session runs.
//
// A link belongs to the thread that has the session, and is served by its loop for output pipes. It
// has a lock, for its keeper (keeper.h): that answers and measures silence whatever R does.
#ifndef MST_HOST_LINK_H
#define MST_HOST_LINK_H

#include <stdint.h>

#include "base/mst_err.h"
#include "host/link_config.h"
#include "loop/line.h"
#include "loop/loop.h"

struct mst_link;

// All of a session's. Zero is none.
struct mst_links {
  struct mst_link *first;
  uint32_t held; // mst_links_hold, nested
};

// mst_link_open makes a link that has been greeted (greet.h), takes the config's descriptors over,
// and serves it by `prints`. *first: the line to the host process, a reference for the caller. 0,
// -MST_EMEM, -MST_ESYS: then nothing is taken over.
int mst_link_open(const struct mst_link_config *config, struct mst_links *links,
                  struct mst_loop *prints, struct mst_link **out,
                  struct mst_line **first, struct mst_err *err);
// mst_link_why tells why it has ended: 0 while it hasn't; -MST_ECLOSED if the other end has closed
// it, -MST_ETIMEOUT after a silence, -MST_EPROTO if the other end broke a rule, -MST_ESYS,
// -MST_EMEM. err may be NULL.
int mst_link_why(struct mst_link *link, struct mst_err *err);
// mst_link_close closes the link: its lines read their end. It is freed with the last of these.
// NULL is allowed. mst_link_break does the same where the loops are given up: lines mustn't be used
// again. The keeper's thread must have ended.
void mst_link_close(struct mst_link *link);
void mst_link_break(struct mst_link *link);

// mst_links_deliver tells the owners of lines what came; mst_links_tidy the readers of output
// alone, and forgets what isn't needed any more. mst_links_have_news tells whether the first has
// something to do, mst_links_due_ns when the second has, INT64_MAX: not before something comes.
void mst_links_deliver(struct mst_links *links, int64_t now_ns);
void mst_links_tidy(struct mst_links *links, int64_t now_ns);
// mst_links_end closes all, when the loop is closed.
void mst_links_end(struct mst_links *links);
// Between mst_links_hold and mst_links_go_on, which may be nested, small writes wait, and then
// cross together: a command that carries the link pays for each write.
void mst_links_hold(struct mst_links *links);
void mst_links_go_on(struct mst_links *links);
int mst_links_have_news(const struct mst_links *links);
int64_t mst_links_due_ns(const struct mst_links *links);

// mst_link_keep is called several times within silence_ns, by any thread that may not have the
// session. It pings, measures silence, and takes what nobody else takes.
void mst_link_keep(struct mst_link *link, int64_t now_ns);
// mst_link_give_up: an assertion failed in mst_link_keep, on this thread. The link has failed, and
// isn't locked any more.
void mst_link_give_up(struct mst_link *link);

#endif
