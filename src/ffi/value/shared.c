// Vectors over shared memory: the vectors of a message with a segment, once read. Purpose and
// guarantees are in share.c.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mst_assert.h"
#include "ffi/value/share_int.h"
#include "wire/wire.h"

// R doesn't see the memory of mappings: it is asked to collect when there is more of it than this,
// or twice what the last collection left.
#define LIVE_MIN ((int64_t)64 << 20)
#define LIVE_MAX ((int64_t)1 << 30)

const size_t ffi_share_size[FFI_SHARE_KINDS] = {8, 4, 4, 1, 16, 9};
R_altrep_class_t ffi_share_class[FFI_SHARE_KINDS];
const char *const ffi_share_name[FFI_SHARE_KINDS] = {
    "muster_real", "muster_integer", "muster_logical",
    "muster_raw",  "muster_complex", "muster_string"};

static struct {
  struct ffi_share_source from; // of the message being read
  int64_t live;                 // bytes of vectors over mappings
  int64_t collect_at;           // live bytes that trigger a collection
  // The vector of each kind that was asked for an element last, and its data: R's own loops ask
  // for each by itself. Forgotten when a vector of ours is made, whose address may be an old one's.
  struct {
    SEXP x;
    const void *data;
  } last[FFI_SHARE_KINDS];
} share = {.collect_at = LIVE_MIN};

int ffi_share_kind_of(SEXP x) { return ffi_share_kind_of_type(TYPEOF(x)); }

int ffi_share_kind_of_type(int type) {
  switch (type) {
  case REALSXP:
    return FFI_SHARE_REAL;
  case INTSXP:
    return FFI_SHARE_INTEGER;
  case LGLSXP:
    return FFI_SHARE_LOGICAL;
  case RAWSXP:
    return FFI_SHARE_RAW;
  case CPLXSXP:
    return FFI_SHARE_COMPLEX;
  case STRSXP:
    return FFI_SHARE_STRING;
  default:
    return -1;
  }
}

// shared_of gives the data of a received vector of ours, else NULL.
static struct ffi_shared *shared_of(SEXP x) {
  SEXP pointer = R_altrep_data1(x);
  return TYPEOF(pointer) == EXTPTRSXP ? R_ExternalPtrAddr(pointer) : NULL;
}

const struct ffi_shared *ffi_shared_of(SEXP x) {
  const int kind = ffi_share_kind_of(x);
  if (kind < 0 || !ALTREP(x) || !R_altrep_inherits(x, ffi_share_class[kind])) {
    return NULL;
  }
  const struct ffi_shared *shared = shared_of(x);
  return shared != NULL && shared->map != NULL ? shared : NULL;
}

void ffi_share_collect(void) {
  if (share.live < share.collect_at) return;
  // Garbage below a fraction of the free memory does no harm.
  const int64_t part = ffi_memory_look() / 64;
  if (share.live < part && share.live < LIVE_MAX) return;
  R_gc();
  share.collect_at = 2 * share.live > LIVE_MIN ? 2 * share.live : LIVE_MIN;
}

void ffi_share_count(int64_t bytes) { share.live += bytes; }

struct ffi_share_source ffi_share_read_from(struct ffi_share_source source) {
  const struct ffi_share_source before = share.from;
  share.from = source;
  return before;
}

// ---- reading

static SEXP pointer_tag(void) {
  static SEXP tag;
  return ffi_symbol(&tag, "muster_shared");
}

static void let_go(struct ffi_shared *shared) {
  if (shared->map == NULL) return;
  mst_map_release(shared->map);
  shared->map = NULL;
  share.live -= (int64_t)shared->bytes;
}

static void finalize(SEXP pointer) {
  struct ffi_shared *shared = R_ExternalPtrAddr(pointer);
  if (shared == NULL) return;
  R_ClearExternalPtr(pointer);
  let_go(shared);
  free(shared);
}

// whole reads a number of a state, -1 if no sender would write it.
static int64_t whole(SEXP state, int i) {
  const double value = REAL(state)[i];
  if (!(value >= 0) || value > 9007199254740992.0 || value != floor(value)) {
    return -1;
  }
  return (int64_t)value;
}

// place_of finds the memory of a state, and checks all fields. 1, or 0.
static int place_of(SEXP state, int kind, struct ffi_shared *place) {
  if (TYPEOF(state) != REALSXP || Rf_xlength(state) != 3) return 0;
  const int64_t offset = whole(state, 0), n = whole(state, 1),
                bytes = whole(state, 2);
  if (offset < 0 || n < 1 || bytes < 1 || n > (int64_t)R_XLEN_T_MAX) return 0;
  const int64_t least = n * (int64_t)ffi_share_size[kind]; // below 2^57
  if (kind == FFI_SHARE_STRING ? bytes < least : bytes != least) return 0;
  place->data = mst_map_at(share.from.map, share.from.base + (uint64_t)offset,
                           (uint64_t)bytes);
  place->bytes = (uint64_t)bytes;
  place->length = (R_xlen_t)n;
  return place->data != NULL;
}

SEXP ffi_share_new(int kind, SEXP first, SEXP second) {
  SEXP x = R_new_altrep(ffi_share_class[kind], first, second);
  share.last[kind].x = NULL;
  return x;
}

static SEXP shared_unserialize(SEXP class, SEXP state) {
  struct ffi_shared place = {0};
  int kind = 0;
  while (kind < FFI_SHARE_KINDS && R_SEXP(ffi_share_class[kind]) != class)
    kind++;
  if (share.from.map == NULL || kind == FFI_SHARE_KINDS ||
      !place_of(state, kind, &place)) {
    Rf_error("a reference to shared memory that isn't there");
  }
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, pointer_tag(), R_NilValue));
  R_RegisterCFinalizerEx(pointer, finalize, FALSE);
  struct ffi_shared *shared = malloc(sizeof *shared);
  if (shared == NULL) Rf_error("no memory for a vector");
  *shared = place;
  shared->map = mst_map_hold(share.from.map);
  share.live += (int64_t)shared->bytes;
  R_SetExternalPtrAddr(pointer, shared);
  SEXP x = ffi_share_new(kind, pointer, R_NilValue);
  UNPROTECT(1);
  return x;
}

// ---- methods

static R_xlen_t shared_length(SEXP x) {
  const struct ffi_shared *shared = shared_of(x);
  return shared == NULL ? Rf_xlength(R_altrep_data1(x)) : shared->length;
}

static Rboolean shared_inspect(SEXP x, int pre, int deep, int pvec,
                               void (*inspect)(SEXP, int, int, int)) {
  (void)pre;
  (void)deep;
  (void)pvec;
  (void)inspect;
  const struct ffi_shared *shared = shared_of(x);
  Rprintf(" muster shared memory (len=%.0f, %s)\n", (double)shared_length(x),
          shared == NULL ? "shadow" : "mapped");
  return TRUE;
}

// Only a shadow has one: a received vector is serialized like any other.
static SEXP shared_state(SEXP x) {
  return shared_of(x) == NULL ? R_altrep_data2(x) : NULL;
}

// Writing is safe: the mapping is private.
static void *shared_data(SEXP x, Rboolean writable) {
  (void)writable;
  const struct ffi_shared *shared = shared_of(x);
  void *data;
  if (shared != NULL) return shared->data;
  const void *shadowed = DATAPTR_RO(R_altrep_data1(x));
  memcpy(&data, &shadowed, sizeof data);
  return data;
}

static const void *shared_data_or_null(SEXP x) { return shared_data(x, FALSE); }

static const void *last_data(SEXP x, enum ffi_share_kind kind) {
  if (share.last[kind].x != x) {
    share.last[kind].data = shared_data_or_null(x);
    share.last[kind].x = x;
  }
  return share.last[kind].data;
}
#define AT(x, type, kind, i) (((const type *)last_data(x, kind))[i])
static double real_elt(SEXP x, R_xlen_t i) {
  return AT(x, double, FFI_SHARE_REAL, i);
}
static int int_elt(SEXP x, R_xlen_t i) {
  return AT(x, int, FFI_SHARE_INTEGER, i);
}
static int lgl_elt(SEXP x, R_xlen_t i) {
  return AT(x, int, FFI_SHARE_LOGICAL, i);
}
static Rbyte raw_elt(SEXP x, R_xlen_t i) {
  return AT(x, Rbyte, FFI_SHARE_RAW, i);
}
static Rcomplex cplx_elt(SEXP x, R_xlen_t i) {
  return AT(x, Rcomplex, FFI_SHARE_COMPLEX, i);
}

// ---- x[i], without a call for each element

// TAKE copies the elements that whole or real numbers ask for; `none` for NA and for what is past
// the end, as R's own x[i] does.
#define TAKE(type, none)                                                       \
  do {                                                                         \
    const type *from = data;                                                   \
    type *to = into;                                                           \
    if (whole != NULL) {                                                       \
      for (R_xlen_t i = 0; i < n; i++) {                                       \
        const R_xlen_t at = whole[i];                                          \
        to[i] = at > 0 && at <= length ? from[at - 1] : (none);                \
      }                                                                        \
    } else {                                                                   \
      for (R_xlen_t i = 0; i < n; i++) {                                       \
        const double at = real[i];                                             \
        to[i] = at >= 1 && at < past ? from[(R_xlen_t)at - 1] : (none);        \
      }                                                                        \
    }                                                                          \
  } while (0)

static SEXP shared_subset(SEXP x, SEXP index, SEXP call) {
  (void)call;
  const int type = TYPEOF(x);
  if (TYPEOF(index) != INTSXP && TYPEOF(index) != REALSXP) return NULL;
  const R_xlen_t n = Rf_xlength(index), length = shared_length(x);
  const int *whole = TYPEOF(index) == INTSXP ? INTEGER_RO(index) : NULL;
  const double *real = whole == NULL ? REAL_RO(index) : NULL;
  const double past = (double)length + 1;
  SEXP out = PROTECT(Rf_allocVector((SEXPTYPE)type, n));
  const void *data = shared_data_or_null(x);
  void *into = type == REALSXP   ? (void *)REAL(out)
               : type == CPLXSXP ? (void *)COMPLEX(out)
               : type == RAWSXP  ? (void *)RAW(out)
               : type == LGLSXP  ? (void *)LOGICAL(out)
                                 : (void *)INTEGER(out);
  const Rcomplex none = {.r = NA_REAL, .i = NA_REAL};
  switch (type) {
  case REALSXP:
    TAKE(double, NA_REAL);
    break;
  case CPLXSXP:
    TAKE(Rcomplex, none);
    break;
  case RAWSXP:
    TAKE(Rbyte, 0);
    break;
  default:
    TAKE(int, NA_INTEGER);
  }
  UNPROTECT(1);
  return out;
}

// region copies up to n elements from i on. Returns their number.
static R_xlen_t region(SEXP x, R_xlen_t i, R_xlen_t n, void *to, size_t size) {
  const R_xlen_t length = shared_length(x);
  if (i >= length) return 0;
  const R_xlen_t count = n < length - i ? n : length - i;
  memcpy(to, (const uint8_t *)shared_data_or_null(x) + (size_t)i * size,
         (size_t)count * size);
  return count;
}
static R_xlen_t real_region(SEXP x, R_xlen_t i, R_xlen_t n, double *to) {
  return region(x, i, n, to, sizeof *to);
}
static R_xlen_t int_region(SEXP x, R_xlen_t i, R_xlen_t n, int *to) {
  return region(x, i, n, to, sizeof *to);
}
static R_xlen_t raw_region(SEXP x, R_xlen_t i, R_xlen_t n, Rbyte *to) {
  return region(x, i, n, to, sizeof *to);
}
static R_xlen_t cplx_region(SEXP x, R_xlen_t i, R_xlen_t n, Rcomplex *to) {
  return region(x, i, n, to, sizeof *to);
}

// ---- methods of strings: made on demand, and then kept

// made gives the vector of those made so far; "" stands for the others.
static SEXP made(SEXP x, const struct ffi_shared *shared) {
  SEXP strings = R_altrep_data2(x);
  if (strings == R_NilValue) {
    strings = Rf_allocVector(STRSXP, shared->length);
    R_set_altrep_data2(x, strings);
  }
  return strings;
}

static SEXP string_elt(SEXP x, R_xlen_t i) {
  const struct ffi_shared *shared = shared_of(x);
  if (shared == NULL) return STRING_ELT(R_altrep_data1(x), i);
  SEXP strings = made(x, shared);
  SEXP text = STRING_ELT(strings, i);
  if (shared->map == NULL || text != R_BlankString) return text;
  text = ffi_shared_string(shared, i);
  SET_STRING_ELT(strings, i, text);
  return text;
}

// make_all makes the rest, and releases the mapping.
static SEXP make_all(SEXP x) {
  struct ffi_shared *shared = shared_of(x);
  SEXP strings = made(x, shared);
  if (shared->map == NULL) return strings;
  for (R_xlen_t i = 0; i < shared->length; i++) {
    if (STRING_ELT(strings, i) == R_BlankString) {
      SET_STRING_ELT(strings, i, ffi_shared_string(shared, i));
    }
  }
  let_go(shared);
  return strings;
}

static void string_set_elt(SEXP x, R_xlen_t i, SEXP value) {
  SET_STRING_ELT(make_all(x), i, value);
}

static void *string_data(SEXP x, Rboolean writable) {
  (void)writable;
  SEXP strings = shared_of(x) == NULL ? R_altrep_data1(x) : make_all(x);
  const void *texts = DATAPTR_RO(strings);
  void *data;
  memcpy(&data, &texts, sizeof data);
  return data;
}

static const void *string_data_or_null(SEXP x) {
  const struct ffi_shared *shared = shared_of(x);
  if (shared == NULL) return DATAPTR_OR_NULL(R_altrep_data1(x));
  return shared->map == NULL ? DATAPTR_RO(R_altrep_data2(x)) : NULL;
}

void ffi_share_register(DllInfo *dll) {
  static R_altrep_class_t (*const make[])(const char *, const char *,
                                          DllInfo *) = {
      [FFI_SHARE_REAL] = R_make_altreal_class,
      [FFI_SHARE_INTEGER] = R_make_altinteger_class,
      [FFI_SHARE_LOGICAL] = R_make_altlogical_class,
      [FFI_SHARE_RAW] = R_make_altraw_class,
      [FFI_SHARE_COMPLEX] = R_make_altcomplex_class,
      [FFI_SHARE_STRING] = R_make_altstring_class};
  for (int i = 0; i < FFI_SHARE_KINDS; i++)
    ffi_share_class[i] = make[i](ffi_share_name[i], "muster", dll);
  for (int i = 0; i < FFI_SHARE_KINDS; i++) {
    R_set_altrep_Length_method(ffi_share_class[i], shared_length);
    R_set_altrep_Inspect_method(ffi_share_class[i], shared_inspect);
    R_set_altrep_Serialized_state_method(ffi_share_class[i], shared_state);
    R_set_altrep_Unserialize_method(ffi_share_class[i], shared_unserialize);
    const int is_string = i == FFI_SHARE_STRING;
    R_set_altvec_Dataptr_method(ffi_share_class[i],
                                is_string ? string_data : shared_data);
    R_set_altvec_Dataptr_or_null_method(ffi_share_class[i],
                                        is_string ? string_data_or_null
                                                  : shared_data_or_null);
    if (!is_string) {
      R_set_altvec_Extract_subset_method(ffi_share_class[i], shared_subset);
    }
  }
  R_set_altreal_Elt_method(ffi_share_class[FFI_SHARE_REAL], real_elt);
  R_set_altinteger_Elt_method(ffi_share_class[FFI_SHARE_INTEGER], int_elt);
  R_set_altlogical_Elt_method(ffi_share_class[FFI_SHARE_LOGICAL], lgl_elt);
  R_set_altraw_Elt_method(ffi_share_class[FFI_SHARE_RAW], raw_elt);
  R_set_altcomplex_Elt_method(ffi_share_class[FFI_SHARE_COMPLEX], cplx_elt);
  R_set_altreal_Get_region_method(ffi_share_class[FFI_SHARE_REAL], real_region);
  R_set_altinteger_Get_region_method(ffi_share_class[FFI_SHARE_INTEGER],
                                     int_region);
  R_set_altlogical_Get_region_method(ffi_share_class[FFI_SHARE_LOGICAL],
                                     int_region);
  R_set_altraw_Get_region_method(ffi_share_class[FFI_SHARE_RAW], raw_region);
  R_set_altcomplex_Get_region_method(ffi_share_class[FFI_SHARE_COMPLEX],
                                     cplx_region);
  R_set_altstring_Elt_method(ffi_share_class[FFI_SHARE_STRING], string_elt);
  R_set_altstring_Set_elt_method(ffi_share_class[FFI_SHARE_STRING],
                                 string_set_elt);
}

// ffi_share_is tells whether x is a vector over shared memory.
SEXP ffi_share_is(SEXP x) { return Rf_ScalarLogical(ffi_shared_of(x) != NULL); }
