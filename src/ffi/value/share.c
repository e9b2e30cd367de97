// Large vectors travel in shared memory: out of line when sent, ALTREP when received.
//
// Problem: 100 MB for 4 workers through a socket are copied four times for each of them. Way
// chosen: before a message is serialized, its large vectors are replaced by shadows, ALTREP objects
// whose serialized form is a place in the message's segment (share/segment.h); their contents are
// written there once. The receiver maps the segment privately and makes ALTREP vectors over the
// mapping: nothing is copied until it is written to, and then by the kernel, one page at a time.
// R's serialize() writes the attributes.
//
// Vectors in environments and attributes can't be replaced this way without copying everything that
// leads there: see ffi_serialize_whole, which catches large vectors as they are written.
//
// Not chosen: read-only mappings, because sort(), order() and match() ask for writable pointers; a
// hook of serialize(), which only sees environments and pointers; passing on received vectors by
// reference: they may have been modified since, so they are copied like others.
//
// Guarantees: the user's objects are never changed. Shadows exist in one message only. Everything
// else (saveRDS(), other packages, snapshots) serializes vectors over a mapping as ordinary ones.
// Each occurrence in a message has its own place, so that no two vectors of a reader share pages.
//
// Cost: a message without large vectors is walked once, checking the type and length of its lists'
// elements; the option is only looked up if there may be large ones.
#include <stdlib.h>
#include <string.h>

#include "ffi/value/coded.h"
#include "ffi/value/share_int.h"

// Vectors below a page are never worth a segment, whatever the option says.
#define SHARE_FLOOR 4096.0
// Measured: above this a segment is faster than a socket, see bench/share.R.
#define SHARE_MIN ((double)(1 << 18))
// Vectors in more deeply nested lists travel in line.
#define DEPTH_MAX 100
// In a block, larger vectors are out of line: below this, copying costs less than a mapping.
#define BLOCK_MIN ((double)(1 << 16))

static struct {
  double min; // from the session, for workers; 0: SHARE_MIN
  int always; // in cluster_share(): any vector of at least a page
  int off;    // for tests: as if the system had no segments
} share;

// ---- which vectors are worth sharing

static int is_large(SEXP x, double min) {
  const int kind = ffi_share_kind_of(x);
  return kind >= 0 &&
         (double)Rf_xlength(x) * (double)ffi_share_size[kind] >= min;
}

// holds_large looks for a vector of at least `min` bytes, in lists too.
static int holds_large(SEXP x, double min, int depth) {
  if (TYPEOF(x) == VECSXP && depth < DEPTH_MAX) {
    const R_xlen_t n = Rf_xlength(x);
    for (R_xlen_t i = 0; i < n; i++) {
      if (holds_large(VECTOR_ELT(x, i), min, depth + 1)) return 1;
    }
    return 0;
  }
  if (TYPEOF(x) == LISTSXP && depth < DEPTH_MAX) {
    for (; TYPEOF(x) == LISTSXP; x = CDR(x)) {
      if (holds_large(CAR(x), min, depth + 1)) return 1;
    }
    return 0;
  }
  return is_large(x, min);
}

// min_now gives the size in bytes from which vectors are shared.
static double min_now(void) {
  static SEXP name;
  if (share.always) return SHARE_FLOOR;
  SEXP option = Rf_GetOption1(ffi_symbol(&name, "muster.share_min"));
  double min = share.min > 0 ? share.min : SHARE_MIN;
  if ((TYPEOF(option) == REALSXP || TYPEOF(option) == INTSXP) &&
      Rf_xlength(option) == 1 && !ISNAN(Rf_asReal(option))) {
    min = Rf_asReal(option);
  }
  return min < SHARE_FLOOR ? SHARE_FLOOR : min;
}

// ---- shadows

struct plan {
  double min;
  uint64_t bytes; // of the segment so far
  SEXP first; // pairlist of the shadows, after a cell that the caller protects
  SEXP last;
  SEXP dictionaries; // a block's, or NULL
};

static SEXP build(SEXP x, struct plan *plan, int depth);

// source_of gives the bytes of a vector, NULL if they aren't contiguous: compact sequences and
// other packages' ALTREP vectors are serialized in their own way.
static const void *source_of(SEXP x, uint64_t *bytes) {
  const int kind = ffi_share_kind_of(x);
  const R_xlen_t n = Rf_xlength(x);
  *bytes = (uint64_t)n * ffi_share_size[kind];
  const struct ffi_shared *shared = ffi_shared_of(x);
  if (shared != NULL) {
    *bytes = shared->bytes;
    return shared->data;
  }
  const void *data = ALTREP(x) ? DATAPTR_OR_NULL(x) : DATAPTR_RO(x);
  if (data != NULL && kind == FFI_SHARE_STRING) {
    *bytes = ffi_strings_bytes(data, n);
    if (*bytes == 0) return NULL;
  }
  return data;
}

static SEXP shadow_of(SEXP x, struct plan *plan, int depth) {
  uint64_t bytes;
  if (source_of(x, &bytes) == NULL) return x;
  plan->bytes = (plan->bytes + MST_SEGMENT_ALIGN - 1) &
                ~(uint64_t)(MST_SEGMENT_ALIGN - 1);
  SEXP state = PROTECT(Rf_allocVector(REALSXP, 3));
  REAL(state)[0] = (double)plan->bytes;
  REAL(state)[1] = (double)Rf_xlength(x);
  REAL(state)[2] = (double)bytes;
  plan->bytes += bytes;
  SEXP shadow =
      PROTECT(ffi_share_new(ffi_share_kind_of(x), x, state));
  SETCDR(plan->last, Rf_cons(shadow, R_NilValue));
  plan->last = CDR(plan->last);
  if (ffi_has_attributes(x)) {
    SHALLOW_DUPLICATE_ATTRIB(shadow, x);
    // A one-dimensional array's names are its dimnames.
    if (Rf_getAttrib(x, R_DimSymbol) == R_NilValue) {
      SEXP names = PROTECT(Rf_getAttrib(x, R_NamesSymbol));
      SEXP moved = PROTECT(build(names, plan, depth));
      if (moved != names) Rf_setAttrib(shadow, R_NamesSymbol, moved);
      UNPROTECT(2);
    }
  }
  UNPROTECT(2);
  return shadow;
}

// number_of gives a dictionary's number in the block's list, from 1, 0 if it isn't there.
static int number_of(const struct plan *plan, SEXP dictionary) {
  if (plan->dictionaries == NULL) return 0;
  for (R_xlen_t k = 0; k < Rf_xlength(plan->dictionaries); k++) {
    if (VECTOR_ELT(plan->dictionaries, k) == dictionary) return (int)k + 1;
  }
  return 0;
}

static int number_of_levels(const struct plan *plan, SEXP levels) {
  for (R_xlen_t k = 0; k < Rf_xlength(plan->dictionaries); k++) {
    if (ffi_dictionary_is_of(VECTOR_ELT(plan->dictionaries, k), levels)) {
      return (int)k + 1;
    }
  }
  return 0;
}

// coded_out: codes, and where the dictionary is; or an ordinary vector, if that is no larger.
static SEXP coded_out(SEXP x, struct plan *plan, int depth) {
  const int number = number_of(plan, ffi_coded_dictionary(x));
  SEXP fit = PROTECT(number > 0 ? x : ffi_coded_compact(x));
  if (!ffi_is_coded(fit)) {
    // What is given must live on.
    SEXP plain = is_large(fit, plan->min) ? shadow_of(fit, plan, depth) : fit;
    UNPROTECT(1);
    return plain;
  }
  SEXP codes = PROTECT(build(R_altrep_data1(fit), plan, depth + 1));
  SEXP where =
      PROTECT(number > 0 ? Rf_ScalarInteger(number)
                         : ffi_dictionary_out(ffi_coded_dictionary(fit)));
  if (number == 0) where = build(where, plan, depth + 1);
  SEXP shadow = PROTECT(ffi_coded_shadow(x, codes, PROTECT(where)));
  if (ffi_has_attributes(x)) SHALLOW_DUPLICATE_ATTRIB(shadow, x);
  UNPROTECT(5);
  return shadow;
}

// levels_out: the shadow of a factor, or a copy, whose levels are in the block's list.
static SEXP levels_out(SEXP x, int number, struct plan *plan, int depth) {
  SEXP out = is_large(x, plan->min) ? shadow_of(x, plan, depth) : x;
  PROTECT(out);
  if (out == x) out = Rf_shallow_duplicate(x);
  PROTECT(out);
  SEXP levels = PROTECT(Rf_getAttrib(x, R_LevelsSymbol));
  SEXP where = PROTECT(Rf_ScalarInteger(number));
  SEXP shadow = PROTECT(ffi_coded_shadow(levels, R_NilValue, where));
  Rf_setAttrib(out, R_LevelsSymbol, shadow);
  UNPROTECT(5);
  return out;
}

static SEXP build_list(SEXP x, struct plan *plan, int depth) {
  PROTECT_INDEX at;
  SEXP copy = x;
  PROTECT_WITH_INDEX(copy, &at);
  const R_xlen_t n = Rf_xlength(x);
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP before = VECTOR_ELT(x, i);
    SEXP moved = PROTECT(build(before, plan, depth + 1));
    if (moved != before) {
      if (copy == x) REPROTECT(copy = Rf_shallow_duplicate(x), at);
      SET_VECTOR_ELT(copy, i, moved);
    }
    UNPROTECT(1);
  }
  if (Rf_inherits(x, "data.frame")) {
    SEXP names = PROTECT(Rf_getAttrib(x, R_RowNamesSymbol));
    SEXP moved = TYPEOF(names) == STRSXP ? build(names, plan, depth) : names;
    PROTECT(moved);
    if (moved != names) {
      if (copy == x) REPROTECT(copy = Rf_shallow_duplicate(x), at);
      Rf_setAttrib(copy, R_RowNamesSymbol, moved);
    }
    UNPROTECT(2);
  }
  UNPROTECT(1);
  return copy;
}

static SEXP build_pairlist(SEXP x, struct plan *plan, int depth) {
  PROTECT_INDEX index;
  SEXP copy = x, at = x;
  PROTECT_WITH_INDEX(copy, &index);
  for (int i = 0; TYPEOF(at) == LISTSXP; at = CDR(at), i++) {
    SEXP moved = PROTECT(build(CAR(at), plan, depth + 1));
    if (moved != CAR(at)) {
      if (copy == x) {
        REPROTECT(copy = Rf_shallow_duplicate(x), index);
        at = Rf_nthcdr(copy, i);
      }
      SETCAR(at, moved);
    }
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return copy;
}

// build gives x, or a copy with shadows for large vectors. The caller protects it. Visits each part
// once.
static SEXP build(SEXP x, struct plan *plan, int depth) {
  if (ffi_is_coded(x)) return coded_out(x, plan, depth);
  if (plan->dictionaries != NULL && TYPEOF(x) == INTSXP && Rf_isObject(x)) {
    SEXP levels = Rf_getAttrib(x, R_LevelsSymbol);
    const int number = number_of_levels(plan, levels);
    if (number > 0) return levels_out(x, number, plan, depth);
  }
  if (is_large(x, plan->min)) return shadow_of(x, plan, depth);
  if (depth >= DEPTH_MAX) return x;
  if (TYPEOF(x) == VECSXP) return build_list(x, plan, depth);
  return TYPEOF(x) == LISTSXP ? build_pairlist(x, plan, depth) : x;
}

// write_one appends a shadow's vector to the segment.
static int write_one(struct mst_segment *segment, SEXP x, struct mst_err *err) {
  uint64_t bytes;
  mst_segment_align(segment);
  const void *data = source_of(x, &bytes);
  // Strings over a mapping are already in the form to write.
  if (TYPEOF(x) == STRSXP && ffi_shared_of(x) == NULL) {
    return ffi_strings_write(segment, data, Rf_xlength(x), err);
  }
  return mst_segment_append(segment, data, (size_t)bytes, err);
}

static int write_all(struct mst_segment *segment, const struct plan *plan,
                     struct mst_err *err) {
  int rc = mst_segment_open(segment, plan->bytes, err);
  for (SEXP at = CDR(plan->first); rc == 0 && at != R_NilValue; at = CDR(at)) {
    rc = write_one(segment, R_altrep_data1(CAR(at)), err);
  }
  if (rc == 0) rc = mst_segment_seal(segment, err);
  if (rc != 0) mst_segment_close(segment);
  return rc;
}

double ffi_share_from(void) { return share.off ? R_PosInf : min_now(); }

int ffi_share_may_be(SEXP x) { return is_large(x, SHARE_FLOOR); }

int ffi_share_worth(SEXP x) {
  return holds_large(x, SHARE_FLOOR, 0) && !share.off &&
         holds_large(x, min_now(), 0);
}

SEXP ffi_share_out(SEXP x, struct mst_segment *segment) {
  struct mst_err err;
  struct plan plan = {.min = min_now()};
  mst_err_clear(&err);
  *segment = MST_SEGMENT_NONE;
  plan.first = plan.last = PROTECT(Rf_cons(R_NilValue, R_NilValue));
  SEXP shadowed = PROTECT(build(x, &plan, 0));
  int rc = 0;
  if (plan.bytes > 0) {
    ffi_memory_check((size_t)plan.bytes);
    rc = write_all(segment, &plan, &err);
  }
  UNPROTECT(2);
  if (rc == -MST_EMEM) ffi_no_memory((size_t)plan.bytes);
  return rc == 0 ? shadowed : x;
}

int ffi_share_block(SEXP x, SEXP dictionaries, struct mst_segment *segment,
                    struct mst_buf *buf, struct mst_block *block,
                    struct mst_err *err) {
  struct plan plan = {.min = BLOCK_MIN, .dictionaries = dictionaries};
  int rc = 0;
  mst_segment_align(segment);
  block->offset = segment->bytes;
  plan.first = plan.last = PROTECT(Rf_cons(R_NilValue, R_NilValue));
  SEXP shadowed = PROTECT(build(x, &plan, 0));
  for (SEXP at = CDR(plan.first); rc == 0 && at != R_NilValue; at = CDR(at)) {
    rc = write_one(segment, R_altrep_data1(CAR(at)), err);
  }
  buf->len = 0;
  if (rc == 0) {
    ffi_serialize(shadowed, buf);
    block->stream = segment->bytes - block->offset;
    rc = mst_segment_append(segment, buf->data, buf->len, err);
  }
  block->bytes = segment->bytes - block->offset;
  UNPROTECT(2);
  return rc;
}

// ---- from R

// ffi_share_min sets the size from which this worker shares vectors, to the session's.
SEXP ffi_share_min(SEXP min) {
  if (Rf_isReal(min) && Rf_xlength(min) == 1) share.min = REAL(min)[0];
  return R_NilValue;
}

// ffi_share_always shares all vectors of at least a page, for cluster_share().
SEXP ffi_share_always(SEXP always) {
  share.always = Rf_asLogical(always) == 1;
  return R_NilValue;
}

// ffi_share_pretend is for tests: off (TRUE: as if the system had no shared memory) and the bytes
// of free memory (negative: the real ones).
SEXP ffi_share_pretend(SEXP off, SEXP memory) {
  share.off = Rf_asLogical(off) == 1;
  ffi_memory_pretend(Rf_asReal(memory));
  return R_NilValue;
}
