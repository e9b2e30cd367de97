// The context of tasks: what they see of the session without naming it. Options, the working
// directory, environment variables and the locale; R/task-context.R says which of them travel.
//
// A context is a job, which each worker is sent once, and each task carries its number. So a task
// that is tried again sees what it saw the first time, whatever the session has changed since.
// Whether something has changed is judged for each task, exactly.
#include "ffi/session/session.h"

static struct {
  struct ffi_surroundings around;
  struct mst_blob *bytes; // what R/task-context.R makes of all that
  uint64_t version;       // of these bytes, from 1
  int known;              // they belong to what was noted
} context;

// What is noted is older than what R code then finds, if that changes meanwhile.
void ffi_context_look(void) {
  if (context.known && !ffi_surroundings_changed(&context.around)) return;
  context.known = 0; // until all of it is
  ffi_surroundings_note(&context.around);
  SEXP content = PROTECT(ffi_call_ours("context_now", NULL));
  struct mst_blob *bytes = ffi_blob_of(content);
  UNPROTECT(1);
  if (context.bytes != NULL && mst_blob_equal(context.bytes, bytes)) {
    mst_blob_release(bytes);
  } else {
    mst_blob_release(context.bytes);
    context.bytes = bytes;
    context.version++;
  }
  context.known = 1;
}

struct mst_job *ffi_context_hold(struct mst_cluster *cluster) {
  if (cluster->context_version != context.version) {
    struct mst_job *job =
        mst_jobs_hold(&cluster->calls.jobs, context.bytes);
    if (job == NULL) return NULL;
    mst_job_release(cluster->context);
    cluster->context = job;
    cluster->context_version = context.version;
  }
  return cluster->context;
}
