# Aggregates as workers fold them, without a cluster.

test_that("Aggregates are the same, to the last bit, whether rows are folded before they travel", {
  local_seed(31)
  n <- 3000
  x <- data.frame(g = sample(700, n, TRUE), v = sample(c(rnorm(50), NA, NaN, Inf), n, TRUE))
  plan <- text_plan(c(
    n = "n()", s = "sum(v)", t = "sum(v, na.rm = TRUE)", m = "mean(v)",
    u = "mean(v, na.rm = TRUE)", low = "min(v, na.rm = TRUE)", high = "max(v, na.rm = TRUE)",
    worst = "min(v)"
  ), names(x))
  expect_identical(rows_left(groups_guess(x["g"], n), n), n)
  folded <- fold_partial(x, "g", plan)
  expect_lt(nrow(folded), 701)
  as_they_are <- fold_unfolded(x, "g", plan)
  expect_identical(nrow(as_they_are), 3000L)
  expect_identical(names(as_they_are), names(folded))
  expect_identical(
    fold_final(as_they_are, "g", plan), fold_final(folded, "g", plan)
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
  plan <- text_plan(c(
    first = "min(day, na.rm = TRUE)", day = "mean(day)", last = "max(time, na.rm = TRUE)",
    all = "sum(wait, na.rm = TRUE)", mean = "mean(wait)"
  ), names(x))
  folded <- fold_final(fold_partial(x, "g", plan), "g", plan)
  expect_identical(fold_final(fold_unfolded(x, "g", plan), "g", plan), folded)
  expect_s3_class(folded$day, "Date")
  expect_identical(attr(folded$last, "tzone"), "Asia/Tokyo")
  expect_identical(units(folded$all), "hours")
})

test_that("Rows are folded before they travel if that leaves at most half of them", {
  local_seed(32)
  few <- function(g) is.finite(rows_left(groups_guess(list(g), length(g)), length(g)))
  n <- 50000
  expect_true(few(sample(100, n, TRUE)))
  expect_true(few(sample(n / 4, n, TRUE)))
  expect_false(few(sample(n, n, TRUE)))
  expect_false(few(as.character(seq_len(n))))
  expect_true(few(rep(seq_len(n / 10), each = 10)))
})

test_that("Parts without rests meet parts that have some, and infinities stay", {
  what <- c(s = "sum(x)", m = "mean(x)", t = "sum(x, na.rm = TRUE)")
  plan <- text_plan(what, "x")
  values <- list(c(1e16, 1, 3, 5), c(1e16, 1, Inf, 2), c(-Inf, Inf, 7, NA), c(NaN, 1e308, 1e308, 1))
  for (x in values) {
    plain <- data.frame(g = c(1, 2, 3, 4), x = x)
    summed <- data.frame(g = rep(c(1, 2, 3, 4), 2), x = c(1e16, 1, 1e16, 1, 1, 1e-30, 1, 1e-30))
    parts <- list(fold_unfolded(plain, "g", plan), fold_partial(summed, "g", plan))
    # One has no rests, and a byte for each row; the other has real ones.
    expect_identical(vapply(parts, function(part) typeof(part[[3]]), ""), c("raw", "double"))
    all <- rbind(plain, summed)
    for (order in list(1:2, 2:1)) {
      got <- fold_final(bind_frames(parts[order]), "g", plan)
      got <- got[order(got$g), ]
      expect_equal(got$s, as.vector(tapply(all$x, all$g, sum)))
      expect_equal(got$m, as.vector(tapply(all$x, all$g, mean)))
      expect_equal(got$t, as.vector(tapply(all$x, all$g, sum, na.rm = TRUE)))
      expect_identical(is.na(got$s) & !is.nan(got$s), is.na(x) & !is.nan(x))
    }
  }
})

test_that("Sums are exact, and means within a unit in the last place, whatever cancels", {
  sums <- function(x) fold_in_parts(data.frame(g = 1, x = x), "g", c(s = "sum(x)"))$s
  expect_identical(sums(c(1e16, 1, -1e16)), 1)
  expect_identical(sums(rep(c(1e100, 1, -1e100), 1000)), 1000)
  expect_identical(sums(c(1e308, 1e308, -1e308)), 1e308)
  expect_identical(sums(c(1e308, 1e308)), Inf)
  expect_identical(sums(c(1, 2^-53, 2^-1074)), 1 + 2^-52)
  for (seed in 1:5) {
    local_seed(seed)
    g <- sample(5L, 600, TRUE)
    x <- data.frame(g = g, v = ill_conditioned(200, sample(c(40, 100, 400), 1)))
    part <- sample(4L, 600, TRUE)
    what <- c(s = "sum(v)", m = "mean(v)", n = "n()", low = "min(v)")
    got <- fold_in_parts(x, "g", what, part)
    for (i in seq_len(nrow(got))) {
      v <- x$v[x$g == got$g[i]]
      expect_true(is_exact_sum(v, got$s[i]), info = seed)
      expect_true(is_exact_mean(v, got$m[i]), info = seed)
      expect_identical(list(got$n[i], got$low[i]), list(length(v), min(v)))
    }
    # The same to the last bit, however rows are put into parts and what of them is folded.
    for (round in 1:3) {
      again <- fold_in_parts(x, "g", what, sample(round^3, 600, TRUE), 1:sample(20, 1))
      expect_identical(again[match(got$g, again$g), ], got, info = seed, ignore_attr = "row.names")
    }
  }
})

test_that("A sum that travels as several rows leaves other aggregates as they are", {
  x <- data.frame(
    g = rep(c("a", "b"), each = 4), v = c(1e300, 1e100, 1, 1e-100, 1:4),
    w = c(1e308, 1e308, 1e308, NA, 1e16, 1, 1, -1e16), i = c(NA, 2:8), b = NA
  )
  what <- c(
    s = "sum(v)", mw = "mean(w, na.rm = TRUE)", w = "sum(w, na.rm = TRUE)", n = "n()",
    low = "min(i)", high = "max(i, na.rm = TRUE)", m = "mean(i)", nb = "min(b)",
    b = "sum(b, na.rm = TRUE)"
  )
  parts <- fold_partial(x, "g", text_plan(what, names(x)))
  expect_gt(nrow(parts), 2L)
  got <- fold_in_parts(x, "g", what)
  want <- data.frame(
    g = c("a", "b"), s = c(1e300, 10), mw = c(1e308, 0.5), w = c(Inf, 2),
    n = c(4L, 4L), low = c(NA, 5L), high = c(4L, 8L), m = c(NA, 6.5), nb = NA_integer_,
    b = c(0L, 0L)
  )
  expect_identical(got, want)
  # -1e308 three times, from another part.
  less <- data.frame(g = "a", v = -1e300, w = rep(-1e308, 3), i = 0L, b = NA)
  both <- fold_in_parts(rbind(x, less), "g", what, rep(1:2, c(8, 3)))
  expect_identical(both$w, c(0, 2))
  expect_identical(both$mw, c(0, 0.5))
  expect_true(is_exact_sum(c(x$v[1:4], rep(-1e300, 3)), both$s[1]))
})

test_that("What isn't a number goes through sums as in R, and NA wins over NaN", {
  some <- c(1, -0, NA, NaN, Inf, -Inf, 1e308)
  cases <- expand.grid(a = some, b = some, c = some)
  x <- data.frame(g = rep(seq_len(nrow(cases)), 3), v = unlist(cases, use.names = FALSE))
  for (na_rm in c(FALSE, TRUE)) {
    what <- paste0(c(s = "sum", m = "mean", low = "min", high = "max"), "(v, na.rm = na_rm)")
    names(what) <- c("s", "m", "low", "high")
    got <- fold_in_parts(x, "g", what, rep(1:3, each = nrow(cases)), 2L)
    expect_identical(fold_in_parts(x, "g", what), got)
    apply_all <- function(f) {
      suppressWarnings(apply(cases, 1L, function(v) {
        value <- f(v, na.rm = na_rm)
        # Which of the two it is depends on the platform, for R.
        if (!na_rm && anyNA(v) && any(is.na(v) & !is.nan(v))) NA_real_ else value
      }))
    }
    expect_identical(got$s, apply_all(sum))
    expect_identical(got$low, apply_all(min))
    expect_identical(got$high, apply_all(max))
    # R's own means of three times 1e308 are out of range on some platforms.
    expect_equal(got$m, apply_all(function(v, na.rm) {
      if (na.rm) v <- v[!is.na(v)]
      if (!length(v)) NaN else sum(v / length(v))
    }))
    expect_identical(is.nan(got$m), is.nan(apply_all(mean)))
  }
  zeros <- data.frame(g = c(1, 1, 2, 2, 3), v = c(0, -0, -0, 0, -0))
  got <- fold_in_parts(zeros, "g", c(s = "sum(v)", low = "min(v)", high = "max(v)"))
  expect_identical(1 / got$s, c(Inf, Inf, Inf))
  expect_identical(1 / got$low, c(Inf, -Inf, -Inf))
  expect_identical(1 / got$high, c(Inf, -Inf, -Inf))
})

test_that("integer64 has sums, least and greatest of its own, past 2^53", {
  big <- int64_from(2^30)
  below <- int64_from(-2^30, 1)
  top <- int64_from(2^31 - 1, 2^32 - 1)
  x <- new_frame(list(g = c(1, 1, 1, 2, 2, 2, 3, 4), v = structure(
    c(big, int64(7), below, top, top, int64(-5), int64(NA), int64(3)), class = "integer64"
  )), 8L)
  what <- c(
    s = "sum(v, na.rm = TRUE)", low = "min(v)", high = "max(v)", m = "mean(v)", n = "n()",
    least = "min(v, na.rm = TRUE)"
  )
  # Past 2^63 in the middle is fine, at the end it is an error.
  minus <- int64_from(-2^31, 1)
  more <- new_frame(list(g = c(2, 2), v = structure(c(minus, minus), class = "integer64")), 2L)
  all <- bind_frames(list(x, more))
  for (unfolded in list(integer(), 1L, 1:3)) {
    got <- fold_in_parts(all, "g", what, c(1, 2, 2, 1, 1, 1, 3, 3, 2, 2), unfolded)
    expect_s3_class(got$s, "integer64")
    expect_identical(got$s, int64(8, -5, 0, 3))
    expect_identical(got$low, structure(c(below, minus, int64(NA), int64(3)), class = "integer64"))
    expect_identical(got$high, structure(c(big, top, int64(NA), int64(3)), class = "integer64"))
    expect_identical(got$least[3], top[1])
    expect_identical(got$m, c(8 / 3, -1, NA, 3))
    expect_identical(got$n, c(3L, 5L, 1L, 1L))
    expect_error(fold_in_parts(x, "g", what, rep(1:2, 4), unfolded), "past 2\\^63",
      class = "muster_part_error"
    )
  }
  expect_identical(fold_in_parts(x, "g", what["m"])$m[2], (2^64 - 5) / 3)
})

test_that("Parts whose column is integer, integer64 or NA alone give integer64", {
  kinds <- list(
    int64 = structure(c(int64_from(2^22), int64(NA)), class = "integer64"),
    integer = c(.Machine$integer.max, NA), logical = c(TRUE, NA), blank = c(NA, NA)
  )
  frames <- lapply(kinds, function(v) new_frame(list(g = 1:2, v = v), 2L))
  what <- c(
    s = "sum(v, na.rm = TRUE)", low = "min(v, na.rm = TRUE)", high = "max(v, na.rm = TRUE)",
    na = "sum(v)", m = "mean(v, na.rm = TRUE)"
  )
  plan <- text_plan(what, "v")
  for (order in list(1:4, 4:1, c(2, 1, 4, 3))) {
    for (fold in list(fold_partial, fold_unfolded)) {
      got <- fold_final(bind_frames(lapply(frames[order], fold, "g", plan)), "g", plan)
      expect_identical(got$s, structure(c(int64_from(2^22, 2^31), int64(0)), class = "integer64"))
      expect_identical(got$low[1], int64(1)[1])
      expect_identical(got$high, structure(
        c(int64_from(2^22), int64_from(-2^31, 1)), class = "integer64"
      ))
      expect_identical(got$na, int64(NA, NA))
      expect_identical(got$m, c((2^54 + 2^31) / 3, NaN))
    }
  }
  # Sums of integers past 2^31 stay exact, and become doubles without integer64.
  x <- data.frame(g = 1, v = rep(.Machine$integer.max, 5))
  part <- c(1, 1, 2, 2, 2)
  expect_identical(fold_in_parts(x, "g", c(s = "sum(v)"), part)$s, 5 * (2^31 - 1))
  expect_identical(fold_in_parts(x, "g", c(s = "sum(v)"), part, 1L)$s, 5 * (2^31 - 1))
})

test_that("Key, column and result may have any name that occurs inside", {
  others <- c(inner_names[-1], inner_names[1])
  for (i in seq_along(inner_names)) {
    key <- inner_names[i]
    column <- others[i]
    x <- list(c(1, 1, 2, 3), c(10, NA, 30, 40), 1:4)
    names(x) <- c(key, column, "something else")
    result <- c("something else", "s", column)
    call <- function(how, more) {
      paste0(how, "(", deparse(as.name(column), backtick = TRUE), more, ")")
    }
    what <- c(call("sum", ", na.rm = TRUE"), call("mean", ""), call("min", ", na.rm = TRUE"))
    names(what) <- result
    got <- fold_in_parts(new_frame(x, 4L), key, what, c(1, 2, 1, 2), 2L)
    want <- list(c(1, 2, 3), c(10, 30, 40), c(NA, 30, 40), c(10, 30, 40))
    names(want) <- c(key, result)
    expect_identical(as.list(got), want, info = key)
  }
})

test_that("What folds can't give is left to whole groups, and columns are known by name", {
  x <- new_frame(list(
    g = 1:2, m = matrix(1:4, 2), f = data.frame(a = 1:2), s = c("a", "b"), l = list(1, 2),
    day = as.Date("2020-01-01") + 0:1, fac = factor(1:2), z = complex(2), i = I(1:2),
    im = I(matrix(1:4, 2)), a = array(1:2), far = c(1, 1e200), d = 1:2, d = 3:4
  ), 2L)
  refuse <- function(text) {
    error <- expect_error(fold_in_parts(x, "g", c(n = "n()", r = text)),
      class = "muster_part_replan", info = text
    )
    expect_identical(error$whole, 2L, info = text)
  }
  for (name in c("m", "f", "s", "l", "fac", "z", "i", "im")) {
    for (how in c("sum", "mean", "min", "max", "var")) refuse(paste0(how, "(", name, ")"))
  }
  for (text in c("sum(day)", "sd(day)", "any(a)", "first(l)", "n_distinct(m)", "var(far)")) {
    refuse(text)
  }
  for (text in c("sum(s + 1)", "sum(day + day)", "sum(fac < \"a\")", "sum(startsWith(a, \"b\"))")) {
    refuse(text)
  }
  expect_error(fold_in_parts(x, "g", c(r = "sum(d)")), "two columns `d`",
    class = "muster_part_error"
  )
  want <- data.frame(g = 1:2, s = c("a", "b"), a = 1:2)
  what <- c(s = "first(s)", a = "max(a)")
  expect_identical(fold_in_parts(x, "g", what), want)
  expect_identical(fold_in_parts(x, "g", what, 1:2, 1:2), want)
})

test_that("Data without rows, or without columns, has results without rows and all columns", {
  what <- c(s = "sum(v)", m = "mean(v, na.rm = TRUE)", low = "min(v)", n = "n()")
  x <- data.frame(g = factor("a", levels = c("b", "a")), v = as.difftime(1, units = "mins"))[0, ]
  plan <- text_plan(what, names(x))
  for (fold in list(fold_partial, fold_unfolded)) {
    got <- fold_final(fold(x, "g", plan), "g", plan)
    expect_identical(got, data.frame(g = x$g, s = x$v, m = x$v, low = x$v, n = integer()))
  }
  none <- fold_final(fold_partial(empty_frame(), "g", plan), "g", plan)
  expect_identical(names(none), c("g", names(what)))
  # They take the types of parts that have rows.
  full <- data.frame(g = "a", v = as.Date("2020-01-01"))
  what <- c(low = "min(v)", m = "mean(v)")
  plan <- text_plan(what, names(x))
  frames <- lapply(list(empty_frame(), full), fold_partial, "g", plan)
  expect_identical(
    fold_final(bind_frames(frames), "g", plan), data.frame(g = "a", low = full$v, m = full$v)
  )
})
