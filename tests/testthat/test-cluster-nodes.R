test_cluster("alive means answering", {
  cl <- local_cluster(2, heartbeat = Inf)
  expect_identical(isNodeAlive(cl), c(TRUE, TRUE))
  parallel:::sendCall(cl[[1L]], function() Sys.sleep(0.3), list())
  expect_true(isNodeAlive(cl[[1L]]))
  parallel:::recvResult(cl[[1L]])
  tools::pskill(cl[[1L]]$pid, tools::SIGSTOP)
  # It takes the kernel a moment to stop all threads.
  wait_until(!isNodeAlive(cl[[1L]], timeout = 0.1))
  expect_identical(isNodeAlive(cl, timeout = 5), c(FALSE, TRUE))
  tools::pskill(cl[[1L]]$pid, tools::SIGCONT)
  expect_true(isNodeAlive(cl[[1L]], timeout = 10))
  cluster_stop(cl)
  expect_identical(isNodeAlive(cl), c(FALSE, FALSE))
})

test_cluster("a node that was killed stays so, and can be cloned", {
  cl <- local_cluster(2)
  pid <- cl[[1L]]$pid
  expect_true(killNode(cl[[1L]]))
  expect_false(pid_exists(pid))
  expect_false(killNode(cl[[1L]]))
  expect_false(isNodeAlive(cl[[1L]]))
  expect_error(clusterCall(cl[1L], identity, 1), class = "muster_error_lost")
  expect_identical(clusterCall(cl[2L], identity, 2), list(2))
  cl[[1L]] <- cloneNode(cl[[1L]])
  expect_s3_class(cl[[1L]], "muster_node")
  expect_identical(clusterCall(cl, identity, 3), list(3, 3))
  cluster_stop(cl)
})

test_cluster("a cluster gets more workers and fewer", {
  cl <- local_cluster(1)
  cl <- cluster_resize(cl, 2)
  expect_length(cl, 2L)
  expect_identical(clusterCall(cl, identity, 1), list(1, 1))
  pid <- cl[[2L]]$pid
  cl <- cluster_resize(cl, 1)
  expect_length(cl, 1L)
  expect_false(pid_exists(pid))
  expect_identical(clusterCall(cl, identity, 1), list(1))
  expect_identical(cluster_resize(cl, 1), cl)
  first <- cl
  cl <- cluster_resize(cl, 2)
  cluster_stop(cl)
  expect_identical(cluster_status(first)$state, "stopped")
  expect_error(cluster_resize(cl, 0), class = "muster_error_input")
  expect_error(cluster_resize(list(), 1), class = "muster_error_input")
})
