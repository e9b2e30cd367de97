// pool/task: calls that wait in a queue for whichever worker is free, and whose
// answers are kept as bytes until they are asked for.
//
// A task belongs to its cluster until it is done, and to whoever holds a reference.
// It goes to a worker as a call like any other (peer.c), so it heals like any other;
// its answer is taken from the channel as soon as it is whole. Each worker has at most
// MST_TASK_DEPTH calls, one to evaluate and one that it finds when it is done with
// that, so it never waits for the session.
#ifndef MST_POOL_TASK_H
#define MST_POOL_TASK_H

#include <stdint.h>

#include "pool/run.h"

#define MST_TASK_DEPTH 2u

enum mst_task_state {
  MST_TASK_QUEUED,
  MST_TASK_SENT,
  MST_TASK_DONE,     // answered: flags and answer
  MST_TASK_LOST,     // it will not be answered: loss
  MST_TASK_CANCELLED // nobody wanted it any more
};

struct mst_task {
  struct mst_task *next; // in the cluster's queue
  struct mst_cluster *cluster;
  enum mst_task_state state;
  uint32_t refs;
  uint64_t id;              // counts up in a session
  struct mst_blob *payload; // NULL once it is sent
  struct mst_job *job; // that it needs, NULL for none. A reference until done
  int32_t retries;     // -1: the cluster's
  int64_t timeout_ns;  // of its evaluation; 0: the cluster's
  uint8_t *allowed;    // by worker: 1 if it may get this; NULL: any. Owned
  uint32_t allowed_count;
  struct mst_peer *peer; // that has it, while SENT
  uint64_t call;         // there
  uint16_t flags;        // of its answer
  struct mst_buf answer; // payload of VALUE
  struct mst_map *map;   // its segment, NULL if none; a reference
  uint32_t worker;       // that answered
  struct mst_loss *loss; // owned
  int64_t sent_ns, done_ns;
};

// What sets a task apart from others.
struct mst_task_terms {
  struct mst_job *job; // that must be at its worker before it, NULL for none
  int32_t retries;     // -1: the cluster's
  int64_t timeout_ns;  // 0: the cluster's
};

// mst_task_submit queues a call and sends what can be sent. References to the payload
// and the job are taken, `allowed` is taken over. NULL without memory.
struct mst_task *mst_task_submit(struct mst_cluster *cluster,
                                 struct mst_blob *payload, uint8_t *allowed,
                                 uint32_t allowed_count,
                                 const struct mst_task_terms *terms);
// mst_task_release drops a reference. A task that nobody refers to is evaluated all
// the same, and its answer dropped.
void mst_task_release(struct mst_task *task);
// mst_task_cancel takes a task from the queue, or has its worker interrupt it. 1 if
// that was in time, 0 if it is done.
int mst_task_cancel(struct mst_task *task);

// mst_tasks_dispatch gives queued tasks to workers that have room.
void mst_tasks_dispatch(struct mst_cluster *cluster);
// mst_task_answered takes the answer of a task's call; the frame is in the channel.
void mst_task_answered(struct mst_task *task, struct mst_peer *peer,
                       const struct mst_frame *frame);
// mst_task_failed: its call will not be answered. Takes the loss over.
void mst_task_failed(struct mst_task *task, struct mst_loss *loss);
// mst_jobs_trim lets go of jobs that are too many to be kept, here and in the workers.
void mst_jobs_trim(struct mst_cluster *cluster);
// mst_tasks_end ends all tasks of a cluster that is going.
void mst_tasks_end(struct mst_cluster *cluster);

#endif
