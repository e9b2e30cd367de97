// A worker's journal, for display. See pool/journal.h.
#include <stdlib.h>
#include <string.h>

#include "ffi/session/session.h"

// Entries up to this size are given with their call.
#define JOURNAL_SHOW_MAX ((size_t)1 << 20)

// Copies of a journal's entries, with references to the calls' bytes.
struct kept_entries {
  struct mst_entry *list;
  size_t count;
};

static void free_entries(void *data) {
  struct kept_entries *kept = data;
  for (size_t i = 0; i < kept->count; i++)
    mst_blob_release(kept->list[i].payload);
  free(kept->list);
  free(kept);
}

static struct kept_entries *keep_entries(const struct mst_journal *journal) {
  struct kept_entries *kept = calloc(1, sizeof *kept);
  if (kept == NULL) Rf_error("no memory");
  kept->list = calloc(journal->count + 1, sizeof *kept->list);
  for (const struct mst_entry *at = journal->first;
       kept->list != NULL && at != NULL && kept->count < journal->count;
       at = at->next) {
    at->payload->refs++;
    kept->list[kept->count++] = *at;
  }
  return ffi_hold(kept, free_entries);
}

static SEXP entry_list(const struct mst_entry *at, int checkpoint) {
  static const char *const names[] = {"call",   "bytes",      "elapsed_s",
                                      "failed", "checkpoint", "payload"};
  const size_t bytes = checkpoint ? 0 : mst_blob_bytes(at->payload);
  SEXP entry = PROTECT(ffi_list(6, names));
  SET_VECTOR_ELT(entry, 0, Rf_ScalarReal((double)at->call));
  SET_VECTOR_ELT(entry, 1, Rf_ScalarReal((double)bytes));
  SET_VECTOR_ELT(entry, 2, Rf_ScalarReal(at->elapsed_s));
  SET_VECTOR_ELT(entry, 3, Rf_ScalarLogical(at->failed));
  SET_VECTOR_ELT(entry, 4, Rf_ScalarLogical(checkpoint));
  if (!checkpoint && bytes <= JOURNAL_SHOW_MAX && at->payload->segment.fd < 0) {
    SEXP raw = Rf_allocVector(RAWSXP, (R_xlen_t)bytes);
    SET_VECTOR_ELT(entry, 5, raw);
    memcpy(RAW(raw), at->payload->buf.data, bytes);
  }
  UNPROTECT(1);
  return entry;
}

// ffi_node_journal gives the entries of a worker's journal: a list of lists. If there is a
// checkpoint, it is the first, with its cost.
SEXP ffi_node_journal(SEXP node) {
  enum ffi_outcome outcome;
  const struct mst_peer *peer = ffi_peer_of(node, &outcome);
  if (peer == NULL) return Rf_ScalarInteger((int)outcome);
  const struct mst_journal *journal = mst_peer_journal(peer);
  const R_xlen_t first = journal->checkpoint;
  const struct mst_entry made = {.elapsed_s = (double)journal->cost_ns / 1e9};
  struct kept_entries *kept = keep_entries(journal);
  SEXP list = PROTECT(Rf_allocVector(VECSXP, first + (R_xlen_t)kept->count));
  if (first > 0) SET_VECTOR_ELT(list, 0, entry_list(&made, 1));
  for (size_t i = 0; i < kept->count; i++)
    SET_VECTOR_ELT(list, first + (R_xlen_t)i, entry_list(&kept->list[i], 0));
  ffi_drop(kept);
  UNPROTECT(1);
  return list;
}
