test_that("A part without rows may lack columns; one with rows may not", {
  some <- data.frame(k = 1:2, v = 3:4)
  keys <- data.frame(k = 1L)[0, , drop = FALSE]
  expect_identical(bind_frames(list(keys, some, empty_frame(), keys)), some)
  expect_identical(bind_frames(list(keys, some[0, ])), some[0, ])
  expect_identical(bind_frames(list(empty_frame(), keys)), keys)
  expect_error(bind_frames(list(some, some[1])), "different columns", class = "muster_part_error")
  other <- data.frame(k = 1L, w = 1)[0, ]
  error <- expect_error(bind_frames(list(other, some), 5:6), class = "muster_part_error")
  expect_match(conditionMessage(error), "5 and 6 have different columns: `k`, `w` and `k`, `v`")
  # Rows without columns aren't dropped without a word.
  bare <- new_frame(stats::setNames(list(), character()), 3L)
  expect_error(bind_frames(list(bare, some)), "different columns", class = "muster_part_error")
  expect_identical(dim(bind_frames(list(bare, bare))), c(6L, 0L))
})

test_that("A range of rows is what these rows are, of columns of any kind", {
  x <- new_frame(list(
    i = c(1:5, NA), d = c(NaN, NA, -0, 1, Inf, 2), l = c(TRUE, NA, FALSE, TRUE, NA, NA),
    s = c("a", NA, "\u00e4", "", "b", "c"), r = as.raw(0:5), z = complex(6, 1:6, 6:1),
    named = c(a = 1, b = 2, c = 3, d = 4, e = 5, f = 6), day = as.Date("2020-01-01") + 0:5,
    few = factor(c("x", "y", NA, "x", "z", "z"), c("z", "y", "x")), list = as.list(1:6),
    lists = I(as.list(letters[1:6])), m = matrix(1:12, 6), long = int64(1, NA, 3, 4, 5, 6),
    coded = .Call(ffi_coded, rep(c("p", "q"), 3L)), seq = 11:16
  ), 6L)
  for (range in list(c(1, 6), c(3, 2), c(6, 1), c(7, 0), c(1, 0))) {
    rows <- as.integer(range[1L] - 1) + seq_len(range[2L])
    expect_identical(take_range(x, range[1L], range[2L]), take_rows(x, rows))
  }
  for (range in list(c(0, 1), c(6, 2), c(8, 0), c(-1, 3))) {
    expect_error(take_range(x["i"], range[1L], range[2L]), "out of range")
  }
})

test_that("Two columns of one name are no key, and I() stays", {
  twice <- new_frame(list(k = 1:2, k = 3:4), 2L)
  expect_error(key_columns(twice, "k"), "two columns `k`", class = "muster_part_error")
  expect_error(key_columns(twice, "q"), "no column `q`", class = "muster_part_error")
  lists <- I(list(1, "a"))
  expect_identical(bind_columns(list(lists, lists)), I(c(unclass(lists), unclass(lists))))
  expect_identical(bind_columns(list(I(1:2), I(3L))), I(1:3))
})

test_that("integer64 meets integers and doubles by its bits, also where package bit64 is loaded", {
  testthat::skip_if_not_installed("bit64") # loads it
  expect_identical(bind_columns(list(int64(5, NA), 3L, NA)), int64(5, NA, 3, NA))
  expect_identical(bind_columns(list(int64(5, NA), 0.5)), c(5, NA, 0.5))
})

test_that("A column of NA alone takes the form of a matrix or data frame that it meets", {
  m <- matrix(1:4, 2)
  expect_identical(bind_columns(list(c(NA, NA), m)), rbind(c(NA, NA), c(NA, NA), m))
  expect_identical(bind_columns(list(m, NA)), rbind(m, NA))
  f <- data.frame(a = 1:2, b = c("x", "y"))
  bound <- bind_columns(list(NA, f))
  expect_identical(bound$b, c(NA, "x", "y"))
  expect_identical(dim(bound), c(3L, 2L))
})

test_cluster("Rows are the same whether they travel as plain columns or by R's serialization", {
  cl <- local_cluster(2)
  local_seed(105)
  n <- 3000L
  pick <- function(x) x[sample.int(length(x), n, TRUE)]
  time <- as.POSIXct("2020-01-01", tz = "Asia/Tokyo")
  data <- data.frame(
    k = sample(40L, n, TRUE), i = pick(c(1:5, NA)), d = pick(c(0.5, -0, NA, NaN, Inf)),
    l = pick(c(TRUE, FALSE, NA)), s = pick(c("a", "\u00e4", "", NA)),
    day = pick(as.Date(time) + 0:5),
    time = pick(time + 1:5), gap = pick(as.difftime(c(1, NA), units = "hours")),
    few = pick(factor(c("z", "a", NA))),
    rank = pick(factor(c("z", "a"), c("z", "a"), ordered = TRUE)),
    many = factor(sample(sprintf("level %d", 1:500), n, TRUE)), own = structure(1:n, unit = "m")
  )
  data$r <- as.raw(data$k)
  data$long <- int64_from(seq_len(n), n:1)
  data$own2 <- structure(as.double(1:n), class = "metres", from = list("here", 1))
  plain <- partition_shuffle(partition_scatter(cl, data, parts = 5), "k", parts = 7)
  data$list <- as.list(seq_len(n)) # isn't plain
  by_r <- partition_shuffle(partition_scatter(cl, data, parts = 5), "k", parts = 7)
  got <- partition_collect(plain)
  expect_identical(got, partition_collect(by_r)[names(got)])
  expect_identical(nrow(got), n)
})
