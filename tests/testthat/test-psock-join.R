# Clusters of several kinds of nodes.

test_cluster("muster's own, R's own and parallel's nodes make one cluster", {
  own <- makeClusterPSOCK(1)
  stock <- makeClusterPSOCK(1, rscript_call = "parallel:::.workRSOCK()")
  defer(function() stopCluster(c(own, stock)))
  others <- local_psock(1)
  cl <- c(own, stock, others)
  expect_s3_class(cl, c("muster_joined", "SOCKcluster", "cluster"), exact = TRUE)
  pids <- unlist(clusterCall(cl, Sys.getpid))
  expect_identical(pids[1:2], c(own[[1]]$pid, stock[[1]]$pid))
  expect_identical(anyDuplicated(pids), 0L)
  expect_identical(unlist(clusterApplyLB(cl, 1:20, function(i) i * 2)), 1:20 * 2)
  expect_identical(parSapply(cl, 1:7, function(i) i), 1:7)
  who <- unlist(parLapplyLB(cl, 1:9, function(i) Sys.getpid(), chunk.size = 1))
  expect_true(all(who %in% pids))
  expect_identical(isNodeAlive(cl), c(TRUE, TRUE, NA))
  # In any order, and parts of it.
  expect_identical(clusterCall(c(others, own), function() 1), list(1, 1))
  expect_identical(unlist(clusterCall(cl[2:3], Sys.getpid)), pids[2:3])
  expect_identical(unlist(clusterApplyLB(cl[c(3, 1)], 1:4, identity)), 1:4)
  expect_warning(c(own, own), class = "muster_warning_input")
})

test_cluster("as.cluster() makes clusters of nodes", {
  cl <- local_cluster(2)
  expect_identical(as.cluster(cl), cl)
  one <- as.cluster(cl[[2]])
  expect_identical(clusterCall(one, Sys.getpid), clusterCall(cl, Sys.getpid)[2])
  both <- as.cluster(list(cl[[2]], cl[1]))
  expect_identical(clusterCall(both, Sys.getpid), rev(clusterCall(cl, Sys.getpid)))
  expect_error(as.cluster(1), class = "muster_error_input")
  expect_error(c(cl, 1), class = "muster_error_input")
})

test_that("c() of others' clusters is what it was", {
  node <- structure(list(con = 1), class = "SOCKnode")
  one <- structure(list(node), class = c("SOCKcluster", "cluster"))
  # Package parallelly has a method, if it is loaded.
  theirs <- getS3method("c", "cluster", optional = TRUE)
  were <- if (is.null(theirs)) c(unclass(one), unclass(one)) else theirs(one, one)
  expect_identical(c(one, one), were)
})
