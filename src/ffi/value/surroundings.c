// The surroundings of R code: options, the working directory, environment variables, the locale.
// Whether they have changed is judged exactly: options and variables by address, the rest by value.
//
// Cost: 0.5 us, most of it for the directory.
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/value/value.h"

extern char **environ;

static const int kinds[FFI_LOCALES] = {LC_COLLATE, LC_CTYPE, LC_MONETARY,
                                       LC_TIME};

static size_t count_variables(void) {
  size_t n = 0;
  while (environ != NULL && environ[n] != NULL)
    n++;
  return n;
}

// setenv() never changes a string in place, nor frees it; what it puts elsewhere counts as changed.
static int variables_changed(const struct ffi_surroundings *around) {
  const size_t n = around->variable_count;
  return environ == NULL || environ != around->at || environ[n] != NULL ||
         memcmp(environ, around->variables, n * sizeof *environ) != 0;
}

// Without memory they count as changed.
static void note_variables(struct ffi_surroundings *around) {
  const size_t n = count_variables();
  char **noted = realloc(around->variables, (n + 1) * sizeof *noted);
  around->at = NULL;
  if (noted == NULL) return;
  around->variables = noted;
  around->at = environ;
  if (n > 0) memcpy(noted, environ, n * sizeof *noted);
  around->variable_count = n;
}

static const char *locale_now(size_t kind) {
  const char *locale = setlocale(kinds[kind], NULL);
  return locale == NULL ? "" : locale;
}

static int locales_changed(const struct ffi_surroundings *around) {
  for (size_t i = 0; i < FFI_LOCALES; i++) {
    if (strncmp(locale_now(i), around->locales[i],
                sizeof around->locales[i] - 1) != 0)
      return 1;
  }
  return 0;
}

static void note_locales(struct ffi_surroundings *around) {
  for (size_t i = 0; i < FFI_LOCALES; i++) {
    memset(around->locales[i], 0, sizeof around->locales[i]);
    strncpy(around->locales[i], locale_now(i), sizeof around->locales[i] - 1);
  }
}

void ffi_surroundings_note(struct ffi_surroundings *around) {
  note_variables(around);
  note_locales(around);
  ffi_settings_note(&around->settings);
}

int ffi_surroundings_changed(struct ffi_surroundings *around) {
  return variables_changed(around) || locales_changed(around) ||
         ffi_settings_changed(&around->settings);
}
