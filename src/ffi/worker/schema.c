// What the blocks of a map task have in common: see schema.h.
#include "ffi/worker/schema.h"
#include "ffi/value/coded.h"

// ---- out

SEXP ffi_schema_dictionary_of(SEXP levels) {
  return TYPEOF(levels) != STRSXP || Rf_xlength(levels) < FFI_LEVELS_MIN ||
                 ffi_has_attributes(levels)
             ? R_NilValue
             : ffi_dictionary_of(levels);
}

// add_dictionary adds a column's dictionary to a pairlist if it isn't there. Returns the last cell.
static SEXP add_dictionary(SEXP column, SEXP list, SEXP last) {
  SEXP dictionary = R_NilValue;
  if (ffi_is_coded(column)) {
    dictionary = ffi_coded_dictionary(column);
  } else if (TYPEOF(column) == INTSXP && Rf_inherits(column, "factor")) {
    dictionary = ffi_schema_dictionary_of(Rf_getAttrib(column, R_LevelsSymbol));
  }
  if (dictionary == R_NilValue) return last;
  for (SEXP at = CDR(list); at != R_NilValue; at = CDR(at)) {
    if (CAR(at) == dictionary) return last;
  }
  SETCDR(last, Rf_cons(dictionary, R_NilValue));
  return CDR(last);
}

SEXP ffi_schema_dictionaries(SEXP frames) {
  SEXP list = PROTECT(Rf_cons(R_NilValue, R_NilValue)), last = list;
  for (R_xlen_t i = 0; i < Rf_xlength(frames); i++) {
    SEXP frame = VECTOR_ELT(frames, i);
    if (TYPEOF(frame) != VECSXP) continue;
    for (R_xlen_t c = 0; c < Rf_xlength(frame); c++)
      last = add_dictionary(VECTOR_ELT(frame, c), list, last);
  }
  SEXP all = Rf_PairToVectorList(CDR(list));
  UNPROTECT(1);
  return all;
}

SEXP ffi_schema_out(SEXP dictionaries, SEXP header) {
  const R_xlen_t n = Rf_xlength(dictionaries);
  if (n == 0 && header == R_NilValue) return R_NilValue;
  SEXP out = PROTECT(Rf_allocVector(VECSXP, 2));
  SEXP all = Rf_allocVector(VECSXP, n);
  SET_VECTOR_ELT(out, 0, all);
  SET_VECTOR_ELT(out, 1, header);
  for (R_xlen_t k = 0; k < n; k++) {
    SET_VECTOR_ELT(all, k, ffi_dictionary_out(VECTOR_ELT(dictionaries, k)));
  }
  UNPROTECT(1);
  return out;
}

// ---- in

SEXP ffi_schema_in(SEXP written, const struct mst_want *want) {
  SEXP schema = PROTECT(Rf_allocVector(VECSXP, FFI_SCHEMA_PARTS));
  const int some = TYPEOF(written) == VECSXP && Rf_xlength(written) == 2;
  SEXP out = some ? VECTOR_ELT(written, 0) : R_NilValue;
  SEXP all = Rf_allocVector(VECSXP, Rf_xlength(out));
  SET_VECTOR_ELT(schema, FFI_SCHEMA_DICTIONARIES, all);
  for (R_xlen_t k = 0; k < Rf_xlength(out); k++) {
    SET_VECTOR_ELT(all, k, ffi_dictionary_in(VECTOR_ELT(out, k)));
  }
  SET_VECTOR_ELT(schema, FFI_SCHEMA_ATTEMPT,
                 Rf_ScalarInteger((int)want->attempt));
  if (some) SET_VECTOR_ELT(schema, FFI_SCHEMA_HEADER, VECTOR_ELT(written, 1));
  UNPROTECT(1);
  return schema;
}

// Those of one stage's map tasks, as far as they were read: most tasks of the next stage read
// blocks of all of them. A list by task, preserved. The stage used last comes first.
static struct known {
  SEXP tasks; // NULL: none
  uint32_t stage;
} known[2];

static void forget(struct known *stage) {
  if (stage->tasks != NULL) R_ReleaseObject(stage->tasks);
  stage->tasks = NULL;
}

static int is_known(const struct known *stage, uint32_t number) {
  return stage->tasks != NULL && stage->stage == number;
}

static void swap(void) {
  const struct known first = known[0];
  known[0] = known[1];
  known[1] = first;
}

void ffi_schema_forget(uint32_t stage) {
  for (int i = 0; i < 2; i++) {
    if (is_known(&known[i], stage)) forget(&known[i]);
  }
}

SEXP ffi_schema_known(const struct mst_want *want) {
  if (is_known(&known[1], want->stage)) swap();
  if (!is_known(&known[0], want->stage)) return R_NilValue;
  SEXP tasks = known[0].tasks;
  if ((R_xlen_t)want->task >= Rf_xlength(tasks)) return R_NilValue;
  SEXP schema = VECTOR_ELT(tasks, (R_xlen_t)want->task);
  if (schema == R_NilValue) return R_NilValue;
  const int attempt = Rf_asInteger(VECTOR_ELT(schema, FFI_SCHEMA_ATTEMPT));
  return attempt == (int)want->attempt ? schema : R_NilValue;
}

void ffi_schema_note(SEXP schema, const struct mst_want *want) {
  if (is_known(&known[1], want->stage)) swap();
  if (!is_known(&known[0], want->stage)) {
    swap();
    forget(&known[0]);
    known[0].stage = want->stage;
  }
  const R_xlen_t task = (R_xlen_t)want->task;
  const R_xlen_t room = known[0].tasks == NULL ? 0 : Rf_xlength(known[0].tasks);
  if (task >= room) {
    // Finalizers may drop blocks, and forget, meanwhile.
    SEXP more = PROTECT(Rf_allocVector(VECSXP, 2 * task + 64));
    if (!is_known(&known[0], want->stage)) forget(&known[0]);
    known[0].stage = want->stage;
    SEXP tasks = known[0].tasks;
    for (R_xlen_t i = 0; tasks != NULL && i < Rf_xlength(tasks); i++)
      SET_VECTOR_ELT(more, i, VECTOR_ELT(tasks, i));
    R_PreserveObject(more);
    forget(&known[0]);
    known[0].tasks = more;
    UNPROTECT(1);
  }
  SET_VECTOR_ELT(known[0].tasks, task, schema);
}
