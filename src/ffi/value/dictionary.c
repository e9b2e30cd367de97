// Dictionaries: see coded.h.
//
// One is an external pointer without an address, since a weak reference wants such a key. Its tag
// is its number, once that is known, its protected value a list of what is below, made when it is
// first wanted. It has strings, or their packed form, or both.
#include <string.h>

#include "base/mst_hash.h"
#include "ffi/value/coded.h"
#include "ffi/value/share_int.h"

enum {
  STRINGS, // a character vector
  PACKED,  // as strings are in segments (shared.c): a raw vector
  SIZE,
  TEXTS, // struct mst_key_text of each, in a raw vector
  HASHES,
  SOUND,
  PARTS
};

// All that live: a list of weak references, preserved.
static struct {
  SEXP references;
  R_xlen_t count;
} known;

static SEXP parts_of(SEXP dictionary) {
  return R_ExternalPtrProtected(dictionary);
}

// note adds a dictionary to those known, in place of those that are gone.
static void note(SEXP dictionary) {
  SEXP reference = PROTECT(
      R_MakeWeakRef(PROTECT(dictionary), R_NilValue, R_NilValue, FALSE));
  R_xlen_t kept = 0;
  for (R_xlen_t i = 0; i < known.count; i++) {
    SEXP one = VECTOR_ELT(known.references, i);
    if (R_WeakRefKey(one) == R_NilValue) continue;
    SET_VECTOR_ELT(known.references, kept++, one);
  }
  known.count = kept;
  const R_xlen_t room =
      known.references == NULL ? 0 : Rf_xlength(known.references);
  if (known.count == room) {
    SEXP more = PROTECT(Rf_allocVector(VECSXP, 2 * room + 16));
    for (R_xlen_t i = 0; i < known.count; i++)
      SET_VECTOR_ELT(more, i, VECTOR_ELT(known.references, i));
    R_PreserveObject(more);
    if (known.references != NULL) R_ReleaseObject(known.references);
    known.references = more;
    UNPROTECT(1);
  }
  SET_VECTOR_ELT(known.references, known.count++, reference);
  UNPROTECT(2);
}

// new_dictionary makes one with these strings, or their packed form.
static SEXP new_dictionary(SEXP number, SEXP strings, R_xlen_t size) {
  SEXP parts = PROTECT(Rf_allocVector(VECSXP, PARTS));
  SET_VECTOR_ELT(parts, TYPEOF(strings) == RAWSXP ? PACKED : STRINGS, strings);
  SET_VECTOR_ELT(parts, SIZE, Rf_ScalarReal((double)size));
  MARK_NOT_MUTABLE(strings);
  SEXP dictionary = PROTECT(R_MakeExternalPtr(NULL, number, parts));
  note(dictionary);
  UNPROTECT(2);
  return dictionary;
}

SEXP ffi_dictionary_of(SEXP strings) {
  for (R_xlen_t i = 0; i < known.count; i++) {
    SEXP one = R_WeakRefKey(VECTOR_ELT(known.references, i));
    if (one != R_NilValue && VECTOR_ELT(parts_of(one), STRINGS) == strings)
      return one;
  }
  return new_dictionary(R_NilValue, strings, Rf_xlength(strings));
}

// Those of the last levels that were keys: a list, preserved, the last one first. RECENT stay from
// one reading of keys to the next; a reading may have those of two tables.
#define RECENT 4
#define RECENT_MOST (2 * MST_KEY_COLUMNS_MAX)
static SEXP recent;

SEXP ffi_dictionary_recent(SEXP strings) {
  SEXP dictionary = PROTECT(ffi_dictionary_of(strings));
  if (recent == NULL) {
    recent = Rf_allocVector(VECSXP, RECENT_MOST);
    R_PreserveObject(recent);
  }
  R_xlen_t at = 0;
  while (at < RECENT_MOST - 1 && VECTOR_ELT(recent, at) != dictionary &&
         VECTOR_ELT(recent, at) != R_NilValue)
    at++;
  for (; at > 0; at--)
    SET_VECTOR_ELT(recent, at, VECTOR_ELT(recent, at - 1));
  SET_VECTOR_ELT(recent, 0, dictionary);
  UNPROTECT(1);
  return dictionary;
}

void ffi_dictionary_trim(void) {
  for (R_xlen_t at = RECENT; recent != NULL && at < RECENT_MOST; at++)
    SET_VECTOR_ELT(recent, at, R_NilValue);
}

void ffi_dictionary_forget(void) {
  if (recent != NULL) R_ReleaseObject(recent);
  recent = NULL;
}

int ffi_dictionary_is_sound(SEXP dictionary) {
  SEXP parts = parts_of(dictionary), strings = VECTOR_ELT(parts, STRINGS);
  if (VECTOR_ELT(parts, SOUND) == R_NilValue) {
    int sound = TYPEOF(strings) == STRSXP && !ALTREP(strings);
    for (R_xlen_t i = 0; sound && i < Rf_xlength(strings); i++) {
      const enum ffi_share_mark mark =
          ffi_share_mark_of(STRING_ELT(strings, i));
      sound = mark == FFI_SHARE_ASCII || mark == FFI_SHARE_UTF8;
    }
    SET_VECTOR_ELT(parts, SOUND, Rf_ScalarLogical(sound));
  }
  return LOGICAL(VECTOR_ELT(parts, SOUND))[0];
}

int ffi_dictionary_is_of(SEXP dictionary, SEXP strings) {
  return VECTOR_ELT(parts_of(dictionary), STRINGS) == strings;
}

R_xlen_t ffi_dictionary_size(SEXP dictionary) {
  return (R_xlen_t)REAL(VECTOR_ELT(parts_of(dictionary), SIZE))[0];
}

// packed_of gives the packed strings, as if they were over a mapping.
static struct ffi_shared packed_of(SEXP dictionary) {
  SEXP bytes = VECTOR_ELT(parts_of(dictionary), PACKED);
  return (struct ffi_shared){.data = RAW(bytes),
                             .bytes = (uint64_t)Rf_xlength(bytes),
                             .length = ffi_dictionary_size(dictionary)};
}

struct ffi_shared ffi_dictionary_bytes(SEXP dictionary) {
  if (VECTOR_ELT(parts_of(dictionary), STRINGS) == R_NilValue)
    return packed_of(dictionary);
  return (struct ffi_shared){.data = NULL};
}

SEXP ffi_dictionary_strings(SEXP dictionary) {
  SEXP parts = parts_of(dictionary);
  if (VECTOR_ELT(parts, STRINGS) == R_NilValue) {
    const struct ffi_shared packed = packed_of(dictionary);
    SEXP strings = PROTECT(Rf_allocVector(STRSXP, packed.length));
    for (R_xlen_t i = 0; i < packed.length; i++)
      SET_STRING_ELT(strings, i, ffi_shared_string(&packed, i));
    MARK_NOT_MUTABLE(strings);
    SET_VECTOR_ELT(parts, STRINGS, strings);
    UNPROTECT(1);
  }
  return VECTOR_ELT(parts, STRINGS);
}

SEXP ffi_dictionary_packed(SEXP dictionary) {
  SEXP parts = parts_of(dictionary);
  if (VECTOR_ELT(parts, PACKED) == R_NilValue) {
    SEXP packed = ffi_strings_pack(VECTOR_ELT(parts, STRINGS));
    MARK_NOT_MUTABLE(packed);
    SET_VECTOR_ELT(parts, PACKED, packed);
  }
  return VECTOR_ELT(parts, PACKED);
}

// is_own tells whether there are packed strings that no segment has to stay for.
static int is_own(SEXP parts) {
  SEXP packed = VECTOR_ELT(parts, PACKED);
  return packed != R_NilValue && !ALTREP(packed);
}

static void make_texts(SEXP dictionary) {
  SEXP parts = parts_of(dictionary);
  const R_xlen_t n = ffi_dictionary_size(dictionary);
  struct mst_key_text *texts;
  SEXP both = SET_VECTOR_ELT(
      parts, TEXTS, Rf_allocVector(RAWSXP, (n + 1) * (R_xlen_t)sizeof *texts));
  texts = (struct mst_key_text *)(void *)RAW(both);
  const struct ffi_shared packed = ffi_dictionary_bytes(dictionary);
  for (R_xlen_t i = 0; i < n; i++) {
    if (packed.data == NULL) {
      texts[i] = ffi_dictionary_text(dictionary, (int)i + 1);
    } else {
      texts[i].bytes = ffi_shared_text(&packed, i, &texts[i].n);
    }
  }
  SEXP hashes = Rf_allocVector(RAWSXP, (n + 1) * (R_xlen_t)sizeof(uint64_t));
  mst_key_hash_texts(texts, (size_t)n, (uint64_t *)(void *)RAW(hashes));
  SET_VECTOR_ELT(parts, HASHES, hashes);
}

SEXP ffi_dictionary_packed_of(const struct mst_key_text *texts, size_t n) {
  uint64_t bytes = 9 * (uint64_t)n, end = 0;
  for (size_t i = 0; i < n; i++)
    bytes += texts[i].n;
  SEXP packed = PROTECT(Rf_allocVector(RAWSXP, (R_xlen_t)bytes));
  uint8_t *ends = RAW(packed), *marks = ends + 8 * n, *to = marks + n;
  for (size_t i = 0; i < n; i++) {
    unsigned char any = 0;
    for (size_t k = 0; k < texts[i].n; k++)
      any |= (unsigned char)(to[end + k] = (uint8_t)texts[i].bytes[k]);
    end += texts[i].n;
    memcpy(ends + 8 * i, &end, sizeof end);
    marks[i] = any >= 0x80 ? FFI_SHARE_UTF8 : FFI_SHARE_ASCII;
  }
  SEXP dictionary = PROTECT(new_dictionary(R_NilValue, packed, (R_xlen_t)n));
  SET_VECTOR_ELT(parts_of(dictionary), SOUND, Rf_ScalarLogical(1));
  UNPROTECT(2);
  return dictionary;
}

struct mst_key_text ffi_dictionary_text(SEXP dictionary, int code) {
  SEXP strings = VECTOR_ELT(parts_of(dictionary), STRINGS);
  struct mst_key_text text;
  if (strings == R_NilValue) {
    const struct ffi_shared packed = packed_of(dictionary);
    text.bytes = ffi_shared_text(&packed, code - 1, &text.n);
  } else {
    SEXP string = STRING_ELT(strings, code - 1);
    text.bytes = CHAR(string);
    text.n = (size_t)Rf_xlength(string);
  }
  return text;
}

void ffi_dictionary_keep(SEXP dictionary) {
  SEXP parts = parts_of(dictionary);
  (void)ffi_dictionary_strings(dictionary);
  if (ALTREP(VECTOR_ELT(parts, PACKED))) {
    SET_VECTOR_ELT(parts, PACKED, R_NilValue);
  }
}

const struct mst_key_text *ffi_dictionary_texts(SEXP dictionary,
                                                const uint64_t **hashes) {
  SEXP parts = parts_of(dictionary);
  if (!is_own(parts)) ffi_dictionary_keep(dictionary);
  if (VECTOR_ELT(parts, HASHES) == R_NilValue) make_texts(dictionary);
  *hashes = (const uint64_t *)(const void *)RAW(VECTOR_ELT(parts, HASHES));
  return (const struct mst_key_text *)(const void *)RAW(
      VECTOR_ELT(parts, TEXTS));
}

// add_to adds a string to what number_of hashes.
static void add_to(uint64_t *words, const char *bytes, size_t size,
                   cetype_t encoding) {
  words[0] = mst_hash(bytes, size);
  words[1] = (uint64_t)size << 8 | (uint64_t)encoding;
}

static void add_strings(uint64_t *words, SEXP strings) {
  for (R_xlen_t i = 0; i < Rf_xlength(strings); i++) {
    SEXP text = STRING_ELT(strings, i);
    add_to(words + 2 * i, CHAR(text), (size_t)Rf_xlength(text),
           Rf_getCharCE(text));
    if (text == NA_STRING) words[2 * i + 1] = UINT64_MAX;
  }
}

static void add_packed(uint64_t *words, const struct ffi_shared *packed) {
  const uint8_t *marks = packed->data + 8 * (size_t)packed->length;
  for (R_xlen_t i = 0; i < packed->length; i++) {
    size_t size;
    const char *bytes = ffi_shared_text(packed, i, &size);
    add_to(words + 2 * i, bytes, size,
           marks[i] == FFI_SHARE_UTF8 ? CE_UTF8 : CE_NATIVE);
  }
}

// number_of gives 64 bits: of a thousand different lists two are taken for one once in 10^13 times.
static SEXP number_of(SEXP dictionary) {
  SEXP strings = VECTOR_ELT(parts_of(dictionary), STRINGS);
  const R_xlen_t n = ffi_dictionary_size(dictionary);
  const size_t count = 2 * (size_t)n;
  uint64_t *words = (uint64_t *)R_alloc(count + 1, sizeof *words);
  if (strings == R_NilValue && ffi_dictionary_is_sound(dictionary)) {
    const struct ffi_shared packed = packed_of(dictionary);
    add_packed(words, &packed);
  } else {
    add_strings(words, ffi_dictionary_strings(dictionary));
  }
  char number[48];
  (void)snprintf(number, sizeof number, "%016llx %.0f",
                 (unsigned long long)mst_hash(words, count * sizeof *words),
                 (double)n);
  return Rf_mkString(number);
}

SEXP ffi_dictionary_number(SEXP dictionary) {
  if (R_ExternalPtrTag(dictionary) == R_NilValue) {
    const void *top = vmaxget();
    R_SetExternalPtrTag(dictionary, number_of(dictionary));
    vmaxset(top);
  }
  return R_ExternalPtrTag(dictionary);
}

static SEXP known_by(SEXP number) {
  for (R_xlen_t i = 0; i < known.count; i++) {
    SEXP one = R_WeakRefKey(VECTOR_ELT(known.references, i));
    SEXP tag = one == R_NilValue ? one : R_ExternalPtrTag(one);
    // R has each string once.
    if (tag != R_NilValue && STRING_ELT(tag, 0) == STRING_ELT(number, 0)) {
      return one;
    }
  }
  return R_NilValue;
}

// ---- in messages: a list

enum { OUT_NUMBER, OUT_STRINGS, OUT_SIZE, OUT_SOUND, OUT_PARTS };

SEXP ffi_dictionary_out(SEXP dictionary) {
  SEXP out = PROTECT(Rf_allocVector(VECSXP, OUT_PARTS));
  SEXP packed = ffi_dictionary_packed(dictionary);
  SET_VECTOR_ELT(out, OUT_NUMBER, ffi_dictionary_number(dictionary));
  SET_VECTOR_ELT(out, OUT_STRINGS,
                 packed == R_NilValue ? ffi_dictionary_strings(dictionary)
                                      : packed);
  SET_VECTOR_ELT(out, OUT_SIZE,
                 Rf_ScalarReal((double)ffi_dictionary_size(dictionary)));
  SET_VECTOR_ELT(out, OUT_SOUND,
                 Rf_ScalarLogical(ffi_dictionary_is_sound(dictionary)));
  UNPROTECT(1);
  return out;
}

SEXP ffi_dictionary_in(SEXP out) {
  if (TYPEOF(out) != VECSXP || Rf_xlength(out) != OUT_PARTS) {
    Rf_error("a reference to strings that aren't there");
  }
  SEXP number = VECTOR_ELT(out, OUT_NUMBER),
       strings = VECTOR_ELT(out, OUT_STRINGS), dictionary = known_by(number);
  if (dictionary != R_NilValue) return dictionary;
  const double size = Rf_asReal(VECTOR_ELT(out, OUT_SIZE));
  if (!(size * (TYPEOF(strings) == RAWSXP ? 9 : 1) <=
        (double)Rf_xlength(strings))) {
    Rf_error("a dictionary that is too short");
  }
  dictionary = PROTECT(new_dictionary(number, strings, (R_xlen_t)size));
  SET_VECTOR_ELT(parts_of(dictionary), SOUND, VECTOR_ELT(out, OUT_SOUND));
  UNPROTECT(1);
  return dictionary;
}
