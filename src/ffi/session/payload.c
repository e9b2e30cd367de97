// The bytes of calls, with a segment if their arguments are large. Buffers are reused; one
// clusterCall() serializes once for all nodes.
#include <string.h>

#include "base/mst_hash.h"
#include "ffi/session/session.h"

// A payload above this size is kept while one verb sends the same objects to the next worker; below
// it, serializing again is as fast as comparing.
#define BROADCAST_MIN ((size_t)65536)

// The last payload, if it was large and sent by clusterCall(), which sends to all before anything
// else runs: so nothing can have changed.
static struct {
  struct mst_blob *blob;
  SEXP key; // list(frame, fun, args), preserved: no address is reused
} broadcast;

// Buffers for payloads. Healing keeps a payload until it is answered, so a call to several workers
// at once needs several.
#define SCRATCH_COUNT 16
static struct mst_blob *scratch[SCRATCH_COUNT];
static unsigned scratch_last;
static uint32_t payload_count;

// ffi_payload_done frees large payloads that nobody keeps, since nobody will send them again.
// Called before and after each wait for an answer: fast if there is none.
void ffi_payload_done(void) {
  if (broadcast.key != NULL) {
    R_ReleaseObject(broadcast.key);
    broadcast.key = NULL;
    mst_blob_release(broadcast.blob);
    broadcast.blob = NULL;
  }
  for (unsigned i = 0; i < SCRATCH_COUNT; i++) {
    struct mst_blob *blob = scratch[i];
    if (blob != NULL && blob->refs == 1 && blob->buf.cap > MST_CHAN_KEEP) {
      mst_buf_free(&blob->buf);
    }
  }
}

static void let_go_payload(void *unused) {
  (void)unused;
  ffi_payload_done();
}

void ffi_payload_begin(void) { (void)ffi_hold(&broadcast, let_go_payload); }

void ffi_payload_sent(void) { ffi_unhold(&broadcast); }

// free_scratch gives an empty blob that nobody else holds, NULL if memory is short.
static struct mst_blob *free_scratch(void) {
  unsigned i = 0;
  while (i < SCRATCH_COUNT && scratch[i] != NULL && scratch[i]->refs > 1)
    i++;
  if (i == SCRATCH_COUNT) { // all are in use: release one
    i = (scratch_last + 1) % SCRATCH_COUNT;
    mst_blob_release(scratch[i]);
    scratch[i] = NULL;
  }
  if (scratch[i] == NULL) scratch[i] = mst_blob_new();
  scratch_last = i;
  if (scratch[i] != NULL) {
    scratch[i]->buf.len = scratch[i]->binds = 0;
    scratch[i]->one = 0;
  }
  return scratch[i];
}

// verb_frame asks R for the frame of the clusterCall() that is sending; NULL (R's) in all other
// cases.
static SEXP verb_frame(void) {
  return ffi_call_ours(FFI_BROADCAST_FRAME, NULL);
}

static int same_args(SEXP a, SEXP b) {
  if (Rf_xlength(a) != Rf_xlength(b)) return 0;
  for (R_xlen_t i = 0; i < Rf_xlength(a); i++) {
    if (VECTOR_ELT(a, i) != VECTOR_ELT(b, i)) return 0;
  }
  return 1;
}

// known_payload gives the last payload, held, if this call sends the same objects from the same
// frame.
static struct mst_blob *known_payload(SEXP fun, SEXP args) {
  if (broadcast.key == NULL) return NULL;
  if (VECTOR_ELT(broadcast.key, 1) == fun &&
      same_args(VECTOR_ELT(broadcast.key, 2), args)) {
    SEXP frame = verb_frame(); // runs R code, which may release it
    if (broadcast.key != NULL && frame == VECTOR_ELT(broadcast.key, 0) &&
        VECTOR_ELT(broadcast.key, 1) == fun) {
      return ffi_hold_blob(broadcast.blob);
    }
  }
  ffi_payload_done();
  return NULL;
}

static void remember_payload(SEXP fun, SEXP args, struct mst_blob *blob) {
  SEXP frame = PROTECT(verb_frame());
  if (frame != R_NilValue) {
    SEXP key = PROTECT(Rf_allocVector(VECSXP, 3));
    SET_VECTOR_ELT(key, 0, frame);
    SET_VECTOR_ELT(key, 1, fun);
    SET_VECTOR_ELT(key, 2, args);
    R_PreserveObject(key);
    ffi_payload_done(); // a finalizer's call may have put one there
    broadcast.key = key;
    broadcast.blob = blob;
    blob->refs++;
    UNPROTECT(1);
  }
  UNPROTECT(1);
}

// share_args moves large arguments into the blob's segment, and gives the arguments to serialize
// instead.
static SEXP share_args(SEXP args, struct mst_blob *blob) {
  SEXP rest = PROTECT(ffi_share_out(args, &blob->segment));
  uint8_t size[MST_SEGMENT_BYTES];
  if (blob->segment.fd >= 0) {
    mst_segment_encode(blob->segment.bytes, size);
    if (mst_buf_append(&blob->buf, size, sizeof size) != 0) {
      Rf_error("no memory for a message");
    }
  }
  UNPROTECT(1);
  return rest;
}

struct mst_blob *ffi_payload(SEXP fun, SEXP args, SEXP tag, int may_share) {
  struct mst_blob *blob;
  const int shares = may_share && ffi_share_worth(args);
  // Captured environments aren't searched for large vectors: these are found while writing.
  const int whole =
      may_share && !shares && (ffi_has_frame(fun) || ffi_has_frame(args));
  if (shares || whole) {
    // A blob with a segment isn't reused: its memory is freed with the last call that needs it.
    blob = ffi_new_blob();
    if (shares) args = share_args(args, blob);
  } else {
    blob = free_scratch();
    if (blob == NULL) Rf_error("no memory for a message");
    // Serializing may run R code that sends: hold the blob, so that it isn't free.
    (void)ffi_hold_blob(blob);
  }
  PROTECT(args);
  SEXP message = PROTECT(Rf_allocVector(VECSXP, 3));
  SET_VECTOR_ELT(message, 0, fun);
  SET_VECTOR_ELT(message, 1, args);
  SET_VECTOR_ELT(message, 2, tag);
  if (whole) {
    ffi_serialize_whole(message, blob);
  } else {
    ffi_serialize_message(message, blob);
  }
  UNPROTECT(2);
  return blob;
}

// is_exports tells whether fun is the function that clusterExport() has workers call.
static int is_exports(SEXP fun) {
  SEXP verb = ffi_parallels("clusterExport");
  return TYPEOF(verb) == CLOSXP &&
         fun == ffi_binding(ffi_closure_env(verb), Rf_install("gets"));
}

// binds_of gives a hash of the names that a call binds in the global environment, if it comes from
// clusterExport() or cluster_share() and does nothing else; otherwise 0.
static uint64_t binds_of(SEXP fun, SEXP args) {
  if (TYPEOF(fun) != CLOSXP || TYPEOF(args) != VECSXP) return 0;
  SEXP names = R_NilValue;
  const R_xlen_t n = Rf_xlength(args);
  if (n == 2 && is_exports(fun)) names = VECTOR_ELT(args, 0);
  if (n == 1 && fun == ffi_ours("bind_values")) {
    names = Rf_getAttrib(VECTOR_ELT(args, 0), R_NamesSymbol);
  }
  if (TYPEOF(names) != STRSXP) return 0;
  uint64_t hash = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP name = STRING_ELT(names, i);
    // An odd factor, so that the order of the names matters.
    hash = 31 * hash + mst_hash(CHAR(name), (size_t)Rf_xlength(name));
  }
  return hash == 0 ? 1 : hash;
}

struct mst_blob *ffi_payload_of_verb(SEXP fun, SEXP args, SEXP tag) {
  struct mst_blob *payload = known_payload(fun, args);
  if (payload != NULL) return payload;
  payload = ffi_payload(fun, args, tag, 1);
  payload->binds = binds_of(fun, args);
  payload->number = ++payload_count;
  if (mst_blob_bytes(payload) >= BROADCAST_MIN) {
    remember_payload(fun, args, payload);
  }
  return payload;
}

void ffi_bound_log(struct mst_cluster *cluster) {
  if (mst_calls_log_grew(&cluster->calls)) {
    mst_calls_bound_log(&cluster->calls, ffi_memory_look());
  }
}
