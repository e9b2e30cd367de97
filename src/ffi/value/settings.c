// Options and the working directory, as they were when they were last noted. Options are compared
// by address, see worker/track.c: each has a cell in R's list, which never gets another name.
#include <string.h>
#include <unistd.h>

#include "ffi/value/value.h"

static SEXP options_now(void) {
  static SEXP symbol;
  return ffi_binding(R_BaseEnv, ffi_symbol(&symbol, ".Options"));
}

static const char *directory_now(char *bytes, size_t cap) {
  return getcwd(bytes, cap) == NULL ? "" : bytes;
}

static void note_options(struct ffi_settings *settings) {
  if (settings->held == NULL) {
    settings->held = Rf_allocVector(VECSXP, 1);
    R_PreserveObject(settings->held);
  }
  SET_VECTOR_ELT(settings->held, 0, R_NilValue);
  settings->count = 0;
  for (SEXP now = options_now(); now != R_NilValue; now = CDR(now)) {
    if (settings->count == FFI_OPTIONS_MAX) return;
    settings->options[settings->count++] =
        (struct ffi_option){.cell = now, .value = CAR(now)};
    SET_VECTOR_ELT(settings->held, 0,
                   Rf_cons(CAR(now), VECTOR_ELT(settings->held, 0)));
    SET_VECTOR_ELT(settings->held, 0,
                   Rf_cons(now, VECTOR_ELT(settings->held, 0)));
  }
}

void ffi_settings_note(struct ffi_settings *settings) {
  note_options(settings);
  (void)directory_now(settings->directory, sizeof settings->directory);
}

// An option that was set and set back may have another address.
static int same_value(SEXP one, SEXP other) {
  if (one == other) return 1;
  SEXP quoted_one = PROTECT(Rf_lang2(R_QuoteSymbol, one));
  SEXP quoted_other = PROTECT(Rf_lang2(R_QuoteSymbol, other));
  SEXP call =
      PROTECT(Rf_lang3(Rf_install("identical"), quoted_one, quoted_other));
  const int same = Rf_asLogical(Rf_eval(call, R_BaseEnv)) == 1;
  UNPROTECT(3);
  return same;
}

static int options_changed(struct ffi_settings *settings) {
  const struct ffi_option *option = settings->options;
  const struct ffi_option *end = option + settings->count;
  int moved = 0;
  SEXP now = options_now();
  for (; option != end && option->cell == now; option++, now = CDR(now)) {
    if (option->value == CAR(now)) continue;
    if (!same_value(option->value, CAR(now))) return 1;
    moved = 1;
  }
  if (option != end || now != R_NilValue) return 1;
  // Else every later call would compare these values again.
  if (moved) note_options(settings);
  return 0;
}

int ffi_settings_changed(struct ffi_settings *settings) {
  char bytes[sizeof settings->directory];
  return options_changed(settings) ||
         strcmp(directory_now(bytes, sizeof bytes), settings->directory) != 0;
}

SEXP ffi_settings_options(const struct ffi_settings *settings) {
  SEXP options = PROTECT(Rf_allocVector(VECSXP, settings->count));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, settings->count));
  for (int i = 0; i < settings->count; i++) {
    SET_VECTOR_ELT(options, i, settings->options[i].value);
    SET_STRING_ELT(names, i, PRINTNAME(TAG(settings->options[i].cell)));
  }
  Rf_setAttrib(options, R_NamesSymbol, names);
  UNPROTECT(2);
  return options;
}

SEXP ffi_settings_directory(const struct ffi_settings *settings) {
  return Rf_mkString(settings->directory);
}
