// An index of the global environment by words. The contract is in globals.h.
#include "ffi/session/globals.h"

#include <string.h>

struct ffi_global_key {
  SEXP text;
  R_xlen_t name; // in `names`
  int32_t next;  // in the same slot, or -1
  // KEY_WHOLE: the whole name; others: a part, or the generic or class in it.
  enum { KEY_PART, KEY_WHOLE, KEY_S4 } kind;
};

static const char *const s4_marks[] = {".__C__", ".__T__"};
#define S4_MARK_BYTES 6u

// s4_of gives the class or generic in a name that package methods has made, else NULL.
static const char *s4_of(const char *text) {
  for (size_t i = 0; i < sizeof s4_marks / sizeof *s4_marks; i++) {
    if (strncmp(text, s4_marks[i], S4_MARK_BYTES) == 0) {
      return text + S4_MARK_BYTES;
    }
  }
  return NULL;
}

int ffi_globals_is_s4(SEXP symbol) {
  return s4_of(CHAR(PRINTNAME(symbol))) != NULL;
}

static size_t slot_of(const struct ffi_globals *globals, SEXP text) {
  const uintptr_t bits = (uintptr_t)text;
  return ((size_t)((bits >> 4) ^ (bits >> 13)) * 2654435761u) &
         (globals->slots_n - 1);
}

static void add_key(struct ffi_globals *globals, SEXP text, R_xlen_t name,
                    int kind) {
  if (globals->keys_n == globals->keys_cap) {
    const size_t cap = 2 * globals->keys_cap + 64;
    struct ffi_global_key *keys =
        (struct ffi_global_key *)(void *)R_alloc(cap, sizeof *keys);
    if (globals->keys_n > 0) {
      memcpy((void *)keys, (void *)globals->keys,
             globals->keys_n * sizeof *keys);
    }
    globals->keys = keys;
    globals->keys_cap = cap;
  }
  globals->keys[globals->keys_n++] = (struct ffi_global_key){
      .text = text, .name = name, .next = -1, .kind = kind};
}

// add_part adds a key for a part of a name, and keeps the string.
static void add_part(struct ffi_globals *globals, const char *text, size_t n,
                     R_xlen_t name, int kind) {
  const cetype_t encoding = Rf_getCharCE(STRING_ELT(globals->names, name));
  SEXP part = PROTECT(Rf_mkCharLenCE(text, (int)n, encoding));
  SET_VECTOR_ELT(globals->keep, 0, Rf_cons(part, VECTOR_ELT(globals->keep, 0)));
  add_key(globals, part, name, kind);
  UNPROTECT(1);
}

// add_parts: in `t.test.odd` both `t` and `t.test` may be generics, and the rest a class.
static void add_parts(struct ffi_globals *globals, R_xlen_t name) {
  const char *text = CHAR(STRING_ELT(globals->names, name));
  const char *dot = text[0] == '\0' ? NULL : strchr(text + 1, '.');
  for (; dot != NULL && dot[1] != '\0'; dot = strchr(dot + 1, '.')) {
    add_part(globals, text, (size_t)(dot - text), name, KEY_PART);
    add_part(globals, dot + 1, strlen(dot + 1), name, KEY_PART);
  }
}

static void add_s4(struct ffi_globals *globals, const char *of, R_xlen_t name) {
  const int is_class = of[-3] == 'C'; // a class name may have a colon
  const char *package = is_class ? NULL : strrchr(of, ':');
  const size_t n =
      package == NULL || package == of ? strlen(of) : (size_t)(package - of);
  add_part(globals, of, n, name, KEY_S4);
}

static void make_index(struct ffi_globals *globals) {
  SEXP names = PROTECT(R_lsInternal3(R_GlobalEnv, TRUE, FALSE));
  const R_xlen_t n = Rf_xlength(names);
  SET_VECTOR_ELT(globals->keep, 0, Rf_cons(names, R_NilValue));
  UNPROTECT(1);
  globals->names = names;
  for (R_xlen_t i = 0; i < n; i++) {
    const char *of = s4_of(CHAR(STRING_ELT(names, i)));
    add_key(globals, STRING_ELT(names, i), i, KEY_WHOLE);
    if (of != NULL) {
      add_s4(globals, of, i);
    } else {
      add_parts(globals, i);
    }
  }
  globals->met = (uint8_t *)R_alloc((size_t)n + 1, 1);
  memset(globals->met, 0, (size_t)n + 1);
  globals->slots_n = 64;
  while (globals->slots_n < 2 * globals->keys_n)
    globals->slots_n *= 2;
  globals->slots =
      (int32_t *)(void *)R_alloc(globals->slots_n, sizeof(int32_t));
  memset(globals->slots, -1, globals->slots_n * sizeof(int32_t));
  for (size_t i = 0; i < globals->keys_n; i++) {
    const size_t slot = slot_of(globals, globals->keys[i].text);
    globals->keys[i].next = globals->slots[slot];
    globals->slots[slot] = (int32_t)i;
  }
}

static int is_closure(SEXP symbol) {
  return !R_BindingIsActive(symbol, R_GlobalEnv) &&
         TYPEOF(ffi_binding(R_GlobalEnv, symbol)) == CLOSXP;
}

static void meet_all_s4(struct ffi_globals *globals) {
  for (size_t i = 0; i < globals->keys_n; i++) {
    const struct ffi_global_key *key = &globals->keys[i];
    if (key->kind != KEY_S4 || globals->met[key->name] != 0) continue;
    globals->met[key->name] = 1;
    globals->some = 1;
  }
}

void ffi_globals_meet(struct ffi_globals *globals, SEXP text, int parts) {
  if (globals->names == NULL) make_index(globals);
  for (int32_t i = globals->slots[slot_of(globals, text)]; i >= 0;
       i = globals->keys[i].next) {
    const struct ffi_global_key *key = &globals->keys[i];
    if (key->text != text || globals->met[key->name] != 0) continue;
    if (key->kind == KEY_S4) {
      meet_all_s4(globals);
      continue;
    }
    if (parts && key->kind == KEY_WHOLE) continue;
    SEXP symbol = Rf_installTrChar(STRING_ELT(globals->names, key->name));
    if (!ffi_exists(R_GlobalEnv, symbol)) continue; // removed meanwhile
    if (key->kind == KEY_PART && !is_closure(symbol)) continue;
    globals->met[key->name] = 1;
    globals->some = 1;
  }
}

SEXP ffi_globals_next(struct ffi_globals *globals) {
  const R_xlen_t n = globals->some ? Rf_xlength(globals->names) : 0;
  for (R_xlen_t i = 0; i < n; i++) {
    if (globals->met[i] != 1) continue;
    globals->met[i] = 2;
    return Rf_installTrChar(STRING_ELT(globals->names, i));
  }
  globals->some = 0;
  return NULL;
}
