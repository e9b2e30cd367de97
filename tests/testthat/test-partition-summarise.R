# partition_summarise(): expressions for each group, against R's own evaluation.

# Loading it sets options.
has_dplyr <- requireNamespace("dplyr", quietly = TRUE)

# What R gives for each group, in the order of the keys' first rows. exprs: code by name.
base_summaries <- function(data, by, exprs, env) {
  keys <- do.call(paste, data[by])
  groups <- match(keys, unique(keys))
  own <- list(
    n_distinct = function(x, na.rm = FALSE) length(unique(if (na.rm) x[!is.na(x)] else x)),
    first = function(x) x[1L], last = function(x) x[length(x)]
  )
  rows <- lapply(unique(groups), function(k) {
    group <- data[groups == k, , drop = FALSE]
    own$n <- function() nrow(group)
    place <- list2env(own, parent = env)
    done <- list()
    for (name in names(exprs)) {
      columns <- as.list(group)[setdiff(names(group), names(done))]
      value <- suppressWarnings(eval(exprs[[name]], c(done, columns), place))
      done[[name]] <- unname(value)
    }
    new_frame(c(as.list(group[1L, by, drop = FALSE]), done), 1L)
  })
  do.call(rbind, rows)
}

# Columns of each type that aggregates take, and some that they don't.
random_columns <- function(n) {
  pick <- function(x) x[sample.int(length(x), n, TRUE)]
  data.frame(
    k = pick(c("a", "b", "c", NA)), j = pick(1:3), x = pick(c(rnorm(20), NA)), y = rnorm(n) * 1e6,
    i = pick(c(-9:9, NA)), big = pick(c(2e9L, 1L)), b = pick(c(TRUE, FALSE, NA)), whole = TRUE,
    s = pick(c("u", "v", "", NA)),
    f = factor(pick(c("lo", "hi", NA)), levels = c("lo", "hi", "no")),
    d = pick(as.Date("2020-02-28") + c(0:3, NA)),
    t = pick(as.POSIXct("2020-03-29 00:30:00", tz = "Europe/Berlin") + 3600 * 0:4),
    w = as.difftime(pick(c(1:5, NA)), units = "mins")
  )
}

limit <- 0.5
exprs <- as.list(expression(
  n = n(), sx = sum(x), sy = sum(y, na.rm = TRUE), si = sum(i, na.rm = TRUE), sb = sum(b),
  mx = mean(x, na.rm = TRUE), my = mean(y), md = mean(d, na.rm = TRUE), mt = mean(t),
  mb = mean(whole),
  lo = min(i), hi = max(y), ld = min(d), lt = max(t), lw = max(w, na.rm = TRUE), sw = sum(w),
  vx = var(x, na.rm = TRUE), vy = var(y), sdi = sd(i, na.rm = TRUE), vb = var(whole), sdx = sd(x),
  a1 = any(b), a2 = any(b, na.rm = TRUE), a3 = all(b), a4 = all(b, na.rm = TRUE), a5 = all(whole),
  f1 = first(s), f2 = last(f), f3 = first(t), f4 = last(x), f5 = first(w),
  f6 = first(ifelse(b, i, -i)),
  u1 = n_distinct(s), u2 = n_distinct(x, na.rm = TRUE), u3 = n_distinct(d), u4 = n_distinct(f),
  e1 = mean(y > limit), e2 = sum(x * y, na.rm = TRUE) / n(), e3 = max(y) - min(y),
  e4 = sum(ifelse(is.na(x), 0, x)), e5 = mx * 2 + n,
  e6 = max(d, na.rm = TRUE) - min(d, na.rm = TRUE), e7 = sum(s %in% c("u", NA)),
  e8 = ifelse(n > 20, sy, NA), e9 = mean(d > "2020-02-28", na.rm = TRUE),
  w1 = median(y), w2 = quantile(y, 0.9), w3 = cor(y, seq_along(y)), w4 = paste(s[1], n()),
  w5 = sum(y[y > my]), w6 = coef(lm(y ~ j + I(seq_along(y))))[[1]],
  w7 = max(c("a", s), na.rm = TRUE), w8 = mode_of(f), w9 = range(t)[2], wa = x[which.max(y)],
  wb = y[1] > limit, wc = as.numeric(max(t) - min(t), "secs")
))
mode_of <- function(f) names(which.max(table(f)))

test_cluster("D8: Expressions give what R gives for each group, folded or not", {
  limit_time(100)
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
  here <- environment()
  for (seed in 1:6) {
    local_seed(seed)
    data <- random_columns(c(1L, 12L, 300L)[seed %% 3L + 1L])
    by <- list("k", c("k", "j"), "j")[[seed %% 2L + 1L]]
    want <- base_summaries(data, by, exprs, here)
    for (workers in 1:2) {
      p <- partition_scatter(cl[seq_len(workers)], data, parts = c(1L, 7L)[workers])
      got <- suppressWarnings(do.call(partition_summarise, c(list(p, .by = by), exprs)))
      if (workers == 2L) tools::pskill(node_pids(cl)[seed %% 2L + 1L], tools::SIGKILL)
      got <- partition_collect(got)
      at <- match(do.call(paste, want[by]), do.call(paste, got[by]))
      expect_identical(nrow(got), nrow(want), info = seed)
      for (name in names(want)) {
        expect_equal(got[[name]][at], want[[name]], info = paste(seed, workers, name),
          tolerance = 1e-12
        )
        if (is.atomic(want[[name]])) {
          expect_identical(class(got[[name]]), class(want[[name]]), info = paste(seed, name))
        }
      }
      if (workers == 1L) first <- got[at, ]
    }
    expect_identical(got[at, ], first, ignore_attr = "row.names", info = seed)
  }
})

test_cluster("What is summarised is found where the code was written", {
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(k = c(1, 1, 2), x = c(1, 2, 9), y = 3), parts = 2)
  get <- function(...) {
    got <- partition_collect(partition_summarise(...))
    got[order(got[[1L]]), , drop = FALSE]
  }
  limit <- 1
  expect_identical(get(p, .by = k, s = sum(x > limit))$s, c(1L, 1L))
  passed <- function(...) {
    limit <- 100
    x <- "mine"
    get(p, .by = k, a = sum(x > limit), ...)
  }
  expect_identical(passed(b = sum(x > limit)), get(p, .by = k, a = 0L * n(), b = sum(x > limit)))
  for (limit in c(0, 5)) {
    expect_identical(get(p, .by = k, m = median(x) > limit)$m, c(1.5, 9) > limit)
  }
  # The key: code, strings, or a variable with strings.
  key <- "k"
  want <- data.frame(k = c(1, 2), n = 2:1)
  for (got in list(
    get(p, .by = k, n = n()), get(p, .by = "k", n = n()), get(p, .by = key, n = n()),
    get(p, .by = c(k), n = n()), get(p, .by = paste0("", key), n = n())
  )) {
    expect_identical(got, want, ignore_attr = "row.names")
  }
  expect_identical(nrow(get(p, .by = c(k, "x"))), 3L)
  # Pronouns.
  x <- 50
  column <- "y"
  got <- get(p, .by = k, a = sum(x > .env$x), b = mean(.data[[column]]), c = median(.data$x))
  want <- data.frame(k = c(1, 2), a = 0L, b = 3, c = c(1.5, 9))
  expect_identical(got, want, ignore_attr = "row.names")
  # A name that is missing is the code.
  expect_named(get(p, .by = k, max(x) - 1), c("k", "max(x) - 1"))
  # Without a key: one group.
  expect_identical(get(p, n = n(), m = median(x)), data.frame(n = 3L, m = 2))
  none <- partition_map(p, function(d) d[d$x > 100, ])
  expect_identical(get(none, n = n(), s = sum(x), m = max(x)), data.frame(n = 0L, s = 0, m = -Inf))
  models <- get(p, .by = k, fit = list(lm(x ~ y)), mean = mean(x))
  expect_identical(base::get("x", environment(formula(models$fit[[2]]))), 9)
  expect_equal(coef(models$fit[[1]])[[1]], 1.5)
})

test_cluster("A column that is used and not named is found, and all travel then", {
  cl <- local_cluster(2)
  data <- data.frame(k = rep(1:2, 5000), x1 = 1:10, x2 = 11:20)
  p <- partition_scatter(cl, data, parts = 3)
  x1 <- x2 <- -1
  got <- function(...) partition_collect(partition_summarise(p, .by = k, ...))$r
  want <- as.numeric(tapply(data$x2, data$k, mean))
  expect_setequal(got(r = mean(get(paste0("x", 2)))), want)
  expect_setequal(got(r = tryCatch(mean(get(paste0("x", 2))), error = function(e) 0)), want)
  expect_setequal(got(q = mean(x1), r = eval(parse(text = "median(x2)"))), want)
  named <- partition_summarise(p, .by = k, r = median(x2))
  sent <- function(h) sum(stage_of(h)$far[[1L]]$bytes)
  all <- partition_summarise(p, .by = k, r = median(get(paste0("x", 2))))
  expect_lt(sent(named), 0.7 * sent(all))
})

test_cluster("Errors name the group, or are a row's", {
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(k = rep(1:4, 3), x = 1:12, s = "a"), parts = 2)
  refused <- function(text, ..., class = "muster_error_input") {
    expect_error(partition_summarise(p, ...), text, class = class)
  }
  refused("Group `k` = 3.*bad", .by = k, r = if (k[1] == 3) stop("bad") else 1,
    class = "muster_error_remote"
  )
  refused("Group `k` = .*invalid 'type'", .by = k, r = sum(s), class = "muster_error_remote")
  refused("`r` must be a single value for each group, not .*`k` = 2", .by = k,
    r = if (k[1] == 2) 1:2 else 1
  )
  refused("`r` must be a single value, not", r = range(x))
  refused("`r` must be a single value", .by = k, r = NULL[0])
  refused("`r` must be a single value", .by = k, r = data.frame(a = 1))
  refused("no column `z`", .by = z, r = n())
  refused("no column `z`; there are `k`", .by = k, r = .data$z)
  refused("no variable `zzz`", .by = k, r = sum(x > .env$zzz))
  refused("two columns `r`", .by = k, r = n(), r = n())
  refused("two columns `k`", .by = k, k = n())
  refused("Do you mean `.parts`", .by = k, .part = 2)
  refused("expressions, or a key", .by = NULL)
  refused("names of columns", .by = 1, r = n())
  refused("`.error` is for", .by = k, .error = n(), .on_error = "return")
  got <- partition_collect(partition_summarise(p,
    .by = k, n = n(), r = if (k[1] %% 2 == 0) stop("even") else list(x), .on_error = "return"
  ))
  got <- got[order(got$k), ]
  expect_identical(got$n, rep(3L, 4))
  expect_identical(got$.error, c(NA, "even", NA, "even"))
  expect_identical(got$r, list(c(1L, 5L, 9L), NULL, c(3L, 7L, 11L), NULL))
  fine <- partition_collect(partition_summarise(p, .by = k, n = n(), .on_error = "return"))
  expect_identical(fine$.error, rep(NA_character_, 4))
  expect_warning(partition_summarise(p, r = { warning("hm"); 1 }), "hm")
})

test_cluster("D6: Each group draws from a stream of its own, on any number of workers", {
  cl <- local_cluster(2)
  data <- data.frame(k = rep(1:20, 3), x = 1)
  draw <- function(cl, seed, parts = 4) {
    p <- partition_scatter(cl, data, parts = parts)
    partition_collect(partition_summarise(p,
      .by = k, n = n(), r = rnorm(1), q = runif(1), .seed = seed
    ))
  }
  got <- draw(cl, 7)
  expect_identical(draw(cl[1], 7), got)
  expect_identical(draw(cl, 7, parts = 4), got)
  expect_false(identical(draw(cl, 8)$r, got$r))
  expect_identical(anyDuplicated(c(got$r, got$q)), 0L)
})

test_cluster("integer64 columns are never taken for numbers", {
  testthat::skip_if_not_installed("bit64")
  cl <- local_cluster(2)
  data <- new_frame(list(k = c(1, 1, 2), v = int64(5, 6, 7)), 3L)
  p <- partition_scatter(cl, data, parts = 2)
  got <- partition_collect(partition_summarise(p,
    .by = k, s = sum(v), r = as.character(v[1L] + v[1L])
  ))
  got <- got[order(got$k), ]
  expect_identical(got$s, int64(11, 7))
  expect_identical(got$r, c("10", "14"))
})

test_cluster("integer64 totals are never taken for numbers either", {
  cl <- local_cluster(2)
  testthat::skip_if_not_installed("bit64")
  data <- new_frame(list(k = c(1, 1, 2, 2), v = int64(10, 20, 3, 7)), 4L)
  p <- partition_scatter(cl, data, parts = 2)
  got <- partition_collect(partition_summarise(p,
    .by = k, more = max(v) > 15, sum = as.numeric(sum(v)), range = max(v) - min(v), m = mean(v) / 2
  ))
  got <- got[order(got$k), ]
  expect_identical(got$more, c(TRUE, FALSE))
  expect_identical(got$sum, c(30, 10))
  expect_identical(got$range, int64(10, 4))
  expect_identical(got$m, c(7.5, 2.5))
})

test_cluster("Names that muster uses inside may be the user's", {
  cl <- local_cluster(2)
  data <- data.frame(k = rep(1:3, 4), x = as.double(1:12))
  data[["(1)"]] <- data[["(2)"]] <- 12:1 + 0.5
  p <- partition_scatter(cl, data, parts = 4)
  get <- function(...) {
    got <- partition_collect(partition_summarise(p, .by = k, ...))
    got[order(got$k), ]$r
  }
  expect_identical(get(r = sum(`(2)` - (x * 2)) + sum((x * 2) - `(1)`)), rep(0, 3))
  # Variables of these names are no functions, and come first.
  n <- c(1, 2, 3)
  last <- 5
  expect_identical(get(r = median(x) * length(n) + n() + last), c(25.5, 28.5, 31.5))
  expect_identical(get(r = length(last)), rep(1L, 3))
  expect_identical(get(r = sum(vapply(list(x), n_distinct, 1L))), rep(4L, 3))
  e1 <- quote(max(x))
  expect_identical(get(r = is.call(.env$e1)), rep(TRUE, 3))
  pick <- function(name) get(r = sum(vapply(c("x", "(1)"), function(name) mean(.data[[name]]), 1)))
  expect_identical(pick("x"), rep(13.5, 3))
  expect_error(get(r = median(.data[[paste("no", "column")]])), "There is no column `?no column")
  x <- 1000
  expect_identical(get(r = sum(base::get("x", parent.frame()))), rep(1000, 3))
})

test_cluster("n() is the number of rows where dplyr is attached, too", {
  skip_if_not(has_dplyr, "dplyr isn't installed")
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(k = c(1, 1, 2), x = 1:3), parts = 2)
  n <- dplyr::n
  n_distinct <- dplyr::n_distinct
  got <- partition_collect(partition_summarise(p,
    .by = k, a = n(), b = median(x) / n(), c = length(x) - dplyr::n() + n_distinct(x)
  ))
  got <- got[order(got$k), ]
  expect_identical(got$a, 2:1)
  expect_identical(got$b, c(0.75, 3))
  expect_identical(got$c, 2:1)
})

test_cluster("Columns whose type differs from part to part are taken as they are together", {
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(k = rep(1:3, 4), i = 1:12), parts = 4)
  mixed <- function(other) {
    partition_map(p, function(part, other) {
      if (!1L %in% part$i) part$i <- other(part$i)
      part
    }, other)
  }
  both <- function(p, ...) {
    whole <- partition_collect(p)
    got <- partition_collect(partition_summarise(p, .by = k, ...))
    code <- substitute(list(...))$r
    want <- lapply(split(whole, whole$k), function(d) eval(code, d))
    expect_identical(as.list(got$r[order(got$k)]), unname(want))
  }
  both(mixed(as.character), r = sum(i == 1e5))
  both(mixed(as.character), r = sum(i > 5))
  both(mixed(as.double), r = sum(i * 1000000000L))
  both(mixed(as.double), r = sum(i))
  both(mixed(function(i) NA), r = sum(is.na(i)))
  wide <- partition_map(p, function(part) {
    part$m <- if (1L %in% part$i) NA else matrix(part$i, nrow(part), 2)
    part
  })
  expect_identical(dim(partition_collect(wide)$m), c(12L, 2L))
  got <- partition_collect(partition_summarise(wide, .by = k, r = sum(m, na.rm = TRUE)))
  expect_identical(got$r[order(got$k)], 2L * c(4:6 + 7:9 + 10:12))
})

test_cluster("What a result keeps is its group's, and works in the session", {
  cl <- local_cluster(2)
  rows <- function() data.frame(k = rep(1:10, each = 1000), x = 1:10000 / 8, y = 1, z = 2)
  p <- partition_scatter(cl, rows(), parts = 4)
  # What is around the code goes along with it, too: nothing here.
  fit <- function(p) muster::partition_summarise(p, .by = k, .parts = 1, fit = list(y ~ x))
  environment(fit) <- globalenv()
  fits <- partition_collect(fit(p))
  expect_lt(length(serialize(fits$fit[[1]], NULL)), 40000)
  # No trap is left for a column that no expression named.
  env <- environment(fits$fit[[1]])
  expect_identical(eval(quote(c(length(x), exists("z"))), env), c(1000L, 0L))
})

test_cluster("Groups and rows that aren't there, and calls as people write them", {
  cl <- local_cluster(2)
  p <- partition_scatter(cl, data.frame(k = c("a", "b"), s = c("bx", "y"), x = 1:2), parts = 2)
  none <- partition_map(p, function(part) part[0, ])
  got <- partition_collect(partition_summarise(none, m = median(x), n = n()))
  expect_identical(got, data.frame(m = NA_integer_, n = 0L))
  few <- partition_reduce(p, "k", function(rows) rows, .parts = 8)
  got <- partition_collect(partition_summarise(few, .by = k, r = sum(startsWith(s, "b")), ))
  expect_identical(got$r[order(got$k)], 1:0)
  twice <- function(...) partition_summarise(p, .by = k, ..., ...)
  expect_error(twice(r = n()), "two columns `r`", class = "muster_error_input")
  through <- function(...) partition_summarise(p, ...)
  outer <- function() {
    key <- "k"
    through(.by = key, n = n())
  }
  key <- "s"
  expect_named(partition_collect(outer()), c("k", "n"))
  # A string that isn't one fails its group alone.
  bad <- data.frame(k = 1:3, s = "\xff\xfe")
  bad$s[2:3] <- "fine"
  Encoding(bad$s) <- "UTF-8"
  bad <- partition_scatter(cl, bad, parts = 1)
  got <- partition_collect(partition_summarise(bad,
    .by = k, r = sum(nchar(s)), .on_error = "return"
  ))
  expect_identical(is.na(got$.error[order(got$k)]), c(FALSE, TRUE, TRUE))
})

test_cluster("Each group has environments and columns of its own, whatever code does with them", {
  cl <- local_cluster(2)
  data <- data.frame(k = rep(1:20, 5), x = as.double(1:100), s = as.character(1:100))
  rows <- split(data, data$k)
  p <- partition_scatter(cl, data, parts = 3)
  get <- function(...) {
    got <- partition_collect(partition_summarise(p, .by = k, .parts = 1, ...))
    got[order(got$k), ]
  }
  want <- function(code) unname(lapply(rows, code))
  # What a result keeps, evaluated in the session.
  got <- get(
    form = list(~x), fun = list(function() c(sum(x), nchar(s))), env = list({ x; environment() }),
    late = list((function(value) function() value)(x)), size = n()
  )
  x_in <- function(f) eval(quote(x), environment(f))
  expect_identical(lapply(got$form, x_in), want(function(d) d$x))
  expect_identical(lapply(got$fun, function(f) f()), want(function(d) c(sum(d$x), nchar(d$s))))
  expect_identical(
    lapply(got$env, function(env) base::get("x", env)), want(function(d) d$x)
  )
  expect_identical(lapply(got$late, function(f) f()), want(function(d) d$x))
  # What code stores elsewhere stays what it was.
  store <- function(x) {
    options(kept.by.test = c(getOption("kept.by.test"), list(x)))
    length(getOption("kept.by.test"))
  }
  got <- get(m = median(x), at = store(x), all = list(getOption("kept.by.test")))
  last <- got$all[[which.max(got$at)]]
  expect_identical(last[got$at], want(function(d) d$x))
  # Columns changed in place: in a function, here, and in the group's variables.
  zero <- function(x) {
    x[1] <- 0
    sum(x)
  }
  got <- get(
    a = zero(x), b = sum(x) + median(x), c = { x[1] <- 0; sum(x) + median(x) * 0 },
    d = { x[1] <<- 0; sum(x) + median(x) * 0 }, e = list(x), f = median(x)
  )
  sums <- vapply(rows, function(d) sum(d$x), 0, USE.NAMES = FALSE)
  expect_identical(got$a, sums - 1:20)
  expect_identical(got$c, got$a)
  expect_identical(got$d, got$a)
  expect_identical(got$e, want(function(d) d$x))
  expect_identical(got$f, got$b - sums)
  # Variables that code leaves behind aren't found by the next group.
  got <- get(r = {
    seen <- exists("left", parent.frame(), inherits = FALSE) || exists("mine", inherits = FALSE)
    assign("left", 1, parent.frame())
    mine <- 1
    seen
  })
  expect_identical(got$r, rep(FALSE, 20))
})

test_cluster("Values are bound as c() does, and what a group has is as long as the group", {
  cl <- local_cluster(2)
  day <- as.Date("2026-01-01")
  data <- new_frame(list(
    k = rep(1:6, 2), x = c(1:12) / 2, l = as.list(1:12), m = matrix(1:24, 12), d = day + 1:12,
    z = complex(real = 1:12)
  ), 12L)
  p <- partition_scatter(cl, data, parts = 3)
  get <- function(...) {
    got <- partition_collect(partition_summarise(p, .by = k, .parts = 2, ...))
    got[order(got$k), ]
  }
  got <- get(
    rl = list(l), rm = list(m), rz = z[2], rd = max(d[x > 0]), sizes = length(x) + nrow(m),
    mixed = if (k[1] > 3) 1L else 2.5, nothing = list(NULL), raw = as.raw(k[1]),
    some = if (k[1] > 3) NA else day, part = list(a = x)
  )
  both <- lapply(1:6, function(i) c(i, i + 6L))
  expect_identical(got$rl, lapply(both, as.list))
  expect_identical(got$rm, lapply(both, function(at) data$m[at, ]))
  expect_identical(got$rz, data$z[7:12])
  expect_identical(got$rd, day + 7:12)
  expect_identical(got$sizes, rep(4L, 6))
  expect_identical(got$mixed, c(2.5, 2.5, 2.5, 1, 1, 1))
  expect_identical(got$nothing, rep(list(NULL), 6))
  expect_identical(got$raw, as.raw(1:6))
  expect_identical(got$some, c(day, day, day, NA, NA, NA))
  expect_identical(got$part, lapply(both, function(at) data$x[at]))
  got <- partition_collect(partition_summarise(p,
    .by = k, .on_error = "return", a = sum(x), b = a * median(x), c = list(x),
    e = if (k[1] %in% 2:3) stop("no ", k[1]) else letters[k[1]], f = as.raw(1), g = 2i + x[1]
  ))
  got <- got[order(got$k), ]
  expect_identical(got$a, 1:6 + 3)
  failed <- 1:6 %in% 2:3
  expect_identical(got$b, ifelse(failed, NA, (1:6 + 3) * (1:6 + 3) / 2))
  expect_identical(got$c, lapply(1:6, function(i) if (!failed[i]) c(i, i + 6) / 2))
  expect_identical(got$e, ifelse(failed, NA, letters[1:6]))
  expect_identical(got$f, as.raw(!failed))
  # R's versions differ in the imaginary part of NA.
  expect_identical(is.na(got$g), failed)
  expect_identical(got$g[!failed], (2i + 1:6 / 2)[!failed])
  expect_identical(got$.error, ifelse(failed, paste("no", 1:6), NA))
})

test_that("what folds to little is in few parts, whatever workers keep of it or lose", {
  local_seed(104)
  cl <- local_cluster(2)
  n <- 60000L
  x <- data.frame(
    k = sample(5L, n, TRUE), many = sample(n), s = sample(letters, n, TRUE), v = rnorm(n)
  )
  p <- partition_scatter(cl, x, parts = 10)
  sums <- function(by, ...) {
    partition_summarise(p, .by = by, n = n(), v = sum(v), d = n_distinct(s), ...)
  }
  want <- function(by) {
    rows <- partition_collect(sums(by, .parts = 10))
    rows[order(rows[[1L]], rows[[length(by)]]), ]
  }
  same <- function(handle, by) {
    got <- partition_collect(handle)
    got <- got[order(got[[1L]], got[[length(by)]]), ]
    expect_identical(got, want(by), ignore_attr = "row.names")
  }
  count <- function(handle) open_handle(handle)$stage$count
  few <- sums("k")
  expect_identical(count(few), 1L)
  # In the order of their first appearance.
  expect_identical(partition_collect(few)$k, unique(x$k))
  same(few, "k")
  two <- sums(c("s", "k"))
  expect_identical(count(two), 1L)
  same(two, c("s", "k"))
  many <- sums("many")
  expect_identical(count(many), 2L)
  same(many, "many")
  # Some parts fold to little, and others don't.
  mixed <- partition_map(p, function(d) {
    if (d$s[1] > "m") d$k <- d$many
    d
  })
  kinds <- partition_summarise(mixed, .by = k, n = n(), v = sum(v))
  rows <- partition_collect(mixed)
  got <- partition_collect(kinds)
  expect_identical(got$n, as.integer(table(rows$k)[as.character(got$k)]))
  expect_equal(got$v, as.numeric(tapply(rows$v, rows$k, sum)[as.character(got$k)]))
  for (pid in node_pids(cl)) tools::pskill(pid, tools::SIGKILL)
  same(few, "k")
  same(two, c("s", "k"))
  same(sums("k"), "k")
})

test_that("a worker keeps folded rows for the next step of the same part only", {
  state <- function(x, from) list2env(list(data = x, from = from, result = NULL))
  plan <- text_plan(c(n = "n()"), c("k", "v"))
  step <- function(asks, tag = 1) list(by = "k", plan = plan, asks = asks, tag = tag)
  fold <- function(x, from, ...) {
    at <- state(x, from)
    part_fold(at, step(...), from)
    if (is.null(at$result)) at$data[[2L]] else at$result$rows
  }
  on.exit(the_worker$folded <- NULL)
  x <- data.frame(k = rep(1:2, 5), v = 1)
  other <- data.frame(k = 1L, v = 1)
  expect_identical(fold(x, c(1L, 1L, 1L), TRUE), 2L)
  expect_identical(fold(x[1:4, ], c(1L, 2L, 1L), TRUE), 2L)
  # The part itself isn't looked at again, but for another attempt, part or summary.
  expect_identical(fold(other, c(1L, 1L, 2L), FALSE), 1L)
  expect_identical(fold(other, NULL, FALSE), 1L)
  expect_identical(fold(other, c(1L, 1L, 1L), FALSE), c(5L, 5L))
  expect_identical(fold(other, c(1L, 1L, 1L), FALSE), 1L)
  expect_identical(fold(other, c(1L, 2L, 1L), FALSE, tag = 2), 1L)
})
