# Listeners of workers, where their addresses are in the way.

test_that("F3 Workers whose temporary directory has a long path listen anyway", {
  long <- paste(rep("a-long-name", 9), collapse = "/")
  run <- run_session(tmpdir = long, quote({
    options(muster.quiet = TRUE, muster.shuffle_links = "listen")
    cl <- cluster_start(2)
    p <- partition_scatter(cl, data.frame(g = rep(1:5, 4), row = 1:20), parts = 4)
    tell(
      rows = sort(partition_collect(partition_shuffle(p, "g"))$row),
      path = nchar(muster:::open_handle(p)$shuffle$links[["1"]]$folder)
    )
    cluster_stop(cl)
  }))
  expect_done(run)
  expect_identical(run$told$rows, 1:20)
  expect_gt(run$told$path, 108)
})
