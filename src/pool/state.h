// pool/state: the state of each worker of one cluster (worker.h), and what to do next. Pure: no
// socket, no clock, no R. Events and now_ns go in, actions come out; the same events give the same
// actions, and tests/sim relies on that.
//
// Start: at most `window` launches are in flight (not ready yet), so that boots in `spawn` don't
// pile up and descriptors in flight stay below the kernel's limit. The first failure of any worker,
// or the deadline, turns the start into a take-down: nothing more is launched, running workers are
// killed, and START_FAILED is given once when all are reaped. A cluster is never left half started.
// A stop during the start is such a failure: START_FAILED, not STOPPED.
//
// Partial start: with mst_pool_begin's need < count, STARTED is given when that many are ready.
// Until then a lost worker fails the start only if too few others can still come; otherwise its
// JUDGE follows STARTED. The others go on: each gives RESUME when it is ready, is lost like any
// other if it fails, and has MST_RESTART_NS from its LAUNCH or from STARTED.
//
// Pending: a launcher that can't say when a worker comes (a batch system's queue) answers LAUNCH by
// PENDING. The worker doesn't count for the window, even once it boots, and has no limit until
// FORKED, then MST_RESTART_NS. The start's deadline ignores it: it fails the start only if the
// workers that are ready and those from a queue are too few. Whoever launches takes the launch of a
// pending worker that must end (kill_ns) back: LAUNCH_FAILED, or FORKED if that is too late.
// Without news it is given up MST_REAP_NS later.
//
// Loss: the ends of a worker's channel and of its process are reported over two sockets, in either
// order: READY may come before FORKED, the channel's end before or after EXITED, and answers may
// still be read after EXITED. The first sign of an end makes the worker lost, and its process is
// killed if it still runs. JUDGE is given after both signs, when it is known how the worker ended:
// the pool waits for EXITED until the process is given up (MST_REAP_NS after KILL), since whoever
// reports it may be late; for the channel's end MST_NEWS_NS, since a grandchild may hold it. A
// worker that only counts as lost (SILENT, a limit) may be stopped for good: the pool waits for its
// EXITED for MST_NEWS_NS, too. JUDGE is given only while the pool runs (or by the stop, before any
// BYE): a later end is not a loss. A lost worker stays lost until RESTART; the others go on.
//
// Restart: RESTART requests a lost worker's next incarnation, with the next epoch, as soon as the
// window has room. The pool forgets what the worker owed: the caller sends it again after
// RESUME. An incarnation that isn't ready within MST_RESTART_NS of its LAUNCH is lost as well.
// Whether and how often to restart is decided elsewhere (heal.h).
//
// Stop: all workers get BYE and MST_STOP_GRACE_NS, then SIGKILL; busy ones, which finish their
// calls first, only MST_STOP_BUSY_NS. STOPPED is given once, when every process is reaped or known
// to be gone.
//
// Retire: stops one worker of a running pool, with the same limits, while the others go on. Its end
// is not a loss; it becomes stopped.
//
// Drain: like retire, but BYE waits, without limit, until the worker owes nothing; then it becomes
// left, and RESTART may bring it back. A worker that isn't ready is ended at once. If it ends while
// it owes answers, that is a loss. A later RETIRE or STOP replaces DRAIN.
#ifndef MST_POOL_STATE_H
#define MST_POOL_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mst_clock.h"
#include "pool/action.h"
#include "pool/worker.h"
#include "wire/wire.h"

#define MST_STOP_GRACE_NS (5 * MST_NS_PER_S)
#define MST_STOP_BUSY_NS (200 * MST_NS_PER_MS)
// A killed process whose end nobody reports within this time is given up: the kernel can't end it
// (a disk or a network that hangs). Its parent lives: one that is stopped or hangs is found by its
// silence (fork/client.c, host/relay.c). So is a launch to be undone that reports neither a process
// nor a failure by then. Generous, since a loaded machine takes long to end a large process.
#define MST_REAP_NS (60 * MST_NS_PER_S)
// How long the end of a process waits for that of its channel, and a worker that only counts as
// lost for the end of its process. Half of the second within which a loss must be known.
#define MST_NEWS_NS (500 * MST_NS_PER_MS)
// A restarted worker that isn't ready by then is lost again. Generous: on a loaded machine packages
// and `setup` take ten times as long as alone.
#define MST_RESTART_NS (300 * MST_NS_PER_S)

enum mst_pool_phase {
  MST_POOL_NEW = 0, // not started
  MST_POOL_STARTING,
  MST_POOL_RUNNING,
  MST_POOL_FAILING,  // start failed, taking down
  MST_POOL_STOPPING, // stop requested
  MST_POOL_DOWN      // all ended; START_FAILED or STOPPED was given
};

enum mst_event_kind {
  MST_EV_FORKED = 1,    // pid in number: a process exists
  MST_EV_LAUNCH_FAILED, // errno in number: there was no process
  MST_EV_READY,         // its set-up is done
  MST_EV_SETUP_FAILED,  // the worker said FAILED or REFUSE
  MST_EV_SENT,          // a call was queued for it
  MST_EV_ANSWERED,      // a whole answer arrived
  MST_EV_CLOSED,        // its data channel ended
  // How, number: reaped, or known to be gone. Final: UNKNOWN if nobody can tell more.
  MST_EV_EXITED,
  MST_EV_RETIRE,  // stop one worker while the pool runs
  MST_EV_RESTART, // bring a lost worker back
  MST_EV_SILENT,  // it gives no sign of life: it counts as lost
  MST_EV_STOP,    // stop the whole pool; worker is ignored
  // Time passed; worker is ignored. Give it after reading the sockets: otherwise a session that
  // slept would judge without the news that has arrived.
  MST_EV_TICK,
  MST_EV_PENDING,  // its launch waits in a queue, for any time
  MST_EV_DRAIN,    // it must finish what it owes, then end
  MST_EV_WITHDRAWN // it won't answer a call that was queued for it
};

struct mst_event {
  enum mst_event_kind kind;
  uint32_t worker;
  uint32_t how;   // enum mst_exit, for EXITED
  int32_t number; // pid, errno, exit code or signal
};

enum mst_fail {
  MST_FAIL_NONE = 0,
  MST_FAIL_LAUNCH,   // no process: fail_number is errno
  MST_FAIL_SETUP,    // the worker refused or its set-up failed
  MST_FAIL_EXITED,   // the worker ended before all were ready
  MST_FAIL_DEADLINE, // not ready in time
  MST_FAIL_STOPPED   // stopped while starting
};

struct mst_pool {
  struct mst_worker **workers; // count of them, each allocated alone; owned
  uint32_t count;
  enum mst_pool_phase phase;
  uint32_t window;    // maximum of launches in flight
  uint32_t need;      // workers that the start needs; grown ones count
  uint32_t gone;      // workers lost during the start
  uint32_t in_flight; // launched, neither ready nor ended, not queued
  // Queued workers that are pending, or forked since and neither ready nor ended.
  uint32_t queued;
  uint32_t again; // workers with again
  uint32_t next;  // the first worker not launched
  // During the start: workers that are ready; later: whose first incarnation was. Grown ones count.
  uint32_t ready;
  uint32_t processes;  // workers with has_process
  uint32_t awaited;    // workers with awaited; the pool is down at 0
  int64_t deadline_ns; // of the start
  int64_t stop_ns;     // when a stop or take-down began
  int64_t wake_ns;     // no TICK is needed before; INT64_MAX: none
  int64_t now_ns;      // of the last event
  enum mst_fail fail;
  // Who failed; for DEADLINE the first not ready; meaningless for STOPPED.
  uint32_t fail_worker;
  int32_t fail_number;
  struct mst_due due;  // workers with something to do
  uint8_t started_due; // STARTED is to be given
  uint8_t end_due;     // START_FAILED or STOPPED is, once nothing else is due
};

// mst_pool_init makes a pool of count workers, none launched. 0, -MST_EMEM, or -MST_EINPUT (count
// or window 0). The caller frees it by mst_pool_free.
int mst_pool_init(struct mst_pool *pool, uint32_t count, uint32_t window);
void mst_pool_free(struct mst_pool *pool);

// mst_pool_begin starts the pool: the first LAUNCH actions appear, and STARTED as soon as need (1
// to count) workers are ready. Once per pool, and not after a stop. deadline_ns INT64_MAX: no
// deadline.
void mst_pool_begin(struct mst_pool *pool, int64_t now_ns, int64_t deadline_ns,
                    uint32_t need);

// mst_pool_make_room makes the records of more workers of a running pool, without adding them: 0,
// -MST_EMEM, -MST_EINPUT (not running). Then either mst_pool_grow adds them, which can't fail, or
// mst_pool_give_room_back frees them. Grown workers count as lost: RESTART launches each.
int mst_pool_make_room(struct mst_pool *pool, uint32_t more);
void mst_pool_grow(struct mst_pool *pool, uint32_t more);
void mst_pool_give_room_back(struct mst_pool *pool, uint32_t more);

// mst_pool_event takes one event. Events that don't fit the worker's state (a second EXITED, an
// answer that isn't owed) are ignored, since the world may repeat itself; so are all events of a
// pool that is down. Never fails. O(1), but O(workers) for STOP, TICK and the event that ends a
// start.
void mst_pool_event(struct mst_pool *pool, const struct mst_event *event,
                    int64_t now_ns);

// These three take what is to be done; 0 or NULL: nothing. calls_next.c has the order, and does the
// rest between them. mst_pool_next_due: something with a worker that still makes sense; a KILL or
// BYE whose process or channel has ended meanwhile is dropped. mst_pool_next_launch: LAUNCH, which
// is made when it is taken, so a failed start leaves none behind, and nothing of an earlier
// incarnation follows it. mst_pool_next_word: STARTED before all others, START_FAILED or STOPPED
// after them.
struct mst_worker *mst_pool_next_due(struct mst_pool *pool, enum mst_do *what);
struct mst_worker *mst_pool_next_launch(struct mst_pool *pool);
enum mst_do mst_pool_next_word(struct mst_pool *pool);

// mst_pool_wake_ns gives the time of the next TICK that is needed, INT64_MAX if none. O(1): it may
// be too early, by one idle TICK after changes, but is never late.
int64_t mst_pool_wake_ns(const struct mst_pool *pool);

// mst_pool_check returns the invariant that is broken, or NULL: counts agree with states, the
// window isn't exceeded, a pool that is down has no process, nothing is launched after a failure.
// Tests call it after every event.
const char *mst_pool_check(const struct mst_pool *pool);

#endif
