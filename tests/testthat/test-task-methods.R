# Methods that the session has registered without binding them to a name.

local_method <- function(generic, class, fun, frame = parent.frame()) {
  registerS3method(generic, class, remote(fun), envir = globalenv())
  name <- paste0(generic, ".", class)
  defer(function() rm(list = name, envir = .BaseNamespaceEnv[[".__S3MethodsTable__."]]), frame)
}

by_each <- function(cl, fun, x) {
  fun <- remote(fun)
  list(
    task_value(task_submit(cl, fun, x)), cluster_map(cl, list(x), fun)[[1L]],
    cluster_map(cl, 1, remote(function(i, fun, x) fun(x)), fun, x)[[1L]]
  )
}

test_cluster("V2: methods of registerS3method() travel with objects of their class", {
  local_globals()
  assign("unit_of_test", "EUR", globalenv())
  x <- structure(list(3), class = "muster_test_money")
  cl <- local_cluster(2)
  see <- function(x) c(format(x), length(x), utils::capture.output(print(x)))
  local_method("format", "muster_test_money", function(x, ...) paste(unclass(x)[[1]], unit_of_test))
  local_method("length", "muster_test_money", function(x) 42L)
  want <- c("3 EUR", "42")
  first_two <- function(x) c(format(x), length(x))
  expect_identical(by_each(cl, first_two, x), list(want, want, want))
  local_method("print", "muster_test_money", function(x, ...) cat("money\n"))
  want <- c("3 EUR", "42", "money")
  expect_identical(by_each(cl, see, x), list(want, want, want))
  # One that takes another's place; one of a worker that comes back.
  local_method("length", "muster_test_other", function(x) 1L)
  registerS3method("length", "muster_test_money", remote(function(x) 43L), envir = globalenv())
  tools::pskill(cl[[1L]]$pid, 9L)
  want[2L] <- "43"
  expect_identical(suppressMessages(by_each(cl, see, x)), list(want, want, want))
})

test_cluster("V2: methods of S7 classes travel, operators too", {
  skip_without("S7")
  got <- in_new_r(function() {
    name <- "S7" # no dependency, not even of tests
    suppressMessages(library(name, character.only = TRUE, warn.conflicts = FALSE))
    code <- quote({
      Money <- new_class("Money", properties = list(amount = class_double))
      Coin <- new_class("Coin", parent = Money)
      method(length, Money) <- function(x) 42L
      method(format, Money) <- function(x, ...) paste(x@amount, "EUR")
      method(`+`, list(Money, Money)) <- function(e1, e2) Money(amount = e1@amount + e2@amount)
      cl <- cluster_start(1)
      see <- function(x) list(length(x), format(x), (x + x)@amount, length(Money(amount = 1)))
      lapply(list(Money(amount = 3), Coin(amount = 3)), function(x) {
        list(task_value(task_submit(cl, see, x)), cluster_map(cl, list(x), see)[[1]])
      })
    })
    # At the top level, as users have it: within a function R 4.2 compiles its own `@`.
    eval(code, globalenv())
  })
  want <- list(42L, "3 EUR", 6, 42L)
  expect_identical(got, list(list(want, want), list(want, want)))
})

test_cluster("Packages' own methods don't travel", {
  x <- structure(list(3), class = "muster_test_money")
  expect_length(muster:::own_methods(), 0L)
  local_method("length", "muster_test_money", function(x) 42L)
  expect_identical(vapply(muster:::own_methods(), `[[`, "", "name"), "length.muster_test_money")
})
