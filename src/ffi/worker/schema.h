// schema: what the blocks of a map task have in common: the dictionaries of their strings and
// levels, and the header of flat blocks (flat.h). Written once for all of them, as block 0, and
// read once by each worker. R thread.
#ifndef MST_FFI_SCHEMA_H
#define MST_FFI_SCHEMA_H

#include "ffi/value/value.h"
#include "wire/link_msg.h"

// A schema as it was read: a list.
enum ffi_schema {
  FFI_SCHEMA_ATTEMPT,
  FFI_SCHEMA_DICTIONARIES, // a list
  FFI_SCHEMA_HEADER,       // NULL: blocks aren't flat
  FFI_SCHEMA_PARTS
};

// ffi_schema_dictionaries gives a list of those of all columns of some data frames (and NULLs).
SEXP ffi_schema_dictionaries(SEXP frames);
// ffi_schema_dictionary_of gives that of a factor's levels, NULL if they are few.
SEXP ffi_schema_dictionary_of(SEXP levels);
// ffi_schema_out gives what block 0 is, NULL if there is nothing to say.
SEXP ffi_schema_out(SEXP dictionaries, SEXP header);
// ffi_schema_in gives the schema from what was written.
SEXP ffi_schema_in(SEXP written, const struct mst_want *want);
// ffi_schema_known gives that of an attempt, NULL if it wasn't noted, or is forgotten: those of the
// two stages noted last are kept, as a join reads two.
SEXP ffi_schema_known(const struct mst_want *want);
// ffi_schema_note keeps one, which the caller protects.
void ffi_schema_note(SEXP schema, const struct mst_want *want);
// ffi_schema_forget forgets those of a stage.
void ffi_schema_forget(uint32_t stage);

#endif
