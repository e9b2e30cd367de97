// The progress line of a terminal. R code writes it (R/cluster-progress.R); all other output clears
// it first. Runs no R code, so it can be called anywhere.
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <R_ext/Print.h>

#include "ffi/session/session.h"

static struct {
  char *text; // NULL: there is none
  int cells;  // its width in columns
  int plain;  // the terminal can't clear a line: RStudio's console
  int up;     // it is shown now
} line;

static void clear_rest(int cells) {
  if (!line.plain) {
    REprintf("\033[K");
  } else if (cells > 0) {
    REprintf("%*s", cells, "");
  }
}

void ffi_line_clear(void) {
  if (!line.up) return;
  line.up = 0;
  REprintf("\r");
  clear_rest(line.cells);
  if (line.plain) REprintf("\r");
}

void ffi_line_back(void) {
  if (line.text == NULL || line.up) return;
  line.up = 1;
  REprintf("\r%s", line.text);
  if (!line.plain) clear_rest(0);
}

int ffi_line_is_up(void) { return line.up; }

// ffi_line_put replaces the text of the line.
SEXP ffi_line_put(SEXP text, SEXP cells, SEXP plain) {
  char *copy = strdup(Rf_translateChar(STRING_ELT(text, 0)));
  if (copy == NULL) return R_NilValue;
  const int before = line.up ? line.cells : 0;
  free(line.text);
  line.text = copy;
  line.cells = Rf_asInteger(cells);
  line.plain = Rf_asLogical(plain) == 1;
  line.up = 1;
  REprintf("\r%s", line.text);
  clear_rest(before - line.cells);
  return R_NilValue;
}

// ffi_line_away hides the line for a while, or for good.
SEXP ffi_line_away(SEXP for_good) {
  ffi_line_clear();
  if (Rf_asLogical(for_good) == 1) {
    free(line.text);
    line.text = NULL;
  }
  return R_NilValue;
}

SEXP ffi_line_shown(void) { return Rf_ScalarLogical(line.up); }

// ffi_line_width gives the columns of the terminal on stderr, 0 if it isn't a terminal.
SEXP ffi_line_width(void) {
  struct winsize size = {0};
  const int rc = ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
  return Rf_ScalarInteger(rc == 0 ? (int)size.ws_col : 0);
}
