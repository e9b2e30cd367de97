# Sums etc., in workers: folded by group before rows travel, and again afterwards.
#
# The rows that travel have the key's columns, by name, and then partial results, which are found by
# position: the user's columns may have any names. The columns are the same whether rows are folded
# before they travel or not.
#
# A partial sum is value + rest, and if that isn't exact, further rows of the group belong to it
# (src/shuffle/sum.h says why, src/ffi/data/folds.c how). So totals are rounded once, and don't
# depend on where rows were folded.

# The columns of each aggregate's partial results.
fold_parts <- list(
  sum = c("value", "rest"), mean = c("value", "rest", "count"), min = "least", max = "least",
  n = "count"
)

# aggregates: list of list(name, how, column, na_rm), see parse_aggregates().
fold_partial <- function(x, by, aggregates) {
  used <- unlist(lapply(aggregates, `[[`, "column"))
  x <- with_columns(x, c(by, used))
  columns <- lapply(aggregates, function(one) if (!is.null(one$column)) fold_column(x, one))
  if (!has_few_groups(x, by)) {
    parts <- Map(fold_nothing, aggregates, columns, frame_rows(x))
    return(partial_frame(as.list(x[by]), parts, frame_rows(x)))
  }
  groups <- key_groups(x, by)
  n <- length(groups$first)
  folded <- Map(fold_groups, aggregates, columns, list(groups$group), n)
  further <- unlist(lapply(folded, `[[`, "group"))
  parts <- spread_parts(folded, n)
  parts <- Map(with_class, parts, columns)
  keys <- take_rows(x[by], groups$first[c(seq_len(n), further)])
  partial_frame(as.list(keys), parts, frame_rows(keys))
}

partial_frame <- function(keys, parts, n) {
  parts <- unlist(parts, recursive = FALSE, use.names = FALSE)
  names(parts) <- rep("", length(parts))
  new_frame(c(keys, parts), n)
}

# Whether folding would leave at most half of the rows, judged by the groups in a sample: folding a
# row that isn't saved costs more than moving it. Rows sorted in runs aren't treated specially.
has_few_groups <- function(x, by) {
  n <- frame_rows(x)
  m <- 4096L
  if (n <= 2L * m) {
    return(TRUE)
  }
  seen <- length(key_groups(take_rows(x[by], seq_len(m)), by)$first)
  # Expected number of groups seen in m rows, of G equally frequent ones; solved for G.
  among <- function(groups, rows) groups * -expm1(-rows / groups)
  if (among(n / 2, m) <= seen) {
    return(FALSE)
  }
  groups <- stats::uniroot(function(g) among(exp(g), m) - seen, log(c(0.5, n / 2)))
  among(exp(groups$root), n) <= n / 2
}

# One aggregate's partial results: list(columns, group), without classes. Rows after the first n are
# further ones of these groups.
fold_groups <- function(one, column, group, n) {
  if (one$how == "n") {
    count <- .Call(ffi_fold_count, NULL, group, n)
    return(list(columns = list(count = count), group = integer()))
  }
  if (one$how %in% c("min", "max")) {
    least <- .Call(ffi_fold_least, column, group, n, one$na_rm, one$how == "max", TRUE)
    return(list(columns = list(least = as_blank(least, column)), group = integer()))
  }
  sums <- .Call(ffi_fold_sum, column, group, n, one$na_rm)
  columns <- list(
    value = if (one$na_rm) sums$value else as_blank(sums$value, column), rest = sums$rest
  )
  if (one$how == "mean") {
    count <- .Call(ffi_fold_count, if (one$na_rm) column, group, n)
    columns$count <- c(count, integer(length(sums$group)))
  }
  list(columns = columns, group = sums$group)
}

# The result of fold_groups() if each row were its own group, with classes.
fold_nothing <- function(one, column, n) {
  if (one$how == "n") {
    return(list(count = rep(1L, n)))
  }
  value <- bare_numbers(column)
  if (one$how %in% c("min", "max")) {
    return(with_class(list(least = as_blank(value, column)), column))
  }
  count <- if (one$na_rm) .Call(ffi_fold_count, column, seq_len(n), n)
  if (one$na_rm) value[count == 0L] <- 0L else value <- as_blank(value, column)
  columns <- list(value = value, rest = raw(n))
  if (one$how == "mean") columns$count <- if (one$na_rm) count else rep(1L, n)
  with_class(columns, column)
}

# Some aggregates have further rows: there the others get neutral values.
spread_parts <- function(folded, n) {
  groups <- lapply(folded, `[[`, "group")
  all <- unlist(groups)
  if (!length(all)) {
    return(lapply(folded, `[[`, "columns"))
  }
  ends <- cumsum(lengths(groups))
  Map(function(one, end) {
    own <- length(one$group)
    at <- c(seq_len(n), rep(NA, end - own), n + seq_len(own), rep(NA, length(all) - end))
    none <- which(is.na(at))
    lapply(stats::setNames(nm = names(one$columns)), function(kind) {
      column <- one$columns[[kind]]
      spread <- column[at]
      if (kind == "least") {
        spread[none] <- column[all[none - n]]
      } else if (kind != "rest") {
        spread[none] <- 0L
      }
      spread
    })
  }, folded, ends)
}

fold_final <- function(x, by, aggregates) {
  groups <- key_groups(x, by)
  n <- length(groups$first)
  widths <- lengths(fold_parts[vapply(aggregates, `[[`, "", "how")])
  ends <- length(by) + cumsum(widths)
  folded <- Map(function(one, width, end) {
    columns <- lapply(end - width + seq_len(width), function(k) .subset2(x, k))
    names(columns) <- fold_parts[[one$how]]
    fold_total(one, columns, groups$group, n)
  }, aggregates, widths, ends)
  names(folded) <- vapply(aggregates, `[[`, "", "name")
  new_frame(c(as.list(take_rows(x[by], groups$first)), folded), n)
}

fold_total <- function(one, parts, group, n) {
  if (one$how %in% c("min", "max")) {
    # With na_rm, NA is the value of a part without numbers.
    least <- .Call(ffi_fold_least, parts$least, group, n, one$na_rm, one$how == "max", FALSE)
    return(restore_class(least, parts$least))
  }
  counts <- if (!is.null(parts$count)) {
    .Call(ffi_fold_total, parts$count, NULL, group, n, NULL)
  }
  if (one$how == "n") {
    return(counts)
  }
  total <- .Call(ffi_fold_total, parts$value, parts$rest, group, n, counts)
  if (is.null(total)) {
    part_error(paste0(
      "A sum of integer64 column `", one$column, "` is past 2^63. Make it numeric first."
    ))
  }
  # Means of whole numbers aren't whole.
  if (one$how == "mean" && is_int64(parts$value)) total else restore_class(total, parts$value)
}

# ---- Columns

fold_column <- function(x, one) {
  column <- the_column(x, one$column)
  if (is.null(column)) {
    part_error(paste0(
      "There is no column `", one$column, "`; there are ", column_list(names(x)), "."
    ))
  }
  if (length(dim(column)) > 1L) {
    part_error(paste0(
      "`", one$how, "` needs a column of numbers, but `", one$column, "` is ",
      if (is.data.frame(column)) "a data frame" else "a matrix", ": make each of its columns one."
    ))
  }
  # As in R: differences can be summed, dates and times can't.
  timed <- is_timed(column) && (one$how != "sum" || inherits(column, "difftime"))
  numbers <- (is.numeric(column) && !is_timed(column)) || is.logical(column) || is_int64(column)
  if (!(numbers || timed) || !typeof(column) %in% c("logical", "integer", "double")) {
    part_error(paste0(
      "`", one$how, "` needs numbers, but column `", one$column, "` is ", describe(column), "."
    ))
  }
  column
}

is_timed <- function(column) inherits(column, c("Date", "POSIXct", "difftime"))

# A column of only NA, of unknown type, becomes one again: it takes the other parts' type.
as_blank <- function(numbers, column) {
  if (is.logical(column) && all(is.na(column))) as.logical(numbers) else numbers
}

# Without attributes; logicals as integers.
bare_numbers <- function(column) {
  if (is.logical(column)) {
    return(as.integer(column))
  }
  if (!is.null(attributes(column))) attributes(column) <- NULL
  column
}

# Partial results with the class of their column. Rests have none, except for differences, whose
# unit may change when parts meet.
with_class <- function(columns, like) {
  classed <- c("value", "least", if (inherits(like, "difftime")) "rest")
  for (kind in intersect(names(columns), classed)) {
    columns[[kind]] <- restore_class(columns[[kind]], like)
  }
  columns
}

# Numbers as dates, times, differences or integer64, if they were made from those.
restore_class <- function(numbers, like) {
  if (is_timed(like)) {
    numbers <- as.double(numbers)
    attributes(numbers) <- attributes(like)[c("class", "tzone", "units")]
  } else if (is_int64(like)) {
    class(numbers) <- "integer64"
  }
  numbers
}
