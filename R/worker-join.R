# One part of a join, in workers.

# step: by_x, by_y; all: whether to add rows of x, of y without a partner; rest: only y's rows
# without a partner, of a part whose other rows are made elsewhere.
join_frames <- function(x, y, step) {
  by_x <- step$by_x
  by_y <- step$by_y
  unknown <- !by_x %in% names(x)
  x <- with_columns(x, by_x)
  y <- with_columns(y, by_y)
  pairs <- if (step$rest) join_rest(x, y, by_x, by_y) else join_pairs(x, y, by_x, by_y, step$all)
  left <- take_rows(x, pairs$x)
  both <- if (step$all[2L] || step$rest) seq_along(by_x) else which(unknown)
  left[match(by_x[both], names(x))] <- Map(
    join_key, key_columns(x, by_x)[both], key_columns(y, by_y)[both], list(pairs)
  )
  right <- take_rows(new_frame(not_of_key(y, by_y), frame_rows(y)), pairs$y)
  join_columns(left, right, by_x)
}

join_pairs <- function(x, y, by_x, by_y, all) {
  pairs <- .Call(
    ffi_key_join, key_columns(x, by_x), frame_rows(x), key_columns(y, by_y), frame_rows(y), all
  )
  if (is.double(pairs)) {
    part_error(paste0(
      "It would have ", format(pairs, big.mark = ",", scientific = FALSE),
      " rows, more than a data frame can have."
    ), "limit")
  }
  pairs
}

# Rows of y whose key isn't in x.
join_rest <- function(x, y, by_x, by_y) {
  keys <- take_rows(x[by_x], key_groups(x, by_x)$first)
  pairs <- join_pairs(keys, y, by_x, by_y, c(FALSE, TRUE))
  rows <- pairs$y[is.na(pairs$x)]
  list(x = rep(NA_integer_, length(rows)), y = rows)
}

# The key's values: from x, or from y if there is no row of x.
join_key <- function(x, y, pairs) {
  rows <- pairs$x
  alone <- is.na(rows)
  rows[alone] <- length(x) + pairs$y[alone]
  take_rows(list(bind_columns(list(x, y))), rows)[[1L]]
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
