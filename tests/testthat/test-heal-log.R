# What is kept to restore workers has a bound in bytes.

# As if so many bytes were free, in the session or a worker.
pretend_free <- function(bytes) .Call(ffi_share_pretend, FALSE, bytes)

test_cluster("S2: past a quarter of the memory a worker is not restored, and its loss says so", {
  local_settings(muster.quiet = TRUE)
  cl <- local_cluster(2)
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
  expect_match(conditionMessage(lost), "its state can't be restored: there was no memory to keep")
  expect_identical(clusterCall(cl[2], function() kept), list(5))
})

test_cluster("S3: a worker's state isn't saved as a whole where there is little memory for that", {
  cl <- local_cluster(2)
  clusterEvalQ(cl, {
    much <- rep(0.5, 2e6) # 16 MB
    NULL
  })
  clusterCall(cl[1], eval(bquote(function() {
    .Call(getNamespace("muster")$ffi_share_pretend, FALSE, 1e8)
  })))
  for (k in 1:80) clusterCall(cl, function(k) count <<- k, k)
  kinds <- split(cluster_journal(cl)$kind, cluster_journal(cl)$worker)
  expect_false("snapshot" %in% kinds[[1L]])
  expect_true("snapshot" %in% kinds[[2L]])
  tools::pskill(node_pids(cl)[1], 9L)
  now <- suppressMessages(clusterCall(cl, function() c(count, length(much))))
  expect_identical(now, rep(list(c(80L, 2000000L)), 2L))
})
