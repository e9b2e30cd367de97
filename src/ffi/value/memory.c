// Is there memory for a message? Checked before it is written. See share/memory.h.
#include "share/memory.h"
#include "base/mst_clock.h"
#include "base/mst_features.h"
#include "ffi/value/value.h"

// This much, or an eighth of what is free, is left for others.
#define RESERVE ((int64_t)64 << 20)
// A reading is valid this long, if there was plenty.
#define LOOK_NS (100 * MST_NS_PER_MS)

static struct {
  double pretend; // for tests: free bytes; negative: read them
  struct mst_memory memory;
  int64_t looked_ns; // 0: never
} seen = {.pretend = -1.0};

static void raise_memory(double bytes, int reads) {
  struct mst_mappings maps;
  mst_room_mappings(MST_PROC, &maps);
  SEXP facts = PROTECT(Rf_allocVector(REALSXP, 6));
  REAL(facts)[0] = bytes;
  REAL(facts)[1] = (double)seen.memory.bytes;
  REAL(facts)[2] = seen.memory.is_cgroup;
  REAL(facts)[3] = reads;
  REAL(facts)[4] = (double)maps.count;
  REAL(facts)[5] = (double)maps.limit;
  ffi_call_ours(FFI_ABORT_MEMORY, facts);
  UNPROTECT(1);
  Rf_error("no memory for a message"); // never reached
}

static void look_at_memory(void) {
  if (seen.pretend >= 0) {
    seen.memory = (struct mst_memory){.bytes = (int64_t)seen.pretend};
  } else {
    mst_memory_look(MST_PROC, MST_SYS "/fs/cgroup", &seen.memory);
  }
  seen.looked_ns = mst_clock_now();
}

static int has_room(int64_t bytes) {
  const int64_t part = seen.memory.bytes / 8;
  return bytes <= seen.memory.bytes - (part < RESERVE ? part : RESERVE);
}

void ffi_memory_check(size_t bytes) {
  const int64_t wanted = bytes > INT64_MAX / 8 ? INT64_MAX / 8 : (int64_t)bytes;
  const int is_new = seen.looked_ns != 0 && seen.pretend < 0 &&
                     mst_clock_now() - seen.looked_ns < LOOK_NS;
  // An earlier reading, minus what was taken since, will do if there was plenty.
  if (!is_new || seen.memory.bytes / 8 < wanted) look_at_memory();
  if (!has_room(wanted)) {
    R_gc();
    look_at_memory();
    if (!has_room(wanted)) raise_memory((double)bytes, 0);
  }
  if (seen.memory.bytes != INT64_MAX) seen.memory.bytes -= wanted;
}

void ffi_no_memory(size_t bytes) {
  look_at_memory();
  raise_memory((double)bytes, 0);
}

void ffi_no_map(size_t bytes, int wants_fd) {
  if (wants_fd) {
    ffi_call_ours(FFI_ABORT_DESCRIPTORS, PROTECT(Rf_ScalarReal((double)bytes)));
    UNPROTECT(1);
  }
  look_at_memory();
  raise_memory((double)bytes, 1);
}

int64_t ffi_memory_look(void) {
  look_at_memory();
  return seen.memory.bytes;
}

void ffi_memory_pretend(double bytes) {
  seen.pretend = bytes;
  seen.looked_ns = 0;
}

// ffi_share_free gives the bytes of free memory.
SEXP ffi_share_free(void) { return Rf_ScalarReal((double)ffi_memory_look()); }
