test_that("Aggregates are the same, to the last bit, whether rows are folded before they travel", {
  local_seed(31)
  n <- 3000
  x <- data.frame(g = sample(700, n, TRUE), v = sample(c(rnorm(50), NA, NaN, Inf), n, TRUE))
  aggregates <- parse_aggregates(c(
    n = "n()", s = "sum(v)", t = "sum(v, na.rm = TRUE)", m = "mean(v)",
    u = "mean(v, na.rm = TRUE)", low = "min(v, na.rm = TRUE)", high = "max(v, na.rm = TRUE)",
    worst = "min(v)"
  ), NULL)
  expect_true(has_few_groups(x, "g"))
  folded <- fold_partial(x, "g", aggregates)
  expect_lt(nrow(folded), 701)
  as_they_are <- fold_nothing(x, "g", aggregates)
  expect_identical(nrow(as_they_are), 3000L)
  expect_identical(names(as_they_are), names(folded))
  expect_identical(
    fold_final(as_they_are, "g", aggregates), fold_final(folded, "g", aggregates)
  )
})

test_that("So are those of dates, times and differences, with their class", {
  local_seed(33)
  n <- 500
  x <- data.frame(
    g = sample(50, n, TRUE), day = as.Date("2020-01-01") + sample(c(0:9, NA), n, TRUE),
    time = as.POSIXct("2020-01-01", tz = "Asia/Tokyo") + sample(c(0:9, NA), n, TRUE),
    wait = as.difftime(sample(c(1:9, NA), n, TRUE) / 2, units = "hours")
  )
  aggregates <- parse_aggregates(c(
    first = "min(day, na.rm = TRUE)", day = "mean(day)", last = "max(time, na.rm = TRUE)",
    all = "sum(wait, na.rm = TRUE)", mean = "mean(wait)"
  ), NULL)
  folded <- fold_final(fold_partial(x, "g", aggregates), "g", aggregates)
  expect_identical(fold_final(fold_nothing(x, "g", aggregates), "g", aggregates), folded)
  expect_s3_class(folded$day, "Date")
  expect_identical(attr(folded$last, "tzone"), "Asia/Tokyo")
  expect_identical(units(folded$all), "hours")
})

test_that("Rows are folded before they travel if that leaves at most half of them", {
  local_seed(32)
  few <- function(g) has_few_groups(data.frame(g = g), "g")
  n <- 50000
  expect_true(few(sample(100, n, TRUE)))
  expect_true(few(sample(n / 4, n, TRUE)))
  expect_false(few(sample(n, n, TRUE)))
  expect_false(few(as.character(seq_len(n))))
  expect_true(few(rep(seq_len(n / 10), each = 10)))
})
