// Has a call changed this worker? Checked before and after each call: for the journal, and to undo
// the changes of an interrupted call.
//
// Checked: the bindings of the global environment, of environments bound there and of closures'
// environments (objects that keep state: R6, counters), the search path, options, the working
// directory, and the random number stream. Bindings are compared by address. That is enough because
// the values last seen are held here: R copies a value with another reference before it changes it,
// and the address of a held one isn't reused. Copying a large value takes long, so large ones
// aren't held during calls whose changes are neither judged nor undone (ffi_track_hold).
//
// Not seen: the insides of lists of environments, of packages' own environments, of external
// pointers. For changes there, the journal has clusterEvalQ().
//
// Cost: under 1 us with few global variables, 50 ns more for each.
#include <stdlib.h>
#include <string.h>

#include "ffi/worker/worker.h"

// Environments are searched up to this many bindings in total.
#define INNER_MAX 2000
#define ENVS_MAX 200
// If there are more, every call counts as having changed some.
#define SEARCH_MAX 1000
// A larger value counts as large; this many elements of a list are checked.
#define LARGE_BYTES 1000000
#define LARGE_LOOKED 1000
#define LARGE_DEPTH 3

// held: list(envs, values, search path, seed), preserved as a whole.
enum { HELD_ENVS, HELD_VALUES, HELD_SEARCH, HELD_SEED, HELD_N };

struct seen {
  SEXP symbol;
  SEXP value;      // address
  uint32_t env;    // index of its environment
  uint8_t large;   // it isn't always held
  uint8_t active;  // reading its value would call a function: don't
  uint8_t promise; // the address is the promise's
};

static struct {
  int on;
  SEXP held;
  SEXP search[SEARCH_MAX];
  int search_count;
  struct seen *seen; // parallel to HELD_VALUES
  size_t seen_count, seen_cap, large_count;
  int let_go; // large values aren't held now
  int rewrites; // a call has changed a large one
  int lengths[ENVS_MAX];
  int env_count;
} track;

struct ffi_settings ffi_this_settings;

static SEXP seed_symbol(void) {
  static SEXP symbol;
  return ffi_symbol(&symbol, ".Random.seed");
}

// ---- comparing

static int length_of(SEXP env) {
  return Rf_length(env) - (env == R_GlobalEnv &&
                           ffi_binding(env, seed_symbol()) != R_UnboundValue);
}

// is_other tells whether binding i has changed.
static int is_other(size_t i) {
  SEXP env = VECTOR_ELT(VECTOR_ELT(track.held, HELD_ENVS),
                        (R_xlen_t)track.seen[i].env);
  SEXP symbol = track.seen[i].symbol;
  if (track.seen[i].active) return !R_existsVarInFrame(env, symbol);
  return ffi_binding(env, symbol) != track.seen[i].value;
}

static int bindings_changed(void) {
  SEXP envs = VECTOR_ELT(track.held, HELD_ENVS);
  for (int i = 0; i < track.env_count; i++) {
    if (length_of(VECTOR_ELT(envs, i)) != track.lengths[i]) return 1;
  }
  int changed = 0;
  for (size_t i = 0; i < track.seen_count; i++) {
    if (!is_other(i)) continue;
    changed = 1;
    if (track.large_count == 0) break;
    track.rewrites |= track.seen[i].large;
  }
  return changed;
}

static int search_changed(void) {
  int i = 0;
  for (SEXP env = ffi_parent_env(R_GlobalEnv); env != R_EmptyEnv;
       env = ffi_parent_env(env), i++) {
    if (i >= track.search_count || track.search[i] != env) return 1;
  }
  return i != track.search_count;
}

// ---- noting

static int grow_seen(void) {
  if (track.seen_count < track.seen_cap) return 0;
  const size_t cap = track.seen_cap == 0 ? 64 : track.seen_cap * 2;
  struct seen *grown = realloc(track.seen, cap * sizeof *grown);
  if (grown == NULL) return -1;
  track.seen = grown;
  track.seen_cap = cap;
  return 0;
}

static int is_package(SEXP env) {
  return env == R_BaseEnv || env == R_BaseNamespace || env == R_EmptyEnv ||
         R_IsPackageEnv(env) || R_IsNamespaceEnv(env);
}

// inner_env gives the environment in which a value keeps its state, or NULL.
static SEXP inner_env(SEXP value) {
  SEXP env = R_NilValue;
  if (TYPEOF(value) == ENVSXP) env = value;
  if (TYPEOF(value) == CLOSXP) env = ffi_closure_env(value);
  if (TYPEOF(env) != ENVSXP || is_package(env)) return NULL;
  return env;
}

static void note_env(SEXP envs, SEXP env) {
  if (env == NULL || track.env_count >= ENVS_MAX) return;
  for (int i = 0; i < track.env_count; i++) {
    if (VECTOR_ELT(envs, i) == env) return;
  }
  SET_VECTOR_ELT(envs, track.env_count++, env);
}

static int is_large(SEXP value, int depth) {
  if (ALTREP(value)) return 0; // mapped, or computed: R copies it anyway
  const R_xlen_t n = Rf_xlength(value);
  switch (TYPEOF(value)) {
  case RAWSXP:
    return n > LARGE_BYTES;
  case LGLSXP:
  case INTSXP:
    return n > LARGE_BYTES / 4;
  case REALSXP:
  case STRSXP:
    return n > LARGE_BYTES / 8;
  case CPLXSXP:
    return n > LARGE_BYTES / 16;
  case VECSXP:
    break;
  default:
    return 0;
  }
  if (n > LARGE_BYTES / 8) return 1;
  for (R_xlen_t i = 0; i < n && i < LARGE_LOOKED && depth > 0; i++) {
    if (is_large(VECTOR_ELT(value, i), depth - 1)) return 1;
  }
  return 0;
}

// hold_large holds all large values, or releases them. R's reference counts of a list's elements
// stay up when the list itself is released, so the elements are taken out.
static void hold_large(int all) {
  SEXP values = VECTOR_ELT(track.held, HELD_VALUES);
  SEXP envs = VECTOR_ELT(track.held, HELD_ENVS);
  for (size_t i = 0; i < track.seen_count && track.large_count > 0; i++) {
    const struct seen *seen = &track.seen[i];
    if (!seen->large) continue;
    SEXP env = VECTOR_ELT(envs, (R_xlen_t)seen->env);
    SET_VECTOR_ELT(values, (R_xlen_t)i,
                   all ? ffi_binding(env, seen->symbol) : R_NilValue);
  }
  track.let_go = !all && track.large_count > 0;
}

void ffi_track_hold(int all) {
  if (track.on && track.let_go == all) hold_large(all);
}

int ffi_track_let_go(void) { return track.let_go; }

int ffi_track_rewrites(void) { return track.rewrites; }

static void note_bindings(void) {
  SEXP envs = PROTECT(Rf_allocVector(VECSXP, ENVS_MAX));
  SEXP values = R_NilValue; // pairlist, last first
  PROTECT_INDEX at;
  PROTECT_WITH_INDEX(values, &at);
  if (track.seen_count > 0) hold_large(0);
  track.seen_count = track.large_count = 0;
  track.env_count = 0;
  track.let_go = 0;
  note_env(envs, R_GlobalEnv);
  for (int k = 0; k < track.env_count; k++) {
    SEXP env = VECTOR_ELT(envs, k);
    track.lengths[k] = length_of(env);
    if (k > 0 && track.seen_count + (size_t)track.lengths[k] > INNER_MAX) {
      track.env_count = k;
      break;
    }
    SEXP names = PROTECT(R_lsInternal3(env, TRUE, FALSE));
    for (R_xlen_t i = 0; i < Rf_xlength(names); i++) {
      SEXP symbol = Rf_installTrChar(STRING_ELT(names, i));
      if ((k == 0 && symbol == seed_symbol()) || grow_seen() != 0) continue;
      const int active = R_BindingIsActive(symbol, env);
      SEXP value = PROTECT(active ? R_NilValue : ffi_binding(env, symbol));
      track.seen[track.seen_count++] =
          (struct seen){.symbol = symbol,
                        .value = value,
                        .env = (uint32_t)k,
                        .large = (uint8_t)is_large(value, LARGE_DEPTH),
                        .active = (uint8_t)active,
                        .promise = !active && ffi_is_promise(env, symbol)};
      track.large_count += track.seen[track.seen_count - 1].large;
      REPROTECT(values = Rf_cons(value, values), at);
      note_env(envs, inner_env(value));
      UNPROTECT(1);
    }
    UNPROTECT(1);
  }
  SEXP list = Rf_allocVector(VECSXP, (R_xlen_t)track.seen_count);
  SET_VECTOR_ELT(track.held, HELD_VALUES, list);
  SET_VECTOR_ELT(track.held, HELD_ENVS, envs);
  for (size_t i = track.seen_count; i-- > 0; values = CDR(values)) {
    SET_VECTOR_ELT(list, (R_xlen_t)i, CAR(values));
    SETCAR(values, R_NilValue); // else it would count as a reference forever
  }
  UNPROTECT(2);
}

// The arrays have the addresses to compare; the lists hold the values.
static void hold(int slot, SEXP value) {
  SET_VECTOR_ELT(track.held, slot,
                 Rf_cons(value, VECTOR_ELT(track.held, slot)));
}

static void note_search(void) {
  SET_VECTOR_ELT(track.held, HELD_SEARCH, R_NilValue);
  track.search_count = 0;
  for (SEXP env = ffi_parent_env(R_GlobalEnv);
       env != R_EmptyEnv && track.search_count < SEARCH_MAX;
       env = ffi_parent_env(env)) {
    track.search[track.search_count++] = env;
    hold(HELD_SEARCH, env);
  }
}

void ffi_track_begin(void) {
  track.on = 1;
  if (track.held == NULL) {
    track.held = Rf_allocVector(VECSXP, HELD_N);
    R_PreserveObject(track.held);
  }
  note_bindings();
  note_search();
  ffi_settings_note(&ffi_this_settings);
  SET_VECTOR_ELT(track.held, HELD_SEED,
                 ffi_binding(R_GlobalEnv, seed_symbol()));
}

SEXP ffi_track_stream(void) { return ffi_binding(R_GlobalEnv, seed_symbol()); }

void ffi_track_note_stream(void) {
  if (track.on) SET_VECTOR_ELT(track.held, HELD_SEED, ffi_track_stream());
}

// same_seed: code of Rcpp's writes the seed back whether it has drawn or not.
static int same_seed(SEXP one, SEXP other) {
  return TYPEOF(one) == INTSXP && TYPEOF(other) == INTSXP &&
         Rf_xlength(one) == Rf_xlength(other) &&
         memcmp(INTEGER(one), INTEGER(other),
                (size_t)Rf_xlength(one) * sizeof(int)) == 0;
}

// seed_changed checks the stream, and copies a seed of L'Ecuyer's generator.
static uint16_t seed_changed(struct mst_seed *seed) {
  SEXP now = ffi_track_stream();
  SEXP before = VECTOR_ELT(track.held, HELD_SEED);
  if (now == before) return 0;
  const int same = same_seed(now, before);
  SET_VECTOR_ELT(track.held, HELD_SEED, now);
  if (same) return 0;
  if (TYPEOF(now) != INTSXP || Rf_xlength(now) != MST_SEED_WORDS ||
      INTEGER(now)[0] % 100 != 7) {
    return MST_FLAG_RNG;
  }
  seed->known = 1;
  memcpy(seed->words, INTEGER(now), sizeof seed->words);
  return MST_FLAG_SEED;
}

int ffi_track_is_on(void) { return track.on; }

uint16_t ffi_track_changed(struct mst_seed *seed, int same_settings) {
  ffi_own_look();
  if (!track.on) return 0;
  uint16_t flags = seed_changed(seed);
  const int unknown =
      track.let_go; // values that weren't held may have changed in place
  const int bindings = bindings_changed();
  const int search = search_changed();
  const int settings = !same_settings && ffi_settings_changed(&ffi_this_settings);
  if (bindings) note_bindings();
  if (search) note_search();
  if (settings) ffi_settings_note(&ffi_this_settings);
  if (bindings || search || settings || unknown) flags |= MST_FLAG_STATE;
  return flags;
}

// Active bindings and promises that are gone can't be restored.
static int is_lost(size_t i) {
  return is_other(i) && (track.seen[i].active || track.seen[i].promise);
}

// changed_in describes the changed bindings of an environment: NULL if there are none.
static SEXP changed_in(uint32_t env) {
  const char *names[] = {"frame", "had", "changed", "values"};
  SEXP frame = VECTOR_ELT(VECTOR_ELT(track.held, HELD_ENVS), (R_xlen_t)env);
  SEXP values = VECTOR_ELT(track.held, HELD_VALUES);
  R_xlen_t all = 0, other = 0;
  size_t first = 0;
  while (first < track.seen_count && track.seen[first].env != env)
    first++;
  for (size_t i = first; i < track.seen_count && track.seen[i].env == env;
       i++, all++) {
    other += is_other(i) && !is_lost(i);
  }
  if (other == 0 && length_of(frame) == track.lengths[env]) return R_NilValue;
  SEXP list = PROTECT(ffi_list(4, names));
  SET_VECTOR_ELT(list, 0, frame);
  SEXP had = SET_VECTOR_ELT(list, 1, Rf_allocVector(STRSXP, all));
  SEXP changed = SET_VECTOR_ELT(list, 2, Rf_allocVector(STRSXP, other));
  SEXP held = SET_VECTOR_ELT(list, 3, Rf_allocVector(VECSXP, other));
  other = 0;
  for (R_xlen_t k = 0; k < all; k++) {
    const size_t i = first + (size_t)k;
    SET_STRING_ELT(had, k, PRINTNAME(track.seen[i].symbol));
    if (!is_other(i) || is_lost(i)) continue;
    SET_STRING_ELT(changed, other, PRINTNAME(track.seen[i].symbol));
    SET_VECTOR_ELT(held, other++, VECTOR_ELT(values, (R_xlen_t)i));
  }
  UNPROTECT(1);
  return list;
}

SEXP ffi_worker_frames(void) {
  if (!track.on) return R_NilValue;
  SEXP frames = PROTECT(Rf_allocVector(VECSXP, track.env_count));
  for (int i = 0; i < track.env_count; i++)
    SET_VECTOR_ELT(frames, i, changed_in((uint32_t)i));
  UNPROTECT(1);
  return frames;
}

SEXP ffi_worker_before(void) {
  const char *names[] = {"options", "search", "directory", "seed", "frames"};
  if (!track.on) return R_NilValue;
  SEXP list = PROTECT(ffi_list(5, names));
  SET_VECTOR_ELT(list, 0, ffi_settings_options(&ffi_this_settings));
  SEXP search =
      SET_VECTOR_ELT(list, 1, Rf_allocVector(VECSXP, track.search_count));
  for (int i = 0; i < track.search_count; i++)
    SET_VECTOR_ELT(search, i, track.search[i]);
  SET_VECTOR_ELT(list, 2, ffi_settings_directory(&ffi_this_settings));
  SEXP seed = VECTOR_ELT(track.held, HELD_SEED);
  if (seed != R_UnboundValue) SET_VECTOR_ELT(list, 3, seed);
  SET_VECTOR_ELT(list, 4, VECTOR_ELT(track.held, HELD_ENVS));
  UNPROTECT(1);
  return list;
}

void ffi_track_set_seed(const struct mst_seed *seed) {
  SEXP value = PROTECT(Rf_allocVector(INTSXP, MST_SEED_WORDS));
  memcpy(INTEGER(value), seed->words, sizeof seed->words);
  Rf_defineVar(seed_symbol(), value, R_GlobalEnv);
  if (track.on) SET_VECTOR_ELT(track.held, HELD_SEED, value);
  UNPROTECT(1);
}
