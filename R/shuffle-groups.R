# Functions that see a whole group, in workers: they are called, and what they gave becomes rows.

# What a function gives for each group, with the group's key before it.
apply_groups <- function(x, by, fun, args) {
  if (frame_rows(x) == 0L) {
    return(empty_frame())
  }
  groups <- key_groups(x, by)
  sorted <- .Call(ffi_rows_sort, groups$group, length(groups$first))
  call_fun <- if (length(args)) function(group) call_user(fun, group, args) else fun
  results <- bind_results(lapply(split_rows(x, sorted), call_fun), by)
  # Nothing at all tells no columns.
  if (!length(results$values)) {
    return(results$values)
  }
  keys <- take_rows(x[by], rep(groups$first, results$rows))
  new_frame(c(as.list(keys), as.list(results$values)), frame_rows(keys))
}

# list(values, rows): a data frame of all results, and how many rows each gave. Few functions
# give different things for different groups: then columns are made of all results at once,
# and not a data frame of each.
bind_results <- function(results, by) {
  some <- !vapply(results, is.null, NA)
  columns <- if (any(some)) alike_columns(results[some], by)
  if (!is.null(columns)) {
    return(list(values = new_frame(columns, sum(some)), rows = as.integer(some)))
  }
  frames <- lapply(results, group_frame, by)
  list(values = bind_frames(frames), rows = vapply(frames, frame_rows, 0L))
}

# Columns of results that are one row each and all of one form; NULL if they aren't.
alike_columns <- function(results, by) {
  first <- results[[1L]]
  names <- names(first)
  size <- length(first)
  if (!size || !(is.atomic(first) || is.list(first)) || any(lengths(results) != size)) {
    return(NULL)
  }
  form <- attributes(first)
  bare <- if (is.null(names)) is.null(form) else identical(form, list(names = names))
  type <- typeof(first)
  is_alike <- function(x) typeof(x) == type && identical(attributes(x), form)
  if (!bare || !all(vapply(results, is_alike, NA))) {
    return(NULL)
  }
  if (is.null(names)) {
    return(if (is.atomic(first) && size == 1L) list(value = unlist(results)))
  }
  flat <- unlist(results, recursive = FALSE, use.names = FALSE)
  if (!all(nzchar(names)) || any(lengths(flat) != 1L)) {
    return(NULL)
  }
  kept <- which(!names %in% by)
  columns <- lapply(kept, function(k) {
    column <- flat[seq.int(k, length(flat), size)]
    if (is.list(column)) bind_columns(column) else column
  })
  names(columns) <- names[kept]
  columns
}

# Rows that a function gave for one group: a data frame, or what makes one row of one.
group_frame <- function(value, by) {
  if (is.null(value)) {
    return(empty_frame())
  }
  if (is.data.frame(value)) {
    value <- plain_frame(value)
    return(if (any(by %in% names(value))) value[setdiff(names(value), by)] else value)
  }
  if (is.atomic(value) && length(value) == 1L && is.null(names(value))) {
    return(new_frame(list(value = value), 1L))
  }
  named <- !is.null(names(value)) && all(nzchar(names(value)))
  if (named && is.atomic(value)) {
    value <- as.list(value)
  }
  if (!named || !is.list(value) || any(lengths(value) != 1L)) {
    part_error(paste0(
      "`fun` must give a data frame, a named list of single values or one value for each ",
      "group, not ", describe(value), "."
    ))
  }
  new_frame(value[setdiff(names(value), by)], 1L)
}
