// entry: how R comes into the library, and what is done however R leaves it; and what of R's API
// has another name, or none, from version to version.
#ifndef MST_FFI_ENTRY_H
#define MST_FFI_ENTRY_H

#include <sys/types.h>

#include "ffi/ffi.h"
#include "share/blob.h"

// ---- entry.c

// ffi_entry calls fun(data) as an entry (init.c): the outermost has the session from its
// beginning to its end, and lends it to the I/O thread then if there are tasks to be done. Entries
// may be inside of others, since most of R's API can run R code (finalizers, condition
// handlers). However R leaves one, it ends: R_UnwindProtect sees to that.
SEXP ffi_entry(SEXP (*fun)(void *), void *data);
// ffi_do_later has run(item) called when R is in no entry, or an entry serves the session; now,
// if it is in none. For finalizers: allocates nothing, runs no R code, and run must not either.
struct ffi_later {
  struct ffi_later *next;
  void (*run)(struct ffi_later *item);
};
void ffi_do_later(struct ffi_later *item);
// ffi_guarded calls fun(data), which R may leave by a jump: then left(data) is called before the
// jump goes on (left may be NULL).
void ffi_guarded(SEXP (*fun)(void *), void (*left)(void *), void *data);
// ffi_check_interrupt is R_CheckUserInterrupt for entries; left as above, may be NULL.
void ffi_check_interrupt(void (*left)(void *), void *data);
// ffi_unwind is R_UnwindProtect() that allocates nothing, so `done` runs in any case; it must
// not run R. ffi_unwind_init makes what that needs, when the package is loaded.
SEXP ffi_unwind(SEXP (*fun)(void *), void *data,
                void (*done)(void *, Rboolean jump), void *done_data);
void ffi_unwind_init(void);
// ffi_on_entries has functions called at the outermost entry: begin when it begins, outside when
// R is in no other, so that nobody has pointers to what was closed, end when it has ended. Any may
// be NULL. They run no R code. At most FFI_ON_ENTRIES_MAX times in a process.
#define FFI_ON_ENTRIES_MAX 4
struct ffi_on_entries {
  void (*begin)(void);
  void (*outside)(void);
  void (*end)(void);
};
void ffi_on_entries(const struct ffi_on_entries *on);
// ffi_later_now runs what was left for later.
void ffi_later_now(void);

// ---- hold.c: what an entry point has in hand while R may run

// ffi_hold keeps `what` until ffi_drop, or until the entry point that it is called in has ended
// or was left by a jump; then let_go(what) frees it, which must run no R code. Raises an R
// error without memory, and `what` is freed then. Returns `what`. Only in entries.
void *ffi_hold(void *what, void (*let_go)(void *));
// ffi_new_blob gives an empty blob that is held: ffi_unhold makes it the caller's. Raises an R
// error without memory.
struct mst_blob *ffi_new_blob(void);
// ffi_hold_blob holds a reference to a blob.
struct mst_blob *ffi_hold_blob(struct mst_blob *blob);
// ffi_drop frees what is held now; ffi_unhold leaves that to the caller. Without harm for what
// isn't held.
void ffi_drop(const void *what);
void ffi_unhold(const void *what);
// ffi_level_up: an entry begins, and is at the depth that comes back. ffi_level_down: it has
// ended; what it holds is let go of. For entry.c.
uint32_t ffi_level_up(void);
uint32_t ffi_level_down(void);
// ffi_depth tells how many entries R is in.
uint32_t ffi_depth(void);

// ---- own.c: external pointers that own something

// ffi_tag gives their tag, a symbol that tells what they are and of which session: after
// ffi_end_owned it is another one, so that ffi_address_of gives NULL for those before.
struct ffi_tag {
  SEXP symbol;
  unsigned session;
};
SEXP ffi_tag(struct ffi_tag *known, const char *name);
// ffi_own gives one without an address yet. let_go(pointer) frees what is behind it, when R
// collects it, and at_exit when R ends; it neither runs R code nor looks at the tag. R may free a
// pointer without that: then what is behind it stays.
SEXP ffi_own(SEXP tag, SEXP kept, void (*let_go)(SEXP pointer), int at_exit);
// ffi_closing_add has ffi_end_owned close what would stay open when muster is unloaded, unless it
// is removed before, once or more. close runs no R code. Put it first into what is behind the
// pointer.
struct ffi_closing {
  struct ffi_closing *next, **at;
  void (*close)(struct ffi_closing *closing);
};
void ffi_closing_add(struct ffi_closing *closing,
                     void (*close)(struct ffi_closing *closing));
void ffi_closing_remove(struct ffi_closing *closing);
// ffi_end_owned ends all: their tags aren't known any more. What is behind them stays until R
// collects them. Runs no R code.
void ffi_end_owned(void);

// ---- build.c

// ffi_build gives what session and worker must agree in, as R has told by ffi_build_set.
const char *ffi_build(void);
// ffi_build_set, whenever the package is loaded: its build and namespace. FALSE if this is the
// code of another build, which was loaded before. R code of any build calls it of any other.
SEXP ffi_build_set(SEXP build, SEXP ns);
// ffi_build_clear: this code was just loaded.
void ffi_build_clear(void);

// ---- r.c: R's API

// ffi_deadline gives the time at which that many seconds will have passed.
int64_t ffi_deadline(SEXP timeout_s);
// ffi_self gives the pid of this process. Asking the system each time would cost more
// than all other checks of an entry.
pid_t ffi_self(void);
// ffi_address_of gives the address in an external pointer with this tag, else NULL.
void *ffi_address_of(SEXP pointer, SEXP tag);
// ffi_symbol gives the symbol, looked up once: that costs 50 ns.
SEXP ffi_symbol(SEXP *known, const char *name);
// ffi_ours gives a function of muster's namespace, ffi_parallels one of parallel's. They are looked
// up each time: both may be loaded anew while this code stays. ffi_ours_are: muster's namespace.
SEXP ffi_ours(const char *name);
SEXP ffi_parallels(const char *name);
void ffi_ours_are(SEXP ns);
// ffi_parallel gives parallel's namespace.
SEXP ffi_parallel(void);
// ffi_call_ours calls a function of muster's namespace with one argument, or with none
// if it is NULL. Raises what that raises.
SEXP ffi_call_ours(const char *name, SEXP argument);

// What R has other names for, or none in its API, from version to version.
// ffi_binding gives a binding of env itself, R_UnboundValue if there is none, R_MissingArg for an
// argument without a value. A promise isn't evaluated: its address, or its expression's, stands
// for it as long as nothing else is assigned. An active binding is called. ffi_is_promise tells
// whether it is a promise, evaluated or not; it calls nothing but on R before 4.6 active bindings.
SEXP ffi_binding(SEXP env, SEXP symbol);
int ffi_is_promise(SEXP env, SEXP symbol);
// ffi_exists tells whether env itself has a binding. On R before 4.2 an active one is called.
int ffi_exists(SEXP env, SEXP symbol);
SEXP ffi_closure_env(SEXP fun);
SEXP ffi_closure_formals(SEXP fun);
SEXP ffi_parent_env(SEXP env);
int ffi_has_attributes(SEXP x);
// ffi_attributes gives the attributes of x as a named list. Allocates.
SEXP ffi_attributes(SEXP x);
// ffi_only_names tells whether what has attributes has names and nothing else. May allocate.
int ffi_only_names(SEXP x);
// ffi_value_in gives a function of a namespace by name; a package's functions are promises
// until they are used.
SEXP ffi_value_in(SEXP env, SEXP name);

#endif
