# Handles answer as data frames do; functions that draw random numbers repeat their results.

test_cluster("Handles on two workers", {
  cl <- local_cluster(2)
  cars <- data.frame(name = rownames(mtcars), mtcars, row.names = NULL)

  test_that("D9 A handle has the dimensions and names of its data", {
    p <- partition_scatter(cl, cars, parts = 5)
    expect_identical(dim(p), dim(cars))
    expect_identical(nrow(p), 32L)
    expect_identical(names(p), names(cars))
    expect_identical(colnames(p), names(cars))
    expect_length(p, ncol(cars))
    few <- partition_map(p, function(part) part[part$cyl == 4, c("cyl", "mpg")])
    expect_identical(dim(few), c(11L, 2L))
    none <- partition_map(p, function(part) part[part$cyl == 5, c("cyl", "mpg")])
    expect_identical(dim(none), c(0L, 2L))
    counts <- partition_summarise(p, .by = "cyl", n = n())
    expect_identical(dim(counts), c(3L, 2L))
    expect_identical(names(counts), c("cyl", "n"))
    expect_identical(names(partition_join(p, counts, "cyl")), c(names(cars), "n"))
  })

  test_that("D4 A handle prints its first rows, with the columns' types", {
    width <- options(width = 40)
    on.exit(options(width))
    p <- partition_scatter(cl, cars, parts = 5)
    out <- utils::capture.output(print(p, n = 2))
    expect_match(out[1], "^muster partition: 32 rows, .*5 parts on worker ")
    expect_identical(out[-1], c(
      "name            mpg   cyl  disp    hp",
      "<chr>         <dbl> <dbl> <dbl> <dbl>",
      "Mazda RX4        21     6   160   110",
      "Mazda RX4 Wag    21     6   160   110",
      "and 7 more columns: drat <dbl>, wt",
      "<dbl>, qsec <dbl>, vs <dbl>, am <dbl>,",
      "gear <dbl>, carb <dbl>"
    ))
    odd <- data.frame(s = c("a\nb", NA, strrep("long ", 9)), f = factor(c("u", NA, "v")))
    odd$l <- list(1, 1:3, mtcars)
    odd$m <- matrix(1:6, 3)
    odd$t <- as.POSIXct("2026-01-01", tz = "UTC")
    options(width = 120)
    expect_identical(utils::capture.output(partition_scatter(cl, odd, parts = 2))[-1], c(
      "s                              f                     l         m          t",
      "<chr>                          <fct>            <list> <int[,2]>  <POSIXct>",
      "a\\nb                          u             <dbl [1]> <int [2]> 2026-01-01",
      "NA                             NA            <int [3]> <int [2]> 2026-01-01",
      "long long long long long lo... v     <data frame [11]> <int [2]> 2026-01-01"
    ))
    none <- partition_scatter(cl, odd[0, ], parts = 1)
    expect_length(utils::capture.output(none), 3L)
    expect_length(utils::capture.output(partition_scatter(cl, data.frame())), 1L)
    expect_length(utils::capture.output(unserialize(serialize(p, NULL))), 1L)
  })

  test_that("D9 Names are those of the first part that has rows", {
    p <- partition_scatter(cl, data.frame(x = 1:6), parts = 3)
    q <- partition_map(p, function(part) if (part$x[1L] < 3L) data.frame() else cbind(part, y = 1))
    expect_identical(names(q), c("x", "y"))
    expect_identical(dim(partition_map(p, function(part) data.frame())), c(0L, 0L))
  })

  test_that("D9 A copy knows its rows, and no columns", {
    p <- partition_scatter(cl, cars, parts = 5)
    copy <- unserialize(serialize(p, NULL))
    expect_identical(dim(copy), c(32L, NA))
    expect_null(names(copy))
    expect_error(head(copy), class = "muster_error_input")
    expect_error(copy["mpg"], class = "muster_error_input")
  })

  test_that("D9 head() and tail() are those of the data", {
    p <- partition_scatter(cl, cars, parts = 5)
    plain <- function(x) {
      rownames(x) <- NULL
      x
    }
    for (n in c(6, 0, 1, 7, 31, 32, 40, -1, -30, -50)) {
      expect_identical(head(p, n), head(cars, n), info = n)
      expect_identical(tail(p, n), plain(tail(cars, n)), info = n)
    }
    expect_identical(head(p), head(cars))
    none <- partition_map(p, function(part) part[part$cyl == 5, ])
    expect_identical(head(none), cars[0, ])
    expect_error(head(p, NA), class = "muster_error_input")
    expect_error(tail(p, "1"), class = "muster_error_input")
  })

  test_that("D9 `[` chooses columns as of a data frame, and nothing else", {
    p <- partition_scatter(cl, cars, parts = 5)
    for (i in list("mpg", c("wt", "name"), 1:3, -1, c(TRUE, FALSE), character(), 12L)) {
      expect_identical(partition_collect(p[i]), cars[i], info = deparse(i))
    }
    expect_identical(partition_collect(p[, 2:3]), cars[2:3])
    expect_identical(partition_collect(p[]), cars)
    expect_error(p[1, ], "only columns", class = "muster_error_input")
    expect_error(p["nothing"], "`nothing`", class = "muster_error_input")
    expect_error(p[13], "`13`", class = "muster_error_input")
    expect_error(p[c("mpg", "mpg")], class = "muster_error_input")
    none <- partition_map(p, function(part) part[part$cyl == 5, ])
    expect_identical(partition_collect(none["mpg"]), cars[0, "mpg", drop = FALSE])
  })

  test_that("D9 str() and summary() tell of the data", {
    p <- partition_scatter(cl, cars[c("name", "mpg", "cyl")], parts = 5)
    shown <- capture.output(str(p))
    expect_match(shown[1L], "32 rows")
    expect_true(any(grepl("\\$ mpg *: num", shown)))
    want <- capture.output(summary(cars[c("name", "mpg", "cyl")]))
    expect_identical(capture.output(summary(p)), want)
  })

  test_that("D6 Groups that draw random numbers repeat them on any number of workers", {
    draws <- function(cl, ...) {
      p <- partition_scatter(cl, cars, parts = 5)
      fun <- function(group) list(a = runif(1), b = rnorm(1))
      got <- partition_collect(partition_reduce(p, "carb", fun, ..., .parts = 3))
      got[order(got$carb), ]
    }
    before <- get0(".Random.seed", globalenv())
    first <- draws(cl, .seed = 7)
    expect_identical(draws(cl, .seed = 7), first)
    expect_identical(draws(cl[1], .seed = 7), first)
    expect_false(identical(draws(cl, .seed = 8)$a, first$a))
    expect_identical(get0(".Random.seed", globalenv()), before)
    # Each group has a stream of its own.
    expect_identical(anyDuplicated(c(first$a, first$b)), 0L)
    expect_false(identical(draws(cl)$a, draws(cl)$a))
    expect_error(draws(cl, .seed = "x"), class = "muster_error_input")
    expect_error(draws(cl, .speculate = NA), class = "muster_error_input")
  })

  test_that("D6 What `.combine` draws repeats too, and differs from what the function draws", {
    draws <- function(cl, seed) {
      p <- partition_scatter(cl, data.frame(k = rep(1:3, 40), x = 1), parts = 4)
      got <- partition_collect(partition_reduce(p, "k",
        function(g) list(sum = sum(g$u), own = runif(1)),
        .combine = function(g) list(u = runif(1)), .seed = seed
      ))
      got[order(got$k), ]
    }
    first <- draws(cl, 1)
    expect_identical(draws(cl[2], 1), first)
    expect_false(any(first$own %in% first$sum))
  })

  test_that("D6 map_reduce() repeats what elements and keys draw", {
    run <- function(cl, ...) {
      got <- map_reduce(cl, 1:20, function(i) list(key = i %% 3, value = runif(1)),
        function(key, values) sum(values) + runif(1), ...,
        .parts = 6
      )
      got[order(got$key), ]
    }
    first <- run(cl, .seed = 3)
    expect_identical(run(cl[1], .seed = 3), first)
    expect_false(identical(run(cl)$value, run(cl)$value))
    expect_error(run(cl, .seed = NA), class = "muster_error_input")
  })

  test_that("D6 Draws are the same after the loss of a worker", {
    cl <- local_cluster(2)
    p <- partition_scatter(cl, cars, parts = 5)
    q <- partition_reduce(p, "cyl", function(group) runif(1), .seed = 5)
    first <- partition_collect(q)
    pid <- cl[[1]]$pid
    tools::pskill(pid, tools::SIGKILL)
    wait_until(!identical(cluster_status(cl)$pid[1], pid))
    expect_identical(partition_collect(q), first)
  })
})

# An error in one part cancels those that others are making.
test_cluster("D4 An error costs no worker and no part, whatever the others were changing", {
  cl <- local_cluster(2)
  local_globals()
  clusterEvalQ(cl, changed <- "before")
  p <- partition_scatter(cl, data.frame(x = 1:8), parts = 8)
  q <- partition_map(p, function(part) part)
  pids <- cluster_status(cl)$pid
  folder <- local_folder()
  fails <- function(part, folder) {
    changed <<- part$x
    made <<- part$x
    file.create(file.path(folder, part$x))
    # Both workers are in the middle before one fails.
    while (length(list.files(folder)) < 2L) Sys.sleep(0.01) # tidy: the worker's work
    if (part$x == min(as.integer(list.files(folder)))) stop("no such part")
    repeat Sys.sleep(0.01) # tidy: until it is cancelled
  }
  for (round in 1:3) {
    expect_error(partition_map(q, fails, folder), "no such part", class = "muster_error_remote")
    state <- clusterEvalQ(cl, list(changed, exists("made")))
    expect_identical(state, rep(list(list("before", FALSE)), 2L))
    expect_false(grepl("lost", format(q)))
    unlink(file.path(folder, 1:8))
  }
  expect_identical(cluster_status(cl)$pid, pids)
  expect_identical(partition_collect(q), data.frame(x = 1:8))
})

test_cluster("D4 What a function assigns stays if it gives its part", {
  cl <- local_cluster(1)
  local_globals()
  p <- partition_scatter(cl, data.frame(x = 1:2), parts = 2)
  partition_map(p, function(part) {
    seen <<- c(get0("seen", globalenv()), part$x)
    part
  })
  expect_setequal(clusterEvalQ(cl, seen)[[1L]], 1:2)
})
