// pool/recover: decides what follows from the loss of a worker: who killed it, which call is to
// blame, whether and when another incarnation comes. Pure: facts and the time go in, a verdict
// comes out.
//
// A slot is one place of a cluster, which the incarnations of a worker take one after the other. It
// has the worker's calls (mailbox.h), and what restores the worker's state after a loss. The
// functions here change only the slot's own fields, neither its mailbox nor the pool.
#ifndef MST_POOL_RECOVER_H
#define MST_POOL_RECOVER_H

#include <stdint.h>

#include "sched/heal.h"
#include "pool/journal.h"
#include "pool/loss.h"
#include "pool/mailbox.h"
#include "pool/state.h"

// A cancelled call has this long to end after its interrupt; then its worker ends itself.
#define MST_CANCEL_GRACE_MS 1000u
// A launch that failed because descriptors, processes or memory were short is retried after this
// long, then after twice as long, and so on, MST_SHORT_TRIES times (13 s in all).
#define MST_SHORT_PAUSE_NS (50 * MST_NS_PER_MS)
#define MST_SHORT_TRIES 8u

// Whether a worker can be restarted.
enum mst_launcher_is {
  MST_LAUNCHER_THERE,
  MST_LAUNCHER_GONE, // not now: it waits for another launcher
  MST_LAUNCHER_LOST  // there won't be another: it is given up
};

// The call of a worker that the kernel killed for memory is tried again while no other worker
// computes, and the others have given back what they don't use. So is a call that was submitted to
// run alone. While it waits for that, and while it runs, the others get no tasks that any worker
// may take; but each only for a minute, or twice as long as the call had run: a task of the others
// may never end, nor this one.
enum mst_alone {
  MST_ALONE_NOT,
  MST_ALONE_NEXT,  // once the worker is back
  MST_ALONE_LATER, // others still compute, and got tasks again: when they happen to be idle
  MST_ALONE_WAITS, // others still compute
  MST_ALONE_TRIMS, // others give back memory
  MST_ALONE_RUNS
};
#define MST_ALONE_HOLD_NS (60 * MST_NS_PER_S)

struct mst_slot {
  struct mst_mailbox mailbox;
  struct mst_heal heal;
  struct mst_journal journal;
  struct mst_seed seed; // the stream's position after the last answer
  enum mst_why why;     // the first thing that was wrong
  char *failure;        // the text of MST_WHY_TOLD; owned
  // It drew what a replay from its checkpoint won't repeat, or else one from its start.
  uint8_t rng_other;
  uint8_t rng_strayed; // a replay from its start won't repeat that, either
  uint8_t rng_redraws; // what it keeps was made of that: a replay from its start changes it
  uint8_t rng_since;   // so does one that starts from its checkpoint
  uint8_t rng_kept;    // its stream came from its start, or from its checkpoint
  uint8_t dead;        // given up
  uint8_t to_heal;     // it was lost, and the verdict is still to come
  uint8_t launcher;    // enum mst_launcher_is; the session sets this
  uint8_t resuming;    // it is coming back: calls are queued, not sent
  uint8_t ended;       // its channel isn't read any more
  uint8_t oom;         // the kernel killed the last incarnation for memory
  uint8_t ours;        // muster killed it: the session, or its watch
  uint8_t alone;       // enum mst_alone
  uint8_t trims;       // it was asked to give back memory, and hasn't answered
  uint8_t drains;      // it was asked to drain; check it until it has left
  uint8_t moves;       // and comes back then
  uint64_t alone_call; // the call that runs alone
  int64_t hold_ns;     // for how long the others are held
  int64_t alone_ns;    // since when
  int32_t sys_errno;   // the shortage that failed its last launch, or 0
  uint32_t launches;   // launches that failed this way in a row
  int64_t launch_ns;   // when it is launched again; INT64_MAX: not planned
  int64_t head_ns;     // since when it has evaluated the oldest call
  uint64_t cancel;     // the call that it was last told to interrupt
  int64_t cancel_ns;   // when it was first told
  uint64_t deaf;       // the call for which its watch said that it ends it, 0
  // Replay of its journal.
  uint32_t replay_left;       // answers to replayed calls still to come
  struct mst_entry *replayed; // the entry whose answer comes next
  struct mst_entry *replay;   // the next entry to send
  uint8_t replaying;          // not all entries are sent yet
  uint8_t from_checkpoint;    // this incarnation started from one
  uint8_t seeded;             // the seed before `replay` was sent
};

// What the session knows of an end.
struct mst_judged {
  char *words; // its last output, or NULL
  // The kernel has killed something for memory, not attributed to another worker.
  uint8_t oom;
  int32_t sys_errno; // the shortage that its process reported, or 0
};

struct mst_verdict {
  enum mst_recover {
    MST_RECOVER_LEAVE,   // it stays lost: asked to end, or healing is off
    MST_RECOVER_GIVE_UP, // it stays lost, and the user is told
    MST_RECOVER_LATER,   // launch it again when the system may have more
    MST_RECOVER_NOW
  } how;
  enum mst_why why; // for LEAVE and GIVE_UP
  uint8_t late;     // its oldest call took too long, and fails
  // Not 0: its oldest call (the next one, if `late`) fails after this many attempts.
  uint32_t attempts;
};

// mst_recover_judge tells what follows from the end of a slot's worker. ends: the worker or its
// cluster shouldn't go on. It disregards cancelled calls: the caller drops these before it carries
// out the verdict.
struct mst_verdict mst_recover_judge(struct mst_slot *slot,
                                     const struct mst_worker *worker,
                                     const struct mst_heal_policy *policy,
                                     const struct mst_judged *judged, int ends,
                                     int64_t now_ns);

// mst_slot_fail notes what was wrong with a worker, mst_slot_fail_told a text about it; the first
// note counts. The latter allocates: if memory is short the text is missing. mst_slot_forget_why
// clears both for the next incarnation.
void mst_slot_fail(struct mst_slot *slot, enum mst_why why);
void mst_slot_fail_told(struct mst_slot *slot, const char *text);
void mst_slot_forget_why(struct mst_slot *slot);
// mst_slot_lost_state tells why a worker's state can't be restored.
enum mst_why mst_slot_lost_state(const struct mst_slot *slot);
// mst_slot_loss describes how this incarnation ended. Allocates. NULL if memory is short: then
// nobody is told, and all else goes on.
struct mst_loss *mst_slot_loss(const struct mst_slot *slot,
                               const struct mst_worker *worker,
                               uint32_t cluster, enum mst_loss_kind kind,
                               const char *words);

#endif
