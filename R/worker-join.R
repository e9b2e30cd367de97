# One part of a join, in workers.

# With a small y: state gets a part of x joined with all rows of y, and tells of its keys, which the
# session compares with those of others (check_families()).
part_join <- function(state, step) {
  x <- state$data
  if (!is_empty(x)) {
    state$told <- list(families = key_families(with_columns(x, step$by_x), step$by_x))
    wrong <- state$told$families != "none" & step$families != "none" &
      state$told$families != step$families
    if (any(wrong)) {
      return()
    }
  }
  if (!frame_rows(x)) {
    # Columns that this part lacks: their names may get endings. Keys get the type of y's.
    x <- with_columns(x, setdiff(step$columns, c(step$by_x, step$form$join$by$x)))
    x <- take_columns_of(x, intersect(step$columns, names(x)))
  }
  state$data <- join_frames(x, job_rows(step$job), step)
}

# Rows that each of a job's tasks reads; their strings in a form that is quick to repeat.
job_rows <- function(id) {
  job <- job_get(id)
  if (is.null(job$coded)) {
    job$coded <- code_all_strings(job$rows)
    the_worker$jobs[[job_key(id)]]$value <- job
  }
  job$coded
}

# step: by_x, by_y; all: whether to add rows of x, of y without a partner; rest: only y's rows
# without a partner, of a part whose other rows are made elsewhere; form: what dplyr's joins ask
# for, see join_form(), or NULL.
join_frames <- function(x, y, step) {
  by_x <- step$by_x
  by_y <- step$by_y
  form <- step$form
  if (!is.null(form$join)) {
    return(unequal_rows(x, y, form$join))
  }
  unknown <- !by_x %in% names(x)
  x <- with_columns(x, union(by_x, form$x))
  y <- with_columns(y, union(by_y, form$y))
  if (!is.null(form$nest)) {
    return(nested_rows(x, y, step))
  }
  if (!is.null(form$among)) {
    return(among_rows(x, y, step))
  }
  pairs <- join_pairs(x, y, step)
  left <- if (isTRUE(pairs$each)) x else take_rows(x, pairs$x)
  if (!isTRUE(form$keep)) {
    # dplyr's keys have the type that both sides have together.
    other <- !is.null(form$x) & !mapply(is_alike, x[by_x], y[by_y])
    both <- if (step$all[2L] || step$rest) seq_along(by_x) else which(unknown | other)
    left[match(by_x[both], names(x))] <- Map(
      join_key, key_columns(x, by_x)[both], key_columns(y, by_y)[both], list(pairs)
    )
  }
  if (!is.null(form$x)) {
    right <- take_rows(take_columns_of(y, unname(form$y)), pairs$y)
    columns <- c(as.list(left)[form$x], as.list(right))
    names(columns) <- c(names(form$x), names(form$y))
    return(new_frame(columns, length(pairs$x)))
  }
  right <- take_rows(new_frame(not_of_key(y, by_y), frame_rows(y)), pairs$y)
  join_columns(left, right, by_x)
}

# The rows of x that have a match, or have none.
among_rows <- function(x, y, step) {
  rows <- join_pairs(x, y, step)$x
  if (step$form$among == "anti_join") rows <- which(tabulate(rows, frame_rows(x)) == 0L)
  if (length(rows) == frame_rows(x)) x else take_rows(x, rows)
}

# A column with the matches of each row as a data frame, the same one for all rows of a key.
nested_rows <- function(x, y, step) {
  by_x <- step$by_x
  nest <- step$form$nest
  groups <- key_groups(x, by_x)
  step$all <- c(FALSE, FALSE)
  step$form$single <- c(FALSE, FALSE)
  pairs <- join_pairs(take_rows(x[by_x], groups$first), y, step)
  # Data frames in a column have no dictionaries of their strings, see code_strings().
  inner <- expand_strings(take_columns_of(y, nest$columns))
  rows <- split(pairs$y, factor(pairs$x, seq_along(groups$first)))
  frames <- lapply(unname(rows), function(at) {
    as_kind(take_rows(inner, at), if (nest$tibbles) "tibble")
  })
  columns <- as.list(x)[names(x)]
  for (k in which(!mapply(is_alike, x[by_x], y[step$by_y]))) {
    own <- list(x = seq_len(frame_rows(x)))
    columns[[by_x[k]]] <- join_key(.subset2(x, by_x[k]), .subset2(y, step$by_y[k]), own)
  }
  columns[[nest$name]] <- frames[groups$group]
  new_frame(columns, frame_rows(x))
}

# By dplyr: join is list(verb, by, args, x, y), x and y the columns that they have.
unequal_rows <- function(x, y, join) {
  unknown_x <- setdiff(join$by$x, names(x))
  unknown_y <- setdiff(join$by$y, names(y))
  x <- with_columns(x, join$x)
  y <- with_columns(y, join$y)
  # A column that is known of no rows takes the other's type.
  for (k in seq_along(join$by$x)) {
    at <- c(join$by$x[k], join$by$y[k])
    if (at[1L] %in% unknown_x) x[[at[1L]]] <- take_rows(y[at[2L]], integer())[[1L]]
    if (at[2L] %in% unknown_y) y[[at[2L]]] <- take_rows(x[at[1L]], integer())[[1L]]
  }
  long <- any(vapply(c(as.list(x), as.list(y)), is_int64, NA))
  if (long) requireNamespace("bit64", quietly = TRUE)
  verb <- getExportedValue("dplyr", join$verb)
  joined <- tryCatch(
    do.call(verb, c(list(x, expand_strings(y), by = join$by), join$args), quote = TRUE),
    error = function(e) part_error(message_of(e))
  )
  plain_frame(joined)
}

is_alike <- function(x, y) {
  identical(typeof(x), typeof(y)) && identical(oldClass(x), oldClass(y)) &&
    identical(attr(x, "levels", exact = TRUE), attr(y, "levels", exact = TRUE))
}

# list(x, y): numbers of the rows that belong together, NA for none, in the order of x and then y.
# each: TRUE if each row of x is there once, and no other.
join_pairs <- function(x, y, step) {
  by_x <- step$by_x
  by_y <- step$by_y
  form <- step$form
  all <- step$all
  if (step$rest) {
    # Rows of y whose key isn't in x.
    x <- take_rows(x[by_x], key_groups(x, by_x)$first)
    all <- c(FALSE, TRUE)
  }
  asks <- !is.null(form) && (form$never || any(form$single, form$matched))
  pairs <- if (asks) {
    form_pairs(x, y, step, all)
  } else {
    key_pairs(x, y, by_x, by_y, all, form$multiple)
  }
  if (step$rest) {
    rows <- pairs$y[is.na(pairs$x)]
    pairs <- list(x = rep(NA_integer_, length(rows)), y = rows)
  }
  pairs
}

# multiple: which pairs of each row of x there are: NULL for all.
key_pairs <- function(x, y, by_x, by_y, all, multiple = NULL) {
  which <- if (is.null(multiple)) 1L else match(multiple, c("all", "first", "last"))
  pairs <- .Call(ffi_key_join,
    key_columns(x, by_x), frame_rows(x), key_columns(y, by_y), frame_rows(y), all, which
  )
  if (is.double(pairs)) too_many_rows(pairs)
  if (is.null(pairs$x)) list(x = seq_len(frame_rows(x)), y = pairs$y, each = TRUE) else pairs
}

too_many_rows <- function(n) {
  part_error(paste0(
    "It would have ", format(n, big.mark = ",", scientific = FALSE),
    " rows, more than a data frame can have."
  ), "limit")
}

# Those of key_pairs() that dplyr's arguments leave, and what they demand of them.
form_pairs <- function(x, y, step, all) {
  form <- step$form
  by_x <- step$by_x
  by_y <- step$by_y
  if (form$never) {
    columns <- list(key_columns(x, by_x), key_columns(y, by_y))
    x_at <- which(!has_missing(columns[[1L]], columns[[2L]]))
    y_at <- which(!has_missing(columns[[2L]], columns[[1L]]))
    pairs <- key_pairs(take_rows(x[by_x], x_at), take_rows(y[by_y], y_at), by_x, by_y,
      c(FALSE, FALSE), form$multiple)
    pairs <- list(x = x_at[pairs$x], y = y_at[pairs$y])
  } else {
    pairs <- key_pairs(x, y, by_x, by_y, c(FALSE, FALSE), form$multiple)
  }
  x_lone <- which(tabulate(pairs$x, frame_rows(x)) == 0L)
  y_lone <- which(tabulate(pairs$y, frame_rows(y)) == 0L)
  if (!step$rest) {
    check_single(form$single[1L], pairs$x, x[by_x], "x", "y")
    check_single(form$single[2L], pairs$y, y[by_y], "y", "x")
    check_matched(form$matched[1L], x_lone, x[by_x], "x", "y")
    check_matched(form$matched[2L], y_lone, y[by_y], "y", "x")
  }
  if (!all[1L]) x_lone <- integer()
  if (!all[2L]) y_lone <- integer()
  n <- as.double(length(pairs$x)) + length(x_lone) + length(y_lone)
  if (n > .Machine$integer.max) too_many_rows(n)
  of_x <- c(pairs$x, x_lone)
  of_y <- c(pairs$y, rep(NA_integer_, length(x_lone)))
  if (length(x_lone)) {
    at <- order(of_x, method = "radix")
    of_x <- of_x[at]
    of_y <- of_y[at]
  }
  list(x = c(of_x, rep(NA_integer_, length(y_lone))), y = c(of_y, y_lone))
}

# Whether some column of a key is NA, as values that can be compared with those of the other.
has_missing <- function(columns, others) {
  Reduce(`|`, Map(function(column, other) {
    if (is_int64(column)) {
      return(is.na(int64_digits(column)[[1L]]))
    }
    is.na(if (is.factor(column) && !is.factor(other)) as.character(column) else column)
  }, columns, others))
}

check_single <- function(asked, rows, keys, one, other) {
  if (asked && anyDuplicated(rows)) {
    part_error(paste0("Each row of `", one, "` must match at most 1 row of `", other,
      "`, but one with ", key_text_of(keys, rows[duplicated(rows)][1L]), " matches several."))
  }
}

check_matched <- function(asked, lone, keys, one, other) {
  if (asked && length(lone)) {
    part_error(paste0("Each row of `", one, "` must have a match in `", other,
      "`, but one with ", key_text_of(keys, lone[1L]), " has none."))
  }
}

key_text_of <- function(keys, row) {
  group_text(lapply(take_rows(keys, row), function(column) {
    column <- expand_strings(list(column))[[1L]]
    if (is_int64(column)) int64_numbers(column) else column
  }))
}

# The key's values: from x, or from y if there is no row of x. A side without rows has a say in
# their type, too.
join_key <- function(x, y, pairs) {
  if (!length(x)) x <- take_rows(list(x), NA_integer_)[[1L]]
  if (!length(y)) y <- take_rows(list(y), NA_integer_)[[1L]]
  rows <- pairs$x
  alone <- is.na(rows)
  rows[alone] <- length(x) + pairs$y[alone]
  both <- bind_columns(list(x, y))
  # c() drops time zones that differ: the first is kept, as in rbind().
  if (inherits(both, "POSIXct")) {
    zones <- lapply(list(x, y), attr, "tzone", exact = TRUE)
    attr(both, "tzone") <- Find(function(zone) any(nzchar(zone)), zones)
  }
  take_rows(list(both), rows)[[1L]]
}

join_columns <- function(left, right, by_x) {
  both <- intersect(names(left), names(right))
  from <- names(left) %in% setdiff(both, by_x)
  names(left)[from] <- paste0(names(left)[from], ".x")
  from <- names(right) %in% both
  names(right)[from] <- paste0(names(right)[from], ".y")
  columns <- c(as.list(left), as.list(right))
  twice <- anyDuplicated(names(columns))
  if (twice) {
    part_error(paste0("The join would have two columns `", names(columns)[twice], "`."))
  }
  new_frame(columns, frame_rows(left))
}
