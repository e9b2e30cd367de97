// data: columns of data frames for the shuffle, in workers and in the session: keys.c, rows.c,
// folds.c, files.c.
#ifndef MST_FFI_DATA_H
#define MST_FFI_DATA_H

#include "ffi/value/value.h"

SEXP ffi_key_split(SEXP columns, SEXP rows, SEXP parts);
SEXP ffi_key_split_runs(SEXP columns, SEXP rows, SEXP parts);
SEXP ffi_key_groups(SEXP columns, SEXP rows);
SEXP ffi_key_join(SEXP x, SEXP x_rows, SEXP y, SEXP y_rows, SEXP all,
                  SEXP multiple);
SEXP ffi_rows_take(SEXP column, SEXP rows);
SEXP ffi_rows_range(SEXP column, SEXP from, SEXP count);
SEXP ffi_rows_split(SEXP x, SEXP rows, SEXP begin);
SEXP ffi_rows_bind(SEXP columns);
SEXP ffi_rows_sort(SEXP group, SEXP count);
SEXP ffi_rows_leading(SEXP group, SEXP count, SEXP most, SEXP x, SEXP back);
SEXP ffi_runs_sort(SEXP group, SEXP sizes, SEXP count);
SEXP ffi_group_columns(SEXP columns, SEXP sorted, SEXP begin, SEXP number);
SEXP ffi_group_frame(SEXP x, SEXP sorted, SEXP begin, SEXP number, SEXP class);
SEXP ffi_group_mask(SEXP values, SEXP results, SEXP at, SEXP names,
                    SEXP parent);
SEXP ffi_group_values(SEXP results, SEXP k);
SEXP ffi_group_alike(SEXP results);
SEXP ffi_csv_read(SEXP path, SEXP range, SEXP header, SEXP fields, SEXP which,
                  SEXP texts);
SEXP ffi_csv_quotes(SEXP path, SEXP range);
SEXP ffi_file_write(SEXP path, SEXP bytes);
SEXP ffi_file_add(SEXP path, SEXP bytes);
SEXP ffi_file_sync(SEXP path);
SEXP ffi_fold_sum(SEXP x, SEXP group, SEXP count, SEXP na_rm);
SEXP ffi_fold_total(SEXP value, SEXP rest, SEXP group, SEXP count, SEXP counts);
SEXP ffi_fold_least(SEXP x, SEXP group, SEXP count, SEXP na_rm, SEXP most,
                    SEXP partial);
SEXP ffi_fold_square(SEXP x, SEXP group, SEXP count, SEXP na_rm);
SEXP ffi_fold_var(SEXP sums, SEXP squares, SEXP group, SEXP count, SEXP counts);
SEXP ffi_fold_count(SEXP x, SEXP group, SEXP count);

#endif
