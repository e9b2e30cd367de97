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

// ---- packages under pkgload::load_all()

// list of one: their namespaces, preserved. An address that is held isn't another's.
static SEXP dev;

// registry gives the environment of all namespaces, by name, which is always the same.
static SEXP registry(void) {
  static SEXP spaces;
  if (spaces == NULL) {
    SEXP inner = PROTECT(Rf_lang1(Rf_install("getNamespaceRegistry")));
    SEXP call = PROTECT(Rf_lang2(Rf_install(".Internal"), inner));
    spaces = Rf_eval(call, R_BaseEnv);
    R_PreserveObject(spaces);
    UNPROTECT(2);
  }
  return spaces;
}

// dev_now gives the namespaces of packages under load_all(). Allocates.
static SEXP dev_now(void) {
  static SEXP pkgload, mark;
  SEXP spaces = registry();
  if (ffi_binding(spaces, ffi_symbol(&pkgload, "pkgload")) == R_UnboundValue)
    return R_NilValue;
  SEXP names = PROTECT(R_lsInternal3(spaces, TRUE, FALSE));
  SEXP found = PROTECT(Rf_allocVector(VECSXP, Rf_xlength(names)));
  int n = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP space = ffi_binding(spaces, Rf_installTrChar(STRING_ELT(names, i)));
    if (TYPEOF(space) == ENVSXP &&
        ffi_binding(space, ffi_symbol(&mark, ".__DEVTOOLS__")) !=
            R_UnboundValue)
      SET_VECTOR_ELT(found, n++, space);
  }
  SEXP some = n == 0 ? R_NilValue : Rf_lengthgets(found, n);
  UNPROTECT(2);
  return some;
}

static int same_spaces(SEXP one, SEXP other) {
  if (Rf_xlength(one) != Rf_xlength(other)) return 0;
  for (R_xlen_t i = 0; i < Rf_xlength(one); i++) {
    if (VECTOR_ELT(one, i) != VECTOR_ELT(other, i)) return 0;
  }
  return 1;
}

// note_dev tells whether they have changed, and notes them.
static int note_dev(void) {
  if (dev == NULL) {
    dev = Rf_allocVector(VECSXP, 1);
    R_PreserveObject(dev);
  }
  SEXP now = PROTECT(dev_now());
  const int same = same_spaces(now, VECTOR_ELT(dev, 0));
  if (!same) SET_VECTOR_ELT(dev, 0, now);
  UNPROTECT(1);
  return !same;
}

// What is noted is older than what R code then finds, if that changes meanwhile.
void ffi_context_look(void) {
  const int other_dev = note_dev();
  if (context.known && !other_dev && !ffi_surroundings_changed(&context.around))
    return;
  context.known = 0; // until all of it is
  ffi_surroundings_note(&context.around);
  SEXP content = PROTECT(ffi_call_ours(FFI_CONTEXT_NOW, NULL));
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
    struct mst_job *job = mst_jobs_hold(&cluster->calls.jobs, context.bytes);
    if (job == NULL) return NULL;
    mst_job_release(cluster->context);
    cluster->context = job;
    cluster->context_version = context.version;
  }
  return cluster->context;
}
