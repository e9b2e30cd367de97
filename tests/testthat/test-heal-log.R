# What is kept to restore workers has a bound in bytes.

# As if so many bytes were free, in the session or a worker.
pretend_free <- function(bytes) .Call(ffi_share_pretend, FALSE, bytes)

test_cluster("S2: past a quarter of the memory a worker without checkpoints is not restored", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2, start = "spawn")
  clusterCall(cl[2], function() kept <<- 5)
  pretend_free(4e8)
  defer(function() pretend_free(-1))
  for (k in 1:8) {
    x <- rep(k + 0.5, 3e6) # 24 MB
    clusterExport(cl[1], "x", environment())
    expect_identical(clusterCall(cl[1], function() y <<- sum(x)), list(sum(x)))
    expect_lt(sum(cluster_journal(cl)$bytes), 2e8)
  }
  expect_identical(cluster_journal(cl)$worker, 2L)
  # It is as good as before, as long as it lives.
  expect_identical(clusterCall(cl[1], function() y), list(3e6 * 8.5))
  tools::pskill(node_pids(cl)[1], 9L)
  tools::pskill(node_pids(cl)[2], 9L)
  lost <- tryCatch(clusterCall(cl[1], function() y), error = identity)
  expect_s3_class(lost, "muster_error_lost")
  expect_match(conditionMessage(lost), "its state can't be restored: there wasn't enough memory")
  expect_identical(clusterCall(cl[2], function() kept), list(5))
})

test_cluster("S2: a journal of large calls is made short by checkpoints, and all is there again", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(1)
  pretend_free(4e8)
  defer(function() pretend_free(-1))
  for (k in 1:12) {
    x <- rep(k + 0.5, 3e6) # 24 MB
    clusterExport(cl, "x", environment())
    expect_identical(clusterCall(cl, function() y <<- sum(x)), list(sum(x)))
    expect_lt(sum(cluster_journal(cl)$bytes), 2e8)
  }
  expect_true("checkpoint" %in% cluster_journal(cl)$kind)
  tools::pskill(node_pids(cl), 9L)
  expect_identical(clusterCall(cl, function() c(y, x[1])), list(c(3e6 * 12.5, 12.5)))
})
