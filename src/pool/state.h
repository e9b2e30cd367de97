// pool/state: what each worker of one cluster is, and what to do next. Pure: no
// socket, no clock, no R. Events and now_ns go in, actions come out; the same
// events give the same actions, which is what tests/sim relies on.
//
// States:  starting -> idle <-> busy -> stopped, and from each of them lost;
//          lost -> restarting -> idle, as often as healing (heal.h) asks for.
//          starting or restarting <-> pending; idle or busy -> draining -> left;
//          left -> restarting
//
//   starting    launch asked for; FORKED, HELLO, READY still to come
//   restarting  the same for a later incarnation, in a pool that runs
//   idle        ready, owes no answer
//   busy        owes at least one answer
//   lost        its channel ended or its process did; the end may still be
//               unknown (exit_known = 0)
//   stopped     ended after a stop or take-down began, and reaped
//   pending     launch asked for, and it waits in a queue (PENDING)
//   draining    takes no new work, and ends once it owes no answer
//   left        ended as draining asked for, or as was announced: no loss
//
// Start: at most window launches are in flight (asked for, not yet ready), so
// that boots in `spawn` don't pile up and descriptors in flight stay below the
// kernel's limit. The first failure of any worker, or the deadline, turns the
// start into a take-down: nothing more is launched, what runs is killed, and
// when all of it is reaped START_FAILED is given, once. A cluster is never half
// there. A stop during the start is such a failure: START_FAILED, no STOPPED.
//
// Partly there: a start that needs fewer than all workers (mst_pool_begin) gives
// STARTED when so many are ready. Until then a worker that is lost fails the
// start only if fewer than needed can still come; else its LOST follows STARTED.
// The others go on: each gives JOINED when it is ready, is lost like any other if
// it fails, and has MST_RESTART_NS from its LAUNCH or from STARTED.
//
// Pending: a launcher that can't say when a worker comes (the queue of a batch
// system) answers LAUNCH by PENDING. Such a worker is outside the window, also
// once it boots, and has no limit until FORKED, then MST_RESTART_NS. The start's
// deadline passes over it: it fails the start only if those that are ready and
// those from a queue are fewer than needed. One that is to end gets CANCEL, and
// MST_REAP_NS until it is given up.
//
// Loss: a worker's channel and its process are two witnesses, heard over two
// sockets, in either order: READY may come before FORKED, the channel's end
// before or after EXITED, and answers may still be read after EXITED. The first
// sign of an end makes the worker lost and kills what runs on; LOST is given
// when both witnesses were heard, or MST_NEWS_NS after the first, so that it
// can say how the worker ended. LOST is given only while the pool runs (or by
// the stop, before any BYE): later the end of a worker is no loss. A lost worker
// stays lost until RESTART; the others go on.
//
// Restart: RESTART makes a lost worker's next incarnation, one epoch further on,
// as soon as the window has room. What it owed is forgotten here: who asks for
// the restart sends it again after RESTARTED. An incarnation that isn't ready
// within MST_RESTART_NS of its LAUNCH is lost as well. Whether and how often to restart is
// not decided here.
//
// Stop: idle workers get BYE; busy ones get BYE too (they finish first) but only
// MST_STOP_BUSY_NS; all get MST_STOP_GRACE_NS, then SIGKILL. STOPPED is given
// once, when every worker that had a process is reaped or known to be gone.
//
// Retire: one worker of a running pool is stopped in the same way, with the same
// limits, while the others go on. Its end is no loss; it becomes stopped.
//
// Drain: like retire, but BYE waits for all that the worker owes, without limit,
// and it becomes left, from where RESTART may bring it back. One that isn't ready
// is ended at once. If it ends while it still owes, that is a loss. A later RETIRE
// or STOP puts itself in place of DRAIN. LEFT is DRAIN said by the other side: it
// also counts when the first sign of the end came before it.
//
// Away: a link that breaks may come back (AWAY, BACK). What the worker owes stays
// owed. The limit of a boot stands still; those of a stop don't, and EXITED is
// heard as ever. Past away_limit_ns the channel counts as ended. Whoever asks
// for signs of life must not judge a worker that is away.
#ifndef MST_POOL_STATE_H
#define MST_POOL_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_clock.h"
#include "wire/wire.h"

#define MST_STOP_GRACE_NS (5 * MST_NS_PER_S)
#define MST_STOP_BUSY_NS (200 * MST_NS_PER_MS)
// A killed process that nobody reaps within this time is given up: its parent
// (a fork server) is stuck or gone. So is a launch that must be taken down and
// of which neither a process nor a failure was heard for so long.
#define MST_REAP_NS (10 * MST_NS_PER_S)
// How long one sign of a worker's end waits for the other. The exit status
// takes well under a millisecond when its parent is well; a channel that
// outlives its process is held by a grandchild. Half of the second within which
// a loss must be known.
#define MST_NEWS_NS (500 * MST_NS_PER_MS)
// A restarted worker that isn't ready by then is lost once more.
#define MST_RESTART_NS (60 * MST_NS_PER_S)
// A channel that is away for longer counts as ended.
#define MST_AWAY_NS (60 * MST_NS_PER_S)

enum mst_worker_state {
  MST_WORKER_NONE = 0, // not asked for yet
  MST_WORKER_STARTING,
  MST_WORKER_IDLE,
  MST_WORKER_BUSY,
  MST_WORKER_LOST,
  MST_WORKER_RESTARTING,
  MST_WORKER_STOPPED,
  MST_WORKER_PENDING,
  MST_WORKER_DRAINING,
  MST_WORKER_LEFT
};

enum mst_channel {
  MST_CHANNEL_ENDED = 0, // also of a worker that was not launched
  MST_CHANNEL_UP,
  MST_CHANNEL_AWAY // its link broke; it may come back
};

enum mst_pool_phase {
  MST_POOL_NEW = 0, // initialised, not started
  MST_POOL_STARTING,
  MST_POOL_RUNNING,
  MST_POOL_FAILING,  // start failed, taking down
  MST_POOL_STOPPING, // stop asked for
  MST_POOL_DOWN      // nothing left, START_FAILED or STOPPED was given
};

struct mst_worker {
  enum mst_worker_state state;
  uint32_t pid;        // 0 until known
  uint32_t epoch;      // 0 for the first incarnation
  uint32_t owed;       // answers that it owes
  uint8_t launched;    // LAUNCH was given
  uint8_t awaited;     // launched, and neither its end nor that there is no
                       // process is known, nor was it given up
  uint8_t has_process; // a process exists that somebody must reap: awaited,
                       // and its pid is known
  uint8_t exit_known;  // how and number are true; how is MST_EXIT_NONE if
                       // the launch failed and there never was a process
  uint8_t killed;      // KILL was given for this incarnation
  uint8_t channel;     // enum mst_channel, of its data channel
  uint8_t lost_given;  // LOST was given for this incarnation
  uint8_t again;       // lost or left, and the next incarnation is asked for
  uint8_t queued;      // this incarnation was pending, or still is
  uint8_t cancelled;   // CANCEL was given for this incarnation
  uint8_t was_ready;   // this incarnation was
  uint8_t drains;      // its end is no loss unless it owes answers then
  uint32_t exit_how;   // enum mst_exit; MST_EXIT_UNKNOWN without exit_known
                       // if the process was given up
  int32_t exit_number; // exit code or signal
  int64_t lost_ns;     // when a running pool saw the first sign of its end;
                       // INT64_MAX if it didn't
  int64_t stop_ns;     // when it was asked to end (BYE); INT64_MAX if not
  int64_t kill_ns;     // when it was killed, or was to be while its pid was
                       // not known yet; INT64_MAX if neither
  int64_t restart_ns; // since when its limit MST_RESTART_NS runs (less the time
                      // that it was away); INT64_MAX if it doesn't
  int64_t away_ns;    // when its channel went away, the last time
  uint64_t done;      // answers received, all incarnations
};

enum mst_event_kind {
  MST_EV_FORKED = 1,    // pid in number: a process exists
  MST_EV_LAUNCH_FAILED, // errno in number: there is and was no process
  MST_EV_READY,         // set-up done
  MST_EV_SETUP_FAILED,  // the worker said FAILED or REFUSE
  MST_EV_SENT,          // a call was queued for it
  MST_EV_ANSWERED,      // an answer came in whole
  MST_EV_CLOSED,        // its data channel ended
  MST_EV_EXITED,        // how, number: reaped, or known to be gone. Final:
                        // UNKNOWN only when nobody can tell more
  MST_EV_RETIRE,        // one worker is to stop while the pool runs
  MST_EV_RESTART,       // a lost worker is to come back
  MST_EV_SILENT,        // it gives no sign of life: it is to count as lost
  MST_EV_STOP,          // of the whole pool; worker is ignored
  MST_EV_TICK,          // time passed; worker is ignored. To be given after
                        // what the sockets hold, or a session that slept
                        // would judge by news that it hasn't read
  MST_EV_PENDING,       // its launch waits in a queue, for as long as it takes
  MST_EV_DRAIN,         // it is to finish what it owes and then end
  MST_EV_LEFT,          // it ends or has ended as was announced (walltime)
  MST_EV_AWAY,          // its data channel's link broke and may come back
  MST_EV_BACK           // the link is up again, and nothing was lost on it
};

struct mst_event {
  enum mst_event_kind kind;
  uint32_t worker;
  uint32_t how;   // enum mst_exit, for EXITED
  int32_t number; // pid, errno, exit code or signal
};

enum mst_action_kind {
  MST_DO_LAUNCH = 1,   // start worker's process
  MST_DO_BYE,          // send BYE to worker
  MST_DO_KILL,         // SIGKILL to worker's process group
  MST_DO_STARTED,      // as many workers are ready as the start needs
  MST_DO_START_FAILED, // everything is down again; why: fail_* of the pool
  MST_DO_LOST,         // worker is lost (given once for an incarnation);
                       // what it still owes will not come
  MST_DO_RESTARTED,    // the next incarnation is ready
  MST_DO_STOPPED,      // everything is down
  MST_DO_JOINED,       // a first incarnation is ready after STARTED
  MST_DO_CANCEL        // take worker's launch out of its queue: LAUNCH_FAILED
                       // tells that it is out, FORKED that it was too late
};

struct mst_action {
  enum mst_action_kind kind;
  uint32_t worker;
};

enum mst_fail {
  MST_FAIL_NONE = 0,
  MST_FAIL_LAUNCH,   // no process: fail_number is errno
  MST_FAIL_SETUP,    // the worker refused or its set-up failed
  MST_FAIL_EXITED,   // the worker ended before all were ready
  MST_FAIL_DEADLINE, // not ready in time
  MST_FAIL_STOPPED   // stop was asked for while starting
};

struct mst_pool {
  struct mst_worker *workers; // count of them, owned
  uint32_t count;
  enum mst_pool_phase phase;
  uint32_t window;    // launches in flight at most
  uint32_t need;      // workers that the start needs; grown ones count
  uint32_t gone;      // workers that were lost during the start
  uint32_t in_flight; // launched and neither ready nor ended: the starting
                      // and the restarting, but for those with queued
  uint32_t queued;    // those with queued that are pending or were since then
                      // forked, and are neither ready nor ended
  uint32_t again;     // workers with again
  uint32_t next;      // first worker that was not launched
  uint32_t ready;     // workers that are ready, during the start; later those
                      // whose first incarnation was. Grown ones count
  uint32_t processes; // workers with has_process
  uint32_t awaited;   // workers with awaited: a pool is down when it is 0
  int64_t away_limit_ns; // MST_AWAY_NS; may be set after init, INT64_MAX for
                         // no limit, but not while a worker is away
  int64_t deadline_ns;   // of the start
  int64_t stop_ns;       // when a take-down began
  int64_t wake_ns;       // no TICK is wanted before; INT64_MAX if none is
  int64_t now_ns;        // of the last event
  enum mst_fail fail;
  uint32_t fail_worker; // whose failure; for DEADLINE the first not ready, for
                        // STOPPED it says nothing
  int32_t fail_number;
  struct mst_action *actions; // queue, owned; room is reserved at init so
  size_t action_head;         // that an event can't fail
  size_t action_count;
  size_t action_cap;
};

// mst_pool_init prepares count workers, none launched. 0 or -MST_EMEM,
// -MST_EINPUT (count or window 0). The caller frees by mst_pool_free.
int mst_pool_init(struct mst_pool *pool, uint32_t count, uint32_t window);
void mst_pool_free(struct mst_pool *pool);

// mst_pool_begin begins: the first LAUNCH actions appear, and STARTED as soon as
// need (1 to count) workers are ready. Once per pool, and not after a stop.
// deadline_ns is INT64_MAX for none.
void mst_pool_begin(struct mst_pool *pool, int64_t now_ns, int64_t deadline_ns,
                    uint32_t need);

// mst_pool_grow adds workers to a running pool. They begin as if they had been
// lost before: RESTART launches each. 0, -MST_EMEM, -MST_EINPUT (not running).
int mst_pool_grow(struct mst_pool *pool, uint32_t more);

// mst_pool_event takes one event. Events that make no sense in the worker's
// state (a second EXITED, an answer that nobody owes) are ignored: the outside
// world may repeat itself; so are all events of a pool that is down. Never
// fails. O(1), but O(workers) for STOP, TICK and the event that ends a start.
void mst_pool_event(struct mst_pool *pool, const struct mst_event *event,
                    int64_t now_ns);

// mst_pool_next_action takes the oldest action: 1, or 0 if there is none.
// LAUNCH is made when it is taken, after all others, so a failed start leaves none
// behind and no action of an earlier incarnation comes after it; a KILL or BYE
// that waited until its process or channel had ended is dropped.
int mst_pool_next_action(struct mst_pool *pool, struct mst_action *action);

// mst_pool_wake_ns gives the time at which a TICK is wanted, INT64_MAX if never.
// O(1): it may be too early, by one idle TICK after things changed, never late.
int64_t mst_pool_wake_ns(const struct mst_pool *pool);

// mst_pool_check tells which invariant is broken, NULL if none: counts agree
// with states, nothing in flight past the window, no process in a pool that is
// down, no launch after a failure. Tests call it after every event.
const char *mst_pool_check(const struct mst_pool *pool);

// mst_worker_channel_open tells whether its data channel has not ended: it is up
// or away.
static inline int mst_worker_channel_open(const struct mst_worker *worker) {
  return worker->channel != MST_CHANNEL_ENDED;
}

// mst_worker_state_name gives "idle" and so on, never NULL.
const char *mst_worker_state_name(enum mst_worker_state state);

#endif
