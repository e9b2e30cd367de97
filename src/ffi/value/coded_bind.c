// Coded vectors appended to each other: see coded.h.
#include <string.h>

#include "ffi/value/coded.h"
#include "ffi/value/share_int.h"

// same_dictionary gives the one that all columns have, NULL if there isn't one.
static SEXP same_dictionary(SEXP columns) {
  SEXP dictionary = NULL;
  for (R_xlen_t c = 0; c < Rf_xlength(columns); c++) {
    SEXP x = VECTOR_ELT(columns, c);
    if (Rf_xlength(x) == 0) continue;
    if (!ffi_is_coded(x)) return NULL;
    if (dictionary != NULL && ffi_coded_dictionary(x) != dictionary)
      return NULL;
    dictionary = ffi_coded_dictionary(x);
  }
  return dictionary;
}

// bind_same: all have this dictionary.
static SEXP bind_same(SEXP columns, R_xlen_t n, SEXP dictionary) {
  PROTECT(dictionary);
  ffi_dictionary_keep(dictionary);
  SEXP codes = PROTECT(Rf_allocVector(INTSXP, n));
  R_xlen_t at = 0;
  for (R_xlen_t c = 0; c < Rf_xlength(columns); c++) {
    SEXP x = VECTOR_ELT(columns, c);
    const R_xlen_t some = Rf_xlength(x);
    if (some == 0) continue;
    memcpy(INTEGER(codes) + at, ffi_coded_codes(x), (size_t)some * sizeof(int));
    at += some;
  }
  SEXP bound = ffi_coded_new(codes, dictionary);
  UNPROTECT(2);
  return bound;
}

// put_strings writes a coded vector's elements, and makes only strings that it has.
static void put_strings(SEXP x, SEXP to, R_xlen_t at) {
  SEXP dictionary = ffi_coded_dictionary(x);
  const R_xlen_t n = Rf_xlength(x);
  const size_t size = (size_t)ffi_dictionary_size(dictionary);
  const int *codes = ffi_coded_codes(x);
  const void *top = vmaxget();
  R_xlen_t *first = (R_xlen_t *)R_alloc(size + 1, sizeof *first);
  memset(first, 0, (size + 1) * sizeof *first);
  for (R_xlen_t i = 0; i < n; i++) {
    const int code = codes[i];
    if (code == NA_INTEGER) {
      SET_STRING_ELT(to, at + i, NA_STRING);
    } else if (first[code] > 0) {
      SET_STRING_ELT(to, at + i, STRING_ELT(to, first[code] - 1));
    } else {
      const struct mst_key_text text = ffi_dictionary_text(dictionary, code);
      SET_STRING_ELT(to, at + i,
                     Rf_mkCharLenCE(text.bytes, (int)text.n, CE_UTF8));
      first[code] = at + i + 1;
    }
  }
  vmaxset(top);
}

static SEXP bind_plain(SEXP columns, R_xlen_t n) {
  SEXP bound = PROTECT(Rf_allocVector(STRSXP, n));
  R_xlen_t at = 0;
  for (R_xlen_t c = 0; c < Rf_xlength(columns); c++) {
    SEXP x = VECTOR_ELT(columns, c);
    const R_xlen_t some = Rf_xlength(x);
    if (ffi_is_coded(x)) {
      put_strings(x, bound, at);
    } else {
      for (R_xlen_t i = 0; i < some; i++)
        SET_STRING_ELT(bound, at + i, STRING_ELT(x, i));
    }
    at += some;
  }
  UNPROTECT(1);
  return bound;
}

// A set of texts, by their bytes: those of a dictionary over a segment aren't made into strings.
struct texts {
  struct mst_key_text *texts;
  uint64_t *hashes;
  uint32_t *table;
  size_t size, count;
};

static void texts_room(struct texts *set, size_t size) {
  const size_t room = size / 2 + 1;
  struct mst_key_text *texts =
      (struct mst_key_text *)R_alloc(room, sizeof *texts);
  uint64_t *hashes = (uint64_t *)R_alloc(room, sizeof *hashes);
  if (set->count > 0) {
    memcpy(texts, set->texts, set->count * sizeof *texts);
    memcpy(hashes, set->hashes, set->count * sizeof *hashes);
  }
  set->texts = texts;
  set->hashes = hashes;
  set->size = size;
  set->table = (uint32_t *)R_alloc(size, sizeof *set->table);
  memset(set->table, 0, size * sizeof *set->table);
  for (size_t k = 0; k < set->count; k++) {
    size_t at = (size_t)hashes[k] & (size - 1);
    while (set->table[at] != 0)
      at = (at + 1) & (size - 1);
    set->table[at] = (uint32_t)k + 1;
  }
}

static int number_of(struct texts *set, const struct mst_key_text *text) {
  uint64_t hash;
  mst_key_hash_texts(text, 1, &hash);
  const size_t mask = set->size - 1;
  size_t at = (size_t)hash & mask;
  for (; set->table[at] != 0; at = (at + 1) & mask) {
    const size_t k = set->table[at] - 1;
    if (set->hashes[k] == hash && set->texts[k].n == text->n &&
        memcmp(set->texts[k].bytes, text->bytes, text->n) == 0) {
      return (int)k + 1;
    }
  }
  set->texts[set->count] = *text;
  set->hashes[set->count] = hash;
  set->table[at] = (uint32_t)++set->count;
  const int number = (int)set->count;
  if (2 * set->count >= set->size) texts_room(set, 4 * set->size);
  return number;
}

// A vector with fewer rows than this part of its dictionary has hardly a string twice.
#define SPARSE 4

// add_codes writes a vector's codes in the set's numbers.
static void add_codes(struct texts *set, SEXP x, int *to) {
  const R_xlen_t n = Rf_xlength(x);
  SEXP dictionary = ffi_coded_dictionary(x);
  const int *from = ffi_coded_codes(x);
  const size_t size = (size_t)ffi_dictionary_size(dictionary);
  const struct ffi_shared packed = ffi_dictionary_bytes(dictionary);
  int *number = NULL;
  if (size / SPARSE <= (size_t)n) {
    number = (int *)R_alloc(size + 1, sizeof *number);
    memset(number, 0, (size + 1) * sizeof *number);
  }
  for (R_xlen_t i = 0; i < n; i++) {
    const int code = from[i];
    if (code == NA_INTEGER) {
      to[i] = NA_INTEGER;
      continue;
    }
    int known = number == NULL ? 0 : number[code];
    if (known == 0) {
      struct mst_key_text text;
      if (packed.data == NULL) {
        text = ffi_dictionary_text(dictionary, code);
      } else {
        text.bytes = ffi_shared_text(&packed, code - 1, &text.n);
      }
      known = number_of(set, &text);
      if (number != NULL) number[code] = known;
    }
    to[i] = known;
  }
}

// codes_of gives the codes of all columns, by several dictionaries, in the set's numbers.
static SEXP codes_of(struct texts *set, SEXP columns, R_xlen_t n) {
  texts_room(set, 4096);
  SEXP codes = PROTECT(Rf_allocVector(INTSXP, n));
  R_xlen_t at = 0;
  for (R_xlen_t c = 0; c < Rf_xlength(columns); c++) {
    SEXP x = VECTOR_ELT(columns, c);
    if (Rf_xlength(x) == 0) continue;
    add_codes(set, x, INTEGER(codes) + at);
    at += Rf_xlength(x);
  }
  UNPROTECT(1);
  return codes;
}

// bind_all: all are coded, by several dictionaries.
static SEXP bind_all(SEXP columns, R_xlen_t n) {
  struct texts set = {0};
  SEXP codes = PROTECT(codes_of(&set, columns, n));
  SEXP strings = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)set.count));
  for (size_t k = 0; k < set.count; k++) {
    const struct mst_key_text *text = &set.texts[k];
    SET_STRING_ELT(strings, (R_xlen_t)k,
                   Rf_mkCharLenCE(text->bytes, (int)text->n, CE_UTF8));
  }
  SEXP bound =
      PROTECT(ffi_coded_new(codes, PROTECT(ffi_dictionary_of(strings))));
  if (FFI_CODED_ROWS * (R_xlen_t)set.count > n) bound = ffi_coded_plain(bound);
  UNPROTECT(4);
  return bound;
}

SEXP ffi_coded_bind_packed(SEXP columns, R_xlen_t n) {
  SEXP dictionary = same_dictionary(columns);
  if (dictionary != NULL) return bind_same(columns, n, dictionary);
  const void *top = vmaxget();
  struct texts set = {0};
  SEXP codes = PROTECT(codes_of(&set, columns, n));
  SEXP packed = PROTECT(ffi_dictionary_packed_of(set.texts, set.count));
  SEXP bound = ffi_coded_new(codes, packed);
  vmaxset(top);
  UNPROTECT(2);
  return bound;
}

// For many strings that hardly repeat, one dictionary for all would cost more than it saves.
#define MANY 1024

static int is_worth(SEXP x) {
  if (!ffi_is_coded(x)) return 0;
  const R_xlen_t size = ffi_dictionary_size(ffi_coded_dictionary(x));
  return size < MANY || FFI_CODED_ROWS * size <= Rf_xlength(x);
}

SEXP ffi_coded_bind(SEXP columns, R_xlen_t n) {
  SEXP dictionary = same_dictionary(columns);
  if (dictionary != NULL) return bind_same(columns, n, dictionary);
  for (R_xlen_t c = 0; c < Rf_xlength(columns); c++) {
    SEXP x = VECTOR_ELT(columns, c);
    if (Rf_xlength(x) > 0 && !is_worth(x)) return bind_plain(columns, n);
  }
  return bind_all(columns, n);
}

// packed gives strings over a mapping by dictionary, and makes none of them; NULL if some can't be
// in one.
static SEXP packed(SEXP x) {
  const struct ffi_shared *shared = ffi_shared_of(x);
  const R_xlen_t n = shared->length;
  const uint8_t *marks = shared->data + 8 * (size_t)n;
  const void *top = vmaxget();
  struct texts set = {0};
  texts_room(&set, 4096);
  SEXP codes = PROTECT(Rf_allocVector(INTSXP, n));
  int *to = INTEGER(codes);
  for (R_xlen_t i = 0; i < n; i++) {
    struct mst_key_text text;
    to[i] = NA_INTEGER;
    if (marks[i] == FFI_SHARE_NA) continue;
    if (marks[i] != FFI_SHARE_ASCII && marks[i] != FFI_SHARE_UTF8) {
      UNPROTECT(1);
      return R_NilValue;
    }
    text.bytes = ffi_shared_text(shared, i, &text.n);
    to[i] = number_of(&set, &text);
  }
  SEXP dictionary = PROTECT(ffi_dictionary_packed_of(set.texts, set.count));
  SEXP coded = ffi_coded_new(codes, dictionary);
  vmaxset(top);
  UNPROTECT(2);
  return coded;
}

SEXP ffi_coded_all(SEXP x) {
  if (!ffi_can_be_coded(x)) return x;
  SEXP coded = ffi_shared_of(x) != NULL ? packed(x) : R_NilValue;
  return coded != R_NilValue ? coded : ffi_coded_by(x, (size_t)Rf_xlength(x));
}
