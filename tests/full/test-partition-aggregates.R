# Aggregates on workers against base R, for all types of columns; sums against exact arithmetic in
# whole numbers; every name that occurs inside as that of a key, a column or a result. Each round
# has a seed of its own, which failures tell.

source("../testthat/helper-partition.R", local = TRUE)

# A column of n values with some that are missing or no numbers. Groups may lack any number.
value_column <- function(kind, n) {
  pick <- function(x) x[sample.int(length(x), n, replace = TRUE)]
  switch(kind,
    logical = pick(c(TRUE, FALSE, NA)),
    blank = rep(NA, n),
    integer = pick(c(-5:5, NA, .Machine$integer.max, -.Machine$integer.max)),
    double = pick(c(rnorm(20), 0, -0, 1e-320, 5e-324)),
    missing = pick(c(rnorm(5), NA)),
    nan = pick(c(rnorm(5), NaN)),
    infinite = pick(c(rnorm(5), Inf)),
    minus = pick(c(rnorm(5), -Inf)),
    infinities = pick(c(rnorm(5), Inf, -Inf)),
    large = pick(c(1.7e308, -1.7e308, 1e308, 1, 1e-300)),
    ill = ill_conditioned(n, sample(c(30, 100, 500), 1L))[seq_len(n)],
    date = pick(as.Date("2020-02-29") + c(0:5, NA)),
    whole_date = structure(pick(c(1:5, NA)), class = "Date"),
    time = pick(as.POSIXct("2020-02-29 12:00:00", tz = "Asia/Tokyo") + c(0, 0.5, NA, 60)),
    difftime = as.difftime(pick(c(1.5, 2, NA, 1e17, -1e17)), units = "hours"),
    as_is = I(pick(c(1.5, NA, 2)))
  )
}
value_kinds <- c(
  "logical", "blank", "integer", "double", "missing", "nan", "infinite", "minus", "infinities",
  "large", "ill", "date", "whole_date", "time", "difftime", "as_is"
)

# What base R gives for one group, as muster has it: numeric, without integers' range.
base_least <- function(f, v, na_rm) {
  class <- if (is_timed(v)) class(v)
  value <- suppressWarnings(f(as.numeric(unclass(v)), na.rm = na_rm))
  if (is.null(class)) value else restore_class(value, v)
}

expect_total <- function(got, v, na_rm, mean, info) {
  numbers <- as.numeric(unclass(v))
  got <- as.numeric(unclass(got))
  if (na_rm) numbers <- numbers[!is.na(numbers)]
  f <- if (mean) base::mean else sum
  if (!length(numbers)) {
    expect_identical(got, f(numbers), info = info)
  } else if (any(!is.finite(numbers))) {
    # NA and NaN together: base R's own result depends on the platform.
    want <- if (any(is.na(numbers) & !is.nan(numbers))) NA_real_ else f(numbers)
    expect_identical(got, want, info = info)
  } else {
    right <- if (mean) is_exact_mean(numbers, got) else is_exact_sum(numbers, got)
    expect_true(right, info = paste(info, deparse(numbers, control = "digits17")[1L]))
  }
}

expect_aggregates <- function(cl, kind, seed) {
  local_seed(seed)
  n <- sample(c(1L, 7L, 300L), 1L)
  data <- new_frame(list(g = sample.int(9L, n, TRUE), v = value_column(kind, n)), n)
  # Keys that are all different are sent as they are, others are folded.
  has_sum <- !kind %in% c("date", "whole_date", "time")
  what <- c(low = "min(v)", high = "max(v)", m = "mean(v)", if (has_sum) c(s = "sum(v)"))
  without <- sub("v", "v, na.rm = TRUE", what, fixed = TRUE)
  names(without) <- paste0(names(what), ".rm")
  what <- c(what, without, n = "n()")
  reduce <- function(data, cl, parts = sample.int(8L, 1L), to = 3) {
    partition_collect(summarise_text(partition_scatter(cl, data, parts), "g", what, .parts = to))
  }
  got <- reduce(data, cl)
  info <- paste("seed", seed, kind)
  expect_setequal(got$g, data$g)
  expect_identical(anyDuplicated(got$g), 0L)
  for (i in seq_along(got$g)) {
    v <- data$v[data$g == got$g[i]]
    expect_identical(got$n[i], length(v), info = info)
    for (rm in c(FALSE, TRUE)) {
      end <- if (rm) ".rm" else ""
      # Integers stay integers.
      least <- function(name) {
        value <- got[[paste0(name, end)]][i]
        if (is.object(value)) value else as.numeric(value)
      }
      expect_identical(least("low"), base_least(min, v, rm), info = info)
      expect_identical(least("high"), base_least(max, v, rm), info = info)
      expect_total(got[[paste0("m", end)]][i], v, rm, TRUE, info)
      if (has_sum) expect_total(got[[paste0("s", end)]][i], v, rm, FALSE, info)
    }
  }
  # The same to the last bit for one worker and for other parts.
  for (again in list(reduce(data, cl[1]), reduce(data, cl, 13, 3))) {
    expect_identical(again[match(got$g, again$g), ], got, info = info, ignore_attr = "row.names")
  }
  # Without rows: the same columns, of the same types, where values don't decide these: integers
  # past their range are numeric, as is the least of nothing.
  empty <- reduce(take_rows(data, integer()), cl)
  expect_identical(names(empty), names(got), info = info)
  decides <- c("logical", "blank", "integer", "as_is")
  if (!kind %in% decides) expect_identical(empty, take_rows(got, integer()), info = info)
}

for (kind in value_kinds) {
  test_cluster(paste("Aggregates of", kind, "columns are base R's, and sums exact"), {
    limit_time(60)
    cl <- local_cluster(2)
    for (seed in 1:12) expect_aggregates(cl, kind, seed)
  })
}

test_cluster("Sums are exact and the same to the bit for 1 to 3 workers, folded or not", {
  limit_time(60)
  cl <- local_cluster(3)
  for (seed in 1:4) {
    local_seed(seed)
    n <- 30000L
    # Of 20 groups most are folded; of 25,000 none is.
    for (groups in c(20L, 25000L)) {
      data <- data.frame(g = sample.int(groups, n, TRUE), v = ill_conditioned(n / 3, 300))
      run <- function(cl, parts) {
        p <- partition_scatter(cl, data, parts)
        got <- partition_collect(
          partition_summarise(p, .by = "g", s = sum(v), m = mean(v), n = n(), .parts = 5)
        )
        got[order(got$g), ]
      }
      want <- run(cl, 3)
      for (i in sample.int(nrow(want), 20L)) {
        v <- data$v[data$g == want$g[i]]
        expect_true(is_exact_sum(v, want$s[i]), info = seed)
        expect_true(is_exact_mean(v, want$m[i]), info = seed)
      }
      for (workers in 1:2) {
        for (parts in c(1, 3, 8)) {
          got <- run(cl[seq_len(workers)], parts)
          expect_identical(got, want, info = paste(seed, workers), ignore_attr = "row.names")
        }
      }
    }
  }
})

test_cluster("Keys, columns and results of any name that occurs inside are told apart", {
  limit_time(120)
  cl <- local_cluster(2)
  # Groups, aggregates, functions and joins of columns with these names.
  try_names <- function(key, column, result) {
    info <- paste(key, column, result)
    data <- stats::setNames(data.frame(c(1, 2, 1, 3), c(5, NA, 7, 8)), c(key, column))
    p <- partition_scatter(cl, data, parts = 2)
    text <- paste0("sum(", deparse(as.name(column), backtick = TRUE), ", na.rm = TRUE)")
    got <- partition_collect(summarise_text(p, key, stats::setNames(text, result)))
    want <- stats::setNames(data.frame(1:3 + 0, c(12, 0, 8)), c(key, result))
    expect_identical(sorted_rows(got), want, info = info)
    f <- function(d) stats::setNames(list(sum(d[[2]], na.rm = TRUE)), result)
    environment(f) <- list2env(list(result = result), parent = globalenv())
    got <- partition_collect(partition_reduce(p, key, f))
    expect_identical(sorted_rows(got), want, info = info)
    # It means something else to merge().
    if (key == "row.names") {
      return()
    }
    y <- stats::setNames(data.frame(2:4 + 0, 1:3), c(key, result))
    got <- partition_collect(partition_join(p, y, key, all = TRUE))
    want <- merge(data, y, by = key, all = TRUE)
    expect_identical(sorted_rows(got), sorted_rows(want), info = info)
  }
  shift <- function(x, k) x[(seq_along(x) + k - 1L) %% length(x) + 1L]
  names <- inner_names
  others <- shift(names, 1L)
  for (i in seq_along(names)) try_names(names[i], others[i], others[i])
  results <- shift(names, 2L)
  for (i in seq(1L, length(names), 3L)) try_names(names[i], others[i], results[i])
})

test_cluster("integer64 is summed as in package bit64, past 2^53", {
  testthat::skip_if_not_installed("bit64")
  limit_time(60)
  cl <- local_cluster(2)
  for (seed in 1:6) {
    local_seed(seed)
    n <- 500L
    upper <- sample(c(-2^28, 2^28, 2^20, -1, 0), n, TRUE) + sample.int(1000L, n, TRUE)
    v <- int64_from(upper, floor(runif(n, 0, 2^32)))
    # From either side of 0, so that sums stay in range.
    v[sample.int(n, 30L)] <- int64(NA)
    data <- new_frame(list(g = sample.int(40L, n, TRUE), v = v), n)
    got <- partition_collect(partition_summarise(partition_scatter(cl, data, 6),
      .by = g, s = sum(v, na.rm = TRUE), low = min(v, na.rm = TRUE), high = max(v, na.rm = TRUE),
      na = sum(v), m = mean(v, na.rm = TRUE)
    ))
    bits <- function(x) int64_halves(x)
    for (i in seq_along(got$g)) {
      x <- data$v[data$g == got$g[i]]
      kept <- x[!is.na(x)]
      # Its + is exact; its sum() is in a long double.
      total <- structure(0, class = "integer64")
      for (k in seq_along(kept)) total <- total + kept[k]
      expect_identical(bits(got$s[i]), bits(total), info = seed)
      expect_identical(bits(got$low[i]), bits(min(kept)), info = seed)
      expect_identical(bits(got$high[i]), bits(max(kept)), info = seed)
      want <- if (length(kept) == length(x)) total else int64(NA)
      expect_identical(bits(got$na[i]), bits(want), info = seed)
      about <- suppressWarnings(as.double(total)) / length(kept)
      expect_equal(got$m[i], about, tolerance = 1e-15, info = seed)
    }
  }
})
