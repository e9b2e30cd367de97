// Workers and their hosts: launches that wait for one, and workers that move to the next. When a
// host is asked for, and when it is left, is decided by sched/site.h.
#include <errno.h>
#include <stdlib.h>

#include "base/mst_err.h"
#include "pool/calls_int.h"

// Launches asked for at once, of those that waited for a host: the pool's window doesn't count
// them.
#define JOINING_MOST 32u

int mst_calls_split(struct mst_calls *calls, const uint32_t *workers,
                    uint32_t count) {
  struct mst_site *sites = calloc(count, sizeof *sites);
  if (sites == NULL) return -MST_EMEM;
  uint32_t i = 0;
  for (uint32_t g = 0; g < count; g++) {
    sites[g] = calls->sites[0];
    for (uint32_t k = 0; k < workers[g]; k++)
      calls->pool.workers[i++]->site = &sites[g];
  }
  free(calls->sites);
  calls->sites = sites;
  calls->site_count = count;
  return 0;
}

static void pend(struct mst_calls *calls, struct mst_worker *worker) {
  worker->site->pending += !worker->pends;
  worker->pends = 1;
  worker->link = 0;
  mst_calls_tell_pool(calls, MST_EV_PENDING, worker->mailbox.worker);
  mst_worker_hand_back(calls, worker);
}

enum mst_do mst_worker_place(struct mst_calls *calls,
                             struct mst_worker *worker) {
  if (!worker->awaited) return 0; // it won't be launched any more
  if (mst_site_waits(worker->site) || worker->kill_ns != NEVER) {
    pend(calls, worker);
    return MST_DO_PEND;
  }
  // A checkpoint may have ended while the launch waited. It is where it was made.
  worker->from_checkpoint = worker->journal.checkpoint;
  worker->link =
      worker->from_checkpoint ? worker->standby_link : worker->site->link;
  if (worker->link != 0 && worker->site->moved >= worker->link)
    worker->site->moved = worker->link - 1; // it has to leave, too
  return MST_DO_LAUNCH;
}

// ---- hosts that have come, or won't

static int is_joining(const struct mst_worker *worker) {
  return worker->queued && !worker->pends && worker->awaited &&
         (worker->state == MST_WORKER_PENDING ||
          worker->state == MST_WORKER_STARTING ||
          worker->state == MST_WORKER_RESTARTING);
}

static uint32_t count_joining(const struct mst_calls *calls,
                              const struct mst_site *site) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    const struct mst_worker *worker = calls->pool.workers[i];
    n += worker->site == site && is_joining(worker);
  }
  return n;
}

static void pend_no_more(struct mst_worker *worker) {
  worker->pends = 0;
  worker->site->pending--;
}

// look_at_pending takes back the launches of workers that must end, or whose host won't come, and
// gives those whose host has come.
static void look_at_pending(struct mst_calls *calls, struct mst_site *site) {
  uint32_t joining = count_joining(calls, site);
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    struct mst_worker *worker = calls->pool.workers[i];
    if (worker->site != site || !worker->pends) continue;
    if (worker->kill_ns != NEVER || site->is == MST_SITE_LOST) {
      const struct mst_event failed = {
          .kind = MST_EV_LAUNCH_FAILED, .worker = i, .number = ENOENT};
      pend_no_more(worker);
      mst_calls_event(calls, &failed, calls->now_ns);
    } else if (!mst_site_waits(site) && joining < JOINING_MOST) {
      pend_no_more(worker);
      mst_due_add(&calls->pool.due, worker, MST_DO_LAUNCH);
      joining++;
    }
  }
}

// ---- hosts that are left

static int leaves(const struct mst_worker *worker) {
  return worker->awaited && worker->link != 0 &&
         worker->link <= worker->site->left;
}

static void move(struct mst_calls *calls, struct mst_site *site) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < calls->pool.count; i++) {
    if (calls->pool.workers[i]->site != site || !leaves(calls->pool.workers[i]))
      continue;
    mst_calls_move(calls, i, calls->now_ns);
    left++;
  }
  if (left == 0) site->moved = site->left;
}

void mst_calls_look_at_sites(struct mst_calls *calls, int64_t now_ns) {
  calls->now_ns = now_ns;
  for (uint32_t g = 0; g < calls->site_count; g++) {
    struct mst_site *site = &calls->sites[g];
    if (site->pending > 0) look_at_pending(calls, site);
    if (site->moved < site->left) move(calls, site);
  }
}
