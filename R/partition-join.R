#' Joins across workers
#'
#' `partition_join()` joins two data sets by key as [base::merge()] does. A small `y` goes to each
#' worker, and rows of `x` stay where they are. Otherwise rows of both move between the workers so
#' that those with the same key meet, whichever parts they were in.
#'
#' The notes on keys, losses, memory and disk in [partition_shuffle()] apply here too. `NA` is a
#' key like any other, as with `merge()`, so `NA` matches `NA`; likewise, `NaN` matches `NaN`.
#'
#' Key columns may have different types in `x` and `y`: integer, numeric and integer64 can match
#' each other, and so can factors and strings. The result has the key columns of `x` unchanged;
#' with `all.y = TRUE` it has a type that holds both: numeric for integer and numeric, or for
#' integer64 and numeric (an error if a number isn't exact there), integer64 for integer and
#' integer64, character for factor and character, a factor with the levels of both for two
#' factors.
#'
#' @section Order:
#' With a small `y`, rows are in the order of `x`, in the same parts, and for each row of `x` its
#' matches are in the order of `y`. A `y` is small if it has no more rows and bytes than a part of
#' `x` has on average, or no more than 1,000 rows and 1 MB; and no more than 64 MB. This isn't so
#' with `all.y = TRUE`, or if `parts` is given, nor in joins of dplyr's that ask something of all
#' rows of `y`.
#'
#' Otherwise rows are ordered by part (the key and `parts` decide which part a row is in); within a
#' part, in the order of `x`, and for each row of `x` its matches in the order of `y`; then, with
#' `all.y = TRUE`, the rows of `y` without a match, in their order. The order depends on nothing
#' else: not on the number of workers, timing or losses.
#'
#' @section Keys with very many rows:
#' If a part has many more rows of `x` than other parts have, and more than it has of `y`, several
#' workers make it in pieces, each reading all rows of `y` for that part: a key that makes up most
#' of `x` doesn't end up on one worker. The result then has more than `parts` parts; the order
#' stays the same. Pieces begin and end where parts of `x` do, so `x` should have several parts of
#' about the same size. Rows of `y` aren't divided: let `x` be the data with more rows for each
#' key.
#'
#' @param x A handle from [partition_scatter()] or a related function.
#' @param y Another handle on the same cluster, or a data frame.
#' @param by Names of the columns that are the key, from 1 to 64. Elements may have names:
#'   `c(a = "b")` for column `a` of `x` and `b` of `y`.
#' @param all,all.x,all.y `TRUE` to keep rows without a match, with `NA` in the other's columns:
#'   `all.x` those of `x`, `all.y` those of `y`, `all` both. By default `FALSE`.
#' @param parts Number of parts that keys are split into, from 1 to 4096. By default, as many as
#'   `x` has; with a small `y`, the parts of `x`, whatever keys they have.
#' @returns A handle of class `"muster_partition"`, see [partition_scatter()]: the columns of `x`,
#'   with the key as described above, then those of `y` without its key. Names that both have get
#'   the endings `.x` and `.y`.
#' @section Errors:
#' Those of [partition_scatter()]. `muster_error_input` also for a column that doesn't exist or
#' can't be a key, parts whose columns differ, keys that are never equal (numbers and text),
#' or a result with two columns of the same name. `muster_error_limit`: a part would have more
#' than 2^31 rows, or there is no room for the rows that are moved. Fields `part` and `worker` say
#' where.
#' @section Cost:
#' With a small `y` (see Order), each worker gets it once, and joins its parts in time linear in the
#' number of rows of `x` and of the result; each part looks through `y`. Otherwise as for
#' [partition_shuffle()]: rows of both sides are moved, then joined in time linear in the number of
#' rows of both and of the result.
#' @section Source:
#' Meaning: [base::merge()]. Cutting keys that many rows have and sending the other side to
#' each piece: DeWitt, Naughton, Schneider and Seshadri, Practical Skew Handling in Parallel Joins
#' (VLDB 1992).
#' @examples
#' cl <- cluster_start(2)
#' cars <- data.frame(name = rownames(mtcars), mtcars[c("cyl", "mpg")])
#' words <- data.frame(cylinders = c(4, 6, 12), word = c("four", "six", "twelve"))
#' p <- partition_scatter(cl, cars, parts = 4)
#' j <- partition_join(p, words, c(cyl = "cylinders"), all.x = TRUE)
#' head(partition_collect(j))
#' cluster_stop(cl)
#' @export
partition_join <- function(x, y, by, all = FALSE, all.x = all, all.y = all, parts = NULL) {
  call <- sys.call()
  x <- check_partition(x, "x", call)
  check_flag(all, "all", call)
  check_flag(all.x, "all.x", call)
  check_flag(all.y, "all.y", call)
  by_y <- unname(check_by(by, call))
  by_x <- if (is.null(names(by))) by_y else ifelse(nzchar(names(by)), names(by), by_y)
  check_by(by_x, call)
  parts <- check_parts(parts, call)
  join_tables(x, join_side(y, x, call), by_x, by_y, c(all.x, all.y), call, parts)
}

# x: an opened handle; y: see join_side(). all: of x, of y. parts: NULL for as many as x has, which
# need not be split by key. form: what dplyr's joins ask for beyond that, see join_form(), or NULL.
join_tables <- function(x, y, by_x, by_y, all, call, parts = NULL, form = NULL) {
  whole <- all[2L] || isTRUE(form$whole)
  done <- if (is.null(parts) && !whole) small_join(x, y, by_x, by_y, all[1L], call, form)
  if (!is.null(done)) {
    return(done)
  }
  if (is.null(parts)) parts <- min(x$stage$count, parts_most)
  pre <- if (!is.null(form$among)) {
    list(list(kind = "inner", fun = "take_columns_of", args = list(by_y)))
  }
  sides <- join_sides(x, on_workers(y, x, call), by_x, by_y, parts, call, pre)
  x_rows <- share_matrix(sides[[1L]])
  y_rows <- colSums(share_matrix(sides[[2L]]))
  tasks <- join_tasks(x_rows, y_rows, all[2L], isTRUE(form$whole))
  steps <- join_steps(tasks, by_x, by_y, all, form)
  weights <- join_weights(tasks, x_rows, y_rows)
  gather_stage(x, nrow(tasks), steps, sides, call, weights = weights)$handle
}

# The other table: an opened handle, or a data frame and what a handle tells of one.
join_side <- function(y, x, call) {
  if (is.data.frame(y)) {
    check_columns(y, call)
    stage <- list(
      columns = names(y), rows = frame_rows(y), bytes = frame_bytes(y), as = frame_kind(y)
    )
    return(list(frame = y, stage = stage))
  }
  y <- check_partition(y, "y", call)
  check_same_cluster(x, y, call)
  y
}

on_workers <- function(y, x, call) {
  if (is.null(y$frame)) y else open_handle(scatter(x$cl, source_frame(y$frame), NULL, call))
}

check_same_cluster <- function(x, y, call) {
  if (!identical(x$shuffle, y$shuffle)) {
    abort_muster("input", "`x` and `y` must be on the same cluster.", argument = "y", call = call)
  }
}

# Runs the stages that split x and y: the number of rows for each key decides how to go on. If
# that fails, their results are dropped. pre: steps for parts of y.
join_sides <- function(x, y, by_x, by_y, parts, call, pre = list()) {
  sides <- list(split_stage(x, by_x, parts), split_stage(y, by_y, parts, pre))
  sides[[1L]]$title <- "`x`"
  sides[[2L]]$title <- "`y`"
  sides[[1L]]$partner <- sides[[2L]]
  sides[[2L]]$partner <- sides[[1L]]
  kept <- FALSE
  on.exit({
    if (!kept) lapply(sides, drop_stage, shuffle = x$shuffle)
  })
  shuffle_run(x$shuffle, x$cl, sides[[1L]], call, also = sides[2L])
  kept <- TRUE
  sides
}
