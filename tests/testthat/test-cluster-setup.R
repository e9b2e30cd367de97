# What a start says about arguments that don't do what they seem to.

test_cluster("a `setup` that only assigns variables of its own is a warning", {
  warning <- expect_warning(
    cl <- local_cluster(1, setup = function() y <- 5),
    class = "muster_warning_setup"
  )
  expect_identical(warning$variables, "y")
  expect_identical(as.character(conditionCall(warning)[[1L]]), "cluster_start")
  expect_identical(clusterCall(cl, exists, "y", globalenv()), list(FALSE))
  expect_no_warning(cl <- local_cluster(1, setup = quote(y <- 5)))
  expect_identical(clusterEvalQ(cl, y), list(5))
})

test_that("only what can have no effect is told", {
  without <- list(
    function() y <- 5, function() 5 -> y, function() y = c(1, 2),
    function() {
      data <- readRDS("data.rds")
      helper <- function(x) cat(x)
      first <- data[1, ]
    }
  )
  for (setup in without) expect_gt(length(only_locals(body(setup))), 0L)
  with <- list(
    function() y <<- 5, function() library(splines), function() NULL, function() {},
    function() x <- library(splines), function() con <- connect(), function() options(x = 1),
    function() x$y <- 1, function() x <- { y <<- 1 }, function() x <- a$connect(), base::gc,
    function() {
      y <- 5
      assign("z", y, envir = globalenv())
    }
  )
  for (setup in with) expect_length(only_locals(body(setup)), 0L)
  expect_identical(only_locals(quote({ a <- 1; b <- a; a <- 2 })), c("a", "b"))
})
