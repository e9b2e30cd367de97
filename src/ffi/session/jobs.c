// Jobs as external pointers, and a look at what is about to leave this process.
#include <stdlib.h>
#include <string.h>

#include "base/mst_stream.h"
#include "ffi/ffi.h"

static SEXP job_tag(void) {
  static SEXP tag;
  return ffi_symbol(&tag, "muster_job_pointer");
}

// What a pointer has: one reference. Its cluster may be freed before it: then the job has
// no list any more. In a forked child nothing is touched.
struct ref {
  struct ffi_later later;
  struct mst_job *job; // NULL before it is made
  pid_t owner;
};

static void drop_ref(struct ffi_later *item) {
  struct ref *ref = (struct ref *)(void *)item;
  mst_job_release(ref->job);
  free(ref);
}

static void release_pointer(SEXP pointer) {
  struct ref *ref = ffi_address_of(pointer, job_tag());
  if (ref == NULL) return;
  R_ClearExternalPtr(pointer);
  if (ref->owner != ffi_self()) return;
  ref->later.run = drop_ref;
  ffi_do_later(&ref->later);
}

// new_pointer gives a pointer without a job yet.
static SEXP new_pointer(void) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, job_tag(), R_NilValue));
  struct ref *ref = calloc(1, sizeof *ref);
  if (ref == NULL) Rf_error("no memory");
  ref->owner = ffi_self();
  R_SetExternalPtrAddr(pointer, ref);
  R_RegisterCFinalizerEx(pointer, release_pointer, FALSE);
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
  struct mst_blob *bytes =
      TYPEOF(content) == RAWSXP ? ffi_blob_copy(content) : ffi_blob_of(content);
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
  release_pointer(pointer);
  return R_NilValue;
}

// ffi_object_read reads what R or the short form of messages wrote, a raw vector.
SEXP ffi_object_read(SEXP bytes) {
  return ffi_unserialize(RAW(bytes), (size_t)Rf_xlength(bytes));
}

// ---- what is of no use in another process

// What a value holds, in itself and in the lists in it. Attributes and environments
// aren't looked into: data.table's pointer to itself is an attribute, and what an
// environment holds may never be used.
enum scan {
  SCAN_CONNECTION = 1,  // other than stdin, stdout, stderr
  SCAN_POINTER = 2,     // an external pointer that points somewhere
  SCAN_ENVIRONMENT = 4, // of its own: a change in it would be seen by the next
  SCAN_S4 = 8
};

#define SCAN_DEPTH 64

static int is_connection(SEXP x) {
  return TYPEOF(x) == INTSXP && Rf_isObject(x) && Rf_xlength(x) == 1 &&
         INTEGER_ELT(x, 0) > 2 && Rf_inherits(x, "connection");
}

static int is_shared(SEXP env) {
  return env == R_GlobalEnv || env == R_BaseEnv || env == R_EmptyEnv ||
         R_IsNamespaceEnv(env);
}

static int scan(SEXP x, int depth) {
  switch (TYPEOF(x)) {
  case INTSXP:
    return is_connection(x) ? SCAN_CONNECTION : 0;
  case EXTPTRSXP:
    return R_ExternalPtrAddr(x) != NULL ? SCAN_POINTER : 0;
  case ENVSXP:
    return is_shared(x) ? 0 : SCAN_ENVIRONMENT;
  case CLOSXP:
    return is_shared(ffi_closure_env(x)) ? 0 : SCAN_ENVIRONMENT;
  case S4SXP:
    return SCAN_S4 | SCAN_ENVIRONMENT;
  case VECSXP:
    break;
  default:
    return 0;
  }
  if (depth == SCAN_DEPTH) return SCAN_ENVIRONMENT;
  int found = 0;
  const R_xlen_t n = Rf_xlength(x);
  for (R_xlen_t i = 0; i < n; i++)
    found |= scan(VECTOR_ELT(x, i), depth + 1);
  return found;
}

SEXP ffi_scan(SEXP x) { return Rf_ScalarInteger(scan(x, 0)); }

int ffi_is_refused(SEXP x) {
  const int found = scan(x, 0);
  if ((found & (SCAN_CONNECTION | SCAN_POINTER)) == 0) return 0;
  static SEXP name;
  SEXP option = Rf_GetOption1(ffi_symbol(&name, "muster.references"));
  const char *policy = TYPEOF(option) == STRSXP && Rf_xlength(option) == 1
                           ? CHAR(STRING_ELT(option, 0))
                           : "connections";
  if (strcmp(policy, "ignore") == 0) return 0;
  if (strcmp(policy, "error") == 0) return 1;
  return (found & SCAN_CONNECTION) != 0;
}

// ---- a piece's elements, in a worker

static SEXP element_call(void) {
  static SEXP call;
  if (call == NULL) {
    // forceAndCall(1L, fun, x[[i]], ...): a closure that fun returns keeps its element.
    SEXP i = Rf_install("i");
    SEXP element = PROTECT(Rf_lang3(R_Bracket2Symbol, Rf_install("x"), i));
    SEXP rest = PROTECT(Rf_list3(Rf_install("fun"), element, R_DotsSymbol));
    SEXP args = PROTECT(Rf_cons(Rf_ScalarInteger(1), rest));
    // The primitive itself: no lookup for each element.
    call = Rf_lcons(Rf_eval(Rf_install("forceAndCall"), R_BaseEnv), args);
    R_PreserveObject(call);
    UNPROTECT(3);
  }
  return call;
}

// A stream as R has it: its kinds of generators, and the six numbers.
struct stream {
  int kinds;
  uint32_t words[MST_STREAM_WORDS];
};

static struct stream stream_of(SEXP seed) {
  struct stream stream;
  if (TYPEOF(seed) != INTSXP || Rf_xlength(seed) != 1 + MST_STREAM_WORDS) {
    Rf_error("a stream has 7 numbers");
  }
  stream.kinds = INTEGER_RO(seed)[0];
  memcpy(stream.words, INTEGER_RO(seed) + 1, sizeof stream.words);
  return stream;
}

static SEXP seed_of(const struct stream *stream) {
  SEXP seed = Rf_allocVector(INTSXP, 1 + MST_STREAM_WORDS);
  INTEGER(seed)[0] = stream->kinds;
  memcpy(INTEGER(seed) + 1, stream->words, sizeof stream->words);
  return seed;
}

// ffi_stream_after gives the stream that is n streams after that of a seed.
SEXP ffi_stream_after(SEXP seed, SEXP n) {
  struct stream stream = stream_of(seed);
  mst_stream_jump(stream.words, (uint64_t)Rf_asReal(n));
  return seed_of(&stream);
}

// begin_stream gives R an element's stream, and moves on to the next.
static void begin_stream(struct stream *stream) {
  static SEXP name;
  SEXP seed = PROTECT(seed_of(stream));
  Rf_defineVar(ffi_symbol(&name, ".Random.seed"), seed, R_GlobalEnv);
  UNPROTECT(1);
  mst_stream_jump(stream->words, 1);
}

// ffi_map_elements evaluates fun(x[[i]], ...) in a frame that has these, from the element
// behind `at` on; `seed` is the stream of the first of all, or NULL. Values and `at`, the number of
// the element at work, are changed in place: they are there when an error leaves it.
SEXP ffi_map_elements(SEXP frame, SEXP values, SEXP at, SEXP seed) {
  SEXP call = element_call();
  SEXP i = Rf_install("i");
  struct stream stream = {0};
  if (seed != R_NilValue) {
    stream = stream_of(seed);
    mst_stream_jump(stream.words, (uint64_t)INTEGER(at)[0]);
  }
  const int n = (int)Rf_xlength(values);
  PROTECT_INDEX at_number;
  SEXP number = Rf_ScalarInteger(0);
  PROTECT_WITH_INDEX(number, &at_number);
  for (int k = INTEGER(at)[0]; k < n; k++) {
    INTEGER(at)[0] = k + 1;
    if (seed != R_NilValue) begin_stream(&stream);
    // In place, unless fun got hold of it, which can look into this frame.
    if (MAYBE_SHARED(number)) {
      REPROTECT(number = Rf_allocVector(INTSXP, 1), at_number);
    }
    INTEGER(number)[0] = k + 1;
    Rf_defineVar(i, number, frame);
    SET_VECTOR_ELT(values, k, Rf_eval(call, frame));
  }
  UNPROTECT(1);
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
