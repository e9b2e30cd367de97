// How R enters the library: entries, which may be nested, and their cleanup however R leaves them.
#include "ffi/entry/entry.h"
#include "base/mst_assert.h"

static SEXP token;

// Nested calls may share one token: R keeps a jump in it only between the landing and the
// continuation, and `done` runs no R in between.
SEXP ffi_unwind(SEXP (*fun)(void *), void *data,
                void (*done)(void *, Rboolean jump), void *done_data) {
  SEXP value = R_UnwindProtect(fun, data, done, done_data, token);
  SETCAR(token, R_NilValue); // R leaves the value there; it may be large
  return value;
}

void ffi_unwind_init(void) {
  token = R_MakeUnwindCont();
  R_PreserveObject(token);
}

// ---- entries

static struct ffi_on_entries on_entries[FFI_ON_ENTRIES_MAX];
static int on_count;

void ffi_on_entries(const struct ffi_on_entries *on) {
  MST_ASSERT(on_count < FFI_ON_ENTRIES_MAX);
  on_entries[on_count++] = *on;
}

static void outside_now(void) {
  for (int i = 0; i < on_count; i++)
    if (on_entries[i].outside != NULL) on_entries[i].outside();
}

// Work left by finalizers, which may run in any allocation, in the middle of an entry.
static struct ffi_later *later_first, **later_end = &later_first;

void ffi_later_now(void) {
  while (later_first != NULL) {
    struct ffi_later *item = later_first;
    later_first = item->next;
    if (later_first == NULL) later_end = &later_first;
    item->run(item);
  }
}

static void begin(void) {
  if (ffi_depth() > 1) return;
  for (int i = 0; i < on_count; i++)
    if (on_entries[i].begin != NULL) on_entries[i].begin();
  ffi_later_now();
  outside_now();
}

static void end(void) {
  if (ffi_level_down() > 0) return;
  ffi_later_now();
  outside_now();
  for (int i = 0; i < on_count; i++)
    if (on_entries[i].end != NULL) on_entries[i].end();
}

static void end_entry(void *data, Rboolean jump) {
  (void)data;
  (void)jump;
  end();
}

struct entry {
  SEXP (*fun)(void *);
  void *data;
};

static SEXP run_entry(void *data) {
  const struct entry *entry = data;
  begin(); // here, so that a failed assertion in it is an R error too
  return entry->fun(entry->data);
}

SEXP ffi_entry(SEXP (*fun)(void *), void *data) {
  struct entry entry = {.fun = fun, .data = data};
  (void)ffi_level_up();
  return ffi_unwind(run_entry, &entry, end_entry, NULL);
}

static SEXP nothing(void *data) {
  (void)data;
  return R_NilValue;
}

void ffi_do_later(struct ffi_later *item) {
  item->next = NULL;
  *later_end = item;
  later_end = &item->next;
  if (ffi_depth() > 0) return; // runs at the end of that entry
  (void)ffi_entry(nothing, NULL);
}

struct guarded {
  void (*left)(void *);
  void *data;
};

static void end_guarded(void *data, Rboolean jump) {
  const struct guarded *guarded = data;
  if (jump && guarded->left != NULL) guarded->left(guarded->data);
}

void ffi_guarded(SEXP (*fun)(void *), void (*left)(void *), void *data) {
  struct guarded guarded = {.left = left, .data = data};
  ffi_unwind(fun, data, end_guarded, &guarded);
}

static SEXP check_interrupt(void *data) {
  (void)data;
  R_CheckUserInterrupt();
  return R_NilValue;
}

void ffi_check_interrupt(void (*left)(void *), void *data) {
  ffi_guarded(check_interrupt, left, data);
}
