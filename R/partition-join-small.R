# Joins with a small table: each part of x is joined where it is, with all rows of y, which each
# worker gets once. No rows of x move. worker-join.R has a worker's side.

# A table of so few rows and bytes is small beside any other; one of so many bytes, beside none.
small_rows <- 1000
small_bytes <- 1e6
small_bytes_most <- 64e6

# Whether y is no larger than a part of x, to which each part adds the time to look through y. This
# depends on the data alone: the result is the same for any number of workers.
is_small <- function(x, y) {
  stage <- x$stage
  bytes <- max(small_bytes, mean(stage$bytes))
  sum(y$stage$rows) <= max(small_rows, mean(stage$rows)) &&
    sum(y$stage$bytes) <= min(small_bytes_most, bytes)
}

# The handle of the joined rows; NULL if y isn't small, or the keys have faults that join_sides()
# names with their part. by_x, by_y: equal keys.
small_join <- function(x, y, by_x, by_y, all, call, form) {
  known <- !sum(x$stage$rows) || all(by_x %in% x$stage$columns)
  if (!known || !is_small(x, y)) {
    return(NULL)
  }
  rows <- if (is.null(y$frame)) collect_frame(y, call) else plain_frame(y$frame)
  families <- tryCatch(key_families(with_columns(rows, by_y), by_y),
    muster_part_error = function(e) NULL
  )
  if (is.null(families)) {
    return(NULL)
  }
  if (!is.null(form$among)) rows <- rows[by_y]
  step <- list(
    kind = "join", by_x = by_x, by_y = by_y, all = c(all, FALSE), rest = FALSE, form = form,
    columns = x$stage$columns, families = families
  )
  job <- list(rows = rows, fresh = FALSE, quiet = TRUE)
  ran <- run_stage(x$cl, x$stage$count, same_steps(list(step)), x$stage, list(), call, job,
    title = "the result", partner = list(families = families)
  )
  # Rows of one part stay together.
  if (length(x$stage$keyed)) ran$stage$keyed <- keyed_after(x$stage$keyed, form)
  ran$handle
}

# The new names of columns that are `keyed`, see key_parts(); NULL if they may not be there, or
# changed.
keyed_after <- function(keyed, form) {
  names <- if (is.null(form$x)) keyed else names(form$x)[match(keyed, form$x)]
  if (is.null(form$join) && !anyNA(names) && !any(names %in% form$nest$name)) names
}
