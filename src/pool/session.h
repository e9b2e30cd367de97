// pool/session: joins a cluster's pure state to descriptors, launchers and time.
//
// A session belongs to one thread at a time: to the R thread while a call of muster's
// runs, which serves every cluster, server and output pipe whenever it waits; to the
// I/O thread (loop/io_thread.h) while R does something else: it serves them while tasks are to be
// done, otherwise only output pipes. No R in here; nothing is called back into R; nothing
// is held across a call, so the caller may leave by longjmp between calls.
#ifndef MST_POOL_SESSION_H
#define MST_POOL_SESSION_H

#include <stdint.h>
#include <sys/types.h>

#include "base/mst_err.h"
#include "base/mst_log.h"
#include "fork/fork.h"
#include "loop/conduit.h"
#include "loop/io_thread.h"
#include "loop/loop.h"
#include "pool/calls.h"
#include "pool/spin.h"

// In one session: these need 30,000 descriptors.
#define MST_WORKERS_MAX 10000u

struct mst_cluster;

// Answers up to this size are copied out of their channel's buffer.
#define MST_ANSWER_SMALL 4096u

// The connection to a process that stands by for a worker.
struct mst_standby {
  struct mst_chan chan; // fd -1: there is none
  struct mst_io io;
  pid_t pid;                 // 0: it hasn't said yet
  uint8_t launching;         // it was told to take the place, before it said
  uint32_t epoch;            // of the incarnation that it is to be then
  struct mst_launcher *home; // of the worker, which adopts it when that ends
};

// The session's end of one worker. What the worker was given and what became of that is in its
// mailbox (calls.h).
struct mst_peer {
  struct mst_cluster *cluster;
  uint32_t index;
  struct mst_slot *slot;
  struct mst_launcher *launcher; // that made this incarnation, NULL if none did
  struct mst_host *host;         // where it is, or would be
  struct mst_conduit conduit;    // held: answers that nobody takes are too many
  struct mst_log_part part;      // of its output's last line
  uint8_t hello_seen;
  uint8_t no_memory; // it is held for an answer that there is no memory for
  uint8_t retired;   // asked to end for good, also if it was lost by then
  int send_rc;       // why the last call couldn't be sent and is not owed
  struct mst_hello hello;
  char *tempdir; // as told by READY, owned; stays for a standby
  struct mst_standby standby;
  struct mst_standby next_standby; // asked for, and not there yet
  uint64_t pong;                   // last nonce that came back
};

struct mst_trash;

struct mst_session {
  struct mst_loop *loop;
  struct mst_loop *prints;         // of output pipes; may be the same
  struct mst_io prints_io;         // by which loop watches prints
  struct mst_io_thread *io_thread; // NULL until it is needed
  pid_t owner;
  struct mst_cluster *clusters; // list
  uint32_t cluster_id;          // last given
  uint32_t
      unheard; // waits for several that ended without a look at the sockets
  struct mst_spin spin;
  int64_t reap_ns;     // when launchers were last asked to reap
  int64_t listened_ns; // when the session last ran
  // What happened to workers, for the user; oldest first.
  struct mst_loss *events;
  uint32_t event_count;
  struct mst_counts counts; // of all clusters
  uint8_t orphaned;         // some cluster needs another launcher to go on
  uint8_t broken;           // by mst_session_break
  struct mst_host here;     // this machine
  struct mst_trash *trash;  // directories that are to be removed; trash.c
  int64_t trash_ns;         // not before this
  char build[64];           // a worker's hello must say the same
};

// More events than this are not kept for the user.
#define MST_EVENTS_MAX 1000u

struct mst_cluster {
  struct mst_cluster *next;
  struct mst_session *session;
  uint32_t id;
  struct mst_calls calls;  // with the workers' states
  struct mst_peer **peers; // calls.pool.count
  struct mst_launcher *launcher;
  struct mst_spawner *spawner; // owned, NULL with a fork server
  struct mst_blob *setup;      // payload of SETUP
  struct mst_log log;          // what its workers printed
  uint64_t shown; // lines of it that the user has seen, for the caller
  uint8_t started, start_failed, stop_begun, stopped;
  uint8_t carrying_out; // actions are being carried out
  uint8_t abandoned;    // nobody refers to it: freed once it is stopped
  uint8_t closed;       // by mst_cluster_close
  struct mst_cluster *next_closed; // for the caller
  uint8_t orphaned; // its fork server is gone and a worker must come back
  uint8_t adopted;  // some workers are of a launcher before this one
  uint32_t held;    // peers with held
  int64_t flush_ns; // the system had no room for a frame: tried again then
};

// mst_session_open makes the session's loop. 0 or an error.
int mst_session_open(struct mst_session *session, enum mst_loop_backend backend,
                     const char *build, struct mst_err *err);
// mst_session_close closes the loop; clusters must be freed before.
void mst_session_close(struct mst_session *session);

// mst_session_break gives up a session of which an assertion has failed: nobody knows what of it
// holds. Looks at nothing but descriptors and processes: workers see the end of their channels and
// end; those that the session has booted are waited for, for a second. Its memory and that of
// its clusters stays, for those who have pointers to it: mst_session_run gives an error from now
// on, clusters are closed, and nothing else may be called with either.
void mst_session_break(struct mst_session *session);
// mst_session_failure tells which assertion has ended the I/O thread, NULL if none has. Only by who
// has the session.
const char *mst_session_failure(const struct mst_session *session);

// mst_trash_put has a directory removed while the session runs; the path is taken over, NULL is
// allowed. mst_trash_work spends so long on it, if it is time. mst_trash_free leaves the rest.
#define MST_TRASH_TURN_NS (10 * MST_NS_PER_MS)
void mst_trash_put(struct mst_session *session, char *path);
void mst_trash_work(struct mst_session *session, int64_t turn_ns);
void mst_trash_free(struct mst_session *session);

// mst_session_lend lets the I/O thread go on with the session if there are clusters: with all of
// it if there are tasks that are not done, otherwise with what workers and servers print. The
// I/O thread starts when it is first needed and ends with the last cluster;
// without one (no memory, no thread) nothing is lent. mst_session_take takes the session
// back. Both by the R thread of the process that opened the session, without harm if it
// is so already.
void mst_session_lend(struct mst_session *session);
void mst_session_take(struct mst_session *session);

// mst_session_run serves what is ready, waiting up to timeout_ms for it, and
// lets time pass for every cluster. 0, -MST_ESYS, or -MST_ECLOSED: it is broken.
int mst_session_run(struct mst_session *session, int timeout_ms,
                    struct mst_err *err);

// mst_session_news takes a launcher's news; pass it as the sink, with the
// session as owner.
void mst_session_news(void *session, const struct mst_news *news);

// mst_cluster_new prepares a cluster; nothing starts. The launcher must outlive
// it; `spawner` (may be NULL) and a reference to `setup` are taken over if it
// succeeds. 0, -MST_EMEM, -MST_EINPUT.
int mst_cluster_new(struct mst_session *session, uint32_t workers,
                    uint32_t window, struct mst_launcher *launcher,
                    struct mst_spawner *spawner, struct mst_blob *setup,
                    struct mst_cluster **out, struct mst_err *err);
// mst_cluster_grow adds workers, which start as lost ones restart. 0, -MST_EMEM,
// -MST_EINPUT.
int mst_cluster_grow(struct mst_cluster *cluster, uint32_t more,
                     struct mst_err *err);
// mst_cluster_adopt gives a cluster that is orphaned another launcher. Workers that are
// still there go on; their ends are told by their channels, and by the launcher before if this
// process has adopted them.
void mst_cluster_adopt(struct mst_cluster *cluster,
                       struct mst_launcher *launcher);

// mst_session_needs tells whether a launcher is in use: it launches for a cluster, or
// has made a worker whose end is awaited.
int mst_session_needs(const struct mst_session *session,
                      const struct mst_launcher *launcher);

// mst_cluster_start begins to launch; run the session until started or
// start_failed is set.
void mst_cluster_start(struct mst_cluster *cluster, int64_t deadline_ns);

// mst_cluster_stop begins to stop; run the session until stopped is set.
void mst_cluster_stop(struct mst_cluster *cluster);

// mst_cluster_close closes what is open and takes the cluster off the session's list.
// Workers that still run are killed: each sees the end of its channels. The cluster and
// its peers stay in memory, for those who still have pointers to them.
void mst_cluster_close(struct mst_cluster *cluster);
// mst_cluster_free closes and frees.
void mst_cluster_free(struct mst_cluster *cluster);

// mst_peer_retire asks one worker to end; run the session until it is no longer
// awaited, then close it.
void mst_peer_retire(struct mst_peer *peer);
// mst_peer_kill ends one worker at once and for good; it isn't replaced.
void mst_peer_kill(struct mst_peer *peer);
// mst_peer_close closes and frees what the session has of a worker, again
// without harm. Without `ours` (in a forked child of the session) the shared
// loop is left alone and sockets are not shut down.
void mst_peer_close(struct mst_peer *peer, int ours);

// mst_peer_send gives a worker a call and counts an answer as owed. Waits, serving the
// session, until the kernel has all of it, at most slice_ms: returns 0 when sent, or when it
// will be sent once the worker is back; -MST_EAGAIN when some is still queued (go on with
// mst_peer_flush), -MST_ECLOSED if the worker is lost for good, or an error: then nothing is
// owed. verb: whose call it is. tag: comes back with the loss of a call. unseen: see
// journal.h. The payload is kept until it is answered.
int mst_peer_send(struct mst_peer *peer, struct mst_blob *payload,
                  const void *caller, int32_t tag, uint8_t unseen, int slice_ms,
                  struct mst_err *err);
int mst_peer_flush(struct mst_peer *peer, int slice_ms, struct mst_err *err);

// mst_peer_poll reads what one worker has sent, without waiting.
void mst_peer_poll(struct mst_peer *peer);

// mst_peer_wait waits up to timeout_ms for a whole answer, for this verb, of one of n peers.
// Returns the index (in peers) of the one whose answer came first; -MST_EAGAIN
// if there is none yet; -MST_ECLOSED if none is there and one that owes an
// answer is lost, *lost says which (a peer that owes none is passed over);
// -MST_EMEM, an answer is there that there is no memory for; -MST_ESYS. Cost: O(n) per
// wake-up.
int mst_peer_wait(struct mst_peer *const *peers, uint32_t n, const void *caller,
                  int timeout_ms, uint32_t *lost, struct mst_err *err);

// mst_peer_answer gives the oldest answer for a verb: DONE or LOST, NULL if none is there.
// mst_peer_take takes it: the caller releases it. Nothing of it is in its channel any more,
// so whoever reads it may run the session, and the worker may go.
struct mst_call *mst_peer_answer(const struct mst_peer *peer,
                                 const void *caller);
void mst_peer_take(struct mst_peer *peer, struct mst_call *answer);

// mst_peer_unread tells how many calls were sent whose answers are to be taken.
uint32_t mst_peer_unread(const struct mst_peer *peer);
// mst_peer_owes tells whether what a worker owes, or has given and nobody has taken, is of a verb;
// mst_peer_owes_several whether that may be of several; mst_peer_caller the verb that called last.
int mst_peer_owes(const struct mst_peer *peer, const void *caller);
int mst_peer_owes_several(const struct mst_peer *peer);
const void *mst_peer_caller(const struct mst_peer *peer);
// mst_peer_journal gives what is kept to make the worker again, until the session runs.
const struct mst_journal *mst_peer_journal(const struct mst_peer *peer);
// mst_peer_why gives what was wrong with it first, and mst_peer_failure the text of TOLD, which may
// be NULL by the next call.
enum mst_why mst_peer_why(const struct mst_peer *peer);
char *const *mst_peer_failure(const struct mst_peer *peer);
// mst_peer_forget drops the answers of all calls of a verb sent so far (NULL: of any) that
// are no tasks: those that are here now, the others when they come. What the worker still
// evaluates of them is interrupted, and after MST_CANCEL_GRACE_MS killed by the worker itself.
void mst_peer_forget(struct mst_peer *peer, const void *caller);
// mst_session_cancel forgets what all peers owe this verb.
void mst_session_cancel(struct mst_session *session, const void *caller);

// mst_task_submit queues a task and sends what can be sent, see mst_calls_submit;
// mst_task_cancel cancels one, see mst_call_cancel.
struct mst_call *mst_task_submit(struct mst_cluster *cluster,
                                 struct mst_blob *payload,
                                 const uint32_t *workers, uint32_t count,
                                 const struct mst_task_terms *terms);
int mst_task_cancel(struct mst_call *task);
// mst_task_await: somebody waits for a task, so its answer is read whatever others there are, see
// mst_calls_await_task. 0, or -MST_EMEM: there is no memory for what the worker that has it sent,
// or all that may have it; that was tried again now.
int mst_task_await(struct mst_call *task);
// mst_task_cluster gives the cluster that has to do with a task, NULL if none has any more.
struct mst_cluster *mst_task_cluster(const struct mst_call *task);
// mst_cluster_trim lets go of jobs that are too many to be kept, here and in the workers.
void mst_cluster_trim(struct mst_cluster *cluster);
// mst_cluster_revive lets workers that were given up for want of something try again.
// Returns how many.
uint32_t mst_cluster_revive(struct mst_cluster *cluster);

// mst_session_event takes the oldest thing that happened, NULL if none did; the
// caller frees it by mst_loss_free.
struct mst_loss *mst_session_event(struct mst_session *session);

// mst_peer_ping asks the worker's second thread for a sign of life and waits up
// to timeout_ms: 0, -MST_ETIMEOUT, -MST_ECLOSED, -MST_ESYS.
int mst_peer_ping(struct mst_peer *peer, uint64_t nonce, int timeout_ms,
                  struct mst_err *err);

const struct mst_worker *mst_peer_worker(const struct mst_peer *peer);
// mst_peer_lacks gives the errno for want of which its process couldn't become a worker, as that
// has printed (MST_CANT_START); 0 if it hasn't.
int mst_peer_lacks(const struct mst_peer *peer);

#endif
