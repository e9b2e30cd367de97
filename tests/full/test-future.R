# Package future with a cluster of muster's as its workers.

test_that("U6: future ignores cancel() unless it may interrupt, as the help says", {
  limit_time(60)
  skip_if_not_installed("future", "1.49.0") # the first that has cancel()
  run <- run_session(quote({
    cl <- cluster_start(1)
    try_it <- function(...) {
      future::plan(future::cluster, workers = cl, ...)
      began <- tempfile()
      f <- future::future({
        file.create(began)
        Sys.sleep(1) # tidy: the worker's work
        "to the end"
      })
      while (!file.exists(began)) Sys.sleep(0.01) # tidy: so that it is at work
      f <- future::cancel(f)
      tryCatch(future::value(f), error = function(e) class(e)[1])
    }
    tell(ignored = try_it())
    tell(ended = try_it(interrupts = TRUE), other = future::value(future::future("another")))
    tell(state = cluster_status(cl)$state)
    future::plan("sequential")
  }))
  expect_done(run)
  expect_identical(run$told$ignored, "to the end")
  expect_identical(run$told$ended, "FutureCanceledError")
  expect_identical(run$told$other, "another")
  expect_identical(run$told$state, "stopped")
})
