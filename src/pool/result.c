// Results of tasks as jobs of others. The contract is in result.h.
#include "pool/result.h"

#include <stdlib.h>

#include "base/mst_assert.h"
#include "base/mst_fault.h"

// A task waits for a result.
struct mst_need {
  struct mst_call *task;
  struct mst_need *next; // of the same result
  struct mst_need **at;  // where the result's list points here; NULL: it is met
};

// ---- the bytes

// take_segment: -MST_ESYS or -MST_EMEM if the system has none.
static int take_segment(struct mst_map *map, struct mst_segment *segment) {
  if (map == NULL || mst_map_is_lost(map)) return -MST_EMEM;
  if (map->fd < 0) return mst_segment_copy(map, segment, NULL);
  mst_segment_adopt(segment, map);
  return 0;
}

static int has_value(const struct mst_call *source) {
  return source->state == MST_CALL_DONE &&
         (source->flags & MST_FLAG_ERROR) == 0;
}

// bytes_of gives a done task's answer as a job has it: its segment's size, if it has one, and then
// R's bytes. NULL if it is an error, can't be read, or memory is short.
static struct mst_blob *bytes_of(const struct mst_call *source) {
  const int has_segment = (source->flags & MST_FLAG_SEGMENT) != 0;
  const size_t skip = mst_value_skip(source->flags);
  if (!has_value(source) || source->value_bytes < skip ||
      mst_fault("result.bytes")) {
    return NULL;
  }
  const size_t from = has_segment ? skip - MST_SEGMENT_BYTES : skip;
  struct mst_blob *blob = mst_blob_new();
  if (blob == NULL) return NULL;
  if (mst_buf_append(&blob->buf, source->value + from,
                     source->value_bytes - from) != 0 ||
      (has_segment && take_segment(source->map, &blob->segment) != 0)) {
    mst_blob_release(blob);
    return NULL;
  }
  return blob;
}

// ---- needs

static int is_needed(const struct mst_job *job) {
  return job->state != MST_JOB_HAS_BYTES;
}

static void unlink_need(struct mst_need *need) {
  if (need->at == NULL) return;
  *need->at = need->next;
  if (need->next != NULL) need->next->at = need->at;
  need->at = NULL;
}

// become_ready: the task goes on, or fails for its cause.
static void become_ready(struct mst_call *task) {
  mst_needs_end(task);
  task->held = MST_HELD_READY;
  mst_call_link(&task->tally->ready, task);
}

// fail_for: a task that needs the result of `source` won't get it.
static void fail_for(struct mst_call *task, struct mst_call *source) {
  if (task->cause != NULL || source == NULL) return;
  task->cause = source->cause != NULL ? source->cause : source;
  task->cause->refs++;
}

static void meet(struct mst_need *need, const struct mst_job *result) {
  struct mst_call *task = need->task;
  unlink_need(need);
  task->waits--;
  if (result->state == MST_JOB_UNMET) fail_for(task, result->of);
  if (task->waits == 0 || task->cause != NULL) become_ready(task);
}

// member gives the k-th of the jobs that a task needs, or NULL after the last.
static struct mst_job *member(struct mst_job *job, uint32_t k) {
  if (job == NULL) return NULL;
  if (job->member_count > 0)
    return k < job->member_count ? job->members[k] : NULL;
  return k == 0 ? job : NULL;
}

int mst_needs_begin(struct mst_call *task) {
  struct mst_job *job;
  uint32_t count = 0;
  for (uint32_t k = 0; (job = member(task->job, k)) != NULL; k++)
    count += (uint32_t)is_needed(job);
  if (count == 0) return 0;
  task->needs =
      mst_fault("result.needs") ? NULL : calloc(count, sizeof *task->needs);
  if (task->needs == NULL) return -MST_EMEM;
  task->held = MST_HELD_WAITING;
  mst_call_link(&task->tally->waiting, task);
  for (uint32_t k = 0; (job = member(task->job, k)) != NULL; k++) {
    if (!is_needed(job)) continue;
    struct mst_need *need = &task->needs[task->waits++];
    *need = (struct mst_need){.task = task, .next = job->needs};
    need->at = &job->needs;
    if (need->next != NULL) need->next->at = &need->next;
    job->needs = need;
    if (job->state == MST_JOB_UNMET) fail_for(task, job->of);
  }
  task->need_count = task->waits;
  if (task->cause != NULL) become_ready(task);
  return 0;
}

void mst_needs_end(struct mst_call *task) {
  if (task->held == MST_HELD_NOT) return;
  mst_call_unlink(task->held == MST_HELD_READY ? &task->tally->ready
                                               : &task->tally->waiting,
                  task);
  for (uint32_t i = 0; i < task->need_count; i++)
    unlink_need(&task->needs[i]);
  free(task->needs);
  task->needs = NULL;
  task->need_count = task->waits = 0;
  task->held = MST_HELD_NOT;
}

// ---- results

void mst_result_settle(struct mst_call *source) {
  struct mst_job *result = source->result;
  if (result == NULL || result->state != MST_JOB_AWAITED) return;
  result->bytes = bytes_of(source);
  result->state = result->bytes == NULL ? MST_JOB_UNMET : MST_JOB_HAS_BYTES;
  if (source->map != NULL) mst_map_forget(source->map);
  while (result->needs != NULL)
    meet(result->needs, result);
}

struct mst_job *mst_result_hold(struct mst_jobs *jobs,
                                struct mst_call *source) {
  if (source->result == NULL) {
    struct mst_job *job = mst_job_reserve(jobs);
    if (job == NULL) return NULL;
    job->of = source;
    job->home = &source->result;
    source->result = job;
    if (mst_call_is_done(source)) mst_result_settle(source);
    if (job->state == MST_JOB_UNMET && has_value(source)) {
      mst_job_release(job); // not for ever: there may be room later
      return NULL;
    }
  } else {
    source->result->refs++;
  }
  return source->result;
}

void mst_result_orphan(struct mst_call *source) {
  if (source->result == NULL) return;
  source->result->of = NULL;
  source->result->home = NULL;
  source->result = NULL;
}

// ---- for tests

static const char *check_waiting(const struct mst_call *task) {
  uint32_t open = 0;
  if (task->held != MST_HELD_WAITING || task->state != MST_CALL_QUEUED)
    return "a task that waits and doesn't";
  for (uint32_t i = 0; i < task->need_count; i++) {
    const struct mst_need *need = &task->needs[i];
    open += need->at != NULL;
    if (need->at != NULL && (*need->at != need || need->task != task))
      return "a list of needs is broken";
  }
  if (open != task->waits) return "the count of needs";
  return open > 0 && task->cause == NULL ? NULL : "a task waits for nothing";
}

const char *mst_needs_check(const struct mst_tally *tally) {
  const char *what = NULL;
  for (const struct mst_call *at = tally->waiting; what == NULL && at != NULL;
       at = at->next)
    what = check_waiting(at);
  for (const struct mst_call *at = tally->ready; what == NULL && at != NULL;
       at = at->next) {
    if (at->held != MST_HELD_READY || at->state != MST_CALL_QUEUED)
      what = "a task that is ready and isn't";
  }
  return what;
}
