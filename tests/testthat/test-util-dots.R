# Where the code in `...` was written.

seen <- function(.p, ..., .by = NULL) {
  envs <- argument_envs(sys.function(), sys.call(), parent.frame())
  code <- dots_code(substitute(list(...)), envs)
  values <- lapply(code, function(one) eval(one$code, one$env))
  names(values) <- vapply(code, `[[`, "", "name")
  c(values, list(.by = eval(substitute(.by), envs(name = ".by"))))
}

test_that("Code is evaluated where it was written, however it was passed on", {
  where <- "here"
  expect_identical(unname(seen(1, where, a = where, .by = where)), as.list(rep("here", 3)))
  one <- function(...) {
    where <- "one"
    seen(1, a = where, ..., b = where, .by = where)
  }
  expect_identical(one(c = where), list(a = "one", c = "here", b = "one", .by = "one"))
  expect_identical(one(), list(a = "one", b = "one", .by = "one"))
  two <- function(first, ...) {
    where <- "two"
    one(d = where, ...)
  }
  got <- two(0, c = where, e = where)
  expect_identical(got, list(a = "one", d = "two", c = "here", e = "here", b = "one", .by = "one"))
  # All arguments may come from there, in any order.
  all <- function(...) {
    where <- "all"
    seen(...)
  }
  expect_identical(all(.by = where, 1, a = where), list(a = "here", .by = "here"))
  expect_identical(all(a = where, .p = 1), list(a = "here", .by = NULL))
  within <- function(...) {
    where <- "within"
    lapply(1:2, function(i) seen(1, a = where, ...))
  }
  expect_identical(within(b = where)[[2L]], list(a = "within", b = "here", .by = NULL))
  expect_identical(do.call(all, list(1, a = quote(where))), list(a = "here", .by = NULL))
  expect_identical(do.call(seen, list(1, a = quote(where), b = 2)),
    list(a = "here", b = 2, .by = NULL))
  expect_identical(Map(function(x, ...) seen(x, ...), 1, a = 5)[[1L]], list(a = 5, .by = NULL))
  for (value in c("u", "v")) {
    expect_identical(one(c = value)$c, value)
  }
})

test_that("Code that nobody can tell the place of is refused", {
  kept <- (function(...) function() seen(1, ...))(a = 1)
  expect_error(kept(), "Can't tell where", class = "muster_error_input")
})

test_that("Nothing is evaluated on the way", {
  ran <- FALSE
  quiet <- function(...) argument_envs(sys.function(), sys.call(), parent.frame())
  outer <- function(...) quiet(...)
  outer(ran <- TRUE, stop("no"))
  expect_false(ran)
})
