// Shared by the files that connect a cluster's core to the world. Each uses only those before it in
// this list: notify.c, peer.c, standby.c, peer_read.c, then peer_open.c and peer_say.c, group.c,
// session.c, wait.c. Those up to group.c report facts to the core, and never carry out actions.
#ifndef MST_POOL_SESSION_INT_H
#define MST_POOL_SESSION_INT_H

#include "base/mst_assert.h"
#include "pool/session.h"

// In builds that check threads: asserts that the caller's thread has the session.
#ifdef MST_CHECK_THREADS
#define MST_ASSERT_HOLDS(session)                                              \
  MST_ASSERT(mst_io_thread_may((session)->io_thread))
#else
#define MST_ASSERT_HOLDS(session) ((void)0)
#endif

// ---- notify.c

// mst_session_tell_over writes to the descriptor if tasks are over, or have said something, since
// the last time.
void mst_session_tell_over(struct mst_session *session);

// ---- peer.c

// mst_peer_is_up tells whether a call reaches a worker if it is sent now.
int mst_peer_is_up(const struct mst_peer *peer);
// mst_peer_hold stops reading a peer's channel until mst_peer_hold_no_more.
void mst_peer_hold(struct mst_peer *peer);
void mst_peer_hold_no_more(struct mst_peer *peer);
// mst_peer_unwatch stops reading from a lost worker: a process that it left behind may hold the
// other end for ever.
void mst_peer_unwatch(struct mst_peer *peer);
// mst_peer_remove_directory removes the files of a worker that has ended, or has its host do that.
void mst_peer_remove_directory(struct mst_peer *peer);
// mst_cluster_flush_late sends the frames for which the system had no room.
void mst_cluster_flush_late(struct mst_cluster *cluster);

// mst_peer_incarnation names the current incarnation.
struct mst_incarnation mst_peer_incarnation(const struct mst_peer *peer);

// ---- group.c

// mst_session_nowhere fills the launcher of groups that wait for a host. mst_peer_pend: a worker is
// on no host.
void mst_session_nowhere(struct mst_session *session);
void mst_peer_pend(struct mst_peer *peer);
// mst_cluster_leave_silent ends the links to hosts from which nothing is heard while the cluster is
// stopped or its start is undone: their workers couldn't tell that they have ended. slept_ns: how
// long the session didn't listen.
void mst_cluster_leave_silent(struct mst_cluster *cluster, int64_t slept_ns,
                              int64_t now_ns);
// mst_cluster_scale_soon: what a cluster that scales needs may have changed.
void mst_cluster_scale_soon(struct mst_cluster *cluster);
// mst_cluster_launch launches a worker, or says that it can't.
void mst_cluster_launch(struct mst_cluster *cluster, uint32_t index);

// ---- standby.c

void mst_standby_init(struct mst_standby *standby);
// mst_standby_ask asks the worker for a standby; mst_standby_made takes its answer. Both tell the
// core if there is no standby.
void mst_standby_ask(struct mst_peer *peer);
void mst_standby_made(struct mst_peer *peer, const struct mst_frame *frame);
// mst_standby_unask: the incarnation that was asked is lost.
void mst_standby_unask(struct mst_peer *peer);
// mst_standby_launch tells the standby to replace the worker, and opens the conduit. 0: the core
// has the outcome, or will get it. On an error nothing was sent, and the conduit isn't open.
int mst_standby_launch(struct mst_peer *peer, struct mst_err *err);
// mst_standby_forget ends the standby, and removes the directory that it shares with its worker if
// the worker has ended.
void mst_standby_forget(struct mst_peer *peer);

// ---- peer_read.c

// Called by the conduit, see conduit.h. The owner is the peer.
void mst_peer_readable(void *owner);
void mst_peer_control(void *owner, const struct mst_frame *frame);
// mst_peer_read reads what has arrived, unless the peer is held; mst_peer_read_on what was left
// unread, if it may be read now; mst_peer_read_out everything, regardless of the answer limit: its
// process has ended.
void mst_peer_read(struct mst_peer *peer);
void mst_peer_read_on(struct mst_peer *peer);
void mst_peer_read_out(struct mst_peer *peer);
// mst_cluster_read_on calls mst_peer_read_on for all peers.
void mst_cluster_read_on(struct mst_cluster *cluster);

// ---- peer_open.c: one incarnation's channels

// mst_peer_init makes a peer with nothing open.
void mst_peer_init(struct mst_peer *peer, struct mst_cluster *cluster,
                   struct mst_group *group, uint32_t index);
// mst_peer_launch starts a process by the launcher or the standby, and sends it its set-up. On an
// error nothing is left open.
int mst_peer_launch(struct mst_peer *peer, struct mst_err *err);
// mst_peer_let_go closes the session's ends of a lost incarnation.
void mst_peer_let_go(struct mst_peer *peer);
// mst_peer_exited reads what an ended process has left in its channels, and removes its directory.
void mst_peer_exited(struct mst_peer *peer);
// mst_group_look tells a group's site if its launcher is gone, and does as the site says.
void mst_group_look(struct mst_cluster *cluster, struct mst_group *group);
// mst_peer_judge stops reading from a lost incarnation, tells the core how it ended, and closes
// what remains of it. If its launcher is gone, R is asked for another one, and it waits.
void mst_peer_judge(struct mst_peer *peer);

// ---- peer_say.c

// mst_peer_ask_sign asks its watch for a sign of life, see mst_heal_heard.
void mst_peer_ask_sign(struct mst_peer *peer);
// mst_peer_say sends the message of an action, and tells the core if that fails.
void mst_peer_say(struct mst_peer *peer, const struct mst_action *action);

// ---- group.c: launchers, and workers whose launcher is gone

// mst_peer_is_told: the launcher of this incarnation will report its end. There must be one.
int mst_peer_is_told(const struct mst_peer *peer);
// mst_cluster_reap asks the launchers for ends, and former launchers that still report some.
void mst_cluster_reap(struct mst_cluster *cluster);
// mst_cluster_orphans tells the core what is known of workers whose end no launcher reports.
void mst_cluster_orphans(struct mst_cluster *cluster);
// mst_cluster_due_ns gives when one of its launchers wants to be asked for ends, or INT64_MAX.
int64_t mst_cluster_due_ns(const struct mst_cluster *cluster);
// mst_cluster_spawns: some workers are this process's children, whose ends nobody reports.
// mst_cluster_lacks_reports: some workers' launchers are gone.
int mst_cluster_spawns(const struct mst_cluster *cluster);
int mst_cluster_lacks_reports(const struct mst_cluster *cluster);
// mst_session_set_silence sets each launcher's limit to the smallest heartbeat among its clusters.
void mst_session_set_silence(const struct mst_session *session);

// ---- scale.c

// mst_cluster_look_at_scale lets groups go and wakes them, if it is time; the caller carries out
// the actions. mst_session_scale_ns gives when that is needed though nobody waits; INT64_MAX: not.
void mst_cluster_look_at_scale(struct mst_cluster *cluster, int64_t now_ns);
int64_t mst_session_scale_ns(const struct mst_session *session);

// ---- session.c

// mst_cluster_carry_out carries out the core's actions.
void mst_cluster_carry_out(struct mst_cluster *cluster);
// mst_session_heal lets time pass for lost workers, without checking the sockets.
void mst_session_heal(struct mst_session *session);

#endif
