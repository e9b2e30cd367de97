// names: the names that code uses, found by reading the code alone.
#ifndef MST_FFI_NAMES_H
#define MST_FFI_NAMES_H

#include "ffi/entry/entry.h"

// What a closure's code uses. FFI_CODE_NAMES: symbols that it may look up outside its own frame:
// all that it reads, except arguments and what was certainly assigned before; `...` for any of its
// elements. FFI_CODE_CALLED: for each, whether it is called, so that R skips values that aren't
// functions. FFI_CODE_WORDS: a character vector of possible names in strings and quoted code.
// FFI_CODE_OBJECTS: objects in the code itself that aren't plain, such as functions.
enum ffi_code {
  FFI_CODE_FORMALS,
  FFI_CODE_BODY,
  FFI_CODE_NAMES,
  FFI_CODE_CALLED,
  FFI_CODE_WORDS,
  FFI_CODE_OBJECTS,
  FFI_CODE_FIELDS
};

// ffi_code_of gives this list for a closure, which the caller protects. It is cached for the codes
// used last: functions made by one expression share their code. May raise an R error if code is
// nested too deeply.
SEXP ffi_code_of(SEXP fun);

// ffi_code_words gives the words in quoted code: a character vector.
SEXP ffi_code_words(SEXP code);

// ffi_each_word calls `word` with each word of a string that may be a name, and with the whole
// string. `word` may allocate, and must not jump over what the caller holds.
void ffi_each_word(SEXP text, void (*word)(void *data, SEXP text), void *data);

// ffi_each_syntax calls `take` with the symbols of R's syntax, which ffi_code_of leaves out: `{`,
// `<-`, `if` and so on.
void ffi_each_syntax(void (*take)(void *data, SEXP symbol), void *data);

#endif
