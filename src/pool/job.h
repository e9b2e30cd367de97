// pool/job: bytes that several calls need, and that each worker is sent once. Pure: no
// socket, no clock, no R. One thread at a time: whoever has the session.
//
// A job belongs to a cluster and is known by its number; the same bytes are the same
// job. Each remembers which incarnation of each worker it was sent to, so one that comes
// back is sent it again with the first call that needs it, and there is nothing to clear.
// Those in use stay; of the others the ones that were used last are kept, so that the
// next call with the same function finds it: MST_JOBS_KEPT of them and MST_JOBS_BYTES.
//
// A call that needs several has a group instead: a job without bytes and number, in no list.
#ifndef MST_POOL_JOB_H
#define MST_POOL_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "share/blob.h"

#define MST_JOBS_KEPT 8u
#define MST_JOBS_BYTES ((size_t)256 << 20)

struct mst_job {
  struct mst_job *next;  // used before this one
  struct mst_jobs *jobs; // where it is listed, NULL once that is gone
  struct mst_blob
      *bytes;  // R bytes, and their segment; a reference. NULL: a group
  uint64_t id; // from 1, never used again in its list
  uint64_t hash;
  uint32_t refs;  // calls, journals and R's pointers that need it
  uint32_t *sent; // by worker: 1 + the epoch that was sent it, 0 for none
  uint32_t sent_count;
  uint32_t member_count;
  struct mst_job *members[]; // of a group; a reference to each
};

struct mst_jobs {
  struct mst_job *first; // used last
  uint64_t last_id;
};

// mst_jobs_hold gives the job with these bytes, a new one if there is none, and counts a
// reference for the caller. It takes a reference to the bytes of a new one. NULL
// without memory. Cost: one pass over the bytes, two if they are known.
struct mst_job *mst_jobs_hold(struct mst_jobs *jobs, struct mst_blob *bytes);
// mst_job_group gives what stands for all of these jobs, with a reference for the caller: the job
// itself if it is one, NULL in *out if there are none. 0, or -MST_EMEM.
int mst_job_group(struct mst_job *const *jobs, uint32_t count,
                  struct mst_job **out);
// mst_job_keep counts one more reference; mst_job_release drops one and frees a job whose
// list is gone. NULL is allowed for both.
void mst_job_keep(struct mst_job *job);
void mst_job_release(struct mst_job *job);

// mst_job_missing gives a job, it or one of the group, that an incarnation wasn't sent, else NULL.
struct mst_job *mst_job_missing(struct mst_job *job, uint32_t worker,
                                uint32_t epoch);
// mst_job_note says that an incarnation was sent it. 0, or -MST_EMEM.
int mst_job_note(struct mst_job *job, uint32_t worker, uint32_t epoch);
// mst_job_unnote: it, or all of the group, is sent again to this worker.
void mst_job_unnote(struct mst_job *job, uint32_t worker);
int mst_job_is_at(const struct mst_job *job, uint32_t worker, uint32_t epoch);

// mst_jobs_surplus takes a job that nobody refers to out of the list if more are kept
// than may be: tell the workers, then mst_job_free it. NULL if none is too many.
struct mst_job *mst_jobs_surplus(struct mst_jobs *jobs);
void mst_job_free(struct mst_job *job);
// mst_jobs_free empties the list. Jobs with references stay until these go.
void mst_jobs_free(struct mst_jobs *jobs);

#endif
