// Tasks: a queue in front of the workers. The contract is in task.h.
#include "pool/task.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mst_assert.h"
#include "pool/run_int.h"

static void unqueue_payload(struct mst_task *task) {
  if (task->payload == NULL) return;
  task->cluster->queued_bytes -= mst_blob_bytes(task->payload);
  mst_blob_release(task->payload);
  task->payload = NULL;
}

void mst_task_release(struct mst_task *task) {
  MST_ASSERT(task->refs > 0);
  if (--task->refs > 0) return;
  mst_blob_release(task->payload);
  mst_buf_free(&task->answer);
  mst_map_release(task->map);
  mst_loss_free(task->loss);
  free(task->allowed);
  free(task);
}

void mst_jobs_trim(struct mst_cluster *cluster) {
  struct mst_job *job;
  if (cluster->session->owner != getpid())
    return; // the workers are its parent's
  while ((job = mst_jobs_surplus(&cluster->jobs)) != NULL) {
    struct mst_head head = {
        .kind = MST_KIND_DROP, .cluster = cluster->id, .call = job->id};
    for (uint32_t i = 0; i < cluster->pool.count; i++) {
      struct mst_peer *peer = cluster->peers[i];
      head.worker = i;
      head.epoch = mst_peer_worker(peer)->epoch;
      if (peer->data.ended || !mst_job_is_at(job, i, head.epoch)) continue;
      (void)mst_chan_send(&peer->data, &head, NULL, NULL, 0, 0, NULL);
      if (peer->data.out_first != NULL) mst_peer_want_write(peer);
    }
    mst_job_free(job);
  }
}

// let_go of what a task needed of its cluster: its call is answered, or won't be.
static void let_go(struct mst_task *task) {
  if (task->timeout_ns > 0) task->cluster->limited--;
  task->timeout_ns = 0;
  if (task->job == NULL) return;
  mst_job_release(task->job);
  task->job = NULL;
  mst_jobs_trim(task->cluster);
}

// settle: the cluster has no more to do with it.
static void settle(struct mst_task *task, enum mst_task_state state) {
  task->state = state;
  task->done_ns = mst_clock_now();
  task->peer = NULL;
  task->cluster->session->tasks_done++;
  let_go(task);
  mst_task_release(task);
}

static int may_have(const struct mst_task *task, uint32_t worker) {
  if (task->allowed == NULL) return 1;
  return worker < task->allowed_count && task->allowed[worker];
}

// Whatever it owes counts, a verb's calls and cancelled ones too: it has to do these
// first.
static int has_room(const struct mst_peer *peer, uint32_t depth) {
  const struct mst_worker *worker = mst_peer_worker(peer);
  return mst_peer_is_up(peer) && !peer->dead && worker->stop_ns == INT64_MAX &&
         worker->owed < depth;
}

// free_peer finds the next worker with fewer than `depth` calls that may have it, in
// turns.
static struct mst_peer *free_peer(struct mst_cluster *cluster,
                                  const struct mst_task *task, uint32_t depth) {
  const uint32_t n = cluster->pool.count;
  for (uint32_t k = 0; k < n; k++) {
    const uint32_t i = (cluster->turn + k) % n;
    if (may_have(task, i) && has_room(cluster->peers[i], depth)) {
      cluster->turn = i + 1;
      return cluster->peers[i];
    }
  }
  return NULL;
}

// none_can: no worker that may have this task will ever take it.
static int none_can(const struct mst_cluster *cluster,
                    const struct mst_task *task) {
  for (uint32_t i = 0; i < cluster->pool.count; i++) {
    const struct mst_peer *peer = cluster->peers[i];
    if (may_have(task, i) && !peer->dead &&
        mst_peer_worker(peer)->stop_ns == INT64_MAX) {
      return 0;
    }
  }
  return 1;
}

static void take_first(struct mst_cluster *cluster, struct mst_task **at) {
  struct mst_task *task = *at;
  *at = task->next;
  if (cluster->last_task == task) {
    cluster->last_task = cluster->first_task;
    while (cluster->last_task != NULL && cluster->last_task->next != NULL) {
      cluster->last_task = cluster->last_task->next;
    }
  }
  task->next = NULL;
  cluster->queued--;
}

static void send_task(struct mst_task *task, struct mst_peer *peer) {
  struct mst_blob *payload = task->payload;
  payload->refs++;
  unqueue_payload(task);
  task->state = MST_TASK_SENT;
  task->peer = peer;
  task->sent_ns = mst_clock_now();
  task->call = peer->calls + 1;
  if (mst_peer_send_task(peer, payload, task) != 0) {
    task->peer = NULL;
    settle(task, MST_TASK_LOST);
  }
  mst_blob_release(payload);
}

void mst_tasks_dispatch(struct mst_cluster *cluster) {
  for (uint32_t depth = 1; depth <= MST_TASK_DEPTH; depth++) {
    struct mst_task **at = &cluster->first_task;
    uint32_t passed = 0;
    // A task for certain workers only must not hold up those behind it for long.
    while (*at != NULL && passed < 64) {
      struct mst_task *task = *at;
      struct mst_peer *peer = free_peer(cluster, task, depth);
      if (peer == NULL && none_can(cluster, task)) {
        take_first(cluster, at);
        unqueue_payload(task);
        settle(task, MST_TASK_LOST);
        continue;
      }
      if (peer == NULL) {
        if (task->allowed == NULL) break;
        at = &task->next;
        passed++;
        continue;
      }
      take_first(cluster, at);
      send_task(task, peer);
    }
  }
}

struct mst_task *mst_task_submit(struct mst_cluster *cluster,
                                 struct mst_blob *payload, uint8_t *allowed,
                                 uint32_t allowed_count,
                                 const struct mst_task_terms *terms) {
  struct mst_task *task = calloc(1, sizeof *task);
  if (task == NULL) {
    free(allowed);
    return NULL;
  }
  task->cluster = cluster;
  task->refs = 2; // the caller's and the cluster's
  task->id = ++cluster->session->task_id;
  task->payload = payload;
  task->allowed = allowed;
  task->allowed_count = allowed_count;
  task->retries = terms->retries;
  task->timeout_ns = terms->timeout_ns;
  if (task->timeout_ns > 0) cluster->limited++;
  task->job = terms->job;
  mst_job_keep(task->job);
  payload->refs++;
  cluster->queued_bytes += mst_blob_bytes(payload);
  cluster->queued++;
  if (cluster->last_task != NULL) {
    cluster->last_task->next = task;
  } else {
    cluster->first_task = task;
  }
  cluster->last_task = task;
  mst_tasks_dispatch(cluster);
  return task;
}

void mst_task_answered(struct mst_task *task, struct mst_peer *peer,
                       const struct mst_frame *frame) {
  if (task->state != MST_TASK_SENT) { // cancelled meanwhile
    let_go(task);
    mst_task_release(task);
    return;
  }
  task->flags = frame->head.flags;
  task->worker = peer->index;
  const int kept = task->refs == 1 || // nobody will ask
                   mst_buf_append(&task->answer, frame->payload,
                                  (size_t)frame->head.length) == 0;
  if (kept && task->refs > 1) {
    task->map = mst_map_hold(mst_chan_map(&peer->data, frame));
  }
  settle(task, kept ? MST_TASK_DONE : MST_TASK_LOST);
}

void mst_task_failed(struct mst_task *task, struct mst_loss *loss) {
  if (task->state != MST_TASK_SENT) {
    mst_loss_free(loss);
    let_go(task);
    mst_task_release(task);
    return;
  }
  task->loss = loss;
  settle(task, MST_TASK_LOST);
}

int mst_task_cancel(struct mst_task *task) {
  struct mst_cluster *cluster = task->cluster;
  if (task->state == MST_TASK_QUEUED) {
    struct mst_task **at = &cluster->first_task;
    while (*at != task)
      at = &(*at)->next;
    take_first(cluster, at);
    unqueue_payload(task);
    settle(task, MST_TASK_CANCELLED);
    return 1;
  }
  if (task->state != MST_TASK_SENT) return 0;
  // Its call is answered or lost like any other; the reference goes with that.
  mst_peer_cancel_call(task->peer, task->call);
  task->state = MST_TASK_CANCELLED;
  task->done_ns = mst_clock_now();
  task->peer = NULL;
  cluster->session->tasks_done++;
  return 1;
}

void mst_tasks_end(struct mst_cluster *cluster) {
  while (cluster->first_task != NULL) {
    struct mst_task *task = cluster->first_task;
    take_first(cluster, &cluster->first_task);
    unqueue_payload(task);
    settle(task, MST_TASK_LOST);
  }
}
