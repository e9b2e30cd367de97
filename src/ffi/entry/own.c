// External pointers that own something, and what happens to them when muster's session ends.
//
// Problem: R keeps them after muster was unloaded, and passes them to muster's code when it is
// loaded again, maybe to another build, which can't understand their objects. A list of them all
// isn't possible: R may free one without calling its finalizer (one that was made while finalizers
// run, and that refers to another whose finalizer hasn't run).
//
// Way chosen: each has a tag that no later session accepts. Objects that must be closed are in a
// list in C. The memory is freed when R collects the pointer, as always: active entries may still
// have pointers to it.
#include <stdio.h>

#include "ffi/entry/entry.h"

static unsigned session = 1; // of this code
static struct ffi_closing *first;

// The address of the code, which stays loaded, distinguishes builds.
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
