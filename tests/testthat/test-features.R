# What muster was compiled to use, and what is done where some of it isn't there. See
# src/base/mst_features.h; the suite `portable` runs this on a build that does without.

features <- .Call(ffi_built_with)

test_that("a build tells what it was made to use", {
  expect_identical(anyDuplicated(names(features)), 0L)
  hidden <- !built_with("proc") && Sys.info()[["sysname"]] == "Linux"
  expect_identical(proc_place(), if (hidden) "/dev/null" else "/proc")
  expect_identical(sys_place(), if (hidden) "/dev/null" else "/sys")
  expect_identical(.Call(ffi_can_fork), built_with("fork"))
  # What was compiled in and can't be tried here either isn't there.
  tried <- .Call(ffi_features)
  expect_false(any(tried[c("pidfd", "memfd")] & !features[c("pidfd", "memfd")]))
})

test_cluster("workers are booted where a forked R may not go on, and a fork asked for says so", {
  expect_silent(cl <- local_cluster(1))
  expect_identical(cl[[1L]]$start, if (built_with("fork")) "fork" else "spawn")
  expect_silent(psock <- makeClusterPSOCK(1, rscript_startup = "NULL"))
  defer(function() stopCluster(psock))
  expect_identical(psock[[1L]]$start, if (built_with("fork")) "fork" else "spawn")
  if (built_with("fork")) {
    return()
  }
  error <- expect_error(cluster_start(1, start = "fork"), class = "muster_error_launch")
  expect_match(conditionMessage(error), "Forking R isn't safe on this system")
  expect_match(conditionMessage(error), "Use start = \"spawn\"")
})

test_that("doctor() says what a build does without", {
  row <- doctor(items = "kernel")
  expect_identical(startsWith(row$value, "built without"), !all(features))
})
