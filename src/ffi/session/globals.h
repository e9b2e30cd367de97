// globals: the variables of the global environment that a word may mean.
#ifndef MST_FFI_GLOBALS_H
#define MST_FFI_GLOBALS_H

#include "ffi/entry/entry.h"

// Index of the global variables: by name; functions also by the parts of their names before and
// after each dot (a method's generic and class); what package methods keeps for S4 classes and
// methods (`.__C__class`, `.__T__generic:package`) by class or generic: since these refer to each
// other, a hit on one includes all. In R's transient memory.
struct ffi_globals {
  SEXP keep;  // a list of one, protected by the caller; it keeps the names
  SEXP names; // NULL until the first word, when they are looked up
  struct ffi_global_key *keys;
  size_t keys_n, keys_cap;
  int32_t *slots;
  size_t slots_n;
  uint8_t *met; // by name: 1: met, 2: also given
  int some;     // some were met and not given yet
};

// ffi_globals_meet notes the variables that a string may mean; with `parts` only functions of whose
// names it is a part. Allocates.
void ffi_globals_meet(struct ffi_globals *globals, SEXP text, int parts);
// ffi_globals_is_s4 tells whether package methods has made this name.
int ffi_globals_is_s4(SEXP symbol);
// ffi_globals_next gives the symbol of a variable that was met, each one once; NULL: no more.
SEXP ffi_globals_next(struct ffi_globals *globals);

#endif
