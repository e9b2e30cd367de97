# What partition_summarise() folds, and what it leaves to whole groups.

plan_one <- function(code, columns = c("x", "y", "s", "n"), env = parent.frame(), ...) {
  plan_results(list(list(name = "r", code = code, env = env)), columns, ...)
}
folds <- function(code, env = parent.frame()) {
  !is.null(plan_one(code, env = env)$results[[1L]]$code)
}
with_all <- function(...) {
  env <- new.env(parent = globalenv())
  list2env(list(...), env)
}

test_that("Aggregates fold, of expressions and in expressions", {
  limit <- 3
  several <- 1:3
  thing <- list(a = 1)
  for (code in expression(
    n(), sum(x), sum(x, na.rm = TRUE), mean(x * y), max(x) - min(y), sum(x * y) / sum(y), sd(x)^2,
    mean(x > limit, na.rm = TRUE), sum(ifelse(is.na(x), 0, x)), any(s == "a"), all(!is.na(s)),
    first(s), last(x), n_distinct(s), n_distinct(s, na.rm = TRUE), sum(s %in% c("a", "b")),
    round(mean(x), 2), ifelse(n() > 5, mean(x), NA), sum(x > -1), stats::sd(x), base::sum(x),
    sum(base::abs(x)), max(x = y), min(na.rm = TRUE, x), sum(x < limit + 1), 5, "a", limit,
    dplyr::n(), mean(x) %in% 1:3, sum(substr(s, 1, 2) == "ab"), log(sum(x), base = 2),
    sum(x > thing$a), sum(x > thing[["a"]]), mean(x) > several[2]
  )) {
    expect_true(folds(code), info = deparse(code))
  }
})

test_that("What isn't known to be the same for all rows at once is left to whole groups", {
  several <- 1:3
  limit <- 3
  thing <- list(a = 1)
  for (code in expression(
    sum(ifelse(TRUE, x, y)), 2 * ifelse(limit > 1, mean(x), sum(x)), sum(substr("abc", x, x) == s),
    sum(`%in%`(table = x, x = 3)), sum(ifelse(yes = x, test = y > 1, no = 1)),
    median(x), x, x[1], sum(x[1]), sum(x, y), mean(x, 0.1), mean(x, trim = 0.1),
    max(x, 3), sum(x > several), sum(x > nowhere), sum(x > thing$b), var(x, y), cor(x, y),
    sum(x, na.rm = NA), sum(x, na.rm = y), n(x), first(x, 1), sum(rev(x)), sum(x - mean(x)),
    local(sum(x)), sapply(1, function(i) sum(x)), (function() sum(x))(), if (n() > 1) sum(x),
    { sum(x) }, quote(sum(x)), sum(x > rnorm(1)), n_distinct(x, y), sum(x %in% y), sum(x && y),
    mean(x) + x, list(sum(x)), sum(x)[1], first(s, order_by = x), NULL, sum(x)$a, mean
  )) {
    expect_false(folds(code), info = deparse(code))
  }
})

test_that("Functions of the user's own are what code calls", {
  for (name in c("sum", "n", "+", "ifelse", "first", "mean", "sd", "(")) {
    env <- with_all(f = 1)
    assign(name, function(...) "own", env)
    code <- quote(sum(ifelse((x + 1) > 2, 1, 0)) + n() + first(x) + mean(x) + sd(x))
    expect_false(folds(code, env), info = name)
    expect_true(folds(code, with_all(other = 1)))
  }
  expect_false(folds(quote(sd(x)), with_all(sd = stats::mad)))
  expect_false(folds(quote(sd(x)), with_all(sd = stats::var)))
  expect_false(folds(quote(mean(x)), with_all(mean.numeric = function(x, ...) 42)))
  expect_false(folds(quote(mean(x)), with_all(mean.default = function(x, ...) 42)))
  expect_identical(plan_one(quote(n() + median(x)))$results[[1L]]$own, "n")
  env <- with_all(n = function() 7)
  expect_identical(plan_one(quote(n() + median(x)), env = env)$results[[1L]]$own, character())
  # Variables of these names are no functions.
  expect_true(folds(quote(sum(x) / n()), with_all(sum = 1, n = 2)))
})

test_that("Results before are variables, and hide columns", {
  env <- globalenv()
  exprs <- list(
    list(name = "m", code = quote(mean(x)), env = env),
    list(name = "y", code = quote(m * 2), env = env),
    list(name = "z", code = quote(sum(y)), env = env),
    list(name = "w", code = quote(z + 1), env = env),
    list(name = "v", code = quote(m + y + sum(x)), env = env)
  )
  results <- plan_results(exprs, c("x", "y"))$results
  expect_identical(results[[2L]]$code, quote(r1 * 2))
  expect_identical(results[[3L]][c("needs", "before")], list(needs = character(), before = "y"))
  expect_identical(results[[4L]]$before, "z")
  expect_identical(results[[5L]]$code, quote(r1 + r2 + a2))
})

test_that("Folds that several expressions use are made once", {
  env <- globalenv()
  codes <- expression(mean(x), sum(x), sd(x), var(x), n(), mean(x) + n(), sum(x * 2), max(x))
  exprs <- lapply(codes, function(code) list(name = deparse(code), code = code, env = env))
  plan <- plan_results(exprs, "x")
  kinds <- vapply(plan$folds, `[[`, "", "kind")
  expect_identical(sort(kinds), sort(c("sum", "count", "square", "sum", "max")))
  expect_identical(plan$codes, list(quote(x), quote(x * 2)))
  expect_identical(plan$aggregates[[1L]]$results, c(1L, 6L))
  expect_length(plan_one(quote(max(1 / (x * 0)) + max(1 / (x * -0))))$codes, 2L)
})

test_that("Only columns that are named are needed, or all", {
  plan <- plan_one(quote(median(x) + sum(get("y"))))
  expect_identical(plan$results[[1L]]$needs, c("x", "y"))
  expect_identical(plan_one(quote(median(x)), all = TRUE)$columns, c("x", "y", "s", "n"))
  expect_identical(plan_one(quote(sum(x * y)))$columns, c("x", "y"))
  expect_identical(plan_one(quote(sum(x)), whole = 1L)$results[[1L]]$needs, "x")
})

test_that("Pronouns name columns where code is folded, and stay elsewhere", {
  name <- "y"
  code <- quote(sum(.data$x) + max(.data[["y"]]) + mean(.data[[name]]))
  plan <- plan_one(code)
  expect_identical(plan$codes, list(quote(x), quote(y)))
  codes <- expression(
    median(.data$x), median(.data[["x"]]), median(.data[[name]]),
    sapply("x", function(name) .data[[name]])
  )
  needs <- lapply(codes, function(code) plan_one(code)$results[[1L]]$needs)
  all <- c("x", "y", "s", "n")
  expect_identical(needs, list("x", "x", all, all))
})

test_that("Rows' values are those of R for each row alone", {
  local_seed(1)
  pick <- function(x) x[sample.int(length(x), 40, TRUE)]
  columns <- list(
    x = pick(c(1.5, -2, 0, NA, Inf)), i = pick(c(-3:3, NA)), b = pick(c(TRUE, FALSE, NA)),
    s = pick(c("a", "Bc", "", NA)), f = factor(pick(c("u", "v", NA))),
    d = pick(as.Date("2020-02-28") + c(0:3, NA)),
    t = pick(as.POSIXct("2020-02-28", tz = "UTC") + c(0, 1, NA))
  )
  day <- as.Date("2020-03-01")
  codes <- c(
    expression(
      x + i, -x, x %/% 2, i %% 3L, !b, b & i > 0, xor(b, i > 0), pmin(x, i),
      pmax(x, 0, na.rm = TRUE),
      ifelse(b, x, x + 1), is.na(x), is.na(s), is.na(f), is.na(d), x == i,
      s == "a", s < "b", f == "u",
      f != "v", s %in% "a", f %in% "u", nchar(s), substr(s, 1, 1), startsWith(s, "B"),
      toupper(s), round(x / 3, 1), sign(x), d - d, ifelse(b, x, NA), x * ifelse(b, x, 0),
      endsWith(s, s), log(i, base = 3), as.integer(b), abs(i), is.finite(x), (x), exp(i),
      d < "2020-03-01", as.numeric(i) / 2, d + 1, 2 + d, t - i, as.numeric(d), ifelse(b, s, NA)
    ),
    bquote(s %in% .(c("a", NA))), bquote(d >= .(day)), bquote(d == .(day)),
    bquote(t > .(as.POSIXct("2020-02-28", tz = "UTC")))
  )
  for (code in codes) {
    got <- suppressWarnings(rows_value(code, columns, 40L))
    want <- suppressWarnings(vapply(seq_len(40L), function(k) {
      list(eval(code, lapply(columns, `[`, k)))
    }, list(1)))
    expect_identical(got, do.call(c, want), info = deparse(code))
  }
  other <- expression(
    s + 1, 1 - d, d + d, t - t, as.integer(f), f < "u", f == f, d == s, mean(x), s %in% d, !s,
    nchar(f), nchar(x), f + 1, ifelse(b, f, f), ifelse(b, x, i), nchar(ifelse(b, s, NA)),
    startsWith(x, "a"), 2 * ifelse(TRUE, x, 1)
  )
  for (code in other) {
    expect_error(rows_value(code, columns, 40L), class = "muster_not_by_row", info = deparse(code))
  }
})
