// Blocks of a worker: written, fetched and read. Runs in workers. See shuffle/exchange.h.
#include <string.h>

#include "base/mst_hash.h"
#include "ffi/value/coded.h"
#include "ffi/value/share_int.h"
#include "ffi/worker/worker.h"
#include "shuffle/exchange.h"

// The segment being written; if R left a call by a jump, the next call closes it.
static struct {
  struct mst_segment segment;
  struct mst_buf stream;
  struct mst_block blocks[MST_BLOCKS_MAX];
} writing = {.segment = {.fd = -1}};

// A spot's token is passed to R as two integers.
#define HALF_BITS 31
#define HALF ((UINT64_C(1) << HALF_BITS) - 1)

static struct mst_want want_of(SEXP want) {
  const int *numbers = INTEGER_RO(want);
  return (struct mst_want){.stage = (uint32_t)numbers[0],
                           .task = (uint32_t)numbers[1],
                           .attempt = (uint32_t)numbers[2]};
}

// ---- dictionaries: written once for all blocks of a map task, as its block 0

// dictionary_of_levels: NULL if they are few.
static SEXP dictionary_of_levels(SEXP levels) {
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
    dictionary = dictionary_of_levels(Rf_getAttrib(column, R_LevelsSymbol));
  }
  if (dictionary == R_NilValue) return last;
  for (SEXP at = CDR(list); at != R_NilValue; at = CDR(at)) {
    if (CAR(at) == dictionary) return last;
  }
  SETCDR(last, Rf_cons(dictionary, R_NilValue));
  return CDR(last);
}

// dictionaries_of gives a list of those of all columns.
static SEXP dictionaries_of(SEXP blocks) {
  SEXP list = PROTECT(Rf_cons(R_NilValue, R_NilValue)), last = list;
  for (R_xlen_t i = 0; i < Rf_xlength(blocks); i++) {
    SEXP block = VECTOR_ELT(blocks, i);
    if (TYPEOF(block) != VECSXP) continue;
    for (R_xlen_t c = 0; c < Rf_xlength(block); c++)
      last = add_dictionary(VECTOR_ELT(block, c), list, last);
  }
  SEXP all = Rf_PairToVectorList(CDR(list));
  UNPROTECT(1);
  return all;
}

static int write_dictionaries(SEXP dictionaries, struct mst_err *err) {
  const R_xlen_t n = Rf_xlength(dictionaries);
  struct mst_block *block = &writing.blocks[0];
  *block = (struct mst_block){0};
  if (n == 0) return 0;
  SEXP all = PROTECT(Rf_allocVector(VECSXP, n));
  for (R_xlen_t k = 0; k < n; k++) {
    SET_VECTOR_ELT(all, k, ffi_dictionary_out(VECTOR_ELT(dictionaries, k)));
  }
  block->rows = (uint64_t)n;
  const int rc =
      ffi_share_block(all, NULL, &writing.segment, &writing.stream, block, err);
  UNPROTECT(1);
  return rc;
}

// The dictionaries of one stage's map tasks, as far as their blocks were read: most tasks of the
// next stage read blocks of all of them. A list by task: list(attempt, dictionaries), preserved.
static struct {
  SEXP tasks;
  uint32_t stage;
} known;

static void forget_dictionaries(uint32_t stage) {
  if (known.tasks != NULL && known.stage == stage) {
    R_ReleaseObject(known.tasks);
    known.tasks = NULL;
  }
}

static void make_room(const struct mst_want *want) {
  if (known.tasks != NULL && known.stage != want->stage) {
    forget_dictionaries(known.stage);
  }
  const R_xlen_t room = known.tasks == NULL ? 0 : Rf_xlength(known.tasks);
  if ((R_xlen_t)want->task < room) return;
  SEXP more = PROTECT(Rf_allocVector(VECSXP, 2 * (R_xlen_t)want->task + 64));
  for (R_xlen_t i = 0; i < room; i++)
    SET_VECTOR_ELT(more, i, VECTOR_ELT(known.tasks, i));
  R_PreserveObject(more);
  if (known.tasks != NULL) R_ReleaseObject(known.tasks);
  known.tasks = more;
  known.stage = want->stage;
  UNPROTECT(1);
}

// learnt gives the dictionaries that block 0 describes.
static SEXP learnt(SEXP written) {
  const R_xlen_t n = TYPEOF(written) == VECSXP ? Rf_xlength(written) : 0;
  SEXP all = PROTECT(Rf_allocVector(VECSXP, n));
  for (R_xlen_t k = 0; k < n; k++) {
    SET_VECTOR_ELT(all, k, ffi_dictionary_in(VECTOR_ELT(written, k)));
  }
  UNPROTECT(1);
  return all;
}

// read_block gives a fetched block, NULL if it is empty, or a list as ffi_error_list.
static SEXP read_block(const struct mst_want *want, uint32_t index) {
  struct mst_err err;
  struct mst_map *map;
  struct mst_block block;
  uint64_t base;
  mst_err_clear(&err);
  const int rc = mst_exchange_read(want, index, &map, &base, &block, &err);
  if (rc != 0) return ffi_error_list(&err);
  if (map == NULL) return R_NilValue;
  return ffi_unserialize_block(map, base, &block);
}

static int is_error(SEXP read) {
  return TYPEOF(read) == VECSXP &&
         Rf_getAttrib(read, R_NamesSymbol) != R_NilValue;
}

// read_dictionaries gives those of an attempt's blocks, or a list as ffi_error_list.
static SEXP read_dictionaries(const struct mst_want *want) {
  SEXP read = PROTECT(read_block(want, 0));
  SEXP all = is_error(read) ? read : learnt(read);
  UNPROTECT(1);
  return all;
}

// dictionaries_for gives those of a map task's blocks, or a list as ffi_error_list.
static SEXP dictionaries_for(const struct mst_want *want) {
  make_room(want);
  SEXP task = VECTOR_ELT(known.tasks, (R_xlen_t)want->task);
  if (task != R_NilValue &&
      INTEGER_RO(VECTOR_ELT(task, 0))[0] == (int)want->attempt) {
    return VECTOR_ELT(task, 1);
  }
  SEXP all = PROTECT(read_dictionaries(want));
  if (is_error(all)) {
    UNPROTECT(1);
    return all;
  }
  task = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(task, 0, Rf_ScalarInteger((int)want->attempt));
  SET_VECTOR_ELT(task, 1, all);
  make_room(want); // finalizers may have forgotten all
  SET_VECTOR_ELT(known.tasks, (R_xlen_t)want->task, task);
  UNPROTECT(2);
  return all;
}

// ---- writing

// write_blocks writes the blocks that have rows, after their dictionaries.
static int write_blocks(SEXP blocks, SEXP rows, SEXP dictionaries,
                        struct mst_err *err) {
  const R_xlen_t n = Rf_xlength(blocks);
  int rc = write_dictionaries(dictionaries, err);
  for (R_xlen_t i = 0; rc == 0 && i < n; i++) {
    struct mst_block *block = &writing.blocks[i + 1];
    *block = (struct mst_block){0};
    if (INTEGER_RO(rows)[i] == 0) continue;
    block->rows = (uint64_t)INTEGER_RO(rows)[i];
    rc = ffi_share_block(VECTOR_ELT(blocks, i), dictionaries, &writing.segment,
                         &writing.stream, block, err);
  }
  return rc;
}

// check_blocks reads a file's blocks back and records their checksums.
static int check_blocks(R_xlen_t n, struct mst_err *err) {
  for (R_xlen_t i = 0; i < n; i++) {
    struct mst_block *block = &writing.blocks[i];
    struct mst_map *map = NULL;
    if (block->bytes == 0) continue;
    const int rc = mst_map_read(writing.segment.fd, block->offset, block->bytes,
                                &map, err);
    if (rc != 0) return rc;
    block->check = mst_hash(map->data, (size_t)block->bytes);
    mst_map_release(map);
  }
  return 0;
}

static int write_segment(const struct mst_want *want, SEXP blocks, SEXP rows,
                         SEXP dictionaries, uint64_t bytes,
                         struct mst_err *err) {
  int rc = mst_segment_open(&writing.segment, bytes, err);
  if (rc == 0) rc = write_blocks(blocks, rows, dictionaries, err);
  if (rc == 0) {
    rc = mst_exchange_sign(want, &writing.segment, writing.blocks,
                           (uint32_t)Rf_xlength(blocks) + 1, err);
  }
  if (rc == 0) rc = mst_segment_seal(&writing.segment, err);
  if (rc != 0) mst_segment_close(&writing.segment);
  return rc;
}

static int write_file(SEXP blocks, SEXP rows, SEXP dictionaries,
                      const char *path, struct mst_err *err) {
  int rc = mst_segment_open_file(&writing.segment, path, err);
  if (rc == 0) rc = write_blocks(blocks, rows, dictionaries, err);
  if (rc == 0) rc = mst_segment_end_file(&writing.segment, err);
  if (rc == 0) rc = check_blocks(Rf_xlength(blocks) + 1, err);
  return rc;
}

static int has_rows(SEXP rows) {
  for (R_xlen_t i = 0; i < Rf_xlength(rows); i++) {
    if (INTEGER_RO(rows)[i] > 0) return 1;
  }
  return 0;
}

// ffi_block_write keeps blocks (a list of data frames) with their numbers of rows. memory: c(what
// they take, limit for this worker's segments); beyond that, or without segments, they go to a file
// at path. Gives c(bytes, 1 for a file, the spot: pid, descriptor, and the token in two), or a list
// as ffi_error_list if neither works.
SEXP ffi_block_write(SEXP blocks, SEXP rows, SEXP want, SEXP memory,
                     SEXP path) {
  struct mst_err err;
  const struct mst_want is = want_of(want);
  const R_xlen_t n = Rf_xlength(blocks);
  const double bytes = REAL_RO(memory)[0];
  const char *file = Rf_translateChar(STRING_ELT(path, 0));
  mst_err_clear(&err);
  if (n >= (R_xlen_t)MST_BLOCKS_MAX) Rf_error("too many blocks");
  SEXP dictionaries = PROTECT(dictionaries_of(blocks));
  mst_segment_close(&writing.segment);
  memset(writing.blocks, 0, ((size_t)n + 1) * sizeof writing.blocks[0]);
  int is_file = (double)mst_exchange_held() + bytes > REAL_RO(memory)[1];
  int rc = 0;
  if (!is_file && write_segment(&is, blocks, rows, dictionaries,
                                (uint64_t)bytes, &err) != 0) {
    is_file = 1;
  }
  is_file = is_file && has_rows(rows); // without rows there is neither
  if (is_file) rc = write_file(blocks, rows, dictionaries, file, &err);
  UNPROTECT(1);
  const uint64_t size = writing.segment.bytes;
  if (is_file) mst_segment_close(&writing.segment);
  if (rc == 0) {
    rc = mst_exchange_put(&is, is_file ? NULL : &writing.segment,
                          is_file ? file : NULL, size, writing.blocks,
                          (uint32_t)n + 1, &err);
  }
  mst_buf_trim(&writing.stream, 0);
  writing.stream.len = 0;
  if (rc != 0) return ffi_error_list(&err);
  const struct mst_spot spot = mst_exchange_spot(&is);
  const double told[] = {(double)size,
                         is_file,
                         spot.pid,
                         spot.fd,
                         (double)(spot.token >> HALF_BITS),
                         (double)(spot.token & HALF)};
  SEXP result = Rf_allocVector(REALSXP, 6);
  memcpy(REAL(result), told, sizeof told);
  return result;
}

static struct mst_source source_of(const int *at, size_t n) {
  return (struct mst_source){
      .want = {.stage = (uint32_t)at[0],
               .task = (uint32_t)at[n],
               .attempt = (uint32_t)at[2 * n]},
      .worker = at[3 * n] == 0 ? MST_SOURCE_SELF : (uint32_t)at[3 * n] - 1,
      .epoch = (uint32_t)at[4 * n],
      .spot = {.pid = at[5 * n],
               .fd = at[6 * n],
               .token =
                   (uint64_t)at[7 * n] << HALF_BITS | (uint64_t)at[8 * n]}};
}

// ffi_block_fetch gets the blocks of n attempts: sources is an integer matrix with n rows: stage,
// task, attempt, worker (from 1; 0: this one), epoch, and the spot as from ffi_block_write (pid 0:
// unknown). Gives an enum mst_fetched for each.
SEXP ffi_block_fetch(SEXP sources) {
  struct mst_err err;
  mst_err_clear(&err);
  const size_t n = (size_t)Rf_nrows(sources);
  struct mst_source *asked = (struct mst_source *)R_alloc(n + 1, sizeof *asked);
  for (size_t i = 0; i < n; i++)
    asked[i] = source_of(INTEGER_RO(sources) + i, n);
  if (mst_exchange_ask(asked, n, &err) != 0) Rf_error("%s", err.text);
  while (mst_exchange_wait(FFI_SLICE_MS) > 0)
    R_CheckUserInterrupt();
  SEXP states = Rf_allocVector(INTSXP, (R_xlen_t)n);
  for (size_t i = 0; i < n; i++) {
    INTEGER(states)[i] = (int)mst_exchange_state(i);
  }
  return states;
}

// ffi_block_read gives one fetched block, by its number from 1; NULL if it has no rows; a list as
// ffi_error_list if it can't be read.
SEXP ffi_block_read(SEXP want, SEXP index) {
  const struct mst_want is = want_of(want);
  ffi_share_collect();
  SEXP dictionaries = PROTECT(dictionaries_for(&is));
  if (is_error(dictionaries)) {
    UNPROTECT(1);
    return dictionaries;
  }
  ffi_coded_read_with(dictionaries);
  SEXP block = read_block(&is, (uint32_t)Rf_asInteger(index));
  ffi_coded_read_with(NULL);
  UNPROTECT(1);
  return block;
}

// ffi_part_read gives the only block of an own attempt: a part that lies in a file. Else as
// ffi_block_read. Its dictionaries aren't kept for others: these read their own.
SEXP ffi_part_read(SEXP want) {
  const struct mst_want is = want_of(want);
  ffi_share_collect();
  SEXP dictionaries = PROTECT(read_dictionaries(&is)), block = dictionaries;
  if (!is_error(dictionaries)) {
    ffi_coded_read_with(dictionaries);
    block = read_block(&is, 1);
    ffi_coded_read_with(NULL);
  }
  UNPROTECT(1);
  return block;
}

// ffi_block_held gives the bytes of own blocks in memory.
SEXP ffi_block_held(void) { return Rf_ScalarReal((double)mst_exchange_held()); }

// ffi_levels_number gives the number of a factor's levels as those of blocks, NULL if they are few,
// so that they stay with the factor.
SEXP ffi_levels_number(SEXP levels) {
  SEXP dictionary = PROTECT(dictionary_of_levels(levels));
  SEXP number =
      dictionary == R_NilValue ? R_NilValue : ffi_dictionary_number(dictionary);
  UNPROTECT(1);
  return number;
}

// ffi_block_levels gives the levels with this number, NULL if the map task's blocks haven't got
// them; a list as ffi_error_list if they can't be read.
SEXP ffi_block_levels(SEXP want, SEXP number) {
  const struct mst_want is = want_of(want);
  SEXP all = PROTECT(dictionaries_for(&is)), levels = R_NilValue;
  if (is_error(all)) levels = all;
  for (R_xlen_t k = 0; levels == R_NilValue && k < Rf_xlength(all); k++) {
    SEXP one = VECTOR_ELT(all, k);
    if (STRING_ELT(ffi_dictionary_number(one), 0) == STRING_ELT(number, 0)) {
      ffi_dictionary_keep(one);
      levels = ffi_dictionary_strings(one);
    }
  }
  UNPROTECT(1);
  return levels;
}

// ffi_block_drop drops a stage's blocks (attempt 0), or one attempt's.
SEXP ffi_block_drop(SEXP want) {
  const struct mst_want is = want_of(want);
  if (is.attempt == 0) forget_dictionaries(is.stage);
  mst_exchange_drop(&is);
  return R_NilValue;
}
