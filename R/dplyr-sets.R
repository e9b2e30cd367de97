# dplyr's sets of rows: see dplyr-verbs.R.

union_all.muster_partition <- function(x, y, ...) {
  sides <- set_sides(x, y, "union_all", ...)
  stack_parts(sides$x, sides$y, dplyr_call("union_all"))
}

union.muster_partition <- function(x, y, ...) {
  sides <- set_sides(x, y, "union", ...)
  distinct_rows(stack_parts(sides$x, sides$y, dplyr_call("union")))
}

intersect.muster_partition <- function(x, y, ...) {
  sides <- set_sides(x, y, "intersect", ...)
  among <- among_verb("semi_join", sides$x, sides$y, names(x))
  distinct_rows(with_groups(among, groups_of(x)))
}

setdiff.muster_partition <- function(x, y, ...) {
  sides <- set_sides(x, y, "setdiff", ...)
  among <- among_verb("anti_join", sides$x, sides$y, names(x))
  distinct_rows(with_groups(among, groups_of(x)))
}

# list(x, y): both on the workers, with the columns of x in their order, of the types that dplyr
# gives to the result.
set_sides <- function(x, y, verb, ...) {
  call <- dplyr_call(verb)
  if (...length()) refuse_argument(setdiff(c(...names(), "..."), "")[1L], call)
  y <- set_side(x, y, call)
  types <- lapply(list(x = x, y = y), prototype, call)
  verb <- getExportedValue("dplyr", verb)
  made <- tryCatch(verb(types$x, types$y), error = function(e) {
    abort_muster("input", "`x` and `y` must have columns whose types can be one.",
      details = message_of(e), argument = "y", call = call
    )
  })
  as_made <- function(side, own) {
    if (same_types(own, made)) {
      return(side)
    }
    step <- list(kind = "inner", fun = "like_parts", args = list(plain_frame(made)))
    with_groups(near_stage(check_partition(side, "x", call), list(step), call), groups_of(side))
  }
  list(x = as_made(x, types$x), y = as_made(y, types$y))
}

# Of data frames without rows.
same_types <- function(one, other) identical(as.list(one), as.list(other))

distinct_rows <- function(p) {
  with_groups(dplyr::distinct(with_groups(p, NULL)), groups_of(p))
}

# y on the workers, with the columns of x in their order.
set_side <- function(x, y, call) {
  cl <- check_partition(x, "x", call)$cl
  if (is.data.frame(y)) y <- partition_scatter(cl, plain_frame(y))
  check_partition(y, "y", call)
  if (!setequal(names(x), names(y))) {
    abort_muster("input", paste0(
      "`x` and `y` must have the same columns: these are ", column_list(names(x)), " and ",
      column_list(names(y)), "."
    ), argument = "y", call = call)
  }
  if (identical(names(x), names(y))) y else y[names(x)]
}

# The parts of x, and then those of y.
stack_parts <- function(x, y, call) {
  sides <- list(check_partition(x, "x", call), check_partition(y, "y", call))
  check_same_cluster(sides[[1L]], sides[[2L]], call)
  counts <- c(sides[[1L]]$stage$count, sides[[2L]]$stage$count)
  far <- lapply(sides, split_stage, by = character(), parts = 1L)
  steps <- function(task) {
    of <- if (task > counts[1L]) 2L else 1L
    at <- if (of == 2L) task - counts[1L] else task
    list(list(kind = "gather", part = 1L, of = of, tasks = c(at, at)))
  }
  rows <- c(sides[[1L]]$stage$rows, sides[[2L]]$stage$rows)
  with_groups(gather_stage(sides[[1L]], sum(counts), steps, far, call, weights = rows)$handle,
    groups_of(x)
  )
}

setequal.muster_partition <- function(x, y, ...) {
  call <- dplyr_call("setequal")
  if (...length()) refuse_argument(setdiff(c(...names(), "..."), "")[1L], call)
  y <- set_side(x, y, call)
  x <- with_groups(x, NULL)
  lacks <- function(x, y) nrow(among_verb("anti_join", x, y, names(x), list())) > 0L
  !lacks(x, y) && !lacks(y, x)
}

# The rows of a handle, each once, as unique() gives those of a data frame.
#' @export
unique.muster_partition <- function(x, incomparables = FALSE, ...) {
  with_groups(distinct.muster_partition(with_groups(x, NULL)), groups_of(x))
}
