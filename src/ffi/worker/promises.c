// Promises whose evaluation was interrupted.
//
// Problem: a package's functions are promises that read them from the package's file. A call that
// is interrupted while R reads one leaves the promise marked, and the next call that uses the
// function gets the warning "restarting interrupted promise evaluation". If a jump leaves that
// warning (another interrupt, a handler of the user's, options(warn = 2)), R considers the promise
// under evaluation from then on: the function fails in every later call.
//
// Way chosen: after an interrupted call, the long-lived promises that weren't evaluated yet are
// checked: those that are evaluated stay so, and are looked at once. Up to 4.3, R tells which are
// marked; from 4.6 on, which aren't evaluated, and those are made anew. Between, its API can tell
// neither, but both show in their serialized form. Not chosen: evaluating all of them, which takes
// a second and 80 MB.
//
// Cost, once for each interrupted call: 6 to 10 ms of computing with 80 packages loaded; 20 ms
// where promises are serialized. The first time takes 2 ms for each package more there, unless the
// fork server had a moment to do that before it forked the worker.
#include <stdlib.h>
#include <string.h>

#include <Rversion.h>

#include "ffi/worker/worker.h"

// The promises of an environment that may not be evaluated yet.
struct known {
  SEXP env;
  R_xlen_t bindings; // that it had when they were looked for
  SEXP symbols;      // a list: the first n
  R_xlen_t n;
  unsigned round; // that last asked for them
};

// Of those that last, by address.
static struct {
  struct known *all; // owned, with references to what they have
  size_t count, capacity;
  unsigned round;
} lasting;

// ---- which may not be evaluated

static int may_wait(SEXP env, SEXP symbol) {
#if R_VERSION >= R_Version(4, 6, 0)
  return R_GetBindingType(symbol, env) == R_BindingTypeDelayed;
#else
  return !R_BindingIsActive(symbol, env) && ffi_is_promise(env, symbol);
#endif
}

// look_for fills in the promises of known->env, in a list that isn't protected yet.
static void look_for(struct known *known) {
  SEXP names = PROTECT(R_lsInternal3(known->env, TRUE, FALSE));
  SEXP symbols = PROTECT(Rf_allocVector(VECSXP, Rf_xlength(names)));
  R_xlen_t n = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
    SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
    if (may_wait(known->env, symbol)) SET_VECTOR_ELT(symbols, n++, symbol);
  }
  known->symbols = Rf_xlengthgets(symbols, n);
  known->bindings = Rf_xlength(known->env);
  known->n = n;
  UNPROTECT(2);
}

// place_of gives where an environment is, or belongs.
static size_t place_of(SEXP env) {
  size_t low = 0, high = lasting.count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if ((uintptr_t)lasting.all[middle].env < (uintptr_t)env) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static struct known *known_of(SEXP env) {
  const size_t at = place_of(env);
  struct known *known = at < lasting.count ? &lasting.all[at] : NULL;
  if (known != NULL && known->env == env) {
    known->round = lasting.round;
    if (known->bindings == Rf_xlength(env)) return known;
    struct known now = {.env = env, .round = lasting.round};
    look_for(&now);
    PROTECT(now.symbols);
    R_PreserveObject(now.symbols);
    UNPROTECT(1);
    R_ReleaseObject(known->symbols);
    *known = now;
    return known;
  }
  struct known made = {.env = env, .round = lasting.round};
  look_for(&made);
  PROTECT(made.symbols);
  if (lasting.count == lasting.capacity) {
    const size_t capacity = 2 * lasting.capacity + 64;
    struct known *all = realloc(lasting.all, capacity * sizeof *all);
    if (all == NULL) Rf_error("no memory to look for promises");
    lasting.all = all;
    lasting.capacity = capacity;
  }
  R_PreserveObject(env);
  R_PreserveObject(made.symbols);
  UNPROTECT(1);
  memmove(&lasting.all[at + 1], &lasting.all[at],
          (lasting.count - at) * sizeof made);
  lasting.all[at] = made;
  lasting.count++;
  return &lasting.all[at];
}

// forget_rest releases environments that this round didn't ask for: of packages that were detached.
static void forget_rest(void) {
  size_t kept = 0;
  for (size_t i = 0; i < lasting.count; i++) {
    if (lasting.all[i].round == lasting.round) {
      lasting.all[kept++] = lasting.all[i];
    } else {
      R_ReleaseObject(lasting.all[i].env);
      R_ReleaseObject(lasting.all[i].symbols);
    }
  }
  lasting.count = kept;
}

// ---- which are marked

#if R_VERSION >= R_Version(4, 6, 0)

static void make_anew(SEXP env, SEXP symbol) {
  SEXP code = PROTECT(R_DelayedBindingExpression(symbol, env));
  SEXP where = PROTECT(R_DelayedBindingEnvironment(symbol, env));
  const int locked = R_BindingIsLocked(symbol, env);
  if (locked) R_unLockBinding(symbol, env);
  R_MakeDelayedBinding(symbol, code, where, env);
  if (locked) R_LockBinding(symbol, env);
  UNPROTECT(2);
}

static SEXP marked_of(struct known *known) {
  R_xlen_t n = 0;
  for (R_xlen_t i = 0; i < known->n; i++) {
    SEXP symbol = VECTOR_ELT(known->symbols, i);
    if (!may_wait(known->env, symbol)) continue;
    make_anew(known->env, symbol);
    SET_VECTOR_ELT(known->symbols, n++, symbol);
  }
  known->n = n;
  return Rf_allocVector(STRSXP, 0);
}

#else

enum { WAITS = 1, MARKED = 2 };

#if R_VERSION < R_Version(4, 4, 0)

static void states_of(SEXP promises, R_xlen_t n, unsigned char *states) {
  for (R_xlen_t i = 0; i < n; i++) {
    const int marked = LEVELS(VECTOR_ELT(promises, 2 * i + 1)) != 0;
    states[i] = (unsigned char)(marked ? WAITS | MARKED : WAITS);
  }
}

#else

// A promise is written as an integer with its type, a bit that tells whether it has an environment
// (then it isn't evaluated), and from another bit on its mark; then its contents.
#define ENV_BIT (1 << 10)
#define MARK_SHIFT 12

struct look {
  const void *sign; // comes before each promise
  int due;          // is the next integer a promise's?
  R_xlen_t n, at;
  unsigned char *states;
};

static void out_bytes(R_outpstream_t stream, void *bytes, int n) {
  struct look *look = (struct look *)stream->data;
  int value;
  if (bytes == look->sign) {
    look->due = 1;
  } else if (look->due && n == (int)sizeof value && look->at < look->n) {
    memcpy(&value, bytes, sizeof value);
    look->due = 0;
    look->states[look->at++] =
        (unsigned char)((value & ENV_BIT ? WAITS : 0) |
                        (value >> MARK_SHIFT != 0 ? MARKED : 0));
  }
}

static void out_char(R_outpstream_t stream, int c) {
  (void)stream;
  (void)c;
}

// Write environments as names: don't serialize their contents.
static SEXP name_of(SEXP env, SEXP name) {
  (void)env;
  return name;
}

static void states_of(SEXP promises, R_xlen_t n, unsigned char *states) {
  struct R_outpstream_st stream;
  SEXP sign = VECTOR_ELT(promises, 0);
  struct look look = {
      .sign = CHAR(STRING_ELT(sign, 0)), .n = n, .states = states};
  SEXP name = PROTECT(Rf_mkString("environment"));
  R_InitOutPStream(&stream, (R_pstream_data_t)&look, R_pstream_binary_format, 2,
                   out_char, out_bytes, name_of, name);
  R_Serialize(promises, &stream);
  UNPROTECT(1);
  if (look.at != n) Rf_error("promises can't be told apart");
}

#endif

static SEXP marked_of(struct known *known) {
  SEXP promises = PROTECT(Rf_allocVector(VECSXP, 2 * known->n));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, known->n));
  SEXP sign = PROTECT(Rf_mkString("a promise of muster's follows"));
  R_xlen_t n = 0, marked = 0;
  for (R_xlen_t i = 0; i < known->n; i++) {
    SEXP symbol = VECTOR_ELT(known->symbols, i);
    if (!may_wait(known->env, symbol)) continue;
    SET_VECTOR_ELT(known->symbols, n, symbol);
    SET_VECTOR_ELT(promises, 2 * n, sign);
    SET_VECTOR_ELT(promises, 2 * n++ + 1, ffi_binding(known->env, symbol));
  }
  known->n = n;
  if (n > 0) {
    unsigned char *states = (unsigned char *)R_alloc((size_t)n, 1);
    promises = Rf_xlengthgets(promises, 2 * n);
    PROTECT(promises);
    states_of(promises, n, states);
    UNPROTECT(1);
    known->n = 0;
    for (R_xlen_t i = 0; i < n; i++) {
      SEXP symbol = VECTOR_ELT(known->symbols, i);
      if ((states[i] & WAITS) == 0) continue;
      SET_VECTOR_ELT(known->symbols, known->n++, symbol);
      if (states[i] & MARKED)
        SET_STRING_ELT(names, marked++, PRINTNAME(symbol));
    }
  }
  names = Rf_xlengthgets(names, marked);
  UNPROTECT(3);
  return names;
}

#endif

// ffi_promises_left gives list(environment, names) for each environment with such promises, else
// NULL. stay: environments whose bindings stay as they are, which it keeps until a later call is
// without them; others: those that change.
SEXP ffi_promises_left(SEXP stay, SEXP others) {
  const R_xlen_t lasts = Rf_xlength(stay), count = lasts + Rf_xlength(others);
  SEXP found = PROTECT(Rf_allocVector(VECSXP, count));
  lasting.round++;
  for (R_xlen_t i = 0; i < count; i++) {
    struct known known = {.env = NULL};
    struct known *at = &known;
    if (i < lasts) {
      at = known_of(VECTOR_ELT(stay, i));
    } else {
      known.env = VECTOR_ELT(others, i - lasts);
      look_for(&known);
    }
    PROTECT(at->symbols);
    SEXP names = PROTECT(marked_of(at));
    if (Rf_xlength(names) > 0) {
      SEXP one = SET_VECTOR_ELT(found, i, Rf_allocVector(VECSXP, 2));
      SET_VECTOR_ELT(one, 0, at->env);
      SET_VECTOR_ELT(one, 1, names);
    }
    UNPROTECT(2);
  }
  forget_rest();
  UNPROTECT(1);
  return found;
}
