# Rows of data frames, in workers and in the session: selected, combined, split by key. C code
# handles atomic columns; R's own methods do the rest.

# A data frame without the cost of data.frame(): columns, all of n rows, by name.
new_frame <- function(columns, n) {
  class(columns) <- "data.frame"
  attr(columns, "row.names") <- .set_row_names(n)
  columns
}

# No rows and no columns: a part that received nothing.
empty_frame <- function() new_frame(stats::setNames(list(), character()), 0L)

is_empty <- function(x) !length(x) && frame_rows(x) == 0L

# No rows, and not all columns that rows would have. The user's functions see such a part as one
# without columns: x[x$n > 1, ] of a single column isn't a data frame.
open_frame <- function(x) {
  x <- take_rows(x, integer())
  attr(x, "open") <- TRUE
  x
}

is_open <- function(x) !is.null(attr(x, "open", exact = TRUE))

# Makes a data frame plain: no row names, no class of its own.
plain_frame <- function(x) {
  n <- .row_names_info(x, 2L)
  # Already plain: copy nothing.
  plain <- identical(oldClass(x), "data.frame") && length(attributes(x)) == 3L
  if (plain && .row_names_info(x) < 0L) {
    return(x)
  }
  columns <- lapply(seq_along(x), function(i) .subset2(x, i))
  names(columns) <- names(x)
  new_frame(columns, n)
}

# What a plain data frame was before.
frame_kind <- function(x) {
  if (inherits(x, "data.table")) "data.table" else if (inherits(x, "tbl_df")) "tibble" else "frame"
}

# Makes a plain data frame what it was. kind: from frame_kind(), or NULL.
as_kind <- function(x, kind) {
  if (identical(kind, "tibble")) {
    class(x) <- c("tbl_df", "tbl", "data.frame")
  } else if (identical(kind, "data.table") && requireNamespace("data.table", quietly = TRUE)) {
    data.table::setDT(x)
  }
  x
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

# n rows from this one on.
take_range <- function(x, from, n) {
  columns <- lapply(x, function(column) {
    taken <- .Call(ffi_rows_range, column, from - 1, n)
    if (is.null(taken)) take_rows(list(column), as.integer(from - 1) + seq_len(n))[[1L]] else taken
  })
  new_frame(columns, n)
}

# Character columns by dictionary, where that takes less (src/ffi/value/coded.h): for what stays in
# workers.
code_strings <- function(x) each_column(x, function(column) .Call(ffi_coded, column))

# All that can be: rows that move are numbers.
code_all_strings <- function(x) each_column(x, function(column) .Call(ffi_coded_all, column))

# Those with a dictionary that has many more strings than they have rows get a smaller one, or none.
compact_strings <- function(x) each_column(x, function(column) .Call(ffi_coded_compact, column))

# For a function of the user's, which may expand strings: the part keeps its own. data.table's
# functions change columns and names in place: where it is loaded, the function gets copies.
lend_frame <- function(x) {
  if (is.null(x)) {
    return(x)
  }
  copy <- changes_in_place()
  lent <- each_column(x, function(column) .Call(ffi_coded_lend, column, copy))
  if (copy) names(lent) <- rep(names(x), 1L)
  lent
}

# Ordinary ones again, for the session.
expand_strings <- function(x) each_column(x, function(column) .Call(ffi_coded_expand, column))

changes_in_place <- function() isNamespaceLoaded("data.table")

# fun of each column, with the frame's attributes. attributes() would make row names of all rows, of
# which R has only the number.
each_column <- function(x, fun) {
  columns <- unclass(x)
  columns[] <- lapply(columns, fun)
  class(columns) <- oldClass(x)
  columns
}

take_columns_of <- function(x, names) {
  x <- with_columns(x, names)
  columns <- lapply(stats::setNames(nm = names), function(name) needed_column(x, name))
  new_frame(columns, frame_rows(x))
}

# The first rows, or the last.
take_end <- function(x, n, from_end) {
  rows <- frame_rows(x)
  take_rows(x, if (from_end) seq.int(rows - n + 1, length.out = n) else seq_len(n))
}

# Rows cut into data frames according to `sorted` (see ffi_rows_sort): NULL if a part has none.
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

# The approximate size of a part in bytes: strings are estimated from the first thousand.
frame_bytes <- function(x) {
  sum(vapply(x, function(column) {
    n <- as.double(length(column))
    switch(typeof(column),
      logical = , integer = 4 * n,
      double = 8 * n,
      complex = 16 * n,
      raw = n,
      character = {
        some <- nchar(.Call(ffi_coded_head, column, 1000L), "bytes")
        8 * n + n * mean(c(0, some), na.rm = TRUE)
      },
      as.double(utils::object.size(column))
    )
  }, 0))
}

# Stacks data frames. Raises a part_error if their columns differ; parts: their numbers, for its
# text. One without rows may lack columns, since nothing determined them.
bind_frames <- function(frames, parts = seq_along(frames)) {
  rows <- vapply(frames, frame_rows, 0L)
  some <- lengths(frames) > 0L | rows > 0L
  if (!any(some)) {
    return(empty_frame())
  }
  frames <- frames[some]
  parts <- parts[some]
  rows <- rows[some]
  model <- if (any(rows > 0L)) which(rows > 0L)[1L] else which.max(lengths(frames))
  names <- names(frames[[model]])
  same <- vapply(frames, function(frame) identical(names(frame), names), NA)
  for (i in which(!same)) {
    if (!lacks_columns(names(frames[[i]]), rows[i], names)) {
      pair <- sort(c(model, i))
      part_error(paste0(
        "Parts ", parts[pair[1L]], " and ", parts[pair[2L]], " have different columns: ",
        column_list(names(frames[[pair[1L]]])), " and ", column_list(names(frames[[pair[2L]]])), "."
      ), part = parts[pair[2L]])
    }
  }
  columns <- lapply(seq_along(names), function(k) {
    bind_columns(lapply(frames[same], .subset2, k))
  })
  names(columns) <- names
  new_frame(columns, sum(rows))
}

# Whether a part without rows has only some of the others' columns.
lacks_columns <- function(names, rows, all) rows == 0 && all(names %in% all)

# Adds these columns to a part without rows, of a type that takes any other's (bind_columns()).
with_columns <- function(x, names) {
  missing <- if (frame_rows(x) == 0L) setdiff(names, names(x))
  if (!length(missing)) {
    return(x)
  }
  blank <- rep(list(logical()), length(missing))
  new_frame(c(as.list(x), stats::setNames(blank, missing)), 0L)
}

# Columns that are missing are added, all NA; the others are put into this order. A part without
# rows stays open.
complete_frame <- function(x, names) {
  if (is_open(x)) {
    return(x)
  }
  columns <- unclass(x)
  missing <- setdiff(names, names(x))
  columns[missing] <- rep(list(rep(NA, frame_rows(x))), length(missing))
  new_frame(columns[names], frame_rows(x))
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
  if (any(vapply(columns, is_wide, NA))) {
    return(bind_wide(columns))
  }
  # Without rows code may give a type that it has for no row: max() is -Inf, sapply() a list.
  idle <- vapply(columns, function(x) !length(x) && !is.object(x), NA)
  if (any(idle) && any(lengths(columns) > 0L)) {
    return(bind_columns(columns[!idle]))
  }
  if (any(vapply(columns, is_int64, NA))) {
    return(bind_int64(columns))
  }
  # A column that is empty, or all NA, takes the type of the others.
  blank <- vapply(columns, function(x) is.logical(x) && all(is.na(x)), NA)
  if (any(blank) && !all(blank)) {
    model <- columns[[which(!blank)[1L]]]
    columns[blank] <- lapply(columns[blank], function(x) model[rep(NA_integer_, length(x))])
  }
  factors <- vapply(columns, is.factor, NA)
  if (any(factors) && !all(factors)) {
    columns[factors] <- lapply(columns[factors], as.character)
  }
  columns <- alike_spans(columns)
  # Numbers combined with dates, times or differences become those, in any order.
  timed <- vapply(columns, is_timed, NA)
  if (any(timed)) {
    plain <- vapply(columns, is.numeric, NA) & !timed
    columns[plain] <- lapply(columns[plain], restore_class, columns[[which(timed)[1L]]])
  }
  lists <- vapply(columns, is.list, NA)
  if (any(lists) && !all(lists)) {
    columns[!lists] <- lapply(columns[!lists], as.list)
  }
  as_is <- vapply(columns, inherits, NA, "AsIs")
  bound <- do.call(c, unname(columns))
  # c() has no method for I().
  if (all(as_is) && !inherits(bound, "AsIs")) I(bound) else bound
}

is_wide <- function(column) length(dim(column)) == 2L

# Matrices and data frames; a column that is empty, or all NA, takes their form.
bind_wide <- function(columns) {
  model <- columns[[which(vapply(columns, is_wide, NA))[1L]]]
  blank <- !vapply(columns, is_wide, NA) &
    vapply(columns, function(x) is.logical(x) && all(is.na(x)), NA)
  columns[blank] <- lapply(columns[blank], function(x) {
    model[rep(NA_integer_, length(x)), , drop = FALSE]
  })
  do.call(rbind, columns)
}

# An error about the data, not about muster or R: the session words it. kind: of the muster_error_.
# part: the part concerned, if not the present one.
part_error <- function(text, kind = "input", part = NULL) {
  condition <- list(message = text, call = NULL, kind = kind, part = part)
  stop(structure(condition, class = c("muster_part_error", "error", "condition"))) # tidy: reworded
}

# ---- Keys

# The columns of a key; a part_error if they can't be one.
key_columns <- function(x, by) {
  missing <- setdiff(by, names(x))
  if (length(missing)) no_column(missing[1L], names(x))
  lapply(stats::setNames(by, by), function(name) {
    column <- the_column(x, name)
    if (is.null(key_family(column))) {
      part_error(paste0(
        "Column `", name, "` can't be a key: it is ", describe(column), ". Keys are logical, ",
        "integer, numeric, integer64, character, factor, Date and POSIXct."
      ))
    }
    column
  })
}

no_column <- function(name, names) {
  part_error(paste0("There is no column `", name, "`; there are ", column_list(names), "."))
}

# By name, since a function may have returned two columns of one name.
the_column <- function(x, name) {
  if (sum(names(x) == name, na.rm = TRUE) > 1L) {
    part_error(paste0("There are two columns `", name, "`."))
  }
  .subset2(x, name)
}

# Keys of one family can be equal, those of different families can't. NULL: not a valid key.
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

# list(group, first) of all rows. Without a key all rows are one group.
key_groups <- function(x, by, runs = NULL) {
  n <- frame_rows(x)
  if (!length(by)) {
    return(list(group = rep(1L, n), first = if (n) 1L else integer()))
  }
  if (is.null(runs)) {
    return(.Call(ffi_key_groups, key_columns(x, by), n))
  }
  first <- cumsum(c(1L, runs[-length(runs)]))
  groups <- .Call(ffi_key_groups, key_columns(take_rows(x[by], first), by), length(first))
  list(
    group = rep.int(groups$group, runs), first = first[groups$first],
    runs = list(group = groups$group, sizes = runs)
  )
}

# The rows of each group, from key_groups(): list(rows, begin), see ffi_rows_sort().
group_rows <- function(groups, n = length(groups$first)) {
  runs <- groups$runs
  if (is.null(runs)) {
    .Call(ffi_rows_sort, groups$group, n)
  } else {
    .Call(ffi_runs_sort, runs$group, runs$sizes, n)
  }
}
