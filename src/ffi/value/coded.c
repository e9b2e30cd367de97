// Character vectors by dictionary: see coded.h.
//
// ALTREP: the first datum is the codes, the second the dictionary. Once R has asked for a pointer
// to the elements, through which they may be changed, the first is NULL and the second an ordinary
// vector. A shadow's first datum is its state, the second the vector that it stands for.
#include <math.h>
#include <string.h>

#include "ffi/value/coded.h"
#include "ffi/value/share_int.h"

static R_altrep_class_t coded_class;
static SEXP block_dictionaries; // see ffi_coded_read_with; NULL: none

static int is_ours(SEXP x) {
  return ALTREP(x) && R_altrep_inherits(x, coded_class);
}

static SEXP codes_of(SEXP x) { return R_altrep_data1(x); }

int ffi_is_coded(SEXP x) {
  return TYPEOF(x) == STRSXP && is_ours(x) && TYPEOF(codes_of(x)) == INTSXP;
}

SEXP ffi_coded_dictionary(SEXP x) { return R_altrep_data2(x); }

const int *ffi_coded_codes(SEXP x) { return INTEGER_RO(codes_of(x)); }

SEXP ffi_coded_new(SEXP codes, SEXP dictionary) {
  const int *at = INTEGER_RO(codes);
  const R_xlen_t n = Rf_xlength(codes), size = ffi_dictionary_size(dictionary);
  for (R_xlen_t i = 0; i < n; i++) {
    if (at[i] != NA_INTEGER && (at[i] < 1 || at[i] > size)) {
      Rf_error("a code without a string");
    }
  }
  MARK_NOT_MUTABLE(codes);
  return R_new_altrep(coded_class, codes, dictionary);
}

// new_checked does that for codes that are known to be in range.
static SEXP new_checked(SEXP codes, SEXP dictionary) {
  MARK_NOT_MUTABLE(codes);
  return R_new_altrep(coded_class, codes, dictionary);
}

// head_of gives the first n elements, and makes only these strings.
static SEXP head_of(SEXP x, R_xlen_t n) {
  SEXP dictionary = ffi_coded_dictionary(x);
  SEXP head = PROTECT(Rf_allocVector(STRSXP, n));
  const int *at = ffi_coded_codes(x);
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP text = NA_STRING;
    if (at[i] != NA_INTEGER) {
      const struct mst_key_text one = ffi_dictionary_text(dictionary, at[i]);
      text = Rf_mkCharLenCE(one.bytes, (int)one.n, CE_UTF8);
    }
    SET_STRING_ELT(head, i, text);
  }
  UNPROTECT(1);
  return head;
}

SEXP ffi_coded_plain(SEXP x) {
  const R_xlen_t n = Rf_xlength(codes_of(x));
  // A few of many strings are made alone.
  if (n < ffi_dictionary_size(ffi_coded_dictionary(x)) / 2)
    return head_of(x, n);
  SEXP strings = ffi_dictionary_strings(ffi_coded_dictionary(x));
  SEXP plain = PROTECT(Rf_allocVector(STRSXP, n));
  const int *at = ffi_coded_codes(x);
  for (R_xlen_t i = 0; i < n; i++) {
    SET_STRING_ELT(plain, i,
                   at[i] == NA_INTEGER ? NA_STRING
                                       : STRING_ELT(strings, at[i] - 1));
  }
  UNPROTECT(1);
  return plain;
}

SEXP ffi_coded_take(SEXP x, const int *at, R_xlen_t n) {
  SEXP codes = PROTECT(Rf_allocVector(INTSXP, n));
  const int *from = ffi_coded_codes(x);
  int *to = INTEGER(codes);
  for (R_xlen_t i = 0; i < n; i++)
    to[i] = at[i] == NA_INTEGER ? NA_INTEGER : from[at[i] - 1];
  SEXP taken = new_checked(codes, ffi_coded_dictionary(x));
  UNPROTECT(1);
  return taken;
}

// ---- finding the different strings of a vector

// A set of strings: R keeps each once per encoding, so its address identifies it.
struct set {
  SEXP *strings; // in the order in which they came
  uint32_t *table;
  size_t size, count; // of the table, a power of 2; of the strings
};

static size_t place_of(SEXP text, size_t mask) {
  const uint64_t bits = (uint64_t)(uintptr_t)text;
  return (size_t)((bits >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & mask;
}

static void set_room(struct set *set, size_t size) {
  SEXP *strings = (SEXP *)R_alloc(size / 2 + 1, sizeof *strings);
  if (set->count > 0) memcpy(strings, set->strings, set->count * sizeof(SEXP));
  set->strings = strings;
  set->size = size;
  set->table = (uint32_t *)R_alloc(size, sizeof *set->table);
  memset(set->table, 0, size * sizeof *set->table);
  for (size_t k = 0; k < set->count; k++) {
    size_t at = place_of(strings[k], size - 1);
    while (set->table[at] != 0)
      at = (at + 1) & (size - 1);
    set->table[at] = (uint32_t)k + 1;
  }
}

// code_of gives a string's number, from 1.
static int code_of(struct set *set, SEXP text) {
  const size_t mask = set->size - 1;
  size_t at = place_of(text, mask);
  while (set->table[at] != 0 && set->strings[set->table[at] - 1] != text)
    at = (at + 1) & mask;
  if (set->table[at] != 0) return (int)set->table[at];
  set->strings[set->count] = text;
  set->table[at] = (uint32_t)++set->count;
  const int code = (int)set->count;
  if (2 * set->count >= set->size) set_room(set, 4 * set->size);
  return code;
}

static SEXP strings_of(const struct set *set) {
  SEXP strings = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)set->count));
  for (size_t k = 0; k < set->count; k++)
    SET_STRING_ELT(strings, (R_xlen_t)k, set->strings[k]);
  UNPROTECT(1);
  return strings;
}

// Shorter vectors aren't worth a dictionary.
#define CODED_MIN 1024
#define SAMPLED 4096

// different gives the expected number of different strings among `rows`, if `all` are equally
// frequent.
static double different(double all, double rows) {
  return -all * expm1(-rows / all);
}

// texts_of gives the elements, all made: other packages' ALTREP vectors may make one whenever it is
// asked for, and keep none, but they keep those behind a pointer.
static const SEXP *texts_of(SEXP x) { return STRING_PTR_RO(x); }

// is_hopeless guesses from a sample that there are too many different strings. Those over a mapping
// aren't made for that.
static int is_hopeless(SEXP x, R_xlen_t n) {
  if (n < 4 * SAMPLED) return 0;
  const SEXP *texts = ffi_shared_of(x) != NULL ? NULL : texts_of(x);
  struct set set = {0};
  set_room(&set, 4 * SAMPLED);
  const R_xlen_t step = n / SAMPLED;
  for (R_xlen_t i = 0; i < SAMPLED; i++)
    (void)code_of(&set,
                  texts != NULL ? texts[i * step] : STRING_ELT(x, i * step));
  // If there were so many that coding is barely worth it, how many would the sample have?
  double low = 1, high = (double)n;
  for (int i = 0; i < 50; i++) {
    const double middle = sqrt(low * high);
    if (different(middle, (double)n) < (double)n / FFI_CODED_ROWS) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return (double)set.count > different(low, SAMPLED);
}

// code_all fills in the codes of all elements; 0 if there are too many different ones.
static int code_all(struct set *set, const SEXP *texts, R_xlen_t n, size_t most,
                    int *codes) {
  SEXP before = NULL;
  int code = NA_INTEGER;
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP text = texts[i];
    if (text != before) {
      code = text == NA_STRING ? NA_INTEGER : code_of(set, text);
      before = text;
      if (set->count > most) return 0;
    }
    codes[i] = code;
  }
  return 1;
}

size_t ffi_coded_number(SEXP x, size_t most, int *codes, SEXP **strings) {
  struct set set = {0};
  set_room(&set, 1024);
  (void)code_all(&set, texts_of(x), Rf_xlength(x), most, codes);
  *strings = set.strings;
  return set.count;
}

int ffi_can_be_coded(SEXP x) {
  return TYPEOF(x) == STRSXP && !ffi_has_attributes(x) && !ffi_is_coded(x) &&
         Rf_xlength(x) > 0 && Rf_xlength(x) <= (R_xlen_t)MST_KEY_ROWS_MAX;
}

SEXP ffi_coded_by(SEXP x, size_t most) {
  const R_xlen_t n = Rf_xlength(x);
  struct set set = {0};
  set_room(&set, 1024);
  SEXP codes = PROTECT(Rf_allocVector(INTSXP, n));
  if (!code_all(&set, texts_of(x), n, most, INTEGER(codes))) {
    UNPROTECT(1);
    return x;
  }
  SEXP strings = PROTECT(strings_of(&set));
  SEXP dictionary = PROTECT(ffi_dictionary_of(strings));
  SEXP done =
      ffi_dictionary_is_sound(dictionary) ? new_checked(codes, dictionary) : x;
  UNPROTECT(3);
  return done;
}

SEXP ffi_coded(SEXP x) {
  const R_xlen_t n = ffi_can_be_coded(x) ? Rf_xlength(x) : 0;
  if (n < CODED_MIN || is_hopeless(x, n)) return x;
  return ffi_coded_by(x, (size_t)n / FFI_CODED_ROWS);
}

SEXP ffi_coded_head(SEXP x, SEXP n) {
  R_xlen_t count = (R_xlen_t)Rf_asReal(n);
  if (count > Rf_xlength(x)) count = Rf_xlength(x);
  if (ffi_is_coded(x)) return head_of(x, count);
  SEXP head = PROTECT(Rf_allocVector(STRSXP, count));
  for (R_xlen_t i = 0; i < count; i++)
    SET_STRING_ELT(head, i, STRING_ELT(x, i));
  UNPROTECT(1);
  return head;
}

SEXP ffi_coded_parts(SEXP x) {
  static const char *const names[] = {"codes", "strings"};
  if (!ffi_is_coded(x)) return R_NilValue;
  SEXP parts = PROTECT(ffi_list(2, names));
  SET_VECTOR_ELT(parts, 0, codes_of(x));
  SET_VECTOR_ELT(parts, 1, ffi_dictionary_strings(ffi_coded_dictionary(x)));
  UNPROTECT(1);
  return parts;
}

SEXP ffi_coded_join(SEXP codes, SEXP model) {
  if (TYPEOF(codes) != INTSXP) Rf_error("codes are integers");
  if (TYPEOF(model) != STRSXP) {
    SHALLOW_DUPLICATE_ATTRIB(codes, model);
    return codes;
  }
  SEXP dictionary = PROTECT(ffi_dictionary_of(model));
  if (!ffi_dictionary_is_sound(dictionary)) Rf_error("not a dictionary");
  SEXP x = ffi_coded_new(codes, dictionary);
  UNPROTECT(1);
  return x;
}

SEXP ffi_coded_expand(SEXP x) {
  if (!ffi_is_coded(x)) return x;
  SEXP plain = PROTECT(ffi_coded_plain(x));
  if (ffi_has_attributes(x)) SHALLOW_DUPLICATE_ATTRIB(plain, x);
  UNPROTECT(1);
  return plain;
}

SEXP ffi_coded_lend(SEXP x, SEXP copy) {
  if (ffi_is_coded(x)) return Rf_shallow_duplicate(x);
  return Rf_asLogical(copy) == 1 ? Rf_duplicate(x) : x;
}

// ---- another dictionary

// shrunk gives x with a dictionary of the strings that it has.
static SEXP shrunk(SEXP x) {
  const R_xlen_t n = Rf_xlength(codes_of(x));
  SEXP old = ffi_coded_dictionary(x), all = ffi_dictionary_strings(old);
  const size_t size = (size_t)ffi_dictionary_size(old);
  const int *from = ffi_coded_codes(x);
  int *number = (int *)R_alloc(size + 1, sizeof *number), count = 0;
  memset(number, 0, (size + 1) * sizeof *number);
  SEXP codes = PROTECT(Rf_allocVector(INTSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    const int code = from[i];
    if (code != NA_INTEGER && number[code] == 0) number[code] = ++count;
    INTEGER(codes)[i] = code == NA_INTEGER ? NA_INTEGER : number[code];
  }
  SEXP strings = PROTECT(Rf_allocVector(STRSXP, count));
  for (size_t k = 1; k <= size; k++) {
    if (number[k] == 0) continue;
    SET_STRING_ELT(strings, number[k] - 1, STRING_ELT(all, (R_xlen_t)k - 1));
  }
  SEXP small = new_checked(codes, PROTECT(ffi_dictionary_of(strings)));
  UNPROTECT(3);
  return small;
}

// compacted does that without attributes.
static SEXP compacted(SEXP x) {
  const R_xlen_t n = Rf_xlength(x);
  if (n < CODED_MIN) return ffi_coded_plain(x);
  SEXP small = PROTECT(shrunk(x));
  if (FFI_CODED_ROWS * ffi_dictionary_size(ffi_coded_dictionary(small)) > n) {
    small = ffi_coded_plain(x);
  }
  UNPROTECT(1);
  return small;
}

SEXP ffi_coded_compact(SEXP x) {
  if (!ffi_is_coded(x)) return x;
  // Others may have the dictionary already.
  if (Rf_xlength(x) >= CODED_MIN && ffi_dictionary_size(ffi_coded_dictionary(
                                        x)) <= FFI_CODED_ROWS * Rf_xlength(x)) {
    return x;
  }
  SEXP small = PROTECT(compacted(x));
  if (ffi_has_attributes(x)) SHALLOW_DUPLICATE_ATTRIB(small, x);
  UNPROTECT(1);
  return small;
}

// ---- in messages

SEXP ffi_coded_shadow(SEXP x, SEXP codes, SEXP where) {
  SEXP state = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(state, 0, codes);
  SET_VECTOR_ELT(state, 1, where);
  SEXP shadow = R_new_altrep(coded_class, state, x);
  UNPROTECT(1);
  return shadow;
}

void ffi_coded_read_with(SEXP dictionaries) {
  block_dictionaries = dictionaries;
}

static int is_shadow(SEXP x) { return TYPEOF(codes_of(x)) == VECSXP; }

static SEXP coded_state(SEXP x) { return is_shadow(x) ? codes_of(x) : NULL; }

// dictionary_at gives the dictionary that a state names.
static SEXP dictionary_at(SEXP where) {
  if (TYPEOF(where) == VECSXP) return ffi_dictionary_in(where);
  const int at = TYPEOF(where) == INTSXP && Rf_xlength(where) == 1
                     ? INTEGER_ELT(where, 0)
                     : 0;
  if (at < 1 || block_dictionaries == NULL ||
      at > Rf_xlength(block_dictionaries)) {
    Rf_error("a reference to strings that aren't there");
  }
  return VECTOR_ELT(block_dictionaries, at - 1);
}

static SEXP coded_unserialize(SEXP class, SEXP state) {
  (void)class;
  if (TYPEOF(state) != VECSXP || Rf_xlength(state) != 2) {
    Rf_error("a reference to strings that aren't there");
  }
  SEXP codes = VECTOR_ELT(state, 0),
       dictionary = PROTECT(dictionary_at(VECTOR_ELT(state, 1)));
  if (codes == R_NilValue) ffi_dictionary_keep(dictionary);
  SEXP x = codes == R_NilValue       ? ffi_dictionary_strings(dictionary)
           : TYPEOF(codes) == INTSXP ? ffi_coded_new(codes, dictionary)
                                     : NULL;
  if (x == NULL) Rf_error("a reference to strings that aren't there");
  UNPROTECT(1);
  return x;
}

// ---- methods

static R_xlen_t coded_length(SEXP x) {
  SEXP codes = codes_of(x);
  return Rf_xlength(TYPEOF(codes) == INTSXP ? codes : R_altrep_data2(x));
}

static Rboolean coded_inspect(SEXP x, int pre, int deep, int pvec,
                              void (*inspect)(SEXP, int, int, int)) {
  (void)pre;
  (void)deep;
  (void)pvec;
  (void)inspect;
  Rprintf(" muster strings (len=%.0f, %s)\n", (double)coded_length(x),
          is_shadow(x)      ? "shadow"
          : ffi_is_coded(x) ? "by dictionary"
                            : "expanded");
  return TRUE;
}

static SEXP coded_elt(SEXP x, R_xlen_t i) {
  SEXP codes = codes_of(x);
  if (TYPEOF(codes) != INTSXP) return STRING_ELT(R_altrep_data2(x), i);
  const int code = INTEGER_ELT(codes, i);
  return code == NA_INTEGER
             ? NA_STRING
             : STRING_ELT(ffi_dictionary_strings(R_altrep_data2(x)), code - 1);
}

// expand makes it an ordinary vector inside.
static SEXP expand(SEXP x) {
  if (TYPEOF(codes_of(x)) == INTSXP) {
    SEXP plain = PROTECT(ffi_coded_plain(x));
    R_set_altrep_data2(x, plain);
    R_set_altrep_data1(x, R_NilValue);
    UNPROTECT(1);
  }
  return R_altrep_data2(x);
}

static void coded_set_elt(SEXP x, R_xlen_t i, SEXP value) {
  SET_STRING_ELT(expand(x), i, value);
}

static void *coded_data(SEXP x, Rboolean writable) {
  (void)writable;
  const void *texts = DATAPTR_RO(expand(x));
  void *data;
  memcpy(&data, &texts, sizeof data);
  return data;
}

static const void *coded_data_or_null(SEXP x) {
  return TYPEOF(codes_of(x)) == INTSXP ? NULL
                                       : DATAPTR_OR_NULL(R_altrep_data2(x));
}

// Elements are copied by copying codes, which nobody changes. NULL: as for any other vector.
static SEXP coded_duplicate(SEXP x, Rboolean deep) {
  (void)deep;
  return ffi_is_coded(x)
             ? R_new_altrep(coded_class, codes_of(x), R_altrep_data2(x))
             : NULL;
}

// Elements past the end are NA.
static SEXP coded_subset(SEXP x, SEXP at, SEXP call) {
  (void)call;
  if (!ffi_is_coded(x) || TYPEOF(at) != INTSXP) return NULL;
  const R_xlen_t n = Rf_xlength(at), length = coded_length(x);
  SEXP codes = PROTECT(Rf_allocVector(INTSXP, n));
  const int *from = ffi_coded_codes(x), *places = INTEGER_RO(at);
  int *to = INTEGER(codes);
  for (R_xlen_t i = 0; i < n; i++) {
    const int place = places[i];
    to[i] = place == NA_INTEGER || place < 1 || place > length
                ? NA_INTEGER
                : from[place - 1];
  }
  SEXP taken = new_checked(codes, ffi_coded_dictionary(x));
  UNPROTECT(1);
  return taken;
}

void ffi_coded_register(DllInfo *dll) {
  coded_class = R_make_altstring_class("muster_coded", "muster", dll);
  R_set_altrep_Length_method(coded_class, coded_length);
  R_set_altrep_Inspect_method(coded_class, coded_inspect);
  R_set_altrep_Duplicate_method(coded_class, coded_duplicate);
  R_set_altrep_Serialized_state_method(coded_class, coded_state);
  R_set_altrep_Unserialize_method(coded_class, coded_unserialize);
  R_set_altvec_Dataptr_method(coded_class, coded_data);
  R_set_altvec_Dataptr_or_null_method(coded_class, coded_data_or_null);
  R_set_altvec_Extract_subset_method(coded_class, coded_subset);
  R_set_altstring_Elt_method(coded_class, coded_elt);
  R_set_altstring_Set_elt_method(coded_class, coded_set_elt);
}
