// Entry points of the shuffle: keys.c, rows.c, folds.c, blocks.c, links.c, plan.c.
#ifndef MST_FFI_SHUFFLE_H
#define MST_FFI_SHUFFLE_H

#include "ffi/ffi.h"

SEXP ffi_key_split(SEXP columns, SEXP rows, SEXP parts);
SEXP ffi_key_groups(SEXP columns, SEXP rows);
SEXP ffi_key_join(SEXP x, SEXP x_rows, SEXP y, SEXP y_rows, SEXP all);

SEXP ffi_rows_take(SEXP column, SEXP rows);
SEXP ffi_rows_split(SEXP x, SEXP rows, SEXP begin);
SEXP ffi_rows_bind(SEXP columns);
SEXP ffi_rows_sort(SEXP group, SEXP count);

SEXP ffi_fold_sum(SEXP x, SEXP group, SEXP count, SEXP na_rm);
SEXP ffi_fold_total(SEXP value, SEXP rest, SEXP group, SEXP count, SEXP counts);
SEXP ffi_fold_least(SEXP x, SEXP group, SEXP count, SEXP na_rm, SEXP most,
                    SEXP partial);
SEXP ffi_fold_count(SEXP x, SEXP group, SEXP count);

SEXP ffi_block_write(SEXP blocks, SEXP rows, SEXP want, SEXP memory, SEXP path);
SEXP ffi_block_fetch(SEXP sources);
SEXP ffi_block_read(SEXP want, SEXP index);
SEXP ffi_block_drop(SEXP want);
SEXP ffi_links_set(SEXP numbers, SEXP limits);
SEXP ffi_links_know(SEXP numbers, SEXP folder, SEXP token);
SEXP ffi_links_listen(SEXP folder, SEXP count);
SEXP ffi_links_count(void);
SEXP ffi_worker_self(void);

SEXP ffi_plan_new(SEXP workers);
SEXP ffi_plan_add(SEXP plan, SEXP count, SEXP near, SEXP far, SEXP speculate);
SEXP ffi_plan_order(SEXP plan, SEXP stage, SEXP order);
SEXP ffi_plan_set(SEXP plan, SEXP what, SEXP stage);
SEXP ffi_plan_see(SEXP plan, SEXP workers);
SEXP ffi_plan_tell(SEXP plan, SEXP what, SEXP numbers);
SEXP ffi_plan_next(SEXP plan);
SEXP ffi_plan_base(SEXP plan, SEXP stage, SEXP task, SEXP worker);
SEXP ffi_plan_where(SEXP plan, SEXP stage);
SEXP ffi_plan_counts(SEXP plan);
SEXP ffi_cluster_link(SEXP nodes, SEXP pairs);
SEXP ffi_cluster_wait(void);
SEXP ffi_share_free(void);

#endif
