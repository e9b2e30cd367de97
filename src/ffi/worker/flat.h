// flat: the rows of a split data frame as plain columns, without R's serialization.
//
// A part's rows need no list and no vectors of their own on their way: a flat block is the elements
// of each column, one column after the other, each from a multiple of 8 bytes. What its columns are
// is said once for all blocks of a map task, in a header beside their dictionaries. So rows are
// copied once by their writer, in their new order, and once by their reader, to where they stay.
//
// Where rows are sorted by key, those of a block with one key are a run, and the columns of the key
// have one element for each run: such a block begins with the number of its runs (8 bytes) and the
// number of rows of each (4 bytes).
//
// Flat are vectors of numbers and bytes, and strings by dictionary without attributes. R thread.
#ifndef MST_FFI_FLAT_H
#define MST_FFI_FLAT_H

#include "base/mst_buf.h"
#include "ffi/value/value.h"

// One column of the frame that is split.
struct ffi_flat_column {
  const uint8_t *data;
  size_t size; // of an element
  int keyed;   // one element for each run
};
// The runs of a block: the first row of each, from 1, and its number of rows.
struct ffi_flat_runs {
  const int *first, *sizes;
  size_t n;
};
struct ffi_flat {
  struct ffi_flat_column *columns; // NULL: it isn't flat
  R_xlen_t count, rows;
};

// ffi_flat_of looks at a data frame, which the caller keeps; in memory of R_alloc. keyed: numbers
// of the columns that have an element for each run, NULL for none. May allocate.
struct ffi_flat ffi_flat_of(SEXP x, SEXP keyed);
// ffi_flat_header gives the header: list(names, types, dictionaries, models, keyed). dictionaries:
// a list, to which it refers by numbers from 1.
SEXP ffi_flat_header(SEXP x, SEXP dictionaries, SEXP keyed);
// ffi_flat_put appends a block of n rows, numbered from 1 and in range. runs: NULL where no columns
// are keyed. No R. 0, or an error of mst_buf.h.
int ffi_flat_put(const struct ffi_flat *flat, const int *rows, size_t n,
                 const struct ffi_flat_runs *runs, struct mst_buf *buf);

// A block that is read, and its rows, of which there may be none. The caller protects the others.
struct ffi_flat_piece {
  SEXP header, dictionaries;
  uint64_t rows;
};
// ffi_flat_is_alike tells whether two blocks can be put together without R code. May allocate.
int ffi_flat_is_alike(const struct ffi_flat_piece *a,
                      const struct ffi_flat_piece *b);
// ffi_flat_has_runs tells whether the header's blocks have runs.
int ffi_flat_has_runs(SEXP header);
// ffi_flat_columns gives a list of vectors for n rows: of the codes, where columns have strings.
SEXP ffi_flat_columns(SEXP header, R_xlen_t n);
// ffi_flat_take copies a block of n rows to these columns from row `at` on, and appends its runs'
// numbers of rows (int) to sizes. No R but access to the vectors. 0, -MST_EPROTO if it isn't such a
// block, or an error of mst_buf.h.
int ffi_flat_take(SEXP header, SEXP columns, R_xlen_t at, const uint8_t *block,
                  uint64_t bytes, uint64_t n, struct mst_buf *sizes);
// ffi_flat_frame makes a data frame of them, which were read from n pieces that are alike, the
// first of which has rows. R errors for codes without a string.
SEXP ffi_flat_frame(SEXP columns, const struct ffi_flat_piece *pieces,
                    R_xlen_t n);

#endif
