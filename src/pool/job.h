// pool/job: bytes that several calls need and that each worker is sent once. Pure: no socket, no
// clock, no R. Only the thread that has the session may use this.
//
// A job belongs to a cluster and has a number; equal bytes make the same job. It records which
// incarnation of each worker it was sent to: a worker that comes back is sent it again with the
// first call that needs it, and nothing has to be reset. Jobs in use stay. Of the others, those
// used last are kept for later calls with the same function: up to MST_JOBS_KEPT of them and
// MST_JOBS_BYTES.
//
// A call that needs several jobs has a group: a job without bytes and number, in no list.
//
// A job may also be the result of a task, which has its number before its bytes: see result.h.
// Workers needn't have it any longer than calls need it; journals may keep it.
#ifndef MST_POOL_JOB_H
#define MST_POOL_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "share/blob.h"

#define MST_JOBS_KEPT 8u
#define MST_JOBS_BYTES ((size_t)256 << 20)

struct mst_call;
struct mst_need;

#define MST_JOB_AGAIN (1u << 31)

enum mst_job_state {
  MST_JOB_HAS_BYTES, // or is a group
  MST_JOB_AWAITED,   // a result, whose task isn't over
  MST_JOB_UNMET      // a result that won't come
};

struct mst_job {
  struct mst_job *next;  // the one used before this one
  struct mst_job **at;   // of a result: where its list points to it
  struct mst_jobs *jobs; // its list; NULL once that is freed
  // R bytes and their segment; a reference. NULL: a group, or a result without them.
  struct mst_blob *bytes;
  struct mst_call
      *of; // the task whose result it is; NULL for others, or if that is freed
  struct mst_job **home;  // where that task points to it
  struct mst_need *needs; // of tasks that wait for it
  uint64_t id;            // from 1, never used again in its list
  uint64_t hash;
  uint32_t refs; // from calls, journals and R's pointers
  // By worker: 1 + the epoch that it was sent to, 0: none; MST_JOB_AGAIN: it must be sent again.
  uint32_t *sent;
  uint32_t sent_count;
  uint32_t member_count;
  uint32_t uses; // of a result: by calls that aren't over
  uint8_t is_result;
  uint8_t state;             // enum mst_job_state
  struct mst_job *members[]; // of a group; a reference to each
};

struct mst_jobs {
  struct mst_job *first;   // the one used last
  struct mst_job *results; // in use
  struct mst_job
      *over; // results that nobody needs any more; workers still have them
  uint64_t last_id;
};

// mst_jobs_hold gives the job with these bytes, or a new one, and counts a reference for the
// caller. A new job takes a reference to the bytes. NULL if memory is short. Cost: one pass over
// the bytes, two if they are known.
struct mst_job *mst_jobs_hold(struct mst_jobs *jobs, struct mst_blob *bytes);
// mst_job_reserve makes a job of its own number without bytes, with a reference for the caller: a
// result that is awaited. NULL if memory is short.
struct mst_job *mst_job_reserve(struct mst_jobs *jobs);
// mst_job_group gives one job that stands for all of these, with a reference for the caller: the
// job itself if there is only one, NULL in *out if there is none. 0, or -MST_EMEM.
int mst_job_group(struct mst_job *const *jobs, uint32_t count,
                  struct mst_job **out);
// mst_job_keep counts one more reference; mst_job_release drops one, and frees a job without
// references whose list is gone. NULL is allowed for both.
void mst_job_keep(struct mst_job *job);
void mst_job_release(struct mst_job *job);
// mst_job_use: a call needs the results among these jobs; mst_job_unuse: it is over. A result with
// bytes that no call needs, and one without references, leaves its task: it is made anew for
// others. NULL is allowed for both.
void mst_job_use(struct mst_job *job);
void mst_job_unuse(struct mst_job *job);
// mst_job_result_bytes gives the size of the results among these jobs. NULL is allowed.
size_t mst_job_result_bytes(const struct mst_job *job);

// mst_job_missing gives a job (this one, or one of the group) that an incarnation wasn't sent, or
// NULL.
struct mst_job *mst_job_missing(struct mst_job *job, uint32_t worker,
                                uint32_t epoch);
// mst_job_note records that an incarnation was sent the job. 0, or -MST_EMEM.
int mst_job_note(struct mst_job *job, uint32_t worker, uint32_t epoch);
// mst_job_again: the job, or the whole group, must be sent to this worker again if it is needed.
void mst_job_again(struct mst_job *job, uint32_t worker);
// mst_job_is_at tells whether an incarnation was sent the job, and needn't be again;
// mst_job_was_sent whether it must be told to forget it.
int mst_job_is_at(const struct mst_job *job, uint32_t worker, uint32_t epoch);
int mst_job_was_sent(const struct mst_job *job, uint32_t worker,
                     uint32_t epoch);

// mst_jobs_surplus takes a job that workers should forget from the list: a result that no call
// needs, or another without references if there are more than are kept. NULL if there is none. The
// caller tells the workers, with mst_job_forget for each, then calls mst_job_forgotten, which frees
// the job unless somebody still refers to it.
struct mst_job *mst_jobs_surplus(struct mst_jobs *jobs);
void mst_job_forget(struct mst_job *job, uint32_t worker);
void mst_job_forgotten(struct mst_job *job);
// mst_jobs_free empties the list. Jobs with references live on until the last one is released.
void mst_jobs_free(struct mst_jobs *jobs);

#endif
