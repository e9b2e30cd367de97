// Jobs, and serialized objects for jobs, as external pointers.
#include <stdlib.h>
#include <string.h>

#include "ffi/session/session.h"

static SEXP job_tag(void) {
  static struct ffi_tag tag;
  return ffi_tag(&tag, "muster_job_pointer");
}

// What a pointer owns: one reference. If its cluster is freed first, the job has no list any more.
// In a forked child, or after the session was given up, nothing is released.
struct ref {
  struct ffi_later later;
  struct mst_job *job;    // of ffi_job_hold; NULL before it is made
  struct mst_blob *bytes; // of ffi_job_freeze; likewise
  struct ref *next;       // of those with bytes, the one made before
  pid_t owner;
  uint32_t failures; // ffi_session_failures() when it was made
};

// R doesn't see memory and descriptors behind pointers. A collection is requested when there are
// more segments than this, and twice as many as after the last one. For bytes see
// ffi_share_collect.
#define SEGMENTS_MIN 64u

static struct {
  struct ref *first; // those with bytes, newest first
  uint32_t segments; // not borrowed
  uint32_t collect_at;
} frozen = {.collect_at = SEGMENTS_MIN};

static int is_sound(const struct ref *ref) {
  return ref->owner == ffi_self() && ref->failures == ffi_session_failures();
}

// count_frozen counts what a blob owns, not what it borrows.
static void count_frozen(const struct mst_blob *blob, int sign) {
  const int owns = blob->lender == NULL;
  const size_t bytes = owns ? mst_blob_bytes(blob) : blob->buf.len;
  ffi_share_count(sign * (int64_t)bytes);
  if (owns && blob->segment.fd >= 0) frozen.segments += (uint32_t)sign;
}

static void note_frozen(struct ref *ref, struct mst_blob *bytes) {
  ref->bytes = bytes;
  ref->next = frozen.first;
  frozen.first = ref;
  count_frozen(bytes, 1);
}

static void forget_frozen(const struct ref *ref) {
  struct ref **at = &frozen.first;
  while (*at != ref)
    at = &(*at)->next;
  *at = ref->next;
  count_frozen(ref->bytes, -1);
}

static void collect_frozen(void) {
  ffi_share_collect();
  if (frozen.segments < frozen.collect_at) return;
  R_gc();
  const uint32_t twice = 2 * frozen.segments;
  frozen.collect_at = twice > SEGMENTS_MIN ? twice : SEGMENTS_MIN;
}

static void drop_ref(struct ffi_later *item) {
  struct ref *ref = (struct ref *)(void *)item;
  if (ref->bytes != NULL) forget_frozen(ref);
  if (is_sound(ref)) {
    mst_job_release(ref->job);
    mst_blob_release(ref->bytes);
  }
  free(ref);
}

static void release_pointer(SEXP pointer) {
  struct ref *ref = R_ExternalPtrAddr(pointer);
  if (ref == NULL) return;
  R_ClearExternalPtr(pointer);
  if (ref->owner != ffi_self()) return;
  ref->later.run = drop_ref;
  if (ref->bytes != NULL && ffi_depth() > 0) {
    // Other users of the bytes have references, and memory may be checked next: drop it now.
    drop_ref(&ref->later);
  } else {
    ffi_do_later(&ref->later);
  }
}

// new_pointer gives a pointer without a job.
static SEXP new_pointer(void) {
  SEXP pointer = PROTECT(ffi_own(job_tag(), R_NilValue, release_pointer, 0));
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
  return job == NULL || job->jobs != &cluster->calls.jobs ? NULL : job;
}

// borrow_frozen makes a blob share the large vectors of a frozen one if they are the same:
// functions made in one frame, or with the same globals, contain them again and again.
static void borrow_frozen(struct mst_blob *bytes) {
  const struct ref *at = frozen.first;
  while (at != NULL && !(is_sound(at) && mst_blob_borrow(bytes, at->bytes)))
    at = at->next;
}

// ffi_job_freeze gives a pointer to the current bytes of an object, for ffi_job_hold.
SEXP ffi_job_freeze(SEXP content) {
  collect_frozen();
  SEXP pointer = PROTECT(new_pointer());
  struct mst_blob *bytes = ffi_blob_whole(content);
  borrow_frozen(bytes);
  note_frozen(R_ExternalPtrAddr(pointer), bytes);
  UNPROTECT(1);
  return pointer;
}

// bytes_of gives a reference to the bytes of content, NULL for a pointer that has none any more.
static struct mst_blob *bytes_of(SEXP content) {
  if (TYPEOF(content) != EXTPTRSXP) return ffi_blob_whole(content);
  const struct ref *ref = ffi_address_of(content, job_tag());
  if (ref == NULL || !is_sound(ref) || ref->bytes == NULL) return NULL;
  ref->bytes->refs++;
  return ref->bytes;
}

// ffi_job_hold makes content a job of the nodes' cluster: list(pointer, number, the cluster's
// retries, whether it heals), or an outcome. Content with the bytes of an existing job is that job.
// content: an object, or a pointer of ffi_job_freeze.
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
  struct mst_blob *bytes = bytes_of(content);
  if (bytes == NULL) outcome = FFI_BROKEN;
  // Finalizers and serialization may have stopped the cluster.
  struct mst_peer *peer =
      bytes == NULL ? NULL : ffi_peer_of(VECTOR_ELT(nodes, 0), &outcome);
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

// ffi_job_release releases a job, or the bytes of ffi_job_freeze; NULL is allowed. The cluster may
// keep the job for the next call.
SEXP ffi_job_release(SEXP pointer) {
  if (ffi_address_of(pointer, job_tag()) != NULL) release_pointer(pointer);
  return R_NilValue;
}

// ffi_map_put puts a piece's values into the list of all results, from `first` on, in place:
// elements of a list as they are, those of a vector as vectors of length one.
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
