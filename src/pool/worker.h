// pool/worker: the one record of a worker: a place of a cluster, which its incarnations take one
// after the other. Pure data.
//
//   its life       state*.c alone writes it: what is known of its process and its channel
//   its calls      mailbox.c
//   its loss       recover.c, calls_heal.c: who killed it, whether and when it comes back
//   its host       calls_site.c: where it is launched, and when it moves
//   its state      calls_log.c, calls_heal.c: what restores the values that R keeps in it
//   its limits     calls_heal.c: calls to be interrupted, calls that must run alone
//
// States:  starting -> idle <-> busy -> stopped, and from each of them lost;
//          lost -> restarting -> idle, as often as healing (heal.h) asks for.
//          starting or restarting <-> pending; idle or busy -> draining -> left;
//          left -> restarting
//
//   starting    LAUNCH was given; FORKED, HELLO, READY are still to come
//   restarting  the same for a later incarnation, in a running pool
//   idle        ready, owes no answer
//   busy        owes at least one answer
//   lost        its channel or its process ended; how it ended may still be
//               unknown (exit_known = 0)
//   stopped     ended after a stop or take-down began, and reaped
//   pending     its launch waits for a host, or in a queue (PENDING)
//   draining    takes no new calls, and ends once it owes no answer
//   left        ended after DRAIN: not a loss
#ifndef MST_POOL_WORKER_H
#define MST_POOL_WORKER_H

#include <stdint.h>

#include "base/mst_clock.h"
#include "pool/action.h"
#include "pool/journal.h"
#include "pool/loss.h"
#include "pool/mailbox.h"
#include "sched/heal.h"
#include "sched/site.h"

enum mst_worker_state {
  MST_WORKER_NONE = 0, // not launched yet
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

// The call of a worker that the kernel killed for memory is tried again while no other worker
// computes, and the others have given back what they don't use. So is a call that was submitted to
// run alone. While it waits for that, and while it runs, the others get no tasks that any worker
// may take; but each only for a minute, or twice as long as the call had run: a task of the others
// may never end, nor this one.
enum mst_alone {
  MST_ALONE_NOT,
  MST_ALONE_NEXT, // once the worker is back
  MST_ALONE_LATER, // others still compute, and got tasks again: when they happen to be idle
  MST_ALONE_WAITS, // others still compute
  MST_ALONE_TRIMS, // others give back memory
  MST_ALONE_RUNS
};
#define MST_ALONE_HOLD_NS (60 * MST_NS_PER_S)

struct mst_worker {
  // Its life: of the present incarnation, but for epoch and done.
  enum mst_worker_state state;
  uint32_t pid;     // 0 until known
  uint32_t epoch;   // 0 for the first incarnation
  uint32_t owed;    // answers that it still has to give
  uint8_t launched; // LAUNCH was given
  uint8_t awaited;  // launched, not known to have ended or failed, nor given up
  uint8_t has_process; // awaited, and its pid is known: somebody must reap it
  // How and number are valid; how is MST_EXIT_NONE if the launch failed without a process.
  uint8_t exit_known;
  uint8_t killed;     // KILL was given
  uint8_t channel;    // its data channel is open, and read
  uint8_t lost_given; // JUDGE was given
  uint8_t again;      // lost or left, and the next incarnation is requested
  uint8_t queued;     // it is or was pending
  uint8_t was_ready;
  uint8_t presumed; // it counts as lost, although no sign of its end had come
  uint8_t drains;   // its end isn't a loss unless it still owes answers
  // enum mst_exit; MST_EXIT_UNKNOWN without exit_known if the process was given up.
  uint32_t exit_how;
  int32_t exit_number; // exit code or signal
  // When a running pool saw the first sign of its end; INT64_MAX: it didn't.
  int64_t lost_ns;
  int64_t stop_ns; // when it was asked to end (BYE); INT64_MAX: it wasn't
  // When it was killed, or should have been while its pid was unknown; INT64_MAX: neither.
  int64_t kill_ns;
  // Start of its limit MST_RESTART_NS; INT64_MAX: no limit.
  int64_t restart_ns;
  uint64_t done; // answers received, of all incarnations

  // What is to be done with it: bits, 1 << enum mst_do.
  uint32_t todo;
  uint8_t due; // it is in the list of workers with something to do
  struct mst_worker *next_due;

  // Its calls.
  struct mst_mailbox mailbox;
  int64_t head_ns;  // since when it has evaluated the oldest one
  uint8_t resuming; // it is coming back: calls are queued, not sent

  // Its loss.
  struct mst_heal heal;
  enum mst_why why;  // the first thing that was wrong
  char *failure;     // the text of MST_WHY_TOLD; owned
  uint8_t to_heal;   // it was lost, and the verdict is still to come
  uint8_t dead;      // given up
  uint8_t oom;       // the kernel killed the last incarnation for memory
  uint8_t ours;      // muster killed it: the session, or its watch
  uint8_t moves;     // it was asked to drain, and comes back then
  int32_t sys_errno; // the shortage that failed its last launch, or 0
  uint32_t launches; // launches that failed this way in a row
  int64_t launch_ns; // when it is launched again; INT64_MAX: not planned

  // Its host.
  struct mst_site *site; // where it is launched
  uint32_t link;         // the site's link over which it was launched; 0: none
  uint32_t standby_link; // that of the incarnation that made its checkpoint
  uint8_t pends;         // its launch waits for a host

  // Its state.
  struct mst_journal journal;
  struct mst_seed seed; // the stream's position after the last answer
  // It drew what a replay from its checkpoint won't repeat, or else one from its start.
  uint8_t rng_other;
  uint8_t rng_strayed; // a replay from its start won't repeat that, either
  uint8_t
      rng_redraws; // what it keeps was made of that: a replay from its start changes it
  uint8_t rng_since; // so does one that starts from its checkpoint
  uint8_t rng_kept;  // its stream came from its start, or from its checkpoint
  // Replay of its journal.
  uint8_t replaying;          // not all entries are sent yet
  uint8_t from_checkpoint;    // this incarnation started from one
  uint8_t seeded;             // the seed before `replay` was sent
  uint32_t replay_left;       // answers to replayed calls still to come
  struct mst_entry *replayed; // the entry whose answer comes next
  struct mst_entry *replay;   // the next entry to send

  // Its limits.
  uint64_t cancel;     // the call that it was last told to interrupt
  int64_t cancel_ns;   // when it was first told
  uint64_t deaf;       // the call for which its watch said that it ends it, 0
  uint8_t alone;       // enum mst_alone
  uint8_t trims;       // it was asked to give back memory, and hasn't answered
  uint64_t alone_call; // the call that runs alone
  int64_t hold_ns;     // for how long the others are held
  int64_t alone_ns;    // since when
};

// mst_worker_is_gone tells whether nothing can be sent to it or come from it, unless it comes back.
static inline int mst_worker_is_gone(const struct mst_worker *worker) {
  return worker->launched && !worker->channel;
}

// mst_worker_state_name gives "idle" and so on, never NULL.
const char *mst_worker_state_name(enum mst_worker_state state);

#endif
