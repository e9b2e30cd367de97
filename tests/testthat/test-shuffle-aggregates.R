# Aggregates as text: what is read, and what is refused.

read_flag <- function(text, env = parent.frame()) {
  parse_aggregates(c(r = text), env, NULL)[[1L]]$na_rm
}

test_that("na.rm is what the caller's frame says", {
  yes <- TRUE
  no <- c(a = FALSE)
  for (text in c("TRUE", "T", "1 == 1", "yes", "!no", "isTRUE(yes)", "(function() yes)()")) {
    expect_identical(read_flag(paste0("sum(x, na.rm = ", text, ")")), TRUE, info = text)
  }
  for (text in c("FALSE", "F", "no", "!yes")) {
    expect_identical(read_flag(paste0("mean(x, na.rm = ", text, ")")), FALSE, info = text)
  }
  expect_identical(read_flag("sum(na.rm = yes, x)"), TRUE)
  expect_identical(read_flag("mean(na.rm = yes, x = x)"), TRUE)
  local({
    yes <- FALSE
    expect_identical(read_flag("sum(x, na.rm = yes)"), FALSE)
  })
})

test_that("What isn't TRUE or FALSE is refused, and so is what can't be evaluated", {
  refuse <- function(text, details) {
    error <- expect_error(read_flag(text), class = "muster_error_input")
    expect_match(conditionMessage(error), "`na.rm` must be TRUE or FALSE", info = text)
    expect_match(conditionMessage(error), details, info = text)
  }
  refuse("sum(x, na.rm = NA)", "It is NA")
  refuse("sum(x, na.rm = c(TRUE, FALSE))", "length 2")
  refuse("sum(x, na.rm = 1)", "It is 1")
  refuse("sum(x, na.rm = \"TRUE\")", "It is \"TRUE\"")
  refuse("sum(x, na.rm = NULL)", "It is NULL")
  refuse("sum(x, na.rm = not_there)", "not_there")
  refuse("sum(x, na.rm = stop(\"my own\"))", "my own")
  refuse("sum(x, na.rm = )", "It has no value")
})

test_that("Further arguments are refused by name, and whatever isn't one column", {
  wrong <- function(text, match) {
    error <- expect_error(parse_aggregates(c(r = text), globalenv(), NULL),
      class = "muster_error_input"
    )
    expect_match(conditionMessage(error), match, info = text, fixed = TRUE)
  }
  wrong("mean(x, trim = 0.1)", "`mean` can't have an argument `trim`")
  wrong("sum(x, na.r = TRUE)", "`sum` can't have an argument `na.r`")
  wrong("sum(x, na = TRUE)", "`sum` can't have an argument `na`")
  wrong("sum(x, na.rm.x = TRUE)", "`sum` can't have an argument `na.rm.x`")
  wrong("min(a = x)", "`min` can't have an argument `a`")
  wrong("n(na.rm = TRUE)", "`n` can't have an argument `na.rm`")
  unread <- c(
    "n(x)", "sum()", "sum(x, y)", "sum(x, )", "sum(, na.rm = TRUE)", "sum(x + 1)", "sum(\"x\")",
    "sum(x, na.rm = TRUE, na.rm = TRUE)", "prod(x)", "base::sum(x)", "sum", "sum(x", "", NA,
    "mean(x, 0.1)"
  )
  for (text in unread) wrong(text, "Can't read the aggregate")
  odd <- parse_aggregates(c(r = "sum(`a b`)", q = "max(x = T)"), globalenv(), NULL)
  expect_identical(vapply(odd, `[[`, "", "column"), c("a b", "T"))
})
