# What workers have by clusterExport() or cluster_share() isn't sent again with functions.

local_global <- function(name, value, frame = parent.frame()) {
  assign(name, value, globalenv())
  defer(function() rm(list = name, envir = globalenv()), frame)
}

uses_large <- eval(quote(function(i) large_of_test[i] + length(large_of_test)), globalenv())
uses_frame <- eval(quote(function(i) frame_of_test$a[i]), globalenv())

test_cluster("U1: what workers have isn't counted, nor sent, nor advised to be exported", {
  local_settings(muster.globals_max = 1e6, muster.share_min = 4096)
  local_seed(1)
  large <- rnorm(2e5)
  local_global("large_of_test", large)
  local_global("frame_of_test", data.frame(
    a = 1:2e5 + 0L, b = factor(rep(c("x", NA), 1e5)), c = rep(c("p", NA, "q\u00e4", ""), 5e4),
    d = as.Date("2020-01-01") + 1:2e5
  ))
  cl <- local_cluster(2)
  failure <- expect_error(cluster_map(cl, 1:4, uses_large), class = "muster_error_limit")
  expect_match(conditionMessage(failure), "once with clusterExport\\(\\) or cluster_share\\(\\)")
  want <- as.list(large[1:4] + 2e5)
  clusterExport(cl, "large_of_test")
  expect_identical(cluster_map(cl, 1:4, uses_large), want)
  cluster_share(cl, frame_of_test = frame_of_test)
  expect_identical(cluster_map(cl, 1:4, uses_frame), as.list(1:4))
  named <- eval(quote(function(i) get("large_of_test")[i]), globalenv())
  expect_identical(cluster_map(cl, 1:2, named), as.list(large[1:2]))
  expect_identical(task_value(task_submit(cl, uses_large, 3)), want[[3L]])
  expect_identical(task_value(task_submit(cl[2L], uses_large, 3)), want[[3L]])
  p <- partition_scatter(cl, data.frame(i = 1:4), parts = 2)
  add <- eval(quote(function(part) cbind(part, v = large_of_test[part$i])), globalenv())
  expect_identical(partition_collect(partition_map(p, add))$v, large[1:4])
  # A function's changes are gone after its piece, as with what is sent.
  changes <- eval(quote(function(i) large_of_test[1L] <<- 0), globalenv())
  cluster_map(cl, 1:2, changes)
  expect_identical(cluster_map(cl, 1:4, uses_large), want)
  skip_if_limited()
  # Workers that were lost or join have it too.
  tools::pskill(cl[[1L]]$pid, tools::SIGKILL)
  more <- suppressMessages(cluster_resize(cl, 3))
  local_settings(muster.quiet = TRUE)
  expect_identical(cluster_map(more[3L], 1:4, uses_large), want)
  expect_identical(cluster_map(more, 1:4, uses_large), want)
  cluster_stop(more)
})

test_cluster("U1: values that differ from what was exported are sent, or are an error", {
  local_settings(muster.globals_max = 1e7)
  local_global("large_of_test", as.numeric(1:2e5))
  cl <- local_cluster(2)
  clusterExport(cl[1L], "large_of_test") # the other hasn't got it
  expect_identical(unlist(cluster_map(cl, 1:2, uses_large)), 1:2 + 2e5)
  clusterExport(cl, "large_of_test")
  large_of_test <- get("large_of_test", globalenv())
  large_of_test[1L] <- 100
  assign("large_of_test", large_of_test, globalenv())
  expect_identical(unlist(cluster_map(cl, 1:2, uses_large)), c(100, 2) + 2e5)
  clusterExport(cl, "large_of_test")
  expect_identical(unlist(cluster_map(cl, 1:2, uses_large)), c(100, 2) + 2e5)
  clusterEvalQ(cl, large_of_test[2L] <- 0)
  failure <- expect_error(cluster_map(cl, 1:2, uses_large), class = "muster_error_input")
  expect_match(conditionMessage(failure), "`large_of_test` no longer has the value")
  expect_error(task_value(task_submit(cl, uses_large, 1)), class = "muster_error_input")
  clusterEvalQ(cl, rm(large_of_test))
  expect_error(cluster_map(cl, 1:2, uses_large), class = "muster_error_input")
  clusterExport(cl, "large_of_test", list2env(list(large_of_test = 1))) # small: sent again
  expect_identical(unlist(cluster_map(cl, 1:2, uses_large)), c(100, 2) + 2e5)
})

test_that("U1: hashes tell plain values apart, and there is none for what may change unseen", {
  content <- function(x) .Call(ffi_content, x)
  local_seed(1)
  x <- runif(1e5)
  values <- list(
    NULL, x, c(x[-1], x[1]), 1:10, as.numeric(1:10), NA, NA_character_, "NA", "", character(),
    c(a = 1), c(b = 1), list(1, 2), list(list(1, 2)), list(1), 1i, raw(3),
    factor("a"), Sys.Date(), -0, 0,
    data.frame(x = 1), structure(list(x = 1), class = "mine")
  )
  hashes <- vapply(values, content, "")
  expect_false(anyNA(hashes))
  expect_identical(anyDuplicated(hashes), 0L)
  expect_identical(content(1:100000), content(c(1:100000)))
  expect_identical(content(unserialize(serialize(values, NULL))), content(values))
  expect_true(is.na(content(list(1, globalenv()))))
  expect_true(is.na(content(quote(a + b))))
  expect_true(is.na(content(mean)))
  expect_true(is.na(content(structure(1, more = emptyenv()))))
})
