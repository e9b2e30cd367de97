// External pointers that own something, and what becomes of them when muster's session ends.
//
// Problem: R keeps them after muster was unloaded, and hands them to muster's code when it is
// loaded again, also to that of another build, to which what is behind them means nothing. A list
// of them all can't be kept: R may free one without calling its finalizer (one that was made while
// finalizers run, of which there is another to be run after that).
//
// Way chosen: each has a tag that no later session takes for its own. What would stay open is in a
// list of C's. The memory goes when R collects the pointer, as always: entries that R is in may
// still have pointers to it.
#include <stdio.h>

#include "ffi/entry/entry.h"

static unsigned session = 1; // of this code's
static struct ffi_closing *first;

// The address of the code, which stays loaded, tells builds from each other.
SEXP ffi_tag(struct ffi_tag *known, const char *name) {
  if (known->session != session) {
    char text[80];
    (void)snprintf(text, sizeof text, "%s %p %u", name, (void *)&session,
                   session);
    known->symbol = Rf_install(text);
    known->session = session;
  }
  return known->symbol;
}

SEXP ffi_own(SEXP tag, SEXP kept, void (*let_go)(SEXP pointer), int at_exit) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, tag, kept));
  R_RegisterCFinalizerEx(pointer, let_go, at_exit ? TRUE : FALSE);
  UNPROTECT(1);
  return pointer;
}

void ffi_closing_add(struct ffi_closing *closing,
                     void (*close)(struct ffi_closing *closing)) {
  *closing = (struct ffi_closing){.close = close, .next = first, .at = &first};
  if (first != NULL) first->at = &closing->next;
  first = closing;
}

void ffi_closing_remove(struct ffi_closing *closing) {
  if (closing->at == NULL) return;
  *closing->at = closing->next;
  if (closing->next != NULL) closing->next->at = closing->at;
  closing->at = NULL;
}

void ffi_end_owned(void) {
  while (first != NULL) {
    struct ffi_closing *closing = first;
    ffi_closing_remove(closing);
    closing->close(closing);
  }
  session++;
}
