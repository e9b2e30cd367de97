// names: which names code uses, read from the code alone.
#ifndef MST_FFI_NAMES_H
#define MST_FFI_NAMES_H

#include "ffi/entry/entry.h"

// What a closure's code names. FFI_CODE_NAMES: symbols that it may look up around its own frame:
// all that it reads but those that are surely its own by then, arguments and what was assigned
// before on every way there; `...` for any of its elements. FFI_CODE_CALLED: for each, whether it
// is called, so that R passes over what is no function. FFI_CODE_WORDS: a character vector of what
// may be names in strings and quoted code. FFI_CODE_OBJECTS: what stands in the code itself and
// isn't plain, such as functions.
enum ffi_code {
  FFI_CODE_FORMALS,
  FFI_CODE_BODY,
  FFI_CODE_NAMES,
  FFI_CODE_CALLED,
  FFI_CODE_WORDS,
  FFI_CODE_OBJECTS,
  FFI_CODE_FIELDS
};

// ffi_code_of gives this of a closure, a list; it is kept for the codes that were asked for last:
// functions that one expression makes share their code. The caller protects it. May raise an R
// error for code that is nested too deeply.
SEXP ffi_code_of(SEXP fun);

// ffi_code_words gives the words in a language object, quoted code: a character vector.
SEXP ffi_code_words(SEXP code);

// ffi_each_word calls `word` with each word of a string that may be a name, a string of R's, and
// with all of it.
// What `word` does may allocate, and must not jump over what the caller holds.
void ffi_each_word(SEXP text, void (*word)(void *data, SEXP text), void *data);

#endif
