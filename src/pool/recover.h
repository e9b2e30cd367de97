// pool/recover: a slot is one place of a cluster, which one incarnation of a worker after the other
// takes. It has the calls that the worker was given (mailbox.h), and what it takes to make the
// worker again when it is lost. Here is decided what follows from a loss: who killed the worker,
// which call is to blame, whether and when another incarnation comes. Pure: facts and the time go
// in, a verdict comes out; only the slot's own notes change, neither its mailbox nor the pool.
#ifndef MST_POOL_RECOVER_H
#define MST_POOL_RECOVER_H

#include <stdint.h>

#include "pool/heal.h"
#include "pool/journal.h"
#include "pool/loss.h"
#include "pool/mailbox.h"
#include "pool/state.h"

// After its interrupt a cancelled call has this long to end: then its worker ends itself.
#define MST_CANCEL_GRACE_MS 1000u
// A launch that failed for want of descriptors, processes or memory is tried again after
// this long, then twice as long, and so on, MST_SHORT_TRIES times (13 s in all).
#define MST_SHORT_PAUSE_NS (50 * MST_NS_PER_MS)
#define MST_SHORT_TRIES 8u

struct mst_slot {
  struct mst_mailbox mailbox;
  struct mst_heal heal;
  struct mst_journal journal;
  struct mst_seed seed; // the stream's position after the last answer
  enum mst_why why;     // what was wrong first
  char *failure;        // TOLD: the text; owned
  uint8_t rng_other;    // it drew from another generator what won't be repeated
  uint8_t rng_drew;     // it drew random numbers at all
  uint8_t rng_kept;     // its checkpoint has the stream
  uint8_t dead;         // it stays lost
  uint8_t to_heal;      // it was lost, and what follows is not done yet
  uint8_t resuming;     // it comes back: calls are queued, not sent
  uint8_t ended;        // its channel is read no more
  uint8_t oom;          // what was lost last was killed to have memory
  uint8_t ours;         // it was killed by muster: the session, or its watch
  uint8_t alone;        // its calls are to run while all others are idle
  uint8_t drains; // it was to finish and end: to be looked at until it has left
  int32_t sys_errno; // its last launch failed for want of something; 0: none
  uint32_t launches; // that failed so, in a row
  int64_t launch_ns; // when it is launched again; INT64_MAX if it isn't
  int64_t head_ns;   // since when it evaluates the oldest call
  uint64_t cancel;   // call that it was last told to interrupt
  int64_t cancel_ns; // and when, for the first time
  // its journal is replayed
  uint32_t replay_left;       // answers of the journal's calls that are to come
  struct mst_entry *replayed; // entry whose answer comes next
  struct mst_entry *replay;   // next to be sent
  uint8_t replaying;          // it is being sent
  uint8_t from_checkpoint;    // this incarnation was launched from one
  uint8_t seeded;             // the seed before `replay` was sent
};

// What the world knows of an end.
struct mst_judged {
  char *words; // its last ones; NULL without
  uint8_t oom; // the kernel has ended something for memory, and for nobody else
  int32_t sys_errno; // it couldn't start for want of this; 0 if not so
};

struct mst_verdict {
  enum mst_recover {
    MST_RECOVER_LEAVE,   // it stays lost, as it was asked to end
    MST_RECOVER_GIVE_UP, // it stays lost: the user is told
    MST_RECOVER_LATER,   // it is launched again when the system has more
    MST_RECOVER_NOW
  } how;
  enum mst_why why; // of LEAVE and GIVE_UP
  uint8_t late;     // its oldest call took too long: it fails
  uint32_t
      attempts; // that its oldest call, after that, has had: it fails; 0: it doesn't
};

// mst_recover_judge tells what follows from the end of a slot's worker. ends: neither it nor its
// cluster is to go on. Calls that were cancelled are taken to be gone: whoever carries the verdict
// out drops these first.
struct mst_verdict mst_recover_judge(struct mst_slot *slot,
                                     const struct mst_worker *worker,
                                     const struct mst_heal_policy *policy,
                                     const struct mst_judged *judged, int ends,
                                     int64_t now_ns);

// mst_slot_fail notes the first thing that was wrong with a worker, mst_slot_fail_told with the
// text of whoever knows it. That allocates: without memory the text is missing.
// mst_slot_forget_why is for the next incarnation.
void mst_slot_fail(struct mst_slot *slot, enum mst_why why);
void mst_slot_fail_told(struct mst_slot *slot, const char *text);
void mst_slot_forget_why(struct mst_slot *slot);
// mst_slot_lost_state tells why a worker can't come back as it was.
enum mst_why mst_slot_lost_state(const struct mst_slot *slot);
// mst_slot_loss describes how this incarnation ended. NULL without memory: then nobody is told, and
// what follows is done anyway. Allocates.
struct mst_loss *mst_slot_loss(const struct mst_slot *slot,
                               const struct mst_worker *worker,
                               uint32_t cluster, enum mst_loss_kind kind,
                               const char *words);

#endif
