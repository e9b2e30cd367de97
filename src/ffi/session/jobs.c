// Jobs as external pointers.
#include <stdlib.h>
#include <string.h>

#include "ffi/session/session.h"

static SEXP job_tag(void) {
  static SEXP tag;
  return ffi_symbol(&tag, "muster_job_pointer");
}

// What a pointer has: one reference. Its cluster may be freed before it: then the job has
// no list any more. In a forked child nothing is touched, nor in a session that was given up.
struct ref {
  struct ffi_later later;
  struct mst_job *job; // NULL before it is made
  pid_t owner;
  uint32_t failures; // ffi_session_failures() when it was made
};

static void drop_ref(struct ffi_later *item) {
  struct ref *ref = (struct ref *)(void *)item;
  if (ref->failures == ffi_session_failures()) mst_job_release(ref->job);
  free(ref);
}

static void release_pointer(SEXP pointer) {
  struct ref *ref = R_ExternalPtrAddr(pointer);
  if (ref == NULL) return;
  R_ClearExternalPtr(pointer);
  if (ref->owner != ffi_self()) return;
  ref->later.run = drop_ref;
  ffi_do_later(&ref->later);
}

// new_pointer gives a pointer without a job yet.
static SEXP new_pointer(void) {
  SEXP pointer =
      PROTECT(ffi_own(job_tag(), R_NilValue, release_pointer, NULL, 0));
  struct ref *ref = calloc(1, sizeof *ref);
  if (ref == NULL) Rf_error("no memory");
  ref->owner = ffi_self();
  ref->failures = ffi_session_failures();
  R_SetExternalPtrAddr(pointer, ref);
  UNPROTECT(1);
  return pointer;
}

struct mst_job *ffi_job_of(SEXP pointer, const struct mst_cluster *cluster) {
  const struct ref *ref = ffi_address_of(pointer, job_tag());
  struct mst_job *job = ref == NULL ? NULL : ref->job;
  return job != NULL && job->jobs == &cluster->calls.jobs ? job : NULL;
}

// ffi_job_hold makes content a job of the nodes' cluster: list(pointer, number, retries
// of the cluster, whether it heals), or an outcome. What is the same in bytes as a job
// that the cluster still has is that job. content: an object, or a raw vector: its bytes.
SEXP ffi_job_hold(SEXP nodes, SEXP content) {
  enum ffi_outcome outcome = FFI_TYPE;
  if (TYPEOF(nodes) != VECSXP || Rf_xlength(nodes) == 0 ||
      ffi_peer_of(VECTOR_ELT(nodes, 0), &outcome) == NULL) {
    return Rf_ScalarInteger((int)outcome);
  }
  SEXP pointer = PROTECT(new_pointer());
  SEXP list = PROTECT(Rf_allocVector(VECSXP, 4));
  SEXP id = SET_VECTOR_ELT(list, 1, Rf_allocVector(REALSXP, 1));
  SEXP retries = SET_VECTOR_ELT(list, 2, Rf_allocVector(INTSXP, 1));
  SEXP heals = SET_VECTOR_ELT(list, 3, Rf_allocVector(LGLSXP, 1));
  SET_VECTOR_ELT(list, 0, pointer);
  struct mst_blob *bytes = TYPEOF(content) == RAWSXP ? ffi_blob_copy(content)
                                                     : ffi_blob_whole(content);
  // Finalizers and what serializing runs may have stopped the cluster.
  struct mst_peer *peer = ffi_peer_of(VECTOR_ELT(nodes, 0), &outcome);
  struct mst_job *job =
      peer == NULL ? NULL : mst_jobs_hold(&peer->cluster->calls.jobs, bytes);
  mst_blob_release(bytes);
  UNPROTECT(2);
  if (peer == NULL) return Rf_ScalarInteger((int)outcome);
  if (job == NULL) return Rf_ScalarInteger(FFI_MEMORY);
  ((struct ref *)R_ExternalPtrAddr(pointer))->job = job;
  REAL(id)[0] = (double)job->id;
  INTEGER(retries)[0] = (int)peer->cluster->calls.policy.retries;
  LOGICAL(heals)[0] = peer->cluster->calls.policy.on;
  mst_cluster_trim(peer->cluster);
  return list;
}

// ffi_job_release lets go of a job; its cluster may keep it for the next call.
SEXP ffi_job_release(SEXP pointer) {
  if (ffi_address_of(pointer, job_tag()) != NULL) release_pointer(pointer);
  return R_NilValue;
}

// ffi_map_put puts a piece's values into the list of all results from `first` on, in
// place: a list's elements as they are, those of a vector as vectors of one.
SEXP ffi_map_put(SEXP results, SEXP first, SEXP values) {
  const R_xlen_t from = (R_xlen_t)Rf_asReal(first) - 1;
  const R_xlen_t n = Rf_xlength(values);
  if (TYPEOF(results) != VECSXP || from < 0 || from + n > Rf_xlength(results)) {
    Rf_error("a piece has more values than elements");
  }
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP value = R_NilValue;
    switch (TYPEOF(values)) {
    case VECSXP:
      value = VECTOR_ELT(values, i);
      break;
    case REALSXP:
      value = Rf_ScalarReal(REAL_ELT(values, i));
      break;
    case INTSXP:
      value = Rf_ScalarInteger(INTEGER_ELT(values, i));
      break;
    default:
      value = Rf_ScalarLogical(LOGICAL_ELT(values, i));
      break;
    }
    SET_VECTOR_ELT(results, from + i, value);
  }
  return R_NilValue;
}
