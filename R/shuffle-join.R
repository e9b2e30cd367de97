# Joins of partitioned data. In the session: how a join's parts are cut where a key has very many
# rows. In workers: one part of it.

# A sub-part of fewer rows of x isn't worth its 200 us, and y's rows read again.
join_rows_least <- 5000

# The tasks of a join, from the rows that each map task of x has for each part of the key
# (matrix: map task, part), and y for each part: a matrix with a row for each task.
#   part: of the key. from, to: map tasks of x.
#   rest: 0: all of the part; 1: what the rows of x give, 2: y's rows without a partner.
# A part with many more rows of x than the others, and than of y, is cut between map tasks,
# into pieces of about the mean. Rows come in the same order as without. Only the data counts
# here: the same for each number of workers.
join_tasks <- function(x_rows, y_rows, all_y) {
  maps <- nrow(x_rows)
  total <- colSums(x_rows)
  pieces <- round(total / pmax(mean(total), y_rows, join_rows_least))
  do.call(rbind, lapply(seq_along(total), function(part) {
    rows <- x_rows[, part]
    some <- which(rows > 0)
    if (pieces[part] < 2 || length(some) < 2L) {
      return(c(part, 1L, maps, 0L))
    }
    middle <- (cumsum(rows) - rows / 2)[some]
    from <- some[!duplicated(floor(middle * pieces[part] / total[part]))]
    from[1L] <- 1L
    rbind(
      cbind(part, from, c(from[-1L] - 1L, maps), 1L, deparse.level = 0L),
      if (all_y) c(part, 1L, maps, 2L)
    )
  }))
}

# Rows that each task reads.
join_weights <- function(tasks, x_rows, y_rows) {
  vapply(seq_len(nrow(tasks)), function(k) {
    sum(x_rows[tasks[k, 2L]:tasks[k, 3L], tasks[k, 1L]]) + y_rows[tasks[k, 1L]]
  }, 0)
}

# One function gives all tasks' steps: see data_steps().
join_steps <- function(tasks, by_x, by_y, all) {
  force(tasks)
  force(by_x)
  force(by_y)
  force(all)
  function(task) {
    one <- as.integer(tasks[task, ])
    list(list(
      kind = "gather", by_x = by_x, by_y = by_y, part = one[1L], tasks = one[2:3],
      all = all & c(TRUE, one[4L] == 0L), rest = one[4L] == 2L
    ))
  }
}

# ---- In workers

# step: by_x, by_y; all: whether rows of x, of y without a partner come too; rest: these of
# y alone, of a part whose other rows come elsewhere.
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

# Rows of y whose key no row of x has.
join_rest <- function(x, y, by_x, by_y) {
  keys <- take_rows(x[by_x], key_groups(x, by_x)$first)
  pairs <- join_pairs(keys, y, by_x, by_y, c(FALSE, TRUE))
  rows <- pairs$y[is.na(pairs$x)]
  list(x = rep(NA_integer_, length(rows)), y = rows)
}

# A key's values: those of x, of y where there is no row of x.
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
