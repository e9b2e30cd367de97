// Shared by share.c (out) and shared.c (in): the classes.
#ifndef MST_FFI_SHARE_INT_H
#define MST_FFI_SHARE_INT_H

#include "ffi/value/value.h"

#include <R_ext/Altrep.h> // wants Rinternals.h before it

#include "wire/link_msg.h"

enum ffi_share_kind {
  FFI_SHARE_REAL,
  FFI_SHARE_INTEGER,
  FFI_SHARE_LOGICAL,
  FFI_SHARE_RAW,
  FFI_SHARE_COMPLEX,
  FFI_SHARE_STRING,
  FFI_SHARE_KINDS
};
extern const size_t ffi_share_size[FFI_SHARE_KINDS]; // of an element, at least
extern R_altrep_class_t ffi_share_class[FFI_SHARE_KINDS];
extern const char *const ffi_share_name[FFI_SHARE_KINDS]; // of the class

// A string's mark in a segment.
enum ffi_share_mark {
  FFI_SHARE_ASCII,
  FFI_SHARE_UTF8,
  FFI_SHARE_LATIN1,
  FFI_SHARE_BYTES,
  FFI_SHARE_NA,
  FFI_SHARE_NONE // in the locale's encoding: can't be stored there
};

// A vector over a mapping. The first datum of its ALTREP object is an external pointer to this; for
// strings the second is NULL, or a character vector of those made so far. A shadow's first datum is
// the vector that it stands for, its second the state: offset, length, bytes.
struct ffi_shared {
  struct mst_map *map; // NULL once all strings are made
  uint8_t *data;
  uint64_t bytes;
  R_xlen_t length;
};

// ffi_share_kind_of gives the kind of a vector, -1 if it can't be shared.
int ffi_share_kind_of(SEXP x);
int ffi_share_kind_of_type(int type);
// ffi_share_new makes an object of a kind's class.
SEXP ffi_share_new(int kind, SEXP first, SEXP second);
// ffi_shared_of gives the data of a vector that is over a mapping now, else NULL.
const struct ffi_shared *ffi_shared_of(SEXP x);

// ---- strings.c: strings in a segment are the end of each, the mark of each, then their bytes

// ffi_share_mark_of gives a string's encoding; FFI_SHARE_NONE for one in the locale's, which may
// differ at the other end: R's serialize() handles those.
enum ffi_share_mark ffi_share_mark_of(SEXP text);
// ffi_strings_bytes gives the bytes that a character vector takes in a segment, 0 if it can't be
// stored there; ffi_strings_write appends it to one, ffi_strings_pack gives it as a raw vector,
// R_NilValue if it can't be stored. 0, or an error.
uint64_t ffi_strings_bytes(const SEXP *texts, R_xlen_t n);
int ffi_strings_write(struct mst_segment *segment, const SEXP *texts,
                      R_xlen_t n, struct mst_err *err);
SEXP ffi_strings_pack(SEXP strings);
// ffi_shared_text gives the bytes, and their number, of a stored string that isn't NA; an R error
// if they aren't valid. ffi_shared_string makes the string, which may be NA.
const char *ffi_shared_text(const struct ffi_shared *shared, R_xlen_t i,
                            size_t *n);
SEXP ffi_shared_string(const struct ffi_shared *shared, R_xlen_t i);
// ffi_dictionary_bytes (dictionary.c) gives the packed strings of a dictionary that has no others
// yet, to read many of them; data is NULL if it has. Valid as what ffi_dictionary_text gives.
struct ffi_shared ffi_dictionary_bytes(SEXP dictionary);

// ---- reading

// Where a message refers to: a segment, and the offset in it to which references are relative.
struct ffi_share_source {
  struct mst_map *map; // NULL: nowhere
  uint64_t base;
};
// ffi_share_read_from: the object that is read next refers there. Gives what was set before, for
// the reader to put back, however it ends.
struct ffi_share_source ffi_share_read_from(struct ffi_share_source source);

// ffi_share_block appends x to a segment, or a file, as a block (wire/link_msg.h): large vectors,
// then R bytes that refer to them, and to dictionaries (coded.h), a list of which the block's
// readers need; NULL: none. Fills in offset, bytes and stream of *block. buf is scratch. R may
// jump: the caller holds segment and buf. 0, or an error.
int ffi_share_block(SEXP x, SEXP dictionaries, struct mst_segment *segment,
                    struct mst_buf *buf, struct mst_block *block,
                    struct mst_err *err);
// ffi_unserialize_block reads one, and takes over the reference to the map.
SEXP ffi_unserialize_block(struct mst_map *map, uint64_t base,
                           const struct mst_block *block);

#endif
