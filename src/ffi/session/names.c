// The names that code uses, read from top to bottom as R would evaluate it. The contract is in
// names.h.
//
// If in doubt, a name counts as looked up outside: a superfluous name costs the bytes of an
// unneeded variable, a missing one gives another value. So a name is the function's own only after
// an assignment that was certainly evaluated: not one in a branch, in a loop, or in an argument of
// a call, which may be evaluated later or never.
#include "ffi/session/names.h"

#include <stdio.h>
#include <string.h>

#define CODES 32

// ---- sets of symbols, in R's transient memory

struct symbols {
  SEXP *at;
  uint8_t *called;
  size_t n, cap;
};

static void put(struct symbols *set, SEXP symbol, int called) {
  if (set->n == set->cap) {
    const size_t cap = set->cap == 0 ? 32 : 2 * set->cap;
    SEXP *at = (SEXP *)(void *)R_alloc(cap, sizeof *at);
    uint8_t *flags = (uint8_t *)R_alloc(cap, 1);
    if (set->n > 0) {
      memcpy((void *)at, (void *)set->at, set->n * sizeof *at);
      memcpy(flags, set->called, set->n);
    }
    set->at = at;
    set->called = flags;
    set->cap = cap;
  }
  set->at[set->n] = symbol;
  set->called[set->n++] = (uint8_t)called;
}

static int has(const struct symbols *set, SEXP symbol) {
  for (size_t i = set->n; i > 0; i--) {
    if (set->at[i - 1] == symbol) return 1;
  }
  return 0;
}

static void add(struct symbols *set, SEXP symbol, int called) {
  for (size_t i = 0; i < set->n; i++) {
    if (set->at[i] != symbol) continue;
    // Also read as a variable: any value counts.
    set->called[i] &= (uint8_t)called;
    return;
  }
  put(set, symbol, called);
}

// ---- words

static int is_first(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
         c >= 0x80;
}

static int is_more(unsigned char c) {
  return is_first(c) || (c >= '0' && c <= '9') || c == '_';
}

void ffi_each_word(SEXP text, void (*word)(void *data, SEXP text), void *data) {
  if (text == NA_STRING) return;
  const cetype_t encoding = Rf_getCharCE(text);
  const R_xlen_t n = Rf_xlength(text);
  int is_word = 0; // the whole string is a word
  const char *at = CHAR(text);
  while (*at != '\0') {
    const char *begin = at;
    while (is_more((unsigned char)*at))
      at++;
    // Not the end of a number, such as e3 in 1e3.
    if (at > begin && is_first((unsigned char)*begin) && at - begin < 256) {
      SEXP found = PROTECT(Rf_mkCharLenCE(begin, (int)(at - begin), encoding));
      is_word |= at - begin == n;
      word(data, found);
      UNPROTECT(1);
    }
    if (at == begin) at++;
  }
  // A name may have any characters.
  if (!is_word && n > 0 && n < 256) word(data, text);
}

// ---- reading

struct reading {
  struct symbols own;   // certainly assigned before
  struct symbols names; // the names found
  struct symbols words; // strings, and names of symbols
  SEXP kept;            // a list that keeps the words; the caller protects it
  int removes;          // the code removes variables: no name is surely its own
};

static void read_code(struct reading *reading, SEXP code);

static SEXP syntax[24]; // not read as names, see ffi_each_syntax()
static SEXP operators[24];

static SEXP sym_assign, sym_equals, sym_super, sym_function, sym_for, sym_while,
    sym_repeat, sym_if, sym_and, sym_or, sym_switch, sym_quote, sym_dollar,
    sym_at, sym_ns, sym_ns3, sym_brace, sym_paren, sym_rm, sym_remove;

static void make_symbols(void) {
  static const char *const of_syntax[] = {
      "<-", "=", "<<-", "function", "for", "while", "repeat", "if",    "&&",
      "||", "$", "@",   "::",       ":::", "{",     "(",      "break", "next"};
  static const char *const strict[] = {
      "+",  "-",  "*", "/",  "^", "==", "!=", "<",   ">",
      "<=", ">=", "!", "%%", "[", "[[", ":",  "%/%", "return"};
  if (sym_assign != NULL) return;
  for (size_t i = 0; i < sizeof of_syntax / sizeof *of_syntax; i++)
    syntax[i] = Rf_install(of_syntax[i]);
  for (size_t i = 0; i < sizeof strict / sizeof *strict; i++)
    operators[i] = Rf_install(strict[i]);
  sym_equals = Rf_install("=");
  sym_super = Rf_install("<<-");
  sym_function = Rf_install("function");
  sym_for = Rf_install("for");
  sym_while = Rf_install("while");
  sym_repeat = Rf_install("repeat");
  sym_if = Rf_install("if");
  sym_and = Rf_install("&&");
  sym_or = Rf_install("||");
  sym_switch = Rf_install("switch");
  sym_quote = Rf_install("quote");
  sym_dollar = Rf_install("$");
  sym_at = Rf_install("@");
  sym_ns = Rf_install("::");
  sym_ns3 = Rf_install(":::");
  sym_brace = Rf_install("{");
  sym_paren = Rf_install("(");
  sym_rm = Rf_install("rm");
  sym_remove = Rf_install("remove");
  sym_assign = Rf_install("<-");
}

void ffi_each_syntax(void (*take)(void *data, SEXP symbol), void *data) {
  make_symbols();
  for (const SEXP *at = syntax; *at != NULL; at++)
    take(data, *at);
}

static int is_among(SEXP symbol, const SEXP *list) {
  while (*list != NULL && *list != symbol)
    list++;
  return *list != NULL;
}

static void keep_word(void *data, SEXP text) {
  struct reading *reading = data;
  if (has(&reading->words, text)) return;
  put(&reading->words, text, 0);
  SETCDR(reading->kept, Rf_cons(text, CDR(reading->kept)));
}

// keep_constant keeps an object in the code, which may contain code.
static void keep_constant(struct reading *reading, SEXP constant) {
  SETCAR(reading->kept, Rf_cons(constant, CAR(reading->kept)));
}

static void read_strings(struct reading *reading, SEXP strings) {
  for (R_xlen_t i = 0; i < Rf_xlength(strings); i++)
    ffi_each_word(STRING_ELT(strings, i), keep_word, reading);
}

// read_quoted takes all names in quoted code as words.
static void read_quoted(struct reading *reading, SEXP code) {
  R_CheckStack();
  switch (TYPEOF(code)) {
  case SYMSXP:
    if (code != R_MissingArg) keep_word(reading, PRINTNAME(code));
    break;
  case STRSXP:
    read_strings(reading, code);
    break;
  case LANGSXP:
  case LISTSXP:
    for (; code != R_NilValue; code = CDR(code))
      read_quoted(reading, CAR(code));
    break;
  default:
    break;
  }
}

// is_dots: `...` or one of its elements.
static int is_dots(SEXP symbol) {
  if (symbol == R_DotsSymbol) return 1;
  const char *name = CHAR(PRINTNAME(symbol));
  return name[0] == '.' && name[1] == '.' && name[2] != '\0' &&
         strspn(name + 2, "0123456789") == strlen(name + 2);
}

static void read_name(struct reading *reading, SEXP symbol, int called) {
  if (symbol == R_MissingArg) return;
  if (is_dots(symbol)) symbol = R_DotsSymbol;
  // R skips variables that aren't functions when it looks up a call.
  if (!called && !reading->removes && has(&reading->own, symbol)) return;
  add(&reading->names, symbol, called);
}

static void read_all(struct reading *reading, SEXP parts) {
  for (; parts != R_NilValue; parts = CDR(parts))
    read_code(reading, CAR(parts));
}

// read_maybe reads code that may not be evaluated: its assignments don't count.
static void read_maybe(struct reading *reading, SEXP code) {
  const size_t own = reading->own.n;
  read_code(reading, code);
  reading->own.n = own;
}

static SEXP nth(SEXP code, int n) {
  while (n-- > 0 && code != R_NilValue)
    code = CDR(code);
  return code == R_NilValue ? R_MissingArg : CAR(code);
}

// read_assignment: x$a <- 1 reads x, then calls `$<-`.
static void read_assignment(struct reading *reading, SEXP code) {
  SEXP target = nth(code, 1);
  const int outer = CAR(code) == sym_super;
  read_code(reading, nth(code, 2));
  while (TYPEOF(target) == LANGSXP) {
    SEXP how = CAR(target);
    char name[256];
    if (TYPEOF(how) == SYMSXP &&
        snprintf(name, sizeof name, "%s<-", CHAR(PRINTNAME(how))) <
            (int)sizeof name) {
      read_name(reading, Rf_install(name), 1);
      read_name(reading, how, 1); // deeper targets are read by this first
    }
    for (SEXP at = CDR(CDR(target)); at != R_NilValue; at = CDR(at)) {
      if (how != sym_dollar && how != sym_at) read_maybe(reading, CAR(at));
    }
    target = nth(target, 1);
    if (TYPEOF(target) == SYMSXP) read_name(reading, target, 0);
  }
  if (TYPEOF(target) == STRSXP && Rf_xlength(target) == 1) {
    target = Rf_installTrChar(STRING_ELT(target, 0));
  }
  if (TYPEOF(target) != SYMSXP) return;
  if (outer) {
    read_name(reading, target, 0); // assigned where it is found
  } else {
    put(&reading->own, target, 0);
  }
}

static void read_function(struct reading *reading, SEXP formals, SEXP body) {
  const size_t own = reading->own.n;
  for (SEXP at = formals; at != R_NilValue; at = CDR(at))
    put(&reading->own, TAG(at), 0);
  for (SEXP at = formals; at != R_NilValue; at = CDR(at))
    read_maybe(reading, CAR(at));
  read_code(reading, body);
  reading->own.n = own;
}

// read_if: what both branches assign is its own afterwards.
static void read_if(struct reading *reading, SEXP code) {
  read_code(reading, nth(code, 1));
  const size_t before = reading->own.n;
  read_code(reading, nth(code, 2));
  const size_t n = reading->own.n - before;
  SEXP *yes = (SEXP *)(void *)R_alloc(n + 1, sizeof *yes);
  if (n > 0) {
    memcpy((void *)yes, (void *)(reading->own.at + before), n * sizeof *yes);
  }
  reading->own.n = before;
  read_code(reading, nth(code, 3));
  size_t to = before;
  for (size_t i = before; i < reading->own.n; i++) {
    size_t k = 0;
    while (k < n && yes[k] != reading->own.at[i])
      k++;
    if (k < n) reading->own.at[to++] = reading->own.at[i];
  }
  reading->own.n = to;
}

static void read_for(struct reading *reading, SEXP code) {
  read_code(reading, nth(code, 2));
  const size_t own = reading->own.n;
  if (TYPEOF(nth(code, 1)) == SYMSXP) put(&reading->own, nth(code, 1), 0);
  read_code(reading, nth(code, 3));
  reading->own.n = own;
}

// read_first: only the first argument is certainly evaluated.
static void read_first(struct reading *reading, SEXP args) {
  if (args == R_NilValue) return;
  read_code(reading, CAR(args));
  for (args = CDR(args); args != R_NilValue; args = CDR(args))
    read_maybe(reading, CAR(args));
}

static void read_call(struct reading *reading, SEXP code) {
  SEXP how = CAR(code), args = CDR(code);
  if (how == sym_assign || how == sym_equals || how == sym_super) {
    read_assignment(reading, code);
  } else if (how == sym_function) {
    read_function(reading, nth(code, 1), nth(code, 2));
  } else if (how == sym_if) {
    read_if(reading, code);
  } else if (how == sym_for) {
    read_for(reading, code);
  } else if (how == sym_while) {
    read_code(reading, nth(code, 1));
    read_maybe(reading, nth(code, 2));
  } else if (how == sym_repeat) {
    read_maybe(reading, nth(code, 1));
  } else if (how == sym_and || how == sym_or) {
    read_first(reading, args);
  } else if (how == sym_quote) {
    read_quoted(reading, args);
  } else if (how == sym_dollar || how == sym_at) {
    read_code(reading, nth(code, 1));
  } else if (how == sym_brace || how == sym_paren) {
    read_all(reading, args);
  } else if (how != sym_ns && how != sym_ns3) {
    if (how == sym_rm || how == sym_remove) reading->removes = 1;
    if (TYPEOF(how) == STRSXP && Rf_xlength(how) == 1) {
      how = Rf_installTrChar(STRING_ELT(how, 0));
    }
    if (TYPEOF(how) != SYMSXP) {
      read_code(reading, how);
    } else if (!is_among(how, syntax)) {
      read_name(reading, how, 1);
    }
    if (is_among(how, operators)) {
      read_all(reading, args);
    } else if (how == sym_switch) {
      read_first(reading, args);
    } else {
      for (; args != R_NilValue; args = CDR(args))
        read_maybe(reading, CAR(args));
    }
  }
}

static void read_code(struct reading *reading, SEXP code) {
  R_CheckStack();
  switch (TYPEOF(code)) {
  case SYMSXP:
    read_name(reading, code, 0);
    break;
  case LANGSXP:
    read_call(reading, code);
    break;
  case STRSXP:
    read_strings(reading, code);
    break;
  case LISTSXP: // formals of a function in quoted code
    read_all(reading, code);
    break;
  case NILSXP:
  case LGLSXP:
  case INTSXP:
  case REALSXP:
  case CPLXSXP:
  case RAWSXP:
    if (Rf_isObject(code)) keep_constant(reading, code);
    break;
  default:
    keep_constant(reading, code);
    break;
  }
}

// ---- the cache

static SEXP codes;    // a list of CODES lists or NULLs, preserved
static unsigned next; // to be replaced next

static SEXP known_code(SEXP formals, SEXP body) {
  for (int i = 0; codes != NULL && i < CODES; i++) {
    SEXP code = VECTOR_ELT(codes, i);
    if (code != R_NilValue && VECTOR_ELT(code, FFI_CODE_BODY) == body &&
        VECTOR_ELT(code, FFI_CODE_FORMALS) == formals) {
      return code;
    }
  }
  return R_NilValue;
}

// words_of makes a character vector of the words.
static SEXP words_of(const struct reading *reading) {
  SEXP words = Rf_allocVector(STRSXP, (R_xlen_t)reading->words.n);
  for (size_t i = 0; i < reading->words.n; i++)
    SET_STRING_ELT(words, (R_xlen_t)i, reading->words.at[i]);
  return words;
}

static void begin(struct reading *reading) {
  make_symbols();
  *reading = (struct reading){.kept = Rf_cons(R_NilValue, R_NilValue)};
}

static SEXP read_closure(SEXP formals, SEXP body) {
  struct reading reading;
  begin(&reading);
  PROTECT(reading.kept);
  read_function(&reading, formals, body);
  if (reading.removes) { // read again, with `removes` known
    reading.own.n = reading.names.n = 0;
    read_function(&reading, formals, body);
  }
  SEXP code = PROTECT(Rf_allocVector(VECSXP, FFI_CODE_FIELDS));
  const R_xlen_t n = (R_xlen_t)reading.names.n;
  SET_VECTOR_ELT(code, FFI_CODE_FORMALS, formals);
  SET_VECTOR_ELT(code, FFI_CODE_BODY, body);
  SEXP names = SET_VECTOR_ELT(code, FFI_CODE_NAMES, Rf_allocVector(VECSXP, n));
  SEXP called =
      SET_VECTOR_ELT(code, FFI_CODE_CALLED, Rf_allocVector(LGLSXP, n));
  for (R_xlen_t i = 0; i < n; i++) {
    SET_VECTOR_ELT(names, i, reading.names.at[i]);
    LOGICAL(called)[i] = reading.names.called[i];
  }
  SET_VECTOR_ELT(code, FFI_CODE_WORDS, words_of(&reading));
  SET_VECTOR_ELT(code, FFI_CODE_OBJECTS, CAR(reading.kept));
  UNPROTECT(2);
  return code;
}

SEXP ffi_code_of(SEXP fun) {
  SEXP formals = ffi_closure_formals(fun), body = R_ClosureExpr(fun);
  SEXP code = known_code(formals, body);
  if (code != R_NilValue) return code;
  const void *transient = vmaxget();
  PROTECT(body);
  code = PROTECT(read_closure(formals, body));
  vmaxset(transient);
  if (codes == NULL) {
    codes = Rf_allocVector(VECSXP, CODES);
    R_PreserveObject(codes);
  }
  SET_VECTOR_ELT(codes, next, code);
  next = (next + 1) % CODES;
  UNPROTECT(2);
  return code;
}

SEXP ffi_code_words(SEXP code) {
  struct reading reading;
  const void *transient = vmaxget();
  begin(&reading);
  PROTECT(reading.kept);
  read_quoted(&reading, code);
  SEXP words = words_of(&reading);
  UNPROTECT(1);
  vmaxset(transient);
  return words;
}
