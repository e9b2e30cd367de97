// Jobs: bytes by number. The contract is in job.h.
#include "pool/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "base/mst_hash.h"

static struct mst_job *take_out(struct mst_job **at) {
  struct mst_job *job = *at;
  *at = job->next;
  job->next = NULL;
  return job;
}

static void put_first(struct mst_jobs *jobs, struct mst_job *job) {
  job->next = jobs->first;
  jobs->first = job;
}

static void put_result(struct mst_job **list, struct mst_job *job) {
  job->next = *list;
  job->at = list;
  if (job->next != NULL) job->next->at = &job->next;
  *list = job;
}

static void take_result(struct mst_job *job) {
  *job->at = job->next;
  if (job->next != NULL) job->next->at = job->at;
  job->next = NULL;
  job->at = NULL;
}

static int has_bytes(const struct mst_job *job, uint64_t hash,
                     const struct mst_blob *bytes) {
  const struct mst_buf *own = &job->bytes->buf, *other = &bytes->buf;
  return job->hash == hash && own->len == other->len &&
         (own->len == 0 || memcmp(own->data, other->data, own->len) == 0) &&
         mst_segment_equal(&job->bytes->segment, &bytes->segment);
}

struct mst_job *mst_jobs_hold(struct mst_jobs *jobs, struct mst_blob *bytes) {
  const uint64_t hash = mst_hash(bytes->buf.data, bytes->buf.len);
  struct mst_job **at = &jobs->first;
  while (*at != NULL && !has_bytes(*at, hash, bytes))
    at = &(*at)->next;
  struct mst_job *job = *at;
  if (job != NULL) {
    (void)take_out(at);
  } else {
    job = calloc(1, sizeof *job);
    if (job == NULL) return NULL;
    job->jobs = jobs;
    job->bytes = bytes;
    bytes->refs++;
    job->hash = hash;
    job->id = ++jobs->last_id;
  }
  put_first(jobs, job);
  job->refs++;
  return job;
}

struct mst_job *mst_job_reserve(struct mst_jobs *jobs) {
  struct mst_job *job = calloc(1, sizeof *job);
  if (job == NULL) return NULL;
  job->jobs = jobs;
  job->is_result = 1;
  job->state = MST_JOB_AWAITED;
  job->id = ++jobs->last_id;
  job->refs = 1;
  put_result(&jobs->results, job);
  return job;
}

int mst_job_group(struct mst_job *const *jobs, uint32_t count,
                  struct mst_job **out) {
  *out = count == 1 ? jobs[0] : NULL;
  if (count > 1) {
    struct mst_job *group = calloc(1, sizeof *group + count * sizeof *jobs);
    if (group == NULL) return -MST_EMEM;
    for (uint32_t i = 0; i < count; i++) {
      group->members[i] = jobs[i];
      mst_job_keep(jobs[i]);
    }
    group->member_count = count;
    *out = group;
  }
  mst_job_keep(*out);
  return 0;
}

void mst_job_keep(struct mst_job *job) {
  if (job != NULL) job->refs++;
}

static void free_job(struct mst_job *job) {
  MST_ASSERT(job->refs == 0);
  for (uint32_t i = 0; i < job->member_count; i++)
    mst_job_release(job->members[i]);
  mst_blob_release(job->bytes);
  free(job->sent);
  free(job);
}

// end_result: workers should forget it. While a journal has it, later calls get it, too.
static void end_result(struct mst_job *job) {
  if (job->refs == 0 && job->home != NULL) *job->home = NULL;
  if (job->refs == 0) job->home = NULL;
  if (job->at == NULL) return; // the workers are being told
  take_result(job);
  put_result(&job->jobs->over, job);
}

void mst_job_release(struct mst_job *job) {
  if (job == NULL) return;
  MST_ASSERT(job->refs > 0);
  if (--job->refs > 0) return;
  if (job->is_result) end_result(job);
  if (job->jobs == NULL) free_job(job);
}

void mst_job_use(struct mst_job *job) {
  if (job == NULL) return;
  for (uint32_t i = 0; i < job->member_count; i++)
    mst_job_use(job->members[i]);
  if (job->is_result) job->uses++;
}

void mst_job_unuse(struct mst_job *job) {
  if (job == NULL) return;
  for (uint32_t i = 0; i < job->member_count; i++)
    mst_job_unuse(job->members[i]);
  if (!job->is_result) return;
  MST_ASSERT(job->uses > 0);
  if (--job->uses == 0 && job->state == MST_JOB_HAS_BYTES) end_result(job);
}

size_t mst_job_result_bytes(const struct mst_job *job) {
  size_t bytes = 0;
  if (job == NULL) return 0;
  for (uint32_t i = 0; i < job->member_count; i++)
    bytes += mst_job_result_bytes(job->members[i]);
  return job->is_result && job->bytes != NULL
             ? bytes + mst_blob_bytes(job->bytes)
             : bytes;
}

int mst_job_note(struct mst_job *job, uint32_t worker, uint32_t epoch) {
  if (worker >= job->sent_count) {
    const uint32_t count = worker + 1;
    uint32_t *sent = realloc(job->sent, count * sizeof *sent);
    if (sent == NULL) return -MST_EMEM;
    memset(sent + job->sent_count, 0, (count - job->sent_count) * sizeof *sent);
    job->sent = sent;
    job->sent_count = count;
  }
  job->sent[worker] = epoch + 1;
  return 0;
}

struct mst_job *mst_job_missing(struct mst_job *job, uint32_t worker,
                                uint32_t epoch) {
  if (job == NULL) return NULL;
  for (uint32_t i = 0; i < job->member_count; i++)
    if (!mst_job_is_at(job->members[i], worker, epoch)) return job->members[i];
  const int is_group = job->member_count > 0;
  return is_group || mst_job_is_at(job, worker, epoch) ? NULL : job;
}

void mst_job_again(struct mst_job *job, uint32_t worker) {
  for (uint32_t i = 0; i < job->member_count; i++)
    mst_job_again(job->members[i], worker);
  if (worker < job->sent_count && job->sent[worker] != 0)
    job->sent[worker] |= MST_JOB_AGAIN;
}

int mst_job_is_at(const struct mst_job *job, uint32_t worker, uint32_t epoch) {
  return worker < job->sent_count && job->sent[worker] == epoch + 1;
}

int mst_job_was_sent(const struct mst_job *job, uint32_t worker,
                     uint32_t epoch) {
  return worker < job->sent_count &&
         (job->sent[worker] & ~MST_JOB_AGAIN) == epoch + 1;
}

struct mst_job *mst_jobs_surplus(struct mst_jobs *jobs) {
  struct mst_job *over = jobs->over;
  if (over != NULL) {
    take_result(over);
    over->refs++; // the caller's
    return over;
  }
  struct mst_job **oldest = NULL;
  size_t bytes = 0;
  uint32_t idle = 0;
  for (struct mst_job **at = &jobs->first; *at != NULL; at = &(*at)->next) {
    if ((*at)->refs > 0) continue;
    oldest = at;
    idle++;
    bytes += mst_blob_bytes((*at)->bytes);
  }
  if (idle <= MST_JOBS_KEPT && bytes <= MST_JOBS_BYTES) return NULL;
  struct mst_job *job = take_out(oldest);
  job->jobs = NULL;
  return job;
}

void mst_job_forget(struct mst_job *job, uint32_t worker) {
  job->sent[worker] = 0;
}

void mst_job_forgotten(struct mst_job *job) {
  if (!job->is_result) {
    free_job(job);
  } else if (--job->refs == 0) {
    free_job(job);
  } else {
    put_result(&job->jobs->results, job); // journals have it, or a call again
  }
}

void mst_jobs_free(struct mst_jobs *jobs) {
  struct mst_job *result;
  while ((result = jobs->results != NULL ? jobs->results : jobs->over) !=
         NULL) {
    take_result(result);
    result->jobs = NULL;
    if (result->refs == 0) free_job(result);
  }
  while (jobs->first != NULL) {
    struct mst_job *job = take_out(&jobs->first);
    job->jobs = NULL;
    if (job->refs == 0) free_job(job);
  }
}
