// globals: which variables of the global environment a word may mean.
#ifndef MST_FFI_GLOBALS_H
#define MST_FFI_GLOBALS_H

#include "ffi/entry/entry.h"

// The global variables by their names; functions also by the parts of their names before and
// behind each dot: a generic's and a class's, of a method's; and what package methods keeps of S4
// classes and methods (`.__C__class`, `.__T__generic:package`), by the class or generic. One of
// these that is met brings all of them: they refer to each other. In R's transient memory.
struct ffi_globals {
  SEXP keep;  // a list of one, the caller's and protected; it keeps the names
  SEXP names; // NULL until a word was met: then what is there is looked up once
  struct ffi_global_key *keys;
  size_t keys_n, keys_cap;
  int32_t *slots;
  size_t slots_n;
  uint8_t *met; // by name: 1 if it was met, 2 once it was given
  int some;     // were met and not given yet
};

// ffi_globals_meet notes the variables that a string of R's may mean; with `parts` only functions
// of whose names it is a part. Allocates.
void ffi_globals_meet(struct ffi_globals *globals, SEXP text, int parts);
// ffi_globals_is_s4: is this a name that package methods has made?
int ffi_globals_is_s4(SEXP symbol);
// ffi_globals_next gives the symbol of one that was met, each once; NULL for no more.
SEXP ffi_globals_next(struct ffi_globals *globals);

#endif
