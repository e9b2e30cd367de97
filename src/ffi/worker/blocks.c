// Blocks of a worker: written, fetched and read. Runs in workers. See shuffle/exchange.h.
#include <string.h>

#include "base/mst_hash.h"
#include "ffi/value/coded.h"
#include "ffi/value/share_int.h"
#include "ffi/worker/flat.h"
#include "ffi/worker/schema.h"
#include "ffi/worker/worker.h"
#include "net/net.h"
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

// ---- writing

// What is written: data frames, NULL where there are no rows; or the rows of one, in an order.
struct content {
  SEXP blocks; // a list, or the data frame
  SEXP rows;   // of each block
  SEXP dictionaries, header;
  struct ffi_flat flat;
  const int *order;
  const int *begin; // where each block's runs begin, NULL: there are none
  struct ffi_flat_runs runs; // of all blocks
};

// write_schema writes block 0.
static int write_schema(const struct content *content, struct mst_err *err) {
  struct mst_block *block = &writing.blocks[0];
  *block = (struct mst_block){0};
  SEXP schema = PROTECT(ffi_schema_out(content->dictionaries, content->header));
  int rc = 0;
  if (schema != R_NilValue) {
    block->rows = 1;
    rc = ffi_share_block(schema, NULL, &writing.segment, &writing.stream, block,
                         err);
  }
  UNPROTECT(1);
  return rc;
}

// Blocks are written together, up to so many bytes: a call of the system for each would cost as
// much as copying 50 kB.
#define TOGETHER ((size_t)1 << 18)

static int flush(struct mst_err *err) {
  const int rc = mst_segment_append(&writing.segment, writing.stream.data,
                                    writing.stream.len, err);
  writing.stream.len = 0;
  return rc;
}

// write_flat adds rows of these numbers as a block.
static int write_flat(const struct ffi_flat *flat, const int *rows,
                      const struct ffi_flat_runs *runs, struct mst_block *block,
                      struct mst_err *err) {
  static const uint8_t zeros[MST_SEGMENT_ALIGN];
  struct mst_buf *stream = &writing.stream;
  if (stream->len == 0) mst_segment_align(&writing.segment);
  const size_t more = -stream->len % MST_SEGMENT_ALIGN;
  block->offset = writing.segment.bytes + stream->len + more;
  if (mst_buf_append(stream, zeros, more) != 0 ||
      ffi_flat_put(flat, rows, (size_t)block->rows, runs, stream) != 0)
    return mst_err_set(err, MST_EMEM, 0, "malloc", "no memory for a block");
  block->bytes = writing.segment.bytes + stream->len - block->offset;
  return stream->len < TOGETHER ? 0 : flush(err);
}

// runs_of gives those of block i.
static struct ffi_flat_runs runs_of(const struct content *content, R_xlen_t i) {
  const int from = content->begin[i], to = content->begin[i + 1];
  return (struct ffi_flat_runs){.first = content->runs.first + from,
                                .sizes = content->runs.sizes + from,
                                .n = (size_t)(to - from)};
}

// write_blocks writes the blocks that have rows, after what they share.
static int write_blocks(const struct content *content, struct mst_err *err) {
  const int *rows = INTEGER_RO(content->rows);
  int rc = write_schema(content, err);
  writing.stream.len = 0;
  R_xlen_t at = 0;
  for (R_xlen_t i = 0; rc == 0 && i < Rf_xlength(content->rows); i++) {
    struct mst_block *block = &writing.blocks[i + 1];
    *block = (struct mst_block){0};
    if (rows[i] == 0) continue;
    block->rows = (uint64_t)rows[i];
    if (content->order != NULL) {
      struct ffi_flat_runs runs = {0};
      if (content->begin != NULL) runs = runs_of(content, i);
      rc = write_flat(&content->flat, content->order + at,
                      content->begin != NULL ? &runs : NULL, block, err);
      at += rows[i];
    } else {
      rc =
          ffi_share_block(VECTOR_ELT(content->blocks, i), content->dictionaries,
                          &writing.segment, &writing.stream, block, err);
    }
  }
  if (rc == 0 && writing.stream.len > 0 && content->order != NULL)
    rc = flush(err);
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

// Each map task's blocks keep a descriptor. Common limits, of 1,024, have room for those of 128;
// what is beyond would go to files, ten times slower. Descriptors are above 1,023, so that those of
// others stay below, as select() wants them.
static void raise_limit(void) {
  static int raised;
  if (!raised) (void)mst_net_fd_raise_limit(8 * MST_SEGMENTS_MAX);
  raised = 1;
}

static int write_segment(const struct mst_want *want,
                         const struct content *content, uint64_t bytes,
                         struct mst_err *err) {
  raise_limit();
  int rc = mst_segment_open(&writing.segment, bytes, err);
  if (rc == 0) rc = write_blocks(content, err);
  if (rc == 0) {
    rc = mst_exchange_sign(want, &writing.segment, writing.blocks,
                           (uint32_t)Rf_xlength(content->rows) + 1, err);
  }
  if (rc == 0) rc = mst_segment_seal(&writing.segment, err);
  if (rc != 0) mst_segment_close(&writing.segment);
  return rc;
}

static int write_file(const struct content *content, const char *path,
                      struct mst_err *err) {
  int rc = mst_segment_open_file(&writing.segment, path, err);
  if (rc == 0) rc = write_blocks(content, err);
  if (rc == 0) rc = mst_segment_end_file(&writing.segment, err);
  if (rc == 0) rc = check_blocks(Rf_xlength(content->rows) + 1, err);
  return rc;
}

static int has_rows(SEXP rows) {
  for (R_xlen_t i = 0; i < Rf_xlength(rows); i++) {
    if (INTEGER_RO(rows)[i] > 0) return 1;
  }
  return 0;
}

static SEXP write_content(const struct content *content, SEXP want, SEXP memory,
                          SEXP path) {
  struct mst_err err;
  const struct mst_want is = want_of(want);
  const R_xlen_t n = Rf_xlength(content->rows);
  const double bytes = REAL_RO(memory)[0];
  const char *file = Rf_translateChar(STRING_ELT(path, 0));
  mst_err_clear(&err);
  if (n >= (R_xlen_t)MST_BLOCKS_MAX) Rf_error("too many blocks");
  mst_segment_close(&writing.segment);
  memset(writing.blocks, 0, ((size_t)n + 1) * sizeof writing.blocks[0]);
  int is_file = (double)mst_exchange_held() + bytes > REAL_RO(memory)[1];
  int rc = 0;
  if (!is_file && write_segment(&is, content, (uint64_t)bytes, &err) != 0) {
    is_file = 1;
  }
  is_file = is_file && has_rows(content->rows); // else there is neither
  if (is_file) rc = write_file(content, file, &err);
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

// ffi_block_write keeps blocks (a list of data frames) with their numbers of rows. memory: c(what
// they take, limit for this worker's segments); beyond that, or without segments, they go to a file
// at path. Gives c(bytes, 1 for a file, the spot: pid, descriptor, and the token in two), or a list
// as ffi_error_list if neither works.
SEXP ffi_block_write(SEXP blocks, SEXP rows, SEXP want, SEXP memory,
                     SEXP path) {
  const struct content content = {.blocks = blocks,
                                  .rows = rows,
                                  .dictionaries =
                                      PROTECT(ffi_schema_dictionaries(blocks)),
                                  .header = R_NilValue};
  SEXP result = write_content(&content, want, memory, path);
  UNPROTECT(1);
  return result;
}

static SEXP rows_between(SEXP begin, R_xlen_t length) {
  const R_xlen_t n = Rf_xlength(begin) - 1;
  SEXP rows = PROTECT(Rf_allocVector(INTSXP, n));
  const int *at = INTEGER_RO(begin);
  for (R_xlen_t i = 0; i < n; i++) {
    if (at[i] < 0 || at[i + 1] < at[i] || at[i + 1] > length) {
      Rf_error("a block out of range");
    }
    INTEGER(rows)[i] = at[i + 1] - at[i];
  }
  UNPROTECT(1);
  return rows;
}

// set_runs: runs is list(columns that have one value in each run, first rows, sizes, where each
// block's begin), or NULL. rows: of each block.
static void set_runs(struct content *content, SEXP runs) {
  if (runs == R_NilValue) return;
  SEXP first = VECTOR_ELT(runs, 1), sizes = VECTOR_ELT(runs, 2);
  SEXP begin = VECTOR_ELT(runs, 3);
  const R_xlen_t n = Rf_xlength(first), blocks = Rf_xlength(content->rows);
  const int *at = INTEGER_RO(begin);
  if (Rf_xlength(sizes) != n || Rf_xlength(begin) != blocks + 1 || at[0] != 0 ||
      at[blocks] != n)
    Rf_error("runs of other blocks");
  content->begin = at;
  content->runs = (struct ffi_flat_runs){
      .first = INTEGER_RO(first), .sizes = INTEGER_RO(sizes), .n = (size_t)n};
  for (R_xlen_t i = 0; i < blocks; i++) {
    int64_t rows = 0;
    if (at[i + 1] < at[i] || at[i + 1] > n) Rf_error("runs of other blocks");
    for (int r = at[i]; r < at[i + 1]; r++) {
      if (content->runs.first[r] < 1 ||
          content->runs.first[r] > content->flat.rows)
        Rf_error("a row out of range");
      rows += content->runs.sizes[r];
    }
    if (rows != INTEGER_RO(content->rows)[i]) Rf_error("runs of other blocks");
  }
}

// ffi_block_split keeps a data frame's rows, in this order, as flat blocks (flat.h) that begin
// there (from 0, with the end). runs: see set_runs. Else as ffi_block_write; NULL if the frame
// isn't flat.
SEXP ffi_block_split(SEXP x, SEXP order, SEXP begin, SEXP runs, SEXP want,
                     SEXP memory, SEXP path) {
  SEXP keyed = runs == R_NilValue ? R_NilValue : VECTOR_ELT(runs, 0);
  const struct ffi_flat flat = ffi_flat_of(x, keyed);
  if (flat.columns == NULL) return R_NilValue;
  const int *at = INTEGER_RO(order);
  for (R_xlen_t i = 0; i < Rf_xlength(order); i++) {
    if (at[i] < 1 || at[i] > flat.rows) Rf_error("a row out of range");
  }
  SEXP frames = PROTECT(Rf_allocVector(VECSXP, 1));
  SET_VECTOR_ELT(frames, 0, x);
  struct content content = {.flat = flat, .order = at + INTEGER_RO(begin)[0]};
  content.rows = PROTECT(rows_between(begin, Rf_xlength(order)));
  set_runs(&content, runs);
  content.dictionaries = PROTECT(ffi_schema_dictionaries(frames));
  content.header = PROTECT(ffi_flat_header(x, content.dictionaries, keyed));
  SEXP result = write_content(&content, want, memory, path);
  UNPROTECT(4);
  return result;
}

// ---- reading

// read_block gives a fetched block that isn't flat, NULL if it is empty, or a list as
// ffi_error_list.
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

// read_schema gives that of an attempt's blocks, or a list as ffi_error_list.
static SEXP read_schema(const struct mst_want *want) {
  SEXP read = PROTECT(read_block(want, 0));
  SEXP schema = is_error(read) ? read : ffi_schema_in(read, want);
  UNPROTECT(1);
  return schema;
}

// schema_of does so for the blocks of a map task, and keeps it.
static SEXP schema_of(const struct mst_want *want) {
  SEXP schema = ffi_schema_known(want);
  if (schema != R_NilValue) return schema;
  schema = PROTECT(read_schema(want));
  if (!is_error(schema)) ffi_schema_note(schema, want);
  UNPROTECT(1);
  return schema;
}

// ---- flat blocks

// The runs of the blocks that are read together: the number of rows of each.
static struct mst_buf sizes;

// look_at tells of a block's rows and schema. Returns 0, or -1 if it can't be read, or isn't flat.
static int look_at(const struct mst_want *want, uint32_t index,
                   struct ffi_flat_piece *piece) {
  struct mst_block block;
  *piece = (struct ffi_flat_piece){0};
  if (mst_exchange_describe(want, index, &block) != 0) return -1;
  if (block.rows == 0) return 0;
  SEXP schema = schema_of(want);
  if (is_error(schema)) return -1;
  *piece = (struct ffi_flat_piece){
      .header = VECTOR_ELT(schema, FFI_SCHEMA_HEADER),
      .dictionaries = VECTOR_ELT(schema, FFI_SCHEMA_DICTIONARIES),
      .rows = block.rows};
  return piece->header != R_NilValue ? 0 : -1;
}

// take_block copies a block to columns. 0, or -1 if it can't be read any more.
static int take_block(const struct mst_want *want, uint32_t index, SEXP columns,
                      R_xlen_t at, const struct ffi_flat_piece *piece) {
  struct mst_err err;
  struct mst_map *map;
  struct mst_block block;
  uint64_t base;
  mst_err_clear(&err);
  if (mst_exchange_read(want, index, &map, &base, &block, &err) != 0 ||
      map == NULL)
    return -1;
  const uint8_t *bytes = mst_map_at(map, base, block.bytes);
  int rc = bytes != NULL && block.rows == piece->rows ? 0 : -1;
  if (rc == 0) {
    rc = ffi_flat_take(piece->header, columns, at, bytes, block.bytes,
                       block.rows, &sizes);
  }
  mst_map_release(map);
  return rc == 0 ? 0 : -1;
}

// look_at_all keeps the pieces with rows, and their numbers in `at`. Returns how many; -1 if they
// can't be put together as they are. kept: a list, which holds what pieces refer to.
static R_xlen_t look_at_all(const struct mst_want *wants, R_xlen_t n,
                            uint32_t index, struct ffi_flat_piece *pieces,
                            R_xlen_t *at, SEXP kept) {
  R_xlen_t count = 0;
  double rows = 0;
  for (R_xlen_t i = 0; i < n; i++) {
    struct ffi_flat_piece *piece = &pieces[count];
    if (look_at(&wants[i], index, piece) != 0) return -1;
    if (piece->rows == 0) continue;
    SET_VECTOR_ELT(kept, 2 * i, piece->header);
    SET_VECTOR_ELT(kept, 2 * i + 1, piece->dictionaries);
    rows += (double)piece->rows;
    if (rows > INT_MAX) return -1;
    if (count > 0 && piece->header != pieces[0].header &&
        !ffi_flat_is_alike(&pieces[0], piece))
      return -1;
    at[count++] = i;
  }
  return count;
}

// bind_flat gives a data frame of the rows of n flat blocks, one after the other; NULL if there are
// none, or they can't be put together as they are. *in_runs: all of them have runs, which are in
// `sizes`.
static SEXP bind_flat(const struct mst_want *wants, R_xlen_t n, uint32_t index,
                      int *in_runs) {
  *in_runs = 0;
  struct ffi_flat_piece *pieces =
      (struct ffi_flat_piece *)R_alloc((size_t)n + 1, sizeof *pieces);
  R_xlen_t *at = (R_xlen_t *)(void *)R_alloc((size_t)n + 1, sizeof *at);
  SEXP kept = PROTECT(Rf_allocVector(VECSXP, 2 * n)), frame = R_NilValue;
  const R_xlen_t count = look_at_all(wants, n, index, pieces, at, kept);
  if (count > 0) {
    R_xlen_t rows = 0, done = 0;
    for (R_xlen_t i = 0; i < count; i++)
      rows += (R_xlen_t)pieces[i].rows;
    SEXP columns = PROTECT(ffi_flat_columns(pieces[0].header, rows));
    int rc = 0;
    sizes.len = 0;
    for (R_xlen_t i = 0; rc == 0 && i < count; i++) {
      rc = take_block(&wants[at[i]], index, columns, done, &pieces[i]);
      done += (R_xlen_t)pieces[i].rows;
      *in_runs = (i == 0 || *in_runs) && ffi_flat_has_runs(pieces[i].header);
    }
    if (rc == 0) frame = ffi_flat_frame(columns, pieces, count);
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return frame;
}

// flat_failure says why a flat block can't be read: a list as ffi_error_list, or NULL if it has no
// rows.
static SEXP flat_failure(const struct mst_want *want, uint32_t index) {
  struct mst_err err;
  struct mst_map *map;
  struct mst_block block;
  uint64_t base;
  mst_err_clear(&err);
  int rc = mst_exchange_read(want, index, &map, &base, &block, &err);
  if (rc == 0 && map == NULL) return R_NilValue;
  if (rc == 0) {
    mst_map_release(map);
    (void)mst_err_set(&err, MST_EPROTO, 0, NULL, "a block of another length");
  }
  return ffi_error_list(&err);
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
  const uint32_t at = (uint32_t)Rf_asInteger(index);
  ffi_share_collect();
  SEXP schema = PROTECT(schema_of(&is)), block = schema;
  if (!is_error(schema) &&
      VECTOR_ELT(schema, FFI_SCHEMA_HEADER) != R_NilValue) {
    int in_runs;
    block = bind_flat(&is, 1, at, &in_runs);
    if (block == R_NilValue) block = flat_failure(&is, at);
  } else if (!is_error(schema)) {
    ffi_coded_read_with(VECTOR_ELT(schema, FFI_SCHEMA_DICTIONARIES));
    block = read_block(&is, at);
    ffi_coded_read_with(NULL);
  }
  UNPROTECT(1);
  return block;
}

// ffi_blocks_bind gives the rows of a block of several fetched attempts (as in ffi_block_fetch):
// list(a data frame, the rows of each run, or NULL: there are none). NULL if they must be read one
// by one and put together by R: columns differ, aren't flat, or can't be read.
SEXP ffi_blocks_bind(SEXP sources, SEXP index) {
  const size_t n = (size_t)Rf_nrows(sources);
  struct mst_want *wants = (struct mst_want *)R_alloc(n + 1, sizeof *wants);
  for (size_t i = 0; i < n; i++)
    wants[i] = source_of(INTEGER_RO(sources) + i, n).want;
  int in_runs;
  SEXP frame = PROTECT(
      bind_flat(wants, (R_xlen_t)n, (uint32_t)Rf_asInteger(index), &in_runs));
  SEXP bound = R_NilValue;
  if (frame != R_NilValue) {
    bound = PROTECT(Rf_allocVector(VECSXP, 2));
    SET_VECTOR_ELT(bound, 0, frame);
    if (in_runs) {
      SEXP all = Rf_allocVector(INTSXP, (R_xlen_t)(sizes.len / sizeof(int)));
      SET_VECTOR_ELT(bound, 1, all);
      if (sizes.len > 0) memcpy(INTEGER(all), sizes.data, sizes.len);
    }
    sizes.len = 0;
    mst_buf_trim(&sizes, TOGETHER);
    UNPROTECT(1);
  }
  UNPROTECT(1);
  return bound;
}

// ffi_part_read gives the only block of an own attempt: a part that lies in a file. Else as
// ffi_block_read. Its dictionaries aren't kept for others: these read their own.
SEXP ffi_part_read(SEXP want) {
  const struct mst_want is = want_of(want);
  ffi_share_collect();
  SEXP schema = PROTECT(read_schema(&is)), block = schema;
  if (!is_error(schema)) {
    ffi_coded_read_with(VECTOR_ELT(schema, FFI_SCHEMA_DICTIONARIES));
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
  SEXP dictionary = PROTECT(ffi_schema_dictionary_of(levels));
  SEXP number =
      dictionary == R_NilValue ? R_NilValue : ffi_dictionary_number(dictionary);
  UNPROTECT(1);
  return number;
}

// ffi_block_levels gives the levels with this number, NULL if the map task's blocks haven't got
// them; a list as ffi_error_list if they can't be read.
SEXP ffi_block_levels(SEXP want, SEXP number) {
  const struct mst_want is = want_of(want);
  SEXP schema = PROTECT(schema_of(&is)), levels = R_NilValue;
  SEXP all = R_NilValue;
  if (is_error(schema)) {
    levels = schema;
  } else {
    all = VECTOR_ELT(schema, FFI_SCHEMA_DICTIONARIES);
  }
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
  if (is.attempt == 0) {
    ffi_schema_forget(is.stage);
    ffi_dictionary_forget();
  }
  mst_exchange_drop(&is);
  return R_NilValue;
}
