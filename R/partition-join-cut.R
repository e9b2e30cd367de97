# How a join's parts are cut if a key has very many rows. worker-join.R has a worker's side.

# A piece with fewer rows of x isn't worth 200 us and reading y's rows again.
join_rows_least <- 5000

# The tasks of a join, from the number of rows that each map task of x (matrix: map task, part), and
# y, have for each part of the key: a matrix with a row for each task.
#   part: of the key. from, to: map tasks of x.
#   rest: 0: all of the part; 1: results for the rows of x, 2: y's rows without a partner.
# A part with many more rows of x than the others, and than of y, is cut between map tasks, into
# pieces of about the mean, unless it must be whole. The order of the rows is the same as without.
# This depends only on the data: it is the same for any number of workers.
join_tasks <- function(x_rows, y_rows, all_y, whole = FALSE) {
  maps <- nrow(x_rows)
  total <- colSums(x_rows)
  pieces <- round(total / pmax(mean(total), y_rows, join_rows_least))
  if (whole) pieces[] <- 0
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

# One function returns all tasks' steps: see data_steps().
join_steps <- function(tasks, by_x, by_y, all, form = NULL) {
  force(tasks)
  force(by_x)
  force(by_y)
  force(all)
  force(form)
  function(task) {
    one <- as.integer(tasks[task, ])
    list(list(
      kind = "gather", by_x = by_x, by_y = by_y, part = one[1L], tasks = one[2:3],
      all = all & c(TRUE, one[4L] == 0L), rest = one[4L] == 2L,
      form = form
    ))
  }
}
