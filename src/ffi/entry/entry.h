// entry: how R enters the library, and cleanup however R leaves it; shims for changes of R's API.
#ifndef MST_FFI_ENTRY_H
#define MST_FFI_ENTRY_H

#include <sys/types.h>

#include "ffi/entry/callbacks.h"
#include "ffi/ffi.h"
#include "share/blob.h"

// ---- entry.c

// ffi_entry calls fun(data) as an entry (init.c): the outermost owns the session while it runs, and
// at its end lends it to the I/O thread if there are tasks. Entries may be nested, since most of
// R's API can run R code (finalizers, condition handlers). R_UnwindProtect ends an entry however R
// leaves it.
SEXP ffi_entry(SEXP (*fun)(void *), void *data);
// ffi_do_later calls run(item) when R is in no entry, or when an entry serves the session; at once,
// if R is in none. For finalizers: allocates nothing and runs no R code, and neither may run.
struct ffi_later {
  struct ffi_later *next;
  void (*run)(struct ffi_later *item);
};
void ffi_do_later(struct ffi_later *item);
// ffi_guarded calls fun(data). If R leaves it by a jump, left(data) is called before the jump goes
// on (left may be NULL).
void ffi_guarded(SEXP (*fun)(void *), void (*left)(void *), void *data);
// ffi_check_interrupt is R_CheckUserInterrupt for entries; left as above, may be NULL.
void ffi_check_interrupt(void (*left)(void *), void *data);
// ffi_unwind is R_UnwindProtect() without allocation, so `done` runs in any case; it must not run
// R. Call ffi_unwind_init when the package is loaded.
SEXP ffi_unwind(SEXP (*fun)(void *), void *data,
                void (*done)(void *, Rboolean jump), void *done_data);
void ffi_unwind_init(void);
// ffi_on_entries registers functions for the outermost entry: begin runs at its beginning, outside
// while R is in no other entry, so that nobody has pointers to closed objects, end at its end. Any
// may be NULL. They run no R code. At most FFI_ON_ENTRIES_MAX registrations per process.
#define FFI_ON_ENTRIES_MAX 4
struct ffi_on_entries {
  void (*begin)(void);
  void (*outside)(void);
  void (*end)(void);
};
void ffi_on_entries(const struct ffi_on_entries *on);
// ffi_later_now runs the work left for later.
void ffi_later_now(void);

// ---- hold.c: what an entry point owns while R may run

// ffi_hold keeps `what` until ffi_drop, or until the entry point that called it ends or is left by
// a jump; then let_go(what) frees it and must run no R code. If memory is short it frees `what` and
// raises an R error. Returns `what`. Only in entries.
void *ffi_hold(void *what, void (*let_go)(void *));
// ffi_new_blob gives an empty, held blob: ffi_unhold gives it to the caller. Raises an R error if
// memory is short.
struct mst_blob *ffi_new_blob(void);
// ffi_hold_blob holds a reference to a blob.
struct mst_blob *ffi_hold_blob(struct mst_blob *blob);
// ffi_drop frees a held object now; ffi_unhold leaves that to the caller. Both ignore objects that
// aren't held.
void ffi_drop(const void *what);
void ffi_unhold(const void *what);
// ffi_level_up begins an entry and returns its depth. ffi_level_down ends it and frees what it
// holds. For entry.c.
uint32_t ffi_level_up(void);
uint32_t ffi_level_down(void);
// ffi_depth gives the number of entries that R is in.
uint32_t ffi_depth(void);

// ---- own.c: external pointers that own something

// ffi_tag gives their tag, a symbol for their kind and session. ffi_end_owned starts a new session,
// so that ffi_address_of gives NULL for earlier pointers.
struct ffi_tag {
  SEXP symbol;
  unsigned session;
};
SEXP ffi_tag(struct ffi_tag *known, const char *name);
// ffi_own makes one without an address. let_go(pointer) frees its object when R collects it, with
// at_exit also when R ends; it neither runs R code nor looks at the tag. R may free a pointer
// without calling it: then the object stays.
SEXP ffi_own(SEXP tag, SEXP kept, void (*let_go)(SEXP pointer), int at_exit);
// ffi_closing_add registers an object for ffi_end_owned to close when muster is unloaded;
// ffi_closing_remove undoes that and may be called again. close runs no R code. Make it the first
// member of the pointer's object.
struct ffi_closing {
  struct ffi_closing *next, **at;
  void (*close)(struct ffi_closing *closing);
};
void ffi_closing_add(struct ffi_closing *closing,
                     void (*close)(struct ffi_closing *closing));
void ffi_closing_remove(struct ffi_closing *closing);
// ffi_end_owned closes all of them and invalidates their tags. Their memory stays until R collects
// the pointers. Runs no R code.
void ffi_end_owned(void);

// ---- build.c

// ffi_build gives what session and worker must have in common, as set by ffi_build_set.
const char *ffi_build(void);
// ffi_build_set is called whenever the package is loaded, with its build and namespace. FALSE if
// this code belongs to another build, which was loaded before. R code of any build may call it in
// any other.
SEXP ffi_build_set(SEXP build, SEXP ns);
// ffi_build_clear: this code was just loaded.
void ffi_build_clear(void);

// ---- enums.c

// ffi_enums gives a list of named integers, those of each enum that R code compares with, under the
// names that R code has for them.
SEXP ffi_enums(void);

// ---- r.c: R's API

// ffi_deadline gives the time in timeout_s seconds.
int64_t ffi_deadline(SEXP timeout_s);
// ffi_self gives the pid of this process, cached: a system call would cost more than all other
// checks of an entry.
pid_t ffi_self(void);
// ffi_address_of gives the address in an external pointer with this tag, else NULL.
void *ffi_address_of(SEXP pointer, SEXP tag);
// ffi_symbol gives the symbol, looked up once: that costs 50 ns.
SEXP ffi_symbol(SEXP *known, const char *name);
// ffi_ours gives a function of muster's namespace, ffi_parallels one of parallel's. Looked up each
// time: both may be reloaded while this code stays. ffi_ours_are sets muster's namespace.
SEXP ffi_ours(const char *name);
SEXP ffi_parallels(const char *name);
void ffi_ours_are(SEXP ns);
// ffi_parallel gives parallel's namespace.
SEXP ffi_parallel(void);

// Shims for changes of R's API.
// ffi_binding gives a binding of env itself, R_UnboundValue if there is none, R_MissingArg for an
// argument without a value. It doesn't evaluate a promise but returns it, or its expression, whose
// address identifies it until another value is assigned. It calls an active binding. ffi_is_promise
// tells whether it is a promise, evaluated or not; only before R 4.6 does it call active bindings.
SEXP ffi_binding(SEXP env, SEXP symbol);
int ffi_is_promise(SEXP env, SEXP symbol);
// ffi_exists tells whether env itself has a binding. Before R 4.2 it calls an active one.
int ffi_exists(SEXP env, SEXP symbol);
SEXP ffi_closure_env(SEXP fun);
SEXP ffi_closure_formals(SEXP fun);
SEXP ffi_parent_env(SEXP env);
int ffi_has_attributes(SEXP x);
// ffi_attributes gives the attributes of x as a named list. Allocates.
SEXP ffi_attributes(SEXP x);
// ffi_only_names tells whether x, which has attributes, has only names. May allocate.
int ffi_only_names(SEXP x);
// ffi_value_in gives a function of a namespace by name; a package's functions are promises until
// they are used.
SEXP ffi_value_in(SEXP env, SEXP name);

#endif
