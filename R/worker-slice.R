# In workers: slice_head(), slice_tail(), slice_min(), slice_max() and slice_sample() of all groups
# at once, where dplyr would evaluate for one after the other. Rows, and their order, are dplyr's.

# step: by, and slice, see slice_plan(). NULL if dplyr must do it.
sliced_rows <- function(part, step) {
  slice <- step$slice
  ranked <- !is.null(slice$column)
  x <- if (ranked) .subset2(part, slice$column)
  if ((ranked && !has_plain_order(x)) || any(vapply(part, is_wide, NA))) {
    return(NULL)
  }
  leading <- leading_rows(part, step$by, slice)
  if (!is.null(leading)) {
    part <- take_rows(part, leading)
    if (ranked) x <- .subset2(part, slice$column)
  }
  sorted <- rows_by_group(part, step$by)
  rows <- sorted$rows
  sizes <- sorted$sizes
  few <- slice_sizes(slice, sizes)
  if (slice$verb == "slice_sample") {
    # Before version 1.1 dplyr refused more rows than there are.
    if (any(few > sizes)) {
      return(NULL)
    }
    # In the order in which dplyr draws.
    places <- unlist(Map(function(size, n) if (n) sample.int(size, n), sizes, few))
    return(take_rows(part, rows[places + rep.int(cumsum(sizes) - sizes, few)]))
  }
  if (!ranked) {
    before <- cumsum(sizes) - if (slice$verb == "slice_head") sizes else few
    return(take_rows(part, rows[sequence(few, before + 1L)]))
  }
  place <- sequence(sizes)
  group <- rep.int(seq_along(sizes), sizes)
  x <- unclass(x)[rows]
  at <- order(group, x, decreasing = c(FALSE, slice$verb == "slice_max"), method = "radix")
  kept <- place <= few[group]
  if (slice$ties) kept <- with_ties(kept, x[at], which(place == few[group]), group)
  take_rows(part, rows[at[which(kept)]])
}

# The rows of a part that may be among those of all parts, if that saves something: they move then.
slice_before <- function(part, by, slice) {
  # Other parts may have the levels of an order in another order.
  ranks <- slice$column
  x <- if (!is.null(ranks)) .subset2(part, ranks)
  if (is_open(part) || is_empty(part) || is.factor(x) || (!is.null(x) && !has_plain_order(x))) {
    return(part)
  }
  leading <- leading_rows(part, by, slice)
  if (is.null(leading)) part else take_rows(part, leading)
}

# The numbers of the rows that may be in the result, if these are at most half of all: or else NULL.
leading_rows <- function(part, by, slice) {
  keys <- as.list(part)[by]
  # dplyr has groups of its own for NA and NaN.
  plain <- all(vapply(keys, function(key) {
    (has_plain_order(key) || is.character(key)) && !(is.double(key) && any(is.nan(key)))
  }, NA))
  n <- frame_rows(part)
  if (!plain || slice$share || slice$n <= 0 || slice$n > n || slice$verb == "slice_sample") {
    return(NULL)
  }
  groups <- key_groups(part, by)
  count <- length(groups$first)
  if (slice$n * count > n / 2) {
    return(NULL)
  }
  x <- if (!is.null(slice$column)) .subset2(part, slice$column)
  back <- slice$verb %in% c("slice_tail", "slice_max")
  .Call(ffi_rows_leading, groups$group, count, as.integer(slice$n), unclass(x), back)
}

# The rows of each group, in dplyr's order of groups, and how many there are.
rows_by_group <- function(x, by) {
  keys <- as.list(x)[by]
  plain <- all(vapply(keys, function(key) has_plain_order(key) && !any(is.nan(key)), NA))
  if (!plain) {
    groups <- dplyr::group_by(plain_frame(x[by]), !!!lapply(by, as.name))
    groups <- dplyr::group_data(groups)$.rows
    return(list(rows = unlist(groups, use.names = FALSE), sizes = lengths(groups)))
  }
  groups <- key_groups(x, by)
  firsts <- lapply(unname(keys), function(key) unclass(key)[groups$first])
  place <- order(do.call(order, c(firsts, method = "radix")))
  sorted <- .Call(ffi_rows_sort, place[groups$group], length(place))
  list(rows = sorted$rows, sizes = diff(sorted$begin))
}

# Whether values compare as their numbers do.
has_plain_order <- function(x) {
  is.numeric(unclass(x)) && !is_wide(x) &&
    (!is.object(x) || inherits(x, c("factor", "Date", "POSIXct", "difftime")))
}

# How many rows each group has, before ties.
slice_sizes <- function(slice, sizes) {
  n <- if (slice$share) slice$n * sizes else slice$n
  n <- if (slice$n > 0) rep_len(floor(n), length(sizes)) else ceiling(sizes + n)
  if (slice$verb == "slice_sample") n else pmin(pmax(n, 0), sizes)
}

# Those that are kept, and others with the value of their group's last one, at `last`. x is sorted
# in each group. Missing values tie with each other; before version 1.1 dplyr kept none.
with_ties <- function(kept, x, last, group) {
  least <- x[rep(NA_integer_, max(0L, group))]
  least[group[last]] <- x[last]
  tied <- (x == least[group]) %in% TRUE
  none <- is.na(x)
  if (utils::packageVersion("dplyr") < "1.1.0") {
    return(kept & !none | tied)
  }
  open <- logical(length(least))
  open[group[last]] <- none[last]
  kept | tied | none & open[group]
}
