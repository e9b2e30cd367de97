// pool/recover: decides what follows from the loss of a worker: who killed it, which call is to
// blame, whether and when another incarnation comes. Pure: facts and the time go in, a verdict
// comes out.
//
// The functions here change what the record (worker.h) knows of losses, neither its life nor its
// mailbox.
#ifndef MST_POOL_RECOVER_H
#define MST_POOL_RECOVER_H

#include <stdint.h>

#include "pool/loss.h"
#include "pool/worker.h"
#include "sched/heal.h"

// A cancelled call has this long to end after its interrupt; then its worker ends itself.
#define MST_CANCEL_GRACE_MS 1000u
// A launch that failed because descriptors, processes or memory were short is retried after this
// long, then after twice as long, and so on, MST_SHORT_TRIES times (13 s in all).
#define MST_SHORT_PAUSE_NS (50 * MST_NS_PER_MS)
#define MST_SHORT_TRIES 8u

// What the session knows of an end.
struct mst_judged {
  char *words; // its last output, or NULL
  // Where it was, unless on this machine, and the number of its job, or NULL.
  const char *host, *job;
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

// mst_recover_judge tells what follows from the end of a worker. ends: the worker or its
// cluster shouldn't go on. It disregards cancelled calls: the caller drops these before it carries
// out the verdict.
struct mst_verdict mst_recover_judge(struct mst_worker *worker,
                                     const struct mst_heal_policy *policy,
                                     const struct mst_judged *judged, int ends,
                                     int64_t now_ns);

// mst_worker_fail notes what was wrong with a worker, mst_worker_fail_told a text about it; the
// first note counts. The latter allocates: if memory is short the text is missing.
// mst_worker_forget_why clears both for the next incarnation.
void mst_worker_fail(struct mst_worker *worker, enum mst_why why);
void mst_worker_fail_told(struct mst_worker *worker, const char *text);
void mst_worker_forget_why(struct mst_worker *worker);
// mst_worker_lost_state tells why a worker's state can't be restored.
enum mst_why mst_worker_lost_state(const struct mst_worker *worker);
// mst_worker_loss describes how this incarnation ended. known may be NULL. Allocates. NULL if
// memory is short: then nobody is told, and all else goes on.
struct mst_loss *mst_worker_loss(const struct mst_worker *worker,
                                 uint32_t cluster, enum mst_loss_kind kind,
                                 const struct mst_judged *known);

#endif
