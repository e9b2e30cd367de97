// pool/session: connects a cluster's pure state to descriptors, launchers and time.
//
// One thread at a time has a session: the R thread during muster's calls, which serve every
// cluster, server and output pipe whenever they wait; the I/O thread (loop/io_thread.h) while R
// does something else. That thread serves everything while there are unfinished tasks, otherwise
// only output pipes. No R in here, and no calls back into R; nothing is held across a call, so the
// caller may longjmp between calls.
#ifndef MST_POOL_SESSION_H
#define MST_POOL_SESSION_H

#include <stdint.h>
#include <sys/types.h>

#include "base/mst_err.h"
#include "base/mst_log.h"
#include "fork/fork.h"
#include "host/link.h"
#include "loop/conduit.h"
#include "loop/io_thread.h"
#include "loop/loop.h"
#include "pool/calls.h"
#include "pool/spin.h"
#include "sched/scale.h"

// In one session; they need 30,000 descriptors.
#define MST_WORKERS_MAX 10000u

struct mst_cluster;

// Answers up to this size are copied out of the channel's buffer.
#define MST_ANSWER_SMALL 4096u

// The connection to a worker's standby.
struct mst_standby {
  struct mst_chan chan; // fd -1: there is no standby
  struct mst_io io;
  pid_t pid; // 0: not known yet
  // It was told to replace the worker before its pid was known.
  uint8_t launching;
  uint32_t epoch; // of the incarnation that it will be, if launching
  // The worker's, which adopts the standby when the worker ends.
  struct mst_launcher *home;
};

// The session's end of one worker. The worker's calls are in its mailbox (calls.h).
struct mst_peer {
  struct mst_cluster *cluster;
  uint32_t index;
  struct mst_worker *worker;
  struct mst_group *group;
  struct mst_launcher *launcher; // that made this incarnation, or NULL
  struct mst_host *host;         // where the worker is, or would be
  struct mst_conduit conduit;    // held: by the answer limit, or for memory
  struct mst_log_part part;      // the unfinished last line of its output
  // Calls, replayed ones first, whose output has ended, and whose answers haven't been read yet.
  uint32_t printed_out;
  uint8_t hello_seen;
  uint8_t no_memory; // held, since memory is too short for an answer
  uint8_t retired;   // asked to end for good, even if already lost
  int send_rc;       // why the last call couldn't be sent; it isn't owed
  struct mst_hello hello;
  char *tempdir; // from READY, owned; kept for a standby
  struct mst_standby standby;
  struct mst_standby next_standby; // requested, not there yet
  uint64_t
      pong; // the highest nonce received; signs of life are asked for with 0
};

struct mst_trash;

struct mst_session {
  struct mst_links links; // to other hosts
  struct mst_loop *loop;
  struct mst_loop *prints;         // for output pipes; may be the same
  struct mst_io prints_io;         // watches prints in loop
  struct mst_io_thread *io_thread; // NULL before the first lending
  pid_t owner;
  struct mst_cluster *clusters; // list
  uint32_t cluster_id;          // the last one given
  // Waits for several peers that ended without a check of the sockets.
  uint32_t unheard;
  struct mst_spin spin, spin_far;
  int64_t reap_ns;     // when launchers were last asked to reap
  int64_t listened_ns; // when the session last ran
  // Losses of workers, for the user; oldest first.
  struct mst_loss *events;
  uint32_t event_count;
  struct mst_counts counts; // of all clusters
  int notify_fd;            // see mst_session_notify; the caller's
  uint64_t notified;        // tasks_done and said when it was written to last
  uint8_t broken;           // mst_session_break was called
  struct mst_host here;     // this machine
  // Of groups that wait for a host: their workers are nowhere yet.
  struct mst_host nowhere_host;
  struct mst_launcher nowhere;
  struct mst_trash *trash; // directories to remove, see trash.c
  int64_t trash_ns;        // when to go on with that
  char build[64];          // which a worker's hello must match
};

// More events than this aren't kept: the oldest are dropped.
#define MST_EVENTS_MAX 1000u

// Workers made by the same launcher: those of one host.
struct mst_group {
  uint32_t workers; // at the start of the cluster
  struct mst_launcher *launcher;
  struct mst_spawner *spawner; // owned, NULL with a fork server
  struct mst_blob *setup;      // payload of SETUP; a reference
  // Where it is launched; the cluster's. When a cluster is made: what to begin with, the caller's;
  // NULL: there is a launcher.
  struct mst_site *site;
  uint8_t adopted;         // a former launcher made some of its workers
  uint32_t kept;           // for what its host has to be there, besides calls
  uint32_t left;           // site->left, when last looked at
  struct mst_host *leaves; // hosts that its workers leave, which end then
};

struct mst_cluster {
  struct mst_cluster *next;
  struct mst_session *session;
  uint32_t id;
  struct mst_calls calls;  // with the worker states
  struct mst_peer **peers; // calls.pool.count
  struct mst_group *groups;
  uint32_t group_count;
  struct mst_log log; // its workers' output
  struct mst_job
      *context; // under which tasks are submitted, or NULL; a reference
  uint64_t context_version; // the caller's
  // Number of output lines that the user has seen; set by callers.
  uint64_t shown;
  uint8_t started, start_failed, stop_begun, stopped;
  uint8_t carrying_out;            // actions are being carried out
  uint8_t abandoned;               // unreferenced: to be freed once stopped
  uint8_t closed;                  // mst_cluster_close was called
  struct mst_cluster *next_closed; // for callers
  uint32_t held;                   // held peers
  int64_t asked_ns; // when hosts were last asked for a sign of life in a stop
  int64_t flush_ns; // when to retry frames for which the system had no room
  struct mst_scale scale;
  struct mst_scale_host *scaled; // owned, one for each group; NULL: all stay
  // When to look again what is needed: while somebody waits, and while nobody does.
  int64_t scale_ns, scale_away_ns;
};

// mst_session_open opens the session's loops. 0 or an error.
int mst_session_open(struct mst_session *session, enum mst_loop_backend backend,
                     const char *build, struct mst_err *err);
// mst_session_close closes the loops. The caller must have freed all clusters.
void mst_session_close(struct mst_session *session);

// mst_session_break gives up a session whose assertion failed, since any of its data may be wrong.
// It uses only descriptors and processes: workers see the end of their channels and end; it waits
// up to a second for those that the session spawned. The memory of the session and its clusters
// stays, since others have pointers to it. From now on mst_session_run returns an error, clusters
// count as closed, and nothing else may be called with either.
void mst_session_break(struct mst_session *session);
// mst_session_failure gives the assertion that ended the I/O thread, or NULL. Only for the thread
// that has the session.
const char *mst_session_failure(const struct mst_session *session);

// mst_trash_put has a directory removed while the session runs; it takes the path over; NULL is
// allowed. mst_trash_work spends turn_ns on that if it is time. mst_trash_free leaves the rest.
#define MST_TRASH_TURN_NS (10 * MST_NS_PER_MS)
void mst_trash_put(struct mst_session *session, char *path);
void mst_trash_work(struct mst_session *session, int64_t turn_ns);
void mst_trash_free(struct mst_session *session);

// mst_session_lend lets the I/O thread use the session if there are clusters: all of it if there
// are unfinished tasks, otherwise only the output of workers and servers. The I/O thread starts
// when first needed and ends with the last cluster; without it (no memory, no thread) nothing is
// lent. mst_session_take takes the session back. Both are for the R thread of the process that
// opened the session, and may be repeated.
void mst_session_lend(struct mst_session *session);
void mst_session_take(struct mst_session *session);

// mst_session_notify has a byte written to a descriptor (-1: no more) when tasks are over or have
// said something: by the I/O thread, which then looks at once when it is lent the session, or when
// the session is lent, closed or broken. The descriptor doesn't block, stays the caller's, and must
// stay open until the next call of this or the session's end.
void mst_session_notify(struct mst_session *session, int fd);

// mst_session_serve handles what is ready, without waiting or letting time pass. 0 or an error.
int mst_session_serve(struct mst_session *session);
// mst_session_run handles what is ready, waiting up to timeout_ms for it, and lets time pass for
// all clusters. 0, -MST_ESYS, or -MST_ECLOSED: the session is broken.
int mst_session_run(struct mst_session *session, int timeout_ms,
                    struct mst_err *err);

// mst_session_news takes a launcher's news. Use it as the sink, with the session as owner.
void mst_session_news(void *session, const struct mst_news *news);

// mst_cluster_new makes a cluster of groups, whose workers follow each other; nothing starts. Fill
// workers, launcher, spawner and setup of each group. Launchers must outlive the cluster. On
// success it owns the spawners and has references to the setups. 0, -MST_EMEM, -MST_EINPUT.
int mst_cluster_new(struct mst_session *session, const struct mst_group *groups,
                    uint32_t count, uint32_t window, struct mst_cluster **out,
                    struct mst_err *err);
// mst_cluster_grow adds workers to a group, which start as lost ones restart. 0, -MST_EMEM,
// -MST_EINPUT.
int mst_cluster_grow(struct mst_cluster *cluster, struct mst_group *group,
                     uint32_t more, struct mst_err *err);
// mst_cluster_adopt gives a group another launcher, and tells its site that it is SERVED. Its
// workers go on. Their channels show their ends; the former launcher reports them, too, if this
// process has adopted them.
void mst_cluster_adopt(struct mst_cluster *cluster, struct mst_group *group,
                       struct mst_launcher *launcher);
// mst_cluster_look_at_sites: something was told to a site. Workers move, wait and are launched as
// it says; hosts that all have left are released. It is done whenever the session runs.
void mst_cluster_look_at_sites(struct mst_cluster *cluster, int64_t now_ns);
// mst_cluster_waiting gives the number of workers that wait for the group's host.
uint32_t mst_cluster_waiting(const struct mst_cluster *cluster,
                             const struct mst_group *group);
// mst_cluster_scale has a cluster let hosts go where nothing was done for idle_ns (INT64_MAX:
// none), and wake them when they are needed, see sched/scale.h. Only with healing. 0, -MST_EMEM.
int mst_cluster_scale(struct mst_cluster *cluster, int64_t idle_ns);
// mst_cluster_keep counts what a group's host has to be there for, besides calls: data on it, say.
void mst_cluster_keep(struct mst_cluster *cluster, uint32_t group, int more);
// mst_cluster_wakes looks now what is needed, and tells whether a host is to be asked for.
int mst_cluster_wakes(struct mst_cluster *cluster);

// mst_session_needs tells whether a launcher is in use: it launches for a cluster, or made a worker
// or standby that hasn't ended.
int mst_session_needs(const struct mst_session *session,
                      const struct mst_launcher *launcher);
// mst_session_has_host tells whether any worker is, or was last, on this host.
int mst_session_has_host(const struct mst_session *session,
                         const struct mst_host *host);

// mst_cluster_start begins to launch. Run the session until started or start_failed is set.
void mst_cluster_start(struct mst_cluster *cluster, int64_t deadline_ns);

// mst_cluster_stop begins to stop. Run the session until stopped is set.
void mst_cluster_stop(struct mst_cluster *cluster);

// mst_cluster_close closes what is open, and removes the cluster from the session's list. Workers
// that still run are killed: each sees the end of its channels. The cluster and its peers stay in
// memory, since others have pointers to them.
void mst_cluster_close(struct mst_cluster *cluster);
// mst_cluster_free closes and frees.
void mst_cluster_free(struct mst_cluster *cluster);

// mst_peer_retire asks one worker to end. Run the session until it isn't awaited, then close it.
void mst_peer_retire(struct mst_peer *peer);
// mst_peer_kill kills one worker; it isn't replaced.
void mst_peer_kill(struct mst_peer *peer);
// mst_peer_close closes and frees the session's end of a worker; it may be repeated. ours 0 (in a
// forked child of the session): it leaves the shared loop alone and doesn't shut sockets down.
void mst_peer_close(struct mst_peer *peer, int ours);

// mst_peer_send gives a worker a call; the worker then owes an answer. Waits up to slice_ms,
// serving the session, until the kernel has all of it. Returns 0 when it is sent, or will be once
// the worker is back; -MST_EAGAIN when some is still queued (go on with mst_peer_flush);
// -MST_ECLOSED if the worker is lost for good; or an error: then nothing is owed. caller: the verb.
// tag: returned with the call's loss. unseen: see common.h. Keeps a reference to the payload until
// the answer.
int mst_peer_send(struct mst_peer *peer, struct mst_blob *payload,
                  const void *caller, int32_t tag, uint8_t unseen, int slice_ms,
                  struct mst_err *err);
int mst_peer_flush(struct mst_peer *peer, int slice_ms, struct mst_err *err);

// mst_peer_poll reads what one worker has sent, without waiting.
void mst_peer_poll(struct mst_peer *peer);

// mst_peers_spin_ns gives how long to poll n peers for an answer before the wait for it, 0: not at
// all. Otherwise tell *spin afterwards, by mst_spin_end, whether it came.
int64_t mst_peers_spin_ns(struct mst_peer *const *peers, uint32_t n,
                          struct mst_spin **spin);
// mst_peer_wait waits up to timeout_ms until one of n peers has a whole answer for this verb.
// Returns the index (in peers) of the oldest answer; -MST_EAGAIN if there is none yet; -MST_ECLOSED
// if there is none and *lost is a lost peer that owes one (peers that owe nothing are ignored);
// -MST_EMEM if there is no memory for the answer of *lost; -MST_ESYS. O(n) per wake-up.
int mst_peer_wait(struct mst_peer *const *peers, uint32_t n, const void *caller,
                  int timeout_ms, uint32_t *lost, struct mst_err *err);

// mst_peer_answer gives a verb's oldest answer: DONE or LOST, or NULL. mst_peer_take removes it;
// the caller releases it. It doesn't depend on the channel, so while it is read the session may run
// and the worker may end.
struct mst_call *mst_peer_answer(const struct mst_peer *peer,
                                 const void *caller);
void mst_peer_take(struct mst_peer *peer, struct mst_call *answer);

// mst_peer_unread gives the number of calls sent whose answers haven't been taken.
uint32_t mst_peer_unread(const struct mst_peer *peer);
// mst_peer_owes tells whether the worker has calls or untaken answers of a verb;
// mst_peer_owes_several whether they may belong to several verbs; mst_peer_caller gives the verb
// that called last.
int mst_peer_owes(const struct mst_peer *peer, const void *caller);
int mst_peer_owes_several(const struct mst_peer *peer);
const void *mst_peer_caller(const struct mst_peer *peer);
// mst_peer_journal gives the worker's journal, valid until the session runs.
const struct mst_journal *mst_peer_journal(const struct mst_peer *peer);
// mst_peer_why gives the first thing that was wrong with it; mst_peer_failure a pointer to the text
// of MST_WHY_TOLD, which a later call may free and set to NULL.
enum mst_why mst_peer_why(const struct mst_peer *peer);
char *const *mst_peer_failure(const struct mst_peer *peer);
// mst_peer_forget drops the answers to all calls of a verb so far (NULL: of all verbs), except
// tasks: those that are here now, the others when they come. The worker is told to interrupt the
// call that it evaluates; if that doesn't end within MST_CANCEL_GRACE_MS, the worker ends itself.
void mst_peer_forget(struct mst_peer *peer, const void *caller);
// mst_session_cancel calls mst_peer_forget for all peers.
void mst_session_cancel(struct mst_session *session, const void *caller);

// mst_task_submit queues a task and sends what can be sent, see mst_calls_submit;
// mst_task_cancel cancels one, see mst_call_cancel.
struct mst_call *mst_task_submit(struct mst_cluster *cluster,
                                 struct mst_blob *payload,
                                 const uint32_t *workers, uint32_t count,
                                 const struct mst_task_terms *terms);
int mst_task_cancel(struct mst_call *task);
// mst_task_await: somebody waits for a task, so its answer is exempt from the answer limit, see
// mst_calls_await_task. 0, or -MST_EMEM: after a retry, memory is still too short for an answer of
// the worker that has the task, or of each worker that may take it.
int mst_task_await(struct mst_call *task);
// mst_task_cluster gives the cluster to which a task belongs, or NULL if it has left it.
struct mst_cluster *mst_task_cluster(const struct mst_call *task);
// mst_cluster_trim drops jobs beyond the number that is kept, here and in the workers.
void mst_cluster_trim(struct mst_cluster *cluster);
// mst_cluster_revive restarts the workers that were given up because the system lacked a resource.
// Returns how many.
uint32_t mst_cluster_revive(struct mst_cluster *cluster);

// mst_session_event takes the oldest event, or NULL; the caller frees it by mst_loss_free.
struct mst_loss *mst_session_event(struct mst_session *session);

// mst_peer_ping asks the worker's watch for a sign of life and waits up to timeout_ms: 0,
// -MST_ETIMEOUT, -MST_ECLOSED, -MST_ESYS. nonce: higher than any before.
int mst_peer_ping(struct mst_peer *peer, uint64_t nonce, int timeout_ms,
                  struct mst_err *err);

// mst_peer_lacks gives the errno that kept its process from becoming a worker, as the process
// printed it (MST_CANT_START); 0 if it printed none.
int mst_peer_lacks(const struct mst_peer *peer);

#endif
