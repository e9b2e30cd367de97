# Names of arguments: those of the user's functions pass, those of ours are dotted and checked.

test_cluster("A1 every undotted name in `...` is the function's, whatever ours are called", {
  local_seed(1)
  cl <- local_cluster(2)
  expect_identical(
    cluster_map(cl, list(1:10), quantile, p = 0.9), list(quantile(1:10, 0.9))
  )
  ours <- c(
    "x", "f", "fun", "c", "cl", "p", "s", "seed", "piece", "i", "at", "values", "job", "args",
    "retries", "timeout", "quote", "what", "envir", "n", "name"
  )
  for (name in ours) {
    fun <- eval(call("function", as.pairlist(stats::setNames(
      list(quote(expr = ), quote(expr = )), c("element", name)
    )), call("*", quote(element), as.name(name))))
    args <- stats::setNames(list(10), name)
    map <- do.call(cluster_map, c(list(cl, 1:2, fun), args))
    expect_identical(map, list(10, 20), info = name)
    task <- do.call(task_submit, c(list(cl, fun, 3), args))
    expect_identical(task_value(task), 30, info = name)
  }
  # The user's `s` doesn't become the stream.
  draw <- function(element, s) rnorm(1)
  expect_identical(
    cluster_map(cl, 1:2, draw, s = c(10407L, 1:6), .seed = 1), cluster_map(cl, 1:2, draw, .seed = 1)
  )
})

test_cluster("A1 names pass through partitions and map_reduce() too", {
  local_seed(1)
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(k = c(1, 1, 2), v = 1:3), parts = 2)
  by <- function(group, p, by, parts) data.frame(s = sum(group$v) * p * by * parts)
  got <- partition_collect(partition_reduce(p, "k", by, p = 2, by = 3, parts = 5))
  expect_identical(got[order(got$k), "s"], c(90, 90))
  times <- function(part, p, fun) data.frame(v = part$v * p * fun)
  mapped <- partition_map(p, times, p = 2, fun = 3)
  expect_identical(sort(partition_collect(mapped)$v), c(6, 12, 18))
  counts <- map_reduce(cl, 1:2, function(i, cl, map) list(key = 1, value = i * cl * map),
    function(key, values) sum(values),
    cl = 2, map = 3
  )
  expect_identical(counts$value, 18)
  file <- file.path(local_folder(), "a.csv")
  writeLines(c("v", "1"), file)
  read <- function(path, files) data.frame(v = utils::read.csv(path)$v + files)
  expect_identical(partition_collect(partition_read(cl, file, read, files = 4))$v, 5)
})

test_cluster("A2 an unknown dotted name is an error that gives the nearest, and `.args`", {
  local_seed(1)
  cl <- local_cluster(1)
  error <- expect_error(cluster_map(cl, 1:3, identity, .sed = 1), class = "muster_error_input")
  expect_identical(error$argument, ".sed")
  expect_match(conditionMessage(error), "Do you mean `.seed`?", fixed = TRUE)
  expect_match(conditionMessage(error), ".args = list(.sed = ...)", fixed = TRUE)
  expect_error(cluster_map(cl, 1, identity, .on.error = 1), "`.on_error`", fixed = TRUE)
  expect_error(task_submit(cl, identity, .speculate = 1), class = "muster_error_input")
  p <- partition_scatter(cl, data.frame(k = 1), parts = 1)
  expect_error(partition_map(p, identity, .spekulate = 1), "`.speculate`", fixed = TRUE)
  expect_error(partition_reduce(p, "k", identity, .part = 2), "`.parts`", fixed = TRUE)
  expect_error(partition_reduce(p, "k", nrow, .part = 2), "`.parts`", fixed = TRUE)
  expect_error(partition_read(cl, "a.csv", .arg = 2), "`.args`", fixed = TRUE)
  # One of ours without its dot, that the function can't take, is told too.
  expect_error(partition_reduce(p, "k", function(g) NULL, parts = 2), "`.parts`", fixed = TRUE)
  expect_error(cluster_map(cl, 1, function(a) a, seed = 1), "`.seed`", fixed = TRUE)
})

test_cluster("A1 `.args` passes every name, dotted too", {
  local_seed(1)
  cl <- local_cluster(1)
  fun <- function(i, .seed, ...) c(i, .seed, ...)
  expect_identical(cluster_map(cl, 1, fun, 3, .args = list(.seed = 2)), list(c(1, 2, 3)))
  expect_identical(task_value(task_submit(cl, fun, 1, .args = list(.seed = 2))), c(1, 2))
  expect_error(cluster_map(cl, 1, fun, .args = 2), class = "muster_error_input")
})

test_cluster("A1 lambdas are functions of .x", {
  local_seed(1)
  cl <- local_cluster(1)
  k <- 10
  expect_identical(cluster_map(cl, 1:2, ~ .x + k), list(11, 12))
  expect_identical(cluster_map(cl, 1:2, ~ .x + .y, 5), list(6, 7))
  expect_identical(task_value(task_submit(cl, ~ . * 2, 4)), 8)
  p <- partition_scatter(cl, data.frame(k = 1:4), parts = 2)
  expect_identical(partition_collect(partition_map(p, ~ .x[.x$k > 2, , drop = FALSE]))$k, 3:4)
  expect_error(cluster_map(cl, 1:2, y ~ x), class = "muster_error_input")
})

test_cluster("A9 what is missing is named", {
  cl <- local_cluster(1)
  error <- expect_error(cluster_map(cl, 1:3), class = "muster_error_input")
  expect_identical(error$argument, ".fun")
  expect_error(cluster_map(cl, .fun = identity), "`.x` is missing", fixed = TRUE)
  expect_error(task_submit(cl), "`.fun` is missing", fixed = TRUE)
  expect_error(task_submit(cl, {
    1
  }), "wrap it", fixed = TRUE)
})

test_cluster("V13: an argument that wasn't given is passed on as missing, as by lapply()", {
  cl <- local_cluster(1)
  add <- remote(function(i, x, y, z) list(i, x, if (missing(y)) "missing" else y, missing(z)))
  by_map <- function(x, y, z) cluster_map(cl, 1:2, add, x, y, z)
  by_name <- function(x, y, z) cluster_map(cl, 1:2, add, y = y, z = z, x = x)
  ahead <- function(x, y, z) task_value(task_map(cl, 1:2, add, x, y, z))
  here <- function(x, y, z) cluster_map(NULL, 1:2, add, x, y, z)
  for (by in list(by_map, by_name, ahead, here)) {
    expect_identical(by("a"), list(list(1L, "a", "missing", TRUE), list(2L, "a", "missing", TRUE)))
    expect_identical(by("a", , 3)[[1L]], list(1L, "a", "missing", FALSE))
    expect_identical(by("a", 2)[[1L]], list(1L, "a", 2, TRUE))
  }
  expect_error(cluster_map(cl, 1:2, remote(function(i, x) x + i), quote(expr = )))
  use <- function(x, y) cluster_map(cl, 1:2, remote(function(i, x, y) x + y), x, y)
  expect_error(use(1), "missing", class = "muster_error_remote")
})
