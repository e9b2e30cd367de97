// flat: the rows of a split data frame as plain columns, without R's serialization.
//
// A part's rows need no list and no vectors of their own on their way: a flat block is the elements
// of each column, one column after the other, each from a multiple of 8 bytes. What its columns are
// is said once for all blocks of a map task, in a header beside their dictionaries. So rows are
// copied once by their writer, in their new order, and once by their reader, to where they stay.
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
};
struct ffi_flat {
  struct ffi_flat_column *columns; // NULL: it isn't flat
  R_xlen_t count, rows;
};

// ffi_flat_of looks at a data frame, which the caller keeps; in memory of R_alloc. May allocate.
struct ffi_flat ffi_flat_of(SEXP x);
// ffi_flat_header gives the header: list(names, types, dictionaries, models). dictionaries: a list,
// to which it refers by numbers from 1.
SEXP ffi_flat_header(SEXP x, SEXP dictionaries);
// ffi_flat_put appends a block of n rows, numbered from 1 and in range. No R. 0, or an error of
// mst_buf.h.
int ffi_flat_put(const struct ffi_flat *flat, const int *rows, size_t n,
                 struct mst_buf *buf);

// A block that is read, and its rows, of which there may be none. The caller protects the others.
struct ffi_flat_piece {
  SEXP header, dictionaries;
  uint64_t rows;
};
// ffi_flat_is_alike tells whether two blocks can be put together without R code. May allocate.
int ffi_flat_is_alike(const struct ffi_flat_piece *a,
                      const struct ffi_flat_piece *b);
// ffi_flat_bytes gives the bytes of a block of n rows.
uint64_t ffi_flat_bytes(SEXP header, uint64_t n);
// ffi_flat_columns gives a list of vectors for n rows: of the codes, where columns have strings.
SEXP ffi_flat_columns(SEXP header, R_xlen_t n);
// ffi_flat_take copies a block of n rows to these columns from row `at` on. No R but access to the
// vectors.
void ffi_flat_take(SEXP columns, R_xlen_t at, const uint8_t *block, uint64_t n);
// ffi_flat_frame makes a data frame of them, which were read from n pieces that are alike, the
// first of which has rows. R errors for codes without a string.
SEXP ffi_flat_frame(SEXP columns, const struct ffi_flat_piece *pieces,
                    R_xlen_t n);

#endif
