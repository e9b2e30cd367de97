# Rows of data frames, in workers and in the session: taken, put together, split by key. C code
# does what it can (atomic columns); R's own methods do the rest.

# A data frame without the cost of data.frame(): columns, all of n rows, by name.
new_frame <- function(columns, n) {
  class(columns) <- "data.frame"
  attr(columns, "row.names") <- .set_row_names(n)
  columns
}

# No rows and no columns: what is known of a part that nothing came to.
empty_frame <- function() new_frame(stats::setNames(list(), character()), 0L)

is_empty <- function(x) !length(x) && frame_rows(x) == 0L

# What is taken for a data frame is made a plain one: no row names, no class of its own.
plain_frame <- function(x) {
  n <- .row_names_info(x, 2L)
  # As it is already: nothing to be copied.
  plain <- identical(oldClass(x), "data.frame") && length(attributes(x)) == 3L
  if (plain && .row_names_info(x) < 0L) {
    return(x)
  }
  columns <- lapply(seq_along(x), function(i) .subset2(x, i))
  names(columns) <- names(x)
  new_frame(columns, n)
}

frame_rows <- function(x) .row_names_info(x, 2L)

# rows: whole numbers, NA for a row of NA.
take_rows <- function(x, rows) {
  columns <- lapply(x, function(column) {
    taken <- .Call(ffi_rows_take, column, rows)
    if (!is.null(taken)) {
      return(taken)
    }
    if (length(dim(column)) == 2L) column[rows, , drop = FALSE] else column[rows]
  })
  new_frame(columns, length(rows))
}

# Rows cut into data frames as `sorted` says (see ffi_rows_sort): NULL where there are none.
split_rows <- function(x, sorted) {
  cut <- .Call(ffi_rows_split, x, sorted$rows, sorted$begin)
  if (!is.null(cut)) {
    return(cut)
  }
  lapply(seq_len(length(sorted$begin) - 1L), function(k) {
    if (sorted$begin[k + 1L] > sorted$begin[k]) {
      take_rows(x, sorted$rows[(sorted$begin[k] + 1L):sorted$begin[k + 1L]])
    }
  })
}

# About how many bytes a part takes: strings are counted by their first thousand.
frame_bytes <- function(x) {
  sum(vapply(x, function(column) {
    n <- as.double(length(column))
    switch(typeof(column),
      logical = , integer = 4 * n,
      double = 8 * n,
      complex = 16 * n,
      raw = n,
      character = 8 * n + n * mean(c(0, nchar(utils::head(column, 1000L), "bytes")), na.rm = TRUE),
      as.double(utils::object.size(column))
    )
  }, 0))
}

# Data frames one below the other. Raises a part_error if their columns differ; parts: their
# numbers, for its text.
bind_frames <- function(frames, parts = seq_along(frames)) {
  some <- lengths(frames) > 0L
  if (!any(some)) {
    return(empty_frame())
  }
  frames <- frames[some]
  parts <- parts[some]
  names <- names(frames[[1L]])
  for (i in seq_along(frames)) {
    if (!identical(names(frames[[i]]), names)) {
      part_error(paste0(
        "Parts ", parts[1L], " and ", parts[i], " have other columns: ", column_list(names),
        " and ", column_list(names(frames[[i]])), "."
      ), part = parts[i])
    }
  }
  columns <- lapply(seq_along(names), function(k) {
    bind_columns(lapply(frames, .subset2, k))
  })
  names(columns) <- names
  new_frame(columns, sum(vapply(frames, frame_rows, 0L)))
}

column_list <- function(names) {
  if (!length(names)) {
    return("none")
  }
  text <- paste0("`", utils::head(names, 6L), "`", collapse = ", ")
  if (length(names) > 6L) paste0(text, ", ... (", length(names), ")") else text
}

bind_columns <- function(columns) {
  bound <- .Call(ffi_rows_bind, columns)
  if (!is.null(bound)) {
    return(bound)
  }
  if (length(dim(columns[[1L]])) == 2L) {
    return(do.call(rbind, columns))
  }
  if (any(vapply(columns, is_int64, NA))) {
    return(bind_int64(columns))
  }
  factors <- vapply(columns, is.factor, NA)
  if (any(factors) && !all(factors)) {
    columns[factors] <- lapply(columns[factors], as.character)
  }
  # A column that is empty, or NA all over, takes the type of the others.
  blank <- vapply(columns, function(x) is.logical(x) && all(is.na(x)), NA)
  if (any(blank) && !all(blank)) {
    model <- columns[[which(!blank)[1L]]]
    columns[blank] <- lapply(columns[blank], function(x) model[rep(NA_integer_, length(x))])
  }
  # Numbers among dates, times or differences are such, whichever of them is the first.
  timed <- vapply(columns, is_timed, NA)
  if (any(timed)) {
    plain <- vapply(columns, is.numeric, NA) & !timed
    columns[plain] <- lapply(columns[plain], restore_class, columns[[which(timed)[1L]]])
  }
  lists <- vapply(columns, is.list, NA)
  if (any(lists) && !all(lists)) {
    columns[!lists] <- lapply(columns[!lists], as.list)
  }
  do.call(c, unname(columns))
}

# An error that is about the data, not about muster or R: the session words it.
# kind: of the muster_error_. part: that it is about, if not the one in work.
part_error <- function(text, kind = "input", part = NULL) {
  condition <- list(message = text, call = NULL, kind = kind, part = part)
  stop(structure(condition, class = c("muster_part_error", "error", "condition"))) # tidy: reworded
}

# ---- Keys

# The columns of a key; a part_error if they can't be one.
key_columns <- function(x, by) {
  missing <- setdiff(by, names(x))
  if (length(missing)) {
    part_error(paste0(
      "There is no column `", missing[1L], "`; there are ", column_list(names(x)), "."
    ))
  }
  lapply(stats::setNames(by, by), function(name) {
    column <- .subset2(x, name)
    if (is.null(key_family(column))) {
      part_error(paste0(
        "Column `", name, "` can't be a key: it is ", describe(column), ". Keys are logical, ",
        "integer, numeric, integer64, character, factor, Date and POSIXct."
      ))
    }
    column
  })
}

# Keys of one family can be equal, those of two never are. NULL: can't be a key.
key_family <- function(column) {
  if (is.list(column) || length(dim(column)) > 1L || isS4(column)) {
    return(NULL)
  }
  if (is.factor(column) || is.character(column)) {
    return("text")
  }
  if (!typeof(column) %in% c("logical", "integer", "double")) {
    return(NULL)
  }
  if (inherits(column, "Date")) {
    return("date")
  }
  if (inherits(column, "POSIXct")) {
    return("time")
  }
  if (inherits(column, "difftime")) {
    return(paste("time difference in", attr(column, "units")))
  }
  if (is.logical(column) && all(is.na(column))) "none" else "number"
}

key_families <- function(x, by) vapply(key_columns(x, by), key_family, "")

# list(group, first) of all rows.
key_groups <- function(x, by) .Call(ffi_key_groups, key_columns(x, by), frame_rows(x))

# ---- Sums and the like, folded before rows travel and again after

# aggregates: list of list(name, how, column, na_rm), see parse_aggregates().
fold_partial <- function(x, by, aggregates) {
  if (is_empty(x)) {
    return(x)
  }
  if (!has_few_groups(x, by)) {
    return(fold_nothing(x, by, aggregates))
  }
  groups <- key_groups(x, by)
  n <- length(groups$first)
  folds <- list()
  for (one in aggregates) {
    column <- if (!is.null(one$column)) fold_column(x, one)
    for (how in fold_parts[[one$how]]) {
      folded <- .Call(ffi_rows_fold, how, column, groups$group, n, one$na_rm)
      if (how != "count") folded <- restore_class(folded, column)
      folds[[paste0(one$name, ".", how)]] <- folded
    }
  }
  new_frame(c(as.list(take_rows(x[by], groups$first)), folds), n)
}

# Whether folding would leave at most half of the rows, by the groups in a sample of them: it
# costs more than to move a row that it wouldn't save. Rows in runs count as they are.
has_few_groups <- function(x, by) {
  n <- frame_rows(x)
  m <- 4096L
  if (n <= 2L * m) {
    return(TRUE)
  }
  seen <- length(key_groups(take_rows(x[by], seq_len(m)), by)$first)
  # So many of G equally frequent groups are seen in m rows; of how many is that this many?
  among <- function(groups, rows) groups * -expm1(-rows / groups)
  if (among(n / 2, m) <= seen) {
    return(FALSE)
  }
  groups <- stats::uniroot(function(g) among(exp(g), m) - seen, log(c(0.5, n / 2)))
  among(exp(groups$root), n) <= n / 2
}

# What fold_partial() gives if each row is a group of its own.
fold_nothing <- function(x, by, aggregates) {
  n <- frame_rows(x)
  folds <- list()
  for (one in aggregates) {
    column <- if (!is.null(one$column)) fold_column(x, one)
    none <- if (one$na_rm) which(is.na(column))
    for (how in fold_parts[[one$how]]) {
      values <- if (how == "count") rep(1, n) else as.double(unclass(column))
      if (length(none)) values[none] <- c(sum = 0, count = 0, min = Inf, max = -Inf)[[how]]
      if (how != "count") values <- restore_class(values, column)
      folds[[paste0(one$name, ".", how)]] <- values
    }
  }
  new_frame(c(as.list(x[by]), folds), n)
}

fold_final <- function(x, by, aggregates) {
  if (is_empty(x)) {
    return(x)
  }
  groups <- key_groups(x, by)
  n <- length(groups$first)
  folded <- lapply(aggregates, function(one) {
    kinds <- fold_parts[[one$how]]
    columns <- lapply(kinds, function(how) x[[paste0(one$name, ".", how)]])
    parts <- lapply(seq_along(kinds), function(k) {
      again <- if (kinds[k] == "count") "sum" else kinds[k]
      .Call(ffi_rows_fold, again, columns[[k]], groups$group, n, FALSE)
    })
    folded <- if (one$how == "mean") parts[[1L]] / parts[[2L]] else parts[[1L]]
    restore_class(folded, columns[[1L]])
  })
  names(folded) <- vapply(aggregates, `[[`, "", "name")
  new_frame(c(as.list(take_rows(x[by], groups$first)), folded), n)
}

# What is folded for each of the functions.
fold_parts <- list(
  sum = "sum", mean = c("sum", "count"), min = "min", max = "max", n = "count"
)

fold_column <- function(x, one) {
  column <- x[[one$column]]
  if (is.null(column)) {
    part_error(paste0(
      "There is no column `", one$column, "`; there are ", column_list(names(x)), "."
    ))
  }
  if (is_int64(column)) {
    return(int64_numbers(column))
  }
  # As with R's own: differences have sums, dates and times have none.
  timed <- is_timed(column) && (one$how != "sum" || inherits(column, "difftime"))
  if (!(is.numeric(column) || is.logical(column) || timed)) {
    part_error(paste0(
      "`", one$how, "` wants numbers, and column `", one$column, "` is ", describe(column), "."
    ))
  }
  column
}

is_timed <- function(column) inherits(column, c("Date", "POSIXct", "difftime"))

# Numbers as dates, times or differences, if that is what they were made of.
restore_class <- function(numbers, like) {
  if (is_timed(like)) {
    attributes(numbers) <- attributes(like)[c("class", "tzone", "units")]
  }
  numbers
}
