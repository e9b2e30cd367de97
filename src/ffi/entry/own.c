// External pointers that own something, and what becomes of them when muster's session ends.
//
// Problem: R keeps them after muster was unloaded, and hands them to muster's code when it is
// loaded again, also to that of another build, to which what is behind them means nothing.
//
// Way chosen: a list of them all. At the end of the session each closes what it has, and gets
// another tag, so that nobody looks at what is behind it again. The memory goes when R collects
// it, as always: entries that R is in may still have pointers to it.
#include <stdlib.h>

#include "ffi/entry/entry.h"

struct owner {
  SEXP pointer; // alive: R calls its finalizer before it frees it
  void (*let_go)(SEXP pointer);
  void (*end)(SEXP pointer); // or NULL
};

static struct {
  struct owner *list;
  size_t count, room;
} owners;

SEXP ffi_ended_tag(void) {
  static SEXP tag;
  return ffi_symbol(&tag, "muster_ended");
}

// The newest first: R collects in that order.
static void finalize(SEXP pointer) {
  size_t i = owners.count;
  while (i > 0 && owners.list[i - 1].pointer != pointer)
    i--;
  if (i == 0) return; // there was no memory for it
  void (*const let_go)(SEXP) = owners.list[i - 1].let_go;
  for (owners.count--; i <= owners.count; i++)
    owners.list[i - 1] = owners.list[i];
  let_go(pointer);
}

SEXP ffi_own(SEXP tag, SEXP kept, void (*let_go)(SEXP pointer),
             void (*end)(SEXP pointer), int at_exit) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, tag, kept));
  R_RegisterCFinalizerEx(pointer, finalize, at_exit ? TRUE : FALSE);
  // No R from here on: finalizers use the list.
  if (owners.count == owners.room) {
    const size_t room = owners.room == 0 ? 64 : 2 * owners.room;
    struct owner *list = realloc(owners.list, room * sizeof *list);
    if (list == NULL) Rf_error("no memory");
    owners.list = list;
    owners.room = room;
  }
  owners.list[owners.count++] =
      (struct owner){.pointer = pointer, .let_go = let_go, .end = end};
  UNPROTECT(1);
  return pointer;
}

void ffi_end_owned(void) {
  SEXP ended = ffi_ended_tag();
  for (size_t i = 0; i < owners.count; i++) {
    const struct owner *owner = &owners.list[i];
    if (R_ExternalPtrTag(owner->pointer) == ended) continue;
    if (owner->end != NULL) owner->end(owner->pointer);
    R_SetExternalPtrTag(owner->pointer, ended);
  }
}
