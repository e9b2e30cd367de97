// Blocks of a worker: written, fetched and read. Runs in workers. See shuffle/exchange.h.
#include <string.h>

#include "base/mst_hash.h"
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
  const int *numbers = INTEGER(want);
  return (struct mst_want){.stage = (uint32_t)numbers[0],
                           .task = (uint32_t)numbers[1],
                           .attempt = (uint32_t)numbers[2]};
}

// write_blocks writes the blocks that have rows.
static int write_blocks(SEXP blocks, SEXP rows, struct mst_err *err) {
  const R_xlen_t n = Rf_xlength(blocks);
  for (R_xlen_t i = 0; i < n; i++) {
    struct mst_block *block = &writing.blocks[i];
    *block = (struct mst_block){0};
    if (INTEGER(rows)[i] == 0) continue;
    block->rows = (uint64_t)INTEGER(rows)[i];
    const int rc = ffi_share_block(VECTOR_ELT(blocks, i), &writing.segment,
                                   &writing.stream, block, err);
    if (rc != 0) return rc;
  }
  return 0;
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
                         uint64_t bytes, struct mst_err *err) {
  int rc = mst_segment_open(&writing.segment, bytes, err);
  if (rc == 0) rc = write_blocks(blocks, rows, err);
  if (rc == 0) {
    rc = mst_exchange_sign(want, &writing.segment, writing.blocks,
                           (uint32_t)Rf_xlength(blocks), err);
  }
  if (rc == 0) rc = mst_segment_seal(&writing.segment, err);
  if (rc != 0) mst_segment_close(&writing.segment);
  return rc;
}

static int write_file(SEXP blocks, SEXP rows, const char *path,
                      struct mst_err *err) {
  int rc = mst_segment_open_file(&writing.segment, path, err);
  if (rc == 0) rc = write_blocks(blocks, rows, err);
  if (rc == 0) rc = mst_segment_end_file(&writing.segment, err);
  if (rc == 0) rc = check_blocks(Rf_xlength(blocks), err);
  return rc;
}

static int has_rows(SEXP rows) {
  for (R_xlen_t i = 0; i < Rf_xlength(rows); i++) {
    if (INTEGER(rows)[i] > 0) return 1;
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
  const double bytes = REAL(memory)[0];
  const char *file = Rf_translateChar(STRING_ELT(path, 0));
  mst_err_clear(&err);
  if (n > (R_xlen_t)MST_BLOCKS_MAX) Rf_error("too many blocks");
  mst_segment_close(&writing.segment);
  memset(writing.blocks, 0, (size_t)n * sizeof writing.blocks[0]);
  int is_file = (double)mst_exchange_held() + bytes > REAL(memory)[1];
  int rc = 0;
  if (!is_file &&
      write_segment(&is, blocks, rows, (uint64_t)bytes, &err) != 0) {
    is_file = 1;
  }
  is_file = is_file && has_rows(rows); // without rows there is neither
  if (is_file) rc = write_file(blocks, rows, file, &err);
  const uint64_t size = writing.segment.bytes;
  if (is_file) mst_segment_close(&writing.segment);
  if (rc == 0) {
    rc = mst_exchange_put(&is, is_file ? NULL : &writing.segment,
                          is_file ? file : NULL, size, writing.blocks,
                          (uint32_t)n, &err);
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
    asked[i] = source_of(INTEGER(sources) + i, n);
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
  struct mst_err err;
  struct mst_map *map;
  struct mst_block block;
  uint64_t base;
  const struct mst_want is = want_of(want);
  mst_err_clear(&err);
  ffi_share_collect();
  const int rc = mst_exchange_read(&is, (uint32_t)Rf_asInteger(index) - 1, &map,
                                   &base, &block, &err);
  if (rc != 0) return ffi_error_list(&err);
  if (map == NULL) return R_NilValue;
  return ffi_unserialize_block(map, base, &block);
}

// ffi_block_drop drops a stage's blocks (attempt 0), or one attempt's.
SEXP ffi_block_drop(SEXP want) {
  const struct mst_want is = want_of(want);
  mst_exchange_drop(&is);
  return R_NilValue;
}
