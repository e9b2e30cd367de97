// What functions need from the session to be evaluated in another process: global variables,
// packages. This runs for each task and mostly finds nothing, so it must cost next to nothing.
//
// Everything that a function contains travels, as serialize() writes it: its frames and all that
// they hold. So all of this is searched, each closure's code is read (names.h), and the values of
// its names in the global environment, or in an attached data frame, travel too. Packages are
// listed.
//
// Names may also be in strings and in quoted code, and R makes a method's name from a generic and a
// class. Global variables with such names travel as well, since a worker would find another
// variable of that name, or none; but large ones are only listed (`left`): using them there is an
// error. Names that are computed in other ways aren't found.
//
// Variables named by code, from the function itself on, travel whatever they are. Those named only
// by words, and those needed by functions that merely are in a frame (get() or the like may call
// them), travel only if that is cheap.
//
// A promise that code names is evaluated here, once, as lapply() would. That runs R code:
// everything seen is kept in lists, so that no address is reused meanwhile.
#include <string.h>

#include "ffi/session/globals.h"
#include "ffi/session/names.h"
#include "ffi/session/session.h"

// Strings that aren't code: how many of them may be names, in one vector and in all.
#define STRINGS_MAX 1000
#define ALL_STRINGS_MAX 10000
// The maximum size of variables named only by a string.
#define WORD_BYTES 1e6

// Pairlists, newest first, except the first two.
enum {
  BOX_USED,     // closures and environments to search
  BOX_FRAMES,   // and the frames around functions
  BOX_GLOBALS,  // values that travel, by name
  BOX_LEFT,     // symbols named only by words whose values are too large
  BOX_AROUND,   // values in frames that code uses, if not plain, by name
  BOX_PACKAGES, // symbols
  BOX_CLASSES,  // of what travels, for ffi_class_packages()
  BOX_COPIES,   // of attached frames, by frame
  BOX_NAMES,    // of global variables; a list of one, for globals.h
  BOX_FIELDS
};

// Why something is searched: code names it, words name it, or it is in a frame.
enum level { BY_NAME, BY_WORD, BY_PLACE };

// A list in a field of the box; each object is in it once; those before `at` have been searched.
struct seen {
  int field;
  R_xlen_t n, at;
  int32_t *slots; // by address: 1 + the index in the list
  size_t slots_n;
};

struct find {
  SEXP box;
  struct seen used, frames;
  enum level level;
  R_xlen_t strings; // read for words so far
  struct ffi_globals globals;
};

static size_t hash_of(const void *address) {
  const uintptr_t bits = (uintptr_t)address;
  return (size_t)((bits >> 4) ^ (bits >> 13)) * 2654435761u;
}

static void seek(struct find *find, SEXP x);

// ---- objects seen

static void grow_slots(struct seen *seen, SEXP list) {
  seen->slots_n = seen->slots_n == 0 ? 64 : 2 * seen->slots_n;
  seen->slots = (int32_t *)(void *)R_alloc(seen->slots_n, sizeof(int32_t));
  memset(seen->slots, 0, seen->slots_n * sizeof(int32_t));
  for (R_xlen_t i = 0; i < seen->n; i++) {
    size_t slot = hash_of(VECTOR_ELT(list, i)) & (seen->slots_n - 1);
    while (seen->slots[slot] != 0)
      slot = (slot + 1) & (seen->slots_n - 1);
    seen->slots[slot] = (int32_t)i + 1;
  }
}

// see adds x to the list, unless it is there.
static void see(struct find *find, struct seen *seen, SEXP x) {
  SEXP list = VECTOR_ELT(find->box, seen->field);
  if (2 * (size_t)(seen->n + 1) > seen->slots_n) grow_slots(seen, list);
  size_t slot = hash_of(x) & (seen->slots_n - 1);
  while (seen->slots[slot] != 0) {
    if (VECTOR_ELT(list, seen->slots[slot] - 1) == x) return;
    slot = (slot + 1) & (seen->slots_n - 1);
  }
  if (list == R_NilValue || seen->n == Rf_xlength(list)) {
    PROTECT(x);
    SEXP longer = Rf_allocVector(VECSXP, 2 * seen->n + 16);
    SET_VECTOR_ELT(find->box, seen->field, longer);
    for (R_xlen_t i = 0; i < seen->n; i++)
      SET_VECTOR_ELT(longer, i, VECTOR_ELT(list, i));
    UNPROTECT(1);
    list = longer;
  }
  SET_VECTOR_ELT(list, seen->n, x);
  seen->slots[slot] = (int32_t)++seen->n;
}

// next_seen gives the next object to search, or NULL.
static SEXP next_seen(const struct find *find, struct seen *seen) {
  if (seen->at == seen->n) return NULL;
  return VECTOR_ELT(VECTOR_ELT(find->box, seen->field), seen->at++);
}

// ---- environments

static const char *name_of(SEXP env) {
  static SEXP symbol;
  SEXP name = Rf_getAttrib(env, ffi_symbol(&symbol, "name"));
  return TYPEOF(name) == STRSXP && Rf_xlength(name) == 1
             ? CHAR(STRING_ELT(name, 0))
             : "";
}

// Where a name is found: in a frame, of a function or attached; in the global environment; in what
// every worker has, or gets with a package that it loads; in a package that it is told to attach.
enum place { IN_FRAME, IN_GLOBAL, IN_OWN, IN_PACKAGE };

static enum place place_of(SEXP env) {
  static const char *const own[] = {"datasets", "grDevices", "graphics",
                                    "methods",  "stats",     "utils"};
  static const char *const tools[] = {"imports:", "Autoloads", "devtools_shims",
                                      "tools:"};
  if (env == R_GlobalEnv) return IN_GLOBAL;
  if (env == R_BaseEnv || env == R_EmptyEnv || R_IsNamespaceEnv(env)) {
    return IN_OWN;
  }
  const char *name = name_of(env);
  if (name[0] == '\0') return IN_FRAME;
  for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
    if (strncmp(name, tools[i], strlen(tools[i])) == 0) return IN_OWN;
  }
  if (strncmp(name, "package:", 8) != 0) return IN_FRAME;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    if (strcmp(name + 8, own[i]) == 0) return IN_OWN;
  }
  return IN_PACKAGE;
}

// ---- results

static void put_first(struct find *find, int which, SEXP value, SEXP tag) {
  SEXP cell = Rf_cons(value, VECTOR_ELT(find->box, which));
  SET_VECTOR_ELT(find->box, which, cell);
  if (tag != NULL) SET_TAG(cell, tag);
}

static int is_in(const struct find *find, int which, SEXP x) {
  SEXP at = VECTOR_ELT(find->box, which);
  while (at != R_NilValue && CAR(at) != x)
    at = CDR(at);
  return at != R_NilValue;
}

// cell_of gives the cell of a name, or R_NilValue.
static SEXP cell_of(const struct find *find, int which, SEXP name) {
  SEXP at = VECTOR_ELT(find->box, which);
  while (at != R_NilValue && TAG(at) != name)
    at = CDR(at);
  return at;
}

// evaluate gives a variable's value, also of a promise or an active binding. Runs R code.
static SEXP evaluate(SEXP symbol, SEXP env) { return Rf_eval(symbol, env); }

// copy_of gives a frame that replaces an attached one: that one would take the whole search path
// along, or what the worker has attached in its place.
static SEXP copy_of(struct find *find, SEXP env) {
  SEXP known = cell_of(find, BOX_COPIES, env);
  if (known != R_NilValue) return CAR(known);
  SEXP copy = PROTECT(ffi_call_ours(FFI_COPY_ATTACHED, env));
  put_first(find, BOX_COPIES, copy, env);
  UNPROTECT(1);
  return copy;
}

// note_global gives a variable's value and lets it travel, unless it is called and isn't a
// function.
static SEXP note_global(struct find *find, SEXP symbol, int called, SEXP env) {
  SEXP known = cell_of(find, BOX_GLOBALS, symbol);
  if (known != R_NilValue) return CAR(known);
  if (env != R_GlobalEnv) env = copy_of(find, env);
  SEXP value = PROTECT(evaluate(symbol, env));
  if (called && !Rf_isFunction(value)) {
    UNPROTECT(1);
    return value;
  }
  put_first(find, BOX_GLOBALS, value, symbol);
  seek(find, value);
  UNPROTECT(1);
  return value;
}

static void note_package(struct find *find, SEXP env) {
  SEXP name = Rf_install(name_of(env) + 8);
  if (!is_in(find, BOX_PACKAGES, name)) {
    put_first(find, BOX_PACKAGES, name, NULL);
  }
}

// is_plain: it needn't be listed, and isn't large.
static int is_plain(SEXP x) {
  switch (TYPEOF(x)) {
  case CLOSXP:
  case VECSXP:
  case S4SXP:
  case EXTPTRSXP:
  case ENVSXP:
    return 0;
  default:
    return !Rf_isObject(x) &&
           (!Rf_isVectorAtomic(x) || Rf_xlength(x) < 10000000);
  }
}

// ---- words

static void meet_word(void *data, SEXP text) {
  struct find *find = data;
  ffi_globals_meet(&find->globals, text, 0);
}

static void meet_words(struct find *find, SEXP words) {
  for (R_xlen_t i = 0; i < Rf_xlength(words); i++)
    meet_word(find, STRING_ELT(words, i));
}

static void meet_strings(struct find *find, SEXP strings) {
  const R_xlen_t n = Rf_xlength(strings);
  find->strings += n;
  if (n > STRINGS_MAX || find->strings > ALL_STRINGS_MAX) return;
  for (R_xlen_t i = 0; i < n; i++)
    ffi_each_word(STRING_ELT(strings, i), meet_word, find);
}

// take_if_cheap lets a variable that may be used travel, if that is cheap and its value works
// elsewhere.
static void take_if_cheap(struct find *find, SEXP symbol, SEXP env) {
  if (symbol == R_SeedsSymbol ||
      cell_of(find, BOX_GLOBALS, symbol) != R_NilValue ||
      is_in(find, BOX_LEFT, symbol)) {
    return;
  }
  if (!ffi_exists(env, symbol) || R_BindingIsActive(symbol, env) ||
      ffi_is_promise(env, symbol)) {
    return;
  }
  SEXP value = PROTECT(ffi_binding(env, symbol));
  SEXP what = PROTECT(Rf_allocVector(VECSXP, 1));
  SET_VECTOR_ELT(what, 0, value);
  const double bytes = Rf_asReal(ffi_call_ours(FFI_BYTES_IN, what));
  UNPROTECT(1);
  if (bytes <= WORD_BYTES && !ffi_is_refused(value, NULL)) {
    (void)note_global(find, symbol, 0, env);
  } else {
    put_first(find, BOX_LEFT, symbol, NULL);
  }
  UNPROTECT(1);
}

static void take_met(struct find *find) {
  for (SEXP symbol; (symbol = ffi_globals_next(&find->globals)) != NULL;) {
    if (ffi_globals_is_s4(symbol)) {
      if (ffi_exists(R_GlobalEnv, symbol))
        (void)note_global(find, symbol, 0, R_GlobalEnv);
    } else {
      take_if_cheap(find, symbol, R_GlobalEnv);
    }
  }
}

// ---- names in code

// take_of_frame gives the value of a variable of a frame, which travels anyway, to search it; NULL
// (R's) if it isn't known.
static SEXP take_of_frame(struct find *find, SEXP symbol, SEXP env) {
  if (symbol == R_DotsSymbol) {
    return find->level != BY_NAME ? R_NilValue
                                  : ffi_call_ours(FFI_VALUES_OF_DOTS, env);
  }
  if (R_BindingIsActive(symbol, env)) return R_NilValue; // see look_into_frame
  SEXP value = ffi_binding(env, symbol);
  if (value == R_MissingArg) return R_NilValue;
  if (!ffi_is_promise(env, symbol)) return value;
  if (find->level != BY_NAME) return R_NilValue;
  SEXP what = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(what, 0, symbol);
  SET_VECTOR_ELT(what, 1, env);
  const int settled = Rf_asLogical(ffi_call_ours(FFI_SETTLE, what)) == TRUE;
  UNPROTECT(1);
  return settled && ffi_exists(env, symbol) ? evaluate(symbol, env)
                                            : R_NilValue;
}

// find_name finds the value of a name in code, from env on, as R would.
static void find_name(struct find *find, SEXP symbol, int called, SEXP env) {
  if (symbol == R_SeedsSymbol) return; // each process has its own
  int searching = 0;                   // left the frames that travel
  // It began in an attached frame, which is searched after the global environment.
  int attached = 0;
  for (; env != R_EmptyEnv; env = ffi_parent_env(env)) {
    attached |= is_in(find, BOX_COPIES, env);
    const int here = ffi_exists(env, symbol);
    // To look at each attached package costs more than all the rest.
    if (searching && !here) continue;
    const enum place place = place_of(env);
    searching |= place != IN_FRAME;
    if (!here) continue;
    if (place == IN_OWN) return;
    if (place == IN_GLOBAL && attached) {
      (void)ffi_call_ours(FFI_ABORT_ATTACHED,
                          Rf_ScalarString(PRINTNAME(symbol)));
    }
    if (place == IN_PACKAGE) {
      if (find->level != BY_PLACE) note_package(find, env);
      return;
    }
    if (searching && find->level != BY_NAME) {
      take_if_cheap(find, symbol, env);
      return;
    }
    SEXP value = PROTECT(searching ? note_global(find, symbol, called, env)
                                   : take_of_frame(find, symbol, env));
    if (!searching) {
      if (!is_plain(value) && cell_of(find, BOX_AROUND, symbol) == R_NilValue) {
        put_first(find, BOX_AROUND, value, symbol);
      }
      seek(find, value);
    }
    UNPROTECT(1);
    if (!called || Rf_isFunction(value)) return;
  }
}

// ---- search

// look_up_words searches variables in the frames, which travel anyway, that words may mean.
static void look_up_words(struct find *find, SEXP words, SEXP env) {
  if (find->level == BY_PLACE || place_of(env) != IN_FRAME) return;
  for (R_xlen_t i = 0; i < Rf_xlength(words); i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(words, i));
    SEXP at = env;
    while (place_of(at) == IN_FRAME && !ffi_exists(at, symbol))
      at = ffi_parent_env(at);
    if (place_of(at) != IN_FRAME || symbol == R_DotsSymbol ||
        R_BindingIsActive(symbol, at) || ffi_is_promise(at, symbol)) {
      continue;
    }
    seek(find, PROTECT(ffi_binding(at, symbol)));
    UNPROTECT(1);
  }
}

static void look_into_closure(struct find *find, SEXP fun) {
  SEXP env = ffi_closure_env(fun);
  const enum place place = place_of(env);
  if (place != IN_FRAME && place != IN_GLOBAL) return; // a package's function
  SEXP code = PROTECT(ffi_code_of(fun));
  SEXP names = VECTOR_ELT(code, FFI_CODE_NAMES);
  const int *called = LOGICAL(VECTOR_ELT(code, FFI_CODE_CALLED));
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP symbol = VECTOR_ELT(names, i);
    find_name(find, symbol, called[i], env);
    // R's functions in C have methods only for classes, which are found by class.
    const int in_c = Rf_isPrimitive(ffi_binding(R_BaseEnv, symbol));
    if (called[i] && !in_c) {
      ffi_globals_meet(&find->globals, PRINTNAME(symbol), 1);
    }
  }
  meet_words(find, VECTOR_ELT(code, FFI_CODE_WORDS));
  look_up_words(find, VECTOR_ELT(code, FFI_CODE_WORDS), env);
  SEXP at = VECTOR_ELT(code, FFI_CODE_OBJECTS);
  for (; at != R_NilValue; at = CDR(at))
    seek(find, CAR(at));
  UNPROTECT(1);
  if (place == IN_FRAME) see(find, &find->frames, env);
}

static void look_into_frame(struct find *find, SEXP env) {
  SEXP names = PROTECT(R_lsInternal3(env, TRUE, FALSE));
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
    if (R_BindingIsActive(symbol, env)) {
      seek(find, R_ActiveBindingFunction(symbol, env));
    } else if (symbol != R_DotsSymbol && ffi_exists(env, symbol) &&
               !ffi_is_promise(env, symbol)) {
      seek(find, PROTECT(ffi_binding(env, symbol)));
      UNPROTECT(1);
    }
  }
  UNPROTECT(1);
  SEXP around = ffi_parent_env(env);
  if (place_of(around) == IN_FRAME) see(find, &find->frames, around);
}

static void seek_attributes(struct find *find, SEXP x) {
  if (!ffi_has_attributes(x)) return;
  SEXP class =
      find->level == BY_PLACE ? R_NilValue : Rf_getAttrib(x, R_ClassSymbol);
  for (R_xlen_t i = 0; i < Rf_xlength(class); i++) {
    SEXP one = STRING_ELT(class, i);
    if (is_in(find, BOX_CLASSES, one)) continue;
    put_first(find, BOX_CLASSES, one, ffi_class_package(class));
    meet_word(find, one);
  }
  SEXP all = PROTECT(ffi_attributes(x));
  SEXP names = Rf_getAttrib(all, R_NamesSymbol);
  for (R_xlen_t i = 0; i < Rf_xlength(all); i++) {
    SEXP one = VECTOR_ELT(all, i);
    // Source references are useless elsewhere, and labels aren't names of variables.
    if (strncmp(CHAR(STRING_ELT(names, i)), "srcref", 6) == 0) continue;
    if (TYPEOF(one) != STRSXP) seek(find, one);
  }
  UNPROTECT(1);
}

// seek searches x for functions and frames. Lists have no cycles; an object that is in several
// places is serialized several times, too.
static void seek(struct find *find, SEXP x) {
  R_CheckStack();
  switch (TYPEOF(x)) {
  case CLOSXP:
    see(find, &find->used, x);
    break;
  case ENVSXP:
    if (place_of(x) == IN_FRAME) see(find, &find->used, x);
    break;
  case SYMSXP:
    if (x != R_MissingArg) meet_word(find, PRINTNAME(x));
    return;
  case STRSXP:
    meet_strings(find, x);
    break;
  case LANGSXP:
    meet_words(find, PROTECT(ffi_code_words(x)));
    UNPROTECT(1);
    break;
  case VECSXP:
  case EXPRSXP:
    for (R_xlen_t i = 0; i < Rf_xlength(x); i++)
      seek(find, VECTOR_ELT(x, i));
    break;
  case LISTSXP:
    for (SEXP at = x; at != R_NilValue; at = CDR(at))
      seek(find, CAR(at));
    return;
  case NILSXP:
  case BUILTINSXP:
  case SPECIALSXP:
  case EXTPTRSXP:
  case WEAKREFSXP:
    return;
  default:
    break;
  }
  seek_attributes(find, x);
}

static void look_into_used(struct find *find) {
  SEXP x;
  while ((x = next_seen(find, &find->used)) != NULL) {
    if (TYPEOF(x) == CLOSXP) {
      look_into_closure(find, x);
    } else {
      look_into_frame(find, x);
    }
  }
}

static void look_into_all(struct find *find) {
  look_into_used(find);
  find->level = BY_WORD;
  while (find->globals.some) {
    take_met(find);
    look_into_used(find);
  }
  find->level = BY_PLACE;
  for (SEXP frame; (frame = next_seen(find, &find->frames)) != NULL;) {
    look_into_frame(find, frame);
    do {
      look_into_used(find);
      take_met(find);
    } while (find->used.at < find->used.n);
  }
}

static SEXP named_list(SEXP pairs) {
  const R_xlen_t n = Rf_xlength(pairs);
  SEXP list = PROTECT(Rf_allocVector(VECSXP, n));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = n - 1; i >= 0; i--, pairs = CDR(pairs)) {
    SET_VECTOR_ELT(list, i, CAR(pairs));
    SET_STRING_ELT(names, i, PRINTNAME(TAG(pairs)));
  }
  Rf_setAttrib(list, R_NamesSymbol, names);
  UNPROTECT(2);
  return list;
}

// only_left gives the symbols in BOX_LEFT that no code has named since.
static SEXP only_left(const struct find *find) {
  SEXP left = PROTECT(Rf_cons(R_NilValue, R_NilValue)), last = left;
  SEXP at = VECTOR_ELT(find->box, BOX_LEFT);
  for (; at != R_NilValue; at = CDR(at)) {
    if (cell_of(find, BOX_GLOBALS, CAR(at)) != R_NilValue) continue;
    SETCDR(last, Rf_cons(CAR(at), R_NilValue));
    last = CDR(last);
  }
  UNPROTECT(1);
  return CDR(left);
}

static SEXP texts(SEXP pairs) {
  const R_xlen_t n = Rf_xlength(pairs);
  SEXP strings = PROTECT(Rf_allocVector(STRSXP, n));
  for (R_xlen_t i = n - 1; i >= 0; i--, pairs = CDR(pairs)) {
    SEXP one = CAR(pairs);
    SET_STRING_ELT(strings, i, TYPEOF(one) == SYMSXP ? PRINTNAME(one) : one);
  }
  UNPROTECT(1);
  return strings;
}

// ffi_is_unknown tells of each of these variables of env, a character vector of names that it has,
// whether it has no value that is known without running R code: promises, active bindings and
// arguments that are missing.
SEXP ffi_is_unknown(SEXP env, SEXP names) {
  const R_xlen_t n = Rf_xlength(names);
  SEXP unknown = PROTECT(Rf_allocVector(LGLSXP, n));
  int *is = LOGICAL(unknown);
  for (R_xlen_t i = 0; i < n; i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
    is[i] = R_BindingIsActive(symbol, env) || ffi_is_promise(env, symbol) ||
            ffi_binding(env, symbol) == R_MissingArg;
  }
  UNPROTECT(1);
  return unknown;
}

// R looks up `if`, `(` and their like as any function, but next to nobody has one of their own: so
// these are taken whether code uses them or not, and not looked for in code.
static void take_syntax(void *data, SEXP symbol) {
  if (ffi_exists(R_GlobalEnv, symbol)) find_name(data, symbol, 1, R_GlobalEnv);
}

// ffi_needs gives list(globals, packages, around, classes, left) for a list of objects that will
// travel; NULL if all are empty. classes: see ffi_class_packages(). Runs R code.
SEXP ffi_needs(SEXP roots) {
  static const char *const fields[] = {"globals", "packages", "around",
                                       "classes", "left"};
  struct find find = {.box = PROTECT(Rf_allocVector(VECSXP, BOX_FIELDS)),
                      .used.field = BOX_USED,
                      .frames.field = BOX_FRAMES};
  find.globals.keep =
      SET_VECTOR_ELT(find.box, BOX_NAMES, Rf_allocVector(VECSXP, 1));
  for (R_xlen_t i = 0; i < Rf_xlength(roots); i++)
    seek(&find, VECTOR_ELT(roots, i));
  ffi_each_syntax(take_syntax, &find);
  look_into_all(&find);
  int any = 0;
  for (int i = BOX_GLOBALS; i <= BOX_CLASSES; i++)
    any |= VECTOR_ELT(find.box, i) != R_NilValue;
  if (!any) {
    UNPROTECT(1);
    return R_NilValue;
  }
  SEXP needs = PROTECT(ffi_list(5, fields));
  SET_VECTOR_ELT(needs, 0, named_list(VECTOR_ELT(find.box, BOX_GLOBALS)));
  SET_VECTOR_ELT(needs, 1, texts(VECTOR_ELT(find.box, BOX_PACKAGES)));
  SET_VECTOR_ELT(needs, 2, named_list(VECTOR_ELT(find.box, BOX_AROUND)));
  SET_VECTOR_ELT(needs, 3,
                 ffi_class_packages(VECTOR_ELT(find.box, BOX_CLASSES)));
  SET_VECTOR_ELT(needs, 4, texts(PROTECT(only_left(&find))));
  UNPROTECT(3);
  return needs;
}
