// What the files share that join a cluster's core to the world. Each uses those before it in this
// list only: peer.c, standby.c, peer_read.c, then peer_open.c and peer_say.c, orphan.c, session.c,
// wait.c. Up to orphan.c they give facts to the core, and never carry out what follows.
#ifndef MST_POOL_SESSION_INT_H
#define MST_POOL_SESSION_INT_H

#include "base/mst_assert.h"
#include "pool/session.h"

// In builds that check threads: the caller has the session.
#ifdef MST_CHECK_THREADS
#define MST_ASSERT_HOLDS(session)                                              \
  MST_ASSERT(mst_io_thread_may((session)->io_thread))
#else
#define MST_ASSERT_HOLDS(session) ((void)0)
#endif

// ---- peer.c

// mst_peer_is_up tells whether a call that is sent now reaches a worker.
int mst_peer_is_up(const struct mst_peer *peer);
// mst_peer_hold: its channel isn't read.
void mst_peer_hold(struct mst_peer *peer);
void mst_peer_hold_no_more(struct mst_peer *peer);
// mst_peer_unwatch stops reading from a worker that is lost: a process that it left
// behind may hold the other end for ever.
void mst_peer_unwatch(struct mst_peer *peer);
// mst_peer_remove_directory removes what a worker that has ended has left, if its host shares files
// with this machine.
void mst_peer_remove_directory(struct mst_peer *peer);
// mst_cluster_flush_late sends what the system had no room for.
void mst_cluster_flush_late(struct mst_cluster *cluster);

// mst_peer_incarnation names the worker's process that counts now.
struct mst_incarnation mst_peer_incarnation(const struct mst_peer *peer);

// ---- standby.c

void mst_standby_init(struct mst_standby *standby);
// mst_standby_ask has the worker make one; mst_standby_made takes its answer. Either tells the core
// if there is none.
void mst_standby_ask(struct mst_peer *peer);
void mst_standby_made(struct mst_peer *peer, const struct mst_frame *frame);
// mst_standby_unask: the incarnation that was asked is lost.
void mst_standby_unask(struct mst_peer *peer);
// mst_standby_launch has it take the worker's place, and opens the conduit. 0: the core has the
// outcome, or will have it. Or an error: nothing was sent, and the conduit isn't open.
int mst_standby_launch(struct mst_peer *peer, struct mst_err *err);
// mst_standby_forget ends it. The directory that it shared with its worker goes, if that has ended.
void mst_standby_forget(struct mst_peer *peer);

// ---- peer_read.c

// What the conduit calls, see conduit.h. The owner is the peer.
void mst_peer_readable(void *owner);
void mst_peer_control(void *owner, const struct mst_frame *frame);
// mst_peer_read reads what is there, unless the peer is held; mst_peer_read_on what was left
// unread, if it may now; mst_peer_read_out all, whatever the bound on answers: its process has
// ended.
void mst_peer_read(struct mst_peer *peer);
void mst_peer_read_on(struct mst_peer *peer);
void mst_peer_read_out(struct mst_peer *peer);
// mst_cluster_read_on reads what was left unread, where that may be now.
void mst_cluster_read_on(struct mst_cluster *cluster);

// ---- peer_open.c: one incarnation's ends

// mst_peer_init makes the session's end of a worker, with nothing open.
void mst_peer_init(struct mst_peer *peer, struct mst_cluster *cluster,
                   uint32_t index);
// mst_peer_launch has the launcher, or the standby, make a process, and sends it its set-up. On an
// error nothing is left open.
int mst_peer_launch(struct mst_peer *peer, struct mst_err *err);
// mst_peer_let_go closes the ends of an incarnation that was lost.
void mst_peer_let_go(struct mst_peer *peer);
// mst_peer_exited reads what its process, which has ended, has left, and removes its directory.
void mst_peer_exited(struct mst_peer *peer);
// mst_peer_judge tells the core how an incarnation ended.
void mst_peer_judge(struct mst_peer *peer);

// ---- peer_say.c

// mst_peer_say sends what an action of the core says, and tells the core if it cannot.
void mst_peer_say(struct mst_peer *peer, const struct mst_calls_action *action);

// ---- orphan.c: workers whose launcher is gone

// mst_peer_is_told: the launcher of this incarnation says how it ends. There must be one.
int mst_peer_is_told(const struct mst_peer *peer);
// mst_cluster_reap asks the launcher for ends, and those before it that still tell some.
void mst_cluster_reap(struct mst_cluster *cluster);
// mst_cluster_orphans tells the core what can be known of workers of which no launcher tells.
void mst_cluster_orphans(struct mst_cluster *cluster);

// ---- session.c

// mst_cluster_carry_out carries out what follows from facts that the core was given.
void mst_cluster_carry_out(struct mst_cluster *cluster);
// mst_session_serve serves what is ready, without waiting, and lets no time pass. 0 or an error.
int mst_session_serve(struct mst_session *session);
// mst_session_mend lets time pass for what was lost, without a look at the sockets.
void mst_session_mend(struct mst_session *session);

#endif
